//! Logistic regression's exact answers, found by quadrature and Newton's method in `f64`: nothing here uses Motes.

use std::ops::Range;

use motes::noise::{Noise, Purpose};
use motes_models::data::{Classification, Moments, classification, read_table, train_test_split, wisconsin};

use super::z_scores::standard_error;

/// Independent shifts of the lattice: what they disagree by is the quadrature's error.
const SHIFTS: usize = 8;
/// Points of each shifted lattice.
const POINTS: usize = 1 << 14;
/// The first components of Kuo's generating vector lattice-32001-1024-1048576.3600.
const GENERATOR: [u64; 12] =
    [1, 182_667, 469_891, 498_753, 110_745, 446_247, 250_185, 118_627, 245_333, 283_199, 408_519, 391_023];

/// Rows f_i with signs: l = sum_i ln sigmoid(s_i f_i.x) - |x - theta e|^2 / (2V), where e has a 1 for each tied coordinate.
pub struct Problem {
    /// s_i f_i, row after row, the intercept's 1 included.
    pub rows: Vec<f64>,
    pub d: usize,
    /// Coordinates tied to theta.
    pub tied: usize,
    pub variance: f64,
}

/// A value and its standard error over the shifts.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub value: f64,
    pub error: f64,
}

/// theta_*, and the posterior there.
pub struct Truth {
    pub theta: Known,
    pub means: Vec<Known>,
    pub variances: Vec<Known>,
    /// How each posterior mean moves with theta: cov(x_j, sum of tied coordinates) / V.
    pub response: Vec<f64>,
    /// The standard error of the mean over all coordinates of their relative variances.
    pub pooled: f64,
    /// The effective fraction of points.
    pub ess: f64,
    /// Weighted points: posterior draws are taken from them, and predictions averaged over them.
    points: Vec<f64>,
    weights: Vec<f64>,
    d: usize,
}

pub fn sigmoid(u: f64) -> f64 {
    if u > 0.0 { 1.0 / (1.0 + (-u).exp()) } else { 1.0 - 1.0 / (1.0 + u.exp()) }
}

/// The embedded data, standardised over all rows and split as scikit-learn does with this seed.
pub fn embedded(seed: u32) -> (Classification, Classification) {
    let table = read_table(wisconsin::BYTES, wisconsin::NAME).unwrap();
    let mut data = classification(&table, None, &["id".into()]).unwrap();
    Moments::of(&data.features, &data.feature_names).unwrap().apply(&mut data.features);
    let split = train_test_split(data.rows(), 0.2, seed).unwrap();
    (data.select(&split.train), data.select(&split.test))
}

/// 300 rows of 4 correlated features, labels drawn with weights (1.5, -0.5, 1, 0.2) and intercept -0.8.
pub fn correlated() -> Classification {
    let (rows, d) = (300, 4);
    let mut z = vec![0.0; rows * (d + 1)];
    Noise::new(11, Purpose::Data).normals_f64(0, 0, &mut z);
    let features: Vec<f64> =
        z.chunks(d + 1).flat_map(|z| (0..d).map(|j| 0.6 * z[j] + 0.8 * z[d]).collect::<Vec<_>>()).collect();
    let coin = Noise::new(11, Purpose::Batch);
    let weights = [1.5, -0.5, 1.0, 0.2];
    let label = |(i, f): (usize, &[f64])| {
        let u = f.iter().zip(weights).map(|(f, w)| f * w).sum::<f64>() - 0.8;
        u8::from(coin.uniform(1, i as u64) < sigmoid(u))
    };
    let labels = features.chunks(d).enumerate().map(label).collect();
    Classification {
        features,
        feature_names: (0..d).map(|i| format!("f{i}")).collect(),
        labels,
        target: "y".into(),
        classes: vec!["no".into(), "yes".into()],
        weights: None,
        rows_dropped: 0,
    }
}

