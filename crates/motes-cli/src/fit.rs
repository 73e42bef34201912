//! `motes fit` and `motes resume`.

use std::path::PathBuf;
use std::sync::Arc;

use motes::sentence::Face;
use motes::{Ended, Flow, Observer, Pool, Real, StepInfo};
use motes_app::carry::{self, Outcome, Start, Watch};
use motes_app::config::Config;
use motes_app::job::{self, Job, Precise, fewer_steps};
use motes_app::{Error, show};
use motes_models::registry::{Given, Precision, Problem};

use crate::args::{FitRest, How, ResumeArgs};
use crate::flags::{OfModel, read_config};
use crate::progress::{Interrupt, Progress};

/// Fits a model.
pub fn fit(args: OfModel<FitRest>) -> Result<Ended, String> {
    let OfModel { mut config, rest } = args;
    if let Some(file) = &rest.config_file {
        config = config.over(read_config(file)?)?;
    }
    config.make_absolute()?;
    start(config, rest.how, Where::New(rest.out))
}

/// Continues a run.
pub fn resume(args: ResumeArgs) -> Result<Ended, String> {
    let mut config = Config::of_run(&args.dir)?;
    // Refused for what it is before it is refused for fewer steps than it never had.
    job::before_data(&config, None, None).map_err(|e| e.within(args.dir.display()))?;
    if let Some(steps) = args.steps {
        let before = config.run.steps.unwrap_or(0);
        if steps < before {
            return Err(fewer_steps(steps, before).into());
        }
        config.run.steps = Some(steps);
    }
    start(config, args.how, Where::There(args.dir))
}

fn start(config: Config, how: How, place: Where) -> Result<Ended, String> {
    job::before_data(&config, how.threads, None)?;
    let problem = load(&config)?;
    let job = Job::new(config, problem, None)?;
    let interrupt = Interrupt::listen();
    Ok(Run { job, how, label: None }.carry_out(place, &interrupt)?)
}

/// The model of a config, with its data.
pub fn load(config: &Config) -> Result<Arc<dyn Problem>, Error> {
    Ok(job::entry_of(&config.model)?.load(config.options.clone(), Given::Options)?)
}

/// Where a run is.
pub enum Where {
    /// In a new directory: this one, or the next free one.
    New(Option<PathBuf>),
    /// In a directory that holds what was done of it.
    There(PathBuf),
}

/// A run that can begin, and how it is carried out.
pub struct Run {
    pub job: Job,
    pub how: How,
    /// Which run of several this is.
    pub label: Option<String>,
}

impl Run {
    /// Makes the run, and shows what it has come to unless it is one of several.
    pub fn carry_out(self, place: Where, interrupt: &Interrupt) -> Result<Ended, Error> {
        match self.job.precision {
            Precision::F32 => self.carry_out_in::<f32>(place, interrupt),
            Precision::F64 => self.carry_out_in::<f64>(place, interrupt),
        }
    }

    fn carry_out_in<F: Precise>(self, place: Where, interrupt: &Interrupt) -> Result<Ended, Error> {
        let Run { job, how, label } = self;
        let model = job.model::<F>()?;
        let start = match place {
            Where::New(Some(dir)) => Start::New(dir),
            Where::New(None) => Start::Next,
            Where::There(dir) => Start::Directory(dir),
        };
        let silent = how.quiet || label.is_some();
        let mut terminal = Terminal::new(&job, label, how.quiet, interrupt);
        let pool = Pool::new(how.threads)?;
        let outcome = pool.install(|| {
            carry::carry_out(job, &*model, start, !how.no_report, &mut terminal, interrupt.stop())
        })?;
        let Outcome { job, state, summary, ended, dir, .. } = outcome;
        let dir = dir.unwrap_or_default();
        let (shown, settings) = (dir.display(), &job.settings);
        match ended {
            _ if silent => {}
            Ended::Complete => {
                let text = show::summary(&summary, &dir, Face::Shell);
                crate::tell(&text);
            }
            Ended::Early if state.k == 0 => {
                say!("stopped in the warm start, which begins again with: motes resume {shown}");
            }
            Ended::Early => {
                let (k, steps) = (state.k, settings.steps);
                say!("stopped after step {k} of {steps}; go on with: motes resume {shown}");
            }
        }
        Ok(ended)
    }
}

/// What people should know about the data.
pub fn tell_data(job: &Job) {
    job.problem.notes().iter().for_each(|note| say!("{note}"));
}

/// Says what could not be written after a run.
pub fn warn_of(warning: Option<&str>) {
    if let Some(warning) = warning {
        say!("warning: {warning}");
    }
}

/// Who watches a run in a terminal.
struct Terminal {
    progress: Progress,
    interrupt: Interrupt,
    label: Option<String>,
    quiet: bool,
}

impl Terminal {
    fn new(job: &Job, label: Option<String>, quiet: bool, interrupt: &Interrupt) -> Self {
        let budget = job.length.budget().map(|b| b.time);
        let progress = Progress::new(job.settings.steps, budget, label.clone().unwrap_or_default(), quiet);
        Terminal { progress, interrupt: interrupt.clone(), label, quiet }
    }
}

impl<F: Real> Observer<F> for Terminal {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        self.progress.show(info);
        self.interrupt.flow()
    }
}

impl<F: Real> Watch<F> for Terminal {
    fn stopped(&self) -> bool {
        self.interrupt.is_set()
    }

    fn begins(&mut self, job: &Job, from: Option<u64>) {
        if self.quiet {
            return;
        }
        if self.label.is_none() {
            tell_data(job);
        }
        let label = self.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
        job.asides().iter().for_each(|line| say!("{label}{line}"));
        if let Some(k) = from {
            say!("going on from step {k}");
        }
    }

    fn warn(&mut self, line: &str) {
        warn_of(Some(line));
    }

    fn over(&mut self) {
        self.progress.finish();
    }
}
