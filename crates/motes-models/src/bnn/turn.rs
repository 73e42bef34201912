//! Hidden units as rows and as lanes: the weights turned one way, their gradient the other.

use motes::Real;
use motes::simd::dispatch;

/// Successive columns of the features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// Where they begin among the columns of their tile.
    at: usize,
    /// The first of them.
    column: usize,
    len: usize,
}

/// The runs of a tile's columns.
pub(super) fn runs(columns: &[u32]) -> Vec<Run> {
    let mut at = 0;
    let successive = columns.chunk_by(|a, b| a + 1 == *b);
    successive
        .map(|run| {
            at += run.len();
            Run { at: at - run.len(), column: run[0] as usize, len: run.len() }
        })
        .collect()
}

impl Run {
    /// Cuts the run into steps of `whole` columns if it has as many, the last of which begins earlier so that it is whole
    /// too, else into single ones: where each begins.
    #[inline(always)]
    fn steps(self, whole: usize) -> (usize, impl Iterator<Item = usize>) {
        let step = if self.len >= whole { whole } else { 1 };
        (step, (0..self.len.div_ceil(step)).map(move |i| (i * step).min(self.len - step)))
    }
}

/// Weights of successive hidden units: a row of `inputs` numbers for each.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, F> {
    pub w: &'a [F],
    pub inputs: usize,
    /// How many there are; what lacks to a vector of lanes is zero.
    pub units: usize,
}

/// A gradient by rows: minus the precision of the prior times w, plus the scale of the likelihood times its part.
#[derive(Clone, Copy)]
pub(super) struct Factors<F> {
    pub minus_precision: F,
    pub scale: F,
}

