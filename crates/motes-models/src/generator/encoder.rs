//! The VAE's encoder: two convolutions and two linear layers from an image to the mean and variance of its latents.

use super::decoder::Tensor;
use super::layers::{max_pool, max_pool_backward};
use super::product::{COLUMNS, Matrix, product};
use super::weights::Weights;
use motes::blocks::{PerWorker, for_each};
use motes::vmath::{sigmoid_f32, softplus_f32};
use std::convert::Infallible;

/// Latent coordinates.
const LATENTS: usize = 64;
/// Rows, and columns, of the image, behind the first convolution, and behind the first pooling.
const SIZES: [usize; 3] = [32, 34, 17];
/// Channels behind each convolution.
const PLANES: [usize; 2] = [16, 32];
const TAPS: usize = 9;
/// Features behind the second pooling, and behind the first linear layer.
const FLAT: usize = 2048;
const HIDDEN: usize = 512;
/// The least variance.
const FLOOR: f32 = 1e-3;
/// Images of a block; the number of threads does not enter.
const BLOCK: usize = 8;
/// The encoder's draws begin far behind the decoder's.
const STREAM: u64 = 1000;

/// Conv(C, 16, 3, padding 2), ReLU, MaxPool(2); Conv(16, 32, 3, padding 1), ReLU, MaxPool(2); Linear(2048, 512), ReLU;
/// Linear(512, 128) -> the mean, and the variance as softplus + 1e-3. Names, shapes and initial distribution are PyTorch's.
pub struct Encoder {
    channels: usize,
    parameters: Weights,
    blocks: Vec<Block>,
    /// The images of the last forward.
    images: Vec<f32>,
    workers: PerWorker<Vec<f32>>,
}

/// Some images' activations, and their terms of the gradient.
#[derive(Default)]
struct Block {
    images: usize,
    /// Behind each pooling, and where the largest values stood; ReLU comes after, which changes neither.
    pooled: [Vec<f32>; 2],
    from: [Vec<u32>; 2],
    hidden: Vec<f32>,
    last: Vec<f32>,
    gradient: Vec<f32>,
}

impl Block {
    fn fit(&mut self, images: usize) {
        self.images = images;
        for (i, size) in [17 * 17, 8 * 8].into_iter().enumerate() {
            self.pooled[i].resize(images * PLANES[i] * size, 0.0);
            self.from[i].resize(images * PLANES[i] * size, 0);
        }
        self.hidden.resize(images * HIDDEN, 0.0);
        self.last.resize(images * 2 * LATENTS, 0.0);
    }
}

/// A convolution with a 3 x 3 kernel: planes in, size in, padding, planes out.
#[derive(Clone, Copy)]
struct Small {
    inputs: usize,
    size: usize,
    padding: usize,
    outputs: usize,
}

impl Small {
    fn output_size(&self) -> usize {
        self.size + 2 * self.padding - 2
    }

    /// Pixels of the output, rounded up to whole tiles.
    fn width(&self) -> usize {
        (self.output_size() * self.output_size()).next_multiple_of(COLUMNS)
    }

    fn taps(&self) -> usize {
        self.inputs * TAPS
    }

    /// Calls `visit(place among the taps `[tap][pixel]`, place in the input)`.
    fn places(&self, mut visit: impl FnMut(usize, usize)) {
        let out = self.output_size();
        for tap in 0..self.taps() {
            let (plane, ky, kx) = (tap / TAPS, tap % TAPS / 3, tap % 3);
            for y in 0..out {
                let row = (y + ky).wrapping_sub(self.padding);
                if row >= self.size {
                    continue;
                }
                for x in 0..out {
                    let column = (x + kx).wrapping_sub(self.padding);
                    if column < self.size {
                        visit(
                            tap * self.width() + y * out + x,
                            (plane * self.size + row) * self.size + column,
                        );
                    }
                }
            }
        }
    }

    /// The input of each tap, `[tap][pixel]`.
    fn spread(&self, input: &[f32], taps: &mut [f32]) {
        taps[..self.taps() * self.width()].fill(0.0);
        self.places(|tap, place| taps[tap] = input[place]);
    }
}

/// One worker's room: taps, planes in front of a pooling, and their gradients.
fn room(channels: usize) -> usize {
    let [first, second] = convolutions(channels);
    let widest = |c: Small| c.taps().max(c.outputs) * c.width();
    2 * widest(first).max(widest(second)) + PLANES[1] * SIZES[1] * SIZES[1]
}

