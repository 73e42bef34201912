//! The fit without tuning on models whose truth is known: a few of them in every test, all of them, many seeds and many data sets
//! by `make test-slow`.

use crate::bed;

use std::time::Instant;

use bed::{Case, Expect, Truth};
use motes::algorithms::{PGD, PMGD, SOUL};
use motes::auto::{Assessment, LogLikelihood};
use motes::summary::Assessed;
use motes::{Algorithm, Model, Pool, Settings, State, Summary};
use motes_models::Hierarchical;
use rayon::prelude::*;

/// A fit with nothing chosen.
fn settings(model: &dyn Model<f64>, seed: u64) -> Settings {
    Settings::auto(model.prior().is_some(), seed)
}

/// On the pool at hand.
fn fit(model: &dyn Model<f64>, settings: &Settings) -> State<f64> {
    let mut state = motes::start(model, settings).unwrap();
    motes::run(model, settings, &mut state, None, &mut []).unwrap();
    state
}

/// What a fit came to, beside the truth.
struct Fitted {
    state: State<f64>,
    likelihood: Result<LogLikelihood, String>,
    seconds: f64,
    /// The largest error of a component in true standard errors, and in its own Monte Carlo errors.
    error: f64,
    z: f64,
    /// All errors in Monte Carlo errors.
    scores: Vec<f64>,
    /// The smallest and the largest ratio of standard errors, and whether each is within a tenth or three errors of its own.
    ratios: (f64, f64),
    se_right: bool,
}

impl Fitted {
    fn new(case: &Case, seed: u64) -> Self {
        let began = Instant::now();
        let state = fit(&*case.model, &settings(&*case.model, seed));
        let seconds = began.elapsed().as_secs_f64();
        let likelihood = motes::auto::log_likelihood(&*case.model, &state, seed);
        let mut fitted = Fitted {
            likelihood,
            seconds,
            error: 0.0,
            z: 0.0,
            scores: Vec::new(),
            ratios: (f64::INFINITY, 0.0),
            se_right: true,
            state,
        };
        let found = fitted.state.auto.as_ref().unwrap().found();
        for (i, truth) in case.truth.iter().flat_map(Truth::known) {
            let miss = found.estimate[i] - truth.0;
            let ratio = found.se[i] / truth.1;
            fitted.error = fitted.error.max(miss.abs() / truth.1);
            fitted.z = fitted.z.max((miss / found.mc_error[i]).abs());
            fitted.scores.push(miss / found.mc_error[i]);
            fitted.ratios = (fitted.ratios.0.min(ratio), fitted.ratios.1.max(ratio));
            let off = (found.se[i] - truth.1).abs();
            fitted.se_right &= off < 0.1 * truth.1 || off < 3.0 * found.se_mc_error[i];
        }
        fitted
    }

    fn verdict(&self) -> String {
        self.state.auto.as_ref().unwrap().found().verdict.unwrap_or("none").into()
    }

    /// What is wrong with it, if anything.
    fn wrong(&self, case: &Case) -> Vec<String> {
        let verdict = self.verdict();
        let mut wrong = Vec::new();
        match case.expect {
            // What is slow may be too much for the evaluations it is given, if it says so: the data then seem to hold little.
            Expect::Right if verdict != "ok" => match (case.slow, &*verdict) {
                (true, "not-reached" | "weakly-identified") => {}
                _ => wrong.push(format!("it says {verdict}")),
            },
            Expect::Says(words) if !words.contains(&verdict.as_str()) => {
                wrong.push(format!("it says {verdict}"))
            }
            _ => {}
        }
        if verdict != "ok" {
            return wrong;
        }
        if self.error > 0.2 || self.z > 4.0 {
            wrong.push(format!(
                "it is {:.3} standard errors or {:.1} Monte Carlo errors off",
                self.error, self.z
            ));
        }
        if !self.se_right {
            wrong.push(format!(
                "standard errors are {:.2} to {:.2} of the truth",
                self.ratios.0, self.ratios.1
            ));
        }
        if let (Ok(l), Some(truth)) = (&self.likelihood, case.truth.as_ref().and_then(|t| t.log_likelihood)) {
            let off = (l.value - truth).abs();
            if off > 0.05 && off > 3.0 * l.mc_error {
                wrong.push(format!("the log-likelihood is {off:.3} off with an error of {:.3}", l.mc_error));
            }
        }
        wrong
    }

