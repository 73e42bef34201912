//! The summary that people read at the end: what summary.json says, and nothing else.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use motes::Summary;
use motes::printable::{Number, printable};
use motes::sentence::{Face, render};

use crate::metrics;
use crate::numbers::{grouped, thousands};

/// At most this many parameters or coordinates are listed one by one.
const LISTED: usize = 12;

/// The summary as text, in the words of a face.
pub fn summary(summary: &Summary, path: &Path, face: Face) -> String {
    let mut out = String::new();
    let particles = match (summary.particles, summary.step_size) {
        (Some(n), Some(h)) => format!(" with {n} particles and h = {}", Number(h)),
        _ => String::new(),
    };
    let time = &summary.time;
    let _ = writeln!(
        out,
        "\n{} by {}: {} steps{particles} in {} s ({} steps/s)\n",
        printable(&summary.model),
        printable(&summary.algorithm),
        thousands(&summary.steps.to_string()),
        Number(time.seconds).with_decimals(3),
        grouped(time.steps_per_second)
    );
    let theta = &summary.theta;
    let mean = theta.mean.as_deref().unwrap_or(&theta.last);
    let names = shown(&theta.names);
    let width = width_of(&names);
    let _ =
        writeln!(out, "  {:width$}  {:>10}  {:>9}  {:>10}  {:>7}", "parameter", "mean", "+/-", "last", "ESS");
    for (i, name) in names.iter().enumerate() {
        let known = |list: &[Option<f64>], decimals: usize| {
            list.get(i).copied().flatten().map_or("-".into(), |v| Number(v).with_decimals(decimals))
        };
        let _ = writeln!(
            out,
            "  {name:width$}  {:>10}  {:>9}  {:>10}  {:>7}",
            Number(mean[i]).with_decimals(5),
            known(&theta.mc_error, 5),
            Number(theta.last[i]).with_decimals(5),
            known(&summary.diagnostics.ess, 0)
        );
    }
    more(&mut out, summary.d_theta);
    if let Some(p) = &summary.posterior {
        let names = shown(&p.names);
        let width = width_of(&names);
        let _ = writeln!(out, "\n  {:width$}  {:>10}  {:>9}", "posterior", "mean", "sd");
        for (i, name) in names.iter().enumerate() {
            let [mean, sd] = [p.mean[i], p.var[i].sqrt()].map(|v| Number(v).with_decimals(5));
            let _ = writeln!(out, "  {name:width$}  {mean:>10}  {sd:>9}");
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
            format!("{} {}", printable(&shown.short), shown.text(*value))
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
    let _ = writeln!(out, "  files     {}", printable(&path.display().to_string()));
    out
}

/// What is to be done about a run, as people are told.
pub fn advice(summary: &Summary, face: Face) -> Option<String> {
    summary.diagnostics.advice.as_deref().map(|advice| render(advice, face))
}

/// The names that are listed, such as they can be shown.
fn shown(names: &[String]) -> Vec<Cow<'_, str>> {
    names.iter().take(LISTED).map(|name| printable(name)).collect()
}

/// The width of a column of names.
fn width_of(names: &[Cow<'_, str>]) -> usize {
    names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(9)
}

fn more(out: &mut String, count: usize) {
    if count > LISTED {
        let _ = writeln!(out, "  ... and {} more", count - LISTED);
    }
}
