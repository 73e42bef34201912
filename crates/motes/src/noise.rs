//! Randomness without state: every draw is a function of the seed, the purpose, the step and its index.

mod normal;
#[cfg(test)]
mod tests;
mod threefry;

use crate::simd::{Isa, SimdBase, dispatch};
use std::ops::Range;
use threefry::LANES;

/// What a stream of randomness is for; distinct purposes never share counters.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The moves of the particles.
    Particles = 1,
    /// Acceptance of the particles' moves.
    Accept = 2,
    /// The moves of a warm start.
    WarmStart = 3,
    /// Acceptance of a warm start's moves.
    WarmStartAccept = 4,
    /// Particles added to a cloud.
    Grow = 5,
    /// Draws from a prior.
    Prior = 6,
    /// Synthetic data.
    Data = 7,
    /// The moves of a shadow cloud.
    Shadow = 8,
    /// The choice of minibatches.
    Batch = 11,
    /// Draws from a variational approximation.
    Variational = 12,
    /// Checks and diagnostics.
    Check = 13,
    /// Latents of images that a fitted generator makes up.
    Synthesis = 14,
    /// The starts of a search for the latents of a given image.
    Inpainting = 15,
    /// Langevin noise on theta.
    Theta = 16,
    /// The same in a warm start.
    WarmStartTheta = 17,
    /// Pictures of what a generator makes up as it is trained.
    Pictures = 18,
    /// Draws from the posterior of an inference network.
    Encoder = 19,
    /// The initial weights of a network.
    Weights = 20,
    /// The velocities of Hamiltonian moves.
    Hamiltonian = 21,
    /// Acceptance of Hamiltonian moves.
    HamiltonianAccept = 22,
    /// Lengths of Hamiltonian moves.
    Trajectory = 23,
    /// Particles that replace others that do not move.
    Stuck = 24,
    /// The starts of particles around zero.
    Start = 25,
    /// Draws of Gaussians for the log-likelihood.
    Evidence = 26,
    /// The velocities of chains that are annealed.
    Annealing = 27,
    /// Acceptance of their moves.
    AnnealingAccept = 28,
    /// Where theta starts in replicates of a fit.
    Scatter = 29,
}

/// A family of independent draws, addressed by step and index.
///
/// Uniforms and normals of one step are made from the same words: take one kind from each step.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    key: [u32; 4],
}

impl Noise {
    /// The draws that belong to a seed and a purpose.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32, purpose as u32, 0] }
    }

    /// Sets `out[j]` to the standard normal draw `first + j` of the step.
    pub fn normals_f32(&self, step: u64, first: u64, out: &mut [f32]) {
        normals_f32(self.key, step, first, out);
    }

    /// Sets `out[j]` to the standard normal draw `first + j` of the step.
    pub fn normals_f64(&self, step: u64, first: u64, out: &mut [f64]) {
        normals_f64(self.key, step, first, out);
    }

    /// Sets `out[j]` to the draw `first + j` of the step, uniform in (0, 1) with 53 bits.
    pub fn uniforms(&self, step: u64, first: u64, out: &mut [f64]) {
        uniforms(self.key, step, first, out);
    }

    /// The draw `index` of the step, uniform in (0, 1) with 53 bits.
    pub fn uniform(&self, step: u64, index: u64) -> f64 {
        let (batch, place) = (index / BATCH_F64 as u64, index % BATCH_F64 as u64);
        let lane = place % LANES as u64;
        let words = threefry::block(self.key, step, batch * LANES as u64 + lane);
        let half = 2 * (place as usize / LANES);
        normal::unit(join(words[half], words[half + 1]))
    }

    /// Adds `h * grad[j] + sqrt(2 * h) * z` to `x[j]`, where z is the normal draw `first + j`.
    ///
    /// Returns whether every new `x[j]` is at most `limit` in size, hence no NaN. The result is
    /// that of [`Noise::normals_f32`] and this arithmetic in `f32`, bit for bit.
    ///
    /// # Panics
    ///
    /// If `x` and `grad` differ in length.
    #[rustfmt::skip]
    pub fn langevin_f32(
        &self, step: u64, first: u64, x: &mut [f32], grad: &[f32], h: f64, limit: f32,
    ) -> bool {
        let scale = (2.0 * h).sqrt() as f32;
        langevin_f32(self.key, step, first, x, grad, [h as f32, scale, limit])
    }

    /// Adds `h * grad[j] + sqrt(2 * h) * z` to `x[j]`, where z is the normal draw `first + j`.
    ///
    /// Returns whether every new `x[j]` is at most `limit` in size, hence no NaN. The result is
    /// that of [`Noise::normals_f64`] and this arithmetic, bit for bit.
    ///
    /// # Panics
    ///
    /// If `x` and `grad` differ in length.
    #[rustfmt::skip]
    pub fn langevin_f64(
        &self, step: u64, first: u64, x: &mut [f64], grad: &[f64], h: f64, limit: f64,
    ) -> bool {
        langevin_f64(self.key, step, first, x, grad, [h, (2.0 * h).sqrt(), limit])
    }
}

