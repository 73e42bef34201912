//! Verdicts: what a run's own numbers say about its settings, and what to try instead.

use serde::{Deserialize, Serialize};

use crate::moves::shadow_acceptance;
use crate::printable::Number;
use crate::run::two_digits;
use crate::settings::Settings;
use crate::{Model, Real, State};

/// Below this acceptance of a shadow MALA step, the step size is too large for the posterior to be trusted, however many
/// coordinates there are.
const SHADOW_FLOOR: f64 = 0.6;
/// A proposed step size should be accepted at least this often.
const SHADOW_GOAL: f64 = 0.8;
/// This step size, in units of the posterior's variance, makes standard deviations 5 % too large.
const CERTIFIED_STEP: f64 = 0.18;

/// The acceptance of a shadow step below which unadjusted standard deviations of a group of d coordinates are more than 5 %
/// off: for a Gaussian, 2 Phi(-sqrt(d h^3 / 2) / 2).
fn shadow_floor(d: usize) -> f64 {
    let a = (d as f64 * CERTIFIED_STEP.powi(3) / 2.0).sqrt() / 2.0;
    // The complementary error function at a / sqrt(2), to seven digits (Abramowitz and Stegun 7.1.26).
    let z = a / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let polynomial = series.iter().fold(0.0, |sum, c| sum * t + c);
    (polynomial * t * (-z * z).exp()).max(SHADOW_FLOOR)
}
/// A drift of theta by more standard deviations than this is one that a run has not got over.
const DRIFT: f64 = 1.6;
/// Below this acceptance an accept-reject chain stands still.
const STUCK: f64 = 0.05;

/// What is known about the quality of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostics {
    /// `ok`, `step-too-large`, `low-acceptance`, `still-moving` or `too-short`.
    pub verdict: String,
    /// What to do about it, in a sentence that names settings as the library does.
    pub advice: Option<String>,
    /// Effective sample size of each listed component of theta after burn-in.
    #[serde(default)]
    pub ess: Vec<Option<f64>>,
    /// How far each listed component of theta moved from the first to the second half of the steps after burn-in, in its
    /// standard deviations.
    #[serde(default)]
    pub drift: Vec<Option<f64>>,
    /// The fraction of moves accepted.
    pub acceptance: Option<f64>,
    /// What one MALA step at the end would have accepted, or its reversal if that is less.
    pub shadow_acceptance: Option<f64>,
    /// A step size worth trying.
    pub suggested_step_size: Option<f64>,
}

impl Diagnostics {
    /// Judges a finished (or interrupted) run.
    pub fn of<F: Real>(model: &dyn Model<F>, settings: &Settings, state: &State<F>) -> Self {
        let h = settings.step_size_at(state.k.saturating_sub(1));
        let shadow = |h| match settings.averages_clouds() {
            true => shadow_acceptance(model, state, settings.seed, h),
            false => None,
        };
        let shadow_now = shadow(h).map(|s| s.forth.min(s.back));
        let acceptance = state.acceptance.rate();
        let judged = state.acceptance.worst_window.or(acceptance);
        // Without a cloud theta moves to its limit and stays there: that is neither noise nor a drift.
        let of_listed = |of: &dyn Fn(usize) -> Option<f64>| {
            (0..state.batches.width()).map(|i| of(i).filter(|_| settings.has_cloud())).collect()
        };
        let mut diagnostics = Diagnostics {
            verdict: "ok".into(),
            advice: None,
            ess: of_listed(&|i| state.batches.ess(i)),
            drift: of_listed(&|i| state.batches.drift(i)),
            acceptance,
            shadow_acceptance: shadow_now,
            suggested_step_size: None,
        };
        // Latent variables that all data share keep the floor that their automatic step sizes were chosen by.
        let floor = if model.groups() > 1 { shadow_floor(model.d_x()) } else { SHADOW_FLOOR };
        let goal = SHADOW_GOAL.max(0.5 * (1.0 + floor));
        let smaller = || {
            let halves = std::iter::successors(Some(h / 2.0), |h| Some(h / 2.0)).take(30);
            let accepted = |h: &f64| shadow(*h).is_some_and(|s| s.forth >= goal);
            // A cloud that is too wide accepts almost any move inwards, so the model's own bound counts too.
            let safe = settings.auto_step_size(model);
            halves.into_iter().find(accepted).map(|h| two_digits(h.min(safe)))
        };
        let remedy = |suggestion: Option<f64>| match suggestion {
            Some(h) => format!("try `step-size={}`", Number(h)),
            None => "try a much smaller `step-size`".into(),
        };
        if let Some(rate) = judged.filter(|a| *a < STUCK) {
            // Accepting the whole cloud at once degenerates with N and D_x: a step that suits one particle may not do.
            let suggestion = smaller().or(Some(two_digits(h / 4.0)));
            diagnostics.verdict = "low-acceptance".into();
            diagnostics.suggested_step_size = suggestion;
            diagnostics.advice = Some(format!(
                "only {:.1} % of moves were accepted with h = {}, so the cloud hardly moves; {}",
                100.0 * rate,
                Number(h),
                remedy(suggestion)
            ));
        } else if acceptance.is_none()
            && let Some(a) = shadow_now.filter(|a| *a < floor)
        {
            let suggestion = smaller();
            diagnostics.verdict = "step-too-large".into();
            diagnostics.suggested_step_size = suggestion;
            diagnostics.advice = Some(format!(
                "h = {} is too large for these posteriors (an accept-reject step would keep {:.0} % of moves), so the cloud is biased; {}",
                Number(h),
                100.0 * a,
                remedy(suggestion)
            ));
        } else if let Some((i, drift)) = diagnostics.worst_drift().filter(|(_, drift)| drift.abs() > DRIFT) {
            let faster = match model.m_step().is_some() && !settings.theta_is_computed() {
                true => ", or use `algorithm=pmgd`, whose theta follows the particles at once",
                false => "",
            };
            diagnostics.verdict = "still-moving".into();
            diagnostics.advice = Some(format!(
                "{} was still moving after burn-in (its second half lies {:.1} standard deviations from its first); run again with `steps={}` or more{faster}",
                model.theta_names()[i],
                drift.abs(),
                4 * settings.steps
            ));
        } else if model.listed() < model.d_theta() && diagnostics.worst_drift().is_none() {
            // Of so many parameters few are looked at; without even these, nothing is known.
            diagnostics.verdict = "too-short".into();
            diagnostics.advice = Some(format!(
                "there are too few steps after burn-in to say whether theta still moves; run again with `steps={}` or more",
                (4 * settings.steps).max(100)
            ));
        }
        diagnostics
    }

    /// The component of theta that drifted most, by its number, and how far.
    pub fn worst_drift(&self) -> Option<(usize, f64)> {
        let known = self.drift.iter().enumerate().filter_map(|(i, drift)| Some((i, (*drift)?)));
        known.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::shadow_floor;

    #[test]
    fn the_floor_certifies_five_percent() {
        for (d, acceptance) in [(1, 0.978), (10, 0.931), (100, 0.787), (1000, 0.6)] {
            assert!((shadow_floor(d) - acceptance).abs() < 1e-3, "{d}: {}", shadow_floor(d));
        }
    }
}
