//! What `summary.json` says.

use serde::Serialize;

use crate::kept::{MAX_BYTES, MAX_PARTICLES};
use crate::moves::{draw, softplus};
use crate::noise::{Noise, Purpose};
use crate::settings::Settings;
use crate::{Diagnostics, Model, Real, State};

/// Posterior moments are listed up to this many coordinates; beyond, they are in posterior.npz alone.
const LISTED: usize = 1000;

/// The outcome of a run in numbers. What does not apply is null.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The model.
    pub model: String,
    /// The algorithm.
    pub algorithm: String,
    /// Everything that determined the run.
    pub settings: serde_json::Value,
    /// The seed.
    pub seed: u64,
    /// Steps made.
    pub steps: u64,
    /// Parameter estimates.
    pub theta: ThetaSummary,
    /// Posterior moments of each latent coordinate.
    pub posterior: Option<PosteriorSummary>,
    /// Predictive performance on the test set.
    pub metrics: Option<Metrics>,
    /// What the model wants to be remembered of its data, for later predictions.
    pub data: Option<serde_json::Value>,
    /// What is known about the quality of the run.
    pub diagnostics: Diagnostics,
    /// The time that the loop took.
    pub time: TimeSummary,
    /// The version of Motes.
    pub version: &'static str,
}

/// Parameter estimates.
#[derive(Clone, Debug, Serialize)]
pub struct ThetaSummary {
    /// A name per component.
    pub names: Vec<String>,
    /// theta_K.
    pub last: Vec<f64>,
    /// theta-bar of eq. estimators.
    pub mean: Option<Vec<f64>>,
}

/// Posterior moments.
#[derive(Clone, Debug, Serialize)]
pub struct PosteriorSummary {
    /// Mean of each coordinate.
    pub mean: Vec<f64>,
    /// Variance of each coordinate, pooled over steps and particles.
    pub var: Vec<f64>,
}

/// Predictive performance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// The fraction of test points that are misclassified.
    pub test_error: f64,
    /// The mean log pointwise predictive density.
    pub lppd: f64,
}

/// The time that the loop took.
#[derive(Clone, Debug, Serialize)]
pub struct TimeSummary {
    /// Seconds, over all parts of a resumed run, without test metrics.
    pub seconds: f64,
    /// Steps per second.
    pub steps_per_second: f64,
}

impl Summary {
    /// Summarises a state.
    pub fn of<F: Real>(
        model: &dyn Model<F>,
        settings: &Settings,
        config: serde_json::Value,
        state: &State<F>,
        seconds: f64,
    ) -> Self {
        let moments = posterior_moments(model, state).filter(|(mean, _)| mean.len() <= LISTED);
        Summary {
            model: model.name().into(),
            algorithm: settings.algorithm.to_string(),
            settings: config,
            seed: settings.seed,
            steps: state.k,
            theta: ThetaSummary {
                names: model.theta_names(),
                last: state.theta.clone(),
                mean: state.averages.theta_mean(),
            },
            posterior: moments.map(|(mean, var)| PosteriorSummary { mean, var }),
            metrics: metrics(model, settings, state),
            data: None,
            diagnostics: Diagnostics::of(model, settings, state),
            time: TimeSummary { seconds, steps_per_second: state.k as f64 / seconds },
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Mean and variance of each latent coordinate: of the averaged clouds, of the variational Gaussian, or exact.
pub fn posterior_moments<F: Real>(model: &dyn Model<F>, state: &State<F>) -> Option<(Vec<f64>, Vec<f64>)> {
    if !state.variational.is_empty() {
        let (mu, s) = state.variational[..2 * model.d_x()].split_at(model.d_x());
        return Some((mu.to_vec(), s.iter().map(|s| softplus(*s)).collect()));
    }
    if state.cloud.n() > 0 {
        return state.averages.posterior();
    }
    model.exact_em().map(|em| {
        let (mut mean, mut variance) = (vec![0.0; model.d_x()], vec![0.0; model.d_x()]);
        em.posterior(&state.theta, &mut mean, &mut variance);
        (mean, variance)
    })
}

/// Predictive metrics on the test set: of all averaged clouds, or of draws from the variational Gaussian.
fn metrics<F: Real>(model: &dyn Model<F>, settings: &Settings, state: &State<F>) -> Option<Metrics> {
    let predictive = model.predictive()?;
    if !state.variational.is_empty() {
        // Where one cloud is enough to predict with, so are the draws that are kept.
        let draws = if predictive.final_cloud_only() { kept_draws(state) } else { VARIATIONAL_DRAWS };
        let mut memory = vec![0.0; predictive.state_len()];
        variational_draws(settings, state, draws, |x| predictive.accumulate(x, &mut memory));
        return Some(predictive.metrics(&memory));
    }
    if predictive.final_cloud_only() {
        let mut memory = vec![0.0; predictive.state_len()];
        predictive.accumulate(state.cloud.as_slice(), &mut memory);
        return Some(predictive.metrics(&memory));
    }
    (state.averages.particles > 0).then(|| predictive.metrics(&state.predictive))
}

/// The paper draws this many times from the variational Gaussian to predict.
const VARIATIONAL_DRAWS: usize = 20_100;

/// How many draws from the variational Gaussian are kept as its clouds.
pub(crate) fn kept_draws<F: Real>(state: &State<F>) -> usize {
    MAX_PARTICLES.min(MAX_BYTES / (state.cloud.d() * size_of::<F>()).max(1)).max(1)
}

/// Hands out draws from the variational Gaussian, a few at a time.
pub(crate) fn variational_draws<F: Real>(
    settings: &Settings,
    state: &State<F>,
    count: usize,
    mut take: impl FnMut(&[F]),
) {
    const CHUNK: usize = 100;
    let d = state.cloud.d();
    let (mu, s) = state.variational[..2 * d].split_at(d);
    let noise = Noise::new(settings.seed, Purpose::Variational);
    let mut x = vec![F::of(0.0); CHUNK.min(count) * d];
    for (step, first) in (0..count).step_by(CHUNK).enumerate() {
        let x = &mut x[..CHUNK.min(count - first) * d];
        draw(&noise, step as u64, mu, s, x);
        take(x);
    }
}
