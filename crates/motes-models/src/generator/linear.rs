//! The linear decoder y = W x: probabilistic PCA, whose fixed points are known in closed form.

use motes::noise::{Noise, Purpose};

use super::{Decoder, ImageLoss, Mode, Tensor, Wanted};

/// f(x) = W x, with W stored row after row. Made for checks: it is small, and works on the calling thread alone.
pub struct LinearDecoder {
    tensors: [Tensor; 1],
    w: Vec<f32>,
    d_x: usize,
    d_y: usize,
    image: Vec<f32>,
    pixels: Vec<f32>,
    w_gradient: Vec<f64>,
}

impl LinearDecoder {
    /// A decoder whose weights are `scale` times standard normal draws.
    pub fn new(d_x: usize, d_y: usize, scale: f32, seed: u64) -> Self {
        let mut w = vec![0.0; d_x * d_y];
        Noise::new(seed, Purpose::Check).normals_f32(0, 0, &mut w);
        w.iter_mut().for_each(|w| *w *= scale);
        let tensors = [Tensor { name: "w".into(), shape: vec![d_y, d_x], offset: 0 }];
        let w_gradient = vec![0.0; w.len()];
        LinearDecoder { tensors, w, d_x, d_y, image: vec![0.0; d_y], pixels: vec![0.0; d_y], w_gradient }
    }

    fn decode_one(w: &[f32], x: &[f32], image: &mut [f32]) {
        for (pixel, row) in image.iter_mut().zip(w.chunks_exact(x.len())) {
            *pixel = row.iter().zip(x).map(|(w, x)| w * x).sum();
        }
    }
}

impl Decoder for LinearDecoder {
    fn d_x(&self) -> usize {
        self.d_x
    }

    fn d_y(&self) -> usize {
        self.d_y
    }

    fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    fn parameters(&self) -> &[f32] {
        &self.w
    }

    fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.w
    }

    fn decode(&mut self, x: &[f32], images: &mut [f32]) {
        for (x, image) in x.chunks_exact(self.d_x).zip(images.chunks_exact_mut(self.d_y)) {
            Self::decode_one(&self.w, x, image);
        }
    }

    fn backward(&mut self, _mode: Mode, x: &[f32], loss: &ImageLoss<'_>, mut wanted: Wanted<'_>) -> f64 {
        self.w_gradient.fill(0.0);
        let mut total = 0.0;
        for (i, x) in x.chunks_exact(self.d_x).enumerate() {
            Self::decode_one(&self.w, x, &mut self.image);
            total += loss(i, &self.image, &mut self.pixels);
            for (g, pixel) in self.w_gradient.chunks_exact_mut(self.d_x).zip(&self.pixels) {
                g.iter_mut().zip(x).for_each(|(g, x)| *g += f64::from(pixel * x));
            }
            if let Some(latents) = &mut wanted.latents {
                let latents = &mut latents[i * self.d_x..(i + 1) * self.d_x];
                latents.fill(0.0);
                for (row, pixel) in self.w.chunks_exact(self.d_x).zip(&self.pixels) {
                    latents.iter_mut().zip(row).for_each(|(l, w)| *l += pixel * w);
                }
            }
        }
        if let Some(parameters) = wanted.parameters {
            parameters.iter_mut().zip(&self.w_gradient).for_each(|(p, g)| *p = *g as f32);
        }
        total
    }
}
