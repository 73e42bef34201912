//! Models as Python gives them: a built-in one with its data, or callables.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use motes::algorithms::{AUTO, PGD, VAE};
use motes::sentence::foreign;
use motes::settings::{InitParticles, Preconditioner};
use motes::{ALGORITHMS, Model, Pool, Real, Settings, memory};
use motes_app::choices::{Choices, StartTheta};
use motes_app::config::Config;
use motes_app::{job, predict};
use motes_models::data::{Column, Frame, ImageSet, LabelledRows, Values, Words};
use motes_models::generator::Targets;
use motes_models::options::{Flag, Kind as Looks, Setting, Table};
use motes_models::registry::{self, Defaults, Entry, Error, Fitted, Given, Precision, Predictor, ThetaRate};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde_json::Value;

use crate::callables::{Callables, PyReal, Trouble, Written};
use crate::errors::{exception, failure, in_python, not_found, value_error};
use crate::watch::{Desk, unless_interrupted};

/// What a model is made of.
#[derive(Clone)]
pub enum Kind {
    Builtin(Arc<dyn registry::Problem>),
    Written(Arc<Callables>),
}

/// D_theta, D_x, names of theta, names of x.
type Shape = (usize, usize, Vec<String>, Vec<String>, Vec<String>);

/// A model and its data.
#[pyclass(frozen, module = "motes._core")]
pub struct Problem {
    pub kind: Kind,
    shape: OnceLock<Shape>,
}

#[pymethods]
impl Problem {
    /// A built-in model with the data that the options name (JSON, named as in config.toml).
    #[staticmethod]
    fn of_options(py: Python<'_>, model: &str, options: &str) -> PyResult<Self> {
        let options = options_from(model, options)?;
        let entry = job::entry_of(model).map_err(failure)?;
        let one = Settings { particles: 1, ..Settings::default() };
        memory::check(entry.shape_before_data(&options, 8), &one).map_err(value_error)?;
        Problem::loaded(py, model, options, Given::Options)
    }

    /// A built-in model of observations.
    #[staticmethod]
    fn of_observations(
        py: Python<'_>,
        model: &str,
        options: &str,
        y: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        Problem::loaded(py, model, options_from(model, options)?, Given::Observations(y.as_array().to_vec()))
    }

    /// A classifier of rows whose labels count the classes. Columns with levels hold words, whose numbers count the levels.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn of_rows(
        py: Python<'_>,
        model: &str,
        options: &str,
        features: PyReadonlyArray2<'_, f64>,
        levels: Vec<Option<Vec<String>>>,
        labels: PyReadonlyArray1<'_, u8>,
        classes: Vec<String>,
        names: Vec<String>,
        target: String,
        weights: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<Self> {
        let taken = |name: &str| name == target || names.iter().any(|other| other == name);
        let mut column = String::from("weights");
        while taken(&column) {
            column.push('_');
        }
        let rows = LabelledRows::of_frame(
            frame(&features, levels, names),
            labels.as_array().to_vec(),
            target,
            classes,
        );
        let rows = match weights {
            Some(weights) => {
                let given = weights.as_array().to_vec();
                rows.weighted(&column, given).map_err(|e| failure(registry::Error::from(e).into()))?
            }
            None => rows,
        };
        let problem = Problem::loaded(py, model, options_from(model, options)?, Given::Rows(rows))?;
        // A model that cannot be built is refused now, not when it is fitted.
        py.detach(|| problem.kind.posed(&Trouble::default()).double(&any()))
            .map_err(|e| failure(e.into()))?;
        Ok(problem)
    }

    /// A generator of images, as an IDX file holds them, with their labels.
    #[staticmethod]
    fn of_images(
        py: Python<'_>,
        model: &str,
        idx: Vec<u8>,
        channels: usize,
        labels: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let set = py.detach(|| -> Result<_, motes_app::Error> {
            let read = || ImageSet::from_idx(&idx, "images", channels, None);
            Ok(Pool::new(None)?.install(read)?)
        });
        let set = set.map_err(failure)?;
        Problem::loaded(py, model, Table::new(), Given::Images { set, labels })
    }

    /// The same data with other options (JSON, named as in config.toml).
    fn with_options(&self, options: &str) -> PyResult<Self> {
        let options = options_from(self.kind.name(), options)?;
        let problem = self.kind.posed(&Trouble::default()).with_options(options);
        Ok(Problem::of(Kind::Builtin(problem.map_err(|e| failure(e.into()))?)))
    }

