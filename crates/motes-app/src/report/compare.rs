//! Several runs on one page: a table, and charts in which they lie over each other.

use motes::Summary;
use motes::summary::PosteriorSummary;
use std::collections::BTreeSet;
use std::fmt::Write;

use super::page::{NONE, algorithm, escape, exact, model, note, pooled, section};
use super::ratio;
use super::read::{Component, Run};
use super::words::{self, decimals_for, fixed, grouped, minus, significant};
use crate::metrics;

/// The page of several runs, which may be replicates.
pub fn several(runs: &[Run], together: Option<&Run>) -> String {
    let mut out = String::new();
    let models: BTreeSet<&str> = runs.iter().map(model).collect();
    let models: Vec<&str> = models.into_iter().collect();
    let _ = writeln!(
        out,
        "<header><p class=\"kind\">Motes report</p><h1>{} {} <span class=\"by\">of</span> {}</h1></header>",
        runs.len(),
        if together.is_some() { "replicates" } else { "runs" },
        escape(&models.join(", "))
    );
    if let Some(run) = together {
        pooled(&mut out, run);
    }
    if let Some(sentence) = other_data(runs) {
        let _ = writeln!(out, "<section class=\"verdict care\"><p>{}</p></section>", escape(&sentence));
    }
    table(&mut out, runs);
    likelihoods(&mut out, runs);
    posteriors(&mut out, runs);
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
        let log = if s.metric && s.averaged { " data-log" } else { "" };
        let _ = writeln!(
            out,
            "<div class=\"chart\" data-chart=\"overlay\"{log} data-name=\"{}\" data-label=\"{}\"></div></section>",
            escape(&s.name),
            escape(&s.label),
        );
    }
    out
}

/// What is said of runs that are not of the same data.
pub fn other_data(runs: &[Run]) -> Option<String> {
    let of = |run: &Run| {
        let named = [
            "data-sha256",
            "dim",
            "true-theta",
            "data-seed",
            "target",
            "weights",
            "test-fraction",
            "split-seed",
        ];
        named.map(|name| run.setting(name).unwrap_or_default().to_string())
    };
    let same = |a: &Run, b: &Run| of(a) == of(b);
    let other = runs.iter().skip(1).find(|run| !same(run, &runs[0]))?;
    Some(format!(
        "These runs are of different data, or count rows differently ({} and {}, for example): their estimates can be read side by side, but neither likelihoods nor test errors compare.",
        ratio::called(&runs[0]),
        ratio::called(other)
    ))
}

/// Coordinates of which a table shows the posteriors.
const SIDE_BY_SIDE: usize = 40;

/// Coordinates that several runs have, with what each says about them: those on which they are most apart.
pub fn side_by_side(runs: &[Run], most: usize) -> Option<SideBySide> {
    let of: Vec<_> = runs.iter().map(|run| run.summary.as_ref().and_then(|s| s.posterior.as_ref())).collect();
    let first = of.iter().flatten().next()?;
    let place = |p: &PosteriorSummary, name: &str, i: usize| match p.names.get(i) {
        Some(same) if same == name => Some(i),
        _ => p.names.iter().position(|n| n == name),
    };
    let cells = |(i, name): (usize, &String)| -> Cells {
        let cell = |p: &Option<&PosteriorSummary>| {
            let p = (*p)?;
            place(p, name, i).map(|i| (p.mean[i], p.var[i].sqrt()))
        };
        of.iter().map(cell).collect()
    };
    let mut rows: Vec<(String, Cells)> = first
        .names
        .iter()
        .enumerate()
        .map(|named| (named.1.clone(), cells(named)))
        .filter(|(_, cells)| cells.iter().flatten().count() > 1)
        .collect();
    let all = rows.len();
    // How far the means are apart, in the largest standard deviation.
    let apart = |cells: &[Option<(f64, f64)>]| {
        let known = || cells.iter().flatten();
        let (low, high) =
            known().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (m, _)| (a.min(*m), b.max(*m)));
        (high - low) / known().fold(f64::MIN_POSITIVE, |sd, (_, s)| sd.max(*s))
    };
    if all > most {
        rows.sort_by(|a, b| apart(&b.1).total_cmp(&apart(&a.1)));
        rows.truncate(most);
    }
    (!rows.is_empty()).then_some(SideBySide { rows, all })
}

