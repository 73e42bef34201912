//! z-scores of replicated measurements, honest about how few the replicates are.

/// How many standard errors the mean of independent replicates lies beyond `slack` from what is expected.
///
/// The standard error is that of the replicates themselves, so the ratio has Student's distribution; Wallace's (1959)
/// transform turns it into a normal score, so that 4 means 4 sigma for any number of replicates.
pub fn z_score(values: &[f64], expected: f64, slack: f64) -> f64 {
    let mean = average(values);
    let beyond = ((mean - expected).abs() - slack).max(0.0);
    let (t, dof) = (beyond / standard_error(values), values.len() as f64 - 1.0);
    let z = (8.0 * dof + 1.0) / (8.0 * dof + 3.0) * (dof * (t * t / dof).ln_1p()).sqrt();
    if mean < expected { -z } else { z }
}

/// The root of the mean square: near 1 for honest scores.
pub fn rms(scores: &[f64]) -> f64 {
    (scores.iter().map(|z| z * z).sum::<f64>() / scores.len() as f64).sqrt()
}

pub fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard error of the mean of independent values.
pub fn standard_error(values: &[f64]) -> f64 {
    let (n, mean) = (values.len() as f64, average(values));
    (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n * (n - 1.0))).sqrt()
}
