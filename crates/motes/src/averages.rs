//! Streaming averages over the steps after burn-in: theta-bar and the first two moments of q-bar (eq. 13).

use std::ops::Range;

use crate::blocks::{INLINE_NANOSECONDS, for_each3};
use crate::ranks::{Ranks, gather};
use crate::simd::{Isa, SimdBase, SimdFrom, Vector, dispatch, f64x4, f64x8};
use crate::{Cloud, Real};

/// Columns of the sums that one block of work covers.
const TILE: usize = 512;
/// Clouds with fewer coordinates are summed several rows at a time, so that the vector units have something to do.
const NARROW: usize = 16;
/// Rows of wider clouds that are added up before the sums are touched.
const ROWS: usize = 4;
/// A leaf has at least so many bytes of each coordinate: with that, the sums take at most a fifth of the cloud's memory.
const LEAF_BYTES: usize = 128;

/// How the particles of a group are cut into leaves, each with sums of its own: whoever has the particles of a leaf can add
/// them up step by step without knowing the others, and the total has the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaves {
    /// Particles of a leaf; the last may have fewer.
    pub particles: usize,
    /// Leaves of each group.
    pub count: usize,
}

impl Leaves {
    /// Runs of whole blocks of `rows` particles, for at most n of them. Where there are several groups, each is one leaf.
    pub fn new<F: Real>(groups: usize, n: usize, rows: usize) -> Self {
        let rows = rows.clamp(1, n.max(1));
        let least = LEAF_BYTES / size_of::<F>();
        let particles = if groups > 1 { n.max(1) } else { least.div_ceil(rows) * rows };
        Leaves { particles, count: n.div_ceil(particles).max(1) }
    }

    /// At most so many there are, whatever the blocks.
    pub(crate) fn most(groups: u128, n: u128, real_bytes: u128) -> u128 {
        if groups > 1 { 1 } else { n.div_ceil(LEAF_BYTES as u128 / real_bytes).max(1) }
    }
}

/// Sums over k > k_b; their size does not depend on the number of steps. A cell is a leaf of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Averages {
    /// Steps summed so far.
    pub steps: u64,
    /// Sum of theta_k.
    pub theta: Vec<f64>,
    /// Particles summed in each cell, over all steps: whole numbers.
    pub counts: Vec<f64>,
    /// What is subtracted from each coordinate of each cell before it is summed, so that nothing cancels later.
    pub shift: Vec<f64>,
    /// Sum over steps and particles of each coordinate of each cell.
    pub x: Vec<f64>,
    /// Sum over steps and particles of each coordinate's square.
    pub x2: Vec<f64>,
    d: usize,
    leaves: Leaves,
    /// Cells of a narrow cloud that one block of work covers: a division takes as long as much else of a small step.
    cells_at_once: usize,
}

impl Averages {
    /// Empty sums, for `groups` of D_x coordinates.
    pub fn new(d_theta: usize, groups: usize, d: usize, leaves: Leaves) -> Self {
        let cells = if d > 0 { groups * leaves.count } else { 0 };
        let zeros = || vec![0.0; cells * d];
        Averages {
            steps: 0,
            theta: vec![0.0; d_theta],
            counts: vec![0.0; cells],
            shift: zeros(),
            x: zeros(),
            x2: zeros(),
            d,
            leaves,
            cells_at_once: TILE / d.max(1),
        }
    }

    /// How groups are cut.
    pub fn leaves(&self) -> Leaves {
        self.leaves
    }

    /// Adds theta_k.
    pub fn add_theta(&mut self, theta: &[f64]) {
        self.steps += 1;
        self.theta.iter_mut().zip(theta).for_each(|(s, t)| *s += t);
    }

    /// The cells whose particles are these rows of the cloud, which end where cells end.
    pub(crate) fn cells(&self, cloud: &Cloud<impl Real>, rows: Range<usize>) -> Range<usize> {
        let Leaves { particles, count } = self.leaves;
        let of_cell = if count > 1 { particles } else { cloud.n() };
        rows.start.div_ceil(of_cell)..rows.end.div_ceil(of_cell)
    }

    /// Adds a cloud q_k: all of its groups, or those that have moved.
    pub fn add_cloud<F: Real>(&mut self, cloud: &Cloud<F>, moved: Option<&[u32]>) {
        if let Some(groups) = moved {
            for g in groups {
                self.add_group(cloud, *g as usize);
            }
            return;
        }
        self.add_cells_of(cloud, 0..self.counts.len());
    }

