//! Particle gradient descent.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Alg. 1: theta by eq. 14 (with Lambda: eq. 16), each particle by eq. 15, both from
/// (theta_k, X_k). With an accept-reject step each particle's move is accepted or rejected at theta_k (App. F).
pub static PGD: Algorithm = Algorithm {
    name: "pgd",
    about: "particle gradient descent",
    compose: |s| Composition { rule: Rule::gradient(s), movement: Move::langevin(s), order: Order::Together },
};
