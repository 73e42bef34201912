//! Logistic regression through the command line: the same bits, and test sets that stay where they were named.

use crate::common;

use std::path::Path;

use common::{Done, Place, number, same_bits, summary};

const CASES: &[&str] = &[
    "--algorithm pgd",
    "--algorithm pqn --adjust --intercept",
    "--algorithm pmgd --precision f32 --test-fraction 0.3 --split-seed 5",
    "--algorithm soul --no-standardize --step-size 0.0005",
    "--algorithm marginal-mh --particles 2 --step-size 0.001",
    "--algorithm mean-field --metrics-every 7",
    "--algorithm pgd --batch 100 --grow 25:150 --metrics-every 10",
];

#[test]
fn threads_replay_and_resume_give_the_same_bits() {
    for case in CASES {
        let place = Place::in_memory();
        let fit = format!("fit logistic --seed 3 --burn-in 15 {case}");
        for threads in [1, 2, 5] {
            place.bare(&format!("{fit} --steps 40 --threads {threads} --out t{threads}"));
            same_bits(&place.path("t1"), &place.path(&format!("t{threads}")));
        }
        place.bare("fit --config t1/config.toml --out again");
        same_bits(&place.path("t1"), &place.path("again"));
        place.bare(&format!("{fit} --steps 20 --checkpoint-every 9 --out half"));
        place.bare("resume half --steps 40");
        // How often to write checkpoints is part of the settings that a summary repeats.
        let steps = "steps = 40\ncheckpoint-every = 9";
        place.write("c.toml", place.text("t1/config.toml").replace("steps = 40", steps));
        place.bare("fit --config c.toml --out often");
        same_bits(&place.path("often"), &place.path("half"));
    }
}

fn test_error(run: &Path) -> f64 {
    number(&summary(run)["metrics"]["test_error"])
}

/// Rows of two classes that a line separates.
fn table(rows: usize) -> String {
    let row =
        |i: usize| format!("{},{},{}\n", i as f64 * 0.37 % 1.0, i, if i * 2 < rows { "no" } else { "yes" });
    format!("a,b,c\n{}", (0..rows).map(row).collect::<String>())
}

#[test]
fn a_test_file_is_found_again_and_guarded() {
    let place = Place::new();
    place.write("train.csv", table(60));
    place.write("test.csv", table(30));
    place.bare("fit logistic --algorithm pgd --data train.csv --test test.csv --steps 40 --out run");
    assert!((0.0..=1.0).contains(&test_error(&place.path("run"))));
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    let mut command = common::motes();
    command.current_dir(place.path("elsewhere")).args(["resume", "--steps", "50", "--quiet"]);
    Done::of(command.arg(place.path("run"))).ok();
    place.write("test.csv", table(32));
    place.refuses("resume run --steps 60", &["SHA-256"]);
    place.refuses("fit --config run/config.toml --out again", &["SHA-256"]);
}

#[test]
fn flags_choose_another_test_set() {
    let place = Place::new();
    place.write("train.csv", table(60));
    place.write("test.csv", table(30));
    let fit = "fit logistic --algorithm pgd --data train.csv --steps 40";
    place.bare(&format!("{fit} --out split"));
    place.bare(&format!("{fit} --test test.csv --out file"));
    place.bare("fit --config split/config.toml --test test.csv --out now-file");
    same_bits(&place.path("file"), &place.path("now-file"));
    place.bare("fit --config file/config.toml --split-seed 0 --out now-split");
    same_bits(&place.path("split"), &place.path("now-split"));
}

#[cfg(unix)]
#[test]
fn a_test_file_must_have_a_name_that_can_be_kept() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    place.write("train.csv", table(60));
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff.csv");
    std::fs::write(place.path("").join(odd), table(30)).unwrap();
    let mut command =
        place.command("fit logistic --algorithm pgd --data train.csv --steps 5 --out run --test");
    Done::of(command.arg(odd)).refused(&["not UTF-8", "rename it"]);
    assert!(!place.path("run").exists());
}

#[test]
fn a_start_of_another_length_is_refused() {
    let place = Place::new();
    place.write("start", "0.5\n0.7\n");
    for model in ["hierarchical", "logistic"] {
        place.refuses(
            &format!("fit {model} --init-theta start"),
            &["--init-theta", "2 numbers", "1 parameters"],
        );
    }
    let diverged =
        place.motes("fit hierarchical --algorithm pgd --step-size 0.02 --theta-rate 3 --steps 2000 --out r");
    diverged.refused(&["|theta|", "--theta-rate 0.3"]);
}