impl Problem {
    pub fn new(data: &Classification, variance: f64, intercept: bool) -> Self {
        let tied = data.feature_names.len();
        let signed = |(f, l): (&[f64], &u8)| {
            let s = if *l == 1 { 1.0 } else { -1.0 };
            let one = intercept.then_some(s);
            f.iter().map(move |f| s * f).chain(one).collect::<Vec<_>>()
        };
        let rows = data.features.chunks(tied).zip(&data.labels).flat_map(signed).collect();
        Problem { rows, d: tied + usize::from(intercept), tied, variance }
    }

    /// sum_i ln sigmoid(s_i f_i.x).
    fn log_likelihood(&self, x: &[f64]) -> f64 {
        // Factors 1 + e^-|u| are at most 2: hundreds of them fit into a double.
        let (mut sum, mut product, mut factors) = (0.0, 1.0, 0);
        for f in self.rows.chunks_exact(self.d) {
            let u: f64 = f.iter().zip(x).map(|(f, x)| f * x).sum();
            sum += u.min(0.0);
            product *= 1.0 + (-u.abs()).exp();
            factors += 1;
            if factors == 500 {
                sum -= product.ln();
                (product, factors) = (1.0, 0);
            }
        }
        sum - product.ln()
    }

    fn prior_mean(&self, theta: f64, j: usize) -> f64 {
        if j < self.tied { theta } else { 0.0 }
    }

    fn log_prior(&self, x: &[f64], theta: f64) -> f64 {
        let square = |(j, x): (usize, &f64)| (x - self.prior_mean(theta, j)).powi(2);
        -x.iter().enumerate().map(square).sum::<f64>() / (2.0 * self.variance)
    }

