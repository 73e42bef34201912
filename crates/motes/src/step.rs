//! One step: the cloud moves, what moves theta is collected, theta moves.

use std::sync::Mutex;

use crate::algorithms::{Collect, Composition, PRECONDITIONER, THETA_VELOCITY};
use crate::averages::Leaves;
use crate::batches::Batches;
use crate::blocks::PerWorker;
use crate::kit::{Chosen, Field, Kit, Worker, diverged, max_abs};
use crate::moves::{Move, Moves};
use crate::noise::{Noise, Purpose};
use crate::ranks::{Ranks, Team};
use crate::rows::Blocks;
use crate::rules::Rule;
use crate::state::{Per, recall};
use crate::{Error, Model, Real, State, Stop};

/// Advances a state by one step. It owns workspace, never truth: a stepper made anew continues with the same bits.
pub struct Stepper<'m, F: Real> {
    pub(crate) kit: Kit<'m, F>,
    /// Steps before accept-reject begins.
    adjust_after: u64,
    /// The order in which data are visited, if in mini-batches.
    batches: Option<Batches>,
    /// The groups that move in this step: all, or those of the batch.
    groups: Vec<u32>,
    /// The data terms of this step's batch, where terms are batched.
    terms: Vec<u32>,
    /// How many groups move at once.
    at_once: usize,
    /// What the step at hand reports: a result that holds it would be copied from call to call.
    pub(crate) moves: Moves,
    /// How many numbers the cloud had when it was last looked at, and hence particles: a division takes as long as much else
    /// of a small step.
    seen: (usize, usize),
    /// The groups of a batch while they move: they are taken back last, so that a step that is given up leaves no trace.
    lent: Vec<F>,
    /// A slot per block: sums over its rows, then what an accept-reject step counts or sums.
    pub(crate) slots: Vec<f64>,
    /// The proposed cloud, where the whole cloud is accepted or rejected; the gradients of a variational move.
    pub(crate) proposal: Vec<F>,
    /// A theta that is made before it may replace the old one.
    pub(crate) psi: Vec<f64>,
    /// Where a variational Gaussian goes: the gradients in its means and variances.
    pub(crate) directions: Vec<f64>,
    /// One particle of each group, as a chain moves it.
    pub(crate) chain: Vec<F>,
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
    /// Groups per mini-batch, or data terms where there is one group.
    pub batch: Option<usize>,
    /// All the numbers of particles that there will be.
    pub sizes: &'a [usize],
    /// The learning rate of an inference network.
    pub encoder_rate: f64,
}

