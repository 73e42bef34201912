//! Models as Python gives them: a built-in one with its data, or callables.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use motes::{Model, Pool, Settings, memory};
use motes_app::Error;
use motes_app::config::{Config, Defaults, Precision};
use motes_app::job::{self, Files, Precise};
use motes_app::models::{self, Remember, Source};
use motes_models::data::{Classification, sha256};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::callables::{Callables, PyReal, Trouble, Written};
use crate::errors::{exception, failure, value_error};

/// What a model is made of.
pub enum Kind {
    Builtin { config: Box<Config>, source: Arc<Source>, table: Option<Box<Table>>, shape: OnceLock<Shape> },
    Written(Arc<Callables>),
}

/// D_theta, D_x, names of theta, names of x.
type Shape = (usize, usize, Vec<String>, Vec<String>);

/// Data that were given as arrays, to be written beside a run's config.
pub enum Table {
    Observations(Vec<f64>),
    Rows(Classification),
}

/// What a coordinate's name takes: Python asks for all of them.
const NAME_BYTES: u128 = 64;

/// The file of such data in a run directory.
const TABLE: &str = "data.csv";

impl Table {
    /// As CSV: every number comes back to the last bit.
    pub fn csv(&self) -> Vec<u8> {
        let mut out = csv::Writer::from_writer(Vec::new());
        // Writing to memory does not fail.
        match self {
            Table::Observations(y) => {
                let _ = out.write_record(["y"]);
                y.iter().for_each(|v| drop(out.write_record([format!("{v:?}")])));
            }
            Table::Rows(rows) => {
                let _ = out.write_record(rows.feature_names.iter().chain([&rows.target]));
                for (f, label) in rows.features.chunks_exact(rows.feature_names.len()).zip(&rows.labels) {
                    let class = rows.classes[usize::from(*label)].clone();
                    let _ = out.write_record(f.iter().map(|v| format!("{v:?}")).chain([class]));
                }
            }
        }
        out.into_inner().unwrap_or_default()
    }
}

/// A model and its data.
#[pyclass(frozen, module = "motes._core")]
pub struct Problem {
    pub kind: Arc<Kind>,
}

#[pymethods]
impl Problem {
    /// A built-in model with the data that the settings name (JSON, named as in config.toml).
    #[staticmethod]
    fn of_settings(py: Python<'_>, settings: &str) -> PyResult<Self> {
        let mut config = settings_from(settings)?;
        let name = models::name(None, config.model.as_deref()).map_err(failure)?;
        let shape = models::shape_before_data(&name, &config, 8);
        memory::check(shape, &Settings { particles: 1, ..Settings::default() }).map_err(value_error)?;
        let source = py.detach(|| Source::load(&mut config)).map_err(failure)?;
        Problem::builtin(config, source, None).map_err(failure)
    }

    /// The hierarchical model of observations.
    #[staticmethod]
    fn of_observations(y: PyReadonlyArray1<'_, f64>) -> PyResult<Self> {
        let y: Vec<f64> = y.as_array().to_vec();
        let config = Config { model: Some("hierarchical".into()), ..Config::default() };
        let source = Source::of_observations(&config, y.clone(), String::new()).map_err(failure)?;
        Problem::builtin(config, source, Some(Table::Observations(y))).map_err(failure)
    }

    /// A classifier of rows whose labels count the classes.
    #[staticmethod]
    fn of_rows(
        py: Python<'_>,
        settings: &str,
        features: PyReadonlyArray2<'_, f64>,
        labels: PyReadonlyArray1<'_, u8>,
        classes: Vec<String>,
        names: Vec<String>,
        target: String,
    ) -> PyResult<Self> {
        let mut config = settings_from(settings)?;
        config.drop = Some(Vec::new());
        let rows = Classification {
            features: features.as_array().iter().copied().collect(),
            feature_names: names,
            labels: labels.as_array().to_vec(),
            target,
            classes,
            rows_dropped: 0,
        };
        let made = py.detach(|| {
            let source = Source::of_rows(&mut config, rows.clone(), String::new())?;
            let problem = Problem::builtin(config, source, Some(Table::Rows(rows)))?;
            // A model that cannot be built is refused now, not when it is fitted.
            problem.kind.posed(&Trouble::default()).double().map(|_| problem)
        });
        made.map_err(failure)
    }

    /// A model of callables.
    #[staticmethod]
    fn of_callables(description: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Problem { kind: Arc::new(Kind::Written(Arc::new(Callables::new(description)?))) })
    }

    /// The model's name.
    #[getter]
    fn name(&self) -> String {
        self.kind.name().to_string()
    }

    /// Sizes and names: D_theta, D_x, names of theta, names of x.
    fn shape(&self) -> PyResult<Shape> {
        let of = || -> Result<Shape, Error> {
            let model = self.kind.posed(&Trouble::default()).double()?;
            Ok((model.d_theta(), model.d_x(), model.theta_names(), model.x_names()))
        };
        match &*self.kind {
            Kind::Builtin { shape, .. } => match shape.get() {
                Some(known) => Ok(known.clone()),
                None => of().map(|new| shape.get_or_init(|| new).clone()),
            },
            Kind::Written(_) => of(),
        }
        .map_err(failure)
    }

    /// What should be known about the data, in a line each.
    fn notes(&self) -> Vec<String> {
        match &*self.kind {
            Kind::Builtin { source, .. } => source.notes.clone(),
            Kind::Written(_) => Vec::new(),
        }
    }

    /// The names of the classes, where there are any.
    fn classes(&self) -> Option<Vec<String>> {
        self.kind.remember().map(|r| r.classes.clone())
    }

    /// The names of the columns that features come from, where there are any.
    fn features(&self) -> Vec<String> {
        self.kind.remember().map_or(Vec::new(), |r| r.features.clone())
    }
}

