//! The last stage: theta stands at the estimate, and the cloud samples the posterior until its means are known well enough.

use super::memory::{End, Memory, Progress, Sizes, Stage};
use super::sweep::Collect;
use super::{Averaging, Fitter};
use crate::printable::Number;
use crate::sentence::foreign;
use crate::{ModelError, Real, State};

/// The Monte Carlo error of posterior means that is aimed at, in units of their standard deviations.
const GOAL: f64 = 0.05;

/// Components, those with the least information first, around which the likelihood is looked at.
const LOOKS: usize = 32;

impl<F: Real> Fitter<'_, F> {
    /// Theta's stage is over. That it goes to the estimate is left to the next sweep: until then the end can be taken back.
    pub(super) fn start_sampling(&mut self, state: &State<F>, memory: &mut Memory) {
        let progress = &mut memory.progress;
        let Progress { stage, began, next_check, worst, .. } = *progress;
        progress.ended = Some(End { stage, began, next_check, worst });
        (progress.stage, progress.began) = (Stage::Posterior, state.k + 1);
        // Theta has moved a little: some relaxation times are left out, a tenth of the first stretch.
        progress.dropped = ((4.0 / (1.0 - progress.rho)).ceil() as u64).clamp(5, 500);
        progress.next_check = 10 * progress.dropped;
    }

    /// A sweep at the estimate.
    pub(super) fn sample(
        &mut self,
        state: &mut State<F>,
        memory: &mut Memory,
    ) -> Result<Averaging, ModelError> {
        if state.theta != memory.estimate {
            state.theta.copy_from_slice(&memory.estimate);
            self.sweeper.forget();
        }
        let (mut evaluations, mut bounded) = (0.0, None);
        if memory.progress.unchecked {
            (evaluations, bounded) = self.look_around(state, memory)?;
        }
        self.x.copy_from_slice(state.cloud.as_slice());
        let kernel = self.kernel(state.k, memory);
        self.sweeper.sweep(&state.theta, &mut self.x, kernel, Collect::Nothing)?;
        evaluations += f64::from(kernel.leaps);
        let sweeps = state.k - memory.progress.began + 1;
        let averages = sweeps > memory.progress.dropped;
        if averages && !self.row_scores.is_empty() {
            self.sweeper.row_scores(&state.theta, &self.x, &mut self.row_scores)?;
            evaluations += 1.0;
        }
        std::mem::swap(&mut state.cloud.data, &mut self.x);
        memory.progress.evaluations += evaluations;
        memory.progress.unchecked = false;
        if let Some((j, up)) = bounded {
            memory.progress.verdict = Some("boundary".into());
            memory.progress.advice = Some(format!(
                "the likelihood hardly changes as {} goes {} by a standard error or more, so there is no maximum within reach; the other estimates are those for the present value: leave out what that parameter scales",
                foreign(&self.sweeper.model.theta_names()[j]),
                if up { "up" } else { "down" }
            ));
        }
        if !averages {
            return Ok(Averaging::No);
        }
        let anew = sweeps == memory.progress.dropped + 1;
        if anew {
            let Memory { sums, squares, with_scores, group_scores, .. } = memory;
            [sums, squares, with_scores, group_scores].into_iter().for_each(|sums| sums.fill(0.0));
            for (i, shift) in memory.shift.iter_mut().enumerate() {
                *shift = values(state.cloud.as_slice(), self.sizes, i).next().unwrap_or(0.0);
            }
        }
        self.add_sums(state.cloud.as_slice(), memory);
        if sweeps >= memory.progress.next_check || memory.progress.evaluations >= self.max_evaluations {
            self.judge_posterior(memory, sweeps);
        }
        Ok(if anew { Averaging::Anew } else { Averaging::Yes })
    }

    /// Whether the likelihood falls, as it should by a half, a standard error away from the estimate to either side of each
    /// component, the others following: the evaluations it took, and a component along which it does not.
    #[allow(clippy::type_complexity)]
    fn look_around(
        &mut self,
        state: &State<F>,
        memory: &Memory,
    ) -> Result<(f64, Option<(usize, bool)>), ModelError> {
        let (d, n) = (self.sizes.d_theta, self.sizes.n as f64);
        self.sweeper.know(&state.theta, state.cloud.as_slice())?;
        let mut components: Vec<usize> = (0..d).collect();
        components.sort_by(|a, b| memory.share[*a].total_cmp(&memory.share[*b]));
        components.truncate(LOOKS);
        let mut evaluations = 0.0;
        for j in components {
            let way: Vec<f64> = (0..d).map(|i| memory.covariance[i * d + j] / memory.se[j]).collect();
            let scatter = |i: usize| (0..d).map(|l| memory.scatter[i * d + l] * way[l]).sum::<f64>();
            let noise = (0..d).map(|i| way[i] * scatter(i)).sum::<f64>() / n;
            if noise.is_nan() || noise > 0.01 {
                continue; // the cloud does not reach so far
            }
            for side in [-1.0, 1.0] {
                let theta: Vec<f64> = state.theta.iter().zip(&way).map(|(t, w)| t + side * w).collect();
                self.sweeper.evaluate(&theta, state.cloud.as_slice())?;
                evaluations += 1.0;
                if self.sweeper.compare(true).merit > -0.1 {
                    return Ok((evaluations, Some((j, side > 0.0))));
                }
            }
        }
        Ok((evaluations, None))
    }

    fn add_sums(&self, x: &[F], memory: &mut Memory) {
        let Sizes { d_theta, d_x, n, .. } = self.sizes;
        for (i, sums) in memory.sums.chunks_exact_mut(n).enumerate() {
            let shift = memory.shift[i];
            for (sum, v) in sums.iter_mut().zip(values(x, self.sizes, i)) {
                let v = v - shift;
                *sum += v;
                memory.squares[i] += v * v;
            }
        }
        for (i, out) in memory.with_scores.chunks_exact_mut(d_theta).enumerate() {
            let rows = &self.row_scores[i / d_x * n * d_theta..];
            for (v, scores) in values(x, self.sizes, i).zip(rows.chunks_exact(d_theta)) {
                let v = v - memory.shift[i];
                out.iter_mut().zip(scores).for_each(|(o, s)| *o += v * s);
            }
        }
        for (out, rows) in
            memory.group_scores.chunks_exact_mut(d_theta).zip(self.row_scores.chunks_exact(n * d_theta))
        {
            for scores in rows.chunks_exact(d_theta) {
                out.iter_mut().zip(scores).for_each(|(o, s)| *o += s);
            }
        }
    }

    fn judge_posterior(&self, memory: &mut Memory, sweeps: u64) {
        let averaged = sweeps - memory.progress.dropped;
        let worst = (0..memory.shift.len())
            .map(|i| memory.moments(i, self.sizes.n, averaged))
            .filter(|m| m.sd > 0.0)
            .map(|m| m.mc_error / m.sd)
            .fold(0.0, f64::max);
        let spent = memory.progress.evaluations >= self.max_evaluations;
        let progress = &mut memory.progress;
        progress.posterior_error = Some(worst);
        if worst <= GOAL {
            progress.finished = true;
        } else if spent {
            progress.finished = true;
            if progress.verdict.as_deref() == Some("ok") {
                progress.verdict = Some("not-reached".into());
                progress.advice = Some(format!(
                    "theta is known, but the evaluations were spent while the Monte Carlo error of some posterior mean was {} of its standard deviation; allow more with `max-evaluations={}`",
                    Number((100.0 * worst).round() / 100.0),
                    (4.0 * self.max_evaluations) as u64
                ));
            }
        } else {
            let needed = (1.1 * averaged as f64 * (worst / GOAL).powi(2)).min(1e9) as u64 + 1;
            if needed > 2 * averaged {
                progress.dropped = sweeps; // what came so far is less than half of what is needed: it settles the cloud
                progress.next_check = sweeps + needed.min(9 * sweeps);
            } else {
                progress.next_check = progress.dropped + needed;
            }
        }
    }
}

