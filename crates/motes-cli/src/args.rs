//! The command line, flag by flag.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use motes::Algorithm;
use motes_app::choices::{Choices, flags_of};
use motes_models::options::{Flag, whole};
use motes_models::registry::Entry;

use crate::flags::{OfModel, Rest};
use crate::frechet::FrechetArgs;
use crate::generator::{InpaintArgs, InterpolateArgs, ReconstructArgs, SynthesizeArgs};

/// Train latent variable models by maximum likelihood with clouds of particles.
#[derive(Parser)]
#[command(name = "motes", version, max_term_width = 110, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  motes fit logistic                              a logistic regression on the built-in data
  motes fit logistic --data my.csv --target outcome --drop id
  motes predict runs/logistic-auto-1 --data new.csv --output probabilities.csv
  motes fit hierarchical                          the toy model of the paper, on generated data
  motes fit hierarchical --algorithm pmgd --step-size 0.1 --particles 50 --steps 2000
  motes fit --config runs/hierarchical-auto-1/config.toml --seed 7   with another seed
  motes resume runs/hierarchical-auto-1 --tolerance 0.01       make it more accurate
  motes resume runs/hierarchical-pmgd-1 --steps 5000           continue to 5,000 steps
  motes compare logistic --algorithms pgd,pqn,soul --steps 500   one page for all of them
  motes paper                                     the paper's figures and tables, in some minutes

Exit codes:
  0  done
  1  ended early by choice; can be resumed
  2  error
  3  done, but the verdict is not ok (with --strict)";

#[derive(Subcommand)]
pub enum Command {
    /// Fit a model and write a run directory
    #[command(after_help = FIT_EXAMPLES)]
    Fit(OfModel<FitRest>),
    /// Continue an interrupted run, or extend a finished one
    Resume(ResumeArgs),
    /// Predict new rows with a fitted run
    #[command(after_help = PREDICT_NOTE)]
    Predict(PredictArgs),
    /// Fill holes in images with a trained generator
    Inpaint(InpaintArgs),
    /// Make new images with a trained generator
    Synthesize(SynthesizeArgs),
    /// Walk from one training image of a generator to another
    Interpolate(InterpolateArgs),
    /// Show training images of a generator and what their particles decode to
    Reconstruct(ReconstructArgs),
    /// Say how far apart two sets of images, or two arrays of features, are
    #[command(after_help = FRECHET_EXAMPLES)]
    Frechet(FrechetArgs),
    /// Write a page that shows a run, or compares several
    Report(ReportArgs),
    /// Run several algorithms on the same data, or compare existing runs, and write a page about them
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(OfModel<CompareRest>),
    /// Compare runs by their likelihoods
    #[command(name = COMPARE_RUNS, hide = true, override_usage = "motes compare DIR DIR... [--output FILE] [--quiet] [--no-report]")]
    CompareRuns(CompareRunsArgs),
    /// Reproduce the figures and tables of the paper
    #[command(after_help = PAPER_EXAMPLES)]
    Paper(PaperArgs),
    /// Compare a model's derivatives with finite differences
    CheckModel(OfModel<CheckRest>),
    /// Print a completion script for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

const FIT_EXAMPLES: &str = "\
Examples:
  motes fit logistic --data my.csv --target outcome --drop id,name
  motes fit bnn --particles 10 --steps 500
  motes fit logistic --algorithm pqn --particles 100 --steps 2000 --adjust
  motes fit hierarchical --dim 1000 --particles 100 --algorithm pqn --step-size 0.05
  motes fit hierarchical --data measurements.csv --target y --algorithm pmgd
  motes fit hierarchical --algorithm marginal-mh --particles 4 --step-size 0.5 --steps 10000 --dim 1
  motes fit hierarchical --algorithm pgd --grow 500:100,800:1000 --step-decay 0.6,100 --steps 2000
  motes fit generator --images 1000 --particles 2 --epochs 100     on the built-in MNIST images
  motes fit generator --data img_align_celeba --channels 3 --images 40000 --lambda 2.5e-4
  motes fit --config runs/hierarchical-auto-1/config.toml --out again
  motes fit logistic --help                       the flags of a model, and of every run";

/// Where a run is fitted to and from.
#[derive(Args)]
pub struct FitRest {
    /// Take the settings from this file; flags override them
    #[arg(long = "config", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// The run directory, new or empty [default: runs/MODEL-ALGORITHM-n]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub how: How,
    #[command(flatten)]
    pub ends: Ends,
}

impl Rest for FitRest {
    const RUN: fn(&dyn Entry) -> Vec<Flag> = flags_of;
}

/// How a run is carried out; results do not depend on it.
#[derive(Args, Clone)]
pub struct How {
    /// Threads [default: all]
    #[arg(long, value_name = "T")]
    pub threads: Option<usize>,
    /// Show neither progress nor the summary
    #[arg(long)]
    pub quiet: bool,
    /// Leave report.html out of the run directory
    #[arg(long)]
    pub no_report: bool,
}

/// How one run ends.
#[derive(Args, Clone, Default)]
pub struct Ends {
    /// Stop after S seconds, with exit code 1; `motes resume` continues
    #[arg(long, value_name = "S")]
    pub budget: Option<f64>,
    /// Exit with code 3 if the verdict is not ok
    #[arg(long)]
    pub strict: bool,
}

#[derive(Args)]
pub struct ResumeArgs {
    /// The run directory
    pub dir: PathBuf,
    /// The new total number of steps; burn-in stays
    #[arg(long, value_name = "K", value_parser = whole::<u64>)]
    pub steps: Option<u64>,
    /// A smaller tolerance, for a fit by auto, which continues from the end of theta's stage
    #[arg(long, value_name = "T")]
    pub tolerance: Option<f64>,
    /// A larger number of evaluations, for a fit by auto
    #[arg(long, value_name = "E", value_parser = whole::<u64>)]
    pub max_evaluations: Option<u64>,
    #[command(flatten)]
    pub how: How,
    #[command(flatten)]
    pub ends: Ends,
}

#[derive(Args)]
pub struct PredictArgs {
    /// The run directory
    pub dir: PathBuf,
    /// A CSV file with the columns that the model was fitted to; - for standard input
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Treat words that occur in no training row as the reference level of their column [default: refuse them]
    #[arg(long, value_name = "reference", value_enum, hide_possible_values = true)]
    pub unknown: Option<UnknownWords>,
    /// Where to write the predictions [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What becomes of words that no training row held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnknownWords {
    /// They count as the reference level.
    Reference,
}

const PREDICT_NOTE: &str = "\
Classes are written as they appear in the data. A spreadsheet takes a class such as
=1+1 for a formula: import such a file as text.";

const FRECHET_EXAMPLES: &str = "\
It is the squared Frechet distance
  |mu_A - mu_B|^2 + tr(S_A + S_B - 2 (S_A S_B)^(1/2))
with the divisor n - 1 in the covariances. With the built-in features it is called
frechet_lenet. It is not FID, which needs the features of Inception: see examples/fid.py.

Examples:
  motes synthesize runs/generator-pgd-1 --count 2000
  motes frechet runs/generator-pgd-1/synthesize-gaussian.npy mnist-test
  motes frechet mnist-train:0..2000 mnist-test      what real digits give
  motes frechet mine.npy theirs.npy                 two arrays of features of any kind";

#[derive(Args)]
pub struct ReportArgs {
    /// Run directories; several are compared on one page
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the directory, or here for several]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What `compare` becomes where its words are directories.
pub const COMPARE_RUNS: &str = "compare-runs";

/// Existing runs, side by side.
#[derive(Args)]
pub struct CompareRunsArgs {
    /// Run directories, two or more
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Where to write the page [default: report.html, here]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show nothing
    #[arg(long)]
    pub quiet: bool,
    /// Write no page
    #[arg(long)]
    pub no_report: bool,
}

const COMPARE_EXAMPLES: &str = "\
An algorithm ignores options that it does not take (em ignores --particles).

Given run directories in place of a model, it compares them by log-likelihood, AIC
and BIC, and by a likelihood-ratio test where model and data are the same and the
numbers of parameters differ.

Examples:
  motes compare logistic --algorithms pgd,pqn,soul --steps 500 --metrics-every 10
  motes compare hierarchical --algorithms pgd,pmgd,em --budget 2
  motes compare --config runs/logistic-pgd-1/config.toml --algorithms pgd,mean-field --out both
  motes compare runs/small runs/large             a likelihood-ratio test between two runs";

/// What a comparison has besides the choices for its runs.
#[derive(Args)]
pub struct CompareRest {
    /// The algorithms, in the order in which they run
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required = true)]
    pub algorithms: Vec<&'static Algorithm>,
    /// Run each for S seconds instead of a number of steps; half of that is burn-in unless --burn-in says
    /// otherwise, and --trace-every is then chosen by the speed
    #[arg(long, value_name = "S", conflicts_with = "steps")]
    pub budget: Option<f64>,
    /// Take the settings from this file; flags override them
    #[arg(long = "config", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// The directory for the runs and the page; an interrupted one is continued [default: runs/compare-MODEL-n]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub how: How,
}

