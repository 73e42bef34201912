//! The generator network: its images, trainings, and what a trained one can do, all as the command line does it.
//!
//! A training lives in a run directory. Python makes a temporary one where its user names none.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use motes::{Ended, Flow, Pool};
use motes_app::Error;
use motes_app::generator::open::{self, Trained, UNTOLD};
use motes_app::generator::run::{Done, From, Plan};
use motes_app::generator::tasks::{Source, mixture};
use motes_app::generator::{GeneratorConfig, Summary};
use motes_models::data::ImageSet;
use motes_models::generator::{Search, Seen, Stop, Targets, inpaint};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::callables::Trouble;
use crate::errors::{exception, failure, in_python, value_error};
use crate::run::{How, raised, read_file};
use crate::watch::{Signals, asked, attended, unless_interrupted};

/// The files of images and labels that were given as arrays.
const IMAGES: &str = "images.idx";
const LABELS: &str = "labels.idx";

type Files = Vec<(&'static str, Vec<u8>)>;
type Flat<'py> = Bound<'py, PyArray1<f32>>;

/// Images to train on.
#[pyclass(frozen, module = "motes._core")]
pub struct Images {
    set: Arc<ImageSet>,
    /// What names them on the command line; nothing if they were given as arrays.
    config: Option<GeneratorConfig>,
    labels: Option<Vec<u8>>,
}

#[pymethods]
impl Images {
    /// The images that the settings name (JSON, named as in config.toml).
    #[staticmethod]
    fn of_settings(py: Python<'_>, settings: &str) -> PyResult<Self> {
        let config = settings_from(settings)?;
        let read = config.clone();
        // On a thread of its own: many images take a while, and a pipe may have nobody who writes to it.
        let set = unless_interrupted(py, move || {
            let channels = open::channels(&read)?;
            pool(None)?.install(|| open::images(&read, channels, UNTOLD))
        })?;
        Ok(Images { set: Arc::new(set.map_err(value_error)?), config: Some(config), labels: None })
    }

    /// Images as an IDX file holds them, and their labels.
    #[staticmethod]
    fn of_idx(py: Python<'_>, idx: &[u8], channels: usize, labels: Option<Vec<u8>>) -> PyResult<Self> {
        let set = py.detach(|| -> Result<_, Error> {
            let read = || ImageSet::from_idx(idx, "images", channels, None);
            Ok(pool(None)?.install(read)?)
        });
        Ok(Images { set: Arc::new(set.map_err(value_error)?), config: None, labels })
    }

    #[getter]
    fn count(&self) -> usize {
        self.set.count()
    }

    #[getter]
    fn channels(&self) -> usize {
        self.set.channels()
    }

    /// All values, in [-1, 1].
    fn values<'py>(&self, py: Python<'py>) -> Flat<'py> {
        self.set.values(0..self.set.count()).into_pyarray(py)
    }
}

/// A generator, trained or on the way.
#[pyclass(frozen, module = "motes._core")]
pub struct Training {
    plan: Plan,
    trained: Mutex<Trained>,
    /// The text of trace.csv.
    trace: Vec<u8>,
    path: PathBuf,
    k: u64,
    seconds: f64,
    ended: Ended,
    interrupted: bool,
    notes: Vec<String>,
}

/// Trains a generator in a new directory; the settings are JSON, named as in config.toml.
#[pyfunction]
pub fn train(py: Python<'_>, images: &Images, settings: &str, out: PathBuf, how: How) -> PyResult<Training> {
    let mut config = settings_from(settings)?;
    let files = match &images.config {
        Some(named) => {
            config = config.or(named.clone());
            Files::new()
        }
        None => placed(&mut config, &out, &images.set, images.labels.as_deref()).map_err(value_error)?,
    };
    let from = From::Scratch { out: Some(out), files };
    carry_out(py, config, images.set.clone(), from, how)
}

/// Reads the run directory of a generator.
#[pyfunction]
pub fn load_training(py: Python<'_>, dir: PathBuf) -> PyResult<Training> {
    let read = py.detach(|| -> Result<_, Error> {
        let config = GeneratorConfig::read(&dir.join("config.toml"))?;
        pool(None)?.install(|| {
            let plan = Plan::new(config, None, UNTOLD)?;
            let done = plan.read(&dir)?;
            Ok((plan, done))
        })
    });
    let (plan, done) = read.map_err(failure)?;
    Training::of(plan, done, false)
}

#[pymethods]
impl Training {
    #[getter]
    fn k(&self) -> u64 {
        self.k
    }

    #[getter]
    fn steps(&self) -> u64 {
        self.plan.steps
    }

