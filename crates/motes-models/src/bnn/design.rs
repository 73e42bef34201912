//! The features of a set of rows, in both orientations, and the products of the network with them.
//!
//! Columns that are zero on every row take no part. Where columns repeat one value (the background of images), that
//! value is split off: F = 1 b' + S with sparse S, so that W F' = W S' + (W b) 1' and D F = D S + (D 1) b'.

use std::ops::Range;

use motes::Real;

use super::Products;
use super::lanes::{Block, Entry, MOST_VECTORS, Pick, dense, lanes, native_lanes, packed, sparse};
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

/// How the H hidden units of some particles fill lanes.
///
/// A particle has `panels` panels of `width` units, which depend on nothing but H and the precision, and so do the sums over
/// lanes. The products run over strips: one panel, or two side by side where the processor's vectors are wide. The next
/// particle's panels follow on the last one's, so that two particles of one panel share a strip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub hidden: usize,
    /// Panels of a particle.
    pub panels: usize,
    /// Hidden units of a panel.
    pub width: usize,
    pub particles: usize,
    /// Panels of a strip.
    side_by_side: usize,
    pub strips: usize,
    /// Lanes of a strip.
    pub strip: usize,
}

impl Layout {
    pub fn new<F: Real>(hidden: usize, particles: usize) -> Self {
        let vectors = hidden.div_ceil(lanes::<F>());
        let panels = vectors.div_ceil(MOST_VECTORS);
        let width = vectors.div_ceil(panels) * lanes::<F>();
        let (native, all) = (native_lanes::<F>(), particles * panels);
        let side_by_side = if native > lanes::<F>() { all.min(2) } else { 1 };
        let (strips, strip) = (all.div_ceil(side_by_side), (side_by_side * width).next_multiple_of(native));
        Layout { hidden, panels, width, particles, side_by_side, strips, strip }
    }

    /// Particles that are best computed together: two, where one would leave half a strip empty.
    pub fn together<F: Real>(hidden: usize) -> usize {
        let two = Layout::new::<F>(hidden, 2);
        if two.side_by_side == 2 && two.panels % 2 == 1 { 2 } else { 1 }
    }

    /// Lanes of all strips.
    pub fn padded(&self) -> usize {
        self.strips * self.strip
    }

    /// The number of a particle's panel among all.
    pub fn panel(&self, particle: usize, panel: usize) -> usize {
        particle * self.panels + panel
    }

    /// The strip of a panel, and its first lane there.
    pub fn place(&self, panel: usize) -> (usize, usize) {
        (panel / self.side_by_side, panel % self.side_by_side * self.width)
    }

    /// The lanes of a strip that belong to panels.
    fn filled(&self, strip: usize) -> usize {
        let panels = self.panel(self.particles, 0) - strip * self.side_by_side;
        panels.min(self.side_by_side) * self.width
    }

    /// Where a strip of some rows stands, if strips have room for `size` of them.
    pub fn rows(&self, size: usize, strip: usize, rows: usize) -> Range<usize> {
        let start = strip * size * self.strip;
        start..start + rows * self.strip
    }
}

/// Features F of some rows.
#[derive(Clone, Debug)]
pub(super) struct Design<F> {
    pub hidden: usize,
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

