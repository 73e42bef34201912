//! The generator network of Sec. gen: images decoded from latents by a convolutional network.

mod decoder;
mod inpainting;
mod linear;
mod synthesis;
mod training;

pub use decoder::{Decoder, ImageLoss, Mode, Tensor, Wanted};
pub use inpainting::{Found, Search, inpaint};
pub use linear::LinearDecoder;
pub use synthesis::Mixture;
pub use training::{
    About, Algorithm, BatchNorm, Damage, Inference, Seen, Settings, State, Targets, ThetaRule, Trainer,
    TrainingError, load_weights, save_weights,
};
