//! What can be said about a run afterwards.

mod ess;
mod judge;
mod verdict;

pub use ess::BatchMeans;
pub(crate) use ess::MAX_BATCHES;
pub use verdict::Diagnostics;
