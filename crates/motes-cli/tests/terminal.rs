//! What people see: help, completions, progress on a terminal and elsewhere.

use crate::common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Done, Place, checkpoints};

#[test]
fn help_shows_examples() {
    let place = Place::new();
    for (call, pieces) in [
        (
            "--help",
            &["Examples:", "motes fit hierarchical", "resume", "check-model", "Exit codes:\n  0  done"][..],
        ),
        (
            "fit --help",
            &["Examples:", "--grow 500:100,800:1000", "hierarchical", "logistic", "bnn", "generator"],
        ),
        (
            "fit logistic --help",
            &[
                "--particles",
                "--step-size",
                "[default: 32 by auto, else 100]",
                "[default: 1000]",
                "--tolerance",
                "--prior-variance",
                "--config",
            ],
        ),
        ("compare bnn --help", &["--algorithms", "--hidden", "--budget"]),
        ("check-model hierarchical --help", &["--dim", "--seed"]),
        (
            "resume --help",
            &["--steps", "burn-in stays", "--tolerance", "--max-evaluations", "--budget", "--strict"],
        ),
        ("check-model --help", &["check-model"]),
        ("help fit", &["Examples:"]),
    ] {
        let done = place.motes(call);
        done.ok();
        assert_eq!(done.err, "");
        for piece in pieces {
            assert!(done.out.contains(piece), "{call} lacks '{piece}':\n{}", done.out);
        }
    }
    // The first line is about the model, and lists of algorithms are those of the table.
    for command in ["fit", "compare", "check-model"] {
        for entry in motes_models::registry::MODELS {
            let help = place.motes(&format!("{command} {} --help", entry.name())).out;
            assert_eq!(help.lines().next(), Some(entry.about()), "{command}");
        }
    }
    let help = place.motes("fit hierarchical --help").out;
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let names = motes::Algorithm::names();
    let (last, others) = names.split_last().unwrap();
    assert!(words.contains(&format!("{} or {last} [default: auto]", others.join(", "))), "{help}");
    let generator = place.motes("fit generator --help").out;
    let generator = generator.split_whitespace().collect::<Vec<_>>().join(" ");
    for piece in
        ["pgd, abp, short-run or vae [default: pgd]", "as --epochs says", "its gradient [default: 0.001]"]
    {
        assert!(generator.contains(piece), "{piece}: {generator}");
    }
    assert!(words.contains("(MALA; pgd, ipla, pqn, pmgd)") && !words.contains('{'), "{help}");
    let logistic = place.motes("fit logistic --help").out;
    for foreign in ["--dim", "--hidden", "--labels", "--epochs"] {
        assert!(!logistic.contains(foreign), "{foreign}");
    }
    let bare = place.motes("");
    assert_eq!(bare.code, Some(2));
    assert!(bare.err.contains("Usage:") && !bare.err.starts_with("motes:"), "{}", bare.err);
}

#[test]
fn the_examples_of_the_help_run() {
    let place = Place::new();
    place.write("measurements.csv", "y,z\n1,2\n2,1\n4,0\n");
    let mut tried = 0;
    for page in ["--help", "fit --help"] {
        let help = place.motes(page).out;
        let (_, examples) = help.split_once("Examples:").unwrap();
        for line in examples.lines().map(str::trim).filter(|l| l.starts_with("motes fit hierarchical")) {
            // A remark stands apart by several blanks.
            let call = line.split("   ").next().unwrap().strip_prefix("motes ").unwrap();
            tried += 1;
            place.motes(&format!("{call} --out example{tried}")).ok();
        }
    }
    assert!(tried >= 5, "{tried}");
}

