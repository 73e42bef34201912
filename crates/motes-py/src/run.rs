//! Runs: fitted, saved, loaded and resumed as the command line does it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use motes::checkpoint::Generations;
use motes::record::{RunDirectory, posterior_npz, trace_header};
use motes::sentence::Face;
use motes::settings::Settings;
use motes::{Ended, Error, Model, Pool, State, Summary, memory};
use motes_app::config::{Config, Precision};
use motes_app::job::{Resolved, fewer_steps, resolve};
use motes_models::logistic;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::callables::{PyReal, Trouble};
use crate::errors::{exception, in_python, value_error};
use crate::execute::{Executed, Start, execute, read_file, summary_of, write_table};
use crate::problem::{Kind, Problem, settings_from};
use crate::watch::{Signals, Watch, attended, unless_interrupted};

/// A run in memory: all that its files would hold.
struct Done<F> {
    model: Arc<dyn Model<F>>,
    settings: Settings,
    state: State<F>,
    /// The text of trace.csv.
    trace: Vec<u8>,
    summary: Summary,
    seconds: f64,
}

enum Precise {
    Single(Done<f32>),
    Double(Done<f64>),
}

/// Calls the same code for either precision.
macro_rules! of_either {
    ($run:expr, $done:ident => $body:expr) => {
        match $run {
            Precise::Single($done) => $body,
            Precise::Double($done) => $body,
        }
    };
}

/// A fitted model.
#[pyclass(frozen, module = "motes._core")]
pub struct Run {
    kind: Arc<Kind>,
    config: Config,
    precise: Precise,
    /// The run directory, if the run has one.
    path: Option<PathBuf>,
    ended: Ended,
    interrupted: bool,
    trouble: Trouble,
    notes: Vec<String>,
}

/// How a run is carried out; results do not depend on it.
#[derive(FromPyObject)]
pub struct How {
    pub threads: Option<usize>,
    pub report: bool,
    pub tick: Option<Py<PyAny>>,
    pub callback: Option<Py<PyAny>>,
    pub callback_every: u64,
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
    let config = settings_from(settings)?.or(kind.config());
    let Resolved { config, settings, precision, .. } = resolved(py, &kind, config, &trouble)?;
    match precision {
        Precision::F32 => {
            let model = built::<f32>(py, &kind, &trouble)?;
            carry_out(py, kind, config, settings, trouble, model, Start::Scratch { out }, how)
        }
        Precision::F64 => {
            let model = built::<f64>(py, &kind, &trouble)?;
            carry_out(py, kind, config, settings, trouble, model, Start::Scratch { out }, how)
        }
    }
}

