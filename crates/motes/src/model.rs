//! What a model is asked (one question, [`Model::evaluate`]), and what else it may give.

use crate::tested::Predictions;
use crate::{Error, LISTED, ModelError, Real, Stop};

/// Where a model is evaluated: one theta and a block of rows. A row is a particle of a group.
#[derive(Clone, Copy)]
pub struct At<'a, F> {
    /// The parameters.
    pub theta: &'a [f64],
    /// What the model remembers from step to step, as of before this one; empty for most models.
    pub buffers: &'a [f64],
    /// The groups that x belongs to, each with as many particles; `[0]` where there is one group.
    pub groups: &'a [u32],
    /// The rows of the block: `[group][particle][coordinate]`.
    pub x: &'a [F],
    /// The data terms of a mini-batch, by number; their sum is to be rescaled to all of them. `None` means all data.
    pub terms: Option<&'a [u32]>,
    /// Whether this call has the thread pool to itself, so that the model may cut its own work into
    /// fixed blocks with [`crate::blocks`]. False when other blocks run at the same time.
    pub parallel: bool,
    /// Once this is set, a long evaluation may end early with [`ModelError::Stopped`]. Steps hand it on where the rows can be put
    /// back: those of a whole batch, or of a mini-batch of groups.
    pub stop: Stop<'a>,
}

impl<'a, F> At<'a, F> {
    /// All data of a model with one group, on one thread.
    pub fn new(theta: &'a [f64], x: &'a [F]) -> Self {
        At { theta, buffers: &[], groups: &[0], x, terms: None, parallel: false, stop: Stop::default() }
    }

    /// The number of each group, and its rows.
    pub fn by_group(&self) -> impl Iterator<Item = (usize, &'a [F])> + use<'a, F> {
        let each = (self.x.len() / self.groups.len().max(1)).max(1);
        self.groups.iter().map(|g| *g as usize).zip(self.x.chunks_exact(each))
    }
}

/// What is asked for at a point. What is `None` is not computed; the rest is written, whatever it held before.
pub struct Want<'a, F> {
    /// l_g(theta, x), up to a constant that depends on neither, for each row. Asked for only of models that
    /// [give](Gives) it.
    pub log_density: Option<&'a mut [f64]>,
    /// The x-gradient of l_g, for each row.
    pub grad_x: Option<&'a mut [F]>,
    /// The theta-gradient of l_g, summed over the rows.
    pub grad_theta: Option<&'a mut [f64]>,
    /// The theta-gradient of l_g for each row. Asked for only of models that [give](Gives) it.
    pub scores: Option<&'a mut [f64]>,
    /// The theta-Hessian of l_g, D_theta x D_theta, summed over the rows. Asked for only of models that
    /// [give](Gives) it.
    pub hessian: Option<&'a mut [f64]>,
    /// What the model remembers after this step: asked for together with the theta-gradient, of models that have
    /// [buffers](Model::buffers). A model that is not asked for them must not change them.
    pub buffers: Option<&'a mut [f64]>,
    /// What the model wants in the trace ([`Model::scalars`]), summed over the rows.
    pub scalars: Option<&'a mut [f64]>,
    /// As many numbers as [`Model::scratch_len`] asks for, to work with.
    pub scratch: &'a mut [F],
}

impl<'a, F> Want<'a, F> {
    /// Nothing yet.
    pub fn nothing(scratch: &'a mut [F]) -> Self {
        Want {
            log_density: None,
            grad_x: None,
            grad_theta: None,
            scores: None,
            hessian: None,
            buffers: None,
            scalars: None,
            scratch,
        }
    }

    /// Both gradients.
    pub fn gradients(grad_theta: &'a mut [f64], grad_x: &'a mut [F], scratch: &'a mut [F]) -> Self {
        Want { grad_theta: Some(grad_theta), grad_x: Some(grad_x), ..Want::nothing(scratch) }
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.log_density.is_none()
            && self.grad_x.is_none()
            && self.grad_theta.is_none()
            && self.scores.is_none()
            && self.hessian.is_none()
            && self.buffers.is_none()
            && self.scalars.is_none()
    }
}

/// What [`Model::evaluate`] can give besides the two gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gives {
    /// The log density itself: for accept-reject steps and verdicts.
    pub log_density: bool,
    /// Theta-gradients row by row: for standard errors.
    pub scores: bool,
    /// The theta-Hessian: for PQN.
    pub hessian: bool,
}

