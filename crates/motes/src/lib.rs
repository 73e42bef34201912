//! Maximum-likelihood training of latent variable models with clouds of particles.

pub mod noise;
mod simd;
pub mod vmath;

pub use simd::instruction_set;
