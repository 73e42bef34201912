//! The toy model's closed forms at finite N and h.
//!
//! In e = theta - theta_* and u_nd = x_nd - (y_d + theta_*)/2 the gradients are D (nu - e) and e - 2 u_nd, where nu is the
//! mean of all u_nd. The deviations u_nd - nu contract by 1 - 2h whatever theta does, and are independent of (e, nu),
//! which is a small linear Gaussian recursion.

/// A 3 x 3 matrix; recursions in two dimensions leave the last row and column zero.
pub type Matrix = [[f64; 3]; 3];

pub fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let mut c = [[0.0; 3]; 3];
    for (i, row) in c.iter_mut().enumerate() {
        for (j, c) in row.iter_mut().enumerate() {
            *c = (0..3).map(|k| a[i][k] * b[k][j]).sum();
        }
    }
    c
}

fn transpose(a: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

fn sum(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][j] + b[i][j]))
}

/// A Q A^T.
fn congruent(a: &Matrix, q: &Matrix) -> Matrix {
    product(&product(a, q), &transpose(a))
}

/// The S of S = A S A^T + Q, by doubling.
pub fn stationary(a: &Matrix, q: &Matrix) -> Matrix {
    let (mut a, mut s) = (*a, *q);
    for _ in 0..60 {
        s = sum(&s, &congruent(&a, &s));
        a = product(&a, &a);
    }
    s
}

/// The spectral radius, by squaring.
pub fn radius(a: &Matrix) -> f64 {
    let (mut a, mut log, mut power) = (*a, 0.0, 1.0f64);
    for _ in 0..40 {
        let size = a.iter().flatten().fold(0.0f64, |m, v| m.max(v.abs()));
        if size == 0.0 {
            return 0.0;
        }
        log += size.ln() / power;
        a.iter_mut().flatten().for_each(|v| *v /= size);
        a = product(&a, &a);
        power *= 2.0;
    }
    f64::exp(log)
}

/// What a long run shows.
#[derive(Clone, Copy, Debug)]
pub struct Stationary {
    /// Var theta.
    pub theta: f64,
    /// The variance of a coordinate, pooled over steps and particles.
    pub x: f64,
    /// The contraction of (e, nu) in one step.
    pub rho: f64,
}

/// The variance of u_nd - nu: an AR(1) with factor 1 - 2h and noise 2h (1 - 1/(ND)).
pub fn deviations(n: usize, h: f64, d: usize) -> f64 {
    (1.0 - 1.0 / (n * d) as f64) / (2.0 * (1.0 - h))
}

/// e' = e + h a (nu - e), nu' = nu + h (e - 2 nu) + noise: the matrix of eqs. 84 and 85 (a = D) and 85 and 86 (a = 1).
pub fn pgd_matrix(a: f64, h: f64) -> Matrix {
    [[1.0 - h * a, h * a, 0.0], [h, 1.0 - 2.0 * h, 0.0], [0.0; 3]]
}

/// PGD (a = D), and PQN or PGD with the diagonal Lambda (a = 1).
pub fn pgd(a: f64, n: usize, h: f64, d: usize) -> Stationary {
    langevin(ThetaStep { c: h * a, q: 0.0 }, false, n, h, d)
}

/// IPLA: PGD with noise of variance 2h/N on theta.
pub fn ipla(n: usize, h: f64, d: usize) -> Stationary {
    langevin(ThetaStep { c: h * d as f64, q: 2.0 * h / n as f64 }, false, n, h, d)
}

/// KIPLMC as OBABO, for any friction: Cov(theta, m) = [L - (h^2/4) L P L]^-1 with L = N D [[1, -1], [-1, 2]], the precision of
/// (theta, m), and P = diag(1/N, 1/(N D)).
pub fn kiplmc(n: usize, h: f64, d: usize) -> Stationary {
    let nd = (n * d) as f64;
    let l = [[nd, -nd], [-nd, 2.0 * nd]];
    let p = [1.0 / n as f64, 1.0 / nd];
    let of =
        |i: usize, j: usize| l[i][j] - 0.25 * h * h * (0..2).map(|k| l[i][k] * p[k] * l[k][j]).sum::<f64>();
    let determinant = of(0, 0) * of(1, 1) - of(0, 1) * of(1, 0);
    let (theta, mean) = (of(1, 1) / determinant, of(0, 0) / determinant);
    let deviations = (1.0 - 1.0 / nd) / (2.0 * (1.0 - 0.5 * h * h));
    Stationary { theta, x: mean + deviations, rho: 1.0 - h / 3.0 }
}

/// A step of theta, e' = (1 - c) e + c nu plus noise of variance q: c = h a for a gradient or Newton step, 1 for an M-step.
#[derive(Clone, Copy, Debug)]
pub struct ThetaStep {
    pub c: f64,
    pub q: f64,
}

/// Langevin moves of n particles, theta from the old ones or (`first`) from the new ones.
pub fn langevin(theta: ThetaStep, first: bool, n: usize, h: f64, d: usize) -> Stationary {
    transitions(theta, first, n, h, d, 1)
}

