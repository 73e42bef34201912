//! A clock that is looked at rarely: reading the time costs as much as a small step.

use std::time::{Duration, Instant};

/// Tells when an interval has passed, without asking the clock at every call.
#[derive(Clone, Debug)]
pub struct Ticker {
    interval: Duration,
    last: Instant,
    calls: u64,
    /// The call at which the clock is asked next.
    next: u64,
}

impl Ticker {
    /// A ticker that starts now.
    pub fn new(interval: Duration) -> Self {
        Ticker { interval, last: Instant::now(), calls: 0, next: 1 }
    }

    /// Whether the interval has passed since it last had; late by a sixteenth at most if calls come evenly.
    pub fn tick(&mut self) -> bool {
        self.calls += 1;
        if self.calls < self.next {
            return false;
        }
        let elapsed = self.last.elapsed();
        if elapsed >= self.interval {
            *self = Ticker::new(self.interval);
            return true;
        }
        let sixteenth = self.calls as f64 * self.interval.as_secs_f64() / 16.0 / elapsed.as_secs_f64();
        self.next = self.calls + (sixteenth as u64).clamp(1, self.calls);
        false
    }
}
