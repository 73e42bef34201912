//! The whole truth of a run between two steps: what a checkpoint holds. Randomness has no state at all.

use serde::{Deserialize, Serialize};

use crate::moves::Move;
use crate::noise::{Noise, Purpose};
use crate::settings::{InitParticles, Settings};
use crate::{Averages, BatchMeans, KeptClouds, Model, Particles, Real};

/// Where a run stands after k steps.
#[derive(Clone, Debug, PartialEq)]
pub struct State<F> {
    /// Steps made so far.
    pub k: u64,
    /// theta_k.
    pub theta: Vec<f64>,
    /// X_k^{1:N}; empty for EM.
    pub cloud: Particles<F>,
    /// What an adaptive preconditioner remembers.
    pub memory: Vec<f64>,
    /// The means and the (unconstrained) variances s of a variational Gaussian, D_x of each, and what Adam remembers of
    /// both where it moves them; else empty.
    pub variational: Vec<f64>,
    /// What the model's test metrics remember of the clouds after burn-in.
    pub predictive: Vec<f64>,
    /// Sums over the steps after burn-in.
    pub averages: Averages,
    /// Batch means of theta after burn-in, for effective sample sizes.
    pub batches: BatchMeans,
    /// A bounded, thinned set of the clouds after burn-in.
    pub kept: KeptClouds<F>,
    /// Accept-reject counts.
    pub acceptance: Acceptance,
}

/// How often moves were accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Moves proposed since accept-reject began.
    pub proposed: u64,
    /// Of these, accepted.
    pub accepted: u64,
    /// Steps after burn-in in the current window.
    pub window_steps: u64,
    /// Moves proposed in the current window.
    pub window_proposed: u64,
    /// Of these, accepted.
    pub window_accepted: u64,
    /// The lowest acceptance of any full window; `None` if no window is full yet.
    pub worst_window: Option<f64>,
}

impl Acceptance {
    /// Steps over which acceptance is judged.
    pub const WINDOW: u64 = 200;

    /// Nothing proposed yet.
    pub fn new() -> Self {
        Acceptance {
            proposed: 0,
            accepted: 0,
            window_steps: 0,
            window_proposed: 0,
            window_accepted: 0,
            worst_window: None,
        }
    }

    /// Counts one step's moves; only steps after burn-in are judged in windows.
    pub fn add(&mut self, moves: crate::moves::Moves, after_burn_in: bool) {
        self.proposed += moves.proposed;
        self.accepted += moves.accepted;
        if !after_burn_in {
            return;
        }
        self.window_steps += 1;
        self.window_proposed += moves.proposed;
        self.window_accepted += moves.accepted;
        if self.window_steps == Self::WINDOW {
            let rate = self.window_accepted as f64 / self.window_proposed as f64;
            self.worst_window = Some(self.worst_window.map_or(rate, |w| w.min(rate)));
            (self.window_steps, self.window_proposed, self.window_accepted) = (0, 0, 0);
        }
    }

    /// The fraction accepted, if anything was proposed.
    pub fn rate(&self) -> Option<f64> {
        (self.proposed > 0).then(|| self.accepted as f64 / self.proposed as f64)
    }
}

impl Default for Acceptance {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Real> State<F> {
    /// The state before the first step: initial values, no averages.
    pub fn initial(model: &dyn Model<F>, settings: &Settings) -> Self {
        let (d_theta, d_x) = (model.d_theta(), model.d_x());
        let n = if settings.has_cloud() { settings.particles } else { 0 };
        let theta = settings.init_theta.of_model(model, settings.seed);
        let start = match settings.init_particles {
            InitParticles::Value(v) => v,
            InitParticles::Prior => 0.0,
        };
        let mut cloud = Particles::filled(n, d_x, start, if n > 0 { settings.max_particles() } else { 0 });
        if let (InitParticles::Prior, Some(prior)) = (settings.init_particles, model.prior()) {
            let noise = Noise::new(settings.seed, Purpose::Prior);
            F::normals(&noise, 0, 0, cloud.as_mut_slice());
            prior.map_normals(&theta, cloud.as_mut_slice());
        }
        let mut variational = Vec::new();
        if settings.composition().movement == Move::Variational {
            variational.resize(d_x, start);
            variational.resize(2 * d_x, 1.0);
            if settings.variational_adam {
                variational.resize(6 * d_x, 0.0);
            }
        }
        State {
            k: 0,
            variational,
            predictive: vec![0.0; model.predictive().map_or(0, |p| p.state_len())],
            memory: vec![0.0; crate::rules::memory_len(settings.preconditioner, d_theta)],
            averages: Averages::new(d_theta, if settings.averages_clouds() { d_x } else { 0 }),
            batches: BatchMeans::new(d_theta),
            kept: KeptClouds::new(settings, d_x),
            acceptance: Acceptance::new(),
            theta,
            cloud,
        }
    }
}
