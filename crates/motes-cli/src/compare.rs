//! `motes compare`: several algorithms on the same data, seed and budget, or runs that there are, and a page that shows them
//! together.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use motes::files::{is_unfinished, sweep};
use motes::sentence::{foreign, foreign_path};
use motes::{Algorithm, Ended};
use motes_app::config::Config;
use motes_app::job::{self, Job};
use motes_app::{Error, report};
use motes_models::registry;

use crate::args::{COMPARE_RUNS, CompareRest, CompareRunsArgs};
use crate::fit::{Run, Where, load, seconds, tell_data, warn_of};
use crate::flags::{OfModel, read_config};
use crate::progress::Interrupt;

/// The arguments with a command of its own for `compare` where the first word is a directory and no model: then all words
/// are directories.
pub fn of_runs(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_none_or(|command| command != "compare") {
        return args;
    }
    let mut at = 2;
    // Only the flags that directories have may come before them: any other makes it a comparison of algorithms.
    while let Some(flag) = args.get(at).and_then(|arg| arg.to_str()).filter(|arg| arg.starts_with('-')) {
        at += match flag {
            "--output" => 2,
            "--quiet" | "--no-report" => 1,
            other if other.starts_with("--output=") => 1,
            _ => return args,
        };
    }
    let Some(word) = args.get(at) else { return args };
    let is_model = word.to_str().is_some_and(|name| registry::find(name).is_some());
    let path = Path::new(word);
    // A path with a slash can be nothing else, even if there is no such directory.
    if !is_model && (path.is_dir() || path.components().count() > 1) {
        args[1] = COMPARE_RUNS.into();
    }
    args
}

/// Compares runs that there are by their likelihoods.
pub fn compare_runs(args: CompareRunsArgs) -> Result<Ended, String> {
    let CompareRunsArgs { dirs, output, quiet, no_report } = args;
    if let [dir] = &dirs[..] {
        return Err(format!(
            "{} alone leaves nothing to compare; name two or more runs",
            dir.to_string_lossy()
        ));
    }
    let text = report::likelihood_table(&dirs)?;
    let page = match no_report {
        true => None,
        false => Some(report::write_page(&dirs, output)?),
    };
    if !quiet {
        let page = page.map_or(String::new(), |page| format!("\n  report    {}\n", page.to_string_lossy()));
        crate::tell(&(text + &page));
    }
    Ok(Ended::Complete)
}

/// Runs several algorithms and compares them.
pub fn compare(args: OfModel<CompareRest>) -> Result<Ended, String> {
    let OfModel { config, rest: args } = args;
    let names: Vec<String> = args.algorithms.iter().map(|a| a.to_string()).collect();
    if let Some(twice) = (1..names.len()).find(|i| names[..*i].contains(&names[*i])) {
        return Err(format!("--algorithms names {} twice; name each once", names[twice]));
    }
    if names.len() < 2 {
        return Err(format!("--algorithms {} leaves nothing to compare; name two or more", names[0]));
    }
    if let Some(one) = config.run.algorithm {
        return Err(format!("--algorithm {one} names one of several; list all of them after --algorithms"));
    }
    if config.run.replicates.is_some_and(|count| count > 1) {
        return Err("compare runs each algorithm once; leave --replicates out, or fit them one by one".into());
    }
    let time = args.budget.map(seconds).transpose()?;
    let jobs = jobs(&config, &args, time)?;
    let stem = format!("compare-{}", config.model);
    let begun: Vec<Begun> = match &args.out {
        Some(out) => begun(out, &names, &jobs, time.is_some())?,
        None => names.iter().map(|_| Begun::No).collect(),
    };
    let interrupt = Interrupt::listen();
    let out = match args.out {
        Some(out) => out,
        None => job::next_default(&stem)?,
    };
    let dirs: Vec<PathBuf> = names.iter().map(|name| out.join(name)).collect();
    if !args.how.quiet {
        tell_data(&jobs[0]);
    }
    let mut problems = vec![None; names.len()];
    for (i, (job, begun)) in jobs.into_iter().zip(begun).enumerate() {
        let label = format!("{} ({} of {})", names[i], i + 1, names.len());
        let place = match begun {
            Begun::Finished => {
                if !args.how.quiet {
                    say!("{label}: already finished");
                }
                continue;
            }
            Begun::Partly => Where::There(dirs[i].clone()),
            Begun::No => Where::New(Some(dirs[i].clone())),
        };
        let run = Run { job, how: args.how.clone(), label: Some(label.clone()), time: None };
        match run.carry_out(place, &interrupt) {
            Ok((Ended::Complete, _)) => {}
            Ok((Ended::Early, _)) => {
                if time.is_some() {
                    // A time budget cannot be split over two processes: this one begins again.
                    let _ = std::fs::remove_dir_all(&dirs[i]);
                }
                if !args.how.quiet {
                    say!("stopped during {label}; go on with: {}", again(&out));
                }
                return Ok(Ended::Early);
            }
            // One that diverges is a result: the others go on.
            Err(e) if e.is_divergence() => problems[i] = Some(e.to_string()),
            Err(problem) => return Err(format!("{}: {problem}", names[i])),
        }
        if interrupt.is_set() && i + 1 < names.len() {
            if !args.how.quiet {
                say!("stopped after {label}; go on with: {}", again(&out));
            }
            return Ok(Ended::Early);
        }
    }
    let page = out.join("report.html");
    let mut shown = !args.how.no_report;
    if shown {
        let warning = report::after_comparison(&dirs, &problems, &page);
        shown = warning.is_none();
        warn_of(warning.as_deref());
    }
    if !args.how.quiet {
        let mut text = report::table(&names, &dirs, &problems)?;
        let _ = writeln!(text, "  files     {}", out.to_string_lossy());
        if shown {
            let _ = writeln!(text, "  report    {}", page.to_string_lossy());
        }
        crate::tell(&text);
    }
    match names.iter().zip(problems).find_map(|(name, p)| Some((name, p?))) {
        None => Ok(Ended::Complete),
        Some((name, problem)) => Err(format!("{name}: {problem}")),
    }
}

