//! The marginal likelihood and its derivatives from nothing but what a model answers: a second opinion on each truth.

use motes::{At, Model, Want};
use nalgebra::{Cholesky, DMatrix, DVector};

use super::numeric::{Chance, HALF_LN_TAU, gradient, information, ln_sum_exp};

/// What integration over x says of a theta.
pub struct Opinion {
    pub log_likelihood: f64,
    /// The gradient of the log-likelihood, by Fisher's identity.
    pub score: Vec<f64>,
    /// The observed information, by Louis's identity; for models that give Hessians, if it was asked for.
    pub information: Option<DMatrix<f64>>,
    /// Monte Carlo errors of the log-likelihood and of the score; zero where there is no chance.
    pub errors: (f64, Vec<f64>),
}

/// A model's answers.
struct Asked<'m> {
    model: &'m dyn Model<f64>,
    theta: &'m [f64],
    scratch: Vec<f64>,
}

impl<'m> Asked<'m> {
    fn of(model: &'m dyn Model<f64>, theta: &'m [f64]) -> Self {
        // Rows of these models need scratch for one at a time.
        Asked { model, theta, scratch: vec![0.0; model.scratch_len(1)] }
    }

    fn ask<'a>(&'a mut self, group: u32, x: &[f64], choose: impl FnOnce(&mut Want<'a, f64>)) {
        let mut want = Want::nothing(&mut self.scratch);
        choose(&mut want);
        let groups = [group];
        let at = At { groups: &groups, ..At::new(self.theta, x) };
        self.model.evaluate(at, want).expect("an answer");
    }

    fn log_density(&mut self, group: u32, x: &[f64]) -> Vec<f64> {
        let mut out = vec![f64::NAN; x.len() / self.model.d_x()];
        self.ask(group, x, |want| want.log_density = Some(&mut out));
        out
    }

    fn grad_x(&mut self, group: u32, x: &[f64]) -> DVector<f64> {
        let mut out = vec![f64::NAN; x.len()];
        self.ask(group, x, |want| want.grad_x = Some(&mut out));
        DVector::from_vec(out)
    }

    /// Minus the x-Hessian, by differences.
    fn curvature(&mut self, group: u32, x: &DVector<f64>, step: f64) -> DMatrix<f64> {
        let d = x.len();
        let mut matrix = DMatrix::zeros(d, d);
        for i in 0..d {
            let mut at = x.clone();
            at[i] = x[i] + step;
            let up = self.grad_x(group, at.as_slice());
            at[i] = x[i] - step;
            matrix.set_column(i, &((self.grad_x(group, at.as_slice()) - up) / (2.0 * step)));
        }
        (&matrix + matrix.transpose()) / 2.0
    }

    /// The weighted means of scores and, with Louis's identity, of information over some rows of a group are added.
    fn add(&mut self, group: u32, rows: &[f64], weights: &[f64], into: &mut Opinion) {
        let (d, d_x) = (self.model.d_theta(), self.model.d_x());
        let mut scores = vec![f64::NAN; weights.len() * d];
        self.ask(group, rows, |want| want.scores = Some(&mut scores));
        let mut mean = vec![0.0; d];
        for (s, w) in scores.chunks_exact(d).zip(weights) {
            mean.iter_mut().zip(s).for_each(|(m, s)| *m += w * s);
        }
        into.score.iter_mut().zip(&mean).for_each(|(sum, m)| *sum += m);
        let Some(information) = &mut into.information else { return };
        let mut hessian = vec![f64::NAN; d * d];
        for ((x, s), w) in rows.chunks_exact(d_x).zip(scores.chunks_exact(d)).zip(weights) {
            if *w < 1e-13 {
                continue;
            }
            self.ask(group, x, |want| want.hessian = Some(&mut hessian));
            for i in 0..d {
                for j in 0..d {
                    information[(i, j)] -= w * (hessian[i * d + j] + (s[i] - mean[i]) * (s[j] - mean[j]));
                }
            }
        }
    }
}

fn blank(model: &dyn Model<f64>, louis: bool) -> Opinion {
    let d = model.d_theta();
    Opinion {
        log_likelihood: 0.0,
        score: vec![0.0; d],
        information: (louis && model.gives().hessian).then(|| DMatrix::zeros(d, d)),
        errors: (0.0, vec![0.0; d]),
    }
}

/// For groups of one latent variable: the trapezoidal rule where the density is not negligible, on so many points.
pub fn by_quadrature(model: &dyn Model<f64>, theta: &[f64], points: usize, louis: bool) -> Opinion {
    assert_eq!(model.d_x(), 1);
    let mut asked = Asked::of(model, theta);
    let mut opinion = blank(model, louis);
    for group in 0..model.groups() as u32 {
        // A first grid reaches from 1e-4 to 1e6 on both sides; each next one covers what the last could not rule out.
        let mut x: Vec<f64> = (-2300..=2300).map(|k| 1e-4 * (0.01 * f64::from(k)).sinh()).collect();
        for _ in 0..6 {
            let l = asked.log_density(group, &x);
            let most = l.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let matters = |l: &f64| *l > most - 45.0;
            let first = l.iter().position(matters).expect("a most").saturating_sub(1);
            let last = (l.iter().rposition(matters).expect("a most") + 1).min(x.len() - 1);
            let (low, high) = (x[first], x[last]);
            x = (0..points).map(|i| low + (high - low) * i as f64 / (points - 1) as f64).collect();
        }
        let h = x[1] - x[0];
        let l = asked.log_density(group, &x);
        let total = ln_sum_exp(&l);
        opinion.log_likelihood += total + h.ln();
        let weights: Vec<f64> = l.iter().map(|l| (l - total).exp()).collect();
        asked.add(group, &x, &weights, &mut opinion);
    }
    opinion
}

