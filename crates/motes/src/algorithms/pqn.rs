//! Particle quasi-Newton.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Alg. 2: theta by eq. 33, each particle by eq. 15, both from (theta_k, X_k).
pub static PQN: Algorithm = Algorithm {
    name: "pqn",
    about: "particle quasi-Newton",
    compose: |s| Composition { rule: Rule::Newton, movement: Move::langevin(s), order: Order::Together },
};
