//! What lies between the products: GELU, batch normalisation and their backwards, on rows of channels.

use motes::simd::dispatch;
use motes::vmath::lanes::exp_f32;

/// Channels handled at once; every width here is a multiple.
const CHUNK: usize = 32;
/// Rows summed in `f32` before the sum goes on in `f64`.
const RUN: usize = 256;

/// One layer's batch normalisation `v = gamma (z - mean) / sqrt(variance + eps) + beta`, as the kernels need it.
#[derive(Clone, Default)]
pub(super) struct Norm {
    /// The mean of each channel.
    pub mean: Vec<f32>,
    /// 1 / sqrt(variance + eps).
    pub inverse: Vec<f32>,
    /// gamma times `inverse`.
    pub scale: Vec<f32>,
    /// beta - mean `scale`.
    pub shift: Vec<f32>,
    /// The means over the batch of d_v and of d_v (z - mean) `inverse`; zero where the statistics are not the batch's own.
    pub through: [Vec<f32>; 2],
}

/// GELU in its erf form and its derivative.
///
/// Phi(-|v|) = e^(-v^2/2) t p(t) with t = 1 / (1 + 0.3 |v|), p fitted to 1.5e-7 of the result; in f32 it comes to 5e-7.
#[inline(always)]
fn gelu<const FMA: bool, const N: usize>(v: [f32; N]) -> ([f32; N], [f32; N]) {
    #[inline(always)]
    fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
        if FMA { a.mul_add(b, c) } else { a * b + c }
    }
    let (mut value, mut slope) = ([0.0; N], [0.0; N]);
    let mut e = [0.0; N];
    for i in 0..N {
        e[i] = -0.5 * v[i] * v[i];
    }
    let e = exp_f32::<FMA, N>(e);
    for i in 0..N {
        let t = 1.0 / fma::<FMA>(v[i].abs(), 0.3, 1.0);
        let p = fma::<FMA>(3.567_495e-2, t, -1.572_037_6e-1);
        let p = fma::<FMA>(p, t, 2.063_546e-1);
        let p = fma::<FMA>(p, t, -5.368_457_4e-2);
        let p = fma::<FMA>(p, t, 1.285_620_8e-1);
        let p = fma::<FMA>(p, t, 9.991_337e-2);
        let p = fma::<FMA>(p, t, 1.207_539_7e-1);
        let p = fma::<FMA>(p, t, 1.196_293e-1);
        let tail = p * t * e[i];
        let phi = if v[i] < 0.0 { tail } else { 1.0 - tail };
        value[i] = v[i] * phi;
        slope[i] = fma::<FMA>(v[i] * 0.398_942_3, e[i], phi);
    }
    (value, slope)
}

#[inline(always)]
fn chunk(x: &[f32], at: usize) -> [f32; CHUNK] {
    *x[at..].first_chunk().expect("a whole chunk")
}

dispatch! {
    /// `a = gelu(z scale + shift)`.
    pub(super) fn activate(z: &[f32], norm: &Norm, a: &mut [f32]) = activate_kernel
}

#[inline(always)]
fn activate_kernel<const FMA: bool>(z: &[f32], norm: &Norm, a: &mut [f32]) {
    let width = norm.scale.len();
    for (z, a) in z.chunks_exact(width).zip(a.chunks_exact_mut(width)) {
        for c in (0..width).step_by(CHUNK) {
            let (mut v, scale, shift) = (chunk(z, c), chunk(&norm.scale, c), chunk(&norm.shift, c));
            for i in 0..CHUNK {
                v[i] = v[i] * scale[i] + shift[i];
            }
            a[c..c + CHUNK].copy_from_slice(&gelu::<FMA, CHUNK>(v).0);
        }
    }
}

dispatch! {
    /// `a = gelu(z)`, and z becomes GELU's derivative there. The length must be a multiple of 32.
    pub(super) fn activate_with_slope(z: &mut [f32], a: &mut [f32]) = activate_with_slope_kernel
}

#[inline(always)]
fn activate_with_slope_kernel<const FMA: bool>(z: &mut [f32], a: &mut [f32]) {
    for (z, a) in z.chunks_exact_mut(CHUNK).zip(a.chunks_exact_mut(CHUNK)) {
        let (value, slope) = gelu::<FMA, CHUNK>(chunk(z, 0));
        a.copy_from_slice(&value);
        z.copy_from_slice(&slope);
    }
}

dispatch! {
    /// Turns d_a into d_v and returns in `sums` the sums over rows of d_v and of d_v (z - mean) `inverse`.
    pub(super) fn deactivate(d: &mut [f32], z: &[f32], norm: &Norm, sums: [&mut [f64]; 2]) = deactivate_kernel
}

