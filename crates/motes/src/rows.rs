//! Rows: how the particles of groups are cut into blocks, and which noise belongs to them.

use std::ops::Range;

use crate::blocks::{INLINE_NANOSECONDS, for_each};
use crate::noise::Noise;
use crate::ranks::{Ranks, gather, share, sum_over_ranks};
use crate::{At, Model, ModelError, Real, Stop, Want};

/// Coordinates that one worker moves at a time where a block has all workers: some 30 microseconds of noise.
const SHARE: usize = 1 << 14;

/// How the rows of some groups, n to each, are cut into blocks: whole groups, or some particles of the only one.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    pub groups: usize,
    pub n: usize,
    pub rows: usize,
    pub count: usize,
    pub parallel: bool,
    /// The blocks that are evaluated here, and their rows: others may have the rest.
    pub own: [usize; 2],
    pub own_rows: [usize; 2],
    /// Blocks that must stay together.
    unit: usize,
}

impl Blocks {
    /// With blocks that stay together, as many as make up so many rows.
    pub fn in_units_of(self, rows: usize) -> Self {
        Blocks { unit: (rows / self.rows).max(1), ..self }
    }

    /// With a rank's share of the blocks.
    pub fn over(self, ranks: &dyn Ranks) -> Self {
        if ranks.size() == 1 {
            return self;
        }
        let own = self.of_rank(ranks, ranks.rank());
        let rows = self.rows_of(ranks, ranks.rank());
        let parallel = self.parallel && own.len() > 1;
        Blocks { own: [own.start, own.end], own_rows: [rows.start, rows.end], parallel, ..self }
    }

    /// A rank's share of the blocks.
    fn of_rank(&self, ranks: &dyn Ranks, rank: usize) -> Range<usize> {
        let units = share(rank, ranks.size(), self.count.div_ceil(self.unit));
        self.count.min(units.start * self.unit)..self.count.min(units.end * self.unit)
    }

    /// Their rows.
    pub fn rows_of(&self, ranks: &dyn Ranks, rank: usize) -> Range<usize> {
        let own = self.of_rank(ranks, rank);
        let all = self.groups * self.n;
        all.min(own.start * self.rows)..all.min(own.end * self.rows)
    }

    /// The part that is evaluated here of an array with so many numbers for each row.
    #[inline(always)]
    pub fn own<'a, T>(&self, rows: &'a mut [T], width: usize) -> &'a mut [T] {
        &mut rows[self.own_rows[0] * width..self.own_rows[1] * width]
    }

    /// The same of the blocks' slots.
    #[inline(always)]
    pub fn own_slots<'a>(&self, slots: &'a mut [f64], width: usize) -> &'a mut [f64] {
        &mut slots[self.own[0] * width..self.own[1] * width]
    }

    /// Fills in what other ranks have written for their rows, so many numbers to each.
    pub fn gather<T: bytemuck::Pod>(&self, ranks: &dyn Ranks, rows: &mut [T], width: usize) {
        gather(ranks, rows, |rank| {
            let rows = self.rows_of(ranks, rank);
            rows.start * width..rows.end * width
        });
    }

    /// The same for the slots of their blocks.
    pub fn gather_slots(&self, ranks: &dyn Ranks, slots: &mut [f64], width: usize) {
        gather(ranks, slots, |rank| {
            let own = self.of_rank(ranks, rank);
            own.start * width..own.end * width
        });
    }

    /// Adds up the slots of all blocks, wherever they were filled; the total is in the first.
    pub fn sum<'a>(&self, ranks: &dyn Ranks, slots: &'a mut [f64], width: usize) -> &'a mut [f64] {
        sum_over_ranks(ranks, &mut slots[..self.count * width], width, |rank| self.of_rank(ranks, rank))
    }

    pub fn new<F: Real>(model: &dyn Model<F>, groups: usize, n: usize) -> Self {
        let (all, wanted) = (groups * n, model.rows_per_block(n));
        let rows = match groups {
            _ if model.whole_batch() => all,
            2.. => (wanted / n.max(1)).max(1) * n,
            _ => wanted,
        };
        let rows = rows.clamp(1, all.max(1));
        let count = all.div_ceil(rows);
        let work = all as f64 * model.nanoseconds_per_row();
        let parallel = count > 1 && work > INLINE_NANOSECONDS;
        Blocks { groups, n, rows, count, parallel, own: [0, count], own_rows: [0, all], unit: 1 }
    }

    /// Rows of block b.
    pub fn range(&self, b: usize) -> Range<usize> {
        b * self.rows..((b + 1) * self.rows).min(self.groups * self.n)
    }

    /// Where block b of the rows x of some groups is evaluated, on all data.
    pub fn at<'a, F: Real>(
        &self,
        b: usize,
        theta: &'a [f64],
        groups: &'a [u32],
        x: &'a [F],
        stop: Stop<'a>,
    ) -> At<'a, F> {
        let (rows, d) = (self.range(b), x.len() / (self.groups * self.n));
        At {
            groups: self.groups_of(b, groups).0,
            parallel: self.count == 1,
            stop,
            ..At::new(theta, &x[rows.start * d..rows.end * d])
        }
    }

    /// The groups of block b, and the number of its first particle in the first of them.
    pub fn groups_of<'a>(&self, b: usize, groups: &'a [u32]) -> (&'a [u32], usize) {
        match self.groups {
            0 | 1 => (groups, b * self.rows),
            _ => {
                let rows = self.range(b);
                (&groups[rows.start / self.n..rows.end / self.n], 0)
            }
        }
    }
}

