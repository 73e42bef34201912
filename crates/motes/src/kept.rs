//! A bounded set of clouds from after burn-in: steps divisible by a power of two, which rises as the run goes on.

use rayon::prelude::*;

use crate::settings::{Settings, UNBOUNDED};
use crate::{Particles, Real};

/// At most this many particles are kept ...
pub const MAX_PARTICLES: usize = 10_000;
/// ... and at most this many bytes of them, so that large clouds do not multiply.
pub const MAX_BYTES: usize = 16 << 20;

/// Clouds of so many bytes are copied by all threads.
const SHARED_COPY: usize = 1 << 20;

/// Thinned clouds, all particles of one after all of the other.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptClouds<F> {
    /// Clouds are kept at steps divisible by this; 0 keeps none.
    pub every: u64,
    /// The step and the number of particles of each kept cloud.
    pub sizes: Vec<(u64, usize)>,
    /// Their particles.
    pub data: Vec<F>,
    d: usize,
    capacity: usize,
}

impl<F: Real> KeptClouds<F> {
    /// Nothing kept yet. The room is reserved once, so that nothing is allocated later.
    pub fn new(settings: &Settings, d: usize) -> Self {
        let capacity = Self::capacity(settings, d);
        let every = if capacity == 0 { 0 } else { Self::first_spacing(settings, capacity) };
        let clouds = if every == 0 { 0 } else { capacity / settings.particles };
        KeptClouds {
            every,
            sizes: Vec::with_capacity(clouds),
            data: Vec::with_capacity(if every == 0 { 0 } else { capacity * d }),
            d,
            capacity,
        }
    }

    /// The spacing that the whole run will end with, so that no cloud is copied in vain; it would come to the same by
    /// doubling on the way, which is left for particles that grow in number and for steps to be added later.
    fn first_spacing(settings: &Settings, capacity: usize) -> u64 {
        let kept = |every: u64| (settings.steps / every).saturating_sub(settings.burn_in / every);
        let most = (capacity / settings.particles) as u64;
        let mut every = settings.keep_clouds;
        while every > 0 && settings.steps < UNBOUNDED && kept(every) > most {
            every *= 2;
        }
        every
    }

    /// How many particles may be kept. The number of steps must not enter: a run that is resumed for more steps
    /// keeps what the longer run would have kept.
    pub fn capacity(settings: &Settings, d: usize) -> usize {
        let capacity = MAX_PARTICLES.min(MAX_BYTES / (d * size_of::<F>()).max(1));
        if settings.averages_clouds() && capacity >= settings.max_particles() { capacity } else { 0 }
    }

    /// How many numbers may be kept.
    pub(crate) fn room(&self) -> usize {
        if self.every == 0 { 0 } else { self.capacity * self.d }
    }

    /// The particles kept, as rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.d.max(1)
    }

    /// Offers the cloud of step k, which is kept if k is divisible by the current spacing.
    pub fn offer(&mut self, k: u64, cloud: &Particles<F>) {
        if self.every == 0 {
            return;
        }
        while k.is_multiple_of(self.every) {
            if self.rows() + cloud.n() <= self.capacity {
                self.sizes.push((k, cloud.n()));
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
        let (every, d, data) = (self.every, self.d, &mut self.data);
        self.sizes.retain(|(k, n)| {
            let (start, len) = (from, n * d);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spacing_is_the_same_for_any_way_to_the_last_step() {
        let d = MAX_BYTES / (8 * 40); // room for 40 particles
        for (particles, steps, burn_in, keep_clouds) in
            [(1, 1000, 500, 1), (3, 777, 1, 1), (40, 200, 150, 1), (7, 4096, 2048, 3), (2, 30, 20, 1)]
        {
            let settings = |steps| Settings { particles, steps, burn_in, keep_clouds, ..Settings::default() };
            let cloud = Particles::filled(particles, 1, 0.5, particles);
            let ways = [vec![steps], vec![UNBOUNDED], vec![steps / 2 + burn_in / 2 + 1, steps]];
            let [whole, open, extended] = ways.map(|plans| {
                let mut kept = KeptClouds::<f64>::new(&settings(plans[0]), d);
                kept.d = 1; // the same counts without the memory
                (burn_in + 1..=steps).for_each(|k| kept.offer(k, &cloud));
                kept
            });
            assert_eq!(whole, open);
            assert_eq!(whole, extended);
            assert!(whole.rows() <= 40 && whole.rows() > 0, "{particles} {steps}");
        }
    }
}
