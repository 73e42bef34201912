//! Sums over rows of the softmax: a block of rows lies side by side, so that everything is done for all of them at once.

use motes::simd::dispatch;
use motes::vmath::lanes::{exp_f64, ln_f64};

/// Rows that are computed together.
pub const LANES: usize = 16;

type Lane = [f64; LANES];

/// Rows f_i with labels l_i and weights w_i, packed by block of rows, column and lane.
#[derive(Clone, Debug)]
pub struct Rows {
    pub columns: usize,
    pub given: usize,
    features: Vec<Lane>,
    labels: Vec<[u8; LANES]>,
    /// 0 for the rows that fill up the last block.
    weights: Vec<Lane>,
}

impl Rows {
    /// Packs row-major features, with a last column of ones for an intercept.
    /// A row counts once, or as often as its weight says.
    pub fn new(features: &[f64], labels: &[u8], weights: Option<&[f64]>, intercept: bool) -> Self {
        let given = labels.len();
        let d = features.len() / given.max(1);
        let (columns, blocks) = (d + usize::from(intercept), given.div_ceil(LANES));
        let mut rows = Rows {
            columns,
            given,
            features: vec![[0.0; LANES]; blocks * columns],
            labels: vec![[0; LANES]; blocks],
            weights: vec![[0.0; LANES]; blocks],
        };
        for (i, label) in labels.iter().enumerate() {
            let (block, lane) = (i / LANES, i % LANES);
            rows.labels[block][lane] = *label;
            rows.weights[block][lane] = weights.map_or(1.0, |weights| weights[i]);
            let packed = &mut rows.features[block * columns..(block + 1) * columns];
            let ones = std::iter::repeat_n(&1.0, usize::from(intercept));
            for (to, f) in packed.iter_mut().zip(features[i * d..(i + 1) * d].iter().chain(ones)) {
                to[lane] = *f;
            }
        }
        rows
    }

    /// The column of the first number that is not finite.
    pub fn first_not_finite(&self) -> Option<usize> {
        let at = self.features.iter().position(|lanes| lanes.iter().any(|f| !f.is_finite()))?;
        Some(at % self.columns)
    }

    /// Blocks of rows, with the features of each.
    fn blocks(&self) -> impl Iterator<Item = (&[Lane], &[u8; LANES], &Lane)> {
        let packed = self.features.chunks_exact(self.columns);
        packed.zip(&self.labels).zip(&self.weights).map(|((f, l), w)| (f, l, w))
    }

    /// The square of the largest singular value of the features, by the power method.
    pub fn largest_square(&self) -> f64 {
        let mut v = vec![1.0 / (self.columns as f64).sqrt(); self.columns];
        let mut largest = 0.0;
        for _ in 0..100 {
            let mut next = vec![0.0; self.columns];
            for (f, _, w) in self.blocks() {
                let mut along = [0.0; LANES];
                for (f, v) in f.iter().zip(&v) {
                    (0..LANES).for_each(|i| along[i] += f[i] * v);
                }
                for (next, f) in next.iter_mut().zip(f) {
                    *next += (0..LANES).map(|i| w[i] * along[i] * f[i]).sum::<f64>();
                }
            }
            largest = next.iter().map(|v| v * v).sum::<f64>().sqrt();
            if !(largest > 0.0 && largest.is_finite()) {
                break;
            }
            next.iter_mut().for_each(|v| *v /= largest);
            v = next;
        }
        largest
    }
}

/// Orthonormal contrasts of the classes: logits are H z for K - 1 numbers z, and a common shift, which moves no probability, is
/// none of them.
#[derive(Clone, Debug)]
pub struct Contrasts {
    pub classes: usize,
    /// Row by row, K x (K - 1).
    h: Vec<f64>,
}

