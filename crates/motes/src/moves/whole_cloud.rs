//! Metropolis-Hastings on the whole cloud: marginal-mh and joint-mh.

use super::Moves;
use super::langevin::{Trouble, known, log_kernel};
use crate::algorithms::{Collect, PRECONDITIONER};
use crate::blocks::{for_each, for_each2, sum_of_column};
use crate::kit::{Chosen, Worker};
use crate::ranks::agree;
use crate::state::recall;
use crate::step::{StepSizes, Stepper};
use crate::{At, Error, ModelError, Real, State, Want};

impl<F: Real> Stepper<'_, F> {
    /// Proposes Z^{1:N} from K_theta and psi by the theta-rule, then accepts or rejects both together.
    ///
    /// The ratio is eq. 101 (psi = theta_*(Z), marginal-mh) or eq. 104 (psi = u(theta, X), joint-mh):
    /// in both, densities and kernels belong to theta at X and to psi at Z. A rejection keeps theta and X.
    pub(crate) fn whole_cloud_step(
        &mut self,
        state: &mut State<F>,
        chosen: Chosen<'_>,
        rows: &mut [F],
        sizes: StepSizes,
    ) -> Result<Moves, Error> {
        let h = sizes.h;
        let (k, d) = (state.k, self.kit.model.d_x());
        let (kit, blocks, width) = (&self.kit, self.kit.blocks, self.kit.width);
        let collect = kit.composition.collect();
        let State { theta, buffers, memory, .. } = state;
        let x = &*rows;
        let z = &mut self.proposal[..x.len()];
        let place = |b: usize| At {
            buffers,
            groups: blocks.groups_of(b, chosen.groups).0,
            parallel: blocks.count == 1,
            stop: kit.stop,
            ..At::new(theta, &[])
        };
        let slots = &mut self.slots[..blocks.count * width];

        // Forward: propose, and sum log densities plus kernels of the move from (theta, X).
        let forward = |b: usize, z: &mut [F], slot: &mut [f64]| -> Result<(), Trouble> {
            let b = blocks.own[0] + b;
            let rows = blocks.range(b);
            let x = &x[rows.start * d..rows.end * d];
            let Worker { grad, scratch, log_density, .. } = &mut *kit.workers.get();
            let (grad, densities) = (&mut grad[..x.len()], &mut log_density[..rows.len()]);
            let at = At { x, ..place(b) };
            let want = Want { grad_x: Some(grad), log_density: Some(densities), ..Want::nothing(scratch) };
            kit.ask(at, want, (collect == Collect::Before).then(|| kit.summed(slot)))?;
            z.copy_from_slice(x);
            let here = (k, blocks.count == 1);
            if !kit.numbers(b, chosen.groups).langevin(&kit.noise, here, d, z, grad, h) {
                return Err(Trouble::out_of_range(z));
            }
            known(densities)?;
            slot[width - 1] = densities.iter().sum::<f64>() + log_kernel(x, z, grad, h);
            if collect == Collect::After {
                match kit.ask(At { x: z, ..at }, Want::nothing(scratch), Some(kit.summed(slot))) {
                    // A proposal where the model has no value is a rejection.
                    Err(ModelError::Reject(_)) => slot[width - 2] = f64::NEG_INFINITY,
                    other => {
                        other?;
                        slot[width - 2] = 0.0;
                    }
                }
            }
            Ok(())
        };
        let own = (blocks.own(z, d), blocks.own_slots(slots, width));
        let moved = for_each2(blocks.parallel, (own.0, blocks.rows * d), (own.1, width), forward);
        agree(kit.ranks, moved).map_err(|trouble| trouble.at(k, h))?;
        kit.exchange(z);
        blocks.gather_slots(kit.ranks, slots, width);
        let forward = sum_of_column(slots, width, width - 1);
        let rejected = Moves { proposed: 1, ..Moves::default() };
        if collect == Collect::After && sum_of_column(slots, width, width - 2) < 0.0 {
            return Ok(rejected);
        }

        let psi = &mut self.psi[..];
        psi.copy_from_slice(theta);
        let [memory] = recall(memory, [PRECONDITIONER]);
        match kit.update(k, sizes, (z, chosen), slots, psi, memory) {
            Err(Error::Rejected { .. }) if collect == Collect::After => return Ok(rejected),
            other => other?,
        }

        // Backward: the same sums for the move from (psi, Z) back to X. A Z that the model rejects is a rejection.
        let (z, psi) = (&*z, &*psi);
        let backward = |b: usize, slot: &mut [f64]| -> Result<(), Trouble> {
            let b = blocks.own[0] + b;
            let rows = blocks.range(b);
            let (x, z) = (&x[rows.start * d..rows.end * d], &z[rows.start * d..rows.end * d]);
            let Worker { grad, scratch, log_density, .. } = &mut *kit.workers.get();
            let (grad, densities) = (&mut grad[..z.len()], &mut log_density[..rows.len()]);
            let at = At { theta: psi, x: z, ..place(b) };
            let want = Want { grad_x: Some(grad), log_density: Some(densities), ..Want::nothing(scratch) };
            match kit.model.evaluate(at, want) {
                Err(ModelError::Reject(_)) => {
                    slot[width - 2] = f64::NEG_INFINITY;
                    return Ok(());
                }
                other => other?,
            }
            known(densities)?;
            slot[width - 2] = densities.iter().sum::<f64>() + log_kernel(z, x, grad, h);
            Ok(())
        };
        let asked = for_each(blocks.parallel, (blocks.own_slots(slots, width), width), backward);
        agree(kit.ranks, asked).map_err(|trouble| trouble.at(k, h))?;
        blocks.gather_slots(kit.ranks, slots, width);
        let backward = sum_of_column(slots, width, width - 2);

        let accepted = libm::log(kit.accept.uniform(k, 0)) < backward - forward;
        if accepted {
            theta.copy_from_slice(psi);
            rows.copy_from_slice(z);
        }
        Ok(Moves { proposed: 1, accepted: u64::from(accepted) })
    }
}
