//! Maximum-likelihood training of latent variable models with clouds of particles.
//!
//! A [`Model`] gives gradients of its complete-data log density; [`Settings`] name an algorithm and its parameters;
//! [`start`] makes the [`State`] before the first step and [`run`] steps it, watched by [`Observer`]s and recorded in a
//! [`record::RunDirectory`]. All of it happens inside [`Pool::install`], and none of it depends on the number of threads, or of
//! [`ranks`] that share the work.

// Tests may be held against the system's libm; results must not come from it.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod algorithms;
pub mod auto;
pub mod averages;
pub mod batches;
pub mod blocks;
mod check;
pub mod checkpoint;
mod cloud;
pub mod columns;
mod diagnostics;
mod error;
pub mod files;
mod kept;
mod kit;
pub mod memory;
mod metrics;
pub mod model;
pub mod moves;
pub mod noise;
pub mod npz;
mod observer;
pub mod printable;
pub mod ranks;
mod real;
pub mod record;
mod rows;
pub mod rules;
mod run;
pub mod sentence;
pub mod settings;
#[doc(hidden)]
pub mod simd;
mod state;
pub mod step;
mod stop;
pub mod summary;
pub mod tested;
mod ticker;
pub mod vmath;

pub use algorithms::{ALGORITHMS, Algorithm};
pub use averages::Averages;
pub use blocks::Pool;
pub use check::{Check, check_model, check_single};
pub use cloud::Cloud;
pub use diagnostics::{BatchMeans, Diagnostics};
pub use error::{Error, ModelError, did_you_mean};
pub use kept::KeptClouds;
pub use model::{At, Gives, Model, Want};
pub use observer::{Flow, Measured, Observer, StepInfo};
pub use ranks::Team;
pub use real::Real;
pub use run::{Ended, run, run_unless, start, start_unless};
pub use settings::Settings;
pub use simd::instruction_set;
pub use state::{Acceptance, LISTED, Per, Remembered, State};
pub use stop::Stop;
pub use summary::Summary;
pub use ticker::Ticker;

/// The guides under docs/, whose code is run as doc tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/new_model.md")]
    mod new_model {}
    #[doc = include_str!("../../../docs/new_algorithm.md")]
    mod new_algorithm {}
}
