//! Stochastic optimisation via unadjusted Langevin.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Eq. SOUL: N serial moves at theta_k from the last chain's last state, then theta by eq. IW2gradalg11 over that chain.
pub static SOUL: Algorithm = Algorithm {
    name: "soul",
    about: "one serial Langevin chain per step",
    compose: |s| Composition { rule: Rule::gradient(s), movement: Move::Chain, order: Order::ParticlesFirst },
};
