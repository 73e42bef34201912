//! What the faces of Motes share: configs, runs and their directories, predictions and reports.
//!
//! The command line and the Python package depend on it. It never prints: what people should know is returned, or told
//! to whoever watches a run.

// Tests may be held against the system's libm; results must not come from it.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod carry;
pub mod choices;
pub mod coefficients;
pub mod config;
mod error;
pub mod generator;
pub mod job;
pub mod metrics;
pub mod numbers;
pub mod predict;
pub mod replicates;
pub mod report;
pub mod show;
mod text;

pub use error::Error;