    /// How many images there are, and of how many channels.
    fn image_shape(&self) -> Option<(usize, usize)> {
        let problem = self.kind.posed(&Trouble::default());
        problem.images().map(|set| (set.count(), set.channels()))
    }

    /// All values of the images, in [-1, 1].
    fn image_values<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        let problem = self.kind.posed(&Trouble::default());
        let values = problem.images().map_or(Vec::new(), |set| set.values(0..set.count()));
        values.into_pyarray(py)
    }

    /// A model of callables.
    #[staticmethod]
    fn of_callables(description: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Problem::of(Kind::Written(Arc::new(Callables::new(description)?))))
    }

    /// The model's name.
    #[getter]
    fn name(&self) -> String {
        self.kind.name().to_string()
    }

    /// The options of a built-in model as JSON, with the files that its data come from.
    fn options(&self) -> String {
        serde_json::json!(self.kind.posed(&Trouble::default()).options()).to_string()
    }

    /// Sizes and names: D_theta, D_x, names of theta, names of x, names of the groups.
    fn shape(&self) -> PyResult<Shape> {
        if let (Some(known), Kind::Builtin(_)) = (self.shape.get(), &self.kind) {
            return Ok(known.clone());
        }
        fn of<F: Real>(model: &dyn Model<F>) -> Shape {
            (model.d_theta(), model.d_x(), model.theta_names(), model.x_names(), model.group_names())
        }
        let problem = self.kind.posed(&Trouble::default());
        let new = match problem.double(&any()) {
            Ok(model) => of(&*model),
            // Some models have one precision alone.
            Err(_) => of(&*problem.single(&any()).map_err(|e| failure(e.into()))?),
        };
        let _ = self.shape.set(new.clone());
        Ok(new)
    }

    /// What should be known about the data, in a line each.
    fn notes(&self) -> Vec<String> {
        match &self.kind {
            Kind::Builtin(problem) => problem.notes().to_vec(),
            Kind::Written(_) => Vec::new(),
        }
    }

    /// The names of the classes, where there are any.
    fn classes(&self) -> Option<Vec<String>> {
        self.kind.predictor().map(|p| p.classes().to_vec())
    }

    /// The names of the columns that features come from, where there are any, and whether each is a category.
    fn columns(&self) -> Vec<(String, bool)> {
        let of = |p: Box<dyn Predictor>| {
            p.columns().columns.iter().map(|c| (c.name.clone(), c.levels.is_some())).collect()
        };
        self.kind.predictor().map_or(Vec::new(), of)
    }
}

/// The columns of an array; where there are levels, its numbers count them.
pub fn frame(
    values: &PyReadonlyArray2<'_, f64>,
    levels: Vec<Option<Vec<String>>>,
    names: Vec<String>,
) -> Frame {
    let values = values.as_array();
    let column = |((column, levels), name): ((_, Option<Vec<String>>), String)| {
        let column: numpy::ndarray::ArrayView1<'_, f64> = column;
        let values = match levels {
            None => Values::Numbers(column.to_vec()),
            Some(levels) => {
                Values::Words(Words { codes: column.iter().map(|code| *code as u32).collect(), levels })
            }
        };
        Column { name, values }
    };
    let columns = values.columns().into_iter().zip(levels).zip(names).map(column).collect();
    Frame { columns, rows: values.nrows() }
}

impl Problem {
    pub fn of(kind: Kind) -> Self {
        Problem { kind, shape: OnceLock::new() }
    }

    fn loaded(py: Python<'_>, model: &str, options: Table, given: Given) -> PyResult<Self> {
        let entry = job::entry_of(model).map_err(failure)?;
        Ok(Problem::of(Kind::Builtin(loaded(py, entry, options, given)?)))
    }
}

/// A built-in model with its data.
pub fn loaded(
    py: Python<'_>,
    entry: &'static dyn Entry,
    options: Table,
    given: Given,
) -> PyResult<Arc<dyn registry::Problem>> {
    let named = |flag: &&Flag| flag.kind == Looks::File;
    let files = entry.flags().iter().filter(named).filter_map(|flag| options.get(flag.name)?.as_str());
    let files: Vec<PathBuf> = files.map(PathBuf::from).collect();
    // On a thread of its own: the data may be a pipe that nobody writes to.
    let loaded = unless_interrupted(py, move || entry.load(options, given))?;
    loaded.map_err(|e| match files.iter().any(|file| is_missing(file)) {
        true => not_found(e),
        false => failure(e.into()),
    })
}

