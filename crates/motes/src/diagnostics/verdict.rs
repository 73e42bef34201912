//! Verdicts: what a run's own numbers say about its settings, and what to try instead.

use serde::{Deserialize, Serialize};

use super::judge::{Finding, Judge, in_errors, rescale};
use crate::auto::{Assessment, Found};
use crate::moves::shadow_acceptance;
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
/// And this one 15 % too large.
const HOPELESS_STEP: f64 = 0.5;

/// The acceptance of a shadow step below which unadjusted standard deviations of a group of d coordinates are more than 5 % off.
fn shadow_floor(d: usize) -> f64 {
    shadow_of(d, CERTIFIED_STEP).max(SHADOW_FLOOR)
}

/// The acceptance of a step of this size, in units of the posterior's variance, in a group of d coordinates: for a Gaussian,
/// 2 Phi(-sqrt(d h^3 / 2) / 2).
fn shadow_of(d: usize, h: f64) -> f64 {
    let a = (d as f64 * h.powi(3) / 2.0).sqrt() / 2.0;
    // The complementary error function at a / sqrt(2), to seven digits (Abramowitz and Stegun 7.1.26).
    let z = a / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let polynomial = series.iter().fold(0.0, |sum, c| sum * t + c);
    polynomial * t * libm::exp(-z * z)
}
/// A drift of theta by more standard deviations than this is one that a run has not got over.
pub(super) const DRIFT: f64 = 1.6;
/// Below this acceptance an accept-reject chain stands still.
pub(super) const STUCK: f64 = 0.05;

/// What is known about the quality of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostics {
    /// `ok`, or what is the matter in a word.
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
    /// Evaluations of value and gradients for each particle: of a fit by auto, or of the pass that assessed another.
    #[serde(default)]
    pub evaluations: Option<f64>,
    /// How far each listed component of theta is from the maximum, in standard errors, as an adjusted pass has it.
    #[serde(default)]
    pub distance: Vec<Option<f64>>,
    /// The largest Monte Carlo error of a posterior mean, in units of the standard deviation.
    #[serde(default)]
    pub posterior_error: Option<f64>,
}

/// What auto says of a likelihood that it finds no maximum of.
const NO_MAXIMUM: [&str; 7] =
    ["weakly-identified", "flat", "not-reached", "poor-mixing", "boundary", "still-moving", "runaway"];

impl Diagnostics {
    /// Judges a finished (or interrupted) run, with what an adjusted pass at its estimate tells if there was one.
    pub fn of<F: Real>(
        model: &dyn Model<F>,
        settings: &Settings,
        state: &State<F>,
        assessment: Option<&Assessment>,
    ) -> Self {
        if let Some(auto) = &state.auto {
            let mut diagnostics = Self::of_auto(auto.found(), state.acceptance.rate());
            if let Some(Finding { verdict, advice, .. }) =
                rescale(model, settings, state).filter(|_| auto.found().verdict.is_some())
            {
                (diagnostics.verdict, diagnostics.advice) = (verdict.into(), Some(advice));
            }
            // Where no maximum was found, and the model knows that there may be none, that is why.
            let found = auto.found().verdict.filter(|verdict| NO_MAXIMUM.contains(verdict));
            if let Some(why) = found.and_then(|_| model.boundary()) {
                (diagnostics.verdict, diagnostics.advice) = ("boundary".into(), Some(why));
            }
            return diagnostics;
        }
        let h = settings.step_size_at(state.k.saturating_sub(1));
        let shadow = |h| match settings.averages_clouds() {
            true => shadow_acceptance(model, state, settings.seed, h),
            false => None,
        };
        // Without a cloud theta moves to its limit and stays there: that is neither noise nor a drift.
        let of_listed = |of: &dyn Fn(usize) -> Option<f64>| {
            (0..state.batches.width()).map(|i| of(i).filter(|_| settings.has_cloud())).collect()
        };
        let mut diagnostics = Diagnostics {
            ess: of_listed(&|i| state.batches.ess(i)),
            drift: of_listed(&|i| state.batches.drift(i)),
            acceptance: state.acceptance.rate(),
            shadow_acceptance: shadow(h).map(|s| s.forth.min(s.back)),
            evaluations: assessment.map(|a| a.evaluations),
            distance: assessment.map_or(Vec::new(), in_errors),
            ..Diagnostics::new("ok")
        };
        // Latent variables of networks keep the floor that their automatic step sizes were chosen by.
        let floor = if model.predicts_from_final_cloud() { SHADOW_FLOOR } else { shadow_floor(model.d_x()) };
        let goal = SHADOW_GOAL.max(0.5 * (1.0 + floor));
        let smaller = || {
            let halves = std::iter::successors(Some(h / 2.0), |h| Some(h / 2.0)).take(30);
            let accepted = |h: &f64| shadow(*h).is_some_and(|s| s.forth >= goal);
            // A cloud that is too wide accepts almost any move inwards, so the model's own bound counts too.
            let certified =
                model.curvature().filter(|c| *c > 0.0).map_or(f64::INFINITY, |c| CERTIFIED_STEP / c);
            let safe = settings.auto_step_size(model).min(certified);
            halves.into_iter().find(accepted).map(|h| two_digits(h.min(safe)))
        };
        let hopeless = shadow_of(model.d_x(), HOPELESS_STEP);
        let judge = Judge { model, settings, state, assessment, floor, hopeless, h, smaller: &smaller };
        if let Some(Finding { verdict, advice, step_size }) = judge.first(&diagnostics) {
            diagnostics.verdict = verdict.into();
            diagnostics.advice = Some(advice);
            diagnostics.suggested_step_size = step_size;
        }
        diagnostics
    }

    fn new(verdict: &str) -> Self {
        Diagnostics {
            verdict: verdict.into(),
            advice: None,
            ess: Vec::new(),
            drift: Vec::new(),
            acceptance: None,
            shadow_acceptance: None,
            suggested_step_size: None,
            evaluations: None,
            distance: Vec::new(),
            posterior_error: None,
        }
    }

    /// A fit by auto has judged itself.
    fn of_auto(found: Found<'_>, acceptance: Option<f64>) -> Self {
        let ess = |(se, error): (&f64, &f64)| Some((se / error).powi(2)).filter(|v| v.is_finite());
        Diagnostics {
            advice: match found.verdict {
                Some(_) => found.advice.map(String::from),
                None => Some("the fit was interrupted before its end; go on with `resume()`".into()),
            },
            ess: found.se.iter().zip(found.mc_error).map(ess).collect(),
            acceptance,
            evaluations: Some(found.evaluations),
            posterior_error: found.posterior_error,
            ..Diagnostics::new(found.verdict.unwrap_or("too-short"))
        }
    }

    /// Whether theta was still moving at the end of a run of given steps.
    pub fn is_moving<F: Real>(state: &State<F>) -> bool {
        let batches = &state.batches;
        (0..batches.width()).any(|i| batches.drift(i).is_some_and(|drift| drift.abs() > DRIFT))
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
