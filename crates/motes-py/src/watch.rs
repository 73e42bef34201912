//! Who watches a run for Python: the callback, and the thread that listens for Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use motes::auto::Stage;
use motes::{Flow, Observer, StepInfo};
use motes_app::carry;
use numpy::PyArray1;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

use crate::callables::{PyReal, Trouble};

/// Seconds as people would say them.
#[pyfunction]
pub fn clock(seconds: f64) -> String {
    motes_app::numbers::clock(seconds)
}

/// How often Python may interrupt and progress is shown.
const INTERVAL: Duration = Duration::from_millis(100);

/// What the working thread and the waiting one share.
#[derive(Default)]
pub struct Signals {
    pub k: AtomicU64,
    pub stop: AtomicBool,
    /// The stage of a fit by auto, or 0.
    pub stage: AtomicU64,
    /// The Monte Carlo error that it has come down to, as the bits of a number; NaN if it is not known.
    pub error: AtomicU64,
}

impl Signals {
    /// What the working thread is to do.
    pub fn flow(&self) -> Flow {
        match self.stop.load(Ordering::Relaxed) {
            true => Flow::Stop,
            false => Flow::Continue,
        }
    }
}

/// Watches every step.
pub struct Watch<'a> {
    pub signals: &'a Signals,
    pub callback: Option<(Py<PyAny>, u64)>,
    /// The names of what the model wants in the trace.
    pub scalars: Vec<&'static str>,
    pub trouble: Trouble,
    /// When its time is over, and whether that was so.
    pub end: Option<Instant>,
    /// See `end`.
    pub out_of_time: bool,
}

impl<F: PyReal> Observer<F> for Watch<'_> {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        self.signals.k.store(info.k, Ordering::Relaxed);
        if let Some(fit) = &info.fit {
            let error = if fit.stage == Stage::Posterior { fit.posterior_error } else { fit.worst };
            self.signals.error.store(error.unwrap_or(f64::NAN).to_bits(), Ordering::Relaxed);
            self.signals.stage.store(fit.stage.number(), Ordering::Relaxed);
        }
        if let Some((callback, every)) = &self.callback
            && info.k.is_multiple_of(*every)
        {
            let asked = asked(callback, &self.trouble, |callback| {
                let theta = PyArray1::from_slice(callback.py(), info.theta);
                let scalars = self.scalars.iter().copied().zip(info.scalars.iter().copied());
                let scalars = scalars.into_py_dict(callback.py())?;
                callback.call1((info.k, theta, info.h, info.acceptance, scalars)).map(Bound::unbind)
            });
            if asked == Flow::Stop {
                return Flow::Stop;
            }
        }
        if info.k > 0 && self.end.is_some_and(|end| Instant::now() >= end) {
            self.out_of_time = true;
            return Flow::Stop;
        }
        self.signals.flow()
    }
}

impl<F: PyReal> carry::Watch<F> for Watch<'_> {
    fn stopped(&self) -> bool {
        self.signals.flow() == Flow::Stop
    }
}

/// Calls a callback and returns what it says; what it raises is kept aside and stops the run.
pub fn asked(
    callback: &Py<PyAny>,
    trouble: &Trouble,
    call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<Py<PyAny>>,
) -> Flow {
    // Only False itself stops: callbacks that return nothing, or something else, go on.
    let stops = Python::attach(|py| {
        let answer = call(callback.bind(py))?;
        PyResult::Ok(answer.extract::<bool>(py).is_ok_and(|go_on| !go_on))
    });
    match stops {
        Ok(false) => Flow::Continue,
        Ok(true) => Flow::Stop,
        Err(raised) => {
            trouble.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(raised);
            Flow::Stop
        }
    }
}

/// Runs `work` on a thread of its own, without the GIL, while this one lets Python handle signals. What they raise is
/// returned at once; the thread is then left to end by itself, so `work` must not call Python.
pub fn unless_interrupted<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        let _ = done.send(work());
    });
    py.detach(move || {
        loop {
            match wait.recv_timeout(INTERVAL) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => panic!("the working thread has panicked"),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
            }
        }
    })
}

/// Runs `work` on a thread of its own, without the GIL, while this one lets Python handle signals and show progress.
/// Also returns whether Ctrl-C was pressed.
///
/// Python delivers signals to its main thread alone. If that one did the work, an interrupt would be raised inside a
/// model's callable, in the middle of a step that could then not be resumed.
pub fn attended<T: Send>(
    py: Python<'_>,
    signals: &Signals,
    (tick, steps): (Option<&Py<PyAny>>, Option<u64>),
    trouble: &Trouble,
    work: impl FnOnce() -> T + Send,
) -> (T, bool) {
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, wait) = channel();
            scope.spawn(move || {
                let _ = done.send(work());
            });
            let mut interrupted = false;
            loop {
                match wait.recv_timeout(INTERVAL) {
                    Ok(result) => return (result, interrupted),
                    Err(RecvTimeoutError::Disconnected) => panic!("the working thread has panicked"),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let raised = Python::attach(|py| {
                    py.check_signals()?;
                    if let Some(tick) = tick {
                        let error = f64::from_bits(signals.error.load(Ordering::Relaxed));
                        let stage = signals.stage.load(Ordering::Relaxed);
                        tick.call1(py, (signals.k.load(Ordering::Relaxed), steps, stage, error))?;
                    }
                    PyResult::Ok(())
                });
                if let Err(raised) = raised {
                    signals.stop.store(true, Ordering::Relaxed);
                    if Python::attach(|py| raised.is_instance_of::<PyKeyboardInterrupt>(py)) {
                        interrupted = true;
                    } else {
                        trouble.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(raised);
                    }
                }
            }
        })
    })
}
