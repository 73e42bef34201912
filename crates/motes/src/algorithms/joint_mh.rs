//! Joint Metropolis-Hastings.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::JointUpdate;

/// Alg. 5: theta and the cloud move as in PGD or PQN and are accepted together by eq. 104.
pub static JOINT_MH: Algorithm = Algorithm {
    name: "joint-mh",
    about: "Metropolis-Hastings on theta and the whole cloud with pgd's or pqn's proposal",
    compose: |s| {
        let rule = match s.joint_update {
            JointUpdate::Pgd => Rule::gradient(s),
            JointUpdate::Pqn => Rule::Newton,
        };
        Composition { rule, movement: Move::WholeCloud, order: Order::Together }
    },
};
