//! The command line, flag by flag.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Config;

/// Train latent variable models by maximum likelihood with clouds of particles.
#[derive(Parser)]
#[command(name = "motes", version, max_term_width = 110, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  motes fit logistic                              empirical-Bayes logistic regression on the embedded data
  motes fit logistic --data my.csv --target outcome --drop id --intercept
  motes predict runs/logistic-pgd-1 --data new.csv --output probabilities.csv
  motes fit hierarchical                          the toy model of the paper, on generated data
  motes fit hierarchical --algorithm pmgd --step-size 0.1 --particles 50 --steps 2000
  motes fit --config runs/hierarchical-pgd-1/config.toml --seed 7     the same again with another seed
  motes resume runs/hierarchical-pgd-1 --steps 5000                   go on where it ended
  motes paper                                     the paper's figures and tables, in some minutes

Exit codes: 0 done; 1 ended early by choice and resumable; 2 error.";

#[derive(Subcommand)]
pub enum Command {
    /// Fit a model and write a run directory
    #[command(after_help = FIT_EXAMPLES)]
    Fit(FitArgs),
    /// Go on with an interrupted run, or give a finished one more steps
    Resume(ResumeArgs),
    /// Predict new rows with a fitted run
    Predict(PredictArgs),
    /// Write a page that shows a run, or compares several
    Report(ReportArgs),
    /// Reproduce the figures and tables of the paper
    #[command(after_help = PAPER_EXAMPLES)]
    Paper(PaperArgs),
    /// Compare a model's derivatives with finite differences
    CheckModel(CheckArgs),
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
  motes fit hierarchical --grow 500:100,800:1000 --step-decay 0.6,100 --steps 2000
  motes fit --config runs/hierarchical-pgd-1/config.toml --out again";

#[derive(Args)]
pub struct FitArgs {
    /// The model: hierarchical, logistic or bnn (may be left out with --config)
    pub model: Option<String>,
    #[command(flatten)]
    pub config: Config,
    /// Take the settings of this file; flags override it
    #[arg(long = "config", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// The run directory, new or empty [default: runs/MODEL-ALGORITHM-n]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub how: How,
}

/// How a run is carried out; results do not depend on it.
#[derive(Args)]
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

#[derive(Args)]
pub struct ResumeArgs {
    /// The run directory
    pub dir: PathBuf,
    /// The new total number of steps; burn-in stays
    #[arg(long, value_name = "K")]
    pub steps: Option<u64>,
    #[command(flatten)]
    pub how: How,
}

#[derive(Args)]
pub struct PredictArgs {
    /// The run directory
    pub dir: PathBuf,
    /// A CSV file with the columns that the model was fitted to
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// Where to write the predictions [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args)]
pub struct ReportArgs {
    /// Run directories; several are compared on one page
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the directory, or here for several]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

const PAPER_EXAMPLES: &str = "\
Items: fig1, fig2, radii, fig3, table1, table3, fig4, table2 (all, if none is named).
Replicates that are done are kept in DIR and not done again: the same command goes on where it was stopped.

Examples:
  motes paper                                     everything, with few replicates: some minutes
  motes paper table1 table3 --full                two tables with the paper's 100 replicates
  motes paper fig4 table2 --full --jobs 4 --out network";

#[derive(Args)]
pub struct PaperArgs {
    /// Figures and tables [default: all]
    #[arg(value_name = "ITEM")]
    pub items: Vec<String>,
    /// Replicates of everything [default: 20 of the logistic regression and 3 of the network; --full: 100 and 10]
    #[arg(long, value_name = "R")]
    pub replicates: Option<u32>,
    /// Fewer replicates than in the paper (default)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// The paper's own setting
    #[arg(long)]
    pub full: bool,
    /// Replicates at once [default: one for each core]
    #[arg(long, value_name = "J")]
    pub jobs: Option<usize>,
    /// Where everything is written: a new directory, or one to go on with [default: runs/paper]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write results.md and images/paper/ into this directory too
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
}

#[derive(Args)]
pub struct CheckArgs {
    /// The model: hierarchical, logistic or bnn
    pub model: Option<String>,
    #[command(flatten)]
    pub config: Config,
}
