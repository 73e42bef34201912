//! A Gaussian that is fitted to draws of a group's posterior: it draws, and knows its density with the slope of that.

use nalgebra::{Cholesky, DMatrix};

/// Means, standard deviations and, where they are wanted, correlations.
#[derive(Clone)]
pub(super) struct Gaussian {
    mean: Vec<f64>,
    sd: Vec<f64>,
    correlations: Option<Correlations>,
    /// The log density at the mean.
    top: f64,
}

/// Of standardised coordinates: the root of their matrix, and its inverse.
#[derive(Clone)]
struct Correlations {
    root: DMatrix<f64>,
    inverse: DMatrix<f64>,
}

impl Gaussian {
    /// With independent coordinates, fitted to rows of d numbers.
    pub fn independent(rows: &[f64], d: usize) -> Self {
        let n = (rows.len() / d) as f64;
        let column = |j: usize| rows.iter().skip(j).step_by(d);
        let mean: Vec<f64> = (0..d).map(|j| column(j).sum::<f64>() / n).collect();
        let variance = |j: usize| column(j).map(|v| (v - mean[j]) * (v - mean[j])).sum::<f64>() / (n - 1.0);
        let sd: Vec<f64> = (0..d).map(|j| variance(j).sqrt()).collect();
        let top = -sd.iter().map(|sd| libm::log(*sd) + 0.5 * libm::log(std::f64::consts::TAU)).sum::<f64>();
        Gaussian { mean, sd, correlations: None, top }
    }

    /// The same with the correlations of these rows, shrunk by a share; nothing where the rows do not span all dimensions.
    pub fn correlated(mut self, rows: &[f64], shrinkage: f64) -> Option<Self> {
        let d = self.mean.len();
        let mut whitened = DMatrix::from_column_slice(d, rows.len() / d, rows);
        for mut row in whitened.column_iter_mut() {
            (0..d).for_each(|j| row[j] = (row[j] - self.mean[j]) / self.sd[j]);
        }
        let mut matrix =
            &whitened * whitened.transpose() * ((1.0 - shrinkage) / (whitened.ncols() as f64 - 1.0));
        (0..d).for_each(|j| matrix[(j, j)] = 1.0);
        let factors = Cholesky::new(matrix)?;
        let (inverse, root) = (factors.inverse(), factors.l());
        self.top -= root.diagonal().iter().map(|v| libm::log(*v)).sum::<f64>();
        self.correlations = Some(Correlations { root, inverse });
        Some(self)
    }

    /// Turns standard normals into a draw.
    pub fn draw(&self, z: &mut [f64]) {
        for i in (0..z.len()).rev() {
            let whitened = match &self.correlations {
                None => z[i],
                Some(c) => (0..=i).map(|j| c.root[(i, j)] * z[j]).sum(),
            };
            z[i] = self.mean[i] + self.sd[i] * whitened;
        }
    }

    /// Turns x into the slope of the log density there, and returns that density.
    pub fn log_density(&self, x: &mut [f64], whitened: &mut [f64]) -> f64 {
        for (j, (z, x)) in whitened.iter_mut().zip(&*x).enumerate() {
            *z = (x - self.mean[j]) / self.sd[j];
        }
        let mut log = self.top;
        for (j, slope) in x.iter_mut().enumerate() {
            let along = match &self.correlations {
                None => whitened[j],
                Some(c) => c.inverse.column(j).iter().zip(&*whitened).map(|(c, z)| c * z).sum(),
            };
            log -= 0.5 * whitened[j] * along;
            *slope = -along / self.sd[j];
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with mean (1, -2), variances 4 and 9 and a correlation of 0.5.
    fn rows() -> Vec<f64> {
        let (a, b) = (1.0f64, 0.75f64.sqrt());
        let z = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]];
        let k = 0.75f64.sqrt(); // so that the divisor n - 1 gives the variances
        z.iter().flat_map(|[u, v]| [1.0 + 2.0 * k * a * u, -2.0 + 3.0 * k * (0.5 * u + b * v)]).collect()
    }

    #[test]
    fn densities_and_slopes_are_those_of_the_formula() {
        let rows = rows();
        let plain = Gaussian::independent(&rows, 2);
        let whole = plain.clone().correlated(&rows, 0.0).unwrap();
        let (x, y) = (2.0f64, 0.5f64);
        let (u, v) = ((x - 1.0) / 2.0, (y + 2.0) / 3.0);
        let constant = -(std::f64::consts::TAU * 6.0).ln();
        let mut scratch = [0.0; 2];
        for (gaussian, rho) in [(&plain, 0.0f64), (&whole, 0.5)] {
            let mut slope = [x, y];
            let log = gaussian.log_density(&mut slope, &mut scratch);
            let rest = 1.0 - rho * rho;
            let wanted = constant - 0.5 * rest.ln() - 0.5 * (u * u - 2.0 * rho * u * v + v * v) / rest;
            assert!((log - wanted).abs() < 1e-12, "{rho}: {log} {wanted}");
            let slopes = [-(u - rho * v) / rest / 2.0, -(v - rho * u) / rest / 3.0];
            assert!((0..2).all(|i| (slope[i] - slopes[i]).abs() < 1e-12), "{rho}: {slope:?} {slopes:?}");
            let mut z = [0.0, 1.0];
            gaussian.draw(&mut z);
            assert!((z[0] - 1.0).abs() < 1e-12 && (z[1] + 2.0 - 3.0 * rest.sqrt()).abs() < 1e-12, "{z:?}");
        }
        assert!(
            Gaussian::independent(&[1.0, 1.0, 2.0, 2.0, 4.0, 4.0], 2)
                .correlated(&[1.0, 1.0, 2.0, 2.0, 4.0, 4.0], 0.0)
                .is_none()
        );
    }
}
