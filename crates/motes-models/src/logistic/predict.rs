//! Predictions averaged over particles: test metrics streamed over clouds, and probabilities for new rows.

use std::cell::RefCell;
use std::convert::Infallible;

use motes::Real;
use motes::blocks::{INLINE_NANOSECONDS, for_each, for_each2};
use motes::model::Predictive;
use motes::tested::{Predictions, likeliest};

use super::kernels::{add_probabilities, lanes, tile_vectors};
use super::rows::{Rows, View};
use crate::data::{Classification, METRICS};
use crate::registry::Predicted;

/// Below 2^this, a probability's own digits are at risk and sums are taken relative to the largest.
const TINY: f64 = -900.0;

/// Labelled rows that no particle has seen. In `f64` whatever the particles are: it is not the place to save time.
#[derive(Debug)]
pub(super) struct TestSet {
    rows: Rows<f64>,
    /// How many test rows each distinct row stands for.
    weights: Vec<f64>,
    /// The class of each row.
    labels: Vec<u8>,
}

/// What one cloud needs: its particles, then for each distinct row the sum of p over them and the largest t.
#[derive(Default)]
struct Scratch {
    x: Vec<f64>,
    sums: Vec<f64>,
    most: Vec<f64>,
}

thread_local! {
    /// Kept from cloud to cloud. It is taken away while it is in use, for a thread that waits may take on another cloud.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl TestSet {
    pub(super) fn new(test: &Classification, intercept: bool) -> Self {
        let rows = Rows::new(&test.features, &test.labels, None, intercept);
        let weights = rows.weights().iter().copied().filter(|w| *w > 0.0).collect();
        TestSet { rows, weights, labels: test.labels.clone() }
    }

    /// Sums over the particles of p(label | f, x) for each row, and the largest t, where p = 1 / (1 + 2^-t).
    fn probabilities(&self, Scratch { x, sums, most }: &mut Scratch) {
        let View { g, w, columns } = self.rows.all();
        let particles = x.len() / columns;
        for (values, start) in [(&mut *sums, 0.0), (&mut *most, f64::NEG_INFINITY)] {
            values.clear();
            values.resize(w.len(), start);
        }
        let chunk = tile_vectors(columns) * lanes::<f64>();
        let parallel = self.rows.nanoseconds() * particles as f64 > INLINE_NANOSECONDS;
        let Ok(()) = for_each2(parallel, (sums, chunk), (most, chunk), |i, sums, most| {
            let rows = i * chunk..i * chunk + sums.len();
            let g = &g[rows.start * columns..rows.end * columns];
            add_probabilities(View { g, w: &w[rows], columns }, x, sums, most);
            Ok::<(), Infallible>(())
        });
    }

    /// t of one row for one particle.
    fn t(&self, row: usize, x: &[f64]) -> f64 {
        let (lanes, columns) = (lanes::<f64>(), self.rows.columns);
        let g = &self.rows.all().g[row / lanes * columns * lanes + row % lanes..];
        g.iter().step_by(lanes).zip(x).map(|(g, x)| g * x).sum()
    }
}

/// The state is the number of particles, then for each distinct row m and s such that e^m s is the sum of p over the particles.
impl<F: Real> Predictive<F> for TestSet {
    fn names(&self) -> Vec<String> {
        METRICS.map(String::from).to_vec()
    }

    fn state_len(&self) -> usize {
        1 + 2 * self.weights.len()
    }

    fn accumulate(&self, x: &[F], state: &mut [f64]) {
        let mut scratch = SCRATCH.take();
        scratch.x.clear();
        scratch.x.extend(x.iter().map(|x| x.f64()));
        self.probabilities(&mut scratch);
        let (count, points) = state.split_at_mut(1);
        count[0] += (x.len() / self.rows.columns) as f64;
        let of_rows = points.as_chunks_mut().0.iter_mut().zip(&scratch.sums).zip(&scratch.most);
        for (i, ((point, sum), most)) in of_rows.enumerate() {
            let more = if *most > TINY {
                [0.0, *sum]
            } else {
                // p = 2^t to all digits.
                let particles = scratch.x.chunks_exact(self.rows.columns);
                let relative = particles.map(|x| libm::exp2(self.t(i, x) - most));
                [most * std::f64::consts::LN_2, relative.sum()]
            };
            add_scaled(more, point);
        }
        SCRATCH.set(scratch);
    }

