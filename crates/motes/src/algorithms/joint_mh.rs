//! Joint Metropolis-Hastings.

use super::{Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::{JointUpdate, Preconditioner};

/// Alg. 5: theta and the cloud move as in PGD or PQN and are accepted together by eq. acceptprobjoint.
pub fn joint_mh(update: JointUpdate, preconditioner: Preconditioner) -> Composition {
    let rule = match update {
        JointUpdate::Pgd => Rule::Gradient(preconditioner),
        JointUpdate::Pqn => Rule::Newton,
    };
    Composition { rule, movement: Move::WholeCloud, order: Order::Together }
}
