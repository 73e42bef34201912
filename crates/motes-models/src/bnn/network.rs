//! One particle, or two side by side, through the network and back.
//!
//! Class 0 is the reference: with the differences v_l - v_0 there is a logit less to compute, and its gradient is minus
//! the sum of the others'.

use motes::Real;
use motes::blocks::{for_each, for_each2};

use super::design::{Design, Layout, Tiles};
use super::lanes::{Sums, deltas, dot, exp, lanes, prior, sigmoid, squares, tanh};
use super::turn::{Factors, Rows};

/// Hidden rows of a gradient are written in at most so many groups.
const GROUPS: usize = 64;
/// Numbers in a cache line: parts of the scratch space begin at multiples.
const LINE: usize = 16;

/// What a pass needs besides the particles.
#[derive(Clone, Copy)]
pub(super) struct Pass<'m, F> {
    pub design: &'m Design<F>,
    pub layout: Layout,
    pub inputs: usize,
    pub classes: usize,
}

/// The data terms of a gradient.
#[derive(Clone, Copy)]
pub(super) struct Terms<'m> {
    pub labels: &'m [u8],
    /// A mini-batch of them.
    pub batch: Option<&'m [u32]>,
}

/// The parts of the scratch space.
struct Space<'s, F> {
    /// v_l - v_0: panel by panel, a row for each class but the first.
    v: &'s mut [F],
    /// W b, twice for each strip.
    constant: &'s mut [F],
    /// Sums over all tiles, as in [`Tile`].
    sums: &'s mut [F],
    /// W', and later the gradient in the same form.
    wt: &'s mut [F],
    /// A [`Tile`] after the other.
    tiles: &'s mut [F],
}

/// What belongs to one tile of rows.
struct Tile<'s, F> {
    /// Activations, then deltas: strip by strip, a row of lanes for each row of the data.
    t: &'s mut [F],
    /// Logits, then residuals: for each particle, a row for each class.
    r: &'s mut [F],
    /// The sum of the deltas, strip by strip, and the gradient for v, panel by panel.
    sums: &'s mut [F],
}

impl<'m, F: Real> Pass<'m, F> {
    /// For so many particles at a time.
    pub fn new(design: &'m Design<F>, inputs: usize, classes: usize, particles: usize) -> Self {
        Pass { design, layout: Layout::new::<F>(design.hidden, particles), inputs, classes }
    }

    /// Numbers of a particle.
    fn d(&self) -> usize {
        self.layout.hidden * (self.inputs + self.classes)
    }

    /// Lanes of all panels, without what strips have beyond them.
    fn panels_len(&self) -> usize {
        self.layout.particles * self.layout.panels * self.layout.width
    }

    fn lengths(&self) -> [usize; 5] {
        let padded = self.layout.padded();
        let tiles = self.design.rows.count() * self.tile_len();
        let v = (self.classes - 1) * self.panels_len();
        [v, 2 * padded, self.sums_len(), self.design.weights_len(self.layout), tiles]
            .map(|len| len.next_multiple_of(LINE))
    }

    fn sums_len(&self) -> usize {
        self.layout.padded() + (self.classes - 1) * self.panels_len()
    }

    fn tile_lengths(&self) -> [usize; 3] {
        let rows = self.design.rows.size;
        [rows * self.layout.padded(), self.layout.particles * self.classes * rows, self.sums_len()]
            .map(|len| len.next_multiple_of(LINE))
    }

    fn tile_len(&self) -> usize {
        self.tile_lengths().iter().sum()
    }

    pub fn scratch_len(&self) -> usize {
        self.lengths().iter().sum::<usize>() + LINE
    }

