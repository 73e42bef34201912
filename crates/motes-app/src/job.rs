//! Everything that is settled before the first step of a run.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use motes::memory;
use motes::ranks::{Ranks, gather_words};
use motes::sentence::{foreign, foreign_path};
use motes::settings::{Settings, UNBOUNDED};
use motes::{Model, Pool, Real};
use motes_models::options::Table;
use motes_models::registry::{self, Defaults, Precision, Problem};
use serde_json::Value;

use crate::Error;
use crate::choices::{Choices, StepSize};
use crate::config::Config;
use crate::show::three_digits;

/// More threads than any machine has cores only take long to start.
const MAX_THREADS: usize = 1024;

/// The precisions that a problem can be built in.
pub trait Precise: Real {
    /// The model of a problem, as runs with these settings need it.
    fn model(problem: &dyn Problem, settings: &Settings) -> Result<Arc<dyn Model<Self>>, Error>;
}

impl Precise for f32 {
    fn model(problem: &dyn Problem, settings: &Settings) -> Result<Arc<dyn Model<f32>>, Error> {
        Ok(problem.single(settings)?)
    }
}

impl Precise for f64 {
    fn model(problem: &dyn Problem, settings: &Settings) -> Result<Arc<dyn Model<f64>>, Error> {
        Ok(problem.double(settings)?)
    }
}

/// How long a run lasts.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// As many steps as its settings say.
    Steps,
    /// A given time.
    Seconds(Budget),
}

/// A time to run for, and which choices were left open: those are settled on the way.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// How long the loop lasts.
    pub time: Duration,
    /// The burn-in: it is then half of the time.
    pub burn_in: bool,
    /// The beginning of accept-reject: it is then a quarter of the time.
    pub adjust_after: bool,
    /// How densely the trace is written: that depends on the speed.
    pub trace_every: bool,
}

impl Length {
    /// That of a run with these choices, for a time if one is given.
    pub fn of(choices: &Choices, time: Option<Duration>) -> Self {
        match time {
            None => Length::Steps,
            Some(time) => Length::Seconds(Budget {
                time,
                burn_in: choices.burn_in.is_none(),
                adjust_after: choices.adjust_after.is_none(),
                trace_every: choices.trace_every.is_none(),
            }),
        }
    }

    /// The time to run for, if that is the limit.
    pub fn budget(&self) -> Option<Budget> {
        match self {
            Length::Steps => None,
            Length::Seconds(budget) => Some(*budget),
        }
    }

    /// The settings that the choices amount to.
    fn settings(&self, choices: &Choices, defaults: &Defaults) -> Result<Settings, Error> {
        match self {
            // What a run for a time that was killed leaves in its config.
            Length::Steps if choices.steps == Some(UNBOUNDED) => Err(
                "it was to run for a given time and was killed, and a time cannot be split over two processes; remove it and run it again".into(),
            ),
            Length::Steps => choices.settings(defaults),
            Length::Seconds(_) => Choices { steps: Some(UNBOUNDED), ..choices.clone() }.settings(defaults),
        }
    }
}

/// A run that is fully described and can begin.
#[derive(Clone)]
pub struct Job {
    /// Every choice that was made.
    pub config: Config,
    /// What the choices amount to.
    pub settings: Settings,
    /// Of the particles.
    pub precision: Precision,
    /// How long it lasts.
    pub length: Length,
    /// Whether the step size was chosen here.
    pub auto: bool,
    /// The model with its data.
    pub problem: Arc<dyn Problem>,
}

impl Job {
    /// Makes every choice that a config leaves open, and refuses data other than those it was written for.
    pub fn new(mut config: Config, problem: Arc<dyn Problem>, time: Option<Duration>) -> Result<Self, Error> {
        let defaults = problem.defaults();
        let length = Length::of(&config.run, time);
        let mut settings = length.settings(&config.run, &defaults)?;
        let precision = config.run.precision.unwrap_or(defaults.precision);
        let sha256 = problem.sha256().map(String::from);
        if sha256.is_some() && config.data_sha256.is_some() && config.data_sha256 != sha256 {
            return Err(
                "the data have changed since this config was written (their SHA-256 differs); restore them or `fit-anew()`".into(),
            );
        }
        config.data_sha256 = sha256;
        refuse_another_model(&config, &problem.options())?;
        let auto = !matches!(config.run.step_size, Some(StepSize::Value(_))) && settings.takes("step-size");
        if auto {
            // The curvature needs no precision of its own, but some models have one alone.
            settings.step_size = match (problem.double(&settings), precision) {
                (Ok(model), _) => settings.auto_step_size(&*model),
                (Err(_), Precision::F32) => settings.auto_step_size(&*problem.single(&settings)?),
                (Err(e), Precision::F64) => return Err(e.into()),
            };
        }
        config.run = config.run.resolved(&settings, precision);
        config.options = problem.options();
        Ok(Job { config, settings, precision, length, auto, problem })
    }

    /// Takes over what the settings became on the way.
    pub(crate) fn settle(&mut self) {
        self.config.run = self.config.run.resolved(&self.settings, self.precision);
    }

