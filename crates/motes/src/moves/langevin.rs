//! Moves that treat each particle of each group by itself: the unadjusted Langevin kernel, and MALA.

use super::Moves;
use crate::algorithms::Collect;
use crate::blocks::for_each2;
use crate::kit::{Field, Kit, Worker, diverged, max_abs};
use crate::noise::Noise;
use crate::rows::Numbers;
use crate::step::Stepper;
use crate::{At, Error, Model, ModelError, Real, Stop, Want};

/// What can go wrong inside a block.
pub(crate) enum Trouble {
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
    pub fn out_of_range<F: Real>(x: &[F]) -> Self {
        Trouble::OutOfRange(max_abs(x))
    }

    /// The error for the user.
    pub fn at(self, k: u64, h: f64) -> Error {
        match self {
            Trouble::Model(ModelError::Reject(reason)) => {
                Error::Rejected { step: k + 1, reason, h, suggestion: h / 2.0, kept: false }
            }
            Trouble::Model(ModelError::Stopped) => Error::Stopped,
            Trouble::Model(source) => Error::Model { step: k, source },
            Trouble::OutOfRange(norm) => diverged(k, "|x|", norm, h),
            Trouble::Density => diverged(k, "the log density", f64::NAN, h),
        }
    }
}

impl<F: Real> Stepper<'_, F> {
    /// Moves every row at theta_k by the noise of the given step, and collects what moves theta, in one pass over the cloud.
    pub(crate) fn langevin_step(
        &mut self,
        field: &mut Field<'_, F>,
        step: u64,
        h: f64,
        accept: bool,
        collect: Collect,
    ) -> Result<Moves, Error> {
        let (k, kit) = (field.k, &self.kit);
        let blocks = kit.blocks;
        let slots = &mut self.slots[..blocks.count * kit.width];
        let Field { theta, buffers, groups, terms, .. } = *field;
        let moved = for_each2(
            blocks.parallel,
            (&mut *field.x, blocks.rows * kit.model.d_x()),
            (&mut *slots, kit.width),
            |b, x, slot| {
                let here = Here {
                    theta,
                    buffers,
                    terms,
                    step,
                    h,
                    numbers: kit.numbers(b, groups),
                    parallel: blocks.count == 1,
                    stop: kit.stop,
                };
                kit.move_block(&here, accept, collect, x, slot)
            },
        );
        moved.map_err(|trouble| trouble.at(k, h))?;
        let mut moves = Moves::default();
        if accept {
            moves.proposed = (blocks.groups * blocks.n) as u64;
            let counts = slots.chunks_exact(kit.width).map(|slot| slot[kit.width - 1]);
            moves.accepted = counts.sum::<f64>() as u64;
        }
        Ok(moves)
    }
}

/// Where a block stands in the step.
pub(super) struct Here<'a> {
    pub theta: &'a [f64],
    pub buffers: &'a [f64],
    pub terms: Option<&'a [u32]>,
    /// The step of the noise.
    pub step: u64,
    pub h: f64,
    /// The block's groups, and which noise belongs to its rows.
    pub numbers: Numbers<'a>,
    pub parallel: bool,
    pub stop: Stop<'a>,
}

impl Here<'_> {
    pub fn at<'a, F>(&'a self, x: &'a [F]) -> At<'a, F> {
        let Here { theta, buffers, terms, parallel, stop, .. } = *self;
        At { theta, buffers, groups: self.numbers.groups, x, terms, parallel, stop }
    }
}

