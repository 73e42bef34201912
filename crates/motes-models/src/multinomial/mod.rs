//! Multinomial regression: P(l_i = k) = softmax_k(w_k.f_i), weights w_kd ~ N(0, V), theta = log V.
//!
//! A shift of all classes' weights moves no probability, so nothing is learnt of it but its prior: the latent variables are the
//! K - 1 orthonormal contrasts of the weights, which are N(0, V) as well, and w_k is their sum by [`kernel::Contrasts`].

mod entry;
mod kernel;
mod predict;

use std::sync::OnceLock;

use bytemuck::pod_align_to_mut;
use motes::model::{Draws, MStep, Predictive};
use motes::sentence::foreign;
use motes::{At, Gives, Model, ModelError, Real, Want};

use crate::data::remember::intercept_name;
use crate::data::{Classification, DataError};
use crate::logistic::prior::{Learn, Moments};
use crate::tally::TestSet;
use kernel::{Contrasts, LANES, Rows, loss};
use predict::NewRows;

pub use entry::Entry;
pub(crate) use entry::has_signal;

/// The variance of an intercept's own prior.
const INTERCEPT_VARIANCE: f64 = 100.0;
/// A block of particles takes about this long.
const BLOCK_NANOSECONDS: f64 = 20_000.0;

/// l(theta, x) = sum_i log softmax_{l_i}(H u f_i) - |u|^2 / (2V) - D log(V) / 2, where x are the contrasts u, contrast by contrast,
/// with an intercept of prior N(0, W) as the last column of each, if there is one.
#[derive(Debug)]
pub struct Multinomial {
    rows: Rows,
    contrasts: Contrasts,
    names: Vec<String>,
    /// The columns with the common prior: all but the intercept.
    tied: usize,
    terms: [f64; 1],
    test: Option<TestSet<NewRows>>,
    curvature: OnceLock<f64>,
    boundary: Option<String>,
}

impl Multinomial {
    /// The model for training rows, with test rows for the predictive metrics if there are any.
    pub fn new(
        train: &Classification,
        test: Option<&Classification>,
        intercept: bool,
    ) -> Result<Self, DataError> {
        let (tied, classes) = (train.feature_names.len(), train.classes.len());
        if train.rows() == 0 || tied == 0 || classes < 2 {
            return Err(DataError::new(
                "there are no rows, no features or no classes to train on; give more data".into(),
            ));
        }
        let rows = Rows::new(&train.features, &train.labels, train.weights.as_deref(), intercept);
        if let Some(column) = rows.first_not_finite() {
            return Err(DataError::new(format!(
                "column '{}' holds numbers that are not finite; rescale it",
                foreign(&train.feature_names[column])
            )));
        }
        let contrasts = Contrasts::new(classes);
        let packed = |test: &Classification| {
            TestSet::new(NewRows::new(&test.features, tied, intercept, classes), &test.labels, classes)
        };
        let test = test.filter(|test| test.rows() > 0).map(packed);
        Ok(Multinomial {
            names: names(&train.feature_names, intercept, classes),
            terms: [(tied * contrasts.count()) as f64],
            rows,
            contrasts,
            tied,
            test,
            curvature: OnceLock::new(),
            boundary: None,
        })
    }

    /// The same with what is known of a maximum on the boundary.
    fn with_boundary(self, boundary: Option<String>) -> Self {
        Multinomial { boundary, ..self }
    }

    fn d(&self) -> usize {
        self.rows.columns * self.contrasts.count()
    }

    /// The contrasts of the weights, without intercepts.
    fn weights<'a, F: Real>(&self, x: &'a [F]) -> impl Iterator<Item = f64> + 'a {
        let (columns, tied) = (self.rows.columns, self.tied);
        x.chunks_exact(columns).flat_map(move |u| &u[..tied]).map(|u| u.f64())
    }

    /// Their moments around 0.
    fn moments<F: Real>(&self, x: &[F]) -> Moments {
        let mut moments = Moments::default();
        self.weights(x).for_each(|u| moments.add(-u));
        moments
    }

    /// A rough time for one particle on one core.
    fn nanoseconds(&self) -> f64 {
        let (k, columns) = (self.contrasts.classes as f64, self.rows.columns as f64);
        (self.rows.given.div_ceil(LANES)) as f64 * k * (3.0 * columns + 2.0 * k + 30.0)
    }
}

/// The names of the coordinates: contrasts of the classes, by feature.
fn names(features: &[String], intercept: bool, classes: usize) -> Vec<String> {
    let columns = || features.iter().cloned().chain(intercept.then(|| intercept_name(features)));
    (1..classes).flat_map(|j| columns().map(move |name| format!("contrast {j}: {name}"))).collect()
}

impl<F: Real> Model<F> for Multinomial {
    fn name(&self) -> &str {
        "multinomial"
    }

    fn d_theta(&self) -> usize {
        1
    }

    fn theta_names(&self) -> Vec<String> {
        vec!["log_variance".into()]
    }

    fn d_x(&self) -> usize {
        self.d()
    }

