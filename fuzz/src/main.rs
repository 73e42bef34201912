//! Fuzzes for hours: `motes-fuzz [TARGET...] [--seconds S] [--case N]`. Each target goes on where it ended the last time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use motes_fuzz::{Fuzzer, TARGETS, Target, find};

/// What is done between two looks at the clock, and what is lost by a kill.
const BATCH: u64 = 2000;

fn main() -> ExitCode {
    match work(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("motes-fuzz: {sentence}");
            ExitCode::from(2)
        }
    }
}

fn work(args: Vec<String>) -> Result<(), String> {
    let (mut seconds, mut case, mut targets) = (60.0, None, Vec::new());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} lacks a number; give one"));
        match arg.as_str() {
            "--seconds" => {
                seconds = value()?.parse::<f64>().map_err(|e| format!("--seconds: {e}; give a number"))?
            }
            "--case" => {
                case = Some(value()?.parse::<u64>().map_err(|e| format!("--case: {e}; give a number"))?)
            }
            name => targets.push(find(name).ok_or_else(|| {
                let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
                format!("there is no target '{name}'; choose one of {}", names.join(", "))
            })?),
        }
    }
    if targets.is_empty() {
        targets = TARGETS.iter().collect();
    }
    let found = PathBuf::from("target/fuzz");
    std::fs::create_dir_all(&found)
        .map_err(|e| format!("cannot make {}: {e}; go elsewhere", found.to_string_lossy()))?;
    for target in targets {
        match case {
            Some(case) => println!("{:?}", Fuzzer::new(target).run(case..case + 1, None, &found)?),
            None => for_a_time(target, Duration::from_secs_f64(seconds), &found)?,
        }
    }
    Ok(())
}

fn for_a_time(target: &'static Target, time: Duration, found: &std::path::Path) -> Result<(), String> {
    let fuzzer = Fuzzer::new(target);
    fuzzer.good()?;
    let mark = found.join(format!("{}.next", target.name));
    let before = std::fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse().ok());
    // The first cases are the tests'.
    let mut next: u64 = before.unwrap_or(target.cases);
    let (began, mut cases, mut read) = (Instant::now(), 0, 0);
    let end = began + time;
    while Instant::now() < end {
        let tally = fuzzer.run(next..next + BATCH, Some(end), found)?;
        (next, cases, read) = (next + tally.cases, cases + tally.cases, read + tally.read);
        std::fs::write(&mark, next.to_string())
            .map_err(|e| format!("cannot write {}: {e}", mark.to_string_lossy()))?;
    }
    let rate = cases as f64 / began.elapsed().as_secs_f64();
    println!("{:12} {cases:>10} cases, {read:>9} read, {rate:>7.0} a second, up to case {next}", target.name);
    Ok(())
}
