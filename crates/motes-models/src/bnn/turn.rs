//! Hidden units as rows and as lanes: the weights turned one way, their gradient the other.

use motes::Real;
use motes::simd::{Isa, SimdBase, SimdFloatElement, dispatch};

use super::lanes::lanes;

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
        = simd to_lanes_kernel
}

#[inline(always)]
fn to_lanes_kernel<F: Real, S: Isa>(
    simd: S,
    Rows { w, inputs, units }: Rows<'_, F>,
    runs: &[Run],
    width: usize,
    out: &mut [F],
) {
    let lanes = lanes::<F>();
    for run in runs {
        let (step, steps) = run.steps(if units == lanes { lanes } else { 1 });
        for i in steps {
            let out = &mut out[(run.at + i) * width..];
            if step == lanes {
                let w = &w[run.column + i..];
                for (l, j) in squares::<F, S>() {
                    let turned = turned::<F, S>(simd, &w[l * inputs + j..], inputs);
                    for (k, lanes) in turned.into_iter().take(Four::<F, S>::LEN).enumerate() {
                        lanes.store_slice(&mut out[(j + k) * width + l..][..Four::<F, S>::LEN]);
                    }
                }
            } else {
                for (l, out) in out[..lanes].iter_mut().enumerate() {
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
    ) = simd to_rows_kernel
}

#[inline(always)]
fn to_rows_kernel<F: Real, S: Isa>(
    simd: S,
    parts: &[F],
    width: usize,
    runs: &[Run],
    Factors { minus_precision, scale }: Factors<F>,
    Rows { w, inputs, units }: Rows<'_, F>,
    grad: &mut [F],
) {
    let (lanes, len) = (lanes::<F>(), Four::<F, S>::LEN);
    for run in runs {
        let (step, steps) = run.steps(if units == lanes { lanes } else { 1 });
        for i in steps {
            let parts = &parts[(run.at + i) * width..];
            if step == lanes {
                for (l, j) in squares::<F, S>() {
                    let turned = turned::<F, S>(simd, &parts[j * width + l..], width);
                    for (k, part) in turned.into_iter().take(len).enumerate() {
                        let at = (l + k) * inputs + run.column + i + j;
                        let w = Four::<F, S>::from_slice(simd, &w[at..][..len]);
                        (w * minus_precision + part * scale).store_slice(&mut grad[at..][..len]);
                    }
                }
            } else {
                for (l, &part) in parts[..units].iter().enumerate() {
                    let at = l * inputs + run.column + i;
                    grad[at] = minus_precision * w[at] + scale * part;
                }
            }
        }
    }
}

/// A vector of 16 bytes: its lanes change places by instructions that every level has.
type Four<F, S> = <<F as SimdFloatElement>::Native<S> as SimdBase<S>>::Block;

/// The first row and column of each square of such vectors in one of 32 bytes.
#[inline(always)]
fn squares<F: Real, S: Isa>() -> impl Iterator<Item = (usize, usize)> {
    let len = Four::<F, S>::LEN;
    let across = lanes::<F>() / len;
    (0..across * across).map(move |i| (i / across * len, i % across * len))
}

/// A square of rows that begin `stride` numbers apart, as columns: four, or in double precision the first two.
#[inline(always)]
fn turned<F: Real, S: Isa>(simd: S, from: &[F], stride: usize) -> [Four<F, S>; 4] {
    let len = Four::<F, S>::LEN;
    let mut rows = [Four::<F, S>::splat(simd, F::default()); 4];
    for l in 0..len {
        rows[l] = Four::<F, S>::from_slice(simd, &from[l * stride..][..len]);
    }
    let [a, b, c, d] = rows;
    if len == 2 {
        return [a.zip_low(b), a.zip_high(b), c, d];
    }
    let (even, odd) = ([a.zip_low(c), a.zip_high(c)], [b.zip_low(d), b.zip_high(d)]);
    let [first, second] = [even[0].zip_low(odd[0]), even[0].zip_high(odd[0])];
    [first, second, even[1].zip_low(odd[1]), even[1].zip_high(odd[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bnn::lanes::tests::normals;
    use crate::levels::at_every_level;

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
            let packed = at_every_level!(simd => {
                let mut panel = untouched.clone();
                to_lanes_kernel(simd, rows, &runs(&columns), width, &mut panel[8..]);
                panel
            });
            for (_, panel) in packed {
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
            }
            let before: Vec<F> = normals(units * inputs, 3);
            let gradients = at_every_level!(simd => {
                let mut grad = before.clone();
                to_rows_kernel(simd, &untouched[8..], width, &runs(&columns), factors, rows, &mut grad);
                grad
            });
            for (_, grad) in gradients {
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