/// Reads a run directory; the problem is that of a model written in Python.
#[pyfunction]
#[pyo3(signature = (dir, problem))]
pub fn load(py: Python<'_>, dir: PathBuf, problem: Option<&Problem>) -> PyResult<Run> {
    let config = Config::read(&dir.join("config.toml")).map_err(value_error)?;
    let (kind, config) = match problem {
        Some(problem) => {
            let (given, own) = (problem.kind.name(), config.model.as_deref().unwrap_or_default());
            if given != own {
                return Err(value_error(format!(
                    "{} is a run of the model {own}, not of {given}; give the model it was fitted with",
                    dir.display()
                )));
            }
            (problem.kind.clone(), config)
        }
        None => {
            let (problem, config) = py.detach(|| Problem::of_config(config)).map_err(value_error)?;
            (problem.kind, config)
        }
    };
    let trouble = Trouble::default();
    let Resolved { config, settings, precision, .. } = resolved(py, &kind, config, &trouble)?;
    let (precise, ended) = match precision {
        Precision::F32 => {
            let (done, ended) =
                read(py, &kind, built::<f32>(py, &kind, &trouble)?, &dir, &config, settings, &trouble)?;
            (Precise::Single(done), ended)
        }
        Precision::F64 => {
            let (done, ended) =
                read(py, &kind, built::<f64>(py, &kind, &trouble)?, &dir, &config, settings, &trouble)?;
            (Precise::Double(done), ended)
        }
    };
    let path = Some(dir);
    Ok(Run { kind, config, precise, path, ended, interrupted: false, trouble, notes: Vec::new() })
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
        of_either!(&self.precise, done => done.state.k)
    }

    /// Steps asked for.
    #[getter]
    fn steps(&self) -> u64 {
        of_either!(&self.precise, done => done.settings.steps)
    }

    /// Steps left out of the averages.
    #[getter]
    fn burn_in(&self) -> u64 {
        of_either!(&self.precise, done => done.settings.burn_in)
    }

    /// Whether all steps were made.
    #[getter]
    fn complete(&self) -> bool {
        self.ended == Ended::Complete
    }

    /// Whether Ctrl-C was pressed.
    #[getter]
    fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// The run directory, if the run has one.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What should be known about the run, in a line each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// The model and its data.
    #[getter]
    fn problem(&self) -> Problem {
        Problem { kind: self.kind.clone() }
    }

    /// The text of config.toml.
    fn config(&self) -> PyResult<String> {
        self.config.to_toml().map_err(value_error)
    }

    /// The text of trace.csv.
    fn trace<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, of_either!(&self.precise, done => &done.trace))
    }

    /// The bytes of posterior.npz.
    fn posterior<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            of_either!(&self.precise, done => posterior_npz(&done.trace, &*done.model, &done.settings, &done.state))
        });
        Ok(PyBytes::new(py, &bytes.map_err(value_error)?))
    }

    /// The last theta, whole: summary.json lists no more than the first components.
    fn theta(&self) -> Vec<f64> {
        of_either!(&self.precise, done => done.state.theta.clone())
    }

    /// The mean of theta after burn-in, whole.
    fn theta_mean(&self) -> Option<Vec<f64>> {
        of_either!(&self.precise, done => done.state.averages.theta_mean())
    }

    /// The text of summary.json.
    fn summary(&self) -> String {
        of_either!(&self.precise, done => done.summary.to_json())
    }

    /// The summary as people read it.
    fn table(&self) -> String {
        let place = self.path.clone().unwrap_or_else(|| "none (Fit.save writes them)".into());
        of_either!(&self.precise, done => motes_app::show::summary(&done.summary, &place, Face::Python))
    }

    /// Writes a run directory.
    fn save(&self, py: Python<'_>, dir: PathBuf, report: bool) -> PyResult<Vec<String>> {
        let written = py.detach(|| of_either!(&self.precise, done => self.write(done, &dir)));
        written.map_err(exception)?;
        if report && self.ended == Ended::Complete {
            let note = py.detach(|| motes_app::report::after_run(&dir, None));
            return Ok(note.iter().map(|note| in_python(note)).collect());
        }
        Ok(Vec::new())
    }

    /// Goes on to a new total of steps.
    fn resume(&self, py: Python<'_>, steps: Option<u64>, how: How) -> PyResult<Run> {
        let before = self.steps();
        let steps = steps.unwrap_or(before);
        if steps < before {
            return Err(value_error(fewer_steps(steps, before)));
        }
        let mut config = self.config.clone();
        config.steps = Some(steps);
        let kind = self.kind.clone();
        let trouble = self.trouble.clone();
        macro_rules! go_on {
            ($done:expr) => {{
                let settings = Settings { steps, ..$done.settings.clone() };
                let start = match &self.path {
                    Some(path) => Start::Directory(path.clone()),
                    None => Start::Memory {
                        state: Box::new($done.state.clone()),
                        trace: $done.trace.clone(),
                        seconds: $done.seconds,
                    },
                };
                carry_out(py, kind, config, settings, trouble, $done.model.clone(), start, how)
            }};
        }
        of_either!(&self.precise, done => go_on!(done))
    }

    /// The probability of each class for each row, from particles as posterior.npz has them; classes vary fastest.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        features: PyReadonlyArray2<'py, f64>,
        particles: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let Some(remember) = self.kind.remember() else {
            return Err(value_error(format!(
                "the model {} predicts no classes; use a LogisticRegression or a BayesianNeuralNetwork",
                self.kind.name()
            )));
        };
        let width = features.as_array().ncols();
        if width != remember.inputs {
            return Err(value_error(format!(
                "X has {width} columns and the model was fitted to {}; give the same features",
                remember.inputs
            )));
        }
        let mut rows: Vec<f64> = features.as_array().iter().copied().collect();
        let particles: Vec<f64> = particles.as_array().iter().copied().collect();
        let probabilities = py.detach(|| -> Result<Vec<f64>, String> {
            if let Some(moments) = &remember.moments {
                moments.apply(&mut rows);
            }
            Pool::new(None).map_err(|e| e.to_string())?.install(|| match remember.model.as_str() {
                "bnn" => motes_app::predict::network_probabilities(remember, &particles, &rows),
                _ => {
                    let p = logistic::predict(&particles, &rows, remember.inputs, remember.intercept);
                    Ok(p.iter().flat_map(|p| [1.0 - p.mean, p.mean]).collect())
                }
            })
        });
        Ok(probabilities.map_err(value_error)?.into_pyarray(py))
    }
}

