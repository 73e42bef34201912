//! Runs: fitted, saved, loaded and resumed as the command line does it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use motes::record::posterior_npz;
use motes::sentence::{Face, foreign, foreign_path};
use motes::{Ended, Model, Pool, State, Stop};
use motes_app::Error;
use motes_app::carry::{self, Outcome, Start};
use motes_app::config::Config;
use motes_app::job::{self, Job, Precise, fewer_steps};
use motes_app::replicates::{self, Part, Trace};
use motes_models::data::Unknown;
use motes_models::registry::{self, Given, Precision, Predicted};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::callables::{PyReal, Trouble};
use crate::errors::{exception, failure, in_python, value_error};
use crate::problem::{Kind, Problem, frame, loaded, settings_from};
use crate::watch::{Signals, Watch, attended, known_to_python, unless_interrupted};

/// Numbers for Python.
type Numbers<'py> = Bound<'py, PyArray1<f64>>;

/// A run with its model; its trace is that of trace.csv where it has a directory.
struct Done<F> {
    model: Arc<dyn Model<F>>,
    outcome: Outcome<F>,
}

enum Either {
    Single(Done<f32>),
    Double(Done<f64>),
}

/// Calls the same code for either precision.
macro_rules! of_either {
    ($run:expr, $done:ident => $body:expr) => {
        match $run {
            Either::Single($done) => $body,
            Either::Double($done) => $body,
        }
    };
}

/// A fitted model.
#[pyclass(frozen, module = "motes._core")]
pub struct Run {
    kind: Kind,
    precise: Either,
    interrupted: bool,
    out_of_time: bool,
    trouble: Trouble,
}

/// How a run is carried out; results do not depend on it.
#[derive(FromPyObject)]
pub struct How {
    pub threads: Option<usize>,
    pub report: bool,
    pub tick: Option<Py<PyAny>>,
    pub callback: Option<Py<PyAny>>,
    pub callback_every: u64,
    /// Seconds after which it stops, to go on later.
    pub budget: Option<f64>,
}

/// Fits a model; the settings are JSON, named as in config.toml.
#[pyfunction]
#[pyo3(signature = (problem, settings, out, how))]
pub fn fit(
    py: Python<'_>,
    problem: &Problem,
    settings: &str,
    out: Option<PathBuf>,
    how: How,
) -> PyResult<Run> {
    let kind = problem.kind.clone();
    let trouble = Trouble::default();
    let mut config = settings_from(kind.name(), settings)?;
    let note = kind.choose(&mut config);
    let job = settled(py, &kind, config, &trouble)?;
    let mut run = match job.precision {
        Precision::F32 => {
            let model = built::<f32>(py, &kind, &job, &trouble)?;
            carry_out(py, kind, job, model, out.map_or(Start::Memory, Start::New), how, trouble)?
        }
        Precision::F64 => {
            let model = built::<f64>(py, &kind, &job, &trouble)?;
            carry_out(py, kind, job, model, out.map_or(Start::Memory, Start::New), how, trouble)?
        }
    };
    of_either!(&mut run.precise, done => done.outcome.notes.extend(note));
    Ok(run)
}

/// Makes a directory for replicates of a fit.
#[pyfunction]
#[pyo3(signature = (problem, settings, dir))]
pub fn begin_replicates(py: Python<'_>, problem: &Problem, settings: &str, dir: PathBuf) -> PyResult<()> {
    let (kind, trouble) = (problem.kind.clone(), Trouble::default());
    let mut config = settings_from(kind.name(), settings)?;
    kind.choose(&mut config);
    let mut several = settled(py, &kind, config, &trouble)?;
    py.detach(|| replicates::create(&mut several, &dir)).map_err(failure)
}

/// How many replicates a config asks for; 0 if it is that of one run.
#[pyfunction]
pub fn replicates_of(config: PathBuf) -> PyResult<u64> {
    let config = Config::read(&config).map_err(failure)?;
    Ok(replicates::count(&config).unwrap_or(0))
}

