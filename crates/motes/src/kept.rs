//! A bounded set of clouds from after burn-in: steps divisible by a power of two, which rises as the run goes on.

use rayon::prelude::*;

use crate::cloud::by_particle;
use crate::settings::Settings;
use crate::{Cloud, Real};

/// At most this many particles are kept ...
pub const MAX_PARTICLES: usize = 10_000;
/// ... and at most this many bytes of them, so that large clouds do not multiply.
pub const MAX_BYTES: usize = 16 << 20;

/// Clouds of so many bytes are copied by all threads.
const SHARED_COPY: usize = 1 << 20;

/// Thinned clouds, one after the other, each `[group][particle][coordinate]`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptClouds<F> {
    /// Clouds are kept at steps divisible by this; 0 keeps none.
    pub every: u64,
    /// The step and the number of particles of each kept cloud.
    pub sizes: Vec<[u64; 2]>,
    /// Their particles.
    pub data: Vec<F>,
    groups: usize,
    /// Coordinates of a particle in all groups.
    width: usize,
    capacity: usize,
}

impl<F: Real> KeptClouds<F> {
    /// Nothing kept yet. The room is reserved once, so that nothing is allocated later.
    pub fn new(settings: &Settings, groups: usize, d: usize) -> Self {
        let width = groups * d;
        let capacity = Self::capacity(settings, width);
        let every = if capacity == 0 { 0 } else { settings.keep_clouds };
        let clouds = if every == 0 { 0 } else { capacity / settings.particles };
        KeptClouds {
            every,
            sizes: Vec::with_capacity(clouds),
            data: Vec::with_capacity(if every == 0 { 0 } else { capacity * width }),
            groups,
            width,
            capacity,
        }
    }

    /// How many particles may be kept. The number of steps must not enter: a run that is resumed for more steps,
    /// or for fewer than were planned, keeps what a run of these steps would have kept.
    pub fn capacity(settings: &Settings, width: usize) -> usize {
        let capacity = MAX_PARTICLES.min(MAX_BYTES / (width * size_of::<F>()).max(1));
        if settings.clouds_can_be_kept() && capacity >= settings.max_particles() { capacity } else { 0 }
    }

    /// How many numbers may be kept.
    pub(crate) fn room(&self) -> usize {
        if self.every == 0 { 0 } else { self.capacity * self.width }
    }

    /// How many particles are kept.
    pub fn rows(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    /// The particles kept, cloud after cloud and in each particle after particle with all its groups, as files have them.
    pub fn by_particle(&self) -> impl Iterator<Item = F> + '_ {
        let (groups, width) = (self.groups, self.width);
        let mut from = 0;
        self.sizes.iter().flat_map(move |[_, n]| {
            let n = *n as usize;
            let cloud = &self.data[from..from + n * width];
            from += n * width;
            by_particle(cloud, groups, n, width / groups)
        })
    }

    /// Whether the cloud of step k may be kept.
    pub(crate) fn wants(&self, k: u64) -> bool {
        self.every > 0 && k.is_multiple_of(self.every)
    }

    /// Offers the cloud of step k, which is kept if k is divisible by the current spacing.
    pub fn offer(&mut self, k: u64, cloud: &Cloud<F>) {
        if self.every == 0 {
            return;
        }
        while k.is_multiple_of(self.every) {
            if self.rows() + cloud.n() <= self.capacity {
                self.sizes.push([k, cloud.n() as u64]);
                // Memory that is touched for the first time is slow: all threads share the work.
                let x = cloud.as_slice();
                if size_of_val(x) < SHARED_COPY {
                    self.data.extend_from_slice(x);
                } else {
                    self.data.par_extend(x.par_iter().copied().with_min_len(SHARED_COPY / 16));
                }
                return;
            }
            self.every *= 2;
            self.thin();
        }
    }

    fn thin(&mut self) {
        let (mut from, mut to) = (0, 0);
        let (every, d, data) = (self.every, self.width, &mut self.data);
        self.sizes.retain(|[k, n]| {
            let (start, len) = (from, *n as usize * d);
            from += len;
            let keep = k.is_multiple_of(every);
            if keep {
                data.copy_within(start..start + len, to);
                to += len;
            }
            keep
        });
        self.data.truncate(to);
    }
}
