//! The summary that people read at the end: what summary.json says, and nothing else.

use std::borrow::{Borrow, Cow};
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

use motes::printable::{Number, printable};
use motes::sentence::{Face, render};
use motes::summary::{Coefficient, LikelihoodSummary, ReplicateSummary};
use motes::{Algorithm, Summary};

use crate::metrics;
use crate::numbers::{grouped, thousands};
use crate::report::words::decimals_for;

/// At most this many parameters or coordinates are listed one by one.
const LISTED: usize = 12;
/// And this many coefficients of a regression.
const COEFFICIENTS: usize = 30;

/// The summary as text, in the words of a face.
pub fn summary(summary: &Summary, path: &Path, face: Face) -> String {
    let mut out = String::new();
    let particles = match (summary.particles, summary.step_size) {
        (Some(n), Some(h)) => format!(" with {n} particles and h = {}", three_digits(h)),
        (Some(n), None) => format!(" with {n} particles"),
        _ => String::new(),
    };
    let sweeps = <&Algorithm>::from_str(&summary.algorithm).is_ok_and(Algorithm::ends_itself);
    let unit = if sweeps { "sweeps" } else { "steps" };
    let time = &summary.time;
    let runs = match &summary.replicates {
        Some(replicates) => format!("{} replicates of up to ", replicates.runs.len()),
        None => String::new(),
    };
    let _ = writeln!(
        out,
        "\n{} by {}: {runs}{} {unit}{particles} in {} s ({} {unit}/s)\n",
        printable(&summary.model),
        printable(&summary.algorithm),
        thousands(&summary.steps.to_string()),
        Number(time.seconds).with_decimals(3),
        grouped(time.steps_per_second)
    );
    for line in &summary.formula {
        let _ = writeln!(out, "  {}", printable(line));
    }
    if let Some(rows) = rows(summary) {
        let _ = writeln!(out, "  {rows}");
    }
    if !summary.formula.is_empty() {
        out.push('\n');
    }
    let theta = &summary.theta;
    let mean = theta.mean.as_deref().unwrap_or(&theta.last);
    let names = shown(&theta.names);
    let width = width_of(&names);
    let level = format!("{} % interval", Number(100.0 * summary.level));
    let heads = ["estimate", "std. error", "MC error"];
    let r_hat = summary.replicates.as_ref().map(|replicates| &replicates.r_hat);
    let _ = writeln!(
        out,
        "  {:width$}  {:>11}  {:>10}  {:>25}  {:>9}{}",
        "parameter",
        heads[0],
        heads[1],
        level,
        heads[2],
        if r_hat.is_some() { "    R-hat" } else { "" }
    );
    for (i, name) in names.iter().enumerate() {
        let se = theta.se.get(i).copied().flatten();
        // Three digits of the standard error.
        let decimals =
            1 + decimals_for(se.or(theta.mc_error.get(i).copied().flatten()).unwrap_or(mean[i].abs()));
        let shown =
            |v: Option<f64>, decimals: usize| v.map_or("-".into(), |v| Number(v).with_decimals(decimals));
        let interval = match theta.interval.get(i).copied().flatten() {
            Some([low, high]) => {
                format!("{} to {}", shown(Some(low), decimals), shown(Some(high), decimals))
            }
            None => "-".into(),
        };
        let mc_error = theta.mc_error.get(i).copied().flatten();
        let _ = writeln!(
            out,
            "  {name:width$}  {:>11}  {:>10}  {interval:>25}  {:>9}{}",
            Number(mean[i]).with_decimals(decimals),
            shown(se, decimals),
            shown(mc_error, decimals_for(mc_error.unwrap_or(1.0))),
            r_hat.map_or(String::new(), |r| format!("  {:>7}", shown(r.get(i).copied().flatten(), 3)))
        );
    }
    more(&mut out, summary.d_theta);
    if let Some(replicates) = &summary.replicates {
        each(&mut out, &replicates.runs);
    }
    if let Some(all) = &summary.coefficients {
        coefficients(&mut out, all, summary);
    } else if let Some(p) = &summary.posterior {
        let names = shown(&p.names);
        let width = width_of(&names);
        let head = if theta.se.is_empty() { "posterior" } else { "posterior at the estimate" };
        let width = width.max(head.len());
        let _ = writeln!(out, "\n  {head:width$}  {:>10}  {:>9}", "mean", "sd");
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
    if let Some(l) = &summary.log_likelihood {
        let _ = writeln!(out, "  {}", likelihood(l));
    }
    if let Some(measured) = &summary.metrics {
        let text = |(name, value): &(String, f64)| {
            let shown = metrics::shown(name);
            format!("{} {}", printable(&shown.short), shown.text(*value))
        };
        let texts: Vec<String> = measured.0.iter().map(text).collect();
        let rows = summary.test_rows().map(|rows| format!(" on {rows} rows")).unwrap_or_default();
        let _ = writeln!(out, "  test      {}{rows}", in_a_row(&texts));
    }
    for (name, value) in summary.scalars.iter().flat_map(|s| &s.0) {
        let _ =
            writeln!(out, "  {name:8}  {} (mean over the last pass)", metrics::shown(name).number(*value));
    }
    if let Some(a) = summary.diagnostics.acceptance {
        let _ = writeln!(out, "  accepted  {:.1} % of moves", 100.0 * a);
    }
    let verdict = printable(&summary.diagnostics.verdict);
    let why = advice(summary, face).map(|advice| format!(": {advice}")).unwrap_or_default();
    let _ = writeln!(out, "  verdict   {verdict}{why}");
    let _ = writeln!(out, "  files     {}", printable(&path.to_string_lossy()));
    out
}

/// Coefficients in the order of the columns; the strongest where they are many.
fn coefficients(out: &mut String, all: &[Coefficient], summary: &Summary) {
    let strength = |c: &Coefficient| (c.standardised.mean / c.standardised.sd).abs();
    let mut listed: Vec<&Coefficient> = all.iter().collect();
    if listed.len() > COEFFICIENTS {
        listed.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
        listed.truncate(COEFFICIENTS);
    }
    let name = |c: &Coefficient| match &c.class {
        Some(class) => printable(&format!("{class}: {}", c.name)).into_owned(),
        None => printable(&c.name).into_owned(),
    };
    let names: Vec<String> = listed.iter().map(|c| name(c)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max("coefficient".len());
    let level = format!("{} % interval", Number(100.0 * summary.level));
    let _ = writeln!(
        out,
        "\n  {:width$}  {:>10}  {:>9}  {level:>23}  {:>7}  {:>12}",
        "coefficient", "mean", "sd", "P(sign)", "standardised"
    );
    for (c, name) in listed.iter().zip(&names) {
        let decimals = 1 + decimals_for(c.original.sd);
        let shown = |v: f64| Number(v).with_decimals(decimals);
        let interval =
            c.original.interval.map_or("-".into(), |[a, b]| format!("{} to {}", shown(a), shown(b)));
        let sign = c.sign_probability.map_or("-".into(), |p| Number(p).with_decimals(3));
        let _ = writeln!(
            out,
            "  {name:width$}  {:>10}  {:>9}  {interval:>23}  {sign:>7}  {:>12}",
            shown(c.original.mean),
            shown(c.original.sd),
            Number(c.standardised.mean).with_decimals(3),
        );
    }
    if all.len() > listed.len() {
        let _ = writeln!(
            out,
            "  ... the {} strongest of {}; coefficients.csv has all",
            listed.len(),
            thousands(&all.len().to_string())
        );
    }
}

/// How many rows went where, in a sentence.
pub fn rows(summary: &Summary) -> Option<String> {
    let data = summary.data.as_ref()?;
    let count = |key: &str| data.get(key)?.as_u64();
    let counted = |n: u64, what: &str| match n {
        1 => format!("1 row {what}"),
        n => format!("{} rows {what}", thousands(&n.to_string())),
    };
    let mut parts = vec![counted(count("train_rows")?, "trained on")];
    if let (Some(column), Some(sum)) = (data["weights"][0].as_str(), data["weights"][1].as_f64()) {
        parts[0] += &format!(", which count {} times by {}", three_digits(sum), printable(column));
    }
    parts.extend(
        count("test_rows").filter(|n| *n > 0).map(|n| format!("{} tested on", thousands(&n.to_string()))),
    );
    parts.extend(
        count("rows_dropped")
            .filter(|n| *n > 0)
            .map(|n| format!("{} left out for missing values", thousands(&n.to_string()))),
    );
    Some(parts.join(", "))
}

/// A line for each replicate.
fn each(out: &mut String, runs: &[ReplicateSummary]) {
    let _ = writeln!(out, "\n  replicate        seed  log-likelihood   MC error  verdict");
    for run in runs.iter().take(LISTED) {
        let number =
            |v: Option<f64>, decimals: usize| v.map_or("-".into(), |v| Number(v).with_decimals(decimals));
        let error = run.log_likelihood_mc_error;
        let places = error.map_or(3, decimals_for);
        let _ = writeln!(
            out,
            "  {:9}  {:>10}  {:>14}  {:>9}  {}{}",
            printable(&run.name),
            run.seed,
            number(run.log_likelihood, places.min(3)),
            number(error, places),
            printable(&run.verdict),
            if run.pooled { "" } else { " (not pooled)" }
        );
    }
    more(out, runs.len());
}

/// The log-likelihood and what follows from it, in a line.
fn likelihood(l: &LikelihoodSummary) -> String {
    let Some(value) = l.value else {
        let why = l.why_not.as_deref().unwrap_or("it is not finite");
        return format!("log-likelihood not available: {}", printable(why));
    };
    let error = l.mc_error.unwrap_or(f64::NAN);
    let decimals = decimals_for(error).min(3);
    let mut line = format!(
        "log-likelihood {} (MC error {})",
        Number(value).with_decimals(decimals),
        Number(error).with_decimals(decimals_for(error))
    );
    if !l.complete {
        line.push_str(", as the density is given");
    }
    if let Some(aic) = l.aic {
        let _ = write!(line, ", AIC {}", Number(aic).with_decimals(decimals));
    }
    if let (Some(bic), Some(n)) = (l.bic, l.n) {
        let _ =
            write!(line, ", BIC {} (n = {})", Number(bic).with_decimals(decimals), thousands(&n.to_string()));
    }
    line
}

/// A number as people want to read it.
pub fn three_digits(value: f64) -> Number {
    format!("{value:.2e}").parse().map_or(Number(value), Number)
}

/// What is to be done about a run, as people are told.
pub fn advice(summary: &Summary, face: Face) -> Option<String> {
    summary.diagnostics.advice.as_deref().map(|advice| render(advice, face))
}

/// Texts with commas between them, and an "and" before the last.
pub(crate) fn in_a_row<S: Borrow<str>>(texts: &[S]) -> String {
    match texts {
        [] => String::new(),
        [one] => one.borrow().into(),
        [most @ .., last] => format!("{} and {}", most.join(", "), last.borrow()),
    }
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
