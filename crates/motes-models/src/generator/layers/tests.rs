//! Each layer's backward against central differences in `f64`.

use super::*;
use motes::noise::{Noise, Purpose};

fn normals(step: u64, len: usize) -> Vec<f64> {
    let mut x = vec![0.0; len];
    Noise::new(7, Purpose::Check).normals_f64(step, 0, &mut x);
    x
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Holds `gradient` of `f` at `x` against central differences.
fn agrees(x: &[f64], gradient: &[f64], f: impl Fn(&[f64]) -> f64) {
    let h = 1e-5;
    let scale = gradient.iter().fold(1.0f64, |m, g| m.max(g.abs()));
    assert!(gradient.iter().any(|g| g.abs() > 1e-3), "a gradient of zeros checks nothing");
    for i in 0..x.len() {
        let mut moved = x.to_vec();
        moved[i] = x[i] + h;
        let up = f(&moved);
        moved[i] = x[i] - h;
        let slope = (up - f(&moved)) / (2.0 * h);
        assert!((slope - gradient[i]).abs() < 1e-8 * scale, "coordinate {i}: {slope} and {}", gradient[i]);
    }
}

#[test]
fn convolutions() {
    for (kernel, stride, padding, size) in [(5, 1, 2, 6), (3, 1, 1, 5), (3, 1, 2, 4), (4, 2, 1, 8)] {
        let shape = Convolution { inputs: 2, outputs: 3, size, kernel, stride, padding };
        let out = shape.output_size();
        let (x, w) = (normals(0, 2 * size * size), normals(1, 6 * kernel * kernel));
        let c = normals(2, 3 * out * out);
        let value = |x: &[f64], w: &[f64]| {
            let mut y = vec![0.0; c.len()];
            shape.forward(x, w, &mut y);
            dot(&y, &c)
        };
        let (mut d_x, mut d_w) = (vec![0.0; x.len()], vec![0.0; w.len()]);
        shape.transposed(&c, &w, &mut d_x);
        shape.weight_gradient(&x, &c, &mut d_w);
        agrees(&x, &d_x, |x| value(x, &w));
        agrees(&w, &d_w, |w| value(&x, w));
        // The transposed convolution, whose input is what was the output.
        let transposed = |z: &[f64], w: &[f64]| {
            let mut y = vec![0.0; x.len()];
            shape.transposed(z, w, &mut y);
            dot(&y, &x)
        };
        let (mut d_z, mut d_w) = (vec![0.0; c.len()], vec![0.0; w.len()]);
        shape.forward(&x, &w, &mut d_z);
        shape.weight_gradient(&x, &c, &mut d_w);
        agrees(&c, &d_z, |z| transposed(z, &w));
        agrees(&w, &d_w, |w| transposed(&c, w));
    }
}

#[test]
fn a_convolution_by_hand() {
    let shape = Convolution { inputs: 1, outputs: 1, size: 3, kernel: 3, stride: 1, padding: 1 };
    let x: Vec<f64> = (1..10).map(f64::from).collect();
    let mut w = vec![0.0; 9];
    (w[0], w[4]) = (1.0, 10.0);
    let mut y = vec![0.0; 9];
    shape.forward(&x, &w, &mut y);
    // Ten times the pixel, and its upper left neighbour: correlation, not convolution with a flipped kernel.
    assert_eq!(y, [10.0, 20.0, 30.0, 40.0, 51.0, 62.0, 70.0, 84.0, 95.0]);
}

#[test]
fn biases() {
    let c = normals(0, 12);
    let bias = normals(1, 3);
    let mut gradient = vec![0.0; 3];
    bias_gradient(&c, &mut gradient);
    agrees(&bias, &gradient, |b| {
        let mut y = vec![0.0; 12];
        add_bias(&mut y, b);
        dot(&y, &c)
    });
}

#[test]
fn linear_layers() {
    let (x, w, b, c) = (normals(0, 4), normals(1, 12), normals(2, 3), normals(3, 3));
    let value = |x: &[f64], w: &[f64], b: &[f64]| {
        let mut y = vec![0.0; 3];
        linear(x, w, b, &mut y);
        dot(&y, &c)
    };
    let (mut d_x, mut d_w, mut d_b) = (vec![0.0; 4], vec![0.0; 12], vec![0.0; 3]);
    linear_backward(&x, &w, &c, (&mut d_x, &mut d_w, &mut d_b));
    agrees(&x, &d_x, |x| value(x, &w, &b));
    agrees(&w, &d_w, |w| value(&x, w, &b));
    agrees(&b, &d_b, |b| value(&x, &w, b));
}

#[test]
fn batch_normalisation() {
    let (channels, pixels) = (2, 3);
    let z = normals(0, 4 * channels * pixels);
    let (gamma, beta, c) = (normals(1, channels), normals(2, channels), normals(3, z.len()));
    for own in [true, false] {
        let statistics = |z: &[f64]| {
            if own {
                return BatchNorm::of_batch(z, channels, pixels);
            }
            BatchNorm { mean: vec![0.3, -0.2], variance: vec![2.0, 0.5], own, pixels }
        };
        let value = |z: &[f64], gamma: &[f64], beta: &[f64]| {
            let mut v = vec![0.0; z.len()];
            statistics(z).forward(z, gamma, beta, &mut v);
            dot(&v, &c)
        };
        let (mut d_z, mut d_gamma, mut d_beta) = (vec![0.0; z.len()], vec![0.0; 2], vec![0.0; 2]);
        statistics(&z).backward(&z, &gamma, &c, (&mut d_z, &mut d_gamma, &mut d_beta));
        agrees(&z, &d_z, |z| value(z, &gamma, &beta));
        agrees(&gamma, &d_gamma, |g| value(&z, g, &beta));
        agrees(&beta, &d_beta, |b| value(&z, &gamma, b));
    }
}

#[test]
fn activations() {
    for v in [-9.0, -4.2, -1.3, -0.4, 0.0, 1e-3, 0.7, 2.9, 3.1, 6.0] {
        for f in [gelu::<f64>, tanh::<f64>, softplus::<f64>] {
            let slope = (f(v + 1e-5).0 - f(v - 1e-5).0) / 2e-5;
            assert!((slope - f(v).1).abs() < 1e-9, "at {v}: {slope} and {}", f(v).1);
        }
    }
    assert_eq!([relu(-2.0), relu(0.0), relu(3.0)], [(0.0, 0.0), (0.0, 0.0), (3.0, 1.0)]);
    // Phi(1) and Phi(-4) from tables.
    assert!((gelu(1.0f64).0 - 0.841_344_746_068_542_9).abs() < 1e-14);
    assert!((gelu(-4.0f64).0 + 4.0 * 3.167_124_183_311_992e-5).abs() < 1e-16);
}

#[test]
fn max_pooling() {
    // Five rows of five: the last row and column are left out.
    let plane = normals(0, 25);
    let c = normals(1, 4);
    let value = |plane: &[f64]| {
        let (mut pooled, mut from) = (vec![0.0; 4], vec![0; 4]);
        max_pool(plane, 5, &mut pooled, &mut from);
        dot(&pooled, &c)
    };
    let (mut pooled, mut from, mut d_plane) = (vec![0.0; 4], vec![0; 4], vec![0.0; 25]);
    max_pool(&plane, 5, &mut pooled, &mut from);
    max_pool_backward(&c, &from, &mut d_plane);
    agrees(&plane, &d_plane, value);
    assert_eq!(pooled[3], [12, 13, 17, 18].map(|i| plane[i]).into_iter().fold(f64::MIN, f64::max));
}
