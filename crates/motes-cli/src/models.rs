//! Which models there are, and how flags become one of them.

use std::path::{Path, PathBuf};

use motes::memory::Shape;
use motes::settings::unknown;
use motes::{Model, Real};
use motes_models::data::{self, Classification, Moments, wisconsin};
use motes_models::logistic::Options;
use motes_models::{Hierarchical, Logistic};
use serde::{Deserialize, Serialize};

use crate::config::{Config, Defaults, Precision};

const MODELS: &[&str] = &["hierarchical", "logistic"];

/// A model with its data read, in no precision yet.
pub enum Spec {
    Hierarchical { y: Vec<f64> },
    Logistic { train: Box<Classification>, test: Option<Box<Classification>>, options: Options },
}

/// A model's data and what a run must remember of them.
pub struct Source {
    pub spec: Spec,
    /// The digest of everything that was read or generated.
    pub sha256: String,
    /// What people should know about the data, in a line each.
    pub notes: Vec<String>,
    /// What predictions need later.
    pub remember: Option<Remember>,
}

/// How new rows become features of a fitted logistic regression; part of summary.json.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Remember {
    pub target: String,
    /// The second class is label 1.
    pub classes: [String; 2],
    pub features: Vec<String>,
    /// The training moments; `None` if features are taken as they are.
    pub moments: Option<Moments>,
    pub intercept: bool,
    pub train_rows: usize,
    pub test_rows: usize,
    pub rows_dropped: usize,
}

