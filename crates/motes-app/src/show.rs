//! The summary that people read at the end.

use std::fmt::Write;
use std::path::Path;

use motes::sentence::{Face, render};
use motes::settings::Settings;
use motes::summary::posterior_moments;
use motes::{Model, Real, State, Summary};

use crate::numbers::{grouped, thousands};

/// At most this many parameters or coordinates are listed one by one.
const LISTED: usize = 12;

/// The summary as text.
pub fn summary<F: Real>(
    summary: &Summary,
    model: &dyn Model<F>,
    settings: &Settings,
    state: &State<F>,
    path: &Path,
) -> String {
    let mut out = String::new();
    let particles = match state.cloud.n() {
        0 => String::new(),
        n => format!(" with {n} particles and h = {}", settings.step_size),
    };
    let time = &summary.time;
    let _ = writeln!(
        out,
        "\n{} by {}: {} steps{particles} in {:.3} s ({} steps/s)\n",
        summary.model,
        summary.algorithm,
        thousands(&state.k.to_string()),
        time.seconds,
        grouped(time.steps_per_second)
    );
    let mean = summary.theta.mean.as_deref().unwrap_or(&summary.theta.last);
    let width = summary.theta.names.iter().take(LISTED).map(|n| n.len()).max().unwrap_or(0).max(9);
    let _ =
        writeln!(out, "  {:width$}  {:>10}  {:>9}  {:>10}  {:>7}", "parameter", "mean", "+/-", "last", "ESS");
    for (i, name) in summary.theta.names.iter().take(LISTED).enumerate() {
        let error = state.batches.variance_of_mean(i).map(f64::sqrt);
        let ess = summary.diagnostics.ess[i];
        let _ = writeln!(
            out,
            "  {name:width$}  {:>10.5}  {:>9}  {:>10.5}  {:>7}",
            mean[i],
            error.filter(|_| state.cloud.n() > 0).map_or("-".into(), |e| format!("{e:.5}")),
            summary.theta.last[i],
            ess.filter(|_| state.cloud.n() > 0).map_or("-".into(), |e| format!("{e:.0}"))
        );
    }
    more(&mut out, summary.theta.names.len());
    if let Some((mean, var)) = posterior_moments(model, state) {
        let names = model.x_names();
        let width = names.iter().take(LISTED).map(|n| n.len()).max().unwrap_or(0).max(9);
        let _ = writeln!(out, "\n  {:width$}  {:>10}  {:>9}", "posterior", "mean", "sd");
        for i in 0..names.len().min(LISTED) {
            let _ = writeln!(out, "  {:width$}  {:>10.5}  {:>9.5}", names[i], mean[i], var[i].sqrt());
        }
        more(&mut out, names.len());
    }
    out.push('\n');
    if let Some(m) = summary.metrics {
        let rows = summary.data.as_ref().and_then(|d| d.get("test_rows")?.as_u64()).unwrap_or(0);
        let error = 100.0 * m.test_error;
        let _ = writeln!(out, "  test      error {error:.2} % and LPPD {:.4} on {rows} rows", m.lppd);
    }
    if let Some(a) = summary.diagnostics.acceptance {
        let _ = writeln!(out, "  accepted  {:.1} % of moves", 100.0 * a);
    }
    let verdict = render(summary.diagnostics.advice.as_deref().unwrap_or("ok"), Face::Shell);
    let _ = writeln!(out, "  verdict   {verdict}");
    let _ = writeln!(out, "  files     {}", path.display());
    out
}

fn more(out: &mut String, count: usize) {
    if count > LISTED {
        let _ = writeln!(out, "  ... and {} more", count - LISTED);
    }
}
