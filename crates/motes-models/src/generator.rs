//! The generator network of Sec. gen: images decoded from latents by a convolutional network.

mod batch;
pub(crate) mod convnet;
mod decoder;
mod elementwise;
mod encoder;
mod ends;
mod inpainting;
mod lanes;
pub mod layers;
mod linear;
mod model;
mod network;
mod packed;
mod product;
mod stream;
mod synthesis;
pub(crate) mod tensors;
mod training;
mod vae;
mod weights;
mod winograd;

pub use decoder::{Decoder, ImageLoss, Mode, Stop, Tensor, Wanted};
pub use encoder::Encoder;
pub use inpainting::{Found, Search, inpaint};
pub use linear::LinearDecoder;
pub use model::{Generator, Make, Targets};
pub use network::Network;
pub use synthesis::Mixture;
pub(crate) use training::adam;
pub use training::{
    About, Algorithm, BatchNorm, Damage, POSTERIOR_DRAWS, Rate, Seen, Settings, State,
    ThetaRule, Trainer, TrainingError, load_weights, rmsprop, save_weights,
};
pub use vae::Inference;
