//! What the fit without tuning costs beside the paper's algorithms at their best, on models of the test bed whose maximum-likelihood
//! estimate is known.
//!
//! `cargo bench -p motes-models --bench auto -- grid [MODEL...]` prints the table; `fit MODEL` times fits and `data MODEL` prints
//! what a peer needs of a model, each as a line of JSON, for `bench/auto.py`.

#![allow(clippy::disallowed_methods)]

#[path = "../../tests/bed/mod.rs"]
#[allow(dead_code)] // the tests use the rest
mod bed;
mod path;

use std::sync::atomic::Ordering;
use std::time::Instant;

use bed::{Case, Truth};
use motes::algorithms::{PGD, PMGD, PQN};
use motes::auto::Stage;
use motes::settings::InitParticles;
use motes::{Flow, Model, Pool, Settings, StepInfo};
use path::{Counted, Path, median};
use rayon::prelude::*;

const MODELS: [&str; 7] = ["toy", "pima", "cbpp", "schools-x3", "irt-40", "mixture", "scales"];
const SEEDS: u64 = 5;
/// So many settings of each algorithm are run with all seeds.
const FINALISTS: usize = 5;
const ALGORITHMS: [&str; 3] = ["pgd", "pqn", "pmgd"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let named = |name: &str| words.iter().skip(1).any(|word| word == name);
    let mut cases = bed::cases();
    cases.retain(|case| if words.len() > 1 { named(case.name) } else { MODELS.contains(&case.name) });
    cases.sort_by_key(|case| MODELS.iter().position(|name| *name == case.name));
    Pool::new(Some(2)).unwrap().install(|| match words.first().map(String::as_str) {
        Some("grid") => {
            println!("{HEAD}");
            cases.iter().for_each(|case| println!("{}", Row::new(case)));
        }
        Some("fit") => cases.iter().for_each(|case| println!("{}", fits(case))),
        Some("data") => cases.iter().for_each(|case| println!("{}", data(case))),
        _ => eprintln!("say grid, fit or data, and which models"),
    });
}

/// A fit with nothing chosen.
fn auto(model: &dyn Model<f64>, seed: u64) -> Settings {
    Settings::auto(model.prior().is_some(), seed)
}

/// What theta did in a fit by auto, until its own stages were over.
struct Fit {
    /// Every theta, with the evaluations it took.
    path: Path,
    /// Auto's own estimate: theta while it searches, then the mean over the last four fifths since averaging began.
    own: Path,
    /// Evaluations by its own count, after each sweep.
    by_itself: Vec<f64>,
    /// What it ended with.
    estimate: Vec<f64>,
    verdict: String,
}

impl Fit {
    fn new(case: &Case, seed: u64) -> Self {
        let model = Counted::new(case);
        let settings = auto(&model, seed);
        let mut state = motes::start(&model, &settings).unwrap();
        let (mut path, mut own, mut by_itself) = (Path::new(), Path::new(), Vec::new());
        let mut averaged = Path::new();
        let mut watch = |info: &StepInfo<'_, f64>| {
            let found = info.fit.expect("a fit");
            if info.k == 0 {
                return Flow::Continue;
            }
            let spent = model.evaluations();
            path.push(spent, info.theta);
            by_itself.push(32.0 * found.evaluations);
            match found.stage {
                Stage::Search => {
                    averaged = Path::new();
                    own.push(spent, info.theta);
                }
                Stage::Average => {
                    averaged.push(spent, info.theta);
                    own.push(spent, &averaged.tail_mean(averaged.len() - 1, 0.2));
                }
                Stage::Posterior => {
                    path.pop(); // theta stands at the estimate: it is no step of its own
                    own.push(spent, found.estimate);
                    return Flow::Stop;
                }
            }
            Flow::Continue
        };
        motes::run(&model, &settings, &mut state, None, &mut [&mut watch]).unwrap();
        let found = state.auto.as_ref().unwrap().found();
        let (estimate, verdict) = (found.estimate.to_vec(), found.verdict.unwrap_or("none").into());
        Fit { path, own, by_itself, estimate, verdict }
    }
}

/// A point of the grid.
#[derive(Clone)]
struct Setting(Settings);

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { algorithm, step_size, theta_rate, particles, .. } = &self.0;
        write!(f, "{algorithm} h={step_size:.2e}")?;
        if let Some(rate) = theta_rate {
            write!(f, " rate={rate:.2e}")?;
        }
        write!(f, " N={particles}")
    }
}

