//! The fit without tuning.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Particles by adjusted Hamiltonian moves that find their own steps, theta by Newton steps in the metric of Louis's identity with
/// gains that decrease once it is found: it converges to the maximum-likelihood estimate for any number of particles, knows its
/// standard errors, and ends by itself ([`crate::auto`]).
pub static AUTO: Algorithm = Algorithm {
    name: "auto",
    about: "maximum likelihood without tuning, with standard errors",
    compose: |_| Composition { rule: Rule::Louis, movement: Move::Hamiltonian, order: Order::ParticlesFirst },
};
