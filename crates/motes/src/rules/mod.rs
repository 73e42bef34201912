//! Theta-rules: how theta moves, given sums over the cloud.

mod linear;
mod maximise;
mod precondition;

pub(crate) use linear::{cholesky_solve, row_sum_norm};
pub(crate) use maximise::maximise;
pub(crate) use precondition::adam_direction;
pub use precondition::{memory_len, precondition};

use crate::moves::langevin::Trouble;
use crate::noise::Noise;
use crate::settings::{Preconditioner, Settings};
use crate::{Error, Model, Real};

/// How theta moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// theta + h Lambda mean gradient, with theta's own rate in place of h where it has one (eqs. 14 and 16).
    Gradient {
        /// Lambda.
        preconditioner: Preconditioner,
        /// Whether theta gets Langevin noise too, sqrt(2h/N) standard normals.
        noise: bool,
    },
    /// A velocity of theta's own, which its mean gradient drives and friction and noise of variance 1/N refresh.
    Kinetic {
        /// How fast the velocity is forgotten.
        friction: f64,
    },
    /// theta - h [sum of Hessians]^-1 sum of gradients (eq. 33).
    Newton,
    /// theta_*(x^{1:N}), the maximiser given the cloud: closed, or numerical and warm-started where there is no closed form.
    MStep,
    /// Newton steps whose observed information is that of Louis's identity, with gains that decrease ([`crate::auto`]).
    Louis,
    /// The exact E- and M-step, with no cloud at all.
    ExactEm,
}

impl Rule {
    /// The gradient step that the settings describe.
    pub fn gradient(settings: &Settings) -> Self {
        Rule::Gradient { preconditioner: settings.preconditioner, noise: false }
    }

    /// How many numbers are summed over the blocks for this rule.
    pub fn sums_len<F: Real>(self, model: &dyn Model<F>) -> usize {
        let d = model.d_theta();
        match self {
            Rule::Gradient { .. } | Rule::Kinetic { .. } => d,
            Rule::Newton => d + d * d,
            Rule::MStep => model.m_step().map_or(0, |m| m.statistics_len()),
            Rule::ExactEm | Rule::Louis => 0,
        }
    }

    /// Moves theta by the sums over all n particles. `memory` is what the rule remembers.
    pub(crate) fn update<F: Real>(self, model: &dyn Model<F>, step: ThetaStep<'_>) -> Result<(), Error> {
        let ThetaStep { k, h, rate, encoder_rate, n, noise, sums, theta, memory } = step;
        let d = theta.len();
        match self {
            Rule::Gradient { preconditioner, noise: noisy } => {
                let gradient = &mut sums[..d];
                gradient.iter_mut().for_each(|g| *g /= n as f64);
                // Adaptive methods see the mean over the groups, as the authors have it: only their epsilon knows the scale.
                let adaptive = matches!(preconditioner, Preconditioner::Rmsprop | Preconditioner::Adam);
                let per_group = || 1.0 / model.groups() as f64;
                if adaptive && model.groups() > 1 {
                    let per_group = per_group();
                    gradient.iter_mut().for_each(|g| *g *= per_group);
                }
                let encoder = if encoder_rate > 0.0 { model.encoder() } else { None };
                let phi = encoder.map_or(0, |e| e.parameters());
                let (own, of_encoder) = gradient.split_at_mut(d - phi);
                // An inference network has Adam to itself: its moments come first.
                let (moments, memory) = memory.split_at_mut(2 * phi);
                precondition(preconditioner, model.theta_terms(), k, own, memory);
                let (weights, encoder) = theta.split_at_mut(d - phi);
                weights.iter_mut().zip(&*own).for_each(|(t, g)| *t += rate * *g);
                if phi > 0 {
                    if !adaptive {
                        let per_group = per_group();
                        of_encoder.iter_mut().for_each(|g| *g *= per_group);
                    }
                    let (first, second) = moments.split_at_mut(phi);
                    adam_direction(k, of_encoder, first, second);
                    encoder.iter_mut().zip(of_encoder).for_each(|(t, g)| *t += encoder_rate * *g);
                }
                if noisy {
                    let scale = (2.0 * rate / n as f64).sqrt();
                    let w = gradient;
                    noise.normals_f64(k, 0, w);
                    theta.iter_mut().zip(w).for_each(|(t, w)| *t += scale * *w);
                }
            }
            Rule::Kinetic { friction } => {
                let (keeps, stirs) = crate::moves::refreshed(friction, h);
                let scale = stirs / (n as f64).sqrt();
                let kick = |g: f64| 0.5 * h * g / n as f64;
                for (v, g) in memory.iter_mut().zip(&sums[..d]) {
                    *v = keeps * (*v + kick(*g)) + kick(*g);
                }
                let w = &mut sums[..d];
                noise.normals_f64(k, 0, w);
                for ((t, v), w) in theta.iter_mut().zip(memory).zip(w) {
                    *v += scale * *w;
                    *t += h * *v;
                }
            }
            Rule::Newton => {
                let (gradient, hessian) = sums.split_at_mut(d);
                hessian.iter_mut().for_each(|v| *v = -*v);
                cholesky_solve(hessian, gradient).map_err(|defect| Error::Hessian { step: k + 1, defect })?;
                for (t, s) in theta.iter_mut().zip(gradient) {
                    *t += h * *s;
                }
            }
            Rule::MStep => {
                if let Some(m) = model.m_step() {
                    sums.iter_mut().for_each(|s| *s /= n as f64);
                    m.m_step(sums, theta).map_err(|source| Trouble::Model(source).at(k, h))?;
                }
            }
            // It needs more than sums, and moves theta elsewhere.
            Rule::Louis => {}
            Rule::ExactEm => {
                if let Some(em) = model.exact_em() {
                    em.em_step(theta);
                }
            }
        }
        Ok(())
    }
}

/// What a theta-update works on.
pub(crate) struct ThetaStep<'a> {
    pub k: u64,
    pub h: f64,
    /// The step size of theta, where it follows its gradient.
    pub rate: f64,
    /// That of an inference network; 0 where there is none to train.
    pub encoder_rate: f64,
    pub n: usize,
    /// For noise on theta.
    pub noise: &'a Noise,
    pub sums: &'a mut [f64],
    pub theta: &'a mut [f64],
    pub memory: &'a mut [f64],
}
