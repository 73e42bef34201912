//! The features of a set of rows, in both orientations, and the products of the network with them.
//!
//! Columns that are zero on every row take no part. Where columns repeat one value (the background of images), that
//! value is split off: F = 1 b' + S with sparse S, so that W F' = W S' + (W b) 1' and D F = D S + (D 1) b'.

use std::ops::Range;

use motes::Real;

use super::Products;
use super::lanes::{Block, Entry, MOST_VECTORS, Pick, dense, lanes, packed, sparse};
use super::turn::{Factors, Rows, Run, runs, to_lanes, to_rows};

/// Panels of a tile are at most this long, to stay in the first-level cache beside the rows that stream by.
const TILE_BYTES: usize = 24 << 10;
/// Sparse products walk as fast as dense ones, but lists are longer to load and break off at other places.
const SPARSE_BELOW: f64 = 0.6;
/// How far ahead a row looks for its partner.
const PARTNERS: usize = 1000;

/// A range cut into tiles of equal, even size; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiles {
    pub len: usize,
    pub size: usize,
}

impl Tiles {
    /// Tiles of at most `most`, four or a multiple of it unless the range is short.
    fn new(len: usize, most: usize) -> Self {
        let count = if len < 64 { len.div_ceil(most) } else { len.div_ceil(most).next_multiple_of(4) };
        Tiles { len, size: len.div_ceil(count.max(1)).next_multiple_of(2).max(2) }
    }

    pub fn count(&self) -> usize {
        self.len.div_ceil(self.size)
    }

    pub fn range(&self, tile: usize) -> Range<usize> {
        tile * self.size..((tile + 1) * self.size).min(self.len)
    }
}

/// How H hidden units fill lanes: `panels` panels of `nv` vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub hidden: usize,
    pub panels: usize,
    pub nv: usize,
    /// Hidden units of a panel.
    pub width: usize,
}

impl Layout {
    pub fn new<F>(hidden: usize) -> Self {
        let vectors = hidden.div_ceil(lanes::<F>());
        let panels = vectors.div_ceil(MOST_VECTORS);
        let nv = vectors.div_ceil(panels);
        Layout { hidden, panels, nv, width: nv * lanes::<F>() }
    }

    /// Lanes of all panels.
    pub fn padded(&self) -> usize {
        self.panels * self.width
    }
}

/// Features F of some rows.
#[derive(Clone, Debug)]
pub(super) struct Design<F> {
    pub layout: Layout,
    /// The columns that take part, by number.
    pub columns: Vec<u32>,
    /// Rows, as they stand in `f`.
    pub rows: Tiles,
    /// Columns, as they are summed over in W F'.
    pub chunks: Tiles,
    /// Columns, as D F is cut over workers.
    pub units: Tiles,
    /// The columns of each chunk and of each unit, as they succeed each other.
    chunk_runs: Vec<Vec<Run>>,
    unit_runs: Vec<Vec<Run>>,
    /// Which row stands where in the products of all rows.
    pub order: Vec<u32>,
    /// F, row-major, with a row of zeros after an odd one; for batches.
    f: Vec<F>,
    /// F', likewise.
    ft: Vec<F>,
    /// b, if it has been split off.
    base: Option<Vec<F>>,
    /// F or S, as the first product walks it.
    forward: Pairs<F>,
    /// F' or S', as the second product walks it.
    backward: Pairs<F>,
}

/// Pairs of rows in the order in which a product walks them, tile by tile of rows and then of columns, so that they
/// stream by.
#[derive(Clone, Debug)]
struct Pairs<F> {
    terms: Terms<F>,
    /// Where the tiles begin: in the interleaved rows, or in the ends.
    tiles: Vec<usize>,
    /// Tiles of columns.
    across: usize,
}

#[derive(Clone, Debug)]
enum Terms<F> {
    /// Rows interleaved.
    Dense(Vec<[F; 2]>),
    /// Entries, and for each tile the ends of its pairs after the end of the last tile.
    Sparse(Vec<Entry<F>>, Vec<u32>),
}

