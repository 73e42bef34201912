//! The generator network: its configs, trainings, run directories and reports, and what a trained one can do.

mod config;
pub mod open;
pub mod report;
pub mod run;
pub mod tasks;

use std::path::Path;

pub use config::{GeneratorConfig, MODEL};
pub use open::{Trained, memory_estimate};
pub use report::Summary;

/// Whether a config file is that of a generator.
pub fn is_config(file: &Path) -> bool {
    // What is read from a pipe is gone for whoever wants it next.
    let text = if file.is_file() { crate::text::read(file).unwrap_or_default() } else { String::new() };
    crate::text::parse(&text).is_ok_and(|table| table.get("model").is_some_and(|m| m == config::MODEL))
}
