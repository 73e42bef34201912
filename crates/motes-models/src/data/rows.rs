//! What models of rows with labels share: their options, and the way from files or arrays to rows to train and test on.

use std::path::{Path, PathBuf};

use super::csv::{quoted, rows_were, shown};
use super::remember::Remember;
use super::{
    Classification, Coding, Column, DataError, LabelledRows, Moments, Reference, Split, Unknown, Values,
    classification::numbers_in, is_pipe, labelled, labelled_like, read_table, sha256, train_test_split,
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
            /// Columns to leave out [default: none; id of the built-in data]
            drop: Vec<String> => "COL,...";
            /// Levels that the others of a category are compared with; a column of numbers becomes a category [default: the
            /// first of each]
            reference: Vec<String> => "COL=LEVEL,...";
            /// A CSV file to test on, standardised with the training moments
            test: PathBuf => "FILE";
            /// The fraction of rows to test on; 0 trains on everything [default: 0.2]
            test_fraction: f64 => "F";
            /// The seed of that split, equal to scikit-learn's [default: 0]
            split_seed: u32 => "S";
            /// Do not standardise the features
            no_standardize: bool => "BOOL";
        }
    }
}

/// Which options give way to which.
pub const GIVES_WAY: &[(&[&str], &[&str])] =
    &[(&["test"], &["test-fraction", "split-seed"]), (&["test-fraction", "split-seed"], &["test"])];

/// The files of rows that were given in memory or came through a pipe.
pub const TABLE: &str = "data.csv";
const TEST_TABLE: &str = "test.csv";

/// Rows, split and on a common scale.
pub struct Prepared {
    /// The rows to train on.
    pub train: Classification,
    /// The rows to test on.
    pub test: Classification,
    /// How columns become features.
    pub coding: Coding,
    /// The scale that was applied.
    pub moments: Option<Moments>,
    /// The digest of the files they came from.
    pub sha256: String,
    /// The options with every default written out.
    pub options: RowOptions,
    /// What came through pipes: the option, the file that it is kept in, and its bytes.
    pub kept: Kept,
}

/// Data that came through pipes: the option that names them, the file that they are kept in, and their bytes.
pub type Kept = Vec<(&'static str, &'static str, Vec<u8>)>;

/// Rows as they were read or given.
pub struct Source {
    /// They themselves.
    pub all: LabelledRows,
    /// The digest of the file they came from.
    pub sha256: String,
    /// What came through a pipe.
    pub kept: Kept,
    /// Whether levels and moments are those of all rows, as the authors of the paper have them.
    pub whole: bool,
}

impl Source {
    /// Reads labelled rows of two to `most` classes from a table of a file's bytes; a column may say how often they count.
    pub fn of_table(
        path: &Path,
        bytes: Vec<u8>,
        options: &RowOptions,
        weights: Option<&str>,
        most: usize,
    ) -> Result<Self, Error> {
        let (all, sha256) = read_labelled(&bytes, &foreign_path(path), options, weights, most)?;
        let kept = if is_pipe(path) { vec![("data", TABLE, bytes)] } else { Vec::new() };
        Ok(Source { all, sha256, kept, whole: false })
    }

    /// The rows of embedded data.
    pub fn embedded(bytes: &[u8], name: &str, options: &RowOptions) -> Result<Self, Error> {
        let (all, sha256) = read_labelled(bytes, name, options, None, 2)?;
        Ok(Source { all, sha256, kept: Vec::new(), whole: true })
    }

    /// Rows that were given in memory.
    pub fn given(all: LabelledRows) -> Self {
        Source { all, sha256: String::new(), kept: Vec::new(), whole: false }
    }
}

/// Labelled rows of a file, and its digest, which takes as long as reading it.
fn read_labelled(
    bytes: &[u8],
    name: &str,
    options: &RowOptions,
    weights: Option<&str>,
    most: usize,
) -> Result<(LabelledRows, String), Error> {
    std::thread::scope(|scope| {
        let digest = scope.spawn(|| sha256(bytes));
        let table = read_table(bytes, name)?;
        let references = references(options, table.names())?;
        let categories: Vec<String> = references.into_iter().map(|r| r.column).collect();
        let mut drop = options.drop.clone().unwrap_or_default();
        let position = weights.map(|column| table.position(column, "`weights`")).transpose()?;
        let target = options.target.as_ref().or(table.names().last());
        if let Some(column) = weights.filter(|column| target.is_some_and(|target| target == column)) {
            return Err(DataError::new(format!(
                "`weights` names {}, which is the target; choose another column for one of them",
                quoted(column)
            ))
            .into());
        }
        drop.extend(weights.map(String::from));
        let mut all = labelled(&table, options.target.as_deref(), &drop, &categories, most)?;
        if let Some((column, position)) = weights.zip(position) {
            let counts = numbers_in(&table, position, &all.rows);
            let counts = counts.map_err(|e| DataError(e.0.replace("`target`", "`weights`")))?;
            all = all.weighted(column, counts)?;
        }
        Ok((all, digest.join().unwrap_or_default()))
    })
}

