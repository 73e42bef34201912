//! The core of the Python package `motes`: models, runs and their files, shared with the command line.
//!
//! Python sees it as the private module `motes._core`; what users call is written in Python around it.

mod callables;
mod errors;
mod generator;
mod network;
mod problem;
mod run;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::errors::in_python;
    #[pymodule_export]
    use super::generator::{Painter, draw};
    #[pymodule_export]
    use super::problem::{Problem, check, model_of, models};
    #[pymodule_export]
    use super::run::{Run, begin_replicates, fit, load, pool, replicates_of, shown, trace_columns};
    #[pymodule_export]
    use super::watch::clock;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
