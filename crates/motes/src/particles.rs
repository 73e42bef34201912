//! The cloud: one contiguous row-major buffer, a row per particle.

use crate::Real;

/// N particles of D_x coordinates each.
#[derive(Clone, Debug, PartialEq)]
pub struct Particles<F> {
    pub(crate) data: Vec<F>,
    pub(crate) d: usize,
    /// How many numbers there will ever be.
    pub(crate) room: usize,
}

impl<F: Real> Particles<F> {
    /// N copies of the same value, with room for `capacity` particles so that growth never reallocates.
    pub fn filled(n: usize, d: usize, value: f64, capacity: usize) -> Self {
        let room = capacity.max(n) * d;
        let mut data = Vec::with_capacity(room);
        data.resize(n * d, F::of(value));
        Particles { data, d, room }
    }

    /// Takes over a row-major buffer; its length must be a multiple of `d`.
    pub fn from_rows(data: Vec<F>, d: usize) -> Self {
        assert!(d > 0 && data.len().is_multiple_of(d), "rows of {d} expected");
        Particles { room: data.len(), data, d }
    }

    /// The number of particles N.
    pub fn n(&self) -> usize {
        self.data.len() / self.d
    }

    /// The number of coordinates of each particle, D_x.
    pub fn d(&self) -> usize {
        self.d
    }

    /// All coordinates, particle after particle.
    pub fn as_slice(&self) -> &[F] {
        &self.data
    }

    /// The same, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [F] {
        &mut self.data
    }

    /// Particle n.
    pub fn row(&self, n: usize) -> &[F] {
        &self.data[n * self.d..(n + 1) * self.d]
    }

    /// Exchanges two particles.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        for i in 0..self.d {
            self.data.swap(a * self.d + i, b * self.d + i);
        }
    }
}
