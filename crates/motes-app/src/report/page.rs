//! The page: text and tables are written here, charts are drawn in the browser from the data in the page.

use std::fmt::{Display, Write};

use motes::Summary;
use motes::printable::Number;
use sha2::{Digest, Sha256};

use super::blob::blob;
use super::read::{Component, Posterior, Run};
use super::words::{self, decimals_for, fixed, grouped, minus, significant};
use super::{clouds, compare};
use crate::{metrics, show};

const PAGE: &str = include_str!("assets/page.html");
/// The look of all pages.
pub const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/app.js");

/// What every report begins with, and no other file does.
pub const MARK: &str = "<meta name=\"generator\" content=\"Motes ";

/// A search box is worth its place from here on.
const MANY: usize = 12;
/// Components of theta that are listed one by one.
const LISTED: usize = 200;

/// The page for one run or several; of replicates with what they come to together.
pub fn page(runs: &[Run], together: Option<&Run>) -> String {
    let (title, body) = match runs {
        [run] => (format!("{} by {}", model(run), algorithm(run)), single(run)),
        _ if together.is_some() => {
            (format!("{} replicates of {}", runs.len(), model(&runs[0])), compare::several(runs, together))
        }
        _ => (format!("{} runs compared", runs.len()), compare::several(runs, None)),
    };
    // A browser takes the text between the tags, line end included.
    let digest = format!("sha256-{}", base64(&Sha256::digest(format!("\n{SCRIPT}"))));
    fill(PAGE, |name| match name {
        "version" => env!("CARGO_PKG_VERSION").into(),
        "digest" => digest.clone(),
        "title" => escape(&format!("{title} – Motes")),
        "style" => STYLE.into(),
        "script" => SCRIPT.into(),
        "body" => body.clone(),
        "data" => blob(runs),
        other => unreachable!("the template asks for {other}"),
    })
}

/// Fills the places of a template in one pass: what is filled in is not looked at again.
fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(1 << 18);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("a closed place");
        out.push_str(before);
        out.push_str(&value(name));
        rest = after;
    }
    out + rest
}

/// Text as HTML, in elements and in attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in motes::printable::printable_lines(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Bytes as text that a page can hold.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| DIGITS[(bits & 63) as usize] as char;
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(*group.get(i).unwrap_or(&0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        out.extend([digit(bits >> 18), digit(bits >> 12)]);
        out.push(if group.len() > 1 { digit(bits >> 6) } else { '=' });
        out.push(if group.len() > 2 { digit(bits) } else { '=' });
    }
    out
}

/// What stands where there is no value.
pub const NONE: &str = "<span class=\"none\">–</span>";

/// A number that is shown rounded and can be read in full.
pub fn exact(value: Option<f64>, shown: impl FnOnce(f64) -> String) -> String {
    match value.filter(|v| v.is_finite()) {
        Some(v) => format!("<data value=\"{v:?}\" title=\"{v:?}\">{}</data>", shown(v)),
        None => NONE.into(),
    }
}

/// The name of a run's model.
pub fn model(run: &Run) -> &str {
    run.setting("model").unwrap_or("model")
}

/// The name of a run's algorithm.
pub fn algorithm(run: &Run) -> &str {
    run.setting("algorithm").unwrap_or("an unknown algorithm")
}

fn single(run: &Run) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<header><p class=\"kind\">Motes report</p><h1>{} <span class=\"by\">by</span> {}</h1>\n<p class=\"sub\">{}</p></header>",
        escape(model(run)),
        escape(algorithm(run)),
        escape(&in_short(run)),
    );
    verdict(&mut out, run);
    figures(&mut out, run);
    pictures(&mut out, run);
    if let Some(summary) = &run.summary {
        the_model(&mut out, summary);
        coefficients(&mut out, summary, true);
        test(&mut out, summary);
    }
    theta(&mut out, run);
    likelihood(&mut out, run);
    posterior(&mut out, run);
    let (metrics, others): (Vec<_>, Vec<_>) =
        run.scalars.iter().filter(|s| s.trace.len() > 1).partition(|s| s.metric);
    for s in metrics.into_iter().chain(others.into_iter().rev()) {
        let along = if s.metric { " along the run" } else { "" };
        // What a model wants in its trace, as a loss, may fall by orders of magnitude.
        let log = if s.metric && s.averaged { " data-log" } else { "" };
        section(&mut out, &format!("{}{along}", escape(&s.title)));
        let _ = writeln!(
            out,
            "<div class=\"chart\" data-chart=\"scalar\"{log} data-name=\"{}\" data-label=\"{}\" data-what=\"{}\"></div></section>",
            escape(&s.name),
            escape(&s.label),
            escape(&s.meaning),
        );
    }
    settings(&mut out, run);
    out
}

