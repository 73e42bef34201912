//! The `motes` command line: fit, resume, report, check-model, completions.

mod args;
mod check;
mod config;
mod fit;
mod models;
mod progress;
mod report;
mod show;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use motes::Ended;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            let _ = e.print(); // help and version
            return ExitCode::SUCCESS;
        }
        Err(e) => return failure(&usage_sentence(&e)),
    };
    let result = match cli.command {
        Command::Fit(args) => fit::fit(args),
        Command::Resume(args) => fit::resume(args),
        Command::Report(args) => report::report(args),
        Command::CheckModel(args) => check::check(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "motes", &mut script);
            let written = std::io::stdout().write_all(&script);
            written.map(|()| Ended::Complete).map_err(|e| format!("cannot print: {e}; try again"))
        }
    };
    match result {
        Ok(Ended::Complete) => ExitCode::SUCCESS,
        Ok(Ended::Early) => ExitCode::from(1),
        Err(sentence) => failure(&sentence),
    }
}

fn failure(sentence: &str) -> ExitCode {
    eprintln!("motes: {sentence}");
    ExitCode::from(2)
}

/// What clap has to say, in one sentence.
fn usage_sentence(error: &clap::Error) -> String {
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return error.to_string();
    }
    let text = error.render().to_string();
    let mut parts = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(problem) = line.strip_prefix("error: ") {
            parts.push(problem.trim_end_matches(':').to_string());
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            parts.push(tip.to_string());
        }
    }
    if !parts.iter().any(|p| p.contains(';')) {
        parts.push("see motes --help".into());
    }
    parts.join("; ")
}