#[inline(always)]
fn deactivate_kernel<const FMA: bool>(d: &mut [f32], z: &[f32], norm: &Norm, sums: [&mut [f64]; 2]) {
    let width = norm.scale.len();
    let [plain, hat] = sums;
    plain.fill(0.0);
    hat.fill(0.0);
    for (d, z) in d.chunks_mut(RUN * width).zip(z.chunks(RUN * width)) {
        for c in (0..width).step_by(CHUNK) {
            let (mean, inverse) = (chunk(&norm.mean, c), chunk(&norm.inverse, c));
            let (scale, shift) = (chunk(&norm.scale, c), chunk(&norm.shift, c));
            let (mut sum, mut sum_hat) = ([0.0; CHUNK], [0.0; CHUNK]);
            for at in (c..d.len()).step_by(width) {
                let z = chunk(z, at);
                let mut v = [0.0; CHUNK];
                for i in 0..CHUNK {
                    v[i] = z[i] * scale[i] + shift[i];
                }
                let slope = gelu::<FMA, CHUNK>(v).1;
                let d: &mut [f32; CHUNK] = d[at..].first_chunk_mut().expect("a whole chunk");
                for i in 0..CHUNK {
                    d[i] *= slope[i];
                    sum[i] += d[i];
                    sum_hat[i] += d[i] * ((z[i] - mean[i]) * inverse[i]);
                }
            }
            for i in 0..CHUNK {
                plain[c + i] += f64::from(sum[i]);
                hat[c + i] += f64::from(sum_hat[i]);
            }
        }
    }
}

dispatch! {
    /// Turns d_v into d_z: through the normalisation, and through its statistics if they are the batch's own.
    pub(super) fn unnormalise(d: &mut [f32], z: &[f32], norm: &Norm) = unnormalise_kernel
}

#[inline(always)]
fn unnormalise_kernel<const FMA: bool>(d: &mut [f32], z: &[f32], norm: &Norm) {
    let width = norm.scale.len();
    for (d, z) in d.chunks_exact_mut(width).zip(z.chunks_exact(width)) {
        for c in (0..width).step_by(CHUNK) {
            let (mean, inverse, scale) =
                (chunk(&norm.mean, c), chunk(&norm.inverse, c), chunk(&norm.scale, c));
            let (plain, through) = (chunk(&norm.through[0], c), chunk(&norm.through[1], c));
            let (z, d) = (chunk(z, c), d[c..].first_chunk_mut::<CHUNK>().expect("a whole chunk"));
            for i in 0..CHUNK {
                let hat = (z[i] - mean[i]) * inverse[i];
                d[i] = scale[i] * (d[i] - plain[i] - hat * through[i]);
            }
        }
    }
}

dispatch! {
    /// The mean of each channel over the rows, and the sum of squares around it.
    pub(super) fn moments(z: &[f32], mean: &mut [f64], squares: &mut [f64]) = moments_kernel
}

#[inline(always)]
fn moments_kernel<const FMA: bool>(z: &[f32], mean: &mut [f64], squares: &mut [f64]) {
    let width = mean.len();
    mean.fill(0.0);
    squares.fill(0.0);
    for z in z.chunks(RUN * width) {
        for c in (0..width).step_by(CHUNK) {
            let mut sum = [0.0; CHUNK];
            for at in (c..z.len()).step_by(width) {
                let z = chunk(z, at);
                for i in 0..CHUNK {
                    sum[i] += z[i];
                }
            }
            for i in 0..CHUNK {
                mean[c + i] += f64::from(sum[i]);
            }
        }
    }
    let rows = (z.len() / width) as f64;
    mean.iter_mut().for_each(|m| *m /= rows);
    for z in z.chunks(RUN * width) {
        for c in (0..width).step_by(CHUNK) {
            let (mut sum, mut centre) = ([0.0; CHUNK], [0.0; CHUNK]);
            for i in 0..CHUNK {
                centre[i] = mean[c + i] as f32;
            }
            for at in (c..z.len()).step_by(width) {
                let z = chunk(z, at);
                for i in 0..CHUNK {
                    let d = z[i] - centre[i];
                    sum[i] += d * d;
                }
            }
            for i in 0..CHUNK {
                squares[c + i] += f64::from(sum[i]);
            }
        }
    }
}

dispatch! {
    /// `to += from`.
    pub(super) fn add(to: &mut [f32], from: &[f32]) = add_kernel
}

#[inline(always)]
fn add_kernel<const FMA: bool>(to: &mut [f32], from: &[f32]) {
    for (t, f) in to.iter_mut().zip(from) {
        *t += f;
    }
}

dispatch! {
    /// `to *= by`.
    pub(super) fn multiply(to: &mut [f32], by: &[f32]) = multiply_kernel
}

