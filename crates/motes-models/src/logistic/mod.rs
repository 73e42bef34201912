//! Bayesian logistic regression (Sec. 3.1): weights x ~ N(m 1, V I), labels l_i ~ Bernoulli(sigmoid(f_i.x)); theta is m, log V or both.

mod entry;
mod kernels;
mod mode;
mod predict;
pub(crate) mod prior;
mod rows;
mod vector;

use std::f64::consts::LN_2;
use std::sync::OnceLock;

use bytemuck::{cast_slice_mut, pod_align_to_mut};
use motes::model::{Draws, MStep, Predictive};
use motes::sentence::foreign;
use motes::{At, Gives, Model, ModelError, Real, Want};

use crate::data::remember::intercept_name;
use crate::data::{Classification, DataError};
use kernels::Sum;
use motes::simd::{Line, lines};
use prior::Moments;
use rows::Rows;

pub use entry::Entry;
pub use predict::predict;
pub use prior::{Learn, Options};

/// Particles per block where the rows are few: a block must take some microseconds, and blocks must outnumber threads.
const BLOCK_NANOSECONDS: f64 = 3_000.0;
const PER_BLOCK: std::ops::RangeInclusive<usize> = 4..=8;
/// Coordinates in a block of particles where the rows are many.
const MOST_COORDINATES: usize = 1 << 16;

/// l(theta, x) = sum_i [l_i f_i.x - ln(1 + e^{f_i.x})] - |x - m 1|^2 / (2V) (eq. 59 with erratum 1), less D log(V) / 2
/// where V is learnt, and less b^2 / (2W) for an intercept b, the last coordinate, where there is one.
#[derive(Debug)]
pub struct Logistic<F> {
    rows: Rows<F>,
    names: Vec<String>,
    /// The number of coordinates with the common prior, D: all but the intercept.
    tied: usize,
    prior: Options,
    terms: Vec<f64>,
    test: Option<predict::TestSet>,
    curvature: OnceLock<Option<f64>>,
    boundary: Option<String>,
}

impl<F: Real> Logistic<F> {
    /// The model for training rows, with test rows for the predictive metrics if there are any.
    pub fn new(
        train: &Classification,
        test: Option<&Classification>,
        options: Options,
    ) -> Result<Self, DataError> {
        let intercept = options.intercept;
        options.check()?;
        let mut names = train.feature_names.clone();
        let tied = names.len();
        if train.rows() == 0 || tied == 0 {
            return Err(DataError::new(
                "there are no rows or no features to train on; give more data".into(),
            ));
        }
        if let Some(test) = test.filter(|test| test.feature_names != train.feature_names) {
            return Err(DataError::new(format!(
                "the test data have the features {} and the training data {}; give both the same columns",
                foreign(format_args!("{:?}", test.feature_names)),
                foreign(format_args!("{:?}", train.feature_names))
            )));
        }
        if intercept {
            names.push(intercept_name(&names));
        }
        let rows = Rows::new(&train.features, &train.labels, train.weights.as_deref(), intercept);
        if let Some(column) = rows.first_not_finite() {
            return Err(DataError::new(format!(
                "column '{}' holds numbers too large for {}; rescale it or use `precision=f64`",
                foreign(&names[column]),
                F::NAME
            )));
        }
        let test = test.filter(|test| test.rows() > 0).map(|test| predict::TestSet::new(test, intercept));
        Ok(Logistic {
            rows,
            names,
            tied,
            prior: options,
            terms: vec![tied as f64; options.learn.names().len()],
            test,
            curvature: OnceLock::new(),
            boundary: None,
        })
    }

    /// The same with what is known of a maximum on the boundary.
    pub(crate) fn with_boundary(self, boundary: Option<String>) -> Self {
        Logistic { boundary, ..self }
    }

    fn d(&self) -> usize {
        self.rows.columns
    }

