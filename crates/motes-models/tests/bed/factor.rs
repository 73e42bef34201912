//! Factor analysis: normal data of few normal factors, with one factor or, free to turn, three.

use nalgebra::{Cholesky, DMatrix, SymmetricEigen};

use super::numeric::{Chance, HALF_LN_TAU, gradient, information, maximise};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

/// As many variables.
const P: usize = 10;
/// As many data.
const N: usize = 200;

/// y_g ~ N(W x_g, diag e^2r) and x_g ~ N(0, I) in q dimensions; theta = (W by rows, r), with one r for each variable, or
/// one for all.
struct Factors {
    name: &'static str,
    q: usize,
    /// How many r there are.
    noises: usize,
    y: Vec<[f64; P]>,
}

impl Factors {
    fn new(name: &'static str, q: usize, noises: usize, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let loadings: Vec<f64> = match q {
            // All positive: the start then tells which of both signs is meant.
            1 => (0..P).map(|_| 0.4 + chance.uniform()).collect(),
            _ => chance.normals(P * q),
        };
        let noise: Vec<f64> = (0..noises).map(|_| 0.5 + 0.8 * chance.uniform()).collect();
        let mut datum = || {
            let x = chance.normals(q);
            std::array::from_fn(|i| {
                let mean: f64 = x.iter().zip(&loadings[i * q..]).map(|(x, w)| x * w).sum();
                mean + noise[i % noises] * chance.normal()
            })
        };
        Factors { name, q, noises, y: (0..N).map(|_| datum()).collect() }
    }

    /// The mean of y y'.
    fn second_moments(&self) -> DMatrix<f64> {
        DMatrix::from_fn(P, P, |i, j| self.y.iter().map(|y| y[i] * y[j]).sum::<f64>() / N as f64)
    }

    fn marginal(&self, moments: &DMatrix<f64>, theta: &[f64]) -> f64 {
        let (w, r) = theta.split_at(P * self.q);
        let loadings = DMatrix::from_row_slice(P, self.q, w);
        let mut covariance = &loadings * loadings.transpose();
        (0..P).for_each(|i| covariance[(i, i)] += (2.0 * r[i % self.noises]).exp());
        let factor = Cholesky::new(covariance).expect("a positive definite covariance");
        let trace = factor.solve(moments).trace();
        -0.5 * N as f64 * (2.0 * P as f64 * HALF_LN_TAU + factor.ln_determinant() + trace)
    }

    fn truth(&self) -> Truth {
        let moments = self.second_moments();
        let d = self.d_theta();
        let start: Vec<f64> = (0..d).map(|i| if i < P { 0.8 } else { -0.2 }).collect();
        maximise(&|t| self.marginal(&moments, t), &start, &vec![0.06; d])
    }

    /// One of the maximisers in closed form (Tipping & Bishop 1999), where there is one noise. The data determine it alone;
    /// it is told from the rotations of W by the eigenvectors of the information that are not zero.
    fn turning(&self) -> Truth {
        let moments = self.second_moments();
        let eigen = SymmetricEigen::new(moments.clone());
        let mut order: Vec<usize> = (0..P).collect();
        order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
        let noise = order[self.q..].iter().map(|k| eigen.eigenvalues[*k]).sum::<f64>() / (P - self.q) as f64;
        let mut theta = Vec::new();
        for i in 0..P {
            let loading = |k: &usize| eigen.eigenvectors[(i, *k)] * (eigen.eigenvalues[*k] - noise).sqrt();
            theta.extend(order[..self.q].iter().map(loading));
        }
        theta.push(0.5 * noise.ln());
        let f = |t: &[f64]| self.marginal(&moments, t);
        let (d, unit) = (theta.len(), vec![0.05; theta.len()]);
        let matrix = information(&|t| (0.0, gradient(&f, t, &unit, 0.02)), &theta, &unit);
        let eigen = SymmetricEigen::new(matrix);
        let least = 1e-6 * eigen.eigenvalues.max();
        let variance: f64 = (0..d)
            .filter(|k| eigen.eigenvalues[*k] > least)
            .map(|k| eigen.eigenvectors[(d - 1, k)].powi(2) / eigen.eigenvalues[k])
            .sum();
        let mut se = vec![f64::INFINITY; d];
        se[d - 1] = variance.sqrt() * unit[d - 1];
        Truth { log_likelihood: Some(f(&theta)), theta, se }
    }
}

impl Rows for Factors {
    fn name(&self) -> &'static str {
        self.name
    }

    fn d_theta(&self) -> usize {
        P * self.q + self.noises
    }

    fn d_x(&self) -> usize {
        self.q
    }

    fn groups(&self) -> usize {
        N
    }

    /// Away from zero, where no factor would ever be found.
    fn start(&self, theta: &mut [f64]) {
        for (i, w) in theta[..P * self.q].iter_mut().enumerate() {
            *w = if (i % self.q) <= (i / self.q) % self.q { 1.0 } else { -0.5 };
        }
    }

    fn cache_len(&self) -> usize {
        self.noises
    }

    fn prepare(&self, theta: &[f64], _: usize, cache: &mut [f64]) {
        for (precision, r) in cache.iter_mut().zip(&theta[P * self.q..]) {
            *precision = (-2.0 * r).exp();
        }
    }

    fn row(&self, theta: &[f64], cache: &[f64], group: usize, x: &[f64], mut ask: Ask<'_>) -> f64 {
        let (q, d) = (self.q, self.d_theta());
        let mut value = -((P + q) as f64) * HALF_LN_TAU - 0.5 * x.iter().map(|x| x * x).sum::<f64>();
        if let Some(g) = &mut ask.grad_x {
            g.iter_mut().zip(x).for_each(|(g, x)| *g = -x);
        }
        for i in 0..P {
            let (w, k) = (&theta[i * q..(i + 1) * q], i % self.noises);
            let r = P * q + k;
            let e = self.y[group][i] - w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
            let pe = cache[k] * e;
            value -= theta[r] + 0.5 * pe * e;
            if let Some(g) = &mut ask.grad_x {
                g.iter_mut().zip(w).for_each(|(g, w)| *g += pe * w);
            }
            if let Some(score) = &mut ask.score {
                score[i * q..(i + 1) * q].iter_mut().zip(x).for_each(|(s, x)| *s = pe * x);
                score[r] += pe * e - 1.0;
            }
            if let Some(h) = &mut ask.hessian {
                for a in 0..q {
                    for b in 0..=a {
                        h[(i * q + a) * d + i * q + b] -= cache[k] * x[a] * x[b];
                    }
                    h[r * d + i * q + a] -= 2.0 * pe * x[a];
                }
                h[r * d + r] -= 2.0 * pe * e;
            }
        }
        value
    }
}

pub fn cases() -> Vec<Case> {
    let one = Factors::new("factor-1", 1, P, 16);
    let one_truth = one.truth();
    let three = Factors::new("factors-3", 3, 1, 18);
    let three_truth = three.turning();
    vec![
        case(one, Some(one_truth), Expect::Right),
        case(three, Some(three_truth), Expect::Says(&["flat", "weakly-identified"])),
    ]
}
