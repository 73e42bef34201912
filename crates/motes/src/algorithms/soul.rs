//! Stochastic optimisation via unadjusted Langevin.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Eq. 17: N serial moves at theta_k from the last chain's last state, then theta by eq. 14 over that chain.
pub static SOUL: Algorithm = Algorithm {
    name: "soul",
    about: "one serial Langevin chain per step",
    compose: |s| Composition { rule: Rule::gradient(s), movement: Move::Chain, order: Order::ParticlesFirst },
};
