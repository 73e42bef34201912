//! The sums over rows that everything needs, at the speed of the multiply-adds and sigmoids in them.
//!
//! For one particle lanes run over rows. A tile of rows stays in the first-level cache while it is taken three times for every
//! particle of the block: products t = g.x into a small buffer, the map of t, sums of the mapped t times g. Separate
//! short loops, because one loop with a row's whole chain of dependences fills the processor's window: measured, a quarter slower.
//!
//! Rows lie in vectors of 64 bytes on every machine, and a lane adds up the same rows in the same order everywhere. Where the
//! processor's vectors are shorter, a vector of rows is taken part by part.

use std::cell::RefCell;

use bytemuck::{Zeroable, cast_slice, cast_slice_mut};
use motes::Real;
use motes::simd::{Isa, Line, Select, SimdBase, SimdFloat, Vector, dispatch};

use super::rows::View;
use super::vector::Number;

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
const TILE: usize = 36;
/// Bytes of a tile that leave room for the rest in the first- and in the second-level cache.
const TILE_BYTES: [usize; 2] = [24 << 10, 512 << 10];
/// Shorter tiles would spend too much on adding up the lanes.
const TILE_LEAST: [usize; 2] = [16, 8];
/// This many columns have their sums, or their coordinates of x, in registers.
const NARROW: usize = 12;
/// Particles that share each load of rows wider than that.
const TOGETHER: usize = 4;

/// The number of vectors of rows in a tile, for rows of so many columns.
pub(super) fn tile_vectors(columns: usize) -> usize {
    let fit = TILE_BYTES.map(|bytes| bytes / size_of::<Line>() / columns);
    let vectors = if fit[0] >= TILE_LEAST[0] { fit[0] } else { fit[1].max(TILE_LEAST[1]) };
    vectors.min(TILE) / 4 * 4
}

/// The number of rows side by side in a vector.
pub(super) const fn lanes<F>() -> usize {
    size_of::<Line>() / size_of::<F>()
}

/// What a tile needs besides its rows: the products t for some particles, and a copy of them.
type Buffers = [[Line; TILE]; TOGETHER + 1];

thread_local! {
    /// Kept, because filling so much memory with zeros takes a tenth of the time of a small step.
    static BUFFERS: RefCell<Buffers> = RefCell::new([[Line::zeroed(); TILE]; TOGETHER + 1]);
}

/// Adds the sums over the rows to `out`, particle after particle.
pub(super) fn add_sums<F: Real>(sum: Sum, rows: View<'_, F>, x: &[F], out: &mut [f64]) {
    let View { g, w, columns } = rows;
    BUFFERS.with_borrow_mut(|buffers| {
        if size_of::<F>() == 4 {
            let rows = View { g: cast_slice(g), w: cast_slice(w), columns };
            add_sums_of::<f32>(sum, rows, cast_slice(x), buffers, out);
        } else {
            let rows = View { g: cast_slice(g), w: cast_slice(w), columns };
            add_sums_of::<f64>(sum, rows, cast_slice(x), buffers, out);
        }
    });
}

