//! Particle marginal gradient descent.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Alg. 3: each particle by eq. 44 at theta_k = theta_*(X_k^{1:N}), then theta_{k+1} = theta_*(X_{k+1}^{1:N}).
pub static PMGD: Algorithm = Algorithm {
    name: "pmgd",
    about: "particle marginal gradient descent",
    compose: |s| Composition { rule: Rule::MStep, movement: Move::langevin(s), order: Order::ParticlesFirst },
};
