//! The three sums over rows that everything needs, at the speed of the multiply-adds and sigmoids in them.
//!
//! For one particle lanes run over rows. A tile of rows stays in the first-level cache while it is taken three times for every
//! particle of the block: products t = g.x into a small buffer, the map of t, sums of the mapped t times g. Separate
//! short loops, because one loop with a row's whole chain of dependences fills the processor's window: measured, a quarter slower.

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
}

impl Sum {
    /// How many sums there are for one particle.
    pub(super) fn width(self, columns: usize) -> usize {
        if self == Sum::Loss { 1 } else { columns }
    }
}

/// The most vectors of rows in a tile: lanes add up this many terms in their own precision before `f64` takes over.
const TILE: usize = 72;
/// Bytes of a tile that leave room for the rest in the first-level cache.
const TILE_BYTES: usize = 24 << 10;
/// Wide rows take tiles of at least this many vectors, so that adding up the lanes does not weigh.
const TILE_LEAST: usize = 16;
/// This many columns have their sums, or their coordinates of x, in registers.
const NARROW: usize = 12;

/// The number of vectors of rows in a tile, for rows of so many columns.
pub(super) fn tile_vectors(columns: usize) -> usize {
    (TILE_BYTES / 32 / columns).clamp(TILE_LEAST, TILE) / 4 * 4
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

dispatch! { fn add_sums_f32(sum: Sum, rows: View<'_, f32>, x: &[f32], out: &mut [f64]) = kernel_f32 }
dispatch! { fn add_sums_f64(sum: Sum, rows: View<'_, f64>, x: &[f64], out: &mut [f64]) = kernel_f64 }

#[inline(always)]
fn kernel_f32<const FMA: bool>(sum: Sum, rows: View<'_, f32>, x: &[f32], out: &mut [f64]) {
    if FMA { kernel::<Wide32>(sum, rows, x, out) } else { kernel::<[f32; 8]>(sum, rows, x, out) }
}

#[inline(always)]
fn kernel_f64<const FMA: bool>(sum: Sum, rows: View<'_, f64>, x: &[f64], out: &mut [f64]) {
    if FMA { kernel::<Wide64>(sum, rows, x, out) } else { kernel::<[f64; 4]>(sum, rows, x, out) }
}

#[inline(always)]
fn kernel<V: Vector>(sum: Sum, rows: View<'_, V::Real>, x: &[V::Real], out: &mut [f64]) {
    let (columns, g, w) = (rows.columns, cast_slice::<_, V>(rows.g), cast_slice::<_, V>(rows.w));
    // Tiles of like sizes: a short last one would cost as much in sums of lanes as a long one.
    let count = w.len().div_ceil(tile_vectors(columns));
    let size = w.len().div_ceil(count.max(1)).max(1);
    let mut buffer = [const { MaybeUninit::<V>::uninit() }; TILE];
    for (g, w) in g.chunks(size * columns).zip(w.chunks(size)) {
        for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(sum.width(columns))) {
            let t = products(g, x, &mut buffer[..w.len()]);
            match sum {
                Sum::Gradient => t.iter_mut().zip(w).for_each(|(t, w)| *t = t.share(*w)),
                Sum::Product => t.iter_mut().zip(w).for_each(|(t, w)| *t = t.mul(*w)),
                Sum::Loss => {
                    out[0] += loss(t, w);
                    continue;
                }
            }
            add_columns(g, t, out);
        }
    }
}

#[inline(always)]
fn loss<V: Vector>(t: &mut [V], w: &[V]) -> f64 {
    let scale = V::splat(V::Real::of(-std::f64::consts::LN_2));
    t.iter_mut().for_each(|t| *t = t.mul(scale));
    if size_of::<V::Real>() == 4 {
        vmath::softplus_f32(cast_slice_mut(t));
    } else {
        vmath::softplus_f64(cast_slice_mut(t));
    }
    let zero = V::splat(V::Real::of(0.0));
    t.iter().zip(w).fold(zero, |sum, (t, w)| t.mul_add(*w, sum)).sum().f64()
}

/// Calls the function with the number of columns as a constant.
macro_rules! with_constant {
    ($columns:expr, $function:ident::<$v:ident>$args:tt, $else:expr) => {
        with_constant!(@ $columns, $function, $v, $args, $else, 1 2 3 4 5 6 7 8 9 10 11 12)
    };
    (@ $columns:expr, $function:ident, $v:ident, $args:tt, $else:expr, $($n:literal)*) => {
        match $columns {
            $($n => $function::<$v, $n> $args,)*
            _ => $else,
        }
    };
}

/// Fills the buffer with t = g.x for each vector of rows.
#[inline(always)]
fn products<'a, V: Vector>(g: &[V], x: &[V::Real], buffer: &'a mut [MaybeUninit<V>]) -> &'a mut [V] {
    debug_assert_eq!(g.len(), buffer.len() * x.len());
    with_constant!(x.len(), narrow_products::<V>(g, x, buffer), wide_products(g, x, buffer));
    // SAFETY: either function has written every element: there are as many rows in g as elements.
    unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [V]) }
}