/// Draws per batch: every word makes a normal in single precision, every two one in double.
const BATCH_F32: usize = 4 * LANES;
const BATCH_F64: usize = 2 * LANES;

dispatch! { fn normals_f32(key: [u32; 4], step: u64, first: u64, out: &mut [f32]) = simd normals_f32_kernel }
dispatch! { fn normals_f64(key: [u32; 4], step: u64, first: u64, out: &mut [f64]) = simd normals_f64_kernel }
dispatch! { fn uniforms(key: [u32; 4], step: u64, first: u64, out: &mut [f64]) = simd uniforms_kernel }
dispatch! {
    fn langevin_f32(key: [u32; 4], step: u64, first: u64, x: &mut [f32], grad: &[f32], by: [f32; 3]) -> bool
        = simd langevin_f32_kernel
}
dispatch! {
    fn langevin_f64(key: [u32; 4], step: u64, first: u64, x: &mut [f64], grad: &[f64], by: [f64; 3]) -> bool
        = simd langevin_f64_kernel
}

/// The draws of L counters, word by word.
#[inline(always)]
fn lanes_f32<const FMA: bool, const L: usize>(key: [u32; 4], step: u64, batch: u64, out: &mut [[f32; L]; 4]) {
    let [w, x, y, z] = out;
    for lane in 0..L {
        let [a, b, c, d] = threefry::block(key, step, batch * L as u64 + lane as u64);
        (w[lane], x[lane]) = normal::pair_f32::<FMA>(a, b);
        (y[lane], z[lane]) = normal::pair_f32::<FMA>(c, d);
    }
}

#[inline(always)]
fn lanes_f64<const FMA: bool, const L: usize>(key: [u32; 4], step: u64, batch: u64, out: &mut [[f64; L]; 2]) {
    // The words in a loop of their own: it runs twice as many lanes as one with `f64` in it.
    let [a, b, c, d] = threefry::batch::<L>(key, step, batch);
    let [x, y] = out;
    for lane in 0..L {
        (x[lane], y[lane]) = normal::pair_f64::<FMA>(join(a[lane], b[lane]), join(c[lane], d[lane]));
    }
}

#[inline(always)]
fn lanes_uniform<const FMA: bool, const L: usize>(
    key: [u32; 4],
    step: u64,
    batch: u64,
    out: &mut [[f64; L]; 2],
) {
    let [a, b, c, d] = threefry::batch::<L>(key, step, batch);
    let [x, y] = out;
    for lane in 0..L {
        x[lane] = normal::unit(join(a[lane], b[lane]));
        y[lane] = normal::unit(join(c[lane], d[lane]));
    }
}

/// A batch, and two neighbours at a time for vectors that have room for both: their draws lie one batch after the other.
macro_rules! batches {
    ($lanes:ident, $float:ty, $words:literal, $one:ident, $two:ident) => {
        #[inline(always)]
        fn $one<const FMA: bool>(key: [u32; 4], step: u64, batch: u64, out: &mut [$float; $words * LANES]) {
            $lanes::<FMA, LANES>(key, step, batch, bytemuck::cast_mut(out));
        }
        #[inline(always)]
        fn $two<const FMA: bool>(
            key: [u32; 4],
            step: u64,
            batch: u64,
            out: &mut [$float; 2 * $words * LANES],
        ) {
            let mut draws = [[0.0; 2 * LANES]; $words];
            $lanes::<FMA, { 2 * LANES }>(key, step, batch, &mut draws);
            arrange(&draws, out);
        }
    };
}

batches!(lanes_f32, f32, 4, batch_f32, batches_f32);
batches!(lanes_f64, f64, 2, batch_f64, batches_f64);
batches!(lanes_uniform, f64, 2, batch_uniform, batches_uniform);

/// Writes the draws batch by batch, in each of them word by word.
#[inline(always)]
fn arrange<T: Copy, const L: usize, const W: usize>(draws: &[[T; L]; W], out: &mut [T]) {
    for (b, out) in out.chunks_exact_mut(W * LANES).enumerate() {
        for (draws, out) in draws.iter().zip(out.chunks_exact_mut(LANES)) {
            out.copy_from_slice(&draws[b * LANES..(b + 1) * LANES]);
        }
    }
}

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

/// The batches that hold the draws `first..first + len`, each as (batch, skip, range): its draws
/// from `skip` on belong at `range` of the output.
///
/// An iterator, not a function that takes a closure: closures do not inherit target features.
struct Walk {
    batch: u64,
    skip: usize,
    size: usize,
    start: usize,
    len: usize,
}

impl Walk {
    #[inline(always)]
    fn new(first: u64, len: usize, size: usize) -> Self {
        Self { batch: first / size as u64, skip: (first % size as u64) as usize, size, start: 0, len }
    }
}

impl Iterator for Walk {
    type Item = (u64, usize, Range<usize>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.start == self.len {
            return None;
        }
        let end = self.len.min(self.start + self.size - self.skip);
        let item = (self.batch, self.skip, self.start..end);
        (self.batch, self.skip, self.start) = (self.batch + 1, 0, end);
        Some(item)
    }
}

