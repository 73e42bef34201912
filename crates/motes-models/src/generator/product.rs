//! Products of small matrices in `f32`, on one thread: the shapes here are small and many.

use super::lanes::{LANES, Lanes};
use motes::simd::dispatch;

/// Columns of a tile: two vectors.
pub(super) const COLUMNS: usize = 2 * LANES;
/// Rows of a tile: with two vectors each, their sums leave four of sixteen registers for the factors.
pub(super) const ROWS: usize = 6;

/// A matrix inside a slice, row by row; element (i, j) is at `i * row + j * column`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    values: &'a [f32],
    row: usize,
    column: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `width` values each.
    pub fn rows(values: &'a [f32], width: usize) -> Self {
        Self { values, row: width, column: 1 }
    }

    /// The transpose of rows of `width` values each.
    pub fn transposed(values: &'a [f32], width: usize) -> Self {
        Self { values, row: 1, column: width }
    }
}

/// `c = a b`, or `c += a b` if `add`: `a` is m x k, `b` and `c` are rows of n values, n a multiple of [`COLUMNS`].
pub(super) fn product([m, k, n]: [usize; 3], a: Matrix<'_>, b: &[f32], c: &mut [f32], add: bool) {
    assert!(n % COLUMNS == 0 && b.len() >= k * n && c.len() >= m * n, "a product of {m} x {k} x {n}");
    if m == 0 || n == 0 {
        return;
    }
    if k > 0 {
        assert!(a.values.len() > (m - 1) * a.row + (k - 1) * a.column, "a left factor of {m} x {k}");
    }
    tiles([m, k, n], a, b, c, add);
}

dispatch! {
    fn tiles(size: [usize; 3], a: Matrix<'_>, b: &[f32], c: &mut [f32], add: bool) = tiles_kernel
}

#[inline(always)]
fn tiles_kernel<const FMA: bool>([m, k, n]: [usize; 3], a: Matrix<'_>, b: &[f32], c: &mut [f32], add: bool) {
    let mut i = 0;
    while i < m {
        let rows = (m - i).min(ROWS);
        for j in (0..n).step_by(COLUMNS) {
            // SAFETY: `product` has checked that rows i.. of a, all of b and rows i.. of c lie inside their slices.
            unsafe {
                let a_values = a.values.as_ptr().add(i * a.row);
                let (a, b, c) =
                    ((a_values, a.row, a.column), (b.as_ptr().add(j), n), (c.as_mut_ptr().add(i * n + j), n));
                match rows {
                    6 => tile::<FMA, 6>(k, a, b, c, add),
                    5 => tile::<FMA, 5>(k, a, b, c, add),
                    4 => tile::<FMA, 4>(k, a, b, c, add),
                    3 => tile::<FMA, 3>(k, a, b, c, add),
                    2 => tile::<FMA, 2>(k, a, b, c, add),
                    _ => tile::<FMA, 1>(k, a, b, c, add),
                }
            }
        }
        i += rows;
    }
}

/// A tile of R rows and two vectors, its sums in registers.
///
/// # Safety
/// R rows and k columns of a, k rows of two vectors of b, and R such rows of c must be there.
#[inline(always)]
unsafe fn tile<const FMA: bool, const R: usize>(
    k: usize,
    (a, row, column): (*const f32, usize, usize),
    (b, b_width): (*const f32, usize),
    (c, c_width): (*mut f32, usize),
    add: bool,
) {
    let mut sums = [[Lanes::<FMA>::zero(); 2]; R];
    // SAFETY: the caller's.
    unsafe {
        for p in 0..k {
            let (b0, b1) = (Lanes::read(b.add(p * b_width)), Lanes::read(b.add(p * b_width + LANES)));
            for (r, [s0, s1]) in sums.iter_mut().enumerate() {
                let x = Lanes::splat(*a.add(r * row + p * column));
                *s0 = x.times_plus(b0, *s0);
                *s1 = x.times_plus(b1, *s1);
            }
        }
        for (r, [s0, s1]) in sums.into_iter().enumerate() {
            let c = c.add(r * c_width);
            let (s0, s1) = if add { (s0 + Lanes::read(c), s1 + Lanes::read(c.add(LANES))) } else { (s0, s1) };
            s0.write(c);
            s1.write(c.add(LANES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motes::noise::{Noise, Purpose};

    #[test]
    fn products_agree_with_plain_sums() {
        let noise = Noise::new(1, Purpose::Check);
        for (step, [m, k, n]) in
            [[1, 1, 16], [6, 3, 32], [13, 64, 48], [64, 17, 64], [5, 0, 16]].into_iter().enumerate()
        {
            let (mut a, mut b, mut c) = (vec![0.0; m * k], vec![0.0; k * n], vec![0.0; m * n]);
            noise.normals_f32(3 * step as u64, 0, &mut a);
            noise.normals_f32(3 * step as u64 + 1, 0, &mut b);
            noise.normals_f32(3 * step as u64 + 2, 0, &mut c);
            for add in [false, true] {
                let start = c.clone();
                let expected = |i: usize, j: usize, flip: bool| {
                    let from = if add { f64::from(start[i * n + j]) } else { 0.0 };
                    let a = |p: usize| f64::from(if flip { a[p * m + i] } else { a[i * k + p] });
                    from + (0..k).map(|p| a(p) * f64::from(b[p * n + j])).sum::<f64>()
                };
                for flip in [false, true] {
                    let mut c = start.clone();
                    let left = if flip { Matrix::transposed(&a, m) } else { Matrix::rows(&a, k) };
                    product([m, k, n], left, &b, &mut c, add);
                    let mut portable = start.clone();
                    tiles_kernel::<false>([m, k, n], left, &b, &mut portable, add);
                    for (at, (&c, &p)) in c.iter().zip(&portable).enumerate() {
                        let e = expected(at / n, at % n, flip);
                        assert!((f64::from(c) - e).abs() < 1e-5 * (1.0 + k as f64), "{c} and {e}");
                        assert!((f64::from(p) - e).abs() < 1e-5 * (1.0 + k as f64), "portable: {p} and {e}");
                    }
                }
            }
        }
    }
}
