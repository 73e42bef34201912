//! Every algorithm against the closed forms of the toy model and of the linear decoder, in one table whose rows can all fail
//! (those of the Bayesian network are in bnn_closed_forms.rs).

use crate::common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::decoder_rows;
use common::table::{Measured, Row, Verdict, replicates, table};
use common::theory::{self, Matrix};
use common::z_scores::{average, rms, standard_error, z_score};
use motes::algorithms::{EM, PGD, PMGD, PQN, SOUL};
use motes::noise::{Noise, Purpose};
use motes::settings::{Growth, InitParticles, InitTheta, StepDecay, WarmStart};
use motes::summary::posterior_moments;
use motes::{Flow, Real, Settings, StepInfo};
use motes_models::Hierarchical;

/// theta_* is shifted by this fraction to see that a row can fail.
const SHIFT: f64 = 0.01;

/// A row's z-scores: of single numbers, and the worst of those of single coordinates.
struct Scores {
    named: Vec<(&'static str, f64)>,
    worst_coordinate: f64,
}

/// Compares measurements with what the row must show, theta_* being shifted.
fn compare(row: &Row, measured: &[Measured], shift: f64) -> Scores {
    let expected = row.expected();
    let column = |f: &dyn Fn(&Measured) -> f64| measured.iter().map(f).collect::<Vec<_>>();
    let mut named = vec![
        ("theta", z_score(&column(&|m| m.theta), shift, 0.0)),
        ("cloud", z_score(&column(&|m| average(&m.means)), shift, 0.0)),
    ];
    if let Some(v) = expected.theta_variance {
        named.push(("var theta", z_score(&column(&|m| m.theta_variance), v, 0.0)));
    }
    let mut worst_coordinate = 0.0f64;
    for i in 0..row.d {
        worst_coordinate = worst_coordinate.max(z_score(&column(&|m| m.means[i]), shift, 0.0).abs());
        if let Some((v, slack)) = expected.variance {
            worst_coordinate = worst_coordinate.max(z_score(&column(&|m| m.variances[i]), v, slack).abs());
        }
    }
    if let Some((v, slack)) = expected.variance {
        named.push(("var x", z_score(&column(&|m| average(&m.variances)), v, slack)));
    }
    if let Some(v) = expected.deviations {
        named.push(("deviations", z_score(&column(&|m| m.deviations), v, 0.0)));
    }
    Scores { named, worst_coordinate }
}

/// Where the data of a table row have theta_*.
fn theta_star(row: &Row) -> f64 {
    Hierarchical::<f64>::new(&Hierarchical::<f64>::generate(row.d, 10.0, 7)).theta_star()
}

fn judge(row: &Row, number: usize) -> Verdict {
    let run = |quiet| {
        let seed = 1000 * number as u64 + if quiet { 500 } else { 0 };
        if row.double { replicates::<f64>(row, seed, quiet) } else { replicates::<f32>(row, seed, quiet) }
    };
    let measured = run(false);
    let right = compare(row, &measured, 0.0);
    let shifted = compare(row, &measured, SHIFT * theta_star(row));
    let quiet = compare(row, &run(true), 0.0);
    let mut wrong = Vec::new();
    for (name, z) in right.named.iter().filter(|(_, z)| z.is_nan() || z.abs() >= 4.0) {
        wrong.push(format!("{name} is {z:.1} standard errors off"));
    }
    if right.worst_coordinate.is_nan() || right.worst_coordinate >= 5.0 {
        wrong.push(format!("a coordinate is {:.1} standard errors off", right.worst_coordinate));
    }
    let thetas: Vec<f64> = measured.iter().map(|m| m.theta).collect();
    if SHIFT * theta_star(row) < 8.0 * standard_error(&thetas) {
        wrong.push(format!(
            "theta-bar has a standard error of {:.4}, which is too much",
            standard_error(&thetas)
        ));
    }
    let is_mean = |name: &str| name == "theta" || name == "cloud";
    for (name, z) in shifted.named.iter().filter(|(name, z)| is_mean(name) && z.abs() < 4.0) {
        wrong.push(format!("{name} cannot fail: theta_* shifted by 1 % is {z:.1} standard errors off"));
    }
    for (name, z) in quiet.named.iter().filter(|(name, z)| !is_mean(name) && z.abs() < 4.0) {
        wrong.push(format!("{name} cannot fail: with half the noise it is {z:.1} standard errors off"));
    }
    if let Some(law) = row.unadjusted().and_then(|r| r.linear())
        && let Some((variance, slack)) = row.expected().variance
    {
        let pooled: Vec<f64> = measured.iter().map(|m| average(&m.variances)).collect();
        if (law.x - variance).abs() - slack < 10.0 * standard_error(&pooled) {
            wrong.push(format!("the variance {:.3} without accept-reject would hardly be noticed", law.x));
        }
    }
    let list = |scores: &Scores| {
        scores.named.iter().map(|(n, z)| format!("{n} {z:+.1}")).collect::<Vec<_>>().join("  ")
    };
    let line = format!(
        "{row:40} {}  worst {:.1} | shifted {} | quiet {}",
        list(&right),
        right.worst_coordinate,
        list(&shifted),
        list(&quiet)
    );
    // Where a bias of order 1/N is allowed for, the score says nothing about standard errors.
    let slack = row.expected().variance.is_some_and(|(_, slack)| slack > 0.0);
    let honest = right.named.iter().filter(|(name, _)| !(slack && *name == "var x"));
    Verdict { line, scores: honest.map(|(_, z)| *z).collect(), wrong }
}

/// EM has no noise: its row holds to rounding, and a shift is all that can be wrong.
fn judge_em<F: Real>(row: &Row) -> Verdict {
    let y = Hierarchical::<f64>::generate(row.d, 10.0, 7);
    let model = Hierarchical::<F>::new(&y);
    let settings = Settings { algorithm: &EM, steps: 60, burn_in: 59, ..Settings::default() };
    let state = common::fit(&model, &settings).expect("a run");
    let (means, variances) = posterior_moments(&model, &state).expect("an exact posterior");
    let holds = |theta_star: f64| {
        let rounding = if row.double { 1e-13 } else { 2e-6 }; // of y
        let mean = |(m, y): (&f64, &f64)| (m - 0.5 * (y + theta_star)).abs() < rounding;
        (state.theta[0] - theta_star).abs() < 1e-13
            && means.iter().zip(&y).all(mean)
            && variances.iter().all(|v| *v == 0.5)
    };
    let mut wrong = Vec::new();
    if !holds(theta_star(row)) {
        wrong.push(format!("theta {} or its posterior is off", state.theta[0]));
    }
    if holds(theta_star(row) * (1.0 + SHIFT)) {
        wrong.push("it cannot fail".into());
    }
    Verdict { line: format!("{row:40} exact"), scores: Vec::new(), wrong }
}

/// Auto has no step size and no number of steps: its estimate must be right by its own errors, and so must the posterior there.
fn judge_auto<F: Real>(d: usize, grouped: bool, number: u64) -> Verdict {
    let y = Hierarchical::<f64>::generate(d, 10.0, 7);
    let model = if grouped { Hierarchical::<F>::grouped(&y) } else { Hierarchical::<F>::new(&y) };
    let star = model.theta_star();
    let (mut thetas, mut clouds, mut pooled) = (Vec::new(), Vec::new(), Vec::new());
    let (mut means, mut variances) = (vec![Vec::new(); d], vec![Vec::new(); d]);
    let mut wrong = Vec::new();
    for seed in 0..AUTO_REPLICATES {
        let settings = Settings { tolerance: 0.02, ..Settings::auto(true, 1000 * number + seed) };
        let state = common::fit(&model, &settings).expect("a run");
        let found = state.auto.as_ref().expect("a fit by auto").found();
        let (estimate, error) = (found.estimate[0], found.mc_error[0]);
        let z = (estimate - star) / error;
        if found.verdict != Some("ok") || z.is_nan() || z.abs() >= 4.0 {
            wrong.push(format!("seed {seed}: {:?}, theta is {z:.1} of its MC errors off", found.verdict));
        }
        let se = (2.0 / d as f64).sqrt();
        if (found.se[0] - se).abs() > (3.0 * found.se_mc_error[0]).max(0.1 * se) || error > 0.02 * found.se[0]
        {
            wrong.push(format!("seed {seed}: SE {} for {se}, MC error {error}", found.se[0]));
        }
        let (mean, variance) = posterior_moments(&model, &state).expect("a cloud");
        let off: Vec<f64> = mean.iter().zip(&y).map(|(m, y)| m - 0.5 * (y + estimate)).collect();
        let about: Vec<f64> = variance.iter().zip(&off).map(|(v, m)| v + m * m).collect();
        thetas.push(estimate - star);
        clouds.push(average(&off));
        pooled.push(average(&about));
        for i in 0..d {
            means[i].push(off[i]);
            variances[i].push(about[i]);
        }
    }
    let named = [
        ("theta", z_score(&thetas, 0.0, 0.0)),
        ("cloud", z_score(&clouds, 0.0, 0.0)),
        ("var x", z_score(&pooled, 0.5, 0.0)),
    ];
    for (name, z) in named.iter().filter(|(_, z)| z.is_nan() || z.abs() >= 4.0) {
        wrong.push(format!("{name} is {z:.1} standard errors off"));
    }
    let of_coordinate =
        |i: usize| z_score(&means[i], 0.0, 0.0).abs().max(z_score(&variances[i], 0.5, 0.0).abs());
    let worst = (0..d).map(of_coordinate).fold(0.0, f64::max);
    if worst >= 5.0 {
        wrong.push(format!("a coordinate is {worst:.1} standard errors off"));
    }
    let shifted = z_score(&thetas, SHIFT * star, 0.0);
    if shifted.abs() < 4.0 || SHIFT * star < 8.0 * standard_error(&thetas) {
        wrong.push("theta cannot fail".into());
    }
    if z_score(&pooled, 0.55, 0.0).abs() < 4.0 {
        wrong.push("variances 10 % off would not be noticed".into());
    }
    let line =
        format!("{:40} {named:.1?} worst {worst:.1} | shifted {shifted:.1}", auto_name(d, grouped, F::NAME));
    Verdict { line, scores: named.iter().map(|(_, z)| *z).collect(), wrong }
}

/// Fits by auto, each with a seed of its own.
const AUTO_REPLICATES: u64 = 24;

fn auto_name(d: usize, grouped: bool, precision: &str) -> String {
    format!("auto D={d} {} {precision}", if grouped { "grouped" } else { "whole" })
}

/// The name of a row, and how it is judged.
type Judged = (String, Box<dyn Fn() -> Verdict + Sync>);

/// All rows of all models.
fn rows() -> Vec<Judged> {
    let toy = table().into_iter().enumerate().map(|(i, row)| -> Judged {
        let judge = move || match row.algorithm.name {
            "em" if row.double => judge_em::<f64>(&row),
            "em" => judge_em::<f32>(&row),
            _ => judge(&row, i),
        };
        (row.to_string(), Box::new(judge))
    });
    let decoder = decoder_rows::table()
        .into_iter()
        .map(|row| -> Judged { (row.to_string(), Box::new(move || row.judge())) });
    let mut auto: Vec<Judged> = Vec::new();
    for (i, (d, grouped)) in [(1, false), (3, true), (50, true), (50, false)].into_iter().enumerate() {
        let number = 900 + 2 * i as u64;
        auto.push((auto_name(d, grouped, "f64"), Box::new(move || judge_auto::<f64>(d, grouped, number))));
        auto.push((
            auto_name(d, grouped, "f32"),
            Box::new(move || judge_auto::<f32>(d, grouped, number + 1)),
        ));
    }
    decoder.chain(toy).chain(auto).collect()
}

#[test]
fn every_row_of_the_table_holds_and_can_fail() {
    let rows = rows();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, judge)) = rows.get(i) else { break };
                    let verdict = common::on(1, judge);
                    verdicts.lock().expect("no panic").push((i, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().expect("no panic");
    verdicts.sort_by_key(|(i, _)| *i);
    let lines: Vec<&str> = verdicts.iter().map(|(_, v)| v.line.as_str()).collect();
    let wrong: Vec<String> =
        verdicts.iter().flat_map(|(i, v)| v.wrong.iter().map(|w| format!("{}: {w}", rows[*i].0))).collect();
    let scores: Vec<f64> = verdicts.iter().flat_map(|(_, v)| v.scores.clone()).collect();
    let spread = rms(&scores);
    let most = scores.iter().fold(0.0f64, |m, z| m.max(z.abs()));
    println!("{}\n{} scores, rms {spread:.2}, largest {most:.1}", lines.join("\n"), scores.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    // Standard errors that are too small or too large would show here.
    assert!((0.85..1.15).contains(&spread) && most > 2.0, "rms {spread}, largest {most}");
}

/// (theta_k, mean of the cloud) for k = 0..=steps, from every theta at `theta` and every coordinate at `x`.
fn trajectory(settings: &Settings, d: usize, theta: f64, x: f64) -> Vec<[f64; 2]> {
    let model = Hierarchical::<f64>::new(&Hierarchical::<f64>::generate(d, 1.0, 3));
    let init_theta = if settings.theta_is_computed() { InitTheta::Model } else { theta.into() };
    let settings = Settings { init_theta, init_particles: InitParticles::Value(x), ..settings.clone() };
    let mut path = Vec::new();
    let mut observer = |info: &StepInfo<'_, f64>| {
        path.push([info.theta[0], average(info.cloud.as_slice())]);
        Flow::Continue
    };
    let mut state = motes::start(&model, &settings).expect("a start");
    motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).expect("a run");
    path
}

