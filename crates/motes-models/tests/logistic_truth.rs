//! Logistic regression against its exact answers, found by quadrature.

use crate::common;

use std::sync::OnceLock;

use common::truth::{self, Known, Problem, Truth};
use common::z_scores::{average, standard_error};
use motes::algorithms::{Algorithm, MEAN_FIELD, PGD, PMGD, PQN, SOUL};
use motes::settings::{Growth, StepDecay};
use motes::summary::{Metrics, posterior_moments};
use motes::{Model, Settings, State};
use motes_models::Logistic;
use motes_models::data::Classification;
use motes_models::logistic::Options;

/// Data with their exact answers.
struct Case {
    name: &'static str,
    model: Logistic<f64>,
    problem: Problem,
    test: Option<Problem>,
    truth: Truth,
}

impl Case {
    fn new(
        name: &'static str,
        train: &Classification,
        test: Option<&Classification>,
        intercept: bool,
    ) -> Self {
        let problem = Problem::new(train, 5.0, intercept);
        let truth = problem.truth();
        let options = Options { intercept, intercept_variance: 5.0, ..Options::default() };
        let model = Logistic::new(train, test, options).unwrap();
        Case { name, model, problem, test: test.map(|t| Problem::new(t, 5.0, intercept)), truth }
    }
}

/// The embedded data with split seeds 0 and 1, and others with an intercept.
fn cases() -> &'static [Case; 3] {
    static CASES: OnceLock<[Case; 3]> = OnceLock::new();
    CASES.get_or_init(|| {
        let embedded = |name, seed| {
            let (train, test) = truth::embedded(seed);
            Case::new(name, &train, Some(&test), false)
        };
        [
            embedded("split 0", 0),
            embedded("split 1", 1),
            Case::new("correlated", &truth::correlated(), None, true),
        ]
    })
}

/// What replicates with seeds of their own measured.
struct Measured {
    theta: Vec<f64>,
    /// For each replicate, q-bar's mean and its variance about the posterior's mean, of each coordinate.
    means: Vec<Vec<f64>>,
    variances: Vec<Vec<f64>>,
    /// The largest variance of theta over the steps of a run.
    theta_variance: f64,
    acceptance: Option<f64>,
}

impl Measured {
    fn push(&mut self, case: &Case, state: &State<f64>) {
        let (means, mut variances) = state.averages.posterior().expect("a cloud");
        for ((v, m), truth) in variances.iter_mut().zip(&means).zip(&case.truth.means) {
            *v += (m - truth.value).powi(2);
        }
        self.theta.push(state.averages.theta_mean().expect("steps")[0]);
        self.means.push(means);
        self.variances.push(variances);
        self.theta_variance = self.theta_variance.max(state.batches.variance(0));
        self.acceptance = state.acceptance.rate();
    }
}

/// Runs that start at theta_* and at draws from the posterior, so that what they leave is seen and what they keep is kept.
fn from_the_truth(case: &Case, settings: &Settings, replicates: u64) -> Measured {
    let mut out =
        Measured { theta: vec![], means: vec![], variances: vec![], theta_variance: 0.0, acceptance: None };
    common::on(1, || {
        for seed in 0..replicates {
            let settings = Settings { seed: settings.seed + seed, keep_clouds: 0, ..settings.clone() };
            let mut state = State::initial(&case.model, &settings);
            state.theta[0] = case.truth.theta.value;
            state.cloud.as_mut_slice().copy_from_slice(&case.truth.draws(settings.particles, settings.seed));
            motes::run(&case.model, &settings, &mut state, None, &mut []).expect("a run");
            out.push(case, &state);
        }
    });
    out
}

/// How many standard errors the mean of replicates is off, both errors taken together, as a normal score.
fn score(values: &[f64], known: Known) -> f64 {
    let (mean, dof) = (average(values), values.len() as f64 - 1.0);
    let t = (mean - known.value) / standard_error(values).hypot(known.error);
    let z = (8.0 * dof + 1.0) / (8.0 * dof + 3.0) * (dof * (t * t / dof).ln_1p()).sqrt();
    z.copysign(t)
}

/// Everything that a run says, in standard errors from the truth.
struct Scores {
    theta: f64,
    /// Of the relative variances, averaged over the coordinates.
    pooled: f64,
    /// The worst of single coordinates, of means and of variances.
    worst: f64,
}

impl Scores {
    fn hold(&self) -> bool {
        // Of dozens of coordinates one is now and then beyond 4.
        self.theta.abs() < 4.0 && self.pooled.abs() < 4.0 && self.worst < 4.5
    }
}

fn relative_variances(case: &Case, measured: &Measured) -> Vec<f64> {
    let ratio = |v: &Vec<f64>| {
        average(&v.iter().zip(&case.truth.variances).map(|(v, t)| v / t.value).collect::<Vec<_>>())
    };
    measured.variances.iter().map(ratio).collect()
}

