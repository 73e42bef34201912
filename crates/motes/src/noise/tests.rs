//! Known answers, agreement between paths, and the distribution of the draws.

use super::threefry::threefry4x32;
use super::*;
use std::f64::consts::{FRAC_PI_2, SQRT_2};

const SEED: u64 = 0x0123_4567_89ab_cdef;

fn noise() -> Noise {
    Noise::new(SEED, Purpose::Particles)
}

#[test]
fn known_answers() {
    // Counter, key and result from the test vectors of the Random123 library.
    const ZERO: [u32; 4] = [0; 4];
    const ONES: [u32; 4] = [u32::MAX; 4];
    const PI: [u32; 4] = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    const PI_KEY: [u32; 4] = [0xa409_3822, 0x299f_31d0, 0x082e_fa98, 0xec4e_6c89];
    fn check<const ROUNDS: usize>(expected: [[u32; 4]; 3]) {
        let inputs = [(ZERO, ZERO), (ONES, ONES), (PI, PI_KEY)];
        for ((counter, key), expected) in inputs.into_iter().zip(expected) {
            assert_eq!(threefry4x32::<ROUNDS>(key, counter), expected, "{ROUNDS} rounds");
        }
    }
    check::<13>([
        [0x531c_7e4f, 0x3949_1ee5, 0x2c85_5a92, 0x3d6a_bf9a],
        [0xc418_9358, 0x1c9c_c83a, 0xd588_1c67, 0x6a0a_89e0],
        [0x4aa7_1d8f, 0x7347_38c2, 0x431f_c6a8, 0xae6d_ebf1],
    ]);
    check::<20>([
        [0x9c6c_a96a, 0xe17e_ae66, 0xfc10_ecd4, 0x5256_a7d8],
        [0x2a88_1696, 0x5701_2287, 0xf6c7_446e, 0xa16a_6732],
        [0x59cd_1dbb, 0xb887_9579, 0x86b5_d00c, 0xac8b_6d84],
    ]);
    check::<72>([
        [0x9317_1da6, 0x9220_326d, 0xb392_b7b1, 0xff58_a002],
        [0x6074_3f3d, 0x9961_e684, 0xaab2_1c34, 0x8c65_fb7d],
        [0x0993_0adf, 0x7f27_bd55, 0x9ed6_8ce1, 0x97f8_03f6],
    ]);
}

#[inline(always)]
fn words_kernel<const FMA: bool>(key: [u32; 4], step: u64, out: &mut [[[u32; LANES]; 4]]) {
    for (batch, out) in out.iter_mut().enumerate() {
        *out = threefry::batch(key, step, batch as u64 + FIRST_BATCH);
    }
}
dispatch! { fn words(key: [u32; 4], step: u64, out: &mut [[[u32; LANES]; 4]]) = words_kernel }

/// Such that the low word of the block number overflows on the way.
const FIRST_BATCH: u64 = (1 << 29) - 3;

#[test]
fn vector_words_equal_scalar_words() {
    let key = noise().key;
    let mut out = [[[0; LANES]; 4]; 6];
    words(key, 1 << 40 | 5, &mut out);
    for (batch, words) in out.iter().enumerate() {
        for lane in 0..LANES {
            let block = std::hint::black_box((FIRST_BATCH + batch as u64) * 8 + lane as u64);
            let scalar = threefry::block(key, 1 << 40 | 5, block);
            assert_eq!(words.map(|lanes| lanes[lane]), scalar);
        }
    }
}

/// Draws the range in one piece and in pieces of odd lengths, and compares the bits.
fn check_pieces<T: Copy + Default + Into<f64>>(draw: impl Fn(u64, &mut [T])) {
    for first in [0, 1, 31, 1000, (1 << 34) - 77, (1 << 37) + 13] {
        let mut whole = [T::default(); 500];
        draw(first, &mut whole);
        let mut pieces = [T::default(); 500];
        let (mut start, mut len) = (0, 1);
        while start < 500 {
            let end = 500.min(start + len);
            draw(first + start as u64, &mut pieces[start..end]);
            (start, len) = (end, len * 2 % 37 + 1);
        }
        for (a, b) in whole.into_iter().zip(pieces) {
            assert_eq!(a.into().to_bits(), b.into().to_bits());
        }
    }
}

#[test]
fn draws_do_not_depend_on_the_cut() {
    check_pieces(|first, out: &mut [f32]| noise().normals_f32(3, first, out));
    check_pieces(|first, out: &mut [f64]| noise().normals_f64(3, first, out));
    check_pieces(|first, out: &mut [f64]| noise().uniforms(3, first, out));
    check_pieces(|first, out: &mut [f64]| {
        for (j, out) in out.iter_mut().enumerate() {
            *out = noise().uniform(3, first + j as u64);
        }
    });
    noise().normals_f32(0, 5, &mut []);
}