    /// Adds some cells of a cloud; the others, which are elsewhere, are only counted.
    pub(crate) fn add_cells_of<F: Real>(&mut self, cloud: &Cloud<F>, cells: Range<usize>) {
        let (n, d, Leaves { particles, count }) = (cloud.n(), self.d, self.leaves);
        // Cells lie one behind the other in the cloud, too, and have as many numbers each; the last leaf may have fewer.
        let (x, of_cell) = (cloud.as_slice(), d * if count > 1 { particles } else { n });
        let x = &x[x.len().min(cells.start * of_cell)..x.len().min(cells.end * of_cell)];
        let at_once = self.cells_at_once;
        let tile = if d > NARROW { TILE } else { at_once * d };
        let own = cells.start * d..cells.end * d;
        let parallel = x.len() as f64 * 0.5 > INLINE_NANOSECONDS && own.len() > tile;
        let counts = &self.counts[cells];
        let [shift, sums, squares] =
            [&mut self.shift, &mut self.x, &mut self.x2].map(|array| (&mut array[own.clone()], tile));
        let Ok(()) = for_each3(parallel, shift, sums, squares, |t, shift, sums, squares| {
            if d <= NARROW {
                let cells = t * at_once..counts.len().min((t + 1) * at_once);
                let x = &x[x.len().min(cells.start * of_cell)..x.len().min(cells.end * of_cell)];
                add_cells((x, of_cell), d, &counts[cells], shift, sums, squares);
                return Ok::<_, std::convert::Infallible>(());
            }
            // A tile may begin and end inside a cell, or hold many.
            let (mut from, end) = (t * tile, t * tile + sums.len());
            while from < end {
                let (cell, first) = (from / d, from % d);
                let width = (d - first).min(end - from);
                let here = from - t * tile..from - t * tile + width;
                let x = &x[x.len().min(cell * of_cell)..x.len().min((cell + 1) * of_cell)];
                if !x.is_empty() {
                    let (shift, sums, squares) =
                        (&mut shift[here.clone()], &mut sums[here.clone()], &mut squares[here]);
                    add_wide(x, d, first, counts[cell], shift, sums, squares);
                }
                from += width;
            }
            Ok(())
        });
        if count == 1 {
            self.counts.iter_mut().for_each(|total| *total += n as f64);
            return;
        }
        for (leaf, total) in self.counts.iter_mut().enumerate() {
            *total += (n.min((leaf + 1) * particles) - n.min(leaf * particles)) as f64;
        }
    }

    /// Fills in the sums of cells that are elsewhere: rank r has the cells `part(r)`.
    pub(crate) fn gather(&mut self, ranks: &dyn Ranks, part: impl Fn(usize) -> Range<usize>) {
        for array in [&mut self.shift, &mut self.x, &mut self.x2] {
            gather(ranks, array, |rank| {
                let cells = part(rank);
                cells.start * self.d..cells.end * self.d
            });
        }
    }

    /// Adds one group of a cloud in which each group is one leaf.
    fn add_group<F: Real>(&mut self, cloud: &Cloud<F>, g: usize) {
        let (d, x, cell) = (self.d, cloud.group(g), g * self.d..(g + 1) * self.d);
        let [shift, sums, squares] =
            [&mut self.shift, &mut self.x, &mut self.x2].map(|array| &mut array[cell.clone()]);
        if d > NARROW {
            add_wide(x, d, 0, self.counts[g], shift, sums, squares);
        } else {
            add_cells((x, x.len()), d, &self.counts[g..=g], shift, sums, squares);
        }
        self.counts[g] += cloud.n() as f64;
    }

    /// theta-bar, or `None` before the first averaged step.
    pub fn theta_mean(&self) -> Option<Vec<f64>> {
        (self.steps > 0).then(|| self.theta.iter().map(|s| s / self.steps as f64).collect())
    }

    /// Mean and variance of each latent coordinate under q-bar, group by group, or `None` if some group has no cloud yet.
    pub fn posterior(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let groups = self.counts.chunks_exact(self.leaves.count);
        if self.counts.is_empty() || groups.clone().any(|counts| counts[0] == 0.0) {
            return None;
        }
        let moments = groups.enumerate().flat_map(|(g, counts)| {
            (0..self.d).map(move |j| {
                let all = self.combined(g * counts.len(), counts, j);
                (all.mean, (all.squares / all.count).max(0.0))
            })
        });
        Some(moments.unzip())
    }