    /// The posterior's mode at theta, and the negative Hessian there, by Newton's method.
    pub fn mode(&self, theta: f64) -> (Vec<f64>, Vec<f64>) {
        let d = self.d;
        let mut x = vec![0.0; d];
        let value = |x: &[f64]| self.log_likelihood(x) + self.log_prior(x, theta);
        loop {
            let mut gradient: Vec<f64> =
                (0..d).map(|j| (self.prior_mean(theta, j) - x[j]) / self.variance).collect();
            let mut hessian = vec![0.0; d * d];
            (0..d).for_each(|j| hessian[j * d + j] = 1.0 / self.variance);
            for f in self.rows.chunks_exact(d) {
                let p = sigmoid(-f.iter().zip(&x).map(|(f, x)| f * x).sum::<f64>());
                for i in 0..d {
                    gradient[i] += p * f[i];
                    (0..d).for_each(|j| hessian[i * d + j] += p * (1.0 - p) * f[i] * f[j]);
                }
            }
            let step = solve(&cholesky(&hessian, d), &gradient, d);
            let gain: f64 = step.iter().zip(&gradient).map(|(s, g)| s * g).sum();
            if gain < 1e-18 {
                return (x, hessian);
            }
            let here = value(&x);
            let mut length = 1.0;
            loop {
                let trial: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x + length * s).collect();
                if value(&trial) >= here - 1e-11 * here.abs() || length < 1e-9 {
                    x = trial;
                    break;
                }
                length *= 0.5;
            }
        }
    }

    /// The maximiser of the marginal likelihood and its posterior, by importance sampling at lattice points.
    pub fn truth(&self) -> Truth {
        // A few rounds of EM with Laplace's means put the first points in place, their moments the next ones.
        let mut theta = 0.0;
        for _ in 0..20 {
            theta = self.tied_mean(&self.mode(theta).0);
        }
        let (mode, hessian) = self.mode(theta);
        let mut proposal = Proposal::laplace(mode, &hessian);
        for round in 0..3 {
            let sample = self.sample(&proposal, 1, 1 << 12, 100 * (round + 1));
            theta = sample.root(self, theta, 0..1 << 12);
            proposal = Proposal::fitted(&sample.points, &sample.weights(self, theta), self.d);
        }
        let sample = self.sample(&proposal, SHIFTS, POINTS, 0);
        let each = |shift: usize| shift * POINTS..(shift + 1) * POINTS;
        let all = 0..SHIFTS * POINTS;
        let theta_star = sample.root(self, theta, all.clone());
        let alone: Vec<f64> = (0..SHIFTS).map(|s| sample.root(self, theta_star, each(s))).collect();
        let theta = Known { value: theta_star, error: standard_error(&alone) };
        let weights = sample.weights(self, theta_star);
        let known = |f: &dyn Fn(&[f64]) -> f64| {
            let alone: Vec<f64> = (0..SHIFTS).map(|s| sample.mean(&weights, f, each(s))).collect();
            Known { value: sample.mean(&weights, f, all.clone()), error: standard_error(&alone) }
        };
        let means: Vec<Known> = (0..self.d).map(|j| known(&|x| x[j])).collect();
        let square = |j: usize| move |x: &[f64], m: f64| (x[j] - m).powi(2);
        let variances: Vec<Known> = (0..self.d).map(|j| known(&|x| square(j)(x, means[j].value))).collect();
        let relative = |x: &[f64]| {
            let of = |j: usize| square(j)(x, means[j].value) / variances[j].value;
            (0..self.d).map(of).sum::<f64>() / self.d as f64
        };
        let pooled = known(&relative).error;
        let response = |j: usize| {
            let product = known(&|x| (x[j] - means[j].value) * (self.tied_mean(x) - theta_star));
            product.value * self.tied as f64 / self.variance
        };
        let response = (0..self.d).map(response).collect();
        let sum: f64 = weights.iter().sum();
        let ess = sum * sum / weights.iter().map(|w| w * w).sum::<f64>() / weights.len() as f64;
        Truth { theta, means, variances, pooled, response, ess, points: sample.points, weights, d: self.d }
    }

    fn tied_mean(&self, x: &[f64]) -> f64 {
        x[..self.tied].iter().sum::<f64>() / self.tied as f64
    }

    fn sample(&self, proposal: &Proposal, shifts: usize, points: usize, seed: u64) -> Sample {
        let coin = Noise::new(3, Purpose::Check);
        let mut sample = Sample { points: Vec::new(), base: Vec::new(), d: self.d };
        let mut z = vec![0.0; self.d];
        for shift in 0..shifts {
            let shifts: Vec<f64> = (0..self.d).map(|j| coin.uniform(seed + shift as u64, j as u64)).collect();
            for i in 0..points {
                for (j, z) in z.iter_mut().enumerate() {
                    let at = (i as u64 * GENERATOR[j] % points as u64) as f64 / points as f64 + shifts[j];
                    // Folded like a tent, so that the ends of the interval meet.
                    *z = (1.0 - (2.0 * at.fract() - 1.0).abs()).clamp(1e-12, 1.0 - 1e-12);
                }
                let (x, log_density) = proposal.draw(&z);
                sample.base.push(self.log_likelihood(&x) - log_density);
                sample.points.extend(x);
            }
        }
        sample
    }
}

/// Points, and the log of the likelihood over the density that they were drawn from.
struct Sample {
    points: Vec<f64>,
    base: Vec<f64>,
    d: usize,
}

impl Sample {
    fn weights(&self, problem: &Problem, theta: f64) -> Vec<f64> {
        let pairs = self.base.iter().zip(self.points.chunks(self.d));
        let logs: Vec<f64> = pairs.map(|(b, x)| b + problem.log_prior(x, theta)).collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logs.iter().map(|l| (l - top).exp()).collect()
    }

    fn mean(&self, weights: &[f64], f: &dyn Fn(&[f64]) -> f64, range: Range<usize>) -> f64 {
        let points = self.points[range.start * self.d..range.end * self.d].chunks(self.d);
        let (mut sum, mut total) = (0.0, 0.0);
        for (w, x) in weights[range].iter().zip(points) {
            sum += w * f(x);
            total += w;
        }
        sum / total
    }

