//! Mini-batches: each epoch visits all data once, in an order that is a pure function of the seed and the epoch.

use crate::noise::{Noise, Purpose};

/// The data in the order of the current epoch, cut into batches; the last one may be short.
pub struct Batches {
    noise: Noise,
    size: usize,
    order: Vec<u32>,
    epoch: Option<u64>,
    batch: usize,
}

impl Batches {
    /// Batches of `size` out of `terms` data, in the orders that belong to a seed.
    pub fn new(seed: u64, terms: usize, size: usize) -> Self {
        let order = vec![0; terms];
        Batches { noise: Noise::new(seed, Purpose::Batch), size, order, epoch: None, batch: 0 }
    }

    /// Goes to the batch of step k, shuffling the data where an epoch begins.
    pub fn seek(&mut self, k: u64) {
        let per_epoch = self.order.len().div_ceil(self.size) as u64;
        let epoch = k / per_epoch;
        self.batch = (k % per_epoch) as usize;
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.order.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
            for i in (1..self.order.len()).rev() {
                let j = (self.noise.uniform(epoch, i as u64) * (i + 1) as f64) as usize;
                self.order.swap(i, j.min(i));
            }
        }
    }

    /// The batch of the step sought last.
    pub fn current(&self) -> &[u32] {
        let start = self.batch * self.size;
        &self.order[start..(start + self.size).min(self.order.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_every_datum_once_and_can_be_entered_anywhere() {
        let mut batches = Batches::new(3, 10, 4);
        let mut epoch = |e: u64| {
            let steps = (3 * e..3 * e + 3).map(|k| {
                batches.seek(k);
                batches.current().to_vec()
            });
            steps.collect::<Vec<_>>()
        };
        let (first, second) = (epoch(0), epoch(1));
        assert_eq!(first.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
        let mut all = first.concat();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_ne!(first, second);
        let mut entered = Batches::new(3, 10, 4);
        entered.seek(4);
        assert_eq!(entered.current(), second[1]);
    }
}