fn scores(label: &str, case: &Case, m: &Measured) -> Scores {
    let truth = &case.truth;
    let ratios = relative_variances(case, m);
    let column = |rows: &[Vec<f64>], j: usize| rows.iter().map(|r| r[j]).collect::<Vec<_>>();
    let coordinates = (0..truth.means.len()).flat_map(|j| {
        [score(&column(&m.means, j), truth.means[j]), score(&column(&m.variances, j), truth.variances[j])]
    });
    let scores = Scores {
        theta: score(&m.theta, truth.theta),
        pooled: score(&ratios, Known { value: 1.0, error: truth.pooled }),
        worst: coordinates.fold(0.0, |w: f64, z| w.max(z.abs())),
    };
    println!(
        "{:10} {label:16} theta {:+.5} (+/- {:.5}, z {:+.1})  variances {:+.2} % (+/- {:.2}, z {:+.1})  worst z {:.1}  accepted {:?}",
        case.name,
        average(&m.theta) - truth.theta.value,
        standard_error(&m.theta),
        scores.theta,
        100.0 * (average(&ratios) - 1.0),
        100.0 * standard_error(&ratios),
        scores.pooled,
        scores.worst,
        m.acceptance,
    );
    scores
}

/// Particles see each other through theta alone: what its noise adds to the variance of a coordinate must not matter.
fn assert_enough_particles(case: &Case, m: &Measured) {
    let truth = &case.truth;
    for (response, variance) in truth.response.iter().zip(&truth.variances) {
        // On the toy model twice this, for pmgd.
        let added = m.theta_variance * response * response / variance.value;
        assert!(added < 0.1 * standard_error(&relative_variances(case, m)), "{} {added}", case.name);
    }
}

/// The quadrature's error is an order below what tests tolerate, and on one weight it agrees with the trapezoidal rule.
#[test]
fn the_truth_is_known_well_enough() {
    for case in cases() {
        let Truth { theta, pooled, ess, .. } = &case.truth;
        println!(
            "{:10} theta_* {:.5} +/- {:.5}, relative variances +/- {pooled:.5}, ESS {ess:.2}",
            case.name, theta.value, theta.error
        );
        for (m, v) in case.truth.means.iter().zip(&case.truth.variances) {
            println!(
                "{:10} mean {:.4} +/- {:.4}  variance {:.4} +/- {:.4}",
                "", m.value, m.error, v.value, v.error
            );
            assert!(m.error < 0.005 * v.value.sqrt() && v.error < 0.01 * v.value);
        }
        assert!(theta.error < 2.5e-4 && *pooled < 0.002 && *ess > 0.5);
    }
    let mut one = truth::correlated();
    one.features = one.features.chunks(4).map(|f| f[0]).collect();
    one.feature_names.truncate(1);
    let problem = Problem::new(&one, 5.0, false);
    let truth = problem.truth();
    // With one weight the prior's mean can follow it anywhere: theta_* is where the posterior's mean is theta itself.
    let (mut sums, theta) = ([0.0; 3], truth.theta.value);
    for i in 0..4000 {
        let x = f64::from(i) / 1000.0 - 1.0;
        let log_likelihood = problem.rows.iter().map(|f| truth::sigmoid(f * x).ln()).sum::<f64>();
        let density = (log_likelihood - (x - theta).powi(2) / 10.0 + 120.0).exp();
        sums.iter_mut().zip([1.0, x, x * x]).for_each(|(s, f)| *s += density * f);
    }
    let mean = sums[1] / sums[0];
    assert!((mean - theta).abs() < 1e-6 && (truth.means[0].value - mean).abs() < 1e-6, "{mean} {theta}");
    assert!((truth.variances[0].value - (sums[2] / sums[0] - mean * mean)).abs() < 1e-6);
}

fn at(
    algorithm: &'static Algorithm,
    adjust: bool,
    particles: usize,
    steps: u64,
    burn_in: u64,
    seed: u64,
) -> Settings {
    Settings { algorithm, adjust, particles, steps, burn_in, step_size: 0.01, seed, ..Settings::default() }
}

/// At h = 0.01 what is not adjusted is biased (erratum 15), and accept-reject takes the bias away.
#[test]
fn the_bias_of_finite_steps_is_there_and_adjusting_removes_it() {
    let case = &cases()[2];
    for (i, algorithm) in [&PGD, &PQN, &PMGD, &SOUL].into_iter().enumerate() {
        let settings = at(algorithm, false, 32, 500, 100, 1000 * i as u64);
        let plain = from_the_truth(case, &settings, 32);
        let plain_scores = scores(&algorithm.to_string(), case, &plain);
        assert!(plain_scores.pooled > 8.0 && !plain_scores.hold(), "{algorithm} shows no bias");
        assert_enough_particles(case, &plain);
        if algorithm != &SOUL {
            let settings = Settings { adjust: true, seed: settings.seed + 500, ..settings };
            let adjusted = from_the_truth(case, &settings, 32);
            assert!(scores(&format!("{algorithm} adjusted"), case, &adjusted).hold(), "{algorithm} adjusted");
            assert_enough_particles(case, &adjusted);
        }
    }
}

