//! Particles with velocities: the underdamped Langevin diffusion, split as OBABO.

use super::langevin::{Here, Trouble};
use crate::algorithms::{Collect, VELOCITY};
use crate::blocks::for_each3;
use crate::kit::{Field, Worker, max_abs};
use crate::ranks::agree;
use crate::state::recall;
use crate::step::Stepper;
use crate::{Error, Real, Remembered, Want};

/// How a velocity forgets and is stirred in a step of size h: twice the half-step O of the splitting.
pub(crate) fn refreshed(friction: f64, h: f64) -> (f64, f64) {
    let keeps = libm::exp(-friction * h);
    (keeps, (1.0 - keeps * keeps).sqrt())
}

impl<F: Real> Stepper<'_, F> {
    /// B O O B A at theta_k: kick, refresh, kick, drift. Steps in a row are those of OBABO, seen after each drift, and need one
    /// gradient each.
    pub(crate) fn kinetic_step(
        &mut self,
        field: Field<'_, F>,
        memory: &mut [Remembered],
        friction: f64,
        h: f64,
    ) -> Result<(), Error> {
        let (kit, blocks, d) = (&self.kit, self.kit.blocks, self.kit.model.d_x());
        let collect = kit.composition.collect();
        let Field { k, theta, buffers, groups, terms, x } = field;
        let [velocity] = recall(memory, [VELOCITY]);
        let (keeps, stirs) = refreshed(friction, h);
        let rows = blocks.rows * d;
        let slots = (blocks.own_slots(&mut self.slots, kit.width), kit.width);
        let own = (blocks.own(x, d), blocks.own(velocity, d));
        let moved =
            for_each3(blocks.parallel, (own.0, rows), (own.1, rows), slots, |b, x, velocity, slot| {
                let b = blocks.own[0] + b;
                let here = Here {
                    theta,
                    buffers,
                    terms,
                    step: k,
                    h,
                    numbers: kit.numbers(b, groups),
                    parallel: blocks.count == 1,
                    stop: kit.stop,
                };
                let Worker { grad, scratch, proposal, .. } = &mut *kit.workers.get();
                let (grad, noise) = (&mut grad[..x.len()], &mut proposal[..x.len()]);
                let want = Want { grad_x: Some(&mut *grad), ..Want::nothing(scratch) };
                kit.ask(here.at(x), want, (collect == Collect::Before).then(|| kit.summed(slot)))?;
                here.numbers.normals(&kit.noise, k, d, noise);
                for (((x, v), g), w) in x.iter_mut().zip(velocity).zip(grad).zip(noise) {
                    let kick = 0.5 * h * g.f64();
                    *v = keeps * (*v + kick) + stirs * w.f64() + kick;
                    *x = F::of(x.f64() + h * *v);
                }
                let norm = max_abs(x);
                if norm.is_nan() || norm > F::LIMIT {
                    return Err(Trouble::OutOfRange(norm));
                }
                if collect == Collect::After {
                    kit.ask(here.at(x), Want::nothing(scratch), Some(kit.summed(slot)))?;
                }
                Ok(())
            });
        agree(kit.ranks, moved).map_err(|trouble| trouble.at(k, h))?;
        kit.exchange(x);
        kit.exchange(velocity);
        Ok(())
    }
}