    /// The moments of coordinate j over some cells, from `first` on, by a binary tree over their numbers.
    fn combined(&self, first: usize, counts: &[f64], j: usize) -> Moments {
        if counts.len() > 1 {
            let (left, right) = counts.split_at(counts.len().next_power_of_two() / 2);
            return self.combined(first, left, j).and(self.combined(first + left.len(), right, j));
        }
        let (count, at) = (counts[0], first * self.d + j);
        let mean = if count > 0.0 { self.x[at] / count } else { 0.0 };
        Moments { count, mean: self.shift[at] + mean, squares: self.x2[at] - mean * self.x[at] }
    }
}

/// The number, the mean and the sum of squared deviations of some values.
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Those of both sets of values together.
    fn and(self, other: Self) -> Self {
        if other.count == 0.0 {
            return self;
        }
        let (count, apart) = (self.count + other.count, other.mean - self.mean);
        Moments {
            count,
            mean: self.mean + apart * (other.count / count),
            squares: self.squares + other.squares + apart * apart * (self.count * other.count / count),
        }
    }
}

/// Adds columns `first..first + sums.len()` of the rows of a cell, which has so many so far.
fn add_wide<F: Real>(
    x: &[F],
    d: usize,
    first: usize,
    count: f64,
    shift: &mut [f64],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    if count == 0.0 {
        shift.iter_mut().zip(&x[first..]).for_each(|(shift, x)| *shift = x.f64());
    }
    add_columns(x, d, first, shift, sums, squares);
}

dispatch! {
    /// Adds columns `first..first + sums.len()` of a row-major cloud.
    fn add_columns<F: Real>(x: &[F], d: usize, first: usize, shift: &[f64], sums: &mut [f64], squares: &mut [f64])
        = columns_kernel
}

#[inline(always)]
fn columns_kernel<F: Real, const FMA: bool>(
    x: &[F],
    d: usize,
    first: usize,
    shift: &[f64],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    let width = sums.len();
    let (shift, squares) = (&shift[..width], &mut squares[..width]);
    let mut groups = x.chunks_exact(ROWS * d);
    for rows in &mut groups {
        let (a, b) = (&rows[first..first + width], &rows[d + first..d + first + width]);
        let (c, e) =
            (&rows[2 * d + first..2 * d + first + width], &rows[3 * d + first..3 * d + first + width]);
        for j in 0..width {
            let s = shift[j];
            let (a, b, c, e) = (a[j].f64() - s, b[j].f64() - s, c[j].f64() - s, e[j].f64() - s);
            sums[j] += (a + b) + (c + e);
            squares[j] += (a * a + b * b) + (c * c + e * e);
        }
    }
    for row in groups.remainder().chunks_exact(d) {
        let row = &row[first..first + width];
        for j in 0..width {
            let v = row[j].f64() - shift[j];
            sums[j] += v;
            squares[j] += v * v;
        }
    }
}

dispatch! {
    /// Adds all rows of some cells with at most `NARROW` columns, so many numbers to each, all in one call: there may be a
    /// cell for every few numbers.
    fn add_cells<F: Real>(cells: (&[F], usize), d: usize, counts: &[f64], shift: &mut [f64], sums: &mut [f64], squares: &mut [f64])
        = simd cells_kernel
}

#[inline(always)]
fn cells_kernel<F: Real, S: Isa>(
    simd: S,
    (x, of_cell): (&[F], usize),
    d: usize,
    counts: &[f64],
    shift: &mut [f64],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    let mut some_are_new = false;
    counts.iter().for_each(|count| some_are_new |= *count == 0.0);
    if some_are_new {
        for ((x, shift), count) in x.chunks(of_cell).zip(shift.chunks_exact_mut(d)).zip(counts) {
            if *count == 0.0 {
                shift.iter_mut().zip(x).for_each(|(shift, x)| *shift = x.f64());
            }
        }
    }
    if d == 1 {
        return add_singles(simd, x, of_cell, shift, sums, squares);
    }
    if counts.len() == 1 {
        return narrow_kernel(x, d, shift, sums, squares); // without the divisions that cutting takes
    }
    let cells = shift.chunks_exact(d).zip(sums.chunks_exact_mut(d)).zip(squares.chunks_exact_mut(d));
    for (x, ((shift, sums), squares)) in x.chunks(of_cell).zip(cells) {
        narrow_kernel(x, d, shift, sums, squares);
    }
}

