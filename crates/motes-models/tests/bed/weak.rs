//! What the data hold little or nothing about: a variance of group effects whose maximum is at zero or near it, a parameter that
//! nothing depends on, and two of which only the sum counts. Marginals are normal.

use super::numeric::{Chance, HALF_LN_TAU, maximise};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

const GROUPS: usize = 40;
const SIZE: usize = 5;

/// y_gi ~ N(m + e^s x_g, e^2r), i = 1..5, with x_g standard normal; theta = (m, s, r).
struct Effects {
    name: &'static str,
    /// The mean of each group, and the sum of squares around it.
    groups: Vec<(f64, f64)>,
}

impl Effects {
    fn new(name: &'static str, sd: f64, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let groups = (0..GROUPS)
            .map(|_| {
                let effect = sd * chance.normal();
                let y = [0; SIZE].map(|_| 1.0 + effect + chance.normal());
                let mean = y.iter().sum::<f64>() / SIZE as f64;
                (mean, y.iter().map(|y| (y - mean).powi(2)).sum())
            })
            .collect();
        Effects { name, groups }
    }

    /// Means are N(m, e^2s + e^2r / 5), and what is left within groups has a distribution of e^r alone.
    fn marginal(&self, m: f64, effects: f64, noise: f64) -> f64 {
        let (n, variance) = (SIZE as f64, effects + noise / SIZE as f64);
        self.groups
            .iter()
            .map(|(mean, within)| {
                -HALF_LN_TAU
                    - 0.5 * variance.ln()
                    - 0.5 * (mean - m).powi(2) / variance
                    - (n - 1.0) * (HALF_LN_TAU + 0.5 * noise.ln())
                    - 0.5 * within / noise
                    - 0.5 * n.ln()
            })
            .sum()
    }

    /// Analysis of variance: the maximum is inside if groups differ by more than noise explains.
    fn truth(&self) -> Truth {
        let (groups, n) = (GROUPS as f64, SIZE as f64);
        let m = self.groups.iter().map(|(mean, _)| mean).sum::<f64>() / groups;
        let between = self.groups.iter().map(|(mean, _)| (mean - m).powi(2)).sum::<f64>() / groups;
        let within = self.groups.iter().map(|(_, within)| within).sum::<f64>() / groups;
        let noise = within / (n - 1.0);
        if between > noise / n {
            let start = [m, 0.5 * (between - noise / n).ln(), 0.5 * noise.ln()];
            let step = [0.1, 0.1, 0.05];
            return maximise(&|t| self.marginal(t[0], (2.0 * t[1]).exp(), (2.0 * t[2]).exp()), &start, &step);
        }
        // At s = -infinity all y are alike.
        let noise = between + within / n;
        Truth {
            theta: vec![m, f64::NEG_INFINITY, 0.5 * noise.ln()],
            se: vec![(noise / groups / n).sqrt(), f64::INFINITY, (2.0 * groups * n).sqrt().recip()],
            log_likelihood: Some(self.marginal(m, 0.0, noise)),
        }
    }
}

impl Rows for Effects {
    fn name(&self) -> &'static str {
        self.name
    }

    fn d_theta(&self) -> usize {
        3
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let [m, s, r] = *theta else { unreachable!() };
        let ((mean, within), x, n) = (self.groups[group], x[0], SIZE as f64);
        let (noise, sd) = ((-2.0 * r).exp(), s.exp());
        let left = n * (mean - m - sd * x);
        let squares = within + left * left / n;
        let slope = sd * x * noise;
        if let Some(g) = ask.grad_x {
            g[0] = noise * sd * left - x;
        }
        if let Some(score) = ask.score {
            score.copy_from_slice(&[noise * left, slope * left, noise * squares - n]);
        }
        if let Some(h) = ask.hessian {
            h[0] -= n * noise;
            h[3] -= n * slope;
            h[4] += slope * left - n * sd * x * slope;
            h[6] -= 2.0 * noise * left;
            h[7] -= 2.0 * slope * left;
            h[8] -= 2.0 * noise * squares;
        }
        -(n + 1.0) * HALF_LN_TAU - n * r - 0.5 * (x * x + noise * squares)
    }
}

/// Effects of this standard deviation, in data of this seed.
pub fn effects(sd: f64, seed: u64) -> Case {
    let model = Effects::new("effects", sd, seed);
    let truth = model.truth();
    let expect = match truth.theta[1].is_finite() {
        true => Expect::Right,
        false => Expect::Says(&["boundary"]),
    };
    case(model, Some(truth), expect)
}

/// x_g ~ N(w theta, 1) and y_g ~ N(x_g, 1), where only w theta counts.
struct Sum {
    name: &'static str,
    weights: Vec<f64>,
    y: Vec<f64>,
}

impl Sum {
    fn new(name: &'static str, weights: &[f64]) -> Self {
        let mut chance = Chance(41);
        let y = (0..50).map(|_| 1.0 + chance.normal() + chance.normal()).collect();
        Sum { name, weights: weights.into(), y }
    }

    /// One of the maxima. A parameter alone is determined if it is the only one that counts.
    fn truth(&self) -> Truth {
        let counts = self.weights.iter().filter(|w| **w != 0.0).count();
        let (n, mean) = (self.y.len() as f64, self.y.iter().sum::<f64>() / self.y.len() as f64);
        let known = |w: &f64| *w != 0.0 && counts == 1;
        let length: f64 = self.weights.iter().map(|w| w * w).sum();
        let se = |w: &f64| if known(w) { (2.0 / n).sqrt() / w } else { f64::INFINITY };
        let squares: f64 = self.y.iter().map(|y| (y - mean).powi(2)).sum();
        Truth {
            theta: self.weights.iter().map(|w| mean * w / length).collect(),
            se: self.weights.iter().map(se).collect(),
            log_likelihood: Some(-n * (HALF_LN_TAU + 0.5 * 2f64.ln()) - 0.25 * squares),
        }
    }
}

impl Rows for Sum {
    fn name(&self) -> &'static str {
        self.name
    }

    fn d_theta(&self) -> usize {
        self.weights.len()
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.y.len()
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let mean: f64 = theta.iter().zip(&self.weights).map(|(t, w)| t * w).sum();
        let (above, below) = (x[0] - mean, self.y[group] - x[0]);
        if let Some(g) = ask.grad_x {
            g[0] = below - above;
        }
        if let Some(score) = ask.score {
            score.iter_mut().zip(&self.weights).for_each(|(s, w)| *s = w * above);
        }
        if let Some(h) = ask.hessian {
            let d = self.weights.len();
            for i in 0..d {
                for j in 0..=i {
                    h[i * d + j] -= self.weights[i] * self.weights[j];
                }
            }
        }
        -2.0 * HALF_LN_TAU - 0.5 * (above * above + below * below)
    }
}

pub fn cases() -> Vec<Case> {
    let mut many = vec![0.0; 40];
    many[7] = 1.0;
    let flat = [("unused", vec![1.0, 0.0]), ("sum", vec![1.0, 1.0, 0.0]), ("many-unused", many)];
    let flat = flat.map(|(name, weights)| {
        let model = Sum::new(name, &weights);
        let truth = model.truth();
        case(model, Some(truth), Expect::Says(&["flat"]))
    });
    let mut cases: Vec<Case> = flat.into();
    cases.extend(
        [("no-effects", 0.0, 1), ("weak-effects", 0.4, 2)]
            .map(|(name, sd, seed)| Case { name, ..effects(sd, seed) }),
    );
    cases
}