impl Run {
    fn write<F: PyReal>(&self, done: &Done<F>, dir: &Path) -> Result<(), Error> {
        let Done { model, settings, state, trace, summary, seconds } = done;
        let mut config = self.config.clone();
        let table = self.kind.table_for(dir, &mut config).map_err(Error::Settings)?;
        let text = config.to_toml().map_err(Error::Settings)?;
        let mut directory = RunDirectory::create(dir, &text, &**model, settings, config.recording())?;
        write_table(dir, table)?;
        directory.replace_trace(trace)?;
        let spent = Duration::from_secs_f64(*seconds);
        match self.ended {
            Ended::Early => directory.checkpoint(state, spent),
            Ended::Complete => {
                let mut summary = summary.clone();
                summary.settings = serde_json::to_value(&config).expect("a config is plain data");
                directory.finish(&**model, settings, state, spent, &summary)
            }
        }
    }
}

fn resolved(py: Python<'_>, kind: &Arc<Kind>, config: Config, trouble: &Trouble) -> PyResult<Resolved> {
    prepared(py, kind, trouble, |kind, trouble| {
        let auto = |settings: &Settings| {
            let model = kind.build::<f64>(trouble)?;
            // The curvature may be worth several threads.
            let pool = Pool::new(None).map_err(|e| e.to_string())?;
            Ok(pool.install(|| settings.auto_step_size(&*model)))
        };
        resolve(config, &kind.defaults(), kind.sha256(), auto)
    })
}

fn built<F: PyReal>(py: Python<'_>, kind: &Arc<Kind>, trouble: &Trouble) -> PyResult<Arc<dyn Model<F>>> {
    prepared(py, kind, trouble, |kind, trouble| kind.build::<F>(trouble).map(Arc::from))
}

/// Does without the GIL what comes before a run; Ctrl-C is raised, since there is nothing to return yet.
fn prepared<T: Send + 'static>(
    py: Python<'_>,
    kind: &Arc<Kind>,
    trouble: &Trouble,
    work: impl FnOnce(&Kind, &Trouble) -> Result<T, String> + Send + 'static,
) -> PyResult<T> {
    let done = match **kind {
        Kind::Builtin { .. } => {
            let (kind, trouble) = (kind.clone(), trouble.clone());
            unless_interrupted(py, move || work(&kind, &trouble))?
        }
        // Python interrupts its callables itself, and a thread that is left behind must not call them.
        Kind::Written(_) => py.detach(|| work(kind, trouble)),
    };
    raised(trouble, done.map_err(value_error))
}

/// What a callable raised comes before what the library made of it.
pub fn raised<T>(trouble: &Trouble, result: PyResult<T>) -> PyResult<T> {
    match trouble.lock().unwrap_or_else(|p| p.into_inner()).take() {
        Some(raised) => Err(raised),
        None => result,
    }
}

