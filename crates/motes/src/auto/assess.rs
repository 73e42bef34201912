//! An adjusted pass at a theta that another algorithm has found: its standard errors, its distance from the maximum, the
//! posterior there and the log-likelihood.

use super::{Fitter, Sizes, Stage, Watched, log_likelihood};
use crate::algorithms::AUTO;
use crate::auto::LogLikelihood;
use crate::settings::{InitParticles, InitTheta, Settings};
use crate::{Cloud, Error, Model, Real, State, Team};

/// Particles of the pass.
const PARTICLES: usize = 32;
/// Evaluations that it may take, for each particle.
const EVALUATIONS: u64 = 4000;
/// The Monte Carlo error of the distance that is aimed at, in standard errors.
const TOLERANCE: f64 = 0.07;

/// What such a pass tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// The standard errors of theta, their Monte Carlo errors, and the share of information in the data.
    pub se: Vec<f64>,
    /// See `se`.
    pub se_mc_error: Vec<f64>,
    /// See `se`.
    pub share: Vec<f64>,
    /// The inverse of the observed information.
    pub covariance: Vec<f64>,
    /// The way from theta to the maximum by one Newton step, and its Monte Carlo error.
    pub distance: Vec<f64>,
    /// See `distance`.
    pub distance_mc_error: Vec<f64>,
    /// Mean, its Monte Carlo error and standard deviation of the coordinates that are watched, as [`Sizes::coordinate`] has them.
    pub posterior: Vec<Watched>,
    /// What theta's uncertainty adds to the variance of each, where that is known.
    pub added: Option<Vec<f64>>,
    /// The log-likelihood, or why there is none.
    pub log_likelihood: Result<LogLikelihood, String>,
    /// Evaluations of value and gradients, for each particle.
    pub evaluations: f64,
    /// Whether the particles agree with each other.
    pub sound: bool,
    /// The component of theta that goes to infinity, if that is known.
    pub runs_away: Option<usize>,
}

impl Assessment {
    /// What a fit by auto knows of itself.
    pub fn of_fit<F: Real>(model: &dyn Model<F>, state: &State<F>, seed: u64) -> Option<Self> {
        let memory = state.auto.as_ref()?;
        let (found, sizes) = (memory.found(), Sizes::of(model, state.cloud.n()));
        Some(Assessment {
            se: found.se.to_vec(),
            se_mc_error: found.se_mc_error.to_vec(),
            share: found.share.to_vec(),
            covariance: found.covariance.to_vec(),
            distance: vec![0.0; found.se.len()],
            distance_mc_error: found.mc_error.to_vec(),
            posterior: memory.watched(sizes.n, state.k).unwrap_or_default(),
            added: memory.added_variances(sizes, state.k),
            log_likelihood: log_likelihood(model, state, seed),
            evaluations: found.evaluations,
            sound: found.verdict != Some("poor-mixing"),
            runs_away: found.runs_away,
        })
    }
}

/// Whether a model can be assessed after a run with these settings; else why not.
pub fn can_assess<F: Real>(model: &dyn Model<F>, settings: &Settings) -> Result<(), String> {
    if settings.batch.is_some() {
        return Err("mini-batches were asked for, and it takes all data".into());
    }
    let settings = Settings { algorithm: &AUTO, particles: PARTICLES, ..settings.clone() };
    settings.check_auto(model).map_err(|e| e.to_string())
}

/// Makes the pass at theta, from some particles of a cloud or, where it is empty, from the prior. Nothing comes of it if it is
/// stopped. Must be called inside [`crate::Pool::install`].
pub fn assess<'m, F: Real>(
    model: &'m dyn Model<F>,
    settings: &Settings,
    theta: &[f64],
    cloud: &Cloud<F>,
    team: impl Into<Team<'m>>,
    stopped: impl Fn() -> bool,
) -> Result<Option<Assessment>, Error> {
    let (settings, mut state) = beginning(model, settings, theta, cloud);
    if let Some(memory) = &mut state.auto {
        memory.progress.fixed = true;
    }
    let mut fitter = Fitter::new(model, &settings, team.into());
    while !state.is_over(&settings) {
        if stopped() {
            return Ok(None);
        }
        match fitter.step(&mut state) {
            Err(Error::Stopped) => return Ok(None),
            Err(e) => return Err(e),
            Ok((_, averaging)) => {
                if averaging == super::Averaging::Anew {
                    state.average_anew(&settings);
                }
                if averaging != super::Averaging::No {
                    state.kept.offer(state.k, &state.cloud);
                }
            }
        }
    }
    let Some(mut assessment) = Assessment::of_fit(model, &state, settings.seed) else { return Ok(None) };
    if let Some(memory) = &state.auto {
        let newton = memory.newton.tail_mean();
        assessment.distance = newton.iter().zip(theta).map(|(n, t)| n - t).collect();
    }
    Ok(Some(assessment))
}

/// The component of theta that goes to infinity in a search from this theta, if one does; nothing is known if it is stopped. Must be
/// called inside [`crate::Pool::install`].
pub fn runs_away<'m, F: Real>(
    model: &'m dyn Model<F>,
    settings: &Settings,
    theta: &[f64],
    cloud: &Cloud<F>,
    team: impl Into<Team<'m>>,
    stopped: impl Fn() -> bool,
) -> Option<usize> {
    let (settings, mut state) = beginning(model, settings, theta, cloud);
    let mut fitter = Fitter::new(model, &settings, team.into());
    loop {
        if stopped() {
            return None;
        }
        fitter.step(&mut state).ok()?;
        let found = state.auto.as_ref()?.found();
        if found.stage != Stage::Search || found.verdict.is_some() {
            return found.runs_away;
        }
    }
}

/// Where such a pass begins: settings of its own, and a cloud made of another.
fn beginning<F: Real>(
    model: &dyn Model<F>,
    settings: &Settings,
    theta: &[f64],
    cloud: &Cloud<F>,
) -> (Settings, State<F>) {
    let settings = Settings {
        algorithm: &AUTO,
        particles: PARTICLES,
        tolerance: TOLERANCE,
        max_evaluations: EVALUATIONS,
        init_theta: InitTheta::Vector(theta.to_vec()),
        init_particles: InitParticles::unless_told(model.prior().is_some()),
        seed: settings.seed,
        ..Settings::default()
    };
    let mut state = State::initial(model, &settings);
    let n = if cloud.as_slice().is_empty() { 0 } else { cloud.n() };
    for (row, to) in state.cloud.as_mut_slice().chunks_exact_mut(model.d_x()).enumerate() {
        let (group, particle) = (row / PARTICLES, row % PARTICLES);
        if n > 0 {
            // Of more particles, some at even distances; of fewer, each several times.
            let from = if n >= PARTICLES { particle * n / PARTICLES } else { particle % n };
            to.copy_from_slice(cloud.row(group, from));
        }
    }
    (settings, state)
}
