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
        let mut moments = Moments { mean: Vec::new(), std: Vec::new() };
        for (d, name) in names.iter().enumerate() {
            let column = || features.iter().skip(d).step_by(names.len()).copied();
            let n = column().len() as f64;
            let first = column().next().unwrap_or(0.0);
            let spread = column().fold(0.0f64, |s, v| s.max((v - first).abs()));
            let largest = column().fold(0.0f64, |s, v| s.max(v.abs()));
            if spread <= 8.0 * f64::EPSILON * largest {
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
            // Deviations from the first row, scaled by a power of two: no offset costs digits, no square overflows.
            let unit = f64::from_bits(spread.to_bits() & f64::INFINITY.to_bits()).max(f64::MIN_POSITIVE);
            let scaled = || column().map(|v| (v - first) / unit);
            let mean = sum(scaled()) / n;
            let variance = sum(scaled().map(|v| (v - mean) * (v - mean))) / n;
            moments.mean.push(first + unit * mean);
            moments.std.push(unit * variance.sqrt());
        }
        Ok(moments)
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
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for v in values {
        let new = sum + v;
        lost += if sum.abs() >= v.abs() { (sum - new) + v } else { (v - new) + sum };
        sum = new;
    }
    sum + lost
}