/// What replicates come to together, as JSON; if they are all finished it is written into their directory, if they have one.
#[pyfunction]
#[pyo3(signature = (runs, count, dir, report))]
pub fn pool(
    py: Python<'_>,
    runs: Vec<PyRef<'_, Run>>,
    count: u64,
    dir: Option<PathBuf>,
    report: bool,
) -> PyResult<(String, Vec<String>)> {
    let parts: Vec<Part<'_>> = runs
        .iter()
        .zip(1..)
        .map(|(run, number)| {
            of_either!(&run.precise, done => Part {
                name: replicates::name(number),
                summary: &done.outcome.summary,
                trace: Trace::Text(&done.outcome.trace),
            })
        })
        .collect();
    let Some(first) = runs.first() else {
        return Err(value_error("there are no replicates to pool; fit them first".to_string()));
    };
    let several = first.several(count);
    let summary = replicates::pooled(&several.config, &parts);
    let Some(dir) = dir else { return Ok((summary.to_json(), Vec::new())) };
    // What was chosen for the first holds for all, and its files are their own.
    let mut config = Config::of_run(&dir).map_err(failure)?;
    config.run = several.config.run;
    let written = py.detach(|| -> Result<_, Error> {
        motes::record::RunDirectory::write_config(&dir, &config.to_toml_in(&dir))?;
        let done = parts_are_complete(&dir, count);
        match done {
            true => replicates::finish(&dir, &config, report.then_some(Face::Python))
                .map(|(summary, note)| (Some(summary), note)),
            false => Ok((None, None)),
        }
    });
    let (written, note) = written.map_err(failure)?;
    Ok((written.unwrap_or(summary).to_json(), note.iter().map(|note| in_python(note)).collect()))
}

fn parts_are_complete(dir: &Path, count: u64) -> bool {
    (1..=count).all(|number| replicates::place(dir, number).join("summary.json").exists())
}

/// A summary as people read it.
#[pyfunction]
pub fn shown(summary: &str, place: PathBuf) -> PyResult<String> {
    let summary = motes::Summary::parse(summary.as_bytes()).map_err(value_error)?;
    Ok(motes_app::show::summary(&summary, &place, Face::Python))
}

/// Reads a run directory; the problem is that of a model written in Python, or of one that is given with its data. A run that
/// stays in memory forgets the directory.
#[pyfunction]
#[pyo3(signature = (dir, problem, in_memory = false))]
pub fn load(py: Python<'_>, dir: PathBuf, problem: Option<&Problem>, in_memory: bool) -> PyResult<Run> {
    let config = Config::read(&dir.join("config.toml")).map_err(failure)?;
    let kind = match problem {
        Some(problem) => {
            let (given, own) = (problem.kind.name(), &config.model);
            if given != own {
                return Err(value_error(format!(
                    "{} is a run of the model {}, not of {}; give the model it was fitted with",
                    foreign_path(&dir),
                    foreign(own),
                    foreign(given)
                )));
            }
            problem.kind.clone()
        }
        None => {
            let entry = job::entry_of(&config.model).map_err(failure)?;
            Kind::Builtin(loaded(py, entry, config.options.clone(), Given::Options)?)
        }
    };
    let trouble = Trouble::default();
    let job = settled(py, &kind, config, &trouble)?;
    let mut precise = match job.precision {
        Precision::F32 => {
            let model = built::<f32>(py, &kind, &job, &trouble)?;
            Either::Single(read(py, job, model, &dir, &trouble)?)
        }
        Precision::F64 => {
            let model = built::<f64>(py, &kind, &job, &trouble)?;
            Either::Double(read(py, job, model, &dir, &trouble)?)
        }
    };
    if in_memory {
        of_either!(&mut precise, done => done.outcome.dir = None);
    }
    Ok(Run { kind, precise, interrupted: false, out_of_time: false, trouble })
}

/// The columns that a trace may have besides those of theta, as far as they have well-known names.
#[pyfunction]
pub fn trace_columns() -> Vec<&'static str> {
    let own = motes::columns::all::<f64>().into_iter().map(|c| c.name);
    std::iter::once("k").chain(own).chain(motes_app::metrics::known()).collect()
}

#[pymethods]
impl Run {
    /// Steps made so far.
    #[getter]
    fn k(&self) -> u64 {
        of_either!(&self.precise, done => done.outcome.state.k)
    }

    /// Steps asked for; none of an algorithm that ends itself.
    #[getter]
    fn steps(&self) -> Option<u64> {
        of_either!(&self.precise, done => asked_for(&done.outcome.job))
    }

