//! The sums over rows that everything needs, at the speed of the multiply-adds and sigmoids in them.
//!
//! For one particle lanes run over rows. A tile of rows stays in the first-level cache while it is taken three times for every
//! particle of the block: products t = g.x into a small buffer, the map of t, sums of the mapped t times g. Separate
//! short loops, because one loop with a row's whole chain of dependences fills the processor's window: measured, a quarter slower.
//!
//! Vectors appear in plain loops only: a closure is a function of its own, without the target features.
//!
//! # Safety
//!
//! All unsafe functions ask for the same: that the processor has the instructions of the vectors they are for.

#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "whatever is done with a vector asks for what its function has asked for already"
)]

use std::mem::MaybeUninit;

use bytemuck::{cast_slice, cast_slice_mut};
use motes::simd::dispatch;
use motes::{Real, vmath};

use super::rows::View;
use super::vector::{Vector, Wide32, Wide64};

/// What is summed over the rows i, with t_i = g_i.x for each particle x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    /// w_i g_i / (1 + 2^{t_i}), one sum per column.
    Gradient,
    /// w_i t_i g_i, one sum per column.
    Product,
    /// w_i ln(1 + 2^{-t_i}), one sum in all.
    Loss,
    /// What [`Sum::Gradient`] and then what [`Sum::Loss`] gives, with the same bits and one set of products.
    Both,
}

impl Sum {
    /// How many sums there are for one particle.
    pub(super) fn width(self, columns: usize) -> usize {
        match self {
            Sum::Gradient | Sum::Product => columns,
            Sum::Loss => 1,
            Sum::Both => columns + 1,
        }
    }
}

/// The most vectors of rows in a tile: lanes add up this many terms in their own precision before `f64` takes over.
const TILE: usize = 72;
/// Bytes of a tile that leave room for the rest in the first- and in the second-level cache.
const TILE_BYTES: [usize; 2] = [24 << 10, 512 << 10];
/// Shorter tiles would spend too much on adding up the lanes.
const TILE_LEAST: [usize; 2] = [32, 16];
/// This many columns have their sums, or their coordinates of x, in registers.
const NARROW: usize = 12;

/// The number of vectors of rows in a tile, for rows of so many columns.
pub(super) fn tile_vectors(columns: usize) -> usize {
    let fit = TILE_BYTES.map(|bytes| bytes / 32 / columns);
    let vectors = if fit[0] >= TILE_LEAST[0] { fit[0] } else { fit[1].max(TILE_LEAST[1]) };
    vectors.min(TILE) / 4 * 4
}

/// The number of rows side by side in a vector.
pub(super) const fn lanes<F>() -> usize {
    32 / size_of::<F>()
}

/// Adds the sums over the rows to `out`, particle after particle.
pub(super) fn add_sums<F: Real>(sum: Sum, rows: View<'_, F>, x: &[F], out: &mut [f64]) {
    let View { g, w, columns } = rows;
    if size_of::<F>() == 4 {
        add_sums_f32(sum, View { g: cast_slice(g), w: cast_slice(w), columns }, cast_slice(x), out);
    } else {
        add_sums_f64(sum, View { g: cast_slice(g), w: cast_slice(w), columns }, cast_slice(x), out);
    }
}

