//! A small convolutional network: two convolutions with ReLU and pooling, then two linear layers with a ReLU between them.
//!
//! The VAE's encoder and the classifier behind `frechet_lenet` are of this kind.

use super::decoder::Tensor;
use super::layers::{max_pool, max_pool_backward};
use super::product::{COLUMNS, Matrix, product};
use super::weights::Weights;
use motes::blocks::{PerWorker, for_each};
use std::convert::Infallible;

/// Images of a block; the number of threads does not enter.
const BLOCK: usize = 8;

/// A convolution of stride 1, followed by a ReLU and the largest of each 2 x 2 square.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    /// Channels of the input.
    pub inputs: usize,
    /// Rows, and columns, of the input.
    pub size: usize,
    /// Rows, and columns, of the kernel.
    pub kernel: usize,
    /// Zeros around the input.
    pub padding: usize,
    /// Channels of the output.
    pub outputs: usize,
}

impl Stage {
    /// Rows, and columns, behind the convolution.
    fn output_size(&self) -> usize {
        self.size + 2 * self.padding + 1 - self.kernel
    }

    /// Pixels behind the convolution, rounded up to whole tiles.
    fn width(&self) -> usize {
        (self.output_size() * self.output_size()).next_multiple_of(COLUMNS)
    }

    /// Pixels of a channel behind the pooling.
    fn pixels(&self) -> usize {
        (self.output_size() / 2).pow(2)
    }

    /// Values behind the pooling.
    fn pooled(&self) -> usize {
        self.outputs * self.pixels()
    }

    fn taps(&self) -> usize {
        self.inputs * self.kernel * self.kernel
    }

    /// One worker's room: taps, and planes in front of the pooling.
    fn room(&self) -> usize {
        (self.taps() + self.outputs) * self.width()
    }

    /// Calls `visit(place among the taps `[tap][pixel]`, place in the input, how many)` for each row of each tap.
    fn runs(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (out, kernel) = (self.output_size(), self.kernel);
        for tap in 0..self.taps() {
            let (plane, ky, kx) = (tap / (kernel * kernel), tap / kernel % kernel, tap % kernel);
            // Where input column x + kx - padding exists.
            let first = self.padding.saturating_sub(kx);
            let end = out.min(self.size + self.padding - kx);
            for y in 0..out {
                let row = (y + ky).wrapping_sub(self.padding);
                if row < self.size && first < end {
                    let place = (plane * self.size + row) * self.size + first + kx - self.padding;
                    visit(tap * self.width() + y * out + first, place, end - first);
                }
            }
        }
    }

    /// The input of each tap, `[tap][pixel]`.
    fn spread(&self, input: &[f32], taps: &mut [f32]) {
        taps[..self.taps() * self.width()].fill(0.0);
        self.runs(|tap, place, len| taps[tap..tap + len].copy_from_slice(&input[place..place + len]));
    }
}

/// A network's layers.
#[derive(Clone, Copy)]
pub(crate) struct Layers {
    /// The convolutions.
    pub stages: [Stage; 2],
    /// Values behind the first linear layer, a multiple of 16.
    pub hidden: usize,
    /// Values behind the second one.
    pub outputs: usize,
}

impl Layers {
    fn pixels(&self) -> usize {
        let Stage { inputs, size, .. } = self.stages[0];
        inputs * size * size
    }

    /// The outputs of one image with the zeros that fill the last tile up.
    fn last(&self) -> usize {
        self.outputs.next_multiple_of(COLUMNS)
    }
}

/// A loss's gradient with respect to one image's outputs: given the image's number and its outputs, it writes the gradient.
pub(crate) type Slope<'a> = dyn Fn(usize, &[f32], &mut [f32]) + Sync + 'a;

/// The network with its parameters. Their names are c1, c2, f1 and f2, their shapes and initial distribution PyTorch's.
pub(crate) struct ConvNet {
    layers: Layers,
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
    fn fit(&mut self, layers: &Layers, images: usize) {
        self.images = images;
        for (i, stage) in layers.stages.iter().enumerate() {
            self.pooled[i].resize(images * stage.pooled(), 0.0);
            self.from[i].resize(images * stage.pooled(), 0);
        }
        self.hidden.resize(images * layers.hidden, 0.0);
        self.last.resize(images * layers.last(), 0.0);
    }
}

