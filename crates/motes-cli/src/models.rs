//! Which models there are, and how flags become one of them.

use motes::memory::Shape;
use motes::settings::unknown;
use motes::{Model, Real};
use motes_models::Hierarchical;
use motes_models::data;

use crate::config::{Config, Defaults, Precision};

const MODELS: &[&str] = &["hierarchical"];

/// A model with its data read, in no precision yet.
pub enum Spec {
    Hierarchical { y: Vec<f64> },
}

/// A model's data and what a run must remember of them.
pub struct Source {
    pub spec: Spec,
    pub sha256: String,
    /// What people should know about the data, in a line each.
    pub notes: Vec<String>,
}

/// The model's name, from the command line or the config.
pub fn name(argument: Option<&str>, config: Option<&str>) -> Result<String, String> {
    let name = match (argument, config) {
        (Some(a), Some(b)) if a != b => {
            return Err(format!("the config is for the model {b}, not {a}; leave one of them out"));
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Err(format!("which model? give one of {}", MODELS.join(", "))),
    };
    if !MODELS.contains(&name) {
        return Err(unknown("model", name, MODELS));
    }
    Ok(name.to_string())
}

/// What the model suggests where nothing was chosen.
pub fn defaults(_name: &str) -> Defaults {
    Defaults { particles: 10, steps: 5000, step_size: 0.02, precision: Precision::F64 }
}

/// The sizes of a run, as far as they are known before any data are made.
pub fn shape_before_data(config: &Config, real_bytes: usize) -> Shape {
    let d = if config.data.is_some() { 1 } else { config.dim.unwrap_or(100) };
    Shape { d_theta: 1, d_x: d, data_bytes: (8 + 8 + real_bytes as u128) * d as u128, real_bytes }
}

impl Source {
    /// Reads or generates the data.
    pub fn load(config: &mut Config) -> Result<Source, String> {
        let mut notes = Vec::new();
        let y = match &config.data {
            Some(path) => {
                for (flag, given) in [
                    ("--dim", config.dim.is_some()),
                    ("--true-theta", config.true_theta.is_some()),
                    ("--data-seed", config.data_seed.is_some()),
                ] {
                    if given {
                        return Err(format!("{flag} is for generated data; leave it or --data out"));
                    }
                }
                let bytes = read(path)?;
                let table =
                    data::read_table(&bytes, &path.display().to_string()).map_err(|e| e.to_string())?;
                let (y, dropped) =
                    data::column(&table, config.target.as_deref()).map_err(|e| e.to_string())?;
                if dropped > 0 {
                    notes.push(format!("{dropped} rows with missing values were dropped"));
                }
                let sha256 = data::sha256(&bytes);
                return Ok(Source { spec: Spec::Hierarchical { y }, sha256, notes });
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
                    return Err(format!("--true-theta {theta} is not finite; choose a number"));
                }
                Hierarchical::<f64>::generate(dim, theta, seed)
            }
        };
        let bytes: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
        Ok(Source { sha256: data::sha256(&bytes), spec: Spec::Hierarchical { y }, notes })
    }

    /// The model in the chosen precision.
    pub fn build<F: Real>(&self) -> Box<dyn Model<F>> {
        match &self.spec {
            Spec::Hierarchical { y } => Box::new(Hierarchical::new(y)),
        }
    }
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("cannot read the data {}: {e}; check the path", path.display()))
}