impl Gives {
    /// Everything there is.
    pub const ALL: Gives = Gives { log_density: true, scores: true, hessian: true };
}

/// A latent variable model, given by its complete-data log density l(theta, x) = log p_theta(x, y), a sum over groups
/// l_g(theta, x_g) that are independent given theta; where latent variables are shared by all data there is one group.
///
/// One question, [`Model::evaluate`], with slices in and results written into `&mut` slices. Calls must be pure: the same
/// input gives the same bits. Only that and the dimensions are required; the other methods are capabilities, and an
/// algorithm that needs an absent one refuses before its first step.
pub trait Model<F: Real>: Send + Sync {
    /// The name used in messages and files.
    fn name(&self) -> &str;

    /// The number of parameters, D_theta.
    fn d_theta(&self) -> usize;

    /// The number of latent coordinates of one particle in each group, D_x.
    fn d_x(&self) -> usize;

    /// The number of groups M.
    fn groups(&self) -> usize {
        1
    }

    /// How many numbers the model remembers from step to step, as the running statistics of a network do.
    fn buffers(&self) -> usize {
        0
    }

    /// A name for each parameter; for those that are [listed](Model::listed) at the least.
    fn theta_names(&self) -> Vec<String> {
        match self.d_theta() {
            1 => vec!["theta".into()],
            d => (0..d).map(|i| format!("theta[{i}]")).collect(),
        }
    }

    /// How many components of theta, the first ones, are traced, judged and listed one by one. Not more than there are names
    /// for, nor than [`LISTED`].
    fn listed(&self) -> usize {
        self.d_theta().min(LISTED)
    }

    /// A name for each latent coordinate of a group.
    fn x_names(&self) -> Vec<String> {
        match (self.groups(), self.d_x()) {
            (2.., 1) => vec!["x".into()],
            (_, d) => (0..d).map(|i| format!("x[{i}]")).collect(),
        }
    }

    /// A name for each group (its level).
    fn group_names(&self) -> Vec<String> {
        (0..self.groups()).map(|g| g.to_string()).collect()
    }

    /// How many rows form one block, if there are n particles: whole groups, or some particles of the only one. May
    /// depend on n, never on the number of threads.
    fn rows_per_block(&self, _n: usize) -> usize {
        (16_384 / self.d_x()).max(1)
    }

    /// Whether the rows of a step depend on each other, as by batch normalisation: then they are one block.
    fn whole_batch(&self) -> bool {
        false
    }

    /// A rough cost of one row's gradients in nanoseconds: work below some 20 microseconds stays on one thread.
    fn nanoseconds_per_row(&self) -> f64 {
        2.0 * self.d_x() as f64
    }

    /// How many numbers of scratch space [`Model::evaluate`] wants for a block of so many rows.
    fn scratch_len(&self, _rows: usize) -> usize {
        0
    }

    /// Answers what is asked for at a block of rows, and computes nothing else.
    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError>;

    /// What [`Model::evaluate`] can be asked for besides gradients.
    fn gives(&self) -> Gives {
        Gives::default()
    }

    /// What the log densities of all groups together leave out, if the model knows it: with it they are log p_theta(x, y), to the
    /// last constant. It depends on neither theta nor x.
    fn left_out(&self) -> Option<f64> {
        None
    }

    /// Why the likelihood may have no maximum inside, if the model knows that of its data: a clause that ends with a remedy.
    fn boundary(&self) -> Option<String> {
        None
    }

    /// Writes the theta that a run starts from unless it is told another, and the buffers; they come filled with zeros.
    fn start(&self, _seed: u64, _theta: &mut [f64], _buffers: &mut [f64]) {}

    /// The step size that `auto` never exceeds.
    fn default_step_size(&self) -> f64 {
        0.01
    }

    /// The largest eigenvalue of the negative x-Hessian of l at its mode, if the model can tell.
    fn curvature(&self) -> Option<f64> {
        None
    }

    /// The number of terms in each component of the theta-gradient (the diagonal Lambda of eq. 16).
    fn theta_terms(&self) -> Option<&[f64]> {
        None
    }

    /// The exact M-step theta_*(x^{1:N}) from mean sufficient statistics, for PMGD.
    fn m_step(&self) -> Option<&dyn MStep<F>> {
        None
    }

