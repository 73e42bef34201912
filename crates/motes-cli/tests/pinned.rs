//! The numbers of a run are a promise: digests of what the real binary writes, for every algorithm and model.
//!
//! `MOTES_REPIN=1 cargo test -p motes-cli --test all pinned` writes `pinned.txt` anew. That is right only where a change of the
//! arithmetic is meant; it goes together with a higher `motes::checkpoint::ARITHMETIC` and a reason in the commit.

use crate::common;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

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

#[test]
fn runs_give_the_pinned_bits() {
    if motes::instruction_set() != "avx2+fma" {
        eprintln!("skipped: there are no digests for {}", motes::instruction_set());
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned.txt");
    if std::env::var_os("MOTES_REPIN").is_some() {
        std::fs::write(&file, digests(motes::simd::level_name())).unwrap();
    }
    let pinned = std::fs::read_to_string(&file).unwrap();
    // The same bits on every level that has fused multiply-add.
    for (level, _) in motes::simd::levels().into_iter().filter(|(level, _)| *level != "portable") {
        let found = digests(level);
        for (found, pinned) in found.lines().zip(pinned.lines()) {
            assert_eq!(found, pinned, "the numbers have changed on {level}");
        }
        assert_eq!(found.lines().count(), pinned.lines().count());
    }
}

/// A line for each case, run on a level of vector instructions.
fn digests(level: &str) -> String {
    let mut found = String::new();
    for case in CASES {
        let place = Place::in_memory();
        let keep = if case.ends_with(" em") { "" } else { "--keep-clouds 3" };
        let args = format!(
            "fit {case} --no-assess --steps 16 --burn-in 5 --seed 6 {keep} --out r --quiet --no-report"
        );
        Done::of(place.command(&args).env(motes::simd::VARIABLE, level)).ok();
        let trace = sha256(&std::fs::read(place.path("r/trace.csv")).unwrap());
        let _ = writeln!(found, "{} {} {case}", &trace[..32], arrays(&place.path("r/posterior.npz")));
    }
    found
}

#[test]
fn an_unknown_level_of_instructions_is_refused() {
    let place = Place::in_memory();
    let done = Done::of(place.command("fit logistic --steps 1 --out r").env(motes::simd::VARIABLE, "avx3"));
    done.refused(&["MOTES_SIMD is avx3", "unset it", "portable"]);
    assert!(!place.path("r").exists());
}
