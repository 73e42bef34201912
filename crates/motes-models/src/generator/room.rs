//! Memory for numbers that changes its length and stays aligned for vectors.

use motes::simd::Aligned;
use std::ops::{Deref, DerefMut};

/// So many numbers of what has been room for at some time.
pub(super) struct Room {
    values: Aligned<f32>,
    len: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { values: Aligned::zeros(0), len: 0 }
    }
}

impl Room {
    /// Takes another length; what the numbers are is left open.
    pub fn fit(&mut self, len: usize) {
        if self.values.len() < len {
            self.values = Aligned::zeros(len);
        }
        self.len = len;
    }
}

impl Deref for Room {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.values[..self.len]
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.len]
    }
}