/// The mean and the standard deviation that each run has.
pub type Cells = Vec<Option<(f64, f64)>>;

/// Posterior means and standard deviations, by coordinate and run.
pub struct SideBySide {
    /// Coordinates with what each run has.
    pub rows: Vec<(String, Cells)>,
    /// How many coordinates there are.
    pub all: usize,
}

/// The posteriors of the runs side by side.
fn posteriors(out: &mut String, runs: &[Run]) {
    let Some(SideBySide { rows, all }) = side_by_side(runs, SIDE_BY_SIDE) else { return };
    section(out, "Posteriors side by side");
    out.push_str("<div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Posteriors\"><table class=\"posteriors\"><thead><tr><th scope=\"col\">coordinate</th>");
    for (i, run) in runs.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=\"col\" title=\"{}\">run {}</th>",
            escape(&run.dir.to_string_lossy()),
            i + 1
        );
    }
    out.push_str("</tr></thead><tbody>\n");
    for (name, cells) in &rows {
        let least =
            cells.iter().flatten().map(|(_, sd)| *sd).filter(|sd| *sd > 0.0).fold(f64::INFINITY, f64::min);
        let decimals = if least.is_finite() { decimals_for(least) } else { 4 };
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
        for cell in cells {
            let text = cell.map_or(NONE.into(), |(mean, sd)| {
                format!("<span class=\"line\">{} ({})</span>", fixed(mean, decimals), fixed(sd, decimals))
            });
            let _ = write!(out, "<td>{text}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    let which = match all > rows.len() {
        true => format!(
            " The {} of {} coordinates on which the runs are most apart.",
            rows.len(),
            grouped(all as u64)
        ),
        false => String::new(),
    };
    let scale = if runs.iter().any(Run::is_standardised) {
        " Weights are those of standardised features."
    } else {
        ""
    };
    note(out, format_args!("Means, with standard deviations in brackets.{scale}{which}"));
    out.push_str("</section>\n");
}

/// The component that a table with room for one shows: the first that all runs have.
pub fn shared(runs: &[Run]) -> Option<&str> {
    let has = |run: &Run, name: &str| run.theta.iter().any(|c| c.name == name);
    let first = runs.iter().find(|run| !run.theta.is_empty())?;
    let all = first.theta.iter().find(|c| runs.iter().all(|run| run.theta.is_empty() || has(run, &c.name)));
    Some(&all.or(first.theta.first())?.name)
}

/// The directory of a run, which a narrow column breaks where a path has parts.
fn breaking(run: &Run) -> String {
    escape(&run.dir.to_string_lossy()).replace('/', "/<wbr>")
}

/// The largest distance from the maximum of any component of a run, in standard errors.
pub fn from_maximum(run: &Run) -> Option<f64> {
    run.summary.as_ref()?.diagnostics.distance.iter().flatten().copied().reduce(|a, b| {
        match b.abs() > a.abs() {
            true => b,
            false => a,
        }
    })
}

/// Decimals that show what Monte Carlo error leaves of the estimates of a component, and of their standard errors.
pub fn decimals(runs: &[Run], name: &str) -> (usize, usize) {
    let of = |value: fn(&Component) -> Option<f64>| {
        let all = runs.iter().flat_map(|r| &r.theta).filter(|c| c.name == name).filter_map(value);
        decimals_for(all.filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min))
    };
    let estimate = of(|c| c.error.or(c.se)).min(6);
    (estimate, (of(|c| c.se) + 1).min(estimate))
}

