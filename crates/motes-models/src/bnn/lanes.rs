//! Arithmetic on lanes of hidden units: the tiles of the two products, and what lies between them.
//!
//! A *panel* is up to five vectors of 32 bytes, a lane per hidden unit. Sums over lanes run panel by panel and vector by vector
//! of that size, whatever the processor's vectors are. The products, whose lanes do not meet, run over a *strip*: a panel, or
//! two side by side where vectors have 64 bytes.

use std::marker::PhantomData;

use motes::Real;
use motes::simd::{Isa, SimdBase, SimdFloat, SimdFloatElement, dispatch};
use motes::vmath;

/// The most vectors of a panel: two rows of as many sums, one vector and a broadcast fill sixteen registers.
pub(super) const MOST_VECTORS: usize = 5;

/// Lanes of one 32-byte vector.
pub(super) const fn lanes<F>() -> usize {
    32 / size_of::<F>()
}

/// A vector of the processor.
type Native<F, S> = <F as SimdFloatElement>::Native<S>;

/// Lanes of one vector of the processor.
pub(super) fn native_lanes<F: Real>() -> usize {
    native_bytes() / size_of::<F>()
}

dispatch! { fn native_bytes() -> usize = simd native_bytes_kernel }

#[inline(always)]
fn native_bytes_kernel<S: Isa>(_: S) -> usize {
    size_of::<S::f32s>()
}

/// `a * b + c`, rounded once if `FMA`. [`Real`] has no such method; the casts vanish.
#[inline(always)]
fn fma<F: Real, const FMA: bool>(a: F, b: F, c: F) -> F {
    if !FMA {
        a * b + c
    } else if size_of::<F>() == 4 {
        bytemuck::cast(f32::mul_add(bytemuck::cast(a), bytemuck::cast(b), bytemuck::cast(c)))
    } else {
        bytemuck::cast(f64::mul_add(bytemuck::cast(a), bytemuck::cast(b), bytemuck::cast(c)))
    }
}

macro_rules! by_type {
    ($($(#[$meta:meta])* $name:ident = $single:ident, $double:ident;)*) => {$(
        $(#[$meta])*
        pub(super) fn $name<F: Real>(x: &mut [F]) {
            if size_of::<F>() == 4 {
                vmath::$single(bytemuck::cast_slice_mut(x));
            } else {
                vmath::$double(bytemuck::cast_slice_mut(x));
            }
        }
    )*};
}

by_type! {
    /// Replaces each x by its hyperbolic tangent.
    tanh = tanh_f32, tanh_f64;
    /// Replaces each x by e^x.
    exp = exp_f32, exp_f64;
    /// Replaces each x by 1 / (1 + e^-x).
    sigmoid = sigmoid_f32, sigmoid_f64;
}

/// The terms of R sums: which row of the strip, and its factors.
trait Terms<F, const R: usize> {
    fn len(&self) -> usize;
    fn term(&self, i: usize) -> (usize, [F; R]);
}

/// Two rows of a dense matrix against successive rows of the strip.
struct Successive<'a, F>([&'a [F]; 2]);

impl<F: Real> Terms<F, 2> for Successive<'_, F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0[0].len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, [F; 2]) {
        (i, [self.0[0][i], self.0[1][i]])
    }
}

/// Chosen columns of two rows of a dense matrix against successive rows of the strip.
struct Chosen<'a, F>([&'a [F]; 2], &'a [u32]);

impl<F: Real> Terms<F, 2> for Chosen<'_, F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.1.len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, [F; 2]) {
        let column = self.1[i] as usize;
        (i, [self.0[0][column], self.0[1][column]])
    }
}

/// Two rows of a dense matrix, interleaved, against successive rows of the strip.
impl<F: Real> Terms<F, 2> for &[[F; 2]] {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, [F; 2]) {
        (i, self[i])
    }
}

