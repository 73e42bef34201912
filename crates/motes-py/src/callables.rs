//! A model written in Python: callables that are vectorised over a block of particles, with one crossing of the
//! interpreter for each call.

use std::sync::{Arc, Mutex};

use motes::model::{Draws, Encoder, MStep, Scalar};
use motes::sentence::foreign;
use motes::settings::{InitParticles, MOST_PARAMETERS};
use motes::{At, Gives, LISTED, Model, ModelError, Real, Want};
use motes_models::options::Table;
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::network::{Network, SCALARS, StandardNormal};

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
    /// M, if the latent variables come in groups: callables then get rows `(groups, particles, d_x)` and the groups' numbers.
    groups: Option<usize>,
    theta_names: Vec<String>,
    x_names: Vec<String>,
    group_names: Vec<String>,
    /// Where theta starts unless a run says otherwise.
    start: Option<Vec<f64>>,
    theta_terms: Option<Vec<f64>>,
    curvature: Option<f64>,
    /// M, if gradients and Hessian also get the mini-batch.
    data_terms: Option<usize>,
    statistics_len: usize,
    /// Whether theta-gradients come row by row, not summed.
    scores: bool,
    /// Answers several questions at once, in place of gradients, log density and Hessian.
    evaluate: Option<Py<PyAny>>,
    /// Whether that computes in single precision, so that particles may come rounded to it.
    single: bool,
    gradients: Py<PyAny>,
    log_density: Option<Py<PyAny>>,
    hessian: Option<Py<PyAny>>,
    statistics: Option<Py<PyAny>>,
    m_step: Option<Py<PyAny>>,
    prior: Option<Py<PyAny>>,
    /// What there is besides where the callables are those of a network.
    pub network: Option<Network>,
    /// The digest of its data and groups, as far as they are known.
    pub sha256: Option<String>,
    /// What it says of itself in config files.
    pub options: Table,
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
            groups: get("groups")?.extract()?,
            group_names: get("group_names")?.extract()?,
            scores: get("scores")?.extract()?,
            evaluate: callable("_evaluate")?,
            single: model.getattr_opt("_single")?.map_or(Ok(false), |single| single.extract())?,
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
            network: model.getattr_opt("_network")?.map(|of| Network::new(&of)).transpose()?,
            sha256: get("_sha256")?.extract()?,
            options: serde_json::from_str(&get("_options")?.extract::<String>()?)
                .map_err(|e| PyValueError::new_err(e.to_string()))?,
            ndarray: model.py().import("numpy")?.getattr("ndarray")?.unbind(),
            returned: model.py().import("motes._arrays")?.getattr("returned")?.unbind(),
        })
    }

    /// What auto would need of the model and is not there, or not to be had with what was chosen for a run.
    pub fn lacks_for_auto(&self, batch: bool) -> Option<String> {
        if self.log_density.is_none() {
            Some("auto needs the log density".into())
        } else if !self.scores {
            Some("auto and standard errors need theta-gradients particle by particle".into())
        } else if self.has_many_parameters() {
            let d = self.d_theta;
            Some(format!("auto fits at most {MOST_PARAMETERS} parameters and the model has {d}"))
        } else if batch {
            Some("auto takes all data in each step, and `batch` was given".into())
        } else {
            None
        }
    }

    /// The shape of an array with so many numbers for each row of some groups; rows hold `len` coordinates in all.
    fn shape(&self, groups: &[u32], len: usize, last: Option<usize>) -> Vec<usize> {
        let rows = len / self.d_x;
        let mut shape = match self.groups {
            Some(_) => vec![groups.len(), rows / groups.len().max(1)],
            None => vec![rows],
        };
        shape.extend(last);
        shape
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
    /// Whether the network's encoder is trained too: its parameters are then the last ones of theta.
    pub encodes: bool,
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

    /// Rows in their shape: particles, or groups of particles.
    fn rows<F: PyReal>(&self, groups: &[u32], values: &[F]) -> PyResult<Bound<'py, PyAny>> {
        let shape = self.callables.shape(groups, values.len(), Some(self.callables.d_x));
        Ok(PyArray1::from_slice(self.py, values).reshape(shape)?.into_any())
    }

    /// Numbers of groups or of data terms.
    fn numbers(&self, numbers: &[u32]) -> Bound<'py, PyAny> {
        PyArray1::from_iter(self.py, numbers.iter().map(|n| i64::from(*n))).into_any()
    }

    /// theta and x; then the groups for a model that has them, or the mini-batch for one that knows of such.
    fn arguments<F: PyReal>(&self, at: At<'_, F>, batched: bool) -> PyResult<Bound<'py, PyTuple>> {
        let mut all = vec![self.vector(at.theta), self.rows(at.groups, at.x)?];
        if self.callables.groups.is_some() {
            all.push(self.numbers(at.groups));
        } else if batched && self.callables.data_terms.is_some() {
            all.push(at.terms.map(|b| self.numbers(b)).into_pyobject(self.py)?.into_any());
        }
        PyTuple::new(self.py, all)
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
        let column = shape.len() > 1 && {
            let kept = shape.iter().rposition(|n| *n != 1).map_or(1, |last| (last + 1).max(1));
            (kept..shape.len()).any(|few| array.shape() == &shape[..few])
        };
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
        if let Some(array) = single(value, shape) {
            let array = array.try_readonly()?;
            out.iter_mut().zip(array.as_slice()?).for_each(|(o, v)| *o = F::of(v.f64()));
            return Ok(());
        }
        let array = self.array::<F>(what, value, shape)?;
        out.copy_from_slice(array.try_readonly()?.as_slice()?);
        Ok(())
    }

    /// Adds up what a callable returned, over the particles or groups in their order.
    fn sum(&self, what: &str, value: &Bound<'py, PyAny>, shape: &[usize], out: &mut [f64]) -> PyResult<()> {
        out.fill(0.0);
        if let Some(array) = single(value, shape) {
            for row in array.try_readonly()?.as_slice()?.chunks_exact(out.len()) {
                out.iter_mut().zip(row).for_each(|(o, v)| *o += f64::from(*v));
            }
            return Ok(());
        }
        let array = self.array::<f64>(what, value, shape)?;
        for row in array.try_readonly()?.as_slice()?.chunks_exact(out.len()) {
            out.iter_mut().zip(row).for_each(|(o, v)| *o += v);
        }
        Ok(())
    }
}