/// The model's name, from the command line or the config.
pub fn name(argument: Option<&str>, config: Option<&str>) -> Result<String, String> {
    let name = match (argument, config) {
        (Some(a), Some(b)) if a != b => {
            return Err(format!("the config is for the model {b}, not {a}; leave one of them out"));
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Err(format!("no model is named; give one of {}", MODELS.join(", "))),
    };
    if !MODELS.contains(&name) {
        return Err(unknown("model", name, MODELS));
    }
    Ok(name.to_string())
}

/// What the model suggests where nothing was chosen.
pub fn defaults(name: &str) -> Defaults {
    match name {
        "logistic" => Defaults { particles: 100, steps: 1000, step_size: 0.01, precision: Precision::F64 },
        _ => Defaults { particles: 10, steps: 5000, step_size: 0.02, precision: Precision::F64 },
    }
}

/// The sizes of a run, as far as they are known before any data are read or made.
pub fn shape_before_data(name: &str, config: &Config, real_bytes: usize) -> Shape {
    let d = if name == "hierarchical" && config.data.is_none() { config.dim.unwrap_or(100) } else { 1 };
    Shape { d_theta: 1, d_x: d, data_bytes: (8 + 8 + real_bytes as u128) * d as u128, real_bytes }
}

impl Source {
    /// Reads or generates the data.
    pub fn load(config: &mut Config) -> Result<Source, String> {
        let model = config.model.clone().unwrap_or_default();
        refuse_foreign_flags(&model, config)?;
        let source = match model.as_str() {
            "logistic" => logistic(config),
            _ => hierarchical(config),
        };
        source.map_err(|e| e.to_string())
    }

    /// The model in the chosen precision.
    pub fn build<F: Real>(&self) -> Result<Box<dyn Model<F>>, String> {
        Ok(match &self.spec {
            Spec::Hierarchical { y } => Box::new(Hierarchical::new(y)),
            Spec::Logistic { train, test, options } => {
                Box::new(Logistic::new(train, test.as_deref(), *options).map_err(|e| e.to_string())?)
            }
        })
    }
}

/// A flag of one model means nothing to another.
fn refuse_foreign_flags(model: &str, config: &Config) -> Result<(), String> {
    let flags = [
        ("hierarchical", "--dim", config.dim.is_some()),
        ("hierarchical", "--true-theta", config.true_theta.is_some()),
        ("hierarchical", "--data-seed", config.data_seed.is_some()),
        ("logistic", "--drop", config.drop.is_some()),
        ("logistic", "--test", config.test.is_some()),
        ("logistic", "--test-fraction", config.test_fraction.is_some()),
        ("logistic", "--split-seed", config.split_seed.is_some()),
        ("logistic", "--no-standardize", config.no_standardize.is_some()),
        ("logistic", "--prior-variance", config.prior_variance.is_some()),
        ("logistic", "--intercept", config.intercept.is_some()),
    ];
    match flags.iter().find(|(owner, _, given)| *given && *owner != model) {
        Some((owner, flag, _)) => {
            Err(format!("{flag} belongs to the model {owner}, not to {model}; leave it out"))
        }
        None => Ok(()),
    }
}

fn hierarchical(config: &mut Config) -> Result<Source, Box<dyn std::error::Error>> {
    let mut notes = Vec::new();
    let (y, sha256) = match &config.data {
        Some(path) => {
            let generated = [config.dim.is_some(), config.true_theta.is_some(), config.data_seed.is_some()];
            if generated.contains(&true) {
                return Err(
                    "--dim, --true-theta and --data-seed are for generated data; leave them or --data out"
                        .into(),
                );
            }
            let bytes = read(path)?;
            let table = data::read_table(&bytes, &path.display().to_string())?;
            let (y, dropped) = data::column(&table, config.target.as_deref())?;
            note_dropped(&mut notes, path, dropped);
            (y, data::sha256(&bytes))
        }
        None => {
            if config.target.is_some() {
                return Err("--target names a column of --data; give a file or leave it out".into());
            }
            let dim = *config.dim.get_or_insert(100);
            let theta = *config.true_theta.get_or_insert(1.0);
            let seed = *config.data_seed.get_or_insert(0);
            if dim == 0 {
                return Err("--dim 0 leaves no data; ask for at least 1".into());
            }
            if !theta.is_finite() {
                return Err(format!("--true-theta {theta} is not finite; choose a number").into());
            }
            let y = Hierarchical::<f64>::generate(dim, theta, seed);
            let bytes: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
            (y, data::sha256(&bytes))
        }
    };
    Ok(Source { spec: Spec::Hierarchical { y }, sha256, notes, remember: None })
}

fn logistic(config: &mut Config) -> Result<Source, Box<dyn std::error::Error>> {
    let mut notes = Vec::new();
    let prior_variance = *config.prior_variance.get_or_insert(5.0);
    if !(prior_variance > 0.0 && prior_variance.is_finite()) {
        return Err(
            format!("--prior-variance {prior_variance} is not a positive number; use for example 5").into()
        );
    }
    let intercept = *config.intercept.get_or_insert(false);
    let standardize = !*config.no_standardize.get_or_insert(false);
    let (bytes, name) = match &config.data {
        Some(path) => (read(path)?, path.display().to_string()),
        None => {
            config.drop.get_or_insert_with(|| wisconsin::DROP.iter().map(|s| s.to_string()).collect());
            (wisconsin::BYTES.to_vec(), wisconsin::NAME.to_string())
        }
    };
    let drop = config.drop.get_or_insert_default();
    let table = data::read_table(&bytes, &name)?;
    let mut all = data::classification(&table, config.target.as_deref(), drop)?;
    config.target = Some(all.target.clone());
    note_dropped(&mut notes, Path::new(&name), all.rows_dropped);
    notes.push(format!("{}: '{}' is 0 and '{}' is 1", all.target, all.classes[0], all.classes[1]));
    let moments = standardize.then(|| Moments::of(&all.features, &all.feature_names)).transpose()?;
    if let Some(moments) = &moments {
        moments.apply(&mut all.features);
    }
    let mut digest = data::sha256(&bytes);
    let (train, test) = match &config.test {
        Some(path) => {
            if config.test_fraction.is_some_and(|f| f != 0.0) || config.split_seed.is_some() {
                return Err("--test names a test set, so there is nothing to split; leave --test-fraction and --split-seed out".into());
            }
            let bytes = read(path)?;
            let table = data::read_table(&bytes, &path.display().to_string())?;
            let mut test = data::classification_like(&table, &all)?;
            note_dropped(&mut notes, path, test.rows_dropped);
            if let Some(moments) = &moments {
                moments.apply(&mut test.features);
            }
            digest = data::sha256(format!("{digest}{}", data::sha256(&bytes)).as_bytes());
            (all, Some(test))
        }
        None => {
            let fraction = *config.test_fraction.get_or_insert(0.2);
            let seed = *config.split_seed.get_or_insert(0);
            let split = data::train_test_split(all.rows(), fraction, seed)?;
            let test = (!split.test.is_empty()).then(|| all.select(&split.test));
            (all.select(&split.train), test)
        }
    };
    notes.push(format!(
        "{} rows to train on, {} to test on, {} features",
        train.rows(),
        test.as_ref().map_or(0, |t| t.rows()),
        train.feature_names.len()
    ));
    let remember = Remember {
        target: train.target.clone(),
        classes: train.classes.clone(),
        features: train.feature_names.clone(),
        moments,
        intercept,
        train_rows: train.rows(),
        test_rows: test.as_ref().map_or(0, |t| t.rows()),
        rows_dropped: train.rows_dropped,
    };
    let (train, test) = (Box::new(train), test.map(Box::new));
    let spec = Spec::Logistic { train, test, options: Options { prior_variance, intercept } };
    Ok(Source { spec, sha256: digest, notes, remember: Some(remember) })
}

fn note_dropped(notes: &mut Vec<String>, file: &Path, dropped: usize) {
    if dropped > 0 {
        notes.push(format!("{}: {dropped} rows with missing values were dropped", file.display()));
    }
}

/// Reads a data file whole.
pub fn read(path: &PathBuf) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("cannot read the data {}: {e}; check the path", path.display()))
}
