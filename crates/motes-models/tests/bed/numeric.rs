//! What truths are computed with: chance, quadrature, and Newton's method with differences.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

use super::Truth;

/// ln(2 pi) / 2.
pub const HALF_LN_TAU: f64 = 0.918_938_533_204_672_7;

/// The log density of N(mean, variance) at y.
pub fn ln_normal(y: f64, mean: f64, variance: f64) -> f64 {
    -HALF_LN_TAU - 0.5 * variance.ln() - 0.5 * (y - mean).powi(2) / variance
}

/// ln(1 + e^u) without overflow.
pub fn softplus(u: f64) -> f64 {
    u.max(0.0) + (-u.abs()).exp().ln_1p()
}

/// 1 / (1 + e^-u).
pub fn sigmoid(u: f64) -> f64 {
    1.0 / (1.0 + (-u).exp())
}

/// ln n!.
pub fn ln_factorial(n: f64) -> f64 {
    (2..=n as u64).map(|k| (k as f64).ln()).sum()
}

/// The logarithm of a sum of exponentials.
pub fn ln_sum_exp(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logs.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
}

/// A generator of its own (splitmix64), so that stored truths outlive changes of the library's noise.
pub struct Chance(pub u64);

impl Chance {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1.0 / (1u64 << 54) as f64
    }

    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A count, by the times between events.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        let (mut count, mut time) = (-1.0, 0.0);
        while time < mean {
            time -= self.uniform().ln();
            count += 1.0;
        }
        count
    }

    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }
}

/// Nodes and weights of n-point Gauss-Hermite quadrature for N(0, 1), from the eigenvectors of the Jacobi matrix.
pub fn hermite(n: usize) -> Vec<(f64, f64)> {
    let jacobi =
        DMatrix::from_fn(n, n, |i, j| if i.abs_diff(j) == 1 { (i.max(j) as f64).sqrt() } else { 0.0 });
    let eigen = SymmetricEigen::new(jacobi);
    (0..n).map(|k| (eigen.eigenvalues[k], eigen.eigenvectors[(0, k)].powi(2))).collect()
}

/// ln of the integral of exp(f) over the real line, where f gives a smooth log-concave function with its first two
/// derivatives: Gauss-Hermite quadrature about the mode.
pub fn ln_integral(nodes: &[(f64, f64)], f: impl Fn(f64) -> (f64, f64, f64)) -> f64 {
    let mut mode = 0.0;
    for _ in 0..200 {
        let (_, slope, curvature) = f(mode);
        let step = (-slope / curvature).clamp(-2.0, 2.0);
        mode += step;
        if step.abs() < 1e-12 {
            break;
        }
    }
    let width = (-1.0 / f(mode).2).sqrt();
    let logs: Vec<f64> =
        nodes.iter().map(|(z, w)| w.max(1e-300).ln() + 0.5 * z * z + f(mode + width * z).0).collect();
    ln_sum_exp(&logs) + width.ln() + HALF_LN_TAU
}

/// ln of the integral of exp(f) between the first and the last of `breaks`, by Simpson's rule on each side of a break with
/// an even number of intervals.
pub fn ln_simpson(breaks: &[f64], intervals: usize, f: impl Fn(f64) -> f64) -> f64 {
    let mut logs = Vec::with_capacity((intervals + 1) * breaks.len());
    for ends in breaks.windows(2) {
        let h = (ends[1] - ends[0]) / intervals as f64;
        for i in 0..=intervals {
            let weight = match i {
                i if i == 0 || i == intervals => 1.0,
                i if i % 2 == 0 => 2.0,
                _ => 4.0,
            };
            logs.push(f(ends[0] + h * i as f64) + (weight * h / 3.0).ln());
        }
    }
    ln_sum_exp(&logs)
}

/// The gradient of f by differences of fourth order, each with a step of so many units of its coordinate.
pub fn gradient(f: &dyn Fn(&[f64]) -> f64, theta: &[f64], unit: &[f64], step: f64) -> Vec<f64> {
    let mut at = theta.to_vec();
    (0..theta.len())
        .map(|i| {
            let h = step * unit[i];
            let mut value = |k: f64| {
                at[i] = theta[i] + k * h;
                let value = f(&at);
                at[i] = theta[i];
                value
            };
            (8.0 * (value(1.0) - value(-1.0)) - (value(2.0) - value(-2.0))) / (12.0 * h)
        })
        .collect()
}

