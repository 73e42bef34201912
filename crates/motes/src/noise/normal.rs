//! Words to uniform and normal draws: Box-Muller, with a logarithm and a sine made for these arguments.

use crate::simd::{fma, poly};
use crate::vmath::{MANTISSA, SQRT_HALF, ln_parts_f32, ln_positive_f64};

/// Two independent normals: the first word gives the radius, the second the angle.
#[inline(always)]
pub(super) fn pair_f32<const FMA: bool>(radius: u32, angle: u32) -> (f32, f32) {
    // u = (k + 1/2) / 2³¹, so that the tail reaches √(64 ln 2) = 6.66.
    let k = radius >> 1;
    let bits = centre::<FMA>(k).to_bits().wrapping_sub(SQRT_HALF);
    let exponent = bits as i32 >> 23;
    let t = f32::from_bits((bits & MANTISSA) + SQRT_HALF) - 1.0;
    // Near u = 1 the logarithm is as good as 1 - u, which must not come from a rounded u.
    let t = if exponent == 0 { -centre::<FMA>(k ^ 0x7fff_ffff) } else { t };
    let r = (-2.0 * ln_parts_f32::<FMA>(exponent as f32, t)).sqrt();

    // 30 bits place the angle within a quarter turn about the axis, where the functions need no
    // reduction; the other two choose the axis and its direction.
    let s = (angle << 2) as i32 as f32 * (0.5 / TWO_31);
    let z = s * s;
    // sin(πs/2) and cos(πs/2), off by 3e-9 and 7e-11 at most.
    let sin = s * poly!(f32, z, std::f32::consts::FRAC_PI_2, -6.459_635e-1, 7.968_003e-2, -4.601_658e-3);
    #[rustfmt::skip]
    let cos = poly!(f32, z, 1.0, -1.233_700_5, 2.536_692_3e-1, -2.086_016_7e-2, 9.037_702e-4);
    let r = f32::from_bits(r.to_bits() ^ ((angle << 1) & 0x8000_0000));
    let swap = (angle as i32) < 0;
    (r * if swap { sin } else { cos }, r * if swap { cos } else { sin })
}

const TWO_31: f32 = 2_147_483_648.0;

/// (k + 1/2) / 2³¹.
#[inline(always)]
fn centre<const FMA: bool>(k: u32) -> f32 {
    fma::f32::<FMA>(k as i32 as f32, 1.0 / TWO_31, 0.5 / TWO_31)
}

/// Two independent normals, as [`pair_f32`] but from 64-bit words.
#[inline(always)]
pub(super) fn pair_f64<const FMA: bool>(radius: u64, angle: u64) -> (f64, f64) {
    let r = (-2.0 * ln_positive_f64::<FMA>(unit(radius), 0.0)).sqrt();
    let s = mantissa(angle << 2) - 1.5;
    let z = s * s;
    // sin(πs/2) and cos(πs/2), off by 4e-18 and 7e-17 at most.
    #[rustfmt::skip]
    let sin = s * poly!(
        f64, z,
        std::f64::consts::FRAC_PI_2, -0.645_964_097_506_244_3, 0.079_692_626_246_039_57,
        -0.004_681_754_132_282_397, 1.604_411_502_914_568_7e-4, -3.598_641_753_697_508_7e-6,
        5.633_720_907_355_410_5e-8,
    );
    #[rustfmt::skip]
    let cos = poly!(
        f64, z,
        1.0, -1.233_700_550_136_155_5, 0.253_669_507_899_962_57, -0.020_863_480_735_918_035,
        9.192_599_545_099_813e-4, -2.520_014_426_939_126_6e-5, 4.655_352_579_022_276e-7,
    );
    let r = f64::from_bits(r.to_bits() ^ ((angle << 1) & (1 << 63)));
    let swap = (angle as i64) < 0;
    (r * if swap { sin } else { cos }, r * if swap { cos } else { sin })
}

/// The top 53 bits as a fraction in (0, 1): k / 2⁵³, but 2⁻⁵⁴ in place of zero.
#[inline(always)]
pub(super) fn unit(word: u64) -> f64 {
    const LAST: f64 = f64::EPSILON / 2.0;
    // By mantissas: AVX2 cannot convert 64-bit integers.
    let last = f64::from_bits(((word >> 11) & 1).wrapping_neg() & LAST.to_bits());
    let u = mantissa(word) - 1.0 + last;
    if u > LAST / 2.0 { u } else { LAST / 2.0 }
}

/// The top 52 bits as a number in [1, 2).
#[inline(always)]
fn mantissa(word: u64) -> f64 {
    f64::from_bits((word >> 12) | 1.0f64.to_bits())
}