    /// Adds the product of a tile and a strip to the rows of `out`; the first of dense tiles is written there.
    fn add(&self, width: usize, row: usize, column: usize, strip: &[F], out: &mut [F]) {
        let tile = row * self.across + column;
        let range = self.tiles[tile]..self.tiles[tile + 1];
        match &self.terms {
            Terms::Dense(pairs) => packed(width, column == 0, &pairs[range], strip, out),
            Terms::Sparse(entries, ends) => sparse(width, entries, &ends[range], strip, out),
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
        let (one, two) = (Layout::new::<F>(hidden, 1), Layout::new::<F>(hidden, 2));
        let value = |row: usize, column: usize| F::of(features[row * inputs + column]);
        let zero = F::default();
        let columns: Vec<u32> = (0..inputs)
            .filter(|c| products == Products::Full || (0..m).any(|r| value(r, *c) != zero))
            .map(|c| c as u32)
            .collect();
        let a = columns.len();
        let most = |width: usize| (TILE_BYTES / (width * size_of::<F>())).max(2) & !1;
        // Sums over rows run tile by tile: their length must be the same whatever the processor's vectors are.
        let (rows, chunks) = (Tiles::new(m, most(one.width)), Tiles::new(a, most(two.strip)));
        let most = most(one.width);
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
            hidden,
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
    pub fn weights_len(&self, layout: Layout) -> usize {
        let tiles = |t: Tiles| t.count() * t.size;
        tiles(self.chunks).max(tiles(self.units)) * layout.padded()
    }

    /// Writes W' for the columns of one chunk: strip after strip, column after column, a lane per hidden unit. The particles'
    /// weights follow each other, `stride` numbers apart.
    pub fn pack(&self, layout: Layout, chunk: usize, x: &[F], stride: usize, inputs: usize, out: &mut [F]) {
        let Layout { hidden, panels, width, strip, .. } = layout;
        let (runs, count) = (&self.chunk_runs[chunk], self.chunks.range(chunk).len());
        for (particle, x) in x.chunks_exact(stride).enumerate() {
            let w = &x[..hidden * inputs];
            for p in 0..panels {
                let (number, lane) = layout.place(layout.panel(particle, p));
                let out = &mut out[layout.rows(self.chunks.size, number, count)];
                for v in (0..width).step_by(lanes::<F>()) {
                    let first = p * width + v;
                    let units = hidden.saturating_sub(first).min(lanes::<F>());
                    let rows = Rows { w: &w[(first * inputs).min(w.len())..], inputs, units };
                    to_lanes(rows, runs, strip, &mut out[lane + v..]);
                }
            }
        }
        for number in 0..layout.strips {
            let filled = layout.filled(number);
            if filled < strip {
                let rows = out[layout.rows(self.chunks.size, number, count)].chunks_exact_mut(strip);
                rows.for_each(|row| row[filled..].fill(F::default()));
            }
        }
    }

    /// Writes the gradient of the columns that take part, for the hidden units of one vector of a particle, which begins with
    /// `first`.
    pub fn unpack(
        &self,
        layout: Layout,
        (particle, first): (usize, usize),
        wt: &[F],
        factors: Factors<F>,
        rows: Rows<'_, F>,
        grad: &mut [F],
    ) {
        let (p, v) = (first / layout.width, first % layout.width);
        let (number, lane) = layout.place(layout.panel(particle, p));
        for (wt, (unit, runs)) in
            wt.chunks_exact(self.units.size * layout.padded()).zip(self.unit_runs.iter().enumerate())
        {
            let strip = &wt[layout.rows(self.units.size, number, self.units.range(unit).len())];
            to_rows(&strip[lane + v..], layout.strip, runs, factors, rows, grad);
        }
    }

    /// Writes W b, which every row of the first product begins with, twice for each strip.
    pub fn constant(&self, layout: Layout, wt: &[F], batch: bool, out: &mut [F]) {
        out.fill(F::default());
        let Some(base) = self.base.as_ref().filter(|_| !batch) else { return };
        let tiles = wt.chunks_exact(self.chunks.size * layout.padded());
        for (chunk, wt) in tiles.enumerate().take(self.chunks.count()) {
            let range = self.chunks.range(chunk);
            let columns = Pick::From(range.start);
            let stride = self.columns.len();
            for (number, out) in out.chunks_exact_mut(2 * layout.strip).enumerate() {
                let strip = &wt[layout.rows(self.chunks.size, number, range.len())];
                let base = Block { matrix: base, stride, rows: Pick::List(&[0]), columns };
                dense(layout.strip, base, strip, out);
            }
        }
    }

    /// Adds W F' for some tiles of rows (of the batch, if there is one) to `out`, one after the other `stride` apart.
    pub fn forward(
        &self,
        layout: Layout,
        tiles: Range<usize>,
        batch: Option<&[u32]>,
        wt: &[F],
        out: &mut [F],
        stride: usize,
    ) {
        let rows = Tiles { len: batch.map_or(self.rows.len, <[u32]>::len), ..self.rows };
        let chunk_len = self.chunks.size * layout.padded();
        for chunk in 0..self.chunks.count() {
            let columns = self.chunks.range(chunk);
            for number in 0..layout.strips {
                let strip = &wt[chunk * chunk_len..][layout.rows(self.chunks.size, number, columns.len())];
                for (out, tile) in out.chunks_mut(stride).zip(tiles.clone()) {
                    let range = rows.range(tile);
                    let out = &mut out[layout.rows(rows.size, number, range.len().next_multiple_of(2))];
                    match batch {
                        None => self.forward.add(layout.strip, tile, chunk, strip, out),
                        Some(batch) => {
                            let (rows, columns) = (Pick::List(&batch[range]), Pick::From(columns.start));
                            let stride = self.columns.len();
                            dense(layout.strip, Block { matrix: &self.f, stride, rows, columns }, strip, out);
                        }
                    }
                }
            }
        }
    }

    /// Writes F' D for the columns of one unit; the tiles of D stand `stride` apart, and `sums` is D 1.
    #[expect(clippy::too_many_arguments)]
    pub fn backward(
        &self,
        layout: Layout,
        unit: usize,
        batch: Option<&[u32]>,
        d: &[F],
        stride: usize,
        sums: &[F],
        out: &mut [F],
    ) {
        let width = layout.strip;
        let units = self.units.range(unit);
        let rows = Tiles { len: batch.map_or(self.rows.len, <[u32]>::len), ..self.rows };
        for number in 0..layout.strips {
            let out = &mut out[layout.rows(self.units.size, number, units.len().next_multiple_of(2))];
            if !self.writes(batch) {
                out.fill(F::default());
            }
            if let Some(base) = self.base.as_ref().filter(|_| batch.is_none()) {
                let sums = &sums[number * width..(number + 1) * width];
                for (out, b) in out.chunks_exact_mut(width).zip(&base[units.clone()]) {
                    out.iter_mut().zip(sums).for_each(|(o, s)| *o = *b * *s);
                }
            }
            for (tile, d) in d.chunks(stride).enumerate().take(rows.count()) {
                let range = rows.range(tile);
                let strip = &d[layout.rows(rows.size, number, range.len())];
                match batch {
                    None => self.backward.add(width, unit, tile, strip, out),
                    Some(batch) => {
                        let (rows, columns) = (Pick::From(units.start), Pick::List(&batch[range]));
                        let stride = self.rows.len;
                        dense(width, Block { matrix: &self.ft, stride, rows, columns }, strip, out);
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
