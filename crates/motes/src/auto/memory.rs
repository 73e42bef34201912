//! What `auto` remembers from sweep to sweep: named arrays and a few numbers, all of which a checkpoint holds.

use serde::{Deserialize, Serialize};

use crate::diagnostics::MAX_BATCHES;
use crate::state::Per;
use crate::{BatchMeans, LISTED};

/// Batches of the information matrices: fewer, because each has D_theta^2 numbers.
const MATRIX_BATCHES: usize = 20;

/// The three stages of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Theta looks for the maximum; step sizes and scales are adapted.
    Search,
    /// Theta takes ever smaller steps and is averaged; everything else is frozen.
    Average,
    /// Theta stands still at the estimate; the cloud samples the posterior there.
    Posterior,
}

impl Stage {
    /// 1, 2 or 3, as traces have it.
    pub fn number(self) -> u64 {
        self as u64 + 1
    }
}

/// Where a fit stands, in numbers that are no arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The stage.
    pub(crate) stage: Stage,
    /// Whether theta is to stay where it is: the pass then tells how far that is from the maximum.
    pub(crate) fixed: bool,
    /// Evaluations of value and gradients so far, for each particle.
    pub(crate) evaluations: f64,
    /// The stage of the last sweep.
    pub(crate) swept: Stage,
    /// How theta's stage stood before it was judged to be over.
    pub(crate) ended: Option<End>,
    /// Whether its end was taken back, so that it is to be judged once more, with other settings.
    #[serde(skip)]
    pub(crate) taken_back: bool,
    /// The sweep before the first of this stage.
    pub(crate) began: u64,
    /// Sweeps of the current window, and complete windows.
    pub(crate) window: u64,
    pub(crate) windows: u64,
    /// How many matrices the information and the scatter of scores are means of.
    pub(crate) information_count: u64,
    pub(crate) scatter_count: u64,
    /// L, the mean number of leapfrog steps, and what an independent score cost with each that was tried.
    pub(crate) leaps: u32,
    pub(crate) tried: Vec<(u32, f64)>,
    /// The largest lag-1 autocorrelation of scores, and the over-relaxation it allows.
    pub(crate) rho: f64,
    pub(crate) relaxation: f64,
    /// Windows in a row whose observed information was not positive.
    pub(crate) negative: u32,
    /// How often averaging was given up for another search.
    pub(crate) returns: u32,
    /// Windows in a row in which a component ran away without a change of the likelihood, and all that did.
    pub(crate) runaway: u32,
    pub(crate) runs_away: Vec<u32>,
    /// A component along which the likelihood ends in a plateau that cannot be told from where theta is, and whether that is below.
    pub(crate) plateau: Option<(u32, bool)>,
    /// The estimated rise of the log-likelihood in this window.
    pub(crate) merit: f64,
    /// Sweeps of the stage after which it is judged next.
    pub(crate) next_check: u64,
    /// Sweeps at the beginning of the posterior stage that are left out.
    pub(crate) dropped: u64,
    /// Whether the likelihood around the estimate has still to be looked at.
    pub(crate) unchecked: bool,
    /// What was found, once theta's stage is over.
    pub(crate) verdict: Option<String>,
    pub(crate) advice: Option<String>,
    /// The largest Monte Carlo error of theta in units of its standard error, as last judged.
    pub(crate) worst: Option<f64>,
    /// That of the posterior means in units of their standard deviations.
    pub(crate) posterior_error: Option<f64>,
    /// Whether the fit is over.
    pub(crate) finished: bool,
    /// Length, filled and count of each series of batch means.
    series: Vec<[u64; 3]>,
}

/// What the end of theta's stage has changed, as it was before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub(crate) stage: Stage,
    pub(crate) began: u64,
    pub(crate) next_check: u64,
    pub(crate) worst: Option<f64>,
}