fn convolutions(channels: usize) -> [Small; 2] {
    [
        Small { inputs: channels, size: SIZES[0], padding: 2, outputs: PLANES[0] },
        Small { inputs: PLANES[0], size: SIZES[2], padding: 1, outputs: PLANES[1] },
    ]
}

impl Encoder {
    /// An encoder of images of 1 or 3 channels, with weights drawn by the seed.
    ///
    /// # Panics
    /// If there are no channels.
    pub fn new(channels: usize, seed: u64) -> Self {
        assert!(channels > 0, "an image has at least one channel");
        let mut w = Weights::new(seed, STREAM);
        let layers: [(&str, &[usize]); 4] = [
            ("c1", &[PLANES[0], channels, 3, 3]),
            ("c2", &[PLANES[1], PLANES[0], 3, 3]),
            ("f1", &[HIDDEN, FLAT]),
            ("f2", &[2 * LATENTS, HIDDEN]),
        ];
        for (name, shape) in layers {
            let fan_in = shape[1..].iter().product();
            w.uniform(&format!("{name}.weight"), shape, fan_in);
            w.uniform(&format!("{name}.bias"), &shape[..1], fan_in);
        }
        Self {
            channels,
            parameters: w,
            blocks: Vec::new(),
            images: Vec::new(),
            workers: PerWorker::new(|| vec![0.0; room(channels)]),
        }
    }