    /// Refuses ranks that were not told the same, or that would not compute the same.
    pub fn refuse_other_ranks(&self, ranks: &dyn Ranks) -> Result<(), Error> {
        if ranks.size() == 1 {
            return Ok(());
        }
        let digest = |text: &str| {
            let mut hasher = std::hash::DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        };
        let program = format!("{} {}", env!("CARGO_PKG_VERSION"), motes::instruction_set());
        for (what, text, remedy) in [
            (
                "versions of Motes, or processors with other instructions",
                program,
                "start one program on like machines",
            ),
            (
                "settings or data",
                self.config.to_toml(),
                "give all of them the same, or start each by itself without MPI",
            ),
        ] {
            let digests = gather_words(ranks, digest(&text));
            if let Some(other) = digests.iter().position(|digest| *digest != digests[0]) {
                return Err(format!("ranks 0 and {other} have different {what}; {remedy}").into());
            }
        }
        Ok(())
    }

    /// The model, which can do what the settings ask of it.
    pub fn model<F: Precise>(&self) -> Result<Arc<dyn Model<F>>, Error> {
        let model = F::model(&*self.problem, &self.settings)?;
        self.settings.validate(&*model)?;
        memory::check_model(&*model, &self.settings)?;
        Ok(model)
    }

    /// Refuses what the model cannot do.
    pub fn check(&self) -> Result<(), Error> {
        match self.precision {
            Precision::F32 => self.model::<f32>().map(drop),
            Precision::F64 => self.model::<f64>().map(drop),
        }
    }

    /// What people should know before the first step, besides the data.
    pub fn asides(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let settings = &self.settings;
        if self.auto {
            lines.push(format!("step size {} (auto)", three_digits(settings.step_size)));
        }
        let open = self.length.budget().is_some_and(|b| b.adjust_after);
        if settings.takes("adjust-after") && settings.adjust_after > 0 && !open {
            lines.push(format!("accept-reject begins after {} steps", settings.adjust_after));
        }
        lines
    }
}

/// A run is resumed from anywhere.
pub fn make_absolute<'a>(paths: impl Iterator<Item = &'a mut PathBuf>) -> Result<(), Error> {
    for path in paths {
        let absolute = std::path::absolute(&path);
        *path = absolute.map_err(|e| format!("cannot use {}: {e}; check the path", foreign_path(path)))?;
    }
    Ok(())
}

/// What is said to a new total of steps below the old one.
pub fn fewer_steps(steps: u64, before: u64) -> Error {
    format!("`steps={steps}` is the new total and {before} were asked for before; give a larger number")
        .into()
}

/// Refuses what is wrong or too much before any data are read.
pub fn before_data(config: &Config, threads: Option<usize>, time: Option<Duration>) -> Result<(), Error> {
    let entry = entry_of(&config.model)?;
    let defaults = entry.defaults();
    let settings = Length::of(&config.run, time).settings(&config.run, &defaults)?;
    check_threads(threads)?;
    let real_bytes = match config.run.precision.unwrap_or(defaults.precision) {
        Precision::F32 => 4,
        Precision::F64 => 8,
    };
    Ok(memory::check(entry.shape_before_data(&config.options, real_bytes), &settings)?)
}

/// The built-in model of a name.
pub fn entry_of(name: &str) -> Result<&'static dyn registry::Entry, Error> {
    registry::find(name).ok_or_else(|| no_model(name))
}

/// What is said of a model that is not built in: a word that is not like any of them may be the name of one's own.
pub(crate) fn no_model(name: &str) -> Error {
    let names = registry::names();
    let problem = motes::settings::unknown("model", name, &names);
    match motes::did_you_mean(name, names) {
        Some(_) => problem.into(),
        None => format!("{problem}, or fit and resume a model of your own in Python (`import motes`)").into(),
    }
}

/// Refuses numbers of threads that help nobody.
pub fn check_threads(threads: Option<usize>) -> Result<(), Error> {
    match threads {
        Some(0) => Err("`threads=0` leaves no thread to work; use 1 or more, or leave it out".into()),
        Some(t) if t > MAX_THREADS => {
            Err(format!("`threads={t}` is more than {MAX_THREADS}; leave it out to use all cores").into())
        }
        _ => Ok(()),
    }
}

/// A pool of so many threads, or one for each core.
pub fn pool(threads: Option<usize>) -> Result<Pool, Error> {
    check_threads(threads)?;
    Ok(Pool::new(threads)?)
}

/// The first of runs/STEM-1, -2, ... that is not taken, made here so that nobody else takes it.
pub fn next_default(stem: &str) -> Result<PathBuf, Error> {
    let runs = Path::new("runs");
    std::fs::create_dir_all(runs).map_err(motes::Error::io("make", runs))?;
    let mut number = 1;
    loop {
        let dir = runs.join(format!("{stem}-{number}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(motes::Error::io("make", &dir)(e).into()),
        }
    }
}

/// What a model of somebody's own says of itself is written down, not read: it must be what it was.
fn refuse_another_model(config: &Config, own: &Table) -> Result<(), Error> {
    if registry::find(&config.model).is_some() {
        return Ok(());
    }
    let differs = |(name, was): (&String, &Value)| {
        let is = own.get(name).unwrap_or(&Value::Null);
        // A file may have a whole number in place of the same one with a point.
        let same = is == was || (is.is_number() && is.as_f64() == was.as_f64());
        (!same).then(|| {
            format!(
                "the model was made with {} = {was} when this config was written, and now has {is}; make it as it was, or `fit-anew()`",
                foreign(name)
            )
        })
    };
    config.options.iter().find_map(differs).map_or(Ok(()), |problem| Err(problem.into()))
}
