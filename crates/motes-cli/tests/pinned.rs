//! The numbers of a run are a promise: digests of what the real binary writes, for every algorithm and model.
//!
//! `MOTES_REPIN=1 cargo test -p motes-cli --test all pinned` writes `pinned.txt` and `pinned_no_fma.txt` anew. That is right only where a change of the
//! arithmetic is meant; it goes together with a higher `motes::checkpoint::ARITHMETIC` and a reason in the commit.

use crate::common;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Done, Place};
use motes_models::data::sha256;

/// The arrays of `posterior.npz` that count; others may be added beside them.
const ARRAYS: [&str; 6] = ["particles", "mean", "var", "clouds", "clouds_k", "theta"];

const CASES: &[&str] = &[
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm pgd",
    "hierarchical --groups 1 --dim 7 --particles 300 --algorithm pgd --preconditioner adam --step-decay 0.6,10",
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm pqn --grow 4:55,9:80",
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm pmgd --adjust --step-size 0.01",
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm soul --preconditioner rmsprop",
    "hierarchical --groups 1 --dim 700 --algorithm em",
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm mean-field",
    "hierarchical --groups 1 --dim 3 --particles 4 --algorithm marginal-mh --step-size 0.1",
    "hierarchical --groups 1 --dim 3 --particles 4 --algorithm joint-mh --joint-update pqn --step-size 0.1",
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm pgd --precision f32 --warm-start pmgd:1x7 --init-particles prior",
    "logistic --algorithm pgd --particles 100 --metrics-every 4",
    "logistic --algorithm pgd --adjust --particles 33 --intercept",
    "logistic --algorithm pgd --batch 50 --particles 20 --precision f32",
    "logistic --algorithm pqn --particles 60",
    "logistic --algorithm pmgd --particles 10 --split-seed 3",
    "logistic --algorithm soul --particles 10",
    "logistic --algorithm mean-field --particles 10",
    "logistic --algorithm marginal-mh --particles 3 --step-size 0.001",
    "logistic --algorithm joint-mh --particles 3 --step-size 0.0001",
    "bnn --algorithm pgd --particles 5 --subsample 200",
    "bnn --algorithm pqn --particles 3 --subsample 200",
    "bnn --algorithm pmgd --particles 3 --subsample 200 --products dense",
    "bnn --algorithm soul --particles 3 --subsample 200",
    "bnn --algorithm mean-field --particles 3 --subsample 200",
    "hierarchical --dim 50 --particles 40 --algorithm pgd",
    "logistic --algorithm pgd --particles 10 --learn both --init-particles prior",
    "multinomial --data classes.csv --algorithm pgd --particles 20 --init-particles prior",
    "multinomial --data classes.csv --algorithm pmgd --particles 20 --precision f32",
    "generator --images 12 --batch 6 --particles 2 --algorithm pgd --step-size 1e-4",
    "generator --images 12 --batch 6 --particles 2 --algorithm vae",
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm ipla",
    "hierarchical --groups 1 --dim 700 --particles 40 --algorithm kiplmc --step-size 0.1",
    "hierarchical --dim 50 --particles 20 --algorithm pgd --adjust --batch 10",
    "hierarchical --dim 50 --particles 40 --algorithm pqn --precision f32",
    "hierarchical --dim 50 --particles 10 --algorithm abp --batch 20",
    "hierarchical --dim 50 --particles 10 --algorithm short-run",
];

/// Fits without tuning, whose numbers are no promise from version to version but are the same on all processors.
const FITS: &[&str] = &[
    "hierarchical --dim 20",
    "logistic",
    "logistic --learn both --precision f32 --max-evaluations 3000",
    "multinomial --data classes.csv --max-evaluations 3000",
];

/// The first half of the digest of some arrays of an archive.
fn arrays(path: &Path) -> String {
    let mut archive = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
    let mut bytes = Vec::new();
    for name in ARRAYS {
        if let Ok(mut array) = archive.by_name(&format!("{name}.npy")) {
            array.read_to_end(&mut bytes).unwrap();
        }
    }
    sha256(&bytes)[..32].to_string()
}

