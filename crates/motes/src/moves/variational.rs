//! The move of mean-field variational inference: a product Gaussian takes a gradient step, its draws are the cloud.

use super::per_particle::Trouble;
use super::{Blocks, Moves, Stepper, diverged};
use crate::algorithms::Order;
use crate::blocks::for_each2;
use crate::noise::Noise;
use crate::{At, Error, Real, State};

/// Coordinates that one block of the column sums covers.
const TILE: usize = 512;

impl<F: Real> Stepper<'_, F> {
    /// Draws x^n = mu + sigma eps^n, then moves (mu, s) by the gradients of the free energy of App. blr, with
    /// sigma^2 = softplus(s), and theta by its rule, all from (theta_k, mu_k, s_k).
    pub(super) fn variational_step(&mut self, state: &mut State<F>, h: f64) -> Result<Moves, Error> {
        let (n, k, d) = (state.cloud.n(), state.k, self.kit.model.d_x());
        let kit = &self.kit;
        let blocks = Blocks::new(kit.model, n);
        let (mu, s) = state.variational.split_at_mut(d);
        let grads = &mut self.proposal[..n * d];
        draw(&kit.noise, k, mu, s, state.cloud.as_mut_slice());
        let (x, theta, batch) =
            (state.cloud.as_slice(), &state.theta, self.batches.as_ref().map(|b| b.current()));
        let slots = (&mut self.slots[..blocks.count * kit.width], kit.width);
        for_each2(blocks.parallel, (&mut *grads, blocks.rows * d), slots, |b, grad, slot| {
            let rows = blocks.range(b, n);
            let at = At { theta, x: &x[rows.start * d..rows.end * d], batch, parallel: blocks.count == 1 };
            let worker = &mut *kit.workers.get();
            kit.model.gradients(at, &mut worker.grad_theta, grad, &mut worker.scratch)?;
            let sums = &mut slot[..kit.rule.sums_len(kit.model)];
            debug_assert_eq!(kit.order, Order::Together);
            kit.rule.collect(kit.model, at, &worker.grad_theta, sums, &mut worker.scratch)
        })
        .map_err(|e| Trouble::Model(e).at(k, h))?;

        let parallel = blocks.parallel && d > TILE;
        let tiles = ((&mut *mu, TILE), (&mut *s, TILE));
        let moved = for_each2(parallel, tiles.0, tiles.1, |tile, mu, s| {
            for (j, (mu, s)) in mu.iter_mut().zip(s).enumerate() {
                let column = tile * TILE + j;
                let sigma = softplus(*s).sqrt();
                let (mut to_mu, mut to_sigma) = (0.0, 0.0);
                for (x, g) in x.iter().zip(&*grads).skip(column).step_by(d) {
                    to_mu += g.f64();
                    to_sigma += g.f64() * (x.f64() - *mu) / sigma;
                }
                let slope = 1.0 / (1.0 + (-*s).exp()); // of softplus
                *mu += h * to_mu / n as f64;
                *s += h * slope * (0.5 / (sigma * sigma) + to_sigma / n as f64 / (2.0 * sigma));
                if !(mu.abs() <= F::LIMIT && s.abs() <= F::LIMIT && softplus(*s) > 0.0) {
                    return Err(mu.abs().max(s.abs()));
                }
            }
            Ok(())
        });
        moved.map_err(|norm| diverged(k, "|(mu, s)|", norm, h))?;
        self.update_theta(state, h)?;
        Ok(Moves::default())
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
