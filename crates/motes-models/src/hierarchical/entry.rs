//! The toy model as one of those that are built in: generated observations, or a column of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use motes::algorithms::AUTO;
use motes::memory::Shape;
use motes::sentence::foreign_path;
use motes::{Model, Real, Settings};
use serde_json::Value;

use super::Hierarchical;
use crate::data::{self, rows, rows::Kept};
use crate::options::{Flag, Table};
use crate::registry::{self, Defaults, Error, Given, Placed, Problem, read};

/// The model's line in the table.
pub struct Entry;

const NAME: &str = "hierarchical";
const DIM: usize = 100;
/// Raised whenever the same options come to generate other data.
const GENERATED: u32 = 1;

crate::options! {
    /// Which observations there are.
    pub struct Options {
        "Data" {
            /// Read the observations from a CSV file with a header [default: generated data]
            data: PathBuf => "FILE";
            /// The column of the observations [default: the last]
            target: String => "COL";
            /// The number of generated observations D_x [default: 100]
            dim: usize => "D";
            /// The theta that data are generated with [default: 1]
            true_theta: f64 => "T" signed;
            /// The seed that data are generated with [default: 0]
            data_seed: u64 => "S";
            /// 1 for all latent variables in one group, which move, and are accepted or rejected, together [default: each its own]
            groups: usize => "1";
        }
    }
}

impl registry::Entry for Entry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "The toy model of the paper: x_i ~ N(theta, 1), y_i ~ N(x_i, 1)"
    }

    fn flags(&self) -> &'static [Flag] {
        Options::flags()
    }

    fn defaults(&self) -> Defaults {
        Defaults { algorithm: &AUTO, particles: 10, steps: 5000, step_size: 0.02, ..Defaults::default() }
    }

    fn names_data(&self) -> &'static [&'static str] {
        &["data", "dim", "true-theta", "data-seed"]
    }

    fn gives_way(&self) -> &'static [(&'static [&'static str], &'static [&'static str])] {
        const GENERATED: &[&str] = &["dim", "true-theta", "data-seed"];
        &[(&["data"], GENERATED), (GENERATED, &["data", "target"])]
    }

    fn shape_before_data(&self, options: &Table, real_bytes: usize) -> Shape {
        let dim = options.get("dim").and_then(Value::as_u64).map_or(DIM, |d| d as usize);
        let d = if options.contains_key("data") { 1 } else { dim };
        Shape {
            d_theta: 1,
            d_x: 1,
            groups: d,
            buffers: 0,
            numerical_m_step: false,
            data_bytes: (8 + 8 + real_bytes as u128) * d as u128,
            real_bytes,
        }
    }

    fn load(&self, options: Table, given: Given) -> Result<Arc<dyn Problem>, Error> {
        let options = Options::of(&options)?;
        if let Some(groups) = options.groups.filter(|groups| *groups != 1) {
            return Err(
                format!("`groups={groups}` is not 1; leave it out for a group a latent variable").into()
            );
        }
        Ok(Arc::new(match given {
            Given::Options => Observations::read(options)?,
            Given::Observations(y) => {
                Observations { y, options, sha256: None, notes: Vec::new(), kept: Kept::new() }
            }
            _ => {
                return Err("the hierarchical model takes observations, not rows; give y".into());
            }
        }))
    }
}

/// The model with its observations.
struct Observations {
    y: Vec<f64>,
    options: Options,
    /// `None` if they were given in memory.
    sha256: Option<String>,
    notes: Vec<String>,
    /// What came through a pipe.
    kept: Kept,
}

impl Observations {
    fn read(options: Options) -> Result<Self, Error> {
        let (mut notes, mut kept) = (Vec::new(), Kept::new());
        let (y, sha256, options) = match &options.data {
            Some(path) => {
                let Options { dim, true_theta, data_seed, .. } = options;
                if dim.is_some() || true_theta.is_some() || data_seed.is_some() {
                    return Err(
                        "`dim`, `true-theta` and `data-seed` are for generated data; leave them or `data` out".into(),
                    );
                }
                let bytes = read(path)?;
                let table = data::read_table(&bytes, &foreign_path(path))?;
                let y = data::column(&table, options.target.as_deref(), &mut notes)?;
                let sha256 = data::sha256(&bytes);
                if data::is_pipe(path) {
                    kept.push(("data", rows::TABLE, bytes));
                }
                (y, sha256, options)
            }
            None => {
                if options.target.is_some() {
                    return Err("`target` names a column of `data`; give a file or leave it out".into());
                }
                let (dim, theta) = (options.dim.unwrap_or(DIM), options.true_theta.unwrap_or(1.0));
                let seed = options.data_seed.unwrap_or(0);
                if dim == 0 {
                    return Err("`dim=0` leaves no data; ask for at least 1".into());
                }
                if !theta.is_finite() {
                    return Err(format!("`true-theta={theta}` is not finite; choose a number").into());
                }
                let y = Hierarchical::<f64>::generate(dim, theta, seed);
                let digest = digest_of_generated(dim, theta, seed);
                let (dim, true_theta, data_seed) = (Some(dim), Some(theta), Some(seed));
                (y, digest, Options { dim, true_theta, data_seed, ..options })
            }
        };
        Ok(Observations { y, options, sha256: Some(sha256), notes, kept })
    }

    fn build<F: Real>(&self) -> Result<Arc<dyn Model<F>>, Error> {
        Ok(match self.options.groups {
            Some(1) => Arc::new(Hierarchical::new(&self.y)),
            _ => Arc::new(Hierarchical::grouped(&self.y)),
        })
    }
}

/// What stands for generated data: that which generates them. Their own last bits depend on the instruction set, and a
/// run goes on on another machine.
fn digest_of_generated(dim: usize, theta: f64, seed: u64) -> String {
    data::sha256(format!("{NAME} {GENERATED} {dim} {:016x} {seed}", theta.to_bits()).as_bytes())
}

impl Problem for Observations {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> Table {
        self.options.table()
    }

    fn sha256(&self) -> Option<&str> {
        self.sha256.as_deref()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn formula(&self) -> Vec<String> {
        vec!["y_d ~ N(x_d, 1), x_d ~ N(theta, 1)".into()]
    }

    fn single(&self, _: &Settings) -> Result<Arc<dyn Model<f32>>, Error> {
        self.build()
    }

    fn double(&self, _: &Settings) -> Result<Arc<dyn Model<f64>>, Error> {
        self.build()
    }

    fn place(&self, dir: &Path) -> Result<Option<Placed>, Error> {
        if let Some(sha256) = &self.sha256 {
            return rows::place_kept(&self.kept, sha256, dir);
        }
        let lines: Vec<Vec<String>> = std::iter::once(vec!["y".to_string()])
            .chain(self.y.iter().map(|v| vec![format!("{v:?}")]))
            .collect();
        rows::place(&lines, dir, Table::from_iter([("target".to_string(), "y".into())])).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_data_are_known_by_what_generates_them() {
        // A fixed one: it must be the same on every machine.
        assert_eq!(
            digest_of_generated(100, 1.0, 0),
            "b420b05f73145cc527feec25e05d15cdebbca8ed66e6a18acd523bef9ae63022"
        );
        let all =
            [(100, 1.0, 0), (101, 1.0, 0), (100, -1.0, 0), (100, 1.0, 1), (1001, 1.0, 0), (100, 0.0, 0)];
        let digests: std::collections::HashSet<String> =
            all.map(|(dim, theta, seed)| digest_of_generated(dim, theta, seed)).into();
        assert_eq!(digests.len(), all.len());
    }
}
