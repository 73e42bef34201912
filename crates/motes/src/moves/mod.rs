//! Particle moves, and the stepper that joins a move with a theta-rule.

mod batches;
mod chain;
mod per_particle;
mod shadow;
mod variational;
mod whole_cloud;

pub use shadow::{Shadow, shadow_acceptance};
pub(crate) use variational::{draw, softplus};

use std::ops::Range;

pub use self::batches::Batches;
use crate::algorithms::{Composition, Order};
use crate::blocks::{INLINE_NANOSECONDS, PerWorker, for_each, sum_slots};
use crate::noise::{Noise, Purpose};
use crate::rules::{Rule, ThetaStep, maximise};
use crate::{At, Error, Model, ModelError, Real, State};

/// How particles move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Every particle by the unadjusted Langevin kernel K_theta of eq. ULAkernel.
    Ula,
    /// The same, accepted or rejected particle by particle.
    Mala,
    /// One particle N times in a row; the cloud is its path.
    Chain,
    /// Every particle by K_theta, accepted or rejected all together.
    WholeCloud,
    /// Every particle drawn anew from a product Gaussian, which then moves.
    Variational,
    /// There are no particles.
    Nothing,
}

/// What a step reports besides the new state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Moves that went through an accept-reject step.
    pub proposed: u64,
    /// Of these, accepted.
    pub accepted: u64,
}

/// Advances a state by one step. It owns workspace, never truth: a stepper made anew continues with the same bits.
pub struct Stepper<'m, F: Real> {
    kit: Kit<'m, F>,
    /// Steps before accept-reject begins.
    adjust_after: u64,
    /// The order in which data are visited, if in mini-batches.
    batches: Option<Batches>,
    /// A slot per block: sums over its particles, and last the number of accepted moves.
    slots: Vec<f64>,
    /// The proposed cloud, where the whole cloud is accepted or rejected; the gradients of a variational move.
    proposal: Vec<F>,
    /// The theta proposed with it.
    psi: Vec<f64>,
    /// Where a variational Gaussian goes: the gradients in its means and variances.
    directions: Vec<f64>,
}

/// What all blocks of a step share.
struct Kit<'m, F: Real> {
    model: &'m dyn Model<F>,
    rule: Rule,
    movement: Move,
    order: Order,
    noise: Noise,
    accept: Noise,
    workers: PerWorker<Worker<F>>,
    /// How the cloud at hand is cut.
    blocks: Blocks,
    /// How many numbers the rule sums over the blocks.
    sums_len: usize,
    /// The length of a block's slot.
    width: usize,
}

/// What one worker needs while it evaluates a block.
struct Worker<F> {
    grad_theta: Vec<f64>,
    grad: Vec<F>,
    scratch: Vec<F>,
    /// Proposals and their gradients, for MALA.
    proposal: Vec<F>,
    proposal_grad: Vec<F>,
    log_density: Vec<f64>,
    log_ratio: Vec<f64>,
}

impl<F: Real> Worker<F> {
    fn new(model: &dyn Model<F>, block: usize, accepts: bool) -> Self {
        let len = block * model.d_x();
        let proposals = if accepts { len } else { 0 };
        // Written to, so that the system hands the memory out now and not in the first steps.
        let zeros = |len| {
            let mut memory = Vec::with_capacity(len);
            memory.resize(len, F::of(0.0));
            memory
        };
        Worker {
            grad_theta: vec![0.0; model.d_theta()],
            grad: zeros(len),
            scratch: zeros(model.scratch_len(block)),
            proposal: zeros(proposals),
            proposal_grad: zeros(proposals),
            log_density: vec![0.0; block],
            log_ratio: vec![0.0; block],
        }
    }
}

/// Which noise a stepper draws: a warm start has streams of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// The run itself.
    Run,
    /// The single-particle run before it.
    WarmStart,
}