/// For groups whose latent variables are jointly normal given the data: Laplace's approximation, which is then exact, and
/// differences of it in units of `unit`. `None` if they are not normal.
pub fn by_laplace(model: &dyn Model<f64>, theta: &[f64], unit: &[f64], louis: bool) -> Option<Opinion> {
    let value = |theta: &[f64]| -> Option<f64> {
        let mut asked = Asked::of(model, theta);
        let mut value = 0.0;
        for group in 0..model.groups() as u32 {
            let mut x = DVector::zeros(model.d_x());
            let factor = Cholesky::new(asked.curvature(group, &x, 1.0))?;
            let slope = asked.grad_x(group, x.as_slice());
            x += factor.solve(&slope);
            // One step from anywhere is to the mode, if the density is normal.
            let left = factor.solve(&asked.grad_x(group, x.as_slice()));
            if left.amax() > 1e-6 * (1.0 + x.amax()) {
                return None;
            }
            let most = asked.log_density(group, x.as_slice())[0];
            value += most + x.len() as f64 * HALF_LN_TAU - 0.5 * factor.ln_determinant();
        }
        Some(value)
    };
    let log_likelihood = value(theta)?;
    let f = |t: &[f64]| value(t).unwrap_or(f64::NAN);
    let slope = |t: &[f64]| gradient(&f, t, unit, 0.05);
    let mut opinion = Opinion { log_likelihood, score: slope(theta), ..blank(model, false) };
    if louis {
        let scaled = information(&|t| (0.0, slope(t)), theta, unit);
        let d = theta.len();
        opinion.information = Some(DMatrix::from_fn(d, d, |i, j| scaled[(i, j)] / (unit[i] * unit[j])));
    }
    Some(opinion)
}

/// For one group: importance sampling from the normal distribution about the mode, with so many pairs of draws.
pub fn by_sampling(model: &dyn Model<f64>, theta: &[f64], pairs: usize) -> Opinion {
    assert_eq!(model.groups(), 1);
    let d_x = model.d_x();
    let mut asked = Asked::of(model, theta);
    let mut mode = DVector::zeros(d_x);
    let factor = loop {
        let factor = Cholesky::new(asked.curvature(0, &mode, 1e-4)).expect("a concave log density");
        let step = factor.solve(&asked.grad_x(0, mode.as_slice()));
        mode += &step * (2.0 / step.amax()).min(1.0);
        if step.amax() < 1e-8 {
            break factor;
        }
    };
    let back = factor.l().transpose();
    let mut chance = Chance(5);
    let (mut rows, mut logs) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let z = DVector::from_vec(chance.normals(d_x));
        let away = back.solve_upper_triangular(&z).expect("an invertible factor");
        for x in [&mode + &away, &mode - &away] {
            logs.push(-(d_x as f64) * HALF_LN_TAU + 0.5 * factor.ln_determinant() - 0.5 * z.norm_squared());
            rows.extend_from_slice(x.as_slice());
        }
    }
    by_draws(model, theta, &rows, &logs)
}

/// For one group: importance sampling with draws from a distribution, whose log density at each is known.
pub fn by_draws(model: &dyn Model<f64>, theta: &[f64], rows: &[f64], proposal: &[f64]) -> Opinion {
    assert_eq!(model.groups(), 1);
    let (d, n) = (model.d_theta(), proposal.len() as f64);
    let mut asked = Asked::of(model, theta);
    let logs: Vec<f64> = asked.log_density(0, rows).iter().zip(proposal).map(|(l, p)| l - p).collect();
    let total = ln_sum_exp(&logs);
    let weights: Vec<f64> = logs.iter().map(|l| (l - total).exp()).collect();
    let mut opinion = blank(model, true);
    opinion.log_likelihood = total - n.ln();
    asked.add(0, rows, &weights, &mut opinion);
    opinion.errors.0 = weights.iter().map(|w| (w - 1.0 / n).powi(2)).sum::<f64>().sqrt();
    let mut scores = vec![0.0; weights.len() * d];
    asked.ask(0, rows, |want| want.scores = Some(&mut scores));
    for i in 0..d {
        let parts = weights.iter().zip(scores.chunks_exact(d));
        let squares = parts.map(|(w, s)| (w * (s[i] - opinion.score[i])).powi(2));
        opinion.errors.1[i] = squares.sum::<f64>().sqrt();
    }
    opinion
}