impl ConvNet {
    /// A network with weights drawn by the seed, from this stream on.
    pub fn new(layers: Layers, seed: u64, stream: u64) -> Self {
        let [first, second] = layers.stages;
        let (flat, hidden) = (second.pooled(), layers.hidden);
        assert!(
            second.size == first.output_size() / 2 && second.inputs == first.outputs,
            "stages that fit together"
        );
        assert!(flat % COLUMNS == 0 && hidden % COLUMNS == 0, "linear layers of whole tiles");
        let mut w = Weights::new(seed, stream);
        let shapes: [(&str, &[usize]); 4] = [
            ("c1", &[first.outputs, first.inputs, first.kernel, first.kernel]),
            ("c2", &[second.outputs, second.inputs, second.kernel, second.kernel]),
            ("f1", &[hidden, flat]),
            ("f2", &[layers.outputs, hidden]),
        ];
        for (name, shape) in shapes {
            let fan_in = shape[1..].iter().product();
            w.uniform(&format!("{name}.weight"), shape, fan_in);
            w.uniform(&format!("{name}.bias"), &shape[..1], fan_in);
        }
        let workers = Self::workers(&layers);
        Self { layers, parameters: w, blocks: Vec::new(), images: Vec::new(), workers }
    }

    fn workers(layers: &Layers) -> PerWorker<Vec<f32>> {
        let [first, second] = layers.stages;
        PerWorker::new(|| vec![0.0; first.room().max(second.room())])
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

    /// Runs the images through the network; returns how many there are.
    pub fn forward(&mut self, images: &[f32]) -> usize {
        let d_y = self.layers.pixels();
        let count = images.len() / d_y;
        assert_eq!(images.len(), count * d_y, "each image has {d_y} values");
        self.images.clear();
        self.images.extend_from_slice(images);
        if !self.workers.fits() {
            self.workers = Self::workers(&self.layers);
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.resize_with(count.div_ceil(BLOCK), Block::default);
        for (i, block) in blocks.iter_mut().enumerate() {
            block.fit(&self.layers, (count - i * BLOCK).min(BLOCK));
        }
        let this = &*self;
        let [first, second] = this.layers.stages;
        let [f1, f2] = [2, 3].map(|layer| columns(this.layer(layer)));
        let Ok(()) = for_each(true, (&mut blocks, 1), |i, block| {
            let (block, space) = (&mut block[0], &mut this.workers.get()[..]);
            let [pooled0, pooled1] = &mut block.pooled;
            let [from0, from1] = &mut block.from;
            for j in 0..block.images {
                let image = &this.images[(i * BLOCK + j) * d_y..][..d_y];
                let (at0, at1) = (part(pooled0, block.images, j), part(pooled1, block.images, j));
                let (out0, out1) = (&mut pooled0[at0.clone()], &mut pooled1[at1.clone()]);
                convolve(first, image, this.layer(0), out0, &mut from0[at0], space);
                convolve(second, out0, this.layer(1), out1, &mut from1[at1], space);
            }
            rows_times(&block.pooled[1], &f1, &mut block.hidden);
            relu(&mut block.hidden);
            rows_times(&block.hidden, &f2, &mut block.last);
            Ok::<_, Infallible>(())
        });
        self.blocks = blocks;
        count
    }

    /// What the last forward gave behind the first linear layer and its ReLU, image by image.
    pub fn hidden(&self) -> impl Iterator<Item = &[f32]> {
        self.blocks.iter().flat_map(|b| b.hidden.chunks_exact(self.layers.hidden))
    }

    /// What the last forward gave, image by image.
    pub fn outputs(&self) -> impl Iterator<Item = &[f32]> {
        let rows = self.blocks.iter().flat_map(|b| b.last.chunks_exact(self.layers.last()));
        rows.map(|row| &row[..self.layers.outputs])
    }

    /// The gradient with respect to all parameters, overwritten, of a loss of what the last forward gave.
    pub fn backward(&mut self, slope: &Slope<'_>, grad: &mut [f32]) {
        assert_eq!(grad.len(), self.parameters.values.len(), "room for all parameters");
        let mut blocks = std::mem::take(&mut self.blocks);
        let this = &*self;
        let Layers { stages: [first, second], hidden, outputs } = this.layers;
        let (d_y, flat) = (this.layers.pixels(), second.pooled());
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
            let mut d_last = vec![0.0; n * outputs];
            let lasts = block.last.chunks_exact(this.layers.last());
            for (j, (d, last)) in d_last.chunks_exact_mut(outputs).zip(lasts).enumerate() {
                slope(i * BLOCK + j, &last[..outputs], d);
            }
            let mut d_hidden = vec![0.0; n * hidden];
            linear_backward(&block.hidden, &d_last, this.layer(3)[0], &mut d_hidden, w4, b4);
            let mut d_flat = vec![0.0; n * flat];
            linear_backward(&block.pooled[1], &d_hidden, this.layer(2)[0], &mut d_flat, w3, b3);
            let mut d_pooled = vec![0.0; first.pooled()];
            for j in 0..n {
                let image = &this.images[(i * BLOCK + j) * d_y..][..d_y];
                let (at0, at1) = (part(&block.pooled[0], n, j), part(&block.pooled[1], n, j));
                let input = &block.pooled[0][at0.clone()];
                let further = Some((this.layer(1)[0], &mut d_pooled[..]));
                let d = &d_flat[j * flat..][..flat];
                convolve_backward(second, input, d, &block.from[1][at1], (w2, b2), further, space);
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

/// A linear layer's weights `[output][input]` as `[input][output]`, and its bias, both with zeros up to whole tiles.
fn columns([weights, bias]: [&[f32]; 2]) -> [Vec<f32>; 2] {
    let inputs = weights.len() / bias.len();
    let outputs = bias.len().next_multiple_of(COLUMNS);
    let mut result = vec![0.0; inputs * outputs];
    for (o, row) in weights.chunks_exact(inputs).enumerate() {
        for (i, &w) in row.iter().enumerate() {
            result[i * outputs + o] = w;
        }
    }
    let mut bias = bias.to_vec();
    bias.resize(outputs, 0.0);
    [result, bias]
}

/// y = x W + b for some rows x.
fn rows_times(x: &[f32], [w, bias]: &[Vec<f32>; 2], y: &mut [f32]) {
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
    stage: Stage,
    input: &[f32],
    [w, b]: [&[f32]; 2],
    pooled: &mut [f32],
    from: &mut [u32],
    space: &mut [f32],
) {
    let (size, width) = (stage.output_size(), stage.width());
    let (taps, rest) = space.split_at_mut(stage.taps() * width);
    let planes = &mut rest[..stage.outputs * width];
    stage.spread(input, taps);
    for (plane, &b) in planes.chunks_exact_mut(width).zip(b) {
        plane.fill(b);
    }
    product([stage.outputs, stage.taps(), width], Matrix::rows(w, stage.taps()), taps, planes, true);
    let pixels = stage.pixels();
    let pools = pooled.chunks_exact_mut(pixels).zip(from.chunks_exact_mut(pixels));
    for (plane, (pooled, from)) in planes.chunks_exact(width).zip(pools) {
        max_pool(&plane[..size * size], size, pooled, from);
    }
    // The largest of ReLUs is the ReLU of the largest.
    relu(pooled);
}

/// One image's gradients from in front of the ReLU: of weights and bias, added; of the input if asked for.
fn convolve_backward(
    stage: Stage,
    input: &[f32],
    d_pooled: &[f32],
    from: &[u32],
    (d_w, d_b): (&mut [f32], &mut [f32]),
    further: Option<(&[f32], &mut [f32])>,
    space: &mut [f32],
) {
    let (size, width) = (stage.output_size(), stage.width());
    let (taps, rest) = space.split_at_mut(stage.taps() * width);
    let d_planes = &mut rest[..stage.outputs * width];
    d_planes.fill(0.0);
    let pixels = stage.pixels();
    for (o, d_plane) in d_planes.chunks_exact_mut(width).enumerate() {
        let at = o * pixels..(o + 1) * pixels;
        max_pool_backward(&d_pooled[at.clone()], &from[at], &mut d_plane[..size * size]);
        d_b[o] += d_plane.iter().sum::<f32>();
    }
    stage.spread(input, taps);
    // [tap][pixel] times its transpose would need columns of taps: a sum of few products each, by plain loops.
    for (d_plane, d_w) in d_planes.chunks_exact(width).zip(d_w.chunks_exact_mut(stage.taps())) {
        for (tap, d_w) in taps.chunks_exact(width).zip(d_w) {
            *d_w += dot(tap, d_plane);
        }
    }
    if let Some((w, d_input)) = further {
        let size = [stage.taps(), stage.outputs, width];
        product(size, Matrix::transposed(w, stage.taps()), d_planes, taps, false);
        d_input.fill(0.0);
        stage.runs(|tap, place, len| {
            for (d, t) in d_input[place..place + len].iter_mut().zip(&taps[tap..tap + len]) {
                *d += t;
            }
        });
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
