//! Convolutions of 64 to 64 channels on 16 x 16 pixels by Winograd's algorithm F(4 x 4, r x r), forward and backward.
//!
//! Own code because the Rust frameworks' convolutions need three to ten times PyTorch's time on this network, and this
//! less than its. In one dimension, y = A'[(G g) . (B' d)] gives four outputs of a kernel g with r taps from N = r + 3
//! inputs d with N products: 64 instead of 400 for a tile of the 5 x 5 kernel, 36 instead of 144 for the 3 x 3. The
//! gradients are its adjoints: of the kernel, G'[(A y) . (B' d)]; of the input, B[(G g) . (A y)]. In between, products
//! with the same index in the tile are matrix products over channels.
//!
//! Rounding: 3e-6 of the root mean square for 5 x 5 and 2e-6 for 3 x 3, ten times that at most, in either direction. Decoded
//! pixels at trained weights are off by 1e-6 at most, beside a noise level of 0.01 (tests/generator_error.rs).
//!
//! Images are channels last: `[row][column][channel]`.

use super::product::{Matrix, product};
use motes::blocks::{for_each, for_each2};
use motes::simd::{Aligned, Isa, Simd, SimdBase, SimdFloat, dispatch};
use std::convert::Infallible;

/// Channels of input and output.
pub(super) const CHANNELS: usize = 64;
/// Rows, and columns, of an image.
pub(super) const SIZE: usize = 16;
/// Values of one image.
pub(super) const IMAGE: usize = SIZE * SIZE * CHANNELS;
/// Images transformed at once: their products with the weights of one index run in the first two levels of the cache.
pub(super) const TOGETHER: usize = 3;

/// Rows, and columns, of a tile of the output.
const TILE: usize = 4;
/// Tiles of an image.
const TILES: usize = (SIZE / TILE) * (SIZE / TILE);
const MATRIX: usize = CHANNELS * CHANNELS;
/// From one index of the tile to the next: whole cache lines, but not a power of two, which would put all of them into the
/// same cache set.
const STRIDE: usize = TOGETHER * TILES * CHANNELS + 16;

/// Room for the transforms of [`TOGETHER`] images.
pub(super) struct Transforms {
    input: Aligned<f32>,
    output: Aligned<f32>,
    products: Aligned<f32>,
}

impl Transforms {
    /// Room for either kernel size.
    pub fn new() -> Self {
        let room = || Aligned::zeros(64 * STRIDE);
        Self { input: room(), output: room(), products: room() }
    }
}

/// One layer's transformed weights; N is 8 for a 5 x 5 kernel and 6 for 3 x 3.
pub(super) struct Winograd<const N: usize> {
    /// For each index of the tile, `[input][output]`.
    forward: Aligned<f32>,
    /// For each index of the tile, `[output][input]`.
    backward: Aligned<f32>,
}

impl<const N: usize> Winograd<N> {
    /// Taps of the kernel in a row.
    const KERNEL: usize = N + 1 - TILE;
    /// The length of a layer's weights in the domain of the products.
    pub const WEIGHTS: usize = N * N * MATRIX;

    /// Without weights yet.
    pub fn new() -> Self {
        Self { forward: Aligned::zeros(Self::WEIGHTS), backward: Aligned::zeros(Self::WEIGHTS) }
    }

