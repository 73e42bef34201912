//! Numbers and verdicts as people read them.

use std::path::Path;

use motes::Summary;
use motes::sentence::{Face, render};

use super::read::Run;
use crate::numbers::thousands;
use crate::show;

/// A number with a number of decimals and a true minus sign; very large ones in powers of ten.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = if value.is_nan() {
        "–".into()
    } else if value.abs() >= 1e9 {
        format!("{value:.3e}")
    } else {
        format!("{value:.decimals$}")
    };
    minus(text)
}

/// A number with so many significant digits.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return minus(value.to_string());
    }
    let size = libm::log10(value.abs()).floor() as i32;
    if !(-5..9).contains(&size) {
        return minus(format!("{value:.precision$e}", precision = digits.saturating_sub(1)));
    }
    fixed(value, (digits as i32 - 1 - size).max(0) as usize)
}

/// A number as text with a true minus sign.
pub fn minus(text: String) -> String {
    match text.strip_prefix('-') {
        // No sign on what is rounded to zero.
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_string(),
        Some(rest) => format!("\u{2212}{}", rest.replace("e-", "e\u{2212}")),
        None => text.replace("e-", "e\u{2212}"),
    }
}

/// The decimals that show two digits of a standard error.
pub fn decimals_for(error: f64) -> usize {
    if error > 0.0 && error.is_finite() {
        (1.0 - libm::log10(error).floor()).clamp(0.0, 12.0) as usize
    } else {
        5
    }
}

/// A whole number with its thousands apart.
pub fn grouped(value: u64) -> String {
    thousands(&value.to_string())
}

/// A time as people say it.
pub fn seconds(value: f64) -> String {
    match value {
        v if v < 9.95e-4 => format!("{} µs", significant(1e6 * v, 2)),
        v if v < 0.0995 => format!("{} ms", significant(1e3 * v, 2)),
        v if v < 60.0 => format!("{} s", significant(v, 2)),
        v => {
            let v = v.round() as u64;
            let (h, m, s) = (v / 3600, v / 60 % 60, v % 60);
            if h > 0 { format!("{h} h {m} min") } else { format!("{m} min {s} s") }
        }
    }
}

/// A path as a shell takes it.
pub fn shell(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.starts_with('-') { format!("./'{}'", text.replace('\'', "'\\''")) } else { quoted(&text) }
}

/// A word as a shell takes it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A call in Python of a function that takes a run, and its model where Python alone has it.
pub fn call(function: &str, run: &Run) -> String {
    let model = if run.is_of_python() { ", model=model" } else { "" };
    format!("motes.{function}({}{model})", literal(&run.dir))
}

/// A path as Python takes it.
fn literal(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\""))
}

/// What a run's own numbers say about it.
pub struct Verdict {
    /// `good`, `care` or `bad`.
    pub tone: &'static str,
    pub title: String,
    /// Sentences.
    pub text: Vec<String>,
    /// What to type next.
    pub command: Option<String>,
}

/// The verdict in words, and what to do.
pub fn verdict(run: &Run) -> Verdict {
    let resume = match run.face {
        Face::Shell => format!("motes resume {}", shell(&run.dir)),
        Face::Python => call("resume", run),
    };
    if let Some(problem) = &run.problem {
        let (title, text) = ("Diverged".into(), vec![sentence(problem, run.face)]);
        return Verdict { tone: "bad", title, text, command: None };
    }
    let unfinished = || match (run.steps, run.stages.last()) {
        (Some(steps), _) => format!("Not finished: {} of {} steps", grouped(run.reached), grouped(steps)),
        (None, Some(stage)) => format!(
            "Not finished: stage {} of 3 ({}), {} {}",
            stage.number,
            stage.name(),
            grouped(run.reached),
            counted(run, run.reached)
        ),
        (None, None) => "Not finished: nothing has been recorded yet".into(),
    };
    if run.was_timed() {
        return Verdict {
            tone: "care",
            title: format!("Not finished: {} steps", grouped(run.reached)),
            text: vec!["The run for a given time was killed or is still going, so there are no averages and no verdict. It cannot be resumed, because a given time cannot be split over two processes.".into()],
            command: None,
        };
    }
    let Some(summary) = &run.summary else {
        return Verdict {
            tone: "care",
            title: unfinished(),
            text: vec!["The run was interrupted or is still going, so there are no averages and no verdict yet. The trace is shown as far as it was written.".into()],
            command: Some(resume),
        };
    };
    let mut verdict = judged(summary, run.face);
    if !run.complete() {
        verdict.tone = "care";
        verdict.title = unfinished();
        let before = match run.steps {
            Some(_) => format!(
                "The run was continued and has not finished; the numbers below are those of its first {} steps.",
                grouped(summary.steps)
            ),
            None => "The run was continued with other settings and has not finished; the numbers below are from before.".into(),
        };
        verdict.text = vec![before];
        verdict.command = Some(resume);
    }
    verdict
}

