//! Traces made small while they are read: nothing here grows with the number of rows.

/// Thins a trace while it is read: the lowest and the highest value of each stretch survive, so that spikes do.
///
/// Stretches become twice as long whenever there are too many, so the number of rows need not be known.
pub struct Decimator {
    stretches: usize,
    rows_each: u64,
    filled: u64,
    kept: Vec<Stretch>,
    first: Option<(u64, f64)>,
    last: Option<(u64, f64)>,
}

#[derive(Clone, Copy)]
struct Stretch {
    low: (u64, f64),
    high: (u64, f64),
}

impl Stretch {
    fn join(self, other: Stretch) -> Stretch {
        Stretch {
            low: if other.low.1 < self.low.1 { other.low } else { self.low },
            high: if other.high.1 > self.high.1 { other.high } else { self.high },
        }
    }
}

impl Decimator {
    /// Between `stretches` and twice as many are kept of a long trace.
    pub fn new(stretches: usize) -> Self {
        let stretches = stretches.max(1);
        Decimator { stretches, rows_each: 1, filled: 0, kept: Vec::new(), first: None, last: None }
    }

    /// Takes the value of step k; what is not finite leaves a gap.
    pub fn push(&mut self, k: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        let point = (k, value);
        self.first.get_or_insert(point);
        self.last = Some(point);
        let single = Stretch { low: point, high: point };
        if self.filled == self.rows_each {
            self.filled = 0;
            if self.kept.len() == 2 * self.stretches {
                self.kept = self.kept.chunks_exact(2).map(|pair| pair[0].join(pair[1])).collect();
                self.rows_each *= 2;
            }
        }
        match self.kept.last_mut().filter(|_| self.filled > 0) {
            Some(open) => *open = open.join(single),
            None => self.kept.push(single),
        }
        self.filled += 1;
    }

    /// What is left, in the order of steps.
    pub fn points(&self) -> Vec<(u64, f64)> {
        let mut points: Vec<(u64, f64)> = self.kept.iter().flat_map(|s| [s.low, s.high]).collect();
        points.extend(self.first);
        points.extend(self.last);
        points.sort_by_key(|(k, _)| *k);
        points.dedup_by_key(|(k, _)| *k);
        points
    }
}

/// Averages a noisy column over stretches, which become twice as long whenever there are too many.
pub struct Smoothed {
    stretches: usize,
    rows_each: u64,
    /// Sum, count and last step of each stretch.
    kept: Vec<(f64, u64, u64)>,
}

impl Smoothed {
    /// Between `stretches` and twice as many are kept of a long column.
    pub fn new(stretches: usize) -> Self {
        Smoothed { stretches: stretches.max(1), rows_each: 1, kept: Vec::new() }
    }

    /// Takes the value of step k; what is not finite is left out.
    pub fn push(&mut self, k: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        match self.kept.last_mut().filter(|open| open.1 < self.rows_each) {
            Some(open) => *open = (open.0 + value, open.1 + 1, k),
            None => {
                if self.kept.len() == 2 * self.stretches {
                    let join = |p: &[(f64, u64, u64)]| (p[0].0 + p[1].0, p[0].1 + p[1].1, p[1].2);
                    self.kept = self.kept.chunks_exact(2).map(join).collect();
                    self.rows_each *= 2;
                }
                self.kept.push((value, 1, k));
            }
        }
    }

    /// The average of each stretch, at its last step; a stretch whose sum is beyond all numbers has none.
    pub fn points(&self) -> Vec<(u64, f64)> {
        let averages = self.kept.iter().map(|(sum, count, k)| (*k, sum / *count as f64));
        averages.filter(|(_, average)| average.is_finite()).collect()
    }
}

/// Keeps every n-th point of a smooth curve, n doubling as needed, and the last.
pub struct Thinned {
    most: usize,
    every: u64,
    count: u64,
    kept: Vec<(u64, f64)>,
    last: Option<(u64, f64)>,
}

