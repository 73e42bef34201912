//! Runs that are compared, in a table for the terminal.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::compare::{SideBySide, decimals, from_maximum, measure, measures_of, other_data, side_by_side};
use super::ratio;
use super::read::{Limits, Run, run};
use super::words::decimals_for;
use crate::Error;
use crate::metrics::{Shown, shown};
use crate::numbers::thousands;
use crate::show;
use motes::printable::{Number, printable};
use motes::sentence::render;

/// At most this many components of theta have a column.
const COLUMNS: usize = 3;
/// And this many latent coordinates a row.
const LISTED: usize = 12;

/// All runs in one table, for the terminal.
pub fn table(names: &[String], dirs: &[PathBuf], problems: &[Option<String>]) -> Result<String, Error> {
    let runs: Vec<Run> = dirs.iter().map(|dir| for_table(dir)).collect::<Result<_, _>>()?;
    // The first weights of a network say nothing.
    let told = |r: &&Run| r.summary.as_ref().is_none_or(|s| s.theta.names.len() == s.d_theta);
    let theta: Vec<String> = runs
        .iter()
        .find(|r| !r.theta.is_empty())
        .filter(told)
        .map_or(Vec::new(), |r| r.theta.iter().map(|c| c.name.clone()).collect());
    let measured: Vec<(String, Shown)> =
        measures_of(&runs).into_iter().map(|name| (name.clone(), shown(&name))).collect();
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    rows[0].extend(["algorithm", "steps", "seconds"].map(String::from));
    for name in theta.iter().take(COLUMNS) {
        rows[0].extend([name.clone(), "SE".into(), "MC error".into()]);
    }
    rows[0].push("from max.".into());
    rows[0].extend(measured.iter().map(|(_, shown)| printable(&shown.head()).into_owned()));
    rows[0].push("verdict".into());
    for ((run, name), problem) in runs.iter().zip(names).zip(problems) {
        let s = run.summary.as_ref();
        let mut row = vec![
            name.clone(),
            thousands(&s.map_or(run.reached, |s| s.steps).to_string()),
            number(s.map(|s| s.time.seconds), 3),
        ];
        for name in theta.iter().take(COLUMNS) {
            let component = run.theta.iter().find(|c| c.name == *name);
            let (places, se_places) = decimals(&runs, name);
            row.push(number(component.and_then(|c| c.mean), places));
            row.push(number(component.and_then(|c| c.se), se_places));
            let error = component.and_then(|c| c.error);
            row.push(number(error, error.map_or(0, decimals_for).min(6)));
        }
        row.push(from_maximum(run).map_or("-".into(), |v| format!("{} SE", Number(v).with_decimals(3))));
        for (name, shown) in &measured {
            let value = s.and_then(|s| measure(s, name));
            row.push(value.map_or("-".into(), |v| shown.number(v)));
        }
        let verdict = s.map(|s| printable(&s.diagnostics.verdict).into_owned());
        row.push(if problem.is_some() { "diverged".into() } else { verdict.unwrap_or("-".into()) });
        rows.push(row);
    }
    let mut out = aligned(&rows);
    let most = runs.iter().map(|r| r.d_theta).max().filter(|_| !theta.is_empty());
    if let Some(more) = most.filter(|d| *d > COLUMNS) {
        let _ = writeln!(out, "  ... and {} more components of theta", more - COLUMNS);
    }
    out.push('\n');
    if runs.iter().any(|run| from_maximum(run).is_some()) {
        out.push_str(
            "  from max.: how far an adjusted pass finds theta from the maximum, in standard errors\n\n",
        );
    }
    for ((run, name), problem) in runs.iter().zip(names).zip(problems) {
        let advice = || run.summary.as_ref().and_then(|s| show::advice(s, run.face));
        if let Some(advice) = problem.as_ref().map(|p| render(p, run.face)).or_else(advice) {
            let _ = writeln!(out, "  {name}: {advice}");
        }
    }
    Ok(out)
}

