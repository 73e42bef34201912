//! Bayesian logistic regression whose weights' prior mean is the parameter, on real data; truth by importance sampling.

use nalgebra::{Cholesky, DMatrix, DVector};

use super::numeric::{Chance, HALF_LN_TAU, ln_sum_exp, sigmoid, softplus};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

/// A constant and seven standardised covariates.
const D: usize = 8;
/// The prior variance of each weight.
const VARIANCE: f64 = 5.0;

/// y_i has logit z_i x, and x ~ N(theta 1, 5 I): 200 Pima women tested for diabetes (Smith et al. 1988; `Pima.tr` of the R
/// package MASS).
pub struct Pima {
    rows: Vec<([f64; D], f64)>,
}

impl Default for Pima {
    fn default() -> Self {
        let text = include_str!("data/pima.csv").replace("Yes", "1").replace("No", "0");
        let table = super::table(&text);
        let n = table.len() as f64;
        let scaled = |j: usize| {
            let mean = table.iter().map(|r| r[j]).sum::<f64>() / n;
            let sd = (table.iter().map(|r| (r[j] - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
            (mean, sd)
        };
        let scales: Vec<_> = (0..D - 1).map(scaled).collect();
        let row = |r: &Vec<f64>| {
            let z = |j: usize| if j == 0 { 1.0 } else { (r[j - 1] - scales[j - 1].0) / scales[j - 1].1 };
            (std::array::from_fn(z), r[D - 1])
        };
        Pima { rows: table.iter().map(row).collect() }
    }
}

impl Pima {
    fn log_likelihood(&self, x: &[f64]) -> f64 {
        let term = |(z, y): &([f64; D], f64)| {
            let u: f64 = z.iter().zip(x).map(|(z, x)| z * x).sum();
            y * u - softplus(u)
        };
        self.rows.iter().map(term).sum()
    }

    /// The posterior's mode, and the root of the inverse curvature there.
    fn mode(&self, theta: f64) -> (DVector<f64>, DMatrix<f64>) {
        let mut x = DVector::from_element(D, theta);
        loop {
            let mut slope = x.map(|x| (theta - x) / VARIANCE);
            let mut curvature = DMatrix::from_diagonal_element(D, D, 1.0 / VARIANCE);
            for (z, y) in &self.rows {
                let z = DVector::from_row_slice(z);
                let p = sigmoid(z.dot(&x));
                slope += &z * (y - p);
                curvature += &z * z.transpose() * (p * (1.0 - p));
            }
            let factor = Cholesky::new(curvature).expect("a concave log density");
            let step = factor.solve(&slope);
            x += &step;
            if step.amax() < 1e-10 {
                let root = factor.l().transpose().try_inverse().expect("an invertible factor");
                return (x, root);
            }
        }
    }

    /// What is stored below, with its Monte Carlo errors in theta and in the log-likelihood: so many pairs of points, drawn
    /// from Student's t with eight degrees of freedom about the mode, serve at all theta.
    pub fn compute(&self, pairs: usize) -> (Truth, [f64; 2]) {
        let mut chance = Chance(20);
        let about = 0.5;
        let (mode, root) = self.mode(about);
        // ln of Gamma(8) / (Gamma(4) (8 pi)^4), and of the root's determinant.
        let constant = (5040.0f64 / 6.0).ln() - 4.0 * (8.0 * std::f64::consts::PI).ln();
        let spread: f64 = (0..D).map(|i| root[(i, i)].ln()).sum();
        let (mut logs, mut sums) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            let normal = DVector::from_vec(chance.normals(D));
            // A chi-square with eight degrees of freedom is twice a sum of four exponentials.
            let chi2 = -2.0 * (0..4).map(|_| chance.uniform().ln()).sum::<f64>();
            let z = normal * (8.0 / chi2).sqrt();
            let proposal = constant - spread - 8.0 * (z.norm_squared() / 8.0).ln_1p();
            for side in [1.0, -1.0] {
                let x = &mode + &root * &z * side;
                // The prior at any theta is that of the sum of x, times what theta does not enter.
                let sum = x.sum();
                let across = x.norm_squared() - sum * sum / D as f64;
                let prior = -(D as f64) * (HALF_LN_TAU + 0.5 * VARIANCE.ln()) - 0.5 * across / VARIANCE;
                logs.push(prior + self.log_likelihood(x.as_slice()) - proposal);
                sums.push(sum);
            }
        }
        let d = D as f64;
        let weighted = |theta: f64| -> Vec<f64> {
            let along = |sum: f64| -0.5 * (sum - d * theta).powi(2) / (d * VARIANCE);
            logs.iter().zip(&sums).map(|(l, s)| l + along(*s)).collect()
        };
        let mut theta = about;
        loop {
            let logs = weighted(theta);
            let total = ln_sum_exp(&logs);
            let weights: Vec<f64> = logs.iter().map(|l| (l - total).exp()).collect();
            let mean: f64 = weights.iter().zip(&sums).map(|(w, s)| w * s).sum();
            let variance: f64 = weights.iter().zip(&sums).map(|(w, s)| w * (s - mean).powi(2)).sum();
            let information = d / VARIANCE - variance / (VARIANCE * VARIANCE);
            let step = (mean - d * theta) / VARIANCE / information;
            if step.abs() < 1e-12 {
                let error =
                    (weights.iter().zip(&sums).map(|(w, s)| (w * (s - mean)).powi(2)).sum::<f64>()).sqrt();
                let relative = (weights.iter().map(|w| w * w).sum::<f64>() - 1.0 / sums.len() as f64).sqrt();
                let truth = Truth {
                    theta: vec![theta],
                    se: vec![information.sqrt().recip()],
                    log_likelihood: Some(total - (sums.len() as f64).ln()),
                };
                return (truth, [error / VARIANCE / information, relative]);
            }
            theta += step;
        }
    }
}

impl Rows for Pima {
    fn name(&self) -> &'static str {
        "pima"
    }

    fn d_theta(&self) -> usize {
        1
    }

    fn d_x(&self) -> usize {
        D
    }

    fn groups(&self) -> usize {
        1
    }

    fn nanoseconds(&self) -> f64 {
        12.0 * self.rows.len() as f64
    }

    fn row(&self, theta: &[f64], _: &[f64], _: usize, x: &[f64], mut ask: Ask<'_>) -> f64 {
        let (mut above, mut squares) = (0.0, 0.0);
        for (i, x) in x.iter().enumerate() {
            let a = x - theta[0];
            above += a;
            squares += a * a;
            if let Some(g) = &mut ask.grad_x {
                g[i] = -a / VARIANCE;
            }
        }
        let mut value = -(D as f64) * (HALF_LN_TAU + 0.5 * VARIANCE.ln()) - 0.5 * squares / VARIANCE;
        if ask.value || ask.grad_x.is_some() {
            // The product of 1 + e^-|u| stays below 2^200: one logarithm serves for all.
            let mut product = 1.0;
            for (z, y) in &self.rows {
                let mut u = 0.0;
                for i in 0..D {
                    u += z[i] * x[i];
                }
                let small = (-u.abs()).exp();
                let p = if u >= 0.0 { 1.0 } else { small } / (1.0 + small);
                value += y * u - u.max(0.0);
                product *= 1.0 + small;
                if let Some(g) = &mut ask.grad_x {
                    for i in 0..D {
                        g[i] += (y - p) * z[i];
                    }
                }
            }
            value -= product.ln();
        }
        if let Some(score) = ask.score {
            score[0] = above / VARIANCE;
        }
        if let Some(h) = ask.hessian {
            h[0] -= D as f64 / VARIANCE;
        }
        value
    }
}

/// `cargo test -p motes-models --test all auto_bed::stored -- --ignored --nocapture`; its Monte Carlo errors are 3e-5 in theta,
/// which is 4e-5 standard errors, and 3e-4 in the log-likelihood.
const THETA: f64 = 0.246_472;
const SE: f64 = 0.792_465;
const LOG_LIKELIHOOD: f64 = -108.378_1;

pub fn cases() -> Vec<Case> {
    let truth = Truth { theta: vec![THETA], se: vec![SE], log_likelihood: Some(LOG_LIKELIHOOD) };
    vec![case(Pima::default(), Some(truth), Expect::Right)]
}
