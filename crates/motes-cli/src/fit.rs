//! `motes fit` and `motes resume`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use motes::memory;
use motes::record::RunDirectory;
use motes::settings::{Algorithm, Settings};
use motes::{Ended, Error, Model, Observer, Pool, Real, State, Summary};

use crate::args::{FitArgs, How, ResumeArgs};
use crate::compare::Budget;
use crate::config::{Config, Defaults, Precision, StepSize};
use crate::generator::{self, FitModel};
use crate::models::{self, Source};
use crate::progress::{Interrupt, Progress};
use crate::show;

/// More threads than any machine has cores only take long to start.
const MAX_THREADS: usize = 1024;

/// A run that is fully described and can begin.
pub struct Plan {
    pub config: Config,
    /// The config as it is written.
    pub text: String,
    /// Whether the step size was chosen here.
    auto: bool,
    pub settings: Settings,
    pub source: Arc<Source>,
    how: How,
    /// The place among the runs of a comparison.
    pub compared: Option<Compared>,
}

/// What is different for a run that is one of several.
#[derive(Clone)]
pub struct Compared {
    /// What progress begins with.
    pub label: String,
    /// The time to run for, instead of a number of steps.
    pub budget: Option<Budget>,
}

impl Plan {
    fn budget(&self) -> Option<Budget> {
        self.compared.as_ref().and_then(|c| c.budget)
    }

    /// What people should know about the data.
    pub fn tell_data(&self) {
        self.source.notes.iter().for_each(|note| say!("{note}"));
    }

    /// What people should know before the first step.
    fn tell(&self) {
        if self.how.quiet {
            return;
        }
        if self.compared.is_none() {
            self.tell_data();
        }
        let label = self.compared.as_ref().map(|c| format!("{}: ", c.label)).unwrap_or_default();
        if self.auto {
            say!("{label}step size {} (auto)", self.settings.step_size);
        }
        let open = self.budget().is_some_and(|b| b.decides_adjust_after());
        if self.settings.accepts() && self.settings.adjust_after > 0 && !open {
            say!("{label}accept-reject begins after {} steps", self.settings.adjust_after);
        }
    }
}

/// Where a run begins.
pub enum From {
    Scratch { out: Option<PathBuf> },
    Directory(PathBuf),
}

