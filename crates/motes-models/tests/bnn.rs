//! The Bayesian neural network against differences, direct computation and itself; its bits.

use crate::common;

use common::on;
use motes::algorithms::{Algorithm, PGD, PMGD, PQN, SOUL};
use motes::noise::{Noise, Purpose};
use motes::settings::{InitParticles, Preconditioner};
use motes::summary::Metrics;
use motes::{At, Flow, Model, Settings, State, StepInfo, Want, check_model};
use motes_models::data::{Classification, ImageTask, TaskOptions, classification, read_table, wisconsin};
use motes_models::{Bnn, Labelled, Products};

/// Rows of features, some columns zero, one constant, some mostly one value; and labels.
#[derive(Clone)]
struct Rows {
    inputs: usize,
    classes: usize,
    features: Vec<f64>,
    labels: Vec<u8>,
}

impl Rows {
    fn new(m: usize, inputs: usize, classes: usize, seed: u64) -> Self {
        let noise = Noise::new(seed, Purpose::Data);
        let mut features = vec![0.0; m * inputs];
        noise.normals_f64(0, 0, &mut features);
        for row in features.chunks_exact_mut(inputs) {
            for (i, f) in row.iter_mut().enumerate() {
                match i % 5 {
                    1 => *f = 0.0,
                    2 if i < 5 => *f = 0.7,
                    3 if *f < 0.8 => *f = -0.3,
                    4 if *f > -1.0 => *f = 0.5,
                    _ => {}
                }
            }
        }
        let labels = (0..m).map(|i| (noise.uniform(1, i as u64) * classes as f64) as u8).collect();
        Rows { inputs, classes, features, labels }
    }

    fn labelled(&self) -> Labelled<'_> {
        Labelled { features: &self.features, labels: &self.labels }
    }

    fn model<F: motes::Real>(&self, hidden: usize, products: Products) -> Bnn<F> {
        Bnn::with_products(
            self.labelled(),
            Some(self.labelled()),
            [self.inputs, hidden, self.classes],
            products,
        )
        .expect("a model")
    }

    /// log p(l | f, x) for each row and class, straight from eq. 67.
    fn log_probabilities(&self, hidden: usize, x: &[f64]) -> Vec<Vec<f64>> {
        let (w, v) = x.split_at(hidden * self.inputs);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let row = |f: &[f64]| {
            let t: Vec<f64> = w.chunks_exact(self.inputs).map(|w| dot(w, f).tanh()).collect();
            let z: Vec<f64> = v.chunks_exact(hidden).map(|v| dot(v, &t)).collect();
            let most = z.iter().copied().fold(f64::MIN, f64::max);
            let all = most + z.iter().map(|z| (z - most).exp()).sum::<f64>().ln();
            z.iter().map(|z| z - all).collect()
        };
        self.features.chunks_exact(self.inputs).map(row).collect()
    }

    /// l(theta, x) over some rows, straight from its definition.
    fn log_density(&self, hidden: usize, theta: [f64; 2], x: &[f64], batch: Option<&[u32]>) -> f64 {
        let logs = self.log_probabilities(hidden, x);
        let all: Vec<u32> = (0..self.labels.len() as u32).collect();
        let rows = batch.unwrap_or(&all);
        let sum: f64 = rows.iter().map(|r| logs[*r as usize][usize::from(self.labels[*r as usize])]).sum();
        let (w, v) = x.split_at(hidden * self.inputs);
        let prior = |x: &[f64], s: f64| {
            -0.5 * (-2.0 * s).exp() * x.iter().map(|x| x * x).sum::<f64>() - x.len() as f64 * s
        };
        sum * all.len() as f64 / rows.len() as f64 + prior(w, theta[0]) + prior(v, theta[1])
    }
}

const WAYS: [Products; 4] = [Products::Auto, Products::Dense, Products::Sparse, Products::Full];

