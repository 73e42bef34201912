//! Streaming averages over the steps after burn-in: theta-bar and the first two moments of q-bar (eq. estimators).

use crate::blocks::{INLINE_NANOSECONDS, for_each2};
use crate::simd::{dispatch, sum_lanes};
use crate::{Particles, Real};

/// Coordinates that one block of the moment sums covers.
const TILE: usize = 512;
/// Clouds with fewer coordinates are summed several rows at a time, so that the vector units have something to do.
const NARROW: usize = 16;
/// Rows of wider clouds that are added up before the sums are touched.
const ROWS: usize = 4;

/// Sums over k > k_b; their size does not depend on the number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Averages {
    /// Steps summed so far.
    pub steps: u64,
    /// Particles summed so far, over all steps.
    pub particles: u64,
    /// Sum of theta_k.
    pub theta: Vec<f64>,
    /// Sum over steps and particles of each coordinate.
    pub x: Vec<f64>,
    /// Sum over steps and particles of each coordinate's square.
    pub x2: Vec<f64>,
}

impl Averages {
    /// Empty sums.
    pub fn new(d_theta: usize, d_x: usize) -> Self {
        Averages { steps: 0, particles: 0, theta: vec![0.0; d_theta], x: vec![0.0; d_x], x2: vec![0.0; d_x] }
    }

    /// Adds theta_k.
    pub fn add_theta(&mut self, theta: &[f64]) {
        self.steps += 1;
        self.theta.iter_mut().zip(theta).for_each(|(s, t)| *s += t);
    }

    /// Adds a cloud q_k.
    pub fn add_cloud<F: Real>(&mut self, cloud: &Particles<F>) {
        let (n, d) = (cloud.n(), cloud.d());
        self.particles += n as u64;
        let x = cloud.as_slice();
        let parallel = (n * d) as f64 * 0.5 > INLINE_NANOSECONDS && d > TILE;
        let tiles = ((&mut self.x[..], TILE), (&mut self.x2[..], TILE));
        let Ok(()) = for_each2(parallel, tiles.0, tiles.1, |tile, sums, squares| {
            if d > NARROW {
                add_columns(x, d, tile * TILE, sums, squares);
            } else {
                add_narrow(x, d, sums, squares);
            }
            Ok::<_, std::convert::Infallible>(())
        });
    }

    /// theta-bar, or `None` before the first averaged step.
    pub fn theta_mean(&self) -> Option<Vec<f64>> {
        (self.steps > 0).then(|| self.theta.iter().map(|s| s / self.steps as f64).collect())
    }

    /// Mean and variance of each latent coordinate under q-bar, or `None` if there was no cloud.
    pub fn posterior(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let count = self.particles as f64;
        (self.particles > 0).then(|| {
            let mean: Vec<f64> = self.x.iter().map(|s| s / count).collect();
            let variance = |(m, s): (&f64, &f64)| (s / count - m * m).max(0.0);
            let variances = mean.iter().zip(&self.x2).map(variance).collect();
            (mean, variances)
        })
    }
}

dispatch! {
    /// Adds columns `first..first + sums.len()` of a row-major cloud.
    fn add_columns<F: Real>(x: &[F], d: usize, first: usize, sums: &mut [f64], squares: &mut [f64]) = columns_kernel
}

#[inline(always)]
fn columns_kernel<F: Real, const FMA: bool>(
    x: &[F],
    d: usize,
    first: usize,
    sums: &mut [f64],
    squares: &mut [f64],
) {
    let width = sums.len();
    let squares = &mut squares[..width];
    let mut groups = x.chunks_exact(ROWS * d);
    for rows in &mut groups {
        let (a, b) = (&rows[first..first + width], &rows[d + first..d + first + width]);
        let (c, e) =
            (&rows[2 * d + first..2 * d + first + width], &rows[3 * d + first..3 * d + first + width]);
        for j in 0..width {
            let (a, b, c, e) = (a[j].f64(), b[j].f64(), c[j].f64(), e[j].f64());
            sums[j] += (a + b) + (c + e);
            squares[j] += (a * a + b * b) + (c * c + e * e);
        }
    }
    for row in groups.remainder().chunks_exact(d) {
        let row = &row[first..first + width];
        for j in 0..width {
            let v = row[j].f64();
            sums[j] += v;
            squares[j] += v * v;
        }
    }
}

