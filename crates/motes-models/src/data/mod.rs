//! Readers of data, and what is done to the data before a fit.

mod classification;
mod coding;
mod csv;
mod frame;
mod idx;
mod images;
mod numbers;
#[cfg(feature = "parquet")]
mod parquet;
mod reading;
pub mod remember;
mod resize;
pub mod rows;
mod split;
mod standardize;
mod text;

use sha2::{Digest, Sha256};

pub use classification::{
    Classification, LabelledRows, MOST_CLASSES, classification, column, features, labelled, labelled_like,
};
pub use coding::{Coded, Coding, Features, Reference, Unknown};
pub(crate) use csv::quoted;
pub use csv::{Table, read_table};
pub use frame::{Column, Frame, Kind, Values, Words};
pub use idx::{
    ImageTask, Images, TaskOptions, first_labels, looks_like_idx, mnist, read_images, read_labels,
};
pub use images::{Decoded, ImageSet, SIDE, byte_of, value_of, write_grid};
pub use reading::{is_pipe, read_file, read_file_of};
pub use split::{Split, train_test_split};
pub use standardize::Moments;

/// Data that cannot be used: one sentence that names the place and ends with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DataError(String);

impl DataError {
    pub(crate) fn new(sentence: String) -> Self {
        DataError(sentence)
    }
}

/// What the metrics of classifiers are called: the fraction of test rows that are misclassified, and the mean log
/// pointwise predictive density.
pub(crate) const METRICS: [&str; 2] = ["test_error", "lppd"];

/// The embedded data set: Breast Cancer Wisconsin (Original), W. H. Wolberg, CC BY 4.0; see data/README.md.
pub mod wisconsin {
    /// The name used in messages.
    pub const NAME: &str = "wisconsin-breast-cancer.csv";
    /// The file itself.
    pub const BYTES: &[u8] = include_bytes!("../../data/wisconsin-breast-cancer.csv");
    /// What is left out by default.
    pub const DROP: &[&str] = &["id"];
}

/// The SHA-256 of a file's bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