impl<F: Real> Pairs<F> {
    fn new(value: impl Fn(usize, usize) -> F, rows: Tiles, columns: Tiles, is_sparse: bool) -> Self {
        let (mut dense, mut entries, mut ends, mut tiles) = (vec![], vec![], vec![], vec![0]);
        for r in 0..rows.count() {
            for c in 0..columns.count() {
                ends.push(entries.len() as u32);
                for row in rows.range(r).step_by(2) {
                    for (i, column) in columns.range(c).enumerate() {
                        let other = if row + 1 < rows.len { value(row + 1, column) } else { F::default() };
                        let values = [value(row, column), other];
                        if !is_sparse {
                            dense.push(values);
                        } else if values != [F::default(); 2] {
                            entries.push(Entry { column: i as u32, values });
                        }
                    }
                    ends.push(entries.len() as u32);
                }
                tiles.push(if is_sparse { ends.len() } else { dense.len() });
            }
        }
        let terms = if is_sparse { Terms::Sparse(entries, ends) } else { Terms::Dense(dense) };
        Pairs { terms, tiles, across: columns.count() }
    }

    /// Adds the product of a tile and a panel to the rows of `out`; the first of dense tiles is written there.
    fn add(&self, nv: usize, row: usize, column: usize, panel: &[F], out: &mut [F]) {
        let tile = row * self.across + column;
        let range = self.tiles[tile]..self.tiles[tile + 1];
        match &self.terms {
            Terms::Dense(pairs) => packed(nv, column == 0, &pairs[range], panel, out),
            Terms::Sparse(entries, ends) => sparse(nv, entries, &ends[range], panel, out),
        }
    }

    fn len(&self) -> usize {
        match &self.terms {
            Terms::Dense(pairs) => pairs.len(),
            Terms::Sparse(entries, _) => entries.len(),
        }
    }
}

impl<F: Real> Design<F> {
    /// Takes row-major features of `inputs` columns.
    pub fn new(features: &[f64], inputs: usize, hidden: usize, products: Products) -> Self {
        let m = features.len() / inputs;
        let layout = Layout::new::<F>(hidden);
        let value = |row: usize, column: usize| F::of(features[row * inputs + column]);
        let zero = F::default();
        let columns: Vec<u32> = (0..inputs)
            .filter(|c| products == Products::Full || (0..m).any(|r| value(r, *c) != zero))
            .map(|c| c as u32)
            .collect();
        let a = columns.len();
        let most = (TILE_BYTES / (layout.width * size_of::<F>())).max(2) & !1;
        let (rows, chunks) = (Tiles::new(m, most), Tiles::new(a, most));
        let units = Tiles::new(a, most.min(a / 8 + 1));
        let runs_of = |tiles: Tiles| (0..tiles.count()).map(|t| runs(&columns[tiles.range(t)])).collect();
        let (chunk_runs, unit_runs) = (runs_of(chunks), runs_of(units));

        let mut base = vec![zero; a];
        let mut order: Vec<usize> = (0..m).collect();
        let mut is_sparse = false;
        if matches!(products, Products::Auto | Products::Sparse) {
            base = columns.iter().map(|c| most_frequent((0..m).map(|r| value(r, *c as usize)))).collect();
            let differs = |row: usize, i: usize| value(row, columns[i] as usize) != base[i];
            let paired = pairs(m, a, differs);
            let union = |p: &[usize], i: usize| p.iter().any(|row| differs(*row, i));
            let filled: usize = paired.chunks(2).map(|pair| (0..a).filter(|i| union(pair, *i)).count()).sum();
            is_sparse = products == Products::Sparse || 2.0 * filled as f64 <= SPARSE_BELOW * (m * a) as f64;
            if is_sparse {
                order = paired;
            }
        }
        let mut f = vec![zero; m.next_multiple_of(2) * a];
        let mut ft = vec![zero; a.next_multiple_of(2) * m];
        for row in 0..m {
            for (i, column) in columns.iter().enumerate() {
                let v = value(row, *column as usize);
                (f[row * a + i], ft[i * m + row]) = (v, v);
            }
        }
        let s = |r: usize, i: usize| f[order[r] * a + i] - if is_sparse { base[i] } else { zero };
        let forward = Pairs::new(s, rows, chunks, is_sparse);
        let backward = Pairs::new(|i, r| s(r, i), units, rows, is_sparse);
        let base = is_sparse.then_some(base);
        let order = order.iter().map(|row| *row as u32).collect();
        Design {
            layout,
            columns,
            rows,
            chunks,
            units,
            chunk_runs,
            unit_runs,
            order,
            f,
            ft,
            base,
            forward,
            backward,
        }
    }