dispatch! {
    /// The same for all columns of a cloud with at most `NARROW` of them: lane j holds coordinate j mod d.
    fn add_narrow<F: Real>(x: &[F], d: usize, sums: &mut [f64], squares: &mut [f64]) = narrow_kernel
}

#[inline(always)]
fn narrow_kernel<F: Real, const FMA: bool>(x: &[F], d: usize, sums: &mut [f64], squares: &mut [f64]) {
    // A power of two is a whole number of rows of 1, 2, 4, 8 or 16, in registers; other widths take what fits.
    let rest = if d.is_power_of_two() {
        add_lanes::<F, NARROW>(x, d, NARROW, sums, squares)
    } else {
        add_lanes::<F, NARROW>(x, d, NARROW / d * d, sums, squares)
    };
    let rest =
        if d.is_power_of_two() && d <= 4 { add_lanes::<F, 4>(rest, d, 4, sums, squares) } else { rest };
    for row in rest.chunks_exact(d) {
        for j in 0..d {
            let v = row[j].f64();
            sums[j] += v;
            squares[j] += v * v;
        }
    }
}

/// Adds what fills the lanes, and returns the rest.
#[inline(always)]
fn add_lanes<'a, F: Real, const LANES: usize>(
    x: &'a [F],
    d: usize,
    lanes: usize,
    sums: &mut [f64],
    squares: &mut [f64],
) -> &'a [F] {
    let (mut s1, mut s2) = ([0.0f64; LANES], [0.0f64; LANES]);
    let mut rows = x.chunks_exact(lanes);
    for row in &mut rows {
        for j in 0..lanes {
            let v = row[j].f64();
            s1[j] += v;
            s2[j] += v * v;
        }
    }
    fold_lanes(&mut s1, lanes, d, sums);
    fold_lanes(&mut s2, lanes, d, squares);
    rows.remainder()
}

/// Adds the lanes up. Apart, because the compiler would otherwise keep the lanes in pairs, as the last of these
/// additions want them, and not in fours.
#[inline(never)]
fn fold_lanes<const LANES: usize>(lanes: &mut [f64; LANES], used: usize, d: usize, sums: &mut [f64]) {
    if d == 1 {
        sums[0] += sum_lanes(*lanes);
        return;
    }
    let mut n = used;
    // By halves while they hold whole rows: one addition after the other would take as long as a small step.
    while d.is_power_of_two() && n > d {
        n /= 2;
        for j in 0..n {
            lanes[j] += lanes[n + j];
        }
    }
    for row in lanes[..n].chunks_exact(d) {
        sums.iter_mut().zip(row).for_each(|(s, v)| *s += v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_equal_the_plain_sums() {
        for (n, d) in
            [(1, 1), (7, 1), (100, 1), (13, 3), (5, 16), (9, 17), (4, 64), (3, 700), (7, 1100), (40, 9)]
        {
            let value = |i: usize| (i as f64 * 0.37).sin() + 2.0;
            let rows: Vec<f64> = (0..n * d).map(value).collect();
            let mut averages = Averages::new(1, d);
            for theta in [2.0, 3.0] {
                averages.add_theta(&[theta]);
                averages.add_cloud(&Particles::from_rows(rows.clone(), d));
            }
            assert_eq!(averages.theta_mean().unwrap(), [2.5]);
            let (mean, variance) = averages.posterior().unwrap();
            for j in 0..d {
                let column: Vec<f64> = (0..n).map(|i| rows[i * d + j]).collect();
                let m = column.iter().sum::<f64>() / n as f64;
                let v = column.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n as f64;
                assert!((mean[j] - m).abs() < 1e-13 && (variance[j] - v).abs() < 1e-13, "{n} {d} {j}");
            }
        }
    }
}
