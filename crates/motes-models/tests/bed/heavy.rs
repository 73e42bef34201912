//! Group effects with Student or Laplace tails and normal noise; truth by quadrature over each effect.

use super::numeric::{Chance, HALF_LN_TAU, ln_simpson, maximise};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

/// How effects are distributed.
#[derive(Clone, Copy, PartialEq)]
enum Tails {
    /// Student's t with four degrees of freedom, times e^s.
    Student,
    /// Laplace with scale e^s.
    Laplace,
}

/// y_gi ~ N(m + x_g, e^2r), i = 1..5, and x_g has heavy tails with scale e^s; theta = (m, s, r).
struct Heavy {
    name: &'static str,
    tails: Tails,
    y: Vec<[f64; 5]>,
}

impl Heavy {
    fn new(name: &'static str, tails: Tails, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let mut group = || {
            let effect = match tails {
                // A chi-square with four degrees of freedom is twice a sum of two exponentials.
                Tails::Student => {
                    let chi2 = -2.0 * (chance.uniform() * chance.uniform()).ln();
                    chance.normal() * (4.0 / chi2).sqrt()
                }
                Tails::Laplace => -(chance.uniform().ln() - chance.uniform().ln()),
            };
            [0; 5].map(|_| 2.0 + 0.8 * effect + chance.normal())
        };
        Heavy { name, tails, y: (0..80).map(|_| group()).collect() }
    }

    fn marginal(&self, theta: &[f64]) -> f64 {
        let (scale, sigma) = (theta[1].exp(), theta[2].exp());
        let prior = |x: f64| {
            let z = x / scale;
            match self.tails {
                Tails::Student => (0.375 / scale).ln() - 2.5 * (1.0 + z * z / 4.0).ln(),
                Tails::Laplace => -z.abs() - (2.0 * scale).ln(),
            }
        };
        let of = |y: &[f64; 5]| {
            // Given x, the mean of the group's data is N(m + x, sigma^2 / 5), apart from all else they tell.
            let mean = y.iter().sum::<f64>() / 5.0;
            let within: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
            let (centre, width) = (mean - theta[0], sigma / 5f64.sqrt());
            let ends = [centre - 12.0 * width, centre + 12.0 * width];
            let joint = |x: f64| prior(x) - 0.5 * ((x - centre) / width).powi(2);
            // A kink is no place for a rule to cross; where there is none, so many points leave rounding alone.
            let integral = match self.tails {
                Tails::Laplace if ends[0] < 0.0 && ends[1] > 0.0 => {
                    ln_simpson(&[ends[0], 0.0, ends[1]], 240, joint)
                }
                _ => ln_simpson(&ends, 240, joint),
            };
            integral - 5.0 * (HALF_LN_TAU + theta[2]) - 0.5 * within / (sigma * sigma)
        };
        self.y.iter().map(of).sum()
    }

    fn truth(&self) -> Truth {
        maximise(&|t| self.marginal(t), &[2.0, -0.2, 0.0], &[0.15, 0.12, 0.04])
    }
}

impl Rows for Heavy {
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
        self.y.len()
    }

    /// Left out of one of them, so that differences take its place.
    fn hessian(&self) -> bool {
        self.tails == Tails::Laplace
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let [m, s, r] = *theta else { unreachable!() };
        let (x, noise, scale) = (x[0], (-2.0 * r).exp(), (-s).exp());
        let (mut e, mut ee) = (0.0, 0.0);
        for y in self.y[group] {
            let left = y - m - x;
            e += left;
            ee += left * left;
        }
        // The log density of the effect without -s, and its derivatives in x, in s, and in s twice.
        let (value, in_x, in_s, twice) = match self.tails {
            Tails::Student => {
                let q = 0.25 * (x * scale).powi(2);
                let share = q / (1.0 + q);
                let value = if ask.value { 0.375f64.ln() - 2.5 * q.ln_1p() } else { 0.0 };
                (value, -1.25 * x * scale * scale / (1.0 + q), 5.0 * share, -10.0 * share / (1.0 + q))
            }
            Tails::Laplace => {
                let z = x.abs() * scale;
                (-std::f64::consts::LN_2 - z, -x.signum() * scale, z, -z)
            }
        };
        if let Some(g) = ask.grad_x {
            g[0] = noise * e + in_x;
        }
        if let Some(score) = ask.score {
            score.copy_from_slice(&[noise * e, in_s - 1.0, noise * ee - 5.0]);
        }
        if let Some(h) = ask.hessian {
            h[0] -= 5.0 * noise;
            h[4] += twice;
            h[6] -= 2.0 * noise * e;
            h[8] -= 2.0 * noise * ee;
        }
        -5.0 * (HALF_LN_TAU + r) - s + value - 0.5 * noise * ee
    }
}

pub fn cases() -> Vec<Case> {
    [("student-effects", Tails::Student, 14), ("laplace-effects", Tails::Laplace, 15)]
        .map(|(name, tails, seed)| {
            let model = Heavy::new(name, tails, seed);
            let truth = model.truth();
            case(model, Some(truth), Expect::Right)
        })
        .into()
}
