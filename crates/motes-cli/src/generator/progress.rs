//! How far a training has come: a bar with loss, images per second and ETA on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::progress::grouped;

const LINE_INTERVAL: Duration = Duration::from_secs(10);

enum Style {
    Bar(ProgressBar),
    Lines { last: Instant },
    Quiet,
}

/// Shows work that is counted in steps.
pub struct Progress {
    style: Style,
    unit: &'static str,
    began: Instant,
    first: Option<u64>,
    total: u64,
}

impl Progress {
    /// Progress towards `total` units of this name.
    pub fn new(total: u64, unit: &'static str, quiet: bool) -> Self {
        let now = Instant::now();
        let style = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Style::Quiet,
            (false, false) => Style::Lines { last: now },
            (false, true) => {
                let bar = ProgressBar::new(total);
                let template = format!("{{wide_bar:.cyan/dim}} {{human_pos}}/{{human_len}} {unit}  {{msg}}");
                let style = ProgressStyle::with_template(&template).unwrap_or(ProgressStyle::default_bar());
                bar.set_style(style);
                Style::Bar(bar)
            }
        };
        Progress { style, unit, began: now, first: None, total }
    }

    /// Says that `done` units are done; `message` is asked for only when it is shown.
    pub fn show(&mut self, done: u64, message: impl FnOnce(f64) -> String) {
        let first = *self.first.get_or_insert(done.saturating_sub(1));
        let rate = (done - first) as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let left = self.total.saturating_sub(done) as f64 / rate;
        let left = if rate > 0.0 { clock(Duration::from_secs_f64(left.min(1e9))) } else { "?".into() };
        match &mut self.style {
            Style::Quiet => {}
            Style::Bar(bar) => {
                bar.set_position(done);
                bar.set_message(format!("{}  ETA {left}", message(rate)));
            }
            Style::Lines { last } => {
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    say!("{} {done} of {}, {}, {left} to go", self.unit, self.total, message(rate));
                }
            }
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

/// The loss and the speed of a training.
pub fn loss_and_speed(loss: f64, images_per_second: f64) -> String {
    format!("loss {}, {} images/s", grouped(loss), grouped(images_per_second))
}

fn clock(left: Duration) -> String {
    let seconds = left.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}
