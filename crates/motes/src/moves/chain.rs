//! SOUL's move: one particle N times in a row, its path becoming the cloud.

use super::per_particle::Trouble;
use super::{Moves, Stepper};
use crate::{At, Error, Real, State};

impl<F: Real> Stepper<'_, F> {
    /// N Langevin moves at theta_k from the last state of the previous chain (eq. SOUL), then theta from the chain.
    ///
    /// The gradients at state n serve both its contribution to theta and the move to state n + 1.
    pub(super) fn chain_step(&mut self, state: &mut State<F>, h: f64) -> Result<Moves, Error> {
        let (k, kit, d) = (state.k, &self.kit, self.kit.model.d_x());
        let n = state.cloud.n();
        let sums = &mut self.slots[..kit.model.d_theta()];
        sums.fill(0.0);
        let mut borrowed = kit.workers.get();
        let worker = &mut *borrowed;
        let batch = self.batches.as_ref().map(|b| b.current());
        let rows = state.cloud.as_mut_slice();
        let mut chain = || -> Result<(), Trouble> {
            for i in 0..=n {
                let x = &rows[(i + n - 1) % n * d..][..d];
                let at = At { theta: &state.theta, x, batch, parallel: true };
                let grad = &mut worker.grad[..d];
                kit.model.gradients(at, &mut worker.grad_theta, grad, &mut worker.scratch)?;
                if i > 0 {
                    sums.iter_mut().zip(&worker.grad_theta).for_each(|(s, g)| *s += g);
                }
                if i < n {
                    let from = (i + n - 1) % n * d;
                    rows.copy_within(from..from + d, i * d);
                    let x = &mut rows[i * d..(i + 1) * d];
                    if !F::langevin(&kit.noise, k, (i * d) as u64, x, grad, h) {
                        return Err(Trouble::out_of_range(x));
                    }
                }
            }
            Ok(())
        };
        chain().map_err(|trouble| trouble.at(k, h))?;
        // The rule expects a slot per block; the chain's sums stand in the first.
        let used = kit.blocks.count * kit.width;
        self.slots[kit.model.d_theta()..used].fill(0.0);
        drop(borrowed);
        self.update_theta(state, h)?;
        Ok(Moves::default())
    }
}
