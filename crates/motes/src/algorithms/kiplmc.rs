//! Kinetic interacting particle Langevin Monte Carlo.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Oliva and Akyildiz (2024): theta and particles with velocities, an underdamped Langevin diffusion of both, split as OBABO with
/// one gradient a step. Its bias is of order h^2 and does not depend on the friction; ill-conditioned posteriors take the square
/// root of the steps that `pgd` takes.
pub static KIPLMC: Algorithm = Algorithm {
    name: "kiplmc",
    about: "kinetic interacting particle Langevin Monte Carlo: ipla with momentum",
    compose: |s| Composition {
        rule: Rule::Kinetic { friction: s.friction },
        movement: Move::Kinetic { friction: s.friction },
        order: Order::Together,
    },
};