impl<'m, F: Real> Stepper<'m, F> {
    /// A stepper for clouds of the given sizes, and who works on them. Must be made inside [`crate::Pool::install`].
    pub fn new(
        model: &'m dyn Model<F>,
        composition: Composition,
        plan: Plan<'_>,
        team: impl Into<Team<'m>>,
    ) -> Result<Self, Error> {
        let Team { ranks, stop } = team.into();
        refuse_ranks(ranks, model, composition)?;
        composition.refuse_nonsense()?;
        if composition.ends_itself() {
            let sentence = "this composition is not made of single steps; run it by its algorithm";
            return Err(Error::Settings(sentence.into()));
        }
        let missing = match composition.movement {
            Move::Fresh if model.encoder().is_none() => "an inference network",
            Move::Transitions { fresh: true, .. } if model.prior().is_none() => "a prior sampler",
            _ => "",
        };
        if !missing.is_empty() {
            let sentence =
                format!("the model {} lacks {missing} to draw from; choose another move", model.name());
            return Err(Error::Settings(sentence));
        }
        let [particles, accept, on_theta] = match plan.streams {
            Streams::Run => [Purpose::Particles, Purpose::Accept, Purpose::Theta],
            Streams::WarmStart => [Purpose::WarmStart, Purpose::WarmStartAccept, Purpose::WarmStartTheta],
        }
        .map(|purpose| Noise::new(plan.seed, purpose));
        let (movement, d) = (composition.movement, model.d_x());
        let batches_groups = plan.batch.is_some() && model.groups() > 1;
        // Rows that move where they lie cannot be put back halfway.
        let stop = if batches_groups || model.whole_batch() { stop } else { Stop::default() };
        let groups = if batches_groups { plan.batch.unwrap_or(0) } else { model.groups() };
        let cuts = || plan.sizes.iter().map(|n| Blocks::new(model, groups, *n));
        let chained = if movement == Move::Chain { groups } else { 0 };
        let rows = cuts().map(|b| b.rows).max().unwrap_or(0).max(chained);
        let slots = cuts().map(|b| b.count).max().unwrap_or(0);
        let most = plan.sizes.iter().copied().max().unwrap_or(0);
        let proposes = composition.proposes();
        let whole = matches!(movement, Move::WholeCloud | Move::Variational);
        let (sums_len, scalars_len) = (composition.rule.sums_len(model), model.scalars().len());
        // D_theta at least for the gradients of a numerical M-step.
        let numerical = if composition.rule == Rule::MStep { model.d_theta() } else { 0 };
        let width = (sums_len + scalars_len).max(numerical) + 2;
        // Where it has an end of a cell of averages wherever it has an end of its rows, a rank can keep these for itself.
        let n = plan.sizes.first().copied().unwrap_or(0);
        let all = Blocks::new(model, groups, n);
        let leaves = Leaves::new::<F>(groups, n, all.rows);
        let by_itself = matches!(movement, Move::Ula | Move::Mala | Move::Kinetic { .. } | Move::WholeCloud);
        let apart = ranks.size() > 1
            && by_itself
            && !batches_groups
            && plan.sizes.len() == 1
            && (groups > 1 || leaves.count >= ranks.size());
        let unit = if apart && groups == 1 { leaves.particles } else { 1 };
        let terms = if batches_groups { Some(model.groups()) } else { model.data_terms() };
        Ok(Stepper {
            kit: Kit {
                model,
                composition,
                d,
                theta_first: composition.theta_first(),
                collect: composition.collect(),
                remembers: model.buffers() > 0,
                whole_batch: model.whole_batch(),
                noise: particles,
                accept,
                on_theta,
                workers: PerWorker::new(|| Worker::new(model, rows, proposes)),
                blocks: Blocks::new(model, 0, 0),
                most,
                sums_len,
                scalars_len,
                width,
                buffers: Mutex::new(vec![0.0; model.buffers()]),
                batches_groups,
                encoder_rate: plan.encoder_rate,
                seed: plan.seed,
                stop,
                ranks,
                apart,
                unit,
            },
            adjust_after: plan.adjust_after,
            batches: plan.batch.zip(terms).map(|(b, terms)| Batches::new(plan.seed, terms, b)),
            groups: (0..model.groups() as u32).collect(),
            terms: Vec::new(),
            at_once: groups,
            moves: Moves::default(),
            seen: (0, 0),
            lent: Vec::new(),
            // One more for the state of a chain at hand.
            slots: vec![0.0; (slots + usize::from(movement == Move::Chain)) * width],
            proposal: if whole { vec![F::of(0.0); groups * most * d] } else { Vec::new() },
            psi: vec![0.0; model.d_theta()],
            directions: vec![0.0; if movement == Move::Variational { 2 * groups * d } else { 0 }],
            chain: vec![F::of(0.0); chained * d],
        })
    }

    /// One step, from (theta_k, X_k) to (theta_{k+1}, X_{k+1}). A step that is stopped leaves no trace.
    pub fn step(&mut self, state: &mut State<F>, sizes: StepSizes) -> Result<Moves, Error> {
        if let Some(batches) = &mut self.batches {
            batches.seek(state.k);
            let chosen = if self.kit.batches_groups { &mut self.groups } else { &mut self.terms };
            chosen.clear();
            chosen.extend_from_slice(batches.current());
        }
        self.moves = Moves::default();
        self.on_the_rows(state, |stepper, state, chosen, x| {
            stepper.advance(state, chosen, x, sizes)?;
            let norm = max_abs(&state.theta);
            if norm.is_nan() || norm > F::LIMIT {
                return Err(diverged(state.k, "|theta|", norm, sizes.h));
            }
            Ok(())
        })?;
        if self.kit.remembers {
            state.buffers.copy_from_slice(&self.kit.new_buffers());
        }
        state.k += 1;
        Ok(self.moves)
    }

