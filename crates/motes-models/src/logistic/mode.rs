//! The largest curvature of -l at its mode for theta = 0, without ever forming a matrix.

use std::f64::consts::{LN_2, LOG2_E};

use bytemuck::{Zeroable, cast_slice, cast_slice_mut};
use motes::Real;

use super::kernels::{Sum, lanes};
use super::rows::Rows;
use motes::simd::{Line, lines};

const NEWTON_STEPS: usize = 50;
const HALVINGS: usize = 40;
const CG_STEPS: usize = 100;
const LANCZOS_STEPS: usize = 100;

/// The largest eigenvalue of the negative x-Hessian at the mode; `None` only where numbers overflow.
pub(super) fn curvature<F: Real>(rows: &Rows<F>, prior: Prior) -> Option<f64> {
    let mut target = Target::new(rows, prior);
    let x = mode(&mut target);
    target.weigh(&x);
    Some(largest_eigenvalue(&mut target, x.len())).filter(|c| c.is_finite())
}

/// Whether some hyperplane has all rows of each class on its own side: where a slight prior lets weights grow, they find it.
pub(super) fn separated<F: Real>(rows: &Rows<F>) -> bool {
    const SLIGHT: f64 = 1e4;
    let mut target = Target::new(rows, Prior { tied: rows.columns, variance: SLIGHT, own: SLIGHT });
    let x = mode(&mut target);
    let (columns, lanes) = (rows.columns, lanes::<F>());
    let vectors = rows.all().g.chunks_exact(columns * lanes).zip(rows.weights().chunks_exact(lanes));
    vectors.into_iter().all(|(g, w)| {
        (0..lanes).all(|lane| {
            let t: f64 = g.iter().skip(lane).step_by(lanes).zip(&x).map(|(g, x)| g.f64() * x).sum();
            w[lane].f64() == 0.0 || t > 0.0
        })
    })
}

/// The variances of the priors around 0.
#[derive(Clone, Copy)]
pub(super) struct Prior {
    /// How many coordinates have the first.
    pub tied: usize,
    pub variance: f64,
    /// That of the other coordinates.
    pub own: f64,
}

impl Prior {
    fn of(&self, i: usize) -> f64 {
        if i < self.tied { self.variance } else { self.own }
    }
}

/// -l(0, x) = sum_i w_i ln(1 + 2^{-g_i.x}) + |x|^2 / (2V), its gradient and its Hessian times a vector.
struct Target<'a, F> {
    rows: &'a Rows<F>,
    prior: Prior,
    /// w_i p_i (1 - p_i) ln(2)^2 at the point given to [`Target::weigh`].
    weights: Vec<Line>,
    x: Vec<F>,
    /// For partial sums.
    space: Vec<Line>,
}

impl<'a, F: Real> Target<'a, F> {
    fn new(rows: &'a Rows<F>, prior: Prior) -> Self {
        let zero = F::of(0.0);
        Target {
            rows,
            prior,
            weights: vec![Line::zeroed(); lines::<F>(rows.weights().len())],
            x: vec![zero; rows.columns],
            space: vec![Line::zeroed(); rows.partial_lines(rows.columns)],
        }
    }

    fn sums(&mut self, sum: Sum, x: &[f64], out: &mut [f64]) {
        self.x.iter_mut().zip(x).for_each(|(to, from)| *to = F::of(*from));
        let mut space = std::mem::take(&mut self.space);
        let weights = if sum == Sum::Product { self.weights() } else { self.rows.weights() };
        self.rows.sums(sum, weights, &self.x, true, &mut space, out);
        self.space = space;
    }

    fn weights(&self) -> &[F] {
        &cast_slice(&self.weights)[..self.rows.weights().len()]
    }

    fn value(&mut self, x: &[f64]) -> f64 {
        let mut loss = [0.0];
        self.sums(Sum::Loss, x, &mut loss);
        let (tied, own) = x.split_at(self.prior.tied);
        loss[0] + dot(tied, tied) / (2.0 * self.prior.variance) + dot(own, own) / (2.0 * self.prior.own)
    }