    /// Takes the weights `[output][input][row][column]`, each output's times its scale.
    pub fn set(&mut self, weights: &[f32], scale: &[f32]) {
        let taps = Self::KERNEL * Self::KERNEL;
        let g = kernel_transform::<N>();
        let rows = (&mut self.forward[..], N * MATRIX);
        let Ok(()) = for_each2(true, rows, (&mut self.backward, N * MATRIX), |i, forward, backward| {
            for (output, (w, &scale)) in weights.chunks_exact(taps * CHANNELS).zip(scale).enumerate() {
                let mut half = [[0.0f64; CHANNELS]; 5];
                for (input, w) in w.chunks_exact(taps).enumerate() {
                    let mut sums = [0.0; 5];
                    for (w, g) in w.chunks_exact(Self::KERNEL).zip(g[i]) {
                        sums.iter_mut().zip(w).for_each(|(s, &w)| *s += g * f64::from(w));
                    }
                    half.iter_mut().zip(sums).for_each(|(h, s)| h[input] = s);
                }
                for (j, g) in g.iter().enumerate() {
                    let mut sums = [0.0; CHANNELS];
                    for (half, &g) in half.iter().zip(g) {
                        sums.iter_mut().zip(half).for_each(|(s, h)| *s += g * h);
                    }
                    let row = &mut backward[j * MATRIX + output * CHANNELS..][..CHANNELS];
                    row.iter_mut().zip(sums).for_each(|(u, s)| *u = (s * f64::from(scale)) as f32);
                }
            }
            for (to, from) in forward.chunks_exact_mut(MATRIX).zip(backward.chunks_exact(MATRIX)) {
                for (at, u) in to.iter_mut().enumerate() {
                    *u = from[at % CHANNELS * CHANNELS + at / CHANNELS];
                }
            }
            Ok::<_, Infallible>(())
        });
    }

    /// `output = input * weights + bias` for some images.
    pub fn forward(&self, input: &[f32], bias: &[f32], output: &mut [f32], space: &mut Transforms) {
        let pairs = input.chunks(TOGETHER * IMAGE).zip(output.chunks_mut(TOGETHER * IMAGE));
        for (input, output) in pairs {
            let rows = input.len() / IMAGE * TILES;
            transform_input(N, input, &mut space.input);
            for f in 0..N * N {
                let v = Matrix::rows(&space.input[f * STRIDE..], CHANNELS);
                let u = &self.forward[f * MATRIX..][..MATRIX];
                product([rows, CHANNELS, CHANNELS], v, u, &mut space.products[f * STRIDE..], false);
            }
            collect_output(N, &space.products, bias, output);
        }
    }

    /// For some images: adds the gradient with respect to the input to `d_input`; and, given the input and where to, adds
    /// the gradient with respect to the transformed weights, for each index of the tile `[output][input]`.
    pub fn backward(
        &self,
        d_output: &[f32],
        d_input: &mut [f32],
        mut weights: Option<(&[f32], &mut [f32])>,
        space: &mut Transforms,
    ) {
        let pairs = d_output.chunks(TOGETHER * IMAGE).zip(d_input.chunks_mut(TOGETHER * IMAGE));
        for (part, (d_output, d_input)) in pairs.enumerate() {
            let rows = d_output.len() / IMAGE * TILES;
            spread_output(N, d_output, &mut space.output);
            if let Some((input, d_weights)) = &mut weights {
                transform_input(N, &input[part * TOGETHER * IMAGE..][..d_output.len()], &mut space.input);
                for f in 0..N * N {
                    let e = Matrix::transposed(&space.output[f * STRIDE..], CHANNELS);
                    let du = &mut d_weights[f * MATRIX..][..MATRIX];
                    product([CHANNELS, rows, CHANNELS], e, &space.input[f * STRIDE..], du, true);
                }
            }
            for f in 0..N * N {
                let e = Matrix::rows(&space.output[f * STRIDE..], CHANNELS);
                let u = &self.backward[f * MATRIX..][..MATRIX];
                product([rows, CHANNELS, CHANNELS], e, u, &mut space.products[f * STRIDE..], false);
            }
            add_input(N, &space.products, d_input);
        }
    }

