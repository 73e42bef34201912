//! Short-run MCMC.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// As alternating back-propagation (eqs. genxupdate2 and genthetaupdate2), but each particle starts from the prior.
pub static SHORT_RUN: Algorithm = Algorithm {
    name: "short-run",
    about: "short-run MCMC: some transitions of each particle from the prior, then theta",
    compose: |s| Composition {
        rule: Rule::gradient(s),
        movement: Move::Transitions { count: s.transitions, fresh: true },
        order: Order::ParticlesFirst,
    },
};
