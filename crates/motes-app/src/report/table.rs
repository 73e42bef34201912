//! Runs that are compared, in a table for the terminal.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::read::{Limits, Run, run};
use crate::Error;
use crate::numbers::{grouped, thousands};
use motes::sentence::{Face, render};

/// At most this many components of theta have a column.
const COLUMNS: usize = 3;

/// All runs in one table, for the terminal.
pub fn table(names: &[String], dirs: &[PathBuf], problems: &[Option<String>]) -> Result<String, Error> {
    let runs: Vec<Run> = dirs.iter().map(|dir| for_table(dir)).collect::<Result<_, _>>()?;
    let theta: Vec<String> = runs
        .iter()
        .find(|r| !r.theta.is_empty())
        .map_or(Vec::new(), |r| r.theta.iter().map(|c| c.name.clone()).collect());
    let tested = runs.iter().any(|r| r.summary.as_ref().is_some_and(|s| s.metrics.is_some()));
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    rows[0].extend(["algorithm", "steps", "seconds"].map(String::from));
    for name in theta.iter().take(COLUMNS) {
        rows[0].extend([name.clone(), "+/-".into()]);
    }
    rows[0].push("ESS".into());
    if tested {
        rows[0].extend(["error %", "LPPD"].map(String::from));
    }
    rows[0].push("verdict".into());
    for ((run, name), problem) in runs.iter().zip(names).zip(problems) {
        let s = run.summary.as_ref();
        let number = |v: Option<f64>, decimals: usize| v.map_or("-".into(), |v| format!("{v:.decimals$}"));
        let mut row = vec![
            name.clone(),
            thousands(&s.map_or(run.reached, |s| s.steps).to_string()),
            number(s.map(|s| s.time.seconds), 3),
        ];
        for i in 0..theta.len().min(COLUMNS) {
            row.push(number(s.and_then(|s| *s.theta.mean.as_ref()?.get(i)?), 5));
            row.push(number(run.theta.get(i).and_then(|c| c.error), 5));
        }
        let ess = s.map_or(f64::INFINITY, |s| {
            s.diagnostics.ess.iter().flatten().copied().fold(f64::INFINITY, f64::min)
        });
        row.push(if ess.is_finite() { grouped(ess) } else { "-".into() });
        if tested {
            let metrics = s.and_then(|s| s.metrics);
            row.push(number(metrics.and_then(|m| m.test_error).map(|e| 100.0 * e), 2));
            row.push(number(metrics.and_then(|m| m.lppd), 4));
        }
        let verdict = s.map(|s| s.diagnostics.verdict.clone());
        row.push(if problem.is_some() { "diverged".into() } else { verdict.unwrap_or("-".into()) });
        rows.push(row);
    }
    let mut out = String::from("\n");
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let words = i == 0 || i + 1 == row.len();
            let _ = if words { write!(line, "  {cell:width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if let Some(more) = runs.iter().map(|r| r.d_theta).max().filter(|d| *d > COLUMNS) {
        let _ = writeln!(out, "  ... and {} more components of theta", more - COLUMNS);
    }
    out.push('\n');
    for ((run, name), problem) in runs.iter().zip(names).zip(problems) {
        let advice = run.summary.as_ref().and_then(|s| s.diagnostics.advice.as_ref());
        if let Some(advice) = problem.as_ref().or(advice) {
            let _ = writeln!(out, "  {name}: {}", render(advice, Face::Shell));
        }
    }
    Ok(out)
}

/// What the table of a comparison needs of a run.
fn for_table(dir: &Path) -> Result<Run, Error> {
    let limits = Limits { components: 3, coordinates: 0, stretches: 40, per_trace: 40, name: 20 };
    Ok(run(dir, limits, false)?)
}