/// A row for each run.
fn table(out: &mut String, runs: &[Run]) {
    let measured = measures_of(runs);
    let shown: Vec<metrics::Shown> = measured.iter().map(|name| metrics::shown(name)).collect();
    let titles: Vec<String> = shown.iter().map(|s| escape(&s.title)).collect();
    let name = shared(runs).unwrap_or("theta");
    let theta = escape(name);
    let (places, se_places) = decimals(runs, name);
    let mut heads = vec![theta.as_str(), "SE", "from maximum", "MC error"];
    heads.extend(titles.iter().map(String::as_str));
    heads.extend(["seconds", "N", "h", "steps"]);
    let text = |known: Option<String>| known.map_or(NONE.into(), |t| escape(&t));
    let cells_of = |run: &Run| {
        let s = run.summary.as_ref();
        let component = run.theta.iter().find(|c| c.name == name);
        let mut cells = vec![
            exact(component.and_then(|c| c.mean), |v| fixed(v, places)),
            exact(component.and_then(|c| c.se), |v| fixed(v, se_places)),
            exact(from_maximum(run), |v| format!("{} SE", fixed(v, 3))),
            exact(component.and_then(|c| c.error), |v| significant(v, 2)),
        ];
        for (name, shown) in measured.iter().zip(&shown) {
            let value = s.and_then(|s| measure(s, name));
            cells.push(exact(value, |v| minus(shown.text(v))));
        }
        let made = s.map_or(run.reached, |s| s.steps);
        let steps = match run.steps {
            Some(_) => grouped(made),
            None => format!("{} {}", grouped(made), words::counted(run, made)),
        };
        cells.extend([
            exact(s.map(|s| s.time.seconds), |v| fixed(v, 3)),
            text(run.particles()),
            text(run.step_size()),
            steps,
        ]);
        cells
    };
    let rows: Vec<Vec<String>> = runs.iter().map(cells_of).collect();
    // What no run has needs no column.
    let columns: Vec<usize> = (0..heads.len()).filter(|i| rows.iter().any(|row| row[*i] != NONE)).collect();
    out.push_str("<section><h2>Runs</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of runs\"><table class=\"runs\"><thead><tr><th scope=\"col\"></th><th scope=\"col\">run</th><th scope=\"col\" class=\"word\">algorithm</th><th scope=\"col\" class=\"word\">verdict</th>");
    for i in &columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", heads[*i]);
    }
    out.push_str("</tr></thead><tbody>\n");
    for (i, (run, cells)) in runs.iter().zip(&rows).enumerate() {
        let verdict = words::verdict(run);
        let _ = write!(
            out,
            "<tr data-run=\"{i}\"><td class=\"key\">{}</td><th scope=\"row\">{}</th><td class=\"word\" data-head=\"algorithm\">{}</td><td class=\"word {}\" data-head=\"verdict\" title=\"{}\">{}</td>",
            i + 1,
            breaking(run),
            escape(algorithm(run)),
            verdict.tone,
            escape(&verdict.text.join(" ")),
            if verdict.tone == "good" { "ok".into() } else { escape(&verdict.title) }
        );
        for i in &columns {
            let _ = write!(out, "<td data-head=\"{}\">{}</td>", heads[*i], cells[*i]);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    let known =
        |of: fn(&Component) -> Option<f64>| runs.iter().flat_map(|r| &r.theta).any(|c| of(c).is_some());
    let mut notes = Vec::new();
    if known(|c| c.se) {
        notes.push("SE is the standard error of the estimate.");
    }
    if known(|c| c.distance) {
        notes.push("The distance from the maximum of the likelihood, in standard errors, is that of an adjusted pass after the run, for the component that is farthest; auto needs no such pass.");
    }
    if known(|c| c.error) {
        notes.push("The MC error is how far another seed may land.");
    }
    if !notes.is_empty() {
        note(out, notes.join(" "));
    }
    out.push_str("</section>\n");
}

/// The log-likelihoods, what follows from them, and tests between them.
fn likelihoods(out: &mut String, runs: &[Run]) {
    let of = |run: &Run| run.summary.as_ref().and_then(|s| s.log_likelihood.clone());
    if runs.iter().all(|run| of(run).is_none()) {
        return;
    }
    section(out, "Likelihood");
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Log-likelihoods\"><table class=\"runs\"><thead><tr>");
    let heads = ["parameters", "log-likelihood", "MC error", "AIC", "BIC", "n of BIC"];
    for head in ["", "run"].iter().chain(&heads) {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for (i, run) in runs.iter().enumerate() {
        let l = of(run);
        let l = l.as_ref();
        let places = l.and_then(|l| l.mc_error).map_or(3, decimals_for).min(3);
        let _ = write!(
            out,
            "<tr data-likelihood=\"{i}\"><td class=\"key\">{}</td><th scope=\"row\">{}</th>",
            i + 1,
            breaking(run)
        );
        let cells = [
            grouped(run.d_theta as u64),
            exact(l.and_then(|l| l.value), |v| fixed(v, places)),
            exact(l.and_then(|l| l.mc_error), |v| significant(v, 2)),
            exact(l.and_then(|l| l.aic), |v| fixed(v, places)),
            exact(l.and_then(|l| l.bic), |v| fixed(v, places)),
            l.and_then(|l| l.n).map_or(NONE.into(), grouped),
        ];
        for (cell, head) in cells.iter().zip(&heads) {
            let _ = write!(out, "<td data-head=\"{head}\">{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    for test in ratio::tests(runs) {
        match test {
            Ok(test) => {
                let _ = writeln!(
                    out,
                    "<div class=\"test\"><h3>Likelihood-ratio test: {} against {}</h3><dl class=\"figures\"><div><dt>2 (l<sub>1</sub> − l<sub>0</sub>)</dt><dd>{}<small>{}</small></dd></div><div><dt>degrees of freedom</dt><dd>{}</dd></div><div><dt>p-value</dt><dd>{}<small>{}</small></dd></div></dl>",
                    escape(&ratio::called(&runs[test.smaller])),
                    escape(&ratio::called(&runs[test.larger])),
                    exact(Some(test.statistic), |v| fixed(v, 3)),
                    test.mc_error.map(|e| format!("MC error {}", significant(e, 2))).unwrap_or_default(),
                    test.degrees,
                    exact(Some(test.p), ratio::p_text),
                    test.p_range
                        .map(|[a, b]| format!(
                            "{} to {} within two MC errors",
                            ratio::p_text(a),
                            ratio::p_text(b)
                        ))
                        .unwrap_or_default(),
                );
                let mut notes = vec![ratio::ASSUMED.to_string()];
                notes.extend(test.notes);
                note(out, escape(&notes.join(" ")));
                out.push_str("</div>\n");
            }
            Err(why) => note(out, escape(&why)),
        }
    }
    out.push_str("</section>\n");
}

/// The names of the metrics and scalars that runs are compared by, in the order of the first that has them.
pub fn measures_of(runs: &[Run]) -> Vec<String> {
    let summaries = runs.iter().filter_map(|r| r.summary.as_ref());
    let all = summaries.flat_map(|s| s.metrics.iter().chain(&s.scalars)).flat_map(|m| &m.0);
    let mut seen = BTreeSet::new();
    all.map(|(name, _)| name.clone())
        .filter(|name| !metrics::BESIDE.contains(&name.as_str()) && seen.insert(name.clone()))
        .collect()
}

/// What a run has under such a name.
pub fn measure(summary: &Summary, name: &str) -> Option<f64> {
    summary.metrics.iter().chain(&summary.scalars).find_map(|m| m.get(name))
}