    /// A row of the table in docs/auto.md.
    fn row(&self, case: &Case, seed: u64) -> String {
        let found = self.state.auto.as_ref().unwrap().found();
        let m = &case.model;
        let likelihood = match (&self.likelihood, case.truth.as_ref().and_then(|t| t.log_likelihood)) {
            (Ok(l), Some(truth)) => format!("{:+.3} ({:.3})", l.value - truth, l.mc_error),
            (Ok(l), None) => format!("({:.3})", l.mc_error),
            (Err(_), _) => "-".into(),
        };
        let ratios = match self.ratios.1 > 0.0 {
            true => format!("{:.2}-{:.2}", self.ratios.0, self.ratios.1),
            false => "-".into(),
        };
        format!(
            "| {} ({}, {}, {}) | {seed} | {} | {:.3} | {:.1} | {:.3} | {ratios} | {likelihood} | {} | {:.0} | {:.2} |",
            case.name,
            m.d_theta(),
            m.groups(),
            m.d_x(),
            self.verdict(),
            self.error,
            self.z,
            found.worst.unwrap_or(f64::NAN),
            found.leaps,
            found.evaluations,
            self.seconds
        )
    }
}

impl Truth {
    /// The components that the data determine: number, estimate, standard error.
    fn known(&self) -> impl Iterator<Item = (usize, (f64, f64))> + '_ {
        let both = self.theta.iter().copied().zip(self.se.iter().copied()).enumerate();
        both.filter(|(_, (theta, se))| theta.is_finite() && se.is_finite())
    }
}

const HEAD: &str = "| model (parameters, groups, latents of a group) | seed | verdict | error / SE | error / MC error | MC error / SE | SE ratio | log-likelihood | L | evaluations | seconds |
|---|---|---|---|---|---|---|---|---|---|---|";

/// Cases that take a fraction of a second.
const QUICK: [&str; 13] = [
    "toy",
    "toy-one-group",
    "scales",
    "schools-x3",
    "schools-non-centred",
    "cbpp",
    "sleepstudy-intercepts",
    "student-effects",
    "laplace-effects",
    "pima",
    "unused",
    "sum",
    "no-effects",
];

#[test]
fn some_models_are_fitted_right() {
    on(2, || {
        for case in bed::cases().iter().filter(|case| QUICK.contains(&case.name)) {
            let wrong = Fitted::new(case, 1).wrong(case);
            assert!(wrong.is_empty(), "{}: {wrong:?}", case.name);
        }
    });
}

fn on<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    Pool::new(Some(threads)).unwrap().install(f)
}

/// All that there is of a state, as a checkpoint has it.
fn bytes(state: &State<f64>) -> Vec<u8> {
    let mut file = Vec::new();
    let header = motes::checkpoint::Header::of(state, 0, 0, 0.0);
    motes::checkpoint::encode(state, &header, &mut file).unwrap();
    file
}

/// A fit has the same bits for any number of threads, and goes on from a checkpoint as if nothing had happened.
#[test]
fn the_same_bits_for_any_number_of_threads_and_in_parts() {
    for case in bed::cases().iter().filter(|c| ["cbpp", "toy-one-group"].contains(&c.name)) {
        let settings = settings(&*case.model, 3);
        let whole = on(1, || fit(&*case.model, &settings));
        let whole = bytes(&whole);
        assert!(whole == bytes(&on(3, || fit(&*case.model, &settings))), "{}", case.name);
        let in_parts = on(2, || {
            let mut state = motes::start(&*case.model, &settings).unwrap();
            let mut parts = 0;
            while !state.is_over(&settings) {
                let until = state.k + 37;
                let mut stop = |info: &motes::StepInfo<'_, f64>| match info.k >= until {
                    true => motes::Flow::Stop,
                    false => motes::Flow::Continue,
                };
                motes::run(&*case.model, &settings, &mut state, None, &mut [&mut stop]).unwrap();
                let file = bytes(&state);
                let mut again = State::initial(&*case.model, &settings);
                motes::checkpoint::decode(&file[..], &mut again).unwrap();
                assert!(bytes(&again) == file);
                state = again;
                parts += 1;
            }
            assert!(parts > 4);
            state
        });
        assert!(whole == bytes(&in_parts), "{}", case.name);
    }
}

