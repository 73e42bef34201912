//! Normal data with a normal effect of each group, or an intercept and a slope of each, whose marginal is normal.

use nalgebra::{Cholesky, DMatrix, DVector};

use super::numeric::{Chance, HALF_LN_TAU, maximise, maximise_with};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case, table};

/// y_i ~ N(z_i beta + x_g, e^2r) and x_g ~ N(0, e^2s); theta = (beta, s, r).
struct Intercepts {
    name: &'static str,
    p: usize,
    groups: Vec<Group>,
}

/// What of a group's data enters: y and z are needed by their products alone, but residuals are more exact than those.
struct Group {
    y: Vec<f64>,
    /// One covariate after the other, `p` for each y.
    z: Vec<f64>,
    /// z'z, the lower triangle of it.
    zz: Vec<f64>,
}

impl Group {
    fn new(p: usize, y: Vec<f64>, z: Vec<f64>) -> Self {
        let mut zz = vec![0.0; p * p];
        for row in z.chunks_exact(p) {
            for i in 0..p {
                for j in 0..=i {
                    zz[i * p + j] += row[i] * row[j];
                }
            }
        }
        Group { y, z, zz }
    }
}

impl Intercepts {
    /// Thirty covariates, the first constant, of 50 groups of 6.
    fn many() -> Self {
        let (mut chance, p) = (Chance(19), 30);
        let beta = chance.normals(p);
        let group = |_| {
            let (effect, z): (f64, Vec<f64>) = (
                0.8 * chance.normal(),
                (0..6 * p).map(|i| if i % p == 0 { 1.0 } else { chance.normal() }).collect(),
            );
            let mean = |z: &[f64]| z.iter().zip(&beta).map(|(z, b)| z * b).sum::<f64>() + effect;
            let y = z.chunks_exact(p).map(|z| mean(z) + 0.7 * chance.normal()).collect();
            Group::new(p, y, z)
        };
        let groups = (0..50).map(group).collect();
        Intercepts { name: "regression-30", p, groups }
    }

    fn sleepstudy() -> Self {
        let group =
            |(y, days): (Vec<f64>, Vec<f64>)| Group::new(2, y, days.iter().flat_map(|d| [1.0, *d]).collect());
        Intercepts {
            name: "sleepstudy-intercepts",
            p: 2,
            groups: sleepers().into_iter().map(group).collect(),
        }
    }

    /// The marginal, by the inverse of I + (tau / sigma)^2 1 1', with its gradient.
    fn marginal(&self, theta: &[f64]) -> (f64, Vec<f64>) {
        let p = self.p;
        let (tau2, sigma2) = ((2.0 * theta[p]).exp(), (2.0 * theta[p + 1]).exp());
        let (mut value, mut slope) = (0.0, vec![0.0; p + 2]);
        for group in &self.groups {
            let n = group.y.len() as f64;
            let residual: Vec<f64> = (group.z.chunks_exact(p).zip(&group.y))
                .map(|(z, y)| y - z.iter().zip(theta).map(|(z, b)| z * b).sum::<f64>())
                .collect();
            let total = sigma2 + n * tau2;
            let (sum, squares) = (residual.iter().sum::<f64>(), residual.iter().map(|r| r * r).sum::<f64>());
            let form = (squares - tau2 / total * sum * sum) / sigma2;
            value -= n * HALF_LN_TAU + 0.5 * ((n - 1.0) * sigma2.ln() + total.ln() + form);
            for (z, r) in group.z.chunks_exact(p).zip(&residual) {
                let weighted = (r - tau2 / total * sum) / sigma2;
                slope.iter_mut().zip(z).for_each(|(s, z)| *s += z * weighted);
            }
            slope[p] -= tau2 * (n / total - (sum / total).powi(2));
            let apart = squares - sum * sum / n;
            let mean = sum * sum / n;
            slope[p + 1] -= (n - 1.0) - apart / sigma2 + sigma2 / total - sigma2 * mean / (total * total);
        }
        (value, slope)
    }

    fn truth(&self, start: &[f64], unit: &[f64]) -> Truth {
        maximise_with(&|t| self.marginal(t), start, unit)
    }
}

impl Rows for Intercepts {
    fn name(&self) -> &'static str {
        self.name
    }

    fn d_theta(&self) -> usize {
        self.p + 2
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn cache_len(&self) -> usize {
        2 * self.p + 4
    }

    /// z'r, z'1, the sum and the sum of squares of the residuals r, and both precisions.
    fn prepare(&self, theta: &[f64], group: usize, cache: &mut [f64]) {
        cache.fill(0.0);
        let p = self.p;
        let (zr, rest) = cache.split_at_mut(p);
        let (z1, rest) = rest.split_at_mut(p);
        for (z, y) in self.groups[group].z.chunks_exact(p).zip(&self.groups[group].y) {
            let r = y - z.iter().zip(theta).map(|(z, b)| z * b).sum::<f64>();
            for i in 0..p {
                zr[i] += z[i] * r;
                z1[i] += z[i];
            }
            rest[0] += r;
            rest[1] += r * r;
        }
        rest[2] = (-2.0 * theta[p]).exp();
        rest[3] = (-2.0 * theta[p + 1]).exp();
    }

    fn row(&self, theta: &[f64], cache: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let (p, d, x) = (self.p, self.p + 2, x[0]);
        let (zr, z1) = (&cache[..p], &cache[p..2 * p]);
        let [sum, squares, prior, noise] = cache[2 * p..] else { unreachable!() };
        let n = self.groups[group].y.len() as f64;
        let left = squares - 2.0 * x * sum + n * x * x;
        let square = x * x * prior;
        if let Some(g) = ask.grad_x {
            g[0] = noise * (sum - n * x) - x * prior;
        }
        if let Some(score) = ask.score {
            for i in 0..p {
                score[i] = noise * (zr[i] - x * z1[i]);
            }
            score[p] = square - 1.0;
            score[p + 1] = noise * left - n;
        }
        if let Some(h) = ask.hessian {
            for i in 0..p {
                for j in 0..=i {
                    h[i * d + j] -= noise * self.groups[group].zz[i * p + j];
                }
                h[(p + 1) * d + i] -= 2.0 * noise * (zr[i] - x * z1[i]);
            }
            h[p * d + p] -= 2.0 * square;
            h[(p + 1) * d + p + 1] -= 2.0 * noise * left;
        }
        -(n + 1.0) * HALF_LN_TAU - theta[p] - n * theta[p + 1] - 0.5 * (square + noise * left)
    }
}

