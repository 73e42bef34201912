//! What `summary.json` says: one schema, written and read by the same type.

mod posterior;
mod read;

pub(crate) use posterior::{kept_draws, variational_draws};
pub use posterior::{names_of_groups, particles, posterior_moments, quantile};

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::algorithms::VARIATIONAL;
use crate::auto::Assessment;
use crate::files::{Durable, write_atomically};
use crate::metrics::{accumulate, merged};
use crate::model::Predictive;
use crate::settings::{MOST_PARAMETERS, Settings};
use crate::tested::{Predictions, Tested};
use crate::{Diagnostics, Error, LISTED, Model, Real, State};
use posterior::{VARIATIONAL_DRAWS, quantiles};
use read::{maybe_numbers, number, numbers, one, usual_level};

/// The version of the schema.
const SCHEMA: u32 = 2;

/// The outcome of a run in numbers: all that is shown of it. What does not apply is null, and so is what is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The version of the schema.
    pub schema: u32,
    /// The model.
    pub model: String,
    /// The algorithm.
    pub algorithm: String,
    /// Everything that determined the run.
    #[serde(default)]
    pub settings: Value,
    /// The level of all intervals.
    #[serde(default = "usual_level")]
    pub level: f64,
    /// The seed.
    pub seed: u64,
    /// Steps made.
    pub steps: u64,
    /// Particles at the end; null for an algorithm that has none.
    pub particles: Option<usize>,
    /// The step size that the run began with, where particles move.
    pub step_size: Option<f64>,
    /// The number of parameters, listed or not.
    pub d_theta: usize,
    /// The number of latent coordinates of each group, listed or not.
    pub d_x: usize,
    /// The number of groups.
    #[serde(default = "one")]
    pub groups: usize,
    /// Parameter estimates.
    pub theta: ThetaSummary,
    /// The log-likelihood at the estimate.
    #[serde(default)]
    pub log_likelihood: Option<LikelihoodSummary>,
    /// Posterior moments of each latent coordinate.
    pub posterior: Option<PosteriorSummary>,
    /// Predictive performance on the test set.
    pub metrics: Option<Metrics>,
    /// Where classes are predicted: how test rows were told apart.
    #[serde(default)]
    pub test: Option<Tested>,
    /// Means of what the model wants in the trace, over the last pass over all groups.
    #[serde(default)]
    pub scalars: Option<Metrics>,
    /// Which particles predictions are made with.
    pub predict_with: Option<PredictWith>,
    /// What the model wants to be remembered of its data, for later predictions.
    pub data: Option<Value>,
    /// The model in formulas, a line each.
    #[serde(default)]
    pub formula: Vec<String>,
    /// Of a regression: its coefficients, on the scale of the columns and standardised.
    #[serde(default)]
    pub coefficients: Option<Vec<Coefficient>>,
    /// What is known about the quality of the run.
    pub diagnostics: Diagnostics,
    /// Of several runs together: how they compare.
    #[serde(default)]
    pub replicates: Option<ReplicatesSummary>,
    /// The time that the loop took.
    pub time: TimeSummary,
    /// The version of Motes.
    pub version: String,
}

/// How runs of one model compare that differ in seed and start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicatesSummary {
    /// R-hat of each listed component of theta, which is far above 1 where they disagree; null where it is not known.
    pub r_hat: Vec<Option<f64>>,
    /// Each of them.
    pub runs: Vec<ReplicateSummary>,
}

/// One of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicateSummary {
    /// The name of its directory.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// Its own verdict.
    pub verdict: String,
    /// Whether it is one of those that agree and whose answers are pooled.
    pub pooled: bool,
    /// Its estimate of theta.
    #[serde(deserialize_with = "numbers")]
    pub theta: Vec<f64>,
    /// The Monte Carlo error of that.
    pub mc_error: Vec<Option<f64>>,
    /// The log-likelihood there; null where it is not to be had.
    pub log_likelihood: Option<f64>,
    /// The Monte Carlo error of that.
    pub log_likelihood_mc_error: Option<f64>,
}

