//! The network's parameters as the kernels take them.

use super::ends::{FEATURES, LATENTS, Linear, Out, Up};
use super::layers::EPSILON;
use super::weights::Weights;
use super::winograd::{CHANNELS, Transforms, Winograd};

/// Layers followed by batch normalisation: linear, transposed convolution, four convolutions.
pub(super) const NORMED: usize = 6;
/// Where in the tensors each of them begins: its weights, its bias if any, gamma, beta.
const FIRST_TENSOR: [usize; NORMED] = [0, 4, 7, 11, 15, 19];
/// The last layer's weights and bias.
const OUT_TENSOR: usize = 23;
/// Which layer has no bias.
const UP: usize = 1;

/// Where the parameters of each layer lie.
#[derive(Clone)]
pub(super) struct Layout {
    /// The offset of each tensor, and the end.
    offsets: Vec<usize>,
}

impl Layout {
    /// That of a network's parameters.
    pub fn new(weights: &Weights) -> Self {
        let mut offsets: Vec<_> = weights.tensors.iter().map(|t| t.offset).collect();
        offsets.push(weights.values.len());
        Self { offsets }
    }

    fn tensor(&self, i: usize) -> std::ops::Range<usize> {
        self.offsets[i]..self.offsets[i + 1]
    }

    /// The weights of a layer; [`NORMED`] is the last one.
    pub fn weights(&self, layer: usize) -> std::ops::Range<usize> {
        self.tensor(if layer == NORMED { OUT_TENSOR } else { FIRST_TENSOR[layer] })
    }

    /// Its bias, if it has one.
    pub fn bias(&self, layer: usize) -> Option<std::ops::Range<usize>> {
        match layer {
            UP => None,
            NORMED => Some(self.tensor(OUT_TENSOR + 1)),
            _ => Some(self.tensor(FIRST_TENSOR[layer] + 1)),
        }
    }

    /// gamma.
    pub fn gamma(&self, layer: usize) -> std::ops::Range<usize> {
        self.tensor(FIRST_TENSOR[layer] + if layer == UP { 1 } else { 2 })
    }

    /// beta.
    pub fn beta(&self, layer: usize) -> std::ops::Range<usize> {
        self.tensor(FIRST_TENSOR[layer] + if layer == UP { 2 } else { 3 })
    }

    /// The running mean and variance of a layer among the statistics.
    pub fn statistics(&self, layer: usize) -> [std::ops::Range<usize>; 2] {
        let (begin, width) =
            if layer == 0 { (0, FEATURES) } else { (2 * FEATURES + 2 * CHANNELS * (layer - 1), CHANNELS) };
        [begin..begin + width, begin + width..begin + 2 * width]
    }
}

/// All parameters of a network of the paper's architecture, as initialised by PyTorch.
pub(super) fn parameters(channels: usize, seed: u64) -> Weights {
    let mut w = Weights::new(seed, 0);
    w.uniform("lin.weight", &[FEATURES, LATENTS], LATENTS);
    w.uniform("lin.bias", &[FEATURES], LATENTS);
    w.constant("bn_lin.weight", &[FEATURES], 1.0);
    w.constant("bn_lin.bias", &[FEATURES], 0.0);
    // A transposed convolution's fan_in is, in PyTorch, that of its outputs.
    w.uniform("up.weight", &[4, CHANNELS, 5, 5], CHANNELS * 25);
    w.constant("bn_up.weight", &[CHANNELS], 1.0);
    w.constant("bn_up.bias", &[CHANNELS], 0.0);
    for (i, kernel) in [5, 3, 5, 3].into_iter().enumerate() {
        let fan_in = CHANNELS * kernel * kernel;
        w.uniform(&format!("conv.{i}.weight"), &[CHANNELS, CHANNELS, kernel, kernel], fan_in);
        w.uniform(&format!("conv.{i}.bias"), &[CHANNELS], fan_in);
        w.constant(&format!("bn.{i}.weight"), &[CHANNELS], 1.0);
        w.constant(&format!("bn.{i}.bias"), &[CHANNELS], 0.0);
    }
    w.uniform("out.weight", &[CHANNELS, channels, 4, 4], channels * 16);
    w.uniform("out.bias", &[channels], channels * 16);
    w
}

/// The running statistics at the start: mean 0, variance 1.
pub(super) fn statistics() -> Weights {
    let mut w = Weights::new(0, 0);
    let names = ["bn_lin", "bn_up", "bn.0", "bn.1", "bn.2", "bn.3"];
    for (layer, name) in names.into_iter().enumerate() {
        let width = if layer == 0 { FEATURES } else { CHANNELS };
        w.constant(&format!("{name}.running_mean"), &[width], 0.0);
        w.constant(&format!("{name}.running_var"), &[width], 1.0);
    }
    w
}

