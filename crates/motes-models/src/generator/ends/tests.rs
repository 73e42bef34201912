//! The first and last layers against the plain loops in `f64`.

use super::*;
use crate::generator::layers::{self, Convolution};
use motes::noise::{Noise, Purpose};

fn normals(step: u64, len: usize) -> Vec<f32> {
    let mut x = vec![0.0; len];
    Noise::new(4, Purpose::Check).normals_f32(step, 0, &mut x);
    x
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// `[pixel][channel]` to `[channel][pixel]`.
fn planar(image: &[f32]) -> Vec<f64> {
    (0..IMAGE).map(|i| f64::from(image[i % PIXELS * CHANNELS + i / PIXELS])).collect()
}

fn close(a: &[f64], truth: &[f64]) {
    assert_eq!(a.len(), truth.len());
    let scale = truth.iter().fold(0.0f64, |m, t| m.max(t.abs()));
    assert!(scale > 0.0);
    for (i, (a, t)) in a.iter().zip(truth).enumerate() {
        assert!((a - t).abs() < 2e-6 * scale, "at {i}: {a} and {t}");
    }
}

#[test]
fn the_linear_layer() {
    let images = 7;
    let (x, w, b) = (normals(0, images * LATENTS), normals(1, FEATURES * LATENTS), normals(2, FEATURES));
    let d = normals(3, images * FEATURES);
    let mut layer = Linear::new();
    layer.set(&w, &[0.5; FEATURES]);
    let (mut z, mut d_x, mut d_w) = (vec![0.0; d.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
    layer.forward(&x, &b, &mut z);
    layer.backward(&d, &mut d_x);
    Linear::weight_gradient(&x, &d, &mut d_w);
    let scaled: Vec<f64> = wide(&w).iter().map(|w| w * 0.5).collect();
    let (mut truth_w, mut truth_b) = (vec![0.0; w.len()], vec![0.0; b.len()]);
    for i in 0..images {
        let (x, d) = (wide(&x[i * LATENTS..][..LATENTS]), wide(&d[i * FEATURES..][..FEATURES]));
        let (mut truth, mut truth_x) = (vec![0.0; FEATURES], vec![0.0; LATENTS]);
        layers::linear(&x, &scaled, &wide(&b), &mut truth);
        close(&wide(&z[i * FEATURES..][..FEATURES]), &truth);
        layers::linear_backward(&x, &scaled, &d, (&mut truth_x, &mut truth_w, &mut truth_b));
        close(&wide(&d_x[i * LATENTS..][..LATENTS]), &truth_x);
    }
    close(&wide(&d_w), &truth_w);
}

#[test]
fn the_first_transposed_convolution() {
    let shape =
        Convolution { inputs: CHANNELS, outputs: PLANES, size: SIZE, kernel: 5, stride: 1, padding: 2 };
    let (x, w, b) = (normals(0, 2 * FEATURES), normals(1, Up::WEIGHTS), normals(2, CHANNELS));
    let d = normals(3, 2 * IMAGE);
    let mut layer = Up::new();
    layer.set(&w, &[0.5; CHANNELS]);
    let mut space = Taps::new(1);
    let (mut z, mut d_x, mut own) = (vec![0.0; d.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
    layer.forward(&x, &b, &mut z, &mut space);
    layer.backward(&d, &mut d_x, &mut space);
    Up::add_weight_gradient(&x, &d, &mut own, &mut space);
    let mut d_w = vec![0.0; w.len()];
    Up::weight_gradient(&own, &mut d_w);
    let scaled: Vec<f64> = wide(&w).iter().map(|w| w * 0.5).collect();
    let mut truth_w = vec![0.0; w.len()];
    for i in 0..2 {
        let (x, d) = (wide(&x[i * FEATURES..][..FEATURES]), planar(&d[i * IMAGE..]));
        let (mut truth, mut truth_x) = (vec![0.0; IMAGE], vec![0.0; FEATURES]);
        shape.transposed(&x, &scaled, &mut truth);
        layers::add_bias(&mut truth, &wide(&b));
        close(&planar(&z[i * IMAGE..]), &truth);
        shape.forward(&d, &scaled, &mut truth_x);
        close(&wide(&d_x[i * FEATURES..][..FEATURES]), &truth_x);
        shape.weight_gradient(&d, &x, &mut truth_w);
    }
    close(&wide(&d_w), &truth_w);
}

#[test]
fn the_last_transposed_convolution() {
    for channels in [1, 3] {
        let shape = Convolution {
            inputs: channels,
            outputs: CHANNELS,
            size: OUTPUT_SIZE,
            kernel: OUT_KERNEL,
            stride: 2,
            padding: 1,
        };
        let y = channels * OUTPUT_SIZE * OUTPUT_SIZE;
        let (a, w, b) = (normals(0, IMAGE), normals(1, CHANNELS * OUT_TAPS * channels), normals(2, channels));
        let d = normals(3, y);
        let mut layer = Out::new(channels);
        layer.set(&w);
        let mut space = Taps::new(channels);
        let (mut image, mut d_a, mut d_w) = (vec![0.0; y], vec![0.0; IMAGE], vec![0.0; w.len()]);
        layer.forward(&a, &b, &mut image, &mut space);
        layer.backward(&d, &mut d_a, Some((&a, &mut d_w)), &mut space);
        let (mut truth, mut truth_a, mut truth_w) = (vec![0.0; y], vec![0.0; IMAGE], vec![0.0; w.len()]);
        shape.transposed(&planar(&a), &wide(&w), &mut truth);
        layers::add_bias(&mut truth, &wide(&b));
        close(&wide(&image), &truth);
        shape.forward(&wide(&d), &wide(&w), &mut truth_a);
        close(&planar(&d_a), &truth_a);
        shape.weight_gradient(&wide(&d), &planar(&a), &mut truth_w);
        close(&wide(&d_w), &truth_w);
    }
}
