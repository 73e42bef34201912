//! Features brought to mean 0 and variance 1, by moments that are kept for later files.

use serde::{Deserialize, Serialize};

use super::DataError;
use super::csv::{drop_option, quoted};

/// Mean and population standard deviation (ddof 0) of each feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// The means.
    pub mean: Vec<f64>,
    /// The standard deviations.
    pub std: Vec<f64>,
}

impl Moments {
    /// The moments of row-major features; a feature that does not vary is an error.
    pub fn of(features: &[f64], names: &[String]) -> Result<Self, DataError> {
        Self::weighted(features, names, None)
    }

    /// The same for rows that count as often as their weights say.
    pub fn weighted(features: &[f64], names: &[String], weights: Option<&[f64]>) -> Result<Self, DataError> {
        let d = names.len().max(1);
        let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
        let n: f64 = (0..features.len() / d).map(weight).sum();
        let counts = (0..features.len() / d).find(|row| weight(*row) > 0.0).unwrap_or(0);
        let first: Vec<f64> = features.iter().skip(counts * d).take(d).copied().collect();
        // Row by row for all columns: one column after the other would go through the memory once for each.
        let (mut spread, mut largest) = (vec![0.0f64; d], vec![0.0f64; d]);
        for (_, row) in features.chunks_exact(d).enumerate().filter(|(i, _)| weight(*i) > 0.0) {
            for (i, v) in row.iter().enumerate() {
                spread[i] = spread[i].max((v - first[i]).abs());
                largest[i] = largest[i].max(v.abs());
            }
        }
        for ((name, spread), largest) in names.iter().zip(&spread).zip(&largest) {
            if *spread <= 8.0 * f64::EPSILON * largest {
                return Err(DataError(format!(
                    "column {} is constant, so it cannot be standardised; leave it out with {} or take features as they are with `no-standardize`",
                    quoted(name),
                    drop_option([name.as_str()])
                )));
            }
            if !spread.is_finite() {
                return Err(DataError(format!(
                    "column {} spans more than numbers can hold; rescale it or leave it out with {}",
                    quoted(name),
                    drop_option([name.as_str()])
                )));
            }
        }
        // Deviations from the first row, scaled by a power of two: no offset costs digits, no square overflows.
        let power = |spread: &f64| f64::from_bits(spread.to_bits() & f64::INFINITY.to_bits());
        let unit: Vec<f64> = spread.iter().map(|spread| power(spread).max(f64::MIN_POSITIVE)).collect();
        let mut sums = vec![Sum::default(); d];
        for (k, row) in features.chunks_exact(d).enumerate() {
            row.iter().enumerate().for_each(|(i, v)| sums[i].add(weight(k) * ((v - first[i]) / unit[i])));
        }
        let mean: Vec<f64> = sums.iter().map(|sum| sum.value() / n).collect();
        let mut squares = vec![Sum::default(); d];
        for (k, row) in features.chunks_exact(d).enumerate() {
            for (i, v) in row.iter().enumerate() {
                let away = (v - first[i]) / unit[i] - mean[i];
                squares[i].add(weight(k) * (away * away));
            }
        }
        let of = |i: usize| (first[i] + unit[i] * mean[i], unit[i] * (squares[i].value() / n).sqrt());
        let (mean, std) = (0..names.len()).map(of).unzip();
        Ok(Moments { mean, std })
    }

    /// Standardises row-major features in place.
    pub fn apply(&self, features: &mut [f64]) {
        for row in features.chunks_exact_mut(self.mean.len().max(1)) {
            for (v, (mean, std)) in row.iter_mut().zip(self.mean.iter().zip(&self.std)) {
                *v = (*v - mean) / std;
            }
        }
    }
}

/// A compensated sum: a million rows lose no digits.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, v: f64) {
        let new = self.sum + v;
        self.lost += if self.sum.abs() >= v.abs() { (self.sum - new) + v } else { (v - new) + self.sum };
        self.sum = new;
    }

    fn value(self) -> f64 {
        self.sum + self.lost
    }
}