/// Parameter estimates, for the components that are listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThetaSummary {
    /// A name per component.
    pub names: Vec<String>,
    /// theta_K.
    #[serde(deserialize_with = "numbers")]
    pub last: Vec<f64>,
    /// theta-bar of eq. 13.
    #[serde(default, deserialize_with = "maybe_numbers")]
    pub mean: Option<Vec<f64>>,
    /// The standard error of the estimate, by Louis's identity; empty where it is not known.
    #[serde(default)]
    pub se: Vec<Option<f64>>,
    /// The Monte Carlo error of that.
    #[serde(default)]
    pub se_mc_error: Vec<Option<f64>>,
    /// The Monte Carlo error of the mean: how far another seed may land.
    #[serde(default)]
    pub mc_error: Vec<Option<f64>>,
    /// The confidence interval of each component at [`Summary::level`].
    #[serde(default)]
    pub interval: Vec<Option<[f64; 2]>>,
    /// The covariance matrix of the estimate, for at most [`crate::settings::MOST_PARAMETERS`] parameters.
    #[serde(default)]
    pub covariance: Option<Vec<Vec<Option<f64>>>>,
    /// How much of the information that complete data would hold about each component the data do hold.
    #[serde(default)]
    pub information_share: Vec<Option<f64>>,
}

/// The log-likelihood log p_theta(y) at the estimate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LikelihoodSummary {
    /// Its value; null where it is not to be had.
    pub value: Option<f64>,
    /// Why it is not to be had.
    #[serde(default)]
    pub why_not: Option<String>,
    /// Its Monte Carlo error.
    pub mc_error: Option<f64>,
    /// How it was computed.
    pub method: Option<String>,
    /// Akaike's criterion.
    pub aic: Option<f64>,
    /// The Bayesian criterion, for the n beside it.
    pub bic: Option<f64>,
    /// Groups, or rows of data where there is one group.
    pub n: Option<u64>,
    /// Whether the density has all its constants.
    #[serde(default)]
    pub complete: bool,
}

impl LikelihoodSummary {
    /// Takes a value, and what follows from it for so many parameters.
    pub fn set_value(&mut self, value: Option<f64>, parameters: usize) {
        let d = parameters as f64;
        self.value = value;
        self.aic = value.map(|l| 2.0 * (d - l));
        self.bic = value.zip(self.n).map(|(l, n)| d * libm::log(n as f64) - 2.0 * l);
    }
}

/// Posterior moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PosteriorSummary {
    /// A name per coordinate, group by group.
    pub names: Vec<String>,
    /// A name per group; null where there is one.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// Mean of each coordinate.
    #[serde(deserialize_with = "numbers")]
    pub mean: Vec<f64>,
    /// Variance of each coordinate, pooled over steps and particles.
    #[serde(deserialize_with = "numbers")]
    pub var: Vec<f64>,
    /// The Monte Carlo error of each mean, where it is known.
    #[serde(default)]
    pub mc_error: Option<Vec<Option<f64>>>,
    /// The standard deviation of each coordinate with theta's uncertainty, to first order; the variance is that at the estimate.
    #[serde(default)]
    pub total_sd: Option<Vec<Option<f64>>>,
    /// The 5 %, 50 % and 95 % quantiles of each coordinate over the clouds that are kept, or the last one; null without
    /// particles.
    #[serde(default)]
    pub quantiles: Option<Vec<[Option<f64>; 3]>>,
}

/// A coefficient of a regression, given the estimate of theta.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coefficient {
    /// The class whose odds it moves, where there are more than two.
    #[serde(default)]
    pub class: Option<String>,
    /// The feature, with its level where it is one of a category.
    pub name: String,
    /// On the scale of the columns.
    #[serde(flatten)]
    pub original: Effect,
    /// For features of mean 0 and standard deviation 1; the same where they were taken as they are.
    pub standardised: Effect,
    /// The posterior probability that it has the sign of its mean.
    pub sign_probability: Option<f64>,
}

