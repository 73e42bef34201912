//! Latent variables that are not normal, or not so given the data: mixtures, heavy tails, two modes.

use super::numeric::{Chance, HALF_LN_TAU, ln_normal, ln_simpson, ln_sum_exp, maximise};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

/// y_g = x_g^2 + N(0, 1/4) and x_g ~ N(theta, 1): nothing tells x from -x, nor theta from -theta, and each posterior has
/// two modes.
struct Square {
    y: Vec<f64>,
}

impl Square {
    fn new() -> Self {
        let mut chance = Chance(17);
        let y = (0..60).map(|_| (1.5 + chance.normal()).powi(2) + 0.5 * chance.normal()).collect();
        Square { y }
    }

    fn truth(&self) -> Truth {
        let marginal = |t: &[f64]| {
            let of = |y: f64| {
                ln_simpson(&[-12.0, 12.0], 2400, |x| ln_normal(x, t[0], 1.0) + ln_normal(y, x * x, 0.25))
            };
            self.y.iter().map(|y| of(*y)).sum()
        };
        maximise(&marginal, &[1.5], &[0.15])
    }
}

impl Rows for Square {
    fn name(&self) -> &'static str {
        "bimodal"
    }

    fn d_theta(&self) -> usize {
        1
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.y.len()
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let (above, below) = (x[0] - theta[0], self.y[group] - x[0] * x[0]);
        if let Some(g) = ask.grad_x {
            g[0] = 8.0 * x[0] * below - above;
        }
        if let Some(s) = ask.score {
            s[0] = above;
        }
        if let Some(h) = ask.hessian {
            h[0] -= 1.0;
        }
        -2.0 * HALF_LN_TAU + std::f64::consts::LN_2 - 0.5 * above * above - 2.0 * below * below
    }
}

/// x_g ~ w N(m_1, e^2s) + (1 - w) N(m_2, e^2s) and y_g ~ N(x_g, 1/4); theta = (m_1, m_2, s, logit w).
struct Mixture {
    y: Vec<f64>,
}

impl Mixture {
    fn new() -> Self {
        let mut chance = Chance(13);
        let mut draw = || {
            let mean = if chance.uniform() < 0.35 { -1.5 } else { 1.5 };
            mean + 0.6 * chance.normal() + 0.5 * chance.normal()
        };
        Mixture { y: (0..300).map(|_| draw()).collect() }
    }

    fn truth(&self) -> Truth {
        let marginal = |t: &[f64]| {
            let (variance, w) = ((2.0 * t[2]).exp() + 0.25, 1.0 / (1.0 + (-t[3]).exp()));
            let of = |y: f64| {
                ln_sum_exp(&[
                    w.ln() + ln_normal(y, t[0], variance),
                    (1.0 - w).ln() + ln_normal(y, t[1], variance),
                ])
            };
            self.y.iter().map(|y| of(*y)).sum()
        };
        maximise(&marginal, &[-1.5, 1.5, -0.5, -0.6], &[0.1; 4])
    }
}

impl Rows for Mixture {
    fn name(&self) -> &'static str {
        "mixture"
    }

    fn d_theta(&self) -> usize {
        4
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.y.len()
    }

    /// Apart, for equal means never part.
    fn start(&self, theta: &mut [f64]) {
        theta.copy_from_slice(&[-1.0, 1.0, 0.0, 0.0]);
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let [m1, m2, s, logit] = *theta else { unreachable!() };
        let (precision, below) = ((-2.0 * s).exp(), self.y[group] - x[0]);
        let (a, b) = (x[0] - m1, x[0] - m2);
        let (aa, bb) = (a * a * precision, b * b * precision);
        // The log odds that x is of the first kind, hence its share r; ln(w e^-aa/2 + (1-w) e^-bb/2) follows from them.
        let odds = logit - 0.5 * (aa - bb);
        let r = 1.0 / (1.0 + (-odds).exp());
        let q = r * (1.0 - r);
        let w = 1.0 / (1.0 + (-logit).exp());
        if let Some(g) = ask.grad_x {
            g[0] = 4.0 * below - precision * (r * a + (1.0 - r) * b);
        }
        if let Some(score) = ask.score {
            let square = r * aa + (1.0 - r) * bb;
            score.copy_from_slice(&[precision * r * a, precision * (1.0 - r) * b, square - 1.0, r - w]);
        }
        if let Some(h) = ask.hessian {
            // d odds = (u, v, aa - bb, 1).
            let (u, v, apart) = (precision * a, -precision * b, aa - bb);
            h[0] += q * u * u - precision * r;
            h[4] += q * u * v;
            h[5] += q * v * v - precision * (1.0 - r);
            h[8] += q * u * apart - 2.0 * precision * r * a;
            h[9] += q * v * apart - 2.0 * precision * (1.0 - r) * b;
            h[10] += q * apart * apart - 2.0 * (r * aa + (1.0 - r) * bb);
            h[12] += q * u;
            h[13] += q * v;
            h[14] += q * apart;
            h[15] += q - w * (1.0 - w);
        }
        if !ask.value {
            return 0.0;
        }
        let soft = |u: f64| u.max(0.0) + (-u.abs()).exp().ln_1p();
        -2.0 * HALF_LN_TAU - s - 0.5 * bb - soft(logit) + soft(odds) + std::f64::consts::LN_2
            - 2.0 * below * below
    }
}

pub fn cases() -> Vec<Case> {
    let square = Square::new();
    let square_truth = square.truth();
    let mixture = Mixture::new();
    let mixture_truth = mixture.truth();
    let words = &["poor-mixing", "not-a-maximum", "not-reached"];
    vec![
        case(square, Some(square_truth), Expect::Says(words)),
        case(mixture, Some(mixture_truth), Expect::Right),
    ]
}
