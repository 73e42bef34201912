//! The variational autoencoder: an inference network beside the decoder, trained on the evidence lower bound.

use motes::model::{Draws, Encoder};

use super::model::{Generator, differ, write};
use super::{Encoder as Network, Tensor};

/// The inference network of a VAE: a Gaussian approximation of the posterior for each image.
pub trait Inference: Send + Sync {
    /// Names and shapes of the parameters.
    fn tensors(&self) -> &[Tensor];
    /// All parameters phi.
    fn parameters(&self) -> &[f32];
    /// All parameters, to be changed.
    fn parameters_mut(&mut self) -> &mut [f32];
    /// The means and the variances of a batch of images.
    fn forward(&mut self, images: &[f32], mean: &mut [f32], variance: &mut [f32]);
    /// The gradient with respect to phi (overwritten), at the batch of the last forward pass.
    fn backward(&mut self, d_mean: &[f32], d_variance: &[f32], gradient: &mut [f32]);
}

impl Inference for Network {
    fn tensors(&self) -> &[Tensor] {
        self.tensors()
    }
    fn parameters(&self) -> &[f32] {
        self.parameters()
    }
    fn parameters_mut(&mut self) -> &mut [f32] {
        self.parameters_mut()
    }
    fn forward(&mut self, images: &[f32], mean: &mut [f32], variance: &mut [f32]) {
        self.forward(images, mean, variance);
    }
    fn backward(&mut self, d_mean: &[f32], d_variance: &[f32], gradient: &mut [f32]) {
        self.backward(d_mean, d_variance, gradient);
    }
}

/// An inference network with what it makes of the images at hand.
pub(super) struct Recognition {
    network: Box<dyn Inference>,
    /// Whether the last forward pass was with these parameters and images.
    fresh: bool,
    mean: Vec<f32>,
    variance: Vec<f32>,
    d_mean: Vec<f32>,
    d_variance: Vec<f32>,
    gradient: Vec<f32>,
}

impl Recognition {
    pub fn new(network: Box<dyn Inference>) -> Self {
        let gradient = vec![0.0; network.parameters().len()];
        let [mean, variance, d_mean, d_variance] = Default::default();
        Recognition { network, fresh: false, mean, variance, d_mean, d_variance, gradient }
    }

    pub fn parameters(&self) -> usize {
        self.gradient.len()
    }

    /// There are other images now.
    pub fn forget(&mut self) {
        self.fresh = false;
    }

    /// The Gaussians of the images y, for so many latents in all.
    pub fn encode(&mut self, phi: &[f64], y: &[f32], latents: usize) {
        if differ(self.network.parameters(), phi) {
            write(self.network.parameters_mut(), phi);
            self.fresh = false;
        }
        if !self.fresh {
            self.mean.resize(latents, 0.0);
            self.variance.resize(latents, 0.0);
            self.network.forward(y, &mut self.mean, &mut self.variance);
            self.fresh = true;
        }
    }

    /// Turns standard normals, so many rows to an image, into draws.
    fn draw(&self, d_x: usize, particles: usize, x: &mut [f32]) {
        for (i, x) in x.chunks_exact_mut(particles * d_x).enumerate() {
            for (j, x) in x.iter_mut().enumerate() {
                let at = i * d_x + j % d_x;
                *x = self.mean[at] + self.variance[at].sqrt() * *x;
            }
        }
    }

    /// Writes the bound's gradient with respect to phi, summed over rows that were drawn here, and returns the sum of their
    /// KL(q || p). Losses have the gradient `losses` with respect to the rows.
    pub fn gradient(
        &mut self,
        x: &[f32],
        losses: &[f32],
        d_x: usize,
        particles: usize,
        out: &mut [f64],
    ) -> f64 {
        let Recognition { network, mean, variance, d_mean, d_variance, gradient, .. } = self;
        let mut divergence = 0.0;
        d_mean.clear();
        d_mean.resize(mean.len(), 0.0);
        d_variance.clear();
        d_variance.resize(mean.len(), 0.0);
        for i in 0..x.len() {
            let at = i / (particles * d_x) * d_x + i % d_x;
            let (m, v) = (mean[at], variance[at]);
            divergence += 0.5 * (f64::from(m * m + v) - 1.0 - libm::log(f64::from(v)));
            // x = m + sqrt(v) eps, hence dx/dv = eps / (2 sqrt(v)) = (x - m) / (2 v).
            d_mean[at] += losses[i] + m;
            d_variance[at] += losses[i] * (x[i] - m) / (2.0 * v) + 0.5 * (1.0 - 1.0 / v);
        }
        network.backward(d_mean, d_variance, gradient);
        out.iter_mut().zip(&*gradient).for_each(|(to, g)| *to = -f64::from(*g));
        divergence
    }
}

impl Draws<f32> for Generator {
    fn map_normals(&self, theta: &[f64], groups: &[u32], x: &mut [f32]) {
        let mut guard = self.room_for(groups);
        let room = &mut *guard;
        let Some(recognition) = &mut room.recognition else { return };
        let d_x = motes::Model::d_x(self);
        recognition.encode(&theta[self.weights..], &room.y, groups.len() * d_x);
        recognition.draw(d_x, x.len() / (groups.len() * d_x).max(1), x);
    }
}

impl Encoder<f32> for Generator {
    fn parameters(&self) -> usize {
        self.phi
    }
}