    /// Where d/dtheta log p_theta(y) = tied (E[mean of tied coordinates] - theta) / V is 0, by secants.
    fn root(&self, problem: &Problem, start: f64, range: Range<usize>) -> f64 {
        let tied_mean = |x: &[f64]| problem.tied_mean(x);
        let excess = |theta: f64| self.mean(&self.weights(problem, theta), &tied_mean, range.clone()) - theta;
        let (mut last, mut theta) = (start + 0.01, start);
        let mut there = excess(last);
        for _ in 0..50 {
            let here = excess(theta);
            if here.abs() < 1e-11 {
                return theta;
            }
            (last, theta, there) = (theta, theta - here * (theta - last) / (here - there), here);
        }
        panic!("no maximiser of the marginal likelihood was found");
    }
}

/// x = centre + axes z, where each z is logistic with one scale to the left and one to the right: the tails are heavier
/// than those of any posterior under a Gaussian prior, so that weights are bounded.
struct Proposal {
    centre: Vec<f64>,
    /// Row-major; its columns are the axes.
    axes: Vec<f64>,
    scales: Vec<[f64; 2]>,
}

impl Proposal {
    fn laplace(mode: Vec<f64>, hessian: &[f64]) -> Self {
        let d = mode.len();
        let factor = cholesky(hessian, d);
        let mut axes = vec![0.0; d * d];
        for j in 0..d {
            let unit: Vec<f64> = (0..d).map(|i| f64::from(u8::from(i == j))).collect();
            solve_transposed(&factor, &unit, d).iter().enumerate().for_each(|(i, a)| axes[i * d + j] = *a);
        }
        Proposal { centre: mode, axes, scales: vec![[0.8; 2]; d] }
    }

    /// Principal axes, and for each the centre and the scales that fit weighted points best.
    fn fitted(points: &[f64], weights: &[f64], d: usize) -> Self {
        let total: f64 = weights.iter().sum();
        let mean = |f: &dyn Fn(&[f64]) -> f64| {
            points.chunks(d).zip(weights).map(|(x, w)| w * f(x)).sum::<f64>() / total
        };
        let middle: Vec<f64> = (0..d).map(|j| mean(&|x| x[j])).collect();
        let covariance: Vec<f64> = (0..d * d)
            .map(|ij| mean(&|x| (x[ij / d] - middle[ij / d]) * (x[ij % d] - middle[ij % d])))
            .collect();
        let axes = principal_axes(covariance, d);
        let mut fitted = Proposal { centre: middle.clone(), axes, scales: Vec::new() };
        for j in 0..d {
            let axis: Vec<f64> = (0..d).map(|i| fitted.axes[i * d + j]).collect();
            let norm2: f64 = axis.iter().map(|a| a * a).sum();
            let along = |x: &[f64]| {
                (0..d).map(|i| axis[i] * (x[i] - middle[i])).sum::<f64>() / norm2 // in standard deviations
            };
            let z: Vec<f64> = points.chunks(d).map(along).collect();
            let sides = |m: f64| {
                let (mut mass, mut square) = ([0.0; 2], [0.0; 2]);
                for (z, w) in z.iter().zip(weights) {
                    let side = usize::from(*z > m);
                    mass[side] += w;
                    square[side] += w * (z - m) * (z - m);
                }
                let scale = |side: usize| (3.0 * square[side] / mass[side]).sqrt() / std::f64::consts::PI;
                let scales = [scale(0), scale(1)];
                ((mass[0] / total - scales[0] / (scales[0] + scales[1])).abs(), m, scales)
            };
            let candidates = (-30..=30).map(|i| sides(f64::from(i) / 30.0));
            let (_, m, scales) = candidates.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some");
            (0..d).for_each(|i| fitted.centre[i] += m * axis[i]);
            fitted.scales.push(scales.map(|s| 1.1 * s));
        }
        fitted
    }