dispatch! {
    fn add_sums_of<F: Number>(sum: Sum, rows: View<'_, F>, x: &[F], buffers: &mut Buffers, out: &mut [f64])
        = simd kernel
}

#[inline(always)]
fn kernel<F: Number, S: Isa>(
    simd: S,
    sum: Sum,
    rows: View<'_, F>,
    x: &[F],
    buffers: &mut Buffers,
    out: &mut [f64],
) {
    let View { g, w, columns } = rows;
    let (lanes, width) = (lanes::<F>(), sum.width(columns));
    // Tiles of like sizes: a short last one would cost as much in sums of lanes as a long one.
    let vectors = w.len() / lanes;
    let count = vectors.div_ceil(tile_vectors(columns));
    let size = vectors.div_ceil(count.max(1)).max(1) * lanes;
    for (g, w) in g.chunks(size * columns).zip(w.chunks(size)) {
        if columns <= NARROW {
            for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(width)) {
                tile::<F, S, 1>(simd, sum, g, w, [x], buffers, out);
            }
            continue;
        }
        // Wide rows do not stay in the first-level cache: four particles share each load.
        let (fours, split) = (x.chunks_exact(4 * columns), x.len() / (4 * columns) * 4 * width);
        let (four_outs, single_outs) = out.split_at_mut(split);
        for (x, out) in fours.clone().zip(four_outs.chunks_exact_mut(4 * width)) {
            let (a, b) = x.split_at(2 * columns);
            let ((a, b), (c, d)) = (a.split_at(columns), b.split_at(columns));
            tile::<F, S, TOGETHER>(simd, sum, g, w, [a, b, c, d], buffers, out);
        }
        let singles = fours.remainder().chunks_exact(columns);
        for (x, out) in singles.zip(single_outs.chunks_exact_mut(width)) {
            tile::<F, S, 1>(simd, sum, g, w, [x], buffers, out);
        }
    }
}

/// Adds a tile's sums for P particles.
#[inline(always)]
fn tile<F: Number, S: Isa, const P: usize>(
    simd: S,
    sum: Sum,
    g: &[F],
    w: &[F],
    x: [&[F]; P],
    buffers: &mut Buffers,
    out: &mut [f64],
) {
    let (of_particles, copy) = buffers.split_at_mut(TOGETHER);
    let copy: &mut [F] = &mut cast_slice_mut(&mut copy[0])[..w.len()];
    products(simd, g, x, w.len(), of_particles);
    let columns = x[0].len();
    let width = sum.width(columns);
    for (p, t) in of_particles[..P].iter_mut().enumerate() {
        let t: &mut [F] = &mut cast_slice_mut(t)[..w.len()];
        let out = &mut out[p * width..(p + 1) * width]; // not in chunks: their number takes a division
        match sum {
            Sum::Gradient => shares(simd, t, w),
            Sum::Product => {
                for (t, w) in t.iter_mut().zip(w) {
                    *t *= *w;
                }
            }
            Sum::Loss => out[0] += loss(simd, t, w),
            Sum::Both => {
                copy.copy_from_slice(t);
                out[columns] += loss(simd, copy, w);
                shares(simd, t, w);
            }
        }
    }
    if sum != Sum::Loss {
        let mut t: [&[F]; P] = [&[]; P];
        for (t, buffer) in t.iter_mut().zip(&*of_particles) {
            *t = &cast_slice(buffer)[..w.len()];
        }
        add_columns(simd, g, t, columns, width, out);
    }
}

#[inline(always)]
fn shares<F: Number, S: Isa>(simd: S, t: &mut [F], w: &[F]) {
    let n = F::Native::<S>::LEN;
    for (t, w) in t.chunks_exact_mut(n).zip(w.chunks_exact(n)) {
        let (of, weight) = (F::Native::from_slice(simd, t), F::Native::from_slice(simd, w));
        F::share(simd, of, weight).store_slice(t);
    }
}