/// A posterior mean and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The mean.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
    /// The standard deviation.
    #[serde(deserialize_with = "number")]
    pub sd: f64,
    /// The standard deviation with theta's uncertainty, where it is known.
    #[serde(default)]
    pub total_sd: Option<f64>,
    /// The quantiles that leave out as much on both sides, at [`Summary::level`].
    pub interval: Option<[f64; 2]>,
}

/// Predictive performance: numbers by the names that the model gives them, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(pub Vec<(String, f64)>);

impl Metrics {
    /// The metrics of all particles that `memory` has taken into account.
    pub fn of<F: Real>(predictive: &dyn Predictive<F>, memory: &[f64]) -> Self {
        let names = predictive.names();
        let mut values = vec![0.0; names.len()];
        predictive.metrics(memory, &mut values);
        Metrics(names.into_iter().zip(values).collect())
    }

    /// The metric of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }
}

/// Particles of posterior.npz, by the names of their arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictWith {
    /// Those kept after burn-in, or draws from the variational Gaussian.
    Clouds,
    /// The final cloud.
    Particles,
}

impl PredictWith {
    /// The name of the array.
    pub fn array(self) -> &'static str {
        match self {
            PredictWith::Clouds => "clouds",
            PredictWith::Particles => "particles",
        }
    }

    /// The one place where it is decided: test metrics are of the same particles, or of more of their kind.
    fn of<F: Real>(model: &dyn Model<F>, state: &State<F>) -> Option<Self> {
        let variational = !state.remembered(VARIATIONAL).is_empty();
        let kept = !model.predicts_from_final_cloud() && state.kept.rows() > 0;
        match state.cloud.n() {
            0 => None,
            _ if variational || kept => Some(PredictWith::Clouds),
            _ => Some(PredictWith::Particles),
        }
    }
}

/// The time that the loop took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeSummary {
    /// Seconds, over all parts of a resumed run, without test metrics.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Steps per second.
    #[serde(deserialize_with = "number")]
    pub steps_per_second: f64,
    /// Seconds of the adjusted pass that assessed the run, if there was one.
    #[serde(default)]
    pub assess_seconds: Option<f64>,
}