    /// The point of uniform numbers, and the log of its density up to a constant.
    fn draw(&self, u: &[f64]) -> (Vec<f64>, f64) {
        let (d, mut x, mut log_density) = (u.len(), self.centre.clone(), 0.0);
        for (j, (u, [left, right])) in u.iter().zip(&self.scales).enumerate() {
            let below = left / (left + right);
            let (scale, v) = if *u < below {
                (left, 0.5 * u / below)
            } else {
                (right, 1.0 - 0.5 * (1.0 - u) / (1.0 - below))
            };
            let t = (v / (1.0 - v)).ln();
            log_density += (v * (1.0 - v)).ln();
            (0..d).for_each(|i| x[i] += self.axes[i * d + j] * scale * t);
        }
        (x, log_density)
    }
}

/// Eigenvectors of a symmetric matrix as columns, each as long as the root of its eigenvalue, by Jacobi's rotations.
fn principal_axes(mut a: Vec<f64>, d: usize) -> Vec<f64> {
    let mut axes = vec![0.0; d * d];
    (0..d).for_each(|i| axes[i * d + i] = 1.0);
    for _ in 0..30 {
        for p in 0..d {
            for q in p + 1..d {
                if a[p * d + q].abs() < 1e-300 {
                    continue;
                }
                let tau = (a[q * d + q] - a[p * d + p]) / (2.0 * a[p * d + q]);
                let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let turn = |m: &mut [f64], x: usize, y: usize| {
                    (m[x], m[y]) = (c * m[x] - t * c * m[y], t * c * m[x] + c * m[y]);
                };
                (0..d).for_each(|i| turn(&mut a, i * d + p, i * d + q));
                (0..d).for_each(|i| turn(&mut a, p * d + i, q * d + i));
                (0..d).for_each(|i| turn(&mut axes, i * d + p, i * d + q));
            }
        }
    }
    for j in 0..d {
        let length = a[j * d + j].sqrt();
        (0..d).for_each(|i| axes[i * d + j] *= length);
    }
    // The widest first: lattices are best there.
    let mut order: Vec<usize> = (0..d).collect();
    order.sort_by(|i, j| a[j * d + j].total_cmp(&a[i * d + i]));
    (0..d * d).map(|ij| axes[ij / d * d + order[ij % d]]).collect()
}

impl Truth {
    /// Independent draws from the posterior at theta_*, as rows.
    pub fn draws(&self, n: usize, seed: u64) -> Vec<f64> {
        let total: f64 = self.weights.iter().sum();
        let coin = Noise::new(seed, Purpose::Check);
        let mut at: Vec<f64> = (0..n).map(|i| total * coin.uniform(99, i as u64)).collect();
        at.sort_by(f64::total_cmp);
        let (mut out, mut passed, mut next) = (Vec::with_capacity(n * self.d), 0.0, 0);
        for (w, x) in self.weights.iter().zip(self.points.chunks(self.d)) {
            passed += w;
            while next < n && at[next] <= passed {
                out.extend_from_slice(x);
                next += 1;
            }
        }
        out
    }

    /// The posterior's test error and mean log predictive density on labelled rows, by the paper's definitions.
    pub fn metrics(&self, test: &Problem) -> (f64, f64) {
        let total: f64 = self.weights.iter().sum();
        let (mut wrong, mut lppd) = (0.0, 0.0);
        let rows = test.rows.len() / test.d;
        for f in test.rows.chunks_exact(test.d) {
            let pairs = self.weights.iter().zip(self.points.chunks(self.d));
            let p = pairs.map(|(w, x)| w * sigmoid(f.iter().zip(x).map(|(f, x)| f * x).sum())).sum::<f64>()
                / total;
            wrong += if p < 0.5 { 1.0 } else { 0.0 };
            lppd += p.ln();
        }
        (wrong / rows as f64, lppd / rows as f64)
    }
}