/// The unit of a run's steps, for so many of them.
pub fn counted(run: &Run, count: u64) -> String {
    if count == 1 { run.unit().into() } else { format!("{}s", run.unit()) }
}

/// The title of a verdict other than `ok`, and how grave it is: one that only bounds what can be trusted is no failure.
fn title(verdict: &str) -> (&'static str, String) {
    let (tone, title) = match verdict {
        "too-short" => ("bad", "Too short to judge"),
        "still-moving" => ("bad", "Theta was still moving"),
        "standing-still" => ("bad", "The run stands still"),
        "step-too-large" => ("bad", "The step size is too large"),
        "low-acceptance" => ("bad", "Hardly any moves are accepted"),
        "biased" => ("bad", "The result is biased"),
        "poor-mixing" => ("bad", "The particles mix poorly"),
        "not-a-maximum" => ("bad", "Not a maximum of the likelihood"),
        "boundary" => ("care", "The maximum lies on the boundary"),
        "weakly-identified" => ("care", "The data say little about theta"),
        "flat" => ("bad", "The likelihood is flat in a direction"),
        "runaway" => ("bad", "Theta runs away"),
        "rescale" => ("bad", "The scales are too far apart"),
        "not-reached" => ("care", "The accuracy that was asked for was not reached"),
        "disagree" => ("bad", "The replicates disagree"),
        "predictions-only" => ("care", "Only the predictions can be trusted"),
        other => return ("bad", capital(&other.replace('-', " "))),
    };
    (tone, title.into())
}

/// What the summary says, and nothing else: terminal, JSON and page never disagree.
fn judged(summary: &Summary, face: Face) -> Verdict {
    let d = &summary.diagnostics;
    if d.verdict != "ok" {
        let (tone, title) = title(&d.verdict);
        let advice = show::advice(summary, face)
            .map(|a| ended(&capital(&a)))
            .unwrap_or("Motes gives no advice for this.".into());
        let word = format!("The verdict is {}.", d.verdict);
        return Verdict { tone, title, text: vec![advice, word], command: None };
    }
    let mut text = Vec::new();
    let known = |list: &[Option<f64>]| list.iter().flatten().copied().map(f64::abs).reduce(f64::max);
    let relative: Vec<Option<f64>> =
        summary.theta.mc_error.iter().zip(&summary.theta.se).map(|(e, se)| Some((*e)? / (*se)?)).collect();
    if let Some(error) = known(&relative) {
        let most = if relative.len() > 1 { "at most " } else { "" };
        text.push(format!("The Monte Carlo error of theta is {most}{} of its standard error.", share(error)));
    }
    if let Some(distance) = known(&d.distance) {
        text.push(format!(
            "An adjusted pass at the estimate puts it {} standard errors from the maximum of the likelihood.",
            fixed(distance, 3)
        ));
    }
    if let Some(error) = d.posterior_error {
        text.push(format!(
            "The posterior means have Monte Carlo errors of at most {} of their standard deviations.",
            share(error)
        ));
    }
    if let Some(a) = d.acceptance {
        text.push(format!("{} % of moves were accepted.", significant(100.0 * a, 3)));
    } else if let Some(a) = d.shadow_acceptance {
        text.push(format!(
            "One accept-reject step on the final cloud would keep {} % of the moves, so the step size suits these posteriors.",
            significant(100.0 * a, 3)
        ));
    }
    if summary.particles.is_none() {
        text.push(
            "The algorithm is exact: there is no sampling error. It has converged once the trace below is flat.".into(),
        );
    } else if relative.is_empty() {
        text.push(match summary.least_ess() {
            Some(least) => format!(
                "The averages of theta are worth at least {} independent draws.",
                grouped(least.round() as u64)
            ),
            None => "There are too few steps after burn-in to say how good the averages are.".into(),
        });
    }
    Verdict { tone: "good", title: "No problem found".into(), text, command: None }
}