    /// Whether the time that was given was over.
    #[getter]
    fn out_of_time(&self) -> bool {
        self.out_of_time
    }

    /// Steps left out of the averages.
    #[getter]
    fn burn_in(&self) -> u64 {
        of_either!(&self.precise, done => done.outcome.job.settings.burn_in)
    }

    /// Whether all steps were made.
    #[getter]
    fn complete(&self) -> bool {
        self.ended() == Ended::Complete
    }

    /// Whether Ctrl-C was pressed.
    #[getter]
    fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// The run directory, if the run has one.
    #[getter]
    fn path(&self) -> Option<&Path> {
        of_either!(&self.precise, done => done.outcome.dir.as_deref())
    }

    /// What should be known about the run, in a line each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        of_either!(&self.precise, done => done.outcome.notes.iter().map(|note| in_python(note)).collect())
    }

    /// The model and its data.
    #[getter]
    fn problem(&self) -> Problem {
        Problem::of(self.kind.clone())
    }

    /// The text of config.toml.
    fn config(&self) -> String {
        self.choices().to_toml()
    }

    /// The text of trace.csv.
    fn trace<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, of_either!(&self.precise, done => &done.outcome.trace))
    }

    /// The bytes of posterior.npz.
    fn posterior<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            of_either!(&self.precise, done => {
                let Outcome { job, state, trace, .. } = &done.outcome;
                posterior_npz(trace, &*done.model, &job.settings, state)
            })
        });
        Ok(PyBytes::new(py, &bytes.map_err(value_error)?))
    }

    /// The last theta, whole: summary.json lists no more than the first components.
    fn theta(&self) -> Vec<f64> {
        of_either!(&self.precise, done => done.outcome.state.theta.clone())
    }

    /// What the model remembers from step to step, after the last one.
    fn buffers(&self) -> Vec<f64> {
        of_either!(&self.precise, done => done.outcome.state.buffers.clone())
    }

    /// The estimate of theta: its mean after burn-in, or what auto found; whole.
    fn theta_mean(&self) -> Option<Vec<f64>> {
        of_either!(&self.precise, done => match &done.outcome.state.auto {
            // All of it: auto fits no more parameters than are listed.
            Some(_) => done.outcome.summary.theta.mean.clone(),
            None => done.outcome.state.averages.theta_mean(),
        })
    }

    /// The text of summary.json.
    fn summary(&self) -> String {
        of_either!(&self.precise, done => done.outcome.summary.to_json())
    }

    /// The summary as people read it.
    fn table(&self) -> String {
        of_either!(&self.precise, done => {
            let Outcome { summary, dir, .. } = &done.outcome;
            let place = dir.clone().unwrap_or_else(|| "none (Fit.save writes them)".into());
            motes_app::show::summary(summary, &place, Face::Python)
        })
    }

    /// Writes a run directory.
    fn save(&self, py: Python<'_>, dir: PathBuf, report: bool) -> PyResult<Vec<String>> {
        let written = py.detach(|| of_either!(&self.precise, done => done.write(&dir)));
        written.map_err(failure)?;
        if report && self.ended() == Ended::Complete {
            let note = py.detach(|| motes_app::report::after_run(&dir, None, Face::Python));
            return Ok(note.iter().map(|note| in_python(note)).collect());
        }
        Ok(Vec::new())
    }

    /// Goes on as it is, to a new total of steps, or from the end of theta's stage with another tolerance.
    #[pyo3(signature = (steps, tolerance, max_evaluations, how))]
    fn resume(
        &self,
        py: Python<'_>,
        steps: Option<u64>,
        tolerance: Option<f64>,
        max_evaluations: Option<u64>,
        how: How,
    ) -> PyResult<Run> {
        let (kind, trouble) = (self.kind.clone(), self.trouble.clone());
        of_either!(&self.precise, done => {
            let Outcome { job, state, trace, seconds, dir, ended, .. } = &done.outcome;
            let mut job = job.clone();
            if let Some(steps) = steps {
                longer(&mut job, steps).map_err(failure)?;
            }
            let further = tolerance.is_some() || max_evaluations.is_some();
            if further {
                nearer(&mut job, tolerance, max_evaluations).map_err(failure)?;
                job.settings.validate(&*done.model).map_err(exception)?;
            }
            let start = match dir {
                Some(dir) if further && *ended == Ended::Complete && !keeps_theta(dir) => {
                    return Err(value_error(format!("{}{FIT_AGAIN}", foreign_path(dir))));
                }
                Some(dir) if further => Start::Theta(dir.clone()),
                None if further => return Err(value_error(format!("a fit without `out`{FIT_AGAIN}"))),
                Some(dir) => Start::Directory(dir.clone()),
                None => Start::Saved { state: Box::new(state.clone()), trace: trace.clone(), seconds: *seconds },
            };
            carry_out(py, kind, job, done.model.clone(), start, how, trouble)
        })
    }

    /// Fits the model once more, as a replicate of this fit, counted from 1, which this is.
    #[pyo3(signature = (number, out, how))]
    fn replicate(&self, py: Python<'_>, number: u64, out: Option<PathBuf>, how: How) -> PyResult<Run> {
        let (kind, trouble) = (self.kind.clone(), self.trouble.clone());
        let several = self.several(number);
        let job = prepared(py, &kind, &trouble, move |_| replicates::job(&several, number))?;
        match job.precision {
            Precision::F32 => {
                let model = built::<f32>(py, &kind, &job, &trouble)?;
                carry_out(py, kind, job, model, out.map_or(Start::Memory, Start::New), how, trouble)
            }
            Precision::F64 => {
                let model = built::<f64>(py, &kind, &job, &trouble)?;
                carry_out(py, kind, job, model, out.map_or(Start::Memory, Start::New), how, trouble)
            }
        }
    }

    /// Makes a directory for replicates of this fit.
    fn begin_replicates(&self, py: Python<'_>, count: u64, dir: PathBuf) -> PyResult<()> {
        let mut several = self.several(count);
        py.detach(|| replicates::create(&mut several, &dir)).map_err(failure)
    }

    /// The probability of each class for each row, from particles as posterior.npz has them, classes varying fastest; and the
    /// interval of that of the likeliest class, low ends and high ends in turn.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        features: PyReadonlyArray2<'py, f64>,
        levels: Vec<Option<Vec<String>>>,
        particles: PyReadonlyArray2<'py, f64>,
        unknown: bool,
        level: f64,
    ) -> PyResult<(Numbers<'py>, Numbers<'py>)> {
        let Some(predictor) = self.kind.predictor() else {
            return Err(value_error(format!(
                "the model {} predicts no classes; use a LogisticRegression or a BayesianNeuralNetwork",
                foreign(self.kind.name())
            )));
        };
        let width = features.as_array().ncols();
        let coding = predictor.columns();
        let wanted = if coding.columns.is_empty() { predictor.inputs() } else { coding.columns.len() };
        if width != wanted {
            return Err(value_error(format!(
                "X has {width} columns and the model was fitted to {wanted}; give the same features"
            )));
        }
        let coordinates = particles.as_array().ncols();
        if coordinates != predictor.width() || particles.as_array().nrows() == 0 {
            return Err(value_error(format!(
                "the particles have {coordinates} coordinates and the model has {}; take those of its own fit",
                predictor.width()
            )));
        }
        let mut rows: Vec<f64> = match coding.columns.is_empty() {
            true => features.as_array().iter().copied().collect(),
            false => {
                let names = coding.columns.iter().map(|column| column.name.clone()).collect();
                let frame = frame(&features, levels, names);
                let all: Vec<usize> = (0..frame.rows).collect();
                let unknown = if unknown { Unknown::Reference } else { Unknown::Refuse };
                coding.features(&frame, &all, unknown, "X").map_err(|e| failure(e.into()))?.features
            }
        };
        let particles: Vec<f64> = particles.as_array().iter().copied().collect();
        let predicted = py.detach(|| -> Result<Predicted, Error> {
            predictor.scale(&mut rows);
            Ok(Pool::new(None)?.install(|| predictor.predict(&particles, &rows, level))?)
        });
        let Predicted { probabilities, intervals } = predicted.map_err(failure)?;
        Ok((probabilities.into_pyarray(py), intervals.into_flattened().into_pyarray(py)))
    }
}