#[inline(always)]
fn loss<F: Number, S: Isa>(simd: S, t: &mut [F], w: &[F]) -> f64 {
    let scale = F::of(-std::f64::consts::LN_2);
    for t in &mut *t {
        *t *= scale;
    }
    F::softplus(t);
    let n = lanes::<F>();
    let mut sum = F::Lanes::splat(simd, F::of(0.0));
    for (t, w) in t.chunks_exact(n).zip(w.chunks_exact(n)) {
        sum = F::Lanes::from_slice(simd, t).mul_add(F::Lanes::from_slice(simd, w), sum);
    }
    sum.total().f64()
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

/// Fills each particle's buffer with t = g.x for the `rows` rows in g.
#[inline(always)]
fn products<F: Number, S: Isa, const P: usize>(
    simd: S,
    g: &[F],
    x: [&[F]; P],
    rows: usize,
    buffers: &mut [[Line; TILE]],
) {
    let columns = x[0].len();
    if columns <= NARROW {
        for (x, buffer) in x.iter().zip(buffers) {
            let t = &mut cast_slice_mut(buffer)[..rows];
            with_constant!(columns, D => narrow_products::<F, S, D>(simd, g, x, t));
        }
    } else {
        wide_products(simd, g, x, rows, buffers);
    }
}

#[inline(always)]
fn narrow_products<F: Number, S: Isa, const D: usize>(simd: S, g: &[F], x: &[F], t: &mut [F]) {
    let (lanes, n) = (lanes::<F>(), F::Native::<S>::LEN);
    let mut wide = [F::Native::splat(simd, x[0]); D];
    for (wide, x) in wide.iter_mut().zip(x) {
        *wide = F::Native::splat(simd, *x);
    }
    let x = wide;
    for (t, g) in t.chunks_exact_mut(lanes).zip(g.chunks_exact(D * lanes)) {
        for part in 0..lanes / n {
            macro_rules! g {
                ($d:expr) => {
                    F::Native::from_slice(simd, &g[$d * lanes + part * n..$d * lanes + (part + 1) * n])
                };
            }
            // Two chains of additions, to wait less for each.
            let mut first = g!(0) * x[0];
            for d in 1..D.div_ceil(2) {
                first = g!(d).mul_add(x[d], first);
            }
            if D > 1 {
                let mut second = g!(D - 1) * x[D - 1];
                for d in D.div_ceil(2)..D - 1 {
                    second = g!(d).mul_add(x[d], second);
                }
                first += second;
            }
            first.store_slice(&mut t[part * n..(part + 1) * n]);
        }
    }
}

/// Some vectors of rows at a time share each coordinate of x, and particles share the rows.
#[inline(always)]
fn wide_products<F: Number, S: Isa, const P: usize>(
    simd: S,
    g: &[F],
    x: [&[F]; P],
    rows: usize,
    buffers: &mut [[Line; TILE]],
) {
    let lanes = lanes::<F>();
    let (columns, vectors) = (x[0].len(), rows / lanes);
    let mut first = 0;
    while first < vectors {
        let g = &g[first * columns * lanes..];
        // Eight sums at least, to keep the multipliers busy.
        if P == 1 && vectors - first >= 8 {
            some_products::<F, S, P, 8>(simd, g, x, buffers, first);
            first += 8;
        } else if vectors - first >= 2 {
            some_products::<F, S, P, 2>(simd, g, x, buffers, first);
            first += 2;
        } else {
            some_products::<F, S, P, 1>(simd, g, x, buffers, first);
            first += 1;
        }
    }
}

#[inline(always)]
fn some_products<F: Number, S: Isa, const P: usize, const R: usize>(
    simd: S,
    g: &[F],
    x: [&[F]; P],
    buffers: &mut [[Line; TILE]],
    first: usize,
) {
    let (lanes, n, columns) = (lanes::<F>(), F::Native::<S>::LEN, x[0].len());
    let mut rows: [&[F]; R] = [&[]; R];
    for (row, some) in rows.iter_mut().enumerate() {
        *some = &g[row * columns * lanes..(row + 1) * columns * lanes];
    }
    for part in 0..lanes / n {
        let mut sums = [[F::Native::splat(simd, F::of(0.0)); R]; P];
        for c in 0..columns {
            let mut of_rows = [F::Native::splat(simd, F::of(0.0)); R];
            for (to, row) in of_rows.iter_mut().zip(rows) {
                *to = F::Native::from_slice(simd, &row[c * lanes + part * n..][..n]);
            }
            for (x, sums) in x.iter().zip(&mut sums) {
                let x = F::Native::splat(simd, x[c]);
                for (sum, g) in sums.iter_mut().zip(of_rows) {
                    *sum = g.mul_add(x, *sum);
                }
            }
        }
        for (buffer, sums) in buffers.iter_mut().zip(sums) {
            let t: &mut [F] = &mut cast_slice_mut(buffer)[first * lanes..(first + R) * lanes];
            for (t, sum) in t.chunks_exact_mut(lanes).zip(sums) {
                sum.store_slice(&mut t[part * n..(part + 1) * n]);
            }
        }
    }
}

/// Adds each column's sum of t times g to `out`, for some columns at a time: as many as registers can take.
#[inline(always)]
fn add_columns<F: Number, S: Isa, const P: usize>(
    simd: S,
    g: &[F],
    t: [&[F]; P],
    columns: usize,
    width: usize,
    out: &mut [f64],
) {
    // One particle's sums are whole vectors; those of several are taken part by part, for more columns at a time.
    let most = if P == 1 { NARROW * F::Native::<S>::LEN / lanes::<F>() } else { NARROW / P };
    let groups = columns.div_ceil(most);
    let mut from = 0;
    for group in 0..groups {
        let some = columns / groups + usize::from(group < columns % groups);
        with_constant!(some, C => {
            if P == 1 {
                add_columns_of_one::<F, S, C>(simd, g, t[0], from, columns, out);
            } else {
                add_columns_of_some::<F, S, P, C>(simd, g, t, from, columns, width, out);
            }
        });
        from += some;
    }
}

#[inline(always)]
fn add_columns_of_one<F: Number, S: Isa, const C: usize>(
    simd: S,
    g: &[F],
    t: &[F],
    from: usize,
    columns: usize,
    out: &mut [f64],
) {
    let lanes = lanes::<F>();
    let mut sums = [F::Lanes::splat(simd, F::of(0.0)); C];
    for (g, t) in g.chunks_exact(columns * lanes).zip(t.chunks_exact(lanes)) {
        let t = F::Lanes::from_slice(simd, t);
        let g = &g[from * lanes..(from + C) * lanes];
        for (sum, g) in sums.iter_mut().zip(g.chunks_exact(lanes)) {
            *sum = t.mul_add(F::Lanes::from_slice(simd, g), *sum);
        }
    }
    for (out, sum) in out[from..].iter_mut().zip(sums) {
        *out += sum.total().f64();
    }
}

#[inline(always)]
fn add_columns_of_some<F: Number, S: Isa, const P: usize, const C: usize>(
    simd: S,
    g: &[F],
    t: [&[F]; P],
    from: usize,
    columns: usize,
    width: usize,
    out: &mut [f64],
) {
    let (lanes, n) = (lanes::<F>(), F::Native::<S>::LEN);
    let mut totals = [[Line::zeroed(); C]; P];
    for part in 0..lanes / n {
        let mut sums = [[F::Native::splat(simd, F::of(0.0)); C]; P];
        for (i, g) in g.chunks_exact(columns * lanes).enumerate() {
            let g = &g[from * lanes..(from + C) * lanes];
            for (t, sums) in t.iter().zip(&mut sums) {
                let t = F::Native::from_slice(simd, &t[i * lanes + part * n..][..n]);
                for (sum, g) in sums.iter_mut().zip(g.chunks_exact(lanes)) {
                    *sum = t.mul_add(F::Native::from_slice(simd, &g[part * n..(part + 1) * n]), *sum);
                }
            }
        }
        for (totals, sums) in totals.iter_mut().zip(sums) {
            for (total, sum) in cast_slice_mut(totals).chunks_exact_mut(lanes).zip(sums) {
                sum.store_slice(&mut total[part * n..(part + 1) * n]);
            }
        }
    }
    for (p, totals) in totals.iter().enumerate() {
        let totals: &[F] = cast_slice(totals);
        for (out, total) in out[p * width + from..].iter_mut().zip(totals.chunks_exact(lanes)) {
            *out += F::Lanes::from_slice(simd, total).total().f64();
        }
    }
}

/// Adds 1 / (1 + 2^-t) over the particles to each row's sum, and raises `most` to the largest t.
pub(super) fn add_probabilities(rows: View<'_, f64>, x: &[f64], sums: &mut [f64], most: &mut [f64]) {
    BUFFERS.with_borrow_mut(|buffers| probabilities(rows, x, buffers, sums, most));
}

dispatch! {
    fn probabilities(rows: View<'_, f64>, x: &[f64], buffers: &mut Buffers, sums: &mut [f64], most: &mut [f64])
        = simd probabilities_kernel
}

#[inline(always)]
fn probabilities_kernel<S: Isa>(
    simd: S,
    rows: View<'_, f64>,
    x: &[f64],
    buffers: &mut Buffers,
    sums: &mut [f64],
    most: &mut [f64],
) {
    let n = S::f64s::LEN;
    for x in x.chunks_exact(rows.columns) {
        products(simd, rows.g, [x], rows.w.len(), buffers);
        let t: &[f64] = &cast_slice(&buffers[0])[..rows.w.len()];
        let (minus, one) = (S::f64s::splat(simd, -1.0), S::f64s::splat(simd, 1.0));
        let lanes = sums.chunks_exact_mut(n).zip(most.chunks_exact_mut(n));
        for (t, (sum, most)) in t.chunks_exact(n).zip(lanes) {
            let t = S::f64s::from_slice(simd, t);
            (S::f64s::from_slice(simd, sum) + f64::share(simd, t * minus, one)).store_slice(sum);
            let before = S::f64s::from_slice(simd, most);
            t.simd_gt(before).select(t, before).store_slice(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;
    use motes::simd::portable;

    /// Processors without AVX2 run code that others never see.
    #[test]
    fn the_portable_level_agrees_with_the_chosen_one() {
        fn check<F: Number>(tolerance: f64) {
            let mut buffers = [[Line::zeroed(); TILE]; TOGETHER + 1];
            for columns in [1, 9, 12, 13, 40] {
                let features: Vec<f64> = (0..150 * columns).map(|i| (i as f64 * 0.7).sin() * 3.0).collect();
                let labels: Vec<u8> = (0..150).map(|i| u8::from(i % 3 == 0)).collect();
                let rows = Rows::<F>::new(&features, &labels, None, false);
                let x: Vec<F> = (0..5 * columns).map(|i| F::of((i as f64).cos())).collect();
                for sum in [Sum::Gradient, Sum::Product, Sum::Loss, Sum::Both] {
                    let mut plain = vec![0.0; 5 * sum.width(columns)];
                    let mut chosen = plain.clone();
                    kernel(portable(), sum, rows.all(), &x, &mut buffers, &mut plain);
                    add_sums(sum, rows.all(), &x, &mut chosen);
                    for (a, b) in plain.iter().zip(&chosen) {
                        assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{columns} {sum:?}: {a} {b}");
                    }
                }
            }
        }
        check::<f64>(1e-11);
        check::<f32>(1e-4);
        let all = Rows::<f64>::new(&[0.5, -2.0, 900.0, -900.0, 0.0], &[1, 0, 1, 1, 0], None, false);
        let (mut sums, mut most) = ([[0.0; 8]; 2], [[f64::NEG_INFINITY; 8]; 2]);
        let mut buffers = [[Line::zeroed(); TILE]; TOGETHER + 1];
        let x = [1.0, 2.0];
        probabilities_kernel(portable(), all.all(), &x, &mut buffers, &mut sums[0], &mut most[0]);
        add_probabilities(all.all(), &x, &mut sums[1], &mut most[1]);
        assert_eq!(most[0], most[1]);
        for (a, b) in sums[0].iter().zip(sums[1]) {
            assert!((a - b).abs() < 1e-13, "{a} {b}");
        }
    }

    /// A particle that is NaN must not end as a finite gradient.
    #[test]
    fn nan_stays_nan() {
        let rows = Rows::<f32>::new(&[0.5, -2.0, 3.0], &[1, 0, 1], None, false);
        let mut out = [0.0; 2];
        add_sums(Sum::Both, rows.all(), &[f32::NAN], &mut out);
        assert!(out.iter().all(|x| x.is_nan()), "{out:?}");
    }
}
