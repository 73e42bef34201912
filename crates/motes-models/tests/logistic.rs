//! The logistic model against finite differences, direct sums, dense algebra and its own bits.

use motes::algorithms::{Algorithm, PGD, PMGD};
use motes::noise::{Noise, Purpose};
use motes::summary::{Metrics, posterior_moments};
use motes::{At, Model, Pool, Real, Settings, Want};
use motes_models::Logistic;
use motes_models::data::{
    Classification, DataError, Moments, classification, read_table, train_test_split, wisconsin,
};
use motes_models::logistic::{Learn, Options, predict};

fn normals(len: usize, seed: u64) -> Vec<f64> {
    let mut out = vec![0.0; len];
    Noise::new(seed, Purpose::Data).normals_f64(0, 0, &mut out);
    out
}

fn data(features: Vec<f64>, labels: Vec<u8>) -> Classification {
    let d = features.len() / labels.len();
    Classification {
        features,
        feature_names: (0..d).map(|i| format!("f{i}")).collect(),
        labels,
        target: "y".into(),
        classes: vec!["no".into(), "yes".into()],
        weights: None,
        rows_dropped: 0,
    }
}

/// Normal features; every third row is a copy of the one before, so that some are merged.
fn generated(rows: usize, d: usize, seed: u64) -> Classification {
    let mut features = normals(rows * d, seed);
    for i in (2..rows).step_by(3) {
        features.copy_within((i - 1) * d..i * d, i * d);
    }
    let labels = features.chunks(d).map(|f| u8::from(f[0] + 0.5 * f[d - 1] > 0.2)).collect();
    data(features, labels)
}

fn options(intercept: bool) -> Options {
    Options { prior_variance: 3.0, intercept, intercept_variance: 3.0, learn: Learn::Mean }
}

fn model<F: Real>(data: &Classification, intercept: bool) -> Logistic<F> {
    Logistic::new(data, None, options(intercept)).unwrap()
}

/// l(theta, x), written down from its definition.
fn direct(data: &Classification, theta: f64, x: &[f64], intercept: bool, rows: &[u32]) -> f64 {
    let d = data.feature_names.len();
    let term = |&i: &u32| {
        let f = &data.features[i as usize * d..][..d];
        let u = f.iter().zip(x).map(|(f, x)| f * x).sum::<f64>() + if intercept { x[d] } else { 0.0 };
        let softplus = if u > 0.0 { u + (-u).exp().ln_1p() } else { u.exp().ln_1p() };
        f64::from(data.labels[i as usize]) * u - softplus
    };
    let scale = data.rows() as f64 / rows.len() as f64;
    let prior = |(i, x): (usize, &f64)| (x - if i < d { theta } else { 0.0 }).powi(2);
    scale * rows.iter().map(term).sum::<f64>() - x.iter().enumerate().map(prior).sum::<f64>() / 6.0
}

struct Evaluated {
    grad_theta: f64,
    grad_x: Vec<f64>,
    density: Vec<f64>,
}

fn evaluate<F: Real>(
    model: &Logistic<F>,
    theta: f64,
    x: &[f64],
    batch: Option<&[u32]>,
    parallel: bool,
) -> Evaluated {
    let x: Vec<F> = x.iter().map(|x| F::of(*x)).collect();
    let n = x.len() / model.d_x();
    let mut scratch = vec![F::of(7.0); model.scratch_len(n)];
    let (mut grad_theta, mut grad_x, mut density) = ([0.0], vec![F::of(0.0); x.len()], vec![0.0; n]);
    let theta = [theta];
    let at = At { terms: batch, parallel, ..At::new(&theta, &x) };
    let want = Want {
        log_density: Some(&mut density),
        ..Want::gradients(&mut grad_theta, &mut grad_x, &mut scratch)
    };
    model.evaluate(at, want).unwrap();
    let (mut grad_alone, mut density_alone) = (grad_x.clone(), density.clone());
    let want = Want { grad_x: Some(&mut grad_alone), ..Want::nothing(&mut scratch) };
    model.evaluate(at, want).unwrap();
    let want = Want { log_density: Some(&mut density_alone), ..Want::nothing(&mut scratch) };
    model.evaluate(at, want).unwrap();
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let wide = |values: &[F]| bits(&values.iter().map(|v| v.f64()).collect::<Vec<_>>());
    assert_eq!(
        (wide(&grad_alone), bits(&density_alone)),
        (wide(&grad_x), bits(&density)),
        "a question changes bits"
    );
    Evaluated { grad_theta: grad_theta[0], grad_x: grad_x.iter().map(|g| g.f64()).collect(), density }
}

