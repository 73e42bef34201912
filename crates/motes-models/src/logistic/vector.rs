//! Vectors of eight `f32` or four `f64`: intrinsics where there is AVX2, plain arrays elsewhere.
//!
//! Intrinsics, because the compiler does not keep arrays of accumulators in registers across a loop: measured, a third of the speed.

use bytemuck::Pod;
use motes::Real;

/// Some numbers side by side. Methods must be inlined into a function that carries the target features.
///
/// # Safety
///
/// All unsafe methods ask for the same: that the processor has the instructions of the type. Arrays need none, [`Wide32`]
/// and [`Wide64`] AVX2 and FMA.
pub(super) trait Vector: Pod {
    type Real: Real;
    const LANES: usize;

    unsafe fn splat(value: Self::Real) -> Self;
    /// From a slice of as many numbers as there are lanes.
    #[inline(always)]
    fn read(from: &[Self::Real]) -> Self {
        bytemuck::pod_read_unaligned(bytemuck::cast_slice(from))
    }
    #[inline(always)]
    fn write(self, to: &mut [Self::Real]) {
        bytemuck::cast_slice_mut(to).copy_from_slice(bytemuck::bytes_of(&self));
    }
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * a + b`.
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
    /// The larger, lane by lane; the second where the first is NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// The sum of the lanes.
    unsafe fn sum(self) -> Self::Real;
    /// weight / (1 + 2^self), to the last digit or two for any argument; NaN stays NaN.
    unsafe fn share(self, weight: Self) -> Self;
}

macro_rules! portable {
    ($float:ident, $lanes:literal, $share:ident) => {
        impl Vector for [$float; $lanes] {
            type Real = $float;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $float) -> Self {
                [value; $lanes]
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                std::array::from_fn(|i| self[i] + other[i])
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                std::array::from_fn(|i| self[i] * other[i])
            }
            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                std::array::from_fn(|i| self[i] * a[i] + b[i])
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                std::array::from_fn(|i| if self[i] > other[i] { self[i] } else { other[i] })
            }
            #[inline(always)]
            unsafe fn sum(mut self) -> $float {
                let mut half = $lanes / 2;
                while half > 0 {
                    for i in 0..half {
                        self[i] += self[i + half];
                    }
                    half /= 2;
                }
                self[0]
            }
            #[inline(always)]
            unsafe fn share(self, weight: Self) -> Self {
                std::array::from_fn(|i| weight[i] / (1.0 + self[i].clamp(-$share, $share).exp2()))
            }
        }
    };
}

/// Beyond this, weight / (1 + 2^t) would leave the range of normal numbers or is 1 anyway.
const LIMIT_F32: f32 = 120.0;
const LIMIT_F64: f64 = 1000.0;

portable!(f32, 8, LIMIT_F32);
portable!(f64, 4, LIMIT_F64);

#[cfg(not(target_arch = "x86_64"))]
pub(super) type Wide32 = [f32; 8];
#[cfg(not(target_arch = "x86_64"))]
pub(super) type Wide64 = [f64; 4];
#[cfg(target_arch = "x86_64")]
pub(super) use avx2::{Wide32, Wide64};

/// The polynomials for 2^r, |r| <= 1/2, are minimax fits, off by 1.6e-7 and 2.8e-16 at most, in Estrin's scheme.
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one argument for all: it is what the methods of these types ask for"
)]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{LIMIT_F32, LIMIT_F64, Vector};

    pub(in super::super) type Wide32 = __m256;
    pub(in super::super) type Wide64 = __m256d;

    macro_rules! wide {
        ($vector:ident, $float:ident, $lanes:literal, $splat:ident $add:ident $mul:ident $mul_add:ident $max:ident) => {
            type Real = $float;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $float) -> Self {
                unsafe { $splat(value) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                unsafe { $mul_add(self, a, b) }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                unsafe { $max(self, other) }
            }
        };
    }

    impl Vector for __m256 {
        wide!(__m256, f32, 8, _mm256_set1_ps _mm256_add_ps _mm256_mul_ps _mm256_fmadd_ps _mm256_max_ps);

        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let v = _mm_add_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
                let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
                _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
            }
        }

        #[inline(always)]
        unsafe fn share(self, weight: Self) -> Self {
            let c = Self::splat;
            unsafe {
                // Adding this rounds to the nearest integer and leaves it in the low bits.
                let round = c(12_582_912.0);
                let t = _mm256_max_ps(c(-LIMIT_F32), _mm256_min_ps(c(LIMIT_F32), self));
                let k = t.add(round);
                let r = _mm256_sub_ps(t, _mm256_sub_ps(k, round));
                let r2 = r.mul(r);
                let low = r.mul_add(c(0.693_146_94), c(1.000_000_1));
                let middle = r.mul_add(c(0.055_507_13), c(0.240_221_2));
                let high = r.mul_add(c(0.001_327_647_2), c(0.009_675_541));
                let p = high.mul_add(r2, middle).mul_add(r2, low);
                let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(k));
                let power = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
                _mm256_div_ps(weight, c(1.0).add(power))
            }
        }
    }

    impl Vector for __m256d {
        wide!(__m256d, f64, 4, _mm256_set1_pd _mm256_add_pd _mm256_mul_pd _mm256_fmadd_pd _mm256_max_pd);

        #[inline(always)]
        unsafe fn sum(self) -> f64 {
            unsafe {
                let v = _mm_add_pd(_mm256_castpd256_pd128(self), _mm256_extractf128_pd::<1>(self));
                _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v)))
            }
        }

        #[inline(always)]
        unsafe fn share(self, weight: Self) -> Self {
            let c = Self::splat;
            unsafe {
                let round = c(6_755_399_441_055_744.0);
                let t = _mm256_max_pd(c(-LIMIT_F64), _mm256_min_pd(c(LIMIT_F64), self));
                let k = t.add(round);
                let r = _mm256_sub_pd(t, _mm256_sub_pd(k, round));
                let r2 = r.mul(r);
                let r4 = r2.mul(r2);
                let a = r.mul_add(c(0.693_147_180_559_949_7), c(1.0));
                let b = r.mul_add(c(0.055_504_108_664_458_83), c(0.240_226_506_959_087_68));
                let d = r.mul_add(c(0.001_333_355_822_856_176_7), c(0.009_618_129_108_034_596));
                let e = r.mul_add(c(1.525_265_811_640_985_4e-5), c(1.540_352_996_112_707_6e-4));
                let f = r.mul_add(c(1.020_853_792_965_740_4e-7), c(1.321_566_283_595_923_8e-6));
                let high = c(7.037_278_846_726_901e-9).mul_add(r2, f);
                let middle = e.mul_add(r2, d);
                let low = b.mul_add(r2, a);
                let p = high.mul_add(r4, middle).mul_add(r4, low);
                let exponent = _mm256_slli_epi64::<52>(_mm256_castpd_si256(k));
                let power = _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p), exponent));
                _mm256_div_pd(weight, c(1.0).add(power))
            }
        }
    }
}
