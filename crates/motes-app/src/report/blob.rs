//! The data that a report's charts are drawn from, as one JSON value that is safe inside a script element.

use motes::Summary;
use motes::printable::printable;
use motes::summary::Coefficient;
use serde_json::{Value, json};

use super::read::{Coordinate, Run};
use super::stats::Density;

/// All runs as JSON in which no `<` occurs.
pub fn blob(runs: &[Run]) -> String {
    let labels = (1..).map(|i: usize| i.to_string());
    let runs: Vec<Value> = runs.iter().zip(labels).map(|(r, label)| run(r, &label)).collect();
    let text = json!({ "runs": runs }).to_string();
    // The only places for these characters in JSON are strings, where the escapes mean the same.
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn run(run: &Run, label: &str) -> Value {
    let summary = run.summary.as_ref();
    let theta: Vec<Value> = run
        .theta
        .iter()
        .enumerate()
        .map(|(i, c)| {
            json!({
                "name": c.name,
                "last": summary.and_then(|s| s.theta.last.get(i)),
                "mean": c.mean,
                "se": c.se,
                "interval": c.interval,
                "ess": c.ess,
                "error": c.error,
                "drift": c.drift,
                "trace": points(&c.trace),
                "average": points(&c.average),
            })
        })
        .collect();
    let scalars: serde_json::Map<String, Value> =
        run.scalars.iter().map(|s| (s.name.to_string(), points(&s.trace))).collect();
    json!({
        "label": label,
        "dir": run.dir.to_string_lossy(),
        "model": run.setting("model"),
        "algorithm": run.setting("algorithm"),
        "steps": run.steps,
        "unit": run.unit(),
        "burn_in": run.burn_in,
        "reached": run.reached,
        "level": summary.map(|s| s.level),
        "stages": run.stages.iter().map(|s| json!({ "name": s.name(), "from": s.from, "to": s.to })).collect::<Vec<_>>(),
        "theta": theta,
        "scalars": scalars,
        "posterior": run.posterior.as_ref().map(|p| p.rows.iter().map(coordinate).collect::<Vec<_>>()),
        "coefficients": summary.and_then(forest),
        "test": summary.and_then(|s| s.test.as_ref()),
        "metrics": summary.and_then(|s| s.metrics.as_ref()),
        "diagnostics": summary.map(|s| json!({
            "acceptance": s.diagnostics.acceptance,
            "shadow_acceptance": s.diagnostics.shadow_acceptance,
            "evaluations": s.diagnostics.evaluations,
            "verdict": s.diagnostics.verdict,
        })),
        "log_likelihood": summary.and_then(|s| s.log_likelihood.as_ref()).map(|l| json!({
            "value": l.value,
            "mc_error": l.mc_error,
            "aic": l.aic,
            "bic": l.bic,
        })),
        "time": summary.map(|s| json!({
            "seconds": s.time.seconds,
            "assess_seconds": s.time.assess_seconds,
            "steps_per_second": s.time.steps_per_second,
            "steps": s.steps,
        })),
    })
}

/// Coefficients that a picture has room for.
const FOREST: usize = 40;

/// The coefficients of standardised features, the strongest first; intercepts are left out, which are on another scale.
fn forest(summary: &Summary) -> Option<Value> {
    let all = summary.coefficients.as_deref()?;
    let features = summary.data.as_ref().and_then(|data| data["features"].as_array());
    let is_feature =
        |c: &&Coefficient| features.is_none_or(|all| all.iter().any(|feature| *feature == c.name));
    let mut shown: Vec<&Coefficient> =
        all.iter().filter(|c| is_feature(c) && c.standardised.interval.is_some()).collect();
    shown.sort_by(|a, b| b.standardised.mean.abs().total_cmp(&a.standardised.mean.abs()));
    let row = |c: &&Coefficient| {
        let name = c.class.as_ref().map_or(c.name.clone(), |class| format!("{class}: {}", c.name));
        json!({ "name": printable(&name), "mean": c.standardised.mean, "interval": c.standardised.interval })
    };
    Some(json!({ "rows": shown.iter().take(FOREST).map(row).collect::<Vec<_>>(), "of": shown.len() }))
}

/// Points as increments of k and values on a grid finer than any screen.
fn points(points: &[(u64, f64)]) -> Value {
    let mut before = 0;
    let k: Vec<u64> = points.iter().map(|(k, _)| k - std::mem::replace(&mut before, *k)).collect();
    let round = rounding(points.iter().map(|(_, v)| *v));
    json!({ "dk": k, "v": points.iter().map(|(_, v)| round(*v)).collect::<Vec<f64>>() })
}

/// Rounds to a power of ten that is at most 1e-5 of the range of the values; those of a run that diverged to six digits
/// each, so that its beginning can still be seen.
fn rounding(values: impl Iterator<Item = f64>) -> impl Fn(f64) -> f64 {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let digits = 5.0 - libm::log10(high - low).floor();
    let scale = libm::pow(10.0, digits);
    let wild = high - low > 1e9;
    move |v| {
        if wild {
            return format!("{v:.5e}").parse().unwrap_or(v);
        }
        let rounded = (v * scale).round() / scale;
        if rounded.is_finite() && digits.abs() < 300.0 { rounded } else { v }
    }
}

fn coordinate(c: &Coordinate) -> Value {
    let m = c.marginal.as_ref();
    json!({
        "name": c.name,
        "mean": c.mean,
        "var": c.var,
        "total_sd": c.total_sd,
        "q05": m.map(|m| m.q05),
        "q50": m.map(|m| m.q50),
        "q95": m.map(|m| m.q95),
        "density": m.and_then(|m| m.density.as_ref()).map(density),
    })
}

/// Heights in thousandths of the peak.
fn density(d: &Density) -> Value {
    let peak = d.values.iter().fold(0f64, |a, b| a.max(*b));
    let heights: Vec<u32> = d.values.iter().map(|v| (1000.0 * v / peak).round() as u32).collect();
    json!({ "start": d.start, "step": d.step, "peak": peak, "bandwidth": d.bandwidth, "y": heights })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_what_can_be_seen() {
        let round = rounding([1000.0, 1000.1].into_iter());
        assert!((round(1000.012345678) - 1000.012345678).abs() <= 1e-6);
        assert!(round(1000.012345678).to_string().len() < 13);
        let huge = rounding([0.0, 1e300].into_iter());
        assert!((huge(1.23456789e299) - 1.23456789e299).abs() <= 1e295);
        assert_eq!(huge(0.123456789), 0.123457);
        let flat = rounding([0.3, 0.3].into_iter());
        assert_eq!(flat(0.3), 0.3);
        let none = rounding(std::iter::empty());
        assert_eq!(none(0.25), 0.25);
    }

    #[test]
    fn points_are_increments() {
        assert_eq!(points(&[(2, 0.5), (5, 1.5), (9, 1.0)]), json!({ "dk": [2, 3, 4], "v": [0.5, 1.5, 1.0] }));
    }
}
