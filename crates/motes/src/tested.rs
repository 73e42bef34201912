//! How well test rows are told apart: what follows from the mean probabilities of their classes.

use serde::{Deserialize, Serialize};

/// The mean probability of each class for each test row, over all particles that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    /// The number of classes.
    pub classes: usize,
    /// Row by row, classes varying fastest.
    pub probabilities: Vec<f64>,
    /// The class of each row.
    pub labels: Vec<u8>,
}

/// A confusion matrix and curves; part of summary.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// Rows of each class, from left to right by the class that they were taken for.
    pub confusion: Vec<Vec<u64>>,
    /// Of two classes: the share of the first taken for the second and the share of the second recognised, for thresholds that
    /// fall from 1 to 0.
    #[serde(default)]
    pub roc: Option<Vec<[f64; 2]>>,
    /// How far probabilities can be believed: those of the second of two classes, else of the likeliest one.
    pub calibration: Vec<Bin>,
}

/// Rows with similar probabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// The mean of their probabilities.
    pub predicted: f64,
    /// The share of rows of which it came true.
    pub observed: f64,
    /// How many they are.
    pub rows: u64,
}

/// Equal parts of the range from 0 to 1.
const BINS: usize = 10;
/// Points of a curve that are kept: more than a screen shows.
const POINTS: usize = 200;

impl Predictions {
    fn rows(&self) -> impl Iterator<Item = (&[f64], usize)> {
        self.probabilities.chunks_exact(self.classes).zip(&self.labels).map(|(p, l)| (p, usize::from(*l)))
    }

    /// The probability of the second of two classes, and whether a row is of it.
    fn second(&self) -> Option<Vec<(f64, bool)>> {
        (self.classes == 2).then(|| self.rows().map(|(p, label)| (p[1], label == 1)).collect())
    }

    /// What they come to; nothing where a probability is not a number.
    pub fn tested(&self) -> Option<Tested> {
        if self.labels.is_empty() || self.probabilities.iter().any(|p| !p.is_finite()) {
            return None;
        }
        let mut confusion = vec![vec![0; self.classes]; self.classes];
        self.rows().for_each(|(p, label)| confusion[label][likeliest(p)] += 1);
        let judged = self.second().unwrap_or_else(|| {
            self.rows().map(|(p, label)| (p[likeliest(p)], likeliest(p) == label)).collect()
        });
        Some(Tested { confusion, roc: self.second().and_then(roc), calibration: calibration(&judged) })
    }

    /// Brier's score: the mean square of what a probability is off, over the second of two classes or summed over all of more.
    pub fn brier(&self) -> f64 {
        let off = |p: &[f64], label: usize| -> f64 {
            p.iter().enumerate().map(|(i, p)| (p - f64::from(u8::from(i == label))).powi(2)).sum()
        };
        let sum: f64 = self.rows().map(|(p, label)| off(p, label)).sum();
        sum / self.labels.len() as f64 / if self.classes == 2 { 2.0 } else { 1.0 }
    }

    /// The area under the curve of two classes: the probability that a row of the second is rated above one of the first.
    pub fn auc(&self) -> Option<f64> {
        let mut rows = self.second()?;
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let positive = rows.iter().filter(|(_, is)| *is).count() as f64;
        let negative = rows.len() as f64 - positive;
        let (mut below, mut won) = (0.0, 0.0);
        for equal in rows.chunk_by(|a, b| a.0 == b.0) {
            let here = equal.iter().filter(|(_, is)| *is).count() as f64;
            let others = equal.len() as f64 - here;
            won += here * (below + 0.5 * others);
            below += others;
        }
        Some(won / (positive * negative)).filter(|auc| auc.is_finite())
    }
}

/// The class that a row is taken for: the first of the likeliest.
pub fn likeliest(p: &[f64]) -> usize {
    (0..p.len()).fold(0, |best, i| if p[i] > p[best] { i } else { best })
}

/// The corners of the curve, thinned; nothing if all rows are of one class.
fn roc(mut rows: Vec<(f64, bool)>) -> Option<Vec<[f64; 2]>> {
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let positive = rows.iter().filter(|(_, is)| *is).count();
    let negative = rows.len() - positive;
    if positive == 0 || negative == 0 {
        return None;
    }
    let (mut hits, mut alarms) = (0, 0);
    let mut points = vec![[0.0, 0.0]];
    for equal in rows.chunk_by(|a, b| a.0 == b.0) {
        hits += equal.iter().filter(|(_, is)| *is).count();
        alarms += equal.iter().filter(|(_, is)| !*is).count();
        points.push([alarms as f64 / negative as f64, hits as f64 / positive as f64]);
    }
    // Between its corners a curve is straight.
    let mut corners: Vec<[f64; 2]> = Vec::new();
    for (i, point) in points.iter().enumerate() {
        let straight = match (corners.last(), points.get(i + 1)) {
            (Some(a), Some(b)) => {
                (a[0] == point[0] && point[0] == b[0]) || (a[1] == point[1] && point[1] == b[1])
            }
            _ => false,
        };
        if !straight {
            corners.push(*point);
        }
    }
    let last = corners.len() - 1;
    let kept = POINTS.min(corners.len());
    Some((0..kept).map(|i| corners[i * last / (kept - 1).max(1)]).collect())
}

