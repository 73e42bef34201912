//! Stochastic optimisation via unadjusted Langevin (De Bortoli et al. 2021).

use super::{Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::Preconditioner;

/// Eq. SOUL: N serial moves at theta_k from the last chain's last state, then theta by eq. IW2gradalg11 over that chain.
pub fn soul(preconditioner: Preconditioner) -> Composition {
    Composition { rule: Rule::Gradient(preconditioner), movement: Move::Chain, order: Order::ParticlesFirst }
}
