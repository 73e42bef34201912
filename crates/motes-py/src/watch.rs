//! Who watches a run for Python: the callback, and the thread that listens for Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
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

/// Works without the GIL on a thread that Python knows all the while: one that it first meets at each call, and forgets
/// afterwards, takes JAX longer to serve than small steps themselves.
pub fn known_to_python<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Python::attach(|py| py.detach(work))
}

/// A call into Python that somebody else is asked to make, and where the answer goes.
type Call = (Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>, Sender<PyResult<Py<PyAny>>>);

/// What the waiting thread hears.
enum Told {
    Over,
    Call(Call),
}

/// Where the thread that waits for a run makes calls for the one that works: PyTorch's own threads serve the thread that it was
/// first used on at full speed, and all others at half of it or less.
#[derive(Default)]
pub struct Desk(Mutex<Option<Sender<Told>>>);

impl Desk {
    /// Makes a call, on the thread that waits if there is one.
    pub fn call(
        &self,
        f: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let Some(waiting) = self.open().clone() else { return Python::attach(f) };
        let (answer, wait) = channel();
        let stopped = || PyKeyboardInterrupt::new_err("nobody waits for the run any more");
        waiting.send(Told::Call((Box::new(f), answer))).map_err(|_| stopped())?;
        wait.recv().map_err(|_| stopped())?
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Option<Sender<Told>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the work is over, even if it panicked.
struct Over<'a>(Sender<Told>, Option<&'a Desk>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if let Some(desk) = self.1 {
            *desk.open() = None;
        }
        let _ = self.0.send(Told::Over);
    }
}

/// Runs `work` on a thread of its own, without the GIL, while this one lets Python handle signals and show progress, and makes
/// the calls that come to its desk. Also returns whether Ctrl-C was pressed.
///
/// Python delivers signals to its main thread alone. If that one did the work, an interrupt would be raised inside a
/// model's callable, in the middle of a step that could then not be resumed. What is called at a desk is interrupted, too: those
/// who ask there give up such a step without a trace.
pub fn attended<T: Send>(
    py: Python<'_>,
    signals: &Signals,
    (tick, steps): (Option<&Py<PyAny>>, Option<u64>),
    trouble: &Trouble,
    desk: Option<&Desk>,
    work: impl FnOnce() -> T + Send,
) -> (T, bool) {
    let (tell, wait) = channel();
    py.detach(move || {
        std::thread::scope(|scope| {
            if let Some(desk) = desk {
                *desk.open() = Some(tell.clone());
            }
            let worker = scope.spawn(move || {
                let _over = Over(tell, desk);
                work()
            });
            let (mut interrupted, mut seen) = (false, Instant::now());
            loop {
                let mut raised = None;
                match wait.recv_timeout(INTERVAL) {
                    Ok(Told::Over) | Err(RecvTimeoutError::Disconnected) => match worker.join() {
                        Ok(result) => return (result, interrupted),
                        Err(panic) => std::panic::resume_unwind(panic),
                    },
                    Ok(Told::Call((call, answer))) => {
                        let told = Python::attach(call);
                        if let Err(error) = &told
                            && Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py))
                        {
                            // Before the other thread goes on.
                            signals.stop.store(true, Ordering::Relaxed);
                            raised = Some(PyKeyboardInterrupt::new_err(()));
                        }
                        let _ = answer.send(told);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if seen.elapsed() >= INTERVAL {
                    seen = Instant::now();
                    let looked = Python::attach(|py| {
                        py.check_signals()?;
                        if let Some(tick) = tick {
                            let error = f64::from_bits(signals.error.load(Ordering::Relaxed));
                            let stage = signals.stage.load(Ordering::Relaxed);
                            tick.call1(py, (signals.k.load(Ordering::Relaxed), steps, stage, error))?;
                        }
                        PyResult::Ok(())
                    });
                    raised = raised.or(looked.err());
                }
                if let Some(raised) = raised {
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
