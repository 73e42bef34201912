//! Marginal Metropolis-Hastings.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Alg. 4: the whole cloud moves as in PMGD and is accepted by eq. 101, which leaves pi_N invariant.
pub static MARGINAL_MH: Algorithm = Algorithm {
    name: "marginal-mh",
    about: "Metropolis-Hastings on the whole cloud with pmgd's proposal",
    compose: |_| Composition { rule: Rule::MStep, movement: Move::WholeCloud, order: Order::ParticlesFirst },
};
