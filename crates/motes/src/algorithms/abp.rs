//! Alternating back-propagation.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Eqs. 72 and 71: some Langevin transitions of each particle at theta_k from where it was, then theta
/// at where they end.
pub static ABP: Algorithm = Algorithm {
    name: "abp",
    about: "alternating back-propagation: some transitions of each particle, then theta",
    compose: |s| Composition {
        rule: Rule::gradient(s),
        movement: Move::Transitions { count: s.transitions, fresh: false },
        order: Order::ParticlesFirst,
    },
};