#[track_caller]
fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{a} is not {b}");
}

/// (rows, features): both kernels, every kind of remainder.
const SHAPES: [(usize, usize); 9] =
    [(1, 1), (3, 2), (40, 3), (61, 9), (700, 12), (50, 13), (33, 20), (21, 37), (9, 120)];

#[test]
fn derivatives_are_those_of_the_density() {
    for (rows, d) in SHAPES {
        for intercept in [false, true] {
            let data = generated(rows, d, 1);
            let model = model::<f64>(&data, intercept);
            let dx = model.d_x();
            let (n, theta, h) = (6, 0.4, 1e-5);
            let x = normals(n * dx, 2);
            let batch: Vec<u32> = (0..rows as u32).filter(|i| i % 4 != 1).chain([0, 0]).collect();
            let all: Vec<u32> = (0..rows as u32).collect();
            for (used, batch) in [(&all, None), (&batch, Some(&batch[..]))] {
                let here = evaluate(&model, theta, &x, batch, false);
                let l = |theta: f64, x: &[f64]| direct(&data, theta, x, intercept, used);
                let mut slope = 0.0;
                for (p, x) in x.chunks(dx).enumerate() {
                    close(here.density[p], l(theta, x), 1e-12);
                    slope += (l(theta + h, x) - l(theta - h, x)) / (2.0 * h);
                    for i in 0..dx {
                        let mut moved = [x.to_vec(), x.to_vec()];
                        moved[0][i] += h;
                        moved[1][i] -= h;
                        let slope = (l(theta, &moved[0]) - l(theta, &moved[1])) / (2.0 * h);
                        close(here.grad_x[p * dx + i], slope, 1e-6);
                    }
                }
                close(here.grad_theta, slope, 1e-7);
            }
            let at = |theta| At::new(theta, &x[..]);
            let mut hessian = [0.0];
            let want = Want { hessian: Some(&mut hessian), ..Want::nothing(&mut []) };
            model.evaluate(at(&[theta]), want).unwrap();
            let slope = |theta| evaluate(&model, theta, &x, None, false).grad_theta;
            close(hessian[0], slope(theta + 0.5) - slope(theta - 0.5), 1e-10);
        }
    }
}

#[test]
fn single_precision_agrees_with_double() {
    for (rows, d) in SHAPES {
        let data = generated(rows, d, 3);
        let x = normals(5 * (d + 1), 4);
        let double = evaluate(&model::<f64>(&data, true), -0.3, &x, None, false);
        let single = evaluate(&model::<f32>(&data, true), -0.3, &x, None, false);
        let scale = (rows as f64).sqrt();
        for (a, b) in single.grad_x.iter().zip(&double.grad_x) {
            assert!((a - b).abs() < 4e-6 * scale, "{a} {b}");
        }
        for (a, b) in single.density.iter().zip(&double.density) {
            close(*a, *b, 2e-6);
        }
        close(single.grad_theta, double.grad_theta, 1e-6);
    }
}

#[test]
fn a_batch_of_all_rows_is_no_batch() {
    let data = generated(500, 9, 5);
    let model = model::<f64>(&data, false);
    let x = normals(4 * 9, 6);
    let all: Vec<u32> = (0..500).rev().collect();
    let (full, batch) =
        (evaluate(&model, 0.1, &x, None, false), evaluate(&model, 0.1, &x, Some(&all), false));
    for (a, b) in batch.grad_x.iter().zip(&full.grad_x).chain(batch.density.iter().zip(&full.density)) {
        close(*a, *b, 1e-12);
    }
    assert_eq!(model.data_terms(), Some(500));
}