#[test]
fn the_embedded_data_have_the_bias_of_erratum_15() {
    let runs = [(0, &PGD), (0, &PQN), (0, &PMGD), (0, &SOUL), (1, &PGD)];
    for (i, (split, algorithm)) in runs.into_iter().enumerate() {
        let case = &cases()[split];
        // One chain, whose states are not independent, takes longer.
        let steps = if algorithm == &SOUL { 1800 } else { 800 };
        let settings = at(algorithm, false, 64, steps, 200, 5000 + 1000 * i as u64);
        let plain = from_the_truth(case, &settings, 32);
        let plain_scores = scores(&algorithm.to_string(), case, &plain);
        assert!(!plain_scores.hold(), "{algorithm} shows no bias on split {split}");
        let off = average(&relative_variances(case, &plain)) - 1.0;
        assert!((0.01..0.05).contains(&off), "{algorithm}: the variances are {off} off");
        assert!((-0.001..0.006).contains(&(average(&plain.theta) - case.truth.theta.value)));
        assert_enough_particles(case, &plain);
        if algorithm == &PGD {
            let settings = Settings { adjust: true, ..settings };
            let adjusted = from_the_truth(case, &settings, 32);
            assert!(scores("pgd adjusted", case, &adjusted).hold());
            // Both runs have the same noise, so that the bias alone is left of their difference.
            let shift: Vec<f64> = plain.theta.iter().zip(&adjusted.theta).map(|(p, a)| p - a).collect();
            let z = score(&shift, Known { value: 0.0, error: 0.0 });
            println!("theta's bias: {:+.5} +/- {:.5}", average(&shift), standard_error(&shift));
            assert!(z > 4.0 && (0.001..0.005).contains(&average(&shift)), "{z}");
        }
    }
}

/// What a user does who starts at 0: the fixed step stays biased, falling steps with growing clouds do not.
#[test]
fn falling_steps_and_growing_clouds_remove_the_bias() {
    let case = &cases()[1];
    let from_zero = |settings: &Settings| {
        let mut m = Measured {
            theta: vec![],
            means: vec![],
            variances: vec![],
            theta_variance: 0.0,
            acceptance: None,
        };
        common::on(1, || {
            for seed in 0..32 {
                let settings = Settings { seed: settings.seed + seed, ..settings.clone() };
                let state = common::fit(&case.model, &settings).expect("a run");
                m.push(case, &state);
            }
        });
        m
    };
    let fixed = Settings {
        algorithm: &PGD,
        particles: 16,
        steps: 1600,
        burn_in: 800,
        step_size: 0.04,
        keep_clouds: 0,
        seed: 9000,
        ..Settings::default()
    };
    let scored = scores("h = 0.04", case, &from_zero(&fixed));
    assert!(!scored.hold() && scored.pooled > 8.0);
    let falling = Settings {
        step_decay: Some(StepDecay { power: 1.0, scale: 60.0 }),
        grow: Growth(vec![(150, 40), (300, 80)]),
        seed: 9500,
        ..fixed
    };
    assert!(scores("falling h", case, &from_zero(&falling)).hold());
}

/// Mean-field's last Gaussian is the best product Gaussian, which another optimiser finds, for the prior variance 5.
#[test]
fn mean_field_finds_the_best_product_gaussian() {
    let case = &cases()[0];
    let settings = Settings {
        algorithm: &MEAN_FIELD,
        // The gradients' noise puts theta-bar off by about 0.8 h/N (measured: 0.0017 at N = 10, 0.0003 at N = 50, 0.00004 at
        // N = 400), and after 500 steps the start still does by 0.0009: both must be well below what is compared.
        particles: 200,
        steps: 1400,
        burn_in: 1100,
        step_size: 0.02,
        ..Settings::default()
    };
    type Run = (f64, Vec<f64>, Vec<f64>);
    let runs: Vec<Run> = common::on(1, || {
        let run = |seed| {
            let state = common::fit(&case.model, &Settings { seed, ..settings.clone() }).expect("a run");
            let (means, variances) = posterior_moments(&case.model, &state).expect("a Gaussian");
            (state.averages.theta_mean().expect("steps")[0], means, variances)
        };
        (0..8).map(run).collect()
    });
    let compare = |variance: f64| -> Vec<f64> {
        let rows = case.problem.rows.clone();
        let best = truth::best_product(&Problem { rows, variance, ..case.problem });
        let known = |value| Known { value, error: 0.0 };
        let thetas: Vec<f64> = runs.iter().map(|r| r.0).collect();
        println!("theta {:.5} +/- {:.5}, best {:.5}", average(&thetas), standard_error(&thetas), best.theta);
        let mut all = vec![score(&thetas, known(best.theta))];
        for j in 0..best.means.len() {
            let column = |pick: &dyn Fn(&Run) -> f64| runs.iter().map(pick).collect::<Vec<_>>();
            all.push(score(&column(&|r| r.1[j]), known(best.means[j])));
            all.push(score(&column(&|r| r.2[j]), known(best.variances[j])));
        }
        println!("prior variance {variance}: {all:.1?}");
        all
    };
    assert!(compare(5.0).iter().all(|z| z.abs() < 4.0));
    let wrong = compare(2.5);
    assert!(wrong[0].abs() > 4.0 && wrong.iter().filter(|z| z.abs() > 4.0).count() > 4, "{wrong:?}");
}