dispatch! { fn add_sums_f32(sum: Sum, rows: View<'_, f32>, x: &[f32], out: &mut [f64]) = unsafe kernel_f32 }
dispatch! { fn add_sums_f64(sum: Sum, rows: View<'_, f64>, x: &[f64], out: &mut [f64]) = unsafe kernel_f64 }

#[inline(always)]
unsafe fn kernel_f32<const FMA: bool>(sum: Sum, rows: View<'_, f32>, x: &[f32], out: &mut [f64]) {
    if FMA { kernel::<Wide32>(sum, rows, x, out) } else { kernel::<[f32; 8]>(sum, rows, x, out) }
}

#[inline(always)]
unsafe fn kernel_f64<const FMA: bool>(sum: Sum, rows: View<'_, f64>, x: &[f64], out: &mut [f64]) {
    if FMA { kernel::<Wide64>(sum, rows, x, out) } else { kernel::<[f64; 4]>(sum, rows, x, out) }
}

#[inline(always)]
unsafe fn kernel<V: Vector>(sum: Sum, rows: View<'_, V::Real>, x: &[V::Real], out: &mut [f64]) {
    let (columns, g, w) = (rows.columns, cast_slice::<_, V>(rows.g), cast_slice::<_, V>(rows.w));
    let width = sum.width(columns);
    // Tiles of like sizes: a short last one would cost as much in sums of lanes as a long one.
    let count = w.len().div_ceil(tile_vectors(columns));
    let size = w.len().div_ceil(count.max(1)).max(1);
    for (g, w) in g.chunks(size * columns).zip(w.chunks(size)) {
        if columns <= NARROW {
            for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(width)) {
                tile::<V, 1>(sum, g, w, [x], out);
            }
            continue;
        }
        // Wide rows do not stay in the first-level cache: four particles share each load.
        let (fours, split) = (x.chunks_exact(4 * columns), x.len() / (4 * columns) * 4 * width);
        let (four_outs, single_outs) = out.split_at_mut(split);
        for (x, out) in fours.clone().zip(four_outs.chunks_exact_mut(4 * width)) {
            let x = |i: usize| &x[i * columns..(i + 1) * columns];
            tile::<V, 4>(sum, g, w, [x(0), x(1), x(2), x(3)], out);
        }
        let singles = fours.remainder().chunks_exact(columns);
        for (x, out) in singles.zip(single_outs.chunks_exact_mut(width)) {
            tile::<V, 1>(sum, g, w, [x], out);
        }
    }
}

/// Adds a tile's sums for P particles.
#[inline(always)]
unsafe fn tile<V: Vector, const P: usize>(sum: Sum, g: &[V], w: &[V], x: [&[V::Real]; P], out: &mut [f64]) {
    let mut buffers = [const { [const { MaybeUninit::<V>::uninit() }; TILE] }; P];
    let mut t = products(g, x, buffers.each_mut().map(|buffer| &mut buffer[..w.len()]));
    let columns = x[0].len();
    let width = sum.width(columns);
    for (p, t) in t.iter_mut().enumerate() {
        let out = &mut out[p * width..(p + 1) * width]; // not in chunks: their number takes a division
        match sum {
            Sum::Gradient => shares(t, w),
            Sum::Product => {
                for (t, w) in t.iter_mut().zip(w) {
                    *t = t.mul(*w);
                }
            }
            Sum::Loss => out[0] += loss(t, w),
            Sum::Both => {
                let mut copy = [V::splat(V::Real::of(0.0)); TILE];
                copy[..t.len()].copy_from_slice(t);
                out[columns] += loss(&mut copy[..t.len()], w);
                shares(t, w);
            }
        }
    }
    if sum != Sum::Loss {
        add_columns(g, t.map(|t| &*t), columns, width, out);
    }
}

#[inline(always)]
unsafe fn shares<V: Vector>(t: &mut [V], w: &[V]) {
    for (t, w) in t.iter_mut().zip(w) {
        *t = t.share(*w);
    }
}

#[inline(always)]
unsafe fn loss<V: Vector>(t: &mut [V], w: &[V]) -> f64 {
    let scale = V::splat(V::Real::of(-std::f64::consts::LN_2));
    for t in &mut *t {
        *t = t.mul(scale);
    }
    if size_of::<V::Real>() == 4 {
        vmath::softplus_f32(cast_slice_mut(t));
    } else {
        vmath::softplus_f64(cast_slice_mut(t));
    }
    let mut sum = V::splat(V::Real::of(0.0));
    for (t, w) in t.iter().zip(w) {
        sum = t.mul_add(*w, sum);
    }
    sum.sum().f64()
}

/// Evaluates the expression with the number, from 1 to [`NARROW`], as a constant.
macro_rules! with_constant {
    ($n:expr, $constant:ident => $call:expr) => {
        with_constant!(@ $n, $constant, $call, 1 2 3 4 5 6 7 8 9 10 11 12)
    };
    (@ $n:expr, $constant:ident, $call:expr, $($value:literal)*) => {
        match $n {
            $($value => { const $constant: usize = $value; $call })*
            _ => unreachable!("1 to NARROW"),
        }
    };
}

/// Fills each particle's buffer with t = g.x for every vector of rows in g.
#[inline(always)]
unsafe fn products<'a, V: Vector, const P: usize>(
    g: &[V],
    x: [&[V::Real]; P],
    mut t: [&'a mut [MaybeUninit<V>]; P],
) -> [&'a mut [V]; P] {
    let columns = x[0].len();
    if columns <= NARROW {
        for (x, t) in x.iter().zip(&mut t) {
            with_constant!(columns, D => narrow_products::<V, D>(g, x, t));
        }
    } else {
        wide_products(g, x, &mut t);
    }
    // SAFETY: both have written every element or panicked.
    t.map(|t| unsafe { &mut *(std::ptr::from_mut(t) as *mut [V]) })
}

#[inline(always)]
unsafe fn narrow_products<V: Vector, const D: usize>(g: &[V], x: &[V::Real], t: &mut [MaybeUninit<V>]) {
    let mut wide = [V::splat(x[0]); D];
    for (wide, x) in wide.iter_mut().zip(x) {
        *wide = V::splat(*x);
    }
    let x = wide;
    let rows = &g.as_chunks::<D>().0[..t.len()];
    for (t, g) in t.iter_mut().zip(rows) {
        // Two chains of additions, to wait less for each.
        let mut first = g[0].mul(x[0]);
        for d in 1..D.div_ceil(2) {
            first = g[d].mul_add(x[d], first);
        }
        if D > 1 {
            let mut second = g[D - 1].mul(x[D - 1]);
            for d in D.div_ceil(2)..D - 1 {
                second = g[d].mul_add(x[d], second);
            }
            first = first.add(second);
        }
        t.write(first);
    }
}

/// Some vectors of rows at a time share each coordinate of x, and particles share the rows.
#[inline(always)]
unsafe fn wide_products<V: Vector, const P: usize>(
    g: &[V],
    x: [&[V::Real]; P],
    t: &mut [&mut [MaybeUninit<V>]; P],
) {
    let (columns, vectors) = (x[0].len(), t[0].len());
    let mut first = 0;
    while first < vectors {
        let g = &g[first * columns..];
        // Eight sums at least, to keep the multipliers busy.
        if P == 1 && vectors - first >= 8 {
            some_products::<V, P, 8>(g, x, t, first);
            first += 8;
        } else if vectors - first >= 2 {
            some_products::<V, P, 2>(g, x, t, first);
            first += 2;
        } else {
            some_products::<V, P, 1>(g, x, t, first);
            first += 1;
        }
    }
}

#[inline(always)]
unsafe fn some_products<V: Vector, const P: usize, const R: usize>(
    g: &[V],
    x: [&[V::Real]; P],
    t: &mut [&mut [MaybeUninit<V>]; P],
    first: usize,
) {
    let columns = x[0].len();
    let x = x.map(|x| &x[..columns]);
    let g: [&[V]; R] = std::array::from_fn(|row| &g[row * columns..(row + 1) * columns]);
    let mut sums = [[V::splat(V::Real::of(0.0)); R]; P];
    for c in 0..columns {
        for (x, sums) in x.iter().zip(&mut sums) {
            let x = V::splat(x[c]);
            for (sum, g) in sums.iter_mut().zip(g) {
                *sum = g[c].mul_add(x, *sum);
            }
        }
    }
    for (t, sums) in t.iter_mut().zip(sums) {
        for (t, sum) in t[first..first + R].iter_mut().zip(sums) {
            t.write(sum);
        }
    }
}

/// Adds each column's sum of t times g to `out`, for some columns at a time: as many as registers can take.
#[inline(always)]
unsafe fn add_columns<V: Vector, const P: usize>(
    g: &[V],
    t: [&[V]; P],
    columns: usize,
    width: usize,
    out: &mut [f64],
) {
    let groups = columns.div_ceil(NARROW / P);
    let mut from = 0;
    for group in 0..groups {
        let some = columns / groups + usize::from(group < columns % groups);
        with_constant!(some, C => add_some_columns::<V, P, C>(g, t, from, columns, width, out));
        from += some;
    }
}

#[inline(always)]
unsafe fn add_some_columns<V: Vector, const P: usize, const C: usize>(
    g: &[V],
    t: [&[V]; P],
    from: usize,
    columns: usize,
    width: usize,
    out: &mut [f64],
) {
    let mut sums = [[V::splat(V::Real::of(0.0)); C]; P];
    let t = t.map(|t| &t[..t.len().min(g.len() / columns)]);
    for (i, g) in g.chunks_exact(columns).enumerate() {
        let g = &g[from..from + C];
        for (t, sums) in t.iter().zip(&mut sums) {
            for (sum, g) in sums.iter_mut().zip(g) {
                *sum = t[i].mul_add(*g, *sum);
            }
        }
    }
    for (p, sums) in sums.into_iter().enumerate() {
        for (out, sum) in out[p * width + from..].iter_mut().zip(sums) {
            *out += sum.sum().f64();
        }
    }
}

dispatch! {
    /// Adds 1 / (1 + 2^-t) over the particles to each row's sum, and raises `most` to the largest t.
    pub(super) fn add_probabilities(rows: View<'_, f64>, x: &[f64], sums: &mut [f64], most: &mut [f64]) = unsafe kernel_probabilities
}

#[inline(always)]
unsafe fn kernel_probabilities<const FMA: bool>(
    rows: View<'_, f64>,
    x: &[f64],
    sums: &mut [f64],
    most: &mut [f64],
) {
    if FMA {
        probabilities::<Wide64>(rows, x, sums, most)
    } else {
        probabilities::<[f64; 4]>(rows, x, sums, most)
    }
}

#[inline(always)]
unsafe fn probabilities<V: Vector<Real = f64>>(
    rows: View<'_, f64>,
    x: &[f64],
    sums: &mut [f64],
    most: &mut [f64],
) {
    let g: &[V] = cast_slice(rows.g);
    let mut buffer = [const { MaybeUninit::<V>::uninit() }; TILE];
    for x in x.chunks_exact(rows.columns) {
        let [t] = products(g, [x], [&mut buffer[..rows.w.len() / V::LANES]]);
        let (minus, one) = (V::splat(-1.0), V::splat(1.0));
        let lanes = sums.chunks_exact_mut(V::LANES).zip(most.chunks_exact_mut(V::LANES));
        for (t, (sum, most)) in t.iter().zip(lanes) {
            let p = t.mul(minus).share(one);
            V::read(sum).add(p).write(sum);
            t.max(V::read(most)).write(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;

    /// Processors without AVX2 run code that others never see.
    #[test]
    fn plain_arrays_agree_with_intrinsics() {
        fn check<V: Vector>(tolerance: f64) {
            for columns in [1, 9, 12, 13, 40] {
                let features: Vec<f64> = (0..150 * columns).map(|i| (i as f64 * 0.7).sin() * 3.0).collect();
                let labels: Vec<u8> = (0..150).map(|i| u8::from(i % 3 == 0)).collect();
                let rows = Rows::<V::Real>::new(&features, &labels, None, false);
                let x: Vec<V::Real> = (0..5 * columns).map(|i| V::Real::of((i as f64).cos())).collect();
                for sum in [Sum::Gradient, Sum::Product, Sum::Loss, Sum::Both] {
                    let mut plain = vec![0.0; 5 * sum.width(columns)];
                    let mut chosen = plain.clone();
                    // SAFETY: arrays need no instructions of their own.
                    unsafe { kernel::<V>(sum, rows.all(), &x, &mut plain) };
                    add_sums(sum, rows.all(), &x, &mut chosen);
                    for (a, b) in plain.iter().zip(&chosen) {
                        assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{columns} {sum:?}: {a} {b}");
                    }
                }
            }
        }
        check::<[f64; 4]>(1e-11);
        check::<[f32; 8]>(1e-4);
        let all = Rows::<f64>::new(&[0.5, -2.0, 900.0, -900.0, 0.0], &[1, 0, 1, 1, 0], None, false);
        let (mut sums, mut most) = ([[0.0; 8]; 2], [[f64::NEG_INFINITY; 8]; 2]);
        // SAFETY: the same.
        unsafe { probabilities::<[f64; 4]>(all.all(), &[1.0, 2.0], &mut sums[0], &mut most[0]) };
        add_probabilities(all.all(), &[1.0, 2.0], &mut sums[1], &mut most[1]);
        assert_eq!(most[0], most[1]);
        for (a, b) in sums[0].iter().zip(sums[1]) {
            assert!((a - b).abs() < 1e-13, "{a} {b}");
        }
    }
}