/// The levels that are to be references.
fn references(options: &RowOptions, columns: &[String]) -> Result<Vec<Reference>, DataError> {
    let given = options.reference.as_deref().unwrap_or_default();
    given.iter().map(|text| Reference::parse(text, columns)).collect()
}

/// Splits rows and brings them to one scale, as the options say.
pub fn prepare(source: Source, options: RowOptions, notes: &mut Vec<String>) -> Result<Prepared, Error> {
    let Source { all, sha256: mut digest, mut kept, whole } = source;
    let standardize = !options.no_standardize.unwrap_or(false);
    let mut options = RowOptions {
        target: Some(all.target.clone()),
        drop: Some(options.drop.unwrap_or_default()),
        no_standardize: Some(!standardize),
        ..options
    };
    notes.extend_from_slice(&all.notes);
    let columns: Vec<String> = all.frame.columns.iter().map(|column| column.name.clone()).collect();
    let references = references(&options, &columns)?;
    let rows = all.rows.len();
    let everything = || (0..rows).collect::<Vec<_>>();
    let split = match options.test {
        Some(_) => {
            if options.test_fraction.is_some_and(|f| f != 0.0) || options.split_seed.is_some() {
                return Err("`test` names a test set, so there is nothing to split; leave `test-fraction` and `split-seed` out".into());
            }
            Split { train: everything(), test: Vec::new() }
        }
        None => {
            let fraction = *options.test_fraction.insert(options.test_fraction.unwrap_or(0.2));
            let seed = *options.split_seed.insert(options.split_seed.unwrap_or(0));
            train_test_split(rows, fraction, seed)?
        }
    };
    let basis = if whole { everything() } else { split.train.clone() };
    let basis_rows: Vec<usize> = basis.iter().map(|i| all.rows[*i]).collect();
    let coding = Coding::learn(&all.frame, &basis_rows, &references, !standardize, notes)?;
    let (mut train, _) = all.coded(&coding, &basis, Unknown::Refuse)?;
    note_classes(&train, notes)?;
    let moments = || Moments::weighted(&train.features, &train.feature_names, train.weights.as_deref());
    let moments = standardize.then(moments).transpose()?;
    if whole {
        (train, _) = all.coded(&coding, &split.train, Unknown::Refuse)?;
    }
    let mut test = match &options.test {
        Some(path) => {
            let bytes = read(path)?;
            let table = read_table(&bytes, &foreign_path(path))?;
            let test = labelled_like(&table, &coding, &train.target, &train.classes)?;
            notes.extend_from_slice(&test.notes);
            digest = sha256(format!("{digest}{}", sha256(&bytes)).as_bytes());
            if is_pipe(path) {
                kept.push(("test", TEST_TABLE, bytes));
            }
            let rows: Vec<usize> = (0..test.rows.len()).collect();
            let coded = test.coded(&coding, &rows, Unknown::LeaveOut)?;
            note_unknown(rows.len() - coded.0.rows(), &coded.1, notes);
            coded.0
        }
        None => {
            let coded = all.coded(&coding, &split.test, Unknown::LeaveOut)?;
            note_unknown(split.test.len() - coded.0.rows(), &coded.1, notes);
            coded.0
        }
    };
    match &moments {
        Some(moments) => {
            moments.apply(&mut train.features);
            moments.apply(&mut test.features);
        }
        None => check_scale(&train, notes)?,
    }
    Ok(Prepared { train, test, coding, moments, sha256: digest, options, kept })
}

/// Says which label stands for which class.
fn note_classes(rows: &Classification, notes: &mut Vec<String>) -> Result<(), Error> {
    let labelled: Vec<String> = rows
        .classes
        .iter()
        .enumerate()
        .map(|(label, class)| format!("{} is {label}", quoted(class)))
        .collect();
    let (last, first) = labelled.split_last().ok_or("there are no classes; give more data")?;
    let joined = if first.len() == 1 { format!("{} and {last}", first[0]) } else { labelled.join(", ") };
    notes.push(format!("{}: {joined}", shown(&rows.target)));
    Ok(())
}

