//! What may be wrong with a run of given steps, most telling first.

use super::verdict::{DRIFT, Diagnostics, STUCK};
use crate::auto::{Assessment, Sizes};
use crate::moves::Move;
use crate::printable::Number;
use crate::run::two_digits;
use crate::sentence::foreign;
use crate::settings::{Settings, StepDecay};
use crate::summary::posterior_moments;
use crate::{Model, Real, State};

/// Fewer effective draws of theta than this say nothing.
const LEAST_ESS: f64 = 10.0;
/// As many times the number of batches that it was computed from are not enough either: a steady drift has about one.
const LEAST_OF_BATCHES: f64 = 1.5;
/// Particles that accept fewer of their own moves than this hardly explore anything.
const SLOW: f64 = 0.12;
/// A step that an accept-reject step would keep so often is a very small one.
const TINY: f64 = 0.9999;
/// All steps after burn-in together should be worth as many usual ones: half of 1 over the largest curvature each.
const LEAST_TIME: f64 = 10.0;
/// Theta may be this far from the maximum, in standard errors.
const DISTANCE: f64 = 0.2;
/// Standard deviations may be off by this much of themselves, means by this much of those.
const SPREAD: f64 = 0.1;
const SHIFT: f64 = 0.2;
/// What a run's own moments are uncertain by, at the least.
const OWN_NOISE: f64 = 0.05;
/// Posteriors whose standard deviation is fewer than this many roundings of their mean cannot be told.
const ROUNDINGS: f64 = 100.0;

/// What was found.
pub(super) struct Finding {
    pub verdict: &'static str,
    pub advice: String,
    pub step_size: Option<f64>,
}

/// Who looks for it.
pub(super) struct Judge<'a, F: Real> {
    pub model: &'a dyn Model<F>,
    pub settings: &'a Settings,
    pub state: &'a State<F>,
    pub assessment: Option<&'a Assessment>,
    /// The shadow acceptance that certifies standard deviations.
    pub floor: f64,
    /// That below which they are far off, whatever else is known.
    pub hopeless: f64,
    pub h: f64,
    pub smaller: &'a dyn Fn() -> Option<f64>,
}

/// The distance of each component from the maximum, in standard errors.
pub(super) fn in_errors(a: &Assessment) -> Vec<Option<f64>> {
    let ratio = |(distance, se): (&f64, &f64)| Some(distance / se).filter(|v| v.is_finite());
    a.distance.iter().zip(&a.se).map(ratio).collect()
}

fn finding(verdict: &'static str, advice: String) -> Option<Finding> {
    Some(Finding { verdict, advice, step_size: None })
}

/// Two digits of a number.
fn rounded(value: f64) -> Number {
    Number(format!("{value:.1e}").parse().unwrap_or(value))
}

/// Numbers of this precision that lie so close together that they cannot be told apart.
pub(super) fn rescale<F: Real>(
    model: &dyn Model<F>,
    settings: &Settings,
    state: &State<F>,
) -> Option<Finding> {
    let (mean, var) = posterior_moments(model, state).filter(|_| settings.has_cloud())?;
    let epsilon = if size_of::<F>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let (d, leaves) = (model.d_x(), state.averages.leaves().count);
    // A group of which a single particle was averaged has no spread yet.
    let draws = |g: usize| state.averages.counts.chunks_exact(leaves).nth(g).map(|of| of.iter().sum::<f64>());
    let coarse =
        |i: &usize| var[*i].sqrt() < ROUNDINGS * epsilon * mean[*i].abs() && draws(i / d) != Some(1.0);
    let i = (0..mean.len()).find(coarse)?;
    let (name, precision) = (model.x_names().get(i % d).cloned().unwrap_or_default(), F::NAME);
    let name = foreign(&name);
    let other = if size_of::<F>() == 4 { ", or use `precision=f64`" } else { "" };
    finding(
        "rescale",
        format!(
            "{name} lies around {} with a standard deviation of {}, which {precision} can hardly resolve; subtract a constant from the data{other}",
            rounded(mean[i]),
            rounded(var[i].sqrt())
        ),
    )
}

