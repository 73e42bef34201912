//! Ranks that share a run, here as threads of one process, leave the files of one, byte for byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};

use motes::ranks::{Ranks, Solo, Team, agree};
use motes::{Ended, Flow, Observer, Pool, Real, StepInfo, Stop};
use motes_app::Error;
use motes_app::carry::{self, Start, Watch};
use motes_app::config::Config;
use motes_app::job::{self, Job, Precise};
use motes_models::registry::{Given, Precision};
use threads::{Meeting, Thread};

#[path = "../../motes/tests/threads/mod.rs"]
mod threads;

/// What one rank does to the run at a step; or nothing.
#[derive(Clone, Default)]
struct At {
    /// Stops it from this step on.
    stops: Option<u64>,
    /// Puts a file where this run's checkpoints are to be, after step 3.
    spoils: Option<PathBuf>,
}

impl<F: Real> Observer<F> for At {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        if let Some(run) = self.spoils.as_ref().filter(|_| info.k == 3) {
            std::fs::remove_dir_all(run.join("checkpoint")).unwrap();
            std::fs::write(run.join("checkpoint"), "").unwrap();
        }
        if self.stops.is_some_and(|step| info.k >= step) { Flow::Stop } else { Flow::Continue }
    }
}

impl<F: Real> Watch<F> for At {
    fn stopped(&self) -> bool {
        false
    }
}

fn job(text: &str) -> Result<Job, Error> {
    let config = Config::parse(text)?;
    let problem = job::entry_of(&config.model)?.load(config.options.clone(), Given::Options)?;
    Job::new(config, problem, None)
}

fn carry_out<F: Precise>(
    job: Job,
    ranks: &dyn Ranks,
    dir: Option<PathBuf>,
    mut watch: At,
) -> Result<Ended, Error> {
    let model = job.model::<F>()?;
    let start = match dir {
        Some(dir) if dir.join("config.toml").exists() => Start::Directory(dir),
        Some(dir) => Start::New(dir),
        None => Start::Memory,
    };
    let team = Team { ranks, stop: Stop::default() };
    carry::carry_out(job, &*model, start, None, &mut watch, team).map(|outcome| outcome.ended)
}

/// Makes a run of this config, or goes on with it, on so many ranks of so many threads; how it ended on each of them.
fn on(
    (size, threads): (usize, usize),
    text: &str,
    dir: &Path,
    watch: impl Fn(usize) -> At + Sync,
) -> Vec<Result<Ended, String>> {
    let place = (Mutex::new(Meeting::default()), Condvar::new());
    let of_rank = |rank: usize| {
        let thread = Thread { rank, size, place: &place };
        let ranks: &dyn Ranks = if size == 1 { &Solo } else { &thread };
        let made = Pool::new(Some(threads)).unwrap().install(|| {
            let job = job(text)?;
            // The others neither read nor write, and know of no place.
            let dir = (rank == 0).then(|| dir.to_path_buf());
            match job.precision {
                Precision::F32 => carry_out::<f32>(job, ranks, dir, watch(rank)),
                Precision::F64 => carry_out::<f64>(job, ranks, dir, watch(rank)),
            }
        });
        agree(ranks, made).map_err(|e| e.to_string())
    };
    std::thread::scope(|scope| {
        let of_rank = &of_rank;
        let ranks: Vec<_> = (0..size).map(|rank| scope.spawn(move || of_rank(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    })
}

/// All files of a run directory by name, without what tells times.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut rest = vec![dir.to_path_buf()];
    while let Some(path) = rest.pop() {
        for entry in std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                rest.push(entry);
                continue;
            }
            let mut bytes = std::fs::read(&entry).unwrap();
            let name = entry.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            if name == "summary.json" {
                let text = String::from_utf8(bytes).unwrap();
                bytes = text.lines().filter(|line| !line.contains("second")).collect::<String>().into();
            }
            if name.starts_with("checkpoint") {
                bytes = without_seconds(&bytes);
            }
            found.insert(name, bytes);
        }
    }
    // Of the generations of checkpoints the last one counts.
    let of_step = |name: &String| name.starts_with("checkpoint/0");
    let last = found.keys().rfind(|name| of_step(name)).cloned();
    found.retain(|name, _| !of_step(name) || Some(name) == last.as_ref());
    found
}

