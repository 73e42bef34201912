//! The summary that people read at the end: what summary.json says, and nothing else.

use std::fmt::Write;
use std::path::Path;

use motes::Summary;
use motes::sentence::{Face, render};

use crate::metrics;
use crate::numbers::{grouped, thousands};

/// At most this many parameters or coordinates are listed one by one.
const LISTED: usize = 12;

/// The summary as text, in the words of a face.
pub fn summary(summary: &Summary, path: &Path, face: Face) -> String {
    let mut out = String::new();
    let particles = match (summary.particles, summary.step_size) {
        (Some(n), Some(h)) => format!(" with {n} particles and h = {h}"),
        _ => String::new(),
    };
    let time = &summary.time;
    let _ = writeln!(
        out,
        "\n{} by {}: {} steps{particles} in {:.3} s ({} steps/s)\n",
        summary.model,
        summary.algorithm,
        thousands(&summary.steps.to_string()),
        time.seconds,
        grouped(time.steps_per_second)
    );
    let theta = &summary.theta;
    let mean = theta.mean.as_deref().unwrap_or(&theta.last);
    let width = theta.names.iter().take(LISTED).map(|n| n.len()).max().unwrap_or(0).max(9);
    let _ =
        writeln!(out, "  {:width$}  {:>10}  {:>9}  {:>10}  {:>7}", "parameter", "mean", "+/-", "last", "ESS");
    for (i, name) in theta.names.iter().take(LISTED).enumerate() {
        let known = |list: &[Option<f64>], decimals: usize| {
            list.get(i).copied().flatten().map_or("-".into(), |v| format!("{v:.decimals$}"))
        };
        let _ = writeln!(
            out,
            "  {name:width$}  {:>10.5}  {:>9}  {:>10.5}  {:>7}",
            mean[i],
            known(&theta.mc_error, 5),
            theta.last[i],
            known(&summary.diagnostics.ess, 0)
        );
    }
    more(&mut out, summary.d_theta);
    if let Some(p) = &summary.posterior {
        let width = p.names.iter().take(LISTED).map(|n| n.len()).max().unwrap_or(0).max(9);
        let _ = writeln!(out, "\n  {:width$}  {:>10}  {:>9}", "posterior", "mean", "sd");
        for i in 0..p.names.len().min(LISTED) {
            let _ = writeln!(out, "  {:width$}  {:>10.5}  {:>9.5}", p.names[i], p.mean[i], p.var[i].sqrt());
        }
        more(&mut out, p.names.len());
    } else if summary.d_x.saturating_mul(summary.groups) > motes::LISTED && theta.mean.is_some() {
        let count = thousands(&summary.d_x.saturating_mul(summary.groups).to_string());
        let _ = writeln!(out, "\n  posterior.npz has mean and variance of the {count} coordinates");
    }
    out.push('\n');
    if let Some(measured) = &summary.metrics {
        let text = |(name, value): &(String, f64)| {
            let shown = metrics::shown(name);
            format!("{} {}", shown.short, shown.text(*value))
        };
        let texts: Vec<String> = measured.0.iter().map(text).collect();
        let rows = summary.test_rows().map(|rows| format!(" on {rows} rows")).unwrap_or_default();
        let _ = writeln!(out, "  test      {}{rows}", texts.join(" and "));
    }
    for (name, value) in summary.scalars.iter().flat_map(|s| &s.0) {
        let _ =
            writeln!(out, "  {name:8}  {} (mean over the last pass)", metrics::shown(name).number(*value));
    }
    if let Some(a) = summary.diagnostics.acceptance {
        let _ = writeln!(out, "  accepted  {:.1} % of moves", 100.0 * a);
    }
    let _ = writeln!(out, "  verdict   {}", advice(summary, face).unwrap_or("ok".into()));
    let _ = writeln!(out, "  files     {}", path.display());
    out
}

/// What is to be done about a run, as people are told.
pub fn advice(summary: &Summary, face: Face) -> Option<String> {
    summary.diagnostics.advice.as_deref().map(|advice| render(advice, face))
}

fn more(out: &mut String, count: usize) {
    if count > LISTED {
        let _ = writeln!(out, "  ... and {} more", count - LISTED);
    }
}
