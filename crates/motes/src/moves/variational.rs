//! The move of mean-field variational inference: a product Gaussian takes a gradient step, its draws are the cloud.

use super::langevin::Trouble;
use crate::algorithms::{VARIATIONAL, VARIATIONAL_ADAM};
use crate::blocks::for_each2;
use crate::kit::{Field, Worker, diverged, max_abs};
use crate::noise::Noise;
use crate::ranks::agree;
use crate::rules::adam_direction;
use crate::state::recall;
use crate::step::Stepper;
use crate::{At, Error, Real, Remembered, Want};

/// Coordinates that one block of the column sums covers.
const TILE: usize = 512;

impl<F: Real> Stepper<'_, F> {
    /// Draws x^n = mu + sigma eps^n, then moves (mu, s) by the gradients of the free energy of App. E.2, with
    /// sigma^2 = softplus(s), and collects what moves theta at the same draws, all from (theta_k, mu_k, s_k).
    pub(crate) fn variational_step(
        &mut self,
        field: Field<'_, F>,
        memory: &mut [Remembered],
        h: f64,
    ) -> Result<(), Error> {
        let (kit, d) = (&self.kit, self.kit.model.d_x());
        let Field { k, theta, buffers, groups, terms, x } = field;
        let (blocks, n) = (kit.blocks, kit.blocks.n);
        let [gaussian, adam] = recall(memory, [VARIATIONAL, VARIATIONAL_ADAM]);
        let (mu, s) = gaussian.split_at(gaussian.len() / 2);
        let grads = &mut self.proposal[..x.len()];
        for (b, x) in x.chunks_mut(blocks.rows * d).enumerate() {
            kit.numbers(b, groups).normals(&kit.noise, k, d, x);
        }
        for (x, g) in x.chunks_exact_mut(n * d).zip(groups) {
            let own = *g as usize * d..(*g as usize + 1) * d;
            spread(&mu[own.clone()], &s[own], x);
        }
        let x = &*x;
        let slots = (blocks.own_slots(&mut self.slots, kit.width), kit.width);
        let asked =
            for_each2(blocks.parallel, (blocks.own(grads, d), blocks.rows * d), slots, |b, grad, slot| {
                let b = blocks.own[0] + b;
                let rows = blocks.range(b);
                let at = At {
                    theta,
                    buffers,
                    groups: blocks.groups_of(b, groups).0,
                    x: &x[rows.start * d..rows.end * d],
                    terms,
                    parallel: blocks.count == 1,
                    stop: kit.stop,
                };
                let Worker { scratch, .. } = &mut *kit.workers.get();
                let want = Want { grad_x: Some(grad), ..Want::nothing(scratch) };
                kit.ask(at, want, Some(kit.summed(slot)))
            });
        agree(kit.ranks, asked).map_err(|e| Trouble::Model(e).at(k, h))?;
        blocks.gather(kit.ranks, grads, d);

        // The columns' mean gradients first, then a step: plain, or by Adam.
        let columns = groups.len() * d;
        let (to_mu, to_s) = self.directions[..2 * columns].split_at_mut(columns);
        let parallel = blocks.parallel && columns > TILE;
        let Ok(()) = for_each2(parallel, (&mut *to_mu, TILE), (&mut *to_s, TILE), |tile, to_mu, to_s| {
            // A tile may begin and end inside a group, or hold many.
            let (mut from, end) = (tile * TILE, tile * TILE + to_mu.len());
            while from < end {
                let (i, first) = (from / d, from % d);
                let width = (d - first).min(end - from);
                let here = from - tile * TILE..from - tile * TILE + width;
                let own = groups[i] as usize * d + first..groups[i] as usize * d + first + width;
                let rows = i * n * d..(i + 1) * n * d;
                let out = [&mut to_mu[here.clone()], &mut to_s[here]];
                column_gradients(&x[rows.clone()], &grads[rows], d, first, [&mu[own.clone()], &s[own]], out);
                from += width;
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let half = gaussian.len() / 2;
        for (i, g) in groups.iter().enumerate() {
            // One call for all groups where all of them move: Adam's memory is theirs in order.
            let (from, own, len) = match groups.len() * d == half {
                true if i > 0 => break,
                true => (0, 0, half),
                false => (i * d, *g as usize * d, d),
            };
            for (part, directions) in [&mut *to_mu, &mut *to_s].into_iter().enumerate() {
                let directions = &mut directions[from..from + len];
                if !adam.is_empty() {
                    let (first, second) = adam.split_at_mut(2 * half);
                    let own = part * half + own..part * half + own + len;
                    adam_direction(k, directions, &mut first[own.clone()], &mut second[own]);
                }
                let values = &mut gaussian[part * half + own..part * half + own + len];
                values.iter_mut().zip(&*directions).for_each(|(value, direction)| *value += h * direction);
            }
        }
        let norm = max_abs(gaussian);
        if norm.is_nan() || norm > F::LIMIT || gaussian[half..].iter().any(|s| softplus(*s) <= 0.0) {
            return Err(diverged(k, "|(mu, s)|", norm, h));
        }
        Ok(())
    }
}

/// The mean gradients of the free energy's negative with respect to mu and s, for some columns of a group's rows.
fn column_gradients<F: Real>(
    x: &[F],
    grads: &[F],
    d: usize,
    first: usize,
    [mu, s]: [&[f64]; 2],
    [to_mu, to_s]: [&mut [f64]; 2],
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
        let slope = 1.0 / (1.0 + libm::exp(-s[j]));
        to_mu[j] /= n;
        to_s[j] = slope * (0.5 / variance + to_s[j] / n / (2.0 * variance));
    }
}

/// Fills x with draws of the product Gaussian of one group.
pub(crate) fn draw<F: Real>(noise: &Noise, step: u64, mu: &[f64], s: &[f64], x: &mut [F]) {
    F::normals(noise, step, 0, x);
    spread(mu, s, x);
}

/// Turns rows of normals into draws of a product Gaussian.
fn spread<F: Real>(mu: &[f64], s: &[f64], x: &mut [F]) {
    for row in x.chunks_exact_mut(mu.len()) {
        for ((x, mu), s) in row.iter_mut().zip(mu).zip(s) {
            *x = F::of(mu + softplus(*s).sqrt() * x.f64());
        }
    }
}

/// log(1 + e^s), without overflow.
pub(crate) fn softplus(s: f64) -> f64 {
    s.max(0.0) + libm::log1p(libm::exp(-s.abs()))
}