/// Two such pairs of rows.
impl<F: Real> Terms<F, 4> for [&[[F; 2]]; 2] {
    #[inline(always)]
    fn len(&self) -> usize {
        self[0].len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, [F; 4]) {
        let ([p, q], [r, s]) = (self[0][i], self[1][i]);
        (i, [p, q, r, s])
    }
}

/// A column in which at least one row of a pair is not zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<F> {
    /// Which column, counted from the first of its tile.
    pub column: u32,
    /// The values of the two rows.
    pub values: [F; 2],
}

impl<F: Real> Terms<F, 2> for &[Entry<F>] {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, [F; 2]) {
        let Entry { column, values } = self[i];
        (column as usize, values)
    }
}

/// Lanes of a strip that are summed in registers: rows of `width` numbers, of which those from `first` on.
trait Lanes: Copy {
    fn width(self) -> usize;
    fn first(self) -> usize;
}

/// All lanes of a strip of so many: a constant, by which rows are found faster.
#[derive(Clone, Copy)]
struct Whole<F, S, const NV: usize>(PhantomData<(F, S)>);

impl<F: Real, S: Isa, const NV: usize> Lanes for Whole<F, S, NV> {
    #[inline(always)]
    fn width(self) -> usize {
        NV * Native::<F, S>::LEN
    }
    #[inline(always)]
    fn first(self) -> usize {
        0
    }
}

/// Some lanes of a wider strip.
#[derive(Clone, Copy)]
struct Part {
    width: usize,
    first: usize,
}

impl Lanes for Part {
    #[inline(always)]
    fn width(self) -> usize {
        self.width
    }
    #[inline(always)]
    fn first(self) -> usize {
        self.first
    }
}

/// Terms that are added without a branch between them: the end of so short a loop is foreseen.
const UNROLLED: usize = 8;

/// Adds R sums over rows of the strip to as many rows of `out`, or writes them if `fresh`, in NV vectors: each lane is one
/// chain over the terms.
#[inline(always)]
fn add_rows<F: Real, S: Isa, const R: usize, const NV: usize>(
    simd: S,
    fresh: bool,
    terms: impl Terms<F, R>,
    strip: &[F],
    out: &mut [F],
    lanes: impl Lanes,
) {
    let (width, first) = (lanes.width(), lanes.first());
    let len = Native::<F, S>::LEN;
    let mut sums = [[Native::<F, S>::splat(simd, F::default()); NV]; R];
    if !fresh {
        for r in 0..R {
            let out = &out[r * width + first..][..NV * len];
            for v in 0..NV {
                sums[r][v] = Native::<F, S>::from_slice(simd, &out[v * len..(v + 1) * len]);
            }
        }
    }
    // A macro, for a closure might not be inlined among the instructions that it may use.
    macro_rules! add {
        ($i:expr) => {{
            let (k, factors) = terms.term($i);
            let row = &strip[k * width + first..][..NV * len];
            for v in 0..NV {
                let vector = Native::<F, S>::from_slice(simd, &row[v * len..(v + 1) * len]);
                for r in 0..R {
                    sums[r][v] = Native::<F, S>::splat(simd, factors[r]).mul_add(vector, sums[r][v]);
                }
            }
        }};
    }
    let whole = terms.len() - terms.len() % UNROLLED;
    for first in (0..whole).step_by(UNROLLED) {
        for i in 0..UNROLLED {
            add!(first + i);
        }
    }
    for i in whole..terms.len() {
        add!(i);
    }
    for r in 0..R {
        let out = &mut out[r * width + first..][..NV * len];
        for v in 0..NV {
            sums[r][v].store_slice(&mut out[v * len..(v + 1) * len]);
        }
    }
}

/// Some rows and columns of a row-major matrix.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, F> {
    pub matrix: &'a [F],
    pub stride: usize,
    /// The first row, or which rows; an odd one out is paired with itself.
    pub rows: Pick<'a>,
    /// The first column, or which columns; there are as many as the strip has rows.
    pub columns: Pick<'a>,
}