/// Each particle's value of a watched coordinate.
fn values<F: Real>(x: &[F], sizes: Sizes, i: usize) -> impl Iterator<Item = f64> + '_ {
    let Sizes { d_x, n, .. } = sizes;
    let c = sizes.coordinate(i);
    x[c / d_x * n * d_x + c % d_x..].iter().step_by(d_x).take(n).map(|v| v.f64())
}

/// The mean of a coordinate, its Monte Carlo error, and the standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    /// The mean over particles and sweeps.
    pub mean: f64,
    /// Its Monte Carlo error, particles being replicates.
    pub mc_error: f64,
    /// The posterior's standard deviation.
    pub sd: f64,
}

impl Memory {
    /// Of the watched coordinate i, over so many sweeps with n particles.
    fn moments(&self, i: usize, n: usize, sweeps: u64) -> Watched {
        let (sweeps, n_f) = (sweeps as f64, n as f64);
        let sums = &self.sums[i * n..(i + 1) * n];
        let mean = sums.iter().sum::<f64>() / (n_f * sweeps);
        let scatter = sums.iter().map(|s| (s / sweeps - mean).powi(2)).sum::<f64>();
        Watched {
            mean: self.shift[i] + mean,
            mc_error: (scatter / (n_f - 1.0) / n_f).sqrt(),
            sd: (self.squares[i] / (n_f * sweeps) - mean * mean).max(0.0).sqrt(),
        }
    }

    /// Of all watched coordinates after sweep k, if any sweeps were averaged.
    pub fn watched(&self, n: usize, k: u64) -> Option<Vec<Watched>> {
        let sweeps = self.averaged(k)?;
        Some((0..self.shift.len()).map(|i| self.moments(i, n, sweeps)).collect())
    }

    /// Sweeps of the posterior stage that were averaged up to sweep k, if there are any.
    fn averaged(&self, k: u64) -> Option<u64> {
        let Progress { stage, began, dropped, .. } = self.progress;
        k.checked_sub(began + dropped).filter(|sweeps| *sweeps > 0 && stage == Stage::Posterior)
    }

    /// The variance that theta's uncertainty adds to each watched coordinate's, to first order: the mean's slope in theta is its
    /// covariance with the score.
    pub fn added_variances(&self, sizes: Sizes, k: u64) -> Option<Vec<f64>> {
        let Sizes { d_theta: d, d_x, n, .. } = sizes;
        let sweeps = self.averaged(k)?;
        if self.with_scores.is_empty() || self.covariance.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let count = n as f64 * sweeps as f64;
        let of = |i: usize| {
            let group = &self.group_scores[i / d_x * d..(i / d_x + 1) * d];
            let mean = self.sums[i * n..(i + 1) * n].iter().sum::<f64>() / count;
            let slope: Vec<f64> =
                (0..d).map(|j| self.with_scores[i * d + j] / count - mean * group[j] / count).collect();
            (0..d)
                .map(|a| (0..d).map(|b| slope[a] * self.covariance[a * d + b] * slope[b]).sum::<f64>())
                .sum()
        };
        Some((0..self.shift.len()).map(of).collect())
    }
}
