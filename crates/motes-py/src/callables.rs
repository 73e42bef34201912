//! A model written in Python: callables that are vectorised over a block of particles, with one crossing of the
//! interpreter for each call.

use std::sync::{Arc, Mutex};

use motes::model::{Draws, MStep};
use motes::sentence::foreign;
use motes::settings::{InitParticles, MOST_PARAMETERS};
use motes::{At, Gives, Model, ModelError, Real, Want};
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Numbers that particles and NumPy share.
pub trait PyReal: Real + numpy::Element {
    /// The name of the type in NumPy.
    const DTYPE: &'static str;
}

impl PyReal for f32 {
    const DTYPE: &'static str = "float32";
}

impl PyReal for f64 {
    const DTYPE: &'static str = "float64";
}

/// What a callable raised: it ends the run and is then raised again.
pub type Trouble = Arc<Mutex<Option<PyErr>>>;

/// All particles form one block up to this many coordinates: a crossing costs as much as thousands of them.
const MOST_COORDINATES: usize = 1 << 24;

/// The callables and what else is known of the model.
pub struct Callables {
    pub name: String,
    pub default_step_size: f64,
    d_theta: usize,
    d_x: usize,
    theta_names: Vec<String>,
    x_names: Vec<String>,
    /// Where theta starts unless a run says otherwise.
    start: Option<Vec<f64>>,
    theta_terms: Option<Vec<f64>>,
    curvature: Option<f64>,
    /// M, if gradients and Hessian also get the mini-batch.
    data_terms: Option<usize>,
    statistics_len: usize,
    gradients: Py<PyAny>,
    log_density: Option<Py<PyAny>>,
    hessian: Option<Py<PyAny>>,
    statistics: Option<Py<PyAny>>,
    m_step: Option<Py<PyAny>>,
    prior: Option<Py<PyAny>>,
    ndarray: Py<PyAny>,
    returned: Py<PyAny>,
}

impl Callables {
    /// Takes the attributes of a Python model, which has checked them.
    pub fn new(model: &Bound<'_, PyAny>) -> PyResult<Self> {
        let get = |name: &str| model.getattr(name);
        let callable = |name: &str| get(name).map(|f| (!f.is_none()).then(|| f.unbind()));
        Ok(Callables {
            name: get("name")?.extract()?,
            default_step_size: get("default_step_size")?.extract()?,
            d_theta: get("d_theta")?.extract()?,
            d_x: get("d_x")?.extract()?,
            theta_names: get("theta_names")?.extract()?,
            x_names: get("x_names")?.extract()?,
            start: get("start")?.extract()?,
            theta_terms: get("theta_terms")?.extract()?,
            curvature: get("curvature")?.extract()?,
            data_terms: get("data_terms")?.extract()?,
            statistics_len: get("_statistics_len")?.extract()?,
            gradients: get("gradients")?.unbind(),
            log_density: callable("log_density")?,
            hessian: callable("hessian")?,
            statistics: callable("statistics")?,
            m_step: callable("m_step")?,
            prior: callable("prior")?,
            ndarray: model.py().import("numpy")?.getattr("ndarray")?.unbind(),
            returned: model.py().import("motes._arrays")?.getattr("returned")?.unbind(),
        })
    }

    /// What auto would need of the model and is not there, or not to be had with what was chosen for a run.
    pub fn lacks_for_auto(&self, batch: bool) -> Option<String> {
        if self.log_density.is_none() {
            Some("auto needs the log density".into())
        } else if self.has_many_parameters() {
            let d = self.d_theta;
            Some(format!("auto fits at most {MOST_PARAMETERS} parameters and the model has {d}"))
        } else if batch {
            Some("auto takes all data in each step, and `batch` was given".into())
        } else {
            None
        }
    }

    /// Whether there are more parameters than auto fits.
    pub fn has_many_parameters(&self) -> bool {
        self.d_theta > MOST_PARAMETERS
    }

    /// Where particles start that are fitted by auto.
    pub fn auto_start(&self) -> InitParticles {
        InitParticles::unless_told(self.prior.is_some())
    }
}

/// The model of one run.
pub struct Written {
    pub callables: Arc<Callables>,
    pub trouble: Trouble,
}

/// A crossing into the interpreter.
struct Crossing<'a, 'py> {
    py: Python<'py>,
    callables: &'a Callables,
}

