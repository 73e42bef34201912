//! Particle moves, a file each; [`crate::step`] joins them with a theta-rule.

mod chain;
mod draws;
mod kinetic;
pub(crate) mod langevin;
mod shadow;
mod variational;
mod whole_cloud;

pub(crate) use kinetic::refreshed;
pub use shadow::{Shadow, shadow_acceptance};
pub(crate) use variational::{draw, softplus};

use crate::settings::Settings;

/// How particles move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// Every particle by the unadjusted Langevin kernel K_theta of eq. 82.
    Ula,
    /// The same, accepted or rejected particle by particle, and in each group by itself.
    Mala,
    /// Every particle by a trajectory of leapfrog steps, accepted or rejected in each group by itself; steps, scales and lengths are
    /// adapted by [`crate::auto`].
    Hamiltonian,
    /// One particle N times in a row; the cloud is its path.
    Chain,
    /// Every particle by so many moves of K_theta in a row, from where it was or from a fresh draw from the prior.
    Transitions {
        /// How many moves.
        count: u32,
        /// Whether particles start from the prior.
        fresh: bool,
    },
    /// Every particle by its velocity, which the gradient drives and friction and noise refresh.
    Kinetic {
        /// How fast velocities are forgotten.
        friction: f64,
    },
    /// Every particle drawn from the model's inference network.
    Fresh,
    /// Every particle by K_theta, accepted or rejected all together.
    WholeCloud,
    /// Every particle drawn anew from a product Gaussian, which then moves.
    Variational,
    /// There are no particles.
    Nothing,
}

impl Move {
    /// Every particle by itself, accepted or rejected if the settings say so.
    pub fn langevin(settings: &Settings) -> Self {
        if settings.adjust { Move::Mala } else { Move::Ula }
    }
}

/// What a step reports besides the new state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Moves that went through an accept-reject step.
    pub proposed: u64,
    /// Of these, accepted.
    pub accepted: u64,
}