/// A checkpoint without the time in its header, the length of that, and the checksum over both.
fn without_seconds(bytes: &[u8]) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = String::from_utf8(bytes[8..8 + length].to_vec()).unwrap();
    let (before, after) = header.split_once("\\\"seconds\\\":").unwrap();
    let after = after.split_once(',').unwrap().1;
    [before.as_bytes(), after.trim_end().as_bytes(), &bytes[8 + length..bytes.len() - 4]].concat()
}

fn same(found: &Path, expected: &BTreeMap<String, Vec<u8>>, what: &str) {
    let found = files(found);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in &found {
        assert!(bytes == &expected[name], "{name} of {what}");
    }
}

fn toy(options: &str, run: &str) -> String {
    format!(
        "version = 2\nmodel = \"hierarchical\"\n[run]\nseed = 6\nsteps = 9\nburn-in = 3\n{run}\n[hierarchical]\ntrue-theta = 1.7\n{options}"
    )
}

/// One group of several blocks, and several blocks of groups.
const WIDE: &str = "dim = 4000\ngroups = 1";
const GROUPS: &str = "dim = 20000";

/// Ranks, and threads of each.
const SIZES: [(usize, usize); 6] = [(1, 2), (2, 1), (2, 2), (3, 1), (4, 2), (7, 1)];

fn all_sizes_agree(text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("alone");
    assert_eq!(on((1, 1), text, &alone, |_| At::default()), [Ok(Ended::Complete)], "{text}");
    let expected = files(&alone);
    for (size, threads) in SIZES {
        let dir = dir.path().join(format!("{size}-{threads}"));
        let ended = on((size, threads), text, &dir, |_| At::default());
        assert!(ended.iter().all(|ended| *ended == Ok(Ended::Complete)), "{ended:?}");
        same(&dir, &expected, &format!("{size} ranks of {threads} threads: {text}"));
    }
}

#[test]
fn every_algorithm_leaves_the_files_of_one_process() {
    for run in [
        "algorithm = \"pgd\"\nparticles = 23",
        "algorithm = \"pgd\"\nparticles = 23\nno-assess = true\npreconditioner = \"adam\"\ngrow = \"4:31,7:40\"",
        "algorithm = \"pgd\"\nparticles = 23\nno-assess = true\nadjust = true\nstep-size = 0.01\nwarm-start = \"1x3\"",
        "algorithm = \"ipla\"\nparticles = 23\nno-assess = true\nprecision = \"f32\"",
        "algorithm = \"kiplmc\"\nparticles = 23\nno-assess = true",
        "algorithm = \"pqn\"\nparticles = 23\nno-assess = true\ninit-particles = \"prior\"",
        "algorithm = \"pmgd\"\nparticles = 23\nno-assess = true",
        "algorithm = \"em\"\nno-assess = true",
        "algorithm = \"mean-field\"\nparticles = 23\nno-assess = true",
        "algorithm = \"marginal-mh\"\nparticles = 23\nno-assess = true\nstep-size = 0.0001",
        "algorithm = \"joint-mh\"\nparticles = 23\nno-assess = true\nstep-size = 0.00001",
    ] {
        all_sizes_agree(&toy(WIDE, run));
    }
    for run in [
        "algorithm = \"pgd\"\nparticles = 5\nno-assess = true\nkeep-clouds = 2",
        "algorithm = \"pgd\"\nparticles = 5\nbatch = 9000\nstep-size = 0.01",
        "algorithm = \"pgd\"\nparticles = 5\nno-assess = true\nadjust = true\nstep-size = 0.3\ngrow = \"5:9\"",
        "algorithm = \"kiplmc\"\nparticles = 5\nno-assess = true",
        "algorithm = \"mean-field\"\nparticles = 5\nno-assess = true",
        "algorithm = \"abp\"\nparticles = 5\nno-assess = true",
        "algorithm = \"short-run\"\nparticles = 5\nno-assess = true",
    ] {
        all_sizes_agree(&toy(GROUPS, run));
    }
}

