//! Runs that are compared, in a table for the terminal.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::compare::metrics_of;
use super::read::{Limits, Run, run};
use crate::Error;
use crate::metrics::{Shown, shown};
use crate::numbers::{grouped, thousands};
use crate::show;
use motes::printable::{Number, printable};
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
    let measured: Vec<(String, Shown)> =
        metrics_of(&runs).into_iter().map(|name| (name.clone(), shown(&name))).collect();
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    rows[0].extend(["algorithm", "steps", "seconds"].map(String::from));
    for name in theta.iter().take(COLUMNS) {
        rows[0].extend([name.clone(), "+/-".into()]);
    }
    rows[0].push("ESS".into());
    rows[0].extend(measured.iter().map(|(_, shown)| printable(&shown.head()).into_owned()));
    rows[0].push("verdict".into());
    for ((run, name), problem) in runs.iter().zip(names).zip(problems) {
        let s = run.summary.as_ref();
        let number =
            |v: Option<f64>, decimals: usize| v.map_or("-".into(), |v| Number(v).with_decimals(decimals));
        let mut row = vec![
            name.clone(),
            thousands(&s.map_or(run.reached, |s| s.steps).to_string()),
            number(s.map(|s| s.time.seconds), 3),
        ];
        for i in 0..theta.len().min(COLUMNS) {
            row.push(number(s.and_then(|s| s.theta.mean.as_ref()?.get(i).copied()), 5));
            row.push(number(run.theta.get(i).and_then(|c| c.error), 5));
        }
        row.push(s.and_then(|s| s.least_ess()).map_or("-".into(), grouped));
        for (name, shown) in &measured {
            let value = s.and_then(|s| s.metrics.as_ref()?.get(name));
            row.push(value.map_or("-".into(), |v| shown.number(v)));
        }
        let verdict = s.map(|s| printable(&s.diagnostics.verdict).into_owned());
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
        let advice = || run.summary.as_ref().and_then(|s| show::advice(s, Face::Shell));
        if let Some(advice) = problem.as_ref().map(|p| render(p, Face::Shell)).or_else(advice) {
            let _ = writeln!(out, "  {name}: {advice}");
        }
    }
    Ok(out)
}

/// What the table of a comparison needs of a run.
fn for_table(dir: &Path) -> Result<Run, Error> {
    let limits = Limits { components: 3, coordinates: 0, stretches: 40, per_trace: 40, name: 20 };
    Ok(run(dir, limits, false)?)
}
