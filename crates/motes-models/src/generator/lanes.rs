//! Eight `f32` lanes in one value: AVX2 and FMA instructions if `FMA`, else plain arithmetic on an array.
//!
//! With `FMA` these may only be used inside functions that [`motes::simd::dispatch!`] runs where the processor has them.

use std::ops::{Add, Mul, Sub};

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as arch;

#[cfg(target_arch = "x86_64")]
type Inner = arch::__m256;
#[cfg(not(target_arch = "x86_64"))]
type Inner = [f32; 8];

/// The number of lanes.
pub(super) const LANES: usize = 8;

/// Eight lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes<const FMA: bool>(Inner);

/// The instruction if `FMA`, else the loop.
macro_rules! operation {
    ($intrinsic:ident($($x:expr),+), $lane:ident => $plain:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if FMA {
            // SAFETY: lanes with `FMA` are used only where the processor has AVX2 and FMA.
            return Self(unsafe { arch::$intrinsic($($x.0),+) });
        }
        let mut result = [0.0; LANES];
        for $lane in 0..LANES {
            result[$lane] = $plain;
        }
        Self::from(result)
    }};
}

impl<const FMA: bool> From<[f32; LANES]> for Lanes<FMA> {
    #[inline(always)]
    fn from(x: [f32; LANES]) -> Self {
        Self(bytemuck::cast(x))
    }
}

impl<const FMA: bool> Lanes<FMA> {
    /// Zero in each lane.
    #[inline(always)]
    pub fn zero() -> Self {
        Self::splat(0.0)
    }

    /// The same value in each lane.
    #[inline(always)]
    pub fn splat(x: f32) -> Self {
        Self::from([x; LANES])
    }

    /// The lanes as an array.
    #[inline(always)]
    pub fn array(self) -> [f32; LANES] {
        bytemuck::cast(self.0)
    }

    /// The first eight values.
    #[inline(always)]
    pub fn load(x: &[f32]) -> Self {
        assert!(x.len() >= LANES);
        // SAFETY: the length has been checked.
        unsafe { Self::read(x.as_ptr()) }
    }

    /// The eight values that begin at `x`.
    ///
    /// # Safety
    /// They must be there.
    #[inline(always)]
    pub unsafe fn read(x: *const f32) -> Self {
        // SAFETY: the caller's; no alignment is assumed.
        unsafe { Self(x.cast::<Inner>().read_unaligned()) }
    }

    /// Writes eight values from `x` on.
    ///
    /// # Safety
    /// Their places must be there.
    #[inline(always)]
    pub unsafe fn write(self, x: *mut f32) {
        // SAFETY: the caller's; no alignment is assumed.
        unsafe { x.cast::<Inner>().write_unaligned(self.0) }
    }

    /// `self * b + c`, rounded once if `FMA`.
    #[inline(always)]
    pub fn times_plus(self, b: Self, c: Self) -> Self {
        operation!(_mm256_fmadd_ps(self, b, c), i => self.array()[i] * b.array()[i] + c.array()[i])
    }

    /// `self * b + c` for one number b.
    #[inline(always)]
    pub fn scaled_plus(self, b: f32, c: Self) -> Self {
        self.times_plus(Self::splat(b), c)
    }
}

impl<const FMA: bool> Add for Lanes<FMA> {
    type Output = Self;
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        operation!(_mm256_add_ps(self, b), i => self.array()[i] + b.array()[i])
    }
}

impl<const FMA: bool> Sub for Lanes<FMA> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        operation!(_mm256_sub_ps(self, b), i => self.array()[i] - b.array()[i])
    }
}

impl<const FMA: bool> Mul for Lanes<FMA> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        operation!(_mm256_mul_ps(self, b), i => self.array()[i] * b.array()[i])
    }
}
