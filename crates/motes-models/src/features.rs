//! How far apart two sets of images are: features of a small classifier of digits, and the Frechet distance between them.

mod frechet;
mod lenet;
mod training;

pub use frechet::{Gaussian, frechet};
pub use lenet::Lenet;
pub use training::{Epoch, LenetTraining};
