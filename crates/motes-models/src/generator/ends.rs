//! The network's first and last layers: linear, the transposed convolution 4 -> 64, and the one that doubles the size.
//!
//! Latents and features are rows of an image each; the first transposed convolution reads features as `[4][16][16]`.

use super::product::{Matrix, product};
use super::winograd::{CHANNELS, IMAGE, SIZE};
use motes::simd::Aligned;

/// Latent coordinates of an image.
pub(super) const LATENTS: usize = 64;
/// Features that the linear layer makes of them.
pub(super) const FEATURES: usize = PLANES * PIXELS;
/// Rows, and columns, of a decoded image.
pub(super) const OUTPUT_SIZE: usize = 2 * SIZE;

const PLANES: usize = 4;
const PIXELS: usize = SIZE * SIZE;
const UP_KERNEL: usize = 5;
/// Taps of the first transposed convolution, and that rounded up to whole tiles.
const UP_TAPS: usize = PLANES * UP_KERNEL * UP_KERNEL;
const UP_WIDTH: usize = 112;
const OUT_KERNEL: usize = 4;
/// Taps of the last one for each channel of the image.
const OUT_TAPS: usize = OUT_KERNEL * OUT_KERNEL;

/// The transpose of rows of `width` values.
fn transpose(from: &[f32], width: usize, to: &mut [f32], to_width: usize) {
    for (i, row) in from.chunks_exact(width).enumerate() {
        for (j, &v) in row.iter().enumerate() {
            to[j * to_width + i] = v;
        }
    }
}

/// y = W x + b.
pub(super) struct Linear {
    /// `[output][input]`.
    weights: Aligned<f32>,
    transposed: Aligned<f32>,
}

impl Linear {
    /// Without weights yet.
    pub fn new() -> Self {
        let weights = Aligned::zeros(FEATURES * LATENTS);
        Self { transposed: weights.clone(), weights }
    }

    /// Takes the weights `[output][input]`, each output's times its scale.
    pub fn set(&mut self, weights: &[f32], scale: &[f32]) {
        for (i, (to, &w)) in self.weights.iter_mut().zip(weights).enumerate() {
            *to = w * scale[i / LATENTS];
        }
        transpose(&self.weights, LATENTS, &mut self.transposed, FEATURES);
    }

    /// The features of some images.
    pub fn forward(&self, x: &[f32], bias: &[f32], z: &mut [f32]) {
        let images = x.len() / LATENTS;
        z.chunks_exact_mut(FEATURES).for_each(|z| z.copy_from_slice(bias));
        product([images, LATENTS, FEATURES], Matrix::rows(x, LATENTS), &self.transposed, z, true);
    }

    /// The gradient with respect to the latents.
    pub fn backward(&self, d_z: &[f32], d_x: &mut [f32]) {
        let images = d_z.len() / FEATURES;
        product([images, FEATURES, LATENTS], Matrix::rows(d_z, FEATURES), &self.weights, d_x, false);
    }

    /// Sets `d_weights` to the gradient with respect to the weights.
    pub fn weight_gradient(x: &[f32], d_z: &[f32], d_weights: &mut [f32]) {
        let images = x.len() / LATENTS;
        product([FEATURES, images, LATENTS], Matrix::transposed(d_z, FEATURES), x, d_weights, false);
    }
}

/// Room for the taps of one image.
pub(super) struct Taps(Aligned<f32>);

impl Taps {
    /// Room for either transposed convolution.
    pub fn new(channels: usize) -> Self {
        Self(Aligned::zeros(PIXELS * UP_WIDTH.max(OUT_TAPS * channels)))
    }
}

/// The transposed convolution 4 -> 64 with a 5 x 5 kernel and padding 2, without a bias of its own.
pub(super) struct Up {
    /// `[tap][output]`.
    weights: Aligned<f32>,
    /// `[output][tap]`.
    transposed: Aligned<f32>,
}

