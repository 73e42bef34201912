//! Progress: a bar with rate and ETA on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use motes::{Flow, Real, StepInfo, Ticker};
use motes_app::numbers::{clock, grouped, thousands};
use motes_models::generator::Stop;

const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// How far something has come, on stderr.
pub enum Gauge {
    /// For a terminal.
    Bar(ProgressBar),
    /// For a file or a pipe.
    Lines {
        last: Instant,
    },
    Quiet,
}

impl Gauge {
    /// Towards `total`, with what `right` says to the right of the bar (in indicatif's words) and a label to its left.
    pub fn new(total: u64, label: &str, right: &str, quiet: bool) -> Self {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Gauge::Quiet,
            (false, false) => Gauge::Lines { last: Instant::now() },
            (false, true) => {
                let gap = if label.is_empty() { "" } else { "  " };
                let template = format!("{{prefix}}{gap}{{wide_bar:.cyan/dim}} {right}");
                let style = ProgressStyle::with_template(&template).expect("a valid template");
                Gauge::Bar(ProgressBar::new(total).with_style(style).with_prefix(label.to_string()))
            }
        }
    }

    /// Moves the bar and sets its message, or says a line if the last one was a while ago.
    pub fn show(&mut self, done: u64, message: impl FnOnce() -> String, line: impl FnOnce() -> String) {
        match self {
            Gauge::Quiet => {}
            Gauge::Bar(bar) => {
                bar.set_message(message());
                bar.set_position(done);
            }
            Gauge::Lines { last } if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                say!("{}", line());
            }
            Gauge::Lines { .. } => {}
        }
    }

    /// Says something beside the bar.
    pub fn aside(&self, line: &str) {
        match self {
            Gauge::Bar(bar) => bar.suspend(|| say!("{line}")),
            Gauge::Lines { .. } => say!("{line}"),
            Gauge::Quiet => {}
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Gauge::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Shows how far a run has come.
pub struct Progress {
    gauge: Gauge,
    /// When the first step was seen, and which.
    first: Option<(Instant, u64)>,
    steps: u64,
    /// Which run of several this is.
    label: String,
    /// Where time is the goal, not a number of steps.
    budget: Option<Duration>,
    ticker: Ticker,
}

impl Progress {
    /// Progress towards `steps` steps or the end of a time budget, in lines that begin with a label.
    pub fn new(steps: u64, budget: Option<Duration>, label: String, quiet: bool) -> Self {
        let gauge = match budget {
            None => Gauge::new(steps, &label, "{human_pos}/{human_len} steps  {msg}", quiet),
            Some(time) => Gauge::new(time.as_millis() as u64, &label, "{msg}", quiet),
        };
        let ticker = Ticker::new(Duration::from_millis(50));
        Progress { gauge, first: None, steps, label, budget, ticker }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.gauge.finish();
    }

    /// Shows a step.
    pub fn show<F: Real>(&mut self, info: &StepInfo<'_, F>) {
        let (began, first) = *self.first.get_or_insert_with(|| (Instant::now(), info.k));
        if !self.ticker.tick() || info.k == first {
            return;
        }
        let (k, elapsed) = (info.k, began.elapsed());
        let rate = (k - first) as f64 / elapsed.as_secs_f64();
        let speed = format!("{} steps/s", grouped(rate));
        let label = if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
        match self.budget {
            None => {
                let left = clock((self.steps - k) as f64 / rate);
                let line = || format!("{label}step {k} of {}, {speed}, {left} to go", self.steps);
                self.gauge.show(k, || format!("{speed}  ETA {left}"), line);
            }
            Some(budget) => {
                let spent = elapsed.saturating_sub(info.metrics_time);
                let left = clock(budget.saturating_sub(spent).as_secs_f64());
                let message = || format!("{} steps  {speed}  ETA {left}", thousands(&k.to_string()));
                let line = || format!("{label}step {k}, {speed}, {left} to go");
                self.gauge.show(spent.as_millis() as u64, message, line);
            }
        }
    }
}

/// Stops a run when a signal has come.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C and SIGTERM; the second one ends the process at once (the last checkpoint stays good).
    pub fn install() -> Result<Self, String> {
        Self::listen().map_err(|e| format!("cannot listen for Ctrl-C: {e}; try again"))
    }

    fn listen() -> std::io::Result<Self> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        // A file that grows too large is then a failed write with a remedy, not a sudden death.
        #[cfg(unix)]
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
        Ok(Interrupt(flag))
    }

    /// Whether a signal has come.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same for work that asks by itself.
    pub fn stop(&self) -> Stop<'_> {
        Stop(Some(&self.0))
    }

    /// What an observer says.
    pub fn flow(&self) -> Flow {
        if self.is_set() { Flow::Stop } else { Flow::Continue }
    }
}
