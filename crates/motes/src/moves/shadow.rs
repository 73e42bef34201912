//! A shadow MALA step: what an accept-reject step would have said of the step size, without moving anything.

use super::langevin::{BlockStep, Trouble, propose};
use crate::noise::{Noise, Purpose};
use crate::step::{Blocks, Worker};
use crate::{At, Model, Real, State, Want};

/// The cloud's first particles are enough for a mean.
const MOST: usize = 1000;

/// Mean acceptance probabilities of one MALA step on a cloud.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shadow {
    /// Of the step itself.
    pub forth: f64,
    /// Of its reversal. In equilibrium both are equal; a cloud that is too wide accepts any step inwards, and none back.
    pub back: f64,
}

/// What one MALA step of size h on the state's cloud would accept; `None` without a log density, or where it is NaN.
pub fn shadow_acceptance<F: Real>(
    model: &dyn Model<F>,
    state: &State<F>,
    seed: u64,
    h: f64,
) -> Option<Shadow> {
    let d = model.d_x();
    let n = state.cloud.n().min(MOST);
    if n == 0 || !model.gives().log_density {
        return None;
    }
    let noise = Noise::new(seed, Purpose::Shadow);
    let blocks = Blocks::new(model, n);
    let mut worker = Worker::new(model, blocks.rows, true);
    let mut shadow = Shadow { forth: 0.0, back: 0.0 };
    for (b, x) in state.cloud.as_slice()[..n * d].chunks(blocks.rows * d).enumerate() {
        let at = At { theta: &state.theta, x, batch: None, parallel: true };
        let Worker { grad, scratch, log_density, .. } = &mut worker;
        let want = Want {
            grad_x: Some(&mut grad[..x.len()]),
            log_density: Some(&mut log_density[..x.len() / d]),
            ..Want::nothing(scratch)
        };
        model.evaluate(at, want).ok()?;
        let first = b * blocks.rows;
        let here = BlockStep { theta: &state.theta, k: state.k, h, batch: None, first, parallel: true };
        match propose(model, &noise, &here, x, &mut worker) {
            Ok(()) => {
                // NaN, as between two log densities of -inf, is never accepted.
                let chance = |log_ratio: f64| if log_ratio.is_nan() { 0.0 } else { log_ratio.min(0.0).exp() };
                for log_ratio in &worker.log_ratio[..x.len() / d] {
                    shadow.forth += chance(*log_ratio) / n as f64;
                    shadow.back += chance(-log_ratio) / n as f64;
                }
            }
            Err(Trouble::OutOfRange(_)) => {} // never accepted
            Err(Trouble::Model(_) | Trouble::Density) => return None,
        }
    }
    Some(shadow)
}