/// Successive numbers, or a list of them.
#[derive(Clone, Copy)]
pub(super) enum Pick<'a> {
    From(usize),
    List(&'a [u32]),
}

impl Pick<'_> {
    #[inline(always)]
    fn get(&self, i: usize) -> usize {
        match self {
            Pick::From(first) => first + i,
            Pick::List(list) => list[i.min(list.len() - 1)] as usize,
        }
    }
}

#[inline(always)]
fn dense_tile<F: Real, S: Isa, const NV: usize>(
    simd: S,
    lanes: impl Lanes,
    block: Block<'_, F>,
    strip: &[F],
    out: &mut [F],
) {
    let count = strip.len() / lanes.width();
    for (i, out) in out.chunks_exact_mut(2 * lanes.width()).enumerate() {
        let p = &block.matrix[block.rows.get(2 * i) * block.stride..][..block.stride];
        let q = &block.matrix[block.rows.get(2 * i + 1) * block.stride..][..block.stride];
        match block.columns {
            Pick::From(first) => {
                let rows = Successive([&p[first..][..count], &q[first..][..count]]);
                add_rows::<F, S, 2, NV>(simd, false, rows, strip, out, lanes);
            }
            Pick::List(list) => {
                add_rows::<F, S, 2, NV>(simd, false, Chosen([p, q], list), strip, out, lanes);
            }
        }
    }
}

#[inline(always)]
fn packed_tile<F: Real, S: Isa, const NV: usize>(
    simd: S,
    lanes: impl Lanes,
    fresh: bool,
    pairs: &[[F; 2]],
    strip: &[F],
    out: &mut [F],
) {
    let width = lanes.width();
    let mut pairs = pairs.chunks_exact((strip.len() / width).max(1));
    let mut out = out;
    // With 32 registers two pairs go together: more sums at a time than the latency of an addition asks for.
    if size_of::<Native<F, S>>() == 64 {
        while pairs.len() >= 2 && out.len() >= 4 * width {
            let (Some(first), Some(second)) = (pairs.next(), pairs.next()) else { break };
            let (rows, rest) = std::mem::take(&mut out).split_at_mut(4 * width);
            add_rows::<F, S, 4, NV>(simd, fresh, [first, second], strip, rows, lanes);
            out = rest;
        }
    }
    for (pair, out) in pairs.zip(out.chunks_exact_mut(2 * width)) {
        add_rows::<F, S, 2, NV>(simd, fresh, pair, strip, out, lanes);
    }
}

#[inline(always)]
fn sparse_tile<F: Real, S: Isa, const NV: usize>(
    simd: S,
    lanes: impl Lanes,
    entries: &[Entry<F>],
    ends: &[u32],
    strip: &[F],
    out: &mut [F],
) {
    for (ends, out) in ends.windows(2).zip(out.chunks_exact_mut(2 * lanes.width())) {
        let entries = &entries[ends[0] as usize..ends[1] as usize];
        add_rows::<F, S, 2, NV>(simd, false, entries, strip, out, lanes);
    }
}

