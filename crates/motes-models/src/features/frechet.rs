//! The Frechet distance between two sets of features: that between the Gaussians with their means and covariances.

use nalgebra::{DMatrix, DVector, SVD};

/// Values beyond this would overflow when squared and summed.
const LARGEST: f64 = 1e100;

/// The mean and the covariance S (divisor n - 1) of a set of features.
#[derive(Clone, Debug)]
pub struct Gaussian {
    mean: DVector<f64>,
    /// R with S = R^T R: the triangle of the centred features' QR decomposition. S itself is never formed, so no rounding
    /// error goes through a square root, and an S that is singular (fewer rows than features) is nothing special.
    root: DMatrix<f64>,
}

impl Gaussian {
    /// That of rows of `width` features. The error's text completes a sentence that begins with the set's name.
    pub fn of(features: &[f64], width: usize) -> Result<Self, String> {
        let rows = features.len().checked_div(width).unwrap_or(0);
        if rows < 2 || rows * width != features.len() {
            return Err(format!("has {rows} rows of {width} features; a covariance needs 2 rows or more"));
        }
        if let Some(i) = features.iter().position(|v| !v.is_finite() || v.abs() > LARGEST) {
            let remedy = "give finite numbers of moderate size";
            return Err(format!("has the value {:e} in row {}; {remedy}", features[i], i / width));
        }
        let mut centred = DMatrix::from_row_slice(rows, width, features);
        let mean = centred.row_mean().transpose();
        for (mut column, mean) in centred.column_iter_mut().zip(&mean) {
            column.add_scalar_mut(-mean);
        }
        centred /= (rows as f64 - 1.0).sqrt();
        Ok(Self { mean, root: centred.qr().unpack_r() })
    }

    /// The number of features.
    pub fn width(&self) -> usize {
        self.mean.len()
    }
}

