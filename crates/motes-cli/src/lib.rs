//! The `motes` command line: fit, resume, predict, the tasks of a generator, frechet, report, compare, paper, check-model,
//! completions.
//!
//! What it shares with the Python package (configs, models by name, runs, reports) is the crate `motes_app`.

// Tests may be held against the system's libm; results must not come from it.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

/// Prints a line on stderr, with settings as flags; that nobody listens is no error.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let line = motes::sentence::render(&format!($($part)*), motes::sentence::Face::Shell);
        let _ = writeln!(std::io::stderr(), "{}", crate::screen::wrapped(&line, &std::io::stderr()));
    }};
}

mod args;
mod check;
mod compare;
mod fit;
mod flags;
mod frechet;
mod generator;
mod paper;
mod predict;
mod progress;
pub mod ranks;
mod reference;
mod replicates;
mod report;
mod screen;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use fit::Exit;
use motes::sentence::foreign;

use args::{Cli, Command};

/// Does what the arguments of the process say.
pub fn main() -> ExitCode {
    // Before anything that takes time: a supervisor may change its mind in the first millisecond.
    if let Err(sentence) = progress::catch_signals() {
        return failure(&sentence);
    }
    if let Err(refused) = motes::simd::check_environment() {
        return failure(&refused.to_string());
    }
    // Until the end: other processes may wait for this one.
    let _joined = match ranks::join() {
        Ok(joined) => joined,
        Err(sentence) => return failure(&sentence),
    };
    let args = match flags::with_model(compare::of_runs(std::env::args_os().collect())) {
        Ok(args) => args,
        Err(sentence) => return refusal(sentence),
    };
    let page = help_page(&args);
    let parsed = command().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            let _ = e.print(); // help and version
            return ExitCode::SUCCESS;
        }
        Err(e) if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = e.print();
            return ExitCode::from(2);
        }
        Err(e) => return refusal(usage_sentence(&e, &page)),
    };
    if let Err(sentence) = ranks::prepared(Ok(())) {
        return failure(&sentence);
    }
    let result = match cli.command {
        Command::Fit(args) => fit::fit(args),
        Command::Resume(args) => fit::resume(args),
        _ if ranks::ranks().size() > 1 => {
            Err("several processes share fit and resume alone; start this without a launcher".into())
        }
        Command::Predict(args) => predict::predict(args).map(Exit::from),
        Command::Inpaint(args) => generator::inpaint(args).map(Exit::from),
        Command::Synthesize(args) => generator::synthesize(args).map(Exit::from),
        Command::Interpolate(args) => generator::interpolate(args).map(Exit::from),
        Command::Reconstruct(args) => generator::reconstruct(args).map(Exit::from),
        Command::Frechet(args) => frechet::frechet(args).map(Exit::from),
        Command::Report(args) => report::report(args).map(Exit::from),
        Command::Compare(args) => compare::compare(args).map(Exit::from),
        Command::CompareRuns(args) => compare::compare_runs(args).map(Exit::from),
        Command::Paper(args) => paper::paper(args).map(Exit::from),
        Command::CheckModel(args) => check::check(args).map(Exit::from),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "motes", &mut script);
            let written = unless_closed(std::io::stdout().write_all(&script));
            written.map(|()| Exit::Done).map_err(|e| format!("cannot print: {e}; try again"))
        }
    };
    match result {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Early) => ExitCode::from(1),
        Ok(Exit::NotOk) => ExitCode::from(3),
        Err(sentence) => failure(&sentence),
    }
}

/// The command line, on which a negative number is a value wherever one may stand: refusals then name its flag.
fn command() -> clap::Command {
    let numbers = |arg: clap::Arg| {
        let takes_value = arg.get_long().is_some() && arg.get_action().takes_values();
        if takes_value { arg.allow_negative_numbers(true) } else { arg }
    };
    let deeper = |sub: clap::Command| sub.mut_args(numbers);
    Cli::command().mut_subcommands(|sub| sub.mut_args(numbers).mut_subcommands(deeper))
}

/// All commands and their options as a page of Markdown.
pub fn reference() -> String {
    reference::page(command())
}

/// Prints text on stdout: as it is for other programs, and such that nothing in it acts on the screen for people.
fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let written = match out.is_terminal() {
        true => {
            let text = motes::printable::printable_lines(text);
            out.write_all(screen::wrapped(&text, &out).as_bytes())
        }
        false => out.write_all(text.as_bytes()),
    };
    unless_closed(written)
}

/// Whoever has closed the pipe, as head does, has seen enough.
fn unless_closed(written: std::io::Result<()>) -> std::io::Result<()> {
    written.or_else(|e| if e.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(e) })
}

/// Prints what has been done. The files are written, so nothing is lost if that fails.
fn tell(text: &str) {
    let _ = print(text);
}

/// A failure before anything has begun, of which the other ranks hear.
fn refusal(sentence: String) -> ExitCode {
    match ranks::prepared(Err::<(), String>(sentence)) {
        Err(sentence) => failure(&sentence),
        Ok(()) => ExitCode::from(2),
    }
}

fn failure(sentence: &str) -> ExitCode {
    // All ranks have come to the same sentence.
    if ranks::speaks() {
        say!("motes: {sentence}");
    }
    ExitCode::from(2)
}

/// The command line that shows the help of the command that was meant, as far as there is one.
fn help_page(args: &[std::ffi::OsString]) -> String {
    let (mut command, mut page) = (&Cli::command(), String::from("motes"));
    for word in args.iter().skip(1).map_while(|arg| arg.to_str()) {
        let Some(sub) = command.find_subcommand(word) else { break };
        command = sub;
        page = format!("{page} {word}");
    }
    page + " --help"
}

/// What clap has to say, in one sentence that ends with a remedy or the page that has one.
fn usage_sentence(error: &clap::Error, page: &str) -> String {
    let text = error.render().to_string();
    let (mut parts, mut missing): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    // After the usage come only pointers to the help.
    for line in text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:")) {
        if let Some(problem) = line.strip_prefix("error: ") {
            let problem =
                OWN_WORDS.iter().fold(problem.to_string(), |said, (theirs, ours)| said.replace(theirs, ours));
            parts.push(problem);
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            let similar = tip.starts_with("a similar ").then(|| tip.split('\'').nth(1)).flatten();
            parts.push(similar.map_or(tip.to_string(), |name| format!("did you mean {name}?")));
        } else if let Some(values) = line.strip_prefix("[possible values: ") {
            parts.push(format!("choose one of {}", values.trim_end_matches(']')));
        } else if !line.is_empty() && parts.iter().any(|p| p.ends_with(':')) {
            missing.push(line); // on a line of its own
        }
    }
    if let Some(problem) = parts.iter_mut().find(|p| p.ends_with(':')) {
        *problem = format!("{problem} {}", missing.join(", "));
    }
    if !parts.iter().any(|p| p.contains(';')) {
        parts.push(format!("see {page}"));
    }
    // Flags stand as they are written, and what was typed is no business of ours.
    foreign(parts.join("; ").replace("?; ", "? "))
}

/// Words of clap and of the standard library, and those that all other messages use.
const OWN_WORDS: [(&str, &str); 5] = [
    ("invalid digit found in string", "not a whole number of 0 or more"),
    ("invalid float literal", "not a number"),
    ("cannot parse float from empty string", "not a number"),
    ("unrecognized subcommand", "there is no command"),
    ("the following required arguments were not provided:", "required but missing:"),
];