/// Says how many test rows were left out for words that no training row holds.
fn note_unknown(rows: usize, unknown: &[(String, String)], notes: &mut Vec<String>) {
    if let [(column, word), more @ ..] = unknown {
        let also = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let (row, was) = rows_were(rows);
        notes.push(format!(
            "{rows} test {row} {was} left out for words that no training row holds: {} in column {}{also}",
            quoted(word),
            quoted(column)
        ));
    }
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

/// Rows that were given in memory as a file of a run directory: every number comes back to the last bit.
fn placed(rows: &LabelledRows, dir: &Path) -> Result<Placed, Error> {
    let columns = &rows.frame.columns;
    let weights = rows.weights.as_ref();
    let names = columns.iter().map(|column| &column.name).chain(weights.map(|(name, _)| name));
    let header = names.chain([&rows.target]).cloned().collect();
    let cell = |column: &Column, row: usize| match &column.values {
        Values::Numbers(values) => format!("{:?}", values[row]),
        Values::Words(words) => words.word(row).unwrap_or_default().to_string(),
    };
    let line = |(i, (row, label)): (usize, (&usize, &u8))| {
        let class = rows.classes[usize::from(*label)].clone();
        let weight = weights.map(|(_, weights)| format!("{:?}", weights[i]));
        columns.iter().map(|column| cell(column, *row)).chain(weight).chain([class]).collect()
    };
    let lines = rows.rows.iter().zip(&rows.labels).enumerate().map(line);
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(lines).collect();
    let options = weights.map(|(name, _)| ("weights".to_string(), name.as_str().into()));
    place(&lines, dir, options.into_iter().collect())
}

/// A table in memory as a file of a run directory.
pub fn place(lines: &[Vec<String>], dir: &Path, mut options: Table) -> Result<Placed, Error> {
    let mut out = csv::Writer::from_writer(Vec::new());
    for line in lines {
        let _ = out.write_record(line); // writing to memory does not fail
    }
    let bytes = out.into_inner().unwrap_or_default();
    options.insert("data".into(), named(dir, TABLE)?);
    Ok(Placed { sha256: sha256(&bytes), files: vec![(TABLE, bytes)], options })
}

/// Where the rows of a model came from, and what is to be known of them.
pub struct Origin {
    /// What people should know about them, in a line each.
    pub notes: Vec<String>,
    /// What predictions need later.
    pub remember: Remember,
    /// The digest of the file they came from.
    pub sha256: String,
    /// What came through pipes.
    pub kept: Kept,
    /// They themselves, if they were given in memory.
    pub given: Option<LabelledRows>,
}

impl Origin {
    /// The digest of rows that were read: others have none before they are placed.
    pub fn sha256(&self) -> Option<&str> {
        self.given.is_none().then_some(&*self.sha256)
    }

    /// The files of a run directory that stand for rows in memory or from a pipe.
    pub fn place(&self, dir: &Path) -> Result<Option<Placed>, Error> {
        match &self.given {
            Some(rows) => placed(rows, dir).map(Some),
            None => place_kept(&self.kept, &self.sha256, dir),
        }
    }
}

/// What came through pipes as files of a run directory, if anything did.
pub fn place_kept(kept: &Kept, sha256: &str, dir: &Path) -> Result<Option<Placed>, Error> {
    if kept.is_empty() {
        return Ok(None);
    }
    let mut options = Table::new();
    for (option, file, _) in kept {
        options.insert((*option).into(), named(dir, file)?);
    }
    let files = kept.iter().map(|(_, file, bytes)| (*file, bytes.clone())).collect();
    Ok(Some(Placed { files, options, sha256: sha256.into() }))
}

/// The absolute name of a file of a run directory.
fn named(dir: &Path, file: &str) -> Result<serde_json::Value, Error> {
    let path = std::path::absolute(dir.join(file))
        .map_err(|e| format!("cannot use {}: {e}; check the path", foreign_path(dir)))?;
    match path.to_str() {
        Some(name) => Ok(name.into()),
        None => {
            Err(DataError::new(format!("the name of {} is not UTF-8; rename it", foreign_path(&path))).into())
        }
    }
}
