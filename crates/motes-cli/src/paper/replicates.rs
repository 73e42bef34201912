//! Replicates: spread over the cores, stored as they finish, and never done twice.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use motes::files::{Durable, sweep, write_atomically};
use motes::sentence::foreign_path;
use motes::{Ended, Pool};
use motes_models::data::sha256;
use serde::{Deserialize, Serialize};

use super::display::Display;
use super::task::{Outcome, Task};
use super::training::Training;
use crate::progress::Interrupt;

/// Raised whenever a task's outcome changes although its description does not.
const GENERATION: u32 = 2;

/// What is done and stored together.
#[derive(Clone, Debug)]
pub struct Job {
    /// Unique; the same wherever the same job is needed.
    pub name: String,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Runs(Vec<Task>),
    Training(Box<Training>),
}

impl Job {
    pub fn new(name: impl Into<String>, tasks: Vec<Task>) -> Self {
        Job { name: name.into(), work: Work::Runs(tasks) }
    }

    pub fn training(name: impl Into<String>, training: Training) -> Self {
        Job { name: name.into(), work: Work::Training(Box::new(training)) }
    }

    /// Roughly how long it takes on one core, in seconds.
    pub fn seconds(&self) -> f64 {
        match &self.work {
            Work::Runs(tasks) => tasks.iter().map(Task::seconds).sum(),
            Work::Training(training) => training.seconds(),
        }
    }

    /// The memory that it needs, where that is not little.
    pub fn bytes(&self) -> u128 {
        match &self.work {
            Work::Runs(_) => 0,
            Work::Training(training) => training.bytes(),
        }
    }

    /// How many outcomes it has.
    fn outcomes(&self) -> usize {
        match &self.work {
            Work::Runs(tasks) => tasks.len(),
            Work::Training(_) => 1,
        }
    }

    /// The digest of all that determines the outcomes: a stored replicate with another one is of no use.
    fn digest(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("{version} {GENERATION} {}", motes::instruction_set());
        let identities = match &self.work {
            Work::Runs(tasks) => tasks.iter().map(Task::identity).collect(),
            Work::Training(training) => vec![training.identity()],
        };
        for identity in identities {
            text.push('\n');
            text.push_str(&identity);
        }
        sha256(text.as_bytes())
    }
}

/// Outcomes by the names of their jobs.
pub type Outcomes = HashMap<String, Vec<Outcome>>;

#[derive(Serialize, Deserialize)]
struct Stored {
    digest: String,
    outcomes: Vec<Outcome>,
}

/// Where finished replicates are, and what generators are trained in.
pub struct Store {
    replicates: PathBuf,
    trained: PathBuf,
}

impl Store {
    pub fn open(dir: &Path) -> Result<Self, String> {
        let store = Store { replicates: dir.join("replicates"), trained: dir.join("trained") };
        make(&store.replicates)?;
        [&store.replicates, &store.trained].into_iter().for_each(|dir| sweep(dir));
        Ok(store)
    }

    fn path(&self, job: &Job) -> PathBuf {
        self.replicates.join(format!("{}.json", job.name))
    }

    /// The run directory of a training. What another training has left there is removed.
    fn run_directory(&self, job: &Job) -> Result<PathBuf, String> {
        make(&self.trained)?;
        let (dir, mark) = (self.trained.join(&job.name), self.trained.join(format!("{}.digest", job.name)));
        let digest = job.digest();
        if std::fs::read_to_string(&mark).ok().as_ref() == Some(&digest) {
            return Ok(dir);
        }
        if dir.exists() {
            std::fs::remove_dir_all(&dir)
                .map_err(|e| format!("cannot remove {}: {e}; remove it by hand", foreign_path(&dir)))?;
        }
        write_atomically(&mark, Durable::No, |file| std::io::Write::write_all(file, digest.as_bytes()))
            .map_err(|e| e.to_string())?;
        Ok(dir)
    }

    /// What is stored of a job, if it is whole and of these settings, data and version.
    fn load(&self, job: &Job) -> Option<Vec<Outcome>> {
        let stored: Stored = serde_json::from_slice(&std::fs::read(self.path(job)).ok()?).ok()?;
        (stored.digest == job.digest() && stored.outcomes.len() == job.outcomes()).then_some(stored.outcomes)
    }

    fn save(&self, job: &Job, outcomes: &[Outcome]) -> Result<(), String> {
        let stored = Stored { digest: job.digest(), outcomes: outcomes.to_vec() };
        let text = serde_json::to_vec(&stored).expect("outcomes are plain data");
        write_atomically(&self.path(job), Durable::No, |file| std::io::Write::write_all(file, &text))
            .map_err(|e| e.to_string())
    }
}