impl Up {
    /// The number of weights.
    pub const WEIGHTS: usize = UP_TAPS * CHANNELS;

    /// Without weights yet.
    pub fn new() -> Self {
        Self { weights: Aligned::zeros(Self::WEIGHTS), transposed: Aligned::zeros(CHANNELS * UP_WIDTH) }
    }

    /// Takes the weights `[input][output][row][column]`, each output's times its scale.
    pub fn set(&mut self, weights: &[f32], scale: &[f32]) {
        for (i, &w) in weights.iter().enumerate() {
            let (input, output, tap) = Self::place(i);
            self.weights[(input * 25 + tap) * CHANNELS + output] = w * scale[output];
        }
        transpose(&self.weights, CHANNELS, &mut self.transposed, UP_WIDTH);
    }

    /// Input, output and tap of a weight.
    fn place(i: usize) -> (usize, usize, usize) {
        (i / 25 / CHANNELS, i / 25 % CHANNELS, i % 25)
    }

    /// For each tap the rows of the input that it multiplies, `[tap][pixel]`: output o meets input o + 2 - k at tap k.
    fn spread(features: &[f32], taps: &mut [f32]) {
        for (tap, taps) in taps.chunks_exact_mut(PIXELS).take(UP_TAPS).enumerate() {
            let (plane, ky, kx) = (&features[tap / 25 * PIXELS..], tap % 25 / UP_KERNEL, tap % UP_KERNEL);
            for (y, row) in taps.chunks_exact_mut(SIZE).enumerate() {
                let from = (y + 2).wrapping_sub(ky);
                if from >= SIZE {
                    row.fill(0.0);
                    continue;
                }
                let from = &plane[from * SIZE..][..SIZE];
                // Column x takes column x + 2 - kx.
                if kx <= 2 {
                    let by = 2 - kx;
                    row[..SIZE - by].copy_from_slice(&from[by..]);
                    row[SIZE - by..].fill(0.0);
                } else {
                    let by = kx - 2;
                    row[by..].copy_from_slice(&from[..SIZE - by]);
                    row[..by].fill(0.0);
                }
            }
        }
    }

    /// `z` of some images, channels last.
    pub fn forward(&self, features: &[f32], bias: &[f32], z: &mut [f32], space: &mut Taps) {
        for (features, z) in features.chunks_exact(FEATURES).zip(z.chunks_exact_mut(IMAGE)) {
            Self::spread(features, &mut space.0);
            z.chunks_exact_mut(CHANNELS).for_each(|z| z.copy_from_slice(bias));
            let taps = Matrix::transposed(&space.0, PIXELS);
            product([PIXELS, UP_TAPS, CHANNELS], taps, &self.weights, z, true);
        }
    }

    /// The gradient with respect to the features.
    pub fn backward(&self, d_z: &[f32], d_features: &mut [f32], space: &mut Taps) {
        for (d_z, d_features) in d_z.chunks_exact(IMAGE).zip(d_features.chunks_exact_mut(FEATURES)) {
            let taps = &mut space.0[..PIXELS * UP_WIDTH];
            product([PIXELS, CHANNELS, UP_WIDTH], Matrix::rows(d_z, CHANNELS), &self.transposed, taps, false);
            d_features.fill(0.0);
            for (pixel, taps) in taps.chunks_exact(UP_WIDTH).enumerate() {
                let (y, x) = (pixel / SIZE, pixel % SIZE);
                for ky in (y + 3).saturating_sub(SIZE)..UP_KERNEL.min(y + 3) {
                    let row = (y + 2 - ky) * SIZE;
                    for kx in (x + 3).saturating_sub(SIZE)..UP_KERNEL.min(x + 3) {
                        for plane in 0..PLANES {
                            d_features[plane * PIXELS + row + x + 2 - kx] +=
                                taps[plane * 25 + ky * UP_KERNEL + kx];
                        }
                    }
                }
            }
        }
    }