/// Enough rows for several blocks; the sums are checked against one in `f64` too.
#[test]
fn bits_do_not_depend_on_threads() {
    fn check<F: Real>(data: &Classification) {
        let model = model::<F>(data, true);
        let x = normals(7 * model.d_x(), 8);
        let bits = |e: Evaluated| -> Vec<u64> {
            [e.grad_theta].iter().chain(&e.grad_x).chain(&e.density).map(|v| v.to_bits()).collect()
        };
        let inline = bits(evaluate(&model, 0.2, &x, None, false));
        for threads in [1, 2, 3, 5, 8] {
            let pool = Pool::new(Some(threads)).unwrap();
            assert_eq!(
                bits(pool.install(|| evaluate(&model, 0.2, &x, None, true))),
                inline,
                "{threads} threads"
            );
        }
        let particle =
            |n: usize| evaluate(&model, 0.2, &x[n * model.d_x()..][..model.d_x()], None, true).grad_x;
        let together = evaluate(&model, 0.2, &x, None, true).grad_x;
        assert_eq!(
            (0..7).flat_map(particle).collect::<Vec<_>>(),
            together,
            "particles do not see each other"
        );
    }
    for (rows, d) in [(61, 9), (30_011, 20)] {
        let data = generated(rows, d, 7);
        check::<f32>(&data);
        check::<f64>(&data);
    }
}

#[test]
fn many_rows_lose_no_digits() {
    let (rows, d) = (1_000_000, 2);
    let data = data(normals(rows * d, 9), (0..rows).map(|i| u8::from(i % 2 == 0)).collect());
    let x = [0.3, -0.2];
    let double = evaluate(&model::<f64>(&data, false), 0.0, &x, None, true);
    let single = evaluate(&model::<f32>(&data, false), 0.0, &x, None, true);
    // Single rows are off by 1e-7 or so, at random.
    for (a, b) in single.grad_x.iter().zip(&double.grad_x) {
        assert!((a - b).abs() < 0.05 + 1e-6 * b.abs(), "{a} {b}");
    }
    close(single.density[0], double.density[0], 1e-8);
    let rows: Vec<u32> = (0..rows as u32).collect();
    close(double.density[0], direct(&data, 0.0, &x, false, &rows), 1e-13);
}

#[test]
fn far_out_nothing_overflows() {
    let data = generated(40, 3, 11);
    for scale in [30.0, 1e3, 1e7] {
        let x: Vec<f64> = normals(3, 12).iter().map(|x| scale * x).collect();
        let rows: Vec<u32> = (0..40).collect();
        let expected = direct(&data, 0.0, &x, false, &rows);
        for (density, grad, tolerance) in [
            {
                let e = evaluate(&model::<f64>(&data, false), 0.0, &x, None, false);
                (e.density[0], e.grad_x, 1e-12)
            },
            {
                let e = evaluate(&model::<f32>(&data, false), 0.0, &x, None, false);
                (e.density[0], e.grad_x, 1e-5)
            },
        ] {
            close(density, expected, tolerance);
            assert!(grad.iter().all(|g| g.is_finite()));
        }
    }
    let model = model::<f64>(&data, false);
    assert!(evaluate(&model, 0.0, &[f64::NAN; 3], None, false).grad_x.iter().all(|g| g.is_nan()));
}

#[test]
fn prior_and_m_step() {
    let model = model::<f64>(&generated(10, 2, 13), true);
    let mut x = vec![1.0, -1.0, 1.0];
    model.prior().unwrap().map_normals(&[2.0], &[0], &mut x);
    let s = 3f64.sqrt();
    assert_eq!(x, [2.0 + s, 2.0 - s, s]);
    let m = model.m_step().unwrap();
    let (mut sum, mut theta) = ([0.0], [0.0]);
    m.statistics(At::new(&[0.0], &[1.0, 2.0, 50.0, 3.0, 6.0, 70.0]), &mut sum).unwrap();
    m.m_step(&[sum[0] / 2.0], &mut theta).unwrap();
    assert_eq!(theta, [3.0]);
    assert_eq!(model.theta_terms(), Some(&[2.0][..]));
    assert_eq!(model.x_names(), ["f0", "f1", "intercept"]);
}

