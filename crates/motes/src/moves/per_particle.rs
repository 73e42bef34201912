//! Moves that treat each particle by itself: the unadjusted Langevin kernel, and MALA.

use super::{Kit, Moves, Stepper, Worker, diverged, max_abs};
use crate::algorithms::Order;
use crate::blocks::for_each2;
use crate::model::LogDensity;
use crate::noise::Noise;
use crate::rules::Rule;
use crate::{At, Error, Model, ModelError, Real, State};

/// What can go wrong inside a block.
pub(super) enum Trouble {
    Model(ModelError),
    /// A coordinate of this magnitude.
    OutOfRange(f64),
    /// A log density that is NaN.
    Density,
}

impl From<ModelError> for Trouble {
    fn from(e: ModelError) -> Self {
        Trouble::Model(e)
    }
}

impl Trouble {
    /// The trouble that some coordinate of x is in.
    pub(super) fn out_of_range<F: Real>(x: &[F]) -> Self {
        Trouble::OutOfRange(max_abs(x))
    }

    /// The error for the user.
    pub(super) fn at(self, k: u64, h: f64) -> Error {
        match self {
            Trouble::Model(source) => Error::Model { step: k, source },
            Trouble::OutOfRange(norm) => diverged(k, "|x|", norm, h),
            Trouble::Density => diverged(k, "the log density", f64::NAN, h),
        }
    }
}

impl<F: Real> Stepper<'_, F> {
    /// Moves every particle at theta_k and collects what moves theta, in one pass over the cloud.
    pub(super) fn per_particle_step(
        &mut self,
        state: &mut State<F>,
        h: f64,
        accept: bool,
    ) -> Result<Moves, Error> {
        let (n, k, kit) = (state.cloud.n(), state.k, &self.kit);
        let blocks = kit.blocks;
        let theta = &state.theta;
        let batch = self.batches.as_ref().map(|b| b.current());
        let slots = &mut self.slots[..blocks.count * kit.width];
        let moved = for_each2(
            blocks.parallel,
            (state.cloud.as_mut_slice(), blocks.rows * kit.model.d_x()),
            (slots, kit.width),
            |b, x, slot| {
                let here =
                    BlockStep { theta, k, h, batch, first: b * blocks.rows, parallel: blocks.count == 1 };
                kit.move_block(&here, accept, x, slot)
            },
        );
        moved.map_err(|trouble| trouble.at(k, h))?;
        let mut moves = Moves::default();
        if accept {
            moves.proposed = n as u64;
            let counts = slots.chunks_exact(kit.width).map(|slot| slot[kit.width - 1]);
            moves.accepted = counts.sum::<f64>() as u64;
        }
        self.update_theta(state, h)?;
        Ok(moves)
    }
}

/// Where a block stands in the step.
pub(super) struct BlockStep<'a> {
    pub theta: &'a [f64],
    pub k: u64,
    pub h: f64,
    pub batch: Option<&'a [u32]>,
    /// The number of the block's first particle.
    pub first: usize,
    pub parallel: bool,
}

impl BlockStep<'_> {
    fn at<'a, F>(&'a self, x: &'a [F]) -> At<'a, F> {
        At { theta: self.theta, x, batch: self.batch, parallel: self.parallel }
    }
}

