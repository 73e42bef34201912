//! The map of the logistic kernels on vectors of either precision.

use motes::Real;
use motes::simd::{Bytes, Isa, SimdBase, SimdFloat};

/// What the kernels need of a number type beyond [`Real`].
pub(super) trait Number: Real {
    /// weight / (1 + 2^t), to the last digit or two for any t; NaN stays NaN.
    ///
    /// The polynomials for 2^r, |r| <= 1/2, are minimax fits, off by 1.6e-7 and 2.8e-16 at most, in Estrin's scheme.
    fn share<S: Isa>(simd: S, t: Self::Native<S>, weight: Self::Native<S>) -> Self::Native<S>;

    /// Replaces each x by ln(1 + e^x).
    fn softplus(x: &mut [Self]);
}

/// Beyond this, weight / (1 + 2^t) would leave the range of normal numbers or is 1 anyway.
const LIMIT_F32: f32 = 120.0;
const LIMIT_F64: f64 = 1000.0;

impl Number for f32 {
    #[inline(always)]
    fn share<S: Isa>(simd: S, t: S::f32s, weight: S::f32s) -> S::f32s {
        macro_rules! all {
            ($value:expr) => {
                S::f32s::splat(simd, $value)
            };
        }
        // Adding this rounds to the nearest integer and leaves it in the low bits.
        let round = all!(12_582_912.0);
        // The bounds first: so NaN is kept.
        let t = all!(-LIMIT_F32).max(all!(LIMIT_F32).min(t));
        let k = t + round;
        let r = t - (k - round);
        let r2 = r * r;
        let low = r.mul_add(all!(0.693_146_94), all!(1.000_000_1));
        let middle = r.mul_add(all!(0.055_507_13), all!(0.240_221_2));
        let high = r.mul_add(all!(0.001_327_647_2), all!(0.009_675_541));
        let p = high.mul_add(r2, middle).mul_add(r2, low);
        let exponent = k.bitcast::<S::u32s>() << 23;
        let power: S::f32s = (p.bitcast::<S::u32s>() + exponent).bitcast();
        weight / (all!(1.0) + power)
    }

    fn softplus(x: &mut [Self]) {
        motes::vmath::softplus_f32(x);
    }
}

impl Number for f64 {
    #[inline(always)]
    fn share<S: Isa>(simd: S, t: S::f64s, weight: S::f64s) -> S::f64s {
        macro_rules! all {
            ($value:expr) => {
                S::f64s::splat(simd, $value)
            };
        }
        let round = all!(6_755_399_441_055_744.0);
        let t = all!(-LIMIT_F64).max(all!(LIMIT_F64).min(t));
        let k = t + round;
        let r = t - (k - round);
        let r2 = r * r;
        let r4 = r2 * r2;
        let a = r.mul_add(all!(0.693_147_180_559_949_7), all!(1.0));
        let b = r.mul_add(all!(0.055_504_108_664_458_83), all!(0.240_226_506_959_087_68));
        let d = r.mul_add(all!(0.001_333_355_822_856_176_7), all!(0.009_618_129_108_034_596));
        let e = r.mul_add(all!(1.525_265_811_640_985_4e-5), all!(1.540_352_996_112_707_6e-4));
        let f = r.mul_add(all!(1.020_853_792_965_740_4e-7), all!(1.321_566_283_595_923_8e-6));
        let high = all!(7.037_278_846_726_901e-9).mul_add(r2, f);
        let middle = e.mul_add(r2, d);
        let low = b.mul_add(r2, a);
        let p = high.mul_add(r4, middle).mul_add(r4, low);
        let exponent = k.bitcast::<S::u64s>() << 52;
        let power: S::f64s = (p.bitcast::<S::u64s>() + exponent).bitcast();
        weight / (all!(1.0) + power)
    }

    fn softplus(x: &mut [Self]) {
        motes::vmath::softplus_f64(x);
    }
}