    fn x_names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn rows_per_block(&self, _: usize) -> usize {
        ((BLOCK_NANOSECONDS / self.nanoseconds()).ceil() as usize).clamp(1, 8)
    }

    fn nanoseconds_per_row(&self) -> f64 {
        self.nanoseconds()
    }

    /// A particle and its gradient in double precision, what the kernel works with, and what aligning costs.
    fn scratch_len(&self, _particles: usize) -> usize {
        let lanes = self.contrasts.work() + self.rows.columns;
        let numbers = 2 * self.d() + LANES * (lanes + 2);
        numbers * size_of::<f64>() / size_of::<F>()
    }

    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        let (d, columns, tied) = (self.d(), self.rows.columns, self.tied);
        let variance = libm::exp(at.theta[0]);
        let particles = at.x.chunks_exact(d);
        let count = self.terms[0];
        let (mut grad_x, mut log_density) = (want.grad_x, want.log_density);
        if grad_x.is_some() || log_density.is_some() {
            let (_, lanes, _) = pod_align_to_mut::<F, [f64; LANES]>(want.scratch);
            let (work, rest) = lanes.split_at_mut(self.contrasts.work() + columns);
            let scale = at.terms.map_or(1.0, |batch| self.rows.given as f64 / batch.len().max(1) as f64);
            let (u, gradient) = rest.as_flattened_mut().split_at_mut(d);
            for (n, x) in particles.clone().enumerate() {
                u.iter_mut().zip(x).for_each(|(u, x)| *u = x.f64());
                let gradient = if grad_x.is_some() { &mut gradient[..d] } else { &mut [] };
                gradient.fill(0.0);
                let loss = loss(&self.rows, at.terms, &self.contrasts, u, work, gradient);
                let prior = |i: usize| if i % columns < tied { variance } else { INTERCEPT_VARIANCE };
                if let Some(grad) = grad_x.as_deref_mut() {
                    for (i, grad) in grad[n * d..(n + 1) * d].iter_mut().enumerate() {
                        *grad = F::of(scale * gradient[i] - u[i] / prior(i));
                    }
                }
                if let Some(out) = log_density.as_deref_mut() {
                    let squares: f64 = u.iter().enumerate().map(|(i, u)| u * u / prior(i)).sum();
                    out[n] = -scale * loss - 0.5 * squares - 0.5 * count * at.theta[0];
                }
            }
        }
        let precision = 1.0 / variance;
        if let Some(grad_theta) = want.grad_theta {
            let moments = self.moments(at.x);
            Learn::Variance.score(moments, particles.len() as f64 * count, precision, grad_theta);
        }
        if let Some(scores) = want.scores {
            for (x, score) in particles.clone().zip(scores) {
                Learn::Variance.score(self.moments(x), count, precision, std::slice::from_mut(score));
            }
        }
        if let Some(hessian) = want.hessian {
            Learn::Variance.hessian(self.moments(at.x), particles.len() as f64 * count, variance, hessian);
        }
        Ok(())
    }

    fn gives(&self) -> Gives {
        Gives::ALL
    }

    /// The priors' Gaussians, but for the power of V that the log density has.
    fn left_out(&self) -> Option<f64> {
        let log = |variance: f64| libm::log(std::f64::consts::TAU * variance);
        let own = (self.d() as f64) - self.terms[0];
        Some(-0.5 * (self.terms[0] * log(1.0) + own * log(INTERCEPT_VARIANCE)))
    }

    fn boundary(&self) -> Option<String> {
        self.boundary.clone()
    }

    fn default_step_size(&self) -> f64 {
        0.01
    }

    /// Boehning's bound: the softmax bends no more than half as much as the squares of the features add up to.
    fn curvature(&self) -> Option<f64> {
        Some(*self.curvature.get_or_init(|| 1.0 + 0.5 * self.rows.largest_square()))
    }

    fn theta_terms(&self) -> Option<&[f64]> {
        Some(&self.terms)
    }

    fn m_step(&self) -> Option<&dyn MStep<F>> {
        Some(self)
    }

    fn prior(&self) -> Option<&dyn Draws<F>> {
        Some(self)
    }

    fn data_terms(&self) -> Option<usize> {
        Some(self.rows.given)
    }

    fn predictive(&self) -> Option<&dyn Predictive<F>> {
        self.test.as_ref().map(|test| test as &dyn Predictive<F>)
    }
}

impl<F: Real> MStep<F> for Multinomial {
    fn statistics_len(&self) -> usize {
        1
    }

    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError> {
        out[0] = self.weights(at.x).map(|u| u * u).sum();
        Ok(())
    }

    /// The mean square of all weights.
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        theta[0] = libm::log((mean[0] / self.terms[0]).max(f64::MIN_POSITIVE));
        Ok(())
    }
}

impl<F: Real> Draws<F> for Multinomial {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], x: &mut [F]) {
        let deviations = [libm::exp(0.5 * theta[0]), INTERCEPT_VARIANCE.sqrt()];
        for u in x.chunks_exact_mut(self.rows.columns) {
            for (i, u) in u.iter_mut().enumerate() {
                *u = F::of(deviations[usize::from(i >= self.tied)] * u.f64());
            }
        }
    }
}