#[test]
fn one_uniform_equals_many() {
    for first in [0, 7, (1 << 36) - 9] {
        let mut out = [0.0; 100];
        noise().uniforms(u64::MAX, first, &mut out);
        for (j, u) in out.into_iter().enumerate() {
            assert_eq!(u, noise().uniform(u64::MAX, first + j as u64));
        }
    }
}

macro_rules! langevin_test {
    ($name:ident, $method:ident, $normals:ident, $float:ident) => {
        #[test]
        fn $name() {
            for (first, len) in [(0, 64), (0, 100), (5, 1), (17, 300), (31, 33), (8, 0)] {
                let mut z = vec![0.0; len];
                noise().$normals(9, first, &mut z);
                let grad: Vec<$float> = (0..len).map(|i| (i as $float).sin()).collect();
                let mut x: Vec<$float> = (0..len).map(|i| (i as $float).cos()).collect();
                let h: f64 = 0.037;
                let (step, scale) = (h as $float, (2.0 * h).sqrt() as $float);
                let expected: Vec<$float> =
                    (0..len).map(|i| x[i] + (step * grad[i] + scale * z[i])).collect();
                assert!(noise().$method(9, first, &mut x, &grad, h, 10.0));
                assert_eq!(x, expected);
                for bad in [<$float>::NAN, 50.0, -50.0, <$float>::INFINITY] {
                    for at in [0, len / 2, len.saturating_sub(1)] {
                        let mut x = x.clone();
                        if let Some(x) = x.get_mut(at) {
                            *x = bad;
                        }
                        assert_eq!(noise().$method(9, first, &mut x, &grad, h, 10.0), len == 0);
                    }
                }
                let size = x.iter().fold(0.0, |m: $float, x| m.max(x.abs()));
                let still = vec![0.0; len];
                assert!(noise().$method(9, first, &mut x, &still, 0.0, size));
            }
        }
    };
}

langevin_test!(langevin_f32_is_normals_and_arithmetic, langevin_f32, normals_f32, f32);
langevin_test!(langevin_f64_is_normals_and_arithmetic, langevin_f64, normals_f64, f64);

fn assert_close(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance * want.abs(), "{got:e} for {want:e}");
}

/// Box-Muller in `f64` with std's functions: `u`, and the place within the quarter turn.
fn reference(u_below_half: f64, complement: f64, s: f64, swap: bool, minus: bool) -> (f64, f64) {
    let ln = if u_below_half < 0.5 { u_below_half.ln() } else { (-complement).ln_1p() };
    let r = (-2.0 * ln).sqrt() * if minus { -1.0 } else { 1.0 };
    let (sin, cos) = (FRAC_PI_2 * s).sin_cos();
    if swap { (r * sin, r * cos) } else { (r * cos, r * sin) }
}

fn reference_f32(radius: u32, angle: u32) -> (f64, f64) {
    let scale = 2.0f64.powi(-31);
    let u = (f64::from(radius >> 1) + 0.5) * scale;
    let s = f64::from((angle << 2) as i32) * scale / 2.0;
    reference(u, 1.0 - u, s, angle >> 31 == 1, angle >> 30 & 1 == 1)
}

fn reference_f64(radius: u64, angle: u64) -> (f64, f64) {
    let scale = 2.0f64.powi(-53);
    let k = (radius >> 11).max(1) as f64;
    let u = if radius >> 11 == 0 { scale / 2.0 } else { k * scale };
    let s = ((angle << 2) >> 12) as f64 * 2.0f64.powi(-52) - 0.5;
    reference(u, 1.0 - u, s, angle >> 63 == 1, angle >> 62 & 1 == 1)
}

#[test]
fn normals_are_accurate() {
    const N: usize = 1 << 18;
    let key = noise().key;
    let (mut single, mut double) = (vec![0.0; N], vec![0.0; N]);
    noise().normals_f32(2, 0, &mut single);
    noise().normals_f64(2, 0, &mut double);
    // Root mean square and largest relative errors.
    let (mut sums, mut worst) = ([0.0; 2], [0.0f64; 2]);
    let mut compare = |kind: usize, got: f64, want: f64| {
        let error = ((got - want) / want).abs();
        sums[kind] += error * error;
        worst[kind] = worst[kind].max(error);
    };
    for batch in 0..N / 32 {
        let words = threefry::batch::<LANES>(key, 2, batch as u64);
        for lane in 0..LANES {
            let w = |i: usize| words[i][lane];
            for half in 0..2 {
                let (a, b) = reference_f32(w(2 * half), w(2 * half + 1));
                let at = 32 * batch + 16 * half + lane;
                compare(0, single[at].into(), a);
                compare(0, single[at + 8].into(), b);
            }
            let (a, b) = reference_f64(join(w(0), w(1)), join(w(2), w(3)));
            compare(1, double[16 * batch + lane], a);
            compare(1, double[16 * batch + 8 + lane], b);
        }
    }
    let rms = sums.map(|sum| (sum / N as f64).sqrt());
    assert!(rms[0] < 1e-7 && worst[0] < 3.5e-7, "{rms:?} {worst:?}");
    assert!(rms[1] < 3e-16 && worst[1] < 1.5e-15, "{rms:?} {worst:?}");
}