/// Cells of one column with n rows: lanes run over the rows, or over the cells where the rows are few.
#[inline(always)]
fn add_singles<F: Real, S: Isa>(
    simd: S,
    x: &[F],
    n: usize,
    shift: &[f64],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    let mut done = 0;
    if n < NARROW {
        let cells = shift.as_chunks::<4>().0.iter().zip(sums.as_chunks_mut::<4>().0);
        let cells = cells.zip(squares.as_chunks_mut::<4>().0);
        for (x, ((shift, sums), squares)) in x.chunks_exact(4 * n).zip(cells) {
            add_four(x, n, shift, sums, squares);
            done += 4;
        }
    }
    let cells = shift[done..].iter().zip(&mut sums[done..]).zip(&mut squares[done..]);
    for (x, ((shift, sum), square)) in x[done * n..].chunks(n).zip(cells) {
        let rest = add_sixteens(simd, x, *shift, sum, square);
        let rest = add_fours(simd, rest, *shift, sum, square);
        for x in rest {
            let v = x.f64() - *shift;
            *sum += v;
            *square += v * v;
        }
    }
}

/// Adds the rows of a cell of one column sixteen at a time, and returns the rest.
#[inline(always)]
fn add_sixteens<'a, F: Real, S: Isa>(
    simd: S,
    x: &'a [F],
    shift: f64,
    sum: &mut f64,
    square: &mut f64,
) -> &'a [F] {
    let (rows, rest) = x.as_chunks::<16>();
    if !rows.is_empty() {
        let shift = f64x8::splat(simd, shift);
        let mut sums = [[f64x8::splat(simd, 0.0); 2]; 2];
        for row in rows {
            for (half, row) in row.as_chunks::<8>().0.iter().enumerate() {
                let v = f64x8::simd_from(simd, row.map(F::f64)) - shift;
                sums[0][half] += v;
                sums[1][half] += v * v;
            }
        }
        let [of_values, of_squares] = sums;
        *sum += (of_values[0] + of_values[1]).total();
        *square += (of_squares[0] + of_squares[1]).total();
    }
    rest
}

/// The same four at a time.
#[inline(always)]
fn add_fours<'a, F: Real, S: Isa>(
    simd: S,
    x: &'a [F],
    shift: f64,
    sum: &mut f64,
    square: &mut f64,
) -> &'a [F] {
    let (rows, rest) = x.as_chunks::<4>();
    if !rows.is_empty() {
        let shift = f64x4::splat(simd, shift);
        let mut sums = [f64x4::splat(simd, 0.0); 2];
        for row in rows {
            let v = f64x4::simd_from(simd, row.map(F::f64)) - shift;
            sums[0] += v;
            sums[1] += v * v;
        }
        *sum += sums[0].total();
        *square += sums[1].total();
    }
    rest
}

/// Four cells of n rows at once, with the bits of one by one.
#[inline(always)]
fn add_four<F: Real>(x: &[F], n: usize, shift: &[f64; 4], sums: &mut [f64; 4], squares: &mut [f64; 4]) {
    let x = [&x[..n], &x[n..2 * n], &x[2 * n..3 * n], &x[3 * n..4 * n]];
    let (mut s1, mut s2) = ([[0.0; 4]; 4], [[0.0; 4]; 4]);
    let mut i = 0;
    while i + 4 <= n {
        for lane in 0..4 {
            for c in 0..4 {
                let v = x[c][i + lane].f64() - shift[c];
                s1[lane][c] += v;
                s2[lane][c] += v * v;
            }
        }
        i += 4;
    }
    if i > 0 {
        for c in 0..4 {
            sums[c] += (s1[0][c] + s1[2][c]) + (s1[1][c] + s1[3][c]);
            squares[c] += (s2[0][c] + s2[2][c]) + (s2[1][c] + s2[3][c]);
        }
    }
    while i < n {
        for c in 0..4 {
            let v = x[c][i].f64() - shift[c];
            sums[c] += v;
            squares[c] += v * v;
        }
        i += 1;
    }
}

