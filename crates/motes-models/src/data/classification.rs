//! Columns of a table as features, labels or observations.

use super::coding::{Coding, Features, Unknown};
use super::csv::{drop_option, list, quoted, rows_were};
use super::frame::{Column, Frame, Instead, Kind, Values, Words, header_is_a_row, index};
use super::{DataError, Table};

/// The most classes that a column may have: labels are bytes.
pub const MOST_CLASSES: usize = 256;
/// A column of more classes than this is probably one of numbers, unless each has some rows.
const FEW_CLASSES: usize = 20;
const ROWS_OF_A_CLASS: usize = 5;

/// Features and the class of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Classification {
    /// Row after row.
    pub features: Vec<f64>,
    /// A name per feature.
    pub feature_names: Vec<String>,
    /// 0 or 1 for each row.
    pub labels: Vec<u8>,
    /// The column of the labels.
    pub target: String,
    /// What labels 0 and 1 stand for.
    pub classes: Vec<String>,
    /// How often each row counts; `None` for once.
    pub weights: Option<Vec<f64>>,
    /// Rows left out because a value in use was missing.
    pub rows_dropped: usize,
}

impl Classification {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// The given rows, in the given order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let d = self.feature_names.len();
        Classification {
            features: rows.iter().flat_map(|&r| &self.features[r * d..(r + 1) * d]).copied().collect(),
            labels: rows.iter().map(|&r| self.labels[r]).collect(),
            feature_names: self.feature_names.clone(),
            target: self.target.clone(),
            classes: self.classes.clone(),
            weights: self.weights.as_ref().map(|all| rows.iter().map(|&r| all[r]).collect()),
            rows_dropped: self.rows_dropped,
        }
    }
}

/// Columns to learn from and the class of each row, before any coding.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledRows {
    /// The columns, with all rows of the file.
    pub frame: Frame,
    /// The rows in which nothing is missing.
    pub rows: Vec<usize>,
    /// A class for each of these.
    pub labels: Vec<u8>,
    /// The column of the labels.
    pub target: String,
    /// What the labels stand for.
    pub classes: Vec<String>,
    /// How often each of these rows counts, and the column that said so; `None` for once.
    pub weights: Option<(String, Vec<f64>)>,
    /// Where they come from, in messages.
    pub name: String,
    /// What people should know about them, in a line each.
    pub notes: Vec<String>,
}

impl LabelledRows {
    /// Columns that were given in memory, in which nothing is missing.
    pub fn of_frame(frame: Frame, labels: Vec<u8>, target: String, classes: Vec<String>) -> Self {
        let rows = (0..frame.rows).collect();
        let (name, notes, weights) = ("the data".into(), Vec::new(), None);
        LabelledRows { frame, rows, labels, target, classes, weights, name, notes }
    }

    /// The same rows, each of which counts so often.
    pub fn weighted(self, column: &str, weights: Vec<f64>) -> Result<Self, DataError> {
        let rows = self.rows.len();
        if weights.len() != rows {
            return Err(DataError(format!(
                "there are {} weights for {rows} rows; give one for each",
                weights.len()
            )));
        }
        if let Some(i) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
            return Err(DataError(format!(
                "row {} has the weight {} in {}; give numbers of 0 or more",
                self.rows[i] + 1,
                weights[i],
                quoted(column)
            )));
        }
        if weights.iter().all(|w| *w == 0.0) {
            return Err(DataError(format!("all weights in {} are 0; give some rows more", quoted(column))));
        }
        Ok(LabelledRows { weights: Some((column.into(), weights)), ..self })
    }

    /// Rows of numbers that were given in memory, row after row.
    pub fn of_numbers(all: &Classification) -> Self {
        let d = all.feature_names.len();
        let column = |(i, name): (usize, &String)| Column {
            name: name.clone(),
            values: Values::Numbers(all.features.iter().skip(i).step_by(d).copied().collect()),
        };
        let columns = all.feature_names.iter().enumerate().map(column).collect();
        let frame = Frame { columns, rows: all.rows() };
        LabelledRows::of_frame(frame, all.labels.clone(), all.target.clone(), all.classes.clone())
    }

    /// Rows left out because a value in use was missing.
    pub fn rows_dropped(&self) -> usize {
        self.frame.rows - self.rows.len()
    }

    /// The features and labels of some of the complete rows, counted among these, by a coding; and the words it did not know.
    pub fn coded(
        &self,
        coding: &Coding,
        chosen: &[usize],
        unknown: Unknown,
    ) -> Result<(Classification, Vec<(String, String)>), DataError> {
        let rows: Vec<usize> = chosen.iter().map(|i| self.rows[*i]).collect();
        let coded = coding.features(&self.frame, &rows, unknown, &self.name)?;
        // What was left out is left out in order.
        let mut kept = coded.rows.iter().peekable();
        let there = rows.iter().zip(chosen).filter(|(row, _)| kept.next_if_eq(row).is_some());
        let there: Vec<usize> = there.map(|(_, i)| *i).collect();
        let coded_rows = Classification {
            labels: there.iter().map(|i| self.labels[*i]).collect(),
            weights: self.weights.as_ref().map(|(_, all)| there.iter().map(|i| all[*i]).collect()),
            features: coded.features,
            feature_names: coding.names(),
            target: self.target.clone(),
            classes: self.classes.clone(),
            rows_dropped: self.rows_dropped(),
        };
        Ok((coded_rows, coded.unknown))
    }
}

