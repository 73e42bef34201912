//! What is left of a training for people: `summary.json`, the text at its end, and `report.html` with its loss curve and pictures.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::config::{GeneratorConfig, MODEL};
use crate::Error;
use crate::numbers::{grouped, thousands};
use crate::report::page::{MARK, STYLE, base64, escape};

/// Points of the curve at most.
const POINTS: usize = 600;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 300.0;

/// The content of summary.json.
#[derive(Serialize, Deserialize)]
pub struct Summary {
    model: String,
    algorithm: String,
    settings: serde_json::Value,
    seed: u64,
    /// There are too many parameters to list: see weights.safetensors.
    theta: Option<()>,
    /// See posterior.npz.
    posterior: Option<()>,
    /// Means over the last epoch.
    pub metrics: Metrics,
    /// The mean over the steps of each epoch.
    loss_by_epoch: Vec<f64>,
    steps: u64,
    /// How long it took.
    pub time: Time,
    version: String,
}

/// Means over the last epoch.
#[derive(Serialize, Deserialize)]
pub struct Metrics {
    /// Of an image.
    pub loss: f64,
    /// The mean squared error of a pixel, in train mode.
    pub error: f64,
    x_rms: f64,
}

/// How long a training took.
#[derive(Serialize, Deserialize)]
pub struct Time {
    /// Of the loop.
    pub seconds: f64,
    steps_per_second: f64,
    images_per_second: f64,
}

/// The rows of a trace: loss, error and the latents' root mean square.
fn read_trace(dir: &Path) -> Result<Vec<[f64; 3]>, Error> {
    let path = dir.join("trace.csv");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| format!("cannot read {}: {e}; give a run directory", path.display()))?;
    let row = |line: &str| -> Option<[f64; 3]> {
        let mut values = line.split(',').skip(1).map(|v| v.parse().ok());
        Some([values.next()??, values.next()??, values.next()??])
    };
    // The last line may be half written.
    Ok(text.lines().skip(1).map_while(row).collect())
}

fn mean(rows: &[[f64; 3]], column: usize) -> f64 {
    rows.iter().map(|r| r[column]).sum::<f64>() / rows.len().max(1) as f64
}

impl Summary {
    /// The summary of a finished training.
    pub fn of(dir: &Path, config: &GeneratorConfig, steps: u64, seconds: f64) -> Result<Self, Error> {
        let images = config.images.unwrap_or(1);
        let settings = config.settings(images)?;
        let trace = read_trace(dir)?;
        let per_epoch = settings.steps_per_epoch(images) as usize;
        let last = trace.chunks(per_epoch).next_back().unwrap_or_default();
        let speed = steps as f64 / seconds.max(1e-9);
        Ok(Summary {
            model: MODEL.into(),
            algorithm: settings.algorithm.to_string(),
            settings: serde_json::to_value(config).expect("a config is plain data"),
            seed: settings.seed,
            theta: None,
            posterior: None,
            metrics: Metrics { loss: mean(last, 0), error: mean(last, 1), x_rms: mean(last, 2) },
            loss_by_epoch: trace.chunks(per_epoch).map(|epoch| mean(epoch, 0)).collect(),
            steps,
            time: Time {
                seconds,
                steps_per_second: speed,
                images_per_second: speed * images as f64 / per_epoch as f64,
            },
            version: env!("CARGO_PKG_VERSION").into(),
        })
    }

    /// That of the training in a run directory.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("summary.json");
        let damaged = |e: &dyn std::fmt::Display| {
            format!("cannot read {}: {e}; remove that directory and try again", path.display())
        };
        let bytes = std::fs::read(&path).map_err(|e| damaged(&e))?;
        Ok(serde_json::from_slice(&bytes).map_err(|e| damaged(&e))?)
    }

    /// The summary as text.
    pub fn text(&self, dir: &Path) -> String {
        let m = &self.metrics;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "\ngenerator by {}: {} steps in {:.1} s ({} images/s)\n",
            self.algorithm,
            thousands(&self.steps.to_string()),
            self.time.seconds,
            grouped(self.time.images_per_second)
        );
        let _ = writeln!(out, "  loss      {} (mean of the last epoch)", grouped(m.loss));
        let _ = writeln!(out, "  error     {:.5} (mean square of a pixel in [-1, 1])", m.error);
        let _ = writeln!(out, "  latents   {:.3} (root mean square)", m.x_rms);
        let _ = writeln!(out, "  files     {}", dir.display());
        out
    }
}

/// Writes the page of a run, finished or not.
pub fn write(dir: &Path, output: &Path) -> Result<(), Error> {
    let config = GeneratorConfig::read(&dir.join("config.toml"))?;
    let html = page(dir, &config, &read_trace(dir)?)?;
    crate::report::write(output, &html)
}