impl<'m, F: Real> Stepper<'m, F> {
    /// A stepper for clouds of the given sizes. Must be made inside [`crate::Pool::install`].
    pub fn new(
        model: &'m dyn Model<F>,
        composition: Composition,
        seed: u64,
        streams: Streams,
        adjust_after: u64,
        batch: Option<usize>,
        sizes: &[usize],
    ) -> Self {
        let (particles, accept) = match streams {
            Streams::Run => (Purpose::Particles, Purpose::Accept),
            Streams::WarmStart => (Purpose::WarmStart, Purpose::WarmStartAccept),
        };
        let cuts = || sizes.iter().map(|n| Blocks::new(model, *n));
        let block = cuts().map(|b| b.rows).max().unwrap_or(0);
        let slots = cuts().map(|b| b.count).max().unwrap_or(0);
        let n = sizes.iter().copied().max().unwrap_or(0);
        let accepts = matches!(composition.movement, Move::Mala | Move::WholeCloud);
        let whole = matches!(composition.movement, Move::WholeCloud | Move::Variational);
        let sums_len = composition.rule.sums_len(model);
        // D_theta at least, for the gradients of a numerical M-step; two more for what an accept-reject step sums.
        let width = sums_len.max(model.d_theta()) + 2;
        Stepper {
            kit: Kit {
                model,
                rule: composition.rule,
                movement: composition.movement,
                order: composition.order,
                noise: Noise::new(seed, particles),
                accept: Noise::new(seed, accept),
                workers: PerWorker::new(|| Worker::new(model, block, accepts)),
                blocks: Blocks::new(model, 0),
                sums_len,
                width,
            },
            adjust_after,
            batches: batch.zip(model.data_terms()).map(|(b, terms)| Batches::new(seed, terms, b)),
            slots: vec![0.0; slots * width],
            proposal: if whole { vec![F::of(0.0); n * model.d_x()] } else { Vec::new() },
            psi: vec![0.0; model.d_theta()],
            directions: vec![
                0.0;
                if composition.movement == Move::Variational { 2 * model.d_x() } else { 0 }
            ],
        }
    }

    /// One step, from (theta_k, X_k) to (theta_{k+1}, X_{k+1}) with step size h.
    pub fn step(&mut self, state: &mut State<F>, h: f64) -> Result<Moves, Error> {
        let accepting = state.k >= self.adjust_after;
        self.kit.cut(state.cloud.n());
        if let Some(batches) = &mut self.batches {
            batches.seek(state.k);
        }
        let moves = match self.kit.movement {
            Move::Nothing => {
                self.update_theta(state, h)?;
                Moves::default()
            }
            Move::Chain => self.chain_step(state, h)?,
            Move::Variational => self.variational_step(state, h)?,
            Move::Mala if accepting => self.per_particle_step(state, h, true)?,
            Move::WholeCloud if accepting => self.whole_cloud_step(state, h)?,
            Move::Ula | Move::Mala | Move::WholeCloud => self.per_particle_step(state, h, false)?,
        };
        self.check_theta(state, h)?;
        state.k += 1;
        Ok(moves)
    }

    /// theta_*(x^{1:N}) for the state's cloud, where theta follows from it; else nothing happens. The step size h is for
    /// messages.
    pub fn settle_theta(&mut self, state: &mut State<F>, h: f64) -> Result<(), Error> {
        if self.kit.rule != Rule::MStep {
            return Ok(());
        }
        self.kit.cut(state.cloud.n());
        let x = state.cloud.as_slice();
        self.kit
            .collect_statistics(x, &mut self.slots)
            .map_err(|source| Error::Model { step: state.k, source })?;
        self.kit.m_step(state.k, h, x, &mut self.slots, &mut state.theta)
    }

    /// The sums that moved theta in the last step.
    pub fn sums(&self) -> &[f64] {
        &self.slots[..self.kit.sums_len.min(self.slots.len())]
    }

    /// Moves theta by the sums in the slots, or by the M-step.
    fn update_theta(&mut self, state: &mut State<F>, h: f64) -> Result<(), Error> {
        let Kit { model, rule, blocks, sums_len, width, .. } = self.kit;
        if rule == Rule::MStep {
            let x = state.cloud.as_slice();
            return self.kit.m_step(state.k, h, x, &mut self.slots, &mut state.theta);
        }
        let n = state.cloud.n();
        let sums: &mut [f64] = match blocks.count {
            0 => &mut [],
            count => &mut sum_slots(&mut self.slots[..count * width], width)[..sums_len],
        };
        let (theta, memory) = (&mut state.theta[..], &mut state.memory[..]);
        rule.update(model, ThetaStep { k: state.k, h, n, sums, theta, memory })
    }

