//! Effective sample sizes by streaming batch means: constant memory for any number of steps.

/// Once there are this many batches, neighbours are merged and batches become twice as long.
pub(crate) const MAX_BATCHES: usize = 128;
/// Fewer batches say too little about their own variance.
const MIN_BATCHES: usize = 8;

/// Batch means of a vector-valued sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchMeans {
    /// Values in each complete batch.
    pub length: u64,
    /// Values in the batch being filled.
    pub filled: u64,
    /// The batch being filled: a sum per component.
    pub current: Vec<f64>,
    /// The means of complete batches, batch after batch.
    pub means: Vec<f64>,
    /// Count, mean and sum of squared deviations (Welford) of all values: 2 numbers per component.
    pub spread: Vec<f64>,
    /// All values so far.
    pub count: u64,
    /// There are fewer complete batches than this.
    most: usize,
}

impl BatchMeans {
    /// No values yet.
    pub fn new(d: usize) -> Self {
        Self::limited(d, MAX_BATCHES)
    }

    /// The same with at most so many batches, an even number.
    pub(crate) fn limited(d: usize, most: usize) -> Self {
        BatchMeans {
            length: 1,
            filled: 0,
            current: vec![0.0; d],
            means: Vec::with_capacity(most * d),
            spread: vec![0.0; 2 * d],
            count: 0,
            most,
        }
    }

    /// How many components there are.
    pub fn width(&self) -> usize {
        self.current.len()
    }

    /// How many numbers there are in a full set of means.
    pub(crate) fn room(&self) -> usize {
        self.most * self.current.len()
    }

    /// Adds one value per component.
    pub fn add(&mut self, values: &[f64]) {
        let d = values.len();
        self.count += 1;
        self.filled += 1;
        for (i, v) in values.iter().enumerate() {
            self.current[i] += v;
            let [mean, squares] = &mut self.spread[2 * i..2 * i + 2] else { unreachable!() };
            let delta = v - *mean;
            *mean += delta / self.count as f64;
            *squares += delta * (v - *mean);
        }
        if self.filled < self.length {
            return;
        }
        let length = self.length as f64;
        self.means.extend(self.current.iter().map(|s| s / length));
        self.current.fill(0.0);
        self.filled = 0;
        if self.means.len() == self.most * d {
            for b in 0..self.most / 2 {
                for i in 0..d {
                    let pair = self.means[2 * b * d + i] + self.means[(2 * b + 1) * d + i];
                    self.means[b * d + i] = 0.5 * pair;
                }
            }
            self.means.truncate(self.most / 2 * d);
            self.length *= 2;
        }
    }

    /// Nothing added yet.
    pub(crate) fn clear(&mut self) {
        (self.length, self.filled, self.count) = (1, 0, 0);
        self.current.fill(0.0);
        self.means.clear();
        self.spread.fill(0.0);
    }