impl Run {
    fn ended(&self) -> Ended {
        of_either!(&self.precise, done => done.outcome.ended)
    }

    /// What so many replicates of this fit come from.
    fn several(&self, count: u64) -> Job {
        of_either!(&self.precise, done => replicates::several(&done.outcome.job, count))
    }

    pub fn choices(&self) -> &Config {
        of_either!(&self.precise, done => &done.outcome.job.config)
    }

    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The state of a run in single precision.
    pub fn single(&self) -> Option<&State<f32>> {
        match &self.precise {
            Either::Single(done) => Some(&done.outcome.state),
            Either::Double(_) => None,
        }
    }
}

impl<F: PyReal> Done<F> {
    /// Writes a run directory.
    fn write(&self, dir: &Path) -> Result<(), Error> {
        let Outcome { job, state, trace, summary, seconds, ended, .. } = &self.outcome;
        let mut job = job.clone();
        let mut directory = carry::create(&mut job, &*self.model, dir)?;
        directory.replace_trace(trace)?;
        let spent = Duration::from_secs_f64(*seconds);
        match ended {
            Ended::Early => directory.checkpoint(state, spent)?,
            Ended::Complete => {
                let mut summary = summary.clone();
                summary.settings = job.config.flat().into();
                carry::finish(&mut directory, &job, &*self.model, state, spent, &summary)?;
            }
        }
        Ok(())
    }
}