/// Numbers in single precision and in their shape, which are widened where they are read.
fn single<'a, 'py>(value: &'a Bound<'py, PyAny>, shape: &[usize]) -> Option<&'a Bound<'py, PyArrayDyn<f32>>> {
    let array = value.cast_exact::<PyArrayDyn<f32>>().ok()?;
    (array.shape() == shape && array.is_c_contiguous()).then_some(array)
}

/// Numbers for Python, from an address at which JAX reads them where they are: elsewhere it makes a copy.
struct Aligned<F> {
    all: Vec<F>,
    skip: usize,
}

/// Particles, rounded if they are to be.
enum Rows<F> {
    Single(Aligned<f32>),
    Own(Aligned<F>),
}

impl<F: PyReal> Aligned<F> {
    const BYTES: usize = 64;

    fn new(values: impl ExactSizeIterator<Item = F>) -> Self {
        let mut all: Vec<F> = Vec::with_capacity(values.len() + Self::BYTES / size_of::<F>());
        let skip = all.as_ptr().align_offset(Self::BYTES).min(Self::BYTES / size_of::<F>());
        all.resize(skip, F::of(0.0));
        all.extend(values);
        Aligned { all, skip }
    }

    fn array<'py>(self, py: Python<'py>, shape: Vec<usize>) -> PyResult<Bound<'py, PyAny>> {
        let Aligned { all, skip } = self;
        let own = PySlice::new(py, skip as isize, all.len() as isize, 1);
        let array = PyArray1::from_vec(py, all).get_item(own)?;
        Ok(array.cast::<PyArray1<F>>()?.reshape(shape)?.into_any())
    }
}