    pub fn is_sparse(&self) -> bool {
        self.base.is_some()
    }

    /// Whether the products write their sums, which then need not be zero to begin with.
    pub fn writes(&self, batch: Option<&[u32]>) -> bool {
        batch.is_none() && !self.is_sparse() && !self.columns.is_empty()
    }

    /// Multiplications of both products for one hidden unit, over all rows.
    pub fn work(&self) -> usize {
        2 * (self.forward.len() + self.backward.len())
    }

    /// Numbers of a buffer for W' or a gradient like it.
    pub fn weights_len(&self) -> usize {
        let tiles = |t: Tiles| t.count() * t.size;
        tiles(self.chunks).max(tiles(self.units)) * self.layout.padded()
    }

    /// Where panel p of a tile of `size` rows stands.
    pub fn panel(&self, size: usize, p: usize, rows: usize) -> Range<usize> {
        let start = p * size * self.layout.width;
        start..start + rows * self.layout.width
    }

    /// Writes W' for the columns of one chunk: panel after panel, column after column, a lane per hidden unit.
    pub fn pack(&self, chunk: usize, w: &[F], inputs: usize, out: &mut [F]) {
        let Layout { hidden, panels, width, .. } = self.layout;
        let runs = &self.chunk_runs[chunk];
        let step = lanes::<F>();
        for p in 0..panels {
            let out = &mut out[self.panel(self.chunks.size, p, self.chunks.range(chunk).len())];
            for v in (0..width).step_by(step) {
                let first = p * width + v;
                let units = hidden.saturating_sub(first).min(step);
                let rows = Rows { w: &w[(first * inputs).min(w.len())..], inputs, units };
                to_lanes(rows, runs, width, &mut out[v..]);
            }
        }
    }

    /// Writes the gradient of the columns that take part, for the hidden units of one vector, which begins with `first`.
    pub fn unpack(&self, first: usize, wt: &[F], factors: Factors<F>, rows: Rows<'_, F>, grad: &mut [F]) {
        let width = self.layout.width;
        let (p, v) = (first / width, first % width);
        for (wt, (unit, runs)) in
            wt.chunks_exact(self.units.size * self.layout.padded()).zip(self.unit_runs.iter().enumerate())
        {
            let panel = &wt[self.panel(self.units.size, p, self.units.range(unit).len())];
            to_rows(&panel[v..], width, runs, factors, rows, grad);
        }
    }

    /// Writes W b, which every row of the first product begins with, twice for each panel.
    pub fn constant(&self, wt: &[F], batch: bool, out: &mut [F]) {
        out.fill(F::default());
        let Some(base) = self.base.as_ref().filter(|_| !batch) else { return };
        let tiles = wt.chunks_exact(self.chunks.size * self.layout.padded());
        for (chunk, wt) in tiles.enumerate().take(self.chunks.count()) {
            let range = self.chunks.range(chunk);
            let columns = Pick::From(range.start);
            let stride = self.columns.len();
            for (p, out) in out.chunks_exact_mut(2 * self.layout.width).enumerate() {
                let panel = &wt[self.panel(self.chunks.size, p, range.len())];
                let base = Block { matrix: base, stride, rows: Pick::List(&[0]), columns };
                dense(self.layout.nv, base, panel, out);
            }
        }
    }