/// The recursions are linear: between two runs with the same noise and different starts it cancels, and what is left
/// is the mean-field contraction itself, for any N.
#[test]
fn contraction_rates_are_those_of_the_mean_field_limits() {
    const K: usize = 24;
    let golden = 5f64.sqrt();
    for (n, d) in [(1, 1), (7, 3), (20, 50)] {
        let real_d = d as f64;
        let root = (real_d * real_d + 4.0).sqrt();
        let pair = |h: f64, middle: f64, half: f64| {
            (1.0 - h * (middle + half)).abs().max((1.0 - h * (middle - half)).abs())
        };
        let best = 2.0 / (2.0 + real_d);
        let mut cases = Vec::new();
        for h in [best, 0.75 / (2.0 + real_d), 0.1 / (2.0 + real_d), 2.05 / (2.0 + real_d)] {
            cases.push((&PGD, h, pair(h, 1.0 + real_d / 2.0, root / 2.0), theory::pgd_matrix(real_d, h)));
        }
        for h in [2.0 / 3.0, 0.5, 0.1, 0.01] {
            cases.push((&PQN, h, pair(h, 1.5, golden / 2.0), theory::pgd_matrix(1.0, h)));
        }
        assert!((pair(best, 1.0 + real_d / 2.0, root / 2.0) - root / (real_d + 2.0)).abs() < 1e-15);
        assert!((pair(2.0 / 3.0, 1.5, golden / 2.0) - golden / 3.0).abs() < 1e-15);
        for (algorithm, h, rho, matrix) in cases {
            let steps = K as u64;
            let settings =
                Settings { algorithm, particles: n, steps, burn_in: 0, step_size: h, ..Settings::default() };
            let base = trajectory(&settings, d, 0.0, 0.0);
            let apart = |theta, x| -> Vec<[f64; 2]> {
                let other = trajectory(&settings, d, theta, x);
                other.iter().zip(&base).map(|(a, b)| [a[0] - b[0], a[1] - b[1]]).collect()
            };
            let (from_theta, from_x) = (apart(1.0, 0.0), apart(0.0, 1.0));
            // The measured one-step matrix, its spectral radius, and its K-th power.
            let measured: Matrix =
                [[from_theta[1][0], from_x[1][0], 0.0], [from_theta[1][1], from_x[1][1], 0.0], [0.0; 3]];
            let mut power = matrix;
            for _ in 1..K {
                power = theory::product(&power, &matrix);
            }
            for i in 0..2 {
                for (j, run) in [&from_theta, &from_x].into_iter().enumerate() {
                    assert!((measured[i][j] - matrix[i][j]).abs() < 1e-12, "{algorithm} h={h} D={d}");
                    assert!((run[K][i] - power[i][j]).abs() < 1e-11, "{algorithm} h={h} D={d} after {K}");
                }
            }
            assert!((theory::radius(&measured) - rho).abs() < 1e-9, "{algorithm} h={h} D={d}: {rho}");
            // A rate that is 1 % off is noticed.
            assert!((theory::radius(&measured) - 1.01 * rho).abs() > 1e-3);
        }
        for h in [1.0f64, 0.5, 0.1, 1.9] {
            let algorithm = &PMGD;
            let steps = K as u64;
            let settings =
                Settings { algorithm, particles: n, steps, burn_in: 0, step_size: h, ..Settings::default() };
            let (a, b) = (trajectory(&settings, d, 0.0, 1.0), trajectory(&settings, d, 0.0, 0.0));
            for (k, (a, b)) in a.iter().zip(&b).enumerate() {
                // Deviations contract by 1 - 2h: for h > 1 they grow, and with them the rounding.
                let rounding = 1e-12 * (1.0 - 2.0 * h).abs().max(1.0).powi(k as i32);
                assert!((a[0] - b[0] - (1.0 - h).powi(k as i32)).abs() < rounding, "pmgd h={h} D={d} k={k}");
                assert!((a[0] - a[1]).abs() < rounding, "theta is the mean of the cloud");
            }
        }
    }
}

