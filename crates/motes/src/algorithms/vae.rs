//! The variational autoencoder.

use super::{Algorithm, Composition, Order};
use crate::moves::Move;
use crate::rules::Rule;

/// Draws from the model's inference network, then a step of theta and of that network along the gradient of the evidence
/// lower bound.
pub static VAE: Algorithm = Algorithm {
    name: "vae",
    about: "variational autoencoder: draws from an inference network, which is trained with theta",
    compose: |s| Composition { rule: Rule::gradient(s), movement: Move::Fresh, order: Order::ParticlesFirst },
};
