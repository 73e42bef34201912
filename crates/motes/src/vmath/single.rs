//! Branch-free `f32` functions; polynomials are minimax fits over the reduced ranges.

use crate::simd::{fma::f32 as fma, poly};

/// Adding and subtracting this rounds to the nearest integer and leaves it in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; `n * LN2_HI` is exact for every exponent `n`.
const LN2_HI: f32 = 0.693_145_75;
const LN2_LO: f32 = 1.428_606_8e-6;
/// The bits of √½: mantissas are taken from [√½, √2).
pub(crate) const SQRT_HALF: u32 = 0x3f35_04f3;
pub(crate) const MANTISSA: u32 = 0x007f_ffff;

/// x = n ln 2 + r: the bits of `n` (modulo 2⁹) and `e^r - 1`.
#[inline(always)]
fn reduce<const FMA: bool>(x: f32) -> (u32, f32) {
    let k = fma::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = k - ROUND;
    let r = fma::<FMA>(n, -LN2_LO, fma::<FMA>(n, -LN2_HI, x));
    // Off by 1.4e-8 of the result at most.
    let p = poly!(f32, r, 0.5, 1.666_654_2e-1, 4.166_628e-2, 8.366_698e-3, 1.394_664_5e-3);
    (k.to_bits(), fma::<FMA>(r * r, p, r))
}

/// 2ⁿ for n in -126..=127, from the low bits of `n`.
#[inline(always)]
fn power(n: u32) -> f32 {
    f32::from_bits((n << 23).wrapping_add(1.0f32.to_bits()))
}

#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    // Comparisons, not min and max: they must let NaN through.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let (k, q) = reduce::<FMA>(x);
    // Two factors reach the infinite and the subnormal results.
    let half = ((k << 9) as i32 >> 10) as u32;
    (1.0 + q) * power(half) * power(k.wrapping_sub(half))
}

#[inline(always)]
pub(crate) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let y = 2.0 * x.abs();
    let y = if y > 20.0 { 20.0 } else { y };
    let (k, q) = reduce::<FMA>(y);
    let scale = power(k);
    let expm1 = fma::<FMA>(scale, q, scale - 1.0);
    (expm1 / (expm1 + 2.0)).copysign(x)
}

#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    let e = exp::<FMA>(-x.abs());
    (if x >= 0.0 { 1.0 } else { e }) / (1.0 + e)
}

#[inline(always)]
pub(crate) fn softplus<const FMA: bool>(x: f32) -> f32 {
    let e = exp::<FMA>(-x.abs());
    let big = e > std::f32::consts::SQRT_2 - 1.0;
    let n = if big { 1.0 } else { 0.0 };
    let t = if big { 0.5 * (e - 1.0) } else { e };
    (if x > 0.0 { x } else { 0.0 }) + ln_parts::<FMA>(n, t)
}

#[inline(always)]
pub(crate) fn ln<const FMA: bool>(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let y = if small { x * 8_388_608.0 } else { x };
    let bits = y.to_bits().wrapping_sub(SQRT_HALF);
    let n = (bits as i32 >> 23) as f32 - if small { 23.0 } else { 0.0 };
    let t = f32::from_bits((bits & MANTISSA).wrapping_add(SQRT_HALF)) - 1.0;
    let v = ln_parts::<FMA>(n, t);
    let v = if x < f32::INFINITY { v } else { x };
    let edge = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { v } else { edge }
}

/// n ln 2 + ln(1 + t) for 1 + t in [√½, √2].
#[inline(always)]
pub(crate) fn ln_parts<const FMA: bool>(n: f32, t: f32) -> f32 {
    // Off by 3e-8 of the result at most.
    #[rustfmt::skip]
    let p = poly!(
        f32, t,
        -0.499_999_9, 3.333_394_8e-1, -2.500_175_8e-1, 1.996_213_2e-1,
        -1.657_047_3e-1, 1.491_736_3e-1, -1.430_758_8e-1, 8.736_578e-2,
    );
    let low = fma::<FMA>(t * t, p, n * LN2_LO);
    fma::<FMA>(n, LN2_HI, t + low)
}
