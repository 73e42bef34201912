//! The network layer by layer over a whole batch, as batch normalisation needs it and as gradients of parameters do.

use super::decoder::{ImageLoss, Mode, Wanted};
use super::elementwise::{Norm, activate, add, deactivate, moments, unnormalise};
use super::ends::{FEATURES, LATENTS, Linear, Up};
use super::layers::EPSILON;
use super::packed::{LONGEST, Layout, NORMED, Packed, own_length, weight_gradient};
use super::room::Room;
use super::stream::{Space, through_tanh};
use super::winograd::{CHANNELS, IMAGE};
use motes::blocks::{PerWorker, for_each, for_each2};
use motes::vmath::tanh_f32;
use std::convert::Infallible;

/// Images of a block, a multiple of those that are transformed at once. The number of threads does not enter.
pub(super) const BLOCK: usize = 24;
/// How far the running statistics move towards the batch's.
const MOMENTUM: f64 = 0.1;

/// Some images' share of everything.
#[derive(Default)]
struct Block {
    images: usize,
    /// What each layer makes of its input.
    z: [Room; NORMED],
    /// Each layer's input, from the second on.
    a: [Room; NORMED - 1],
    /// The gradient at the layer at hand, and the one that skips convolutions.
    d: Room,
    skip: Room,
    d_features: Room,
    /// Its term of the layer's weight gradient, in the kernels' own terms.
    weights: Room,
    /// Two sums over its rows for each channel.
    sums: [Vec<f64>; 2],
    /// Its term of the last bias' gradient.
    d_bias: Vec<f64>,
    loss: f64,
}

impl Block {
    fn fit(&mut self, images: usize, channels: usize) {
        self.images = images;
        for (layer, z) in self.z.iter_mut().enumerate() {
            z.fit(images * width_of_image(layer));
        }
        for (layer, a) in self.a.iter_mut().enumerate() {
            a.fit(images * width_of_image(layer));
        }
        self.d.fit(images * IMAGE);
        self.skip.fit(images * IMAGE);
        self.d_features.fit(images * FEATURES);
        self.weights.fit(LONGEST);
        self.d_bias.resize(channels, 0.0);
    }

    fn sums(&mut self, layer: usize) {
        self.sums.iter_mut().for_each(|s| s.resize(width(layer), 0.0));
    }
}

/// Values of one image behind a layer.
fn width_of_image(layer: usize) -> usize {
    if layer == 0 { FEATURES } else { IMAGE }
}

/// Channels that batch normalisation tells apart behind a layer.
fn width(layer: usize) -> usize {
    if layer == 0 { FEATURES } else { CHANNELS }
}

/// The layers that read the sum which skips them.
fn begins_residual(layer: usize) -> bool {
    layer == 2 || layer == 4
}

/// Room for a batch.
#[derive(Default)]
pub(super) struct Batch {
    blocks: Vec<Block>,
    norms: [Norm; NORMED],
    total: Vec<f32>,
}

/// What does not change during a pass.
pub(super) struct Pass<'a> {
    pub mode: Mode,
    pub channels: usize,
    pub layout: &'a Layout,
    pub packed: &'a Packed,
    pub parameters: &'a [f32],
    pub workers: &'a PerWorker<Space>,
    pub x: &'a [f32],
    pub loss: &'a ImageLoss<'a>,
}

/// Calls `f` for each block with a worker's room.
fn each(blocks: &mut [Block], workers: &PerWorker<Space>, f: impl Fn(usize, &mut Block, &mut Space) + Sync) {
    let Ok(()) = for_each(true, (blocks, 1), |i, block| -> Result<(), Infallible> {
        f(i, &mut block[0], &mut workers.get());
        Ok(())
    });
}