#[test]
fn streamed_metrics_are_the_direct_ones() {
    fn check<F: Real>(spread: f64, tolerance: f64) {
        let train = generated(20, 3, 14);
        let test = generated(83, 3, 15);
        let model = Logistic::<F>::new(&train, Some(&test), options(true)).unwrap();
        let predictive = model.predictive().unwrap();
        let x: Vec<F> = normals(4 * 50, 16).iter().map(|x| F::of(spread * x)).collect();
        let mut state = vec![0.0; predictive.state_len()];
        for cloud in x.chunks(4 * 10) {
            predictive.accumulate(cloud, &mut state);
        }
        let metrics = Metrics::of(predictive, &state);
        let (mut wrong, mut lppd) = (0.0, 0.0);
        for (f, l) in test.features.chunks(3).zip(&test.labels) {
            let log_p: Vec<f64> = x
                .chunks(4)
                .map(|x| {
                    let u = f.iter().zip(x).map(|(f, x)| f * x.f64()).sum::<f64>() + x[3].f64();
                    let u = if *l == 1 { u } else { -u };
                    if u > 0.0 { -(-u).exp().ln_1p() } else { u - u.exp().ln_1p() }
                })
                .collect();
            let top = log_p.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_mean = top + (log_p.iter().map(|l| (l - top).exp()).sum::<f64>() / 50.0).ln();
            lppd += log_mean / 83.0;
            wrong += if log_mean < 0.5f64.ln() { 1.0 / 83.0 } else { 0.0 };
        }
        close(metrics.get("test_error").unwrap(), wrong, 1e-12);
        close(metrics.get("lppd").unwrap(), lppd, tolerance);
        let all = predictive.predictions(&state).unwrap();
        assert_eq!(all.labels, test.labels);
        for ((f, p), l) in test.features.chunks(3).zip(all.probabilities.chunks(2)).zip(&test.labels) {
            let of = |x: &[F]| {
                let u = f.iter().zip(x).map(|(f, x)| f * x.f64()).sum::<f64>() + x[3].f64();
                1.0 / (1.0 + if *l == 1 { (-u).exp() } else { u.exp() })
            };
            close(p[usize::from(*l)], x.chunks(4).map(of).sum::<f64>() / 50.0, 1e-12);
            close(p[0] + p[1], 1.0, 1e-15);
        }
        let pool = Pool::new(Some(3)).unwrap();
        let mut again = vec![0.0; state.len()];
        pool.install(|| x.chunks(4 * 10).for_each(|cloud| predictive.accumulate(cloud, &mut again)));
        assert_eq!(state, again);
    }
    for spread in [0.5, 100.0, 1e4] {
        check::<f64>(spread, 1e-12);
        check::<f32>(spread, 1e-12);
    }
    assert!(model::<f64>(&generated(9, 2, 1), false).predictive().is_none());
}

/// A row of weight 2 is the row twice, in sums over all rows and over batches.
#[test]
fn weights_count_rows() {
    let plain = generated(30, 3, 4);
    let counts: Vec<f64> = (0..30).map(|i| [1.0, 2.0, 0.0, 3.0][i % 4]).collect();
    let weighted = Classification { weights: Some(counts.clone()), ..plain.clone() };
    let again: Vec<usize> = (0..30).flat_map(|i| std::iter::repeat_n(i, counts[i] as usize)).collect();
    let x = normals(8, 3);
    let [a, b] = [weighted.clone(), plain.select(&again)]
        .map(|data| evaluate(&model::<f64>(&data, true), 0.3, &x, None, false));
    close(a.density[0], b.density[0], 1e-12);
    a.grad_x.iter().zip(&b.grad_x).for_each(|(a, b)| close(*a, *b, 1e-12));
    // The rows 1, 5 and 8 of 30, the first two of which count twice.
    let batch = evaluate(&model::<f64>(&weighted, true), 0.3, &x, Some(&[1, 5, 8]), false);
    let direct: f64 = direct(&plain, 0.3, &x[..4], true, &[1, 5, 8, 1, 5]);
    let prior = -x[..4].iter().zip([0.3, 0.3, 0.3, 0.0]).map(|(x, m)| (x - m).powi(2)).sum::<f64>() / 6.0;
    // Thirty rows stand for three here and for five there.
    close(batch.density[0], (direct - prior) / 6.0 * 10.0 + prior, 1e-12);
}