    /// All trainable parameters.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters.values
    }

    /// All trainable parameters, to be changed.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters.values
    }

    /// Names and shapes of the parameters, in their order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.parameters.tensors
    }

    /// The weights and bias of layer 0 to 3.
    fn layer(&self, layer: usize) -> [&[f32]; 2] {
        let range = |i: usize| {
            let t = &self.parameters.tensors[i];
            t.offset..t.offset + t.shape.iter().product::<usize>()
        };
        [range(2 * layer), range(2 * layer + 1)].map(|r| &self.parameters.values[r])
    }

    /// The mean and variance of each image's latents, and what [`Encoder::backward`] needs.
    pub fn forward(&mut self, images: &[f32], mean: &mut [f32], variance: &mut [f32]) {
        let d_y = self.channels * SIZES[0] * SIZES[0];
        let count = images.len() / d_y;
        assert_eq!(images.len(), count * d_y, "each image has {d_y} values");
        assert!(
            mean.len() == count * LATENTS && variance.len() == count * LATENTS,
            "room for {count} latents"
        );
        self.images.clear();
        self.images.extend_from_slice(images);
        if !self.workers.fits() {
            self.workers = PerWorker::new(|| vec![0.0; room(self.channels)]);
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.resize_with(count.div_ceil(BLOCK), Block::default);
        for (i, block) in blocks.iter_mut().enumerate() {
            block.fit((count - i * BLOCK).min(BLOCK));
        }
        let this = &*self;
        let [first, second] = convolutions(this.channels);
        let (w3, w4) = (transpose(this.layer(2)[0], FLAT), transpose(this.layer(3)[0], HIDDEN));
        let Ok(()) = for_each(true, (&mut blocks, 1), |i, block| {
            let (block, space) = (&mut block[0], &mut this.workers.get()[..]);
            let [pooled0, pooled1] = &mut block.pooled;
            let [from0, from1] = &mut block.from;
            for j in 0..block.images {
                let image = &this.images[(i * BLOCK + j) * d_y..][..d_y];
                let (at0, at1) = (part(pooled0, block.images, j), part(pooled1, block.images, j));
                convolve(
                    first,
                    image,
                    this.layer(0),
                    &mut pooled0[at0.clone()],
                    &mut from0[at0.clone()],
                    space,
                );
                convolve(
                    second,
                    &pooled0[at0],
                    this.layer(1),
                    &mut pooled1[at1.clone()],
                    &mut from1[at1],
                    space,
                );
            }
            rows_times(&block.pooled[1], &w3, this.layer(2)[1], &mut block.hidden);
            relu(&mut block.hidden);
            rows_times(&block.hidden, &w4, this.layer(3)[1], &mut block.last);
            Ok::<_, Infallible>(())
        });
        let rows = blocks.iter().flat_map(|b| b.last.chunks_exact(2 * LATENTS));
        let latents = mean.chunks_exact_mut(LATENTS).zip(variance.chunks_exact_mut(LATENTS));
        for (row, (mean, variance)) in rows.zip(latents) {
            mean.copy_from_slice(&row[..LATENTS]);
            variance.copy_from_slice(&row[LATENTS..]);
        }
        softplus_f32(variance);
        variance.iter_mut().for_each(|v| *v += FLOOR);
        self.blocks = blocks;
    }

    /// The gradient with respect to all parameters, overwritten, of a loss with these gradients with respect to what the
    /// last [`Encoder::forward`] gave.
    pub fn backward(&mut self, d_mean: &[f32], d_variance: &[f32], grad: &mut [f32]) {
        let count: usize = self.blocks.iter().map(|b| b.images).sum();
        assert!(
            d_mean.len() == count * LATENTS && d_variance.len() == count * LATENTS,
            "a gradient for {count} images"
        );
        assert_eq!(grad.len(), self.parameters.values.len(), "room for all parameters");
        let mut blocks = std::mem::take(&mut self.blocks);
        let this = &*self;
        let [first, second] = convolutions(this.channels);
        let d_y = this.channels * SIZES[0] * SIZES[0];
        let Ok(()) = for_each(true, (&mut blocks, 1), |i, block| {
            let (block, space) = (&mut block[0], &mut this.workers.get()[..]);
            let n = block.images;
            // Not in the forward, which may be all that is wanted of many images.
            block.gradient.clear();
            block.gradient.resize(this.parameters.values.len(), 0.0);
            let mut gradient = &mut block.gradient[..];
            let mut take = |len: usize| gradient.split_off_mut(..len).expect("a layer's gradient");
            let mut next = |layer: usize| this.layer(layer).map(|w| take(w.len()));
            let [[w1, b1], [w2, b2], [w3, b3], [w4, b4]] = [next(0), next(1), next(2), next(3)];
            let mut d_last = vec![0.0; n * 2 * LATENTS];
            for (j, d) in d_last.chunks_exact_mut(2 * LATENTS).enumerate() {
                let at = (i * BLOCK + j) * LATENTS;
                d[..LATENTS].copy_from_slice(&d_mean[at..at + LATENTS]);
                let slope = &mut d[LATENTS..];
                slope.copy_from_slice(&block.last[(2 * j + 1) * LATENTS..][..LATENTS]);
                sigmoid_f32(slope);
                slope.iter_mut().zip(&d_variance[at..]).for_each(|(s, d)| *s *= d);
            }
            let mut d_hidden = vec![0.0; n * HIDDEN];
            linear_backward(&block.hidden, &d_last, this.layer(3)[0], &mut d_hidden, w4, b4);
            let mut d_flat = vec![0.0; n * FLAT];
            linear_backward(&block.pooled[1], &d_hidden, this.layer(2)[0], &mut d_flat, w3, b3);
            let mut d_pooled = vec![0.0; block.pooled[0].len() / n];
            for j in 0..n {
                let image = &this.images[(i * BLOCK + j) * d_y..][..d_y];
                let (at0, at1) = (part(&block.pooled[0], n, j), part(&block.pooled[1], n, j));
                let input = &block.pooled[0][at0.clone()];
                let weights = this.layer(1)[0];
                let d = &d_flat[j * FLAT..][..FLAT];
                convolve_backward(
                    second,
                    input,
                    d,
                    &block.from[1][at1],
                    (w2, b2),
                    Some((weights, &mut d_pooled)),
                    space,
                );
                for (d, &a) in d_pooled.iter_mut().zip(input) {
                    *d = if a > 0.0 { *d } else { 0.0 };
                }
                convolve_backward(first, image, &d_pooled, &block.from[0][at0], (w1, b1), None, space);
            }
            Ok::<_, Infallible>(())
        });
        const PART: usize = 1024;
        let Ok(()) = for_each(true, (grad, PART), |i, part| {
            let mut sum = [0.0f64; PART];
            for block in &blocks {
                for (s, &g) in sum.iter_mut().zip(&block.gradient[i * PART..][..part.len()]) {
                    *s += f64::from(g);
                }
            }
            part.iter_mut().zip(sum).for_each(|(p, s)| *p = s as f32);
            Ok::<_, Infallible>(())
        });
        self.blocks = blocks;
    }
}

/// Where one image's share of a block's array is.
fn part<T>(of: &[T], images: usize, j: usize) -> std::ops::Range<usize> {
    let len = of.len() / images;
    j * len..(j + 1) * len
}

fn relu(x: &mut [f32]) {
    // A comparison, not max: it must let NaN through.
    x.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x });
}

/// `[output][input]` to `[input][output]`.
fn transpose(weights: &[f32], inputs: usize) -> Vec<f32> {
    let outputs = weights.len() / inputs;
    let mut result = vec![0.0; weights.len()];
    for (o, row) in weights.chunks_exact(inputs).enumerate() {
        for (i, &w) in row.iter().enumerate() {
            result[i * outputs + o] = w;
        }
    }
    result
}

