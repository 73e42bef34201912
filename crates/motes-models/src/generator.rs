//! The generator network of Sec. gen: images decoded from latents by a convolutional network.

mod batch;
mod decoder;
mod elementwise;
mod encoder;
mod ends;
mod lanes;
pub mod layers;
mod network;
mod packed;
mod product;
mod stream;
mod weights;
mod winograd;

pub use decoder::{Decoder, ImageLoss, Mode, Tensor, Wanted};
pub use encoder::Encoder;
pub use network::Network;
