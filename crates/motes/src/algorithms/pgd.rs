//! Particle gradient descent.

use super::{Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::Preconditioner;

/// Alg. 1: theta by eq. IW2gradalg11 (with Lambda: eq. IW2gradalg2), each particle by eq. IW2gradalg12, both from
/// (theta_k, X_k). With [`Move::Mala`] each particle's move is accepted or rejected at theta_k (App. biasdisc).
pub fn pgd(preconditioner: Preconditioner, movement: Move) -> Composition {
    Composition { rule: Rule::Gradient(preconditioner), movement, order: Order::Together }
}