/// The layers with their weights transformed or transposed.
pub(super) struct Packed {
    pub linear: Linear,
    pub up: Up,
    five: [Winograd<8>; 2],
    three: [Winograd<6>; 2],
    pub out: Out,
    /// What each layer adds.
    pub bias: [Vec<f32>; NORMED + 1],
    /// Whether they are those of the parameters as they stand.
    pub fresh: bool,
}

/// The longest gradient of a layer's weights in the kernels' own terms.
pub(super) const LONGEST: usize = Winograd::<8>::WEIGHTS;

impl Packed {
    /// Without weights yet.
    pub fn new(channels: usize) -> Self {
        Self {
            linear: Linear::new(),
            up: Up::new(),
            five: [Winograd::new(), Winograd::new()],
            three: [Winograd::new(), Winograd::new()],
            out: Out::new(channels),
            bias: Default::default(),
            fresh: false,
        }
    }

    /// Takes the parameters; with running statistics, batch normalisation by them is folded in.
    pub fn set(&mut self, layout: &Layout, parameters: &[f32], statistics: Option<&[f32]>) {
        if self.fresh {
            return;
        }
        for layer in 0..NORMED {
            let (gamma, beta) = (&parameters[layout.gamma(layer)], &parameters[layout.beta(layer)]);
            let mut bias = vec![0.0; gamma.len()];
            if let Some(range) = layout.bias(layer) {
                bias.copy_from_slice(&parameters[range]);
            }
            let mut scale = vec![1.0; gamma.len()];
            if let Some(statistics) = statistics {
                let [mean, variance] = layout.statistics(layer).map(|range| &statistics[range]);
                for c in 0..scale.len() {
                    let s = f64::from(gamma[c]) / (f64::from(variance[c]) + EPSILON).sqrt();
                    scale[c] = s as f32;
                    bias[c] = (f64::from(beta[c]) + s * (f64::from(bias[c]) - f64::from(mean[c]))) as f32;
                }
            }
            let weights = &parameters[layout.weights(layer)];
            match layer {
                0 => self.linear.set(weights, &scale),
                1 => self.up.set(weights, &scale),
                2 | 4 => self.five[layer / 2 - 1].set(weights, &scale),
                _ => self.three[layer / 2 - 1].set(weights, &scale),
            }
            self.bias[layer] = bias;
        }
        self.out.set(&parameters[layout.weights(NORMED)]);
        self.bias[NORMED] = parameters[layout.bias(NORMED).expect("the last layer has a bias")].to_vec();
        self.fresh = true;
    }

    /// A convolution of some images; layers 2 to 5.
    pub fn convolve(&self, layer: usize, input: &[f32], output: &mut [f32], space: &mut Transforms) {
        let bias = &self.bias[layer];
        match layer % 2 {
            0 => self.five[layer / 2 - 1].forward(input, bias, output, space),
            _ => self.three[layer / 2 - 1].forward(input, bias, output, space),
        }
    }

    /// Its backward: `d_input` and, if asked for, `d_weights` are added to.
    pub fn convolve_backward(
        &self,
        layer: usize,
        d_output: &[f32],
        d_input: &mut [f32],
        weights: Option<(&[f32], &mut [f32])>,
        space: &mut Transforms,
    ) {
        match layer % 2 {
            0 => self.five[layer / 2 - 1].backward(d_output, d_input, weights, space),
            _ => self.three[layer / 2 - 1].backward(d_output, d_input, weights, space),
        }
    }
}

/// The length of the gradient of a layer's weights in the kernels' own terms.
pub(super) fn own_length(layer: usize, channels: usize) -> usize {
    match layer {
        0 => FEATURES * LATENTS,
        1 => Up::WEIGHTS,
        NORMED => CHANNELS * 16 * channels,
        _ if layer.is_multiple_of(2) => Winograd::<8>::WEIGHTS,
        _ => Winograd::<6>::WEIGHTS,
    }
}

/// From the kernels' own terms to the parameters'.
pub(super) fn weight_gradient(layer: usize, own: &[f32], gradient: &mut [f32]) {
    match layer {
        0 | NORMED => gradient.copy_from_slice(own),
        1 => Up::weight_gradient(own, gradient),
        _ if layer.is_multiple_of(2) => Winograd::<8>::weight_gradient(own, gradient),
        _ => Winograd::<6>::weight_gradient(own, gradient),
    }
}
