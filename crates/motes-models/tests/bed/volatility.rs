//! Stochastic volatility, a chain of 200 latent variables in one group; truth by a filter on a grid.

use super::numeric::{Chance, HALF_LN_TAU, ln_normal, maximise};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

/// The length of the chain.
const T: usize = 200;

/// y_t ~ N(0, e^x_t), where x_t - m is a stationary autoregression of order one with coefficient f = tanh u and noise
/// N(0, e^2s); theta = (m, u, s).
pub struct Volatility {
    y: Vec<f64>,
}

impl Default for Volatility {
    fn default() -> Self {
        let mut chance = Chance(21);
        let (m, f, sigma) = (-0.5, 0.9f64, 0.6);
        let mut x = m + sigma / (1.0 - f * f).sqrt() * chance.normal();
        let mut next = || {
            let y = (0.5 * x).exp() * chance.normal();
            x = m + f * (x - m) + sigma * chance.normal();
            y
        };
        Volatility { y: (0..T).map(|_| next()).collect() }
    }
}

impl Volatility {
    /// The log-likelihood by the forward filter on a grid of so many points.
    pub fn filter(&self, theta: &[f64], points: usize) -> f64 {
        self.filtered(&Grid::new(theta, points), |_| ())
    }

    /// The filter, which shows the distribution of each x_t given the data up to then.
    fn filtered(&self, grid: &Grid, mut show: impl FnMut(&[f64])) -> f64 {
        let (mut ahead, mut value) = (grid.first.clone(), 0.0);
        for (t, y) in self.y.iter().enumerate() {
            if t > 0 {
                let dot = |row: &[f64]| row.iter().zip(&ahead).map(|(a, b)| a * b).sum();
                ahead = grid.moves.chunks_exact(grid.x.len()).map(dot).collect();
            }
            ahead.iter_mut().zip(&grid.x).for_each(|(a, x)| *a *= ln_normal(*y, 0.0, x.exp()).exp());
            let total: f64 = ahead.iter().sum();
            ahead.iter_mut().for_each(|a| *a /= total);
            value += total.ln();
            show(&ahead);
        }
        value
    }

    /// So many paths from the posterior at theta, one after the other, and the log density of each: drawn on the grid from
    /// the last to the first, given what follows.
    pub fn paths(&self, theta: &[f64], points: usize, count: usize) -> (Vec<f64>, Vec<f64>) {
        let grid = Grid::new(theta, points);
        let mut filtered = Vec::with_capacity(T * points);
        self.filtered(&grid, |here| filtered.extend_from_slice(here));
        let mut chance = Chance(22);
        let (mut paths, mut logs) = (vec![0.0; count * T], vec![0.0; count]);
        let mut mass = vec![0.0; points];
        for (path, log) in paths.chunks_exact_mut(T).zip(&mut logs) {
            let mut next: Option<usize> = None;
            for t in (0..T).rev() {
                mass.copy_from_slice(&filtered[t * points..(t + 1) * points]);
                if let Some(next) = next {
                    let moves = &grid.moves[next * points..(next + 1) * points];
                    mass.iter_mut().zip(moves).for_each(|(m, p)| *m *= p);
                }
                let total: f64 = mass.iter().sum();
                let mut left = chance.uniform() * total;
                let past = |m: &f64| {
                    left -= m;
                    left <= 0.0
                };
                let i = mass.iter().position(past).unwrap_or(points / 2);
                *log += (mass[i] / (total * grid.h)).ln();
                path[t] = grid.x[i];
                next = Some(i);
            }
        }
        (paths, logs)
    }

    /// What is stored below.
    pub fn compute(&self) -> Truth {
        maximise(&|t| self.filter(t, 241), &[-0.5, 1.4, -0.5], &[0.3, 0.2, 0.2])
    }
}