/// The paper's setting, whose test error is that of the exact posterior (erratum 9) and whose LPPD Tab. 3 lists.
#[test]
fn test_metrics_are_those_of_the_posterior_and_of_the_paper() {
    let case = &cases()[0];
    let test = case.test.as_ref().expect("test rows");
    let (error, lppd) = case.truth.metrics(test);
    println!("exact posterior: error {error:.5}, LPPD {lppd:.5}");
    assert_eq!(error, 4.0 / 137.0);
    let predictive = Model::<f64>::predictive(&case.model).expect("test rows");
    // Tab. 3: mean and standard deviation for N = 10 and N = 100.
    let table = [
        (&PGD, [(-9.40, 0.28), (-9.38, 0.08)]),
        (&PQN, [(-9.41, 0.27), (-9.41, 0.09)]),
        (&PMGD, [(-9.48, 0.27), (-9.39, 0.07)]),
        (&SOUL, [(-9.41, 0.27), (-9.39, 0.09)]),
    ];
    for (i, (algorithm, entries)) in table.into_iter().enumerate() {
        for (n, (mean, deviation)) in [10, 100].into_iter().zip(entries) {
            let mut all = Vec::new();
            for seed in 0..if n == 10 { 8 } else { 3 } {
                let settings = at(algorithm, false, n, 400, 200, 100 * i as u64 + seed);
                let state = common::on(1, || common::fit(&case.model, &settings)).expect("a run");
                let metrics = Metrics::of(predictive, &state.predictive);
                // A chain of 10 moves a step is a dozen independent draws in all: a point near 1/2 may change sides.
                let few = algorithm == &SOUL && n == 10;
                let off = (137.0 * metrics.get("test_error").unwrap() - 4.0).abs();
                assert!(off < if few { 1.5 } else { 1e-9 }, "{algorithm} N={n} seed {seed}: {off}");
                all.push(100.0 * metrics.get("lppd").unwrap());
                if n == 10 && seed == 0 {
                    // All clouds are kept: the streamed metrics are those of all their particles.
                    assert_eq!(state.kept.rows(), 2000);
                    let (wrong, direct) = direct_metrics(test, &state.kept.data);
                    assert_eq!(wrong, metrics.get("test_error").unwrap());
                    assert!(
                        (direct - metrics.get("lppd").unwrap()).abs() < 1e-12,
                        "{direct} {}",
                        metrics.get("lppd").unwrap()
                    );
                }
            }
            println!(
                "{algorithm} N={n}: LPPD {:.2} +/- {:.2}, the paper's {mean} +/- {deviation}",
                average(&all),
                standard_error(&all)
            );
            // The paper's own mean is of 100 replicates and rounded.
            assert!(all.iter().all(|l| (l - mean).abs() < 4.0 * deviation), "{algorithm} N={n}: {all:?}");
            let error = deviation / (all.len() as f64).sqrt() + deviation / 10.0 + 0.005;
            assert!((average(&all) - mean).abs() < 4.0 * error, "{algorithm} N={n}: {all:?}");
        }
    }
}

/// Test error and LPPD from particles, by their definitions.
fn direct_metrics(test: &Problem, particles: &[f64]) -> (f64, f64) {
    let (rows, n) = (test.rows.len() / test.d, particles.len() / test.d);
    let (mut wrong, mut lppd) = (0.0, 0.0);
    for f in test.rows.chunks(test.d) {
        let sigmoids =
            particles.chunks(test.d).map(|x| truth::sigmoid(f.iter().zip(x).map(|(f, x)| f * x).sum()));
        let p = sigmoids.sum::<f64>() / n as f64;
        wrong += if p < 0.5 { 1.0 } else { 0.0 };
        lppd += p.ln() / rows as f64;
    }
    (wrong / rows as f64, lppd)
}
