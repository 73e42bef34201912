//! The design matrix as the kernels want it: rows merged, signed, scaled and packed side by side.

use std::collections::HashMap;

use bytemuck::{Zeroable, cast_slice, cast_slice_mut};
use motes::Real;
use motes::blocks::{INLINE_NANOSECONDS, for_each, sum_slots};
use motes::simd::{Line, lines};

use super::kernels::{Sum, add_sums, lanes, tile_vectors};

/// Rows f_i with labels l_i, as g_i = ±f_i log2(e) with the sign of 2 l_i - 1.
///
/// Then the log-likelihood is -sum_i w_i ln(1 + 2^{-g_i.x}): one formula for both labels, in which nothing cancels, and
/// the base 2 saves the reduction of the argument. Equal rows are merged into one of weight w_i.
#[derive(Clone, Debug)]
pub(super) struct Rows<F> {
    pub columns: usize,
    /// How many rows were given.
    pub given: usize,
    vectors: usize,
    /// How many vectors of rows form one block of work.
    chunk: usize,
    /// By vector of rows, column, lane.
    g: Vec<Line>,
    /// By vector of rows and lane; 0 for the rows that fill up the last vector.
    w: Vec<Line>,
    /// Where each given row went, if any were merged.
    places: Option<Vec<u32>>,
    /// The weights of the given rows, if they have any.
    of_rows: Option<Vec<F>>,
}

/// Some vectors of rows.
#[derive(Clone, Copy)]
pub(super) struct View<'a, F> {
    pub g: &'a [F],
    pub w: &'a [F],
    pub columns: usize,
}

/// Rows beyond this many bytes would not stay in the second-level cache: they are passed once, with all particles, in blocks.
const MANY_BYTES: usize = 512 << 10;
/// A block of rows takes one particle about this long, and there are some but not too many blocks.
const CHUNK_NANOSECONDS: f64 = 4_000.0;
const LEAST_CHUNKS: usize = 8;
const MOST_CHUNKS: usize = 64;
/// Rows looked at before deciding whether merging is worth it.
const SAMPLE: usize = 1 << 16;

impl<F: Real> Rows<F> {
    /// Packs row-major features, with a last column of ones for an intercept.
    /// A row counts once, or as often as its weight says.
    pub fn new(features: &[f64], labels: &[u8], weights: Option<&[f64]>, intercept: bool) -> Self {
        let given = labels.len();
        let d = features.len() / given.max(1);
        let columns = d + usize::from(intercept);
        let row = |i: usize| &features[i * d..(i + 1) * d];
        let weight = |i: usize| weights.map_or(1.0, |weights| weights[i]);
        let (firsts, counts, places) = merge(given, |i| (cast_slice(row(i)), labels[i]), weight);
        let lanes = lanes::<F>();
        let vectors = firsts.len().div_ceil(lanes);
        let mut rows = Rows {
            columns,
            given,
            vectors,
            chunk: vectors,
            g: vec![Line::zeroed(); lines::<F>(vectors * columns * lanes)],
            w: vec![Line::zeroed(); lines::<F>(vectors * lanes)],
            places,
            of_rows: weights.map(|weights| weights.iter().map(|w| F::of(*w)).collect()),
        };
        if rows.g.len() * size_of::<Line>() > MANY_BYTES {
            let chunks = (rows.nanoseconds() / CHUNK_NANOSECONDS) as usize;
            rows.chunk = vectors.div_ceil(chunks.clamp(LEAST_CHUNKS, MOST_CHUNKS)).max(tile_vectors(columns));
        }
        let g: &mut [F] = cast_slice_mut(&mut rows.g);
        let w: &mut [F] = cast_slice_mut(&mut rows.w);
        for (place, (&first, count)) in firsts.iter().zip(counts).enumerate() {
            let sign = if labels[first] == 1 { 1.0 } else { -1.0 };
            let ones = std::iter::repeat_n(&1.0, usize::from(intercept));
            for (column, f) in row(first).iter().chain(ones).enumerate() {
                g[index(place, column, columns, lanes)] = F::of(sign * std::f64::consts::LOG2_E * f);
            }
            w[place] = F::of(count);
        }
        rows
    }

    /// A rough time for one particle's gradient on one core.
    pub fn nanoseconds(&self) -> f64 {
        let map = if size_of::<F>() == 4 { 6.4 } else { 9.4 };
        self.vectors as f64 * (0.72 * self.columns as f64 + map)
    }

    /// Whether the rows are so many that they are cut into blocks of work.
    pub fn many(&self) -> bool {
        self.chunk < self.vectors
    }

