//! How far a task has come, and the time that is left.

use std::time::Instant;

use motes_app::numbers::clock;

use crate::progress::Gauge;

/// Shows work that is counted in steps.
pub struct Progress {
    gauge: Gauge,
    unit: &'static str,
    began: Instant,
    first: Option<u64>,
    total: u64,
}

impl Progress {
    /// Progress towards `total` units of this name.
    pub fn new(total: u64, unit: &'static str, quiet: bool) -> Self {
        let gauge = Gauge::new(total, "", &format!("{{human_pos}}/{{human_len}} {unit}  {{msg}}"), quiet);
        Progress { gauge, unit, began: Instant::now(), first: None, total }
    }

    /// Says that `done` units are done; `message` is made from the rate.
    pub fn show(&mut self, done: u64, message: impl FnOnce(f64) -> String) {
        let first = *self.first.get_or_insert(done.saturating_sub(1));
        let rate = (done - first) as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let left = match done > first {
            true => clock(self.total.saturating_sub(done) as f64 / rate),
            false => "?".into(),
        };
        let (unit, total, message) = (self.unit, self.total, message(rate));
        let line = || format!("{unit} {done} of {total}, {message}, {left} to go");
        self.gauge.show(done, || format!("{message}  ETA {left}"), line);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.gauge.finish();
    }
}
