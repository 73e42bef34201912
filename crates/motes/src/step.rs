//! One step: the cloud moves, what moves theta is collected, theta moves.

use std::ops::Range;

use crate::algorithms::{Composition, PRECONDITIONER};
use crate::batches::Batches;
use crate::blocks::{INLINE_NANOSECONDS, PerWorker, for_each, sum_slots};
use crate::moves::langevin::Trouble;
use crate::moves::{Move, Moves};
use crate::noise::{Noise, Purpose};
use crate::rules::{Rule, ThetaStep, maximise};
use crate::state::recall;
use crate::{At, Error, Model, ModelError, Real, State, Want};

/// Advances a state by one step. It owns workspace, never truth: a stepper made anew continues with the same bits.
pub struct Stepper<'m, F: Real> {
    pub(crate) kit: Kit<'m, F>,
    /// Steps before accept-reject begins.
    adjust_after: u64,
    /// The order in which data are visited, if in mini-batches.
    pub(crate) batches: Option<Batches>,
    /// A slot per block: sums over its particles, then what an accept-reject step counts or sums.
    pub(crate) slots: Vec<f64>,
    /// The proposed cloud, where the whole cloud is accepted or rejected; the gradients of a variational move.
    pub(crate) proposal: Vec<F>,
    /// A theta that is made before it may replace the old one.
    pub(crate) psi: Vec<f64>,
    /// Where a variational Gaussian goes: the gradients in its means and variances.
    pub(crate) directions: Vec<f64>,
}

/// What all blocks of a step share.
pub(crate) struct Kit<'m, F: Real> {
    pub model: &'m dyn Model<F>,
    pub composition: Composition,
    pub noise: Noise,
    pub accept: Noise,
    pub on_theta: Noise,
    pub workers: PerWorker<Worker<F>>,
    /// How the cloud at hand is cut.
    pub blocks: Blocks,
    /// How many numbers the rule sums over the blocks.
    pub sums_len: usize,
    /// The length of a block's slot: the sums, then two numbers for accept-reject steps.
    pub width: usize,
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
}

impl<F: Real> Worker<F> {
    pub fn new(model: &dyn Model<F>, block: usize, accepts: bool) -> Self {
        let len = block * model.d_x();
        let proposals = if accepts { len } else { 0 };
        // Written to, so that the system hands the memory out now and not in the first steps.
        let zeros = |len| {
            let mut memory = Vec::with_capacity(len);
            memory.resize(len, F::of(0.0));
            memory
        };
        Worker {
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

/// The step sizes of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSizes {
    /// h, of the particles, and of theta where it has none of its own.
    pub h: f64,
    /// Of theta, where it follows its gradient.
    pub rate: f64,
}

/// What a stepper is made for, besides the model and the composition.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The seed of all randomness.
    pub seed: u64,
    /// Which noise is drawn.
    pub streams: Streams,
    /// Steps before accept-reject begins.
    pub adjust_after: u64,
    /// Data terms per mini-batch.
    pub batch: Option<usize>,
    /// All the numbers of particles that there will be.
    pub sizes: &'a [usize],
}

impl<'m, F: Real> Stepper<'m, F> {
    /// A stepper for clouds of the given sizes. Must be made inside [`crate::Pool::install`].
    pub fn new(model: &'m dyn Model<F>, composition: Composition, plan: Plan<'_>) -> Result<Self, Error> {
        composition.refuse_nonsense()?;
        let [particles, accept, on_theta] = match plan.streams {
            Streams::Run => [Purpose::Particles, Purpose::Accept, Purpose::Theta],
            Streams::WarmStart => [Purpose::WarmStart, Purpose::WarmStartAccept, Purpose::WarmStartTheta],
        }
        .map(|purpose| Noise::new(plan.seed, purpose));
        let cuts = || plan.sizes.iter().map(|n| Blocks::new(model, *n));
        let block = cuts().map(|b| b.rows).max().unwrap_or(0);
        let slots = cuts().map(|b| b.count).max().unwrap_or(0);
        let n = plan.sizes.iter().copied().max().unwrap_or(0);
        let movement = composition.movement;
        let accepts = matches!(movement, Move::Mala | Move::WholeCloud);
        let whole = matches!(movement, Move::WholeCloud | Move::Variational);
        let sums_len = composition.rule.sums_len(model);
        // D_theta at least for the gradients of a numerical M-step.
        let width = sums_len.max(if composition.rule == Rule::MStep { model.d_theta() } else { 0 }) + 2;
        Ok(Stepper {
            kit: Kit {
                model,
                composition,
                noise: particles,
                accept,
                on_theta,
                workers: PerWorker::new(|| Worker::new(model, block, accepts)),
                blocks: Blocks::new(model, 0),
                sums_len,
                width,
            },
            adjust_after: plan.adjust_after,
            batches: plan.batch.zip(model.data_terms()).map(|(b, terms)| Batches::new(plan.seed, terms, b)),
            // One more for the state of a chain at hand.
            slots: vec![0.0; (slots + usize::from(movement == Move::Chain)) * width],
            proposal: if whole { vec![F::of(0.0); n * model.d_x()] } else { Vec::new() },
            psi: vec![0.0; model.d_theta()],
            directions: vec![0.0; if movement == Move::Variational { 2 * model.d_x() } else { 0 }],
        })
    }

