//! The search: theta takes whole Newton steps while step sizes, scales and trajectories are adapted, window by window.

use nalgebra::DVector;

use super::memory::{Memory, Progress, Sizes, Stage};
use super::metric::{FLOOR, Metric};
use super::{Fitter, ThetaStep, WINDOW, set_apart};
use crate::blocks::for_each;
use crate::printable::Number;
use crate::sentence::foreign;
use crate::{ModelError, Real, State};

/// Sweeps at the beginning of a window that are not judged.
const SETTLING: u64 = WINDOW / 5;
/// The longest mean trajectory.
const MOST_LEAPS: u32 = 64;
/// More windows than this are not waited for.
const MOST_WINDOWS: u64 = 60;
/// Rows that were accepted less often than this in a window are stuck.
const STUCK: f64 = 0.02;
/// A component that moves by more than this in a window at no change of the likelihood runs away: on the scale of a logarithm,
/// what it stands for changes twenty times.
const RUNS_AWAY: f64 = 3.0;

/// A component that has moved by more than this in a search that comes to no end, and that the likelihood drives further, has no
/// maximum in sight: what a logarithm stands for has changed more than a hundred times.
const FAR: f64 = 5.0;
/// A component whose standard error is larger than this may stand on a plateau: what a logarithm stands for is known to a factor of
/// three at best.
const VAGUE: f64 = 1.0;
/// A plateau that is no lower than this, by an estimate that is no noisier, is as high as where theta is.
const LEVEL: f64 = 0.1;
/// An estimate of its height whose variance is larger than this says nothing.
const NOISY: f64 = 0.25;
/// So many windows are long enough for Newton steps to find a maximum that there is.
const PATIENCE: u64 = 4;

/// The acceptance that step sizes aim at.
fn target(leaps: u32) -> f64 {
    if leaps <= 1 { 0.65 } else { 0.8 }
}

/// Where the likelihood goes on for ever as it is.
#[derive(Clone, Copy)]
pub(super) enum Plateau {
    /// As high as here along a component, and the way to go there.
    Level(usize, f64),
    /// As high as here, or lower by no more than chance explains, along a component, and whether that is below.
    Lower((u32, bool)),
}

impl Plateau {
    pub(super) fn lower(self) -> Option<(u32, bool)> {
        match self {
            Plateau::Level(..) => None,
            Plateau::Lower(lower) => Some(lower),
        }
    }
}

