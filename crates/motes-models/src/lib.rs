//! The models of Motes and the readers of their data.

mod bnn;
pub mod data;
mod hierarchical;
pub mod logistic;

pub use bnn::{Bnn, Labelled, Products};
pub use hierarchical::Hierarchical;
pub use logistic::Logistic;
