//! What the blocks of a step share, and the one place where anything that moves theta is collected.

use std::sync::{Mutex, MutexGuard};

use crate::algorithms::{Collect, Composition};
use crate::blocks::{PerWorker, for_each};
use crate::moves::langevin::Trouble;
use crate::noise::Noise;
use crate::ranks::{Ranks, agree};
use crate::rows::{Blocks, Numbers};
use crate::rules::{Rule, ThetaStep, maximise};
use crate::step::StepSizes;
use crate::{At, Error, Model, ModelError, Real, Stop, Want};

/// What all blocks of a step share.
pub(crate) struct Kit<'m, F: Real> {
    pub model: &'m dyn Model<F>,
    pub composition: Composition,
    /// What follows from these two, and is asked for at every step.
    pub d: usize,
    pub theta_first: bool,
    pub collect: Collect,
    pub remembers: bool,
    pub whole_batch: bool,
    pub noise: Noise,
    pub accept: Noise,
    pub on_theta: Noise,
    pub workers: PerWorker<Worker<F>>,
    /// How the rows at hand are cut.
    pub blocks: Blocks,
    /// The largest number of particles that there will be: it addresses the noise.
    pub most: usize,
    /// How many numbers the rule sums over the blocks, and how many the model wants in the trace.
    pub sums_len: usize,
    pub scalars_len: usize,
    /// The length of a block's slot: the sums, the scalars, then two numbers for accept-reject steps.
    pub width: usize,
    /// What the model remembers after this step.
    pub buffers: Mutex<Vec<f64>>,
    /// Whether batches are of groups, not of data terms.
    pub batches_groups: bool,
    /// The learning rate of an inference network.
    pub encoder_rate: f64,
    pub seed: u64,
    pub stop: Stop<'m>,
    /// Who shares the blocks.
    pub ranks: &'m dyn Ranks,
    /// Whether a rank knows no rows but its own until they are [brought](Stepper::bring), and how many of them stay together.
    pub apart: bool,
    pub unit: usize,
}

/// What a step works on.
pub(crate) struct Field<'a, F> {
    pub k: u64,
    pub theta: &'a [f64],
    pub buffers: &'a [f64],
    /// The groups at hand.
    pub groups: &'a [u32],
    pub terms: Option<&'a [u32]>,
    /// Their rows.
    pub x: &'a mut [F],
}

/// What one worker needs while it evaluates a block.
pub(crate) struct Worker<F> {
    pub grad: Vec<F>,
    pub scratch: Vec<F>,
    /// Proposals and their gradients, for accept-reject steps.
    pub proposal: Vec<F>,
    pub proposal_grad: Vec<F>,
    pub log_density: Vec<f64>,
    pub log_ratio: Vec<f64>,
    pub uniforms: Vec<f64>,
}

impl<F: Real> Worker<F> {
    pub fn new(model: &dyn Model<F>, rows: usize, proposes: bool) -> Self {
        let len = rows * model.d_x();
        let proposals = if proposes { len } else { 0 };
        let judged = if proposes { rows } else { 0 };
        // Written to, so that the system hands the memory out now and not in the first steps.
        let zeros = |len| {
            let mut memory = Vec::with_capacity(len);
            memory.resize(len, F::of(0.0));
            memory
        };
        Worker {
            grad: zeros(len),
            scratch: zeros(model.scratch_len(rows)),
            proposal: zeros(proposals),
            proposal_grad: zeros(proposals),
            log_density: vec![0.0; judged],
            log_ratio: vec![0.0; judged],
            uniforms: vec![0.0; judged],
        }
    }
}

/// The part of the data and latent variables that a step is about.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'a> {
    pub groups: &'a [u32],
    pub terms: Option<&'a [u32]>,
}