/// |mu_a - mu_b|^2 + tr(S_a + S_b - 2 (S_a S_b)^{1/2}), the square of the 2-Wasserstein distance.
///
/// With S = R^T R, (S_a S_b)^{1/2} has the trace of (R_a S_b R_a^T)^{1/2}, the sum of the singular values of R_a R_b^T.
///
/// # Panics
/// If the two have different numbers of features.
pub fn frechet(a: &Gaussian, b: &Gaussian) -> Result<f64, String> {
    assert_eq!(a.width(), b.width(), "two sets of the same features");
    let between = &a.root * b.root.transpose();
    let most = 100 * a.width().max(100);
    let values = SVD::try_new(between, false, false, f64::EPSILON, most)
        .ok_or("the singular values of the two covariances do not converge; give other sets")?
        .singular_values;
    let covariances = a.root.norm_squared() + b.root.norm_squared() - 2.0 * values.sum();
    // Rounding may leave a distance of nothing below zero.
    Ok(((&a.mean - &b.mean).norm_squared() + covariances).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motes::noise::{Noise, Purpose};

    /// Rows with exactly this mean and the covariance L L^T: the mean plus and minus multiples of L's columns.
    fn rows(mean: &[f64], l: &DMatrix<f64>) -> Vec<f64> {
        let scale = ((2 * l.ncols() - 1) as f64 / 2.0).sqrt();
        let column = |j: usize, sign: f64| {
            let l = l.column(j).into_owned();
            mean.iter().zip(l.iter()).map(|(m, l)| m + sign * scale * l).collect::<Vec<f64>>()
        };
        (0..l.ncols()).flat_map(|j| [column(j, 1.0), column(j, -1.0)].concat()).collect()
    }

    fn distance(a: &[f64], b: &[f64], width: usize) -> f64 {
        frechet(&Gaussian::of(a, width).unwrap(), &Gaussian::of(b, width).unwrap()).unwrap()
    }

    fn normals(step: u64, len: usize) -> Vec<f64> {
        let mut x = vec![0.0; len];
        Noise::new(5, Purpose::Check).normals_f64(step, 0, &mut x);
        x
    }

    #[track_caller]
    fn close(value: f64, truth: f64) {
        assert!((value - truth).abs() < 1e-12 * (1.0 + truth.abs()), "{value} and {truth}");
    }

    /// Diagonal covariances: sum of (mu_a - mu_b)^2 + (s_a - s_b)^2 over the features, s their standard deviations.
    #[test]
    fn diagonal_covariances() {
        let (a, b) = ([1.0, 0.5, 3.0, 0.0], [2.0, 0.25, 0.0, 0.0]);
        let (m, n) = ([0.0, 1.0, -2.0, 5.0], [1.0, 1.0, 2.0, 5.5]);
        let of = |mean, s: &[f64]| rows(mean, &DMatrix::from_diagonal(&DVector::from_row_slice(s)));
        let truth = 1.0 + 16.0 + 0.25 + 1.0 + 0.0625 + 9.0;
        close(distance(&of(&m, &a), &of(&n, &b), 4), truth);
        close(distance(&of(&n, &b), &of(&m, &a), 4), truth);
    }

    /// For 2 x 2 matrices, tr (AB)^{1/2} = sqrt(tr AB + 2 sqrt(det AB)), by Cayley and Hamilton.
    #[test]
    fn general_covariances_in_two_dimensions() {
        for step in 0..20 {
            let draws = normals(step, 8);
            let (k, l) =
                (DMatrix::from_row_slice(2, 2, &draws[..4]), DMatrix::from_row_slice(2, 2, &draws[4..]));
            let (a, b) = (&k * k.transpose(), &l * l.transpose());
            let root = ((&a * &b).trace() + 2.0 * (a.determinant() * b.determinant()).sqrt()).sqrt();
            let truth = a.trace() + b.trace() - 2.0 * root + 25.0;
            close(distance(&rows(&[1.0, 2.0], &k), &rows(&[4.0, 6.0], &l), 2), truth);
        }
    }

    /// If S_b = T S_a T with a positive T, then the best transport is T, and the distance tr (T - 1) S_a (T - 1).
    #[test]
    fn general_covariances_in_many_dimensions() {
        let d = 40;
        let l = DMatrix::from_row_slice(d, d, &normals(0, d * d));
        let g = DMatrix::from_row_slice(d, d, &normals(1, d * d));
        let t = &g * g.transpose() / d as f64;
        let far = &t * &l - &l;
        let zero = vec![0.0; d];
        let value = distance(&rows(&zero, &l), &rows(&zero, &(&t * &l)), d);
        let truth = far.norm_squared();
        assert!((value / truth - 1.0).abs() < 1e-10, "{value} and {truth}");
    }

    /// Fewer rows than features: the covariances are singular.
    #[test]
    fn equal_moved_and_swapped_sets() {
        for (n, d) in [(100, 7), (5, 30), (2, 3), (40, 40)] {
            let a = normals(2, n * d);
            assert!(distance(&a, &a, d) < 1e-11 * d as f64);
            let moved: Vec<f64> = a.iter().map(|v| v + 0.5).collect();
            let shift = 0.25 * d as f64;
            assert!((distance(&a, &moved, d) - shift).abs() < 1e-11 * d as f64);
            let b = normals(3, (n + 3) * d);
            let (there, back) = (distance(&a, &b, d), distance(&b, &a, d));
            assert!(there > 0.0 && (there - back).abs() < 1e-12 * there, "{there} and {back}");
        }
        // Without any spread only the means count.
        close(distance(&[1.0; 6], &[3.0; 4], 2), 8.0);
    }

    #[test]
    fn what_has_no_covariance_is_refused() {
        let refused = |features: &[f64], width| Gaussian::of(features, width).unwrap_err();
        assert!(refused(&[1.0, 2.0], 2).contains("1 rows of 2 features"));
        assert!(refused(&[], 0).contains("0 rows"));
        assert!(refused(&[1.0, 2.0, 3.0, f64::NAN], 2).contains("NaN in row 1"));
        assert!(refused(&[1e200, 2.0, 3.0, 4.0], 2).contains("1e200 in row 0"));
    }
}
