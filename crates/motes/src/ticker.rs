//! Clocks that are looked at rarely: reading the time costs as much as a good part of a small step.

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

/// Work that takes less is timed now and then.
const SHORT: Duration = Duration::from_micros(20);
/// So many pieces of short work go by from one look at the clock to the next.
const UNTIMED: u32 = 15;

/// Adds up the time that some pieces of work take. Where they are short, one stands for those before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopwatch {
    pub total: Duration,
    last: Duration,
    untimed: u32,
    left: u32,
}

impl Stopwatch {
    #[inline(always)]
    pub fn time(&mut self, work: impl FnOnce()) {
        if self.left > 0 {
            self.left -= 1;
            self.untimed += 1;
            return work();
        }
        let began = Instant::now();
        work();
        let took = began.elapsed();
        // One that was interrupted says nothing of the others.
        self.total += took + took.min(2 * self.last) * self.untimed;
        self.last = took;
        self.untimed = 0;
        self.left = if took < SHORT { UNTIMED } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_is_timed_each_time_and_short_work_counts_in_full() {
        let mut watch = Stopwatch::default();
        let pause = Duration::from_millis(2);
        (0..3).for_each(|_| watch.time(|| std::thread::sleep(pause)));
        assert!(watch.total >= 3 * pause);
        let mut watch = Stopwatch::default();
        let mut calls = 0;
        (0..33).for_each(|_| watch.time(|| calls += 1));
        assert!(calls == 33 && watch.untimed <= UNTIMED);
    }
}