/// Everything but the target and the dropped columns as features, the target (by default the last column) as labels.
///
/// There must be two classes; they are sorted, as numbers if both are, and the second is label 1.
pub fn classification(
    table: &Table,
    target: Option<&str>,
    drop: &[String],
) -> Result<Classification, DataError> {
    let all = labelled(table, target, drop, &[], 2)?;
    let rows: Vec<usize> = (0..all.rows.len()).collect();
    let coding = Coding::learn(&all.frame, &all.rows, &[], true, &mut Vec::new())?;
    Ok(all.coded(&coding, &rows, Unknown::Refuse)?.0)
}

/// Everything but the target and the dropped columns, and the target (by default the last column) as labels of two to
/// `most` classes. Columns in `categories` are categories even where they hold numbers.
pub fn labelled(
    table: &Table,
    target: Option<&str>,
    drop: &[String],
    categories: &[String],
    most: usize,
) -> Result<LabelledRows, DataError> {
    let target = match target {
        Some(name) => table.position(name, "`target`")?,
        None => table.names().len() - 1,
    };
    let dropped = drop.iter().map(|name| table.position(name, "`drop`")).collect::<Result<Vec<_>, _>>()?;
    let name = &table.names()[target];
    if dropped.contains(&target) {
        return Err(DataError(format!(
            "{} leaves out the target column; choose another target with `target` or keep it",
            drop_option([name.as_str()])
        )));
    }
    let mut notes = table.notes().to_vec();
    let (mut columns, mut indices) = (Vec::new(), Vec::new());
    for (c, name) in table.names().iter().enumerate() {
        if c == target || dropped.contains(&c) {
            continue;
        }
        if let Some(why) = index(table, c) {
            notes.push(format!("{}: {why}", table.name()));
            indices.push(name.as_str());
            continue;
        }
        columns.push((c, if categories.contains(name) { Kind::Words } else { Kind::Any }));
    }
    if columns.is_empty() {
        let numbers = match indices.as_slice() {
            [] => String::new(),
            _ => format!(" ({} only numbers or names the rows)", list(indices.iter().copied())),
        };
        return Err(DataError(format!(
            "{} has no feature columns besides the target {}{numbers}; add some or drop fewer",
            table.name(),
            quoted(name)
        )));
    }
    let frame = Frame::of(table, &columns, Instead::Drop, &mut notes)?;
    let label = labels_of(table, target)?;
    if header_is_a_row(table, &frame, &label) {
        return Err(DataError(format!(
            "{}, line 1: the first row looks like all others ({}); begin the file with a header line that names the columns",
            table.name(),
            list(table.names().iter().map(String::as_str))
        )));
    }
    let rows = complete(&frame, Some(&label), table.name(), Instead::Drop, &mut notes)?;
    let Values::Words(words) = &label.values else { return Err(no_labels()) };
    let classes = find_classes(table, target, words, &rows, most)?;
    let labels = labels(table, target, words, &classes, &rows)?;
    let (target, name) = (name.clone(), table.name().into());
    Ok(LabelledRows { frame, rows, labels, target, classes, weights: None, name, notes })
}