/// Fits a model.
pub fn fit(args: FitArgs) -> Result<Ended, String> {
    if let Some(FitModel::Generator(args)) = args.special {
        return generator::fit(*args);
    }
    if args.config_file.as_deref().is_some_and(generator::is_config) {
        if args.model.is_some() || args.config != Config::default() {
            return Err(
                "the config is for the model generator, whose flags are its own; write motes fit generator --config".into()
            );
        }
        let (config, config_file, out, how) = (Default::default(), args.config_file, args.out, args.how);
        return generator::fit(generator::FitGeneratorArgs { config, config_file, out, how });
    }
    let file = args.config_file.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let config = gather(args.model.as_deref(), args.config, file)?;
    start(config, args.how, From::Scratch { out: args.out })
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

/// Continues a run.
pub fn resume(args: ResumeArgs) -> Result<Ended, String> {
    let file = args.dir.join("config.toml");
    if !file.exists() {
        return Err(format!(
            "{} is not a run directory (it has no config.toml); give the directory that `motes fit` named",
            args.dir.display()
        ));
    }
    if generator::is_config(&file) {
        return generator::resume(args);
    }
    let mut config = Config::read(&file)?;
    models::name(None, config.model.as_deref())?;
    if let Some(steps) = args.steps {
        let before = config.steps.unwrap_or(0);
        if steps < before {
            return Err(fewer_steps(steps, before));
        }
        config.steps = Some(steps);
    }
    start(config, args.how, From::Directory(args.dir))
}

/// What is said to a new total of steps below the old one.
pub fn fewer_steps(steps: u64, before: u64) -> String {
    format!("--steps {steps} is the new total and {before} were asked for before; give a larger number")
}

fn start(config: Config, how: How, from: From) -> Result<Ended, String> {
    let plan = plan(config, how, None)?;
    let interrupt = Interrupt::listen();
    plan.carry_out(from, &interrupt).map_err(|e| e.to_string())
}

/// Settles everything that can be settled before the first step. Data that were read for `config` before are given.
pub fn plan(mut config: Config, how: How, source: Option<Arc<Source>>) -> Result<Plan, String> {
    let model = config.model.clone().ok_or("the config names no model; add model = \"...\"")?;
    let defaults = models::defaults(&model);
    before_data(&config, &how, &config.settings(&defaults)?)?;
    let source = match source {
        Some(source) => source,
        None => Arc::new(Source::load(&mut config)?),
    };
    // The curvature needs no precision of its own.
    let auto_step_size = |settings: &Settings| Ok(settings.auto_step_size(&*source.build::<f64>()?));
    let Resolved { config, settings, auto, .. } =
        resolve(config, &defaults, Some(&source.sha256), auto_step_size)?;
    let text = config.to_toml()?;
    Ok(Plan { config, text, auto, settings, source, how, compared: None })
}

/// Refuses what is too much before any data are read.
pub fn before_data(config: &Config, how: &How, settings: &Settings) -> Result<(), String> {
    check_threads(how.threads)?;
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

    fn model<F: Real>(&self) -> Result<Box<dyn Model<F>>, String> {
        let model = self.source.build::<F>()?;
        self.settings.validate(&*model).map_err(|e| e.to_string())?;
        let (d_theta, d_x) = (model.d_theta(), model.d_x());
        let shape = memory::Shape { d_theta, d_x, data_bytes: 0, real_bytes: size_of::<F>() };
        memory::check(shape, &self.settings)?;
        Ok(model)
    }

    /// Makes the run.
    pub fn carry_out(self, from: From, interrupt: &Interrupt) -> Result<Ended, Error> {
        match self.config.precision {
            Some(Precision::F32) => self.carry_out_in::<f32>(from, interrupt),
            _ => self.carry_out_in::<f64>(from, interrupt),
        }
    }

    fn carry_out_in<F: Real>(self, from: From, interrupt: &Interrupt) -> Result<Ended, Error> {
        let model = self.model::<F>().map_err(Error::Settings)?;
        let pool = Pool::new(self.how.threads)?;
        pool.install(|| loop_and_write(self, &*model, from, interrupt.clone()))
    }
}

/// A config with every choice made.
pub struct Resolved {
    pub config: Config,
    pub settings: Settings,
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
    let auto = !matches!(config.step_size, Some(StepSize::Value(_))) && settings.algorithm != Algorithm::Em;
    if auto {
        settings.step_size = auto_step_size(&settings)?;
    }
    let config = config.resolved(&settings, precision);
    Ok(Resolved { config, settings, precision, auto })
}

fn loop_and_write<F: Real>(
    mut plan: Plan,
    model: &dyn Model<F>,
    from: From,
    mut interrupt: Interrupt,
) -> Result<Ended, Error> {
    if let Some(every) = plan.budget().and_then(|b| b.trace_every(model, &plan.settings)) {
        plan.config.trace_every = Some(every);
        plan.settle()?;
    }
    let (settings, recording) = (&plan.settings, plan.config.recording());
    let (state, mut directory) = match from {
        From::Scratch { out } => {
            let out = match out {
                Some(out) => out,
                None => next_default(&format!("{}-{}", model.name(), settings.algorithm))?,
            };
            let directory = RunDirectory::create(&out, &plan.text, model, settings, recording)?;
            plan.tell();
            (motes::start_unless(model, settings, || interrupt.is_set())?, directory)
        }
        From::Directory(dir) => {
            let mut state = State::initial(model, settings);
            let (directory, warnings) = RunDirectory::resume(&dir, model, settings, recording, &mut state)?;
            warnings.iter().for_each(|w| say!("warning: {w}"));
            RunDirectory::write_config(&dir, &plan.text)?;
            plan.tell();
            if !plan.how.quiet {
                say!("going on from step {}", state.k);
            }
            if state.k == 0 {
                (motes::start_unless(model, settings, || interrupt.is_set())?, directory)
            } else {
                (Some(state), directory)
            }
        }
    };
    let Some(mut state) = state else {
        if !plan.how.quiet {
            let dir = directory.path().display();
            say!("stopped in the warm start, which begins again with: motes resume {dir}");
        }
        return Ok(Ended::Early);
    };
    let label = plan.compared.as_ref().map(|c| c.label.clone()).unwrap_or_default();
    let budget = plan.budget();
    let mut progress = Progress::new(settings.steps, budget.map(|b| b.time), label, plan.how.quiet);
    let outcome = match budget {
        None => {
            let mut observers: [&mut dyn Observer<F>; 2] = [&mut progress, &mut interrupt];
            motes::run(model, settings, &mut state, Some(&mut directory), &mut observers)
        }
        Some(budget) => {
            budget.run(model, &mut plan, &mut state, &mut directory, &mut progress, &mut interrupt)
        }
    };
    progress.finish();
    let (ended, spent) = match outcome {
        Ok(outcome) => outcome,
        Err(e) => {
            if e.is_divergence() && !plan.how.no_report {
                let path = directory.path().to_path_buf();
                drop(directory); // the last rows of the trace are written
                crate::report::after_run(&path, Some(&e.to_string()));
            }
            return Err(e);
        }
    };
    let settings = &plan.settings;
    if ended == Ended::Early {
        if !plan.how.no_report {
            crate::report::after_run(directory.path(), None);
        }
        if !plan.how.quiet && plan.compared.is_none() {
            let dir = directory.path().display();
            say!("stopped after step {} of {}; go on with: motes resume {dir}", state.k, settings.steps);
        }
        return Ok(ended);
    }
    let seconds = directory.seconds_before() + spent.as_secs_f64();
    let choices = serde_json::to_value(&plan.config).expect("a config is plain data");
    let mut summary = Summary::of(model, settings, choices, &state, seconds);
    summary.data = plan.source.remember.as_ref().map(|r| serde_json::to_value(r).expect("plain data"));
    directory.finish(model, settings, &state, spent, &summary)?;
    if !plan.how.no_report {
        crate::report::after_run(directory.path(), None);
    }
    if !plan.how.quiet && plan.compared.is_none() {
        let text = show::summary(&summary, model, settings, &state, directory.path());
        // The files are written: whoever has closed the pipe has seen enough.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
    Ok(ended)
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

/// A thread pool as the command line asks for it.
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