impl Summary {
    /// Summarises a state.
    pub fn of<F: Real>(
        model: &dyn Model<F>,
        settings: &Settings,
        config: Value,
        state: &State<F>,
        seconds: f64,
        assessed: &Assessed,
    ) -> Self {
        let moments = posterior_moments(model, state).filter(|(mean, _)| mean.len() <= LISTED);
        let listed = model.listed();
        let first = |mut values: Vec<f64>| {
            values.truncate(listed);
            values
        };
        let sampled = state.cloud.n() > 0;
        let known = assessed.assessment.as_ref();
        let mean = match &state.auto {
            Some(auto) => Some(auto.found().estimate.to_vec()).filter(|_| auto.found().verdict.is_some()),
            None => state.averages.theta_mean(),
        };
        let se = known.map_or(Vec::new(), |a| finite(&a.se[..listed.min(a.se.len())]));
        let interval = intervals(mean.as_deref().unwrap_or(&state.theta), &se, assessed.level);
        let groups = (model.groups() > 1 && moments.is_some()).then(|| model.group_names());
        let (metrics, predictions) = tested(model, settings, state);
        Summary {
            schema: SCHEMA,
            model: model.name().into(),
            algorithm: settings.algorithm.to_string(),
            settings: config,
            level: assessed.level,
            seed: settings.seed,
            steps: state.k,
            particles: sampled.then_some(state.cloud.n()),
            step_size: (sampled && settings.takes("step-size")).then_some(settings.step_size),
            d_theta: state.theta.len(),
            d_x: model.d_x(),
            groups: model.groups(),
            theta: ThetaSummary {
                names: model.theta_names().into_iter().take(listed).collect(),
                last: state.theta[..listed].to_vec(),
                mean: mean.map(first),
                mc_error: match &state.auto {
                    Some(auto) => finite(auto.found().mc_error),
                    None => (0..state.batches.width())
                        .map(|i| state.batches.variance_of_mean(i).filter(|_| sampled).map(f64::sqrt))
                        .collect(),
                },
                se_mc_error: known.map_or(Vec::new(), |a| finite(&a.se_mc_error[..listed.min(a.se.len())])),
                covariance: known
                    .filter(|a| a.se.len() <= MOST_PARAMETERS)
                    .map(|a| a.covariance.chunks_exact(a.se.len().max(1)).map(finite).collect()),
                information_share: known.map_or(Vec::new(), |a| finite(&a.share[..listed.min(a.se.len())])),
                se,
                interval,
            },
            log_likelihood: likelihood(model, state.theta.len(), known),
            posterior: moments.map(|(mean, var)| PosteriorSummary {
                names: names_of_groups(model.x_names(), groups.as_deref()),
                groups: groups.clone(),
                quantiles: quantiles(settings, state),
                mc_error: of_watched(known, mean.len(), |a, i| a.posterior[i].mc_error, state.auto.is_some()),
                total_sd: known.and_then(|a| a.added.as_ref()).filter(|added| added.len() == var.len()).map(
                    |added| {
                        var.iter()
                            .zip(added)
                            .map(|(v, a)| Some((v + a).sqrt()).filter(|v| v.is_finite()))
                            .collect()
                    },
                ),
                mean,
                var,
            }),
            metrics,
            test: predictions.as_ref().and_then(|p| p.tested()),
            scalars: None,
            predict_with: PredictWith::of(model, state),
            data: None,
            formula: Vec::new(),
            coefficients: None,
            diagnostics: Diagnostics::of(model, settings, state, known),
            replicates: None,
            time: TimeSummary {
                seconds,
                steps_per_second: state.k as f64 / seconds,
                assess_seconds: assessed.seconds,
            },
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// The text of summary.json.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a summary is plain data") + "\n"
    }

    /// Writes summary.json into a run directory.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let text = self.to_json();
        write_atomically(&dir.join("summary.json"), Durable::No, |out| out.write_all(text.as_bytes()))
    }

    /// The smallest effective sample size of any component of theta.
    pub fn least_ess(&self) -> Option<f64> {
        self.diagnostics.ess.iter().flatten().copied().reduce(f64::min)
    }

    /// How many rows the model was tested on, if it says so.
    pub fn test_rows(&self) -> Option<u64> {
        self.data.as_ref()?.get("test_rows")?.as_u64()
    }
}

/// What is known of a run besides its state: standard errors and more, by its own account or by an adjusted pass.
#[derive(Clone, Debug)]
pub struct Assessed {
    /// What is known.
    pub assessment: Option<Assessment>,
    /// Seconds that a pass for it took.
    pub seconds: Option<f64>,
    /// The level of intervals.
    pub level: f64,
}

impl Default for Assessed {
    fn default() -> Self {
        Assessed { assessment: None, seconds: None, level: usual_level() }
    }
}

/// Numbers that are known.
fn finite(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().map(|v| Some(*v).filter(|v| v.is_finite())).collect()
}

/// Intervals around estimates, of so many standard errors as the level asks for.
pub fn intervals(estimate: &[f64], se: &[Option<f64>], level: f64) -> Vec<Option<[f64; 2]>> {
    let z = normal_quantile(0.5 + 0.5 * level);
    se.iter().zip(estimate).map(|(se, t)| se.map(|se| [t - z * se, t + z * se])).collect()
}

fn of_watched(
    known: Option<&Assessment>,
    len: usize,
    of: impl Fn(&Assessment, usize) -> f64,
    own: bool,
) -> Option<Vec<Option<f64>>> {
    let known = known.filter(|a| own && a.posterior.len() == len)?;
    Some((0..len).map(|i| Some(of(known, i)).filter(|v| v.is_finite())).collect())
}