/// Why a fit cannot go on with another tolerance.
const FIT_AGAIN: &str = " has not kept where theta's stage ended, as only fits into a directory do; fit the model again with `tolerance` or `max-evaluations`";

/// Whether a directory holds where theta's stage of a fit by auto ended.
fn keeps_theta(dir: &Path) -> bool {
    dir.join("checkpoint").join("theta-stage.bin").exists()
}

/// The steps that a run was asked for; none if it ends itself.
fn asked_for(job: &Job) -> Option<u64> {
    job.settings.takes("steps").then_some(job.settings.steps)
}

/// A time as people give it.
fn seconds(budget: f64) -> PyResult<Duration> {
    match Duration::try_from_secs_f64(budget) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(value_error(format!("budget is {budget}; give a positive number of seconds"))),
    }
}

/// Asks a run for a new total of steps.
fn longer(job: &mut Job, steps: u64) -> Result<(), Error> {
    let Some(before) = asked_for(job) else {
        return Err(format!(
            "{} finds its own length; leave `steps` out, or give a smaller `tolerance` or more `max-evaluations`",
            job.settings.algorithm
        )
        .into());
    };
    if steps < before {
        return Err(fewer_steps(steps, before));
    }
    (job.config.run.steps, job.settings.steps) = (Some(steps), steps);
    Ok(())
}

/// Asks a fit by auto for a smaller tolerance or allows it more evaluations.
fn nearer(job: &mut Job, tolerance: Option<f64>, max_evaluations: Option<u64>) -> Result<(), Error> {
    let (settings, choices) = (&mut job.settings, &mut job.config.run);
    if settings.takes("steps") {
        return Err(format!(
            "`tolerance` and `max-evaluations` are for auto, and {} makes the steps it is asked for; give `steps`",
            settings.algorithm
        )
        .into());
    }
    if let Some(tolerance) = tolerance {
        let before = settings.tolerance;
        if tolerance >= before {
            return Err(format!(
                "`tolerance={tolerance}` is not below {before}, which was asked for before; give a smaller number"
            )
            .into());
        }
        (choices.tolerance, settings.tolerance) = (Some(tolerance), tolerance);
    }
    if let Some(most) = max_evaluations {
        let before = settings.max_evaluations;
        if most <= before {
            return Err(format!(
                "`max-evaluations={most}` is not above {before}, which was allowed before; give a larger number"
            )
            .into());
        }
        (choices.max_evaluations, settings.max_evaluations) = (Some(most), most);
    }
    Ok(())
}

fn settled(py: Python<'_>, kind: &Kind, config: Config, trouble: &Trouble) -> PyResult<Job> {
    prepared(py, kind, trouble, |problem| {
        // The curvature may be worth several threads.
        Pool::new(None)?.install(|| Job::new(config, problem, None))
    })
}

fn built<F: PyReal + Precise>(
    py: Python<'_>,
    kind: &Kind,
    job: &Job,
    trouble: &Trouble,
) -> PyResult<Arc<dyn Model<F>>> {
    let job = job.clone();
    prepared(py, kind, trouble, move |_| job.model::<F>())
}