/// The arrays, and where the fit stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Where the fit stands.
    pub(crate) progress: Progress,
    /// The scale of each coordinate of each group, and the step size of each group in units of it.
    pub(crate) scale: Vec<f64>,
    pub(crate) step: Vec<f64>,
    /// Sums over the window of each row's chance of acceptance.
    pub(crate) chances: Vec<f64>,
    /// Sums over the window of each coordinate's variance over particles, and of its gradient's.
    pub(crate) spread: Vec<f64>,
    pub(crate) grad_spread: Vec<f64>,
    /// The complete information I and the covariance J of the complete scores.
    pub(crate) information: Vec<f64>,
    pub(crate) scatter: Vec<f64>,
    /// The centred scores of the last sweep, and sums of their squares and of their products with those before.
    pub(crate) scores: Vec<f64>,
    pub(crate) autocovariance: Vec<f64>,
    /// Where theta was when the window began, sums of its way since in both halves, and of its products.
    pub(crate) window_start: Vec<f64>,
    pub(crate) window_halves: Vec<f64>,
    pub(crate) window_products: Vec<f64>,
    /// Where theta was when the search began, and the mean score of the last sweep of it.
    pub(crate) origin: Vec<f64>,
    pub(crate) score: Vec<f64>,
    /// Sums of each particle's scores while theta is averaged.
    pub(crate) score_sums: Vec<f64>,
    /// theta_k, one-step Newton estimates, mean scores, and I - J, while theta is averaged.
    pub(crate) theta: BatchMeans,
    pub(crate) newton: BatchMeans,
    pub(crate) mean_score: BatchMeans,
    pub(crate) observed: BatchMeans,
    /// The estimate, its Monte Carlo error, its standard error, that one's Monte Carlo error, the share of information, and the
    /// covariance matrix; NaN until they are known.
    pub(crate) estimate: Vec<f64>,
    pub(crate) mc_error: Vec<f64>,
    pub(crate) se: Vec<f64>,
    pub(crate) se_mc_error: Vec<f64>,
    pub(crate) share: Vec<f64>,
    pub(crate) covariance: Vec<f64>,
    /// In the posterior stage, for some coordinates: what is subtracted from each, sums of each particle's values, of
    /// squares, and of products with the scores of their groups.
    pub(crate) shift: Vec<f64>,
    pub(crate) sums: Vec<f64>,
    pub(crate) squares: Vec<f64>,
    pub(crate) with_scores: Vec<f64>,
    /// Sums of scores that go with them.
    pub(crate) group_scores: Vec<f64>,
}

/// What a fit has found of theta; NaN where nothing is known.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The estimate.
    pub estimate: &'a [f64],
    /// Its Monte Carlo error.
    pub mc_error: &'a [f64],
    /// The standard errors.
    pub se: &'a [f64],
    /// Their Monte Carlo errors.
    pub se_mc_error: &'a [f64],
    /// The share of the complete information about each component that the data hold.
    pub share: &'a [f64],
    /// The inverse of the observed information.
    pub covariance: &'a [f64],
    /// The verdict, once there is one, and what to do about it.
    pub verdict: Option<&'a str>,
    /// In a sentence that names settings as the library does.
    pub advice: Option<&'a str>,
    /// Evaluations of value and gradients so far, for each particle.
    pub evaluations: f64,
    /// The stage it is in.
    pub stage: Stage,
    /// The largest Monte Carlo error of theta in units of its standard error, as last judged.
    pub worst: Option<f64>,
    /// That of the posterior means in units of their standard deviations.
    pub posterior_error: Option<f64>,
    /// The mean number of leapfrog steps of a trajectory.
    pub leaps: u32,
    /// The first component of theta that goes to infinity, if one does.
    pub runs_away: Option<usize>,
}

/// The sizes that the arrays depend on.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// D_theta.
    pub d_theta: usize,
    /// M.
    pub groups: usize,
    /// D_x.
    pub d_x: usize,
    /// N.
    pub n: usize,
}

impl Sizes {
    /// How many coordinates there are in all.
    pub fn width(&self) -> usize {
        self.groups.saturating_mul(self.d_x)
    }

    /// The coordinates whose Monte Carlo errors are watched: all, or so many of them at even distances.
    pub fn watched(&self) -> usize {
        self.width().min(LISTED)
    }

    /// The number of a watched coordinate.
    pub fn coordinate(&self, i: usize) -> usize {
        if self.width() <= LISTED { i } else { (i as u128 * self.width() as u128 / LISTED as u128) as usize }
    }

    /// Whether products of coordinates and scores are kept: for those that are listed, if they are not too many.
    pub fn keeps_products(&self) -> bool {
        self.width() <= LISTED && self.width().saturating_mul(self.n).saturating_mul(self.d_theta) <= 1 << 22
    }
}

impl Progress {
    fn new() -> Self {
        Progress {
            stage: Stage::Search,
            fixed: false,
            swept: Stage::Search,
            ended: None,
            taken_back: false,
            evaluations: 0.0,
            began: 0,
            window: 0,
            windows: 0,
            information_count: 0,
            scatter_count: 0,
            leaps: 1,
            tried: Vec::new(),
            rho: 0.9,
            relaxation: 1.0,
            negative: 0,
            returns: 0,
            runaway: 0,
            runs_away: Vec::new(),
            plateau: None,
            merit: 0.0,
            next_check: 0,
            dropped: 0,
            unchecked: false,
            verdict: None,
            advice: None,
            worst: None,
            posterior_error: None,
            finished: false,
            series: Vec::new(),
        }
    }
}