/// Adds all rows of a cloud with at most `NARROW` columns, and more than one: lane j holds coordinate j mod d.
#[inline(always)]
fn narrow_kernel<F: Real>(x: &[F], d: usize, shift: &[f64], sums: &mut [f64], squares: &mut [f64]) {
    if x.len() == d {
        return add_row(x, shift, sums, squares); // as the lanes would, and with the same bits
    }
    // A power of two is a whole number of rows of 2, 4, 8 or 16, in registers; other widths take what fits.
    let rest = if d.is_power_of_two() {
        add_lanes::<F, NARROW>(x, d, NARROW, shift, sums, squares)
    } else {
        add_lanes::<F, NARROW>(x, d, NARROW / d * d, shift, sums, squares)
    };
    let rest = if d.is_power_of_two() && d <= 4 {
        add_lanes::<F, 4>(rest, d, 4, shift, sums, squares)
    } else {
        rest
    };
    for row in rest.chunks_exact(d) {
        add_row(row, shift, sums, squares);
    }
}

/// Adds one row.
#[inline(always)]
fn add_row<F: Real>(row: &[F], shift: &[f64], sums: &mut [f64], squares: &mut [f64]) {
    for (((x, shift), sum), square) in row.iter().zip(shift).zip(sums).zip(squares) {
        let v = x.f64() - shift;
        *sum += v;
        *square += v * v;
    }
}

/// Adds what fills the lanes, and returns the rest.
#[inline(always)]
fn add_lanes<'a, F: Real, const LANES: usize>(
    x: &'a [F],
    d: usize,
    lanes: usize,
    shift: &[f64],
    sums: &mut [f64],
    squares: &mut [f64],
) -> &'a [F] {
    if x.len() < lanes {
        return x;
    }
    let mut shifts = [0.0f64; LANES];
    shifts[..lanes].chunks_exact_mut(d).for_each(|row| row.copy_from_slice(&shift[..d]));
    let (mut s1, mut s2) = ([0.0f64; LANES], [0.0f64; LANES]);
    let mut rows = x.chunks_exact(lanes);
    for row in &mut rows {
        for j in 0..lanes {
            let v = row[j].f64() - shifts[j];
            s1[j] += v;
            s2[j] += v * v;
        }
    }
    fold_lanes(&mut s1, lanes, d, sums);
    fold_lanes(&mut s2, lanes, d, squares);
    rows.remainder()
}

/// Adds the lanes up. Apart, because the compiler would otherwise keep the lanes in pairs, as the last of these
/// additions want them, and not in fours.
#[inline(never)]
fn fold_lanes<const LANES: usize>(lanes: &mut [f64; LANES], used: usize, d: usize, sums: &mut [f64]) {
    let mut n = used;
    // By halves while they hold whole rows: one addition after the other would take as long as a small step.
    while d.is_power_of_two() && n > d {
        n /= 2;
        for j in 0..n {
            lanes[j] += lanes[n + j];
        }
    }
    for row in lanes[..n].chunks_exact(d) {
        sums.iter_mut().zip(row).for_each(|(s, v)| *s += v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_equal_the_plain_sums() {
        for (groups, n, d) in [
            (1, 1, 1),
            (1, 7, 1),
            (1, 100, 1),
            (1, 13, 3),
            (1, 5, 16),
            (1, 9, 17),
            (1, 4, 64),
            (1, 3, 700),
            (1, 90, 1100),
            (1, 40, 9),
            (1, 50, 1),
            (700, 3, 1),
            (40, 20, 2),
            (3, 5, 17),
            (5, 4, 300),
        ] {
            // Far from zero, where sums of plain squares would leave no digit.
            let value = |i: usize| (i as f64 * 0.37).sin() + 1e7;
            let rows: Vec<f64> = (0..groups * n * d).map(value).collect();
            let cloud = Cloud::from_rows(rows.clone(), groups, d);
            let mut averages = Averages::new(1, groups, d, Leaves::new::<f64>(groups, n, 3));
            for theta in [2.0, 3.0] {
                averages.add_theta(&[theta]);
                averages.add_cloud(&cloud, None);
            }
            if groups > 1 {
                averages.add_cloud(&cloud, Some(&[1]));
            }
            assert_eq!(averages.theta_mean().unwrap(), [2.5]);
            let (mean, variance) = averages.posterior().unwrap();
            for j in 0..groups * d {
                let column: Vec<f64> = (0..n).map(|i| rows[(j / d * n + i) * d + j % d]).collect();
                let m = column.iter().map(|x| x - 1e7).sum::<f64>() / n as f64 + 1e7;
                let v = column.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n as f64;
                assert!((mean[j] - m).abs() < 1e-8 && (variance[j] - v).abs() < 1e-8, "{groups} {n} {d} {j}");
            }
        }
    }
}