impl Problem {
    /// A model of data; a network of which not even one particle fits into memory is refused before it is built.
    fn builtin(config: Config, source: Source, table: Option<Table>) -> Result<Self, Error> {
        if let Some(r) = source.remember.as_ref().filter(|r| r.model == "bnn") {
            let d_x = r.hidden.saturating_mul(r.inputs + r.classes.len());
            let data_bytes = NAME_BYTES * d_x as u128;
            let shape = memory::Shape { d_theta: 2, d_x, data_bytes, real_bytes: 8 };
            memory::check(shape, &Settings { particles: 1, ..Settings::default() }).map_err(|sentence| {
                let arithmetic = sentence.split(';').next().unwrap_or_default();
                format!("hidden is {}: {arithmetic}; use fewer hidden units", r.hidden)
            })?;
        }
        let (config, source, table) = (Box::new(config), Arc::new(source), table.map(Box::new));
        Ok(Problem { kind: Arc::new(Kind::Builtin { config, source, table, shape: OnceLock::new() }) })
    }

    /// The model of a run directory that needs no callables.
    pub fn of_config(mut config: Config) -> Result<(Self, Config), Error> {
        let source = Source::load(&mut config)?;
        Ok((Problem::builtin(config.clone(), source, None)?, config))
    }
}

impl Kind {
    pub fn name(&self) -> &str {
        match self {
            Kind::Builtin { config, .. } => config.model.as_deref().unwrap_or_default(),
            Kind::Written(callables) => &callables.name,
        }
    }

    /// The settings that the data were made with.
    pub fn config(&self) -> Config {
        match self {
            Kind::Builtin { config, .. } => (**config).clone(),
            Kind::Written(callables) => Config { model: Some(callables.name.clone()), ..Config::default() },
        }
    }

    pub fn remember(&self) -> Option<&Remember> {
        match self {
            Kind::Builtin { source, .. } => source.remember.as_ref(),
            Kind::Written(_) => None,
        }
    }

    /// The problem of one run; what its callables raise is kept aside in `trouble`.
    pub fn posed(self: &Arc<Self>, trouble: &Trouble) -> Arc<dyn job::Problem> {
        Arc::new(Posed { kind: self.clone(), trouble: trouble.clone() })
    }
}

/// The problem of one run.
struct Posed {
    kind: Arc<Kind>,
    trouble: Trouble,
}

impl Posed {
    fn build<F: PyReal + Precise>(&self) -> Result<Arc<dyn Model<F>>, Error> {
        match &*self.kind {
            Kind::Builtin { source, .. } => F::model(&**source),
            Kind::Written(c) => Ok(Arc::new(Written { callables: c.clone(), trouble: self.trouble.clone() })),
        }
    }
}

impl job::Problem for Posed {
    fn defaults(&self) -> Defaults {
        match &*self.kind {
            Kind::Builtin { source, .. } => source.defaults(),
            Kind::Written(callables) => Defaults {
                variational_adam: false,
                particles: 100,
                steps: 400,
                step_size: callables.default_step_size,
                precision: Precision::F64,
                preconditioner: motes::settings::Preconditioner::None,
                init_particles: motes::settings::InitParticles::Value(0.0),
            },
        }
    }

    fn sha256(&self) -> Option<&str> {
        match &*self.kind {
            Kind::Builtin { source, table: None, .. } => Some(&source.sha256),
            _ => None,
        }
    }

    fn notes(&self) -> &[String] {
        match &*self.kind {
            Kind::Builtin { source, .. } => &source.notes,
            Kind::Written(_) => &[],
        }
    }

    fn remember(&self) -> Option<serde_json::Value> {
        match &*self.kind {
            Kind::Builtin { source, .. } => job::Problem::remember(&**source),
            Kind::Written(_) => None,
        }
    }

    fn single(&self) -> Result<Arc<dyn Model<f32>>, Error> {
        self.build()
    }

    fn double(&self) -> Result<Arc<dyn Model<f64>>, Error> {
        self.build()
    }

    fn place(&self, dir: &Path, config: &mut Config) -> Result<Files, Error> {
        let Kind::Builtin { table: Some(table), .. } = &*self.kind else { return Ok(Files::new()) };
        let bytes = table.csv();
        let path = std::path::absolute(dir.join(TABLE))
            .map_err(|e| format!("cannot use {}: {e}; check the path", dir.display()))?;
        (config.data, config.data_sha256) = (Some(path), Some(sha256(&bytes)));
        if let Table::Observations(_) = **table {
            config.target = Some("y".into());
        }
        Ok(vec![(TABLE, bytes)])
    }
}

/// Reads settings as Python writes them.
pub fn settings_from(json: &str) -> PyResult<Config> {
    let table = serde_json::from_str(json).map_err(value_error)?;
    Config::from_table(table).map_err(failure)
}

/// Compares the model's derivatives with finite differences: piece, error, place and whether it passed.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    problem: &Problem,
    seed: u64,
) -> PyResult<Vec<(&'static str, f64, String, bool)>> {
    let trouble: Trouble = Arc::new(Mutex::new(None));
    let model = problem.kind.posed(&trouble).double().map_err(failure)?;
    let checks = py.detach(|| -> Result<_, motes::Error> {
        Pool::new(Some(1))?.install(|| motes::check_model(&*model, seed))
    });
    if let Some(raised) = trouble.lock().unwrap_or_else(|p| p.into_inner()).take() {
        return Err(raised);
    }
    let checks = checks.map_err(exception)?;
    Ok(checks.into_iter().map(|c| (c.piece, c.error, c.place.clone(), c.passed())).collect())
}