#[test]
fn predictions() {
    let particles: Vec<f64> = (0..=100).flat_map(|i| [f64::from(i) / 50.0 - 1.0, 0.5]).collect();
    let out = predict(&particles, &[2.0, 0.0, -2.0], 1, true, 0.9);
    let sigmoid = |u: f64| 1.0 / (1.0 + (-u).exp());
    let mean = |f: f64| particles.chunks(2).map(|x| sigmoid(f * x[0] + x[1])).sum::<f64>() / 101.0;
    for (row, f) in [2.0, 0.0, -2.0].into_iter().enumerate() {
        close(out.probabilities[2 * row + 1], mean(f), 1e-12);
        close(out.probabilities[2 * row], 1.0 - mean(f), 1e-12);
        close(out.intervals[row][0], sigmoid(-f.abs() * 0.9 + 0.5), 1e-12);
        close(out.intervals[row][1], sigmoid(f.abs() * 0.9 + 0.5), 1e-12);
    }
    // Where the first class is likelier, the interval is that of its probability.
    let low = predict(&particles.iter().map(|x| -x).collect::<Vec<_>>(), &[2.0], 1, true, 0.9);
    close(low.intervals[0][0], out.intervals[0][0], 1e-12);
    close(low.intervals[0][1], out.intervals[0][1], 1e-12);
    assert_eq!(predict(&[1.0], &[0.0], 1, false, 0.95).intervals, [[0.5, 0.5]]);
}

/// The eigenvalues of a symmetric matrix, by Jacobi's rotations.
fn eigenvalues(mut a: Vec<Vec<f64>>) -> Vec<f64> {
    let d = a.len();
    for _ in 0..60 {
        for p in 0..d {
            for q in p + 1..d {
                if a[p][q] == 0.0 {
                    continue;
                }
                let tau = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let s = t * c;
                for row in &mut a {
                    let (x, y) = (row[p], row[q]);
                    (row[p], row[q]) = (c * x - s * y, s * x + c * y);
                }
                let (above, below) = a.split_at_mut(q);
                for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                    (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                }
            }
        }
    }
    (0..d).map(|i| a[i][i]).collect()
}

/// The largest curvature at the mode by gradient ascent, the dense Hessian and Jacobi.
fn dense_curvature(data: &Classification) -> f64 {
    let d = data.feature_names.len();
    let model = model::<f64>(data, false);
    let mut x = vec![0.0; d];
    for _ in 0..20_000 {
        let gradient = evaluate(&model, 0.0, &x, None, false).grad_x;
        x.iter_mut().zip(gradient).for_each(|(x, g)| *x += 0.02 * g);
    }
    let mut hessian = vec![vec![0.0; d]; d];
    for f in data.features.chunks(d) {
        let p = 1.0 / (1.0 + (-f.iter().zip(&x).map(|(f, x)| f * x).sum::<f64>()).exp());
        for i in 0..d {
            for j in 0..d {
                hessian[i][j] += p * (1.0 - p) * f[i] * f[j];
            }
        }
    }
    (0..d).for_each(|i| hessian[i][i] += 1.0 / 3.0);
    eigenvalues(hessian).into_iter().fold(0.0, f64::max)
}

#[test]
fn curvature_is_that_of_dense_algebra() {
    for (rows, d) in [(60, 1), (80, 4), (100, 9), (20, 30)] {
        let mut data = generated(rows, d, 17);
        for (i, label) in data.labels.iter_mut().enumerate() {
            *label ^= u8::from(i % 5 == 0); // not separable
        }
        let expected = dense_curvature(&data);
        close(model::<f64>(&data, false).curvature().unwrap(), expected, 1e-5);
        close(model::<f32>(&data, false).curvature().unwrap(), expected, 1e-3);
    }
}

