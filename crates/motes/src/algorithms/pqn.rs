//! Particle quasi-Newton.

use super::{Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Alg. 2: theta by eq. newtonalg, each particle by eq. IW2gradalg12, both from (theta_k, X_k).
pub fn pqn(movement: Move) -> Composition {
    Composition { rule: Rule::Newton, movement, order: Order::Together }
}
