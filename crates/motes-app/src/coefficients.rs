//! The coefficients of a regression, from its posterior.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use motes::files::{Durable, csv_field, write_atomically};
use motes::printable::Number;
use motes::summary::{Coefficient, Effect, particles, posterior_moments, quantile};
use motes::{Model, Real, State, Summary};
use motes_models::registry::Linear;

use crate::job::Job;
use crate::predict::predictor;

/// The coefficients of a fitted regression, in the order of its columns; none for other models, and none without draws.
pub fn coefficients<F: Real>(
    job: &Job,
    model: &dyn Model<F>,
    state: &State<F>,
    summary: &Summary,
) -> Option<Vec<Coefficient>> {
    let predictor = predictor(&summary.model, summary.data.as_ref()).ok().flatten()?;
    let all = predictor.coefficients()?;
    let (mean, var) = posterior_moments(model, state)?;
    let draws = particles(&job.settings, state);
    let width = predictor.width();
    if draws.is_empty() || mean.len() != width {
        return None;
    }
    let total_sd = summary.posterior.as_ref().and_then(|p| p.total_sd.as_deref());
    let posterior = Posterior { mean: &mean, var: &var, total_sd, draws: &draws, level: summary.level };
    Some(all.into_iter().map(|linear| posterior.of(linear)).collect())
}

struct Posterior<'a> {
    mean: &'a [f64],
    var: &'a [f64],
    total_sd: Option<&'a [Option<f64>]>,
    /// Particles, one after the other.
    draws: &'a [f64],
    level: f64,
}

impl Posterior<'_> {
    fn of(&self, linear: Linear) -> Coefficient {
        let (original, positive) = self.effect(&linear.original);
        let (standardised, _) = self.effect(&linear.standardised);
        let sign = if original.mean >= 0.0 { positive } else { positive.map(|p| 1.0 - p) };
        Coefficient { class: linear.class, name: linear.name, original, standardised, sign_probability: sign }
    }

    /// A sum over coordinates, and the probability that it is positive. The averages over all steps are more exact than the draws
    /// that were kept, which tell the rest.
    fn effect(&self, terms: &[(usize, f64)]) -> (Effect, Option<f64>) {
        let value = |x: &[f64]| terms.iter().map(|(i, by)| by * x[*i]).sum::<f64>();
        let mut draws: Vec<f64> = self.draws.chunks_exact(self.mean.len()).map(value).collect();
        draws.sort_unstable_by(f64::total_cmp);
        let n = draws.len() as f64;
        let (sd, total_sd) = match terms {
            [(i, by)] => {
                let total = self.total_sd.and_then(|sds| sds[*i]).map(|sd| by.abs() * sd);
                (by.abs() * self.var[*i].sqrt(), total)
            }
            _ => {
                let centre = draws.iter().sum::<f64>() / n;
                let squares = draws.iter().map(|v| (v - centre) * (v - centre)).sum::<f64>();
                ((squares / n).sqrt(), None)
            }
        };
        let tail = 0.5 - 0.5 * self.level;
        let interval =
            quantile(&draws, tail).zip(quantile(&draws, 1.0 - tail)).map(|(low, high)| [low, high]);
        let above = draws.iter().filter(|v| **v > 0.0).count() as f64 / n;
        let effect = Effect { mean: value(self.mean), sd, total_sd, interval };
        (effect, interval.map(|_| above))
    }
}

/// Writes coefficients.csv into a run directory.
pub fn write(dir: &Path, all: &[Coefficient]) -> Result<(), motes::Error> {
    let text = to_csv(all);
    write_atomically(&dir.join("coefficients.csv"), Durable::No, |out| out.write_all(text.as_bytes()))
}

fn to_csv(all: &[Coefficient]) -> String {
    let classes = all.iter().any(|c| c.class.is_some());
    let mut out = String::from(if classes { "class,name" } else { "name" });
    out.push_str(",mean,sd,low,high,total_sd,sign_probability");
    out.push_str(
        ",standardised_mean,standardised_sd,standardised_low,standardised_high,standardised_total_sd\n",
    );
    let cell = |out: &mut String, value: Option<f64>| {
        let _ = match value.filter(|v| v.is_finite()) {
            Some(v) => write!(out, ",{}", Number(v)),
            None => write!(out, ","),
        };
    };
    for c in all {
        if classes {
            let _ = write!(out, "{},", csv_field(c.class.as_deref().unwrap_or_default()));
        }
        out.push_str(&csv_field(&c.name));
        for (i, effect) in [&c.original, &c.standardised].into_iter().enumerate() {
            let [low, high] = effect.interval.map_or([None; 2], |interval| interval.map(Some));
            [Some(effect.mean), Some(effect.sd), low, high, effect.total_sd]
                .into_iter()
                .for_each(|v| cell(&mut out, v));
            if i == 0 {
                cell(&mut out, c.sign_probability);
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_sums_over_draws() {
        // Two weights; the second column has mean 4 and standard deviation 2.
        let draws = [1.0, 2.0, 3.0, -2.0, 2.0, 4.0, -1.0, 0.0];
        let (mean, var) = ([1.25, 1.0], [2.1875, 5.0]);
        let posterior = Posterior { mean: &mean, var: &var, total_sd: None, draws: &draws, level: 0.5 };
        let linear =
            |terms| Linear { class: None, name: "a,b".into(), original: terms, standardised: vec![(1, 1.0)] };
        let slope = posterior.of(linear(vec![(1, 0.5)]));
        assert_eq!((slope.original.mean, slope.standardised.mean), (0.5, 1.0));
        assert!((slope.original.sd - 1.25f64.sqrt()).abs() < 1e-15);
        // -2, 0, 2, 4 in order, halved: quartiles lie between.
        assert_eq!(slope.original.interval, Some([-0.25, 1.25]));
        assert_eq!(slope.sign_probability, Some(0.5));
        // b - 2 w over the draws: -3, 7, -6, -1.
        let intercept = posterior.of(linear(vec![(0, 1.0), (1, -2.0)]));
        assert_eq!((intercept.original.mean, intercept.sign_probability), (-0.75, Some(0.75)));
        let squares = [2.25f64, 7.75, 5.25, 0.25].iter().map(|v| v * v).sum::<f64>();
        assert!((intercept.original.sd - (squares / 4.0).sqrt()).abs() < 1e-15);
        let csv = to_csv(&[slope]);
        let (head, row) = csv.trim_end().split_once('\n').unwrap();
        assert_eq!(head.split(',').count(), 12);
        assert!(row.starts_with("\"a,b\",0.5,1.118033988749895,-0.25,1.25,,0.5,1,"), "{row}");
    }
}
