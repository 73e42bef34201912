//! The little dense linear algebra that theta-rules need; D_theta is small, so a crate would bring more than it saves.

/// Solves A s = b in place of b for a symmetric positive definite row-major A, which is overwritten by its factor.
pub(crate) fn cholesky_solve(a: &mut [f64], b: &mut [f64]) -> Result<(), &'static str> {
    let d = b.len();
    let scale = row_sum_norm(a, d);
    if !scale.is_finite() {
        return Err("not finite");
    }
    for j in 0..d {
        for i in j..d {
            let dot: f64 = (0..j).map(|k| a[i * d + k] * a[j * d + k]).sum();
            let v = a[i * d + j] - dot;
            if i > j {
                a[i * d + j] = v / a[j * d + j];
            } else if v > 1e-14 * scale {
                a[j * d + j] = v.sqrt();
            } else if v >= -1e-14 * scale {
                return Err("singular");
            } else {
                return Err("not negative definite");
            }
        }
    }
    for i in 0..d {
        let dot: f64 = (0..i).map(|k| a[i * d + k] * b[k]).sum();
        b[i] = (b[i] - dot) / a[i * d + i];
    }
    for i in (0..d).rev() {
        let dot: f64 = (i + 1..d).map(|k| a[k * d + i] * b[k]).sum();
        b[i] = (b[i] - dot) / a[i * d + i];
    }
    Ok(())
}

/// The largest row sum of magnitudes: an upper bound of every eigenvalue's magnitude.
pub(crate) fn row_sum_norm(a: &[f64], d: usize) -> f64 {
    let sums = a.chunks_exact(d).map(|row| row.iter().map(|v| v.abs()).sum::<f64>());
    sums.fold(0.0, |m: f64, s| if s.is_nan() || m.is_nan() { f64::NAN } else { m.max(s) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_and_refuses() {
        let a = [4.0, 2.0, 0.6, 2.0, 5.0, 1.5, 0.6, 1.5, 3.8];
        let want = [1.0, -2.0, 3.0];
        let mut b = [0.0; 3];
        for i in 0..3 {
            b[i] = (0..3).map(|j| a[i * 3 + j] * want[j]).sum();
        }
        cholesky_solve(&mut a.clone(), &mut b).unwrap();
        for (b, w) in b.iter().zip(want) {
            assert!((b - w).abs() < 1e-13);
        }
        let refused = |m: [f64; 4]| cholesky_solve(&mut m.clone(), &mut [1.0, 1.0]).unwrap_err();
        assert_eq!(refused([1.0, 1.0, 1.0, 1.0]), "singular");
        assert_eq!(refused([1.0, 2.0, 2.0, 1.0]), "not negative definite");
        assert_eq!(refused([1.0, f64::NAN, 0.0, 1.0]), "not finite");
    }
}
