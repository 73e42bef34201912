//! The models of Motes and the readers of their data.

pub mod data;
mod hierarchical;
pub mod logistic;

pub use hierarchical::Hierarchical;
pub use logistic::Logistic;