impl<F: Real> Kit<'_, F> {
    fn move_block(
        &self,
        here: &Here<'_>,
        accept: bool,
        collect: Collect,
        x: &mut [F],
        slot: &mut [f64],
    ) -> Result<(), Trouble> {
        let d = self.model.d_x();
        let worker = &mut *self.workers.get();
        let Worker { grad, scratch, log_density, .. } = worker;
        let want = Want {
            grad_x: Some(&mut grad[..x.len()]),
            log_density: if accept { Some(&mut log_density[..x.len() / d]) } else { None },
            ..Want::nothing(scratch)
        };
        self.ask(here.at(x), want, (collect == Collect::Before).then(|| self.summed(slot)))?;
        if accept {
            let accepted = self.mala(here, x, worker)?;
            slot[self.width - 1] = accepted as f64;
        } else if !here.numbers.langevin(&self.noise, here.step, d, x, &worker.grad[..x.len()], here.h) {
            return Err(Trouble::out_of_range(x));
        }
        if collect == Collect::After {
            self.ask(here.at(x), Want::nothing(&mut worker.scratch), Some(self.summed(slot)))?;
        }
        Ok(())
    }

    /// Proposes by the Langevin kernel and accepts each row by itself, both densities at theta_k (App. biasdisc): groups are
    /// independent given theta.
    fn mala(&self, here: &Here<'_>, x: &mut [F], worker: &mut Worker<F>) -> Result<usize, Trouble> {
        let d = self.model.d_x();
        propose(self.model, &self.noise, here, x, worker)?;
        let uniforms = &mut worker.uniforms[..x.len() / d];
        here.numbers.uniforms(&self.accept, here.step, uniforms);
        let mut accepted = 0;
        for (i, (x, z)) in x.chunks_exact_mut(d).zip(worker.proposal.chunks_exact(d)).enumerate() {
            if uniforms[i].ln() < worker.log_ratio[i] {
                x.copy_from_slice(z);
                accepted += 1;
            }
        }
        Ok(accepted)
    }
}

/// Writes MALA proposals for a block and the logarithms of their acceptance ratios into the worker, whose `grad` and
/// `log_density` must hold what belongs to x. What the model rejects has a ratio of 0.
pub(super) fn propose<F: Real>(
    model: &dyn Model<F>,
    noise: &Noise,
    here: &Here<'_>,
    x: &[F],
    worker: &mut Worker<F>,
) -> Result<(), Trouble> {
    let d = model.d_x();
    let n = x.len() / d;
    let Worker { grad, scratch, proposal, proposal_grad, log_density, log_ratio, .. } = worker;
    let (z, z_grad) = (&mut proposal[..x.len()], &mut proposal_grad[..x.len()]);
    let log_ratio = &mut log_ratio[..n];
    z.copy_from_slice(x);
    if !here.numbers.langevin(noise, here.step, d, z, &grad[..x.len()], here.h) {
        return Err(Trouble::out_of_range(z));
    }
    known(&log_density[..n])?;
    let mut evaluate = |groups: &[u32], z: &[F], grad: &mut [F], log_density: &mut [f64]| {
        let want =
            Want { grad_x: Some(grad), log_density: Some(log_density), ..Want::nothing(&mut *scratch) };
        model.evaluate(At { groups, ..here.at(z) }, want)
    };
    let groups = here.numbers.groups;
    match evaluate(groups, z, z_grad, log_ratio) {
        Err(ModelError::Reject(_)) => {
            // Some row is where the model cannot be evaluated: which one is seen one by one.
            let rows = z.chunks_exact(d).zip(z_grad.chunks_exact_mut(d));
            for (i, ((z, grad), out)) in rows.zip(log_ratio.chunks_exact_mut(1)).enumerate() {
                let group = i * groups.len() / n;
                match evaluate(&groups[group..=group], z, grad, out) {
                    Err(ModelError::Reject(_)) => {
                        grad.fill(F::of(0.0));
                        out[0] = f64::NEG_INFINITY;
                    }
                    other => other?,
                }
            }
        }
        other => other?,
    }
    known(log_ratio)?;
    for i in 0..n {
        let row = i * d..(i + 1) * d;
        let (x, z) = (&x[row.clone()], &z[row.clone()]);
        log_ratio[i] += log_kernel(z, x, &z_grad[row.clone()], here.h)
            - log_kernel(x, z, &grad[row], here.h)
            - log_density[i];
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