/// All of the bed, two seeds each; prints the table of docs/auto.md.
#[test]
#[ignore = "takes minutes; make test-slow"]
fn the_whole_bed_is_fitted_right() {
    let only = std::env::var("BED").unwrap_or_default();
    let (mut wrong, mut scores) = (Vec::new(), Vec::new());
    println!("{HEAD}");
    on(2, || {
        for case in bed::cases().iter().filter(|case| case.name.contains(&only)) {
            for seed in 1..=2 {
                let fitted = Fitted::new(case, seed);
                println!("{}", fitted.row(case, seed));
                wrong.extend(
                    fitted.wrong(case).into_iter().map(|w| format!("{} seed {seed}: {w}", case.name)),
                );
                if fitted.verdict() == "ok" {
                    // Many components of one fit are one case.
                    let rms = (fitted.scores.iter().map(|z| z * z).sum::<f64>() / fitted.scores.len() as f64)
                        .sqrt();
                    let within = fitted.scores.iter().filter(|z| z.abs() < 2.0).count() as f64;
                    scores.push((rms, within / fitted.scores.len() as f64));
                }
            }
        }
    });
    let fits = scores.len() as f64;
    let rms = (scores.iter().map(|(rms, _)| rms * rms).sum::<f64>() / fits).sqrt();
    let within = scores.iter().map(|(_, within)| within).sum::<f64>() / fits;
    println!(
        "\n{fits} fits said ok: error over Monte Carlo error has rms {rms:.2}, and {:.0} % are within 2",
        100.0 * within
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(!only.is_empty() || ((0.8..1.25).contains(&rms) && within >= 0.9), "{rms} {within}");
}

/// Group effects whose variance has its maximum at zero, near it or beyond, in many data sets: what says `ok` is right, a maximum at
/// zero is called a boundary, and the other estimates are those on it.
#[test]
#[ignore = "takes minutes; make test-slow"]
fn variances_at_or_near_zero_are_told() {
    println!(
        "| sd of effects | data sets | maximum at 0 | of these boundary | maximum inside | of these ok |\n|---|---|---|---|---|---|"
    );
    let mut wrong = Vec::new();
    on(2, || {
        for sd in [0.0, 0.1, 0.2, 0.4] {
            let fits: Vec<(bool, String, Vec<String>)> = (0..50u64)
                .into_par_iter()
                .map(|seed| {
                    let case = bed::weak::effects(sd, 100 + seed);
                    let fitted = Fitted::new(&case, seed);
                    let inside = case.truth.as_ref().unwrap().theta[1].is_finite();
                    let (verdict, mut wrong) = (fitted.verdict(), Vec::new());
                    if !inside && verdict != "boundary" {
                        wrong.push(format!("it says {verdict}"));
                    }
                    // What is near zero has a standard error that changes with it, and is known no better than to a fifth.
                    let near = (0.8..1.2).contains(&fitted.ratios.0) && (0.8..1.2).contains(&fitted.ratios.1);
                    let said = verdict == if inside { "ok" } else { "boundary" };
                    if said && (fitted.error > 0.2 || !near) {
                        let (error, ratios) = (fitted.error, fitted.ratios);
                        wrong.push(format!("it is {error:.3} standard errors off, these by {ratios:?}"));
                    }
                    let wrong = wrong.into_iter().map(|w| format!("sd {sd} seed {seed}: {w}")).collect();
                    (inside, fitted.verdict(), wrong)
                })
                .collect();
            let count = |inside: bool, word: &str| {
                fits.iter().filter(|f| f.0 == inside && f.1.contains(word)).count()
            };
            println!(
                "| {sd} | {} | {} | {} | {} | {} |",
                fits.len(),
                count(false, ""),
                count(false, "boundary"),
                count(true, ""),
                count(true, "ok")
            );
            wrong.extend(fits.into_iter().flat_map(|f| f.2));
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Over 200 seeds theta lies within two Monte Carlo errors of the exact estimate as often as it should.
#[test]
#[ignore = "takes minutes; make test-slow"]
fn monte_carlo_errors_are_honest() {
    println!(
        "| model | seeds | said ok | within 2 MC errors | rms of error / MC error |\n|---|---|---|---|---|"
    );
    on(2, || {
        for case in bed::cases().iter().filter(|c| ["toy", "schools-x3", "cbpp", "pima"].contains(&c.name)) {
            let fits: Vec<Fitted> =
                (0..200u64).into_par_iter().map(|seed| Fitted::new(case, 1000 + seed)).collect();
            let ok: Vec<&Fitted> = fits.iter().filter(|f| f.verdict() == "ok").collect();
            let parameters = ok[0].scores.len();
            for i in 0..parameters {
                let z: Vec<f64> = ok.iter().map(|f| f.scores[i]).collect();
                let within = z.iter().filter(|z| z.abs() < 2.0).count() as f64 / z.len() as f64;
                let rms = (z.iter().map(|z| z * z).sum::<f64>() / z.len() as f64).sqrt();
                println!("| {} [{i}] | 200 | {} | {:.1} % | {rms:.2} |", case.name, ok.len(), 100.0 * within);
                assert!(ok.len() >= 190, "{}: {} of 200 are ok", case.name, ok.len());
                assert!((0.90..=0.99).contains(&within), "{} [{i}]: {within}", case.name);
            }
            let truth = case.truth.as_ref().and_then(|t| t.log_likelihood).unwrap();
            let z: Vec<f64> = ok
                .iter()
                .map(|f| f.likelihood.as_ref().map(|l| (l.value - truth) / l.mc_error).unwrap())
                .collect();
            let within = z.iter().filter(|z| z.abs() < 2.0).count() as f64 / z.len() as f64;
            let (mean, rms) = (
                z.iter().sum::<f64>() / z.len() as f64,
                (z.iter().map(|z| z * z).sum::<f64>() / z.len() as f64).sqrt(),
            );
            println!(
                "| {} log-likelihood | 200 | {} | {:.1} % | {rms:.2} (mean {mean:+.2}) |",
                case.name,
                ok.len(),
                100.0 * within
            );
        }
    });
}

/// The paper's algorithms: theta-bar within two Monte Carlo errors of their own limit, which for the toy model is theta_*.
#[test]
#[ignore = "takes minutes; make test-slow"]
fn monte_carlo_errors_of_the_papers_algorithms_are_honest() {
    println!("| algorithm | seeds | within 2 MC errors |\n|---|---|---|");
    let y = Hierarchical::<f64>::generate(20, 1.0, 5);
    let (model, truth) = (Hierarchical::<f64>::new(&y), y.iter().sum::<f64>() / 20.0);
    let algorithms: [&'static Algorithm; 3] = [&PGD, &PMGD, &SOUL];
    on(2, || {
        for algorithm in algorithms {
            let covered = |seed: u64| {
                let settings = Settings {
                    algorithm,
                    particles: 10,
                    steps: 20_000,
                    burn_in: 4_000,
                    step_size: 0.04,
                    seed,
                    keep_clouds: 0,
                    ..Settings::default()
                };
                let state = fit(&model, &settings);
                let summary =
                    Summary::of(&model, &settings, Default::default(), &state, 1.0, &Assessed::default());
                let (mean, error) = (summary.theta.mean.unwrap()[0], summary.theta.mc_error[0].unwrap());
                (mean - truth).abs() < 2.0 * error
            };
            let hits = (0..200u64).into_par_iter().filter(|seed| covered(*seed)).count();
            println!("| {algorithm} | 200 | {:.1} % |", hits as f64 / 2.0);
            assert!((180..=198).contains(&hits), "{algorithm}: {hits} of 200");
        }
    });
}

/// 400 simulated data sets with 100 groups each: intervals hold what was simulated as often as they should.
#[test]
#[ignore = "takes minutes; make test-slow"]
fn intervals_cover_what_was_simulated() {
    const SIMULATIONS: u64 = 400;
    let truth = bed::glmm::SIMULATED;
    let hits: Vec<Option<[(bool, bool); 5]>> = on(2, || {
        (0..SIMULATIONS)
            .into_par_iter()
            .map(|seed| {
                let case = bed::glmm::simulated(seed);
                let exact = case.truth.as_ref().unwrap();
                let state = fit(&*case.model, &settings(&*case.model, seed));
                let found = state.auto.as_ref().unwrap().found();
                let covers = |estimate: f64, se: f64, i: usize| (estimate - truth[i]).abs() < 1.959_964 * se;
                let both = |i: usize| {
                    (covers(found.estimate[i], found.se[i], i), covers(exact.theta[i], exact.se[i], i))
                };
                (found.verdict == Some("ok")).then(|| std::array::from_fn(both))
            })
            .collect()
    });
    let ok: Vec<_> = hits.iter().flatten().collect();
    println!(
        "| parameter | simulations | said ok | intervals cover | those of exact quadrature |\n|---|---|---|---|---|"
    );
    assert!(ok.len() as u64 * 20 >= SIMULATIONS * 19, "{} of {SIMULATIONS} are ok", ok.len());
    for i in 0..truth.len() {
        let share = |hits: usize| hits as f64 / ok.len() as f64;
        let ours = share(ok.iter().filter(|h| h[i].0).count());
        let exact = share(ok.iter().filter(|h| h[i].1).count());
        println!("| {i} | {SIMULATIONS} | {} | {:.1} % | {:.1} % |", ok.len(), 100.0 * ours, 100.0 * exact);
        assert!((0.915..=0.98).contains(&ours) || (ours - exact).abs() < 0.02, "{i}: {ours} {exact}");
    }
}

/// An adjusted pass at another algorithm's estimate finds the standard error, the likelihood and the distance from the maximum.
#[test]
fn a_pass_assesses_any_theta() {
    on(2, || {
        let case = bed::cases().into_iter().find(|c| c.name == "cbpp").unwrap();
        let truth = case.truth.as_ref().unwrap();
        let off = 0.7;
        let theta: Vec<f64> = truth.theta.iter().zip(&truth.se).map(|(t, se)| t + off * se).collect();
        let settings = Settings { seed: 4, ..Settings::default() };
        let none = motes::Cloud::filled(15, 0, 1, 0.0, 0);
        let assess = |theta: &[f64]| -> Assessment {
            let stop = motes::Stop::default();
            motes::auto::assess(&*case.model, &settings, theta, &none, stop, || false).unwrap().unwrap()
        };
        let at_maximum = assess(&truth.theta);
        for i in 0..truth.theta.len() {
            let far = at_maximum.distance[i].abs();
            assert!(far < 4.0 * at_maximum.distance_mc_error[i], "{i}: {far}");
            let ratio = at_maximum.se[i] / truth.se[i];
            assert!((ratio - 1.0).abs() < 0.1, "{i}: {ratio}");
        }
        let l = at_maximum.log_likelihood.as_ref().unwrap();
        assert!((l.value - truth.log_likelihood.unwrap()).abs() < 4.0 * l.mc_error);
        // The likelihood is no parabola: the Newton step leads near the maximum, not onto it.
        let beside = assess(&theta);
        let farthest = (0..theta.len()).map(|i| (beside.distance[i] / truth.se[i]).abs()).fold(0.0, f64::max);
        assert!(beside.sound && farthest > 0.4, "{farthest}");
    });
}