/// What replicates come to together.
pub fn pooled(out: &mut String, run: &Run) {
    verdict(out, run);
    figures(out, run);
    let Some(summary) = &run.summary else { return };
    the_model(out, summary);
    coefficients(out, summary, false);
    section(out, "Theta of the replicates that agree");
    components(out, run, summary);
    out.push_str("</section>\n");
}

/// The line under the title.
fn in_short(run: &Run) -> String {
    let mut parts = Vec::new();
    if let Some(n) = run.particles() {
        parts.push(format!("{n} particles"));
    }
    if let Some(h) = run.step_size() {
        parts.push(format!("h = {h}"));
    }
    match run.steps {
        Some(steps) if !run.was_timed() => {
            parts.push(format!("{} steps", grouped(steps)));
            parts.push(format!("burn-in {}", grouped(run.burn_in)));
        }
        Some(_) => {}
        None => {
            let made = run.summary.as_ref().map_or(run.reached, |s| s.steps);
            parts.push(format!("{} {}", grouped(made), words::counted(run, made)));
        }
    }
    if let Some(seed) = run.setting("seed") {
        parts.push(format!("seed {seed}"));
    }
    if let Some(s) = &run.summary {
        parts.push(words::seconds(s.time.seconds));
    }
    parts.join(" · ")
}

/// Begins a section.
pub fn section(out: &mut String, title: &str) {
    let _ = writeln!(out, "<section><h2>{title}</h2>");
}

pub fn note(out: &mut String, text: impl Display) {
    let _ = writeln!(out, "<p class=\"note\">{text}</p>");
}

fn verdict(out: &mut String, run: &Run) {
    let verdict = words::verdict(run);
    let sign = match verdict.tone {
        "good" => "✓",
        "care" => "!",
        _ => "✕",
    };
    let _ = writeln!(
        out,
        "<section class=\"verdict {}\"><h2><span class=\"sign\" aria-hidden=\"true\">{sign}</span>{}</h2>",
        verdict.tone,
        escape(&verdict.title)
    );
    let _ = writeln!(out, "<p>{}</p>", unbroken(&verdict.text.join(" ")));
    if let Some(command) = verdict.command {
        let _ = writeln!(out, "<p><code>{}</code></p>", escape(&command));
    }
    out.push_str("</section>\n");
}