/// The table for levels with fused multiply-add, all of which give the same bits, or for the others.
fn table(fused: bool) -> PathBuf {
    let name = if fused { "tests/pinned.txt" } else { "tests/pinned_no_fma.txt" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn runs_give_the_pinned_bits_at_every_level() {
    let repin = std::env::var_os("MOTES_REPIN").is_some();
    for (level, _) in motes::simd::levels() {
        let file = table(level != "portable");
        let found = digests(CASES, level);
        if repin {
            std::fs::write(&file, found).unwrap();
            continue;
        }
        let pinned = std::fs::read_to_string(&file).unwrap();
        for (found, pinned) in found.lines().zip(pinned.lines()) {
            assert_eq!(found, pinned, "the numbers have changed on {level}");
        }
        assert_eq!(found.lines().count(), pinned.lines().count());
    }
}

#[test]
fn fits_give_the_same_bits_at_every_level() {
    let fused =
        motes::simd::levels().into_iter().map(|(level, _)| level).filter(|level| *level != "portable");
    let found: Vec<String> = fused.map(|level| digests(FITS, level)).collect();
    for other in &found {
        assert_eq!(&found[0], other);
    }
}

/// `make test-arm` names a command here that runs a binary for another processor.
#[test]
#[ignore = "needs a binary for another processor in MOTES_OTHER"]
fn another_processor_gives_the_same_bits() {
    let other = std::env::var("MOTES_OTHER").expect("the command that runs the other binary");
    let words: Vec<&str> = other.split(' ').collect();
    for cases in [CASES, FITS] {
        let found = digests_by(cases, || {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        });
        assert_eq!(found, digests(cases, motes::simd::level_name()));
    }
}

/// A line for each case, run on a level of vector instructions.
fn digests(cases: &[&str], level: &str) -> String {
    digests_by(cases, || {
        let mut command = common::motes();
        command.env(motes::simd::VARIABLE, level);
        command
    })
}

/// The same by a command of one's own.
fn digests_by(cases: &[&str], motes: impl Fn() -> Command) -> String {
    let mut found = String::new();
    for case in cases {
        let place = Place::in_memory();
        place.write("classes.csv", classes());
        let steps = if case.contains("--algorithm") { "--no-assess --steps 16 --burn-in 5" } else { "" };
        let keep = match case {
            _ if steps.is_empty() || case.ends_with(" em") => "",
            _ if case.starts_with("generator") => "--keep-clouds 0",
            _ => "--keep-clouds 3",
        };
        let args = format!("fit {case} {steps} --seed 6 {keep} --out r --quiet --no-report");
        Done::of(motes().args(args.split_whitespace()).current_dir(place.path(""))).ok();
        let mut trace = std::fs::read(place.path("r/trace.csv")).unwrap();
        if steps.is_empty() {
            // What is estimated after the last step.
            let summary: serde_json::Value = serde_json::from_str(&place.text("r/summary.json")).unwrap();
            trace.extend_from_slice(format!("{}{}", summary["theta"], summary["log_likelihood"]).as_bytes());
        }
        let _ =
            writeln!(found, "{} {} {case}", &sha256(&trace)[..32], arrays(&place.path("r/posterior.npz")));
    }
    found
}

/// Rows of three classes that overlap.
fn classes() -> String {
    let mut rows = String::from("a,b,class\n");
    for i in 0..90u32 {
        let class = i % 3;
        let (a, b) = (i * 37 % 19 + 4 * class, i * 53 % 23 + 5 * (class % 2));
        let _ = writeln!(rows, "{a},{b},{}", ["red", "green", "blue"][class as usize]);
    }
    rows
}

#[test]
fn an_unknown_level_of_instructions_is_refused() {
    let place = Place::in_memory();
    let done = Done::of(place.command("fit logistic --steps 1 --out r").env(motes::simd::VARIABLE, "avx3"));
    done.refused(&["MOTES_SIMD is avx3", "unset it", "portable"]);
    assert!(!place.path("r").exists());
}