#[inline(always)]
fn multiply_kernel<const FMA: bool>(to: &mut [f32], by: &[f32]) {
    for (t, b) in to.iter_mut().zip(by) {
        *t *= b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::layers;
    use motes::noise::{Noise, Purpose};

    fn normals(step: u64, len: usize, scale: f32) -> Vec<f32> {
        let mut x = vec![0.0; len];
        Noise::new(5, Purpose::Check).normals_f32(step, 0, &mut x);
        x.iter_mut().for_each(|x| *x *= scale);
        x
    }

    #[test]
    fn gelu_agrees_with_the_plain_one() {
        let grid: Vec<f32> = (-4800..4800).map(|i| i as f32 / 300.0).collect();
        let (mut slope, mut value) = (grid.clone(), vec![0.0; grid.len()]);
        activate_with_slope(&mut slope, &mut value);
        let (mut portable_slope, mut portable) = (grid.clone(), vec![0.0; grid.len()]);
        activate_with_slope_kernel::<false>(&mut portable_slope, &mut portable);
        assert!(portable.iter().zip(&value).all(|(p, v)| (p - v).abs() <= 1e-6 * v.abs().max(0.1)));
        assert!(portable_slope.iter().zip(&slope).all(|(p, v)| (p - v).abs() < 1e-6));
        for ((&v, &value), &slope) in grid.iter().zip(&value).zip(&slope) {
            let (a, b) = layers::gelu(f64::from(v));
            assert!(
                (f64::from(value) - a).abs() <= 4e-7 * f64::from(v.abs()),
                "gelu({v}) = {value}, not {a}"
            );
            assert!((f64::from(slope) - b).abs() < 4e-7, "gelu'({v}) = {slope}, not {b}");
        }
        let (mut far, mut value) = ([f32::NAN, 1e30, -1e30, 0.0].repeat(8), [0.0; 32]);
        activate_with_slope(&mut far, &mut value);
        assert!(value[0].is_nan() && far[0].is_nan());
        assert_eq!((&value[1..4], &far[1..3]), (&[1e30, 0.0, 0.0][..], &[1.0, 0.0][..]));
    }

    #[test]
    fn normalisation_agrees_with_the_plain_one() {
        let (channels, rows) = (64, 700);
        let z = normals(0, rows * channels, 2.0);
        let (gamma, beta) = (normals(1, channels, 1.0), normals(2, channels, 1.0));
        let d = normals(3, z.len(), 1.0);
        // One image is one row, so that the layouts are the same.
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let truth = layers::BatchNorm::of_batch(&wide(&z), channels, 1);
        let (mut mean, mut squares) = (vec![0.0; channels], vec![0.0; channels]);
        moments(&z, &mut mean, &mut squares);
        for c in 0..channels {
            assert!((mean[c] - truth.mean[c]).abs() < 1e-6);
            assert!((squares[c] / rows as f64 / truth.variance[c] - 1.0).abs() < 1e-5);
        }
        let inverse: Vec<f32> =
            truth.variance.iter().map(|v| (1.0 / (v + layers::EPSILON).sqrt()) as f32).collect();
        let scale: Vec<f32> = inverse.iter().zip(&gamma).map(|(i, g)| i * g).collect();
        let mean: Vec<f32> = mean.iter().map(|&m| m as f32).collect();
        let shift = (0..channels).map(|c| beta[c] - mean[c] * scale[c]).collect();
        let mut norm = Norm { mean, inverse, scale, shift, through: [vec![], vec![]] };
        let mut v = vec![0.0; z.len()];
        truth.forward(&wide(&z), &wide(&gamma), &wide(&beta), &mut v);
        let mut a = vec![0.0; z.len()];
        activate(&z, &norm, &mut a);
        let mut d_v = wide(&d);
        for i in 0..z.len() {
            let (value, slope) = layers::gelu(v[i]);
            assert!((f64::from(a[i]) - value).abs() < 3e-6);
            d_v[i] *= slope;
        }
        let (mut d_z, mut d_gamma, mut d_beta) =
            (vec![0.0; z.len()], vec![0.0; channels], vec![0.0; channels]);
        truth.backward(&wide(&z), &wide(&gamma), &d_v, (&mut d_z, &mut d_gamma, &mut d_beta));
        let (mut sum, mut sum_hat) = (vec![0.0; channels], vec![0.0; channels]);
        let mut d = d;
        deactivate(&mut d, &z, &norm, [&mut sum, &mut sum_hat]);
        for c in 0..channels {
            assert!((sum[c] - d_beta[c]).abs() < 1e-3 && (sum_hat[c] - d_gamma[c]).abs() < 1e-3);
        }
        norm.through = [sum, sum_hat].map(|s| s.iter().map(|s| (s / rows as f64) as f32).collect());
        unnormalise(&mut d, &z, &norm);
        for i in 0..z.len() {
            assert!((f64::from(d[i]) - d_z[i]).abs() < 1e-5);
        }
    }
}