/// Calls a tile for the lanes of a strip: all at once, or [`MOST_VECTORS`] vectors at a time where they are narrow.
macro_rules! over_lanes {
    ($tile:ident, $simd:ident, $width:ident, $($arg:expr),*) => {{
        let len = Native::<F, S>::LEN;
        let vectors = $width / len;
        assert!($width % len == 0, "whole vectors");
        if size_of::<Native<F, S>>() >= 32 {
            match vectors {
                1 => $tile::<F, S, 1>($simd, Whole::<F, S, 1>(PhantomData), $($arg),*),
                2 => $tile::<F, S, 2>($simd, Whole::<F, S, 2>(PhantomData), $($arg),*),
                3 => $tile::<F, S, 3>($simd, Whole::<F, S, 3>(PhantomData), $($arg),*),
                4 => $tile::<F, S, 4>($simd, Whole::<F, S, 4>(PhantomData), $($arg),*),
                5 => $tile::<F, S, 5>($simd, Whole::<F, S, 5>(PhantomData), $($arg),*),
                _ => unreachable!("a strip of {vectors} vectors"),
            }
        } else {
            let mut first = 0;
            while first < vectors {
                let lanes = Part { width: $width, first: first * len };
                match vectors - first {
                    1 => $tile::<F, S, 1>($simd, lanes, $($arg),*),
                    2 => $tile::<F, S, 2>($simd, lanes, $($arg),*),
                    3 => $tile::<F, S, 3>($simd, lanes, $($arg),*),
                    4 => $tile::<F, S, 4>($simd, lanes, $($arg),*),
                    _ => $tile::<F, S, 5>($simd, lanes, $($arg),*),
                }
                first += MOST_VECTORS;
            }
        }
    }};
}

dispatch! {
    /// Adds the product of a dense block and a strip of rows of `width` numbers to the rows of `out`.
    pub(super) fn dense<F: Real>(width: usize, block: Block<'_, F>, strip: &[F], out: &mut [F]) = simd dense_kernel
}

#[inline(always)]
fn dense_kernel<F: Real, S: Isa>(simd: S, width: usize, block: Block<'_, F>, strip: &[F], out: &mut [F]) {
    over_lanes!(dense_tile, simd, width, block, strip, out);
}

dispatch! {
    /// Adds the product of interleaved pairs of dense rows and a strip to the rows of `out`, or writes it there if `fresh`.
    pub(super) fn packed<F: Real>(width: usize, fresh: bool, pairs: &[[F; 2]], strip: &[F], out: &mut [F])
        = simd packed_kernel
}

#[inline(always)]
fn packed_kernel<F: Real, S: Isa>(
    simd: S,
    width: usize,
    fresh: bool,
    pairs: &[[F; 2]],
    strip: &[F],
    out: &mut [F],
) {
    over_lanes!(packed_tile, simd, width, fresh, pairs, strip, out);
}

dispatch! {
    /// Adds the product of sparse pairs of rows and a strip to the rows of `out`; pair i has the entries
    /// `ends[i]..ends[i + 1]`.
    pub(super) fn sparse<F: Real>(width: usize, entries: &[Entry<F>], ends: &[u32], strip: &[F], out: &mut [F])
        = simd sparse_kernel
}

#[inline(always)]
fn sparse_kernel<F: Real, S: Isa>(
    simd: S,
    width: usize,
    entries: &[Entry<F>],
    ends: &[u32],
    strip: &[F],
    out: &mut [F],
) {
    over_lanes!(sparse_tile, simd, width, entries, ends, strip, out);
}

/// Calls a kernel with the number of lanes of type `$f`.
macro_rules! with_lanes {
    ($kernel:ident, $f:ident, $($arg:expr),*) => {
        if size_of::<$f>() == 4 {
            $kernel::<$f, FMA, 8>($($arg),*)
        } else {
            $kernel::<$f, FMA, 4>($($arg),*)
        }
    };
}

dispatch! {
    /// Adds the product of each row of a panel with v to `out`; the panel's rows begin `width` numbers apart.
    pub(super) fn dot<F: Real>(panel: &[F], width: usize, v: &[F], out: &mut [F]) = dot_kernel
}

#[inline(always)]
fn dot_kernel<F: Real, const FMA: bool>(panel: &[F], width: usize, v: &[F], out: &mut [F]) {
    with_lanes!(dot_rows, F, panel, width, v, out)
}

#[inline(always)]
fn dot_rows<F: Real, const FMA: bool, const L: usize>(panel: &[F], width: usize, v: &[F], out: &mut [F]) {
    let v = v.as_chunks::<L>().0;
    for (row, out) in panel.chunks(width).zip(out) {
        let row = row[..v.len() * L].as_chunks::<L>().0;
        let mut sums = [F::default(); L];
        for (t, v) in row.iter().zip(v) {
            for l in 0..L {
                sums[l] = fma::<F, FMA>(t[l], v[l], sums[l]);
            }
        }
        let mut half = L / 2;
        while half > 0 {
            for l in 0..half {
                sums[l] += sums[l + half];
            }
            half /= 2;
        }
        *out += sums[0];
    }
}

/// What [`deltas`] adds up over the rows of a panel.
pub(super) struct Sums<'a, F> {
    /// The gradient for the output weights: a row of the panel's width for each class but the first.
    pub grad_v: &'a mut [F],
    /// The sum of the deltas.
    pub deltas: &'a mut [F],
}