/// Two settings to a factor of ten.
fn grid(model: &dyn Model<f64>) -> Vec<Setting> {
    let powers = |from: i32, to: i32| (from..=to).map(|half| 10f64.powf(0.5 * f64::from(half)));
    let mut grid = Vec::new();
    for particles in [10, 32] {
        for step_size in powers(-6, 4) {
            let of = |algorithm, theta_rate| {
                let init_particles = InitParticles::unless_told(model.prior().is_some());
                Setting(Settings {
                    algorithm,
                    particles,
                    step_size,
                    theta_rate,
                    init_particles,
                    burn_in: 0,
                    keep_clouds: 0,
                    ..Settings::default()
                })
            };
            grid.extend(powers(-8, 3).map(|rate| of(&PGD, Some(rate))));
            grid.extend([of(&PQN, None), of(&PMGD, None)]);
        }
    }
    grid
}

impl Setting {
    /// Evaluations after which the tail mean stays within 0.2 standard errors, and the steps of that; infinite if it is not
    /// there when the budget is spent.
    fn cost(&self, case: &Case, seed: u64, budget: f64) -> (f64, u64) {
        let model = Counted::new(case);
        let per_step = self.0.particles as f64 * if self.0.algorithm.name == "pqn" { 2.0 } else { 1.0 };
        let steps = (budget / per_step) as u64;
        let settings = Settings { seed, steps, ..self.0.clone() };
        let mut path = Path::new();
        let mut watch = |info: &StepInfo<'_, f64>| {
            // Particles move by an evaluation each; what an M-step without a closed form takes comes on top.
            let m_steps = model.m_steps.load(Ordering::Relaxed) as f64 / model.groups() as f64;
            let spent = info.k as f64 * per_step + m_steps;
            if info.k > 0 {
                path.push(spent, info.theta);
            }
            if spent >= budget { Flow::Stop } else { Flow::Continue }
        };
        let done = motes::start(&model, &settings)
            .and_then(|mut state| motes::run(&model, &settings, &mut state, None, &mut [&mut watch]));
        match done {
            Ok(_) => path.stays(truth(case), 0.5),
            Err(_) => (f64::INFINITY, 0), // it diverged
        }
    }

    /// The least seconds that so many steps take.
    fn seconds(&self, case: &Case, steps: u64) -> f64 {
        least_seconds(|| {
            let (model, settings) = (Counted::new(case), Settings { seed: 1, steps, ..self.0.clone() });
            let mut state = motes::start(&model, &settings).unwrap();
            motes::run(&model, &settings, &mut state, None, &mut []).unwrap();
        })
    }
}

fn least_seconds(mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let began = Instant::now();
        run();
        began.elapsed().as_secs_f64()
    };
    (0..5).map(once).fold(f64::INFINITY, f64::min)
}

fn truth(case: &Case) -> &Truth {
    case.truth.as_ref().expect("a truth")
}

const HEAD: &str = "| model | auto: evaluations to stay within 0.2 SE | its own estimate | by its own count | until it ends theta's stages | verdicts | best of the grid | its setting | pgd, pqn, pmgd | settings that get there | ratio | ratio of its own estimate | auto, ms | best of the grid, ms |
|---|---:|---:|---:|---:|---|---:|---|---|---:|---:|---:|---:|---:|";

/// A line of the table.
struct Row {
    name: &'static str,
    same: f64,
    own: f64,
    by_itself: f64,
    end: f64,
    verdicts: String,
    best: Option<(f64, Setting)>,
    /// The least cost of each algorithm.
    each: String,
    there: usize,
    of: usize,
    /// Seconds of auto and of the best.
    seconds: (f64, f64),
}