/// Runs the one of three instantiations that suits the level: batches in pairs where a vector holds the lanes of two.
macro_rules! by_level {
    ($S:ident, $narrow:ident, $wide:ident ($($arg:expr),*)) => {
        if !$S::FMA {
            $narrow::<false>($($arg),*)
        } else if $S::f32s::LEN < 2 * LANES {
            $narrow::<true>($($arg),*)
        } else {
            $wide::<true>($($arg),*)
        }
    };
}

macro_rules! fill {
    ($kernel:ident, $float:ty, $narrow:ident $batch:ident $size:expr, $wide:ident $batches:ident) => {
        #[inline(always)]
        fn $kernel<S: Isa>(_: S, key: [u32; 4], step: u64, first: u64, out: &mut [$float]) {
            by_level!(S, $narrow, $wide(key, step, first, out))
        }
        fill!(@ $narrow, $float, $batch $size);
        fill!(@ $wide, $float, $batches 2 * $size);
    };
    (@ $name:ident, $float:ty, $batch:ident $size:expr) => {
        #[inline(always)]
        fn $name<const FMA: bool>(key: [u32; 4], step: u64, first: u64, out: &mut [$float]) {
            // Whole batches are made in place, broken ones by way of a buffer.
            let mut buffer = [0.0; $size];
            for (batch, skip, range) in Walk::new(first, out.len(), $size) {
                let out = &mut out[range];
                if let Ok(whole) = out.try_into() {
                    $batch::<FMA>(key, step, batch, whole);
                } else {
                    $batch::<FMA>(key, step, batch, &mut buffer);
                    out.copy_from_slice(&buffer[skip..skip + out.len()]);
                }
            }
        }
    };
}

fill!(normals_f32_kernel, f32, fill_f32 batch_f32 BATCH_F32, fill_wide_f32 batches_f32);
fill!(normals_f64_kernel, f64, fill_f64 batch_f64 BATCH_F64, fill_wide_f64 batches_f64);
fill!(uniforms_kernel, f64, fill_uniform batch_uniform BATCH_F64, fill_wide_uniform batches_uniform);

/// Moves one coordinate; whether it stays within the limit. No fused multiply-add: the plain formula can be checked
/// from outside.
macro_rules! moved {
    ($x:expr, $grad:expr, $z:expr, $by:expr) => {{
        let [h, scale, limit] = $by;
        $x += h * $grad + scale * $z;
        $x.abs() <= limit
    }};
}

/// Long updates fetch what lies behind them in memory, which is most often the next block's: its gradients, cheap as they
/// may be, would otherwise wait for it, while the processor has time to fetch during the arithmetic of the noise.
const PREFETCH: usize = 4096;

#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint and reads nothing, so that any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

macro_rules! langevin {
    ($kernel:ident, $float:ty, $bits:ty, $narrow:ident $batch:ident $size:expr, $wide:ident $batches:ident) => {
        #[inline(always)]
        fn $kernel<S: Isa>(
            _: S,
            key: [u32; 4],
            step: u64,
            first: u64,
            x: &mut [$float],
            grad: &[$float],
            by: [$float; 3],
        ) -> bool {
            by_level!(S, $narrow, $wide(key, step, first, x, grad, by))
        }
        langevin!(@ $narrow, $float, $bits, $batch $size);
        langevin!(@ $wide, $float, $bits, $batches 2 * $size);
    };
    (@ $name:ident, $float:ty, $bits:ty, $batch:ident $size:expr) => {
        #[inline(always)]
        fn $name<const FMA: bool>(
            key: [u32; 4],
            step: u64,
            first: u64,
            x: &mut [$float],
            grad: &[$float],
            by: [$float; 3],
        ) -> bool {
            assert_eq!(x.len(), grad.len());
            // A place for each draw of a whole batch, and a flag for the coordinates of broken batches.
            let (mut inside, mut all) = ([1; $size], true);
            let mut z = [0.0; $size];
            let after = x.as_ptr().wrapping_add(x.len());
            let large = x.len() >= PREFETCH;
            for (batch, skip, range) in Walk::new(first, x.len(), $size) {
                if large {
                    prefetch(after.wrapping_add(range.start));
                    prefetch(after.wrapping_add(range.start + $size / 2));
                }
                $batch::<FMA>(key, step, batch, &mut z);
                let (x, grad) = (&mut x[range.clone()], &grad[range]);
                // Whole batches have a length that the compiler knows, and need no loop.
                if x.len() == $size {
                    let (x, grad) = (&mut x[..$size], &grad[..$size]);
                    for i in 0..$size {
                        inside[i] &= <$bits>::from(moved!(x[i], grad[i], z[i], by));
                    }
                } else {
                    for (i, z) in z[skip..skip + x.len()].iter().enumerate() {
                        all &= moved!(x[i], grad[i], *z, by);
                    }
                }
            }
            all && inside == [1; $size]
        }
    };
}

langevin!(langevin_f32_kernel, f32, u32, langevin_narrow_f32 batch_f32 BATCH_F32, langevin_wide_f32 batches_f32);
langevin!(langevin_f64_kernel, f64, u64, langevin_narrow_f64 batch_f64 BATCH_F64, langevin_wide_f64 batches_f64);
