//! The generator network on the command line: `fit generator`, its `resume` and `report`, and what a trained one can do.

mod progress;
mod tasks;
mod train;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use motes_app::generator::GeneratorConfig;

use crate::args::How;
pub use tasks::{
    InpaintArgs, InterpolateArgs, ReconstructArgs, SynthesizeArgs, inpaint, interpolate, reconstruct,
    synthesize,
};
pub use train::{fit, resume, told};

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
