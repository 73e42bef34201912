//! A small classifier of handwritten digits, whose last hidden layer tells images apart.

use std::io::Write;

use crate::data::SIDE;
use crate::generator::Tensor;
use crate::generator::convnet::{ConvNet, Layers, Stage};
use crate::generator::tensors::{named, open, read, restore, serialize};

/// The trained weights; see data/README.md.
const TRAINED: &[u8] = include_bytes!("../../data/lenet.safetensors");
/// Digits.
const CLASSES: usize = 10;
/// Images that go through the network together where only its results are wanted.
const PART: usize = 256;

/// Conv(1, 16, 5), ReLU, MaxPool(2); Conv(16, 32, 5), ReLU, MaxPool(2); Linear(800, 80), ReLU -> the features;
/// Linear(80, 10) -> the classes. After LeNet-5, with wider convolutions and one linear layer less.
pub struct Lenet(ConvNet);

impl Lenet {
    /// Features of an image.
    pub const FEATURES: usize = 80;
    /// Values of an image: grey, 32 x 32 pixels, in [-1, 1].
    pub const PIXELS: usize = SIDE * SIDE;

    /// The network before training, with weights drawn by the seed.
    pub fn new(seed: u64) -> Self {
        let stages = [
            Stage { inputs: 1, size: SIDE, kernel: 5, padding: 0, outputs: 16 },
            Stage { inputs: 16, size: 14, kernel: 5, padding: 0, outputs: 32 },
        ];
        Self(ConvNet::new(Layers { stages, hidden: Self::FEATURES, outputs: CLASSES }, seed, 0))
    }

    /// The network with the trained weights that are built in.
    pub fn trained() -> Self {
        let mut lenet = Self::new(0);
        lenet.load(TRAINED).expect("the embedded weights are those of this network");
        lenet
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

    /// Writes the weights as safetensors.
    pub fn save(&self, out: &mut impl Write) -> std::io::Result<()> {
        let arrays = named("", self.tensors(), self.parameters());
        out.write_all(&serialize(&arrays, format!("lenet, {}", env!("CARGO_PKG_VERSION")))?)
    }

    /// Reads them back. The error's text completes a sentence that begins with the file's name.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (file, tensors) = (open(bytes)?, self.tensors().to_vec());
        let arrays = tensors.iter().map(|t| read(&file, &t.name, t.shape.iter().product()));
        let arrays: Vec<_> = arrays.collect::<Result<_, _>>()?;
        restore(&tensors, self.parameters_mut(), &mut arrays.into_iter());
        Ok(())
    }

    /// The features of each image.
    pub fn features(&mut self, images: &[f32]) -> Vec<f32> {
        let mut features = Vec::with_capacity(images.len() / Self::PIXELS * Self::FEATURES);
        for part in images.chunks(PART * Self::PIXELS) {
            self.0.forward(part);
            self.0.hidden().for_each(|row| features.extend_from_slice(row));
        }
        features
    }

    /// The digit that each image most likely shows.
    pub fn classify(&mut self, images: &[f32]) -> Vec<u8> {
        let mut classes = Vec::with_capacity(images.len() / Self::PIXELS);
        let best = |row: &[f32]| (1..CLASSES).fold(0, |best, i| if row[i] > row[best] { i } else { best });
        for part in images.chunks(PART * Self::PIXELS) {
            self.0.forward(part);
            classes.extend(self.0.outputs().map(|row| best(row) as u8));
        }
        classes
    }

    /// The mean cross-entropy of the images' labels, and its gradient with respect to all parameters.
    pub fn cross_entropy(&mut self, images: &[f32], labels: &[u8], gradient: &mut [f32]) -> f64 {
        let count = self.0.forward(images);
        assert!(
            labels.len() == count && labels.iter().all(|l| usize::from(*l) < CLASSES),
            "a digit for each of {count} images"
        );
        let each =
            self.0.outputs().zip(labels).map(|(row, l)| -libm::log(probabilities(row)[usize::from(*l)]));
        let loss = each.sum::<f64>() / count as f64;
        let slope = |image: usize, row: &[f32], d: &mut [f32]| {
            let mut p = probabilities(row);
            p[usize::from(labels[image])] -= 1.0;
            d.iter_mut().zip(p).for_each(|(d, p)| *d = (p / count as f64) as f32);
        };
        self.0.backward(&slope, gradient);
        loss
    }
}

/// The softmax of an image's outputs, in `f64`: its logarithm stays finite.
fn probabilities(row: &[f32]) -> [f64; CLASSES] {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut p: [f64; CLASSES] = std::array::from_fn(|i| libm::exp(f64::from(row[i] - largest)));
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= sum);
    p
}
