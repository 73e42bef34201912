//! What can be said about a run afterwards.

mod ess;
mod verdict;

pub use ess::BatchMeans;
pub use verdict::Diagnostics;