/// The reaction times of each sleeper, with the days (Belenky et al. 2003; `sleepstudy` of the R package lme4).
fn sleepers() -> Vec<(Vec<f64>, Vec<f64>)> {
    let rows = table(include_str!("data/sleepstudy.csv"));
    let column = |rows: &[Vec<f64>], i: usize| rows.iter().map(|r| r[i]).collect();
    rows.chunk_by(|a, b| a[2] == b[2]).map(|rows| (column(rows, 0), column(rows, 1))).collect()
}

/// y_i ~ N(b_0 + b_1 t_i + x_0 + x_1 t_i, e^2r), x_0 ~ N(0, e^2s) and x_1 ~ N(c x_0, e^2u): a correlated intercept and
/// slope of each group; theta = (b_0, b_1, s, u, c, r).
struct Slopes {
    groups: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Slopes {
    fn marginal(&self, theta: &[f64]) -> f64 {
        let [b0, b1, s, u, c, r] = *theta else { unreachable!() };
        let (v0, noise) = ((2.0 * s).exp(), (2.0 * r).exp());
        let (v01, v1) = (c * v0, c * c * v0 + (2.0 * u).exp());
        let of_group = |(y, t): &(Vec<f64>, Vec<f64>)| {
            let n = y.len();
            let covariance = DMatrix::from_fn(n, n, |i, j| {
                v0 + v01 * (t[i] + t[j]) + v1 * t[i] * t[j] + if i == j { noise } else { 0.0 }
            });
            let residual = DVector::from_fn(n, |i, _| y[i] - b0 - b1 * t[i]);
            let factor = Cholesky::new(covariance).expect("a positive definite covariance");
            let form = residual.dot(&factor.solve(&residual));
            -(n as f64) * HALF_LN_TAU - 0.5 * (factor.ln_determinant() + form)
        };
        self.groups.iter().map(of_group).sum()
    }
}

impl Rows for Slopes {
    fn name(&self) -> &'static str {
        "sleepstudy-slopes"
    }

    fn d_theta(&self) -> usize {
        6
    }

    fn d_x(&self) -> usize {
        2
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let [b0, b1, s, u, c, r] = *theta else { unreachable!() };
        let (p0, p1, noise) = ((-2.0 * s).exp(), (-2.0 * u).exp(), (-2.0 * r).exp());
        let (intercept, slope) = (b0 + x[0], b1 + x[1]);
        let (mut n, mut t1, mut t2, mut e0, mut e1, mut ee) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        let (y, t) = &self.groups[group];
        for (y, t) in y.iter().zip(t) {
            let e = y - intercept - slope * t;
            n += 1.0;
            t1 += t;
            t2 += t * t;
            e0 += e;
            e1 += t * e;
            ee += e * e;
        }
        let apart = x[1] - c * x[0];
        let (square0, square1) = (p0 * x[0] * x[0], p1 * apart * apart);
        if let Some(g) = ask.grad_x {
            g[0] = noise * e0 - p0 * x[0] + c * p1 * apart;
            g[1] = noise * e1 - p1 * apart;
        }
        if let Some(score) = ask.score {
            score.copy_from_slice(&[
                noise * e0,
                noise * e1,
                square0 - 1.0,
                square1 - 1.0,
                p1 * apart * x[0],
                noise * ee - n,
            ]);
        }
        if let Some(h) = ask.hessian {
            h[0] -= noise * n;
            h[6] -= noise * t1;
            h[7] -= noise * t2;
            h[14] -= 2.0 * square0;
            h[21] -= 2.0 * square1;
            h[27] -= 2.0 * p1 * apart * x[0];
            h[28] -= p1 * x[0] * x[0];
            h[30] -= 2.0 * noise * e0;
            h[31] -= 2.0 * noise * e1;
            h[35] -= 2.0 * noise * ee;
        }
        -(n + 2.0) * HALF_LN_TAU - s - u - n * r - 0.5 * (square0 + square1 + noise * ee)
    }
}

pub fn cases() -> Vec<Case> {
    let sleep = Intercepts::sleepstudy();
    let sleep_truth = sleep.truth(&[250.0, 10.0, 3.5, 3.5], &[10.0, 1.0, 0.2, 0.1]);
    let slopes = Slopes { groups: sleepers() };
    let start = [250.0, 10.0, 3.0, 1.8, 0.0, 3.2];
    let slopes_truth = maximise(&|t| slopes.marginal(t), &start, &[7.0, 1.5, 0.2, 0.2, 0.05, 0.05]);
    let many = Intercepts::many();
    let many_truth = many.truth(&[0.0; 32], &[0.1; 32]);
    vec![
        case(sleep, Some(sleep_truth), Expect::Right),
        case(slopes, Some(slopes_truth), Expect::Right),
        case(many, Some(many_truth), Expect::Right),
    ]
}
