//! The fit without tuning: particles move by an adjusted kernel with steps of their own, theta by Newton steps in the metric of
//! Louis's identity, first to find the maximum, then with decreasing gains to average; then the cloud samples the posterior at
//! the estimate. It ends when Monte Carlo errors are small beside standard errors, or says why they are not.

mod anneal;
mod assess;
mod average;
mod evidence;
mod gaussian;
mod memory;
mod metric;
mod posterior;
mod search;
mod sweep;

pub use assess::{Assessment, assess, can_assess, runs_away};
pub use evidence::{LogLikelihood, log_likelihood};
pub use memory::{Found, Memory, Progress, Sizes, Stage};
pub use posterior::Watched;

use nalgebra::DVector;

use crate::moves::Moves;
use crate::noise::{Noise, Purpose};
use crate::settings::Settings;
use crate::{Error, Model, ModelError, Real, State, Team};
use metric::{FLOOR, Metric};
use search::Plateau;
use sweep::{Collect, Kernel, Sweeper, add_scatter, finish_scatter};

/// Sweeps of a window: step sizes, scales and trajectories are judged at its end.
const WINDOW: u64 = 50;
/// Particles whose Hessians are taken in the search.
const HESSIANS: usize = 8;
/// Gains fall with this power of the sweeps while theta is averaged.
const POWER: f64 = 0.7;
/// A step is halved so many times before it is given up.
const HALVINGS: usize = 30;
/// The share of all evaluations that are for theta; the rest is left to the posterior.
const FOR_THETA: f64 = 0.8;

/// Makes the sweeps of a fit. It owns workspace, never truth: one made anew continues with the same bits.
pub(crate) struct Fitter<'m, F: Real> {
    sweeper: Sweeper<'m, F>,
    sizes: Sizes,
    tolerance: f64,
    max_evaluations: f64,
    trajectory: Noise,
    stuck: Noise,
    /// The cloud on its way: a sweep that is stopped leaves no trace.
    x: Vec<F>,
    information: Vec<f64>,
    scatter: Vec<f64>,
    metric: Option<Metric>,
    row_scores: Vec<f64>,
}

/// What became of the cloud's averages in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Averaging {
    /// The cloud is not that of the posterior at the estimate.
    No,
    /// It is.
    Yes,
    /// It is, but what was averaged so far is to be forgotten.
    Anew,
}

/// A theta-step that was made: where from, where to, and what was known on the way.
struct ThetaStep {
    theta: Vec<f64>,
    /// The mean score, and the one-step Newton estimate.
    score: Vec<f64>,
    newton: Vec<f64>,
    merit: f64,
    evaluations: f64,
}

impl<'m, F: Real> Fitter<'m, F> {
    /// Must be made inside [`crate::Pool::install`].
    pub fn new(model: &'m dyn Model<F>, settings: &Settings, team: Team<'m>) -> Self {
        let sizes = Sizes::of(model, settings.particles);
        let d = sizes.d_theta;
        Fitter {
            sweeper: Sweeper::new(model, sizes.n, settings.seed, team),
            sizes,
            tolerance: settings.tolerance,
            max_evaluations: settings.max_evaluations as f64,
            trajectory: Noise::new(settings.seed, Purpose::Trajectory),
            stuck: Noise::new(settings.seed, Purpose::Stuck),
            x: vec![F::of(0.0); sizes.width() * sizes.n],
            information: vec![0.0; d * d],
            scatter: vec![0.0; d * d],
            metric: None,
            row_scores: vec![0.0; if sizes.keeps_products() { sizes.groups * sizes.n * d } else { 0 }],
        }
    }

    /// One sweep of the cloud, and a step of theta unless it stands still.
    pub fn step(&mut self, state: &mut State<F>) -> Result<(Moves, Averaging), Error> {
        let mut memory = state.auto.take().expect("a state of this algorithm");
        let done = self.advance(state, &mut memory);
        state.auto = Some(memory);
        let done = done.map_err(|source| {
            self.sweeper.forget();
            match source {
                ModelError::Stopped => Error::Stopped,
                source => Error::Model { step: state.k, source },
            }
        })?;
        state.k += 1;
        Ok(done)
    }

    /// Judges theta after the last sweep once more if the end of its stage was taken back, as a fit with these settings
    /// would have judged it; whether it has ended there again.
    pub fn judge_again(&mut self, state: &mut State<F>) -> bool {
        let Some(mut memory) = state.auto.take() else { return false };
        let taken_back = std::mem::take(&mut memory.progress.taken_back);
        if taken_back && state.k > 0 {
            state.k -= 1; // it is judged before a sweep is counted
            match memory.progress.stage {
                Stage::Search => self.give_up_if_spent(state, &mut memory),
                Stage::Average => self.judge_average(state, &mut memory),
                Stage::Posterior => {}
            }
            state.k += 1;
        }
        let ended = taken_back && memory.progress.stage == Stage::Posterior;
        state.auto = Some(memory);
        ended
    }