impl<F: Real> Kit<'_, F> {
    /// Cuts the rows of so many groups with n particles into blocks.
    pub fn cut(&mut self, groups: usize, n: usize) {
        if (self.blocks.groups, self.blocks.n) != (groups, n) {
            self.blocks = Blocks::new(self.model, groups, n).in_units_of(self.unit).over(self.ranks);
        }
    }

    /// Fills in what other ranks have made of their rows, unless they keep it for now.
    #[inline(always)]
    pub fn exchange<T: bytemuck::Pod>(&self, rows: &mut [T]) {
        if !self.apart {
            self.blocks.gather(self.ranks, rows, self.d);
        }
    }

    /// Which noise belongs to block b of the given groups.
    pub fn numbers<'a>(&self, b: usize, groups: &'a [u32]) -> Numbers<'a> {
        let (groups, first) = self.blocks.groups_of(b, groups);
        let together = !self.batches_groups && self.blocks.n == self.most;
        Numbers { groups, first, most: self.most, together }
    }

    /// Asks the model, and has it write into `sums`, where given, a block's share of what moves theta and of what the model
    /// wants in the trace. Nothing that moves theta is collected anywhere else.
    #[inline(always)] // so that what is asked is written where the model reads it, and not copied on the way
    pub fn ask<'a>(
        &self,
        at: At<'_, F>,
        mut want: Want<'a, F>,
        sums: Option<&'a mut [f64]>,
    ) -> Result<(), ModelError> {
        let Some(sums) = sums else {
            return self.evaluate(at, want);
        };
        let d = at.theta.len();
        let (sums, scalars) = sums.split_at_mut(self.sums_len);
        if self.scalars_len > 0 {
            want.scalars = Some(&mut scalars[..self.scalars_len]);
        }
        match self.composition.rule {
            Rule::Gradient { .. } | Rule::Kinetic { .. } => want.grad_theta = Some(&mut sums[..d]),
            Rule::Newton => {
                let (gradient, hessian) = sums.split_at_mut(d);
                want.grad_theta = Some(gradient);
                want.hessian = Some(&mut hessian[..d * d]);
            }
            Rule::MStep => {
                if let Some(m) = self.model.m_step() {
                    m.statistics(at, &mut sums[..m.statistics_len()])?;
                }
            }
            Rule::ExactEm | Rule::Louis => {}
        }
        if !self.remembers {
            return self.evaluate(at, want);
        }
        let mut buffers = self.new_buffers();
        let Want { log_density, grad_x, grad_theta, scores, hessian, scalars, scratch, .. } = want;
        let buffers = Some(&mut buffers[..]);
        let want = Want { log_density, grad_x, grad_theta, scores, hessian, buffers, scalars, scratch };
        self.model.evaluate(at, want)
    }

    /// Asks the model, if there is anything to ask.
    #[inline(always)]
    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        if want.grad_x.is_none() && want.is_empty() { Ok(()) } else { self.model.evaluate(at, want) }
    }

    pub fn new_buffers(&self) -> MutexGuard<'_, Vec<f64>> {
        self.buffers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Fills the slots with what moves theta, at the rows x.
    pub fn collect(
        &self,
        theta: &[f64],
        buffers: &[f64],
        chosen: Chosen<'_>,
        x: &[F],
        slots: &mut [f64],
    ) -> Result<(), Trouble> {
        let blocks = self.blocks;
        let own = (blocks.own_slots(slots, self.width), self.width);
        let collected = for_each(blocks.parallel, own, |b, slot| {
            let b = blocks.own[0] + b;
            let at = At { buffers, terms: chosen.terms, ..blocks.at(b, theta, chosen.groups, x, self.stop) };
            let worker = &mut *self.workers.get();
            self.ask(at, Want::nothing(&mut worker.scratch), Some(self.summed(slot)))?;
            Ok(())
        });
        agree(self.ranks, collected)
    }

    /// The part of a slot that is summed over the blocks.
    pub fn summed<'a>(&self, slot: &'a mut [f64]) -> &'a mut [f64] {
        &mut slot[..self.sums_len + self.scalars_len]
    }

    /// Moves theta by the sums in the slots, or by the M-step for the rows x of all groups.
    pub fn update(
        &self,
        k: u64,
        StepSizes { h, rate }: StepSizes,
        (x, chosen): (&[F], Chosen<'_>),
        slots: &mut [f64],
        theta: &mut [f64],
        memory: &mut [f64],
    ) -> Result<(), Error> {
        let rule = self.composition.rule;
        if rule == Rule::MStep && self.model.m_step().is_none() {
            return self.numerical_m_step(k, h, (x, chosen), slots, theta);
        }
        let sums: &mut [f64] = match self.blocks.count {
            0 => &mut [],
            _ => {
                let total = self.blocks.sum(self.ranks, slots, self.width);
                let (sums, rest) = total.split_at_mut(self.sums_len);
                if self.scalars_len > 0 {
                    let groups = if self.batches_groups { self.blocks.groups } else { self.model.groups() };
                    self.model.finish_scalars(groups * self.blocks.n, &mut rest[..self.scalars_len]);
                }
                sums
            }
        };
        if self.batches_groups {
            let share = self.model.groups() as f64 / self.blocks.groups as f64;
            sums.iter_mut().for_each(|s| *s *= share);
        }
        let step = ThetaStep {
            k,
            h,
            rate,
            encoder_rate: self.encoder_rate,
            n: self.blocks.n,
            noise: &self.on_theta,
            sums,
            theta,
            memory,
        };
        rule.update(self.model, step)
    }

    /// Maximises the mean of l over the rows x by its gradients.
    fn numerical_m_step(
        &self,
        k: u64,
        h: f64,
        (x, chosen): (&[F], Chosen<'_>),
        slots: &mut [f64],
        theta: &mut [f64],
    ) -> Result<(), Error> {
        let (model, n, blocks) = (self.model, self.blocks.n, self.blocks);
        let width = theta.len();
        let mean_gradient = |theta: &[f64], out: &mut [f64]| {
            let asked = for_each(blocks.parallel, (blocks.own_slots(slots, width), width), |b, slot| {
                let worker = &mut *self.workers.get();
                let at = blocks.at(blocks.own[0] + b, theta, chosen.groups, x, self.stop);
                model.evaluate(at, Want { grad_theta: Some(slot), ..Want::nothing(&mut worker.scratch) })
            });
            agree(self.ranks, asked)?;
            let sums = blocks.sum(self.ranks, slots, width);
            out.iter_mut().zip(sums).for_each(|(o, s)| *o = *s / n as f64);
            Ok(())
        };
        let norm = maximise(theta, mean_gradient).map_err(|source| Trouble::Model(source).at(k, h))?;
        if norm.is_finite() { Ok(()) } else { Err(diverged(k, "|theta-gradient|", norm, h)) }
    }
}

/// The largest magnitude; NaN if there is one.
pub(crate) fn max_abs<F: Real>(values: &[F]) -> f64 {
    let larger = |m: f64, v: f64| if v.is_nan() || m.is_nan() { f64::NAN } else { m.max(v) };
    values.iter().map(|v| v.f64().abs()).fold(0.0, larger)
}

/// A divergence on the way from k to k + 1; the run loop replaces the suggestion by one that knows the model.
pub(crate) fn diverged(k: u64, what: &'static str, norm: f64, h: f64) -> Error {
    Error::Diverged { step: k + 1, what, norm, h, setting: "step-size", suggestion: h / 2.0, kept: false }
}