#[test]
fn the_error_of_em_halves_at_each_step() {
    let model = Hierarchical::<f64>::new(&Hierarchical::<f64>::generate(20, 1.0, 5));
    let settings = Settings {
        algorithm: &EM,
        steps: 50,
        burn_in: 0,
        init_theta: (model.theta_star() + 1024.0).into(),
        ..Settings::default()
    };
    let mut path = Vec::new();
    let mut observer = |info: &StepInfo<'_, f64>| {
        path.push(info.theta[0] - model.theta_star());
        Flow::Continue
    };
    let mut state = motes::start(&model, &settings).expect("a start");
    motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).expect("a run");
    for (k, error) in path.iter().enumerate() {
        assert!((error - 1024.0 * 0.5f64.powi(k as i32)).abs() < 3e-13, "step {k}: {error}");
    }
}

/// The laws at small h are those of the continuum limits.
#[test]
fn the_closed_forms_have_the_right_limits() {
    let h = 1e-6;
    for (n, d) in [(1, 1), (2, 3), (10, 50)] {
        let (real_n, real_d) = (n as f64, d as f64);
        let close = |law: theory::Stationary, theta: f64, x: f64| {
            assert!(
                (law.theta / theta - 1.0).abs() < 1e-3 && (law.x / x - 1.0).abs() < 1e-4,
                "{law:?} {theta} {x}"
            );
        };
        let nd = real_n * real_d;
        close(theory::pmgd(n, h, d), 1.0 / nd, 0.5 + 0.5 / nd);
        let wide = real_n * (real_d + 2.0);
        close(theory::pgd(real_d, n, h, d), 1.0 / wide, 0.5 + 0.5 / wide);
        close(theory::pgd(1.0, n, h, d), 1.0 / (3.0 * nd), 0.5 + 1.0 / (6.0 * nd));
        // One move per chain: SOUL then differs from PGD in the order of the updates alone.
        let (soul, pgd) = (theory::soul(real_d, 1, h, d), theory::pgd(real_d, 1, h, d));
        assert!((soul.x / pgd.x - 1.0).abs() < 1e-4 && (soul.theta / pgd.theta - 1.0).abs() < 1e-3);
    }
}