fn shape_text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Written {
    /// How many parameters its encoder has, if that is trained too.
    fn phi(&self) -> usize {
        let network = self.callables.network.as_ref().filter(|_| self.encodes);
        network.map_or(0, |network| network.phi)
    }

    /// Has the network's encoder turn standard normals into draws.
    fn encoded<F: PyReal>(
        &self,
        theta: &[f64],
        groups: &[u32],
        x: &mut [F],
        shape: &[usize],
    ) -> Result<(), ModelError> {
        let Some(network) = &self.callables.network else { return Ok(()) };
        let (asked, rows) = (self.callables.clone(), shape.to_vec());
        let (theta, groups, z) = (theta.to_vec(), groups.to_vec(), x.to_vec());
        let drawn = network.desk.call(move |py| {
            let z = PyArray1::from_vec(py, z).reshape(rows)?;
            let groups = PyArray1::from_iter(py, groups.into_iter().map(i64::from));
            let encode = asked.network.as_ref().map_or(&None, |network| &network.encode);
            Ok(call(encode, py, (PyArray1::from_vec(py, theta), z, groups))?.unbind())
        });
        self.cross(|py| py.copy("the encoder", &drawn?.into_bound(py.py), shape, x))
    }

    /// Crosses into the interpreter; what is raised there is kept for the end of the run.
    fn cross(&self, f: impl FnOnce(&Crossing<'_, '_>) -> PyResult<()>) -> Result<(), ModelError> {
        Python::attach(|py| f(&Crossing { py, callables: &self.callables })).map_err(|raised| {
            let interrupted = |py: Python<'_>| {
                raised.is_instance_of::<PyKeyboardInterrupt>(py) && self.callables.network.is_some()
            };
            if Python::attach(interrupted) {
                return ModelError::Stopped;
            }
            let text = raised.to_string();
            self.trouble.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(raised);
            ModelError::new(foreign(text))
        })
    }

    /// Asks for everything at once; the callable gets the names of what is asked for and returns as many arrays.
    fn ask<F: PyReal>(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        let c = &*self.callables;
        let shape = |last| c.shape(at.groups, at.x.len(), last);
        let Want { log_density, grad_x, grad_theta, scores, hessian, buffers, scalars, .. } = want;
        let names = [
            ("log_density", log_density.is_some()),
            ("grad_x", grad_x.is_some()),
            ("grad_theta", grad_theta.is_some()),
            ("scores", scores.is_some()),
            ("hessian", hessian.is_some()),
            ("buffers", buffers.is_some()),
            ("scalars", scalars.is_some()),
        ];
        let names: Vec<&str> = names.iter().filter(|(_, asked)| *asked).map(|(name, _)| *name).collect();
        // Most questions are about all groups in their order: then no data need be gathered.
        let all = at.groups.len() == c.groups.unwrap_or(1) && at.groups.iter().zip(0..).all(|(g, i)| *g == i);
        let groups = (!all).then(|| at.groups.to_vec());
        let (theta, buffers_at) = (at.theta.to_vec(), at.buffers.to_vec());
        let (asked, rows) = (self.callables.clone(), shape(Some(c.d_x)));
        let x = match c.single {
            true => Rows::Single(Aligned::new(at.x.iter().map(|v| v.f64() as f32))),
            false => Rows::Own(Aligned::new(at.x.iter().copied())),
        };
        let call = move |py: Python<'_>| -> PyResult<Py<PyAny>> {
            let f = asked.evaluate.as_ref().ok_or_else(|| PyValueError::new_err("there is nobody to ask"))?;
            let theta = PyArray1::from_vec(py, theta);
            let x = match x {
                Rows::Single(x) => x.array(py, rows)?,
                Rows::Own(x) => x.array(py, rows)?,
            };
            let groups = groups.map(|g| PyArray1::from_iter(py, g.into_iter().map(i64::from)));
            let names = PyTuple::new(py, names)?;
            match &asked.network {
                Some(_) => f.call1(py, (theta, x, groups, names, PyArray1::from_vec(py, buffers_at))),
                None => f.call1(py, (theta, x, groups, names)),
            }
        };
        let answers = match &c.network {
            Some(network) => network.desk.call(call),
            None => Python::attach(call),
        };
        self.cross(|py| {
            let answers = answers?.into_bound(py.py);
            let mut answers = answers.cast::<PyTuple>()?.iter();
            let mut next =
                || answers.next().ok_or_else(|| PyValueError::new_err("the model left a question open"));
            if let Some(out) = log_density {
                py.copy("the log density", &next()?, &shape(None), out)?;
            }
            if let Some(out) = grad_x {
                py.copy("its gradient in the latents", &next()?, &shape(Some(c.d_x)), out)?;
            }
            if let Some(out) = grad_theta {
                // Group by group, but for networks.
                let of_groups = c.groups.filter(|_| c.network.is_none()).map(|_| at.groups.len());
                let shape: Vec<usize> = of_groups.into_iter().chain([out.len()]).collect();
                py.sum("its gradient in the parameters", &next()?, &shape, out)?;
            }
            if let Some(out) = scores {
                py.copy("its gradients in the parameters", &next()?, &shape(Some(c.d_theta)), out)?;
            }
            if let Some(out) = hessian {
                py.copy("its Hessian in the parameters", &next()?, &[c.d_theta, c.d_theta], out)?;
            }
            if let Some(out) = buffers {
                py.copy("the network's buffers", &next()?, &[out.len()], out)?;
            }
            if let Some(out) = scalars {
                py.copy("what is traced of the network", &next()?, &[out.len()], out)?;
            }
            Ok(())
        })
    }
}