impl<F: Real> Kit<'_, F> {
    fn move_block(
        &self,
        here: &BlockStep<'_>,
        accept: bool,
        x: &mut [F],
        slot: &mut [f64],
    ) -> Result<(), Trouble> {
        let model = self.model;
        let sums = self.sums_len;
        let worker = &mut *self.workers.get();
        let grad = &mut worker.grad[..x.len()];
        model.gradients(here.at(x), &mut worker.grad_theta, grad, &mut worker.scratch)?;
        if self.order == Order::Together {
            let scratch = &mut worker.scratch;
            self.rule.collect(model, here.at(x), &worker.grad_theta, &mut slot[..sums], scratch)?;
        }
        let draw = (here.first * model.d_x()) as u64;
        match model.log_density().filter(|_| accept) {
            Some(log_density) => {
                let accepted = self.mala(here, log_density, x, worker)?;
                slot[self.width - 1] = accepted as f64;
            }
            None => {
                if !F::langevin(&self.noise, here.k, draw, x, grad, here.h) {
                    return Err(Trouble::out_of_range(x));
                }
            }
        }
        if self.order == Order::ParticlesFirst && self.rule == Rule::MStep {
            self.rule.collect(
                model,
                here.at(x),
                &worker.grad_theta,
                &mut slot[..sums],
                &mut worker.scratch,
            )?;
        }
        Ok(())
    }

    /// Proposes by the Langevin kernel and accepts each particle by itself, both densities at theta_k (App. biasdisc).
    fn mala(
        &self,
        here: &BlockStep<'_>,
        log_density: &dyn LogDensity<F>,
        x: &mut [F],
        worker: &mut Worker<F>,
    ) -> Result<usize, Trouble> {
        let d = self.model.d_x();
        propose(self.model, log_density, &self.noise, here, x, worker)?;
        let mut accepted = 0;
        for (i, (x, z)) in x.chunks_exact_mut(d).zip(worker.proposal.chunks_exact(d)).enumerate() {
            let uniform = self.accept.uniform(here.k, (here.first + i) as u64);
            if uniform.ln() < worker.log_ratio[i] {
                x.copy_from_slice(z);
                accepted += 1;
            }
        }
        Ok(accepted)
    }
}

/// Writes MALA proposals for a block and the logarithms of their acceptance ratios into the worker,
/// whose `grad` must hold the x-gradients at x.
pub(super) fn propose<F: Real>(
    model: &dyn Model<F>,
    log_density: &dyn LogDensity<F>,
    noise: &Noise,
    here: &BlockStep<'_>,
    x: &[F],
    worker: &mut Worker<F>,
) -> Result<(), Trouble> {
    let d = model.d_x();
    let n = x.len() / d;
    let Worker { grad_theta, grad, scratch, proposal, proposal_grad, log_density: at_x, log_ratio } = worker;
    let (z, z_grad) = (&mut proposal[..x.len()], &mut proposal_grad[..x.len()]);
    z.copy_from_slice(x);
    if !F::langevin(noise, here.k, (here.first * d) as u64, z, &grad[..x.len()], here.h) {
        return Err(Trouble::out_of_range(z));
    }
    log_density.log_density(here.at(x), &mut at_x[..n], scratch)?;
    log_density.log_density(here.at(z), &mut log_ratio[..n], scratch)?;
    known(&at_x[..n])?;
    known(&log_ratio[..n])?;
    model.gradients(here.at(z), grad_theta, z_grad, scratch)?;
    for i in 0..n {
        let row = i * d..(i + 1) * d;
        let (x, z) = (&x[row.clone()], &z[row.clone()]);
        log_ratio[i] +=
            log_kernel(z, x, &z_grad[row.clone()], here.h) - log_kernel(x, z, &grad[row], here.h) - at_x[i];
    }
    Ok(())
}

/// Refuses log densities that are NaN, which no comparison would tell from a rejection; -inf is one.
pub(super) fn known(log_densities: &[f64]) -> Result<(), Trouble> {
    if log_densities.iter().any(|l| l.is_nan()) { Err(Trouble::Density) } else { Ok(()) }
}

/// The logarithm of K_theta(from, to) of eq. ULAkernel, up to a constant; `grad` is the x-gradient at `from`.
pub(super) fn log_kernel<F: Real>(from: &[F], to: &[F], grad: &[F], h: f64) -> f64 {
    let squares = from.iter().zip(to).zip(grad).map(|((from, to), g)| {
        let step = to.f64() - from.f64() - h * g.f64();
        step * step
    });
    -squares.sum::<f64>() / (4.0 * h)
}
