//! The generator network on the command line: `fit generator`, its `resume` and `report`, and what a trained one can do.

mod progress;
mod tasks;
mod train;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use motes_app::generator::{GeneratorConfig, MODEL};

use crate::args::FitRest;
use crate::flags::{chosen, with};
pub use tasks::{
    InpaintArgs, InterpolateArgs, ReconstructArgs, SynthesizeArgs, inpaint, interpolate, reconstruct,
    synthesize,
};
pub use train::{fit, resume, told};

const EXAMPLES: &str = "\
Examples:
  motes fit generator --images 1000 --particles 2 --epochs 100     a small one on the embedded MNIST images
  motes fit generator --algorithm short-run --chain 10
  motes fit generator --data img_align_celeba --channels 3 --images 40000 --lambda 2.5e-4
  motes resume runs/generator-pgd-1 --steps 2000
  motes inpaint runs/generator-pgd-1 --count 16";

/// `fit generator`.
pub struct FitGeneratorArgs {
    pub config: GeneratorConfig,
    pub rest: FitRest,
}

/// Its flags.
pub fn command() -> Command {
    let command = Command::new(MODEL)
        .about("The generator network of the paper, trained on images")
        .after_help(EXAMPLES);
    FitRest::augment_args(with(command, GeneratorConfig::flags()))
}

impl FitGeneratorArgs {
    pub fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let config = GeneratorConfig::of(&chosen(matches, GeneratorConfig::flags()));
        let config = config.map_err(|e| clap::Error::raw(ErrorKind::InvalidValue, format!("{e}\n")))?;
        Ok(FitGeneratorArgs { config, rest: FitRest::from_arg_matches(matches)? })
    }
}