#[inline(always)]
fn narrow_products<V: Vector, const D: usize>(g: &[V], x: &[V::Real], buffer: &mut [MaybeUninit<V>]) {
    let x: [V; D] = std::array::from_fn(|d| V::splat(x[d]));
    let rows = &g.as_chunks::<D>().0[..buffer.len()];
    for (t, g) in buffer.iter_mut().zip(rows) {
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

/// Four vectors of rows at a time share each coordinate of x.
#[inline(always)]
fn wide_products<V: Vector>(g: &[V], x: &[V::Real], buffer: &mut [MaybeUninit<V>]) {
    let zero = V::splat(V::Real::of(0.0));
    let d = x.len();
    let (fours, rest) = g.split_at(buffer.len() / 4 * 4 * d);
    let (four_buffers, rest_buffer) = buffer.as_chunks_mut::<4>();
    let (x_pairs, x_last) = x.as_chunks::<2>();
    for (t, g) in four_buffers.iter_mut().zip(fours.chunks_exact(4 * d)) {
        let row = |i: usize| &g[i * d..(i + 1) * d];
        let pairs = |i: usize| row(i).as_chunks::<2>().0;
        // Even and odd coordinates apart: eight chains keep both multipliers busy.
        let mut sums = [[zero; 2]; 4];
        for ((x, (g0, g1)), (g2, g3)) in
            x_pairs.iter().zip(pairs(0).iter().zip(pairs(1))).zip(pairs(2).iter().zip(pairs(3)))
        {
            for side in 0..2 {
                let x = V::splat(x[side]);
                for (sums, g) in sums.iter_mut().zip([g0, g1, g2, g3]) {
                    sums[side] = g[side].mul_add(x, sums[side]);
                }
            }
        }
        if let [x] = x_last {
            for (i, sums) in sums.iter_mut().enumerate() {
                sums[0] = row(i)[d - 1].mul_add(V::splat(*x), sums[0]);
            }
        }
        for (t, sums) in t.iter_mut().zip(sums) {
            t.write(sums[0].add(sums[1]));
        }
    }
    for (t, g) in rest_buffer.iter_mut().zip(rest.chunks_exact(d)) {
        let mut sums = [zero; 2];
        for (i, (g, x)) in g.iter().zip(x).enumerate() {
            sums[i % 2] = g.mul_add(V::splat(*x), sums[i % 2]);
        }
        t.write(sums[0].add(sums[1]));
    }
}

/// Adds each column's sum of t times g to `out`, some columns at a time.
#[inline(always)]
fn add_columns<V: Vector>(g: &[V], t: &[V], out: &mut [f64]) {
    let columns = out.len();
    let groups = columns.div_ceil(NARROW);
    let mut from = 0;
    for group in 0..groups {
        let width = columns / groups + usize::from(group < columns % groups);
        with_constant!(width, add_some_columns::<V>(g, t, from, out), unreachable!("groups are narrow"));
        from += width;
    }
}

#[inline(always)]
fn add_some_columns<V: Vector, const C: usize>(g: &[V], t: &[V], from: usize, out: &mut [f64]) {
    let mut sums = [V::splat(V::Real::of(0.0)); C];
    for (t, g) in t.iter().zip(g.chunks_exact(out.len())) {
        let g = &g[from..from + C];
        for c in 0..C {
            sums[c] = t.mul_add(g[c], sums[c]);
        }
    }
    for (out, sum) in out[from..].iter_mut().zip(sums) {
        *out += sum.sum().f64();
    }
}

dispatch! {
    /// Adds 1 / (1 + 2^-t) over the particles to each row's sum, and raises `most` to the largest t.
    pub(super) fn add_probabilities(rows: View<'_, f64>, x: &[f64], sums: &mut [f64], most: &mut [f64]) = kernel_probabilities
}

#[inline(always)]
fn kernel_probabilities<const FMA: bool>(rows: View<'_, f64>, x: &[f64], sums: &mut [f64], most: &mut [f64]) {
    if FMA {
        probabilities::<Wide64>(rows, x, sums, most)
    } else {
        probabilities::<[f64; 4]>(rows, x, sums, most)
    }
}

#[inline(always)]
fn probabilities<V: Vector<Real = f64>>(rows: View<'_, f64>, x: &[f64], sums: &mut [f64], most: &mut [f64]) {
    let g: &[V] = cast_slice(rows.g);
    let mut buffer = [const { MaybeUninit::<V>::uninit() }; TILE];
    for x in x.chunks_exact(rows.columns) {
        let t = products(g, x, &mut buffer[..rows.w.len() / V::LANES]);
        let (minus, one) = (V::splat(-1.0), V::splat(1.0));
        let lanes = sums.chunks_exact_mut(V::LANES).zip(most.chunks_exact_mut(V::LANES));
        for (t, (sum, most)) in t.iter().zip(lanes) {
            let p = t.mul(minus).share(one);
            V::read(sum).add(p).write(sum);
            t.max(V::read(most)).write(most);
        }
    }
}