/// Does without the GIL what comes before a run; Ctrl-C is raised, since there is nothing to return yet.
fn prepared<T: Send + 'static>(
    py: Python<'_>,
    kind: &Kind,
    trouble: &Trouble,
    work: impl FnOnce(Arc<dyn registry::Problem>) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let problem = kind.posed(trouble);
    let done = match kind {
        Kind::Builtin(_) => unless_interrupted(py, move || work(problem))?,
        // Python interrupts its callables itself, and a thread that is left behind must not call them.
        Kind::Written(_) => py.detach(|| work(problem)),
    };
    raised(trouble, done.map_err(failure))
}

/// What a callable raised comes before what the library made of it.
pub fn raised<T>(trouble: &Trouble, result: PyResult<T>) -> PyResult<T> {
    match trouble.lock().unwrap_or_else(|p| p.into_inner()).take() {
        Some(raised) => Err(raised),
        None => result,
    }
}

fn carry_out<F: PyReal>(
    py: Python<'_>,
    kind: Kind,
    job: Job,
    model: Arc<dyn Model<F>>,
    start: Start<F>,
    how: How,
    trouble: Trouble,
) -> PyResult<Run>
where
    Either: From<Done<F>>,
{
    job::check_threads(how.threads).map_err(failure)?;
    let signals = Signals::default();
    let callback = how.callback.map(|f| (f, how.callback_every.max(1)));
    let scalars = model.scalars().iter().map(|scalar| scalar.name).collect();
    let end = how.budget.map(seconds).transpose()?.map(|time| Instant::now() + time);
    let mut watch =
        Watch { signals: &signals, callback, scalars, trouble: trouble.clone(), end, out_of_time: false };
    let steps = asked_for(&job);
    let (outcome, interrupted) =
        attended(py, &signals, (how.tick.as_ref(), steps), &trouble, kind.desk(), || -> Result<_, Error> {
            let pool = Pool::new(how.threads)?;
            let (stop, report) = (Stop(Some(&signals.stop)), how.report.then_some(Face::Python));
            let work = || carry::carry_out(job, &*model, start, report, &mut watch, stop);
            let mut outcome = pool.install(|| known_to_python(work))?;
            if let Some(dir) = &outcome.dir {
                outcome.trace = read_file(&dir.join("trace.csv"))?;
            }
            outcome.notes.extend(unjudged(&*model, &outcome));
            Ok(outcome)
        });
    let outcome = raised(&trouble, outcome.map_err(failure))?;
    let out_of_time = watch.out_of_time;
    Ok(Run { kind, precise: Either::from(Done { model, outcome }), interrupted, out_of_time, trouble })
}

/// What is said where a log density could not judge the step size.
fn unjudged<F: PyReal>(model: &dyn Model<F>, outcome: &Outcome<F>) -> Option<String> {
    let Outcome { job, state, summary, .. } = outcome;
    // A fit by auto judges itself.
    let judged =
        state.k > 0 && state.auto.is_none() && job.settings.averages_clouds() && model.gives().log_density;
    (judged && summary.diagnostics.shadow_acceptance.is_none()).then(|| {
        "log_density is NaN at the end, so nothing is known of the step size; see motes.check_model".into()
    })
}

impl From<Done<f32>> for Either {
    fn from(done: Done<f32>) -> Self {
        Either::Single(done)
    }
}

impl From<Done<f64>> for Either {
    fn from(done: Done<f64>) -> Self {
        Either::Double(done)
    }
}

/// Reads a run directory and changes nothing there.
fn read<F: PyReal>(
    py: Python<'_>,
    job: Job,
    model: Arc<dyn Model<F>>,
    dir: &Path,
    trouble: &Trouble,
) -> PyResult<Done<F>> {
    let outcome =
        py.detach(|| -> Result<_, Error> { Pool::new(None)?.install(|| carry::open(job, &*model, dir)) });
    let outcome = raised(trouble, outcome.map_err(failure))?;
    Ok(Done { model, outcome })
}

fn read_file(path: &Path) -> Result<Vec<u8>, motes::Error> {
    std::fs::read(path).map_err(motes::Error::io("read", path))
}