    fn gradient(&mut self, x: &[f64], out: &mut [f64]) {
        self.sums(Sum::Gradient, x, out);
        let prior = self.prior;
        out.iter_mut().zip(x).enumerate().for_each(|(i, (g, x))| *g = x / prior.of(i) - LN_2 * *g);
    }

    /// Fixes the point of the Hessian.
    fn weigh(&mut self, x: &[f64]) {
        let (columns, lanes) = (self.rows.columns, lanes::<F>());
        let g = self.rows.all().g.chunks_exact(columns * lanes);
        let rows = g.zip(self.rows.weights().chunks_exact(lanes));
        for ((g, w), out) in rows.zip(cast_slice_mut::<_, F>(&mut self.weights).chunks_exact_mut(lanes)) {
            let mut t = [0.0; 16];
            for (g, x) in g.chunks_exact(lanes).zip(x) {
                t.iter_mut().zip(g).for_each(|(t, g)| *t += g.f64() * x);
            }
            for ((out, w), t) in out.iter_mut().zip(w).zip(t) {
                let e = libm::exp2(-t.abs());
                *out = F::of(w.f64() * (LN_2 * LN_2) * e / ((1.0 + e) * (1.0 + e)));
            }
        }
    }

    fn hessian_times(&mut self, v: &[f64], out: &mut [f64]) {
        // To unit length first: in f32 a long v could overflow, a short one lose its digits.
        let norm = dot(v, v).sqrt();
        if norm == 0.0 {
            return out.fill(0.0);
        }
        let unit: Vec<f64> = v.iter().map(|v| v / norm).collect();
        self.sums(Sum::Product, &unit, out);
        let prior = self.prior;
        out.iter_mut().zip(&unit).enumerate().for_each(|(i, (o, v))| *o = norm * (*o + v / prior.of(i)));
    }

    /// The Hessian's diagonal.
    fn diagonal(&self) -> Vec<f64> {
        let (columns, lanes) = (self.rows.columns, lanes::<F>());
        let mut out: Vec<f64> = (0..columns).map(|i| 1.0 / self.prior.of(i)).collect();
        let rows = self.rows.all().g.chunks_exact(columns * lanes).zip(self.weights().chunks_exact(lanes));
        for (g, w) in rows {
            for (out, g) in out.iter_mut().zip(g.chunks_exact(lanes)) {
                *out += g.iter().zip(w).map(|(g, w)| w.f64() * g.f64() * g.f64()).sum::<f64>();
            }
        }
        out
    }
}

/// Newton's method with conjugate gradients for the steps, halved until they help.
fn mode<F: Real>(target: &mut Target<'_, F>) -> Vec<f64> {
    let d = target.rows.columns;
    let mut x = vec![0.0; d];
    let mut gradient = vec![0.0; d];
    let mut value = target.value(&x);
    // Steps converge quadratically, so that the last one leaves far less than this; single precision ends sooner.
    let enough = if size_of::<F>() == 4 { 1e-6 } else { 1e-10 };
    let mut steepest = 0.0f64;
    for _ in 0..NEWTON_STEPS {
        target.gradient(&x, &mut gradient);
        target.weigh(&x);
        let slope = dot(&gradient, &gradient).sqrt();
        steepest = steepest.max(slope);
        // Far from the mode a rough step will do.
        let step = newton_step(target, &gradient, 0.01 * slope / steepest);
        let decrement = -dot(&gradient, &step);
        if decrement.is_nan() || decrement <= enough * value.abs() {
            break;
        }
        let mut length = 1.0;
        let moved = (0..HALVINGS).find_map(|_| {
            let trial: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x + length * s).collect();
            let there = target.value(&trial);
            length *= 0.5;
            (there < value).then_some((trial, there))
        });
        let Some((trial, there)) = moved else { break };
        (x, value) = (trial, there);
    }
    x
}