#[test]
fn extreme_words() {
    let angles = [0, 1, 0x1fff_ffff, 0x2000_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    let sqrt_half = (SQRT_2 / 2.0 * 2.0f64.powi(32)) as u32;
    for radius in [0, 1, 2, 3, 1 << 31, sqrt_half, sqrt_half - 300, sqrt_half + 300, u32::MAX - 2, u32::MAX] {
        for angle in angles {
            let want = reference_f32(radius, angle);
            let got = normal::pair_f32::<false>(radius, angle);
            assert_close(got.0.into(), want.0, 3e-7);
            assert_close(got.1.into(), want.1, 3e-7);
            let wide = |word: u32| u64::from(word) << 32 | u64::from(word);
            let want = reference_f64(wide(radius), wide(angle));
            let got = normal::pair_f64::<false>(wide(radius), wide(angle));
            assert_close(got.0, want.0, 3e-15);
            assert_close(got.1, want.1, 3e-15);
        }
    }
    assert!(normal::pair_f32::<false>(0, 0).0 > 6.6);
    assert!(normal::pair_f64::<false>(0, 1 << 61).0 > 8.6 / SQRT_2);
    assert_eq!(normal::unit(0), 2.0f64.powi(-54));
    assert_eq!(normal::unit(1 << 11), 2.0f64.powi(-53));
    assert_eq!(normal::unit(u64::MAX), 1.0 - 2.0f64.powi(-53));
}

#[test]
fn portable_agrees() {
    const N: usize = 10_000;
    let key = noise().key;
    let (mut a, mut b) = (vec![0.0; N], vec![0.0; N]);
    noise().normals_f32(1, 3, &mut a);
    fill_f32::<false>(key, 1, 3, &mut b);
    for (&a, &b) in a.iter().zip(&b) {
        assert_close(a.into(), b.into(), 5e-7);
    }
    let (mut a, mut b) = (vec![0.0; N], vec![0.0; N]);
    noise().normals_f64(1, 3, &mut a);
    fill_f64::<false>(key, 1, 3, &mut b);
    for (&a, &b) in a.iter().zip(&b) {
        assert_close(a, b, 4e-15);
    }
    noise().uniforms(1, 3, &mut a);
    fill_uniform::<false>(key, 1, 3, &mut b);
    assert_eq!(a, b);
}

/// Batches in pairs are for processors that not everyone has.
#[test]
fn batches_in_pairs_give_the_same_bits() {
    let key = noise().key;
    for (first, len) in [(0, 500), (7, 1), (31, 2), (33, 64), (63, 130), (64, 64)] {
        let (mut a, mut b) = (vec![0.0; len], vec![0.0; len]);
        fill_f32::<false>(key, 1, first, &mut a);
        fill_wide_f32::<false>(key, 1, first, &mut b);
        assert_eq!(a, b);
        let (mut a, mut b) = (vec![0.0; len], vec![0.0; len]);
        fill_f64::<false>(key, 1, first, &mut a);
        fill_wide_f64::<false>(key, 1, first, &mut b);
        assert_eq!(a, b);
        fill_uniform::<false>(key, 1, first, &mut a);
        fill_wide_uniform::<false>(key, 1, first, &mut b);
        assert_eq!(a, b);
        let (grad, by) = (vec![0.3; len], [0.01, 0.1, 1e3]);
        langevin_narrow_f64::<false>(key, 1, first, &mut a, &grad, by);
        langevin_wide_f64::<false>(key, 1, first, &mut b, &grad, by);
        assert_eq!(a, b);
    }
}

const MANY: usize = 1 << 22;

fn many_f32(noise: Noise, step: u64) -> Vec<f64> {
    let mut out = vec![0.0; MANY];
    noise.normals_f32(step, 0, &mut out);
    out.into_iter().map(f64::from).collect()
}

fn many_f64(noise: Noise, step: u64) -> Vec<f64> {
    let mut out = vec![0.0; MANY];
    noise.normals_f64(step, 0, &mut out);
    out
}

#[test]
fn moments() {
    for draws in [many_f32(noise(), 4), many_f64(noise(), 5)] {
        let n = draws.len() as f64;
        // The order, its moment, and the variance of that power of a normal.
        for (order, moment, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let mean = draws.iter().map(|z| z.powi(order)).sum::<f64>() / n;
            let errors = (mean - moment) / f64::sqrt(variance / n);
            assert!(errors.abs() < 4.0, "order {order}: {errors} standard errors");
        }
    }
}

/// The normal distribution function to 1e-7 (Abramowitz and Stegun, 26.2.17).
fn phi(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let coefficients = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let sum = t * coefficients.iter().fold(0.0, |sum, c| sum * t + c);
    let upper = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if x < 0.0 { upper } else { 1.0 - upper }
}

/// The Kolmogorov-Smirnov distance times the root of the number of draws.
fn distance(mut draws: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    draws.sort_unstable_by(f64::total_cmp);
    let n = draws.len() as f64;
    let gap = |(i, &x): (usize, &f64)| {
        let (f, i) = (cdf(x), i as f64);
        (f - i / n).max((i + 1.0) / n - f)
    };
    draws.iter().enumerate().map(gap).fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn kolmogorov_smirnov() {
    // Exceeded with probability 0.0007.
    const CRITICAL: f64 = 2.0;
    let part = |mut draws: Vec<f64>| {
        draws.truncate(MANY / 4);
        draws
    };
    let mut uniforms = vec![0.0; MANY / 4];
    noise().uniforms(6, 0, &mut uniforms);
    assert!(uniforms.iter().all(|&u| u > 0.0 && u < 1.0));
    let distances = [
        distance(part(many_f32(noise(), 7)), phi),
        distance(part(many_f64(noise(), 8)), phi),
        distance(uniforms, |u| u),
    ];
    for d in distances {
        assert!(d < CRITICAL && d > 0.3, "{distances:?}");
    }
}

#[test]
fn tails() {
    // Both tails beyond 4 and 5.
    let probabilities = [(4.0, 6.334_248e-5), (5.0, 5.733_031e-7)];
    let mut counts = [[0u32; 2]; 2];
    let (mut single, mut double) = (vec![0.0; MANY / 64], vec![0.0; MANY / 64]);
    let repeats = 1024;
    for step in 0..repeats {
        noise().normals_f32(step, 1, &mut single);
        noise().normals_f64(step, 1, &mut double);
        for (i, (limit, _)) in probabilities.into_iter().enumerate() {
            let single = single.iter().filter(|z| z.abs() > limit as f32).count();
            let double = double.iter().filter(|z| z.abs() > limit).count();
            counts[0][i] += single as u32;
            counts[1][i] += double as u32;
        }
    }
    let n = (repeats as usize * single.len()) as f64;
    for counts in counts {
        for (count, (limit, p)) in counts.into_iter().zip(probabilities) {
            let errors = (f64::from(count) - n * p) / (n * p).sqrt();
            assert!(errors.abs() < 4.0, "beyond {limit}: {count}, {errors} standard errors");
        }
    }
}

#[test]
fn no_correlations() {
    // In standard errors: of the draws, of their squares, and of one with the square of the other.
    let check = |name: &str, a: &[f64], b: &[f64]| {
        let n = a.len().min(b.len()) as f64;
        let square = |z: f64| (z * z - 1.0) / SQRT_2;
        let mut sums = [0.0; 4];
        for (&a, &b) in a.iter().zip(b) {
            sums[0] += a * b;
            sums[1] += square(a) * square(b);
            sums[2] += a * square(b);
            sums[3] += square(a) * b;
        }
        let errors = sums.map(|s| s / n.sqrt());
        assert!(errors.iter().all(|e| e.abs() < 4.5), "{name}: {errors:?}");
    };
    for many in [many_f32, many_f64] {
        let draws = many(noise(), 10);
        // Pairs that share a radius are eight apart.
        for lag in [1, 2, 7, 8, 16, 32] {
            check("lag", &draws, &draws[lag..]);
        }
        check("next step", &draws, &many(noise(), 11));
        check("far step", &draws, &many(noise(), 10 | 1 << 32));
        check("next seed", &draws, &many(Noise::new(SEED ^ 1, Purpose::Particles), 10));
        check("far seed", &draws, &many(Noise::new(SEED ^ 1 << 63, Purpose::Particles), 10));
        check("purpose", &draws, &many(Noise::new(SEED, Purpose::Accept), 10));
    }
}
