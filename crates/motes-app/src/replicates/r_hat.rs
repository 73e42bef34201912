//! R-hat: how much further replicates lie apart than each of them varies.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;

/// Halves of paths shorter than this say nothing.
const LEAST: u64 = 2;

/// Where the trace of a run is.
#[derive(Clone, Debug)]
pub enum Trace<'a> {
    /// In memory.
    Text(&'a [u8]),
    /// In a file.
    File(PathBuf),
}

impl Trace<'_> {
    /// The steps after burn-in with the first d components of theta there.
    fn each(&self, burn_in: u64, d: usize, mut take: impl FnMut(&[f64])) -> Option<()> {
        let reader: Box<dyn Read + '_> = match self {
            Trace::Text(text) => Box::new(*text),
            Trace::File(path) => Box::new(BufReader::with_capacity(1 << 16, File::open(path).ok()?)),
        };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(reader);
        let (mut record, mut theta) = (csv::StringRecord::new(), vec![0.0; d]);
        while reader.read_record(&mut record).ok()? {
            if record.get(0)?.parse::<u64>().ok()? > burn_in {
                for (i, t) in theta.iter_mut().enumerate() {
                    *t = record.get(1 + i)?.parse().ok()?;
                }
                take(&theta);
            }
        }
        Some(())
    }
}

/// Means and variances (divisor n - 1) of the components along a stretch of n steps.
struct Stretch {
    n: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Stretch {
    fn new(d: usize) -> Self {
        Stretch { n: 0.0, mean: vec![0.0; d], squares: vec![0.0; d] }
    }

    fn add(&mut self, values: &[f64]) {
        self.n += 1.0;
        for ((mean, squares), v) in self.mean.iter_mut().zip(&mut self.squares).zip(values) {
            let way = v - *mean;
            *mean += way / self.n;
            *squares += way * (v - *mean);
        }
    }

    fn variance(&self, i: usize) -> f64 {
        self.squares[i] / (self.n - 1.0)
    }
}

/// Split R-hat of the paths of theta after burn-in.
pub fn of_paths(traces: &[&Trace<'_>], burn_in: u64, d: usize) -> Vec<Option<f64>> {
    let unknown = vec![None; d];
    let mut rows = u64::MAX;
    for trace in traces {
        let mut count = 0;
        match trace.each(burn_in, d, |_| count += 1) {
            Some(()) => rows = rows.min(count),
            None => return unknown,
        }
    }
    let half = rows / 2;
    if half < LEAST || traces.len() < 2 {
        return unknown;
    }
    let mut stretches = Vec::new();
    for trace in traces {
        let (mut first, mut second, mut at) = (Stretch::new(d), Stretch::new(d), 0);
        let read = trace.each(burn_in, d, |theta| {
            at += 1;
            if at <= half {
                first.add(theta);
            } else if at > rows - half && at <= rows {
                second.add(theta);
            }
        });
        if read.is_none() {
            return unknown;
        }
        stretches.extend([first, second]);
    }
    let shrink = (half - 1) as f64 / half as f64;
    let of = |i: usize| {
        let means: Vec<f64> = stretches.iter().map(|s| s.mean[i]).collect();
        let within = stretches.iter().map(|s| s.variance(i)).sum::<f64>() / stretches.len() as f64;
        ratio(&means, within, shrink)
    };
    (0..d).map(of).collect()
}

/// R-hat of estimates that have settled, against their squared standard errors: the same with paths of any length.
pub fn of_estimates(means: &[f64], squared_errors: &[f64]) -> Option<f64> {
    let within = squared_errors.iter().sum::<f64>() / squared_errors.len() as f64;
    ratio(means, within, 1.0)
}

fn ratio(means: &[f64], within: f64, shrink: f64) -> Option<f64> {
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let between = means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (n - 1.0);
    Some((shrink + between / within).sqrt()).filter(|r| r.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_hat_is_that_of_the_books() {
        // Two chains of 1, 2, 3, 4 and 11, 12, 13, 14 after one step of burn-in: halves have means 1.5, 3.5, 11.5, 13.5 and
        // variances 0.5; the means vary by 100/3 + 4/3 and R-hat is sqrt(1/2 + (104/3) / 0.5).
        let chain = |from: f64| {
            let rows = (1..=4).map(|k| format!("{},{},0.5\n", k + 1, from + f64::from(k)));
            format!("k,theta,other\n0,9,1\n1,99,1\n{}", rows.collect::<String>())
        };
        let (a, b) = (chain(0.0), chain(10.0));
        let traces = [Trace::Text(a.as_bytes()), Trace::Text(b.as_bytes())];
        let r_hat = of_paths(&[&traces[0], &traces[1]], 1, 1)[0].unwrap();
        assert!((r_hat - (0.5f64 + 104.0 / 3.0 / 0.5).sqrt()).abs() < 1e-12, "{r_hat}");
        assert_eq!(of_paths(&[&traces[0], &traces[1]], 3, 1), [None]); // too short
        assert_eq!(of_paths(&[&traces[0]], 1, 1), [None]);
        let same = of_estimates(&[1.0, 1.0], &[0.1, 0.1]);
        assert_eq!((same, of_estimates(&[1.0, 3.0], &[1.0, 1.0])), (Some(1.0), Some(3f64.sqrt())));
    }
}