#[test]
fn the_version_is_told() {
    let done = Place::new().motes("--version");
    assert_eq!(done.ok().out, format!("motes {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_know_the_flags() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let done = place.motes(&format!("completions {shell}"));
        let flag = if shell == "fish" { "particles" } else { "--particles" };
        assert!(done.ok().out.contains(flag), "{shell}");
        assert!(done.out.len() > 1000 && done.err.is_empty());
    }
}

#[test]
fn check_model_lists_what_is_right() {
    let place = Place::new();
    for flags in ["", "--dim 3 --true-theta -4 --seed 5"] {
        let before = place.tree();
        let done = place.motes(&format!("check-model hierarchical {flags}"));
        assert!(done.ok().err.is_empty(), "{}", done.err);
        for piece in ["theta-gradient", "x-gradient", "theta-Hessian", "M-step"] {
            let line = done.out.lines().find(|l| l.starts_with(piece));
            assert!(line.is_some_and(|l| l.ends_with("ok")), "{piece}:\n{}", done.out);
        }
        assert!(!done.out.contains("WRONG"));
        assert_eq!(before, place.tree());
    }
}

#[test]
fn no_control_characters_without_a_terminal() {
    let place = Place::new();
    for call in [
        "fit hierarchical --algorithm pgd --steps 60000 --out a",
        "fit hierarchical --particles 0",
        "fit --hepl",
        "--help",
        "resume a --steps 60001",
        "check-model hierarchical",
    ] {
        let done = place.motes(call);
        let text = format!("{}{}", done.out, done.err);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{call}: {text:?}");
    }
}

#[test]
fn the_summary_is_readable() {
    let place = Place::new();
    let done = place.motes("fit hierarchical --steps 1000 --algorithm pqn --out run");
    done.ok();
    for piece in [
        "hierarchical by pqn: 1,000 steps with 10 particles",
        "theta",
        "std. error",
        "95 % interval",
        "MC error",
        "log-likelihood",
        "verdict   ok",
        "run",
    ] {
        assert!(done.out.contains(piece), "{piece}:\n{}", done.out);
    }
    assert!(done.err.contains("step size 0.02 (auto)"), "{}", done.err);
    let done = place.motes("fit hierarchical --algorithm pgd --steps 1000 --adjust --out adjusted");
    assert!(done.ok().err.contains("accept-reject begins after 250 steps"), "{}", done.err);
    assert!(done.out.contains(" % of moves"), "{}", done.out);
}

/// Runs a call on a pseudo-terminal, if there is `script` to make one.
fn on_a_terminal(place: &Place, call: &str) -> Option<String> {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{} {call}", env!("CARGO_BIN_EXE_motes")), "/dev/null"]);
    command.current_dir(place.path("")).env("TERM", "xterm").env("COLUMNS", "120").stdin(Stdio::null());
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(e) => {
            println!("skipped: no pseudo-terminal by script ({e})");
            None
        }
    }
}

#[test]
fn a_terminal_shows_a_bar_with_rate_and_eta() {
    let place = Place::new();
    let call =
        "fit hierarchical --algorithm pgd --steps 60000 --particles 30 --trace-every 100 --threads 1 --out";
    let Some(shown) = on_a_terminal(&place, &format!("{call} loud")) else { return };
    for piece in ["steps/s", "ETA", "/60,000 steps", "verdict"] {
        assert!(shown.contains(piece), "{piece}: {shown:?}");
    }
    let quiet = on_a_terminal(&place, &format!("{call} quiet --quiet")).unwrap();
    assert_eq!(quiet, "");
}

#[test]
fn a_long_run_prints_lines_and_writes_checkpoints_by_the_clock() {
    let place = Place::new();
    let flags = "--dim 20 --particles 1 --steps 1000000000000 --burn-in 999999999999 --trace-every 1000000";
    let mut child = place.spawn(&format!("fit hierarchical --algorithm pgd --threads 1 --out run {flags}"));
    let began = Instant::now();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line =
        lines.by_ref().map(|l| l.unwrap()).find(|l| l.starts_with("step ") && l.contains(" of ")).unwrap();
    assert!(line.contains(" of 1000000000000, ") && line.contains(" steps/s, "), "{line}");
    assert!(line.ends_with(" to go") && !line.contains(char::is_control), "{line}");
    assert!(began.elapsed() > Duration::from_secs(9) && began.elapsed() < Duration::from_secs(60));
    while checkpoints(&place.path("run")).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint by the clock");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    Done::wait(child);
}
