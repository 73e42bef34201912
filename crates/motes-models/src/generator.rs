//! The generator network of Sec. gen: images decoded from latents by a convolutional network.

mod decoder;

pub use decoder::{Decoder, ImageLoss, Mode, Tensor, Wanted};