/// An array as checkpoints see it: its name, what there is one of, the numbers, and for one that grows how many there may be and
/// how many belong together.
pub(crate) type Listed<V> = (&'static str, Per, V, Option<(usize, usize)>);

/// All arrays, in the order of the file.
macro_rules! arrays {
    ($memory:expr) => {{
        let Memory {
            progress: _,
            scale,
            step,
            chances,
            spread,
            grad_spread,
            information,
            scatter,
            scores,
            autocovariance,
            window_start,
            window_halves,
            window_products,
            origin,
            score,
            score_sums,
            estimate,
            mc_error,
            se,
            se_mc_error,
            share,
            covariance,
            shift,
            sums,
            squares,
            with_scores,
            group_scores,
            theta,
            newton,
            mean_score,
            observed,
        } = $memory;
        let rooms = [&*theta, &*newton, &*mean_score, &*observed].map(|s| Some((s.room(), s.width())));
        let BatchMeans { current: theta_current, means: theta_means, spread: theta_spread, .. } = theta;
        let BatchMeans { current: newton_current, means: newton_means, spread: newton_spread, .. } = newton;
        let BatchMeans { current: score_current, means: score_means, spread: score_spread, .. } = mean_score;
        let BatchMeans { current: observed_current, means: observed_means, spread: observed_spread, .. } =
            observed;
        vec![
            ("auto.scale", Per::Coordinate, scale, None),
            ("auto.step", Per::Other, step, None),
            ("auto.chances", Per::Other, chances, None),
            ("auto.spread", Per::Coordinate, spread, None),
            ("auto.grad_spread", Per::Coordinate, grad_spread, None),
            ("auto.information", Per::Other, information, None),
            ("auto.scatter", Per::Other, scatter, None),
            ("auto.scores", Per::Other, scores, None),
            ("auto.autocovariance", Per::Theta, autocovariance, None),
            ("auto.window_start", Per::Theta, window_start, None),
            ("auto.window_halves", Per::Theta, window_halves, None),
            ("auto.window_products", Per::Other, window_products, None),
            ("auto.origin", Per::Theta, origin, None),
            ("auto.score", Per::Theta, score, None),
            ("auto.score_sums", Per::Other, score_sums, None),
            ("auto.estimate", Per::Theta, estimate, None),
            ("auto.mc_error", Per::Theta, mc_error, None),
            ("auto.se", Per::Theta, se, None),
            ("auto.se_mc_error", Per::Theta, se_mc_error, None),
            ("auto.share", Per::Theta, share, None),
            ("auto.covariance", Per::Other, covariance, None),
            ("auto.shift", Per::Other, shift, None),
            ("auto.sums", Per::Other, sums, None),
            ("auto.squares", Per::Other, squares, None),
            ("auto.with_scores", Per::Other, with_scores, None),
            ("auto.group_scores", Per::Other, group_scores, None),
            ("auto.theta.current", Per::Other, theta_current, None),
            ("auto.theta.means", Per::Other, theta_means, rooms[0]),
            ("auto.theta.spread", Per::Other, theta_spread, None),
            ("auto.newton.current", Per::Other, newton_current, None),
            ("auto.newton.means", Per::Other, newton_means, rooms[1]),
            ("auto.newton.spread", Per::Other, newton_spread, None),
            ("auto.mean_score.current", Per::Other, score_current, None),
            ("auto.mean_score.means", Per::Other, score_means, rooms[2]),
            ("auto.mean_score.spread", Per::Other, score_spread, None),
            ("auto.observed.current", Per::Other, observed_current, None),
            ("auto.observed.means", Per::Other, observed_means, rooms[3]),
            ("auto.observed.spread", Per::Other, observed_spread, None),
        ]
    }};
}

impl Memory {
    /// Before the first sweep.
    pub fn new(sizes: Sizes) -> Self {
        let Sizes { d_theta: d, groups, n, .. } = sizes;
        let (w, watched, products) = (sizes.width(), sizes.watched(), usize::from(sizes.keeps_products()));
        let (zeros, unknown) = (|len| vec![0.0; len], |len| vec![f64::NAN; len]);
        Memory {
            progress: Progress::new(),
            scale: zeros(w),
            step: vec![1.0; groups],
            chances: zeros(groups * n),
            spread: zeros(w),
            grad_spread: zeros(w),
            information: zeros(d * d),
            scatter: zeros(d * d),
            scores: zeros(n * d),
            autocovariance: zeros(2 * d),
            window_start: zeros(d),
            window_halves: zeros(2 * d),
            window_products: zeros(d * d),
            origin: zeros(d),
            score: zeros(d),
            score_sums: zeros(n * d),
            estimate: zeros(d),
            mc_error: unknown(d),
            se: unknown(d),
            se_mc_error: unknown(d),
            share: unknown(d),
            covariance: unknown(d * d),
            shift: zeros(watched),
            sums: zeros(watched * n),
            squares: zeros(watched),
            with_scores: zeros(products * watched * d),
            group_scores: zeros(products * groups * d),
            theta: BatchMeans::new(d),
            newton: BatchMeans::new(d),
            mean_score: BatchMeans::new(d),
            observed: BatchMeans::limited(d * d, MATRIX_BATCHES),
        }
    }

    /// How many bytes all of it will take at the most.
    pub fn bytes(sizes: Sizes) -> u128 {
        let [d, groups, n] = [sizes.d_theta, sizes.groups, sizes.n].map(|v| v as u128);
        let [w, watched] = [sizes.width(), sizes.watched()].map(|v| v as u128);
        let products = u128::from(sizes.keeps_products());
        let numbers = [
            w.saturating_mul(3),
            groups.saturating_mul(1 + n),
            n.saturating_mul(2 * d + watched),
            d.saturating_mul(4 * d + 12),
            watched.saturating_mul(2 + products * d),
            groups.saturating_mul(products * d),
            d.saturating_mul(3 * (MAX_BATCHES as u128 + 3)),
            d.saturating_mul(d).saturating_mul(MATRIX_BATCHES as u128 + 3),
        ];
        numbers.into_iter().fold(0, u128::saturating_add).saturating_mul(8)
    }

    pub(crate) fn arrays(&self) -> Vec<Listed<&Vec<f64>>> {
        arrays!(self)
    }

    pub(crate) fn arrays_mut(&mut self) -> Vec<Listed<&mut Vec<f64>>> {
        arrays!(self)
    }

    /// What is known so far.
    pub fn found(&self) -> Found<'_> {
        let Memory { progress, estimate, mc_error, se, se_mc_error, share, covariance, .. } = self;
        Found {
            estimate,
            mc_error,
            se,
            se_mc_error,
            share,
            covariance,
            verdict: progress.verdict.as_deref(),
            advice: progress.advice.as_deref(),
            evaluations: progress.evaluations,
            stage: progress.swept,
            worst: progress.worst,
            posterior_error: progress.posterior_error,
            leaps: progress.leaps,
            runs_away: progress.runs_away.first().map(|j| *j as usize),
        }
    }

    /// Takes the end of theta's stage back, for a run that is to go on from there with another tolerance.
    pub(crate) fn reopen(&mut self) {
        let progress = &mut self.progress;
        if let Some(End { stage, began, next_check, worst }) = progress.ended.take() {
            (progress.stage, progress.began) = (stage, began);
            (progress.next_check, progress.worst, progress.dropped) = (next_check, worst, 0);
            (progress.verdict, progress.advice, progress.unchecked) = (None, None, false);
            // What a search found to run away at its end is not held while it goes on.
            if stage == Stage::Search {
                progress.runs_away.clear();
            }
            progress.taken_back = true;
            self.estimate.fill(0.0);
            let Memory { mc_error, se, se_mc_error, share, covariance, .. } = self;
            [mc_error, se, se_mc_error, share, covariance].into_iter().for_each(|v| v.fill(f64::NAN));
        }
    }

    /// Where the fit stands, with what the series are besides their arrays.
    pub(crate) fn stand(&self) -> Progress {
        let series = [&self.theta, &self.newton, &self.mean_score, &self.observed];
        let series = series.iter().map(|s| [s.length, s.filled, s.count]).collect();
        Progress { series, ..self.progress.clone() }
    }

    /// Goes on from there, once the arrays are back.
    pub(crate) fn restore(&mut self, progress: Progress) {
        let series = [&mut self.theta, &mut self.newton, &mut self.mean_score, &mut self.observed];
        for (to, [length, filled, count]) in series.into_iter().zip(&progress.series) {
            (to.length, to.filled, to.count) = (*length, *filled, *count);
        }
        self.progress = Progress { series: Vec::new(), ..progress };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_of_its_size_is_exact() {
        for (d_theta, groups, d_x, n) in [(1, 1, 9, 32), (3, 40, 2, 32), (5, 3000, 1, 8)] {
            let sizes = Sizes { d_theta, groups, d_x, n };
            let memory = Memory::new(sizes);
            let numbers: usize = memory
                .arrays()
                .into_iter()
                .map(|(.., v, grows)| grows.map_or(v.len(), |(room, _)| room))
                .sum();
            assert_eq!(Memory::bytes(sizes), 8 * numbers as u128);
        }
    }
}