impl<F: Real> Fitter<'_, F> {
    /// Takes note of a sweep and a step, and judges the window at its end.
    pub(super) fn searched(
        &mut self,
        state: &mut State<F>,
        memory: &mut Memory,
        metric: &Metric,
        step: &ThetaStep,
    ) {
        let Sizes { d_theta: d, d_x, n, .. } = self.sizes;
        let progress = &mut memory.progress;
        progress.window += 1;
        progress.merit += step.merit;
        let in_window = progress.window;
        let gain = 1.5 / libm::pow(in_window as f64, 0.4);
        let aim = target(progress.leaps);
        for (length, chance) in memory.step.iter_mut().zip(self.sweeper.chance.chunks_exact(n)) {
            let mean = chance.iter().sum::<f64>() / n as f64;
            *length = (*length * libm::exp(((mean - aim) * gain).clamp(-1.0, 1.0))).clamp(1e-8, 1e4);
        }
        memory.chances.iter_mut().zip(&self.sweeper.chance).for_each(|(sum, c)| *sum += c);
        let centred = centred(&self.sweeper.scores, &step.score);
        if in_window > SETTLING {
            let (squares, products) = memory.autocovariance.split_at_mut(d);
            for (row, before) in centred.chunks_exact(d).zip(memory.scores.chunks_exact(d)) {
                let (now, before) = (metric.along(row), metric.along(before));
                for i in 0..d {
                    squares[i] += now[i] * now[i];
                    if in_window > SETTLING + 1 {
                        products[i] += now[i] * before[i];
                    }
                }
            }
            add_variances(state.cloud.as_slice(), n, d_x, &mut memory.spread);
            add_variances(&self.sweeper.grad, n, d_x, &mut memory.grad_spread);
        }
        memory.scores.copy_from_slice(&centred);
        memory.score.copy_from_slice(&step.score);
        let way: Vec<f64> = state.theta.iter().zip(&memory.window_start).map(|(t, s)| t - s).collect();
        let half = if in_window <= WINDOW / 2 { 0 } else { d };
        memory.window_halves[half..half + d].iter_mut().zip(&way).for_each(|(sum, w)| *sum += w);
        for (i, row) in memory.window_products.chunks_exact_mut(d).enumerate() {
            row.iter_mut().zip(&way).for_each(|(sum, w)| *sum += way[i] * w);
        }
        if in_window == WINDOW {
            self.judge_window(state, memory, metric);
        } else {
            self.give_up_if_spent(state, memory);
        }
    }

    /// Ends the search if it has gone on for too long.
    pub(super) fn give_up_if_spent(&mut self, state: &State<F>, memory: &mut Memory) {
        let at_the_end_of_a_window = memory.progress.window == 0;
        if self.spent(memory) || (at_the_end_of_a_window && memory.progress.windows >= MOST_WINDOWS) {
            self.give_up_search(state, memory);
        }
    }

    fn judge_window(&mut self, state: &mut State<F>, memory: &mut Memory, metric: &Metric) {
        self.replace_stuck(state, memory);
        self.rescale(memory);
        let other_leaps = choose_leaps(memory);
        let calm = is_calm(memory, metric, self.sizes.d_theta);
        let progress = &mut memory.progress;
        progress.windows += 1;
        let negative = metric.share.iter().any(|share| *share < -0.1);
        progress.negative = if negative { progress.negative + 1 } else { 0 };
        let still = progress.merit.abs() < 0.05 && !progress.fixed;
        let moved = state.theta.iter().zip(&memory.window_start).map(|(t, s)| (t - s).abs()).enumerate();
        let runaway =
            moved.filter(|(_, way)| still && *way > RUNS_AWAY).max_by(|(_, a), (_, b)| a.total_cmp(b));
        progress.runaway = if runaway.is_some() { progress.runaway + 1 } else { 0 };
        let boundary = runaway.map(|(j, _)| j).filter(|_| progress.runaway >= 2);
        let settled = calm && !other_leaps && progress.windows >= 2 && (!negative || progress.negative >= 8);
        progress.scatter_count = 0;
        memory.start_window(&state.theta);
        if let Some(j) = boundary {
            self.hold(memory, j, state.k + 1);
        } else if settled {
            memory.start_averaging(state.k + 1);
        } else {
            self.give_up_if_spent(state, memory);
        }
    }

    /// Holds a component that runs away: from now on the others are averaged as if it were known.
    pub(super) fn hold(&self, memory: &mut Memory, j: usize, began: u64) {
        memory.progress.runs_away.push(j as u32);
        set_apart(&mut memory.information, &mut memory.scatter, j, self.sizes.d_theta);
        memory.start_averaging(began);
    }

    /// A component along which the likelihood stays level for ever to one side, as high as here or nearly so; and the evaluations
    /// that it took to know.
    pub(super) fn look_far(
        &mut self,
        state: &State<F>,
        memory: &Memory,
    ) -> Result<(Option<Plateau>, f64), ModelError> {
        if self.is_unknown(memory) {
            return Ok((None, 0.0));
        }
        let metric = Metric::new(&memory.information, &memory.scatter, self.sizes.d_theta);
        let se = metric.covariance().diagonal().map(f64::sqrt);
        let (mut lower, mut evaluations) = (None, 0.0);
        for j in (0..self.sizes.d_theta).filter(|j| !memory.progress.runs_away.contains(&(*j as u32))) {
            if se[j] < VAGUE {
                continue;
            }
            self.sweeper.know(&state.theta, state.cloud.as_slice())?;
            // How high a plateau there is to one side, and whether that is known well.
            let mut height = |side: f64| {
                let mut theta = state.theta.clone();
                let (mut heights, mut noise) = ([0.0; 2], 0.0f64);
                for (height, times) in heights.iter_mut().zip([1.0, 4.0]) {
                    theta[j] = state.theta[j] + times * side * se[j].max(FAR);
                    self.sweeper.evaluate(&theta, state.cloud.as_slice())?;
                    evaluations += 1.0;
                    let found = self.sweeper.compare(true);
                    (*height, noise) = (found.merit, noise.max(found.noise));
                    // Not by `<`: what is not a number is no plateau either.
                    if !(found.merit > -LEVEL - found.noise.sqrt() && found.noise < NOISY) {
                        return Ok(None);
                    }
                }
                let height = heights[1];
                let known = height > -LEVEL && noise < LEVEL * LEVEL;
                Ok(((height - heights[0]).abs() < 0.5 * LEVEL).then_some(known))
            };
            // What is level to both sides is not there at all.
            match (height(-1.0)?, height(1.0)?) {
                (Some(true), None) => return Ok((Some(Plateau::Level(j, -FAR)), evaluations)),
                (None, Some(true)) => return Ok((Some(Plateau::Level(j, FAR)), evaluations)),
                (Some(_), None) => lower = lower.or(Some(Plateau::Lower((j as u32, true)))),
                (None, Some(_)) => lower = lower.or(Some(Plateau::Lower((j as u32, false)))),
                _ => {}
            }
        }
        Ok((lower, evaluations))
    }

    /// Ends a search that found nothing: the posterior is sampled where theta is.
    fn give_up_search(&mut self, state: &State<F>, memory: &mut Memory) {
        memory.estimate.copy_from_slice(&state.theta);
        if let Some(j) = self.runs_off(state, memory) {
            let way = self.way_of(state, memory, j);
            self.say_runaway(
                memory,
                j,
                format!(
                    "{way} and the likelihood still rises: it may have no upper bound, as when a scale closes in on one datum, or come to its highest value only at infinity; bound that parameter, or leave out what it stands for"
                ),
            );
            self.start_sampling(state, memory);
            return;
        }
        memory.progress.verdict = Some("still-moving".into());
        memory.progress.advice = Some(format!(
            "theta was still moving after {} sweeps; start nearer with `init-theta`, or allow more with `max-evaluations={}`",
            state.k + 1,
            (4.0 * self.max_evaluations) as u64
        ));
        self.start_sampling(state, memory);
    }

    /// The component that has gone farthest where the likelihood drives it on, and where a Newton step would take it farther than
    /// it has come.
    fn runs_off(&self, state: &State<F>, memory: &Memory) -> Option<usize> {
        let d = self.sizes.d_theta;
        let way = |j: usize| state.theta[j] - memory.origin[j];
        let far = |j: &usize| {
            let (way, curvature) = (way(*j), memory.information[j * d + j] - memory.scatter[j * d + j]);
            let slope = memory.score[*j] * way.signum();
            way.abs() > FAR && slope > 0.1 && slope > curvature * way.abs()
        };
        let farthest = (0..d).filter(far).max_by(|a, b| way(*a).abs().total_cmp(&way(*b).abs()));
        farthest.filter(|_| memory.progress.windows >= PATIENCE && !memory.progress.fixed)
    }

    /// The component that has gone so far that it may be why nothing can be computed any more, if one has: an exponential of it is below
    /// what single precision resolves.
    pub(super) fn leapt_away(&self, state: &State<F>, memory: &Memory) -> Option<usize> {
        let way = |j: &usize| (state.theta[*j] - memory.origin[*j]).abs();
        let farthest = (0..self.sizes.d_theta).max_by(|a, b| way(a).total_cmp(&way(b)));
        farthest.filter(|j| way(j) > 3.0 * FAR + memory.origin[*j].abs() && !memory.progress.fixed)
    }

    /// Ends a search in which a component has left every range: the posterior is sampled where the window began.
    pub(super) fn end_runaway(&mut self, state: &mut State<F>, memory: &mut Memory, j: usize) {
        let way = self.way_of(state, memory, j);
        self.sweeper.forget();
        state.theta.copy_from_slice(&memory.window_start);
        memory.estimate.copy_from_slice(&memory.window_start);
        self.say_runaway(
            memory,
            j,
            format!(
                "{way}, where nothing can be computed any more, because the likelihood rises without bound; the estimates are from before that: bound that parameter, or leave out what it stands for"
            ),
        );
        self.start_sampling(state, memory);
        memory.progress.ended = None; // whatever is asked for, there is no way on from here
    }

    fn say_runaway(&self, memory: &mut Memory, j: usize, advice: String) {
        let progress = &mut memory.progress;
        (progress.verdict, progress.advice) = (Some("runaway".into()), Some(advice));
        progress.runs_away = vec![j as u32];
    }

    /// How far a component has come, in words.
    fn way_of(&self, state: &State<F>, memory: &Memory, j: usize) -> String {
        let name = foreign(&self.sweeper.model.theta_names()[j]);
        let [from, to] =
            [memory.origin[j], state.theta[j]].map(|v| Number(format!("{v:.2e}").parse().unwrap_or(v)));
        format!("{name} has gone from {from} to {to}")
    }

    /// Copies other particles of the group over those that do not move: from far away a tail may hold them for ever.
    fn replace_stuck(&mut self, state: &mut State<F>, memory: &mut Memory) {
        let Sizes { groups, d_x, n, .. } = self.sizes;
        let least = STUCK * WINDOW as f64;
        let stuck: Vec<usize> = (0..groups * n).filter(|row| memory.chances[*row] < least).collect();
        if stuck.is_empty() || 2 * stuck.len() >= groups * n {
            return;
        }
        let x = state.cloud.as_mut_slice();
        for row in stuck {
            let other = ((self.stuck.uniform(state.k, row as u64) * n as f64) as usize).min(n - 1);
            let from = (row / n * n + other) * d_x;
            x.copy_within(from..from + d_x, row * d_x);
        }
        self.sweeper.forget();
        memory.progress.evaluations += 1.0;
    }

    /// The scale of a coordinate is the fourth root of the ratio of its variance and its gradient's.
    fn rescale(&self, memory: &mut Memory) {
        let d_x = self.sizes.d_x;
        let Memory { scale, step, spread, grad_spread, .. } = memory;
        for (g, step) in step.iter_mut().enumerate() {
            let mut change = 0.0;
            for i in g * d_x..(g + 1) * d_x {
                let ratio = spread[i] / grad_spread[i];
                if ratio > 0.0 && ratio.is_finite() {
                    let new = ratio.clamp(1e-40, 1e40).sqrt().sqrt();
                    change += libm::log(scale[i] / new) / d_x as f64;
                    scale[i] = new;
                }
            }
            *step = (*step * libm::exp(change)).clamp(1e-8, 1e4);
        }
    }
}

