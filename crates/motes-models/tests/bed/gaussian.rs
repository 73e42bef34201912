//! Normal means with normal noise, whose marginal is normal: the toy model, far-apart scales, and the eight schools.

use super::numeric::{Chance, HALF_LN_TAU, ln_normal, maximise};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

/// x_d ~ N(theta_c, s_c^2) and y_d ~ N(x_d, s_c^2), where c = d mod C is the class of d.
struct Means {
    name: &'static str,
    scale: Vec<f64>,
    y: Vec<f64>,
    groups: usize,
}

impl Means {
    fn new(name: &'static str, scale: Vec<f64>, d: usize, groups: usize, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let y = (0..d)
            .map(|i| {
                let s = scale[i % scale.len()];
                s * (1.0 + (i % scale.len()) as f64 / 2.0 + chance.normal() + chance.normal())
            })
            .collect();
        Means { name, scale, y, groups }
    }

    fn truth(&self) -> Truth {
        let classes = self.scale.len();
        let of = |c: usize| self.y.iter().skip(c).step_by(classes);
        let theta: Vec<f64> = (0..classes).map(|c| of(c).sum::<f64>() / of(c).count() as f64).collect();
        let se = (0..classes).map(|c| self.scale[c] * (2.0 / of(c).count() as f64).sqrt()).collect();
        let variance = |c: usize| 2.0 * self.scale[c] * self.scale[c];
        let terms =
            self.y.iter().enumerate().map(|(d, y)| ln_normal(*y, theta[d % classes], variance(d % classes)));
        let log_likelihood = Some(terms.sum());
        Truth { theta, se, log_likelihood }
    }
}

impl Rows for Means {
    fn name(&self) -> &'static str {
        self.name
    }

    fn d_theta(&self) -> usize {
        self.scale.len()
    }

    fn d_x(&self) -> usize {
        self.y.len() / self.groups
    }

    fn groups(&self) -> usize {
        self.groups
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], mut ask: Ask<'_>) -> f64 {
        let (classes, first) = (self.scale.len(), group * x.len());
        let (mut value, mut c) = (0.0, first % classes);
        for (i, x) in x.iter().enumerate() {
            let precision = (self.scale[c] * self.scale[c]).recip();
            let (above, below) = (x - theta[c], self.y[first + i] - x);
            if ask.value {
                value -= 2.0 * HALF_LN_TAU
                    + 2.0 * self.scale[c].ln()
                    + 0.5 * precision * (above * above + below * below);
            }
            if let Some(g) = &mut ask.grad_x {
                g[i] = precision * (below - above);
            }
            if let Some(s) = &mut ask.score {
                s[c] += precision * above;
            }
            if let Some(h) = &mut ask.hessian {
                h[c * classes + c] -= precision;
            }
            c = if c + 1 == classes { 0 } else { c + 1 };
        }
        value
    }
}

/// The eight schools of Rubin (1981): x_g ~ N(mu, tau^2) and y_g ~ N(x_g, sigma_g^2), or x_g standard normal and
/// y_g ~ N(mu + tau x_g, sigma_g^2); theta = (mu, ln tau).
struct Schools {
    name: &'static str,
    y: Vec<f64>,
    centred: bool,
}

const EFFECTS: [f64; 8] = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
const SIGMA: [f64; 8] = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];

impl Schools {
    /// Effects so many times as large as the published ones.
    fn new(name: &'static str, times: f64, centred: bool) -> Self {
        Schools { name, y: EFFECTS.iter().map(|y| times * y).collect(), centred }
    }

    fn marginal(&self, mu: f64, tau: f64) -> f64 {
        self.y.iter().zip(SIGMA).map(|(y, s)| ln_normal(*y, mu, s * s + tau * tau)).sum()
    }

    fn interior(&self) -> Truth {
        maximise(&|t| self.marginal(t[0], t[1].exp()), &[20.0, 3.0], &[8.0, 0.4])
    }

    /// The supremum, at tau = 0: the mean of all schools.
    fn boundary(&self) -> Truth {
        let weights: f64 = SIGMA.iter().map(|s| 1.0 / (s * s)).sum();
        let mu = self.y.iter().zip(SIGMA).map(|(y, s)| y / (s * s)).sum::<f64>() / weights;
        Truth {
            theta: vec![mu, f64::NEG_INFINITY],
            se: vec![weights.sqrt().recip(), f64::INFINITY],
            log_likelihood: Some(self.marginal(mu, 0.0)),
        }
    }
}

impl Rows for Schools {
    fn name(&self) -> &'static str {
        self.name
    }

    fn d_theta(&self) -> usize {
        2
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        8
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let (y, noise, x) = (self.y[group], SIGMA[group].powi(-2), x[0]);
        let (mu, s) = (theta[0], theta[1]);
        let constant = -2.0 * HALF_LN_TAU - SIGMA[group].ln();
        // In both, `a` is the residual that theta enters.
        let (value, grad_x, score, hessian) = if self.centred {
            let (a, b, precision) = (x - mu, y - x, (-2.0 * s).exp());
            let square = a * a * precision;
            (
                constant - s - 0.5 * (square + b * b * noise),
                b * noise - a * precision,
                [a * precision, square - 1.0],
                [-precision, -2.0 * a * precision, -2.0 * square],
            )
        } else {
            let tau = s.exp();
            let a = y - mu - tau * x;
            let slope = tau * x * noise;
            (
                constant - 0.5 * (x * x + a * a * noise),
                a * noise * tau - x,
                [a * noise, a * slope],
                [-noise, -slope, a * slope - tau * x * slope],
            )
        };
        if let Some(g) = ask.grad_x {
            g[0] = grad_x;
        }
        if let Some(s) = ask.score {
            s.copy_from_slice(&score);
        }
        if let Some(h) = ask.hessian {
            h[0] += hessian[0];
            h[2] += hessian[1];
            h[3] += hessian[2];
        }
        value
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let scales: Vec<f64> = (-3..=3).map(|k| 10f64.powi(k)).collect();
    for means in [
        Means::new("toy", vec![1.0], 100, 100, 1),
        Means::new("toy-one-group", vec![1.0], 20, 1, 2),
        Means::new("scales", scales.clone(), 140, 140, 3),
        Means::new("scales-one-group", scales, 140, 1, 3),
    ] {
        let truth = means.truth();
        cases.push(case(means, Some(truth), Expect::Right));
    }
    let schools = Schools::new("schools-x3", 3.0, true);
    let truth = schools.interior();
    cases.push(case(schools, Some(truth), Expect::Right));
    for (name, centred) in [("schools", true), ("schools-non-centred", false)] {
        let schools = Schools::new(name, 1.0, centred);
        let truth = schools.boundary();
        let words = &["boundary", "weakly-identified", "poor-mixing", "not-a-maximum"];
        cases.push(case(schools, Some(truth), Expect::Says(words)));
    }
    cases
}
