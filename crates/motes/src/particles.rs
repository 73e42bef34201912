//! The cloud: one contiguous row-major buffer, a row per particle.

use crate::Real;

/// N particles of D_x coordinates each.
#[derive(Clone, Debug, PartialEq)]
pub struct Particles<F> {
    data: Vec<F>,
    d: usize,
}

impl<F: Real> Particles<F> {
    /// N copies of the same value, with room for `capacity` particles so that growth never reallocates.
    pub fn filled(n: usize, d: usize, value: f64, capacity: usize) -> Self {
        let mut data = Vec::with_capacity(capacity.max(n) * d);
        data.resize(n * d, F::of(value));
        Particles { data, d }
    }

    /// Takes over a row-major buffer; its length must be a multiple of `d`.
    pub fn from_rows(data: Vec<F>, d: usize) -> Self {
        assert!(d > 0 && data.len().is_multiple_of(d), "rows of {d} expected");
        Particles { data, d }
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

    /// All coordinates, particle after particle.
    pub fn as_mut_slice(&mut self) -> &mut [F] {
        &mut self.data
    }

    /// How many numbers there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.data.capacity()
    }

    /// Particle n.
    pub fn row(&self, n: usize) -> &[F] {
        &self.data[n * self.d..(n + 1) * self.d]
    }

    /// Appends a copy of particle n.
    pub fn push_copy(&mut self, n: usize) {
        self.data.extend_from_within(n * self.d..(n + 1) * self.d);
    }

    /// The largest magnitude of any coordinate; NaN if there is one.
    pub fn max_abs(&self) -> f64 {
        self.data.iter().fold(0.0, |m: f64, x| {
            let a = x.f64().abs();
            if a.is_nan() || m.is_nan() { f64::NAN } else { m.max(a) }
        })
    }
}