    /// One step, from (theta_k, X_k) to (theta_{k+1}, X_{k+1}).
    pub fn step(&mut self, state: &mut State<F>, sizes: StepSizes) -> Result<Moves, Error> {
        let h = sizes.h;
        let accepting = state.k >= self.adjust_after;
        self.kit.cut(state.cloud.n());
        if let Some(batches) = &mut self.batches {
            batches.seek(state.k);
        }
        let first = self.kit.composition.theta_first();
        if first {
            self.theta_before_the_move(state, sizes)?;
        }
        let moves = match self.kit.composition.movement {
            Move::Nothing => Moves::default(),
            Move::Chain => self.chain_step(state, h)?,
            Move::Variational => self.variational_step(state, h)?,
            Move::Mala if accepting => self.langevin_step(state, h, true)?,
            Move::WholeCloud if accepting => {
                let moves = self.whole_cloud_step(state, sizes)?;
                return self.end(state, h, moves);
            }
            Move::Ula | Move::Mala | Move::WholeCloud => self.langevin_step(state, h, false)?,
        };
        if first {
            state.theta.copy_from_slice(&self.psi);
        } else {
            self.update_theta(state, sizes)?;
        }
        self.end(state, h, moves)
    }

    /// Counts the step, unless theta has left every reasonable range.
    fn end(&self, state: &mut State<F>, h: f64, moves: Moves) -> Result<Moves, Error> {
        let norm = max_abs(&state.theta);
        if norm.is_nan() || norm > F::LIMIT {
            return Err(diverged(state.k, "|theta|", norm, h));
        }
        state.k += 1;
        Ok(moves)
    }

    /// theta_{k+1} from (theta_k, X_k) in a pass of its own, for moves that cannot collect on their way.
    fn theta_before_the_move(&mut self, state: &mut State<F>, sizes: StepSizes) -> Result<(), Error> {
        let k = state.k;
        let batch = self.batches.as_ref().map(|b| b.current());
        self.kit
            .collect(&state.theta, batch, state.cloud.as_slice(), &mut self.slots)
            .map_err(|e| e.at(k, sizes.h))?;
        self.psi.copy_from_slice(&state.theta);
        self.kit.update(state, sizes, &mut self.slots, &mut self.psi)
    }

    /// theta_*(x^{1:N}) for the state's cloud, where theta follows from it; else nothing happens. The step size h is for
    /// messages.
    pub fn settle_theta(&mut self, state: &mut State<F>, h: f64) -> Result<(), Error> {
        if self.kit.composition.rule != Rule::MStep {
            return Ok(());
        }
        self.kit.cut(state.cloud.n());
        let x = state.cloud.as_slice();
        self.kit.collect(&state.theta, None, x, &mut self.slots).map_err(|e| e.at(state.k, h))?;
        self.update_theta(state, StepSizes { h, rate: h })
    }

    /// The sums that moved theta in the last step.
    pub fn sums(&self) -> &[f64] {
        &self.slots[..self.kit.sums_len.min(self.slots.len())]
    }

    /// Moves theta by the sums in the slots, or by the M-step.
    fn update_theta(&mut self, state: &mut State<F>, sizes: StepSizes) -> Result<(), Error> {
        self.psi.copy_from_slice(&state.theta);
        self.kit.update(state, sizes, &mut self.slots, &mut self.psi)?;
        state.theta.copy_from_slice(&self.psi);
        Ok(())
    }
}

impl<F: Real> Kit<'_, F> {
    /// Cuts n particles into blocks.
    fn cut(&mut self, n: usize) {
        if self.blocks.n != n {
            self.blocks = Blocks::new(self.model, n);
        }
    }