/// Each particle's score without the mean.
fn centred(scores: &[f64], mean: &[f64]) -> Vec<f64> {
    scores.chunks_exact(mean.len()).flat_map(|row| row.iter().zip(mean).map(|(s, m)| s - m)).collect()
}

/// Adds the variance over the n particles of each coordinate of each group.
fn add_variances<F: Real>(x: &[F], n: usize, d: usize, out: &mut [f64]) {
    const GROUPS: usize = 256;
    let parallel = x.len() > 40_000;
    let Ok(()) = for_each(parallel, (out, GROUPS * d), |b, out| {
        let rows = &x[b * GROUPS * n * d..];
        for (x, out) in rows.chunks_exact(n * d).zip(out.chunks_exact_mut(d)) {
            for (j, out) in out.iter_mut().enumerate() {
                let values = x.iter().skip(j).step_by(d).map(|v| v.f64());
                let mean = values.clone().sum::<f64>() / n as f64;
                *out += values.map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
            }
        }
        Ok::<_, std::convert::Infallible>(())
    });
}

/// Judges the length of trajectories by what an independent score costs; whether another is tried now.
fn choose_leaps(memory: &mut Memory) -> bool {
    let (squares, products) = memory.autocovariance.split_at(memory.autocovariance.len() / 2);
    let sweeps = (WINDOW - SETTLING) as f64;
    let ratio = |(square, product): (&f64, &f64)| (product / (sweeps - 1.0)) / (square / sweeps).max(1e-300);
    let largest = squares.iter().zip(products).map(ratio).fold(f64::NEG_INFINITY, f64::max);
    let rho = if largest.is_finite() { largest.clamp(0.02, 0.995) } else { 0.995 };
    let progress = &mut memory.progress;
    (progress.rho, progress.relaxation) = (rho, (0.5 * (1.0 + 1.0 / rho)).min(10.0));
    let leaps = progress.leaps;
    let cost = f64::from(leaps + 2) * (1.0 + rho) / (1.0 - rho);
    let cost_of = |tried: &[(u32, f64)], leaps: u32| tried.iter().find(|(l, _)| *l == leaps).map(|(_, c)| *c);
    // Doubling goes on while it gains a fifth.
    let gains = leaps == 1 || cost_of(&progress.tried, leaps / 2).is_none_or(|half| cost < 0.8 * half);
    progress.tried.retain(|(l, _)| *l != leaps);
    progress.tried.push((leaps, cost));
    let untried = cost_of(&progress.tried, 2 * leaps).is_none();
    let chosen = if 2 * leaps <= MOST_LEAPS && untried && gains && rho > 0.3 {
        2 * leaps
    } else {
        let best = progress.tried.iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or(leaps, |(l, _)| *l)
    };
    if chosen == leaps {
        return false;
    }
    progress.leaps = chosen;
    // Longer trajectories are accepted less often at the same step.
    let factor = if chosen > leaps { 0.8 } else { 1.25 };
    memory.step.iter_mut().for_each(|step| *step *= factor);
    true
}

