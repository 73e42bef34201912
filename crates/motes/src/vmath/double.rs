//! Branch-free `f64` functions; polynomials are minimax fits over the reduced ranges.

use crate::simd::{fma::f64 as fma, poly};

/// Adding and subtracting this rounds to the nearest integer and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// ln 2 in two parts; `n * LN2_HI` is exact for every exponent `n`.
const LN2_HI: f64 = 0.693_147_180_485_539_1;
const LN2_LO: f64 = 7.440_617_110_012_397e-11;
/// The bits of √½: mantissas are taken from [√½, √2).
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;

/// x = n ln 2 + r: `n`, its bits (modulo 2¹²) and `e^r - 1`.
#[inline(always)]
fn reduce<const FMA: bool>(x: f64) -> (f64, u64, f64) {
    let k = fma::<FMA>(x, std::f64::consts::LOG2_E, ROUND);
    let n = k - ROUND;
    let r = fma::<FMA>(n, -LN2_LO, fma::<FMA>(n, -LN2_HI, x));
    // Off by 2e-17 of the result at most.
    #[rustfmt::skip]
    let p = poly!(
        f64, r,
        0.5, 0.166_666_666_666_666_85, 0.041_666_666_666_572_684, 0.008_333_333_333_314_466,
        0.001_388_888_893_275_294, 1.984_126_990_337_251_6e-4, 2.480_150_393_848_454e-5,
        2.755_722_759_053_507_7e-6, 2.762_654_650_581_251_3e-7, 2.511_460_495_431_538_4e-8,
    );
    (n, k.to_bits(), fma::<FMA>(r * r, p, r))
}

/// 2ⁿ for n in -1022..=1023, from the low bits of `n`.
#[inline(always)]
fn power(n: u64) -> f64 {
    f64::from_bits((n << 52).wrapping_add(1.0f64.to_bits()))
}

#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f64) -> f64 {
    // Comparisons, not min and max: they must let NaN through.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (n, k, q) = reduce::<FMA>(x);
    // Two factors reach the infinite and the subnormal results.
    let half = fma::<FMA>(n, 0.5, ROUND).to_bits();
    (1.0 + q) * power(half) * power(k.wrapping_sub(half))
}

#[inline(always)]
pub(crate) fn tanh<const FMA: bool>(x: f64) -> f64 {
    let y = 2.0 * x.abs();
    let y = if y > 40.0 { 40.0 } else { y };
    let (_, k, q) = reduce::<FMA>(y);
    let scale = power(k);
    let expm1 = fma::<FMA>(scale, q, scale - 1.0);
    (expm1 / (expm1 + 2.0)).copysign(x)
}

#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool>(x: f64) -> f64 {
    let e = exp::<FMA>(-x.abs());
    (if x >= 0.0 { 1.0 } else { e }) / (1.0 + e)
}

#[inline(always)]
pub(crate) fn softplus<const FMA: bool>(x: f64) -> f64 {
    let e = exp::<FMA>(-x.abs());
    let big = e > std::f64::consts::SQRT_2 - 1.0;
    let n = if big { 1.0 } else { 0.0 };
    let t = if big { 0.5 * (e - 1.0) } else { e };
    (if x > 0.0 { x } else { 0.0 }) + ln_parts::<FMA>(n, t)
}

#[inline(always)]
pub(crate) fn ln<const FMA: bool>(x: f64) -> f64 {
    let small = x < f64::MIN_POSITIVE;
    let y = if small { x * 4_503_599_627_370_496.0 } else { x };
    let v = ln_positive::<FMA>(y, if small { -52.0 } else { 0.0 });
    let v = if x < f64::INFINITY { v } else { x };
    let edge = if x == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    if x > 0.0 { v } else { edge }
}

/// ln x + shift ln 2 for positive, finite, normal x.
#[inline(always)]
pub(crate) fn ln_positive<const FMA: bool>(x: f64, shift: f64) -> f64 {
    // The bias keeps the exponent positive: AVX2 can neither shift 64-bit integers
    // arithmetically nor convert them, but a small one can be set into a mantissa.
    let bits = x.to_bits().wrapping_sub(SQRT_HALF).wrapping_add(1023 << 52);
    let n = f64::from_bits((bits >> 52) | ROUND.to_bits()) - (ROUND + 1023.0) + shift;
    let t = f64::from_bits((bits & MANTISSA).wrapping_add(SQRT_HALF)) - 1.0;
    ln_parts::<FMA>(n, t)
}

/// n ln 2 + ln(1 + t) for 1 + t in [√½, √2], by ln(1 + t) = 2 artanh(t / (2 + t)).
#[inline(always)]
fn ln_parts<const FMA: bool>(n: f64, t: f64) -> f64 {
    let s = t / (2.0 + t);
    let z = s * s;
    // Off by 2e-18 of the result at most.
    #[rustfmt::skip]
    let p = poly!(
        f64, z,
        0.666_666_666_666_673_4, 0.399_999_999_994_147_54, 0.285_714_287_423_941_3,
        0.222_221_985_707_378_47, 0.181_835_645_271_608_42, 0.153_140_438_107_220_97,
        0.147_960_311_744_117_56,
    );
    // t - t²/2 carries the leading digits, so that the rounding of s hardly shows.
    let square = 0.5 * t * t;
    let low = fma::<FMA>(s, fma::<FMA>(z, p, square), n * LN2_LO);
    fma::<FMA>(n, LN2_HI, t - (square - low))
}
