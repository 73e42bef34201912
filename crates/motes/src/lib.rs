//! Maximum-likelihood training of latent variable models with clouds of particles.

pub mod algorithms;
mod averages;
pub mod blocks;
mod check;
pub mod checkpoint;
mod diagnostics;
mod error;
pub mod files;
mod kept;
pub mod memory;
pub mod model;
pub mod moves;
pub mod noise;
pub mod npz;
mod observer;
mod particles;
mod real;
pub mod record;
pub mod rules;
mod run;
pub mod settings;
#[doc(hidden)]
pub mod simd;
mod state;
pub mod summary;
mod ticker;
pub mod vmath;

pub use averages::Averages;
pub use blocks::Pool;
pub use check::{Check, check_model};
pub use diagnostics::{BatchMeans, Diagnostics};
pub use error::{Error, ModelError, did_you_mean};
pub use kept::KeptClouds;
pub use model::{At, Model};
pub use observer::{Flow, Observer, StepInfo};
pub use particles::Particles;
pub use real::Real;
pub use run::{Ended, run, start};
pub use settings::Settings;
pub use simd::instruction_set;
pub use state::{Acceptance, State};
pub use summary::Summary;
pub use ticker::Ticker;