    #[getter]
    fn complete(&self) -> bool {
        self.ended == Ended::Complete
    }

    #[getter]
    fn interrupted(&self) -> bool {
        self.interrupted
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.iter().map(|note| in_python(note)).collect()
    }

    #[getter]
    fn seconds(&self) -> f64 {
        self.seconds
    }

    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// The images that it is trained on.
    #[getter]
    fn images(&self) -> Images {
        let GeneratorConfig { data, labels, channels, images, .. } = self.plan.config.clone();
        let config = GeneratorConfig { data, labels, channels, images, ..GeneratorConfig::default() };
        Images { set: self.plan.images.clone(), config: Some(config), labels: None }
    }

    /// The settings as JSON, named as in config.toml.
    fn settings(&self) -> String {
        serde_json::to_string(&self.plan.config).expect("a config is plain data")
    }

    /// The text of trace.csv.
    fn trace<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.trace)
    }

    /// The summary as people read it.
    fn table(&self, place: PathBuf) -> PyResult<String> {
        let summary = Summary::of(&self.path, &self.plan.config, self.k, self.seconds);
        Ok(summary.map_err(value_error)?.text(&place))
    }

    /// `[n][M][d_x]`.
    fn particles<'py>(&self, py: Python<'py>) -> Flat<'py> {
        py.detach(|| self.trained().particles.clone()).into_pyarray(py)
    }

    /// The images that latents decode to.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'py, f32>,
        threads: Option<usize>,
    ) -> PyResult<Flat<'py>> {
        let x: Vec<f32> = x.as_array().iter().copied().collect();
        let images = py.detach(|| -> Result<_, Error> {
            Ok(pool(threads)?.install(|| open::decode(&mut *self.trained().decoder, &x)))
        });
        Ok(images.map_err(value_error)?.into_pyarray(py))
    }

    /// Latents to make images from.
    fn draw<'py>(
        &self,
        py: Python<'py>,
        source: &str,
        components: Option<usize>,
        count: usize,
        seed: u64,
    ) -> PyResult<Flat<'py>> {
        let source: Source = source.parse().map_err(value_error)?;
        let drawn = py.detach(|| Ok(mixture(&self.trained(), source, components, seed)?.draw(count, seed)));
        Ok(drawn.map_err(failure)?.into_pyarray(py))
    }

    /// The images decoded from the latents that fit best where `seen` holds.
    #[allow(clippy::too_many_arguments)]
    fn inpaint<'py>(
        &self,
        py: Python<'py>,
        images: PyReadonlyArray1<'py, f32>,
        seen: PyReadonlyArray1<'py, bool>,
        steps: u64,
        seed: u64,
        threads: Option<usize>,
        tick: Option<Py<PyAny>>,
    ) -> PyResult<Flat<'py>> {
        let images = images.as_array().to_vec();
        let seen = seen.as_array().to_vec();
        let (signals, trouble) = (Signals::default(), Trouble::default());
        let search = Search { seed, steps, ..Search::default() };
        let count = (images.len() / seen.len()) as u64;
        let (found, interrupted) = attended(py, &signals, (tick.as_ref(), count), &trouble, || {
            let mut told = |done: usize| {
                signals.k.store(done as u64, Ordering::Relaxed);
                signals.flow()
            };
            let mut work = || inpaint(&mut *self.trained().decoder, &images, &seen, &search, &mut told);
            Ok(pool(threads)?.install(&mut work))
        });
        match raised(&trouble, found.map_err(failure))? {
            Some(found) => Ok(found.images.into_pyarray(py)),
            None if interrupted => Err(PyKeyboardInterrupt::new_err(())),
            None => Err(value_error("the search was stopped; start it again")),
        }
    }

    /// Images that it was not trained on.
    fn test_images<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Flat<'py>> {
        let set = py.detach(|| pool(None)?.install(|| self.trained().test_images())).map_err(value_error)?;
        Ok(set.values(0..count.min(set.count())).into_pyarray(py))
    }

    /// Writes a run directory.
    fn save(&self, py: Python<'_>, dir: PathBuf, report: bool) -> PyResult<Vec<String>> {
        let saved = py.detach(|| -> Result<_, Error> {
            pool(None)?.install(|| {
                let mut plan = self.copy(self.plan.config.clone(), &dir)?;
                plan.report = report;
                if self.ended == Ended::Early {
                    return Ok(Vec::new());
                }
                let done =
                    plan.carry_out(From::Directory(dir), Stop::default(), &mut |_: &Seen| Flow::Continue)?;
                Ok(done.notes)
            })
        });
        Ok(saved.map_err(failure)?.iter().map(|note| in_python(note)).collect())
    }

    /// Goes on to a new total of steps, in its directory or in a copy.
    fn resume(
        &self,
        py: Python<'_>,
        steps: Option<u64>,
        copy: Option<PathBuf>,
        how: How,
    ) -> PyResult<Training> {
        let mut config = self.plan.config.clone();
        if let Some(steps) = steps.filter(|s| *s != self.plan.steps) {
            config.go_on_to(steps).map_err(value_error)?;
        }
        let dir = copy.clone().unwrap_or_else(|| self.path.clone());
        if copy.is_some() {
            let copied = py.detach(|| self.copy(config, &dir)).map_err(failure)?;
            config = copied.config;
        }
        carry_out(py, config, self.plan.images.clone(), From::Directory(dir), how)
    }
}