impl Rows for Volatility {
    fn name(&self) -> &'static str {
        "volatility"
    }

    fn d_theta(&self) -> usize {
        3
    }

    fn d_x(&self) -> usize {
        T
    }

    fn groups(&self) -> usize {
        1
    }

    fn row(&self, theta: &[f64], _: &[f64], _: usize, x: &[f64], mut ask: Ask<'_>) -> f64 {
        let (m, f, s) = (theta[0], theta[1].tanh(), theta[2]);
        let (precision, rest) = ((-2.0 * s).exp(), 1.0 - f * f);
        let first = x[0] - m;
        if let Some(g) = &mut ask.grad_x {
            g[0] = -precision * rest * first;
        }
        // Sums over t > 0 of the innovation and its square, of both with the deviation before it, and of the latter alone.
        let (mut sum, mut squares, mut with, mut before, mut before2) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for t in 1..T {
            let last = x[t - 1] - m;
            let innovation = x[t] - m - f * last;
            sum += innovation;
            squares += innovation * innovation;
            with += innovation * last;
            before += last;
            before2 += last * last;
            if let Some(g) = &mut ask.grad_x {
                g[t] = -precision * innovation;
                g[t - 1] += precision * f * innovation;
            }
        }
        let mut value = 0.0;
        if ask.value || ask.grad_x.is_some() {
            for t in 0..T {
                let scaled = self.y[t] * self.y[t] * (-x[t]).exp();
                value -= 0.5 * (x[t] + scaled);
                if let Some(g) = &mut ask.grad_x {
                    g[t] += 0.5 * (scaled - 1.0);
                }
            }
        }
        let total = rest * first * first + squares;
        let in_m = precision * (rest * first + (1.0 - f) * sum);
        let from_path = precision * (f * first * first + with);
        let in_f = from_path - f / rest;
        if let Some(score) = ask.score {
            score.copy_from_slice(&[in_m, rest * in_f, precision * total - T as f64]);
        }
        if let Some(h) = ask.hessian {
            let m_f = -precision * (2.0 * f * first + sum + (1.0 - f) * before);
            let f_f = precision * (first * first - before2) - (1.0 + f * f) / (rest * rest);
            h[0] -= precision * (rest + (1.0 - f).powi(2) * (T - 1) as f64);
            h[3] += rest * m_f;
            h[4] += rest * rest * f_f - 2.0 * f * rest * in_f;
            h[6] -= 2.0 * in_m;
            h[7] -= 2.0 * rest * from_path;
            h[8] -= 2.0 * precision * total;
        }
        -2.0 * T as f64 * HALF_LN_TAU + 0.5 * rest.ln() - T as f64 * s - 0.5 * precision * total + value
    }
}

/// Points seven stationary deviations to each side of the mean, and the chain on them.
struct Grid {
    h: f64,
    x: Vec<f64>,
    /// The probabilities of the first, and of moves `[to][from]`.
    first: Vec<f64>,
    moves: Vec<f64>,
}

impl Grid {
    fn new(theta: &[f64], points: usize) -> Self {
        let (m, f, variance) = (theta[0], theta[1].tanh(), (2.0 * theta[2]).exp());
        let stationary = variance / (1.0 - f * f);
        let h = 14.0 * stationary.sqrt() / (points - 1) as f64;
        let x: Vec<f64> = (0..points).map(|i| m - 7.0 * stationary.sqrt() + h * i as f64).collect();
        let from = |to: f64| x.iter().map(move |from| h * ln_normal(to, m + f * (from - m), variance).exp());
        let moves = x.iter().flat_map(|to| from(*to)).collect();
        let first = x.iter().map(|x| h * ln_normal(*x, m, stationary).exp()).collect();
        Grid { h, x, first, moves }
    }
}

/// `cargo test -p motes-models --test all auto_bed::stored -- --ignored --nocapture`
const THETA: [f64; 3] = [0.507_364_6, 1.504_398_2, -0.488_337_3];
const SE: [f64; 3] = [0.458_886_7, 0.236_542_3, 0.207_581_8];
const LOG_LIKELIHOOD: f64 = -363.181_699_9;

pub fn cases() -> Vec<Case> {
    let truth = Truth { theta: THETA.into(), se: SE.into(), log_likelihood: Some(LOG_LIKELIHOOD) };
    vec![Case { slow: true, ..case(Volatility::default(), Some(truth), Expect::Right) }]
}
