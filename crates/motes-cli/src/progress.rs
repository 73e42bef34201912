//! Progress: a bar with rate and ETA on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use motes::{Flow, Observer, Real, StepInfo, Ticker};
use motes_models::generator::Stop;

const LINE_SECONDS: u64 = 10;

/// Shows how far a run has come.
pub struct Progress {
    style: Style,
    began: Instant,
    first: Option<u64>,
    steps: u64,
    /// Which run of several this is.
    label: String,
    /// Where time is the goal, not a number of steps.
    budget: Option<Duration>,
    ticker: Ticker,
    last_line: Instant,
}

enum Style {
    Bar(ProgressBar),
    Lines,
    Quiet,
}

impl Progress {
    /// Progress towards `steps` steps or the end of a time budget, in lines that begin with a label.
    pub fn new(steps: u64, budget: Option<Duration>, label: String, quiet: bool) -> Self {
        let style = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Style::Quiet,
            (false, false) => Style::Lines,
            (false, true) => {
                let bar = ProgressBar::new(budget.map_or(steps, |b| b.as_millis() as u64));
                let template = match budget {
                    None => "{prefix}{wide_bar:.cyan/dim} {human_pos}/{human_len} steps  {msg}  ETA {eta}",
                    Some(_) => "{prefix}{wide_bar:.cyan/dim} {msg}  ETA {eta}",
                };
                bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
                let gap = if label.is_empty() { "" } else { "  " };
                bar.set_prefix(format!("{label}{gap}"));
                Style::Bar(bar)
            }
        };
        let now = Instant::now();
        let ticker = Ticker::new(Duration::from_millis(50));
        Progress { style, began: now, first: None, steps, label, budget, ticker, last_line: now }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

impl<F: Real> Observer<F> for Progress {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        let first = *self.first.get_or_insert(info.k);
        if !self.ticker.tick() {
            return Flow::Continue;
        }
        let elapsed = self.began.elapsed();
        let rate = (info.k - first) as f64 / elapsed.as_secs_f64();
        match &self.style {
            Style::Quiet => {}
            Style::Bar(bar) => {
                let message = format!("{} steps/s", grouped(rate));
                match self.budget {
                    None => bar.set_position(info.k),
                    Some(_) => bar.set_position(elapsed.saturating_sub(info.metrics_time).as_millis() as u64),
                }
                bar.set_message(match self.budget {
                    None => message,
                    Some(_) => format!("{} steps  {message}", thousands(&info.k.to_string())),
                });
            }
            Style::Lines => {
                if self.last_line.elapsed() >= Duration::from_secs(LINE_SECONDS) && rate > 0.0 {
                    self.last_line = Instant::now();
                    let label =
                        if self.label.is_empty() { String::new() } else { format!("{}: ", self.label) };
                    let (of, left) = match self.budget {
                        None => (format!(" of {}", self.steps), (self.steps - info.k) as f64 / rate),
                        Some(budget) => {
                            (String::new(), budget.saturating_sub(elapsed - info.metrics_time).as_secs_f64())
                        }
                    };
                    say!("{label}step {}{of}, {} steps/s, {left:.0} s to go", info.k, grouped(rate));
                }
            }
        }
        Flow::Continue
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

impl<F: Real> Observer<F> for Interrupt {
    fn observe(&mut self, _info: &StepInfo<'_, F>) -> Flow {
        self.flow()
    }
}

/// A number with its thousands apart, and a decimal where it has no thousands.
pub fn grouped(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    thousands(&format!("{value:.0}"))
}

/// The digits of a whole number with its thousands apart.
pub fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
