//! Who may watch a run, and stop it.

use crate::auto::Found;
use crate::moves::Moves;
use crate::{Cloud, Real, State};

/// What observers see after each step (and once before the first).
pub struct StepInfo<'a, F> {
    /// Steps made so far.
    pub k: u64,
    /// theta_k.
    pub theta: &'a [f64],
    /// What the model remembers from step to step.
    pub buffers: &'a [f64],
    /// X_k^{1:N}.
    pub cloud: &'a Cloud<F>,
    /// The step size that led here.
    pub h: f64,
    /// The fraction of moves accepted in this step, where there was an accept-reject step.
    pub acceptance: Option<f64>,
    /// Predictive metrics of this cloud alone, where they are asked for.
    pub metrics: Option<Measured<'a>>,
    /// The time that test metrics have taken so far: it is not the algorithm's.
    pub metrics_time: std::time::Duration,
    /// What the theta-rule made of its sums over the cloud (gradients, Hessians or statistics), which are taken in a fixed
    /// order: equal bits here mean equal gradients. Empty before the first step.
    pub sums: &'a [f64],
    /// What a fit by auto knows so far.
    pub fit: Option<Found<'a>>,
    /// What the model wants in the trace, in the order of [`crate::Model::scalars`]; empty before the first step.
    pub scalars: &'a [f64],
}

impl<'a, F: Real> StepInfo<'a, F> {
    #[inline(always)] // it is made at every step, and most of it is not looked at
    pub(crate) fn new(state: &'a State<F>, h: f64, moves: Moves, sums: &'a [f64]) -> Self {
        let acceptance = (moves.proposed > 0).then(|| moves.accepted as f64 / moves.proposed as f64);
        StepInfo {
            k: state.k,
            theta: &state.theta,
            buffers: &state.buffers,
            cloud: &state.cloud,
            h,
            acceptance,
            metrics: None,
            metrics_time: std::time::Duration::ZERO,
            sums,
            fit: state.auto.as_ref().map(|auto| auto.found()),
            scalars: &[],
        }
    }
}

/// Metrics as a step has them: a name and a value each.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// What the model calls them.
    pub names: &'a [String],
    /// Their values, in the same order.
    pub values: &'a [f64],
}

impl Measured<'_> {
    /// The metric of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.names.iter().zip(self.values).find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
}

/// Whether the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Write a checkpoint and end early.
    Stop,
}

/// Something that watches a run.
pub trait Observer<F: Real> {
    /// Sees the state after a step.
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow;
}

impl<F: Real, T: FnMut(&StepInfo<'_, F>) -> Flow> Observer<F> for T {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        self(info)
    }
}
