//! Errors of the library as Python exceptions, in Python's words.

use std::io::ErrorKind::NotFound;

use motes::Error;
use motes_models::registry;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;

/// A sentence of the library as a `ValueError`.
pub fn value_error(sentence: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(in_python(&sentence.to_string()))
}

/// A sentence of the library about a file that is not there.
pub fn not_found(sentence: impl std::fmt::Display) -> PyErr {
    PyFileNotFoundError::new_err(in_python(&sentence.to_string()))
}

/// An error of the library as the exception that says most.
pub fn exception(error: Error) -> PyErr {
    let sentence = in_python(&error.to_string());
    match error {
        Error::Diverged { step, norm, h, suggestion, .. } => diverged(sentence, step, norm, h, suggestion),
        Error::Rejected { step, h, suggestion, .. } => diverged(sentence, step, f64::NAN, h, suggestion),
        Error::Hessian { step, .. } => diverged(sentence, step, f64::NAN, f64::NAN, f64::NAN),
        Error::Io { source, .. } if source.kind() == NotFound => PyFileNotFoundError::new_err(sentence),
        Error::Io { .. } => PyOSError::new_err(sentence),
        _ => PyValueError::new_err(sentence),
    }
}

/// An error of what the faces share.
pub fn failure(error: motes_app::Error) -> PyErr {
    match error {
        motes_app::Error::Run(error) => exception(error),
        motes_app::Error::Start { step, norm, h, .. } => {
            diverged(in_python(&error.to_string()), step, norm, h, f64::NAN)
        }
        motes_app::Error::Problem(registry::Error::Setting { key, problem }) => {
            value_error(registry::Error::Setting { key: key.replace('-', "_"), problem })
        }
        other => value_error(other),
    }
}

/// A `DivergedError`.
fn diverged(sentence: String, step: u64, norm: f64, h: f64, suggestion: f64) -> PyErr {
    Python::attach(|py| {
        let class = py.import("motes._errors").and_then(|m| m.getattr("DivergedError"));
        match class.and_then(|class| class.call1((sentence, step, norm, h, suggestion))) {
            Ok(instance) => PyErr::from_value(instance),
            Err(e) => e,
        }
    })
}

/// A sentence in Python's words.
#[pyfunction]
pub fn in_python(sentence: &str) -> String {
    motes::sentence::render(sentence, motes::sentence::Face::Python)
}
