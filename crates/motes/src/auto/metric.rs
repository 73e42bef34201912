//! The coordinates in which theta moves: complete information is the identity there and observed information diagonal.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

/// Shares of observed information below this count as this much.
pub(crate) const FLOOR: f64 = 0.01;
/// Eigenvalues of the complete information, scaled to a unit diagonal, below this count as this much.
const LEAST: f64 = 1e-6;

/// Louis's identity, observed information = I - J with the complete information I and the covariance J of the complete score, in
/// the coordinates z = B^T (gradient): there I is the identity, J is diag(f), and an EM step is theta + B z.
pub(crate) struct Metric {
    /// B, whose columns are the directions.
    pub b: DMatrix<f64>,
    /// Its inverse.
    pub inverse: DMatrix<f64>,
    /// 1 - f: the share of the complete information that the data hold along each direction.
    pub share: DVector<f64>,
}

impl Metric {
    /// Of I and J, D_theta x D_theta each; both must be finite.
    pub fn new(information: &[f64], scores: &[f64], d: usize) -> Self {
        let (information, scores) =
            (DMatrix::from_row_slice(d, d, information), DMatrix::from_row_slice(d, d, scores));
        let scale = DVector::from_fn(d, |i, _| match information[(i, i)].abs() {
            0.0 => 1.0,
            diagonal => diagonal.sqrt(),
        });
        let scaled = DMatrix::from_fn(d, d, |i, j| {
            0.5 * (information[(i, j)] + information[(j, i)]) / scale[i] / scale[j]
        });
        let eigen = SymmetricEigen::new(scaled);
        let roots = eigen.eigenvalues.map(|w| w.abs().max(LEAST).sqrt());
        let v = &eigen.eigenvectors;
        let root = v * DMatrix::from_diagonal(&roots) * v.transpose();
        let inverse_root = v * DMatrix::from_diagonal(&roots.map(f64::recip)) * v.transpose();
        // A^-T, where A A^T = I.
        let whitened = DMatrix::from_fn(d, d, |i, j| inverse_root[(i, j)] / scale[i]);
        let mut f = whitened.transpose() * scores * &whitened;
        // Along what even the complete information knows nothing of, the data hold nothing.
        for (w, v) in eigen.eigenvalues.iter().zip(v.column_iter()) {
            if w.abs() < LEAST {
                f += v * v.transpose();
            }
        }
        let eigen = SymmetricEigen::new(0.5 * (&f + f.transpose()));
        let back = DMatrix::from_fn(d, d, |i, j| root[(i, j)] * scale[j]);
        Metric {
            b: whitened * &eigen.eigenvectors,
            inverse: eigen.eigenvectors.transpose() * back,
            share: eigen.eigenvalues.map(|f| 1.0 - f),
        }
    }

    /// B^T g.
    pub fn along(&self, g: &[f64]) -> DVector<f64> {
        self.b.tr_mul(&DVector::from_column_slice(g))
    }

    /// B z.
    pub fn back(&self, z: &DVector<f64>) -> DVector<f64> {
        &self.b * z
    }

    /// The shares as steps and standard errors use them: positive, and neither tiny nor above 1.
    pub fn safe_share(&self) -> DVector<f64> {
        self.share.map(|om| om.abs().clamp(FLOOR, 1.0))
    }

    /// The inverse of the observed information.
    pub fn covariance(&self) -> DMatrix<f64> {
        &self.b * DMatrix::from_diagonal(&self.safe_share().map(f64::recip)) * self.b.transpose()
    }

    /// The diagonal of the inverse of the complete information.
    pub fn complete_variances(&self) -> Vec<f64> {
        self.b.row_iter().map(|row| row.norm_squared()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_becomes_the_identity_and_scores_diagonal() {
        let information = [4.0, 1.0, 0.5, 1.0, 900.0, 3.0, 0.5, 3.0, 2e-4 + 0.2];
        let scores = [1.0, 0.2, 0.1, 0.2, 300.0, 1.0, 0.1, 1.0, 0.05];
        let metric = Metric::new(&information, &scores, 3);
        let of = |m: &[f64]| metric.b.transpose() * DMatrix::from_row_slice(3, 3, m) * &metric.b;
        let (identity, f) = (of(&information), of(&scores));
        for i in 0..3 {
            for j in 0..3 {
                assert!((identity[(i, j)] - f64::from(u8::from(i == j))).abs() < 1e-10);
                let want = if i == j { 1.0 - metric.share[i] } else { 0.0 };
                assert!((f[(i, j)] - want).abs() < 1e-10);
            }
        }
        let unit = &metric.b * &metric.inverse;
        assert!((unit - DMatrix::identity(3, 3)).norm() < 1e-9);
        let observed = DMatrix::from_row_slice(3, 3, &information) - DMatrix::from_row_slice(3, 3, &scores);
        assert!((observed * metric.covariance() - DMatrix::identity(3, 3)).norm() < 1e-8);
    }
}
