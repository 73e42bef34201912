//! The network with fixed statistics, a few images at a time: forward and backward while everything is in the cache.

use super::decoder::ImageLoss;
use super::elementwise::{activate_with_slope, add, multiply};
use super::ends::{FEATURES, LATENTS, Taps};
use super::packed::{NORMED, Packed};
use super::winograd::{IMAGE, TOGETHER, Transforms};
use motes::simd::Aligned;
use motes::vmath::tanh_f32;

/// One worker's room.
pub(super) struct Space {
    pub transforms: Transforms,
    pub taps: Taps,
    /// GELU's derivative behind each layer.
    slopes: [Aligned<f32>; NORMED],
    features: Aligned<f32>,
    /// The sum that skips the convolutions, and what passes through them.
    skip: Aligned<f32>,
    through: Aligned<f32>,
    pub spare: Aligned<f32>,
    pub image: Aligned<f32>,
    pub d_image: Aligned<f32>,
}

impl Space {
    /// For images of so many channels.
    pub fn new(channels: usize, d_y: usize) -> Self {
        let room = || Aligned::zeros(TOGETHER * IMAGE);
        let features = Aligned::zeros(TOGETHER * FEATURES);
        Self {
            transforms: Transforms::new(),
            taps: Taps::new(channels),
            slopes: [features.clone(), room(), room(), room(), room(), room()],
            features,
            skip: room(),
            through: room(),
            spare: room(),
            image: Aligned::zeros(d_y),
            d_image: Aligned::zeros(d_y),
        }
    }

    /// Everything but the last layer.
    fn forward(&mut self, packed: &Packed, x: &[f32]) {
        let images = x.len() / LATENTS;
        let (features, long) = (images * FEATURES, images * IMAGE);
        packed.linear.forward(x, &packed.bias[0], &mut self.slopes[0][..features]);
        activate_with_slope(&mut self.slopes[0][..features], &mut self.features[..features]);
        packed.up.forward(
            &self.features[..features],
            &packed.bias[1],
            &mut self.slopes[1][..long],
            &mut self.taps,
        );
        activate_with_slope(&mut self.slopes[1][..long], &mut self.skip[..long]);
        for layer in 2..NORMED {
            let input = if layer % 2 == 0 { &self.skip } else { &self.through };
            packed.convolve(layer, &input[..long], &mut self.slopes[layer][..long], &mut self.transforms);
            activate_with_slope(&mut self.slopes[layer][..long], &mut self.through[..long]);
            if layer % 2 == 1 {
                add(&mut self.skip[..long], &self.through[..long]);
            }
        }
    }

    /// Decodes at most [`TOGETHER`] images.
    pub fn decode(&mut self, packed: &Packed, x: &[f32], images: &mut [f32]) {
        self.forward(packed, x);
        for (a, image) in self.skip.chunks_exact(IMAGE).zip(images.chunks_exact_mut(self.image.len())) {
            packed.out.forward(a, &packed.bias[NORMED], image, &mut self.taps);
            tanh_f32(image);
        }
    }

    /// The loss of at most [`TOGETHER`] images, of which `first` is the first's number, and its gradient with respect to x.
    pub fn gradient(
        &mut self,
        packed: &Packed,
        first: usize,
        x: &[f32],
        loss: &ImageLoss<'_>,
        d_x: &mut [f32],
    ) -> f64 {
        self.forward(packed, x);
        let images = x.len() / LATENTS;
        let (features, long) = (images * FEATURES, images * IMAGE);
        let mut total = 0.0;
        for (i, a) in self.skip[..long].chunks_exact_mut(IMAGE).enumerate() {
            packed.out.forward(a, &packed.bias[NORMED], &mut self.image, &mut self.taps);
            tanh_f32(&mut self.image);
            total += loss(first + i, &self.image, &mut self.d_image);
            through_tanh(&self.image, &mut self.d_image);
            packed.out.backward(&self.d_image, a, None, &mut self.taps);
        }
        let d = &mut self.skip[..long];
        for layer in [5, 3] {
            self.through[..long].copy_from_slice(d);
            multiply(&mut self.through[..long], &self.slopes[layer]);
            let inner = &mut self.spare[..long];
            inner.fill(0.0);
            packed.convolve_backward(layer, &self.through[..long], inner, None, &mut self.transforms);
            multiply(inner, &self.slopes[layer - 1]);
            packed.convolve_backward(layer - 1, inner, d, None, &mut self.transforms);
        }
        multiply(d, &self.slopes[1]);
        packed.up.backward(d, &mut self.features[..features], &mut self.taps);
        multiply(&mut self.features[..features], &self.slopes[0]);
        packed.linear.backward(&self.features[..features], d_x);
        total
    }
}

/// Turns the gradient with respect to `t = tanh(z)` into that with respect to z.
pub(super) fn through_tanh(t: &[f32], d: &mut [f32]) {
    for (d, &t) in d.iter_mut().zip(t) {
        *d *= 1.0 - t * t;
    }
}
