//! Exact expectation-maximisation.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// The E- and M-steps of Sec. 1 and App. E.1, for models that can do both exactly.
pub static EM: Algorithm = Algorithm {
    name: "em",
    about: "exact expectation-maximisation",
    compose: |_| Composition { rule: Rule::ExactEm, movement: Move::Nothing, order: Order::Together },
};
