//! Exact expectation-maximisation.

use super::{Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// The E- and M-steps of Sec. intro and App. hier, for models that can do both exactly.
pub fn em() -> Composition {
    Composition { rule: Rule::ExactEm, movement: Move::Nothing, order: Order::Together }
}