fn calibration(rows: &[(f64, bool)]) -> Vec<Bin> {
    let mut sums = [(0.0, 0u64, 0u64); BINS];
    for (p, is) in rows {
        let (sum, came_true, count) = &mut sums[((p * BINS as f64) as usize).min(BINS - 1)];
        *sum += p;
        *came_true += u64::from(*is);
        *count += 1;
    }
    let filled = sums.iter().filter(|(.., count)| *count > 0);
    filled
        .map(|(sum, came_true, count)| {
            let n = *count as f64;
            Bin { predicted: sum / n, observed: *came_true as f64 / n, rows: *count }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(p: &[f64], labels: &[u8]) -> Predictions {
        let probabilities = p.iter().flat_map(|p| [1.0 - p, *p]).collect();
        Predictions { classes: 2, probabilities, labels: labels.to_vec() }
    }

    #[test]
    fn two_classes() {
        let p = two(&[0.1, 0.4, 0.35, 0.8, 0.8, 0.65, 0.2], &[0, 0, 1, 1, 0, 1, 0]);
        let wins = [(0.35, 2.0), (0.8, 3.5), (0.65, 3.0)].iter().map(|w| w.1).sum::<f64>();
        assert!((p.auc().unwrap() - wins / 12.0).abs() < 1e-15);
        let squares = 0.01 + 0.16 + 0.4225 + 0.04 + 0.64 + 0.1225 + 0.04;
        assert!((p.brier() - squares / 7.0).abs() < 1e-15);
        let tested = p.tested().unwrap();
        assert_eq!(tested.confusion, [[3, 1], [1, 2]]);
        let third = 1.0 / 3.0;
        let corners =
            [[0.0, 0.0], [0.25, third], [0.25, 2.0 * third], [0.5, 2.0 * third], [0.5, 1.0], [1.0, 1.0]];
        assert_eq!(tested.roc.unwrap(), corners);
        let bin = |predicted, observed, rows| Bin { predicted, observed, rows };
        let bins = [
            bin(0.1, 0.0, 1),
            bin(0.2, 0.0, 1),
            bin(0.35, 1.0, 1),
            bin(0.4, 0.0, 1),
            bin(0.65, 1.0, 1),
            bin(0.8, 0.5, 2),
        ];
        assert_eq!(tested.calibration, bins);
    }

    #[test]
    fn three_classes_and_what_cannot_be_said() {
        let probabilities = vec![0.5, 0.3, 0.2, 0.2, 0.2, 0.6, 0.4, 0.4, 0.2];
        let three = Predictions { classes: 3, probabilities, labels: vec![0, 2, 1] };
        let tested = three.tested().unwrap();
        assert_eq!(tested.confusion, [[1, 0, 0], [1, 0, 0], [0, 0, 1]]);
        assert_eq!((tested.roc, three.auc()), (None, None));
        assert!((three.brier() - (0.38 + 0.24 + 0.56) / 3.0).abs() < 1e-15);
        // All rows of one class have no curve, and numbers that are none say nothing.
        let alike = two(&[0.1, 0.2], &[0, 0]);
        assert_eq!((alike.auc(), alike.tested().unwrap().roc), (None, None));
        assert_eq!(two(&[f64::NAN], &[0]).tested(), None);
    }

    #[test]
    fn a_curve_has_no_more_points_than_a_screen() {
        let p: Vec<f64> = (0..5000).map(|i| f64::from(i) / 5000.0).collect();
        let labels: Vec<u8> =
            (0..5000u32).map(|i| u8::from(i.wrapping_mul(2_654_435_761) >> 16 & 1 == 1)).collect();
        let roc = two(&p, &labels).tested().unwrap().roc.unwrap();
        assert_eq!((roc.len(), roc[0], roc[POINTS - 1]), (POINTS, [0.0, 0.0], [1.0, 1.0]));
        assert!(roc.windows(2).all(|w| w[0][0] <= w[1][0] && w[0][1] <= w[1][1]));
    }
}