/// Whether theta went nowhere in the window: by less than a quarter of a standard error from one half to the other, or by less
/// than its own noise.
fn is_calm(memory: &Memory, metric: &Metric, d: usize) -> bool {
    let half = WINDOW as f64 / 2.0;
    let (first, second) = memory.window_halves.split_at(d);
    let way = DVector::from_fn(d, |i, _| (second[i] - first[i]) / half);
    let mean = DVector::from_fn(d, |i, _| (second[i] + first[i]) / WINDOW as f64);
    let products = nalgebra::DMatrix::from_row_slice(d, d, &memory.window_products) / WINDOW as f64;
    let spread = &metric.inverse * (products - &mean * mean.transpose()) * metric.inverse.transpose();
    let drift = &metric.inverse * way;
    (0..d).all(|i| {
        let root = metric.share[i].clamp(FLOOR, 1.0).sqrt();
        let (drift, noise) = (drift[i].abs() * root, spread[(i, i)].max(0.0).sqrt() * root);
        drift < 0.25 || (drift < 1.0 && drift < 1.2 * noise)
    })
}

impl Progress {
    /// Whether sweep k begins with a look at how far the likelihood goes on as it is: before theta is judged, and from time to time
    /// in a search that takes long.
    pub(super) fn looks_far(&self, k: u64) -> bool {
        let due = match self.stage {
            Stage::Search => self.window == 0 && self.windows >= PATIENCE,
            Stage::Average => k - self.began + 1 >= self.next_check,
            Stage::Posterior => false,
        };
        due && !self.fixed
    }
}