    /// The gradient with respect to the weights `[output][input][row][column]` from that of the transformed ones.
    pub fn weight_gradient(transformed: &[f32], weights: &mut [f32]) {
        let taps = Self::KERNEL * Self::KERNEL;
        let g = kernel_transform::<N>();
        let Ok(()) = for_each(true, (weights, taps * CHANNELS), |output, weights| {
            let mut sums = [[0.0f64; CHANNELS]; 25];
            for i in 0..N {
                let mut half = [[0.0f64; CHANNELS]; 5];
                for (j, g) in g.iter().enumerate() {
                    let du = &transformed[(i * N + j) * MATRIX + output * CHANNELS..][..CHANNELS];
                    for (half, &g) in half.iter_mut().zip(g) {
                        half.iter_mut().zip(du).for_each(|(h, &du)| *h += g * f64::from(du));
                    }
                }
                for (tap, sums) in sums[..taps].iter_mut().enumerate() {
                    let (half, g) = (&half[tap % Self::KERNEL], g[i][tap / Self::KERNEL]);
                    sums.iter_mut().zip(half).for_each(|(s, h)| *s += g * h);
                }
            }
            for (at, w) in weights.iter_mut().enumerate() {
                *w = sums[at % taps][at / taps] as f32;
            }
            Ok::<_, Infallible>(())
        });
    }
}

/// G: the powers of each point over the product of its distances to the others, the last row for the point at infinity.
fn kernel_transform<const N: usize>() -> [[f64; 5]; N] {
    let points = &[0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5][..N - 1];
    let mut g = [[0.0; 5]; N];
    for (row, &a) in g.iter_mut().zip(points) {
        let distances: f64 = points.iter().filter(|&&b| b != a).map(|b| a - b).product();
        // B's first row is taken with a positive constant term.
        let divisor = if a == 0.0 { distances.abs() } else { distances };
        for (p, value) in row.iter_mut().enumerate() {
            *value = a.powi(p as i32) / divisor;
        }
    }
    g[N - 1][N - TILE] = 1.0;
    g
}

/// Vectors of numbers of several channels.
trait Scaled<S: Simd>: SimdFloat<S, Element = f32> {
    /// `self * b + c` for one number b.
    #[inline(always)]
    fn scaled_plus(self, b: f32, c: Self) -> Self {
        self.mul_add(b, c)
    }
}

impl<S: Simd, V: SimdFloat<S, Element = f32>> Scaled<S> for V {}

/// Two numbers from the parts that do not and do change sign with the point's.
#[inline(always)]
fn both<S: Simd, V: Scaled<S>>(even: V, odd: V) -> [V; 2] {
    [even + odd, even - odd]
}

/// B' d.
#[inline(always)]
fn input_1d<S: Simd, V: Scaled<S>, const N: usize>(d: [V; N]) -> [V; N] {
    let mut v = d;
    if N == 8 {
        v[0] = (d[4] - d[2]).scaled_plus(5.25, d[0] - d[6]);
        v[7] = (d[3] - d[5]).scaled_plus(5.25, d[7] - d[1]);
        [v[1], v[2]] = both(d[4].scaled_plus(-4.25, d[2] + d[6]), d[3].scaled_plus(-4.25, d[1] + d[5]));
        let odd = [
            d[3].scaled_plus(-2.5, d[1].scaled_plus(0.5, d[5] + d[5])),
            d[3].scaled_plus(-2.5, d[5].scaled_plus(0.5, d[1] + d[1])),
        ];
        [v[3], v[4]] = both(d[4].scaled_plus(-1.25, d[2].scaled_plus(0.25, d[6])), odd[0]);
        [v[5], v[6]] = both(d[4].scaled_plus(-5.0, d[2].scaled_plus(4.0, d[6])), odd[1]);
    } else {
        v[0] = d[2].scaled_plus(-5.0, d[0].scaled_plus(4.0, d[4]));
        v[5] = d[3].scaled_plus(-5.0, d[1].scaled_plus(4.0, d[5]));
        [v[1], v[2]] = both(d[2].scaled_plus(-4.0, d[4]), d[1].scaled_plus(-4.0, d[3]));
        let odd = d[3] - d[1];
        [v[3], v[4]] = both(d[4] - d[2], odd + odd);
    }
    v
}

