//! `motes fit` and `motes resume`.

use std::io::Write;
use std::path::{Path, PathBuf};

use motes::memory;
use motes::record::RunDirectory;
use motes::settings::{Algorithm, Settings};
use motes::{Ended, Error, Model, Observer, Pool, Real, State, Summary};

use crate::args::{FitArgs, How, ResumeArgs};
use crate::config::{Config, Precision, StepSize};
use crate::generator::{self, FitModel};
use crate::models::{self, Source};
use crate::progress::{Interrupt, Progress};
use crate::show;

/// More threads than any machine has cores only take long to start.
const MAX_THREADS: usize = 1024;

/// A run that is fully described and can begin.
struct Plan {
    config: Config,
    /// The config as it is written.
    text: String,
    /// Whether the step size was chosen here.
    auto: bool,
    settings: Settings,
    source: Source,
    how: How,
}

impl Plan {
    /// What people should know before the first step.
    fn tell(&self) {
        if self.how.quiet {
            return;
        }
        self.source.notes.iter().for_each(|note| say!("{note}"));
        if self.auto {
            say!("step size {} (auto)", self.settings.step_size);
        }
        if self.settings.accepts() && self.settings.adjust_after > 0 {
            say!("accept-reject begins after {} steps", self.settings.adjust_after);
        }
    }
}

/// Where a run begins.
enum From {
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
    let mut file = args.config_file.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let model = models::name(args.model.as_deref(), file.model.as_deref())?;
    let mut flags = args.config;
    flags.model = Some(model);
    file.make_way_for(&flags);
    let mut config = flags.or(file);
    for path in [&mut config.data, &mut config.test].into_iter().flatten() {
        // A run is resumed from anywhere.
        let absolute = std::path::absolute(&path);
        *path = absolute.map_err(|e| format!("cannot use {}: {e}; check the path", path.display()))?;
    }
    start(config, args.how, From::Scratch { out: args.out })
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
    if let Some(steps) = args.steps {
        let before = config.steps.unwrap_or(0);
        if steps < before {
            return Err(format!(
                "--steps {steps} is the new total and {before} were asked for before; give a larger number"
            ));
        }
        config.steps = Some(steps);
    }
    start(config, args.how, From::Directory(args.dir))
}

fn start(mut config: Config, how: How, from: From) -> Result<Ended, String> {
    let model = config.model.clone().ok_or("the config names no model; add model = \"...\"")?;
    let defaults = models::defaults(&model);
    let precision = config.precision.unwrap_or(defaults.precision);
    let real_bytes = if precision == Precision::F32 { 4 } else { 8 };
    let mut settings = config.settings(&defaults)?;
    check_threads(how.threads)?;
    memory::check(models::shape_before_data(&model, &config, real_bytes), &settings)?;
    let source = Source::load(&mut config)?;
    if config.data_sha256.as_ref().is_some_and(|sha| *sha != source.sha256) {
        return Err(
            "the data have changed since this config was written (their SHA-256 differs); restore them or start a new run without --config".into(),
        );
    }
    config.data_sha256 = Some(source.sha256.clone());
    let auto = !matches!(config.step_size, Some(StepSize::Value(_))) && settings.algorithm != Algorithm::Em;
    if auto {
        // The curvature needs no precision of its own.
        settings.step_size = settings.auto_step_size(&*source.build::<f64>()?);
    }
    config = config.resolved(&settings, precision);
    let text = config.to_toml()?;
    let plan = Plan { config, text, auto, settings, source, how };
    match precision {
        Precision::F32 => carry_out::<f32>(plan, from),
        Precision::F64 => carry_out::<f64>(plan, from),
    }
}

fn carry_out<F: Real>(plan: Plan, from: From) -> Result<Ended, String> {
    let model = plan.source.build::<F>()?;
    let model = &*model;
    plan.settings.validate(model).map_err(|e| e.to_string())?;
    let real_bytes = size_of::<F>();
    let d_x = model.d_x();
    let shape = memory::Shape { d_theta: model.d_theta(), d_x, data_bytes: 0, real_bytes };
    memory::check(shape, &plan.settings)?;
    let pool = Pool::new(plan.how.threads).map_err(|e| e.to_string())?;
    let interrupt = Interrupt::install().map_err(|e| format!("cannot listen for Ctrl-C: {e}; try again"))?;
    pool.install(|| loop_and_write(&plan, model, from, interrupt)).map_err(|e| e.to_string())
}

fn loop_and_write<F: Real>(
    plan: &Plan,
    model: &dyn Model<F>,
    from: From,
    mut interrupt: Interrupt,
) -> Result<Ended, Error> {
    let (settings, recording) = (&plan.settings, plan.config.recording());
    let (mut state, mut directory) = match from {
        From::Scratch { out } => {
            let out = match out {
                Some(out) => out,
                None => next_default(model.name(), settings.algorithm)?,
            };
            let directory = RunDirectory::create(&out, &plan.text, model, settings, recording)?;
            plan.tell();
            (motes::start(model, settings)?, directory)
        }
        From::Directory(dir) => {
            let mut state = State::initial(model, settings);
            let (directory, warnings) = RunDirectory::resume(&dir, model, settings, recording, &mut state)?;
            warnings.iter().for_each(|w| say!("warning: {w}"));
            RunDirectory::write_config(&dir, &plan.text)?;
            plan.tell();
            if state.k == 0 {
                state = motes::start(model, settings)?;
            }
            if !plan.how.quiet {
                say!("going on from step {}", state.k);
            }
            (state, directory)
        }
    };
    let mut progress = Progress::new(settings.steps, plan.how.quiet);
    let mut observers: [&mut dyn Observer<F>; 2] = [&mut progress, &mut interrupt];
    let outcome = motes::run(model, settings, &mut state, Some(&mut directory), &mut observers);
    progress.finish();
    let (ended, spent) = outcome?;
    if ended == Ended::Early {
        if !plan.how.quiet {
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
        crate::report::after_run(directory.path());
    }
    if !plan.how.quiet {
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

/// The first of runs/MODEL-ALGORITHM-1, -2, ... that is not taken, made here so that nobody else takes it.
pub fn next_default(model: &str, algorithm: impl std::fmt::Display) -> Result<PathBuf, Error> {
    let runs = Path::new("runs");
    std::fs::create_dir_all(runs).map_err(Error::io("make", runs))?;
    let mut number = 1;
    loop {
        let dir = runs.join(format!("{model}-{algorithm}-{number}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(Error::io("make", &dir)(e)),
        }
    }
}