    /// Adds the gradient with respect to the weights, in this layer's own order.
    pub fn add_weight_gradient(features: &[f32], d_z: &[f32], d_weights: &mut [f32], space: &mut Taps) {
        for (features, d_z) in features.chunks_exact(FEATURES).zip(d_z.chunks_exact(IMAGE)) {
            Self::spread(features, &mut space.0);
            let taps = Matrix::rows(&space.0, PIXELS);
            product([UP_TAPS, PIXELS, CHANNELS], taps, d_z, d_weights, true);
        }
    }

    /// From this layer's own order to `[input][output][row][column]`.
    pub fn weight_gradient(own: &[f32], weights: &mut [f32]) {
        for (i, w) in weights.iter_mut().enumerate() {
            let (input, output, tap) = Self::place(i);
            *w = own[(input * 25 + tap) * CHANNELS + output];
        }
    }
}

/// The transposed convolution 64 -> C with a 4 x 4 kernel, stride 2 and padding 1.
pub(super) struct Out {
    channels: usize,
    /// `[input][channel][tap]`, as PyTorch's.
    weights: Aligned<f32>,
    /// `[channel][tap][input]`.
    transposed: Aligned<f32>,
}

impl Out {
    /// Without weights yet.
    pub fn new(channels: usize) -> Self {
        let weights = Aligned::zeros(CHANNELS * OUT_TAPS * channels);
        Self { channels, transposed: weights.clone(), weights }
    }

    /// Takes the weights `[input][output][row][column]`.
    pub fn set(&mut self, weights: &[f32]) {
        self.weights.copy_from_slice(weights);
        transpose(weights, self.width(), &mut self.transposed, CHANNELS);
    }

    fn width(&self) -> usize {
        self.channels * OUT_TAPS
    }

    /// Calls `visit(tap of all taps, place in the image)` for each product of each pixel: input i meets output 2 i - 1 + k at tap k.
    #[inline(always)]
    fn places(&self, mut visit: impl FnMut(usize, usize)) {
        for pixel in 0..PIXELS {
            let (y, x) = (2 * (pixel / SIZE), 2 * (pixel % SIZE));
            for c in 0..self.channels {
                for tap in 0..OUT_TAPS {
                    let row = (y + tap / OUT_KERNEL).wrapping_sub(1);
                    let column = (x + tap % OUT_KERNEL).wrapping_sub(1);
                    if row < OUTPUT_SIZE && column < OUTPUT_SIZE {
                        visit(
                            pixel * self.width() + c * OUT_TAPS + tap,
                            (c * OUTPUT_SIZE + row) * OUTPUT_SIZE + column,
                        );
                    }
                }
            }
        }
    }

    /// One image `[channel][row][column]` before its tanh, from one of channels last.
    pub fn forward(&self, a: &[f32], bias: &[f32], image: &mut [f32], space: &mut Taps) {
        let width = self.width();
        product([PIXELS, CHANNELS, width], Matrix::rows(a, CHANNELS), &self.weights, &mut space.0, false);
        for (plane, &b) in image.chunks_exact_mut(OUTPUT_SIZE * OUTPUT_SIZE).zip(bias) {
            plane.fill(b);
        }
        self.places(|tap, place| image[place] += space.0[tap]);
    }

    /// The gradient with respect to one image's input, and to the weights if wanted, which is added.
    pub fn backward(
        &self,
        d_image: &[f32],
        d_a: &mut [f32],
        weights: Option<(&[f32], &mut [f32])>,
        space: &mut Taps,
    ) {
        let width = self.width();
        space.0[..PIXELS * width].fill(0.0);
        self.places(|tap, place| space.0[tap] = d_image[place]);
        product([PIXELS, width, CHANNELS], Matrix::rows(&space.0, width), &self.transposed, d_a, false);
        if let Some((a, d_weights)) = weights {
            product([CHANNELS, PIXELS, width], Matrix::transposed(a, CHANNELS), &space.0, d_weights, true);
        }
    }
}

#[cfg(test)]
mod tests;
