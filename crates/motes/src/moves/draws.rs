//! Moves that draw particles anew at theta_k: some transitions from where they were or from the prior, or an inference network.

use super::Move;
use crate::algorithms::Collect;
use crate::kit::Field;
use crate::noise::{Noise, Purpose};
use crate::rows::Numbers;
use crate::step::Stepper;
use crate::{Error, Real};

impl<F: Real> Stepper<'_, F> {
    /// Draws all rows of the field. Transitions have their own noise; an inference network maps the normals of `noise` at
    /// the given step.
    pub(crate) fn draw(
        &mut self,
        field: &mut Field<'_, F>,
        h: f64,
        noise: &Noise,
        step: u64,
    ) -> Result<(), Error> {
        let (model, d) = (self.kit.model, self.kit.model.d_x());
        let numbers = Numbers { groups: field.groups, ..self.kit.numbers(0, field.groups) };
        match self.kit.composition.movement {
            Move::Transitions { count, fresh } => {
                if fresh && let Some(prior) = model.prior() {
                    // Step 0 of this purpose are the first particles of a run.
                    let noise = Noise::new(self.kit.seed, Purpose::Prior);
                    numbers.normals(&noise, field.k + 1, d, field.x);
                    prior.map_normals(field.theta, field.groups, field.x);
                }
                for transition in 0..u64::from(count) {
                    let step = field.k.wrapping_mul(u64::from(count)).wrapping_add(transition);
                    self.langevin_step(field, step, h, false, Collect::Never)?;
                }
            }
            Move::Fresh => {
                if let Some(encoder) = model.encoder() {
                    numbers.normals(noise, step, d, field.x);
                    encoder.map_normals(field.theta, field.groups, field.x);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
