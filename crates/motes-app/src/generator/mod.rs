//! What a trained generator can do, and the run directory that it is read from.

mod open;
pub mod tasks;

pub use open::Trained;