/// A log-likelihood with its gradient.
pub type WithGradient<'a> = &'a dyn Fn(&[f64]) -> (f64, Vec<f64>);

/// Minus the Hessian in units of `unit`, by differences of fourth order of the gradient.
pub fn information(f: WithGradient, theta: &[f64], unit: &[f64]) -> DMatrix<f64> {
    let (d, step) = (theta.len(), 0.02);
    let mut at = theta.to_vec();
    let mut matrix = DMatrix::zeros(d, d);
    for i in 0..d {
        for (k, weight) in [(1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0)] {
            at[i] = theta[i] + k * step * unit[i];
            let (_, slope) = f(&at);
            at[i] = theta[i];
            for j in 0..d {
                matrix[(i, j)] -= weight * slope[j] * unit[j] / (12.0 * step);
            }
        }
    }
    (&matrix + matrix.transpose()) / 2.0
}

/// What Newton's method asks at theta: the gradient, and minus the Hessian in the units that are given.
pub type Local<'a> = &'a dyn Fn(&[f64], &[f64]) -> (Vec<f64>, DMatrix<f64>);

/// The maximum of a log-likelihood by Newton's method from `start`, and the standard errors there. Units are of the size
/// of the standard errors, and replaced by these once the way there is known.
pub fn newton(f: &dyn Fn(&[f64]) -> f64, local: Local, start: &[f64], unit: &[f64]) -> Truth {
    let (mut theta, mut unit) = (start.to_vec(), unit.to_vec());
    let d = theta.len();
    for _ in 0..200 {
        let value = f(&theta);
        let (slope, information) = local(&theta, &unit);
        let eigen = SymmetricEigen::new(information);
        let least = 1e-3 * eigen.eigenvalues.amax();
        let definite = eigen.eigenvalues.min() > 0.0;
        // Away from the maximum the curvature may have any sign: its size then serves.
        let inverse = DVector::from_fn(d, |i, _| match eigen.eigenvalues[i] {
            l if definite => 1.0 / l,
            l => 1.0 / l.abs().max(least),
        });
        let v = &eigen.eigenvectors;
        let scaled = DVector::from_fn(d, |i, _| slope[i] * unit[i]);
        let covariance = v * DMatrix::from_diagonal(&inverse) * v.transpose();
        let step = &covariance * scaled;
        let se: Vec<f64> = (0..d).map(|i| covariance[(i, i)].sqrt() * unit[i]).collect();
        let moved = |a: f64| -> Vec<f64> { (0..d).map(|i| theta[i] + a * step[i] * unit[i]).collect() };
        let size = (0..d).map(|i| (step[i] * unit[i] / se[i]).abs()).fold(0.0, f64::max);
        if definite && size < 1e-7 {
            return Truth { theta, se, log_likelihood: Some(value) };
        }
        let mut a = (3.0 / size).min(1.0);
        // Within 1e-5 standard errors the rise is lost in rounding.
        while size > 1e-5 && f(&moved(a)).max(f64::NEG_INFINITY) < value {
            a /= 2.0;
            assert!(a > 1e-12, "no way up from {theta:?}");
        }
        theta = moved(a);
        if definite {
            unit = se;
        }
    }
    panic!("no maximum within 200 steps: {theta:?}");
}

/// The same with the Hessian by differences of the gradient.
pub fn maximise_with(f: WithGradient, start: &[f64], unit: &[f64]) -> Truth {
    newton(&|t| f(t).0, &|t, unit| (f(t).1, information(f, t, unit)), start, unit)
}

/// The same with both derivatives by differences.
pub fn maximise(f: &dyn Fn(&[f64]) -> f64, start: &[f64], unit: &[f64]) -> Truth {
    let local = |theta: &[f64], unit: &[f64]| {
        let slope = |t: &[f64]| gradient(f, t, unit, 0.02);
        (slope(theta), information(&|t| (0.0, slope(t)), theta, unit))
    };
    newton(f, &local, start, unit)
}