fn make(dir: &Path) -> Result<(), String> {
    std::fs::create_dir_all(dir)
        .map_err(|e| format!("cannot make {}: {e}; choose another place with --out", foreign_path(dir)))
}

/// What one item of the paper needs.
pub struct Needs {
    pub item: &'static str,
    pub jobs: Vec<Job>,
}

/// Carries out all jobs that are not stored yet, `workers` at once, and calls `finished` when an item has all it needs.
///
/// A result never depends on the number of workers: each job runs on one thread and knows nothing of the others.
pub fn carry_out(
    needs: &[Needs],
    workers: usize,
    store: &Store,
    interrupt: &Interrupt,
    mut finished: impl FnMut(usize, &Outcomes) -> Result<(), String>,
) -> Result<Ended, String> {
    let mut outcomes = Outcomes::new();
    let mut todo: Vec<&Job> = Vec::new();
    let mut seen = HashSet::new();
    for need in needs {
        let first = todo.len();
        for job in &need.jobs {
            if !seen.insert(job.name.as_str()) {
                continue;
            }
            match store.load(job) {
                Some(stored) => drop(outcomes.insert(job.name.clone(), stored)),
                None => todo.push(job),
            }
        }
        // Long ones first, so that no core idles at the end.
        todo[first..].sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
    }
    let mut display = Display::new(needs, &outcomes, &todo, workers.min(todo.len()).max(1));
    let next = AtomicUsize::new(0);
    let mut pending: Vec<bool> = vec![true; needs.len()];
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel::<(usize, News)>();
        for _ in 0..workers.min(todo.len()) {
            let (send, todo, next) = (send.clone(), &todo, &next);
            scope.spawn(move || {
                let pool = match Pool::new(Some(1)) {
                    Ok(pool) => pool,
                    Err(e) => return drop(send.send((0, News::Ended(Err(e.to_string()))))),
                };
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= todo.len() || interrupt.is_set() {
                        return;
                    }
                    // That nobody listens any more is seen at the end.
                    let told = |part: f64| drop(send.send((i, News::Part(part))));
                    let result = pool.install(|| run(todo[i], store, interrupt, &told));
                    if let Some(result) = result.transpose()
                        && send.send((i, News::Ended(result))).is_err()
                    {
                        return; // nobody listens any more
                    }
                }
            });
        }
        drop(send);
        let mut result = Ok(());
        loop {
            for (i, need) in needs.iter().enumerate() {
                let whole = || need.jobs.iter().all(|job| outcomes.contains_key(&job.name));
                if result.is_ok() && pending[i] && whole() {
                    pending[i] = false;
                    result = finished(i, &outcomes);
                    display.item_done(i);
                }
            }
            if result.is_err() {
                next.store(todo.len(), Ordering::Relaxed);
            }
            match receive.recv_timeout(Duration::from_millis(100)) {
                Ok((i, News::Part(part))) => display.job_goes_on(todo[i], part),
                Ok((i, News::Ended(Ok(done)))) => {
                    display.job_done(todo[i]);
                    outcomes.insert(todo[i].name.clone(), done);
                }
                Ok((_, News::Ended(Err(e)))) => result = result.and(Err(e)),
                Err(RecvTimeoutError::Timeout) => display.tick(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        display.finish();
        result
    })?;
    Ok(if pending.contains(&true) { Ended::Early } else { Ended::Complete })
}

/// What a worker has to say about a job.
enum News {
    /// So much of it is done.
    Part(f64),
    Ended(Result<Vec<Outcome>, String>),
}

/// One job; `None` if it was interrupted. `told` hears which part of a long one is done.
fn run(
    job: &Job,
    store: &Store,
    interrupt: &Interrupt,
    told: &(dyn Fn(f64) + Sync),
) -> Result<Option<Vec<Outcome>>, String> {
    let outcomes: Option<Vec<Outcome>> = match &job.work {
        Work::Runs(tasks) => {
            tasks.iter().map(|task| task.carry_out(interrupt)).collect::<Result<_, String>>()?
        }
        Work::Training(training) => {
            let dir = store.run_directory(job)?;
            training.carry_out(&dir, interrupt, told)?.map(|outcome| vec![outcome])
        }
    };
    let Some(outcomes) = outcomes else { return Ok(None) };
    store.save(job, &outcomes)?;
    Ok(Some(outcomes))
}
