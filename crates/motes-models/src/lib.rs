//! The models of Motes and the readers of their data.

pub mod data;
mod hierarchical;

pub use hierarchical::Hierarchical;
