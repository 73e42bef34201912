//! Progress: a bar with rate and ETA on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use motes::auto::Stage;
use motes::{Flow, Real, StepInfo, Stop, Ticker};
use motes_app::numbers::{clock, grouped, thousands};

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
    /// Progress towards `steps` steps, the end of what ends itself, or the end of a time budget, in lines that begin with a label.
    pub fn new(steps: Option<u64>, budget: Option<Duration>, label: String, quiet: bool) -> Self {
        let gauge = match (budget, steps) {
            (Some(time), _) => Gauge::new(time.as_millis() as u64, &label, "{msg}", quiet),
            (None, Some(steps)) => Gauge::new(steps, &label, "{human_pos}/{human_len} steps  {msg}", quiet),
            // It is known by its stages, not by a number of steps.
            (None, None) => Gauge::new(3, &label, "{msg}", quiet),
        };
        let steps = steps.unwrap_or(0);
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
            None if let Some(fit) = info.fit => {
                let found = match (fit.stage, fit.worst) {
                    (Stage::Average, Some(worst)) => {
                        format!(", Monte Carlo error {worst:.3} of the standard error")
                    }
                    (Stage::Posterior, _) => match fit.posterior_error {
                        Some(worst) => format!(", Monte Carlo error {worst:.3} of the standard deviation"),
                        None => String::new(),
                    },
                    _ => String::new(),
                };
                let stage = match fit.stage {
                    Stage::Search => "searching",
                    Stage::Average => "averaging",
                    Stage::Posterior => "sampling the posterior",
                };
                let sweeps = thousands(&k.to_string());
                let message = || format!("{stage}, {sweeps} sweeps{found}");
                let line = || format!("{label}{stage}, sweep {k}, {} sweeps/s{found}", grouped(rate));
                self.gauge.show(fit.stage.number() - 1, message, line);
            }
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

/// Whether a signal has asked for an end.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Whether it was one that people send again if they cannot wait.
static AGAIN: AtomicBool = AtomicBool::new(false);
/// Whether nobody looks at `ASKED`, so that a signal ends the process at once.
static UNHEEDED: AtomicBool = AtomicBool::new(true);

/// Lets Ctrl-C, SIGTERM and SIGHUP end the process with exit code 1 from now on: at once until somebody
/// [listens](Interrupt::listen). To be called before anything else.
pub fn catch_signals() -> Result<(), String> {
    catch().map_err(|e| format!("cannot listen for Ctrl-C: {e}; try again"))
}

fn catch() -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_shutdown};
    for signal in [SIGINT, SIGTERM] {
        register_conditional_shutdown(signal, 1, &UNHEEDED)?;
        // The second one does not wait for the end of a step; the last checkpoint stays good.
        register_conditional_shutdown(signal, 1, &AGAIN)?;
        register(signal, &AGAIN)?;
        register(signal, &ASKED)?;
    }
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGXFSZ};
        // `nohup` has it ignored, and means it.
        if !is_ignored(SIGHUP) {
            register_conditional_shutdown(SIGHUP, 1, &UNHEEDED)?;
            // A terminal that is closed sends it, and the shell in it once more: the second does not mean haste.
            register(SIGHUP, &ASKED)?;
        }
        // A file that grows too large is then a failed write with a remedy, not a sudden death.
        static UNUSED: AtomicBool = AtomicBool::new(false);
        register(SIGXFSZ, &UNUSED)?;
    }
    Ok(())
}

/// Whether the process was started with a signal ignored.
#[cfg(unix)]
fn is_ignored(signal: std::ffi::c_int) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing, and where it succeeds it has written the present one.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Stops a run when a signal has come.
#[derive(Clone)]
pub struct Interrupt(());

impl Interrupt {
    /// From now on somebody looks whether a signal has come, and ends in good order.
    pub fn listen() -> Self {
        UNHEEDED.store(false, Ordering::SeqCst);
        Interrupt(())
    }

    /// Whether a signal has come.
    pub fn is_set(&self) -> bool {
        ASKED.load(Ordering::Relaxed)
    }

    /// The same for work that asks by itself.
    pub fn stop(&self) -> Stop<'_> {
        Stop(Some(&ASKED))
    }

    /// What an observer says.
    pub fn flow(&self) -> Flow {
        if self.is_set() { Flow::Stop } else { Flow::Continue }
    }
}
