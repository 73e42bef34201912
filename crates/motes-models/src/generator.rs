//! The generator network of Sec. 3.3: images decoded from latents by a convolutional network.

mod adam;
mod batch;
pub(crate) mod convnet;
mod decoder;
mod elementwise;
mod encoder;
mod ends;
mod entry;
mod inpainting;
pub mod layers;
mod linear;
mod model;
mod network;
mod packed;
mod pictures;
mod product;
mod room;
mod stream;
mod synthesis;
pub(crate) mod tensors;
mod vae;
mod weights;
mod winograd;

pub(crate) use adam::adam;
pub use decoder::{Decoder, ImageLoss, Mode, Stop, Tensor, Wanted};
pub use encoder::Encoder;
pub use entry::{Entry, NAME, Options, bytes_of_a_step, channels, images, labels, network};
pub use inpainting::{Found, Search, inpaint};
pub use linear::LinearDecoder;
pub use model::{BatchNorm, Generator, Make, Targets};
pub use network::Network;
pub use pictures::{COLUMNS, SHOWN, decode, interleave};
pub use synthesis::Mixture;
pub use tensors::{load_weights, save_weights};
pub use vae::Inference;