    fn check_theta(&self, state: &State<F>, h: f64) -> Result<(), Error> {
        let norm = max_abs(&state.theta);
        if norm <= F::LIMIT {
            return Ok(());
        }
        Err(diverged(state.k, "|theta|", norm, h))
    }
}

impl<F: Real> Kit<'_, F> {
    /// Cuts n particles into blocks.
    fn cut(&mut self, n: usize) {
        if self.blocks.n != n {
            self.blocks = Blocks::new(self.model, n);
        }
    }

    /// Fills the slots with the statistics of the cloud x, for a closed M-step.
    fn collect_statistics(&self, x: &[F], slots: &mut [f64]) -> Result<(), ModelError> {
        let Some(m) = self.model.m_step() else {
            return Ok(());
        };
        let (d, len) = (self.model.d_x(), m.statistics_len());
        let blocks = self.blocks;
        let slots = (&mut slots[..blocks.count * self.width], self.width);
        for_each(blocks.parallel, slots, |b, slot| {
            let rows = blocks.range(b);
            m.statistics(&x[rows.start * d..rows.end * d], &mut slot[..len])
        })
    }

    /// The M-step for the cloud x: closed, from the statistics in the slots, or numerical.
    fn m_step(&self, k: u64, h: f64, x: &[F], slots: &mut [f64], theta: &mut [f64]) -> Result<(), Error> {
        let (model, d) = (self.model, self.model.d_x());
        let (n, blocks) = (self.blocks.n, self.blocks);
        if model.m_step().is_some() {
            let sums = sum_slots(&mut slots[..blocks.count * self.width], self.width);
            let sums = &mut sums[..self.sums_len];
            let step = ThetaStep { k, h, n, sums, theta, memory: &mut [] };
            return self.rule.update(model, step);
        }
        let width = theta.len();
        let slots = &mut slots[..blocks.count * width];
        let mean_gradient = |theta: &[f64], out: &mut [f64]| {
            for_each(blocks.parallel, (&mut *slots, width), |b, slot| {
                let rows = blocks.range(b);
                let x = &x[rows.start * d..rows.end * d];
                let worker = &mut *self.workers.get();
                let at = At { theta, x, batch: None, parallel: blocks.count == 1 };
                model.gradients(at, slot, &mut worker.grad[..x.len()], &mut worker.scratch)
            })?;
            let sums = sum_slots(slots, width);
            out.iter_mut().zip(sums).for_each(|(o, s)| *o = *s / n as f64);
            Ok(())
        };
        let norm = maximise(theta, mean_gradient).map_err(|source| Error::Model { step: k, source })?;
        if norm.is_finite() { Ok(()) } else { Err(diverged(k, "|theta-gradient|", norm, h)) }
    }
}

/// The largest magnitude; NaN if there is one.
pub(crate) fn max_abs<F: Real>(values: &[F]) -> f64 {
    let larger = |m: f64, v: f64| if v.is_nan() || m.is_nan() { f64::NAN } else { m.max(v) };
    values.iter().map(|v| v.f64().abs()).fold(0.0, larger)
}

/// A divergence on the way from k to k + 1; the run loop replaces the suggestion by one that knows the model.
fn diverged(k: u64, what: &'static str, norm: f64, h: f64) -> Error {
    Error::Diverged { step: k + 1, what, norm, h, suggestion: h / 2.0 }
}

/// How n particles are cut into blocks.
#[derive(Clone, Copy)]
struct Blocks {
    n: usize,
    rows: usize,
    count: usize,
    parallel: bool,
}

impl Blocks {
    fn new<F: Real>(model: &dyn Model<F>, n: usize) -> Self {
        let rows = model.particles_per_block(n).clamp(1, n.max(1));
        let count = n.div_ceil(rows);
        let work = n as f64 * model.nanoseconds_per_particle();
        Blocks { n, rows, count, parallel: count > 1 && work > INLINE_NANOSECONDS }
    }

    /// Particles of block b.
    fn range(&self, b: usize) -> Range<usize> {
        b * self.rows..((b + 1) * self.rows).min(self.n)
    }
}
