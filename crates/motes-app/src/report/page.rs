//! The page: text and tables are written here, charts are drawn in the browser from the data in the page.

mod posterior;
mod regression;
mod theta;

use std::fmt::{Display, Write};

use motes::Summary;
use motes::printable::Number;
use motes::sentence::{Face, render};
use sha2::{Digest, Sha256};

use super::blob::blob;
use super::compare;
use super::read::Run;
use super::words::{self, decimals_for, fixed, grouped, minus, significant};
use crate::metrics;

const PAGE: &str = include_str!("assets/page.html");
/// The look of all pages.
pub const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/app.js");

/// What every report begins with, and no other file does.
pub const MARK: &str = "<meta name=\"generator\" content=\"Motes ";

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
        regression::the_model(&mut out, summary);
        regression::coefficients(&mut out, summary, true);
        regression::test(&mut out, summary);
    }
    theta::theta(&mut out, run);
    likelihood(&mut out, run);
    posterior::posterior(&mut out, run);
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
    regression::the_model(out, summary);
    regression::coefficients(out, summary, false);
    section(out, "Theta of the replicates that agree");
    theta::components(out, run, summary);
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
        let _ = writeln!(
            out,
            "<p>Not available: {}</p></section>",
            escape(&words::ended(&render(why, run.face)))
        );
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
            "Latents from the prior N(0, I), always the same ones. motes synthesize draws better ones.",
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
    let again = match run.face {
        Face::Shell => format!("motes fit --config {}", words::shell(&run.dir.join("config.toml"))),
        Face::Python => format!("motes.fit(model, **{}.settings)", words::call("load", run)),
    };
    let _ = writeln!(out, "<p>The same run again:</p><p><code>{}</code></p>", escape(&again));
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
