//! What models of rows with labels share: their options, and the way from files or arrays to rows to train and test on.

use std::path::{Path, PathBuf};

use super::csv::{quoted, shown};
use super::{
    Classification, DataError, Moments, Split, classification_like, read_table, sha256, train_test_split,
};
use crate::options::Table;
use crate::registry::{Error, Placed, read};
use motes::sentence::foreign_path;

crate::options! {
    /// Where rows come from, and which of them are tested on.
    pub struct RowOptions {
        "Data" {
            /// The column to explain [default: the last]
            target: String => "COL";
            /// Columns to leave out [default: none; id of the embedded data]
            drop: Vec<String> => "COL,...";
            /// A CSV file to test on, standardised with the training moments
            test: PathBuf => "FILE";
            /// The fraction of rows to test on; 0 trains on everything [default: 0.2]
            test_fraction: f64 => "F";
            /// The seed of that split, equal to scikit-learn's [default: 0]
            split_seed: u32 => "S";
            /// Take features as they are
            no_standardize: bool => "BOOL";
        }
    }
}

/// Which options give way to which.
pub const GIVES_WAY: &[(&[&str], &[&str])] =
    &[(&["test"], &["test-fraction", "split-seed"]), (&["test-fraction", "split-seed"], &["test"])];

/// The file of rows that were given in memory.
pub const TABLE: &str = "data.csv";

/// Rows, split and on a common scale.
pub struct Prepared {
    /// All of them, the training rows' scale applied.
    pub all: Classification,
    /// Which are trained and which tested on.
    pub split: Split,
    /// The scale that was applied.
    pub moments: Option<Moments>,
    /// The digest of the files they came from.
    pub sha256: String,
    /// The options with every default written out.
    pub options: RowOptions,
}

/// Splits rows and brings them to one scale, as the options say. `name` is what they were read from.
pub fn prepare(
    mut all: Classification,
    options: RowOptions,
    name: &str,
    mut digest: String,
    notes: &mut Vec<String>,
) -> Result<Prepared, Error> {
    let standardize = !options.no_standardize.unwrap_or(false);
    let mut options = RowOptions {
        target: Some(all.target.clone()),
        drop: Some(options.drop.unwrap_or_default()),
        no_standardize: Some(!standardize),
        ..options
    };
    note_dropped(notes, Path::new(name), all.rows_dropped);
    let labelled: Vec<String> = all
        .classes
        .iter()
        .enumerate()
        .map(|(label, class)| format!("{} is {label}", quoted(class)))
        .collect();
    let (last, first) = labelled.split_last().ok_or("there are no classes; give more data")?;
    let joined = if first.len() == 1 { format!("{} and {last}", first[0]) } else { labelled.join(", ") };
    notes.push(format!("{}: {joined}", shown(&all.target)));
    let moments = standardize.then(|| Moments::of(&all.features, &all.feature_names)).transpose()?;
    if let Some(moments) = &moments {
        moments.apply(&mut all.features);
    }
    if moments.is_none() {
        check_scale(&all, notes)?;
    }
    let rows = all.rows();
    let split = match options.test.clone() {
        Some(path) => {
            if options.test_fraction.is_some_and(|f| f != 0.0) || options.split_seed.is_some() {
                return Err("`test` names a test set, so there is nothing to split; leave `test-fraction` and `split-seed` out".into());
            }
            let bytes = read(&path)?;
            let table = read_table(&bytes, &foreign_path(&path))?;
            let mut test = classification_like(&table, &all)?;
            note_dropped(notes, &path, test.rows_dropped);
            if let Some(moments) = &moments {
                moments.apply(&mut test.features);
            }
            digest = sha256(format!("{digest}{}", sha256(&bytes)).as_bytes());
            all.features.extend(test.features);
            all.labels.extend(test.labels);
            Split { train: (0..rows).collect(), test: (rows..all.labels.len()).collect() }
        }
        None => {
            let fraction = *options.test_fraction.insert(options.test_fraction.unwrap_or(0.2));
            let seed = *options.split_seed.insert(options.split_seed.unwrap_or(0));
            train_test_split(rows, fraction, seed)?
        }
    };
    Ok(Prepared { all, split, moments, sha256: digest, options })
}

/// Features beyond this have no step size that suits them and the prior alike.
const LARGEST: f64 = 1e15;
/// Those beyond this make for small steps, which people should know.
const LARGE: f64 = 1e4;

/// Refuses columns that cannot be taken as they are, and warns of those that should not be.
fn check_scale(all: &Classification, notes: &mut Vec<String>) -> Result<(), Error> {
    let d = all.feature_names.len();
    for (i, name) in all.feature_names.iter().enumerate() {
        let largest = all.features.iter().skip(i).step_by(d).fold(0.0f64, |m, v| m.max(v.abs()));
        let reaches = format!("column {} reaches {largest:.0e}", quoted(name));
        let remedy = "rescale it or leave `no-standardize` out";
        if largest > LARGEST {
            return Err(format!("{reaches}, for which every step is too large or too small; {remedy}").into());
        }
        if largest > LARGE {
            notes.push(format!("{reaches}, so steps will be very small; {remedy}"));
        }
    }
    Ok(())
}

/// Says how many rows of a file were left out.
pub fn note_dropped(notes: &mut Vec<String>, file: &Path, dropped: usize) {
    if dropped > 0 {
        notes.push(format!("{}: {dropped} rows with missing values were dropped", foreign_path(file)));
    }
}

/// Rows that were given in memory as a file of a run directory: every number comes back to the last bit.
pub fn placed(rows: &Classification, dir: &Path) -> Result<Placed, Error> {
    let header = rows.feature_names.iter().chain([&rows.target]).cloned().collect();
    let d = rows.feature_names.len();
    let row = |(features, label): (&[f64], &u8)| {
        let class = rows.classes[usize::from(*label)].clone();
        features.iter().map(|v| format!("{v:?}")).chain([class]).collect()
    };
    let lines: Vec<Vec<String>> =
        std::iter::once(header).chain(rows.features.chunks_exact(d).zip(&rows.labels).map(row)).collect();
    place(&lines, dir, Table::new())
}

/// A table in memory as a file of a run directory.
pub fn place(lines: &[Vec<String>], dir: &Path, mut options: Table) -> Result<Placed, Error> {
    let mut out = csv::Writer::from_writer(Vec::new());
    for line in lines {
        let _ = out.write_record(line); // writing to memory does not fail
    }
    let bytes = out.into_inner().unwrap_or_default();
    let path = std::path::absolute(dir.join(TABLE))
        .map_err(|e| format!("cannot use {}: {e}; check the path", foreign_path(dir)))?;
    let Some(name) = path.to_str() else {
        return Err(
            DataError::new(format!("the name of {} is not UTF-8; rename it", foreign_path(&path))).into()
        );
    };
    options.insert("data".into(), name.into());
    Ok(Placed { sha256: sha256(&bytes), files: vec![(TABLE, bytes)], options })
}
