//! Damaged files for every reader of Motes: what is read is refused or used, and neither crashes nor takes more memory than
//! it should.
//!
//! A case is a number: it decides which good file is taken and how it is damaged, so that a failure can be had again on any
//! machine. The tests make the first thousands of cases of each target, `make fuzz` goes on from there for as long as it may.

mod dice;
pub mod mutate;
mod scratch;
mod targets;
pub mod watch;

pub use dice::Dice;
pub use scratch::Scratch;
pub use targets::TARGETS;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A reader and what it is given.
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// Good files, or at least interesting ones.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How a file is damaged.
    pub mutate: fn(Vec<u8>, &mut Dice) -> Vec<u8>,
    /// Reads a file; a panic is a defect. `true` if it was not refused.
    pub read: fn(&[u8], &Scratch) -> bool,
    /// So many cases are made by the tests.
    pub cases: u64,
}

/// What a number of cases came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many were made.
    pub cases: u64,
    /// How many of them were read.
    pub read: u64,
}

/// A target with its files.
pub struct Fuzzer {
    target: &'static Target,
    seeds: Vec<Vec<u8>>,
    scratch: Scratch,
}

/// No reader of such small files needs more than this at once.
const MOST_BYTES: usize = 200 << 20;
/// Nor longer, by far.
const MOST_TIME: Duration = Duration::from_secs(60);

impl Fuzzer {
    /// With the seeds of a target and whatever is in its folder of the corpus.
    pub fn new(target: &'static Target) -> Self {
        let mut seeds = (target.seeds)();
        seeds.extend(corpus(target.name).into_iter().map(|(_, bytes)| bytes));
        Fuzzer { target, seeds, scratch: Scratch::new() }
    }

    /// The input of a case.
    pub fn input(&self, case: u64) -> Vec<u8> {
        let mut dice = Dice::of(self.target.name, case);
        let seed = self.seeds[dice.below(self.seeds.len() as u64) as usize].clone();
        (self.target.mutate)(seed, &mut dice)
    }

    /// Reads an input. A defect is told in a sentence that says how to have it again.
    pub fn read(&self, input: &[u8]) -> Result<bool, String> {
        watch::begin();
        let began = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| (self.target.read)(input, &self.scratch)));
        let (bytes, time) = (watch::largest(), began.elapsed());
        let read = result.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_string()
        })?;
        if bytes > MOST_BYTES {
            return Err(format!("it asked for {bytes} bytes at once"));
        }
        if time > MOST_TIME {
            return Err(format!("it took {} s", time.as_secs()));
        }
        Ok(read)
    }

    /// Reads good files: none may be refused, or nothing was tested.
    pub fn good(&self) -> Result<(), String> {
        for (i, seed) in (self.target.seeds)().iter().enumerate() {
            match self.read(seed) {
                Ok(true) => {}
                Ok(false) => return Err(format!("{} refuses its good file {i}", self.target.name)),
                Err(defect) => return Err(format!("{} with its good file {i}: {defect}", self.target.name)),
            }
        }
        Ok(())
    }

    /// Makes cases until there are no more or the time is over. The input of a defect is kept in `found`.
    pub fn run(
        &self,
        cases: std::ops::Range<u64>,
        until: Option<Instant>,
        found: &Path,
    ) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for case in cases {
            if until.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let input = self.input(case);
            match self.read(&input) {
                Ok(read) => tally.read += u64::from(read),
                Err(defect) => {
                    let name = self.target.name;
                    let file = found.join(format!("{name}-{case}"));
                    let kept = std::fs::create_dir_all(found).and_then(|()| std::fs::write(&file, &input));
                    let place = kept.map_or("nowhere".into(), |()| file.to_string_lossy().to_string());
                    return Err(format!(
                        "{name}, case {case}: {defect}; its input is in {place}, put it into fuzz/corpus/{name} with the repair"
                    ));
                }
            }
            tally.cases += 1;
        }
        Ok(tally)
    }
}

/// The files of a target in the corpus: what once went wrong.
pub fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.sort();
    files
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(&path).expect("a file of the corpus")))
        .collect()
}

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
