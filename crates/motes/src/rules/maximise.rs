//! A numerical M-step: BFGS on the mean theta-gradient, for models without a closed one.

use crate::ModelError;
use crate::kit::max_abs;

const ITERATIONS: usize = 200;
const LINE_STEPS: usize = 60;

/// Moves theta to a zero of `gradient` (of a function to be maximised), starting where it stands.
///
/// Only gradients are used: a step is accepted when the slope along it has shrunk to a tenth. Returns the largest
/// magnitude in the gradient where it ended; one that is not finite leads nowhere.
pub(crate) fn maximise(
    theta: &mut [f64],
    mut gradient: impl FnMut(&[f64], &mut [f64]) -> Result<(), ModelError>,
) -> Result<f64, ModelError> {
    let d = theta.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut g = vec![0.0; d];
    gradient(theta, &mut g)?;
    let size = max_abs(&g);
    // The inverse of the negative Hessian, as it is learned; at first a step of length one at most.
    let mut inverse = vec![0.0; d * d];
    (0..d).for_each(|i| inverse[i * d + i] = 1.0 / size.max(1.0));
    let (mut next, mut g_next, mut direction) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);

    for _ in 0..ITERATIONS {
        let norm = max_abs(&g);
        if norm <= 1e-12 * size.max(1.0) || !norm.is_finite() {
            return Ok(norm);
        }
        for (i, p) in direction.iter_mut().enumerate() {
            *p = dot(&inverse[i * d..(i + 1) * d], &g);
        }
        let slope = dot(&direction, &g);
        if !(slope > 0.0 && slope.is_finite()) {
            return Err(ModelError::new("the numerical M-step met a gradient that is not finite"));
        }
        // Bracket the zero of the slope along the direction, then close in by guarded secants.
        let (mut low, mut high) = ((0.0, slope), None::<(f64, f64)>);
        let mut t = 1.0;
        for tries in 0.. {
            for ((n, x), p) in next.iter_mut().zip(&*theta).zip(&direction) {
                *n = x + t * p;
            }
            gradient(&next, &mut g_next)?;
            let s = dot(&direction, &g_next);
            if s.abs() <= 0.1 * slope || next == *theta || tries == LINE_STEPS {
                break;
            }
            if s > 0.0 {
                low = (t, s)
            } else {
                high = Some((t, s))
            }
            t = match high {
                None => 4.0 * t,
                Some(high) => {
                    let secant = low.0 + (high.0 - low.0) * low.1 / (low.1 - high.1);
                    let margin = 0.05 * (high.0 - low.0);
                    if secant.is_finite() {
                        secant.clamp(low.0 + margin, high.0 - margin)
                    } else {
                        0.5 * (low.0 + high.0)
                    }
                }
            };
        }
        if next == *theta {
            return Ok(norm); // rounding forbids anything better
        }
        let s: Vec<f64> = next.iter().zip(&*theta).map(|(n, x)| n - x).collect();
        let y: Vec<f64> = g.iter().zip(&g_next).map(|(a, b)| a - b).collect();
        let sy = dot(&s, &y);
        if sy > 0.0 {
            let by: Vec<f64> = (0..d).map(|i| dot(&inverse[i * d..(i + 1) * d], &y)).collect();
            let factor = (1.0 + dot(&y, &by) / sy) / sy;
            for i in 0..d {
                for j in 0..d {
                    inverse[i * d + j] += factor * s[i] * s[j] - (s[i] * by[j] + by[i] * s[j]) / sy;
                }
            }
        }
        theta.copy_from_slice(&next);
        g.copy_from_slice(&g_next);
    }
    let norm = max_abs(&g);
    if norm <= 1e-6 * size.max(1.0) || !norm.is_finite() {
        return Ok(norm);
    }
    Err(ModelError::new(format!(
        "the numerical M-step did not converge in {ITERATIONS} iterations (gradient {norm:.1e}); use pgd, whose theta takes one step at a time"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_maximum_of_a_badly_scaled_concave_function() {
        // sum of a_i (theta_i - c_i) - exp(theta_i - c_i) has its maximum where exp(.) = a_i
        let (a, c) = ([1.0, 1e-3, 50.0], [3.0, -2.0, 10.0]);
        let mut theta = [0.0; 3];
        maximise(&mut theta, |t, g| {
            for i in 0..3 {
                g[i] = a[i] - (t[i] - c[i]).exp();
            }
            Ok(())
        })
        .unwrap();
        for i in 0..3 {
            assert!((theta[i] - c[i] - f64::ln(a[i])).abs() < 1e-6, "{theta:?}");
        }
    }

    #[test]
    fn tells_of_a_gradient_that_is_not_finite() {
        for bad in [f64::NAN, f64::INFINITY] {
            let found = maximise(&mut [1.0, 1.0], |t, g| {
                g.copy_from_slice(&[-t[0], bad]);
                Ok(())
            });
            assert!(!found.unwrap().is_finite());
        }
        // Beyond the maximum there may be nothing, as long as the search comes back from there.
        let mut theta = [0.0];
        let found = maximise(&mut theta, |t, g| {
            g[0] = if t[0] > 0.5 { f64::NAN } else { 0.25 - t[0] };
            Ok(())
        });
        assert!(found.unwrap() < 1e-12 && (theta[0] - 0.25).abs() < 1e-12, "{theta:?}");
    }

    #[test]
    fn says_when_there_is_no_maximum() {
        let grow = maximise(&mut [1.0], |t, g| {
            g[0] = t[0];
            Ok(())
        });
        assert!(grow.is_err());
    }
}