impl<F: PyReal> Model<F> for Written {
    fn name(&self) -> &str {
        &self.callables.name
    }

    fn d_theta(&self) -> usize {
        self.callables.d_theta + self.phi()
    }

    fn buffers(&self) -> usize {
        self.callables.network.as_ref().map_or(0, |network| network.buffers.len())
    }

    fn listed(&self) -> usize {
        self.callables.theta_names.len().min(LISTED)
    }

    /// A network may normalise by all rows at hand.
    fn whole_batch(&self) -> bool {
        self.callables.network.is_some()
    }

    fn scalars(&self) -> &[Scalar] {
        if self.callables.network.is_some() { &SCALARS } else { &[] }
    }

    fn finish_scalars(&self, rows: usize, sums: &mut [f64]) {
        sums.iter_mut().for_each(|s| *s /= rows as f64);
        if let [_, squares] = sums {
            *squares = squares.sqrt();
        }
    }

    fn encoder(&self) -> Option<&dyn Encoder<F>> {
        self.encodes.then_some(self as _)
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

    fn groups(&self) -> usize {
        self.callables.groups.unwrap_or(1)
    }

    fn group_names(&self) -> Vec<String> {
        self.callables.group_names.clone()
    }

    fn rows_per_block(&self, n: usize) -> usize {
        (n * self.callables.groups.unwrap_or(1)).min((MOST_COORDINATES / self.callables.d_x).max(1))
    }

    /// Nothing but for networks, so that blocks follow each other: the interpreter would let only one of them run at a time anyway.
    fn nanoseconds_per_row(&self) -> f64 {
        self.callables.network.as_ref().map_or(0.0, |_| crate::network::NANOSECONDS)
    }

    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        if self.callables.evaluate.is_some() {
            // An encoder that was interrupted has drawn nothing.
            let stopped = self.encodes && at.stop.is_set();
            return if stopped { Err(ModelError::Stopped) } else { self.ask(at, want) };
        }
        let Want { log_density, grad_x, grad_theta, scores, hessian, .. } = want;
        self.cross(|py| {
            let c = py.callables;
            let shape = |last| c.shape(at.groups, at.x.len(), last);
            if grad_x.is_some() || grad_theta.is_some() || scores.is_some() {
                let of_theta = if c.scores { shape(Some(c.d_theta)) } else { vec![c.d_theta] };
                let of_x = shape(Some(c.d_x));
                let pair = c.gradients.bind(py.py).call1(py.arguments(at, true)?)?;
                let pair = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().map_err(|_| {
                    let kind = pair.get_type().name().map_or("something else".into(), |t| t.to_string());
                    let (of_theta, of_x) = (shape_text(&of_theta), shape_text(&of_x));
                    PyValueError::new_err(format!(
                        "gradients returned {kind}; return the pair (grad_theta, grad_x) of shapes {of_theta} and {of_x}"
                    ))
                })?;
                if let Some(out) = grad_theta {
                    py.sum("grad_theta of gradients", &pair.0, &of_theta, out)?;
                }
                if let Some(out) = scores {
                    py.copy("grad_theta of gradients", &pair.0, &of_theta, out)?;
                }
                if let Some(out) = grad_x {
                    py.copy("grad_x of gradients", &pair.1, &of_x, out)?;
                }
            }
            if let Some(out) = log_density {
                let value = call(&c.log_density, py.py, py.arguments(at, false)?)?;
                py.copy("log_density", &value, &shape(None), out)?;
            }
            if let Some(out) = hessian {
                let value = call(&c.hessian, py.py, py.arguments(at, true)?)?;
                let mut of_theta = shape(Some(c.d_theta));
                of_theta.push(c.d_theta);
                py.sum("hessian", &value, &of_theta, out)?;
            }
            Ok(())
        })
    }