    fn space<'s>(&self, scratch: &'s mut [F]) -> Space<'s, F> {
        // Vectors that straddle cache lines cost twice.
        let skip = scratch.as_ptr().align_offset(64).min(LINE);
        let [v, constant, sums, wt, tiles] = split(&mut scratch[skip..], self.lengths());
        Space { v, constant, sums, wt, tiles }
    }

    fn tile<'s>(&self, memory: &'s mut [F]) -> Tile<'s, F> {
        let [t, r, sums] = split(memory, self.tile_lengths());
        Tile { t, r, sums: &mut sums[..self.sums_len()] }
    }

    /// The logits or residuals of a particle among those of all.
    fn of_particle(&self, particle: usize) -> std::ops::Range<usize> {
        let len = self.classes * self.design.rows.size;
        particle * len..(particle + 1) * len
    }

    /// Where a panel has its output weights or their gradient.
    fn of_panel(&self, panel: usize) -> std::ops::Range<usize> {
        let len = (self.classes - 1) * self.layout.width;
        panel * len..(panel + 1) * len
    }

    /// The tiles of all rows, or of a batch.
    fn rows(&self, batch: Option<&[u32]>) -> Tiles {
        Tiles { len: batch.map_or(self.design.rows.len, <[u32]>::len), ..self.design.rows }
    }

    /// Packs the weights: W' by lanes, W b, and the differences of v.
    fn pack(&self, x: &[F], batch: Option<&[u32]>, parallel: bool, space: &mut Space<'_, F>) {
        let (layout, d) = (self.layout, self.d());
        let Layout { hidden, width, panels, .. } = layout;
        assert_eq!(x.len(), layout.particles * d, "as many particles as there is room for");
        let chunk = self.design.chunks.size * layout.padded();
        let chunks = &mut space.wt[..self.design.chunks.count() * chunk];
        all(for_each(parallel, (chunks, chunk.max(1)), |chunk, out| {
            self.design.pack(layout, chunk, x, d, self.inputs, out);
            Ok(())
        }));
        let constant = &mut space.constant[..2 * layout.padded()];
        self.design.constant(layout, space.wt, batch.is_some(), constant);
        for (particle, x) in x.chunks_exact(d).enumerate() {
            let v = &x[hidden * self.inputs..];
            for p in 0..panels {
                let out = &mut space.v[self.of_panel(layout.panel(particle, p))];
                for (class, out) in out.chunks_exact_mut(width).enumerate() {
                    for (lane, out) in out.iter_mut().enumerate() {
                        let j = p * width + lane;
                        *out = if j < hidden { v[(class + 1) * hidden + j] - v[j] } else { F::default() };
                    }
                }
            }
        }
    }

    /// The hidden units and the logits of some tiles, which `memory` holds.
    fn forward(&self, first: usize, batch: Option<&[u32]>, space: &SharedSpace<'_, F>, memory: &mut [F]) {
        let layout = self.layout;
        let Layout { panels, particles, width, strip, .. } = layout;
        let (rows, len) = (self.rows(batch), self.tile_len());
        if !self.design.writes(batch) {
            for (memory, tile) in memory.chunks_exact_mut(len).zip(first..) {
                let count = rows.range(tile).len().next_multiple_of(2);
                for number in 0..layout.strips {
                    let constant = &space.constant[2 * number * strip..][..strip];
                    let t = &mut memory[layout.rows(rows.size, number, count)];
                    t.chunks_exact_mut(strip).for_each(|row| row.copy_from_slice(constant));
                }
            }
        }
        let tiles = first..first + memory.len() / len;
        self.design.forward(layout, tiles, batch, space.wt, memory, len);
        for (memory, tile) in memory.chunks_exact_mut(len).zip(first..) {
            let Tile { t, r, .. } = self.tile(memory);
            let count = rows.range(tile).len();
            r.fill(F::default());
            for number in 0..layout.strips {
                tanh(&mut t[layout.rows(rows.size, number, count)]);
            }
            for particle in 0..particles {
                let r = &mut r[self.of_particle(particle)];
                for p in 0..panels {
                    let panel = layout.panel(particle, p);
                    let (number, lane) = layout.place(panel);
                    let t = &t[layout.rows(rows.size, number, count)][lane..];
                    let v = &space.v[self.of_panel(panel)];
                    for (v, r) in v.chunks_exact(width).zip(r.chunks_exact_mut(rows.size).skip(1)) {
                        dot(t, strip, v, &mut r[..count]);
                    }
                }
            }
        }
    }

    /// The gradient of l, whose prior part has the given precisions, and each particle's log-likelihood where asked for; calls
    /// `squares` with the particle's number and its sums of squares of w and v.
    #[expect(clippy::too_many_arguments)]
    pub fn gradient(
        &self,
        x: &[F],
        Terms { labels, batch }: Terms<'_>,
        precision: [f64; 2],
        parallel: bool,
        grad: &mut [F],
        log_likelihood: Option<&mut [f64]>,
        scratch: &mut [F],
        mut squares: impl FnMut(usize, [f64; 2]),
    ) {
        let mut space = self.space(scratch);
        self.pack(x, batch, parallel, &mut space);
        let (rows, len) = (self.rows(batch), self.tile_len());
        let Space { v, constant, sums, wt, tiles } = space;
        let tiles = &mut tiles[..rows.count() * len];
        let shared = SharedSpace { v, constant, wt };
        // A lone worker takes all tiles at once: a chunk of W' then stays in the cache for all rows.
        let at_once = if parallel { len } else { tiles.len() };
        let back = |i: usize, memory: &mut [F]| {
            for (memory, tile) in memory.chunks_exact_mut(len).zip(i..) {
                self.backward_to_deltas(tile, labels, batch, &shared, self.tile(memory));
            }
        };
        let both_ways = log_likelihood.is_none();
        all(for_each(parallel, (&mut *tiles, at_once), |i, memory| {
            self.forward(i, batch, &shared, memory);
            if both_ways {
                back(i, memory);
            }
            Ok(())
        }));
        if let Some(out) = log_likelihood {
            // The way back overwrites the logits.
            for (particle, out) in out.iter_mut().enumerate() {
                *out = self.sum_of_logs(tiles, labels, batch, particle);
            }
            all(for_each(parallel, (&mut *tiles, at_once), |i, memory| {
                back(i, memory);
                Ok(())
            }));
        }
        sums.fill(F::default());
        for memory in tiles.chunks_exact_mut(len) {
            let tile = self.tile(memory);
            sums.iter_mut().zip(tile.sums).for_each(|(s, t)| *s += *t);
        }

        let padded = self.layout.padded();
        let unit = self.design.units.size * padded;
        let units = &mut wt[..self.design.units.count() * unit];
        all(for_each(parallel, (&mut *units, unit.max(1)), |unit, out| {
            self.design.backward(self.layout, unit, batch, tiles, len, &sums[..padded], out);
            Ok(())
        }));
        let scale = F::of(labels.len() as f64 / rows.len as f64);
        for (particle, (x, grad)) in x.chunks_exact(self.d()).zip(grad.chunks_exact_mut(self.d())).enumerate()
        {
            let of_x = self.unpack(particle, x, precision, scale, units, &sums[padded..], parallel, grad);
            squares(particle, of_x);
        }
    }

    /// Residuals from logits, deltas from activations, and their sums.
    fn backward_to_deltas(
        &self,
        tile: usize,
        labels: &[u8],
        batch: Option<&[u32]>,
        space: &SharedSpace<'_, F>,
        memory: Tile<'_, F>,
    ) {
        let layout = self.layout;
        let Layout { panels, particles, width, strip, .. } = layout;
        let rows = self.rows(batch);
        let range = rows.range(tile);
        let Tile { t, r, sums } = memory;
        let count = range.len();
        let which = &batch.unwrap_or(&self.design.order)[range];
        sums.fill(F::default());
        let (of_deltas, grad_v) = sums.split_at_mut(layout.padded());
        for particle in 0..particles {
            let r = &mut r[self.of_particle(particle)];
            self.residuals(which, labels, r);
            for p in 0..panels {
                let panel = layout.panel(particle, p);
                let (number, lane) = layout.place(panel);
                let sums = Sums {
                    grad_v: &mut grad_v[self.of_panel(panel)],
                    deltas: &mut of_deltas[number * strip + lane..][..width],
                };
                let t = &mut t[layout.rows(rows.size, number, count)][lane..];
                deltas(t, strip, &space.v[self.of_panel(panel)], &r[rows.size..], rows.size, sums);
            }
        }
    }

    /// Turns logits into 1[l = label] - p(l), class by class.
    fn residuals(&self, which: &[u32], labels: &[u8], r: &mut [F]) {
        let (size, one) = (self.design.rows.size, F::of(1.0));
        let zero = F::default();
        if self.classes == 2 {
            sigmoid(&mut r[size..]);
        } else {
            softmax(r, size);
        }
        for (class, r) in r.chunks_exact_mut(size).enumerate().skip(1) {
            for (r, row) in r.iter_mut().zip(which) {
                let hit = usize::from(labels[*row as usize]) == class;
                *r = (if hit { one } else { zero }) - *r;
            }
        }
    }

    /// Adds prior and likelihood up into a particle's gradient, hidden unit by hidden unit.
    #[expect(clippy::too_many_arguments)]
    fn unpack(
        &self,
        particle: usize,
        x: &[F],
        precision: [f64; 2],
        scale: F,
        units: &[F],
        grad_v: &[F],
        parallel: bool,
        grad: &mut [F],
    ) -> [f64; 2] {
        let layout = self.layout;
        let Layout { hidden, width, .. } = layout;
        let (w, v) = x.split_at(hidden * self.inputs);
        let (grad_w, grad_out) = grad.split_at_mut(hidden * self.inputs);
        let group = self.group();
        let mut squares = [0.0; GROUPS];
        let rows = (grad_w, group * self.inputs);
        let factors = Factors { minus_precision: F::default() - F::of(precision[0]), scale };
        all(for_each2(parallel, rows, (&mut squares, 1), |i, grad, squares| {
            let w = &w[i * group * self.inputs..][..grad.len()];
            squares[0] = prior(w, F::of(precision[0]), grad);
            let vector = lanes::<F>() * self.inputs;
            let first = (i * group..).step_by(lanes::<F>());
            for ((w, grad), first) in w.chunks(vector).zip(grad.chunks_mut(vector)).zip(first) {
                let rows = Rows { w, inputs: self.inputs, units: w.len() / self.inputs };
                self.design.unpack(layout, (particle, first), units, factors, rows, grad);
            }
            Ok(())
        }));
        let of_v = prior(v, F::of(precision[1]), grad_out);
        let (first, others) = grad_out.split_at_mut(hidden);
        for (class, grad) in others.chunks_exact_mut(hidden).enumerate() {
            for (j, (grad, first)) in grad.iter_mut().zip(&mut *first).enumerate() {
                let panel = layout.panel(particle, j / width);
                let g = scale * grad_v[self.of_panel(panel)][class * width + j % width];
                *grad += g;
                *first += F::default() - g;
            }
        }
        [squares.iter().sum(), of_v]
    }

    /// For each particle the sum of log p(l | f, x) over the rows, times M/B for a batch.
    pub fn log_likelihood(
        &self,
        x: &[F],
        labels: &[u8],
        batch: Option<&[u32]>,
        parallel: bool,
        scratch: &mut [F],
        out: &mut [f64],
    ) {
        let tiles = self.all_logits(x, batch, parallel, scratch);
        for (particle, out) in out.iter_mut().enumerate() {
            *out = self.sum_of_logs(tiles, labels, batch, particle);
        }
    }

    /// The same from the logits in the tiles.
    fn sum_of_logs(&self, tiles: &mut [F], labels: &[u8], batch: Option<&[u32]>, particle: usize) -> f64 {
        let mut sum = 0.0;
        self.each_row(tiles, batch, particle, |place, logits| {
            let which = batch.unwrap_or(&self.design.order)[place];
            let label = usize::from(labels[which as usize]);
            sum += log_softmax(logits.clone(), label);
        });
        sum * (labels.len() as f64 / self.rows(batch).len as f64)
    }

    /// The sums of squares of w and v, with the bits that [`Pass::gradient`] gives them.
    pub fn squares(&self, x: &[F]) -> [f64; 2] {
        let (w, v) = x.split_at(self.layout.hidden * self.inputs);
        [w.chunks(self.group() * self.inputs).map(squares).sum(), squares(v)]
    }

    /// How many hidden rows of a gradient are written together: whole vectors, so that lanes are read together.
    fn group(&self) -> usize {
        let Layout { panels, width, .. } = self.layout;
        lanes::<F>() * (panels * width / lanes::<F>()).div_ceil(GROUPS)
    }

    /// Calls `f(place, logits)` for each row of the first particle in turn; the first logit is 0.
    pub fn logits(
        &self,
        x: &[F],
        batch: Option<&[u32]>,
        parallel: bool,
        scratch: &mut [F],
        mut f: impl FnMut(usize, Logits<'_, F>),
    ) {
        let tiles = self.all_logits(x, batch, parallel, scratch);
        self.each_row(tiles, batch, 0, &mut f);
    }

    /// The tiles with the logits of all rows.
    fn all_logits<'s>(
        &self,
        x: &[F],
        batch: Option<&[u32]>,
        parallel: bool,
        scratch: &'s mut [F],
    ) -> &'s mut [F] {
        let mut space = self.space(scratch);
        self.pack(x, batch, parallel, &mut space);
        let (rows, len) = (self.rows(batch), self.tile_len());
        let Space { v, constant, wt, tiles, .. } = space;
        let tiles = &mut tiles[..rows.count() * len];
        let shared = SharedSpace { v, constant, wt };
        let at_once = if parallel { len } else { tiles.len() };
        all(for_each(parallel, (&mut *tiles, at_once), |i, memory| {
            self.forward(i, batch, &shared, memory);
            Ok(())
        }));
        tiles
    }

    fn each_row(
        &self,
        tiles: &mut [F],
        batch: Option<&[u32]>,
        particle: usize,
        mut f: impl FnMut(usize, Logits<'_, F>),
    ) {
        let rows = self.rows(batch);
        for (tile, memory) in tiles.chunks_exact_mut(self.tile_len()).enumerate() {
            let r = &self.tile(memory).r[self.of_particle(particle)];
            for (i, place) in rows.range(tile).enumerate() {
                f(place, Logits { r, size: rows.size, i, classes: self.classes });
            }
        }
    }
}

