//! SOUL's move: one particle N times in a row, its path becoming the cloud.

use super::Moves;
use super::langevin::Trouble;
use crate::algorithms::Collect;
use crate::step::{Stepper, Worker};
use crate::{At, Error, Real, State, Want};

impl<F: Real> Stepper<'_, F> {
    /// N Langevin moves at theta_k from the last state of the previous chain (eq. SOUL).
    ///
    /// What is evaluated at state n serves both its contribution to theta and the move to state n + 1.
    pub(crate) fn chain_step(&mut self, state: &mut State<F>, h: f64) -> Result<Moves, Error> {
        let (k, kit, d) = (state.k, &self.kit, self.kit.model.d_x());
        let n = state.cloud.n();
        let collects = kit.composition.collect() == Collect::After;
        let batch = self.batches.as_ref().map(|b| b.current());
        let rows = state.cloud.as_mut_slice();
        // The rule expects a slot per block; the chain's sums stand in the first, and one state's in the last.
        let (used, len) = (kit.blocks.count * kit.width, kit.sums_len);
        let (slots, of_state) = self.slots[..used + kit.width].split_at_mut(used);
        if collects {
            slots.fill(0.0);
        }
        let worker = &mut *kit.workers.get();
        let mut chain = || -> Result<(), Trouble> {
            for i in 0..=n {
                let x = &rows[(i + n - 1) % n * d..][..d];
                let at = At { theta: &state.theta, x, batch, parallel: true };
                let Worker { grad, scratch, .. } = &mut *worker;
                let grad_x = (i < n).then_some(&mut grad[..d]);
                let sums = (i > 0 && collects).then_some(&mut of_state[..len]);
                kit.ask(at, Want { grad_x, ..Want::nothing(scratch) }, sums)?;
                if i > 0 && collects {
                    slots.iter_mut().zip(&of_state[..len]).for_each(|(s, g)| *s += g);
                }
                if i < n {
                    let from = (i + n - 1) % n * d;
                    rows.copy_within(from..from + d, i * d);
                    let x = &mut rows[i * d..(i + 1) * d];
                    if !F::langevin(&kit.noise, k, (i * d) as u64, x, &grad[..d], h) {
                        return Err(Trouble::out_of_range(x));
                    }
                }
            }
            Ok(())
        };
        chain().map_err(|trouble| trouble.at(k, h))?;
        Ok(Moves::default())
    }
}
