//! Metropolis-Hastings on the whole cloud: marginal-mh and joint-mh.

use super::per_particle::{Trouble, known, log_kernel};
use super::{Moves, Stepper};
use crate::algorithms::Order;
use crate::blocks::{for_each, for_each2, sum_slots};
use crate::rules::{Rule, ThetaStep};
use crate::{At, Error, Real, State};

impl<F: Real> Stepper<'_, F> {
    /// Proposes Z^{1:N} from K_theta and psi by the theta-rule, then accepts or rejects both together.
    ///
    /// The ratio is eq. acceptprob (psi = theta_*(Z), marginal-mh) or eq. acceptprobjoint (psi = u(theta, X), joint-mh):
    /// in both, densities and kernels belong to theta at X and to psi at Z. A rejection keeps theta and X.
    pub(super) fn whole_cloud_step(&mut self, state: &mut State<F>, h: f64) -> Result<Moves, Error> {
        let (n, k, d) = (state.cloud.n(), state.k, self.kit.model.d_x());
        let kit = &self.kit;
        let model = kit.model;
        let blocks = kit.blocks;
        let width = kit.width;
        let sums_len = kit.sums_len;
        let Some(log_density) = model.log_density() else { unreachable!("validated before the first step") };
        let z = &mut self.proposal[..n * d];
        let slots = &mut self.slots[..blocks.count * width];
        let cloud = &state.cloud;
        let theta = &state.theta;

        // Forward: propose, and sum log densities plus kernels of the move from (theta, X).
        let forward = |b: usize, z: &mut [F], slot: &mut [f64]| -> Result<(), Trouble> {
            let rows = blocks.range(b);
            let x = &cloud.as_slice()[rows.start * d..rows.end * d];
            let worker = &mut *kit.workers.get();
            let grad = &mut worker.grad[..x.len()];
            let at = At { theta, x, batch: None, parallel: blocks.count == 1 };
            model.gradients(at, &mut worker.grad_theta, grad, &mut worker.scratch)?;
            if kit.order == Order::Together {
                kit.rule.collect(
                    model,
                    at,
                    &worker.grad_theta,
                    &mut slot[..sums_len],
                    &mut worker.scratch,
                )?;
            }
            z.copy_from_slice(x);
            if !F::langevin(&kit.noise, k, (rows.start * d) as u64, z, grad, h) {
                return Err(Trouble::out_of_range(z));
            }
            let densities = &mut worker.log_density[..rows.len()];
            log_density.log_density(at, densities, &mut worker.scratch)?;
            known(densities)?;
            slot[width - 1] = densities.iter().sum::<f64>() + log_kernel(x, z, grad, h);
            if kit.order == Order::ParticlesFirst {
                let at = At { x: z, ..at };
                kit.rule.collect(
                    model,
                    at,
                    &worker.grad_theta,
                    &mut slot[..sums_len],
                    &mut worker.scratch,
                )?;
            }
            Ok(())
        };
        for_each2(blocks.parallel, (z, blocks.rows * d), (slots, width), forward)
            .map_err(|trouble| trouble.at(k, h))?;
        let forward: f64 = slots.chunks_exact(width).map(|slot| slot[width - 1]).sum();

        let psi = &mut self.psi[..];
        psi.copy_from_slice(theta);
        if kit.rule == Rule::MStep {
            kit.m_step(k, h, z, slots, psi)?;
        } else {
            let sums = &mut sum_slots(slots, width)[..sums_len];
            let memory = &mut state.memory[..];
            kit.rule.update(model, ThetaStep { k, h, n, sums, theta: psi, memory })?;
        }

        // Backward: the same sums for the move from (psi, Z) back to X.
        let (z, psi) = (&self.proposal[..n * d], &self.psi);
        let backward = |b: usize, slot: &mut [f64]| -> Result<(), Trouble> {
            let rows = blocks.range(b);
            let (x, z) = (&cloud.as_slice()[rows.start * d..rows.end * d], &z[rows.start * d..rows.end * d]);
            let worker = &mut *kit.workers.get();
            let grad = &mut worker.grad[..z.len()];
            let at = At { theta: psi, x: z, batch: None, parallel: blocks.count == 1 };
            model.gradients(at, &mut worker.grad_theta, grad, &mut worker.scratch)?;
            let densities = &mut worker.log_density[..rows.len()];
            log_density.log_density(at, densities, &mut worker.scratch)?;
            known(densities)?;
            slot[width - 2] = densities.iter().sum::<f64>() + log_kernel(z, x, grad, h);
            Ok(())
        };
        for_each(blocks.parallel, (&mut *slots, width), backward).map_err(|trouble| trouble.at(k, h))?;
        let backward: f64 = slots.chunks_exact(width).map(|slot| slot[width - 2]).sum();

        let accepted = kit.accept.uniform(k, 0).ln() < backward - forward;
        if accepted {
            state.theta.copy_from_slice(psi);
            state.cloud.as_mut_slice().copy_from_slice(&self.proposal[..n * d]);
        }
        Ok(Moves { proposed: 1, accepted: u64::from(accepted) })
    }
}