/// Text as HTML in which no line ends within a flag.
fn unbroken(text: &str) -> String {
    let word = |word: &str| match word.starts_with("--") {
        true => format!("<span class=\"line\">{}</span>", escape(word)),
        false => escape(word),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The numbers that people ask for first.
fn figures(out: &mut String, run: &Run) {
    let Some(s) = &run.summary else { return };
    let mut items: Vec<(String, String, String)> = Vec::new();
    let mut add = |name: &str, value: String, more: String| items.push((escape(name), value, more));
    if let [component] = run.theta.as_slice()
        && let Some(mean) = component.mean
    {
        let decimals = component.se.or(component.error).map_or(5, decimals_for);
        let more = match (component.se, component.error) {
            (Some(se), _) => format!("standard error {}", fixed(se, decimals)),
            (None, Some(error)) => format!("MC error {}", fixed(error, decimals)),
            (None, None) => String::new(),
        };
        add(&component.name, exact(Some(mean), |v| fixed(v, decimals)), more);
        if let Some([low, high]) = component.interval {
            let value = format!(
                "<span class=\"line\">{} to {}</span>",
                exact(Some(low), |v| fixed(v, decimals)),
                exact(Some(high), |v| fixed(v, decimals))
            );
            add(&interval_name(s), value, format!("of {}", escape(&component.name)));
        }
    }
    if let Some(l) = s.log_likelihood.as_ref().filter(|l| l.value.is_some()) {
        let decimals = l.mc_error.map_or(3, decimals_for).min(3);
        let error = l.mc_error.map(|e| format!("MC error {}", significant(e, 2))).unwrap_or_default();
        add("log-likelihood", exact(l.value, |v| fixed(v, decimals)), error);
    }
    let on = s.test_rows().map(|n| format!("on {} test rows", grouped(n))).unwrap_or_default();
    for (name, value) in s.metrics.iter().flat_map(|m| &m.0) {
        let shown = metrics::shown(name);
        add(&shown.title, exact(Some(*value), |v| minus(shown.text(v))), on.clone());
    }
    for (name, value) in s.scalars.iter().flat_map(|m| &m.0) {
        let shown = metrics::shown(name);
        add(&shown.title, exact(Some(*value), |v| minus(shown.text(v))), "mean over the last pass".into());
    }
    let d = &s.diagnostics;
    // Of one component the table below has them, and a fit in stages has no time average.
    if let Some(ess) = s.least_ess().filter(|_| run.steps.is_some() && run.d_theta > 1) {
        let value = exact(Some(ess), |v| grouped(v.round() as u64));
        add("effective sample size", value, "smallest of theta’s".into());
    }
    if let Some((_, drift)) = d.worst_drift().filter(|_| run.d_theta > 1) {
        let most = "sd, second half against first: largest of theta’s";
        add("drift", exact(Some(drift), |v| fixed(v, 2)), most.into());
    }
    if d.acceptance.is_some() {
        add("accepted", exact(d.acceptance, percent), "of moves".into());
    } else if d.shadow_acceptance.is_some() {
        add("shadow acceptance", exact(d.shadow_acceptance, percent), "one step at the end".into());
    }
    if d.evaluations.is_some() {
        let whose = if run.steps.is_some() { "per particle, of the assessing pass" } else { "per particle" };
        add("evaluations", exact(d.evaluations, |v| grouped(v.round() as u64)), whose.into());
    }
    let speed = Some(s.time.steps_per_second).filter(|v| v.is_finite());
    let speed = speed.map(|v| format!("{} {}s/s", words::grouped(v.round() as u64), run.unit()));
    add("time", exact(Some(s.time.seconds), words::seconds), speed.unwrap_or_default());
    if s.time.assess_seconds.is_some() {
        let value = exact(s.time.assess_seconds, words::seconds);
        add("time of assessing", value, "after the run".into());
    }
    out.push_str("<dl class=\"figures\">\n");
    for (name, value, more) in items {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>");
    }
    out.push_str("</dl>\n");
}

/// What the intervals of a run are called.
fn interval_name(s: &Summary) -> String {
    format!("{} % interval", Number(100.0 * s.level))
}

/// The log-likelihood and what follows from it, or why it is not to be had.
fn likelihood(out: &mut String, run: &Run) {
    let Some(l) = run.summary.as_ref().and_then(|s| s.log_likelihood.as_ref()) else { return };
    section(out, "Log-likelihood");
    if l.value.is_none() {
        let why = l.why_not.as_deref().unwrap_or("it is not finite");
        let _ = writeln!(out, "<p>Not available: {}</p></section>", escape(&words::ended(why)));
        return;
    }
    let decimals = l.mc_error.map_or(3, decimals_for).min(3);
    let cells = [
        ("log p(y) at the estimate", exact(l.value, |v| fixed(v, decimals))),
        ("MC error", exact(l.mc_error, |v| significant(v, 2))),
        ("AIC", exact(l.aic, |v| fixed(v, decimals))),
        ("BIC", exact(l.bic, |v| fixed(v, decimals))),
        ("n of BIC", l.n.map_or(NONE.into(), grouped)),
    ];
    let heads: String = cells.iter().map(|(head, _)| format!("<th scope=\"col\">{head}</th>")).collect();
    let row: String =
        cells.iter().map(|(head, cell)| format!("<td data-head=\"{head}\">{cell}</td>")).collect();
    let _ = writeln!(
        out,
        "<div class=\"scroll\"><table class=\"likelihood few\"><thead><tr>{heads}</tr></thead><tbody>\n<tr>{row}</tr></tbody></table></div>"
    );
    let method = match l.method.as_deref() {
        Some("bridge") => "Computed by bridge sampling. ".to_string(),
        Some("annealing") => "Computed by annealed importance sampling. ".to_string(),
        Some(other) => format!("Computed by: {}. ", escape(other)),
        None => String::new(),
    };
    let constants = match l.complete {
        true => {
            "The density has all its constants, so the value can be compared with that of other programs."
        }
        false => {
            "The density is taken as it is given: a constant that it leaves out shifts the value, AIC and BIC, and only fits with the same one can be compared."
        }
    };
    note(out, format_args!("{method}{constants}"));
    out.push_str("</section>\n");
}

/// The model in formulas, and the rows that it was fitted to.
fn the_model(out: &mut String, s: &Summary) {
    if s.formula.is_empty() {
        return;
    }
    section(out, "Model");
    let lines: Vec<String> = s.formula.iter().map(|line| escape(line)).collect();
    let _ = writeln!(out, "<p><code>{}</code></p>", lines.join("<br>"));
    if let Some(rows) = show::rows(s) {
        note(out, format_args!("{}.", escape(&rows)));
    }
    out.push_str("</section>\n");
}

/// The coefficients of a regression: a picture of the standardised ones, and a table of both kinds.
fn coefficients(out: &mut String, s: &Summary, drawn: bool) {
    let Some(all) = s.coefficients.as_deref().filter(|all| !all.is_empty()) else { return };
    section(out, "Coefficients");
    if drawn {
        out.push_str("<div class=\"chart\" data-chart=\"forest\"></div>\n");
    }
    let heads = ["mean", "sd", &interval_name(s), "P(sign)", "standardised", "its sd"];
    let classes = all.iter().any(|c| c.class.is_some());
    out.push_str("<div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Coefficients\"><table class=\"coefficients\"><thead><tr><th scope=\"col\">feature</th>");
    if classes {
        out.push_str("<th scope=\"col\" class=\"word\">class</th>");
    }
    heads.iter().for_each(|head| {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    });
    out.push_str("</tr></thead><tbody>\n");
    for c in all {
        let decimals = decimals_for(c.original.sd) + 1;
        let shown = |v: f64| exact(Some(v), |v| fixed(v, decimals));
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&c.name));
        if classes {
            let _ = write!(out, "<td class=\"word\">{}</td>", escape(c.class.as_deref().unwrap_or("")));
        }
        let interval = c.original.interval.map_or(NONE.into(), |[low, high]| {
            format!("<span class=\"line\">{} to {}</span>", shown(low), shown(high))
        });
        let cells = [
            shown(c.original.mean),
            shown(c.original.sd),
            interval,
            exact(c.sign_probability, |v| fixed(v, 3)),
            exact(Some(c.standardised.mean), |v| fixed(v, 3)),
            exact(Some(c.standardised.sd), |v| fixed(v, 3)),
        ];
        cells.iter().for_each(|cell| {
            let _ = write!(out, "<td>{cell}</td>");
        });
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    note(
        out,
        "Posterior means at the estimate of theta, per unit of the column and, under standardised, per standard deviation of it. P(sign) is the posterior probability that the coefficient has the sign of its mean. coefficients.csv has them in full.",
    );
    out.push_str("</section>\n");
}

/// How well test rows are told apart.
fn test(out: &mut String, s: &Summary) {
    let Some(test) = &s.test else { return };
    let data = s.data.as_ref();
    let name = |i: usize| data.and_then(|d| d["classes"].get(i)?.as_str()).map_or(format!("{i}"), escape);
    section(out, "Test rows");
    out.push_str("<div class=\"trio\">\n");
    if test.roc.is_some() {
        let _ = writeln!(out, "<div class=\"chart\" data-chart=\"roc\" data-name=\"{}\"></div>", name(1));
    }
    let whose = if test.confusion.len() == 2 { name(1) } else { "the likeliest class".into() };
    let _ =
        writeln!(out, "<div class=\"chart\" data-chart=\"calibration\" data-name=\"{whose}\"></div></div>");
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\"><table class=\"confusion\"><thead><tr><th scope=\"col\">rows of class</th>");
    for i in 0..test.confusion.len() {
        let _ = write!(out, "<th scope=\"col\">predicted {}</th>", name(i));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (i, row) in test.confusion.iter().enumerate() {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", name(i));
        for (j, count) in row.iter().enumerate() {
            let right = if i == j { " class=\"right\"" } else { "" };
            let _ = write!(out, "<td{right}>{}</td>", grouped(*count));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    note(
        out,
        "A row is assigned to the class with the largest mean probability. Calibrated probabilities lie on the diagonal, apart from chance: the fewer rows behind a point, the farther off it may be.",
    );
    out.push_str("</section>\n");
}

/// Larger pictures stay where they are, so that a page can be mailed.
const LARGEST_PICTURE: usize = 250_000;

/// The pictures that a model leaves in a run directory.
fn pictures(out: &mut String, run: &Run) {
    for (file, title, text) in [
        (
            "reconstructions",
            "Reconstructions",
            "Each row of images, and below it what their particles decode to.",
        ),
        (
            "samples",
            "Samples",
            "Latents from the prior N(0, I), always the same ones. synthesize draws better ones.",
        ),
    ] {
        let Ok(png) = std::fs::read(run.dir.join("pictures").join(format!("{file}.png"))) else { continue };
        section(out, title);
        match png.len() <= LARGEST_PICTURE {
            true => {
                let _ = writeln!(
                    out,
                    "<img alt=\"{title}\" style=\"max-width:100%\" src=\"data:image/png;base64,{}\">",
                    base64(&png)
                );
                note(out, text);
            }
            false => note(out, format_args!("{text} The picture is in pictures/{file}.png.")),
        }
        out.push_str("</section>\n");
    }
}

fn percent(fraction: f64) -> String {
    format!("{} %", fixed(100.0 * fraction, 1))
}

fn theta(out: &mut String, run: &Run) {
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
fn components(out: &mut String, run: &Run, s: &Summary) {
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

fn posterior(out: &mut String, run: &Run) {
    if run.summary.is_none() {
        return;
    }
    let settled = run.summary.as_ref().is_some_and(|s| !s.theta.se.is_empty());
    section(out, if settled { "Posterior at the estimate" } else { "Posterior" });
    let Some(p) = &run.posterior else {
        note(
            out,
            "There is nothing to show: the run has no posterior.npz, or it kept no steps after burn-in.",
        );
        out.push_str("</section>\n");
        return;
    };
    let sampled = p.rows.iter().any(|r| r.marginal.is_some());
    let in_stages = run.steps.is_none();
    let of = match (p.last_cloud_only, in_stages) {
        (true, _) => "the last cloud",
        (false, true) => "the clouds kept in the third stage",
        (false, false) => "the clouds kept after burn-in",
    };
    let over = if in_stages {
        "sweep of the third stage, in which theta stays at the estimate"
    } else {
        "step after burn-in"
    };
    let mut how = if sampled {
        format!(
            "Mean and sd are averages over every {over}; quantiles and densities (Gaussian kernels, Silverman’s rule) are those of {} of {of}.",
            particles(p)
        )
    } else {
        "Exact posterior moments; this algorithm keeps no cloud, so there are no quantiles or densities."
            .into()
    };
    if run.is_standardised() {
        how.push_str(" Weights are those of standardised features.");
    }
    if p.rows.iter().any(|r| r.total_sd.is_some()) {
        how.push_str(
            " They take theta as known; the total sd adds to the sd, to first order, what the uncertainty of theta contributes.",
        );
    }
    out.push_str("<div class=\"pair\">\n");
    if sampled {
        out.push_str("<div class=\"chart\" data-chart=\"density\"></div>\n");
    }
    out.push_str("<div>\n");
    if p.rows.len() > MANY {
        let _ = writeln!(
            out,
            "<p class=\"search\"><label>Find <input type=\"search\" data-search placeholder=\"name\" autocomplete=\"off\" spellcheck=\"false\"></label> <span data-found aria-live=\"polite\">{} coordinates</span></p>",
            grouped(p.rows.len() as u64)
        );
    }
    intervals(out, p, sampled);
    out.push_str("</div></div>\n");
    if p.rows.len() < p.total {
        note(
            out,
            format_args!(
                "The {} coordinates with the largest variance are in this report, of {}; posterior.npz has them all.",
                grouped(p.rows.len() as u64),
                grouped(p.total as u64)
            ),
        );
    }
    note(out, how);
    out.push_str("</section>\n");
}

/// The particles that marginals are made of.
fn particles(p: &Posterior) -> String {
    if p.particles == p.of_particles {
        return format!("{} particles", grouped(p.particles as u64));
    }
    format!(
        "{} evenly chosen particles (a report looks at no more than {} values) out of the {}",
        grouped(p.particles as u64),
        grouped(clouds::MOST as u64),
        grouped(p.of_particles as u64)
    )
}

/// Intervals with as many decimals as the narrowest needs, so that columns line up.
fn intervals(out: &mut String, p: &Posterior, sampled: bool) {
    let sds = || p.rows.iter().map(|r| r.var.sqrt()).filter(|sd| *sd > 0.0 && sd.is_finite());
    let (least, most) = sds().fold((f64::INFINITY, 0f64), |(a, b), sd| (a.min(sd), b.max(sd)));
    let even = most < 1e4 * least;
    let decimals = if least.is_finite() { (decimals_for(least) + 1).min(8) } else { 4 };
    let show = |v: f64| if even { fixed(v, decimals) } else { significant(v, 4) };
    out.push_str("<div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Posterior intervals\"><table class=\"intervals\"><thead><tr><th scope=\"col\">coordinate</th><th scope=\"col\">mean</th><th scope=\"col\">sd</th>");
    let total = p.rows.iter().any(|r| r.total_sd.is_some());
    if total {
        out.push_str("<th scope=\"col\" title=\"includes the uncertainty of theta\">total sd</th>");
    }
    if sampled {
        out.push_str("<th scope=\"col\">5 %</th><th scope=\"col\">50 %</th><th scope=\"col\">95 %</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    let finite = |v: f64| if v.is_finite() { show(v) } else { "–".into() };
    for (i, r) in p.rows.iter().enumerate() {
        let name = escape(&r.name);
        let _ = match &r.marginal {
            Some(_) => write!(
                out,
                "<tr data-i=\"{i}\"><th scope=\"row\"><button type=\"button\">{name}</button></th>"
            ),
            None => write!(out, "<tr data-i=\"{i}\"><th scope=\"row\">{name}</th>"),
        };
        let _ = write!(out, "<td>{}</td><td>{}</td>", finite(r.mean), finite(r.var.sqrt()));
        if total {
            let _ = write!(out, "<td>{}</td>", r.total_sd.map_or("–".into(), finite));
        }
        if sampled {
            match &r.marginal {
                Some(m) => [m.q05, m.q50, m.q95].iter().for_each(|q| {
                    let _ = write!(out, "<td>{}</td>", show(*q));
                }),
                None => out.push_str("<td>–</td><td>–</td><td>–</td>"),
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// The settings that people look for first; others follow by name.
const FIRST: [&str; 14] = [
    "model",
    "algorithm",
    "data",
    "target",
    "dim",
    "particles",
    "steps",
    "burn-in",
    "step-size",
    "tolerance",
    "max-evaluations",
    "seed",
    "precision",
    "preconditioner",
];

fn settings(out: &mut String, run: &Run) {
    section(out, "Settings");
    out.push_str("<dl class=\"settings\">\n");
    let rank = |name: &str| FIRST.iter().position(|f| *f == name).unwrap_or(FIRST.len());
    let mut items: Vec<&(String, String)> =
        run.settings.iter().filter(|(name, _)| name != "version" && name != "data-sha256").collect();
    items.sort_by_key(|(name, _)| (rank(name), name.clone()));
    items.extend(run.settings.iter().find(|(name, _)| name == "data-sha256"));
    for (name, value) in items {
        let long = if value.chars().count() > 24 { " class=\"long\"" } else { "" };
        let _ = writeln!(out, "<div{long}><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    }
    out.push_str("</dl>\n");
    // Other models may remember other things of their data.
    if let Some(data) = run.summary.as_ref().and_then(|s| s.data.as_ref())
        && let Some(target) = data["target"].as_str()
        && let Some([zero, one]) = data["classes"].as_array().map(Vec::as_slice)
        && let (Some(zero), Some(one)) = (zero.as_str(), one.as_str())
    {
        let rows = data["train_rows"].as_u64();
        let rows = rows.map(|n| format!(" {} rows were trained on.", grouped(n))).unwrap_or_default();
        note(
            out,
            format_args!(
                "Target {}: <b>{}</b> is 0, <b>{}</b> is 1.{rows}",
                escape(target),
                escape(zero),
                escape(one)
            ),
        );
    }
    let config = words::shell(&run.dir.join("config.toml"));
    let _ =
        writeln!(out, "<p>The same run again:</p><p><code>motes fit --config {}</code></p>", escape(&config));
    out.push_str("</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_usual_one() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn places_are_filled_once() {
        let filled = fill("a {{x}} b {{y}}", |name| if name == "x" { "{{y}}".into() } else { "2".into() });
        assert_eq!(filled, "a {{y}} b 2");
    }
}