fn is_missing(file: &Path) -> bool {
    std::fs::metadata(file).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

impl Kind {
    pub fn name(&self) -> &str {
        match self {
            Kind::Builtin(problem) => problem.name(),
            Kind::Written(callables) => &callables.name,
        }
    }

    /// Where its calls are made while it is fitted, if not by whoever has something to ask.
    pub fn desk(&self) -> Option<&Desk> {
        match self {
            Kind::Written(callables) => callables.network.as_ref().map(|network| &network.desk),
            Kind::Builtin(_) => None,
        }
    }

    /// How new rows are predicted, if they can be.
    pub fn predictor(&self) -> Option<Box<dyn Predictor>> {
        let Kind::Builtin(problem) = self else { return None };
        // What the problem itself remembers is in order.
        predict::predictor(problem.name(), problem.remember().as_ref()).ok().flatten()
    }

    /// Chooses the algorithm of a model of callables where nobody has: auto where it can be, else pgd, with a note that says why.
    pub fn choose(&self, config: &mut Config) -> Option<String> {
        let Kind::Written(callables) = self else { return None };
        if config.run.algorithm.is_some() || callables.network.is_some() {
            return None;
        }
        let lacks = callables.lacks_for_auto(config.run.batch.is_some());
        config.run.algorithm = Some(if lacks.is_none() { &AUTO } else { &PGD });
        lacks.map(|lacks| format!("{lacks}, so pgd was used; name `algorithm=pgd` if that is what you want"))
    }

    /// The problem of one run; what its callables raise is kept aside in `trouble`.
    pub fn posed(&self, trouble: &Trouble) -> Arc<dyn registry::Problem> {
        match self {
            Kind::Builtin(problem) => problem.clone(),
            Kind::Written(c) => Arc::new(Own { callables: c.clone(), trouble: trouble.clone() }),
        }
    }
}

/// A model of callables in one run.
struct Own {
    callables: Arc<Callables>,
    trouble: Trouble,
}

impl Own {
    fn build<F: PyReal>(&self, settings: &Settings) -> Result<Arc<dyn Model<F>>, Error> {
        let (callables, trouble) = (self.callables.clone(), self.trouble.clone());
        if let Some(network) = &callables.network {
            network.check::<F>(settings)?;
        }
        let encodes = callables.network.is_some() && settings.algorithm == &VAE;
        Ok(Arc::new(Written { callables, trouble, encodes }))
    }

    /// Has a network show how far it has come.
    fn shown(&self, dir: &Path, fitted: &Fitted<'_>, over: bool) -> Result<(), Error> {
        let Some(network) = &self.callables.network else { return Ok(()) };
        network.show(dir, fitted, over).map_err(|raised| {
            let text = foreign(&raised).to_string();
            self.trouble.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(raised);
            text.into()
        })
    }
}

impl registry::Problem for Own {
    fn name(&self) -> &str {
        &self.callables.name
    }

    fn defaults(&self) -> Defaults {
        let c = &self.callables;
        if let Some(network) = &c.network {
            return network.defaults(c.default_step_size);
        }
        let many = c.has_many_parameters();
        Defaults {
            algorithm: if c.lacks_for_auto(false).is_none() { &AUTO } else { &PGD },
            auto_start: c.auto_start(),
            particles: 100,
            steps: 400,
            step_size: c.default_step_size,
            precision: Precision::F64,
            // So many parameters hardly have one scale.
            preconditioner: if many { Preconditioner::Rmsprop } else { Preconditioner::None },
            theta_rate: many.then_some(ThetaRate::Value(1e-3)),
            init_particles: InitParticles::Value(0.0),
            ..Defaults::default()
        }
    }

    fn options(&self) -> Table {
        self.callables.options.clone()
    }

    fn sha256(&self) -> Option<&str> {
        self.callables.sha256.as_deref()
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn remember(&self) -> Option<serde_json::Value> {
        None
    }

    fn single(&self, settings: &Settings) -> Result<Arc<dyn Model<f32>>, Error> {
        self.build(settings)
    }

    fn double(&self, settings: &Settings) -> Result<Arc<dyn Model<f64>>, Error> {
        self.build(settings)
    }

    fn shows_every(&self, settings: &Settings) -> u64 {
        self.callables.network.as_ref().map_or(0, |network| network.epoch(settings))
    }

    fn show(&self, dir: &Path, _seed: u64, fitted: &Fitted<'_>) -> Result<(), Error> {
        self.shown(dir, fitted, false)
    }

    fn leave(&self, dir: &Path, _seed: u64, fitted: &Fitted<'_>) -> Result<(), Error> {
        self.shown(dir, fitted, true)
    }
}

/// Settings that any model can be built for, to ask for its sizes and names.
fn any() -> Settings {
    Settings { particles: 2, batch: Some(1), ..Settings::default() }
}

/// Options of a model as Python writes them.
fn options_from(model: &str, json: &str) -> PyResult<Table> {
    Ok(settings_from(model, json)?.options)
}

/// Reads settings as Python writes them, with the numbers of a file that is named as on the command line.
pub fn settings_from(model: &str, json: &str) -> PyResult<Config> {
    let mut table: Table = serde_json::from_str(json).map_err(|e| value_error(foreign(e)))?;
    if let Some(Value::String(text)) = table.get("init-theta") {
        let start = text.parse::<StartTheta>().map_err(|problem| match is_missing(Path::new(text)) {
            true => not_found(format!("init_theta: {problem}")),
            false => value_error(format!("init_theta: {problem}")),
        })?;
        table.insert("init-theta".into(), start.write());
    }
    Config::of_table(model, table).map_err(failure)
}

/// The model that a config file is for.
#[pyfunction]
pub fn model_of(config: PathBuf) -> PyResult<String> {
    Config::read(&config).map(|config| config.model).map_err(failure)
}

/// The models that are built in: name, what it is, its options (name, value, help, kind); the options of every run; and
/// the algorithms: name, what it is, and the options that mean something to it.
#[pyfunction]
pub fn models() -> String {
    let kind = |kind: Looks| match kind {
        Looks::Whole => "whole",
        Looks::Number => "number",
        Looks::Text => "text",
        Looks::Switch => "switch",
        Looks::List => "list",
        Looks::File => "file",
    };
    let options = |flags: &[Flag]| -> serde_json::Value {
        let flags = flags.iter().filter(|flag| !flag.value.is_empty());
        let described = flags.map(|f| {
            serde_json::json!({ "name": f.name, "value": f.value, "help": in_python(f.help), "kind": kind(f.kind) })
        });
        described.collect()
    };
    let table: Table = registry::MODELS
        .iter()
        .map(|e| {
            (e.name().to_string(), serde_json::json!({ "about": e.about(), "options": options(e.flags()) }))
        })
        .collect();
    let algorithms: Table = ALGORITHMS
        .iter()
        .map(|a| {
            let takes = |flag: &&Flag| a.takes(flag.name, &Settings::default());
            let takes: Vec<&str> = Choices::flags().iter().filter(takes).map(|flag| flag.name).collect();
            (a.name.to_string(), serde_json::json!({ "about": a.about, "takes": takes }))
        })
        .collect();
    let run = options(Choices::flags());
    serde_json::json!({ "models": table, "run": run, "algorithms": algorithms }).to_string()
}

/// Compares the model's derivatives with finite differences: piece, error, place and whether it passed.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    problem: &Problem,
    seed: u64,
) -> PyResult<Vec<(&'static str, f64, String, bool)>> {
    let trouble: Trouble = Arc::new(Mutex::new(None));
    let posed = problem.kind.posed(&trouble);
    let checks = match posed.double(&any()) {
        Ok(model) => py.detach(|| -> Result<_, motes::Error> {
            Pool::new(Some(1))?.install(|| motes::check_model(&*model, seed))
        }),
        Err(_) => {
            let model = posed.single(&any()).map_err(|e| failure(e.into()))?;
            py.detach(|| Pool::new(Some(1))?.install(|| motes::check_single(&*model, seed)))
        }
    };
    if let Some(raised) = trouble.lock().unwrap_or_else(|p| p.into_inner()).take() {
        return Err(raised);
    }
    let checks = checks.map_err(exception)?;
    Ok(checks.into_iter().map(|c| (c.piece, c.error, c.place.clone(), c.passed())).collect())
}