    /// The means of the complete batches without the first fifth of them.
    pub(crate) fn tail(&self) -> std::slice::ChunksExact<'_, f64> {
        let d = self.current.len();
        let batches = self.means.len() / d.max(1);
        self.means[batches / 5 * d..].chunks_exact(d.max(1))
    }

    /// The mean of [`BatchMeans::tail`].
    pub(crate) fn tail_mean(&self) -> Vec<f64> {
        mean_of(self.tail(), self.current.len())
    }

    /// The tail in so many batches of equal length at the most, but at least 2 if there are.
    pub(crate) fn tail_batches(&self, wanted: usize) -> Vec<Vec<f64>> {
        let tail = self.tail();
        let each = (tail.len() / wanted.max(1)).max(1);
        let skip = tail.len() % each;
        let rows: Vec<&[f64]> = tail.skip(skip).collect();
        rows.chunks_exact(each).map(|batch| mean_of(batch.iter().copied(), self.current.len())).collect()
    }

    /// The variance of a component over all values.
    pub fn variance(&self, i: usize) -> f64 {
        self.spread[2 * i + 1] / self.count.max(1) as f64
    }

    /// The variance of a component's mean that the scatter of its batches suggests.
    ///
    /// Batches shorter than the autocorrelation time suggest too little. So neighbours are merged again and again
    /// while enough are left, and the largest answer counts: ESS is rather too low than too high.
    pub fn variance_of_mean(&self, i: usize) -> Option<f64> {
        let d = self.current.len();
        let mut means: Vec<f64> = self.means.iter().skip(i).step_by(d.max(1)).copied().collect();
        let mut worst: Option<f64> = None;
        while means.len() >= MIN_BATCHES {
            let batches = means.len() as f64;
            let mean = means.iter().sum::<f64>() / batches;
            let scatter = means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>();
            let variance = scatter / (batches - 1.0) / batches;
            worst = Some(worst.map_or(variance, |w| w.max(variance)));
            means = means.chunks_exact(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect();
        }
        worst
    }

    /// How many batches there are after the last merge: an ESS that is not well above that is one of values that hang together
    /// from beginning to end.
    pub(crate) fn fewest_batches(&self) -> usize {
        let mut batches = self.means.len() / self.current.len().max(1);
        while batches / 2 >= MIN_BATCHES {
            batches /= 2;
        }
        batches
    }

    /// How far the mean of the second half is from that of the first, in standard deviations of a component. A steady
    /// drift gives the square root of 3, independent values next to nothing.
    pub fn drift(&self, i: usize) -> Option<f64> {
        let d = self.current.len();
        let means: Vec<f64> = self.means.iter().skip(i).step_by(d.max(1)).copied().collect();
        let deviation = self.variance(i).sqrt();
        if means.len() < 2 * MIN_BATCHES || deviation == 0.0 {
            return None;
        }
        let (first, second) = means.split_at(means.len() / 2);
        let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len() as f64;
        Some((mean(second) - mean(first)) / deviation)
    }

    /// How many independent values would give a mean as good: variance over the variance of the mean.
    pub fn ess(&self, i: usize) -> Option<f64> {
        let of_mean = self.variance_of_mean(i)?;
        let ess = self.variance(i) / of_mean;
        ess.is_finite().then(|| ess.min(self.count as f64))
    }
}

fn mean_of<'a>(rows: impl ExactSizeIterator<Item = &'a [f64]>, d: usize) -> Vec<f64> {
    let (n, mut mean) = (rows.len() as f64, vec![0.0; d]);
    rows.for_each(|row| mean.iter_mut().zip(row).for_each(|(m, r)| *m += r / n));
    mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, Purpose};

    #[test]
    fn ess_of_an_ar1_sequence_is_known() {
        // x_k = r x_{k-1} + w has ESS = n (1 - r) / (1 + r)
        let (r, n) = (0.8, 200_000usize);
        let mut w = vec![0.0; n];
        Noise::new(1, Purpose::Check).normals_f64(0, 0, &mut w);
        let (mut x, mut batches) = (0.0, BatchMeans::new(2));
        for w in w {
            x = r * x + w;
            batches.add(&[x, w]);
        }
        // The estimate is the largest of five, on 8 to 128 batches: never much above the truth, a few times below at worst
        // (8 batches have a relative standard error of sqrt(2/7) = 53 %).
        for (i, want) in [(0, n as f64 * (1.0 - r) / (1.0 + r)), (1, n as f64)] {
            let ratio = batches.ess(i).unwrap() / want;
            assert!((0.3..1.3).contains(&ratio), "{i}: {ratio}");
        }
        assert!((batches.variance(0) * (1.0 - r * r) - 1.0).abs() < 0.05);
        assert!(batches.means.capacity() <= 2 * MAX_BATCHES);
        // The halves of a stationary sequence of this ESS differ by 2 / sqrt(ESS) standard deviations or so.
        assert!(batches.drift(0).unwrap().abs() < 4.0 * 2.0 / (n as f64 / 9.0).sqrt());
    }

    #[test]
    fn a_steady_drift_is_seen() {
        let mut batches = BatchMeans::new(1);
        (0..1000).for_each(|k| batches.add(&[-0.01 * k as f64]));
        assert!((batches.drift(0).unwrap() + 3f64.sqrt()).abs() < 0.05);
        let mut constant = BatchMeans::new(1);
        (0..1000).for_each(|_| constant.add(&[2.0]));
        assert_eq!(constant.drift(0), None);
    }
}
