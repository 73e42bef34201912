//! Several runs on one page: a table, and charts in which they lie over each other.

use std::fmt::Write;

use super::page::{algorithm, escape, exact, model, note, section};
use super::read::{Run, SummaryFile};
use super::words::{self, decimals_for, fixed, grouped};

/// The page of several runs.
pub fn several(runs: &[Run]) -> String {
    let mut out = String::new();
    let models: std::collections::BTreeSet<&str> = runs.iter().map(model).collect();
    let models: Vec<&str> = models.into_iter().collect();
    let _ = writeln!(
        out,
        "<header><p class=\"kind\">Motes report</p><h1>{} runs <span class=\"by\">of</span> {}</h1></header>",
        runs.len(),
        escape(&models.join(", "))
    );
    table(&mut out, runs);
    section(&mut out, "Theta");
    out.push_str("<div class=\"chart\" data-chart=\"overlay\" data-name=\"theta\"></div>\n");
    if let Some(run) = runs.iter().filter(|r| r.theta.len() < r.d_theta).max_by_key(|r| r.d_theta) {
        note(
            &mut out,
            format_args!(
                "The first {} of {} components of theta are on this page; the report of a single run has more.",
                grouped(run.theta.len() as u64),
                grouped(run.d_theta as u64)
            ),
        );
    }
    out.push_str("</section>\n");
    for (name, title) in [("test_error", "Test error"), ("lppd", "LPPD"), ("acceptance", "Acceptance")] {
        if runs.iter().any(|r| r.scalars.iter().any(|s| s.name == name && s.trace.len() > 1)) {
            section(&mut out, title);
            let _ = writeln!(
                out,
                "<div class=\"chart\" data-chart=\"overlay\" data-name=\"{name}\"></div></section>"
            );
        }
    }
    out
}

/// A row for each run.
fn table(out: &mut String, runs: &[Run]) {
    out.push_str("<section><h2>Runs</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of runs\"><table class=\"runs\"><thead><tr>");
    let tested = runs.iter().any(|r| r.summary.as_ref().is_some_and(|s| s.metrics.is_some()));
    let wide = runs.iter().any(|r| r.d_theta > 1);
    let theta =
        escape(runs.iter().find_map(|r| r.theta.first()).filter(|_| wide).map_or("theta", |c| &c.name));
    let mut heads = vec!["", "run", "algorithm", "N", "h", "steps", "seconds", &theta, "± error", "ESS"];
    if tested {
        heads.extend(["test error", "LPPD"]);
    }
    heads.push("verdict");
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    let errors = || runs.iter().filter_map(|r| r.theta.first()?.error);
    let decimals = decimals_for(errors().fold(f64::INFINITY, f64::min)).min(7);
    for (i, run) in runs.iter().enumerate() {
        let s = run.summary.as_ref();
        let text = |key: &str| run.setting(key).map_or("<span class=\"none\">–</span>".into(), escape);
        let _ = write!(
            out,
            "<tr data-run=\"{i}\"><td class=\"key\">{}</td><th scope=\"row\">{}</th><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td>",
            i + 1,
            escape(&run.dir.display().to_string()),
            escape(algorithm(run)),
            text("particles"),
            text("step-size"),
            grouped(s.map_or(run.reached, |s| s.steps)),
        );
        let mean = s.and_then(|s| *s.theta.mean.as_ref()?.first()?);
        let _ = write!(
            out,
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            exact(s.map(|s| s.time.seconds), |v| fixed(v, 3)),
            exact(mean, |v| fixed(v, decimals)),
            exact(run.theta.first().and_then(|c| c.error), |v| fixed(v, decimals)),
            exact(s.filter(|s| s.algorithm != "em").and_then(least), |v| grouped(v.round() as u64)),
        );
        if tested {
            let metrics = s.and_then(|s| s.metrics);
            let _ = write!(
                out,
                "<td>{}</td><td>{}</td>",
                exact(metrics.and_then(|m| m.test_error), |v| format!("{} %", fixed(100.0 * v, 2))),
                exact(metrics.and_then(|m| m.lppd), |v| fixed(v, 4)),
            );
        }
        let verdict = words::verdict(run);
        let _ = writeln!(
            out,
            "<td class=\"word {}\" title=\"{}\">{}</td></tr>",
            verdict.tone,
            escape(&verdict.text.join(" ")),
            escape(&verdict.title)
        );
    }
    out.push_str("</tbody></table></div></section>\n");
}

/// The smallest effective sample size of a run.
fn least(summary: &SummaryFile) -> Option<f64> {
    summary.diagnostics.ess.iter().flatten().copied().reduce(f64::min)
}
