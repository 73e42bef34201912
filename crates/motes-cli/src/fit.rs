//! `motes fit` and `motes resume`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use motes::Settings;
use motes::ranks::agree;
use motes::sentence::{Face, foreign_path};
use motes::{Ended, Flow, Observer, Pool, Real, State, StepInfo, Team};
use motes_app::carry::{self, Outcome, Start, Watch};
use motes_app::config::Config;
use motes_app::job::{self, Job, Precise, fewer_steps};
use motes_app::{Error, replicates, show};
use motes_models::registry::{Given, Precision, Problem};

use crate::args::{Ends, FitRest, How, ResumeArgs};
use crate::flags::{OfModel, read_config};
use crate::progress::{Interrupt, Progress};
use crate::ranks;

/// Fits a model.
pub fn fit(args: OfModel<FitRest>) -> Result<Exit, String> {
    let OfModel { mut config, rest } = args;
    let read = || {
        if let Some(file) = &rest.config_file {
            config = config.over(read_config(file)?)?;
        }
        config.make_absolute()?;
        refuse_replicates(&config)?;
        Ok(config)
    };
    let config = ranks::prepared(read())?;
    match replicates::count(&config) {
        Some(_) => crate::replicates::fit(config, rest.how, rest.ends, rest.out),
        None => start(config, rest.how, rest.ends, Where::New(rest.out)),
    }
}

/// Continues a run.
pub fn resume(args: ResumeArgs) -> Result<Exit, String> {
    let (config, other) = ranks::prepared(to_resume(&args))?;
    if replicates::count(&config).is_some() {
        return crate::replicates::resume(config, args.how, args.ends, args.dir, other);
    }
    let place = if other { Where::AtTheta(args.dir) } else { Where::There(args.dir) };
    start(config, args.how, args.ends, place)
}

/// The config of a run that is to go on, and whether it goes on from the end of theta's stage.
fn to_resume(args: &ResumeArgs) -> Result<(Config, bool), String> {
    let mut config = Config::of_run(&args.dir)?;
    // Refused for what it is before it is refused for fewer steps than it never had.
    job::before_data(&config, None, None).map_err(|e| e.within(foreign_path(&args.dir)))?;
    if let Some(steps) = args.steps {
        let before = config.run.steps.unwrap_or(0);
        if steps < before {
            return Err(fewer_steps(steps, before).into());
        }
        config.run.steps = Some(steps);
    }
    let other = args.tolerance.is_some() || args.max_evaluations.is_some();
    if let Some(algorithm) =
        config.run.algorithm.filter(|a| other && !a.takes("tolerance", &Settings::default()))
    {
        return Err(format!(
            "--tolerance and --max-evaluations are for auto, and this run is by {algorithm}; give it --steps instead"
        ));
    }
    if let Some(tolerance) = args.tolerance {
        let before = config.run.tolerance.unwrap_or(tolerance);
        if tolerance >= before {
            return Err(format!(
                "--tolerance {tolerance} is not below {before}, which was asked for before; give a smaller number"
            ));
        }
        config.run.tolerance = Some(tolerance);
    }
    if let Some(evaluations) = args.max_evaluations {
        let before = config.run.max_evaluations.unwrap_or(evaluations);
        if evaluations <= before {
            return Err(format!(
                "--max-evaluations {evaluations} is not above {before}, which was allowed before; give a larger number"
            ));
        }
        config.run.max_evaluations = Some(evaluations);
    }
    refuse_replicates(&config)?;
    Ok((config, other))
}

/// Replicates know nothing of each other, and need no ranks.
fn refuse_replicates(config: &Config) -> Result<(), String> {
    if ranks::ranks().size() == 1 || replicates::count(config).is_none() {
        return Ok(());
    }
    Err("several processes share one run, not --replicates; start these without a launcher, or each process with a seed of its own".into())
}

/// A time as people write it.
pub fn seconds(budget: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(budget) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("--budget {budget} is not a time; give a positive number of seconds")),
    }
}

/// How a command ends that did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Ended early by choice.
    Early,
    /// Done, but the verdict is not ok and that was to be told.
    NotOk,
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Complete => Exit::Done,
            Ended::Early => Exit::Early,
        }
    }
}