/// Pooled variances after burn-in, one per seed, about the exact posterior means.
fn pooled_variances(settings: &Settings, d: usize) -> Vec<f64> {
    let y = Hierarchical::<f64>::generate(d, 10.0, 7);
    let model = Hierarchical::<f64>::new(&y);
    let one = |seed| {
        let state = common::fit(&model, &Settings { seed, ..settings.clone() }).expect("a run");
        let (means, variances) = state.averages.posterior().expect("a cloud");
        let posterior = y.iter().map(|y| 0.5 * (y + model.theta_star()));
        let about: Vec<f64> =
            means.iter().zip(&variances).zip(posterior).map(|((m, v), p)| v + (m - p).powi(2)).collect();
        average(&about)
    };
    (0..16).map(one).collect()
}

/// Bias of order h and of order 1/N: both go away if h falls and N rises, neither does if they stay.
#[test]
fn falling_steps_and_growing_clouds_drive_the_variance_to_the_posteriors() {
    let fixed = Settings {
        algorithm: &PMGD,
        particles: 2,
        steps: 3000,
        burn_in: 1500,
        step_size: 0.5,
        init_particles: InitParticles::Value(10.0),
        keep_clouds: 0,
        ..Settings::default()
    };
    let step_decay = Some(StepDecay { power: 1.0, scale: 20.0 });
    let grow: Growth = "100:20,500:200".parse().expect("a growth");
    let both = Settings { step_decay, grow: grow.clone(), ..fixed.clone() };
    let z = |settings: &Settings| z_score(&pooled_variances(settings, 1), 0.5, 0.02);
    assert!(z(&both).abs() < 4.0, "{}", z(&both));
    assert!(z(&fixed) > 6.0, "{}", z(&fixed));
    assert!(z(&Settings { grow, ..fixed }) > 6.0);
}

