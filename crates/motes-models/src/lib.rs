//! The models of Motes and the readers of their data.

mod hierarchical;

pub use hierarchical::Hierarchical;