#[test]
fn curvature_of_hard_data() {
    let separable = data(vec![-3.0, -2.0, 1.0, 4.0], vec![0, 0, 1, 1]);
    let expected = dense_curvature(&separable);
    close(model::<f64>(&separable, false).curvature().unwrap(), expected, 1e-5);
    let mut cases = vec![];
    // Two equal columns, and one of zeros.
    cases.push(data(
        normals(30, 18).iter().flat_map(|f| [*f, *f, 0.0]).collect(),
        (0..30).map(|i| i % 2).collect(),
    ));
    // Many more columns than rows.
    cases.push(generated(5, 3000, 19));
    // Features of very different, very large and very small size.
    let scales = [1e-8, 1.0, 1e6];
    cases.push(data(
        normals(300, 20)
            .iter()
            .enumerate()
            .map(|(i, f)| f * scales[i % 3] + if i % 3 == 2 { 1e9 } else { 0.0 })
            .collect(),
        (0..100).map(|i| i % 2).collect(),
    ));
    cases.push(data(vec![1e18, -1e18, 3e17], vec![1, 0, 0]));
    for case in cases {
        for curvature in [model::<f64>(&case, false).curvature(), model::<f32>(&case, true).curvature()] {
            let curvature = curvature.unwrap();
            assert!(curvature.is_finite() && curvature >= 1.0 / 3.0 - 1e-6, "{curvature}");
        }
    }
    let model = model::<f64>(&generated(40, 6, 21), false);
    let of = |threads| Pool::new(Some(threads)).unwrap().install(|| model.curvature());
    assert_eq!(of(1), of(3));
}

#[test]
fn refusals_end_with_a_remedy() {
    let refused = |result: Result<Logistic<f32>, DataError>| result.expect_err("must be refused").to_string();
    let small = generated(9, 2, 1);
    let bad = Options { prior_variance: -1.0, ..Options::default() };
    assert_eq!(
        refused(Logistic::new(&small, None, bad)),
        "`prior-variance=-1` is not a positive number; use for example 5"
    );
    let large = data(vec![1.0, 1e300], vec![0, 1]);
    assert_eq!(
        refused(Logistic::new(&large, None, Options::default())),
        "column 'f0' holds numbers too large for f32; rescale it or use `precision=f64`"
    );
    assert!(
        refused(Logistic::new(&small, Some(&generated(9, 3, 1)), Options::default()))
            .contains("the same columns")
    );
}

/// The paper's setting: N = 100, K = 400, h = 0.01 on the embedded data, split as scikit-learn does with seed 0.
#[test]
fn embedded_data_give_the_known_answers() {
    fn fit<F: Real>(algorithm: &'static Algorithm) -> (f64, Vec<f64>, Metrics) {
        let table = read_table(wisconsin::BYTES, wisconsin::NAME).unwrap();
        let mut data = classification(&table, None, &["id".into()]).unwrap();
        Moments::of(&data.features, &data.feature_names).unwrap().apply(&mut data.features);
        let split = train_test_split(data.rows(), 0.2, 0).unwrap();
        let test = data.select(&split.test);
        let model = Logistic::<F>::new(&data.select(&split.train), Some(&test), Options::default()).unwrap();
        let settings = Settings {
            algorithm,
            particles: 100,
            steps: 400,
            burn_in: 200,
            step_size: 0.01,
            ..Settings::default()
        };
        let mut state = motes::start(&model, &settings).unwrap();
        motes::run(&model, &settings, &mut state, None, &mut []).unwrap();
        let (mean, _) = posterior_moments(&model, &state).unwrap();
        let predictive = model.predictive().unwrap();
        let mut sums = vec![0.0; predictive.state_len()];
        predictive.accumulate(state.cloud.as_slice(), &mut sums);
        (state.averages.theta_mean().unwrap()[0], mean, Metrics::of(predictive, &sums))
    }
    // From a long run of the definition in NumPy, h = 0.002.
    let known = [1.177, 0.151, 0.717, 0.932, 0.591, 1.640, 1.252, 1.057, 1.201];
    for (theta, mean, metrics) in [fit::<f64>(&PGD), fit::<f32>(&PGD), fit::<f64>(&PMGD)] {
        assert!((theta - 0.969).abs() < 0.02, "{theta}");
        for (mean, known) in mean.iter().zip(known) {
            assert!((mean - known).abs() < 0.25, "{mean} {known}");
        }
        assert_eq!(metrics.get("test_error").unwrap(), 4.0 / 137.0);
        assert!((metrics.get("lppd").unwrap() + 0.094).abs() < 0.01, "{}", metrics.get("lppd").unwrap());
    }
}

