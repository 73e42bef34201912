//! The page: text and tables are written here, charts are drawn in the browser from the data in the page.

use std::fmt::{Display, Write};

use sha2::{Digest, Sha256};

use super::blob::blob;
use super::read::{Posterior, Run};
use super::words::{self, decimals_for, fixed, grouped, minus, significant};
use super::{clouds, compare};
use crate::metrics;

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

/// The page for one run or several.
pub fn page(runs: &[Run]) -> String {
    let (title, body) = match runs {
        [run] => (format!("{} by {}", model(run), algorithm(run)), single(run)),
        _ => (format!("{} runs compared", runs.len()), compare::several(runs)),
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

/// A number that is shown rounded and can be read in full.
pub fn exact(value: Option<f64>, shown: impl FnOnce(f64) -> String) -> String {
    match value.filter(|v| v.is_finite()) {
        Some(v) => format!("<data value=\"{v:?}\" title=\"{v:?}\">{}</data>", shown(v)),
        None => "<span class=\"none\">–</span>".into(),
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
    theta(&mut out, run);
    posterior(&mut out, run);
    let (metrics, others): (Vec<_>, Vec<_>) =
        run.scalars.iter().filter(|s| s.trace.len() > 1).partition(|s| s.metric);
    for s in metrics.into_iter().chain(others.into_iter().rev()) {
        let along = if s.metric { " along the run" } else { "" };
        section(&mut out, &format!("{}{along}", escape(&s.title)));
        let _ = writeln!(
            out,
            "<div class=\"chart\" data-chart=\"scalar\" data-name=\"{}\" data-label=\"{}\" data-what=\"{}\"></div></section>",
            escape(&s.name),
            escape(&s.label),
            escape(&s.meaning),
        );
    }
    settings(&mut out, run);
    out
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
    if !run.was_timed() {
        parts.push(format!("{} steps", grouped(run.steps)));
        parts.push(format!("burn-in {}", grouped(run.burn_in)));
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
    let _ = writeln!(out, "<p>{}</p>", escape(&verdict.text.join(" ")));
    if let Some(command) = verdict.command {
        let _ = writeln!(out, "<p><code>{}</code></p>", escape(&command));
    }
    out.push_str("</section>\n");
}

/// The numbers that people ask for first.
fn figures(out: &mut String, run: &Run) {
    let Some(s) = &run.summary else { return };
    let mut items: Vec<(String, String, String)> = Vec::new();
    let mut add = |name: &str, value: String, more: String| items.push((escape(name), value, more));
    if let ([component], Some(mean)) = (run.theta.as_slice(), s.theta.mean.as_ref().and_then(|m| m.first())) {
        let decimals = component.error.map_or(5, decimals_for);
        let error = component.error.map(|e| format!("± {}", fixed(e, decimals))).unwrap_or_default();
        add("theta, time average", exact(Some(*mean), |v| fixed(v, decimals)), error);
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
    let of = |one: &str, many: &str| if run.d_theta > 1 { many.to_string() } else { one.to_string() };
    if let Some(ess) = s.least_ess() {
        let least = of("of theta", "smallest of theta’s");
        add("effective sample size", exact(Some(ess), |v| grouped(v.round() as u64)), least);
    }
    if let Some((_, drift)) = d.worst_drift() {
        let most = of("sd, second half against first", "sd, second half against first: largest of theta’s");
        add("drift", exact(Some(drift), |v| fixed(v, 2)), most);
    }
    if d.acceptance.is_some() {
        add("accepted", exact(d.acceptance, percent), "of moves".into());
    } else if d.shadow_acceptance.is_some() {
        add("shadow acceptance", exact(d.shadow_acceptance, percent), "one step at the end".into());
    }
    let speed = Some(s.time.steps_per_second).filter(|v| v.is_finite());
    let speed = speed.map(|v| format!("{} steps/s", words::grouped(v.round() as u64)));
    add("time", exact(Some(s.time.seconds), words::seconds), speed.unwrap_or_default());
    out.push_str("<dl class=\"figures\">\n");
    for (name, value, more) in items {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>");
    }
    out.push_str("</dl>\n");
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

fn theta(out: &mut String, run: &Run) {
    section(out, "Theta");
    if run.theta.iter().all(|c| c.trace.is_empty()) {
        note(out, "No steps have been recorded yet.");
        out.push_str("</section>\n");
        return;
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
    if let Some(s) = run.summary.as_ref().filter(|_| run.theta.len() > 1) {
        let rows = run.theta.len().min(LISTED);
        out.push_str("<div class=\"scroll\"><table class=\"theta\"><thead><tr><th scope=\"col\">component</th><th scope=\"col\">mean</th><th scope=\"col\">± error</th><th scope=\"col\">last</th><th scope=\"col\">ESS</th><th scope=\"col\">drift</th></tr></thead><tbody>\n");
        let smallest = run.theta.iter().filter_map(|c| c.error).fold(f64::INFINITY, f64::min);
        let decimals = if smallest.is_finite() { decimals_for(smallest).min(7) } else { 5 };
        for (i, c) in run.theta.iter().take(rows).enumerate() {
            let mean = s.theta.mean.as_ref().and_then(|m| m.get(i).copied());
            let last = s.theta.last.get(i).copied();
            let ess = s.diagnostics.ess.get(i).copied().flatten();
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&c.name),
                exact(mean, |v| fixed(v, decimals)),
                exact(c.error, |v| fixed(v, decimals)),
                exact(last, |v| fixed(v, decimals)),
                exact(ess, |v| grouped(v.round() as u64)),
                exact(c.drift, |v| fixed(v, 2)),
            );
        }
        out.push_str("</tbody></table></div>\n");
        note(
            out,
            "Drift is how far a component moved from the first to the second half of the steps after burn-in, in its standard deviations.",
        );
    }
    out.push_str("</section>\n");
}

fn posterior(out: &mut String, run: &Run) {
    if run.summary.is_none() {
        return;
    }
    section(out, "Posterior");
    let Some(p) = &run.posterior else {
        note(
            out,
            "There is nothing to show: the run has no posterior.npz, or it kept no steps after burn-in.",
        );
        out.push_str("</section>\n");
        return;
    };
    let sampled = p.rows.iter().any(|r| r.marginal.is_some());
    let of = if p.last_cloud_only { "the last cloud" } else { "the clouds kept after burn-in" };
    let how = if sampled {
        format!(
            "Mean and sd are averages over every step after burn-in; quantiles and densities (Gaussian kernels, Silverman’s rule) are those of {} of {of}.",
            particles(p)
        )
    } else {
        "Exact posterior moments; this algorithm keeps no cloud, so there are no quantiles or densities."
            .into()
    };
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
const FIRST: [&str; 12] = [
    "model",
    "algorithm",
    "data",
    "target",
    "dim",
    "particles",
    "steps",
    "burn-in",
    "step-size",
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
