//! The two number types that particles come in.

use crate::noise::Noise;
use crate::simd::{Simd, SimdFloatElement, Vector, f32x16, f64x8};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// The precision of particles: `f32` or `f64`, nothing more general. Theta and all sums are `f64`.
pub trait Real:
    sealed::Sealed
    + bytemuck::Pod
    + Default
    + PartialOrd
    + std::fmt::Debug
    + Send
    + Sync
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::AddAssign
    + SimdFloatElement
{
    /// The name used in settings and files.
    const NAME: &'static str;
    /// Magnitude beyond which a run counts as diverged.
    const LIMIT: f64;
    /// The code of this type in NumPy's file format.
    const NUMPY: &'static str;

    /// A vector of 64 bytes on every machine, for sums over lanes; `Native` has the machine's own width, for lanes that never meet.
    #[doc(hidden)]
    type Lanes<S: Simd>: Vector<S, Element = Self> + std::ops::Div<Output = Self::Lanes<S>>;

    /// Rounds to this precision.
    fn of(value: f64) -> Self;
    /// Widens to `f64`.
    fn f64(self) -> f64;
    /// Standard normals number `first`, `first + 1`, ... of the given step.
    fn normals(noise: &Noise, step: u64, first: u64, out: &mut [Self]);
    /// The unadjusted Langevin update `x += h grad + sqrt(2h) w`; false if any result is out of range.
    fn langevin(noise: &Noise, step: u64, first: u64, x: &mut [Self], grad: &[Self], h: f64) -> bool;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const LIMIT: f64 = 1e8;
    const NUMPY: &'static str = "<f4";
    type Lanes<S: Simd> = f32x16<S>;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn f64(self) -> f64 {
        f64::from(self)
    }
    fn normals(noise: &Noise, step: u64, first: u64, out: &mut [Self]) {
        noise.normals_f32(step, first, out);
    }
    fn langevin(noise: &Noise, step: u64, first: u64, x: &mut [Self], grad: &[Self], h: f64) -> bool {
        noise.langevin_f32(step, first, x, grad, h, Self::LIMIT as f32)
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const LIMIT: f64 = 1e100;
    const NUMPY: &'static str = "<f8";
    type Lanes<S: Simd> = f64x8<S>;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn f64(self) -> f64 {
        self
    }
    fn normals(noise: &Noise, step: u64, first: u64, out: &mut [Self]) {
        noise.normals_f64(step, first, out);
    }
    fn langevin(noise: &Noise, step: u64, first: u64, x: &mut [Self], grad: &[Self], h: f64) -> bool {
        noise.langevin_f64(step, first, x, grad, h, Self::LIMIT)
    }
}
