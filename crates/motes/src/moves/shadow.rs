//! A shadow MALA step: what an accept-reject step would have said of the step size, without moving anything.

use super::per_particle::{BlockStep, Trouble, propose};
use super::{Blocks, Worker};
use crate::noise::{Noise, Purpose};
use crate::{At, Model, Real, State};

/// The cloud's first particles are enough for a mean.
const MOST: usize = 1000;

/// The mean acceptance probability of one MALA step of size h on the state's cloud; `None` without a log density.
pub fn shadow_acceptance<F: Real>(model: &dyn Model<F>, state: &State<F>, seed: u64, h: f64) -> Option<f64> {
    let (log_density, d) = (model.log_density()?, model.d_x());
    let n = state.cloud.n().min(MOST);
    if n == 0 {
        return None;
    }
    let noise = Noise::new(seed, Purpose::Shadow);
    let blocks = Blocks::new(model, n);
    let mut worker = Worker::new(model, blocks.rows, true);
    let mut sum = 0.0;
    for (b, x) in state.cloud.as_slice()[..n * d].chunks(blocks.rows * d).enumerate() {
        let at = At { theta: &state.theta, x, batch: None, parallel: true };
        let grad = &mut worker.grad[..x.len()];
        model.gradients(at, &mut worker.grad_theta, grad, &mut worker.scratch).ok()?;
        let first = b * blocks.rows;
        let here = BlockStep { theta: &state.theta, k: state.k, h, batch: None, first, parallel: true };
        match propose(model, log_density, &noise, &here, x, &mut worker) {
            Ok(()) => sum += worker.log_ratio[..x.len() / d].iter().map(|l| l.min(0.0).exp()).sum::<f64>(),
            Err(Trouble::OutOfRange(_)) => {} // never accepted
            Err(Trouble::Model(_)) => return None,
        }
    }
    Some(sum / n as f64)
}