fn likelihood<F: Real>(
    model: &dyn Model<F>,
    parameters: usize,
    known: Option<&Assessment>,
) -> Option<LikelihoodSummary> {
    let n = if model.groups() > 1 { Some(model.groups()) } else { model.data_terms() }.map(|n| n as u64);
    let found = &known?.log_likelihood;
    let mut summary = LikelihoodSummary {
        value: None,
        why_not: found.as_ref().err().cloned(),
        mc_error: found.as_ref().ok().map(|l| l.mc_error).filter(|v| v.is_finite()),
        method: found.as_ref().ok().map(|l| l.method.clone()),
        aic: None,
        bic: None,
        n,
        complete: found.as_ref().is_ok_and(|l| l.complete),
    };
    summary.set_value(found.as_ref().ok().map(|l| l.value).filter(|v| v.is_finite()), parameters);
    Some(summary)
}

/// The quantile of the standard normal distribution, to nine digits (Acklam's rational approximations).
fn normal_quantile(p: f64) -> f64 {
    let polynomial = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, c| sum * x + c);
    const A: [f64; 6] = [
        -39.696_830_286_653_76,
        220.946_098_424_520_5,
        -275.928_510_446_968_7,
        138.357_751_867_269,
        -30.664_798_066_147_16,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -54.476_098_798_224_06,
        161.585_836_858_040_9,
        -155.698_979_859_886_6,
        66.801_311_887_719_72,
        -13.280_681_552_885_72,
        1.0,
    ];
    const C: [f64; 6] = [
        -0.007_784_894_002_430_293,
        -0.322_396_458_041_136_5,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        0.007_784_695_709_041_462,
        0.322_467_129_070_039_8,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    match p.min(1.0 - p) {
        tail if tail <= 0.0 => f64::INFINITY.copysign(p - 0.5),
        tail if tail < 0.024_25 => {
            let q = (-2.0 * libm::log(tail)).sqrt();
            let z = polynomial(&C, q) / polynomial(&D, q);
            if p < 0.5 { z } else { -z }
        }
        _ => {
            let (q, r) = (p - 0.5, (p - 0.5) * (p - 0.5));
            q * polynomial(&A, r) / polynomial(&B, r)
        }
    }
}

/// Predictive metrics on the test set, and the predictions where classes are told apart: of all averaged clouds, of the final one,
/// or of draws from the variational Gaussian.
fn tested<F: Real>(
    model: &dyn Model<F>,
    settings: &Settings,
    state: &State<F>,
) -> (Option<Metrics>, Option<Predictions>) {
    let Some(predictive) = model.predictive() else { return (None, None) };
    let mut memory;
    let memory: &[f64] = if !state.remembered(VARIATIONAL).is_empty() {
        memory = vec![0.0; predictive.state_len()];
        // Where one cloud is enough to predict with, so are the draws that are kept.
        let draws = if model.predicts_from_final_cloud() { kept_draws(state) } else { VARIATIONAL_DRAWS };
        variational_draws(settings, state, draws, |x| predictive.accumulate(x, &mut memory));
        &memory
    } else if model.predicts_from_final_cloud() {
        memory = vec![0.0; state.predictive.len()];
        accumulate(predictive, state.averages.leaves(), &state.cloud, &mut memory);
        merged(predictive, &mut memory)
    } else if state.averages.counts.iter().any(|count| *count > 0.0) {
        memory = state.predictive.clone();
        merged(predictive, &mut memory)
    } else {
        return (None, None);
    };
    let mut metrics = Metrics::of(predictive, memory);
    let predictions = predictive.predictions(memory);
    if let Some(p) = &predictions {
        metrics.0.push(("brier".into(), p.brier()));
        metrics.0.extend(p.auc().map(|auc| ("auc".into(), auc)));
    }
    (Some(metrics), predictions)
}

#[cfg(test)]
mod tests {
    use super::normal_quantile;

    #[test]
    fn quantiles_of_the_normal_distribution() {
        // Of tables, to nine digits.
        for (p, z) in [
            (0.5, 0.0),
            (0.9, 1.281_551_566),
            (0.975, 1.959_963_985),
            (0.995, 2.575_829_304),
            (0.0005, -3.290_526_731),
        ] {
            assert!((normal_quantile(p) - z).abs() < 5e-9, "{p}: {}", normal_quantile(p));
        }
    }
}