impl Training {
    fn of(plan: Plan, done: Done, interrupted: bool) -> PyResult<Self> {
        let Done { ended, trained, k, seconds, path, notes, .. } = done;
        let trace = read_file(&path.join("trace.csv")).map_err(exception)?;
        let trained = Mutex::new(trained);
        Ok(Training { plan, trained, trace, path, k, seconds, ended, interrupted, notes })
    }

    fn trained(&self) -> MutexGuard<'_, Trained> {
        // A task that panicked has at worst left scratch space behind.
        self.trained.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Copies the run as far as its last checkpoint, with images that lie in its directory.
    fn copy(&self, mut config: GeneratorConfig, to: &Path) -> Result<Plan, Error> {
        let own = std::path::absolute(self.path.join(IMAGES)).ok();
        let mut files = Files::new();
        if own.is_some() && config.data == own {
            let labels = config.labels.is_some().then(|| self.trained().labels()).transpose()?;
            files = placed(&mut config, to, &self.plan.images, labels.as_deref())?;
        }
        let plan = Plan::new(config, Some(self.plan.images.clone()), UNTOLD)?;
        plan.copy(&self.path, to, &files)?;
        Ok(plan)
    }
}

/// Makes the config name images and labels in a run directory, and returns their files.
fn placed(
    config: &mut GeneratorConfig,
    dir: &Path,
    set: &ImageSet,
    labels: Option<&[u8]>,
) -> Result<Files, Error> {
    let at = |name: &str| {
        std::path::absolute(dir.join(name))
            .map_err(|e| format!("cannot use {}: {e}; check the path", dir.display()))
    };
    config.data = Some(at(IMAGES)?);
    let mut files = vec![(IMAGES, set.to_idx())];
    if let Some(labels) = labels {
        config.labels = Some(at(LABELS)?);
        let mut idx = vec![0, 0, 8, 1];
        idx.extend((labels.len() as u32).to_be_bytes());
        idx.extend_from_slice(labels);
        files.push((LABELS, idx));
    }
    Ok(files)
}

fn carry_out(
    py: Python<'_>,
    config: GeneratorConfig,
    images: Arc<ImageSet>,
    from: From,
    how: How,
) -> PyResult<Training> {
    let (signals, trouble) = (Signals::default(), Trouble::default());
    let plan = py.detach(|| Plan::new(config, Some(images), UNTOLD));
    let mut plan = plan.map_err(value_error)?;
    plan.report = how.report;
    let (outcome, interrupted) =
        attended(py, &signals, (how.tick.as_ref(), plan.steps), &trouble, || -> Result<_, Error> {
            let mut watch = |seen: &Seen| {
                signals.k.store(seen.k, Ordering::Relaxed);
                let call = |callback: &Bound<'_, PyAny>| {
                    callback.call1((seen.k, seen.loss, seen.error, seen.x_rms)).map(Bound::unbind)
                };
                match &how.callback {
                    Some(f) if seen.k.is_multiple_of(how.callback_every.max(1)) => {
                        match asked(f, &trouble, call) {
                            Flow::Continue => signals.flow(),
                            Flow::Stop => Flow::Stop,
                        }
                    }
                    _ => signals.flow(),
                }
            };
            let stop = Stop(Some(&signals.stop));
            Pool::new(how.threads)?.install(|| plan.carry_out(from, stop, &mut watch))
        });
    let done = raised(&trouble, outcome.map_err(failure))?;
    Training::of(plan, done, interrupted)
}

fn settings_from(json: &str) -> PyResult<GeneratorConfig> {
    let table = serde_json::from_str(json).map_err(value_error)?;
    GeneratorConfig::of_table(table).map_err(failure)
}

fn pool(threads: Option<usize>) -> Result<Pool, Error> {
    Ok(Pool::new(threads)?)
}
