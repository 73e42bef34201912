//! The estimates of a run: a table of the components of theta, and their traces.

use std::fmt::Write;

use motes::Summary;

use super::super::read::{Component, Run};
use super::super::words::{decimals_for, fixed, grouped, significant};
use super::{NONE, escape, exact, interval_name, note, section};

/// Components of theta that are listed one by one.
const LISTED: usize = 200;

pub(super) fn theta(out: &mut String, run: &Run) {
    section(out, "Theta");
    if run.theta.iter().all(|c| c.trace.is_empty()) {
        note(out, "No steps have been recorded yet.");
        out.push_str("</section>\n");
        return;
    }
    if let Some(s) = &run.summary {
        components(out, run, s);
    }
    out.push_str("<div class=\"chart\" data-chart=\"theta\"></div>\n");
    if run.theta.len() < run.d_theta {
        note(
            out,
            format_args!(
                "Traces of the first {} of {} components are in this report; trace.csv has the first {}.",
                run.theta.len(),
                grouped(run.d_theta as u64),
                grouped(motes::LISTED as u64)
            ),
        );
    }
    out.push_str("</section>\n");
}

/// A row for each component, with the columns that any of them has a value for.
pub(super) fn components(out: &mut String, run: &Run, s: &Summary) {
    let rows = &run.theta[..run.theta.len().min(LISTED)];
    let decimals = |c: &Component| c.se.or(c.error).map_or(5, decimals_for).min(7);
    type Cell = Box<dyn Fn(&Component) -> Option<String>>;
    let number = |of: fn(&Component) -> Option<f64>, show: fn(f64, usize) -> String| -> Cell {
        Box::new(move |c| of(c).filter(|v| v.is_finite()).map(|v| exact(Some(v), |v| show(v, decimals(c)))))
    };
    let in_stages = run.steps.is_none();
    let mut columns: Vec<(String, Cell)> = vec![
        ("estimate".into(), number(|c| c.mean, fixed)),
        ("standard error".into(), number(|c| c.se, fixed)),
        (
            interval_name(s),
            Box::new(move |c| {
                let [low, high] = c.interval?.map(|v| exact(Some(v), |v| fixed(v, decimals(c))));
                Some(format!("<span class=\"line\">{low} to {high}</span>"))
            }),
        ),
        ("MC error".into(), number(|c| c.error, |v, _| significant(v, 2))),
        ("MC error of SE".into(), number(|c| c.se_error, |v, _| significant(v, 2))),
        ("information".into(), number(|c| c.share, |v, _| format!("{} %", fixed(100.0 * v, 0)))),
        ("from maximum".into(), number(|c| c.distance, |v, _| format!("{} SE", fixed(v, 3)))),
    ];
    if !in_stages {
        columns.push(("ESS".into(), number(|c| c.ess, |v, _| grouped(v.round() as u64))));
        columns.push(("drift".into(), number(|c| c.drift, |v, _| fixed(v, 2))));
    }
    columns.retain(|(_, of)| rows.iter().any(|c| of(c).is_some()));
    // On a narrow screen a few rows become lists.
    let few = if rows.len() <= 3 { " few" } else { "" };
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Estimates\"><table class=\"theta{few}\"><thead><tr><th scope=\"col\">component</th>"
    );
    for (head, _) in &columns {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for c in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&c.name));
        for (head, of) in &columns {
            let cell = of(c).unwrap_or(NONE.into());
            let _ = write!(out, "<td data-head=\"{head}\">{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    let has = |head: &str| columns.iter().any(|(h, _)| h.starts_with(head));
    let mut words = Vec::new();
    if has("standard error") {
        words.push("The standard error and the interval are about the data: another sample would move the estimate by about this much.");
    }
    if has("MC error") {
        words.push("The MC (Monte Carlo) error is about the computation: another seed would move it by about this much.");
    }
    if has("information") {
        words.push("Information is the share of what the data would tell about the component if the latent variables were known.");
    }
    if has("from maximum") {
        words.push(
            "The distance from the maximum of the likelihood is that of an adjusted pass after the run.",
        );
    }
    if has("drift") {
        words.push("Drift is how far a component moved from the first to the second half of the steps after burn-in, in its standard deviations.");
    }
    note(out, words.join(" "));
}