fn labels_of(table: &Table, target: usize) -> Result<Column, DataError> {
    let frame = Frame::of(table, &[(target, Kind::Words)], Instead::Choose, &mut Vec::new())?;
    frame.columns.into_iter().next().ok_or_else(no_labels)
}

fn no_labels() -> DataError {
    DataError("there are no labels; name their column with `target`".into())
}

/// The columns of a coding, the target and the classes as in training, from another table whose columns may stand in any
/// order.
pub fn labelled_like(
    table: &Table,
    coding: &Coding,
    target: &str,
    classes: &[String],
) -> Result<LabelledRows, DataError> {
    let position = table.position(target, "the fitted model")?;
    let mut notes = table.notes().to_vec();
    let frame = columns_of(table, coding, Instead::Drop, &mut notes)?;
    let label = labels_of(table, position)?;
    let rows = complete(&frame, Some(&label), table.name(), Instead::Drop, &mut notes)?;
    let Values::Words(words) = &label.values else { return Err(no_labels()) };
    let labels = labels(table, position, words, classes, &rows)?;
    let (target, classes) = (target.to_string(), classes.to_vec());
    Ok(LabelledRows { frame, rows, labels, target, classes, weights: None, name: table.name().into(), notes })
}

/// The numbers of a column in these rows, in which none may be missing.
pub(super) fn numbers_in(table: &Table, position: usize, rows: &[usize]) -> Result<Vec<f64>, DataError> {
    let frame = Frame::of(table, &[(position, Kind::Numbers)], Instead::Choose, &mut Vec::new())?;
    let Some(Values::Numbers(values)) = frame.columns.first().map(|column| &column.values) else {
        return Err(no_labels());
    };
    match rows.iter().find(|row| values[**row].is_nan()) {
        None => Ok(rows.iter().map(|row| values[*row]).collect()),
        Some(row) => Err(DataError(format!(
            "{}: row {} has no weight in column {}; give it one, or leave the row out",
            table.name(),
            row + 1,
            quoted(&table.names()[position])
        ))),
    }
}

/// The features of a table by a coding, for prediction; what people should know is added to the notes.
pub fn features(
    table: &Table,
    coding: &Coding,
    unknown: Unknown,
    notes: &mut Vec<String>,
) -> Result<Features, DataError> {
    notes.extend_from_slice(table.notes());
    let frame = columns_of(table, coding, Instead::Nothing, notes)?;
    let rows = complete(&frame, None, table.name(), Instead::Nothing, &mut Vec::new())?;
    coding.features(&frame, &rows, unknown, table.name())
}

/// One numeric column, by default the last, without the values that are missing; how many these are is noted.
pub fn column(table: &Table, target: Option<&str>, notes: &mut Vec<String>) -> Result<Vec<f64>, DataError> {
    let position = match target {
        Some(name) => table.position(name, "`target`")?,
        None => table.names().len() - 1,
    };
    notes.extend_from_slice(table.notes());
    let mut frame = Frame::of(table, &[(position, Kind::Numbers)], Instead::Choose, notes)?;
    let rows = complete(&frame, None, table.name(), Instead::Choose, notes)?;
    match frame.columns.pop().map(|column| column.values) {
        Some(Values::Numbers(values)) => Ok(rows.iter().map(|row| values[*row]).collect()),
        _ => Err(no_labels()),
    }
}

fn columns_of(
    table: &Table,
    coding: &Coding,
    instead: Instead,
    notes: &mut Vec<String>,
) -> Result<Frame, DataError> {
    let place = |(name, kind)| Ok((table.position(name, "the fitted model")?, kind));
    let columns = coding.kinds().map(place).collect::<Result<Vec<_>, DataError>>()?;
    Frame::of(table, &columns, instead, notes)
}