impl Contrasts {
    /// Helmert's: a class against the mean of those before it.
    pub fn new(classes: usize) -> Self {
        let mut h = vec![0.0; classes * (classes - 1)];
        for j in 1..classes {
            let scale = 1.0 / ((j * (j + 1)) as f64).sqrt();
            for k in 0..=j {
                h[k * (classes - 1) + j - 1] = if k < j { scale } else { -(j as f64) * scale };
            }
        }
        Contrasts { classes, h }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.classes - 1
    }

    /// What each contributes to the logit of a class.
    pub fn of(&self, class: usize) -> &[f64] {
        &self.h[class * self.count()..(class + 1) * self.count()]
    }

    /// Lanes that [`log_probabilities`] works with; [`loss`] needs one for each column too.
    pub fn work(&self) -> usize {
        2 * self.count() + self.classes
    }
}

dispatch! {
    /// The sum of -log p(l_i | f_i, u) over all rows, or over some of them; adds its negative gradient to `gradient`, unless that is
    /// empty.
    pub fn loss(rows: &Rows, batch: Option<&[u32]>, contrasts: &Contrasts, u: &[f64], work: &mut [Lane], gradient: &mut [f64]) -> f64 = loss_kernel
}

#[inline(always)]
fn loss_kernel<const FMA: bool>(
    rows: &Rows,
    batch: Option<&[u32]>,
    contrasts: &Contrasts,
    u: &[f64],
    work: &mut [Lane],
    gradient: &mut [f64],
) -> f64 {
    let (work, pack) = work.split_at_mut(contrasts.work());
    let mut total = [0.0; LANES];
    match batch {
        None => {
            for (f, label, w) in rows.blocks() {
                add_block::<FMA>((f, label, w), contrasts, u, work, gradient, &mut total);
            }
        }
        Some(batch) => {
            let (mut label, mut w) = ([0; LANES], [0.0; LANES]);
            for batch in batch.chunks(LANES) {
                w.fill(0.0);
                for (lane, row) in batch.iter().enumerate() {
                    let (block, from) = (*row as usize / LANES, *row as usize % LANES);
                    (label[lane], w[lane]) = (rows.labels[block][from], rows.weights[block][from]);
                    let packed = &rows.features[block * rows.columns..];
                    pack.iter_mut().zip(packed).for_each(|(to, f)| to[lane] = f[from]);
                }
                add_block::<FMA>((pack, &label, &w), contrasts, u, work, gradient, &mut total);
            }
        }
    }
    motes::simd::sum_lanes(total)
}

/// Adds what a block of rows contributes to the losses and, unless it is empty, to the gradient.
#[inline(always)]
fn add_block<const FMA: bool>(
    (f, label, w): (&[Lane], &[u8; LANES], &Lane),
    contrasts: &Contrasts,
    u: &[f64],
    work: &mut [Lane],
    gradient: &mut [f64],
    total: &mut Lane,
) {
    let (z, rest) = work.split_at_mut(contrasts.count());
    let (back, logits) = rest.split_at_mut(contrasts.count());
    let log_sum = block_logits::<FMA>(contrasts, f, u, z, logits);
    for (k, logit) in logits.iter().enumerate() {
        for i in 0..LANES {
            total[i] += if usize::from(label[i]) == k { w[i] * (log_sum[i] - logit[i]) } else { 0.0 };
        }
    }
    if gradient.is_empty() {
        return;
    }
    // w (1 - p) of the own class, -w p of the others, taken back to the contrasts.
    back.fill([0.0; LANES]);
    for (k, logit) in logits.iter().enumerate() {
        let mut shifted = [0.0; LANES];
        (0..LANES).for_each(|i| shifted[i] = logit[i] - log_sum[i]);
        let p = exp_f64::<FMA, LANES>(shifted);
        let mut residual = [0.0; LANES];
        for i in 0..LANES {
            let own = if usize::from(label[i]) == k { 1.0 } else { 0.0 };
            residual[i] = w[i] * (own - p[i]);
        }
        for (back, h) in back.iter_mut().zip(contrasts.of(k)) {
            (0..LANES).for_each(|i| back[i] = fused::<FMA>(*h, residual[i], back[i]));
        }
    }
    for (back, gradient) in back.iter().zip(gradient.chunks_exact_mut(f.len())) {
        for (gradient, f) in gradient.iter_mut().zip(f) {
            let mut product = [0.0; LANES];
            (0..LANES).for_each(|i| product[i] = back[i] * f[i]);
            *gradient += motes::simd::sum_lanes(product);
        }
    }
}