impl<'py> Crossing<'_, 'py> {
    /// A copy, which the callable may keep.
    fn vector<F: PyReal>(&self, values: &[F]) -> Bound<'py, PyAny> {
        PyArray1::from_slice(self.py, values).into_any()
    }

    fn rows<F: PyReal>(&self, values: &[F]) -> PyResult<Bound<'py, PyAny>> {
        let d = self.callables.d_x;
        Ok(PyArray1::from_slice(self.py, values).reshape([values.len() / d, d])?.into_any())
    }

    /// theta and x, and the mini-batch for a model that knows of such.
    fn arguments<F: PyReal>(&self, at: At<'_, F>) -> PyResult<Bound<'py, PyTuple>> {
        let (theta, x) = (self.vector(at.theta), self.rows(at.x)?);
        match self.callables.data_terms {
            None => PyTuple::new(self.py, [theta, x]),
            Some(_) => {
                let batch = at.terms.map(|b| PyArray1::from_iter(self.py, b.iter().map(|m| i64::from(*m))));
                PyTuple::new(self.py, [theta, x, batch.into_pyobject(self.py)?.into_any()])
            }
        }
    }

    /// What a callable returned, as a contiguous array of the right shape.
    fn array<F: PyReal>(
        &self,
        what: &str,
        value: &Bound<'py, PyAny>,
        shape: &[usize],
    ) -> PyResult<Bound<'py, PyArrayDyn<F>>> {
        let wanted = || format!("return an array of shape {}", shape_text(shape));
        // What NumPy made, and no subclass of it such as a masked array, needs no second look.
        let exact = value.get_type().is(&self.callables.ndarray);
        let array = match value.cast::<PyArrayDyn<F>>() {
            Ok(array) if exact && array.ndim() > 0 && array.is_c_contiguous() => array.clone(),
            _ => {
                let array = self.callables.returned.bind(self.py).call1((value, F::DTYPE));
                let array = array.map_err(|cause| {
                    let sentence = format!("{what} returned no array of numbers ({cause}); {}", wanted());
                    let error = PyValueError::new_err(sentence);
                    error.set_cause(self.py, Some(cause));
                    error
                })?;
                array.cast_into::<PyArrayDyn<F>>()?
            }
        };
        // NumPy makes a vector of a number, and a single column may come without its second axis.
        let column = shape.len() > 1 && shape[1..].iter().all(|n| *n == 1) && array.shape() == &shape[..1];
        if array.shape() != shape && !column {
            let got = shape_text(array.shape());
            return Err(PyValueError::new_err(format!("{what} returned shape {got}; {}", wanted())));
        }
        Ok(array)
    }

    /// Copies what a callable returned.
    fn copy<F: PyReal>(
        &self,
        what: &str,
        value: &Bound<'py, PyAny>,
        shape: &[usize],
        out: &mut [F],
    ) -> PyResult<()> {
        let array = self.array::<F>(what, value, shape)?;
        out.copy_from_slice(array.try_readonly()?.as_slice()?);
        Ok(())
    }

    /// Adds up what a callable returned, over the particles in their order.
    fn sum(&self, what: &str, value: &Bound<'py, PyAny>, shape: &[usize], out: &mut [f64]) -> PyResult<()> {
        let array = self.array::<f64>(what, value, shape)?;
        out.fill(0.0);
        for row in array.try_readonly()?.as_slice()?.chunks_exact(out.len()) {
            out.iter_mut().zip(row).for_each(|(o, v)| *o += v);
        }
        Ok(())
    }
}

fn shape_text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Written {
    /// Crosses into the interpreter; what is raised there is kept for the end of the run.
    fn cross(&self, f: impl FnOnce(&Crossing<'_, '_>) -> PyResult<()>) -> Result<(), ModelError> {
        Python::attach(|py| f(&Crossing { py, callables: &self.callables })).map_err(|raised| {
            let text = raised.to_string();
            self.trouble.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(raised);
            ModelError::new(foreign(text))
        })
    }

    fn particles(&self, len: usize) -> usize {
        len / self.callables.d_x
    }
}

impl<F: PyReal> Model<F> for Written {
    fn name(&self) -> &str {
        &self.callables.name
    }

    fn d_theta(&self) -> usize {
        self.callables.d_theta
    }

    fn d_x(&self) -> usize {
        self.callables.d_x
    }

    fn theta_names(&self) -> Vec<String> {
        self.callables.theta_names.clone()
    }

