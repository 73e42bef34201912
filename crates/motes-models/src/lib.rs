//! The models of Motes and the readers of their data.

// Tests may be held against the system's libm; results must not come from it.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod bnn;
pub mod data;
pub mod features;
pub mod generator;
mod hierarchical;
#[cfg(test)]
mod levels;
pub mod logistic;
mod multinomial;
pub mod options;
pub mod registry;
mod tally;

pub use bnn::{Bnn, Labelled, Products};
pub use hierarchical::Hierarchical;
pub use logistic::Logistic;
pub use multinomial::Multinomial;
