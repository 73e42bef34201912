//! The toy hierarchical model of Ex. 1: x_d ~ N(theta, 1), y_d ~ N(x_d, 1). All that matters is known in closed form.

mod entry;

use motes::model::{Draws, ExactEm, MStep};
use motes::noise::{Noise, Purpose};
use motes::simd::{dispatch, sum_lanes};
use motes::{At, Gives, Model, ModelError, Real, Want};

pub use entry::Entry;

/// Clouds with fewer coordinates are walked several rows at a time, beside as many copies of y.
const NARROW: usize = 4096;
/// That many numbers of y or more there are in all copies, which most small clouds fit beside at once.
const COPIED: usize = 256;
/// Enough additions at once to hide how long each takes.
const LANES: usize = 16;

/// D_x latent variables, each observed once.
#[derive(Clone, Debug)]
pub struct Hierarchical<F> {
    d: usize,
    /// y; in copies whose length is a multiple of [`LANES`], if it is short.
    y: Vec<F>,
    y_mean: f64,
    terms: [f64; 1],
    /// Whether each latent variable is a group of its own.
    grouped: bool,
}

impl<F: Real> Hierarchical<F> {
    /// The model for observations y, of which there must be at least one, with all latent variables in one group.
    pub fn new(y: &[f64]) -> Self {
        assert!(!y.is_empty(), "the hierarchical model needs at least one observation");
        let to_whole_lanes = LANES >> y.len().trailing_zeros().min(LANES.trailing_zeros());
        let copies =
            if y.len() < NARROW { to_whole_lanes * COPIED.div_ceil(y.len() * to_whole_lanes) } else { 1 };
        Hierarchical {
            d: y.len(),
            y: std::iter::repeat_n(y, copies).flatten().map(|v| F::of(*v)).collect(),
            y_mean: y.iter().sum::<f64>() / y.len() as f64,
            terms: [y.len() as f64],
            grouped: false,
        }
    }

    /// The same model with each latent variable as a group of its own: they are independent given theta.
    pub fn grouped(y: &[f64]) -> Self {
        Hierarchical { grouped: true, ..Self::new(y) }
    }

    /// Draws y from the model at the given theta, as App. E.1 does.
    pub fn generate(d: usize, theta: f64, seed: u64) -> Vec<f64> {
        let noise = Noise::new(seed, Purpose::Data);
        let mut x = vec![0.0; d];
        let mut y = vec![0.0; d];
        noise.normals_f64(0, 0, &mut x);
        noise.normals_f64(1, 0, &mut y);
        y.iter_mut().zip(x).for_each(|(y, x)| *y += theta + x);
        y
    }

    /// theta_*, the maximiser of the marginal likelihood (eq. 51).
    pub fn theta_star(&self) -> f64 {
        self.y_mean
    }

    fn y(&self) -> &[F] {
        &self.y[..self.d]
    }
}

impl<F: Real> Model<F> for Hierarchical<F> {
    fn name(&self) -> &str {
        "hierarchical"
    }

    fn d_theta(&self) -> usize {
        1
    }

    fn d_x(&self) -> usize {
        if self.grouped { 1 } else { self.d }
    }

    fn groups(&self) -> usize {
        if self.grouped { self.d } else { 1 }
    }

    fn nanoseconds_per_row(&self) -> f64 {
        1.5 * self.d_x() as f64
    }

    /// Eq. hiergradients.
    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        if self.grouped {
            return self.evaluate_groups(at, want);
        }
        let (theta, rows) = (at.theta[0], at.x.chunks_exact(self.d));
        let sum_of_x = match want.grad_x {
            Some(grad_x) => gradients(at.x, &self.y, F::of(theta), grad_x),
            None if want.grad_theta.is_some() => sum(at.x, self.y.len()),
            None => 0.0,
        };
        if let Some(grad_theta) = want.grad_theta {
            grad_theta[0] = sum_of_x - at.x.len() as f64 * theta;
        }
        if let Some(scores) = want.scores {
            for (x, score) in rows.clone().zip(scores) {
                *score = sum(x, self.y.len()) - self.d as f64 * theta;
            }
        }
        if let Some(hessian) = want.hessian {
            hessian[0] = -(at.x.len() as f64); // -D_x for each particle
        }
        if let Some(log_density) = want.log_density {
            for (x, out) in rows.zip(log_density) {
                let terms = x.iter().zip(self.y()).map(|(x, y)| {
                    let (prior, error) = (x.f64() - theta, y.f64() - x.f64());
                    prior * prior + error * error
                });
                *out = -0.5 * terms.sum::<f64>();
            }
        }
        Ok(())
    }

    fn gives(&self) -> Gives {
        Gives::ALL
    }

    /// Two Gaussians of variance 1 for each latent variable.
    fn left_out(&self) -> Option<f64> {
        Some(-(self.d as f64) * libm::log(std::f64::consts::TAU))
    }

    fn default_step_size(&self) -> f64 {
        0.02
    }

    fn curvature(&self) -> Option<f64> {
        Some(2.0)
    }

    fn theta_terms(&self) -> Option<&[f64]> {
        Some(&self.terms)
    }

    fn m_step(&self) -> Option<&dyn MStep<F>> {
        Some(self)
    }

    fn exact_em(&self) -> Option<&dyn ExactEm> {
        Some(self)
    }

    fn prior(&self) -> Option<&dyn Draws<F>> {
        Some(self)
    }
}