    /// Everything that is packed, filled up with zeros.
    pub fn all(&self) -> View<'_, F> {
        self.view(0, self.vectors, self.weights())
    }

    /// The rows' weights, 0 for those that fill up the last vector.
    pub fn weights(&self) -> &[F] {
        &cast_slice(&self.w)[..self.vectors * lanes::<F>()]
    }

    fn view<'a>(&'a self, from: usize, to: usize, w: &'a [F]) -> View<'a, F> {
        let (columns, lanes) = (self.columns, lanes::<F>());
        let g: &[F] = cast_slice(&self.g);
        View { g: &g[from * columns * lanes..to * columns * lanes], w: &w[from * lanes..to * lanes], columns }
    }

    /// Lines that [`Rows::sums`] needs for the partial sums of so many numbers.
    pub fn partial_lines(&self, numbers: usize) -> usize {
        if self.many() { lines::<f64>(self.vectors.div_ceil(self.chunk) * numbers) } else { 0 }
    }

    /// Writes the sums over all rows, weighted by `w`, for each particle.
    pub fn sums(&self, sum: Sum, w: &[F], x: &[F], parallel: bool, space: &mut [Line], out: &mut [f64]) {
        out.fill(0.0);
        if out.is_empty() {
            return;
        }
        if !self.many() {
            return add_sums(sum, self.view(0, self.vectors, w), x, out);
        }
        let particles = x.len() / self.columns;
        let parallel = parallel && particles as f64 * self.nanoseconds() > INLINE_NANOSECONDS;
        let slots = &mut cast_slice_mut(space)[..self.vectors.div_ceil(self.chunk) * out.len()];
        slots.fill(0.0);
        let chunk = |i: usize, slot: &mut [f64]| {
            let (from, to) = (i * self.chunk, ((i + 1) * self.chunk).min(self.vectors));
            add_sums(sum, self.view(from, to, w), x, slot);
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = for_each(parallel, (&mut *slots, out.len()), chunk);
        out.copy_from_slice(sum_slots(slots, out.len()));
    }

    /// Lines that [`Rows::batch_sums`] needs for packing.
    pub fn batch_lines(&self) -> usize {
        let len = tile_vectors(self.columns) * lanes::<F>();
        lines::<F>(len * self.columns) + lines::<F>(len)
    }

    /// Writes the sums over the given rows, each counted once, for each particle.
    pub fn batch_sums(&self, sum: Sum, batch: &[u32], x: &[F], pack: &mut [Line], out: &mut [f64]) {
        out.fill(0.0);
        let (columns, lanes) = (self.columns, lanes::<F>());
        let tile = tile_vectors(columns) * lanes;
        let all: &[F] = cast_slice(&self.g);
        let (g, w) = pack.split_at_mut(lines::<F>(tile * columns));
        let (g, w) = (cast_slice_mut::<_, F>(g), cast_slice_mut::<_, F>(w));
        for batch in batch.chunks(tile) {
            let len = batch.len().next_multiple_of(lanes);
            g[..len * columns].fill(F::of(0.0));
            w[..len].fill(F::of(0.0));
            for (to, &row) in batch.iter().enumerate() {
                let from = self.place(row as usize);
                for column in 0..columns {
                    g[index(to, column, columns, lanes)] = all[index(from, column, columns, lanes)];
                }
                w[to] = self.of_rows.as_ref().map_or(F::of(1.0), |weights| weights[row as usize]);
            }
            add_sums(sum, View { g: &g[..len * columns], w: &w[..len], columns }, x, out);
        }
    }

    /// Where a given row went.
    pub fn place(&self, row: usize) -> usize {
        self.places.as_ref().map_or(row, |places| places[row] as usize)
    }

    /// The column of the first number that is not finite in this precision.
    pub fn first_not_finite(&self) -> Option<usize> {
        let lanes = lanes::<F>();
        self.all().g.iter().position(|g| !g.f64().is_finite()).map(|i| i / lanes % self.columns)
    }
}

/// Where a number stands: vectors of rows hold all their columns, columns hold all their lanes.
fn index(row: usize, column: usize, columns: usize, lanes: usize) -> usize {
    (row / lanes * columns + column) * lanes + row % lanes
}

/// The first of each group of equal rows, the groups' weights, and each row's group unless it is the row itself.
fn merge<'a>(
    rows: usize,
    row: impl Fn(usize) -> (&'a [u8], u8),
    weight: impl Fn(usize) -> f64,
) -> (Vec<usize>, Vec<f64>, Option<Vec<u32>>) {
    let unmerged = || ((0..rows).collect(), (0..rows).map(&weight).collect(), None);
    let mut groups = HashMap::new();
    let (mut firsts, mut counts, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..rows {
        // Continuous features hardly ever repeat: do not spend time and memory on them.
        if i == SAMPLE && firsts.len() > SAMPLE / 10 * 9 {
            return unmerged();
        }
        let group = *groups.entry(row(i)).or_insert(firsts.len());
        if group == firsts.len() {
            firsts.push(i);
            counts.push(0.0);
        }
        counts[group] += weight(i);
        places.push(group as u32);
    }
    if firsts.len() == rows { unmerged() } else { (firsts, counts, Some(places)) }
}