impl Row {
    fn new(case: &Case) -> Self {
        let truth = truth(case);
        let fits: Vec<Fit> = (1..=SEEDS).into_par_iter().map(|seed| Fit::new(case, seed)).collect();
        let of = |f: &dyn Fn(&Fit) -> f64| median(fits.iter().map(f).collect());
        let right = |fit: &Fit, cost: f64| match path::error(&fit.estimate, truth) <= path::WITHIN {
            true => cost,
            false => f64::INFINITY,
        };
        let same = of(&|fit| right(fit, fit.path.stays(truth, 0.5).0));
        let sweeps = of(&|fit| fit.path.stays(truth, 0.5).1 as f64);
        let own = of(&|fit| right(fit, fit.own.stays(truth, 1.0).0));
        let by_itself = of(&|fit| fit.by_itself[fit.path.stays(truth, 0.5).1.max(1) as usize - 1]);
        let budget = (5.0 * same).clamp(20_000.0, 200_000.0);
        let grid = grid(&*case.model);
        let mut costs: Vec<(f64, Setting)> =
            grid.into_par_iter().map(|setting| (setting.cost(case, 1, budget).0, setting)).collect();
        let of_all = costs.len();
        costs.retain(|(cost, _)| cost.is_finite());
        let there = costs.len();
        costs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let of_each = |name: &'static str| {
            let own = costs.iter().filter(move |(_, setting)| setting.0.algorithm.name == name);
            own.take(FINALISTS).cloned()
        };
        let costs: Vec<(f64, Setting)> = ALGORITHMS.into_iter().flat_map(of_each).collect();
        // A lucky seed is no good setting.
        let finals = costs.into_par_iter().map(|(first, setting)| {
            let more = (2..=SEEDS).map(|seed| setting.cost(case, seed, budget).0);
            (median(std::iter::once(first).chain(more).collect()), setting)
        });
        let finals: Vec<(f64, Setting)> = finals.collect();
        let best_of = |name: &str| {
            let right =
                finals.iter().filter(|(cost, s)| cost.is_finite() && s.0.algorithm.name.contains(name));
            right.min_by(|(a, _), (b, _)| a.total_cmp(b)).cloned()
        };
        let best = best_of("");
        let each = ALGORITHMS.map(|name| best_of(name).map_or("-".into(), |(cost, _)| format!("{cost:.0}")));
        let of_auto = least_seconds(|| run_auto(case, 1, Some(sweeps as u64)));
        let of_best = best.as_ref().map_or(f64::NAN, |(cost, setting)| {
            let seeds = (1..=SEEDS).map(|seed| setting.cost(case, seed, budget));
            // The steps of the seed whose cost is the median.
            let steps = seeds.min_by(|(a, _), (b, _)| (a - cost).abs().total_cmp(&(b - cost).abs()));
            setting.seconds(case, steps.expect("seeds").1)
        });
        let mut verdicts: Vec<&str> = fits.iter().map(|fit| fit.verdict.as_str()).collect();
        verdicts.sort_unstable();
        verdicts.dedup();
        Row {
            name: case.name,
            same,
            own,
            by_itself,
            end: of(&|fit| fit.path.spent()),
            verdicts: verdicts.join(", "),
            best,
            each: each.join(", "),
            there,
            of: of_all,
            seconds: (of_auto, of_best),
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { name, same, own, by_itself, end, verdicts, each, there, of, seconds, .. } = self;
        let ms = |seconds: f64| if seconds.is_nan() { "-".into() } else { format!("{:.3}", 1e3 * seconds) };
        write!(f, "| {name} | {same:.0} | {own:.0} | {by_itself:.0} | {end:.0} | {verdicts} | ")?;
        match &self.best {
            Some((cost, setting)) => write!(
                f,
                "{cost:.0} | {setting} | {each} | {there} of {of} | {:.2} | {:.2} | ",
                same / cost,
                own / cost
            )?,
            None => write!(f, "none of {of} | - | {each} | {there} of {of} | - | - | ")?,
        }
        write!(f, "{} | {} |", ms(seconds.0), ms(seconds.1))
    }
}

/// A fit, whole or for so many sweeps.
fn run_auto(case: &Case, seed: u64, sweeps: Option<u64>) {
    let settings = auto(&*case.model, seed);
    let mut state = motes::start(&*case.model, &settings).unwrap();
    let mut stop = |info: &StepInfo<'_, f64>| match sweeps.is_some_and(|sweeps| info.k >= sweeps) {
        true => Flow::Stop,
        false => Flow::Continue,
    };
    motes::run(&*case.model, &settings, &mut state, None, &mut [&mut stop]).unwrap();
}

/// Seconds until theta stays within 0.2 standard errors, by the same reading as in the table and by its own estimate, and of
/// the whole fit, for each seed.
fn fits(case: &Case) -> String {
    let one = |seed: u64| {
        let fit = Fit::new(case, seed);
        let truth = truth(case);
        let sweeps = [fit.path.stays(truth, 0.5), fit.own.stays(truth, 1.0)];
        let [same, own] = sweeps.map(|(cost, sweeps)| match cost.is_finite() {
            true => format!("{:.6}", least_seconds(|| run_auto(case, seed, Some(sweeps)))),
            false => "null".into(),
        });
        let whole = least_seconds(|| run_auto(case, seed, None));
        let (error, verdict) = (path::error(&fit.estimate, truth), fit.verdict);
        format!(
            r#"{{"seed": {seed}, "seconds": {same}, "own_seconds": {own}, "whole_seconds": {whole:.6}, "error": {error:.4}, "verdict": "{verdict}"}}"#
        )
    };
    let fits: Vec<String> = (1..=SEEDS).map(one).collect();
    format!(r#"{{"model": "{}", "fits": [{}]}}"#, case.name, fits.join(", "))
}

/// The truth of a model, and its data where they are generated.
fn data(case: &Case) -> String {
    let truth = truth(case);
    let answers = if case.name == "irt-40" { bed::irt::answers(case.name) } else { Vec::new() };
    format!(
        r#"{{"model": "{}", "theta": {:?}, "se": {:?}, "answers": {answers:?}}}"#,
        case.name, truth.theta, truth.se
    )
}
