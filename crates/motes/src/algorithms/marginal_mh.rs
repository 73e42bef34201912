//! Marginal Metropolis-Hastings.

use super::{Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Alg. 4: the whole cloud moves as in PMGD and is accepted by eq. acceptprob, which leaves pi_N invariant.
pub fn marginal_mh() -> Composition {
    Composition { rule: Rule::MStep, movement: Move::WholeCloud, order: Order::ParticlesFirst }
}