impl<F: Real> Judge<'_, F> {
    /// The most telling of what is wrong, if anything is.
    pub fn first(&self, d: &Diagnostics) -> Option<Finding> {
        rescale(self.model, self.settings, self.state)
            .or_else(|| self.low_acceptance(d))
            .or_else(|| self.standing_still(d))
            .or_else(|| self.too_short(d))
            .or_else(|| self.too_large(d))
            .or_else(|| self.still_moving(d))
            .or_else(|| self.assessed(d))
    }

    fn remedy(&self, suggestion: Option<f64>) -> String {
        match suggestion {
            Some(h) => format!("try `step-size={}`", Number(h)),
            None => "try a much smaller `step-size`".into(),
        }
    }

    fn low_acceptance(&self, d: &Diagnostics) -> Option<Finding> {
        let rate = self.state.acceptance.worst_window.or(d.acceptance)?;
        // A cloud that leaps back and forth may accept everything while no fresh move would be accepted.
        let cycles = d.shadow_acceptance.is_some_and(|shadow| shadow < STUCK) && !self.accepts_whole_clouds();
        let all = d.acceptance.unwrap_or(rate);
        let slow = all < SLOW && !self.accepts_whole_clouds();
        if rate >= STUCK && !cycles && !slow {
            return None;
        }
        // Accepting the whole cloud at once degenerates with N and D_x: a step that suits one particle may not do.
        let suggestion = (self.smaller)().or(Some(two_digits(self.h / 4.0)));
        let (rate, what) = match rate < STUCK {
            true => (rate, "of moves were accepted"),
            false if slow => (all, "of moves were accepted"),
            false => (d.shadow_acceptance.unwrap_or(0.0), "of fresh moves would be accepted"),
        };
        Some(Finding {
            verdict: "low-acceptance",
            advice: format!(
                "only {:.1} % {what} with h = {}, so the cloud hardly moves; {}",
                100.0 * rate,
                Number(self.h),
                self.remedy(suggestion)
            ),
            step_size: suggestion,
        })
    }

    fn accepts_whole_clouds(&self) -> bool {
        self.settings.composition().movement == Move::WholeCloud
    }

    /// How long every group moved after burn-in: the sum of its step sizes.
    fn time(&self) -> f64 {
        let (from, to) = (self.settings.burn_in.min(self.state.k) as f64, self.state.k as f64);
        let time = match self.settings.step_decay {
            None => self.settings.step_size * (to - from),
            // The integral of (1 + k/k0)^-p.
            Some(StepDecay { power, scale }) => {
                let [a, b] = [from, to].map(|k| libm::log1p(k / scale));
                let p = 1.0 - power;
                let sum = if p.abs() < 1e-9 { b - a } else { (libm::expm1(p * b) - libm::expm1(p * a)) / p };
                self.settings.step_size * scale * sum
            }
        };
        self.share_of_groups().unwrap_or(1.0) * time
    }

    /// The share of the groups that a step moves, where it does not move all.
    fn share_of_groups(&self) -> Option<f64> {
        let groups = self.model.groups();
        self.settings
            .batch
            .filter(|batch| groups > 1 && *batch < groups)
            .map(|batch| batch as f64 / groups as f64)
    }

    /// Steps so small that even the steepest direction of a cloud takes longer than the run to move.
    fn standing_still(&self, d: &Diagnostics) -> Option<Finding> {
        d.shadow_acceptance.filter(|rate| *rate > TINY)?;
        let usual = self.settings.auto_step_size(self.model);
        let time = self.time();
        if time >= LEAST_TIME * usual {
            return None;
        }
        let slower = if self.settings.step_decay.is_some() { " with a slower `step-decay`" } else { "" };
        let advice = format!(
            "all steps after burn-in together are worth {} of an ordinary one, so the cloud stands still; try `step-size={}`{slower}",
            rounded(time / usual),
            Number(two_digits(usual))
        );
        Some(Finding { verdict: "standing-still", advice, step_size: Some(two_digits(usual)) })
    }

    fn too_short(&self, d: &Diagnostics) -> Option<Finding> {
        let batches = &self.state.batches;
        let more = self.settings.steps.saturating_mul(4).max(100);
        let count = batches.count;
        if !self.settings.has_cloud() {
            let still = (0..batches.width()).all(|i| {
                let mean = batches.spread[2 * i];
                (self.state.theta[i] - mean).abs() <= 1e-6 * (1.0 + mean.abs())
            });
            return match still && count >= 2 {
                true => None,
                false => finding(
                    "still-moving",
                    format!("theta was still moving at the last step; run again with `steps={more}` or more"),
                ),
            };
        }
        if count >= 16 && (0..batches.width()).any(|i| batches.variance(i) == 0.0) {
            return finding(
                "standing-still",
                format!(
                    "theta did not move at all after burn-in; try a larger step size than {}",
                    Number(self.h)
                ),
            );
        }
        let unknown =
            d.drift.iter().any(Option::is_none) || d.ess.iter().any(Option::is_none) || d.drift.is_empty();
        if unknown {
            return finding(
                "too-short",
                format!(
                    "there are too few steps after burn-in to say whether theta still moves; run again with `steps={more}` or more"
                ),
            );
        }
        // The noise of mini-batches hides a steady drift, and no adjusted pass follows them.
        let (share, usual) = (self.share_of_groups()?, 0.5 / self.model.curvature().filter(|c| *c > 0.0)?);
        let worth = self.time() / usual;
        if self.assessment.is_some() || worth >= LEAST_TIME {
            return None;
        }
        finding(
            "too-short",
            format!(
                "after burn-in each group moved in {:.0} % of the steps, which are worth {} ordinary ones: too few to forget where it started; run again with `steps={more}` or more",
                100.0 * share,
                rounded(worth)
            ),
        )
    }

    /// Steps that leave the cloud too wide, as far as can be told without a pass that is adjusted.
    fn too_large(&self, d: &Diagnostics) -> Option<Finding> {
        let rate = d.shadow_acceptance.filter(|a| d.acceptance.is_none() && *a < self.floor)?;
        if self.model.predicts_from_final_cloud() {
            return finding(
                "predictions-only",
                format!(
                    "the weights of a network are not sampled exactly at h = {} (an accept-reject step would keep {:.0} % of moves): trust its predictions as far as the test set bears them out, not the spread of single weights",
                    Number(self.h),
                    100.0 * rate
                ),
            );
        }
        if rate >= self.hopeless && self.assessment.is_some_and(|a| a.sound) {
            return None; // which compares the spreads themselves
        }
        let suggestion = (self.smaller)();
        Some(Finding {
            verdict: "step-too-large",
            advice: format!(
                "h = {} is too large for these posteriors (an accept-reject step would keep {:.0} % of moves), so the cloud is biased; {}",
                Number(self.h),
                100.0 * rate,
                self.remedy(suggestion)
            ),
            step_size: suggestion,
        })
    }

    fn still_moving(&self, d: &Diagnostics) -> Option<Finding> {
        let more = self.settings.steps.saturating_mul(4);
        if let Some((i, drift)) = d.worst_drift().filter(|(_, drift)| drift.abs() > DRIFT) {
            let faster = match self.model.m_step().is_some() && !self.settings.theta_is_computed() {
                true => ", or use `algorithm=pmgd`, whose theta follows the particles at once",
                false => "",
            };
            let names = self.model.theta_names();
            // A search from the estimate tells what is on its way from what has nowhere to arrive.
            if let Some(j) = self.assessment.and_then(|a| a.runs_away) {
                let (name, to) = (foreign(&names[j]), rounded(self.state.theta[j]));
                let up = d.drift.get(j).copied().flatten().unwrap_or(drift) > 0.0;
                return finding(
                    "runaway",
                    format!(
                        "{name} reached {to} and does not converge: a search from the estimate goes on to {}; bound that parameter, or leave out what it stands for",
                        if up { "infinity" } else { "minus infinity" }
                    ),
                );
            }
            let name = foreign(&names[i]);
            let advice = format!(
                "{name} was still moving after burn-in (its second half lies {:.1} standard deviations from its first); run again with `steps={more}` or more{faster}",
                drift.abs()
            );
            return finding("still-moving", advice);
        }
        // Where the distance from the maximum is known, it says more.
        let assessed = self.assessment.is_some_and(|a| a.sound);
        let batches = if assessed { 0 } else { self.state.batches.fewest_batches() };
        let enough = LEAST_ESS.max(LEAST_OF_BATCHES * batches as f64);
        let least = d.ess.iter().flatten().copied().reduce(f64::min).filter(|ess| *ess < enough)?;
        finding(
            "too-short",
            format!(
                "the steps after burn-in are worth {} independent values of theta, too few to judge; run again with `steps={more}` or more",
                rounded(least)
            ),
        )
    }

    /// What the adjusted pass says.
    fn assessed(&self, d: &Diagnostics) -> Option<Finding> {
        let a = self.assessment?;
        let better = "use `algorithm=auto`, which has no such error";
        if !a.sound {
            return finding(
                "poor-mixing",
                "the particles of the adjusted pass disagree, so some are stuck in different modes: the posterior has several, and no algorithm here visits them all".into(),
            );
        }
        let (names, unadjusted) = (self.model.theta_names(), d.acceptance.is_none());
        let far = a.distance.iter().zip(&a.se).zip(&a.distance_mc_error).enumerate().filter_map(
            |(i, ((way, se), error))| {
                let far = way.abs() / se;
                (far > DISTANCE + 2.0 * error / se).then_some((i, far))
            },
        );
        if let Some((i, far)) = far.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            let name = foreign(names.get(i).map_or("theta", |name| name));
            let advice = format!(
                "{name} is {} standard errors from the maximum of the likelihood; {better}",
                rounded(far)
            );
            return finding("biased", advice);
        }
        let (mean, var) = posterior_moments(self.model, self.state)?;
        let sizes = Sizes::of(self.model, 1);
        let (mut logs, mut worst, mut shifted) = (0.0, (0.0f64, 0.0f64), 0.0f64);
        let mut count = 0.0;
        for (i, pass) in a.posterior.iter().enumerate().filter(|(_, pass)| pass.sd > 0.0) {
            let at = sizes.coordinate(i);
            let (log, noise) = (0.5 * libm::log(var[at] / (pass.sd * pass.sd)), pass.mc_error / pass.sd);
            let noise_of_sd = (0.5 * noise * noise + OWN_NOISE * OWN_NOISE).sqrt();
            let excess = log.abs() - SPREAD - 4.0 * noise_of_sd;
            if excess > worst.0 {
                worst = (excess, log);
            }
            shifted =
                shifted.max((mean[at] - pass.mean).abs() / pass.sd - 4.0 * libm::hypot(noise, OWN_NOISE));
            logs += log;
            count += 1.0;
        }
        let typical = if count > 0.0 { logs / count } else { 0.0 };
        let log = if worst.0 > 0.0 { worst.1 } else { typical };
        if worst.0 > 0.0 || typical.abs() > SPREAD {
            let percent = 100.0 * (libm::exp(log) - 1.0);
            let spread = format!(
                "posterior standard deviations are up to {:.0} % too {}",
                percent.abs().min(1e6),
                if log > 0.0 { "large" } else { "small" }
            );
            if self.settings.composition().movement == Move::Variational {
                return finding(
                    "biased",
                    format!("{spread}, because the Gaussian has no correlations; {better}"),
                );
            }
            if let Move::Transitions { count, fresh: true } = self.settings.composition().movement {
                return finding(
                    "biased",
                    format!(
                        "{spread}, because `transitions={count}` are too few to get from the prior to the posterior; make more of them, or {better}"
                    ),
                );
            }
            let h = self.h;
            return match log > 0.0 {
                true if unadjusted => {
                    let suggestion = (self.smaller)().filter(|smaller| *smaller < h);
                    Some(Finding {
                        verdict: "step-too-large",
                        advice: format!(
                            "{spread} with h = {}; {} or {better}",
                            Number(h),
                            self.remedy(suggestion)
                        ),
                        step_size: suggestion,
                    })
                }
                false => finding(
                    "standing-still",
                    format!(
                        "{spread}, because the cloud has not spread yet with h = {}; run longer, or {better}",
                        Number(h)
                    ),
                ),
                true => finding("biased", format!("{spread}; run longer, or {better}")),
            };
        }
        if shifted > SHIFT {
            return finding(
                "biased",
                format!(
                    "a posterior mean is {} standard deviations off; run longer, or {better}",
                    rounded(shifted)
                ),
            );
        }
        None
    }
}