/// The rows in which nothing is missing; how many are left out is noted.
fn complete(
    frame: &Frame,
    label: Option<&Column>,
    file: &str,
    instead: Instead,
    notes: &mut Vec<String>,
) -> Result<Vec<usize>, DataError> {
    let (rows, missing) = frame.complete(label);
    if rows.is_empty() {
        // The first of those that miss most.
        let worst = missing.iter().rev().max_by_key(|(_, count)| *count).map_or("", |(name, _)| *name);
        let is_label = label.is_some_and(|label| label.name == worst);
        let or = match instead {
            _ if is_label || instead == Instead::Choose => " or choose another with `target`".into(),
            Instead::Drop => format!(" or leave the column out with {}", drop_option([worst])),
            _ => String::new(),
        };
        return Err(DataError(format!(
            "every row of {file} misses a value, most often in column {}; fill some in{or}",
            quoted(worst),
        )));
    }
    let dropped = frame.rows - rows.len();
    if dropped > 0 {
        let by_column: Vec<String> =
            missing.iter().take(6).map(|(name, count)| format!("{count} in {}", quoted(name))).collect();
        let more = if missing.len() > 6 { ", ..." } else { "" };
        let (row, was) = rows_were(dropped);
        notes.push(format!(
            "{file}: {dropped} {row} with missing values {was} dropped ({}{more})",
            by_column.join(", ")
        ));
    }
    Ok(rows)
}

/// The number that a class is written as, if it is one.
fn as_number(class: &str) -> Option<f64> {
    class.parse().ok()
}

/// Whether two spellings mean one class: 1 and 1.0 do.
fn same(a: &str, b: &str) -> bool {
    a == b || as_number(a).is_some_and(|a| as_number(b) == Some(a))
}

/// Sorts words, as numbers if all are.
pub(super) fn sort_words(words: &mut [String]) {
    if words.iter().all(|word| as_number(word).is_some()) {
        words.sort_by(|a, b| as_number(a).unwrap_or(0.0).total_cmp(&as_number(b).unwrap_or(0.0)));
    } else {
        words.sort();
    }
}

fn find_classes(
    table: &Table,
    target: usize,
    words: &Words,
    rows: &[usize],
    most: usize,
) -> Result<Vec<String>, DataError> {
    let mut seen = vec![false; words.levels.len()];
    let mut found: Vec<String> = Vec::new();
    for &row in rows {
        let code = words.codes[row] as usize;
        if std::mem::replace(&mut seen[code], true) {
            continue;
        }
        let class = &words.levels[code];
        if as_number(class).is_some_and(|v| !v.is_finite()) {
            return Err(table.bad_cell(
                row,
                target,
                "is not a class",
                "correct it, or write ? if it is missing",
            ));
        }
        if found.len() <= MOST_CLASSES && !found.iter().any(|other| same(other, class)) {
            found.push(class.clone());
        }
    }
    sort_words(&mut found);
    let sensible = found.len() <= FEW_CLASSES || found.len() * ROWS_OF_A_CLASS <= rows.len();
    if (2..=most).contains(&found.len()) && sensible {
        return Ok(found);
    }
    let (file, name) = (table.name(), quoted(&table.names()[target]));
    let wanted = match most {
        2 => "two classes".into(),
        _ if !sensible => format!("2 to {FEW_CLASSES} classes, or of {ROWS_OF_A_CLASS} rows for each class,"),
        _ => format!("2 to {most} classes"),
    };
    Err(DataError(match found.len() {
        1 => format!(
            "{file}, column {name}: the only class is {}; choose a column of {wanted} with `target` or add rows of another class",
            quoted(&found[0])
        ),
        n if most == 2 && sensible => format!(
            "{file}, column {name}: there are {n} classes ({}); use the model multinomial for more than two, or choose another column with `target`",
            list(found.iter().map(String::as_str))
        ),
        n => format!(
            "{file}, column {name}: there are {} classes ({}); choose a column of {wanted} with `target`, or keep fewer classes",
            if n > MOST_CLASSES { format!("more than {MOST_CLASSES}") } else { n.to_string() },
            list(found.iter().map(String::as_str))
        ),
    }))
}

fn labels(
    table: &Table,
    target: usize,
    words: &Words,
    classes: &[String],
    rows: &[usize],
) -> Result<Vec<u8>, DataError> {
    let of = |word: &String| classes.iter().position(|known| same(known, word)).map(|label| label as u8);
    let known: Vec<Option<u8>> = words.levels.iter().map(of).collect();
    let label = |&row: &usize| {
        known[words.codes[row] as usize].ok_or_else(|| {
            table.bad_cell(
                row,
                target,
                "is not a class of the training data",
                &format!("use one of {}", list(classes.iter().map(String::as_str))),
            )
        })
    };
    rows.iter().map(label).collect()
}