    fn advance(
        &mut self,
        state: &mut State<F>,
        memory: &mut Memory,
    ) -> Result<(Moves, Averaging), ModelError> {
        if memory.scale.iter().all(|scale| *scale == 0.0) {
            self.begin(state, memory)?;
        }
        let stage = memory.progress.stage;
        let averaging = match stage {
            Stage::Search | Stage::Average => {
                self.move_both(state, memory)?;
                Averaging::No
            }
            Stage::Posterior => self.sample(state, memory)?,
        };
        memory.progress.swept = stage;
        let proposed = (self.sizes.groups * self.sizes.n) as u64;
        let accepted = self.sweeper.chance_of_all() as u64;
        Ok((Moves { proposed, accepted }, averaging))
    }

    /// Replaces particles that start where the model has no value, and chooses the first scales by the gradients.
    fn begin(&mut self, state: &mut State<F>, memory: &mut Memory) -> Result<(), ModelError> {
        let Sizes { groups, d_x, n, .. } = self.sizes;
        self.sweeper.know(&state.theta, state.cloud.as_slice())?;
        let x = state.cloud.as_mut_slice();
        for g in 0..groups {
            let sound = |i: usize| {
                let row = g * n + i;
                self.sweeper.density[row].is_finite()
                    && self.sweeper.grad[row * d_x..(row + 1) * d_x].iter().all(|v| v.f64().is_finite())
            };
            let Some(good) = (0..n).find(|i| sound(*i)) else {
                return Err(ModelError::new(format!(
                    "no particle{} starts where the log density is finite; choose another start with `init-theta` or `init-particles`",
                    if groups > 1 {
                        format!(" of group {}", self.sweeper.model.group_names()[g])
                    } else {
                        String::new()
                    }
                )));
            };
            for i in (0..n).filter(|i| !sound(*i)) {
                let from = (g * n + good) * d_x;
                x.copy_within(from..from + d_x, (g * n + i) * d_x);
            }
        }
        self.sweeper.forget();
        self.sweeper.know(&state.theta, state.cloud.as_slice())?;
        for (g, scale) in memory.scale.chunks_exact_mut(d_x).enumerate() {
            let grad = &self.sweeper.grad[g * n * d_x..(g + 1) * n * d_x];
            for (j, scale) in scale.iter_mut().enumerate() {
                let mean = grad.iter().skip(j).step_by(d_x).map(|v| v.f64().abs()).sum::<f64>() / n as f64;
                *scale = mean.clamp(1e-10, 1e10).sqrt().recip();
            }
        }
        memory.window_start.copy_from_slice(&state.theta);
        memory.origin.copy_from_slice(&state.theta);
        memory.progress.evaluations = 1.0;
        Ok(())
    }

