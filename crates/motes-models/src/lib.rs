//! The models of Motes and the readers of their data.

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