dispatch! {
    /// Replaces each row t of a panel, `width` numbers apart, by delta = (1 - t^2) sum_l v_l r_l, where v has a row per class
    /// but the first, and r a row of `stride` numbers for each of these.
    pub(super) fn deltas<F: Real>(panel: &mut [F], width: usize, v: &[F], r: &[F], stride: usize, sums: Sums<'_, F>)
        = deltas_kernel
}

#[inline(always)]
fn deltas_kernel<F: Real, const FMA: bool>(
    panel: &mut [F],
    width: usize,
    v: &[F],
    r: &[F],
    stride: usize,
    sums: Sums<'_, F>,
) {
    with_lanes!(deltas_rows, F, panel, width, v, r, stride, sums)
}

#[inline(always)]
fn deltas_rows<F: Real, const FMA: bool, const L: usize>(
    panel: &mut [F],
    width: usize,
    v: &[F],
    r: &[F],
    stride: usize,
    sums: Sums<'_, F>,
) {
    let (v, grad_v) = (v.as_chunks::<L>().0, sums.grad_v.as_chunks_mut::<L>().0);
    let total = sums.deltas.as_chunks_mut::<L>().0;
    let (nv, zero) = (total.len(), F::default());
    for (row, t) in panel.chunks_mut(width).enumerate() {
        let t = t[..nv * L].as_chunks_mut::<L>().0;
        for i in 0..nv {
            let mut u = [zero; L];
            for (class, r) in r.chunks_exact(stride).enumerate() {
                let (v, grad_v) = (&v[class * nv + i], &mut grad_v[class * nv + i]);
                for l in 0..L {
                    u[l] = fma::<F, FMA>(r[row], v[l], u[l]);
                    grad_v[l] = fma::<F, FMA>(r[row], t[i][l], grad_v[l]);
                }
            }
            for l in 0..L {
                let t = &mut t[i][l];
                *t = fma::<F, FMA>(zero - u[l] * *t, *t, u[l]);
                total[i][l] += *t;
            }
        }
    }
}

dispatch! {
    /// Writes -precision x and returns the sum of squares of x.
    pub(super) fn prior<F: Real>(x: &[F], precision: F, grad: &mut [F]) -> f64 = prior_kernel
}

#[inline(always)]
fn prior_kernel<F: Real, const FMA: bool>(x: &[F], precision: F, grad: &mut [F]) -> f64 {
    let minus = F::default() - precision;
    for (g, x) in grad.iter_mut().zip(x) {
        *g = minus * *x;
    }
    squares_kernel::<F, FMA>(x)
}

dispatch! {
    /// The sum of squares of x.
    pub(super) fn squares<F: Real>(x: &[F]) -> f64 = squares_kernel
}

#[inline(always)]
fn squares_kernel<F: Real, const FMA: bool>(x: &[F]) -> f64 {
    let mut sums = [0.0; 16];
    let (chunks, rest) = x.as_chunks::<16>();
    for chunk in chunks {
        for l in 0..16 {
            let x = chunk[l].f64();
            sums[l] += x * x;
        }
    }
    for (s, x) in sums.iter_mut().zip(rest) {
        *s += x.f64() * x.f64();
    }
    sums.iter().sum()
}

#[cfg(test)]
pub(super) mod tests;
