//! Winograd's convolutions against the plain loops in `f64`.

use super::*;
use crate::generator::layers::Convolution;
use crate::levels::{at_every_level, is_fused};
use motes::noise::{Noise, Purpose};

fn normals(step: u64, len: usize) -> Vec<f32> {
    let mut x = vec![0.0; len];
    Noise::new(3, Purpose::Check).normals_f32(step, 0, &mut x);
    x
}

/// `[pixel][channel]` to `[channel][pixel]`.
fn planar(image: &[f32]) -> Vec<f64> {
    let at = |i: usize| image[i % (SIZE * SIZE) * CHANNELS + i / (SIZE * SIZE)];
    (0..IMAGE).map(|i| f64::from(at(i))).collect()
}

/// The error's root mean square and largest value, relative to the root mean square of the truth.
fn errors(value: impl IntoIterator<Item = f64>, truth: &[f64]) -> (f64, f64) {
    let rms = (truth.iter().map(|t| t * t).sum::<f64>() / truth.len() as f64).sqrt();
    let (mut sum, mut most) = (0.0, 0.0f64);
    for (v, t) in value.into_iter().zip(truth) {
        sum += (v - t).powi(2);
        most = most.max((v - t).abs());
    }
    ((sum / truth.len() as f64).sqrt() / rms, most / rms)
}

fn agrees<const N: usize>() {
    let kernel = Winograd::<N>::KERNEL;
    let shape = Convolution {
        inputs: CHANNELS,
        outputs: CHANNELS,
        size: SIZE,
        kernel,
        stride: 1,
        padding: kernel / 2,
    };
    // One more image than go together.
    let images = TOGETHER + 1;
    let last = TOGETHER * IMAGE;
    let weights = normals(0, MATRIX * kernel * kernel);
    let (input, d_output) = (normals(1, images * IMAGE), normals(2, images * IMAGE));
    let (bias, scale) = (normals(3, CHANNELS), vec![0.5; CHANNELS]);
    let scaled: Vec<f64> = weights.iter().map(|&w| f64::from(w) * 0.5).collect();

    let mut layer = Winograd::<N>::new();
    layer.set(&weights, &scale);
    let mut space = Transforms::new();
    let mut output = vec![f32::NAN; images * IMAGE];
    layer.forward(&input, &bias, &mut output, &mut space);
    let start = normals(4, images * IMAGE);
    let mut d_input = start.clone();
    let mut d_transformed = vec![0.0; Winograd::<N>::WEIGHTS];
    layer.backward(&d_output, &mut d_input, Some((&input, &mut d_transformed)), &mut space);
    let mut d_weights = vec![f32::NAN; weights.len()];
    Winograd::<N>::weight_gradient(&d_transformed, &mut d_weights);

    let mut truth = vec![0.0; IMAGE];
    for at in [0, last] {
        shape.forward(&planar(&input[at..]), &scaled, &mut truth);
        let bias: Vec<f64> = bias.iter().map(|&b| f64::from(b)).collect();
        crate::generator::layers::add_bias(&mut truth, &bias);
        let (rms, most) = errors(planar(&output[at..]), &truth);
        println!("{kernel} x {kernel} forward: {rms:.1e} rms, {most:.1e} at most");
        assert!(rms < 1e-5 && most < 1e-4, "forward: {rms:e}, {most:e}");
        shape.transposed(&planar(&d_output[at..]), &scaled, &mut truth);
        let difference: Vec<f32> = d_input[at..].iter().zip(&start[at..]).map(|(d, s)| d - s).collect();
        let (rms, most) = errors(planar(&difference), &truth);
        println!("{kernel} x {kernel} input gradient: {rms:.1e} rms, {most:.1e} at most");
        assert!(rms < 1e-5 && most < 1e-4, "gradient of the input: {rms:e}, {most:e}");
    }
    let mut truth = vec![0.0; weights.len()];
    for (x, d) in input.chunks_exact(IMAGE).zip(d_output.chunks_exact(IMAGE)) {
        shape.weight_gradient(&planar(x), &planar(d), &mut truth);
    }
    let (rms, most) = errors(d_weights.iter().map(|&d| f64::from(d)), &truth);
    println!("{kernel} x {kernel} weight gradient: {rms:.1e} rms, {most:.1e} at most");
    assert!(rms < 1e-5 && most < 1e-4, "gradient of the weights: {rms:e}, {most:e}");
}

#[test]
fn five_by_five() {
    agrees::<8>();
}

#[test]
fn three_by_three() {
    agrees::<6>();
}

/// The transforms at every level: the same bits wherever there is fused multiply-add, else up to rounding.
fn transforms_agree<const N: usize>() {
    let images = normals(0, 2 * IMAGE);
    let bias = normals(1, CHANNELS);
    let products = normals(2, 64 * STRIDE);
    let all = at_every_level!(simd => {
        let (mut input, mut output) = (vec![0.0; 64 * STRIDE], vec![0.0; 64 * STRIDE]);
        let (mut collected, mut added) = (images.clone(), images.clone());
        transform_input_kernel::<_, N>(simd, &images, &mut input);
        spread_output_kernel::<_, N>(simd, &images, &mut output);
        collect_output_kernel::<_, N>(simd, &products, &bias, &mut collected);
        add_input_kernel::<_, N>(simd, &products, &mut added);
        [input, output, collected, added]
    });
    let (mut input, mut output) = (vec![0.0; 64 * STRIDE], vec![0.0; 64 * STRIDE]);
    let (mut collected, mut added) = (images.clone(), images.clone());
    transform_input(N, &images, &mut input);
    spread_output(N, &images, &mut output);
    collect_output(N, &products, &bias, &mut collected);
    add_input(N, &products, &mut added);
    let chosen = [input, output, collected, added];
    for (level, values) in &all {
        for (values, chosen) in values.iter().zip(&chosen) {
            if is_fused(level) && motes::simd::fused() {
                assert!(values == chosen, "other bits at {level}");
            }
            let scale = chosen.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            assert!(scale > 0.0);
            assert!(values.iter().zip(chosen).all(|(a, b)| (a - b).abs() < 1e-5 * scale), "{level}");
        }
    }
}

#[test]
fn the_transforms_agree_at_every_level() {
    transforms_agree::<8>();
    transforms_agree::<6>();
}