/// B m, the adjoint of [`input_1d`].
#[inline(always)]
fn input_adjoint_1d<S: Simd, V: Scaled<S>, const N: usize>(m: [V; N]) -> [V; N] {
    let mut d = m;
    let [e1, o1] = both(m[1], m[2]);
    let [e2, o2] = both(m[3], m[4]);
    if N == 8 {
        let [e3, o3] = both(m[5], m[6]);
        d[0] = m[0];
        d[1] = o3.scaled_plus(2.0, o2.scaled_plus(0.5, o1 - m[7]));
        d[2] = e3.scaled_plus(4.0, e2.scaled_plus(0.25, m[0].scaled_plus(-5.25, e1)));
        d[3] = (o2 + o3).scaled_plus(-2.5, o1.scaled_plus(-4.25, m[7] * 5.25f32));
        d[4] = e3.scaled_plus(-5.0, e2.scaled_plus(-1.25, e1.scaled_plus(-4.25, m[0] * 5.25f32)));
        d[5] = o3.scaled_plus(0.5, o2.scaled_plus(2.0, m[7].scaled_plus(-5.25, o1)));
        d[6] = (e1 - m[0]) + (e2 + e3);
        d[7] = m[7];
    } else {
        d[0] = m[0] * 4.0f32;
        d[1] = o2.scaled_plus(-2.0, (m[5] - o1) * 4.0f32);
        d[2] = m[0].scaled_plus(-5.0, e1.scaled_plus(-4.0, -e2));
        d[3] = m[5].scaled_plus(-5.0, o2.scaled_plus(2.0, o1));
        d[4] = m[0] + (e1 + e2);
        d[5] = m[5];
    }
    d
}

/// A' m.
#[inline(always)]
fn output_1d<S: Simd, V: Scaled<S>, const N: usize>(m: [V; N]) -> [V; TILE] {
    let [e1, o1] = both(m[1], m[2]);
    let [e2, o2] = both(m[3], m[4]);
    let mut y = [
        m[0] + (e1 + e2),
        o2.scaled_plus(2.0, o1),
        e2.scaled_plus(4.0, e1),
        o2.scaled_plus(8.0, o1) + m[N - 1],
    ];
    if N == 8 {
        let [e3, o3] = both(m[N - 3], m[N - 2]);
        y = [y[0] + e3, o3.scaled_plus(0.5, y[1]), e3.scaled_plus(0.25, y[2]), o3.scaled_plus(0.125, y[3])];
    }
    y
}

/// A y, the adjoint of [`output_1d`].
#[inline(always)]
fn output_adjoint_1d<S: Simd, V: Scaled<S>, const N: usize>(y: [V; TILE]) -> [V; N] {
    let mut m = [y[0]; N];
    [m[1], m[2]] = both(y[0] + y[2], y[1] + y[3]);
    [m[3], m[4]] = both(y[2].scaled_plus(4.0, y[0]), y[3].scaled_plus(8.0, y[1] + y[1]));
    if N == 8 {
        let half = y[1] * 0.5f32;
        [m[N - 3], m[N - 2]] = both(y[2].scaled_plus(0.25, y[0]), y[3].scaled_plus(0.125, half));
    }
    m[N - 1] = y[3];
    m
}

