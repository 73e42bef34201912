//! What a generator model needs of a network: decode latents, and differentiate a loss of the decoded images.

/// Which statistics batch normalisation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those of the whole batch at hand; the running statistics move towards them.
    Train,
    /// The running ones, which stay as they are.
    Eval,
}

/// A named array inside one of a network's flat buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in files.
    pub name: String,
    /// Its shape, outermost dimension first.
    pub shape: Vec<usize>,
    /// Where it begins in the buffer.
    pub offset: usize,
}

/// The loss of one decoded image: given the image's number in the batch and its pixels, writes the gradient with
/// respect to the pixels and returns the loss. Called once for each image, on any thread.
pub type ImageLoss<'a> = dyn Fn(usize, &[f32], &mut [f32]) -> f64 + Sync + 'a;

/// The gradients a caller wants of the loss summed over the batch; `None` is not computed.
#[derive(Default)]
pub struct Wanted<'a> {
    /// With respect to all parameters: overwritten.
    pub parameters: Option<&'a mut [f32]>,
    /// With respect to each image's latents: overwritten.
    pub latents: Option<&'a mut [f32]>,
    /// Once this is set a pass may end early. What it has written is then void, the running statistics included.
    pub stop: Stop<'a>,
}

pub use motes::Stop;

/// A network that decodes latents x into images f(x). Other networks and other engines can take its place.
///
/// Results have the same bits for any number of threads. Scratch space belongs to the network and is reused.
pub trait Decoder: Send + Sync {
    /// The number of latent coordinates of one image.
    fn d_x(&self) -> usize;
    /// The number of values of one image: channels x height x width.
    fn d_y(&self) -> usize;
    /// Names and shapes of the parameters, in the order of [`Decoder::parameters`].
    fn tensors(&self) -> &[Tensor];
    /// All trainable parameters.
    fn parameters(&self) -> &[f32];
    /// All trainable parameters, to be changed.
    fn parameters_mut(&mut self) -> &mut [f32];
    /// Names and shapes of the running statistics.
    fn statistics_tensors(&self) -> &[Tensor] {
        &[]
    }
    /// The running statistics of batch normalisation.
    fn statistics(&self) -> &[f32] {
        &[]
    }
    /// The running statistics, to be restored from a checkpoint.
    fn statistics_mut(&mut self) -> &mut [f32] {
        &mut []
    }
    /// Decodes the latents of a batch in [`Mode::Eval`].
    fn decode(&mut self, x: &[f32], images: &mut [f32]);
    /// Decodes a batch, differentiates its loss, and returns the loss summed over images in a fixed order.
    fn backward(&mut self, mode: Mode, x: &[f32], loss: &ImageLoss<'_>, wanted: Wanted<'_>) -> f64;
}
