//! Multinomial regression against its definition, finite differences, logistic regression and quadrature.

use motes::noise::{Noise, Purpose};
use motes::{At, Model, Pool, Settings, Want};
use motes_models::data::Classification;
use motes_models::logistic::{Learn, Options};
use motes_models::{Logistic, Multinomial};

fn normals(len: usize, seed: u64) -> Vec<f64> {
    let mut out = vec![0.0; len];
    Noise::new(seed, Purpose::Data).normals_f64(0, 0, &mut out);
    out
}

/// Rows whose class leans on the features.
fn rows(count: usize, d: usize, classes: usize, seed: u64) -> Classification {
    let features = normals(count * d, seed);
    let noise = normals(count, seed + 1);
    let label = |(f, e): (&[f64], &f64)| {
        let place = 0.5 * classes as f64 * (1.0 + (f[0] + 0.7 * e).tanh());
        (place as usize).min(classes - 1) as u8
    };
    Classification {
        labels: features.chunks(d).zip(&noise).map(label).collect(),
        features,
        feature_names: (0..d).map(|i| format!("f{i}")).collect(),
        target: "y".into(),
        classes: (0..classes).map(|k| format!("c{k}")).collect(),
        weights: None,
        rows_dropped: 0,
    }
}

fn density(model: &dyn Model<f64>, theta: f64, x: &[f64], terms: Option<&[u32]>) -> (f64, Vec<f64>) {
    let mut scratch = vec![7.0; model.scratch_len(1)];
    let (mut log, mut grad) = ([0.0], vec![0.0; x.len()]);
    let theta = [theta];
    let at = At { terms, ..At::new(&theta, x) };
    let want = Want { grad_x: Some(&mut grad), log_density: Some(&mut log), ..Want::nothing(&mut scratch) };
    model.evaluate(at, want).unwrap();
    // A question less changes no bits.
    let mut alone = [0.0];
    let want = Want { log_density: Some(&mut alone), ..Want::nothing(&mut scratch) };
    model.evaluate(at, want).unwrap();
    assert_eq!(alone[0].to_bits(), log[0].to_bits());
    (log[0], grad)
}

/// Weights of each class from contrasts of the classes, each against the mean of those before it.
fn weights(u: &[f64], columns: usize, classes: usize) -> Vec<Vec<f64>> {
    let mut w = vec![vec![0.0; columns]; classes];
    for j in 1..classes {
        let scale = 1.0 / ((j * (j + 1)) as f64).sqrt();
        for c in 0..columns {
            let value = u[(j - 1) * columns + c];
            (0..j).for_each(|k| w[k][c] += scale * value);
            w[j][c] -= j as f64 * scale * value;
        }
    }
    w
}

/// l(theta, x) as it is defined, for some rows that stand for all.
fn direct(data: &Classification, intercept: bool, theta: f64, u: &[f64], rows: &[usize]) -> f64 {
    let d = data.feature_names.len();
    let columns = d + usize::from(intercept);
    let w = weights(u, columns, data.classes.len());
    let row = |i: &usize| {
        let f = &data.features[i * d..(i + 1) * d];
        let logits: Vec<f64> = w
            .iter()
            .map(|w| f.iter().zip(w).map(|(f, w)| f * w).sum::<f64>() + if intercept { w[d] } else { 0.0 })
            .collect();
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logits[usize::from(data.labels[*i])]
            - most
            - logits.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
    };
    let scale = data.rows() as f64 / rows.len() as f64;
    let prior = |(i, u): (usize, &f64)| match i % columns < d {
        true => -0.5 * u * u / theta.exp() - 0.5 * theta,
        false => -0.5 * u * u / 100.0,
    };
    scale * rows.iter().map(row).sum::<f64>() + u.iter().enumerate().map(prior).sum::<f64>()
}

#[test]
fn densities_and_gradients() {
    for (count, d, classes, intercept) in
        [(1, 1, 2, false), (16, 2, 3, true), (37, 5, 4, true), (200, 1, 7, false), (5, 20, 3, true)]
    {
        let data = rows(count, d, classes, 3);
        let model = Multinomial::new(&data, None, intercept).unwrap();
        let width = (classes - 1) * (d + usize::from(intercept));
        assert_eq!(Model::<f64>::d_x(&model), width);
        let u = normals(width, 8);
        let all: Vec<usize> = (0..count).collect();
        let some: Vec<u32> = (0..count as u32).filter(|i| i % 3 != 1).collect();
        let chosen: Vec<usize> = some.iter().map(|i| *i as usize).collect();
        for (terms, rows) in [(None, &all), (Some(&some[..]), &chosen)] {
            let (log, grad) = density(&model, 0.3, &u, terms);
            let wanted = direct(&data, intercept, 0.3, &u, rows);
            assert!((log - wanted).abs() < 1e-11 * (1.0 + wanted.abs()), "{count} x {d}: {log} {wanted}");
            for i in 0..width {
                let mut moved = u.clone();
                moved[i] += 1e-5;
                let up = direct(&data, intercept, 0.3, &moved, rows);
                moved[i] -= 2e-5;
                let slope = (up - direct(&data, intercept, 0.3, &moved, rows)) / 2e-5;
                assert!((slope - grad[i]).abs() < 1e-6 * (1.0 + slope.abs()), "{i}: {} {slope}", grad[i]);
            }
        }
        for check in motes::check_model(&model, 1).unwrap() {
            assert!(check.passed(), "{check:?}");
        }
    }
}