/// y = x W + b for some rows x.
fn rows_times(x: &[f32], w: &[f32], bias: &[f32], y: &mut [f32]) {
    let (outputs, inputs) = (bias.len(), w.len() / bias.len());
    y.chunks_exact_mut(outputs).for_each(|y| y.copy_from_slice(bias));
    product([x.len() / inputs, inputs, outputs], Matrix::rows(x, inputs), w, y, true);
}

/// Gradients of a linear layer whose input x came out of a ReLU, to in front of that.
fn linear_backward(x: &[f32], d_y: &[f32], w: &[f32], d_x: &mut [f32], d_w: &mut [f32], d_b: &mut [f32]) {
    let (outputs, rows) = (d_b.len(), d_y.len() / d_b.len());
    let inputs = x.len() / rows;
    product([outputs, rows, inputs], Matrix::transposed(d_y, outputs), x, d_w, false);
    product([rows, outputs, inputs], Matrix::rows(d_y, outputs), w, d_x, false);
    for row in d_y.chunks_exact(outputs) {
        d_b.iter_mut().zip(row).for_each(|(b, d)| *b += d);
    }
    d_x.iter_mut().zip(x).for_each(|(d, &x)| *d = if x > 0.0 { *d } else { 0.0 });
}

/// One image's convolution, pooling and ReLU.
fn convolve(
    shape: Small,
    input: &[f32],
    [w, b]: [&[f32]; 2],
    pooled: &mut [f32],
    from: &mut [u32],
    space: &mut [f32],
) {
    let (size, width) = (shape.output_size(), shape.width());
    let (taps, rest) = space.split_at_mut(shape.taps() * width);
    let planes = &mut rest[..shape.outputs * width];
    shape.spread(input, taps);
    for (plane, &b) in planes.chunks_exact_mut(width).zip(b) {
        plane.fill(b);
    }
    product([shape.outputs, shape.taps(), width], Matrix::rows(w, shape.taps()), taps, planes, true);
    let quarter = (size / 2) * (size / 2);
    let pools = pooled.chunks_exact_mut(quarter).zip(from.chunks_exact_mut(quarter));
    for (plane, (pooled, from)) in planes.chunks_exact(width).zip(pools) {
        max_pool(&plane[..size * size], size, pooled, from);
    }
    // The largest of ReLUs is the ReLU of the largest.
    relu(pooled);
}

/// One image's gradients from in front of the ReLU: of weights and bias, added; of the input if asked for.
fn convolve_backward(
    shape: Small,
    input: &[f32],
    d_pooled: &[f32],
    from: &[u32],
    (d_w, d_b): (&mut [f32], &mut [f32]),
    further: Option<(&[f32], &mut [f32])>,
    space: &mut [f32],
) {
    let (size, width) = (shape.output_size(), shape.width());
    let (taps, rest) = space.split_at_mut(shape.taps() * width);
    let d_planes = &mut rest[..shape.outputs * width];
    d_planes.fill(0.0);
    let quarter = (size / 2) * (size / 2);
    for (o, d_plane) in d_planes.chunks_exact_mut(width).enumerate() {
        let at = o * quarter..(o + 1) * quarter;
        max_pool_backward(&d_pooled[at.clone()], &from[at], &mut d_plane[..size * size]);
        d_b[o] += d_plane.iter().sum::<f32>();
    }
    shape.spread(input, taps);
    // [tap][pixel] times its transpose would need columns of taps: a sum of few products each, by plain loops.
    for (d_plane, d_w) in d_planes.chunks_exact(width).zip(d_w.chunks_exact_mut(shape.taps())) {
        for (tap, d_w) in taps.chunks_exact(width).zip(d_w) {
            *d_w += dot(tap, d_plane);
        }
    }
    if let Some((w, d_input)) = further {
        product(
            [shape.taps(), shape.outputs, width],
            Matrix::transposed(w, shape.taps()),
            d_planes,
            taps,
            false,
        );
        d_input.fill(0.0);
        shape.places(|tap, place| d_input[place] += taps[tap]);
    }
}

/// A sum of products in eight lanes, which the compiler may keep in a vector.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; COLUMNS];
    for (a, b) in a.chunks_exact(COLUMNS).zip(b.chunks_exact(COLUMNS)) {
        for i in 0..COLUMNS {
            lanes[i] += a[i] * b[i];
        }
    }
    lanes.iter().sum()
}