    /// Asks the model, and has it write into `sums`, where given, a block's share of what moves theta. Nothing that
    /// moves theta is collected anywhere else.
    pub fn ask<'a>(
        &self,
        at: At<'_, F>,
        mut want: Want<'a, F>,
        sums: Option<&'a mut [f64]>,
    ) -> Result<(), ModelError> {
        if let Some(sums) = sums {
            let d = at.theta.len();
            match self.composition.rule {
                Rule::Gradient { .. } => want.grad_theta = Some(&mut sums[..d]),
                Rule::Newton => {
                    let (gradient, hessian) = sums.split_at_mut(d);
                    want.grad_theta = Some(gradient);
                    want.hessian = Some(&mut hessian[..d * d]);
                }
                Rule::MStep => {
                    if let Some(m) = self.model.m_step() {
                        m.statistics(at.x, &mut sums[..m.statistics_len()])?;
                    }
                }
                Rule::ExactEm => {}
            }
        }
        if want.is_empty() { Ok(()) } else { self.model.evaluate(at, want) }
    }

    /// Fills the slots with what moves theta, at the cloud x.
    fn collect(
        &self,
        theta: &[f64],
        batch: Option<&[u32]>,
        x: &[F],
        slots: &mut [f64],
    ) -> Result<(), Trouble> {
        let (blocks, d) = (self.blocks, self.model.d_x());
        for_each(blocks.parallel, (&mut slots[..blocks.count * self.width], self.width), |b, slot| {
            let rows = blocks.range(b);
            let x = &x[rows.start * d..rows.end * d];
            let at = At { theta, x, batch, parallel: blocks.count == 1 };
            let worker = &mut *self.workers.get();
            self.ask(at, Want::nothing(&mut worker.scratch), Some(&mut slot[..self.sums_len]))?;
            Ok(())
        })
    }

    /// Moves theta by the sums in the slots, or by the M-step for the state's cloud.
    fn update(
        &self,
        state: &mut State<F>,
        sizes: StepSizes,
        slots: &mut [f64],
        theta: &mut [f64],
    ) -> Result<(), Error> {
        let State { cloud, memory, k, .. } = state;
        let [memory] = recall(memory, [PRECONDITIONER]);
        self.update_by(*k, sizes, cloud.as_slice(), slots, theta, memory)
    }

    /// The same for any cloud x.
    pub fn update_by(
        &self,
        k: u64,
        StepSizes { h, rate }: StepSizes,
        x: &[F],
        slots: &mut [f64],
        theta: &mut [f64],
        memory: &mut [f64],
    ) -> Result<(), Error> {
        let rule = self.composition.rule;
        if rule == Rule::MStep && self.model.m_step().is_none() {
            return self.numerical_m_step(k, h, x, slots, theta);
        }
        let sums: &mut [f64] = match self.blocks.count {
            0 => &mut [],
            count => &mut sum_slots(&mut slots[..count * self.width], self.width)[..self.sums_len],
        };
        let step = ThetaStep { k, h, rate, n: self.blocks.n, noise: &self.on_theta, sums, theta, memory };
        rule.update(self.model, step)
    }

    /// Maximises the mean of l over the cloud x by its gradients.
    fn numerical_m_step(
        &self,
        k: u64,
        h: f64,
        x: &[F],
        slots: &mut [f64],
        theta: &mut [f64],
    ) -> Result<(), Error> {
        let (model, d, n, blocks) = (self.model, self.model.d_x(), self.blocks.n, self.blocks);
        let width = theta.len();
        let slots = &mut slots[..blocks.count * width];
        let mean_gradient = |theta: &[f64], out: &mut [f64]| {
            for_each(blocks.parallel, (&mut *slots, width), |b, slot| {
                let rows = blocks.range(b);
                let x = &x[rows.start * d..rows.end * d];
                let worker = &mut *self.workers.get();
                let at = At { theta, x, batch: None, parallel: blocks.count == 1 };
                model.evaluate(at, Want { grad_theta: Some(slot), ..Want::nothing(&mut worker.scratch) })
            })?;
            let sums = sum_slots(slots, width);
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
    Error::Diverged { step: k + 1, what, norm, h, suggestion: h / 2.0, kept: false }
}

/// How n particles are cut into blocks.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    pub n: usize,
    pub rows: usize,
    pub count: usize,
    pub parallel: bool,
}

impl Blocks {
    pub fn new<F: Real>(model: &dyn Model<F>, n: usize) -> Self {
        let rows = model.particles_per_block(n).clamp(1, n.max(1));
        let count = n.div_ceil(rows);
        let work = n as f64 * model.nanoseconds_per_particle();
        Blocks { n, rows, count, parallel: count > 1 && work > INLINE_NANOSECONDS }
    }

    /// Particles of block b.
    pub fn range(&self, b: usize) -> Range<usize> {
        b * self.rows..((b + 1) * self.rows).min(self.n)
    }
}