fn start(config: Config, how: How, ends: Ends, place: Where) -> Result<Exit, String> {
    let prepare = || {
        let time = ends.budget.map(seconds).transpose()?;
        job::before_data(&config, how.threads, None)?;
        let problem = load(&config)?;
        let job = Job::new(config, problem, None)?;
        Ok((job, time))
    };
    ranks::warn_of_copies();
    let (job, time) = ranks::prepared(prepare())?;
    job.refuse_other_ranks(ranks::ranks())?;
    let interrupt = Interrupt::listen();
    let made = Run { job, how, label: None, time }.carry_out(place, &interrupt);
    let (ended, verdict) = ranks::prepared(made.map_err(String::from))?;
    Ok(match ended {
        Ended::Complete if ends.strict && verdict != "ok" => Exit::NotOk,
        ended => ended.into(),
    })
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
    /// In a directory where a fit by auto goes on from the end of theta's stage.
    AtTheta(PathBuf),
}

/// A run that can begin, and how it is carried out.
pub struct Run {
    pub job: Job,
    pub how: How,
    /// Which run of several this is.
    pub label: Option<String>,
    /// After which it stops, to go on later.
    pub time: Option<Duration>,
}

impl Run {
    /// Makes the run, and shows what it has come to unless it is one of several; how it ended, and its verdict.
    pub fn carry_out(self, place: Where, interrupt: &Interrupt) -> Result<(Ended, String), Error> {
        match self.job.precision {
            Precision::F32 => self.carry_out_in::<f32>(place, interrupt),
            Precision::F64 => self.carry_out_in::<f64>(place, interrupt),
        }
    }

    fn carry_out_in<F: Precise>(self, place: Where, interrupt: &Interrupt) -> Result<(Ended, String), Error> {
        let Run { job, how, label, time } = self;
        let ready = || Ok::<_, Error>((job.model::<F>()?, Pool::new(how.threads)?));
        let (model, pool) = agree(ranks::ranks(), ready())?;
        let start = match place {
            Where::New(Some(dir)) => Start::New(dir),
            Where::New(None) => Start::Next,
            Where::There(dir) => Start::Directory(dir),
            Where::AtTheta(dir) => Start::Theta(dir),
        };
        let quiet = how.quiet || !ranks::speaks();
        let silent = quiet || label.is_some();
        let mut terminal = Terminal::new(&job, label, quiet, interrupt);
        // One clock alone decides.
        terminal.end = time.filter(|_| ranks::speaks()).map(|time| Instant::now() + time);
        let report = (!how.no_report).then_some(Face::Shell);
        let outcome = pool.install(|| {
            let team = Team { ranks: ranks::ranks(), stop: interrupt.stop() };
            carry::carry_out(job, &*model, start, report, &mut terminal, team)
        })?;
        let Outcome { job, state, summary, ended, dir, .. } = outcome;
        let dir = dir.unwrap_or_default();
        let (shown, settings) = (foreign_path(&dir), &job.settings);
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
                let of = match settings.takes("steps") {
                    true => format!("step {} of {}", state.k, settings.steps),
                    false => format!("sweep {}", state.k),
                };
                say!("stopped after {of}; go on with: motes resume {shown}");
            }
        }
        Ok((ended, summary.diagnostics.verdict))
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
    /// When its time is over.
    end: Option<Instant>,
}

impl Terminal {
    fn new(job: &Job, label: Option<String>, quiet: bool, interrupt: &Interrupt) -> Self {
        let budget = job.length.budget().map(|b| b.time);
        let steps = job.settings.takes("steps").then_some(job.settings.steps);
        let progress = Progress::new(steps, budget, label.clone().unwrap_or_default(), quiet);
        Terminal { progress, interrupt: interrupt.clone(), label, quiet, end: None }
    }
}

impl<F: Real> Observer<F> for Terminal {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        self.progress.show(info);
        match self.end {
            Some(end) if info.k > 0 && Instant::now() >= end => Flow::Stop,
            _ => self.interrupt.flow(),
        }
    }
}

impl<F: Real> Watch<F> for Terminal {
    fn stopped(&self) -> bool {
        self.interrupt.is_set()
    }

    fn begins(&mut self, job: &Job, from: Option<&State<F>>) {
        if self.quiet {
            return;
        }
        if self.label.is_none() {
            tell_data(job);
        }
        let label = self.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
        let shared = ranks::ranks().size();
        if shared > 1 {
            say!("{label}shared by {shared} processes");
        }
        job.asides().iter().for_each(|line| say!("{label}{line}"));
        let Some(state) = from else { return };
        let k = state.k;
        let unit = if job.settings.takes("steps") { "step" } else { "sweep" };
        if state.is_over(&job.settings) {
            let more = match job.settings.takes("steps") {
                true => "`steps` asks for more",
                false => "a smaller `tolerance` asks for more",
            };
            say!("the run was finished at {unit} {k}, and nothing is left to do; {more}");
        } else {
            say!("going on from {unit} {k}");
        }
    }

    fn warn(&mut self, line: &str) {
        warn_of(Some(line));
    }

    fn over(&mut self) {
        self.progress.finish();
    }
}
