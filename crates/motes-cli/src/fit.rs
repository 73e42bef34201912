//! `motes fit` and `motes resume`.

use std::io::Write;
use std::path::PathBuf;

use motes::record::RunDirectory;
use motes::sentence::Face;
use motes::{Ended, Error, Model, Observer, Pool, Real, State, Summary};
use motes_app::config::{Config, Precision};
use motes_app::job::{self, Plan, fewer_steps};
use motes_app::{generator::is_config, models, report, show};

use crate::args::{FitArgs, How, ResumeArgs};
use crate::compare::Budget;
use crate::generator::{self, FitModel};
use crate::progress::{Interrupt, Progress};

/// A run that can begin, and how it is carried out.
pub struct Run {
    pub plan: Plan,
    pub how: How,
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
    if args.config_file.as_deref().is_some_and(is_config) {
        if args.model.is_some() || args.config != Config::default() {
            return Err(
                "the config is for the model generator, whose flags are its own; write motes fit generator --config".into()
            );
        }
        let (config, config_file, out, how) = (Default::default(), args.config_file, args.out, args.how);
        return generator::fit(generator::FitGeneratorArgs { config, config_file, out, how });
    }
    let file = args.config_file.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let config = job::gather(args.model.as_deref(), args.config, file)?;
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
    if is_config(&file) {
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

fn start(config: Config, how: How, from: From) -> Result<Ended, String> {
    let plan = job::plan(config, how.threads, None)?;
    let interrupt = Interrupt::install()?;
    Run { plan, how, compared: None }.carry_out(from, &interrupt).map_err(|e| e.to_string())
}

/// What people should know about the data.
pub fn tell_data(plan: &Plan) {
    plan.source.notes.iter().for_each(|note| say!("{note}"));
}

impl Run {
    fn budget(&self) -> Option<Budget> {
        self.compared.as_ref().and_then(|c| c.budget)
    }

    /// What people should know before the first step.
    fn tell(&self) {
        if self.how.quiet {
            return;
        }
        if self.compared.is_none() {
            tell_data(&self.plan);
        }
        let label = self.compared.as_ref().map(|c| format!("{}: ", c.label)).unwrap_or_default();
        if self.plan.auto {
            say!("{label}step size {} (auto)", self.plan.settings.step_size);
        }
        let open = self.budget().is_some_and(|b| b.decides_adjust_after());
        if self.plan.settings.accepts() && self.plan.settings.adjust_after > 0 && !open {
            say!("{label}accept-reject begins after {} steps", self.plan.settings.adjust_after);
        }
    }

    /// Makes the run.
    pub fn carry_out(self, from: From, interrupt: &Interrupt) -> Result<Ended, Error> {
        match self.plan.config.precision {
            Some(Precision::F32) => self.carry_out_in::<f32>(from, interrupt),
            _ => self.carry_out_in::<f64>(from, interrupt),
        }
    }

    fn carry_out_in<F: Real>(self, from: From, interrupt: &Interrupt) -> Result<Ended, Error> {
        let model = self.plan.model::<F>().map_err(Error::Settings)?;
        let pool = Pool::new(self.how.threads)?;
        pool.install(|| loop_and_write(self, &*model, from, interrupt.clone()))
    }
}

fn loop_and_write<F: Real>(
    mut run: Run,
    model: &dyn Model<F>,
    from: From,
    mut interrupt: Interrupt,
) -> Result<Ended, Error> {
    if let Some(every) = run.budget().and_then(|b| b.trace_every(model, &run.plan.settings)) {
        run.plan.config.trace_every = Some(every);
        run.plan.settle()?;
    }
    let (settings, recording) = (&run.plan.settings, run.plan.config.recording());
    let (state, mut directory) = match from {
        From::Scratch { out } => {
            let out = match out {
                Some(out) => out,
                None => job::next_default(&format!("{}-{}", model.name(), settings.algorithm))?,
            };
            let directory = RunDirectory::create(&out, &run.plan.text, model, settings, recording)?;
            run.tell();
            (motes::start_unless(model, settings, || interrupt.is_set())?, directory)
        }
        From::Directory(dir) => {
            let mut state = State::initial(model, settings);
            let (directory, warnings) = RunDirectory::resume(&dir, model, settings, recording, &mut state)?;
            warnings.iter().for_each(|w| say!("warning: {w}"));
            RunDirectory::write_config(&dir, &run.plan.text)?;
            run.tell();
            if !run.how.quiet {
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
        if !run.how.quiet {
            let dir = directory.path().display();
            say!("stopped in the warm start, which begins again with: motes resume {dir}");
        }
        return Ok(Ended::Early);
    };
    let label = run.compared.as_ref().map(|c| c.label.clone()).unwrap_or_default();
    let budget = run.budget();
    let mut progress = Progress::new(settings.steps, budget.map(|b| b.time), label, run.how.quiet);
    let outcome = match budget {
        None => {
            let mut observers: [&mut dyn Observer<F>; 2] = [&mut progress, &mut interrupt];
            motes::run(model, settings, &mut state, Some(&mut directory), &mut observers)
        }
        Some(budget) => {
            budget.run(model, &mut run.plan, &mut state, &mut directory, &mut progress, &mut interrupt)
        }
    };
    progress.finish();
    let (ended, spent) = match outcome {
        Ok(outcome) => outcome,
        Err(e) => {
            if e.is_divergence() && !run.how.no_report {
                let path = directory.path().to_path_buf();
                drop(directory); // the last rows of the trace are written
                warn_of(report::after_run(&path, Some(&e.to_string())));
            }
            return Err(e);
        }
    };
    let settings = &run.plan.settings;
    if ended == Ended::Early {
        if !run.how.no_report {
            warn_of(report::after_run(directory.path(), None));
        }
        if !run.how.quiet && run.compared.is_none() {
            let dir = directory.path().display();
            say!("stopped after step {} of {}; go on with: motes resume {dir}", state.k, settings.steps);
        }
        return Ok(ended);
    }
    let seconds = directory.seconds_before() + spent.as_secs_f64();
    let choices = serde_json::to_value(&run.plan.config).expect("a config is plain data");
    let mut summary = Summary::of(model, settings, choices, &state, seconds);
    summary.data = run.plan.source.remember.as_ref().map(|r| serde_json::to_value(r).expect("plain data"));
    directory.finish(model, settings, &state, spent, &summary)?;
    if !run.how.no_report {
        warn_of(report::after_run(directory.path(), None));
    }
    if !run.how.quiet && run.compared.is_none() {
        let text = show::summary(&summary, directory.path(), Face::Shell);
        // The files are written: whoever has closed the pipe has seen enough.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
    Ok(ended)
}

/// Says what could not be written after a run.
pub fn warn_of(warning: Option<String>) {
    if let Some(warning) = warning {
        say!("warning: {warning}");
    }
}