fn normals(len: usize, seed: u64, scale: f64) -> Vec<f64> {
    let mut x = vec![0.0; len];
    Noise::new(seed, Purpose::Check).normals_f64(7, 0, &mut x);
    x.iter_mut().for_each(|x| *x *= scale);
    x
}

fn gradients<F: motes::Real>(
    model: &Bnn<F>,
    theta: [f64; 2],
    x: &[F],
    batch: Option<&[u32]>,
    parallel: bool,
) -> ([f64; 2], Vec<F>) {
    let (mut grad_theta, mut grad_x) = ([f64::NAN; 2], vec![F::of(f64::NAN); x.len()]);
    // Whatever stands in the scratch space must not matter.
    let mut scratch = vec![F::of(f64::NAN); model.scratch_len(x.len() / model.d_x())];
    let at = At { terms: batch, parallel, ..At::new(&theta, x) };
    model.evaluate(at, Want::gradients(&mut grad_theta, &mut grad_x, &mut scratch)).expect("gradients");
    // What else is asked for changes no bit.
    let (mut alone, mut density) = ([f64::NAN; 2], vec![f64::NAN; x.len() / model.d_x()]);
    let want = Want { grad_theta: Some(&mut alone), ..Want::nothing(&mut scratch) };
    model.evaluate(at, want).expect("a theta-gradient");
    assert_eq!(alone, grad_theta);
    let mut with_density = vec![F::of(f64::NAN); x.len()];
    let want = Want {
        grad_x: Some(&mut with_density),
        log_density: Some(&mut density),
        ..Want::nothing(&mut scratch)
    };
    model.evaluate(at, want).expect("gradients and densities");
    assert_eq!(with_density, grad_x);
    let mut density_alone = density.clone();
    let want = Want { log_density: Some(&mut density_alone), ..Want::nothing(&mut scratch) };
    model.evaluate(at, want).expect("densities");
    assert_eq!(density_alone, density);
    (grad_theta, grad_x)
}

fn log_density(model: &Bnn<f64>, theta: [f64; 2], x: &[f64], batch: Option<&[u32]>) -> f64 {
    let (mut out, mut scratch) = ([f64::NAN], vec![f64::NAN; model.scratch_len(1)]);
    let at = At { terms: batch, parallel: true, ..At::new(&theta, x) };
    let want = Want { log_density: Some(&mut out), ..Want::nothing(&mut scratch) };
    model.evaluate(at, want).expect("a density");
    out[0]
}

/// (M, I, H, C): odd and even, one and several vectors, panels and tiles.
const SHAPES: [[usize; 4]; 6] =
    [[1, 1, 1, 2], [7, 5, 3, 3], [40, 23, 8, 2], [65, 12, 41, 4], [301, 9, 21, 2], [130, 171, 5, 3]];

#[test]
fn derivatives_are_right() {
    for [m, inputs, hidden, classes] in SHAPES {
        let rows = Rows::new(m, inputs, classes, 3);
        for products in WAYS {
            let model = rows.model::<f64>(hidden, products);
            for check in check_model(&model, 5).unwrap() {
                assert!(check.passed(), "{m} {inputs} {hidden} {classes} {products:?}: {check:?}");
            }
        }
    }
}

