//! `motes compare`: several algorithms on the same data, seed and budget, and a page that shows them together.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use motes::files::{is_unfinished, sweep};
use motes::record::RunDirectory;
use motes::settings::{Algorithm, Settings};
use motes::{Ended, Error, Flow, Model, Observer, Real, State, StepInfo};

use crate::args::CompareArgs;
use crate::config::Config;
use crate::fit::{self, Compared, From, Plan};
use crate::models::{self, Source};
use crate::progress::{Interrupt, Progress, grouped, thousands};
use crate::report::{self, read::Run, words};

/// Where time is the limit, no number of steps is.
const UNBOUNDED: u64 = 1 << 52;

/// Runs several algorithms and compares them.
pub fn compare(args: CompareArgs) -> Result<Ended, String> {
    let names: Vec<String> = args.algorithms.iter().map(Algorithm::to_string).collect();
    if let Some(twice) = (1..names.len()).find(|i| names[..*i].contains(&names[*i])) {
        return Err(format!("--algorithms names {} twice; name each once", names[twice]));
    }
    if names.len() < 2 {
        return Err(format!("--algorithms {} leaves nothing to compare; name two or more", names[0]));
    }
    if let Some(one) = args.config.algorithm {
        return Err(format!("--algorithm {one} names one of several; list all of them after --algorithms"));
    }
    let budget = args.budget.map(seconds).transpose()?;
    let plans = plans(&args, budget)?;
    let stem = format!("compare-{}", plans[0].config.model.as_deref().unwrap_or_default());
    let begun: Vec<Begun> = match &args.out {
        Some(out) => begun(out, &names, &plans, budget.is_some())?,
        None => names.iter().map(|_| Begun::No).collect(),
    };
    let interrupt = Interrupt::listen();
    let out = match args.out {
        Some(out) => out,
        None => fit::next_default(&stem).map_err(|e| e.to_string())?,
    };
    let dirs: Vec<PathBuf> = names.iter().map(|name| out.join(name)).collect();
    if !args.how.quiet {
        plans[0].tell_data();
    }
    let open_trace = args.config.trace_every.is_none();
    let mut problems = vec![None; names.len()];
    for (i, (plan, begun)) in plans.into_iter().zip(begun).enumerate() {
        let label = format!("{} ({} of {})", names[i], i + 1, names.len());
        let from = match begun {
            Begun::Finished => {
                if !args.how.quiet {
                    say!("{label}: was finished before");
                }
                continue;
            }
            Begun::Partly => From::Directory(dirs[i].clone()),
            Begun::No => From::Scratch { out: Some(dirs[i].clone()) },
        };
        match plan.of_several(label.clone(), budget, open_trace).carry_out(from, &interrupt) {
            Ok(Ended::Complete) => {}
            Ok(Ended::Early) => {
                if budget.is_some() {
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
    let shown = !args.how.no_report && report::after_comparison(&dirs, &problems, &page);
    if !args.how.quiet {
        let mut text = table(&names, &dirs, &problems)?;
        let _ = writeln!(text, "  files     {}", out.display());
        if shown {
            let _ = writeln!(text, "  report    {}", page.display());
        }
        // The files are written: whoever has closed the pipe has seen enough.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
    match names.iter().zip(problems).find_map(|(name, p)| Some((name, p?))) {
        None => Ok(Ended::Complete),
        Some((name, problem)) => Err(format!("{name}: {problem}")),
    }
}

fn seconds(budget: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(budget) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("--budget {budget} is not a time; give a positive number of seconds")),
    }
}

/// A plan for each algorithm, all checked before any runs.
fn plans(args: &CompareArgs, budget: Option<Duration>) -> Result<Vec<Plan>, String> {
    let mut file = args.config_file.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    if budget.is_some() {
        // They were written out for a number of steps.
        (file.burn_in, file.adjust_after, file.trace_every) = (None, None, None);
    }
    let mut configs = Vec::new();
    for algorithm in &args.algorithms {
        let mut flags = args.config.clone();
        flags.algorithm = Some(*algorithm);
        if budget.is_some() {
            flags.steps = Some(UNBOUNDED);
        }
        let mut config = fit::gather(args.model.as_deref(), flags, file.clone())?;
        config.leave_to(*algorithm);
        let model = config.model.as_deref().unwrap_or_default();
        let settings = config.settings(&models::defaults(model));
        settings
            .and_then(|settings| fit::before_data(&config, &args.how, &settings))
            .map_err(|problem| format!("{algorithm}: {problem}"))?;
        configs.push(config);
    }
    // Data are read once; what that settles holds for all.
    let mut filled = configs[0].clone();
    let source = Arc::new(Source::load(&mut filled)?);
    let filled = filled.added_since(&configs[0]);
    let plan = |(config, algorithm): (Config, &Algorithm)| {
        let plan = fit::plan(config.or(filled.clone()), args.how.clone(), Some(Arc::clone(&source)));
        plan.and_then(|plan| plan.check().map(|()| plan)).map_err(|problem| format!("{algorithm}: {problem}"))
    };
    configs.into_iter().zip(&args.algorithms).map(plan).collect()
}

/// How far the run of one algorithm is.
enum Begun {
    No,
    Partly,
    Finished,
}

/// What an earlier, interrupted comparison left in the directory; anything else there is refused.
fn begun(out: &Path, names: &[String], plans: &[Plan], timed: bool) -> Result<Vec<Begun>, String> {
    let entries = match std::fs::read_dir(out) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(names.iter().map(|_| Begun::No).collect());
        }
        Err(e) => return Err(format!("cannot use {}: {e}; choose another --out", out.display())),
    };
    for entry in entries {
        let name = entry
            .map_err(|e| format!("cannot read {}: {e}; choose another --out", out.display()))?
            .file_name();
        let ours = name == "report.html" || is_unfinished(&name);
        if !ours && !names.iter().any(|n| name == n.as_str()) {
            return Err(format!(
                "{} is not empty and is left as it is; choose another --out",
                out.join(name).display()
            ));
        }
    }
    sweep(out);
    names.iter().zip(plans).map(|(name, plan)| one_begun(&out.join(name), plan, timed)).collect()
}

fn one_begun(dir: &Path, plan: &Plan, timed: bool) -> Result<Begun, String> {
    let shown = dir.display();
    if !dir.join("config.toml").exists() {
        return Ok(Begun::No);
    }
    let mut there = Config::read(&dir.join("config.toml"))?;
    let mut wanted = plan.config.clone();
    if timed {
        for config in [&mut there, &mut wanted] {
            (config.steps, config.burn_in, config.adjust_after) = (None, None, None);
            config.trace_every = None;
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
        std::env::args_os().skip(1).map(|w| words::quoted(&w.to_string_lossy())).collect();
    if !words.iter().any(|w| w == "--out" || w.starts_with("--out=")) {
        words.extend(["--out".into(), words::shell(out)]);
    }
    format!("motes {}", words.join(" "))
}

/// A run that lasts for a given time.
#[derive(Clone, Copy)]
pub struct Budget {
    pub time: Duration,
    /// Whether the burn-in was left open: it is then half of the time.
    open_burn_in: bool,
    /// Whether the beginning of accept-reject was left open: it is then a quarter of the time.
    open_adjust_after: bool,
    /// Whether it was left open how densely the trace is written.
    open_trace: bool,
}

/// A trace has some hundred thousand rows at most where nothing else was asked for.
const ROWS: f64 = 1e5;
/// How long steps are timed at most to find out.
const TRIAL: Duration = Duration::from_millis(20);

impl Budget {
    /// Whether it is not yet known when accept-reject begins.
    pub fn decides_adjust_after(&self) -> bool {
        self.open_adjust_after
    }

    /// Steps between rows of the trace, from how long steps take: those of em take no time and would fill the disk.
    pub fn trace_every<F: Real>(self, model: &dyn Model<F>, settings: &Settings) -> Option<u64> {
        let mut state = motes::start(model, settings).ok().filter(|_| self.open_trace)?;
        let mut clock = Clock { began: Instant::now(), time: self.time.mul_f64(0.01).min(TRIAL) };
        // A failure is for the run itself to tell.
        motes::run(model, settings, &mut state, None, &mut [&mut clock]).ok()?;
        let rate = state.k as f64 / clock.began.elapsed().as_secs_f64();
        Some((rate * self.time.as_secs_f64() / ROWS).ceil().max(1.0) as u64)
    }

    /// Runs until the time is over. What was left open is settled on the way, so that the run is the same, bit for bit,
    /// as one that was asked for these steps.
    pub fn run<F: Real>(
        self,
        model: &dyn Model<F>,
        plan: &mut Plan,
        state: &mut State<F>,
        directory: &mut RunDirectory,
        progress: &mut Progress,
        interrupt: &mut Interrupt,
    ) -> Result<(Ended, Duration), Error> {
        let mut spent = Duration::ZERO;
        let parts = [
            (0.25, plan.settings.accepts() && self.open_adjust_after),
            (0.5, self.open_burn_in),
            (1.0, true),
        ];
        for (part, _) in parts.into_iter().filter(|(_, wanted)| *wanted) {
            let mut clock =
                Clock { began: Instant::now(), time: self.time.mul_f64(part).saturating_sub(spent) };
            let mut observers: [&mut dyn Observer<F>; 3] = [progress, interrupt, &mut clock];
            let (_, more) = motes::run(model, &plan.settings, state, Some(directory), &mut observers)?;
            spent += more;
            if interrupt.is_set() {
                return Ok((Ended::Early, spent));
            }
            let settings = &mut plan.settings;
            match part {
                0.25 => settings.adjust_after = state.k,
                0.5 => settings.burn_in = state.k,
                _ => settings.steps = state.k,
            }
        }
        let settings = &mut plan.settings;
        if !settings.accepts() && self.open_adjust_after {
            settings.adjust_after = settings.burn_in / 2; // of no consequence, and what a replay assumes
        }
        if settings.burn_in >= settings.steps
            || (settings.accepts() && settings.adjust_after >= settings.steps)
        {
            return Err(Error::Settings(format!(
                "{} steps were made in {} s, which is all burn-in or before accept-reject begins; give a larger --budget",
                settings.steps,
                self.time.as_secs_f64()
            )));
        }
        plan.settle()?;
        directory.adopt(&plan.settings);
        RunDirectory::write_config(directory.path(), &plan.text)?;
        Ok((Ended::Complete, spent))
    }
}

/// Stops a run when its time is over.
struct Clock {
    began: Instant,
    time: Duration,
}

impl<F: Real> Observer<F> for Clock {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        let over = self.began.elapsed().saturating_sub(info.metrics_time) >= self.time;
        if over { Flow::Stop } else { Flow::Continue }
    }
}

impl Plan {
    /// The plan as one of several.
    fn of_several(mut self, label: String, budget: Option<Duration>, open_trace: bool) -> Plan {
        let budget = budget.map(|time| Budget {
            time,
            open_burn_in: self.settings.burn_in == UNBOUNDED / 2,
            open_adjust_after: self.settings.adjust_after == UNBOUNDED / 4,
            open_trace,
        });
        self.compared = Some(Compared { label, budget });
        self
    }
}

/// At most this many components of theta have a column.
const COLUMNS: usize = 3;

/// All runs in one table, for the terminal.
fn table(names: &[String], dirs: &[PathBuf], problems: &[Option<String>]) -> Result<String, String> {
    let runs: Vec<Run> = dirs.iter().map(|dir| report::for_table(dir)).collect::<Result<_, _>>()?;
    let theta: Vec<String> = runs
        .iter()
        .find(|r| !r.theta.is_empty())
        .map_or(Vec::new(), |r| r.theta.iter().map(|c| c.name.clone()).collect());
    let tested = runs.iter().any(|r| r.summary.as_ref().is_some_and(|s| s.metrics.is_some()));
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    rows[0].extend(["algorithm", "steps", "seconds"].map(String::from));
    for name in theta.iter().take(COLUMNS) {
        rows[0].extend([name.clone(), "+/-".into()]);
    }
    rows[0].push("ESS".into());
    if tested {
        rows[0].extend(["error %", "LPPD"].map(String::from));
    }
    rows[0].push("verdict".into());
    for ((run, name), problem) in runs.iter().zip(names).zip(problems) {
        let s = run.summary.as_ref();
        let number = |v: Option<f64>, decimals: usize| v.map_or("-".into(), |v| format!("{v:.decimals$}"));
        let mut row = vec![
            name.clone(),
            thousands(&s.map_or(run.reached, |s| s.steps).to_string()),
            number(s.map(|s| s.time.seconds), 3),
        ];
        for i in 0..theta.len().min(COLUMNS) {
            row.push(number(s.and_then(|s| *s.theta.mean.as_ref()?.get(i)?), 5));
            row.push(number(run.theta.get(i).and_then(|c| c.error), 5));
        }
        let ess = s.map_or(f64::INFINITY, |s| {
            s.diagnostics.ess.iter().flatten().copied().fold(f64::INFINITY, f64::min)
        });
        row.push(if ess.is_finite() { grouped(ess) } else { "-".into() });
        if tested {
            let metrics = s.and_then(|s| s.metrics);
            row.push(number(metrics.and_then(|m| m.test_error).map(|e| 100.0 * e), 2));
            row.push(number(metrics.and_then(|m| m.lppd), 4));
        }
        let verdict = s.map(|s| s.diagnostics.verdict.clone());
        row.push(if problem.is_some() { "diverged".into() } else { verdict.unwrap_or("-".into()) });
        rows.push(row);
    }
    let mut out = String::from("\n");
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let words = i == 0 || i + 1 == row.len();
            let _ = if words { write!(line, "  {cell:width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if let Some(more) = runs.iter().map(|r| r.d_theta).max().filter(|d| *d > COLUMNS) {
        let _ = writeln!(out, "  ... and {} more components of theta", more - COLUMNS);
    }
    out.push('\n');
    for ((run, name), problem) in runs.iter().zip(names).zip(problems) {
        let advice = run.summary.as_ref().and_then(|s| s.diagnostics.advice.as_ref());
        if let Some(advice) = problem.as_ref().or(advice) {
            let _ = writeln!(out, "  {name}: {advice}");
        }
    }
    Ok(out)
}