/// From the step named on, and equally often from each old particle.
#[test]
fn grown_particles_are_copies_of_old_ones_chosen_at_random() {
    let model = Hierarchical::<f64>::new(&[1.0, 2.0]);
    let grow = Growth(vec![(3, 4004)]);
    let settings =
        Settings { particles: 4, steps: 5, burn_in: 0, grow, keep_clouds: 0, ..Settings::default() };
    let mut observer = |info: &StepInfo<'_, f64>| {
        assert_eq!(info.cloud.n(), if info.k < 3 { 4 } else { 4004 });
        if info.k == 3 {
            let (old, new) = info.cloud.as_slice().split_at(8);
            let children = |parent: &[f64]| new.chunks_exact(2).filter(|row| *row == parent).count();
            let counts: Vec<usize> = old.chunks_exact(2).map(children).collect();
            // 4000 draws of probability 1/4: a standard deviation of 27.4 each.
            assert!(counts.iter().sum::<usize>() == 4000 && counts.iter().all(|c| c.abs_diff(1000) < 110));
        }
        Flow::Continue
    };
    let mut state = motes::start(&model, &settings).expect("a start");
    motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).expect("a run");
}

/// h_k belongs to the step from k to k + 1: the variances follow the recursion that says so, and not its neighbour.
#[test]
fn the_step_size_decays_as_documented() {
    let (n, d) = (50, 3);
    let settings = Settings {
        algorithm: &PMGD,
        particles: n,
        steps: 6,
        burn_in: 1,
        step_size: 0.4,
        step_decay: Some(StepDecay { power: 1.5, scale: 2.0 }),
        keep_clouds: 0,
        ..Settings::default()
    };
    let y = Hierarchical::<f64>::generate(d, 0.0, 7);
    let model = Hierarchical::<f64>::new(&y);
    let nd = (n * d) as f64;
    // Deviations from the noise-free path, whose start is the same for all particles.
    let expected = |first: u64| {
        let (mut nu, mut deviation, mut total) = (0.0, 0.0, 0.0);
        for k in 0..settings.steps {
            let h = 0.4 * (1.0 + (k + first) as f64 / 2.0).powf(-1.5);
            nu = (1.0f64 - h).powi(2) * nu + 2.0 * h / nd;
            deviation = (1.0f64 - 2.0 * h).powi(2) * deviation + 2.0 * h * (1.0 - 1.0 / nd);
            total += if k >= settings.burn_in { nu + deviation } else { 0.0 };
        }
        total / (settings.steps - settings.burn_in) as f64
    };
    let measured: Vec<f64> = (0..100)
        .map(|seed| {
            let settings = Settings { seed, ..settings.clone() };
            // The path that all particles would follow without noise: each coordinate's mean, and theta as its mean.
            let mut path = vec![0.0; d];
            let (mut square, mut count) = (0.0, 0.0);
            let mut observer = |info: &StepInfo<'_, f64>| {
                if info.k > 0 {
                    let theta = average(&path);
                    path.iter_mut().zip(&y).for_each(|(p, y)| *p += info.h * (y + theta - 2.0 * *p));
                }
                if info.k > settings.burn_in {
                    for row in info.cloud.as_slice().chunks_exact(d) {
                        square += row.iter().zip(&path).map(|(x, p)| (x - p).powi(2)).sum::<f64>();
                        count += d as f64;
                    }
                }
                Flow::Continue
            };
            let mut state = motes::start(&model, &settings).expect("a start");
            motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).expect("a run");
            square / count
        })
        .collect();
    assert!(z_score(&measured, expected(0), 0.0).abs() < 4.0);
    assert!(z_score(&measured, expected(1), 0.0).abs() > 6.0);
}