/// The best product Gaussian: means, variances, theta.
pub struct Product {
    pub means: Vec<f64>,
    pub variances: Vec<f64>,
    pub theta: f64,
}

/// Maximises E_q[l(theta, x)] + entropy(q) over product Gaussians q and theta. Expectations over u_i = f_i.x ~ N(m_i, s_i^2)
/// are one-dimensional; the trapezoidal rule is exact to rounding for them.
pub fn best_product(problem: &Problem) -> Product {
    let d = problem.d;
    let mut q = Product { means: vec![0.0; d], variances: vec![1.0; d], theta: 0.0 };
    for _ in 0..2000 {
        let mut gradient: Vec<f64> =
            (0..d).map(|j| (problem.prior_mean(q.theta, j) - q.means[j]) / problem.variance).collect();
        let mut hessian = vec![0.0; d * d];
        (0..d).for_each(|j| hessian[j * d + j] = 1.0 / problem.variance);
        for f in problem.rows.chunks_exact(d) {
            let m: f64 = f.iter().zip(&q.means).map(|(f, m)| f * m).sum();
            let s = f.iter().zip(&q.variances).map(|(f, v)| f * f * v).sum::<f64>().sqrt();
            let (mut slope, mut bend, mut total) = (0.0, 0.0, 0.0);
            for i in -24..=24 {
                let z = f64::from(i) / 3.0;
                let (w, p) = ((-0.5 * z * z).exp(), sigmoid(-(m + s * z)));
                slope += w * p;
                bend += w * p * (1.0 - p);
                total += w;
            }
            let (slope, bend) = (slope / total, bend / total);
            for i in 0..d {
                gradient[i] += slope * f[i];
                (0..d).for_each(|j| hessian[i * d + j] += bend * f[i] * f[j]);
            }
        }
        // At the optimum each variance is 1 over the mean curvature; a Newton step for the means, an M-step for theta.
        let step = solve(&cholesky(&hessian, d), &gradient, d);
        let before = q.theta;
        let mut moved = 0.0f64;
        for j in 0..d {
            let variance = 1.0 / hessian[j * d + j];
            moved = moved.max((variance - q.variances[j]).abs()).max(step[j].abs());
            q.variances[j] = variance;
            q.means[j] += step[j];
        }
        q.theta = q.means[..problem.tied].iter().sum::<f64>() / problem.tied as f64;
        if moved.max((q.theta - before).abs()) < 1e-13 {
            return q;
        }
    }
    panic!("the best product Gaussian was not found");
}

/// The lower triangular L with L L^T = a.
fn cholesky(a: &[f64], d: usize) -> Vec<f64> {
    let mut l = a.to_vec();
    for i in 0..d {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| l[i * d + k] * l[j * d + k]).sum();
            let rest = a[i * d + j] - dot;
            l[i * d + j] = if i == j { rest.sqrt() } else { rest / l[j * d + j] };
        }
    }
    l
}

/// L^-T z.
fn solve_transposed(l: &[f64], z: &[f64], d: usize) -> Vec<f64> {
    let mut x = z.to_vec();
    for i in (0..d).rev() {
        let dot: f64 = (i + 1..d).map(|k| l[k * d + i] * x[k]).sum();
        x[i] = (x[i] - dot) / l[i * d + i];
    }
    x
}

/// (L L^T)^-1 b.
fn solve(l: &[f64], b: &[f64], d: usize) -> Vec<f64> {
    let mut y = b.to_vec();
    for i in 0..d {
        let dot: f64 = (0..i).map(|k| l[i * d + k] * y[k]).sum();
        y[i] = (y[i] - dot) / l[i * d + i];
    }
    solve_transposed(l, &y, d)
}