#[allow(clippy::too_many_arguments)]
fn carry_out<F: PyReal>(
    py: Python<'_>,
    kind: Arc<Kind>,
    mut config: Config,
    settings: Settings,
    trouble: Trouble,
    model: Arc<dyn Model<F>>,
    start: Start<F>,
    how: How,
) -> PyResult<Run>
where
    Precise: From<Done<F>>,
{
    settings.validate(&*model).map_err(exception)?;
    let shape = memory::Shape {
        d_theta: model.d_theta(),
        d_x: model.d_x(),
        data_bytes: 0,
        real_bytes: size_of::<F>(),
    };
    memory::check(shape, &settings).map_err(value_error)?;
    if how.threads == Some(0) {
        return Err(value_error("--threads 0 leaves nobody to work; use 1 or more, or leave it out"));
    }
    let signals = Signals::default();
    let path = match &start {
        Start::Scratch { out } => out.clone(),
        Start::Directory(dir) => Some(dir.clone()),
        Start::Memory { .. } => None,
    };
    let callback = how.callback.map(|f| (f, how.callback_every.max(1)));
    let mut watch = Watch { signals: &signals, trace: None, callback, trouble: trouble.clone() };
    let (outcome, interrupted) =
        attended(py, &signals, (how.tick.as_ref(), settings.steps), &trouble, || {
            let pool = Pool::new(how.threads)?;
            pool.install(|| execute(&kind, &mut config, &settings, &*model, start, &mut watch, how.report))
        });
    let Executed { state, trace, summary, seconds, ended, notes } =
        raised(&trouble, outcome.map_err(|e| exception(e)))?;
    let precise = Precise::from(Done { model, settings, state, trace, summary, seconds });
    Ok(Run { kind, config, precise, path, ended, interrupted, trouble, notes })
}

impl From<Done<f32>> for Precise {
    fn from(done: Done<f32>) -> Self {
        Precise::Single(done)
    }
}

impl From<Done<f64>> for Precise {
    fn from(done: Done<f64>) -> Self {
        Precise::Double(done)
    }
}

/// Reads the last checkpoint of a run directory and changes nothing there.
fn read<F: PyReal>(
    py: Python<'_>,
    kind: &Kind,
    model: Arc<dyn Model<F>>,
    dir: &Path,
    config: &Config,
    settings: Settings,
    trouble: &Trouble,
) -> PyResult<(Done<F>, Ended)> {
    let done = py.detach(|| -> Result<_, Error> {
        let mut state = State::initial(&*model, &settings);
        let (header, _) = Generations::new(dir.join("checkpoint")).load(&mut state)?;
        let header = header.ok_or_else(|| {
            Error::Settings(format!("{} has no checkpoint yet; fit the model again", dir.display()))
        })?;
        let path = dir.join("trace.csv");
        let mut trace = read_file(&path)?;
        let bytes = usize::try_from(header.trace_bytes).unwrap_or(usize::MAX);
        let whole = trace.len() >= bytes && trace.starts_with(trace_header(&*model, &settings).as_bytes());
        trace.truncate(bytes);
        if !whole || !holds_numbers(&trace) {
            let problem = "is not what this run has written; put it back, or fit the model again".into();
            return Err(Error::File { path, problem });
        }
        let seconds = header.seconds;
        let pool = Pool::new(None)?;
        let summary = pool.install(|| summary_of(kind, config, &settings, &*model, &state, seconds));
        let ended = if state.k < settings.steps { Ended::Early } else { Ended::Complete };
        Ok((Done { model: model.clone(), settings, state, trace, summary, seconds }, ended))
    });
    raised(trouble, done.map_err(exception))
}

/// Whether a table has a number, or nothing, in every column of every row.
fn holds_numbers(table: &[u8]) -> bool {
    let number = |value: &str| value.is_empty() || value.parse::<f64>().is_ok();
    csv::Reader::from_reader(table).records().all(|row| row.is_ok_and(|row| row.iter().all(number)))
}
