//! What a model must give (gradients), and what it may give (capabilities that some algorithms need).

use crate::summary::Metrics;
use crate::{Error, ModelError, Real};

/// Where a model is evaluated: one theta and a block of particles.
#[derive(Clone, Copy)]
pub struct At<'a, F> {
    /// The parameters.
    pub theta: &'a [f64],
    /// The particles of the block, row after row.
    pub x: &'a [F],
    /// The data terms of a mini-batch, by number; their sum is to be rescaled by M/B. `None` means all data.
    pub batch: Option<&'a [u32]>,
    /// Whether this call has the thread pool to itself, so that the model may cut its own work into
    /// fixed blocks with [`crate::blocks`]. False when other blocks run at the same time.
    pub parallel: bool,
}

/// A latent variable model, given by its complete-data log density l(theta, x) = log p_theta(x, y).
///
/// Slices in, results written into `&mut` slices. Calls must be pure: the same input gives the same bits.
/// Only [`Model::gradients`] and the dimensions are required; the other methods are capabilities, and an
/// algorithm that needs an absent one refuses before its first step.
pub trait Model<F: Real>: Send + Sync {
    /// The name used in messages and files.
    fn name(&self) -> &str;

    /// The number of parameters, D_theta.
    fn d_theta(&self) -> usize;

    /// The number of latent coordinates of one particle, D_x.
    fn d_x(&self) -> usize;

    /// A name for each parameter.
    fn theta_names(&self) -> Vec<String> {
        match self.d_theta() {
            1 => vec!["theta".into()],
            d => (0..d).map(|i| format!("theta[{i}]")).collect(),
        }
    }

    /// A name for each latent coordinate.
    fn x_names(&self) -> Vec<String> {
        (0..self.d_x()).map(|i| format!("x[{i}]")).collect()
    }

    /// How many particles form one block. May depend on N, never on the number of threads.
    fn particles_per_block(&self, _n: usize) -> usize {
        (16_384 / self.d_x()).max(1)
    }

    /// A rough cost of one particle's gradients in nanoseconds: work below some 20 microseconds stays on one thread.
    fn nanoseconds_per_particle(&self) -> f64 {
        2.0 * self.d_x() as f64
    }

    /// How many numbers of scratch space the calls below want for a block of `particles`.
    fn scratch_len(&self, _particles: usize) -> usize {
        0
    }

    /// Writes the sum over the block's particles of the theta-gradient of l, and each particle's x-gradient.
    fn gradients(
        &self,
        at: At<'_, F>,
        grad_theta: &mut [f64],
        grad_x: &mut [F],
        scratch: &mut [F],
    ) -> Result<(), ModelError>;

    /// The step size that `auto` never exceeds.
    fn default_step_size(&self) -> f64 {
        0.01
    }

    /// The largest eigenvalue of the negative x-Hessian of l at its mode, if the model can tell.
    fn curvature(&self) -> Option<f64> {
        None
    }

    /// Whether mean-field inference moves its Gaussian by Adam rather than by plain gradient steps.
    fn variational_adam(&self) -> bool {
        false
    }

    /// The number of terms in each component of the theta-gradient (the diagonal Lambda of eq. IW2gradalg2).
    fn theta_terms(&self) -> Option<&[f64]> {
        None
    }

    /// l(theta, x) itself, for accept-reject steps.
    fn log_density(&self) -> Option<&dyn LogDensity<F>> {
        None
    }

    /// The theta-Hessian of l, for PQN.
    fn theta_hessian(&self) -> Option<&dyn ThetaHessian<F>> {
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

    /// The prior of the latent variables, for `--init-particles prior`.
    fn prior(&self) -> Option<&dyn Prior<F>> {
        None
    }

    /// The number M of exchangeable data terms, if gradients can be taken over a mini-batch of them.
    fn data_terms(&self) -> Option<usize> {
        None
    }

    /// Predictive performance on a test set, if the model has one.
    fn predictive(&self) -> Option<&dyn Predictive<F>> {
        None
    }
}

/// The complete-data log density.
pub trait LogDensity<F: Real>: Sync {
    /// Writes l(theta, x^n), up to a constant that depends on neither, for each particle of the block.
    fn log_density(&self, at: At<'_, F>, out: &mut [f64], scratch: &mut [F]) -> Result<(), ModelError>;
}

/// The theta-Hessian of the complete-data log density.
pub trait ThetaHessian<F: Real>: Sync {
    /// Writes the D_theta x D_theta sum over the block's particles, row-major.
    fn theta_hessian(&self, at: At<'_, F>, out: &mut [f64], scratch: &mut [F]) -> Result<(), ModelError>;
}

/// The closed M-step of a model whose likelihood depends on the cloud through mean statistics.
pub trait MStep<F: Real>: Sync {
    /// The number of statistics.
    fn statistics_len(&self) -> usize;
    /// Writes the sum of the statistics over the block's particles.
    fn statistics(&self, x: &[F], out: &mut [f64]) -> Result<(), ModelError>;
    /// Writes theta_* for the given mean statistics.
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError>;
}

/// Exact expectation-maximisation.
pub trait ExactEm: Sync {
    /// One E- and M-step, in place.
    fn em_step(&self, theta: &mut [f64]);
    /// The exact posterior's mean and variance of each latent coordinate.
    fn posterior(&self, theta: &[f64], mean: &mut [f64], variance: &mut [f64]);
}

/// Predictive performance on a test set, streamed over clouds.
pub trait Predictive<F: Real>: Sync {
    /// How many numbers are remembered between clouds. They start at zero.
    fn state_len(&self) -> usize;
    /// Takes the particles x into account. Has the thread pool to itself; bits must not depend on its size.
    fn accumulate(&self, x: &[F], state: &mut [f64]);
    /// Whether metrics are of the final cloud alone, not of all clouds after burn-in: networks are costly to evaluate.
    fn final_cloud_only(&self) -> bool {
        false
    }
    /// The metrics of all particles taken into account so far.
    fn metrics(&self, state: &[f64]) -> Metrics;
}

/// A prior that is a map of standard normals.
pub trait Prior<F: Real>: Sync {
    /// Turns standard normals into draws from the prior at theta, in place.
    fn map_normals(&self, theta: &[f64], x: &mut [F]);
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