dispatch! {
    /// Writes log p(l | f_i, u) for each row and class, row by row.
    pub fn log_probabilities(rows: &Rows, contrasts: &Contrasts, u: &[f64], work: &mut [Lane], out: &mut [f64]) = log_kernel
}

#[inline(always)]
fn log_kernel<const FMA: bool>(
    rows: &Rows,
    contrasts: &Contrasts,
    u: &[f64],
    work: &mut [Lane],
    out: &mut [f64],
) {
    let classes = contrasts.classes;
    let (z, rest) = work.split_at_mut(contrasts.count());
    let logits = &mut rest[contrasts.count()..];
    for ((f, _, _), out) in rows.blocks().zip(out.chunks_mut(LANES * classes)) {
        let log_sum = block_logits::<FMA>(contrasts, f, u, z, logits);
        for (i, out) in out.chunks_exact_mut(classes).enumerate() {
            out.iter_mut().zip(&*logits).for_each(|(out, logit)| *out = logit[i] - log_sum[i]);
        }
    }
}

/// The logits of a block of rows, and the logarithm of the sum of their exponentials.
#[inline(always)]
fn block_logits<const FMA: bool>(
    contrasts: &Contrasts,
    f: &[Lane],
    u: &[f64],
    z: &mut [Lane],
    logits: &mut [Lane],
) -> Lane {
    for (z, u) in z.iter_mut().zip(u.chunks_exact(f.len())) {
        *z = [0.0; LANES];
        for (f, u) in f.iter().zip(u) {
            (0..LANES).for_each(|i| z[i] = fused::<FMA>(*u, f[i], z[i]));
        }
    }
    let mut most = [f64::NEG_INFINITY; LANES];
    for (k, logit) in logits.iter_mut().enumerate() {
        *logit = [0.0; LANES];
        for (z, h) in z.iter().zip(contrasts.of(k)) {
            (0..LANES).for_each(|i| logit[i] = fused::<FMA>(*h, z[i], logit[i]));
        }
        (0..LANES).for_each(|i| most[i] = if logit[i] > most[i] { logit[i] } else { most[i] });
    }
    let mut sum = [0.0; LANES];
    for logit in &*logits {
        let mut shifted = [0.0; LANES];
        (0..LANES).for_each(|i| shifted[i] = logit[i] - most[i]);
        let e = exp_f64::<FMA, LANES>(shifted);
        (0..LANES).for_each(|i| sum[i] += e[i]);
    }
    let mut log_sum = ln_f64::<FMA, LANES>(sum);
    (0..LANES).for_each(|i| log_sum[i] += most[i]);
    log_sum
}

#[inline(always)]
fn fused<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrasts_are_orthonormal_and_have_no_common_part() {
        for classes in 2..7 {
            let h = Contrasts::new(classes);
            for a in 0..classes {
                for b in 0..classes {
                    let product: f64 = h.of(a).iter().zip(h.of(b)).map(|(a, b)| a * b).sum();
                    let wanted = f64::from(u8::from(a == b)) - 1.0 / classes as f64;
                    assert!((product - wanted).abs() < 1e-14, "{classes}: {a} {b} {product}");
                }
            }
        }
    }

    #[test]
    fn the_largest_square_is_that_of_the_features() {
        // Columns (3, 4) and (4, -3) of two rows, and a third column that is three times the first.
        let rows = Rows::new(&[3.0, 4.0, 9.0, 4.0, -3.0, 12.0], &[0, 1], None, false);
        assert!((rows.largest_square() - 250.0).abs() < 1e-9, "{}", rows.largest_square());
    }
}
