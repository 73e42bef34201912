//! The interacting particle Langevin algorithm.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::Preconditioner;

/// Akyildiz et al. (2025): particle gradient descent with noise of variance 2h/N on theta, which so becomes a Langevin
/// diffusion together with the particles.
pub static IPLA: Algorithm = Algorithm {
    name: "ipla",
    about: "interacting particle Langevin algorithm: pgd with noise on theta",
    compose: |s| Composition {
        rule: Rule::Gradient { preconditioner: Preconditioner::None, noise: true },
        movement: Move::langevin(s),
        order: Order::Together,
    },
};