fn page(dir: &Path, config: &GeneratorConfig, trace: &[[f64; 3]]) -> Result<String, Error> {
    let images = config.images.unwrap_or(1);
    let settings = config.settings(images)?;
    let per_epoch = settings.steps_per_epoch(images) as usize;
    let total = config.total_steps(&settings, images);
    let summary = Summary::read(dir).ok().filter(|s| s.steps == total);
    let mut body = String::new();
    let _ = writeln!(
        body,
        "<header><p class=\"kind\">Motes report</p><h1>generator <span class=\"by\">by</span> {}</h1>\n<p class=\"sub\">{} images · {} particles · h = {} · {} of {} steps · seed {}</p></header>",
        settings.algorithm,
        thousands(&images.to_string()),
        settings.particles,
        settings.step_size,
        thousands(&trace.len().to_string()),
        thousands(&total.to_string()),
        settings.seed
    );
    let (tone, title) = match &summary {
        Some(_) => ("good", "Trained to the end".to_string()),
        None => ("care", format!("Not finished: go on with motes resume {}", dir.display())),
    };
    let _ = writeln!(body, "<section class=\"verdict {tone}\"><h2>{}</h2></section>", escape(&title));
    let last = trace.chunks(per_epoch).next_back().unwrap_or_default();
    body.push_str("<dl class=\"figures\">\n");
    let mut figure = |name: &str, value: String, more: &str| {
        let _ = writeln!(body, "<div><dt>{name}</dt><dd>{value}<small>{more}</small></dd></div>");
    };
    figure("loss", grouped(mean(last, 0)), "mean of the last epoch");
    figure("squared error", format!("{:.5}", mean(last, 1)), "of a pixel in [−1, 1]");
    figure("latents", format!("{:.3}", mean(last, 2)), "root mean square");
    if let Some(s) = &summary {
        figure(
            "time",
            crate::report::words::seconds(s.time.seconds),
            &format!("{} images/s", grouped(s.time.images_per_second)),
        );
    }
    body.push_str("</dl>\n<section><h2>Loss</h2>\n");
    body.push_str(&curve(trace));
    body.push_str("<p class=\"note\">−log p(x, y) of an image without its constants (the negative ELBO of a VAE), on a logarithmic scale; averages over stretches of steps.</p></section>\n");
    for (file, title, note) in [
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
        if let Ok(png) = std::fs::read(dir.join("pictures").join(format!("{file}.png"))) {
            let _ = writeln!(
                body,
                "<section><h2>{title}</h2><img alt=\"{title}\" style=\"max-width:100%\" src=\"data:image/png;base64,{}\"><p class=\"note\">{note}</p></section>",
                base64(&png)
            );
        }
    }
    body.push_str("<section><h2>Settings</h2><dl class=\"settings\">\n");
    let values = serde_json::to_value(config).expect("a config is plain data");
    for (name, value) in values.as_object().into_iter().flatten().filter(|(name, _)| *name != "version") {
        let shown = value.as_str().map_or_else(|| value.to_string(), String::from);
        let long = if shown.chars().count() > 24 { " class=\"long\"" } else { "" };
        let _ = writeln!(body, "<div{long}><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&shown));
    }
    body.push_str("</dl></section>\n");
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{MARK}{version}\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>generator by {} – Motes</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n<footer>Made by Motes {version} from the run directory. This file needs no network.</footer>\n</body>\n</html>\n",
        settings.algorithm
    ))
}

/// The loss against the step as a picture.
fn curve(trace: &[[f64; 3]]) -> String {
    let stretch = trace.len().div_ceil(POINTS).max(1);
    let points: Vec<(f64, f64)> = trace
        .chunks(stretch)
        .enumerate()
        .map(|(i, rows)| {
            ((i * stretch) as f64 + (rows.len() + 1) as f64 / 2.0, mean(rows, 0).max(1e-3).log10())
        })
        .collect();
    if points.len() < 2 {
        return "<p class=\"note\">Too few steps have been recorded.</p>".into();
    }
    let (low, high) =
        points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (_, y)| (a.min(*y), b.max(*y)));
    let (low, high) = (low - 0.05, high + 0.05);
    let left = 90.0;
    let x = |k: f64| left + k / trace.len() as f64 * (WIDTH - left - 10.0);
    let y = |v: f64| 10.0 + (high - v) / (high - low) * (HEIGHT - 45.0);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Loss along the training\" style=\"width:100%\" font-size=\"13\" fill=\"currentColor\">\n"
    );
    let decades = low.floor() as i32..=high.ceil() as i32;
    let wide = high - low > 1.5;
    for (decade, digit) in decades.flat_map(|d| [1.0, 2.0, 5.0].map(|digit| (d, digit))) {
        let value = f64::from(decade) + f64::log10(digit);
        if (low..=high).contains(&value)
            && (digit == 1.0 || !wide || (digit - 3.0).abs() < 2.0 && high - low < 3.0)
        {
            let at = y(value);
            let _ = writeln!(
                out,
                "<line x1=\"{left}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"var(--rule)\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                at + 4.5,
                grouped(10f64.powf(value))
            );
        }
    }
    let step = nice(trace.len() as f64 / 6.0);
    let mut k = 0.0;
    while k <= trace.len() as f64 {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(k),
            HEIGHT - 18.0,
            thousands(&format!("{k:.0}"))
        );
        k += step;
    }
    let line: Vec<String> = points.iter().map(|(k, v)| format!("{:.1},{:.1}", x(*k), y(*v))).collect();
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">step</text>\n<polyline points=\"{}\" fill=\"none\" stroke=\"var(--c0)\" stroke-width=\"1.5\"/>\n</svg>",
        WIDTH,
        HEIGHT - 2.0,
        line.join(" ")
    );
    out
}

/// The next of 1, 2, 5, 10, 20, ... that is not smaller.
fn nice(value: f64) -> f64 {
    let unit = 10f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|f| f * unit).into_iter().find(|v| *v >= value).unwrap_or(10.0 * unit)
}