impl Memory {
    fn start_window(&mut self, theta: &[f64]) {
        self.progress.window = 0;
        self.progress.merit = 0.0;
        self.window_start.copy_from_slice(theta);
        let Memory { chances, spread, grad_spread, autocovariance, window_halves, window_products, .. } =
            self;
        [chances, spread, grad_spread, autocovariance, window_halves, window_products]
            .into_iter()
            .for_each(|sums| sums.fill(0.0));
    }

    /// Goes back to the search.
    pub(super) fn search_again(&mut self, theta: &[f64], began: u64) {
        self.start_window(theta);
        let progress = &mut self.progress;
        (progress.stage, progress.began, progress.returns) = (Stage::Search, began, progress.returns + 1);
        (progress.information_count, progress.scatter_count) = (0, 0);
    }

    /// Freezes steps, scales and trajectories; from now on theta is averaged.
    fn start_averaging(&mut self, began: u64) {
        let progress = &mut self.progress;
        (progress.stage, progress.began, progress.next_check) = (Stage::Average, began, 50);
        (progress.information_count, progress.scatter_count) = (0, 1);
        self.score_sums.fill(0.0);
        [&mut self.theta, &mut self.newton, &mut self.mean_score, &mut self.observed]
            .into_iter()
            .for_each(|series| series.clear());
    }
}