    /// Exact E- and M-steps, for EM.
    fn exact_em(&self) -> Option<&dyn ExactEm> {
        None
    }

    /// The prior of the latent variables, to start particles from.
    fn prior(&self) -> Option<&dyn Draws<F>> {
        None
    }

    /// An inference network, for the VAE.
    fn encoder(&self) -> Option<&dyn Encoder<F>> {
        None
    }

    /// What the model wants in the trace, besides what every run records.
    fn scalars(&self) -> &[Scalar] {
        &[]
    }

    /// Turns sums of its scalars over so many rows into what the trace shows; means, unless it says otherwise.
    fn finish_scalars(&self, rows: usize, sums: &mut [f64]) {
        sums.iter_mut().for_each(|s| *s /= rows as f64);
    }

    /// The number of exchangeable data terms, if gradients can be taken over a mini-batch of them. Where there are several
    /// groups, these are batched and not the terms.
    fn data_terms(&self) -> Option<usize> {
        None
    }

    /// Whether predictions and test metrics are made with the final cloud alone, not with all clouds after burn-in:
    /// networks are costly to evaluate.
    fn predicts_from_final_cloud(&self) -> bool {
        false
    }

    /// Predictive performance on a test set, if the model has one.
    fn predictive(&self) -> Option<&dyn Predictive<F>> {
        None
    }
}

/// The closed M-step of a model whose likelihood depends on the cloud through mean statistics.
pub trait MStep<F: Real>: Sync {
    /// The number of statistics.
    fn statistics_len(&self) -> usize;
    /// Writes the sum of the statistics over the block's rows.
    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError>;
    /// Writes theta_* for the given mean statistics.
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError>;
}

/// Exact expectation-maximisation.
pub trait ExactEm: Sync {
    /// One E- and M-step, in place.
    fn em_step(&self, theta: &mut [f64]);
    /// The exact posterior's mean and variance of each latent coordinate, group by group.
    fn posterior(&self, theta: &[f64], mean: &mut [f64], variance: &mut [f64]);
}

/// Predictive performance on a test set, streamed over clouds.
pub trait Predictive<F: Real>: Sync {
    /// What its metrics are called: the keys in summary.json and the columns in trace.csv.
    fn names(&self) -> Vec<String>;
    /// How many numbers are remembered between clouds. They start at zero.
    fn state_len(&self) -> usize;
    /// Takes the rows x into account (some particles of the only group, or all of all groups). Has the thread pool to itself; bits must not depend on its size.
    fn accumulate(&self, x: &[F], state: &mut [f64]);
    /// Takes into account what another state, of other particles, has taken into account.
    fn merge(&self, from: &[f64], into: &mut [f64]);
    /// Writes the metrics of all particles taken into account so far, one for each name.
    fn metrics(&self, state: &[f64], out: &mut [f64]);
    /// What all particles taken into account so far predict for each test row, where classes are predicted.
    fn predictions(&self, _state: &[f64]) -> Option<Predictions> {
        None
    }
}

/// A distribution of the latent variables that is a map of standard normals.
pub trait Draws<F: Real>: Sync {
    /// Turns standard normals into draws at theta, in place: the rows of the given groups, each with as many particles.
    fn map_normals(&self, theta: &[f64], groups: &[u32], x: &mut [F]);
}

/// An inference network: draws from an approximate posterior whose parameters phi are the last ones of theta. The model's
/// log density is then that of the evidence lower bound.
pub trait Encoder<F: Real>: Draws<F> {
    /// How many parameters phi has.
    fn parameters(&self) -> usize;
}

/// A number that a model computes on its way and wants in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The head of its column.
    pub name: &'static str,
    /// The title of its chart.
    pub title: &'static str,
    /// What it is, in a clause.
    pub meaning: &'static str,
}

/// The capability, or a refusal that names it and the alternatives.
pub(crate) fn require<T>(
    capability: Option<T>,
    model: &str,
    algorithm: impl std::fmt::Display,
    piece: &'static str,
    remedy: &str,
) -> Result<T, Error> {
    capability.ok_or_else(|| Error::Missing {
        algorithm: algorithm.to_string(),
        model: model.to_string(),
        piece,
        remedy: remedy.to_string(),
    })
}