/// A fraction in per cent, with two digits.
pub fn share(fraction: f64) -> String {
    format!("{} %", significant(100.0 * fraction, 2))
}

/// A text with a capital, unless it starts with a symbol such as h.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next();
    let word = chars.clone().next().is_some_and(char::is_alphabetic);
    match first {
        Some(c) if word => c.to_uppercase().chain(chars).collect(),
        _ => text.to_string(),
    }
}

/// A sentence from a clause: a capital unless it starts with a symbol such as h, and a full stop.
fn sentence(clause: &str, face: Face) -> String {
    ended(&render(&capital(clause), face))
}

/// A clause with a full stop.
pub fn ended(clause: &str) -> String {
    let mut out = clause.to_string();
    if !out.ends_with(['.', '!', '?']) {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(significant(0.012345, 3), "0.0123");
        assert_eq!(significant(-12345.6, 3), "−12346");
        assert_eq!(significant(1.5e-9, 2), "1.5e−9");
        assert_eq!(significant(0.0, 3), "0");
        assert_eq!(fixed(-0.0001, 2), "0.00");
        assert_eq!(fixed(f64::NAN, 2), "–");
        assert_eq!(fixed(1e100, 2), "1.000e100");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(
            (decimals_for(0.0031), decimals_for(2.0), decimals_for(40.0), decimals_for(0.0)),
            (4, 1, 0, 5)
        );
        assert_eq!(
            [seconds(1.4e-5), seconds(0.0123), seconds(5.23), seconds(75.2), seconds(7384.0)],
            ["14 µs", "12 ms", "5.2 s", "1 min 15 s", "2 h 3 min"]
        );
    }

    #[test]
    fn every_verdict_has_a_title_of_its_own() {
        // The words of the contract; a title that is only the word again would be no help.
        let words = "too-short still-moving standing-still step-too-large low-acceptance biased poor-mixing not-a-maximum boundary weakly-identified flat runaway rescale not-reached disagree predictions-only";
        for word in words.split(' ') {
            let (_, title) = title(word);
            assert!(title.starts_with(char::is_uppercase), "{word}: {title}");
            assert_ne!(title, capital(&word.replace('-', " ")), "{word}");
        }
        assert_eq!(title("never-heard-of"), ("bad", "Never heard of".into()));
    }

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(shell(Path::new("runs/a-1")), "runs/a-1");
        assert_eq!(shell(Path::new("my runs/it's")), "'my runs/it'\\''s'");
        assert_eq!(shell(Path::new("-x")), "./'-x'");
        assert_eq!(literal(Path::new("my \"runs\"\\a")), r#""my \"runs\"\\a""#);
    }

    #[test]
    fn clauses_become_sentences() {
        assert_eq!(sentence("only 3 % were accepted", Face::Shell), "Only 3 % were accepted.");
        assert_eq!(sentence("h = 2 is too large", Face::Shell), "h = 2 is too large.");
        assert_eq!(sentence("take `step-size=0.1`", Face::Shell), "Take --step-size 0.1.");
        assert_eq!(sentence("take `step-size=0.1`", Face::Python), "Take step_size=0.1.");
    }
}
