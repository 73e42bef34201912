//! Rates of the logistic model's gradients: the embedded data, the same without equal rows, and a million rows.

#![allow(clippy::disallowed_methods)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use motes::blocks::{INLINE_NANOSECONDS, PerWorker, for_each2};
use motes::noise::{Noise, Purpose};
use motes::{At, Model, Pool, Real, Want};
use motes_models::Logistic;
use motes_models::data::{Classification, Moments, classification, read_table, train_test_split, wisconsin};
use motes_models::logistic::Options;

/// Gradients of single particles in one sample of the small cases, however they are spread over steps.
const MANY: usize = 1_000;

fn main() {
    println!(
        "instruction set: {}; items are rows x particles, G = 4 flops x rows x columns x particles",
        motes::simd::level_name()
    );
    divan::main();
}

fn embedded() -> Classification {
    let table = read_table(wisconsin::BYTES, wisconsin::NAME).unwrap();
    let mut data = classification(&table, None, &["id".into()]).unwrap();
    Moments::of(&data.features, &data.feature_names).unwrap().apply(&mut data.features);
    data.select(&train_test_split(data.rows(), 0.2, 0).unwrap().train)
}

/// Standard normal features and labels without relation to them.
fn generated(rows: usize, d: usize) -> Classification {
    let noise = Noise::new(1, Purpose::Data);
    let mut features = vec![0.0; rows * d];
    noise.normals_f64(0, 0, &mut features);
    Classification {
        labels: features
            .iter()
            .step_by(d)
            .enumerate()
            .map(|(i, f)| u8::from(*f + (i % 3) as f64 > 1.0))
            .collect(),
        features,
        feature_names: (0..d).map(|i| format!("f{i}")).collect(),
        target: "y".into(),
        classes: vec!["0".into(), "1".into()],
        weights: None,
        rows_dropped: 0,
    }
}

/// `steps` gradients of n particles, cut into blocks as the core does; enough to drown the cost of entering the pool.
fn gradients<F: Real>(bencher: Bencher, data: &Classification, n: usize, threads: usize, steps: usize) {
    let model = Logistic::<F>::new(data, None, Options::default()).unwrap();
    let d = model.d_x();
    let mut normals = vec![0.0; n * d];
    Noise::new(2, Purpose::Data).normals_f64(0, 0, &mut normals);
    let x: Vec<F> = normals.iter().map(|x| F::of(0.5 * x)).collect();
    let rows = model.rows_per_block(n).min(n);
    let parallel = n > rows && n as f64 * model.nanoseconds_per_row() > INLINE_NANOSECONDS;
    let pool = Pool::new(Some(threads)).unwrap();
    let scratch = pool.install(|| PerWorker::new(|| vec![F::of(0.0); model.scratch_len(rows)]));
    let (mut grad, mut slots) = (vec![F::of(0.0); n * d], vec![0.0; n.div_ceil(rows)]);
    let mut step = || {
        let all = black_box(&x[..]);
        let done = for_each2(parallel, (&mut grad, rows * d), (&mut slots, 1), |b, grad, slot| {
            let x = &all[b * rows * d..][..grad.len()];
            let at = At { parallel: n <= rows, ..At::new(&[0.3], x) };
            model.evaluate(at, Want::gradients(slot, grad, &mut scratch.get()))
        });
        done.unwrap();
        black_box(grad[0]);
    };
    bencher
        .counter(ItemsCount::new(steps * data.rows() * n))
        .bench_local(|| pool.install(|| (0..steps).for_each(|_| step())));
}

#[divan::bench(types = [f32, f64], args = [1, 10, 100])]
fn embedded_1_thread<F: Real>(bencher: Bencher, n: usize) {
    gradients::<F>(bencher, &embedded(), n, 1, MANY / n);
}

#[divan::bench(types = [f32, f64], args = [1, 10, 100])]
fn embedded_2_threads<F: Real>(bencher: Bencher, n: usize) {
    gradients::<F>(bencher, &embedded(), n, 2, MANY / n);
}

/// As many rows as the embedded data have, but no two alike.
#[divan::bench(types = [f32, f64], args = [1, 10, 100])]
fn unmerged_1_thread<F: Real>(bencher: Bencher, n: usize) {
    gradients::<F>(bencher, &generated(546, 9), n, 1, MANY / n);
}

#[divan::bench(types = [f32, f64], args = [(2_000, 20), (50_000, 20), (2_000, 100), (1_000, 2_000)], sample_count = 10)]
fn n_10_1_thread<F: Real>(bencher: Bencher, (rows, d): (usize, usize)) {
    gradients::<F>(bencher, &generated(rows, d), 10, 1, 1);
}

#[divan::bench(types = [f32, f64], args = [1, 100], sample_count = 5, sample_size = 1)]
fn million_by_20_2_threads<F: Real>(bencher: Bencher, n: usize) {
    gradients::<F>(bencher, &generated(1_000_000, 20), n, 2, 1);
}