    fn gives(&self) -> Gives {
        let c = &self.callables;
        // An encoder has a bound in its place.
        Gives {
            log_density: c.log_density.is_some() && !self.encodes,
            scores: c.scores,
            hessian: c.hessian.is_some(),
        }
    }

    fn start(&self, _seed: u64, theta: &mut [f64], buffers: &mut [f64]) {
        // That of a network goes on with its encoder.
        if let Some(start) = self.callables.start.as_ref().and_then(|start| start.get(..theta.len())) {
            theta.copy_from_slice(start);
        }
        if let Some(network) = &self.callables.network {
            buffers.copy_from_slice(&network.buffers);
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
        match &self.callables.network {
            Some(_) => Some(&StandardNormal),
            None => self.callables.prior.as_ref().map(|_| self as _),
        }
    }
}

impl<F: PyReal> MStep<F> for Written {
    fn statistics_len(&self) -> usize {
        self.callables.statistics_len
    }

    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError> {
        let shape = self.callables.shape(at.groups, at.x.len(), Some(out.len()));
        self.cross(|py| {
            let arguments = py.arguments(at, false)?;
            let value = call(&py.callables.statistics, py.py, arguments.get_slice(1, arguments.len()))?;
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
    fn map_normals(&self, theta: &[f64], groups: &[u32], x: &mut [F]) {
        let shape = self.callables.shape(groups, x.len(), Some(self.callables.d_x));
        let crossed = match self.callables.network.is_some() {
            true => self.encoded(theta, groups, x, &shape),
            false => self.cross(|py| {
                let arguments = py.arguments(At { groups, ..At::new(theta, x) }, false)?;
                py.copy("prior", &call(&py.callables.prior, py.py, arguments)?, &shape, x)
            }),
        };
        if crossed.is_err() {
            x.fill(F::of(f64::NAN)); // the run ends at its next step
        }
    }
}

impl<F: PyReal> Encoder<F> for Written {
    fn parameters(&self) -> usize {
        self.phi()
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
