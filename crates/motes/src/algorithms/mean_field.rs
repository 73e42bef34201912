//! Mean-field Gaussian variational inference.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// App. E.2: reparametrised gradient steps on the mean and variance of a product Gaussian, theta by eq. 14 at
/// the same draws.
pub static MEAN_FIELD: Algorithm = Algorithm {
    name: "mean-field",
    about: "Gaussian variational inference",
    compose: |s| Composition { rule: Rule::gradient(s), movement: Move::Variational, order: Order::Together },
};
