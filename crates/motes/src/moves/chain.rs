//! SOUL's move: one particle N times in a row, its path becoming the cloud.

use super::langevin::Trouble;
use crate::algorithms::Collect;
use crate::kit::{Field, Worker};
use crate::rows::Numbers;
use crate::step::Stepper;
use crate::{At, Error, Real, Want};

impl<F: Real> Stepper<'_, F> {
    /// N Langevin moves at theta_k from the last state of the previous chain (eq. 17), in each group.
    ///
    /// What is evaluated at state n serves both its contribution to theta and the move to state n + 1.
    pub(crate) fn chain_step(&mut self, field: Field<'_, F>, h: f64) -> Result<(), Error> {
        let (kit, d, n) = (&self.kit, self.kit.model.d_x(), self.kit.blocks.n);
        let Field { k, theta, buffers, groups, terms, x: rows } = field;
        let collects = kit.composition.collect() == Collect::After;
        // The rule expects a slot per block; the chain's sums stand in the first, and one state's in the last.
        let (used, len) = (kit.blocks.count * kit.width, kit.sums_len + kit.scalars_len);
        let (slots, of_state) = self.slots[..used + kit.width].split_at_mut(used);
        if collects {
            slots.fill(0.0);
        }
        let worker = &mut *kit.workers.get();
        let x = &mut self.chain[..groups.len() * d];
        for (x, rows) in x.chunks_exact_mut(d).zip(rows.chunks_exact(n * d)) {
            x.copy_from_slice(&rows[(n - 1) * d..]);
        }
        let mut chain = || -> Result<(), Trouble> {
            for i in 0..=n {
                let at = At { theta, buffers, groups, x, terms, parallel: true, stop: kit.stop };
                let Worker { grad, scratch, .. } = &mut *worker;
                let grad_x = (i < n).then_some(&mut grad[..x.len()]);
                let sums = (i > 0 && collects).then_some(&mut of_state[..len]);
                kit.ask(at, Want { grad_x, ..Want::nothing(scratch) }, sums)?;
                if i > 0 && collects {
                    slots.iter_mut().zip(&of_state[..len]).for_each(|(s, g)| *s += g);
                }
                if i < n {
                    let together = kit.most == 1 || groups.len() == 1;
                    let numbers = Numbers { groups, first: i, most: kit.most, together };
                    if !numbers.langevin(&kit.noise, (k, true), d, x, &grad[..x.len()], h) {
                        return Err(Trouble::out_of_range(x));
                    }
                    for (x, rows) in x.chunks_exact(d).zip(rows.chunks_exact_mut(n * d)) {
                        rows[i * d..(i + 1) * d].copy_from_slice(x);
                    }
                }
            }
            Ok(())
        };
        chain().map_err(|trouble| trouble.at(k, h))?;
        Ok(())
    }
}
