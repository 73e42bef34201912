//! Everything that is settled before the first step of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use motes::memory;
use motes::settings::Settings;
use motes::{Error, Model, Pool, Real};

use crate::config::{Config, Defaults, Precision, StepSize};
use crate::models::{self, Source};

/// More threads than any machine has cores only take long to start.
const MAX_THREADS: usize = 1024;

/// A run that is fully described and can begin.
pub struct Plan {
    /// Every choice that was made.
    pub config: Config,
    /// The config as it is written.
    pub text: String,
    /// Whether the step size was chosen here.
    pub auto: bool,
    /// What the choices amount to.
    pub settings: Settings,
    /// The model's data.
    pub source: Arc<Source>,
}

/// What flags and a config file say together.
pub fn gather(model: Option<&str>, mut flags: Config, mut file: Config) -> Result<Config, String> {
    let model = models::name(model, file.model.as_deref())?;
    flags.model = Some(model);
    file.make_way_for(&flags);
    let mut config = flags.or(file);
    make_absolute([&mut config.data, &mut config.test, &mut config.labels].into_iter().flatten())?;
    Ok(config)
}

/// A run is resumed from anywhere.
pub fn make_absolute<'a>(paths: impl Iterator<Item = &'a mut PathBuf>) -> Result<(), String> {
    for path in paths {
        let absolute = std::path::absolute(&path);
        *path = absolute.map_err(|e| format!("cannot use {}: {e}; check the path", path.display()))?;
    }
    Ok(())
}

/// What is said to a new total of steps below the old one.
pub fn fewer_steps(steps: u64, before: u64) -> String {
    format!("--steps {steps} is the new total and {before} were asked for before; give a larger number")
}

/// Settles everything that can be settled before the first step. Data that were read for `config` before are given.
pub fn plan(mut config: Config, threads: Option<usize>, source: Option<Arc<Source>>) -> Result<Plan, String> {
    let model = config.model.clone().ok_or("the config names no model; add model = \"...\"")?;
    let defaults = models::defaults(&model);
    before_data(&config, threads, &config.settings(&defaults)?)?;
    let source = match source {
        Some(source) => source,
        None => Arc::new(Source::load(&mut config)?),
    };
    // The curvature needs no precision of its own.
    let auto_step_size = |settings: &Settings| Ok(settings.auto_step_size(&*source.build::<f64>()?));
    let Resolved { config, settings, auto, .. } =
        resolve(config, &defaults, Some(&source.sha256), auto_step_size)?;
    let text = config.to_toml()?;
    Ok(Plan { config, text, auto, settings, source })
}

/// Refuses what is too much before any data are read.
pub fn before_data(config: &Config, threads: Option<usize>, settings: &Settings) -> Result<(), String> {
    check_threads(threads)?;
    let model = config.model.as_deref().unwrap_or_default();
    let precision = config.precision.unwrap_or(models::defaults(model).precision);
    let real_bytes = if precision == Precision::F32 { 4 } else { 8 };
    memory::check(models::shape_before_data(model, config, real_bytes), settings)
}

impl Plan {
    /// Takes over what the settings became on the way.
    pub fn settle(&mut self) -> Result<(), Error> {
        let precision = self.config.precision.unwrap_or(Precision::F64);
        self.config = self.config.resolved(&self.settings, precision);
        self.text = self.config.to_toml().map_err(Error::Settings)?;
        Ok(())
    }

    /// Refuses what the model cannot do.
    pub fn check(&self) -> Result<(), String> {
        match self.config.precision {
            Some(Precision::F32) => self.model::<f32>().map(drop),
            _ => self.model::<f64>().map(drop),
        }
    }

    /// The model in the chosen precision, which can do what the settings ask of it.
    pub fn model<F: Real>(&self) -> Result<Box<dyn Model<F>>, String> {
        let model = self.source.build::<F>()?;
        self.settings.validate(&*model).map_err(|e| e.to_string())?;
        let (d_theta, d_x) = (model.d_theta(), model.d_x());
        let shape = memory::Shape { d_theta, d_x, data_bytes: 0, real_bytes: size_of::<F>() };
        memory::check(shape, &self.settings)?;
        Ok(model)
    }
}

/// A config with every choice made.
pub struct Resolved {
    /// The choices.
    pub config: Config,
    /// What they amount to.
    pub settings: Settings,
    /// Of the particles.
    pub precision: Precision,
    /// Whether the step size was chosen here.
    pub auto: bool,
}

/// Makes every choice that a config leaves open, and refuses data other than those it was written for.
pub fn resolve(
    mut config: Config,
    defaults: &Defaults,
    sha256: Option<&str>,
    auto_step_size: impl FnOnce(&Settings) -> Result<f64, String>,
) -> Result<Resolved, String> {
    let mut settings = config.settings(defaults)?;
    let precision = config.precision.unwrap_or(defaults.precision);
    if sha256.is_some() && config.data_sha256.as_deref().is_some_and(|sha| Some(sha) != sha256) {
        return Err(
            "the data have changed since this config was written (their SHA-256 differs); restore them or start a new run without --config".into(),
        );
    }
    config.data_sha256 = sha256.map(String::from);
    let auto = !matches!(config.step_size, Some(StepSize::Value(_))) && settings.takes("step-size");
    if auto {
        settings.step_size = auto_step_size(&settings)?;
    }
    let config = config.resolved(&settings, precision);
    Ok(Resolved { config, settings, precision, auto })
}

fn check_threads(threads: Option<usize>) -> Result<(), String> {
    match threads {
        Some(0) => Err("--threads 0 leaves nobody to work; use 1 or more, or leave it out".into()),
        Some(t) if t > MAX_THREADS => {
            Err(format!("--threads {t} is more than {MAX_THREADS}; leave it out to use all cores"))
        }
        _ => Ok(()),
    }
}

/// A pool of so many threads, or one for each core.
pub fn pool(threads: Option<usize>) -> Result<Pool, String> {
    check_threads(threads)?;
    Pool::new(threads).map_err(|e| e.to_string())
}

/// The first of runs/STEM-1, -2, ... that is not taken, made here so that nobody else takes it.
pub fn next_default(stem: &str) -> Result<PathBuf, Error> {
    let runs = Path::new("runs");
    std::fs::create_dir_all(runs).map_err(Error::io("make", runs))?;
    let mut number = 1;
    loop {
        let dir = runs.join(format!("{stem}-{number}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(Error::io("make", &dir)(e)),
        }
    }
}
