//! Branch-free `f32` functions; polynomials are minimax fits over the reduced ranges.

use crate::simd::{fma::f32 as fma, poly};

/// ln 2 in two parts; `n * LN2_HI` is exact for every exponent `n`.
const LN2_HI: f32 = 0.693_145_75;
const LN2_LO: f32 = 1.428_606_8e-6;
/// The bits of √½: mantissas are taken from [√½, √2).
pub(crate) const SQRT_HALF: u32 = 0x3f35_04f3;
pub(crate) const MANTISSA: u32 = 0x007f_ffff;

/// x = n ln 2 + r: r, r², `(e^r - 1 - r) / r²`, and bits that end with `n + BIAS`.
#[inline(always)]
fn reduce<const FMA: bool, const BIAS: u32>(x: f32) -> (f32, f32, f32, u32) {
    // Adding this rounds to the nearest integer, and leaves it in the low bits.
    let round = 12_582_912.0 + BIAS as f32;
    let k = fma::<FMA>(x, std::f32::consts::LOG2_E, round);
    let n = k - round;
    let r = fma::<FMA>(n, -LN2_LO, fma::<FMA>(n, -LN2_HI, x));
    // Off by 1.4e-8 of e^r - 1 at most. Grouped for a short chain without an extra product.
    let r2 = r * r;
    let high = fma::<FMA>(8.366_698e-3, r, 4.166_628e-2);
    let high = fma::<FMA>(1.394_664_5e-3, r2, high);
    let low = fma::<FMA>(1.666_654_2e-1, r, 0.5);
    (r, r2, fma::<FMA>(high, r2, low), k.to_bits())
}

#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    // Comparisons, not min and max: they must let NaN through.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let (r, r2, p, k) = reduce::<FMA, 254>(x);
    // 2ⁿ in two factors, to reach the infinite and the subnormal results: k ends with the sum of
    // their biased exponents, and the first takes the half of it.
    let first = (k << 22) & 0x7f80_0000;
    let second = (k << 23).wrapping_sub(first);
    fma::<FMA>(r2, p, 1.0 + r) * f32::from_bits(first) * f32::from_bits(second)
}

#[inline(always)]
pub(crate) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let a = x.abs();
    let a = if a > 9.02 { 9.02 } else { a };
    // tanh(a) = (a + a³ p) / q, fitted in a² to 2.1e-8 before rounding; nothing cancels in it.
    let z = a * a;
    let z2 = z * z;
    let p = fma::<FMA>(3.495_585e-3, z, 1.338_102_5e-1);
    let p = fma::<FMA>(fma::<FMA>(1.335_474_8e-8, z, 2.060_903_5e-5), z2, p);
    let q = fma::<FMA>(3.285_629_5e-4, z, 2.587_697_1e-2);
    let q = fma::<FMA>(7.776_548_6e-7, z2, q);
    let q = fma::<FMA>(q, z2, fma::<FMA>(4.671_434_8e-1, z, 1.0));
    let t = fma::<FMA>(a * z, p, a) / q;
    (if t > 1.0 { 1.0 } else { t }).copysign(x)
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