impl Thinned {
    /// At most about `most` points are kept.
    pub fn new(most: usize) -> Self {
        Thinned { most: most.max(2), every: 1, count: 0, kept: Vec::new(), last: None }
    }

    /// Takes the value of step k.
    pub fn push(&mut self, k: u64, value: f64) {
        self.last = Some((k, value));
        if self.count.is_multiple_of(self.every) {
            if self.kept.len() == self.most {
                self.kept = self.kept.iter().step_by(2).copied().collect();
                self.every *= 2;
            }
            if self.count.is_multiple_of(self.every) {
                self.kept.push((k, value));
            }
        }
        self.count += 1;
    }

    /// What is left, in the order of steps.
    pub fn points(&self) -> Vec<(u64, f64)> {
        let mut points = self.kept.clone();
        points.extend(self.last.filter(|last| points.last() != Some(last)));
        points
    }
}

/// The running mean and variance of a sequence (Welford).
#[derive(Clone, Copy, Default)]
pub struct Moments {
    count: u64,
    pub mean: f64,
    squares: f64,
}

impl Moments {
    /// Takes one value.
    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// The variance, divisor the count.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 0).then(|| self.squares / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_survive_and_short_traces_stay_whole() {
        let mut long = Decimator::new(100);
        for k in 0..200_000u64 {
            let spike = if k == 77_777 {
                50.0
            } else if k == 123_456 {
                -50.0
            } else {
                0.0
            };
            long.push(k, spike + (k as f64 * 0.01).sin());
        }
        long.push(200_000, f64::NAN);
        let points = long.points();
        assert!(points.len() <= 402, "{}", points.len());
        assert!(points.windows(2).all(|p| p[0].0 < p[1].0));
        assert!(points.iter().any(|p| p.0 == 77_777 && p.1 > 49.0));
        assert!(points.iter().any(|p| p.0 == 123_456 && p.1 < -49.0));
        assert_eq!((points[0].0, points.last().unwrap().0), (0, 199_999));
        let mut short = Decimator::new(100);
        (0..150u64).for_each(|k| short.push(3 * k, k as f64));
        assert_eq!(short.points(), (0..150u64).map(|k| (3 * k, k as f64)).collect::<Vec<_>>());
    }

    #[test]
    fn smoothing_averages_stretches() {
        let mut s = Smoothed::new(50);
        (1..=1000u64).for_each(|k| s.push(k, (k % 2) as f64));
        s.push(1001, f64::NAN);
        let points = s.points();
        assert_eq!(points.len(), 63);
        assert!(points.iter().all(|(_, v)| *v == 0.5));
        assert_eq!((points[0].0, points[61].0, points[62].0), (16, 992, 1000));
        let mut short = Smoothed::new(50);
        (0..60u64).for_each(|k| short.push(k, k as f64));
        assert_eq!(short.points(), (0..60u64).map(|k| (k, k as f64)).collect::<Vec<_>>());
    }

    #[test]
    fn thinning_keeps_an_even_few_and_the_last() {
        let mut t = Thinned::new(64);
        (0..10_001u64).for_each(|k| t.push(k, k as f64));
        let points = t.points();
        assert!((32..=66).contains(&points.len()), "{}", points.len());
        assert_eq!(points[0], (0, 0.0));
        assert_eq!(*points.last().unwrap(), (10_000, 10_000.0));
        let steps: Vec<u64> = points.windows(2).map(|p| p[1].0 - p[0].0).collect();
        assert!(steps[..steps.len() - 1].iter().all(|s| *s == steps[0]));
    }

    #[test]
    fn moments_are_those_of_the_textbook() {
        let mut m = Moments::default();
        assert_eq!(m.variance(), None);
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].iter().for_each(|v| m.push(*v));
        assert!((m.mean - 5.0).abs() < 1e-12 && (m.variance().unwrap() - 4.0).abs() < 1e-12);
    }
}