impl<F: Real> Hierarchical<F> {
    /// Eq. hiergradients, group by group.
    fn evaluate_groups(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        let theta = at.theta[0];
        let mut sum_of_x = 0.0;
        match want.grad_x {
            Some(grad_x) => {
                sum_of_x = gradients_of_groups(at.x, at.groups, self.y(), F::of(theta), grad_x);
            }
            None if want.grad_theta.is_some() => {
                sum_of_x = at.by_group().map(|(_, x)| sum(x, x.len())).sum();
            }
            None => {}
        }
        if let Some(grad_theta) = want.grad_theta {
            grad_theta[0] = sum_of_x - at.x.len() as f64 * theta;
        }
        if let Some(scores) = want.scores {
            scores.iter_mut().zip(at.x).for_each(|(score, x)| *score = x.f64() - theta);
        }
        if let Some(hessian) = want.hessian {
            hessian[0] = -(at.x.len() as f64);
        }
        if let Some(log_density) = want.log_density {
            log_densities_of_groups(at.x, at.groups, self.y(), theta, log_density);
        }
        Ok(())
    }
}

impl<F: Real> MStep<F> for Hierarchical<F> {
    fn statistics_len(&self) -> usize {
        1
    }

    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError> {
        out[0] = sum(at.x, at.x.len());
        Ok(())
    }

    /// Eq. hierthetaopt: the mean of all coordinates of all particles.
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        theta[0] = mean[0] / self.d as f64;
        Ok(())
    }
}

impl<F: Real> ExactEm for Hierarchical<F> {
    fn em_step(&self, theta: &mut [f64]) {
        theta[0] = 0.5 * (self.y_mean + theta[0]);
    }

    fn posterior(&self, theta: &[f64], mean: &mut [f64], variance: &mut [f64]) {
        for (m, y) in mean.iter_mut().zip(self.y()) {
            *m = 0.5 * (y.f64() + theta[0]);
        }
        variance.fill(0.5);
    }
}

impl<F: Real> Draws<F> for Hierarchical<F> {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], x: &mut [F]) {
        x.iter_mut().for_each(|x| *x += F::of(theta[0]));
    }
}

dispatch! {
    /// Writes y + theta - 2x and returns the sum of x.
    fn gradients<F: Real>(x: &[F], y: &[F], theta: F, grad: &mut [F]) -> f64 = gradients_kernel
}

#[inline(always)]
fn gradients_kernel<F: Real, const FMA: bool>(x: &[F], y: &[F], theta: F, grad: &mut [F]) -> f64 {
    // What does not fill the lanes has lanes of its own: lanes of varying number would not stay in registers.
    let (mut sums, mut fours, mut ones) = ([0.0; LANES], [0.0; 4], [0.0]);
    let mut from = 0;
    while from < x.len() {
        let here = from..x.len().min(from + y.len());
        from = here.end;
        let rest = (&x[here.clone()], &y[..here.len()], &mut grad[here]);
        let rest = gradients_of_chunks(rest, theta, &mut sums);
        let rest = gradients_of_chunks(rest, theta, &mut fours);
        gradients_of_chunks(rest, theta, &mut ones);
    }
    total(x.len(), sums, fours, ones[0])
}

/// Adds up the lanes of so many numbers, which may be few and many times: lanes that nothing was added to are left out.
#[inline(always)]
fn total(len: usize, sums: [f64; LANES], fours: [f64; 4], one: f64) -> f64 {
    let many = if len < LANES { 0.0 } else { total_of_many(sums) };
    many + sum_lanes(fours) + one
}

/// Apart, because the compiler would otherwise keep the lanes in pairs, as the last of these additions want them, and not in
/// fours.
#[inline(never)]
fn total_of_many(sums: [f64; LANES]) -> f64 {
    sum_lanes(sums)
}

