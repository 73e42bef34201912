//! A shadow MALA step: what an accept-reject step would have said of the step size, without moving anything.

use super::langevin::{Here, Trouble, propose};
use crate::kit::Worker;
use crate::noise::{Noise, Purpose};
use crate::rows::{Blocks, Numbers};
use crate::{Model, Real, State, Stop, Want};

/// So many rows are enough for a mean, ...
const MOST: usize = 1000;
/// ... and those of fewer groups where evaluating them would take longer than this.
const NANOSECONDS: f64 = 5e7;

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
    let most = MOST.min((NANOSECONDS / model.nanoseconds_per_row()) as usize).max(1);
    let (d, n) = (model.d_x(), state.cloud.n().min(MOST));
    if n == 0 || !model.gives().log_density {
        return None;
    }
    // As many groups as are enough, evenly spread; their particles in blocks.
    let groups = state.cloud.groups();
    let chosen: Vec<u32> = (0..groups as u32).step_by(groups.div_ceil((most / n).max(1))).collect();
    let noise = Noise::new(seed, Purpose::Shadow);
    let blocks = Blocks::new(model, 1, n);
    let mut worker = Worker::new(model, blocks.rows, true);
    let mut shadow = Shadow { forth: 0.0, back: 0.0 };
    let share = 1.0 / (n * chosen.len()) as f64;
    for group in chosen.chunks(1) {
        let rows = &state.cloud.group(group[0] as usize)[..n * d];
        for (b, x) in rows.chunks(blocks.rows * d).enumerate() {
            let here = Here {
                theta: &state.theta,
                buffers: &state.buffers,
                terms: None,
                step: state.k,
                h,
                numbers: Numbers { groups: group, first: b * blocks.rows, most: n, together: true },
                parallel: true,
                stop: Stop::default(),
            };
            let Worker { grad, scratch, log_density, .. } = &mut worker;
            let want = Want {
                grad_x: Some(&mut grad[..x.len()]),
                log_density: Some(&mut log_density[..x.len() / d]),
                ..Want::nothing(scratch)
            };
            model.evaluate(here.at(x), want).ok()?;
            match propose(model, &noise, &here, x, &mut worker) {
                Ok(()) => {
                    // NaN, as between two log densities of -inf, is never accepted.
                    let chance =
                        |log_ratio: f64| if log_ratio.is_nan() { 0.0 } else { libm::exp(log_ratio.min(0.0)) };
                    for log_ratio in &worker.log_ratio[..x.len() / d] {
                        shadow.forth += chance(*log_ratio) * share;
                        shadow.back += chance(-log_ratio) * share;
                    }
                }
                Err(Trouble::OutOfRange(_)) => {} // never accepted
                Err(Trouble::Model(_) | Trouble::Density) => return None,
            }
        }
    }
    Some(shadow)
}
