//! Short-run MCMC.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// As alternating back-propagation (eqs. 72 and 71), but each particle starts from the prior.
pub static SHORT_RUN: Algorithm = Algorithm {
    name: "short-run",
    about: "short-run MCMC: some transitions of each particle from the prior, then theta",
    compose: |s| Composition {
        rule: Rule::gradient(s),
        movement: Move::Transitions { count: s.transitions, fresh: true },
        order: Order::ParticlesFirst,
    },
};