/// Solves H s = -gradient until the scaled squared residual has fallen by the factor, by conjugate gradients scaled by H's diagonal.
fn newton_step<F: Real>(target: &mut Target<'_, F>, gradient: &[f64], factor: f64) -> Vec<f64> {
    let diagonal = target.diagonal();
    let scaled = |r: &[f64]| -> Vec<f64> { r.iter().zip(&diagonal).map(|(r, d)| r / d).collect() };
    let mut step = vec![0.0; gradient.len()];
    let mut residual: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut z = scaled(&residual);
    let mut direction = z.clone();
    let mut product = vec![0.0; gradient.len()];
    let mut rz = dot(&residual, &z);
    let enough = factor * rz;
    for _ in 0..CG_STEPS {
        if rz.is_nan() || rz <= enough {
            break;
        }
        target.hessian_times(&direction, &mut product);
        let bend = dot(&direction, &product);
        if !(bend > 0.0 && bend.is_finite()) {
            break;
        }
        add(&mut step, rz / bend, &direction);
        add(&mut residual, -rz / bend, &product);
        z = scaled(&residual);
        let next = dot(&residual, &z);
        direction.iter_mut().zip(&z).for_each(|(d, z)| *d = z + next / rz * *d);
        rz = next;
    }
    step
}

/// Lanczos: the largest eigenvalue of the tridiagonal matrix tends to that of the Hessian, from below.
fn largest_eigenvalue<F: Real>(target: &mut Target<'_, F>, d: usize) -> f64 {
    // A start with a part in every direction, whatever the eigenvectors.
    let mut v: Vec<f64> = (0..d).map(|i| 1.0 + (i as f64 * LOG2_E).fract()).collect();
    let norm = dot(&v, &v).sqrt();
    v.iter_mut().for_each(|v| *v /= norm);
    let mut before = vec![0.0; d];
    let mut product = vec![0.0; d];
    let (mut alphas, mut betas) = (Vec::new(), Vec::<f64>::new());
    let mut largest = 0.0;
    for _ in 0..LANCZOS_STEPS.min(2 * d) {
        target.hessian_times(&v, &mut product);
        let alpha = dot(&v, &product);
        alphas.push(alpha);
        add(&mut product, -alpha, &v);
        add(&mut product, -betas.last().copied().unwrap_or(0.0), &before);
        let last = std::mem::replace(&mut largest, largest_tridiagonal(&alphas, &betas));
        let beta = dot(&product, &product).sqrt();
        let settled = alphas.len() > 2 && largest - last <= 1e-9 * largest;
        if settled || beta.is_nan() || beta <= 1e-12 * largest {
            break;
        }
        before.copy_from_slice(&v);
        v.iter_mut().zip(&product).for_each(|(v, p)| *v = p / beta);
        betas.push(beta);
    }
    largest
}

/// The largest eigenvalue of a symmetric tridiagonal matrix, by bisection on the signs of its pivots.
fn largest_tridiagonal(alphas: &[f64], betas: &[f64]) -> f64 {
    let beta = |i: Option<usize>| i.and_then(|i| betas.get(i)).map_or(0.0, |b| b.abs());
    let disc = |i: usize| beta(i.checked_sub(1)) + beta((i + 1 < alphas.len()).then_some(i));
    let bound = |sign: f64| (0..alphas.len()).map(move |i| sign * alphas[i] + disc(i));
    let mut high = bound(1.0).fold(f64::NEG_INFINITY, f64::max);
    let mut low = -bound(-1.0).fold(f64::NEG_INFINITY, f64::max);
    // Whether every eigenvalue is below.
    let all_below = |value: f64| {
        let mut pivot = 1.0;
        (0..alphas.len()).all(|i| {
            let b = beta(i.checked_sub(1));
            pivot = alphas[i] - value - if i == 0 { 0.0 } else { b * b / pivot };
            pivot < 0.0
        })
    };
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if all_below(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(t, o)| *t += factor * o);
}
