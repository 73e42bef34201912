//! Moves that treat each particle of each group by itself: the unadjusted Langevin kernel, and MALA.

use crate::algorithms::Collect;
use crate::blocks::for_each2;
use crate::kit::{Field, Kit, Worker, diverged, max_abs};
use crate::noise::Noise;
use crate::ranks::{Tell, Told, agree, gather_words};
use crate::rows::{Numbers, evaluate_rows};
use crate::simd::dispatch;
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

impl Tell for Trouble {
    fn tell(&self) -> Told {
        match self {
            Trouble::Model(e) => e.tell(),
            Trouble::OutOfRange(norm) => Told::OutOfRange(norm.to_bits()),
            Trouble::Density => Told::Density,
        }
    }

    fn hear(told: Told) -> Self {
        match told {
            Told::OutOfRange(norm) => Trouble::OutOfRange(f64::from_bits(norm)),
            Told::Density => Trouble::Density,
            told => Trouble::Model(ModelError::hear(told)),
        }
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
    ) -> Result<(), Error> {
        let (k, kit) = (field.k, &self.kit);
        let blocks = kit.blocks;
        let slots = blocks.own_slots(&mut self.slots, kit.width);
        let Field { theta, buffers, groups, terms, .. } = *field;
        let moved = for_each2(
            blocks.parallel,
            (blocks.own(field.x, kit.d), blocks.rows * kit.d),
            (&mut *slots, kit.width),
            |b, x, slot| {
                let b = blocks.own[0] + b;
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
        agree(kit.ranks, moved).map_err(|trouble| trouble.at(k, h))?;
        if accept {
            self.moves.proposed = (blocks.groups * blocks.n) as u64;
            let counts = slots.chunks_exact(kit.width).map(|slot| slot[kit.width - 1]);
            let accepted = counts.sum::<f64>() as u64;
            self.moves.accepted = match kit.ranks.size() {
                1 => accepted,
                _ => gather_words(kit.ranks, accepted).iter().sum(),
            };
        }
        kit.exchange(field.x);
        Ok(())
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
    #[inline(always)]
    pub fn at<'a, F>(&'a self, x: &'a [F]) -> At<'a, F> {
        let Here { theta, buffers, terms, parallel, stop, .. } = *self;
        At { theta, buffers, groups: self.numbers.groups, x, terms, parallel, stop }
    }
}

impl<F: Real> Kit<'_, F> {
    #[inline(always)]
    fn move_block(
        &self,
        here: &Here<'_>,
        accept: bool,
        collect: Collect,
        x: &mut [F],
        slot: &mut [f64],
    ) -> Result<(), Trouble> {
        let d = self.d;
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
        } else {
            let (grad, step) = (&worker.grad[..x.len()], (here.step, here.parallel));
            if !here.numbers.langevin(&self.noise, step, d, x, grad, here.h) {
                return Err(Trouble::out_of_range(x));
            }
        }
        if collect == Collect::After {
            self.ask(here.at(x), Want::nothing(&mut worker.scratch), Some(self.summed(slot)))?;
        }
        Ok(())
    }

    /// Proposes by the Langevin kernel and accepts each row by itself, both densities at theta_k (App. F): groups are
    /// independent given theta.
    fn mala(&self, here: &Here<'_>, x: &mut [F], worker: &mut Worker<F>) -> Result<usize, Trouble> {
        let d = self.d;
        propose(self.model, &self.noise, here, x, worker)?;
        let uniforms = &mut worker.uniforms[..x.len() / d];
        here.numbers.uniforms(&self.accept, here.step, uniforms);
        let (mut accepted, log_ratio) = (0, &worker.log_ratio);
        if d == 1 {
            // Without a branch, for nobody can foresee it, nor a call to copy one number.
            for (((x, z), u), log_ratio) in x.iter_mut().zip(&worker.proposal).zip(&*uniforms).zip(log_ratio)
            {
                let accept = is_accepted(*u, *log_ratio);
                *x = if accept { *z } else { *x };
                accepted += usize::from(accept);
            }
            return Ok(accepted);
        }
        for (i, (x, z)) in x.chunks_exact_mut(d).zip(worker.proposal.chunks_exact(d)).enumerate() {
            if is_accepted(uniforms[i], log_ratio[i]) {
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
    if !here.numbers.langevin(noise, (here.step, here.parallel), d, z, &grad[..x.len()], here.h) {
        return Err(Trouble::out_of_range(z));
    }
    known(&log_density[..n])?;
    evaluate_rows(model, here.at(z), Some(&mut *z_grad), Some(&mut *log_ratio), scratch, |_| {})?;
    known(log_ratio)?;
    if d == 1 {
        single_log_ratios(x, z, &grad[..n], z_grad, &log_density[..n], here.h, log_ratio);
        return Ok(());
    }
    for i in 0..n {
        let row = i * d..(i + 1) * d;
        let (x, z) = (&x[row.clone()], &z[row.clone()]);
        log_ratio[i] += log_kernel(z, x, &z_grad[row.clone()], here.h)
            - log_kernel(x, z, &grad[row], here.h)
            - log_density[i];
    }
    Ok(())
}

dispatch! {
    /// Makes the log densities at proposals z for rows of one coordinate the logarithms of their acceptance ratios.
    fn single_log_ratios<F: Real>(x: &[F], z: &[F], grad: &[F], z_grad: &[F], log_density: &[f64], h: f64, log_ratio: &mut [f64])
        = single_log_ratios_kernel
}

#[inline(always)]
fn single_log_ratios_kernel<F: Real, const FMA: bool>(
    x: &[F],
    z: &[F],
    grad: &[F],
    z_grad: &[F],
    log_density: &[f64],
    h: f64,
    log_ratio: &mut [f64],
) {
    let n = log_ratio.len();
    let (x, z, grad, z_grad, log_density) = (&x[..n], &z[..n], &grad[..n], &z_grad[..n], &log_density[..n]);
    for i in 0..n {
        let there = z[i].f64() - x[i].f64() - h * grad[i].f64();
        let back = x[i].f64() - z[i].f64() - h * z_grad[i].f64();
        log_ratio[i] += -(back * back) / (4.0 * h) - -(there * there) / (4.0 * h) - log_density[i];
    }
}

/// Whether ln u < log_ratio. A logarithm takes as long as the noise of many coordinates, and ln u <= u - 1 most often says
/// enough; what is left of that bound here is not in doubt by any rounding of the logarithm.
#[inline(always)]
fn is_accepted(u: f64, log_ratio: f64) -> bool {
    (u - 1.0) * (1.0 - 1e-12) < log_ratio || libm::log(u) < log_ratio
}

/// Refuses log densities that are NaN, which no comparison would tell from a rejection; -inf is one.
pub(super) fn known(log_densities: &[f64]) -> Result<(), Trouble> {
    let some = log_densities.iter().fold(false, |some, l| some | l.is_nan());
    if some { Err(Trouble::Density) } else { Ok(()) }
}

/// The logarithm of K_theta(from, to) of eq. 82, up to a constant; `grad` is the x-gradient at `from`.
pub(super) fn log_kernel<F: Real>(from: &[F], to: &[F], grad: &[F], h: f64) -> f64 {
    let squares = from.iter().zip(to).zip(grad).map(|((from, to), g)| {
        let step = to.f64() - from.f64() - h * g.f64();
        step * step
    });
    -squares.sum::<f64>() / (4.0 * h)
}
