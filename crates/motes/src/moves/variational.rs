//! The move of mean-field variational inference: a product Gaussian takes a gradient step, its draws are the cloud.

use super::Moves;
use super::langevin::Trouble;
use crate::algorithms::{VARIATIONAL, VARIATIONAL_ADAM};
use crate::blocks::for_each2;
use crate::noise::Noise;
use crate::rules::precondition;
use crate::settings::Preconditioner;
use crate::state::recall;
use crate::step::{Stepper, Worker, diverged, max_abs};
use crate::{At, Error, Real, State, Want};

/// Coordinates that one block of the column sums covers.
const TILE: usize = 512;

impl<F: Real> Stepper<'_, F> {
    /// Draws x^n = mu + sigma eps^n, then moves (mu, s) by the gradients of the free energy of App. blr, with
    /// sigma^2 = softplus(s), and collects what moves theta at the same draws, all from (theta_k, mu_k, s_k).
    pub(crate) fn variational_step(&mut self, state: &mut State<F>, h: f64) -> Result<Moves, Error> {
        let (n, k, d) = (state.cloud.n(), state.k, self.kit.model.d_x());
        let kit = &self.kit;
        let blocks = kit.blocks;
        let State { theta, cloud, memory, .. } = state;
        let [gaussian, adam] = recall(memory, [VARIATIONAL, VARIATIONAL_ADAM]);
        let (mu, s) = gaussian.split_at_mut(d);
        let grads = &mut self.proposal[..n * d];
        draw(&kit.noise, k, mu, s, cloud.as_mut_slice());
        let (x, theta, batch) = (cloud.as_slice(), &*theta, self.batches.as_ref().map(|b| b.current()));
        let slots = (&mut self.slots[..blocks.count * kit.width], kit.width);
        for_each2(blocks.parallel, (&mut *grads, blocks.rows * d), slots, |b, grad, slot| {
            let rows = blocks.range(b);
            let at = At { theta, x: &x[rows.start * d..rows.end * d], batch, parallel: blocks.count == 1 };
            let Worker { scratch, .. } = &mut *kit.workers.get();
            let want = Want { grad_x: Some(grad), ..Want::nothing(scratch) };
            kit.ask(at, want, Some(&mut slot[..kit.sums_len]))
        })
        .map_err(|e| Trouble::Model(e).at(k, h))?;

        // The columns' mean gradients first, then a step: plain, or by Adam.
        let (to_mu, to_s) = self.directions.split_at_mut(d);
        let (mu_now, s_now) = (&*mu, &*s);
        let parallel = blocks.parallel && d > TILE;
        let Ok(()) = for_each2(parallel, (&mut *to_mu, TILE), (&mut *to_s, TILE), |tile, to_mu, to_s| {
            let first = tile * TILE;
            let columns = first..first + to_mu.len();
            column_gradients(x, grads, d, &mu_now[columns.clone()], &s_now[columns], first, to_mu, to_s);
            Ok::<_, std::convert::Infallible>(())
        });
        if !adam.is_empty() {
            precondition(Preconditioner::Adam, None, k, &mut self.directions, adam);
        }
        for (value, direction) in gaussian.iter_mut().zip(&self.directions) {
            *value += h * direction;
        }
        let norm = max_abs(gaussian);
        if norm.is_nan() || norm > F::LIMIT || gaussian[d..].iter().any(|s| softplus(*s) <= 0.0) {
            return Err(diverged(k, "|(mu, s)|", norm, h));
        }
        Ok(Moves::default())
    }
}

/// The mean gradients of the free energy's negative with respect to mu and s, for some columns.
#[allow(clippy::too_many_arguments)]
fn column_gradients<F: Real>(
    x: &[F],
    grads: &[F],
    d: usize,
    mu: &[f64],
    s: &[f64],
    first: usize,
    to_mu: &mut [f64],
    to_s: &mut [f64],
) {
    let width = mu.len();
    let n = (x.len() / d) as f64;
    to_mu.fill(0.0);
    to_s.fill(0.0);
    for (x, g) in x.chunks_exact(d).zip(grads.chunks_exact(d)) {
        let (x, g) = (&x[first..first + width], &g[first..first + width]);
        for j in 0..width {
            to_mu[j] += g[j].f64();
            to_s[j] += g[j].f64() * (x[j].f64() - mu[j]);
        }
    }
    for j in 0..width {
        // With eps = (x - mu) / sigma: d sigma / d s = slope / (2 sigma), and the entropy adds slope / (2 sigma^2).
        let variance = softplus(s[j]);
        let slope = 1.0 / (1.0 + (-s[j]).exp());
        to_mu[j] /= n;
        to_s[j] = slope * (0.5 / variance + to_s[j] / n / (2.0 * variance));
    }
}

/// Fills x with draws of the product Gaussian.
pub(crate) fn draw<F: Real>(noise: &Noise, step: u64, mu: &[f64], s: &[f64], x: &mut [F]) {
    let d = mu.len();
    F::normals(noise, step, 0, x);
    for row in x.chunks_exact_mut(d) {
        for ((x, mu), s) in row.iter_mut().zip(mu).zip(s) {
            *x = F::of(mu + softplus(*s).sqrt() * x.f64());
        }
    }
}

/// log(1 + e^s), without overflow.
pub(crate) fn softplus(s: f64) -> f64 {
    s.max(0.0) + (-s.abs()).exp().ln_1p()
}