/// A job for each algorithm, all checked before any runs.
fn jobs(flags: &Config, args: &CompareRest, time: Option<Duration>) -> Result<Vec<Job>, Error> {
    let mut file = args.config_file.as_deref().map(read_config).transpose()?;
    if let (Some(file), true) = (&mut file, time.is_some()) {
        // They were written out for a number of steps.
        (file.run.burn_in, file.run.adjust_after, file.run.trace_every) = (None, None, None);
    }
    let mut configs = Vec::new();
    for algorithm in &args.algorithms {
        let mut config = flags.clone();
        config.run.algorithm = Some(*algorithm);
        if let Some(file) = file.clone() {
            config = config.over(file)?;
        }
        config.make_absolute()?;
        config.run.leave_to(algorithm);
        config.run.replicates = None;
        job::before_data(&config, args.how.threads, time).map_err(|e| about(algorithm, e))?;
        configs.push(config);
    }
    let problem = load(&configs[0])?; // data are read once
    let job = |(config, algorithm): (Config, &&'static Algorithm)| {
        let job = Job::new(config, Arc::clone(&problem), time);
        job.and_then(|job| job.check().map(|()| job)).map_err(|e| about(algorithm, e))
    };
    configs.into_iter().zip(&args.algorithms).map(job).collect()
}

/// What is said of one algorithm of several: it is named once, and others by their names, for `--algorithm` is no flag here.
fn about(algorithm: &Algorithm, error: Error) -> Error {
    let name = algorithm.name;
    let named = |text: String, other: &str| text.replace(&format!("`algorithm={other}`"), other);
    let text = Algorithm::names().into_iter().fold(error.to_string(), named);
    match text.starts_with(&format!("{name} ")) {
        true => text.into(),
        false => format!("{name}: {text}").into(),
    }
}

/// How far the run of one algorithm is.
enum Begun {
    No,
    Partly,
    Finished,
}

/// What an earlier, interrupted comparison left in the directory; anything else there is refused.
fn begun(out: &Path, names: &[String], jobs: &[Job], timed: bool) -> Result<Vec<Begun>, String> {
    let entries = match std::fs::read_dir(out) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(names.iter().map(|_| Begun::No).collect());
        }
        Err(e) => return Err(format!("cannot use {}: {e}; choose another --out", foreign_path(out))),
    };
    for entry in entries {
        let name = entry
            .map_err(|e| format!("cannot read {}: {e}; choose another --out", foreign_path(out)))?
            .file_name();
        let ours = name == "report.html" || is_unfinished(&name);
        if !ours && !names.iter().any(|n| name == n.as_str()) {
            return Err(format!(
                "{} is not empty and is left as it is; choose another --out",
                foreign_path(&out.join(name))
            ));
        }
    }
    sweep(out);
    names.iter().zip(jobs).map(|(name, job)| one_begun(&out.join(name), job, timed)).collect()
}

fn one_begun(dir: &Path, job: &Job, timed: bool) -> Result<Begun, String> {
    let shown = foreign_path(dir);
    if !dir.join("config.toml").exists() {
        return Ok(Begun::No);
    }
    let mut there = Config::of_run(dir)?;
    let mut wanted = job.config.clone();
    if timed {
        for run in [&mut there.run, &mut wanted.run] {
            (run.steps, run.burn_in, run.adjust_after) = (None, None, None);
            run.trace_every = None;
        }
    }
    if there != wanted {
        return Err(format!("{shown} holds a run with other settings; choose another --out"));
    }
    match (dir.join("summary.json").exists(), timed) {
        (true, _) => Ok(Begun::Finished),
        (false, false) => Ok(Begun::Partly),
        (false, true) => Err(format!(
            "{shown} was interrupted, and a run for a given time cannot go on; remove it, or choose another --out"
        )),
    }
}

/// The command line that goes on with what was interrupted.
fn again(out: &Path) -> String {
    let mut words: Vec<String> =
        std::env::args_os().skip(1).map(|w| report::quoted(&w.to_string_lossy())).collect();
    if !words.iter().any(|w| w == "--out" || w.starts_with("--out=")) {
        words.extend(["--out".into(), report::shell(out)]);
    }
    foreign(format_args!("motes {}", words.join(" ")))
}
