//! What can go wrong between a config and a report; the faces make a sentence or an exception of it.

use motes::ranks::{Tell, Told};
use motes_models::data::DataError;
use motes_models::registry;

/// Any failure of what the faces share.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Choices that cannot be made, or files that are not what they should be; the sentence ends with the remedy.
    #[error("{0}")]
    Refused(String),
    /// A problem that cannot be made of what was chosen.
    #[error(transparent)]
    Problem(#[from] motes_models::registry::Error),
    /// A failure of a run or its files.
    #[error(transparent)]
    Run(#[from] motes::Error),
    /// A run that diverged because of where it began: no step size would have helped.
    #[error(
        "the run diverged at step {step} from {start}, and from the model's own start it does not; begin closer to that, or leave it out"
    )]
    Start {
        /// The step that could not be completed.
        step: u64,
        /// The settings of its start.
        start: String,
        /// The size that was too large.
        norm: f64,
        /// The step size.
        h: f64,
    },
}

impl Error {
    /// Whether the iterates left every reasonable range.
    pub fn is_divergence(&self) -> bool {
        matches!(self, Error::Start { .. }) || matches!(self, Error::Run(e) if e.is_divergence())
    }

    /// The same with words before it, such as the name of the file or of the algorithm that it is about.
    pub fn within(self, place: impl std::fmt::Display) -> Error {
        Error::Refused(format!("{place}: {self}"))
    }
}

impl Tell for Error {
    fn tell(&self) -> Told {
        match self {
            Error::Run(e) => e.tell(),
            other => Told::Sentence(other.to_string()),
        }
    }

    fn hear(told: Told) -> Self {
        Error::Run(motes::Error::hear(told))
    }
}

impl From<String> for Error {
    fn from(sentence: String) -> Self {
        Error::Refused(sentence)
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Self {
        Error::Refused(sentence.into())
    }
}

/// A face that only speaks needs nothing but the sentence.
impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

impl From<DataError> for Error {
    fn from(error: DataError) -> Self {
        Error::Problem(registry::Error::Data(error))
    }
}
