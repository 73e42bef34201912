//! The generator network: its configs, trainings, run directories and reports, and what a trained one can do.

mod config;
pub mod open;
pub mod report;
pub mod run;
pub mod tasks;

use std::path::Path;

pub use config::GeneratorConfig;
pub use open::{Trained, memory_estimate};
pub use report::Summary;

/// Whether a config file is that of a generator.
pub fn is_config(file: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Model {
        model: String,
    }
    // What is read from a pipe is gone for whoever wants it next.
    let bytes = if file.is_file() { crate::config::read_bytes(file).unwrap_or_default() } else { Vec::new() };
    let text = String::from_utf8(bytes).unwrap_or_default();
    toml::from_str::<Model>(&text).is_ok_and(|m| m.model == config::MODEL)
}
