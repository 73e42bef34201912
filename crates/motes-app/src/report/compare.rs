//! Several runs on one page: a table, and charts in which they lie over each other.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::page::{algorithm, escape, exact, model, note, section};
use super::read::Run;
use super::words::{self, decimals_for, fixed, grouped, minus};
use crate::metrics;

/// The page of several runs.
pub fn several(runs: &[Run]) -> String {
    let mut out = String::new();
    let models: BTreeSet<&str> = runs.iter().map(model).collect();
    let models: Vec<&str> = models.into_iter().collect();
    let _ = writeln!(
        out,
        "<header><p class=\"kind\">Motes report</p><h1>{} runs <span class=\"by\">of</span> {}</h1></header>",
        runs.len(),
        escape(&models.join(", "))
    );
    table(&mut out, runs);
    section(&mut out, "Theta");
    out.push_str("<div class=\"chart\" data-chart=\"overlay\" data-name=\"\" data-label=\"theta\"></div>\n");
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
    let scalars = runs.iter().flat_map(|r| &r.scalars).filter(|s| s.trace.len() > 1);
    let (measured, others): (Vec<_>, Vec<_>) =
        scalars.filter(|s| s.metric || s.averaged).partition(|s| s.metric);
    let mut seen = BTreeSet::new();
    for s in measured.into_iter().chain(others).filter(|s| seen.insert(&s.name)) {
        section(&mut out, &escape(&s.title));
        let _ = writeln!(
            out,
            "<div class=\"chart\" data-chart=\"overlay\" data-name=\"{}\" data-label=\"{}\"></div></section>",
            escape(&s.name),
            escape(&s.label),
        );
    }
    out
}

/// A row for each run.
fn table(out: &mut String, runs: &[Run]) {
    out.push_str("<section><h2>Runs</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of runs\"><table class=\"runs\"><thead><tr>");
    let measured = metrics_of(runs);
    let shown: Vec<metrics::Shown> = measured.iter().map(|name| metrics::shown(name)).collect();
    let titles: Vec<String> = shown.iter().map(|s| escape(&s.title)).collect();
    let wide = runs.iter().any(|r| r.d_theta > 1);
    let theta =
        escape(runs.iter().find_map(|r| r.theta.first()).filter(|_| wide).map_or("theta", |c| &c.name));
    let mut heads = vec!["", "run", "algorithm", "N", "h", "steps", "seconds", &theta, "± error", "ESS"];
    heads.extend(titles.iter().map(String::as_str));
    heads.push("verdict");
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    let errors = || runs.iter().filter_map(|r| r.theta.first()?.error);
    let decimals = decimals_for(errors().fold(f64::INFINITY, f64::min)).min(7);
    for (i, run) in runs.iter().enumerate() {
        let s = run.summary.as_ref();
        let text =
            |known: Option<String>| known.map_or("<span class=\"none\">–</span>".into(), |t| escape(&t));
        let _ = write!(
            out,
            "<tr data-run=\"{i}\"><td class=\"key\">{}</td><th scope=\"row\">{}</th><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td>",
            i + 1,
            escape(&run.dir.display().to_string()),
            escape(algorithm(run)),
            text(run.particles()),
            text(run.step_size()),
            grouped(s.map_or(run.reached, |s| s.steps)),
        );
        let mean = s.and_then(|s| s.theta.mean.as_ref()?.first().copied());
        let _ = write!(
            out,
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            exact(s.map(|s| s.time.seconds), |v| fixed(v, 3)),
            exact(mean, |v| fixed(v, decimals)),
            exact(run.theta.first().and_then(|c| c.error), |v| fixed(v, decimals)),
            exact(s.and_then(|s| s.least_ess()), |v| grouped(v.round() as u64)),
        );
        for (name, shown) in measured.iter().zip(&shown) {
            let value = s.and_then(|s| s.metrics.as_ref()?.get(name));
            let _ = write!(out, "<td>{}</td>", exact(value, |v| minus(shown.text(v))));
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

/// The names of all metrics that any run has, in the order of the first that has them.
pub fn metrics_of(runs: &[Run]) -> Vec<String> {
    let all = runs.iter().filter_map(|r| r.summary.as_ref()?.metrics.as_ref()).flat_map(|m| &m.0);
    let mut seen = BTreeSet::new();
    all.map(|(name, _)| name.clone()).filter(|name| seen.insert(name.clone())).collect()
}
