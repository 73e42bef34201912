//! Products of small matrices in `f32`, on one thread: the shapes here are small and many.

use motes::simd::{Isa, SimdBase, SimdFloat, dispatch};

/// What the columns of a right factor are a multiple of: the widest vector.
pub(super) const COLUMNS: usize = 16;
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
        tiles([m, k, n], a, b, c, add);
    } else if !add {
        c[..m * n].fill(0.0);
    }
}

dispatch! {
    fn tiles(size: [usize; 3], a: Matrix<'_>, b: &[f32], c: &mut [f32], add: bool) = simd tiles_kernel
}

#[inline(always)]
fn tiles_kernel<S: Isa>(simd: S, [m, k, n]: [usize; 3], a: Matrix<'_>, b: &[f32], c: &mut [f32], add: bool) {
    let mut i = 0;
    while i < m {
        let rows = (m - i).min(ROWS);
        let a = Matrix { values: &a.values[i * a.row..], ..a };
        let mut j = 0;
        while j < n {
            // Where the vectors are as wide as a step of the columns, the last one may stand alone.
            let vectors = if n - j >= 2 * S::f32s::LEN { 2 } else { 1 };
            let (b, c) = (&b[j..], &mut c[i * n + j..]);
            match (rows, vectors) {
                (6, 2) => tile::<S, 6, 2>(simd, k, a, b, c, n, add),
                (5, 2) => tile::<S, 5, 2>(simd, k, a, b, c, n, add),
                (4, 2) => tile::<S, 4, 2>(simd, k, a, b, c, n, add),
                (3, 2) => tile::<S, 3, 2>(simd, k, a, b, c, n, add),
                (2, 2) => tile::<S, 2, 2>(simd, k, a, b, c, n, add),
                (1, 2) => tile::<S, 1, 2>(simd, k, a, b, c, n, add),
                (6, _) => tile::<S, 6, 1>(simd, k, a, b, c, n, add),
                (5, _) => tile::<S, 5, 1>(simd, k, a, b, c, n, add),
                (4, _) => tile::<S, 4, 1>(simd, k, a, b, c, n, add),
                (3, _) => tile::<S, 3, 1>(simd, k, a, b, c, n, add),
                (2, _) => tile::<S, 2, 1>(simd, k, a, b, c, n, add),
                (_, _) => tile::<S, 1, 1>(simd, k, a, b, c, n, add),
            }
            j += vectors * S::f32s::LEN;
        }
        i += rows;
    }
}

/// A tile of R rows and C vectors, its sums in registers: each is one chain over k, whatever the width of the vectors.
#[inline(always)]
fn tile<S: Isa, const R: usize, const C: usize>(
    simd: S,
    k: usize,
    a: Matrix<'_>,
    b: &[f32],
    c: &mut [f32],
    n: usize,
    add: bool,
) {
    let lanes = S::f32s::LEN;
    let column = a.column;
    let rows: [&[f32]; R] = std::array::from_fn(
        #[inline(always)]
        |r| &a.values[r * a.row..][..(k - 1) * column + 1],
    );
    let mut sums = [[S::f32s::splat(simd, 0.0); C]; R];
    for (p, b) in b.chunks(n).take(k).enumerate() {
        let b = &b[..C * lanes];
        let mut factors = [S::f32s::splat(simd, 0.0); C];
        for j in 0..C {
            factors[j] = S::f32s::from_slice(simd, &b[j * lanes..(j + 1) * lanes]);
        }
        for r in 0..R {
            let x = S::f32s::splat(simd, rows[r][p * column]);
            for j in 0..C {
                sums[r][j] = x.mul_add(factors[j], sums[r][j]);
            }
        }
    }
    for r in 0..R {
        let c = &mut c[r * n..][..C * lanes];
        for j in 0..C {
            let c = &mut c[j * lanes..(j + 1) * lanes];
            let sum = if add { sums[r][j] + S::f32s::from_slice(simd, c) } else { sums[r][j] };
            sum.store_slice(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::{at_every_level, is_fused};
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
            for (add, flip) in [(false, false), (false, true), (true, false), (true, true)] {
                let left = if flip { Matrix::transposed(&a, m) } else { Matrix::rows(&a, k) };
                let from = |at: usize| if add { c[at] } else { 0.0 };
                let factors = |at: usize, p: usize| {
                    let (i, j) = (at / n, at % n);
                    (if flip { a[p * m + i] } else { a[i * k + p] }, b[p * n + j])
                };
                let check = |level: &str, values: &[f32]| {
                    for (at, &value) in values.iter().enumerate() {
                        let terms = (0..k).map(|p| factors(at, p)).map(|(a, b)| f64::from(a) * f64::from(b));
                        let truth = f64::from(from(at)) + terms.sum::<f64>();
                        assert!(
                            (f64::from(value) - truth).abs() < 1e-5 * (1.0 + k as f64),
                            "{value} and {truth}"
                        );
                        // A chain over k, whatever the vectors' width.
                        let chain = (0..k).map(|p| factors(at, p)).fold(0.0f32, |sum, (a, b)| {
                            if is_fused(level) { a.mul_add(b, sum) } else { a * b + sum }
                        });
                        assert_eq!(value, chain + from(at), "{level}");
                    }
                };
                let mut chosen = c.clone();
                product([m, k, n], left, &b, &mut chosen, add);
                check(motes::simd::level_name(), &chosen);
                if k == 0 {
                    continue;
                }
                let levels = at_every_level!(simd => {
                    let mut c = c.clone();
                    tiles_kernel(simd, [m, k, n], left, &b, &mut c, add);
                    c
                });
                levels.iter().for_each(|(level, values)| check(level, values));
            }
        }
    }
}