/// Asks for gradients and log densities, as far as they are wanted. A row where the model has no value is `rejected`, with a
/// gradient of zero and a log density of -inf; the others are evaluated all the same.
#[inline]
pub(crate) fn evaluate_rows<F: Real>(
    model: &dyn Model<F>,
    at: At<'_, F>,
    mut grad: Option<&mut [F]>,
    mut density: Option<&mut [f64]>,
    scratch: &mut [F],
    mut rejected: impl FnMut(usize),
) -> Result<(), ModelError> {
    let want = Want {
        grad_x: grad.as_deref_mut(),
        log_density: density.as_deref_mut(),
        ..Want::nothing(&mut *scratch)
    };
    match model.evaluate(at, want) {
        Err(ModelError::Reject(_)) => {}
        other => return other,
    }
    // Which row it is, is seen one by one.
    let d = model.d_x();
    let rows = at.x.len() / d;
    for i in 0..rows {
        let (row, group) = (i * d..(i + 1) * d, i * at.groups.len() / rows);
        let (mut grad, mut density) = (
            grad.as_deref_mut().map(|grad| &mut grad[row.clone()]),
            density.as_deref_mut().map(|l| &mut l[i..=i]),
        );
        let alone = At { groups: &at.groups[group..=group], x: &at.x[row.clone()], ..at };
        let want = Want {
            grad_x: grad.as_deref_mut(),
            log_density: density.as_deref_mut(),
            ..Want::nothing(&mut *scratch)
        };
        match model.evaluate(alone, want) {
            Err(ModelError::Reject(_)) => {
                grad.into_iter().for_each(|grad| grad.fill(F::of(0.0)));
                density.into_iter().for_each(|density| density.fill(f64::NEG_INFINITY));
                rejected(i);
            }
            other => other?,
        }
    }
    Ok(())
}

/// Which draws belong to the rows of a block: row (g, n) has number g * N_max + n, however many particles there are now and
/// whichever groups move with it.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    /// The groups of the block.
    pub groups: &'a [u32],
    /// The number of the first particle.
    pub first: usize,
    /// N_max.
    pub most: usize,
    /// Whether the rows of one group follow on those of the other without a gap.
    pub together: bool,
}

impl Numbers<'_> {
    /// The block's rows in runs of consecutive numbers: the number of the first, and which rows they are.
    pub fn runs(&self, rows: usize) -> impl Iterator<Item = (u64, Range<usize>)> + '_ {
        let each = if self.together { rows } else { rows / self.groups.len().max(1) }.max(1);
        (0..rows / each).map(move |j| (self.number(j), j * each..(j + 1) * each))
    }

    /// The number of the first row of group j of the block.
    fn number(&self, j: usize) -> u64 {
        u64::from(self.groups[j]) * self.most as u64 + self.first as u64
    }

    /// Fills x with the standard normals of the rows.
    pub fn normals<F: Real>(&self, noise: &Noise, step: u64, d: usize, x: &mut [F]) {
        for (number, rows) in self.runs(x.len() / d) {
            F::normals(noise, step, number * d as u64, &mut x[rows.start * d..rows.end * d]);
        }
    }

    /// Moves the rows by the Langevin kernel; false if any result is out of range. A block that has all workers, as one of a model
    /// that others evaluate, shares its noise among them; draws have numbers, so that the cut is of no consequence.
    #[inline(always)]
    pub fn langevin<F: Real>(
        &self,
        noise: &Noise,
        (step, parallel): (u64, bool),
        d: usize,
        x: &mut [F],
        grad: &[F],
        h: f64,
    ) -> bool {
        if self.together && parallel && x.len() > SHARE {
            let first = self.number(0) * d as u64;
            let moved = for_each(true, (x, SHARE), |share, x| {
                let from = share * SHARE;
                let grad = &grad[from..from + x.len()];
                if F::langevin(noise, step, first + from as u64, x, grad, h) { Ok(()) } else { Err(()) }
            });
            return moved.is_ok();
        }
        if self.together {
            return F::langevin(noise, step, self.number(0) * d as u64, x, grad, h);
        }
        let mut inside = true;
        for (number, rows) in self.runs(x.len() / d) {
            let row = rows.start * d..rows.end * d;
            inside &= F::langevin(noise, step, number * d as u64, &mut x[row.clone()], &grad[row], h);
        }
        inside
    }

    /// One uniform for each row.
    pub fn uniforms(&self, noise: &Noise, step: u64, out: &mut [f64]) {
        for (number, rows) in self.runs(out.len()) {
            noise.uniforms(step, number, &mut out[rows]);
        }
    }
}
