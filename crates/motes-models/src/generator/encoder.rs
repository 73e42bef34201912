//! The VAE's encoder: two convolutions and two linear layers from an image to the mean and variance of its latents.

use super::convnet::{ConvNet, Layers, Stage};
use super::decoder::Tensor;
use motes::vmath::{sigmoid_f32, softplus_f32};

/// Latent coordinates.
const LATENTS: usize = 64;
/// The least variance.
const FLOOR: f32 = 1e-3;
/// The encoder's draws begin far behind the decoder's.
const STREAM: u64 = 1000;

/// Conv(C, 16, 3, padding 2), ReLU, MaxPool(2); Conv(16, 32, 3, padding 1), ReLU, MaxPool(2); Linear(2048, 512), ReLU;
/// Linear(512, 128) -> the mean, and the variance as softplus + 1e-3. Names, shapes and initial distribution are PyTorch's.
pub struct Encoder(ConvNet);

impl Encoder {
    /// An encoder of images of 1 or 3 channels, with weights drawn by the seed.
    ///
    /// # Panics
    /// If there are no channels.
    pub fn new(channels: usize, seed: u64) -> Self {
        assert!(channels > 0, "an image has at least one channel");
        let stages = [
            Stage { inputs: channels, size: 32, kernel: 3, padding: 2, outputs: 16 },
            Stage { inputs: 16, size: 17, kernel: 3, padding: 1, outputs: 32 },
        ];
        Self(ConvNet::new(Layers { stages, hidden: 512, outputs: 2 * LATENTS }, seed, STREAM))
    }

    /// All trainable parameters.
    pub fn parameters(&self) -> &[f32] {
        self.0.parameters()
    }

    /// All trainable parameters, to be changed.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        self.0.parameters_mut()
    }

    /// Names and shapes of the parameters, in their order.
    pub fn tensors(&self) -> &[Tensor] {
        self.0.tensors()
    }

    /// The mean and variance of each image's latents, and what [`Encoder::backward`] needs.
    pub fn forward(&mut self, images: &[f32], mean: &mut [f32], variance: &mut [f32]) {
        let count = self.0.forward(images);
        assert!(
            mean.len() == count * LATENTS && variance.len() == count * LATENTS,
            "room for {count} latents"
        );
        let latents = mean.chunks_exact_mut(LATENTS).zip(variance.chunks_exact_mut(LATENTS));
        for (row, (mean, variance)) in self.0.outputs().zip(latents) {
            mean.copy_from_slice(&row[..LATENTS]);
            variance.copy_from_slice(&row[LATENTS..]);
        }
        softplus_f32(variance);
        variance.iter_mut().for_each(|v| *v += FLOOR);
    }

    /// The gradient with respect to all parameters, overwritten, of a loss with these gradients with respect to what the
    /// last [`Encoder::forward`] gave.
    pub fn backward(&mut self, d_mean: &[f32], d_variance: &[f32], grad: &mut [f32]) {
        let count = self.0.outputs().count();
        assert!(
            d_mean.len() == count * LATENTS && d_variance.len() == count * LATENTS,
            "a gradient for {count} images"
        );
        let slope = |image: usize, outputs: &[f32], d: &mut [f32]| {
            let at = image * LATENTS;
            let (mean, variance) = d.split_at_mut(LATENTS);
            mean.copy_from_slice(&d_mean[at..at + LATENTS]);
            variance.copy_from_slice(&outputs[LATENTS..]);
            sigmoid_f32(variance);
            variance.iter_mut().zip(&d_variance[at..]).for_each(|(s, d)| *s *= d);
        };
        self.0.backward(&slope, grad);
    }
}