dispatch! {
    /// Writes a vector of lanes for each column, `width` numbers apart.
    pub(super) fn to_lanes<F: Real>(rows: Rows<'_, F>, runs: &[Run], width: usize, out: &mut [F])
        = unsafe to_lanes_kernel
}

/// # Safety
///
/// With `FMA`, the processor must have AVX2 and FMA.
#[inline(always)]
unsafe fn to_lanes_kernel<F: Real, const FMA: bool>(
    rows: Rows<'_, F>,
    runs: &[Run],
    width: usize,
    out: &mut [F],
) {
    // SAFETY: what is asked of the caller.
    unsafe {
        if size_of::<F>() == 4 {
            to_lanes_of::<F, FMA, 8>(rows, runs, width, out);
        } else {
            to_lanes_of::<F, FMA, 4>(rows, runs, width, out);
        }
    }
}

/// # Safety
///
/// With `FMA`, the processor must have AVX2 and FMA.
#[inline(always)]
unsafe fn to_lanes_of<F: Real, const FMA: bool, const L: usize>(
    rows: Rows<'_, F>,
    runs: &[Run],
    width: usize,
    out: &mut [F],
) {
    let Rows { w, inputs, units } = rows;
    for run in runs {
        let (step, steps) = run.steps(if units == L { L } else { 1 });
        for i in steps {
            if step == L {
                let mut block = [[F::default(); L]; L];
                for l in 0..L {
                    block[l].copy_from_slice(&w[l * inputs + run.column + i..][..L]);
                }
                // SAFETY: what is asked of the caller.
                let block = unsafe { turned::<F, FMA, L>(block) };
                for (j, lanes) in block.iter().enumerate() {
                    out[(run.at + i + j) * width..][..L].copy_from_slice(lanes);
                }
            } else {
                for (l, out) in out[(run.at + i) * width..][..L].iter_mut().enumerate() {
                    *out = if l < units { w[l * inputs + run.column + i] } else { F::default() };
                }
            }
        }
    }
}

dispatch! {
    /// Writes the columns' gradient, given the likelihood's part as a vector of lanes for each, `width` numbers apart.
    pub(super) fn to_rows<F: Real>(
        lanes: &[F], width: usize, runs: &[Run], factors: Factors<F>, rows: Rows<'_, F>, grad: &mut [F],
    ) = unsafe to_rows_kernel
}

/// # Safety
///
/// With `FMA`, the processor must have AVX2 and FMA.
#[inline(always)]
unsafe fn to_rows_kernel<F: Real, const FMA: bool>(
    lanes: &[F],
    width: usize,
    runs: &[Run],
    factors: Factors<F>,
    rows: Rows<'_, F>,
    grad: &mut [F],
) {
    // SAFETY: what is asked of the caller.
    unsafe {
        if size_of::<F>() == 4 {
            to_rows_of::<F, FMA, 8>(lanes, width, runs, factors, rows, grad);
        } else {
            to_rows_of::<F, FMA, 4>(lanes, width, runs, factors, rows, grad);
        }
    }
}

/// # Safety
///
/// With `FMA`, the processor must have AVX2 and FMA.
#[inline(always)]
unsafe fn to_rows_of<F: Real, const FMA: bool, const L: usize>(
    lanes: &[F],
    width: usize,
    runs: &[Run],
    Factors { minus_precision, scale }: Factors<F>,
    Rows { w, inputs, units }: Rows<'_, F>,
    grad: &mut [F],
) {
    for run in runs {
        let (step, steps) = run.steps(if units == L { L } else { 1 });
        for i in steps {
            if step == L {
                let mut block = [[F::default(); L]; L];
                for j in 0..L {
                    block[j].copy_from_slice(&lanes[(run.at + i + j) * width..][..L]);
                }
                // SAFETY: what is asked of the caller.
                let block = unsafe { turned::<F, FMA, L>(block) };
                for (l, part) in block.iter().enumerate() {
                    let at = l * inputs + run.column + i;
                    let (w, grad) = (&w[at..][..L], &mut grad[at..][..L]);
                    for j in 0..L {
                        grad[j] = minus_precision * w[j] + scale * part[j];
                    }
                }
            } else {
                for l in 0..units {
                    let at = l * inputs + run.column + i;
                    grad[at] = minus_precision * w[at] + scale * lanes[(run.at + i) * width + l];
                }
            }
        }
    }
}

/// Rows as columns.
///
/// # Safety
///
/// With `FMA`, the processor must have AVX2 and FMA.
#[inline(always)]
unsafe fn turned<F: Real, const FMA: bool, const L: usize>(block: [[F; L]; L]) -> [[F; L]; L] {
    #[cfg(target_arch = "x86_64")]
    if FMA && size_of::<F>() == 4 {
        // SAFETY: `FMA` says that the processor has AVX2; four bytes are f32.
        return unsafe { turned_f32(block) };
    }
    std::array::from_fn(|j| std::array::from_fn(|l| block[l][j]))
}

/// # Safety
///
/// The processor must have AVX2, F must be f32, and L eight.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn turned_f32<F: Real, const L: usize>(mut block: [[F; L]; L]) -> [[F; L]; L] {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };
    assert!(L == 8 && size_of::<F>() == 4);
    // SAFETY: as above; every pointer is to eight numbers, which is a vector.
    unsafe {
        let mut r = [_mm256_loadu_ps(block[0].as_ptr().cast()); 8];
        for l in 1..8 {
            r[l] = _mm256_loadu_ps(block[l].as_ptr().cast());
        }
        let mut pairs = r;
        for l in 0..4 {
            pairs[2 * l] = _mm256_unpacklo_ps(r[2 * l], r[2 * l + 1]);
            pairs[2 * l + 1] = _mm256_unpackhi_ps(r[2 * l], r[2 * l + 1]);
        }
        let mut fours = r;
        for half in [0, 4] {
            for l in 0..2 {
                let (a, b) = (pairs[half + l], pairs[half + l + 2]);
                fours[half + 2 * l] = _mm256_shuffle_ps::<0x44>(a, b);
                fours[half + 2 * l + 1] = _mm256_shuffle_ps::<0xee>(a, b);
            }
        }
        for l in 0..4 {
            let (a, b) = (fours[l], fours[l + 4]);
            _mm256_storeu_ps(block[l].as_mut_ptr().cast(), _mm256_permute2f128_ps::<0x20>(a, b));
            _mm256_storeu_ps(block[l + 4].as_mut_ptr().cast(), _mm256_permute2f128_ps::<0x31>(a, b));
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bnn::lanes::tests::normals;

    fn every_number_finds_its_place<F: Real>() {
        let columns: Vec<u32> =
            [0..1, 2..5, 7..15, 16..35].into_iter().flatten().chain([40, 42, 43]).collect();
        assert_eq!(runs(&columns).iter().map(|r| r.len).collect::<Vec<_>>(), [1, 3, 8, 19, 1, 2]);
        let (inputs, width, lanes) = (44, 24, 32 / size_of::<F>());
        let factors = Factors { minus_precision: F::of(-0.7), scale: F::of(1.3) };
        for units in 0..=lanes {
            let w: Vec<F> = normals(units * inputs, 1);
            let rows = Rows { w: &w, inputs, units };
            let untouched: Vec<F> = normals(columns.len() * width, 2);
            for wide in [true, false] {
                let mut panel = untouched.clone();
                match wide {
                    true => to_lanes(rows, &runs(&columns), width, &mut panel[8..]),
                    // SAFETY: nothing is asked of the processor.
                    false => unsafe {
                        to_lanes_kernel::<F, false>(rows, &runs(&columns), width, &mut panel[8..])
                    },
                }
                for (i, (row, before)) in
                    panel.chunks_exact(width).zip(untouched.chunks_exact(width)).enumerate()
                {
                    for lane in 0..width {
                        let l = lane.wrapping_sub(8);
                        let expected = match l < lanes {
                            true if l < units => w[l * inputs + columns[i] as usize],
                            true => F::default(),
                            false => before[lane],
                        };
                        assert_eq!(row[lane], expected);
                    }
                }
                let mut grad: Vec<F> = normals(units * inputs, 3);
                let before = grad.clone();
                let (lanes, runs) = (&untouched[8..], runs(&columns));
                match wide {
                    true => to_rows(lanes, width, &runs, factors, rows, &mut grad),
                    // SAFETY: nothing is asked of the processor.
                    false => unsafe {
                        to_rows_kernel::<F, false>(lanes, width, &runs, factors, rows, &mut grad)
                    },
                }
                for at in 0..grad.len() {
                    let column = columns.iter().position(|c| *c as usize == at % inputs);
                    let expected = column.map_or(before[at], |i| {
                        let part = untouched[i * width + 8 + at / inputs];
                        factors.minus_precision * w[at] + factors.scale * part
                    });
                    assert_eq!(grad[at], expected);
                }
            }
        }
    }

    #[test]
    fn every_number_finds_its_place_in_both_precisions() {
        every_number_finds_its_place::<f32>();
        every_number_finds_its_place::<f64>();
    }
}
