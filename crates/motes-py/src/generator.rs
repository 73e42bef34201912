//! What a trained generator can do, as the command line does it.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use motes::Pool;
use motes_app::Error;
use motes_app::generator::Trained;
use motes_app::generator::tasks::{Source, mixture, mixture_of};
use motes_models::generator::{self, Options, Search, Targets, inpaint};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::callables::Trouble;
use crate::errors::{failure, value_error};
use crate::run::{Run, raised};
use crate::watch::{Signals, attended};

type Flat<'py> = Bound<'py, PyArray1<f32>>;

/// The network of a fit, and its particles.
#[pyclass(frozen, module = "motes._core")]
pub struct Painter {
    trained: Mutex<Trained>,
}

#[pymethods]
impl Painter {
    /// Of a fitted generator; images that were given in memory come with their labels, if they have any.
    #[new]
    fn new(run: &Run, given: bool, labels: Option<Vec<u8>>) -> PyResult<Self> {
        let problem = run.kind().posed(&Trouble::default());
        let (Some(state), Some(set)) = (run.single(), problem.images()) else {
            return Err(value_error("this is not a fit of a generator; fit one"));
        };
        let config = run.choices();
        let options = Options::of(&config.options).map_err(|e| failure(e.into()))?;
        let mut decoder = generator::network(set.channels(), 0);
        let single = |(to, from): (&mut f32, &f64)| *to = *from as f32;
        decoder.parameters_mut().iter_mut().zip(&state.theta).for_each(single);
        decoder.statistics_mut().iter_mut().zip(&state.buffers).for_each(single);
        let trained = Trained {
            options,
            data_sha256: config.data_sha256.clone(),
            channels: set.channels(),
            decoder,
            particles: state.cloud.by_particle().collect(),
            images: set.count(),
            given: given.then_some(labels),
        };
        Ok(Painter { trained: Mutex::new(trained) })
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
            Ok(pool(threads)?.install(|| generator::decode(&mut *self.trained().decoder, &x)))
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
        let (found, interrupted) =
            attended(py, &signals, (tick.as_ref(), Some(count)), &trouble, None, || {
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
}

impl Painter {
    fn trained(&self) -> MutexGuard<'_, Trained> {
        // A task that panicked has at worst left scratch space behind.
        self.trained.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Latents to make data from, of particles whose labels repeat themselves.
#[pyfunction]
pub fn draw<'py>(
    py: Python<'py>,
    particles: PyReadonlyArray2<'py, f32>,
    labels: Option<Vec<u8>>,
    source: &str,
    components: Option<usize>,
    count: usize,
    seed: u64,
) -> PyResult<Flat<'py>> {
    let source: Source = source.parse().map_err(value_error)?;
    let particles = particles.as_array();
    let (d_x, particles) = (particles.ncols(), particles.iter().copied().collect::<Vec<f32>>());
    let known = || labels.clone().ok_or_else(|| "the data have no labels; give `labels`".into());
    let drawn =
        py.detach(|| Ok(mixture_of(&particles, d_x, &known, source, components, seed)?.draw(count, seed)));
    Ok(drawn.map_err(failure)?.into_pyarray(py))
}

fn pool(threads: Option<usize>) -> Result<Pool, Error> {
    Ok(Pool::new(threads)?)
}