#[test]
fn test_metrics_are_those_of_one_process() {
    let run = "algorithm = \"pgd\"\nparticles = 300\nsteps = 12\nburn-in = 4\nmetrics-every = 3";
    all_sizes_agree(&format!("version = 2\nmodel = \"logistic\"\n[run]\nseed = 4\n{run}\n"));
}

#[test]
fn a_fit_without_tuning_leaves_the_files_of_one_process() {
    let auto = |options| {
        format!(
            "version = 2\nmodel = \"hierarchical\"\n[run]\nseed = 6\nparticles = 8\nmax-evaluations = 600\n[hierarchical]\n{options}"
        )
    };
    all_sizes_agree(&auto("dim = 9000"));
    all_sizes_agree(&auto("dim = 2100\ngroups = 1"));
}

/// Stopped by any of some ranks, and continued on others.
#[test]
fn runs_go_on_with_any_number_of_ranks() {
    let pgd = "algorithm = \"pgd\"\nparticles = 23\nno-assess = true\nwarm-start = \"1x2\"";
    let kiplmc = "algorithm = \"kiplmc\"\nparticles = 5\nno-assess = true";
    for text in [toy(WIDE, pgd), toy(GROUPS, kiplmc)] {
        let dir = tempfile::tempdir().unwrap();
        let alone = dir.path().join("alone");
        on((1, 1), &text, &alone, |_| At::default());
        let expected = files(&alone);
        for (first, then, stops) in [(4, 1, 2), (1, 3, 0), (3, 7, 1), (7, 2, 6)] {
            let dir = dir.path().join(format!("{first}-{then}"));
            let ended =
                on((first, 1), &text, &dir, |rank| At { stops: (rank == stops).then_some(5), spoils: None });
            assert!(ended.iter().all(|ended| *ended == Ok(Ended::Early)), "{ended:?}");
            let ended = on((then, 2), &text, &dir, |_| At::default());
            assert!(ended.iter().all(|ended| *ended == Ok(Ended::Complete)), "{ended:?}");
            same(&dir, &expected, &format!("{first} and then {then} ranks"));
        }
    }
}

/// One sentence, the same for all, wherever it came from; and nobody waits for anybody.
#[test]
fn a_failure_ends_all_ranks_with_its_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let tell = |text: &str, name: &str, watch: &(dyn Fn(usize) -> At + Sync)| -> String {
        let ended = on((3, 1), text, &dir.path().join(name), watch);
        let sentences: Vec<String> = ended.into_iter().map(|ended| ended.unwrap_err()).collect();
        assert!(sentences.iter().all(|sentence| *sentence == sentences[0]), "{sentences:?}");
        sentences[0].clone()
    };
    let nothing = |_| At::default();
    let pgd = |more: &str| toy(WIDE, &format!("algorithm = \"pgd\"\nparticles = 23\n{more}"));

    let alone = on((1, 1), &pgd("step-size = 1e15"), &dir.path().join("alone"), nothing);
    let diverged = tell(&pgd("step-size = 1e15"), "diverges", &nothing);
    assert_eq!(Err(diverged.clone()), alone[0]);
    assert!(diverged.contains("diverged at step"), "{diverged}");

    // What stands in the way is known to rank 0 alone: before the run, and in the middle of it.
    std::fs::create_dir_all(dir.path().join("taken")).unwrap();
    std::fs::write(dir.path().join("taken/trace.csv"), "k").unwrap();
    let taken = tell(&pgd(""), "taken", &nothing);
    assert!(taken.contains("taken"), "{taken}");
    let run = dir.path().join("spoilt");
    let spoils = |rank| At { stops: None, spoils: (rank == 0).then(|| run.clone()) };
    let spoilt = tell(&pgd("checkpoint-every = 2"), "spoilt", &spoils);
    assert!(spoilt.starts_with("cannot") && spoilt.contains("checkpoint"), "{spoilt}");

    let soul = tell(&toy(WIDE, "algorithm = \"soul\"\nparticles = 23"), "soul", &nothing);
    assert!(soul.contains("several ranks cannot share") && soul.contains("pgd"), "{soul}");
}