    /// Lends the rows of the groups at hand, and takes them back if all goes well. Where all groups move, and nothing can
    /// stop in between, they are lent without a copy.
    fn on_the_rows<T>(
        &mut self,
        state: &mut State<F>,
        work: impl FnOnce(&mut Self, &mut State<F>, Chosen<'_>, &mut [F]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (groups, terms) = (std::mem::take(&mut self.groups), std::mem::take(&mut self.terms));
        if self.seen.0 != state.cloud.data.len() {
            self.seen = (state.cloud.data.len(), state.cloud.n());
        }
        let (n, d) = (self.seen.1, self.kit.d);
        self.kit.cut(groups.len(), n);
        let copies = self.kit.batches_groups || self.kit.whole_batch;
        let mut x = match copies {
            true => std::mem::take(&mut self.lent),
            false => std::mem::take(&mut state.cloud.data),
        };
        if copies {
            x.clear();
            groups.iter().for_each(|g| x.extend_from_slice(state.cloud.group(*g as usize)));
        }
        let of_terms = (self.batches.is_some() && !self.kit.batches_groups).then_some(&terms[..]);
        let done = work(self, state, Chosen { groups: &groups, terms: of_terms }, &mut x);
        match copies {
            true => {
                if done.is_ok() {
                    for (g, x) in groups.iter().zip(x.chunks_exact((n * d).max(1))) {
                        let to = *g as usize * n * d;
                        state.cloud.data[to..to + n * d].copy_from_slice(x);
                    }
                }
                self.lent = x;
            }
            false => state.cloud.data = x,
        }
        (self.groups, self.terms) = (groups, terms);
        done
    }

    /// Moves particles and theta.
    fn advance(
        &mut self,
        state: &mut State<F>,
        chosen: Chosen<'_>,
        x: &mut [F],
        sizes: StepSizes,
    ) -> Result<(), Error> {
        let (movement, h) = (self.kit.composition.movement, sizes.h);
        let accepting = state.k >= self.adjust_after;
        if self.kit.theta_first {
            self.collect(state, chosen, x, h)?;
            self.new_theta(state, chosen, x, sizes)?;
        }
        let k = state.k;
        let collect = self.kit.collect;
        let State { theta, buffers, memory, .. } = &mut *state;
        let mut field = Field { k, theta, buffers, groups: chosen.groups, terms: chosen.terms, x };
        match movement {
            Move::Nothing => {}
            Move::Hamiltonian => unreachable!("refused when the stepper was made"),
            Move::Chain => self.chain_step(field, h)?,
            Move::Variational => self.variational_step(field, memory, h)?,
            Move::Kinetic { friction } => self.kinetic_step(field, memory, friction, h)?,
            Move::Mala if accepting => self.langevin_step(&mut field, k, h, true, collect)?,
            Move::WholeCloud if accepting => {
                self.moves = self.whole_cloud_step(state, chosen, x, sizes)?;
                return Ok(());
            }
            Move::Ula | Move::Mala | Move::WholeCloud => {
                self.langevin_step(&mut field, k, h, false, collect)?
            }
            Move::Transitions { .. } | Move::Fresh => {
                self.draw(&mut field, h, &Noise::new(self.kit.seed, Purpose::Variational), k)?;
                if collect == Collect::After {
                    self.collect(state, chosen, x, h)?;
                }
            }
        }
        if !self.kit.theta_first {
            self.new_theta(state, chosen, x, sizes)?;
        }
        state.theta.copy_from_slice(&self.psi);
        Ok(())
    }

    /// Draws the latent variables of all groups anew, for moves that keep no particles from step to step: what stands
    /// for the posterior at the end of a run.
    pub fn draw_posterior(&mut self, state: &mut State<F>, sizes: StepSizes) -> Result<(), Error> {
        let all: Vec<u32> = (0..state.cloud.groups() as u32).collect();
        let noise = Noise::new(self.kit.seed, Purpose::Encoder);
        for groups in all.chunks(self.at_once.max(1)) {
            self.groups.clear();
            self.groups.extend_from_slice(groups);
            self.on_the_rows(state, |stepper, state, chosen, x| {
                let State { theta, buffers, k, .. } = &*state;
                let mut field =
                    Field { k: *k, theta, buffers, groups: chosen.groups, terms: chosen.terms, x };
                stepper.draw(&mut field, sizes.h, &noise, 0)
            })?;
        }
        Ok(())
    }

    /// Fills the slots with what moves theta.
    fn collect(&mut self, state: &State<F>, chosen: Chosen<'_>, x: &[F], h: f64) -> Result<(), Error> {
        let State { theta, buffers, k, .. } = state;
        self.kit.collect(theta, buffers, chosen, x, &mut self.slots).map_err(|e| e.at(*k, h))
    }

    /// theta_*(x^{1:N}) for the state's cloud, where theta follows from it; else nothing happens. The step size h is for
    /// messages.
    pub fn settle_theta(&mut self, state: &mut State<F>, h: f64) -> Result<(), Error> {
        if self.kit.composition.rule != Rule::MStep {
            return Ok(());
        }
        self.on_the_rows(state, |stepper, state, chosen, x| {
            stepper.collect(state, Chosen { terms: None, ..chosen }, x, h)?;
            stepper.new_theta(state, chosen, x, StepSizes { h, rate: h })
        })?;
        state.theta.copy_from_slice(&self.psi);
        Ok(())
    }

    /// Adds the cloud to the averages, as far as it is here.
    pub(crate) fn average(&self, state: &mut State<F>) {
        if !self.kit.apart {
            return state.averages.add_cloud(&state.cloud, self.moved());
        }
        let [from, to] = self.kit.blocks.own_rows;
        let cells = state.averages.cells(&state.cloud, from..to);
        state.averages.add_cells_of(&state.cloud, cells);
    }

    /// Brings together what ranks have kept for themselves.
    pub(crate) fn bring(&self, state: &mut State<F>) {
        if !self.kit.apart || self.kit.blocks.count == 0 {
            return;
        }
        let Kit { ranks, blocks, d, .. } = self.kit;
        blocks.gather(ranks, &mut state.cloud.data, d);
        for remembered in state.memory.iter_mut().filter(|remembered| remembered.per == Per::Row) {
            blocks.gather(ranks, &mut remembered.values, d);
        }
        let State { averages, cloud, .. } = state;
        if !averages.counts.is_empty() {
            let of_rank = |rank| blocks.rows_of(ranks, rank);
            let parts: Vec<_> = (0..ranks.size()).map(|rank| averages.cells(cloud, of_rank(rank))).collect();
            averages.gather(ranks, |rank| parts[rank].clone());
        }
    }

    /// The groups that moved in the last step; `None` for all.
    pub fn moved(&self) -> Option<&[u32]> {
        self.kit.batches_groups.then_some(&self.groups)
    }

    /// The sums that moved theta in the last step.
    pub fn sums(&self) -> &[f64] {
        &self.slots[..self.kit.sums_len.min(self.slots.len())]
    }

    /// The model's scalars of the last step.
    pub fn scalars(&self) -> &[f64] {
        let Kit { sums_len, scalars_len, .. } = self.kit;
        self.slots.get(sums_len..sums_len + scalars_len).unwrap_or(&[])
    }

    /// Makes psi of theta by the sums in the slots, or by the M-step for the rows x.
    fn new_theta(
        &mut self,
        state: &mut State<F>,
        chosen: Chosen<'_>,
        x: &[F],
        sizes: StepSizes,
    ) -> Result<(), Error> {
        let State { memory, k, theta, .. } = state;
        self.psi.copy_from_slice(theta);
        let [preconditioner, velocity] = recall(memory, [PRECONDITIONER, THETA_VELOCITY]);
        let memory = if velocity.is_empty() { preconditioner } else { velocity };
        self.kit.update(*k, sizes, (x, chosen), &mut self.slots, &mut self.psi, memory)
    }
}

/// Refuses what several ranks cannot share.
fn refuse_ranks<F: Real>(
    ranks: &dyn Ranks,
    model: &dyn Model<F>,
    composition: Composition,
) -> Result<(), Error> {
    if ranks.size() == 1 {
        return Ok(());
    }
    let sentence = if composition.movement == Move::Chain {
        "one particle moves N times in a row, which several ranks cannot share; use `algorithm=pgd`, or one process".into()
    } else if model.whole_batch() || model.buffers() > 0 {
        format!(
            "the rows of {} depend on each other, as by batch normalisation, which several ranks cannot share yet; use one process with more `threads`",
            model.name()
        )
    } else {
        return Ok(());
    };
    Err(Error::Settings(sentence))
}