/// Posterior means and standard deviations side by side, for the terminal.
fn posteriors(runs: &[Run]) -> String {
    let Some(SideBySide { rows, all }) = side_by_side(runs, LISTED) else { return String::new() };
    let mut lines = vec![vec!["posterior mean (sd)".to_string()]];
    lines[0].extend(runs.iter().map(ratio::called));
    for (name, cells) in &rows {
        let text = |cell: &Option<(f64, f64)>| match cell {
            Some((mean, sd)) => {
                let places = decimals_for(*sd);
                format!("{} ({})", Number(*mean).with_decimals(places), Number(*sd).with_decimals(places))
            }
            None => "-".into(),
        };
        let mut line = vec![printable(name).into_owned()];
        line.extend(cells.iter().map(text));
        lines.push(line);
    }
    let mut out = aligned(&lines);
    if all > rows.len() {
        let _ = writeln!(
            out,
            "  ... the {} of {} on which they are most apart",
            rows.len(),
            thousands(&all.to_string())
        );
    }
    if runs.iter().any(Run::is_standardised) {
        out.push_str("  weights are those of standardised features\n");
    }
    out
}

/// The log-likelihoods of run directories and the tests between them, for the terminal.
pub fn likelihood_table(dirs: &[PathBuf]) -> Result<String, Error> {
    let runs: Vec<Run> = dirs.iter().map(|dir| for_table(dir)).collect::<Result<_, _>>()?;
    let heads = ["run", "model", "parameters", "log-likelihood", "MC error", "AIC", "BIC", "n", "verdict"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    let mut below = String::new();
    for run in &runs {
        let s = run.summary.as_ref();
        let l = s.and_then(|s| s.log_likelihood.as_ref());
        let error = l.and_then(|l| l.mc_error);
        let places = error.map_or(3, decimals_for).min(3);
        rows.push(vec![
            ratio::called(run),
            printable(run.setting("model").unwrap_or("-")).into_owned(),
            thousands(&run.d_theta.to_string()),
            number(l.and_then(|l| l.value), places),
            number(error, error.map_or(0, decimals_for).min(6)),
            number(l.and_then(|l| l.aic), places),
            number(l.and_then(|l| l.bic), places),
            l.and_then(|l| l.n).map_or("-".into(), |n| thousands(&n.to_string())),
            match s.filter(|_| run.complete()) {
                Some(s) => printable(&s.diagnostics.verdict).into_owned(),
                None => "not finished".into(),
            },
        ]);
        if let Some(why) = l.filter(|l| l.value.is_none()).and_then(|l| l.why_not.as_deref()) {
            let why = render(&printable(why), run.face);
            let _ = writeln!(below, "  {}: no log-likelihood, because {why}", ratio::called(run));
        }
    }
    let mut out = aligned(&rows);
    let _ = write!(out, "\n{below}");
    let together = posteriors(&runs);
    if !together.is_empty() {
        let _ = writeln!(out, "{together}");
    }
    if let Some(sentence) = other_data(&runs) {
        let _ = writeln!(out, "  {sentence}");
    }
    for test in ratio::tests(&runs) {
        let text = match test {
            Ok(test) => {
                let mut text = format!(
                    "  likelihood-ratio test of {} against {}\n    2 (l1 - l0)         {}\n    degrees of freedom  {}\n    p-value             {}\n",
                    ratio::called(&runs[test.smaller]),
                    ratio::called(&runs[test.larger]),
                    test.statistic_text(),
                    test.degrees,
                    test.p_text()
                );
                for line in std::iter::once(ratio::ASSUMED).chain(test.notes.iter().map(String::as_str)) {
                    let _ = writeln!(text, "    {line}");
                }
                text
            }
            Err(why) => format!("  {why}\n"),
        };
        // A terminal has the signs of a keyboard.
        let _ = write!(out, "{}", text.replace('\u{2212}', "-"));
    }
    Ok(out)
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".into(), |v| Number(v).with_decimals(decimals))
}

/// Rows with their columns below each other; the first and the last are words.
fn aligned(rows: &[Vec<String>]) -> String {
    let mut out = String::from("\n");
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let words = i == 0 || i + 1 == row.len();
            let _ = if words { write!(line, "  {cell:width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// What the table of a comparison needs of a run.
fn for_table(dir: &Path) -> Result<Run, Error> {
    let limits = Limits { components: 3, coordinates: 0, stretches: 40, per_trace: 40, name: 20 };
    Ok(run(dir, limits, false)?)
}