    /// Adds W F' for some tiles of rows (of the batch, if there is one) to `out`, one after the other `stride` apart.
    pub fn forward(
        &self,
        tiles: Range<usize>,
        batch: Option<&[u32]>,
        wt: &[F],
        out: &mut [F],
        stride: usize,
    ) {
        let nv = self.layout.nv;
        let rows = Tiles { len: batch.map_or(self.rows.len, <[u32]>::len), ..self.rows };
        let chunk_len = self.chunks.size * self.layout.padded();
        for chunk in 0..self.chunks.count() {
            let columns = self.chunks.range(chunk);
            for p in 0..self.layout.panels {
                let panel = &wt[chunk * chunk_len..][self.panel(self.chunks.size, p, columns.len())];
                for (out, tile) in out.chunks_mut(stride).zip(tiles.clone()) {
                    let range = rows.range(tile);
                    let out = &mut out[self.panel(rows.size, p, range.len().next_multiple_of(2))];
                    match batch {
                        None => self.forward.add(nv, tile, chunk, panel, out),
                        Some(batch) => {
                            let (rows, columns) = (Pick::List(&batch[range]), Pick::From(columns.start));
                            let stride = self.columns.len();
                            dense(nv, Block { matrix: &self.f, stride, rows, columns }, panel, out);
                        }
                    }
                }
            }
        }
    }

    /// Writes F' D for the columns of one unit; the tiles of D stand `stride` apart, and `sums` is D 1.
    pub fn backward(
        &self,
        unit: usize,
        batch: Option<&[u32]>,
        d: &[F],
        stride: usize,
        sums: &[F],
        out: &mut [F],
    ) {
        let Layout { panels, nv, width, .. } = self.layout;
        let units = self.units.range(unit);
        let rows = Tiles { len: batch.map_or(self.rows.len, <[u32]>::len), ..self.rows };
        for p in 0..panels {
            let out = &mut out[self.panel(self.units.size, p, units.len().next_multiple_of(2))];
            if !self.writes(batch) {
                out.fill(F::default());
            }
            if let Some(base) = self.base.as_ref().filter(|_| batch.is_none()) {
                let sums = &sums[p * width..(p + 1) * width];
                for (out, b) in out.chunks_exact_mut(width).zip(&base[units.clone()]) {
                    out.iter_mut().zip(sums).for_each(|(o, s)| *o = *b * *s);
                }
            }
            for (tile, d) in d.chunks(stride).enumerate().take(rows.count()) {
                let range = rows.range(tile);
                let panel = &d[self.panel(rows.size, p, range.len())];
                match batch {
                    None => self.backward.add(nv, unit, tile, panel, out),
                    Some(batch) => {
                        let (rows, columns) = (Pick::From(units.start), Pick::List(&batch[range]));
                        dense(
                            nv,
                            Block { matrix: &self.ft, stride: self.rows.len, rows, columns },
                            panel,
                            out,
                        );
                    }
                }
            }
        }
    }
}

/// The value that occurs most often; of several the least.
fn most_frequent<F: Real>(values: impl Iterator<Item = F>) -> F {
    let mut values: Vec<F> = values.collect();
    values.sort_unstable_by(|a, b| a.f64().total_cmp(&b.f64()));
    let runs = values.chunk_by(|a, b| a == b);
    // `max_by_key` takes the last of equals.
    runs.rev().max_by_key(|run| run.len()).map_or(F::default(), |run| run[0])
}

/// An order of the rows in which neighbours differ from the base at much the same places.
fn pairs(m: usize, a: usize, differs: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let words = a.div_ceil(64);
    let mut bits = vec![0u64; m * words];
    for row in 0..m {
        for i in (0..a).filter(|i| differs(row, *i)) {
            bits[row * words + i / 64] |= 1 << (i % 64);
        }
    }
    let row = |r: usize| &bits[r * words..(r + 1) * words];
    let distance =
        |r: usize, s: usize| row(r).iter().zip(row(s)).map(|(x, y)| (x ^ y).count_ones()).sum::<u32>();
    let mut left: std::collections::VecDeque<usize> = (0..m).collect();
    let mut order = Vec::with_capacity(m);
    while let Some(first) = left.pop_front() {
        order.push(first);
        let nearest = (0..left.len().min(PARTNERS)).min_by_key(|i| distance(first, left[*i]));
        order.extend(nearest.and_then(|i| left.remove(i)));
    }
    order
}
