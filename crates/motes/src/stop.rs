//! A flag by which long work is told to end early.

use std::sync::atomic::{AtomicBool, Ordering};

/// A flag by which long work may be told to end early; by default there is none. Once set it must stay set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop<'a>(pub Option<&'a AtomicBool>);

impl Stop<'_> {
    /// Whether the work is to end.
    pub fn is_set(self) -> bool {
        self.0.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