impl Rest for CompareRest {
    const RUN: fn(&dyn Entry) -> Vec<Flag> = flags_of;
    const HIDDEN: Option<&'static str> = Some("algorithm");
}

const PAPER_EXAMPLES: &str = "\
Items: fig1, fig2, radii, fig3, table1, table3, fig4 and table2 (the default), and
table4, which must be named: it trains five generators, some 25 minutes on two cores,
or days with --full.
Finished replicates are kept in DIR: the same command continues where it was stopped.

Examples:
  motes paper                                     all but table4, with few replicates: minutes
  motes paper table1 table3 --full                two tables with the paper's 100 replicates
  motes paper fig4 table2 --full --jobs 4 --out network
  motes paper table4 --quick                      small generators: half an hour";

#[derive(Args)]
pub struct PaperArgs {
    /// Figures and tables [default: all but table4]
    #[arg(value_name = "ITEM")]
    pub items: Vec<String>,
    /// Replicates of everything [default: 20 of the logistic regression, 3 of the network and 1 of the generators; --full: 100, 10 and 3]
    #[arg(long, value_name = "R")]
    pub replicates: Option<u32>,
    /// Training steps K of table4's generators [default: 800; --full: 39500]
    #[arg(long, value_name = "K", value_parser = whole::<u64>)]
    pub steps: Option<u64>,
    /// Test images that table4 inpaints [default: 32; --full: 1000]
    #[arg(long, value_name = "n")]
    pub inpaint: Option<u64>,
    /// Fewer replicates than in the paper, and smaller generators (default)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// The paper's own setting
    #[arg(long)]
    pub full: bool,
    /// Replicates at once [default: one for each core]
    #[arg(long, value_name = "J")]
    pub jobs: Option<usize>,
    /// Where everything is written: a new directory, or one to continue [default: runs/paper]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write results.md and images/paper/ into this directory too
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
}

/// A check has nothing but its seed.
#[derive(Args)]
pub struct CheckRest {}

impl Rest for CheckRest {
    const RUN: fn(&dyn Entry) -> Vec<Flag> =
        |_| Choices::flags().iter().filter(|flag| flag.name == "seed").copied().collect();
}