/// The gradients and sums of all whole chunks; returns the rest.
#[inline(always)]
fn gradients_of_chunks<'a, F: Real, const N: usize>(
    (x, y, grad): (&'a [F], &'a [F], &'a mut [F]),
    theta: F,
    sums: &mut [f64; N],
) -> (&'a [F], &'a [F], &'a mut [F]) {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<N>(), y.as_chunks::<N>());
    let (grad, grad_rest) = grad.as_chunks_mut::<N>();
    for ((x, y), grad) in x.iter().zip(y).zip(grad) {
        for j in 0..N {
            grad[j] = y[j] + theta - (x[j] + x[j]);
            sums[j] += x[j].f64();
        }
    }
    (x_rest, y_rest, grad_rest)
}

dispatch! {
    /// Writes y + theta - 2x for rows of one coordinate, group after group, and returns the sum of what [`sum`] gives for each
    /// group. All in one call: a group may have a few numbers.
    fn gradients_of_groups<F: Real>(x: &[F], groups: &[u32], y: &[F], theta: F, grad: &mut [F]) -> f64
        = gradients_of_groups_kernel
}

#[inline(always)]
fn gradients_of_groups_kernel<F: Real, const FMA: bool>(
    x: &[F],
    groups: &[u32],
    y: &[F],
    theta: F,
    grad: &mut [F],
) -> f64 {
    let each = (x.len() / groups.len().max(1)).max(1);
    let mut sum_of_x = 0.0;
    for ((g, x), grad) in groups.iter().zip(x.chunks_exact(each)).zip(grad.chunks_exact_mut(each)) {
        let shared = y[*g as usize] + theta;
        let (mut sums, mut fours, mut ones) = ([0.0; LANES], [0.0; 4], [0.0]);
        let rest = gradients_beside_one((x, grad), shared, &mut sums);
        let rest = gradients_beside_one(rest, shared, &mut fours);
        gradients_beside_one(rest, shared, &mut ones);
        sum_of_x += total(each, sums, fours, ones[0]);
    }
    sum_of_x
}

/// As [`gradients_of_chunks`], for one y + theta.
#[inline(always)]
fn gradients_beside_one<'a, F: Real, const N: usize>(
    (x, grad): (&'a [F], &'a mut [F]),
    shared: F,
    sums: &mut [f64; N],
) -> (&'a [F], &'a mut [F]) {
    let ((x, x_rest), (grad, grad_rest)) = (x.as_chunks::<N>(), grad.as_chunks_mut::<N>());
    for (x, grad) in x.iter().zip(grad) {
        for j in 0..N {
            grad[j] = shared - (x[j] + x[j]);
            sums[j] += x[j].f64();
        }
    }
    (x_rest, grad_rest)
}

dispatch! {
    /// Writes the log density of each row of one coordinate, group after group.
    fn log_densities_of_groups<F: Real>(x: &[F], groups: &[u32], y: &[F], theta: f64, out: &mut [f64])
        = log_densities_of_groups_kernel
}

#[inline(always)]
fn log_densities_of_groups_kernel<F: Real, const FMA: bool>(
    x: &[F],
    groups: &[u32],
    y: &[F],
    theta: f64,
    out: &mut [f64],
) {
    let each = (x.len() / groups.len().max(1)).max(1);
    for ((g, x), out) in groups.iter().zip(x.chunks_exact(each)).zip(out.chunks_exact_mut(each)) {
        let y = y[*g as usize].f64();
        for (x, out) in x.iter().zip(out) {
            let (prior, error) = (x.f64() - theta, y - x.f64());
            *out = -0.5 * (prior * prior + error * error);
        }
    }
}

dispatch! {
    /// The sum of x, chunk by chunk: with the chunks of [`gradients`] it has the same bits.
    fn sum<F: Real>(x: &[F], chunk: usize) -> f64 = sum_kernel
}

#[inline(always)]
fn sum_kernel<F: Real, const FMA: bool>(x: &[F], chunk: usize) -> f64 {
    let (mut sums, mut fours, mut ones) = ([0.0; LANES], [0.0; 4], [0.0]);
    for x in x.chunks(chunk.max(1)) {
        let rest = sum_of_chunks(x, &mut sums);
        let rest = sum_of_chunks(rest, &mut fours);
        sum_of_chunks(rest, &mut ones);
    }
    total(x.len(), sums, fours, ones[0])
}

#[inline(always)]
fn sum_of_chunks<'a, F: Real, const N: usize>(x: &'a [F], sums: &mut [f64; N]) -> &'a [F] {
    let (x, rest) = x.as_chunks::<N>();
    for x in x {
        for j in 0..N {
            sums[j] += x[j].f64();
        }
    }
    rest
}
