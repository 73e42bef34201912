//! The generator network on the command line: `fit generator`, its `resume` and `report`, and what a trained one can do.

mod config;
pub mod open;
mod progress;
mod report;
pub mod run;
mod tasks;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::args::How;
pub use config::GeneratorConfig;
pub use open::{Trained, memory_estimate, told};
pub use report::{Summary, report};
pub use run::{fit, resume, train};
pub use tasks::{
    Filled, HOLE, InpaintArgs, InterpolateArgs, ReconstructArgs, Source, SynthesizeArgs, hole, inpaint,
    interpolate, mixture, reconstruct, synthesize,
};

/// Models whose flags differ from all others'.
#[derive(Subcommand)]
pub enum FitModel {
    /// Train the generator network of the paper on images
    #[command(after_help = EXAMPLES)]
    Generator(Box<FitGeneratorArgs>),
}

const EXAMPLES: &str = "\
Examples:
  motes fit generator --images 1000 --particles 2 --epochs 100     a small one on the embedded MNIST images
  motes fit generator --algorithm short-run --chain 10
  motes fit generator --data img_align_celeba --channels 3 --images 40000 --lambda 2.5e-4
  motes resume runs/generator-pgd-1 --steps 2000
  motes inpaint runs/generator-pgd-1 --count 16";

#[derive(Args)]
pub struct FitGeneratorArgs {
    #[command(flatten)]
    pub config: GeneratorConfig,
    /// Take the settings of this file; flags override it
    #[arg(long = "config", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// The run directory, new or empty [default: runs/generator-ALGORITHM-n]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub how: How,
}

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
