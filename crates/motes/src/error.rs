//! What can go wrong, each in one sentence that names the value, the place and the remedy.

use std::path::{Path, PathBuf};

use crate::printable::{Number, one_line};
use crate::sentence::{foreign, foreign_path};

/// Any failure of the library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be used; the sentence says why and what to do instead.
    #[error("{0}")]
    Settings(String),
    /// The algorithm needs something that the model does not give.
    #[error("{algorithm} needs {piece}, which the model {} does not give; {remedy}", foreign(model))]
    Missing {
        /// The algorithm that asked.
        algorithm: String,
        /// The model that was asked.
        model: String,
        /// What is missing.
        piece: &'static str,
        /// What to use instead.
        remedy: String,
    },
    /// The iterates left every reasonable range.
    #[error(
        "the run diverged at step {step}: {what} = {norm:.3e} with {} = {}; try `{setting}={}`{}",
        if *setting == "step-size" { "h" } else { "a rate of theta" }, Number(*h), Number(*suggestion), checkpoints(*kept)
    )]
    Diverged {
        /// The step that could not be completed.
        step: u64,
        /// Which norm left the range.
        what: &'static str,
        /// Its value.
        norm: f64,
        /// The step size in use, or theta's own.
        h: f64,
        /// Which of them is too large, as settings name it.
        setting: &'static str,
        /// One worth trying.
        suggestion: f64,
        /// Whether earlier checkpoints are kept.
        kept: bool,
    },
    /// The iterates are where the model has no value.
    #[error(
        "the run diverged at step {step}: the model has no value there ({reason}) with h = {}; try `step-size={}`{}",
        Number(*h), Number(*suggestion), checkpoints(*kept)
    )]
    Rejected {
        /// The step that could not be completed.
        step: u64,
        /// What the model said.
        reason: String,
        /// The step size in use.
        h: f64,
        /// A step size worth trying.
        suggestion: f64,
        /// Whether earlier checkpoints are kept.
        kept: bool,
    },
    /// PQN's Hessian sum cannot be inverted as a maximiser needs it.
    #[error(
        "the run diverged at step {step}: the sum of theta-Hessians is {defect}, so PQN has no step; use `algorithm=pgd` or `algorithm=pmgd`"
    )]
    Hessian {
        /// The step that could not be completed.
        step: u64,
        /// What is wrong with the matrix.
        defect: &'static str,
    },
    /// The model itself reported a failure.
    #[error("the model failed at step {step}: {}", one_line(&source.to_string()))]
    Model {
        /// The step that could not be completed.
        step: u64,
        /// What the model said.
        source: ModelError,
    },
    /// Reading or writing failed.
    #[error("cannot {action} {}: {source}; {remedy}", foreign_path(path))]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A step was told to stop and left no trace.
    #[error("the step was stopped; the run can be continued from where it is")]
    Stopped,
    /// A file that is there but cannot be trusted.
    #[error("{} {problem}", foreign_path(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what to do.
        problem: String,
    },
}

fn checkpoints(kept: bool) -> &'static str {
    if kept { " (earlier checkpoints are kept)" } else { "" }
}

impl Error {
    /// Whether the iterates left every reasonable range.
    pub fn is_divergence(&self) -> bool {
        matches!(self, Error::Diverged { .. } | Error::Rejected { .. } | Error::Hessian { .. })
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        Self::io("write", path)
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        Self::io("read", path)
    }

    /// An I/O error with the remedy that its kind suggests.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| {
            use std::io::ErrorKind as K;
            let remedy = match source.kind() {
                K::NotFound => "check the path",
                K::PermissionDenied | K::ReadOnlyFilesystem => {
                    "choose a place that you may write to, for example with `out`"
                }
                K::StorageFull | K::QuotaExceeded | K::FileTooLarge => {
                    "free some space, then `resume()` the run"
                }
                _ => "check that the place is there and usable",
            };
            Error::Io { action, path, source, remedy }
        }
    }
}

/// What a model says when it cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model has no value at this point, for the reason given: an accept-reject step rejects it, elsewhere the run has
    /// diverged.
    #[error("{0}")]
    Reject(String),
    /// It was told to stop and gave up.
    #[error("the evaluation was stopped")]
    Stopped,
    /// The model itself is at fault, which ends the run.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl ModelError {
    /// A failure with a message, or with any other error as its cause.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ModelError::Failed(error.into())
    }

    /// A point without a value.
    pub fn reject(reason: impl Into<String>) -> Self {
        ModelError::Reject(reason.into())
    }
}

/// The candidate closest to `word`, if it is close enough to be what was meant.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(word, c), c))
        .filter(|(distance, c)| *distance <= 1 + c.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}