#[test]
fn a_warm_start_hands_over_theta_and_copies_of_its_particle() {
    let (d, n, steps, h, seed) = (5, 4, 30, 0.1, 11);
    let y = Hierarchical::<f64>::generate(d, 10.0, 7);
    let model = Hierarchical::<f64>::new(&y);
    for (own, named) in [(&PGD, None), (&SOUL, Some(&PGD)), (&PQN, Some(&PGD))] {
        let settings = Settings {
            algorithm: own,
            particles: n,
            steps: 1,
            burn_in: 0,
            step_size: h,
            seed,
            warm_start: Some(WarmStart { algorithm: named, steps }),
            ..Settings::default()
        };
        // PGD with one particle, by hand, with the noise of a warm start.
        let alone = |purpose: Purpose| {
            let (mut theta, mut x, mut w) = (0.0, vec![0.0; d], vec![0.0; d]);
            for k in 0..steps {
                Noise::new(seed, purpose).normals_f64(k, 0, &mut w);
                let gradient: f64 = x.iter().map(|x| x - theta).sum();
                for i in 0..d {
                    x[i] += h * (y[i] + theta - 2.0 * x[i]) + (2.0 * h).sqrt() * w[i];
                }
                theta += h * gradient;
            }
            (theta, x)
        };
        let (theta, x) = alone(Purpose::WarmStart);
        let mut state = motes::start(&model, &settings).expect("a start");
        let mut first = None;
        let mut observer = |info: &StepInfo<'_, f64>| {
            first.get_or_insert_with(|| (info.k, info.theta.to_vec(), info.cloud.clone()));
            Flow::Continue
        };
        let begun = state.clone();
        motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).expect("a run");
        let (k, seen_theta, seen_cloud) = first.expect("a row for k = 0");
        assert_eq!((k, &seen_theta, &seen_cloud), (0, &begun.theta, &begun.cloud));
        assert!((seen_theta[0] - theta).abs() < 1e-12, "{own}: {seen_theta:?} {theta}");
        assert_eq!(seen_cloud.n(), n);
        for row in seen_cloud.as_slice().chunks_exact(d) {
            assert!(row.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-12), "{own}");
        }
        assert_eq!(begun.averages.steps, 0);
        // The run's own noise would have led elsewhere.
        assert!((alone(Purpose::Particles).0 - theta).abs() > 1e-3);
        if own == &PGD {
            // ... and moves the particles apart in the first step: it is drawn from step 0 on.
            let mut w = vec![0.0; n * d];
            Noise::new(seed, Purpose::Particles).normals_f64(0, 0, &mut w);
            for (i, v) in state.cloud.as_slice().iter().enumerate() {
                let from = x[i % d];
                let to = from + h * (y[i % d] + theta - 2.0 * from) + (2.0 * h).sqrt() * w[i];
                assert!((v - to).abs() < 1e-12);
            }
        }
    }
}
