//! Rates of the Bayesian neural network on the paper's task: gradients beside a bare GEMM of the same shapes, and steps.

#![allow(clippy::disallowed_methods)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use gemm::Parallelism;
use motes::algorithms::{Algorithm, PGD, SOUL};
use motes::noise::{Noise, Purpose};
use motes::settings::{InitParticles, Preconditioner};
use motes::{At, Flow, Model, Pool, Settings, StepInfo, Want};
use motes_models::data::{ImageTask, TaskOptions};
use motes_models::{Bnn, Products};

const HIDDEN: usize = 40;
/// Rows, and columns that are not zero everywhere, of the default task.
const ROWS: usize = 800;
const COLUMNS: usize = 557;

fn main() {
    println!(
        "instruction set: {}; items are floating-point operations of the dense products",
        motes::simd::level_name()
    );
    divan::main();
}

fn model(products: Products) -> Bnn<f32> {
    let task = ImageTask::mnist(&TaskOptions::default()).expect("embedded data");
    Bnn::of_task(&task, HIDDEN, products).expect("a model")
}

/// The operations of both dense products for n particles.
fn operations(n: usize) -> ItemsCount {
    ItemsCount::new(2 * 2 * n * HIDDEN * ROWS * COLUMNS)
}

fn normals(len: usize) -> Vec<f32> {
    let mut x = vec![0.0; len];
    Noise::new(1, Purpose::Particles).normals_f32(0, 0, &mut x);
    x
}

/// All gradients on one thread, in the blocks of a run.
#[divan::bench(args = [(1, Products::Dense), (10, Products::Dense), (100, Products::Dense), (1, Products::Sparse), (10, Products::Sparse), (100, Products::Sparse)])]
fn gradients(bencher: Bencher, (n, products): (usize, Products)) {
    let model = model(products);
    let d = Model::<f32>::d_x(&model);
    let (x, mut grad) = (normals(n * d), vec![0.0; n * d]);
    let block = model.rows_per_block(n).min(n);
    let mut scratch = vec![0.0; model.scratch_len(block)];
    let mut grad_theta = [0.0; 2];
    bencher.counter(operations(n)).bench_local(|| {
        for (x, grad) in x.chunks(block * d).zip(grad.chunks_mut(block * d)) {
            let at = At::new(&[0.0, 0.0], x);
            model.evaluate(at, Want::gradients(&mut grad_theta, grad, &mut scratch)).expect("gradients");
        }
        black_box(&grad);
    });
}

/// The two products alone, by a general GEMM on one thread, the particles stacked.
#[divan::bench(args = [1, 10, 100])]
fn bare_gemm(bencher: Bencher, n: usize) {
    let (w, f) = (normals(n * HIDDEN * COLUMNS), normals(ROWS * COLUMNS));
    let (mut a, mut dw) = (vec![0f32; n * HIDDEN * ROWS], vec![0f32; n * HIDDEN * COLUMNS]);
    bencher.counter(operations(n)).bench_local(|| {
        // A = W F'; F is row-major, so its transpose has unit row stride.
        multiply([n * HIDDEN, ROWS, COLUMNS], &mut a, &w, (&f, 1, COLUMNS));
        multiply([n * HIDDEN, COLUMNS, ROWS], &mut dw, &a, (&f, COLUMNS, 1));
        black_box(&dw);
    });
}

/// out (m x n, row-major) = left (m x k, row-major) times right (k x n, of the given row and column strides).
fn multiply([m, n, k]: [usize; 3], out: &mut [f32], left: &[f32], (right, rs, cs): (&[f32], usize, usize)) {
    assert!(out.len() == m * n && left.len() == m * k && right.len() == k * n);
    let [ns, ks] = [n, k].map(|s| s as isize);
    let (rs, cs) = (rs as isize, cs as isize);
    // SAFETY: the lengths have been checked against the shapes and strides.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            ns,
            false,
            left.as_ptr(),
            1,
            ks,
            right.as_ptr(),
            cs,
            rs,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Ten whole steps of a run on all cores.
#[divan::bench(args = [(1, Products::Dense), (10, Products::Dense), (100, Products::Dense), (1, Products::Sparse), (10, Products::Sparse), (100, Products::Sparse)], sample_count = 20)]
fn ten_pgd_steps(bencher: Bencher, (n, products): (usize, Products)) {
    steps(bencher, &PGD, n, 10, products);
}

/// One step of SOUL with N = 100, which is a hundred gradients of one particle, on all cores.
#[divan::bench(args = [Products::Dense, Products::Sparse], sample_count = 20)]
fn one_soul_step(bencher: Bencher, products: Products) {
    steps(bencher, &SOUL, 100, 1, products);
}

fn steps(bencher: Bencher, algorithm: &'static Algorithm, n: usize, steps: u64, products: Products) {
    let model = model(products);
    let pool = Pool::new(None).expect("threads");
    let settings = Settings {
        algorithm,
        particles: n,
        steps: u64::MAX,
        burn_in: u64::MAX - 1, // nothing is averaged
        step_size: 0.1,
        preconditioner: Preconditioner::Diagonal,
        init_particles: InitParticles::Prior,
        keep_clouds: 0,
        ..Settings::default()
    };
    let mut state = pool.install(|| motes::start(&model, &settings)).expect("a start");
    bencher.counter(ItemsCount::new(steps)).bench_local(|| {
        let end = state.k + steps;
        let mut stop = |info: &StepInfo<'_, f32>| if info.k == end { Flow::Stop } else { Flow::Continue };
        pool.install(|| motes::run(&model, &settings, &mut state, None, &mut [&mut stop])).expect("a run");
    });
}