    fn x_names(&self) -> Vec<String> {
        self.callables.x_names.clone()
    }

    fn rows_per_block(&self, n: usize) -> usize {
        n.min((MOST_COORDINATES / self.callables.d_x).max(1))
    }

    /// Nothing, so that blocks follow each other: the interpreter would let only one of them run at a time anyway.
    fn nanoseconds_per_row(&self) -> f64 {
        0.0
    }

    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        let n = self.particles(at.x.len());
        let Want { log_density, grad_x, grad_theta, scores, hessian, .. } = want;
        self.cross(|py| {
            let c = py.callables;
            if grad_x.is_some() || grad_theta.is_some() || scores.is_some() {
                let pair = c.gradients.bind(py.py).call1(py.arguments(at)?)?;
                let pair = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().map_err(|_| {
                    let kind = pair.get_type().name().map_or("something else".into(), |t| t.to_string());
                    PyValueError::new_err(format!(
                        "gradients returned {kind}; return the pair (grad_theta, grad_x) of shapes ({n}, {}) and ({n}, {})",
                        c.d_theta, c.d_x
                    ))
                })?;
                let shape = [n, c.d_theta];
                if let Some(out) = grad_theta {
                    py.sum("grad_theta of gradients", &pair.0, &shape, out)?;
                }
                if let Some(out) = scores {
                    py.copy("grad_theta of gradients", &pair.0, &shape, out)?;
                }
                if let Some(out) = grad_x {
                    py.copy("grad_x of gradients", &pair.1, &[n, c.d_x], out)?;
                }
            }
            if let Some(out) = log_density {
                let value = call(&c.log_density, py.py, (py.vector(at.theta), py.rows(at.x)?))?;
                py.copy("log_density", &value, &[n], out)?;
            }
            if let Some(out) = hessian {
                let value = call(&c.hessian, py.py, py.arguments(at)?)?;
                py.sum("hessian", &value, &[n, c.d_theta, c.d_theta], out)?;
            }
            Ok(())
        })
    }

    fn gives(&self) -> Gives {
        let c = &self.callables;
        Gives { log_density: c.log_density.is_some(), scores: true, hessian: c.hessian.is_some() }
    }

    fn start(&self, _seed: u64, theta: &mut [f64], _buffers: &mut [f64]) {
        if let Some(start) = &self.callables.start {
            theta.copy_from_slice(start);
        }
    }

    fn default_step_size(&self) -> f64 {
        self.callables.default_step_size
    }

    fn curvature(&self) -> Option<f64> {
        self.callables.curvature
    }

    fn theta_terms(&self) -> Option<&[f64]> {
        self.callables.theta_terms.as_deref()
    }

    fn data_terms(&self) -> Option<usize> {
        self.callables.data_terms
    }

    fn m_step(&self) -> Option<&dyn MStep<F>> {
        self.callables.m_step.as_ref().map(|_| self as _)
    }

    fn prior(&self) -> Option<&dyn Draws<F>> {
        self.callables.prior.as_ref().map(|_| self as _)
    }
}

impl<F: PyReal> MStep<F> for Written {
    fn statistics_len(&self) -> usize {
        self.callables.statistics_len
    }

    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError> {
        let x = at.x;
        let shape = [self.particles(x.len()), out.len()];
        self.cross(|py| {
            let value = call(&py.callables.statistics, py.py, (py.rows(x)?,))?;
            py.sum("statistics", &value, &shape, out)
        })
    }

    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        self.cross(|py| {
            let value = call(&py.callables.m_step, py.py, (py.vector(mean),))?;
            py.copy("m_step", &value, &[theta.len()], theta)
        })
    }
}

impl<F: PyReal> Draws<F> for Written {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], x: &mut [F]) {
        let shape = [self.particles(x.len()), self.callables.d_x];
        let crossed = self.cross(|py| {
            let value = call(&py.callables.prior, py.py, (py.vector(theta), py.rows(x)?))?;
            py.copy("prior", &value, &shape, x)
        });
        if crossed.is_err() {
            x.fill(F::of(f64::NAN)); // the run ends before its first step
        }
    }
}

fn call<'py>(
    f: &Option<Py<PyAny>>,
    py: Python<'py>,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let f = f.as_ref().ok_or_else(|| PyValueError::new_err("the model does not give this callable"))?;
    f.bind(py).call1(arguments)
}