macro_rules! by_size {
    ($(#[$meta:meta])* $name:ident = $kernel:ident($($arg:ident: $ty:ty),*)) => {
        $(#[$meta])*
        fn $name(n: usize, $($arg: $ty),*) {
            #[inline(always)]
            fn five<S: Isa>(simd: S, $($arg: $ty),*) {
                $kernel::<S, 8>(simd, $($arg),*)
            }
            #[inline(always)]
            fn three<S: Isa>(simd: S, $($arg: $ty),*) {
                $kernel::<S, 6>(simd, $($arg),*)
            }
            dispatch! { fn by_five($($arg: $ty),*) = simd five }
            dispatch! { fn by_three($($arg: $ty),*) = simd three }
            if n == 8 { by_five($($arg),*) } else { by_three($($arg),*) }
        }
    };
}

by_size! {
    /// B' d B of each tile of the images, d with zeros around.
    transform_input = transform_input_kernel(images: &[f32], transformed: &mut [f32])
}
by_size! {
    /// A' m A of each tile, and the bias.
    collect_output = collect_output_kernel(products: &[f32], bias: &[f32], images: &mut [f32])
}
by_size! {
    /// A y A' of each tile: the adjoint of [`collect_output`].
    spread_output = spread_output_kernel(images: &[f32], transformed: &mut [f32])
}
by_size! {
    /// Adds B m B' of each tile to the images: the adjoint of [`transform_input`].
    add_input = add_input_kernel(products: &[f32], images: &mut [f32])
}

/// The pixels of an image.
type Pixels = [[f32; CHANNELS]; SIZE * SIZE];
/// For each index of the tile, the channels of each image's tiles.
type Indices = [[f32; STRIDE]];

/// What is together, as the kernels see it.
#[inline(always)]
fn pixels(image: &[f32]) -> &Pixels {
    image.as_chunks().0.first_chunk().expect("a whole image")
}

#[inline(always)]
fn pixels_mut(image: &mut [f32]) -> &mut Pixels {
    image.as_chunks_mut().0.first_chunk_mut().expect("a whole image")
}

/// The first row and column of a tile.
#[inline(always)]
fn corner(t: usize) -> (usize, usize) {
    (TILE * (t / (SIZE / TILE)), TILE * (t % (SIZE / TILE)))
}

/// Reads the vector of channels that begins with c.
#[inline(always)]
fn read<S: Isa, const L: usize>(simd: S, from: &[f32; L], c: usize) -> S::f32s {
    S::f32s::from_slice(simd, &from[c..c + S::f32s::LEN])
}

/// Writes the vector of channels that begins with c.
#[inline(always)]
fn write<S: Isa, const L: usize>(vector: S::f32s, to: &mut [f32; L], c: usize) {
    vector.store_slice(&mut to[c..c + S::f32s::LEN]);
}

#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile are counted alike")]
#[inline(always)]
fn transform_input_kernel<S: Isa, const N: usize>(simd: S, images: &[f32], transformed: &mut [f32]) {
    let transformed = &mut transformed.as_chunks_mut().0[..N * N];
    let padding = (N - TILE) / 2;
    let zero = S::f32s::splat(simd, 0.0);
    let mut half = [[zero; N]; N];
    for (number, image) in images.chunks_exact(IMAGE).enumerate() {
        let image = pixels(image);
        for t in 0..TILES {
            let (row, column) = corner(t);
            for c in (0..CHANNELS).step_by(S::f32s::LEN) {
                for x in 0..N {
                    let column = (column + x).wrapping_sub(padding);
                    let mut d = [zero; N];
                    if column < SIZE {
                        for y in 0..N {
                            let row = (row + y).wrapping_sub(padding);
                            if row < SIZE {
                                d[y] = read(simd, &image[row * SIZE + column], c);
                            }
                        }
                        d = input_1d(d);
                    }
                    for y in 0..N {
                        half[y][x] = d[y];
                    }
                }
                for y in 0..N {
                    scatter::<S, N>(input_1d(half[y]), transformed, y, place(number, t, c));
                }
            }
        }
    }
}

/// Where each index of the tile has the vector of this image, tile and channel.
#[inline(always)]
fn place(number: usize, t: usize, c: usize) -> usize {
    (number * TILES + t) * CHANNELS + c
}

/// Writes a row of the tile's indices.
#[inline(always)]
fn scatter<S: Isa, const N: usize>(row: [S::f32s; N], to: &mut Indices, y: usize, place: usize) {
    for x in 0..N {
        write::<S, _>(row[x], &mut to[y * N + x], place);
    }
}

/// Reads a column of the tile's indices.
#[inline(always)]
fn gather<S: Isa, const N: usize>(simd: S, from: &Indices, x: usize, place: usize) -> [S::f32s; N] {
    let mut m = [S::f32s::splat(simd, 0.0); N];
    for y in 0..N {
        m[y] = read(simd, &from[y * N + x], place);
    }
    m
}

#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile are counted alike")]
#[inline(always)]
fn collect_output_kernel<S: Isa, const N: usize>(
    simd: S,
    products: &[f32],
    bias: &[f32],
    images: &mut [f32],
) {
    let products = &products.as_chunks().0[..N * N];
    let bias: &[f32; CHANNELS] = bias.first_chunk().expect("a bias for each channel");
    let mut half = [[S::f32s::splat(simd, 0.0); N]; TILE];
    for (number, image) in images.chunks_exact_mut(IMAGE).enumerate() {
        let image = pixels_mut(image);
        for t in 0..TILES {
            let (row, column) = corner(t);
            for c in (0..CHANNELS).step_by(S::f32s::LEN) {
                let bias = read(simd, bias, c);
                for x in 0..N {
                    let m = output_1d(gather::<S, N>(simd, products, x, place(number, t, c)));
                    for y in 0..TILE {
                        half[y][x] = m[y];
                    }
                }
                for y in 0..TILE {
                    let row = (row + y) * SIZE + column;
                    for (x, v) in output_1d(half[y]).into_iter().enumerate() {
                        write::<S, _>(v + bias, &mut image[row + x], c);
                    }
                }
            }
        }
    }
}

#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile are counted alike")]
#[inline(always)]
fn spread_output_kernel<S: Isa, const N: usize>(simd: S, images: &[f32], transformed: &mut [f32]) {
    let transformed = &mut transformed.as_chunks_mut().0[..N * N];
    let zero = S::f32s::splat(simd, 0.0);
    let mut half = [[zero; TILE]; N];
    for (number, image) in images.chunks_exact(IMAGE).enumerate() {
        let image = pixels(image);
        for t in 0..TILES {
            let (row, column) = corner(t);
            for c in (0..CHANNELS).step_by(S::f32s::LEN) {
                for x in 0..TILE {
                    let mut d = [zero; TILE];
                    for y in 0..TILE {
                        d[y] = read(simd, &image[(row + y) * SIZE + column + x], c);
                    }
                    let d: [_; N] = output_adjoint_1d(d);
                    for y in 0..N {
                        half[y][x] = d[y];
                    }
                }
                for y in 0..N {
                    scatter::<S, N>(output_adjoint_1d(half[y]), transformed, y, place(number, t, c));
                }
            }
        }
    }
}

#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile are counted alike")]
#[inline(always)]
fn add_input_kernel<S: Isa, const N: usize>(simd: S, products: &[f32], images: &mut [f32]) {
    let products = &products.as_chunks().0[..N * N];
    let padding = (N - TILE) / 2;
    let mut half = [[S::f32s::splat(simd, 0.0); N]; N];
    for (number, image) in images.chunks_exact_mut(IMAGE).enumerate() {
        let image = pixels_mut(image);
        for t in 0..TILES {
            let (row, column) = corner(t);
            for c in (0..CHANNELS).step_by(S::f32s::LEN) {
                for x in 0..N {
                    let m = input_adjoint_1d(gather::<S, N>(simd, products, x, place(number, t, c)));
                    for y in 0..N {
                        half[y][x] = m[y];
                    }
                }
                for y in 0..N {
                    let row = (row + y).wrapping_sub(padding);
                    if row >= SIZE {
                        continue;
                    }
                    for (x, v) in input_adjoint_1d(half[y]).into_iter().enumerate() {
                        let column = (column + x).wrapping_sub(padding);
                        if column < SIZE {
                            let pixel = &mut image[row * SIZE + column];
                            write::<S, _>(v + read(simd, pixel, c), pixel, c);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