/// log p_theta(x, y) to the last constant, written down from its definition.
fn joint(data: &Classification, options: Options, theta: &[f64], x: &[f64]) -> f64 {
    let d = data.feature_names.len();
    let (mean, variance) = match options.learn {
        Learn::Mean => (theta[0], options.prior_variance),
        Learn::Variance => (0.0, theta[0].exp()),
        Learn::Both => (theta[0], theta[1].exp()),
    };
    let normal = |x: f64, mean: f64, variance: f64| {
        -0.5 * (std::f64::consts::TAU * variance).ln() - (x - mean).powi(2) / (2.0 * variance)
    };
    let prior: f64 = x[..d].iter().map(|x| normal(*x, mean, variance)).sum();
    let own: f64 = x[d..].iter().map(|b| normal(*b, 0.0, options.intercept_variance)).sum();
    let term = |(f, label): (&[f64], &u8)| {
        let u = f.iter().zip(x).map(|(f, x)| f * x).sum::<f64>() + x.get(d).unwrap_or(&0.0);
        let u = if *label == 1 { u } else { -u };
        -(-u).exp().ln_1p()
    };
    data.features.chunks(d).zip(&data.labels).map(term).sum::<f64>() + prior + own
}

#[test]
fn learnt_priors_have_the_right_derivatives_constants_and_m_step() {
    let data = generated(40, 3, 5);
    for (learn, theta) in
        [(Learn::Mean, vec![0.3]), (Learn::Variance, vec![-0.7]), (Learn::Both, vec![0.3, -0.7])]
    {
        for intercept in [false, true] {
            let options = Options { prior_variance: 2.0, intercept, intercept_variance: 100.0, learn };
            let model: Logistic<f64> = Logistic::new(&data, None, options).unwrap();
            let (d, k, n) = (model.d_x(), theta.len(), 5);
            assert_eq!((model.d_theta(), model.theta_names().len()), (k, k));
            let x: Vec<f64> = (0..n * d).map(|i| ((i * 37 % 23) as f64 - 11.0) / 9.0).collect();
            let mut scratch = vec![0.0; model.scratch_len(n)];
            let mut all = |theta: &[f64]| {
                let (mut grad, mut grad_x) = (vec![0.0; k], vec![0.0; x.len()]);
                let (mut scores, mut hessian) = (vec![0.0; n * k], vec![0.0; k * k]);
                let mut density = vec![0.0; n];
                let want = Want {
                    log_density: Some(&mut density),
                    scores: Some(&mut scores),
                    hessian: Some(&mut hessian),
                    ..Want::gradients(&mut grad, &mut grad_x, &mut scratch)
                };
                model.evaluate(At::new(theta, &x), want).unwrap();
                (density, grad, grad_x, scores, hessian)
            };
            let (density, grad, grad_x, scores, hessian) = all(&theta);
            let l = |theta: &[f64], x: &[f64]| joint(&data, options, theta, x);
            let h = 1e-5;
            let moved = |at: &[f64], i: usize, by: f64| {
                let mut to = at.to_vec();
                to[i] += by;
                to
            };
            for (p, x) in x.chunks(d).enumerate() {
                close(density[p] + model.left_out().unwrap(), l(&theta, x), 1e-12);
                for i in 0..d {
                    let slope = (l(&theta, &moved(x, i, h)) - l(&theta, &moved(x, i, -h))) / (2.0 * h);
                    close(grad_x[p * d + i], slope, 1e-7);
                }
                for i in 0..k {
                    let slope = (l(&moved(&theta, i, h), x) - l(&moved(&theta, i, -h), x)) / (2.0 * h);
                    close(scores[p * k + i], slope, 1e-7);
                }
            }
            for i in 0..k {
                close(grad[i], scores.iter().skip(i).step_by(k).sum(), 1e-12);
                let (up, down) = (all(&moved(&theta, i, h)).1, all(&moved(&theta, i, -h)).1);
                for j in 0..k {
                    close(hessian[i * k + j], (up[j] - down[j]) / (2.0 * h), 1e-6);
                }
            }
            // At the M-step's theta the gradient is zero.
            let m = model.m_step().unwrap();
            let (mut sums, mut best) = (vec![0.0; m.statistics_len()], vec![0.0; k]);
            m.statistics(At::new(&theta, &x), &mut sums).unwrap();
            sums.iter_mut().for_each(|s| *s /= n as f64);
            m.m_step(&sums, &mut best).unwrap();
            all(&best).1.iter().for_each(|g| close(*g, 0.0, 1e-10));
        }
    }
}