    fn merge(&self, from: &[f64], into: &mut [f64]) {
        into[0] += from[0];
        for (from, into) in from[1..].as_chunks().0.iter().zip(into[1..].as_chunks_mut().0) {
            add_scaled(*from, into);
        }
    }

    /// The fraction of rows whose label has mean probability below 1/2 (erratum 9), and the mean of the logarithm of that probability.
    fn metrics(&self, state: &[f64], out: &mut [f64]) {
        let (count, points) = state.split_at(1);
        let (mut wrong, mut lppd) = (0.0, 0.0);
        for (point, w) in points.chunks_exact(2).zip(&self.weights) {
            let mean = point[1] / count[0];
            if libm::exp(point[0]) * mean < 0.5 {
                wrong += w;
            }
            lppd += w * (point[0] + libm::log(mean));
        }
        let total = self.rows.given as f64;
        out.copy_from_slice(&[wrong / total, lppd / total]);
    }

    fn predictions(&self, state: &[f64]) -> Option<Predictions> {
        let (count, points) = state.split_at(1);
        let of_row = |(i, label): (usize, &u8)| {
            let point = &points[2 * self.rows.place(i)..][..2];
            let own = (libm::exp(point[0]) * point[1] / count[0]).min(1.0);
            if *label == 1 { [1.0 - own, own] } else { [own, 1.0 - own] }
        };
        let probabilities = self.labels.iter().enumerate().flat_map(of_row).collect();
        Some(Predictions { classes: 2, probabilities, labels: self.labels.clone() })
    }
}

/// Adds e^m s to a sum that is kept in the same form.
#[inline]
fn add_scaled([m, s]: [f64; 2], sum: &mut [f64; 2]) {
    if m == sum[0] {
        sum[1] += s; // as most are; exponentials of 0 would cost more than all else
        return;
    }
    if s == 0.0 {
        return;
    }
    if sum[1] == 0.0 {
        *sum = [m, s];
        return;
    }
    let top = m.max(sum[0]);
    sum[1] = sum[1] * libm::exp(sum[0] - top) + s * libm::exp(m - top);
    sum[0] = top;
}

/// Predicts each row of `features` (row-major, `d` to a row) from particles of `d` weights, and an intercept if there is one.
///
/// Has the thread pool to itself. There must be at least one particle.
pub fn predict(particles: &[f64], features: &[f64], d: usize, intercept: bool, level: f64) -> Predicted {
    let columns = d + usize::from(intercept);
    let n = particles.len() / columns;
    assert!(n > 0, "a prediction needs at least one particle");
    let mut out = vec![Predicted::default(); features.len() / d];
    let parallel = 3.0 * (out.len() * n) as f64 > INLINE_NANOSECONDS;
    let Ok(()) = for_each(parallel, (&mut out, 8), |block, out| {
        let mut p = vec![0.0; n];
        for (i, out) in out.iter_mut().enumerate() {
            let f = &features[(8 * block + i) * d..][..d];
            for (p, x) in p.iter_mut().zip(particles.chunks_exact(columns)) {
                let (weights, intercept) = x.split_at(d);
                *p = f.iter().zip(weights).map(|(f, x)| f * x).sum::<f64>() + intercept.iter().sum::<f64>();
            }
            motes::vmath::sigmoid_f64(&mut p);
            let mean = p.iter().sum::<f64>() / n as f64;
            let means = [1.0 - mean, mean];
            if likeliest(&means) == 0 {
                p.iter_mut().for_each(|p| *p = 1.0 - *p);
            }
            out.push(&means, &mut p, level);
        }
        Ok::<(), Infallible>(())
    });
    let mut all = Predicted::default();
    for row in out {
        all.probabilities.extend(row.probabilities);
        all.intervals.extend(row.intervals);
    }
    all
}