/// The same with `count` moves of the particles in a step.
pub fn transitions(theta: ThetaStep, first: bool, n: usize, h: f64, d: usize, count: i32) -> Stationary {
    let r = (1.0 - 2.0 * h).powi(count);
    let w = (1.0 - r * r) / (2.0 * (1.0 - h)) / (n * d) as f64;
    linear(theta, first, [(1.0 - r) / 2.0, r, w], deviations(n, h, d))
}

/// The same from the prior in each step. Coordinate d of a particle then starts (theta_* - y_d)/2 away from where it would
/// be by symmetry; `offset` is the mean of the squares of that.
pub fn short_run(
    theta: ThetaStep,
    first: bool,
    n: usize,
    h: f64,
    d: usize,
    (count, offset): (i32, f64),
) -> Stationary {
    let r = (1.0 - 2.0 * h).powi(count);
    let of_one = r * r + (1.0 - r * r) / (2.0 * (1.0 - h));
    let nd = (n * d) as f64;
    let apart = (1.0 - 1.0 / nd) * of_one + r * r * offset;
    linear(theta, first, [(1.0 + r) / 2.0, 0.0, of_one / nd], apart)
}

/// nu' = a e + b nu plus noise of variance w, theta from the old nu or (`first`) from the new one; `apart` is the mean square
/// of u_nd - nu.
fn linear(theta: ThetaStep, first: bool, [a, b, w]: [f64; 3], apart: f64) -> Stationary {
    let c = theta.c;
    let (matrix, noise): (Matrix, Matrix) = if first {
        (
            [[1.0 - c + c * a, c * b, 0.0], [a, b, 0.0], [0.0; 3]],
            [[c * c * w, c * w, 0.0], [c * w, w, 0.0], [0.0; 3]],
        )
    } else {
        ([[1.0 - c, c, 0.0], [a, b, 0.0], [0.0; 3]], [[0.0; 3], [0.0, w, 0.0], [0.0; 3]])
    };
    let on_theta: Matrix = [[theta.q, 0.0, 0.0], [0.0; 3], [0.0; 3]];
    let s = stationary(&matrix, &sum(&noise, &on_theta));
    Stationary { theta: s[0][0], x: s[1][1] + apart, rho: radius(&matrix) }
}

/// A chain of n serial moves at e from the last state of the one before, theta from the old or (`first`) the new chain.
pub fn chain(theta: ThetaStep, first: bool, n: usize, h: f64, d: usize) -> Stationary {
    let c = theta.c;
    // (e, nu, s) where s gathers the mean of the chain.
    let (r, w) = (1.0 - 2.0 * h, 1.0 / n as f64);
    let one_move: Matrix = [[1.0, 0.0, 0.0], [h, r, 0.0], [w * h, w * r, 1.0]];
    let q = 2.0 * h / d as f64;
    let noise: Matrix = [[0.0; 3], [0.0, q, q * w], [0.0, q * w, q * w * w]];
    let mut map: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let mut spread = [[0.0; 3]; 3];
    let mut states = Vec::with_capacity(n);
    for _ in 0..n {
        map = product(&one_move, &map);
        spread = sum(&congruent(&one_move, &spread), &noise);
        states.push((map[1], spread[1][1]));
    }
    map.iter_mut().for_each(|row| row[2] = 0.0); // s starts at 0 in each chain
    let (matrix, spread) = if first {
        let theta_step: Matrix = [[1.0 - c, 0.0, c], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        (product(&theta_step, &map), congruent(&theta_step, &spread))
    } else {
        ([[1.0 - c, 0.0, c], map[1], map[2]], spread)
    };
    let on_theta: Matrix = [[theta.q, 0.0, 0.0], [0.0; 3], [0.0; 3]];
    let s = stationary(&matrix, &sum(&spread, &on_theta));
    let nu = states.iter().map(|(m, spread)| {
        let quadratic: f64 = (0..2).map(|i| (0..2).map(|j| m[i] * s[i][j] * m[j]).sum::<f64>()).sum();
        quadratic + spread
    });
    let mean = nu.sum::<f64>() / n as f64;
    Stationary { theta: s[0][0], x: mean + deviations(1, h, d), rho: radius(&matrix) }
}

/// PMGD, where theta is the overall mean.
pub fn pmgd(n: usize, h: f64, d: usize) -> Stationary {
    let theta = 2.0 / ((n * d) as f64 * (2.0 - h));
    Stationary { theta, x: theta + deviations(n, h, d), rho: (1.0 - h).abs() }
}

/// SOUL: theta by a gradient step (a = D, or 1 with the diagonal Lambda) over the chain just made.
pub fn soul(a: f64, n: usize, h: f64, d: usize) -> Stationary {
    chain(ThetaStep { c: h * a, q: 0.0 }, true, n, h, d)
}

/// marginal-mh: pi_N, for every h.
pub fn pi_n(n: usize, d: usize) -> (f64, f64) {
    let nd = (n * d) as f64;
    (1.0 / nd, 0.5 * (1.0 + 1.0 / nd))
}