/// A row of weight 2 is the row twice.
#[test]
fn weights_count_rows() {
    let plain = rows(30, 2, 3, 4);
    let counts: Vec<f64> = (0..30).map(|i| [1.0, 2.0, 0.0, 3.0][i % 4]).collect();
    let again: Vec<usize> = (0..30).flat_map(|i| std::iter::repeat_n(i, counts[i] as usize)).collect();
    let repeated = plain.select(&again);
    let weighted = Classification { weights: Some(counts), ..plain };
    let u = normals(6, 8);
    let [a, b] = [&weighted, &repeated]
        .map(|data| density(&Multinomial::new(data, None, true).unwrap(), 0.3, &u, None));
    assert!((a.0 - b.0).abs() < 1e-11 * b.0.abs(), "{a:?} {b:?}");
    assert!(a.1.iter().zip(&b.1).all(|(a, b)| (a - b).abs() < 1e-11), "{a:?} {b:?}");
}

/// Huge weights: logarithms stay exact where probabilities have no digits left.
#[test]
fn far_tails_are_finite() {
    let data = rows(40, 2, 3, 5);
    let model = Multinomial::new(&data, Some(&data), true).unwrap();
    let u = vec![500.0; 6];
    let (log, grad) = density(&model, 0.0, &u, None);
    let wanted = direct(&data, true, 0.0, &u, &(0..40).collect::<Vec<_>>());
    assert!(
        (log - wanted).abs() < 1e-9 * wanted.abs() && grad.iter().all(|g| g.is_finite()),
        "{log} {wanted}"
    );
    let predictive = Model::<f64>::predictive(&model).unwrap();
    let mut state = vec![0.0; predictive.state_len()];
    predictive.accumulate(&u, &mut state);
    let mut out = [0.0; 2];
    predictive.metrics(&state, &mut out);
    assert!(out[1].is_finite() && out[1] < -100.0, "{out:?}");
}

/// Of two classes the contrast is -1/sqrt 2 times logistic regression's weight, whose variance is twice that of the contrast.
#[test]
fn two_classes_are_logistic_regression() {
    let data = rows(150, 3, 2, 9);
    let many = Multinomial::new(&data, None, false).unwrap();
    let options = Options { learn: Learn::Variance, ..Options::default() };
    let two = Logistic::<f64>::new(&data, None, options).unwrap();
    let (theta, u) = (-0.4, normals(3, 2));
    let w: Vec<f64> = u.iter().map(|u| -u * 2f64.sqrt()).collect();
    let twice = theta + 2f64.ln();
    let (a, b) = (density(&many, theta, &u, None).0, density(&two, twice, &w, None).0);
    assert!((a - b - 1.5 * 2f64.ln()).abs() < 1e-10, "{a} {b}");
    // And so are their fits: the same likelihood, and estimates that are log 2 apart.
    let (a, b) = (fitted(&many), fitted(&two));
    assert!((a.0 + 2f64.ln() - b.0).abs() < 4.0 * a.1.hypot(b.1), "{a:?} {b:?}");
    assert!((a.2 - b.2).abs() < 0.05, "{a:?} {b:?}");
}

/// The estimate with its Monte Carlo error, and the log-likelihood.
fn fitted(model: &dyn Model<f64>) -> (f64, f64, f64) {
    let settings = Settings::auto(true, 1);
    let pool = Pool::new(Some(2)).unwrap();
    pool.install(|| {
        let mut state = motes::start(model, &settings).unwrap();
        motes::run(model, &settings, &mut state, None, &mut []).unwrap();
        let found = state.auto.as_ref().unwrap().found();
        let (estimate, error) = (found.estimate[0], found.mc_error[0]);
        let likelihood = motes::auto::log_likelihood(model, &state, 1).unwrap();
        (estimate, error, likelihood.value)
    })
}

/// One feature and three classes: two latent variables, which can be integrated out on a grid.
#[test]
fn the_maximum_is_that_of_quadrature() {
    let data = rows(60, 1, 3, 4);
    let model = Multinomial::new(&data, None, false).unwrap();
    let all: Vec<usize> = (0..60).collect();
    // log p(y) at theta, by the trapezium rule on a fine grid.
    let grid: Vec<f64> = (-200..=200).map(|i| f64::from(i) * 0.05).collect();
    let values: Vec<(f64, f64)> = grid
        .iter()
        .flat_map(|a| grid.iter().map(move |b| (*a, *b)))
        .map(|(a, b)| {
            // Without the prior: at theta = 0 it is known.
            (direct(&data, false, 0.0, &[a, b], &all) + 0.5 * (a * a + b * b), a * a + b * b)
        })
        .collect();
    let most = values.iter().map(|v| v.0).fold(f64::NEG_INFINITY, f64::max);
    let likelihood = |theta: f64| {
        let v = theta.exp();
        let sum: f64 = values.iter().map(|(log, square)| (log - most - 0.5 * square / v).exp()).sum();
        most + (sum * 0.0025 / (std::f64::consts::TAU * v)).ln()
    };
    let (mut low, mut high) = (-6.0, 6.0);
    while high - low > 1e-6 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if likelihood(a) < likelihood(b) { low = a } else { high = b }
    }
    let (estimate, error, value) = fitted(&model);
    assert!((estimate - low).abs() < 4.0 * error, "{estimate} ({error}) for {low}");
    assert!((value - likelihood(low)).abs() < 0.05, "{value} for {}", likelihood(low));
}