    /// How the trajectories of sweep k go.
    fn kernel<'a>(&self, k: u64, memory: &'a Memory) -> Kernel<'a> {
        let leaps = memory.progress.leaps;
        let [length, jitter] = [0, 1].map(|i| self.trajectory.uniform(k, i));
        Kernel {
            k,
            scale: &memory.scale,
            step: &memory.step,
            leaps: ((f64::from(leaps) * (0.5 + length)).round() as u32).max(1),
            jitter: if leaps > 1 { 0.9 + 0.2 * jitter } else { 1.0 },
        }
    }

    /// A sweep at theta_k, then a step of theta on the fresh cloud: with the old one over-relaxation would not be stable.
    fn move_both(&mut self, state: &mut State<F>, memory: &mut Memory) -> Result<(), ModelError> {
        let searching = memory.progress.stage == Stage::Search;
        let grouped = self.sizes.groups > 1;
        let since = state.k - memory.progress.began;
        let (plateau, looks) = match memory.progress.looks_far(state.k) {
            true => self.look_far(state, memory)?,
            false => (memory.progress.plateau.map(Plateau::Lower), 0.0),
        };
        let (every, cost) = self.curvature_every(memory);
        let due = since.is_multiple_of(every) || self.is_unknown(memory);
        self.x.copy_from_slice(state.cloud.as_slice());
        let kernel = self.kernel(state.k, memory);
        let collect = if due && grouped { Collect::Scatter } else { Collect::Scores };
        self.sweeper.sweep(&state.theta, &mut self.x, kernel, collect)?;
        let mut evaluations = looks + f64::from(kernel.leaps) + 1.0;
        let (mut information_count, mut scatter_count) =
            (memory.progress.information_count, memory.progress.scatter_count);
        self.information.copy_from_slice(&memory.information);
        self.scatter.copy_from_slice(&memory.scatter);
        let mut observed = None;
        if due {
            evaluations += cost;
            if let Some((mut information, mut scatter)) = self.curvature(state, searching)? {
                // What ran away is held: the others are judged as if it were known.
                for held in &memory.progress.runs_away {
                    set_apart(&mut information, &mut scatter, *held as usize, self.sizes.d_theta);
                }
                observed = Some(information.iter().zip(&scatter).map(|(i, s)| i - s).collect::<Vec<f64>>());
                running_mean(&mut self.information, &information, information_count);
                running_mean(&mut self.scatter, &scatter, scatter_count);
                // A search wants fresh curvature.
                information_count =
                    if searching { (information_count + 1).min(4) } else { information_count + 1 };
                scatter_count += 1;
                self.metric = None;
            }
        }
        let metric = match self.metric.take() {
            Some(metric) => metric,
            None => Metric::new(&self.information, &self.scatter, self.sizes.d_theta),
        };
        let step = match self.theta_step(state, memory, &metric) {
            Ok(step) => step,
            Err(ModelError::Stopped) => return Err(ModelError::Stopped),
            Err(error) => {
                // A component that has leapt out of all bounds takes the numbers with it.
                let Some(j) = self.leapt_away(state, memory).filter(|_| searching) else { return Err(error) };
                memory.progress.evaluations += evaluations;
                self.end_runaway(state, memory, j);
                return Ok(());
            }
        };
        evaluations += step.evaluations;

        // From here on nothing can stop: what was found becomes true.
        memory.information.copy_from_slice(&self.information);
        memory.scatter.copy_from_slice(&self.scatter);
        let progress = &mut memory.progress;
        (progress.information_count, progress.scatter_count) = (information_count, scatter_count);
        progress.evaluations += evaluations;
        std::mem::swap(&mut state.cloud.data, &mut self.x);
        state.theta.copy_from_slice(&step.theta);
        let held = memory.progress.runs_away.len();
        memory.progress.plateau = None;
        match (plateau, searching) {
            (Some(Plateau::Level(j, way)), _) => {
                state.theta[j] += way;
                self.sweeper.forget();
                self.hold(memory, j, state.k + 1);
            }
            (_, true) => self.searched(state, memory, &metric, &step),
            (lower, false) => {
                memory.progress.plateau = lower.and_then(Plateau::lower);
                self.averaged(state, memory, &step, observed);
            }
        }
        // A component that is held from now on has changed the matrices: a run that is resumed here knows only those.
        self.metric = (memory.progress.runs_away.len() == held).then_some(metric);
        Ok(())
    }

    /// Sweeps between looks at the curvature, and what each costs, in evaluations.
    fn curvature_every(&self, memory: &Memory) -> (u64, f64) {
        let Sizes { d_theta, groups, n, .. } = self.sizes;
        let searching = memory.progress.stage == Stage::Search;
        let particles = if searching { HESSIANS.min(n) } else { n };
        let differences = if self.sweeper.model.gives().hessian { 1.0 } else { 2.0 };
        let mut cost = differences * d_theta as f64 * particles as f64 / n as f64;
        if groups > 1 {
            cost += 1.0;
        }
        let patience = if searching { 1.0 } else { 2.0 };
        let every = (patience * cost / f64::from(memory.progress.leaps + 2)).round().max(1.0);
        (every as u64, cost)
    }

    fn is_unknown(&self, memory: &Memory) -> bool {
        memory.information.iter().all(|v| *v == 0.0)
    }

    /// I and J of the cloud as it is, or nothing if they are not finite.
    #[allow(clippy::type_complexity)]
    fn curvature(
        &mut self,
        state: &State<F>,
        searching: bool,
    ) -> Result<Option<(Vec<f64>, Vec<f64>)>, ModelError> {
        let Sizes { d_theta: d, groups, n, .. } = self.sizes;
        let mut information = vec![0.0; d * d];
        let some = (searching && n > HESSIANS).then(|| {
            let first = (state.k as usize * HESSIANS) % n;
            let first = first.min(n - HESSIANS);
            first..first + HESSIANS
        });
        self.sweeper.information(&state.theta, &self.x, some, &mut information)?;
        let scatter = match groups {
            1 => self.covariance_of_scores(),
            _ => self.sweeper.scatter.clone(),
        };
        let finite = information.iter().chain(&scatter).all(|v| v.is_finite());
        Ok(finite.then_some((information, scatter)))
    }

    /// The covariance of the particles' scores.
    fn covariance_of_scores(&self) -> Vec<f64> {
        let Sizes { d_theta: d, n, .. } = self.sizes;
        let (mut rows, mut mean, mut out) = (self.sweeper.scores.clone(), vec![0.0; d], vec![0.0; d * d]);
        add_scatter(&mut rows, d, &mut mean, &mut out);
        finish_scatter(&mut out, d, n);
        out
    }

    /// A step along the mean score, checked on the cloud: its evaluation at the new theta is the next sweep's first.
    fn theta_step(
        &mut self,
        state: &State<F>,
        memory: &Memory,
        metric: &Metric,
    ) -> Result<ThetaStep, ModelError> {
        let (d, progress) = (self.sizes.d_theta, &memory.progress);
        let searching = progress.stage == Stage::Search;
        let theta = &state.theta;
        let mut score = vec![0.0; d];
        for row in self.sweeper.scores.chunks_exact(d) {
            score.iter_mut().zip(row).for_each(|(s, r)| *s += r / self.sizes.n as f64);
        }
        if score.iter().any(|s| !s.is_finite()) {
            return Err(ModelError::new(
                "the theta-gradient is not finite; start elsewhere with `init-theta`",
            ));
        }
        let (z, share) = (metric.along(&score), metric.safe_share());
        let gain = match searching {
            true => 1.0,
            false => libm::pow((state.k - progress.began + 1) as f64, -POWER),
        };
        let most = progress.relaxation;
        let mut relaxed = DVector::from_fn(d, |i, _| match metric.share[i] < FLOOR {
            true => gain * most.min(if searching { 2.0 } else { 1.0 }),
            false => most.min(gain / share[i]),
        });
        let newton: Vec<f64> = {
            let way = metric.back(&z.component_div(&share));
            theta.iter().zip(way.iter()).map(|(t, w)| t + w).collect()
        };
        if progress.fixed {
            return Ok(ThetaStep { theta: theta.clone(), score, newton, merit: 0.0, evaluations: 0.0 });
        }
        let small = !searching && relaxed.component_mul(&z).norm_squared() < 1.0;
        let mut shrink = 1.0;
        for tries in 1..=HALVINGS {
            let mut way = metric.back(&(shrink * relaxed.component_mul(&z)));
            for held in &progress.runs_away {
                way[*held as usize] = 0.0;
            }
            let tried: Vec<f64> = theta.iter().zip(way.iter()).map(|(t, w)| t + w).collect();
            let largest = shrink * relaxed.max();
            self.sweeper.evaluate(&tried, &self.x)?;
            let found = self.sweeper.compare(searching || largest > 1.0);
            let slope: f64 = score.iter().zip(way.iter()).map(|(s, w)| s * w).sum();
            let rises = match largest <= 1.0 {
                true => found.rise >= 1e-4 * slope - 1e-9 * found.level,
                false => found.merit > 0.0 && found.effective > 0.3,
            };
            // A step within the noise need not rise, but where the parabola that it was made for falls by more than that, it misleads.
            let tolerable = small && tries == 1 && found.rise > -1.0 - 1e-9 * found.level;
            if found.rise.is_finite() && (rises || tolerable) {
                self.sweeper.adopt();
                let merit = if searching { found.merit } else { 0.0 };
                return Ok(ThetaStep { theta: tried, score, newton, merit, evaluations: tries as f64 });
            }
            match relaxed.max() > 1.0 {
                true => relaxed.apply(|a| *a = a.min(1.0).max(*a / 2.0)),
                false => shrink *= 0.5,
            }
        }
        let evaluations = HALVINGS as f64;
        Ok(ThetaStep { theta: theta.clone(), score, newton, merit: 0.0, evaluations })
    }

    /// Whether so many evaluations are spent that theta must do with what it has.
    fn spent(&self, memory: &Memory) -> bool {
        memory.progress.evaluations >= FOR_THETA * self.max_evaluations
    }
}

impl Sizes {
    /// Of a model with n particles in each group.
    pub fn of<F: Real>(model: &dyn Model<F>, n: usize) -> Self {
        Sizes { d_theta: model.d_theta(), groups: model.groups(), d_x: model.d_x(), n }
    }
}

/// Leaves nothing of a component in the information I and the scatter of scores J but a one on I's diagonal.
fn set_apart(information: &mut [f64], scatter: &mut [f64], component: usize, d: usize) {
    for (matrix, diagonal) in [(information, 1.0), (scatter, 0.0)] {
        for i in 0..d {
            (matrix[i * d + component], matrix[component * d + i]) = (0.0, 0.0);
        }
        matrix[component * d + component] = diagonal;
    }
}

/// The mean of `count` matrices and one more.
fn running_mean(mean: &mut [f64], more: &[f64], count: u64) {
    let count = count as f64;
    mean.iter_mut().zip(more).for_each(|(m, v)| *m = (count * *m + v) / (count + 1.0));
}