#[test]
fn densities_and_gradients_are_those_of_the_definition_also_over_a_batch() {
    for [m, inputs, hidden, classes] in SHAPES {
        let rows = Rows::new(m, inputs, classes, 4);
        let batch: Vec<u32> = (0..m as u32).rev().step_by(3).collect();
        let x = normals(hidden * (inputs + classes), 1, 0.6);
        let theta = [0.3, -0.4];
        for (products, batch) in WAYS.into_iter().flat_map(|p| [(p, None), (p, Some(&batch[..]))]) {
            let model = rows.model::<f64>(hidden, products);
            let expected = rows.log_density(hidden, theta, &x, batch);
            let given = log_density(&model, theta, &x, batch);
            assert!((given - expected).abs() < 1e-11 * expected.abs(), "{given} {expected}");
            let (grad_theta, grad_x) = gradients(&model, theta, &x, batch, false);
            let scale = grad_x.iter().fold(1.0f64, |s, g| s.max(g.abs()));
            for i in (0..x.len()).step_by(x.len().div_ceil(30)) {
                let at = |step: f64| {
                    let mut x = x.clone();
                    x[i] += step;
                    rows.log_density(hidden, theta, &x, batch)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((grad_x[i] - difference).abs() < 1e-6 * scale, "{products:?} x[{i}]");
            }
            for i in 0..2 {
                let at = |step: f64| {
                    let mut theta = theta;
                    theta[i] += step;
                    rows.log_density(hidden, theta, &x, batch)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((grad_theta[i] - difference).abs() < 1e-6 * scale.max(difference.abs()));
            }
        }
    }
}

fn worst(a: &[f64], b: &[f64]) -> f64 {
    let size = a.iter().fold(0.0f64, |s, a| s.max(a.abs()));
    a.iter().zip(b).fold(0.0f64, |w, (a, b)| w.max((a - b).abs())) / size
}

fn task_model<F: motes::Real>(products: Products) -> Bnn<F> {
    Bnn::of_task(&ImageTask::mnist(&TaskOptions::default()).unwrap(), 40, products).unwrap()
}

/// The columns that are dropped, and the values that are split off, change nothing but rounding; nor does precision.
#[test]
fn all_products_agree() {
    let full = task_model::<f64>(Products::Full);
    assert!(task_model::<f32>(Products::Auto).is_sparse() && !full.is_sparse());
    let x = normals(full.d_x(), 2, 0.3);
    let single: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let x: Vec<f64> = single.iter().map(|x| f64::from(*x)).collect();
    let (_, expected) = gradients(&full, [0.0; 2], &x, None, false);
    let batch: Vec<u32> = (0..800).step_by(7).collect();
    let (_, of_batch) = gradients(&full, [0.0; 2], &x, Some(&batch), false);
    for products in WAYS {
        let model = task_model::<f64>(products);
        assert!(worst(&expected, &gradients(&model, [0.0; 2], &x, None, false).1) < 1e-12, "{products:?}");
        assert!(worst(&of_batch, &gradients(&model, [0.0; 2], &x, Some(&batch), false).1) < 1e-12);
        let model = task_model::<f32>(products);
        for (batch, expected) in [(None, &expected), (Some(&batch[..]), &of_batch)] {
            let (_, given) = gradients(&model, [0.0; 2], &single, batch, false);
            let given: Vec<f64> = given.iter().map(|g| f64::from(*g)).collect();
            assert!(worst(expected, &given) < 1e-5, "{products:?}: {}", worst(expected, &given));
        }
    }
}

fn settings(algorithm: &'static Algorithm, particles: usize, steps: u64) -> Settings {
    Settings {
        algorithm,
        particles,
        steps,
        burn_in: steps - 1,
        step_size: 0.1,
        preconditioner: match algorithm.name {
            "pgd" | "soul" => Preconditioner::Diagonal,
            _ => Preconditioner::None,
        },
        init_particles: InitParticles::Prior,
        keep_clouds: 0,
        ..Settings::default()
    }
}

/// A few steps in single and double precision stay together (they draw the same words, but not quite the same noise).
#[test]
fn precisions_agree_over_a_few_steps() {
    let rows = Rows::new(60, 14, 3, 6);
    let start = normals(6 * 17, 9, 1.0);
    for products in [Products::Dense, Products::Sparse] {
        let double = rows.model::<f64>(6, products);
        let single = rows.model::<f32>(6, products);
        let mut x = start.clone();
        let mut y: Vec<f32> = start.iter().map(|x| *x as f32).collect();
        for _ in 0..20 {
            let (_, g) = gradients(&double, [0.1, -0.2], &x, None, false);
            x.iter_mut().zip(g).for_each(|(x, g)| *x += 0.01 * g);
            let (_, g) = gradients(&single, [0.1, -0.2], &y, None, false);
            y.iter_mut().zip(g).for_each(|(y, g)| *y += 0.01 * g);
        }
        let y: Vec<f64> = y.iter().map(|y| f64::from(*y)).collect();
        assert!(worst(&x, &y) < 1e-4, "{}", worst(&x, &y));
        assert!(worst(&x, &start) > 0.1);
    }
}

/// Density, gradient and scores of some particles, so many at a time.
fn in_blocks<F: motes::Real>(model: &Bnn<F>, x: &[F], rows: usize, batch: Option<&[u32]>) -> Vec<u64> {
    let d = model.d_x();
    let (n, theta) = (x.len() / d, [0.3, -0.2]);
    let (mut grad, mut density, mut scores) = (vec![F::default(); x.len()], vec![0.0; n], vec![0.0; 2 * n]);
    // What a model leaves behind in its space must not matter.
    let mut scratch = vec![F::of(f64::NAN); model.scratch_len(rows)];
    let blocks = x.chunks(rows * d).zip(grad.chunks_mut(rows * d));
    for ((x, grad), (density, scores)) in
        blocks.zip(density.chunks_mut(rows).zip(scores.chunks_mut(2 * rows)))
    {
        let want = Want {
            grad_x: Some(grad),
            log_density: Some(density),
            scores: Some(scores),
            ..Want::nothing(&mut scratch)
        };
        model.evaluate(At { terms: batch, ..At::new(&theta, x) }, want).expect("values");
    }
    grad.iter().map(|g| g.f64()).chain(density).chain(scores).map(f64::to_bits).collect()
}

fn neighbours_change_no_bit_in<F: motes::Real>() {
    let (rows, batch) = (Rows::new(37, 23, 3, 4), [3u32, 30, 7, 7, 12]);
    for hidden in [1, 5, 16, 40, 41, 100] {
        for products in [Products::Dense, Products::Sparse] {
            let model: Bnn<F> = rows.model(hidden, products);
            let x: Vec<F> = normals(5 * model.d_x(), 8, 0.5).into_iter().map(F::of).collect();
            for batch in [None, Some(&batch[..])] {
                let alone = in_blocks(&model, &x, 1, batch);
                assert!(alone.iter().all(|bits| f64::from_bits(*bits).is_finite()));
                for together in [2, 3, 5] {
                    assert!(
                        in_blocks(&model, &x, together, batch) == alone,
                        "{hidden} units, {together} particles"
                    );
                }
            }
        }
    }
}

#[test]
fn neighbours_change_no_bit_of_a_particles_gradient() {
    neighbours_change_no_bit_in::<f32>();
    neighbours_change_no_bit_in::<f64>();
}

#[test]
fn threads_change_no_bit_of_gradients() {
    let batch: Vec<u32> = (0..799).step_by(3).collect();
    for products in [Products::Dense, Products::Sparse] {
        let model = task_model::<f32>(products);
        let x: Vec<f32> = normals(model.d_x(), 3, 1.0).iter().map(|x| *x as f32).collect();
        for batch in [None, Some(&batch[..])] {
            let bits = |threads: usize, parallel: bool| {
                let (t, g) = on(threads, || gradients(&model, [0.1, 0.2], &x, batch, parallel));
                (t.map(f64::to_bits), g.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
            };
            let alone = bits(1, false);
            for threads in [1, 2, 3, 5, 8] {
                assert!(alone == bits(threads, true), "{products:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn threads_change_no_bit_of_runs() {
    let model = task_model::<f32>(Products::Auto);
    for (algorithm, n, steps) in [(&PGD, 1, 4), (&PGD, 10, 4), (&PQN, 10, 2), (&PMGD, 10, 2), (&SOUL, 10, 2)]
    {
        let shown = |threads: usize| {
            let mut seen = Vec::new();
            let mut observer = |info: &StepInfo<'_, f32>| {
                seen.extend(info.theta.iter().chain(info.sums).map(|v| v.to_bits()));
                Flow::Continue
            };
            let settings = settings(algorithm, n, steps);
            let state = on(threads, || {
                let mut state = motes::start(&model, &settings).unwrap();
                motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).unwrap();
                state
            });
            let cloud: Vec<u32> = state.cloud.as_slice().iter().map(|x| x.to_bits()).collect();
            let predicted: Vec<u64> =
                on(threads, || predictions(&model, &state)).iter().map(|p| p.to_bits()).collect();
            (seen, cloud, predicted)
        };
        let alone = shown(1);
        assert!(alone.2.iter().any(|p| *p != 0));
        for threads in [2, 3, 5, 8] {
            assert!(alone == shown(threads), "{algorithm}, N = {n}, {threads} threads");
        }
    }
}

#[test]
fn predictions_are_those_of_the_definition() {
    for (m, inputs, hidden, classes) in [(9, 6, 4, 2), (70, 13, 9, 3)] {
        let (train, test) = (Rows::new(20, inputs, classes, 1), Rows::new(m, inputs, classes, 2));
        let shape = [inputs, hidden, classes];
        let model = Bnn::<f64>::with_products(train.labelled(), Some(test.labelled()), shape, Products::Auto)
            .unwrap();
        let n = 37;
        let x = normals(n * model.d_x(), 8, 1.5);
        let predictive = model.predictive().unwrap();
        let mut state = vec![0.0; predictive.state_len()];
        // In two parts: it streams.
        let (first, second) = x.split_at(5 * model.d_x());
        predictive.accumulate(first, &mut state);
        predictive.accumulate(second, &mut state);
        let metrics = Metrics::of(predictive, &state);

        let mut mean = vec![vec![0.0; classes]; m];
        for x in x.chunks_exact(model.d_x()) {
            for (mean, logs) in mean.iter_mut().zip(test.log_probabilities(hidden, x)) {
                mean.iter_mut().zip(logs).for_each(|(m, l)| *m += l.exp() / n as f64);
            }
        }
        let (mut wrong, mut lppd) = (0, 0.0);
        for (p, label) in mean.iter().zip(&test.labels) {
            let best = (0..classes).max_by(|a, b| p[*a].total_cmp(&p[*b])).unwrap();
            wrong += usize::from(best != usize::from(*label));
            lppd += p[usize::from(*label)].ln() / m as f64;
        }
        assert_eq!(metrics.get("test_error").unwrap(), wrong as f64 / m as f64);
        assert!((metrics.get("lppd").unwrap() - lppd).abs() < 1e-12 * lppd.abs());
        let predicted = model.predict(&test.features, &x, 0.9);
        assert!(worst(&mean.concat(), &predicted.probabilities) < 1e-12);
        // The same particle by particle, and the quantiles between order statistics.
        let each: Vec<Vec<Vec<f64>>> =
            x.chunks_exact(model.d_x()).map(|x| test.log_probabilities(hidden, x)).collect();
        for (row, (p, interval)) in mean.iter().zip(&predicted.intervals).enumerate() {
            let best = (0..classes).max_by(|a, b| p[*a].total_cmp(&p[*b])).unwrap();
            let mut of_class: Vec<f64> = each.iter().map(|logs| logs[row][best].exp()).collect();
            of_class.sort_by(f64::total_cmp);
            for (q, found) in [0.05, 0.95].into_iter().zip(interval) {
                let place = q * (n - 1) as f64;
                let (low, high) = (of_class[place.floor() as usize], of_class[place.ceil() as usize]);
                assert!((found - (low + place.fract() * (high - low))).abs() < 1e-12, "{row}: {interval:?}");
            }
        }
    }
}

#[test]
fn one_particle_with_extreme_logits_has_a_finite_lppd() {
    let rows = Rows::new(30, 5, 2, 1);
    let model = rows.model::<f32>(4, Products::Auto);
    let x = vec![300.0f32; 4 * 5].into_iter().chain([-4000.0; 4]).chain([4000.0; 4]).collect::<Vec<_>>();
    let predictive = model.predictive().unwrap();
    let mut state = vec![0.0; predictive.state_len()];
    predictive.accumulate(&x, &mut state);
    let metrics = Metrics::of(predictive, &state);
    assert!(metrics.get("lppd").unwrap().is_finite() && metrics.get("lppd").unwrap() < -100.0, "{metrics:?}");
    let (_, grad) = gradients(&model, [0.0; 2], &x, None, false);
    assert!(grad.iter().all(|g| g.is_finite()));
}

#[test]
fn bad_input_is_refused_in_a_sentence() {
    let rows = Rows::new(4, 3, 2, 1);
    let refused = |train: Labelled<'_>, shape: [usize; 3], sentence: &str| {
        let error = Bnn::<f32>::with_products(train, None, shape, Products::Auto).unwrap_err();
        assert_eq!(error.to_string(), sentence);
    };
    let Labelled { features, labels } = rows.labelled();
    refused(
        rows.labelled(),
        [3, 0, 2],
        "a network with 3 inputs, 0 hidden units and 2 classes makes no sense; choose at least one input, one hidden unit, and from 2 to 256 classes",
    );
    refused(
        rows.labelled(),
        [4, 1, 2],
        "12 training features are not 4 rows of 4; give a row of features for each label",
    );
    refused(
        Labelled { features, labels: &[0, 1, 2, 0] },
        [3, 1, 2],
        "training row 2 has label 2, but there are 2 classes; count them from 0",
    );
    let mut broken = features.to_vec();
    broken[4] = f64::NAN;
    refused(
        Labelled { features: &broken, labels },
        [3, 1, 2],
        "feature 1 of training row 1 is NaN; give numbers of a reasonable size",
    );
    refused(
        Labelled { features: &[], labels: &[] },
        [3, 1, 2],
        "there are no training rows; give at least one",
    );
    let model = rows.model::<f64>(2, Products::Auto);
    let at = At { terms: Some(&[4]), ..At::new(&[0.0; 2], &[0.5; 10]) };
    let mut scratch = vec![0.0; model.scratch_len(1)];
    let error = model.evaluate(at, Want::gradients(&mut [0.0; 2], &mut [0.0; 10], &mut scratch)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a batch of 1 rows does not fit the 4 of the data; choose a batch of 1 to 4"
    );
    assert!(model.predict(&[], &[0.5; 10], 0.9).probabilities.is_empty());
    let names = Model::<f64>::x_names(&model);
    assert_eq!([&names[4], &names[6], &names[9]], ["w[1,1]", "v[0,0]", "v[1,1]"]);
}

/// Features that are all zero, and features of a table.
#[test]
fn any_features_will_do() {
    let rows = Rows { inputs: 3, classes: 2, features: vec![0.0; 9], labels: vec![0, 1, 1] };
    for products in WAYS {
        let model = rows.model::<f64>(2, products);
        let (_, grad) = gradients(&model, [0.0; 2], &[0.5; 10], None, true);
        assert_eq!(grad, [-0.5; 10]);
    }
    let table = read_table(wisconsin::BYTES, wisconsin::NAME).unwrap();
    let Classification { features, labels, .. } = classification(&table, None, &["id".into()]).unwrap();
    let model = Bnn::<f64>::new(Labelled { features: &features, labels: &labels }, None, 9, 4, 2).unwrap();
    assert!(model.predictive().is_none());
    assert!(check_model(&model, 1).unwrap().iter().all(motes::Check::passed));
}

/// What the test rows remember of the last cloud.
fn predictions(model: &Bnn<f32>, state: &State<f32>) -> Vec<f64> {
    let predictive = model.predictive().unwrap();
    let mut memory = vec![0.0; predictive.state_len()];
    predictive.accumulate(state.cloud.as_slice(), &mut memory);
    memory
}
