//! The same bits for any number of threads, on replay and on resume, for every algorithm.

use crate::common;

use common::{Place, same_bits};

/// Every algorithm and every option that changes how it moves; auto, which has no steps to give, is in auto.rs.
const CASES: &[&str] = &[
    "--algorithm pgd",
    "--algorithm pgd --preconditioner diagonal",
    "--algorithm pgd --preconditioner adagrad",
    "--algorithm pgd --preconditioner rmsprop",
    "--algorithm pgd --preconditioner adam",
    "--algorithm pqn",
    "--algorithm pmgd",
    "--algorithm soul",
    "--algorithm soul --preconditioner adam",
    "--algorithm em",
    "--algorithm mean-field",
    "--algorithm marginal-mh --step-size 0.0001",
    "--algorithm joint-mh --joint-update pgd --step-size 0.00001",
    "--algorithm joint-mh --joint-update pqn --step-size 0.0001",
    "--algorithm pgd --adjust",
    "--algorithm pqn --adjust",
    "--algorithm pmgd --adjust --step-size 0.01",
    "--algorithm pgd --grow 4:55,9:80",
    "--algorithm pmgd --grow 7:41 --precision f32",
    "--algorithm pqn --step-decay 0.6,10",
    "--algorithm pgd --warm-start 1x7",
    "--algorithm pqn --warm-start pmgd:1x7 --init-particles prior",
    "--algorithm pgd --precision f32 --init-theta 0.3",
];

/// A problem of several blocks.
fn sized(case: &str) -> String {
    let particles = if case.contains(" em") { "" } else { "--particles 40 --keep-clouds 5" };
    // The pass that assesses is the same after all algorithms: two of them are enough.
    let assess = if ["--algorithm pgd", "--algorithm em"].contains(&case) { "" } else { "--no-assess" };
    format!("fit hierarchical --dim 5000 --true-theta 1.7 --seed 6 {particles} {assess} {case}")
}

fn threads(cases: impl Iterator<Item = &'static &'static str>) {
    for case in cases {
        let place = Place::in_memory();
        for threads in [1, 2, 3, 5, 8] {
            let flags = sized(case);
            place.bare(&format!("{flags} --steps 12 --burn-in 4 --threads {threads} --out t{threads}"));
            if threads > 1 {
                let other = place.path(&format!("t{threads}"));
                same_bits(&place.path("t1"), &other);
                std::fs::remove_dir_all(other).unwrap();
            }
        }
        place.bare("fit --config t1/config.toml --out again");
        same_bits(&place.path("t1"), &place.path("again"));
        assert_eq!(place.text("t1/config.toml"), place.text("again/config.toml"), "{case}");

        place.bare(&format!("{} --steps 6 --burn-in 4 --threads 2 --out half", sized(case)));
        place.bare("resume half --steps 12 --threads 3");
        same_bits(&place.path("t1"), &place.path("half"));
        assert_eq!(place.text("t1/config.toml"), place.text("half/config.toml"), "{case}");
        // Resuming what is finished changes nothing.
        place.bare("resume half");
        same_bits(&place.path("t1"), &place.path("half"));
    }
}

// Two halves, so that two cores share them.
#[test]
fn threads_replay_and_resume_give_the_same_bits_first_half() {
    threads(CASES.iter().step_by(2));
}

#[test]
fn threads_replay_and_resume_give_the_same_bits_second_half() {
    threads(CASES.iter().skip(1).step_by(2));
}

#[test]
fn many_small_resumes_give_the_same_bits() {
    for (i, case) in CASES.iter().enumerate() {
        let place = Place::in_memory();
        let flags = case.replace("4:55,9:80", "30:15,90:33").replace("7:41", "31:32");
        let particles = if case.contains(" em") { "" } else { "--particles 11" };
        let fit = format!("fit hierarchical --dim 13 {particles} --burn-in 9 --no-assess {flags}");
        place.bare(&format!("{fit} --steps 700 --out whole{i}"));
        place.bare(&format!("{fit} --steps 10 --out parts{i}"));
        for steps in [11, 29, 30, 31, 89, 90, 250, 700] {
            place.bare(&format!("resume parts{i} --steps {steps}"));
        }
        same_bits(&place.path(&format!("whole{i}")), &place.path(&format!("parts{i}")));
    }
}

#[test]
fn another_seed_gives_another_run() {
    let place = Place::new();
    for seed in [1, 2] {
        place.bare(&format!("fit hierarchical --algorithm pgd --steps 20 --seed {seed} --out s{seed}"));
    }
    assert_ne!(place.text("s1/trace.csv"), place.text("s2/trace.csv"));
    place.bare("fit --config s1/config.toml --seed 2 --out s3");
    same_bits(&place.path("s2"), &place.path("s3"));
}

#[test]
fn flags_override_the_config_also_where_they_choose_other_data() {
    let place = Place::new();
    place.write("y.csv", "y\n1\n2\n4\n");
    place.bare("fit hierarchical --algorithm pgd --steps 20 --dim 5 --out generated");
    place.bare("fit hierarchical --algorithm pgd --steps 20 --data y.csv --out read");
    place.bare("fit --config generated/config.toml --dim 8 --data-seed 2 --out other");
    place.bare("fit hierarchical --algorithm pgd --steps 20 --dim 8 --data-seed 2 --out expected");
    same_bits(&place.path("expected"), &place.path("other"));
    place.bare("fit --config generated/config.toml --data y.csv --out now-read");
    same_bits(&place.path("read"), &place.path("now-read"));
    place.bare("fit --config read/config.toml --dim 5 --out now-generated");
    same_bits(&place.path("generated"), &place.path("now-generated"));
}

#[test]
fn numbers_survive_the_config() {
    let place = Place::new();
    place.bare(
        "fit hierarchical --algorithm pgd --steps 20 --dim 5 --step-size 0.012345678901234567 --true-theta -1e-7 --init-theta 1e15 \
         --init-particles -0.1 --step-decay 0.333333333333333333,7.7 --seed 18446744073709551615 --out a",
    );
    place.bare("fit --config a/config.toml --out b");
    same_bits(&place.path("a"), &place.path("b"));
}
