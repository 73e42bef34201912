//! Named arrays in a flat buffer, and PyTorch's default initialisation of them.

use super::decoder::Tensor;
use motes::noise::{Noise, Purpose};

/// Builds a flat buffer of parameters, drawing each array from its own stream.
pub(super) struct Weights {
    noise: Noise,
    stream: u64,
    /// The values so far.
    pub values: Vec<f32>,
    /// Their names and shapes.
    pub tensors: Vec<Tensor>,
}

impl Weights {
    /// Nothing yet; builders with the same seed must begin at different streams.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { noise: Noise::new(seed, Purpose::Weights), stream, values: Vec::new(), tensors: Vec::new() }
    }

    fn push(&mut self, name: &str, shape: &[usize]) -> &mut [f32] {
        let offset = self.values.len();
        self.values.resize(offset + shape.iter().product::<usize>(), 0.0);
        self.tensors.push(Tensor { name: name.to_owned(), shape: shape.to_vec(), offset });
        &mut self.values[offset..]
    }

    /// Uniform in +-1/sqrt(fan_in).
    pub fn uniform(&mut self, name: &str, shape: &[usize], fan_in: usize) {
        let mut draws = vec![0.0; shape.iter().product()];
        self.noise.uniforms(self.stream, 0, &mut draws);
        self.stream += 1;
        let bound = 1.0 / (fan_in as f64).sqrt();
        for (value, u) in self.push(name, shape).iter_mut().zip(draws) {
            *value = (bound * (2.0 * u - 1.0)) as f32;
        }
    }

    /// The same value everywhere.
    pub fn constant(&mut self, name: &str, shape: &[usize], value: f32) {
        self.push(name, shape).fill(value);
    }
}
