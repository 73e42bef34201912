//! Mean-field Gaussian variational inference.

use super::{Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::Preconditioner;

/// App. blr: reparametrised gradient steps on the mean and variance of a product Gaussian, theta by eq. IW2gradalg11 at
/// the same draws.
pub fn mean_field(preconditioner: Preconditioner) -> Composition {
    Composition { rule: Rule::Gradient(preconditioner), movement: Move::Variational, order: Order::Together }
}