    /// Writes the likelihood's sums for each particle into `out`, without the factor of a mini-batch, which is returned.
    fn likelihood(&self, sum: Sum, at: At<'_, F>, space: &mut [Line], out: &mut [f64]) -> f64 {
        match at.terms {
            None => {
                self.rows.sums(sum, self.rows.weights(), at.x, at.parallel, space, out);
                1.0
            }
            Some(batch) => {
                self.rows.batch_sums(sum, batch, at.x, space, out);
                self.rows.given as f64 / batch.len().max(1) as f64
            }
        }
    }
}

impl<F: Real> Model<F> for Logistic<F> {
    fn name(&self) -> &str {
        "logistic"
    }

    fn d_theta(&self) -> usize {
        self.terms.len()
    }

    fn theta_names(&self) -> Vec<String> {
        self.prior.learn.names().iter().map(|name| name.to_string()).collect()
    }

    fn d_x(&self) -> usize {
        self.d()
    }

    fn x_names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Many rows are best passed once, with all particles: then the rows, not the particles, are shared out to the threads.
    fn rows_per_block(&self, n: usize) -> usize {
        if self.rows.many() {
            return n.min(MOST_COORDINATES / self.d()).max(1);
        }
        ((BLOCK_NANOSECONDS / self.rows.nanoseconds()).ceil() as usize)
            .clamp(*PER_BLOCK.start(), *PER_BLOCK.end())
    }

    fn nanoseconds_per_row(&self) -> f64 {
        self.rows.nanoseconds()
    }

