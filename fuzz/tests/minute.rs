//! The first cases of each target, and all that ever went wrong.

use std::path::Path;

use motes_fuzz::{Fuzzer, TARGETS, corpus, find};

fn run(name: &str) {
    let target = find(name).expect("a target");
    let fuzzer = Fuzzer::new(target);
    fuzzer.good().unwrap_or_else(|defect| panic!("{defect}"));
    for (path, input) in corpus(name) {
        fuzzer.read(&input).unwrap_or_else(|defect| panic!("{}: {defect}", path.to_string_lossy()));
    }
    let found = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let tally = fuzzer.run(0..target.cases, None, &found).unwrap_or_else(|defect| panic!("{defect}"));
    println!("{name}: {} of {} were read", tally.read, tally.cases);
    assert_eq!(tally.cases, target.cases);
    // Neither so much damage that nothing gets past the first check, nor so little that nothing is refused.
    let always = name == "sentence";
    assert!(tally.read > target.cases / 200, "{tally:?}");
    assert!(always || tally.read < target.cases - target.cases / 200, "{tally:?}");
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*

        #[test]
        fn every_target_has_a_test() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

tests!(csv idx images config flags sentence checkpoint npz summary predict report trace posterior);

#[test]
fn cases_are_the_same_again() {
    for target in TARGETS {
        let (a, b) = (Fuzzer::new(target), Fuzzer::new(target));
        assert!((0..20).all(|case| a.input(case) == b.input(case)), "{}", target.name);
        assert!((0..20).any(|case| a.input(case) != a.input(case + 1)), "{}", target.name);
    }
}