/// The logits of one row.
#[derive(Clone)]
pub(super) struct Logits<'a, F> {
    r: &'a [F],
    size: usize,
    i: usize,
    classes: usize,
}

impl<F: Real> Logits<'_, F> {
    pub fn get(&self, class: usize) -> f64 {
        self.r[class * self.size + self.i].f64()
    }

    /// log sum_l exp(logit_l).
    pub fn log_sum_exp(&self) -> f64 {
        let all = (0..self.classes).map(|l| self.get(l));
        let most = all.clone().fold(f64::NEG_INFINITY, f64::max);
        most + libm::log(all.map(|z| libm::exp(z - most)).sum())
    }
}

fn log_softmax<F: Real>(logits: Logits<'_, F>, class: usize) -> f64 {
    logits.get(class) - logits.log_sum_exp()
}

/// What the tiles only read.
struct SharedSpace<'s, F> {
    v: &'s [F],
    constant: &'s [F],
    wt: &'s [F],
}

/// Turns columns of logits, in rows of `size`, into probabilities.
fn softmax<F: Real>(r: &mut [F], size: usize) {
    for i in 0..size {
        let most = r.iter().skip(i).step_by(size).fold(F::default(), |m, z| if *z > m { *z } else { m });
        r.iter_mut().skip(i).step_by(size).for_each(|z| *z -= most);
    }
    exp(r);
    for i in 0..size {
        let sum: f64 = r.iter().skip(i).step_by(size).map(|e| e.f64()).sum();
        r.iter_mut().skip(i).step_by(size).for_each(|e| *e = F::of(e.f64() / sum));
    }
}

/// Cuts the beginning of a slice into parts.
fn split<const N: usize, T>(mut memory: &mut [T], lengths: [usize; N]) -> [&mut [T]; N] {
    lengths.map(|len| {
        let (part, rest) = std::mem::take(&mut memory).split_at_mut(len);
        memory = rest;
        part
    })
}

/// Loops whose body cannot fail.
fn all(done: Result<(), std::convert::Infallible>) {
    let Ok(()) = done;
}