    /// Sums in `f64`, a packed mini-batch or partial sums, and what aligning costs.
    fn scratch_len(&self, particles: usize) -> usize {
        let numbers = particles * Sum::Both.width(self.d());
        let space = self.rows.batch_lines().max(self.rows.partial_lines(numbers));
        let lines = lines::<f64>(numbers) + space + 1;
        lines * size_of::<Line>() / size_of::<F>()
    }

    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        let (d, prior) = (self.d(), self.prior.at(at.theta));
        let (mean, precision, own) = (prior.mean, 1.0 / prior.variance, 1.0 / self.prior.intercept_variance);
        let particles = at.x.chunks_exact(d);
        let (_, space, _) = pod_align_to_mut::<F, Line>(want.scratch);
        // The sums over the rows: gradients and losses share their products where both are asked for.
        let sum = match (&want.grad_x, &want.log_density) {
            (Some(_), Some(_)) => Some(Sum::Both),
            (Some(_), None) => Some(Sum::Gradient),
            (None, Some(_)) => Some(Sum::Loss),
            (None, None) => None,
        };
        let width = sum.map_or(0, |sum| sum.width(d));
        let (sums, space) = space.split_at_mut(lines::<f64>(particles.len() * width));
        let sums = &mut cast_slice_mut(sums)[..particles.len() * width];
        let scale = sum.map_or(1.0, |sum| self.likelihood(sum, at, space, sums));
        // Beside the gradients where both are asked for, or by itself: one addition after the other takes long.
        let mut sums_of_theta = Moments::default();
        if let Some(grad_x) = want.grad_x {
            let scale = LN_2 * scale;
            let rows = particles.clone().zip(grad_x.chunks_exact_mut(d)).zip(sums.chunks_exact(width));
            for ((x, grad), sums) in rows {
                for ((x, grad), sum) in x.iter().zip(&mut *grad).zip(sums).take(self.tied) {
                    let away = mean - x.f64();
                    *grad = F::of(scale * sum + precision * away);
                    sums_of_theta.add(away);
                }
                for i in self.tied..d {
                    grad[i] = F::of(scale * sums[i] - own * x[i].f64());
                }
            }
        } else if want.grad_theta.is_some() {
            for x in particles.clone().flat_map(|x| &x[..self.tied]) {
                sums_of_theta.add(mean - x.f64());
            }
        }
        let learn = self.prior.learn;
        if let Some(grad_theta) = want.grad_theta {
            learn.score(sums_of_theta, (particles.len() * self.tied) as f64, precision, grad_theta);
        }
        if let Some(log_density) = want.log_density {
            // Both priors over the variance of the one: in f64 the ratio costs nothing where it is 1.
            let ratio = prior.variance / self.prior.intercept_variance;
            let determinant =
                if learn.variance() { 0.5 * self.tied as f64 * libm::log(prior.variance) } else { 0.0 };
            for ((out, x), sums) in
                log_density.iter_mut().zip(particles.clone()).zip(sums.chunks_exact(width))
            {
                let (tied, intercept) = x.split_at(self.tied);
                let squares = tied.iter().map(|x| (x.f64() - mean).powi(2)).sum::<f64>()
                    + intercept.iter().map(|x| ratio * x.f64().powi(2)).sum::<f64>();
                *out = -scale * sums[width - 1] - squares / (2.0 * prior.variance) - determinant;
            }
        }
        if let Some(scores) = want.scores {
            for (x, score) in particles.clone().zip(scores.chunks_exact_mut(self.terms.len())) {
                let mut moments = Moments::default();
                x[..self.tied].iter().for_each(|x| moments.add(mean - x.f64()));
                learn.score(moments, self.tied as f64, precision, score);
            }
        }
        if let Some(hessian) = want.hessian {
            let mut moments = Moments::default();
            if learn.variance() {
                particles.clone().flat_map(|x| &x[..self.tied]).for_each(|x| moments.add(mean - x.f64()));
            }
            learn.hessian(moments, (particles.len() * self.tied) as f64, prior.variance, hessian);
        }
        Ok(())
    }

    fn gives(&self) -> Gives {
        Gives::ALL
    }

    /// The priors' Gaussians, but for what the log density has of them where V is learnt.
    fn left_out(&self) -> Option<f64> {
        let own = self.d() - self.tied;
        let variance = if self.prior.learn.variance() { 1.0 } else { self.prior.prior_variance };
        let log = |variance: f64| libm::log(std::f64::consts::TAU * variance);
        Some(-0.5 * (self.tied as f64 * log(variance) + own as f64 * log(self.prior.intercept_variance)))
    }

    fn boundary(&self) -> Option<String> {
        self.boundary.clone()
    }

    fn default_step_size(&self) -> f64 {
        0.01
    }

    fn curvature(&self) -> Option<f64> {
        let variance = if self.prior.learn.variance() { 1.0 } else { self.prior.prior_variance };
        let prior = mode::Prior { tied: self.tied, variance, own: self.prior.intercept_variance };
        *self.curvature.get_or_init(|| mode::curvature(&self.rows, prior))
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

impl<F: Real> MStep<F> for Logistic<F> {
    fn statistics_len(&self) -> usize {
        self.terms.len()
    }

    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError> {
        let tied = || at.x.chunks_exact(self.d()).flat_map(|x| &x[..self.tied]).map(|x| x.f64());
        let sum = |out: &mut f64| *out = tied().sum();
        let squares = |out: &mut f64| *out = tied().map(|x| x * x).sum();
        match out {
            [one] if self.prior.learn == Learn::Mean => sum(one),
            [one] => squares(one),
            [first, second, ..] => (sum(first), squares(second)).0,
            [] => {}
        }
        Ok(())
    }

    /// The mean of all tied coordinates of all particles, and their variance around it, or around 0.
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        let d = self.tied as f64;
        let log = |variance: f64| libm::log(variance.max(f64::MIN_POSITIVE));
        match (self.prior.learn, mean, theta) {
            (Learn::Mean, [sum, ..], [m, ..]) => *m = sum / d,
            (Learn::Variance, [squares, ..], [v, ..]) => *v = log(squares / d),
            (Learn::Both, [sum, squares, ..], [m, v, ..]) => {
                *m = sum / d;
                *v = log(squares / d - *m * *m);
            }
            _ => {}
        }
        Ok(())
    }
}

impl<F: Real> Draws<F> for Logistic<F> {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], x: &mut [F]) {
        let prior = self.prior.at(theta);
        let (deviation, own) = (prior.variance.sqrt(), self.prior.intercept_variance.sqrt());
        for x in x.chunks_exact_mut(self.d()) {
            for (i, x) in x.iter_mut().enumerate() {
                let (mean, deviation) = if i < self.tied { (prior.mean, deviation) } else { (0.0, own) };
                *x = F::of(mean + deviation * x.f64());
            }
        }
    }
}
