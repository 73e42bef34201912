//! The cloud: one contiguous buffer, `[group][particle][coordinate]`.

use crate::Real;

/// N particles of D_x coordinates for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Cloud<F> {
    pub(crate) data: Vec<F>,
    pub(crate) groups: usize,
    pub(crate) d: usize,
    /// How many numbers there will ever be.
    pub(crate) room: usize,
}

impl<F: Real> Cloud<F> {
    /// N copies of the same value in each group, with room for `capacity` particles so that growth never reallocates.
    pub fn filled(groups: usize, n: usize, d: usize, value: f64, capacity: usize) -> Self {
        let room = groups * capacity.max(n) * d;
        let mut data = Vec::with_capacity(room);
        data.resize(groups * n * d, F::of(value));
        Cloud { data, groups, d, room }
    }

    /// Takes over a buffer; its length must be a multiple of `groups * d`.
    pub fn from_rows(data: Vec<F>, groups: usize, d: usize) -> Self {
        assert!(groups * d > 0 && data.len().is_multiple_of(groups * d), "rows of {groups} x {d} expected");
        Cloud { room: data.len(), data, groups, d }
    }

    /// The number of particles N of each group.
    pub fn n(&self) -> usize {
        self.data.len() / (self.groups * self.d)
    }

    /// The number of groups M.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The number of coordinates of a particle in each group, D_x.
    pub fn d(&self) -> usize {
        self.d
    }

    /// The number of coordinates of all groups together.
    pub fn width(&self) -> usize {
        self.groups * self.d
    }

    /// All coordinates, group after group and in each particle after particle.
    pub fn as_slice(&self) -> &[F] {
        &self.data
    }

    /// The same, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [F] {
        &mut self.data
    }

    /// The particles of group g.
    pub fn group(&self, g: usize) -> &[F] {
        let len = self.n() * self.d;
        &self.data[g * len..(g + 1) * len]
    }

    /// Particle n in group g.
    pub fn row(&self, g: usize, n: usize) -> &[F] {
        &self.group(g)[n * self.d..(n + 1) * self.d]
    }

    /// Exchanges two particles in all groups.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        let (n, d) = (self.n(), self.d);
        for g in 0..self.groups {
            for i in 0..d {
                self.data.swap((g * n + a) * d + i, (g * n + b) * d + i);
            }
        }
    }

    /// Hands out particle after particle with all its groups, as files have them: `[particle][group][coordinate]`.
    pub fn by_particle(&self) -> impl Iterator<Item = F> + '_ {
        by_particle(&self.data, self.groups, self.n(), self.d)
    }
}

/// The numbers of `[group][particle][coordinate]` in the order `[particle][group][coordinate]`.
pub(crate) fn by_particle<F: Copy>(
    data: &[F],
    groups: usize,
    n: usize,
    d: usize,
) -> impl Iterator<Item = F> + '_ {
    let row = move |i: usize, g: usize| data[(g * n + i) * d..(g * n + i + 1) * d].iter().copied();
    (0..n).flat_map(move |i| (0..groups).flat_map(move |g| row(i, g)))
}