impl Batch {
    /// Runs the network forward and backward; returns the loss.
    pub fn run(&mut self, pass: &Pass<'_>, statistics: &mut [f32], wanted: Wanted<'_>) -> f64 {
        let images = pass.x.len() / LATENTS;
        let count = images.div_ceil(BLOCK);
        if self.blocks.len() < count {
            self.blocks.resize_with(count, Block::default);
        }
        for (i, block) in self.blocks[..count].iter_mut().enumerate() {
            block.fit((images - i * BLOCK).min(BLOCK), pass.channels);
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        self.layers(pass, &mut blocks[..count], statistics, wanted);
        let loss = blocks[..count].iter().map(|b| b.loss).sum();
        self.blocks = blocks;
        loss
    }

    /// One layer after the other, for as long as the gradients are wanted.
    fn layers(
        &mut self,
        pass: &Pass<'_>,
        blocks: &mut [Block],
        statistics: &mut [f32],
        mut wanted: Wanted<'_>,
    ) {
        for layer in 0..NORMED {
            if wanted.stop.is_set() {
                return;
            }
            self.forward(layer, pass, blocks, statistics);
        }
        self.last_layer(pass, blocks, wanted.parameters.as_deref_mut());
        for layer in (1..NORMED).rev() {
            if wanted.stop.is_set() {
                return;
            }
            self.backward(layer, pass, blocks, wanted.parameters.as_deref_mut());
        }
        self.linear_backward(pass, blocks, wanted.parameters, wanted.latents);
    }

    /// A layer and the statistics of what it makes.
    fn forward(&mut self, layer: usize, pass: &Pass<'_>, blocks: &mut [Block], statistics: &mut [f32]) {
        let Pass { packed, .. } = pass;
        let norms = &self.norms;
        each(blocks, pass.workers, |i, block, space| {
            if layer == 0 {
                let x = &pass.x[i * BLOCK * LATENTS..][..block.images * LATENTS];
                packed.linear.forward(x, &packed.bias[0], &mut block.z[0]);
            } else {
                let (before, rest) = block.a.split_at_mut(layer - 1);
                let a = &mut rest[0];
                activate(&block.z[layer - 1], &norms[layer - 1], a);
                if layer == 1 {
                    packed.up.forward(a, &packed.bias[1], &mut block.z[1], &mut space.taps);
                } else {
                    if layer == 4 {
                        add(a, &before[1]);
                    }
                    packed.convolve(layer, a, &mut block.z[layer], &mut space.transforms);
                }
            }
            if pass.mode == Mode::Train {
                block.sums(layer);
                let [mean, squares] = &mut block.sums;
                moments(&block.z[layer], mean, squares);
            }
        });
        let running = pass.layout.statistics(layer);
        let (mut mean, mut variance) = (vec![0.0; width(layer)], vec![0.0; width(layer)]);
        if pass.mode == Mode::Train {
            let rows = |block: &Block| (block.z[layer].len() / width(layer)) as f64;
            let count: f64 = blocks.iter().map(rows).sum();
            for c in 0..width(layer) {
                mean[c] = blocks.iter().map(|b| rows(b) * b.sums[0][c]).sum::<f64>() / count;
                let squares = |b: &Block| b.sums[1][c] + rows(b) * (b.sums[0][c] - mean[c]).powi(2);
                let squares = blocks.iter().map(squares).sum::<f64>();
                variance[c] = squares / count;
                let [m, v] = [running[0].start + c, running[1].start + c];
                let towards =
                    |old: f32, new: f64| (f64::from(old) + MOMENTUM * (new - f64::from(old))) as f32;
                statistics[m] = towards(statistics[m], mean[c]);
                statistics[v] = towards(statistics[v], squares / (count - 1.0).max(1.0));
            }
        } else {
            for c in 0..width(layer) {
                mean[c] = f64::from(statistics[running[0].start + c]);
                variance[c] = f64::from(statistics[running[1].start + c]);
            }
        }
        let (gamma, beta) =
            (&pass.parameters[pass.layout.gamma(layer)], &pass.parameters[pass.layout.beta(layer)]);
        self.norms[layer].set(&mean, &variance, gamma, beta);
    }

    /// The last layer, the loss, and back to what is behind the last normalisation.
    fn last_layer(&mut self, pass: &Pass<'_>, blocks: &mut [Block], gradient: Option<&mut [f32]>) {
        let (packed, norm) = (pass.packed, &self.norms[NORMED - 1]);
        let length = own_length(NORMED, pass.channels);
        let want = gradient.is_some();
        each(blocks, pass.workers, |i, block, space| {
            block.loss = 0.0;
            block.d_bias.fill(0.0);
            block.weights[..length].fill(0.0);
            // The gradient's place holds the input until it is overwritten.
            activate(&block.z[NORMED - 1], norm, &mut block.d);
            add(&mut block.d, &block.a[3]);
            for (j, d) in block.d.chunks_exact_mut(IMAGE).enumerate() {
                let Space { taps, image, d_image, spare, .. } = &mut *space;
                packed.out.forward(d, &packed.bias[NORMED], image, taps);
                tanh_f32(image);
                block.loss += (pass.loss)(i * BLOCK + j, image, d_image);
                through_tanh(image, d_image);
                let pixels = d_image.len() / pass.channels;
                for (b, plane) in block.d_bias.iter_mut().zip(d_image.chunks_exact(pixels)) {
                    *b += plane.iter().map(|&d| f64::from(d)).sum::<f64>();
                }
                let a = &mut spare[..IMAGE];
                a.copy_from_slice(d);
                let weights = want.then_some((&*a, &mut block.weights[..length]));
                packed.out.backward(d_image, d, weights, taps);
            }
            block.skip.copy_from_slice(&block.d);
            block.deactivate(NORMED - 1, norm);
        });
        if let Some(gradient) = gradient {
            self.reduce_weights(NORMED, pass, blocks, gradient);
            let bias = pass.layout.bias(NORMED).expect("the last layer has a bias");
            for (c, g) in gradient[bias].iter_mut().enumerate() {
                *g = blocks.iter().map(|b| b.d_bias[c]).sum::<f64>() as f32;
            }
        }
    }

    /// From behind the normalisation of a layer to behind that of the one before.
    fn backward(
        &mut self,
        layer: usize,
        pass: &Pass<'_>,
        blocks: &mut [Block],
        mut gradient: Option<&mut [f32]>,
    ) {
        self.reduce_sums(layer, pass, blocks, gradient.as_deref_mut());
        let (packed, norms) = (pass.packed, &self.norms);
        let length = own_length(layer, pass.channels);
        let want = gradient.is_some();
        each(blocks, pass.workers, |_, block, space| {
            unnormalise(&mut block.d, &block.z[layer], &norms[layer]);
            let input = &block.a[layer - 1];
            if want {
                block.weights[..length].fill(0.0);
            }
            let weights = &mut block.weights[..length];
            if layer == 1 {
                if want {
                    Up::add_weight_gradient(input, &block.d, weights, &mut space.taps);
                }
                packed.up.backward(&block.d, &mut block.d_features, &mut space.taps);
            } else if begins_residual(layer) {
                let weights = want.then_some((&input[..], weights));
                packed.convolve_backward(layer, &block.d, &mut block.skip, weights, &mut space.transforms);
                block.d.copy_from_slice(&block.skip);
            } else {
                let Space { transforms, spare, .. } = space;
                for (d, input) in block.d.chunks_mut(spare.len()).zip(input.chunks(spare.len())) {
                    let d_output = &mut spare[..d.len()];
                    d_output.copy_from_slice(d);
                    d.fill(0.0);
                    let weights = want.then_some((input, &mut *weights));
                    packed.convolve_backward(layer, d_output, d, weights, transforms);
                }
            }
            block.deactivate(layer - 1, &norms[layer - 1]);
        });
        if let Some(gradient) = gradient {
            self.reduce_weights(layer, pass, blocks, gradient);
        }
    }

    /// The first layer's gradients, which are the last.
    fn linear_backward(
        &mut self,
        pass: &Pass<'_>,
        blocks: &mut [Block],
        mut gradient: Option<&mut [f32]>,
        latents: Option<&mut [f32]>,
    ) {
        self.reduce_sums(0, pass, blocks, gradient.as_deref_mut());
        let norm = &self.norms[0];
        each(blocks, pass.workers, |i, block, _| {
            unnormalise(&mut block.d_features, &block.z[0], norm);
            let x = &pass.x[i * BLOCK * LATENTS..][..block.images * LATENTS];
            Linear::weight_gradient(x, &block.d_features, &mut block.weights);
        });
        if let Some(gradient) = gradient {
            self.reduce_weights(0, pass, blocks, gradient);
        }
        if let Some(latents) = latents {
            let Ok(()) = for_each2(
                true,
                (blocks, 1),
                (latents, BLOCK * LATENTS),
                |_, block, d_x| -> Result<(), Infallible> {
                    pass.packed.linear.backward(&block[0].d_features, d_x);
                    Ok(())
                },
            );
        }
    }

    /// The gradients of gamma, beta and the bias in front; the means that the statistics' gradients need.
    fn reduce_sums(&mut self, layer: usize, pass: &Pass<'_>, blocks: &[Block], gradient: Option<&mut [f32]>) {
        let rows: usize = blocks.iter().map(|b| b.z[layer].len() / width(layer)).sum();
        let norm = &mut self.norms[layer];
        let sums = [0, 1].map(|s| {
            (0..width(layer)).map(|c| blocks.iter().map(|b| b.sums[s][c]).sum::<f64>()).collect::<Vec<_>>()
        });
        for (through, sums) in norm.through.iter_mut().zip(&sums) {
            through.clear();
            let own = if pass.mode == Mode::Train { 1.0 } else { 0.0 };
            through.extend(sums.iter().map(|s| (own * s / rows as f64) as f32));
        }
        let Some(gradient) = gradient else { return };
        let (gamma, beta) = (pass.layout.gamma(layer).start, pass.layout.beta(layer).start);
        for c in 0..width(layer) {
            gradient[gamma + c] = sums[1][c] as f32;
            gradient[beta + c] = sums[0][c] as f32;
            if let Some(bias) = pass.layout.bias(layer) {
                // The batch's own mean takes the bias away again: its gradient is zero, not rounding noise.
                let fixed = pass.mode == Mode::Eval;
                gradient[bias.start + c] =
                    if fixed { (f64::from(norm.scale[c]) * sums[0][c]) as f32 } else { 0.0 };
            }
        }
    }

    /// A layer's weight gradient: the sum over blocks in their order.
    fn reduce_weights(&mut self, layer: usize, pass: &Pass<'_>, blocks: &[Block], gradient: &mut [f32]) {
        const PART: usize = 1024;
        let length = own_length(layer, pass.channels);
        self.total.resize(LONGEST, 0.0);
        let Ok(()) = for_each(true, (&mut self.total[..length], PART), |i, part| -> Result<(), Infallible> {
            let mut sum = [0.0f64; PART];
            for block in blocks {
                for (s, &w) in sum.iter_mut().zip(&block.weights[i * PART..][..part.len()]) {
                    *s += f64::from(w);
                }
            }
            for (p, s) in part.iter_mut().zip(sum) {
                *p = s as f32;
            }
            Ok(())
        });
        weight_gradient(layer, &self.total[..length], &mut gradient[pass.layout.weights(layer)]);
    }
}

impl Block {
    /// Through GELU behind a layer, with the sums that the normalisation needs.
    fn deactivate(&mut self, layer: usize, norm: &Norm) {
        self.sums(layer);
        let [sum, sum_hat] = &mut self.sums;
        let d = if layer == 0 { &mut self.d_features } else { &mut self.d };
        deactivate(d, &self.z[layer], norm, [sum, sum_hat]);
    }
}

impl Norm {
    fn set(&mut self, mean: &[f64], variance: &[f64], gamma: &[f32], beta: &[f32]) {
        for v in [&mut self.mean, &mut self.inverse, &mut self.scale, &mut self.shift] {
            v.clear();
        }
        for c in 0..mean.len() {
            let inverse = 1.0 / (variance[c] + EPSILON).sqrt();
            let scale = f64::from(gamma[c]) * inverse;
            self.mean.push(mean[c] as f32);
            self.inverse.push(inverse as f32);
            self.scale.push(scale as f32);
            self.shift.push((f64::from(beta[c]) - mean[c] * scale) as f32);
        }
    }
}
