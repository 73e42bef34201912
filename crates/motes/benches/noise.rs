//! Rates of the random number and elementwise kernels, beside a scalar generator.

#![allow(clippy::disallowed_methods)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use motes::noise::{Noise, Purpose};
use motes::vmath;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Small enough to stay in the first-level cache.
const LEN: usize = 2048;

fn main() {
    println!("instruction set: {}", motes::simd::level_name());
    divan::main();
}

fn noise() -> Noise {
    Noise::new(1, Purpose::Particles)
}

#[divan::bench(args = [100, LEN])]
fn normals_f32(bencher: Bencher, len: usize) {
    let (mut out, mut step) = (vec![0.0; len], 0);
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        step += 1;
        noise().normals_f32(step, 7, black_box(&mut out));
    });
}

#[divan::bench(args = [100, LEN])]
fn normals_f64(bencher: Bencher, len: usize) {
    let (mut out, mut step) = (vec![0.0; len], 0);
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        step += 1;
        noise().normals_f64(step, 7, black_box(&mut out));
    });
}

#[divan::bench]
fn uniforms(bencher: Bencher) {
    let (mut out, mut step) = (vec![0.0; LEN], 0);
    bencher.counter(ItemsCount::new(LEN)).bench_local(|| {
        step += 1;
        noise().uniforms(step, 0, black_box(&mut out));
    });
}

#[divan::bench(args = [100, LEN])]
fn langevin_f32(bencher: Bencher, len: usize) {
    let (mut x, grad, mut step) = (vec![0.0; len], vec![0.0; len], 0);
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        step += 1;
        noise().langevin_f32(step, 0, black_box(&mut x), black_box(&grad), 1e-3, 1e3)
    });
}

#[divan::bench(args = [100, LEN])]
fn langevin_f64(bencher: Bencher, len: usize) {
    let (mut x, grad, mut step) = (vec![0.0; len], vec![0.0; len], 0);
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        step += 1;
        noise().langevin_f64(step, 0, black_box(&mut x), black_box(&grad), 1e-3, 1e3)
    });
}

#[divan::bench]
fn scalar_ziggurat_f32(bencher: Bencher) {
    let (mut out, mut rng) = (vec![0.0f32; LEN], Xoshiro256PlusPlus::seed_from_u64(1));
    bencher.counter(ItemsCount::new(LEN)).bench_local(|| {
        black_box(&mut out).fill_with(|| StandardNormal.sample(&mut rng));
    });
}

#[divan::bench]
fn scalar_ziggurat_f64(bencher: Bencher) {
    let (mut out, mut rng) = (vec![0.0f64; LEN], Xoshiro256PlusPlus::seed_from_u64(1));
    bencher.counter(ItemsCount::new(LEN)).bench_local(|| {
        black_box(&mut out).fill_with(|| StandardNormal.sample(&mut rng));
    });
}

/// In place, over and over: the values settle or turn infinite, which takes no longer.
macro_rules! elementwise {
    ($($name:ident, $float:ty;)*) => { $(
        #[divan::bench]
        fn $name(bencher: Bencher) {
            let mut x = vec![0.5 as $float; LEN];
            bencher
                .counter(ItemsCount::new(LEN))
                .bench_local(|| vmath::$name(black_box(&mut x)));
        }
    )* };
}

elementwise! {
    exp_f32, f32;
    exp_f64, f64;
    ln_f32, f32;
    ln_f64, f64;
    sigmoid_f32, f32;
    sigmoid_f64, f64;
    softplus_f32, f32;
    softplus_f64, f64;
    tanh_f32, f32;
    tanh_f64, f64;
}

#[divan::bench]
fn scalar_tanh_f32(bencher: Bencher) {
    // Its time depends on the argument.
    let x: Vec<f32> = (0..LEN).map(|i| i as f32 * 8.0 / LEN as f32 - 4.0).collect();
    let mut out = vec![0.0; LEN];
    bencher.counter(ItemsCount::new(LEN)).bench_local(|| {
        for (out, x) in black_box(&mut out).iter_mut().zip(&x) {
            *out = x.tanh();
        }
    });
}
