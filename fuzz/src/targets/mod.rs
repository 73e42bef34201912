//! One target a reader.

mod data;
mod runs;
mod texts;

use crate::Target;

/// All of them.
pub static TARGETS: &[Target] = &[
    data::CSV,
    data::IDX,
    data::IMAGES,
    texts::CONFIG,
    texts::FLAGS,
    texts::SENTENCE,
    runs::CHECKPOINT,
    runs::NPZ,
    runs::SUMMARY,
    runs::PREDICT,
    runs::REPORT,
    runs::TRACE,
    runs::POSTERIOR,
];
