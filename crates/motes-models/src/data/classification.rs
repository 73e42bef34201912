//! Columns of a table as features, labels or observations.

use super::csv::{Instead, drop_option, list, quoted};
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
    /// Rows left out because a value in use was missing.
    pub rows_dropped: usize,
}

/// Features alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// Row after row.
    pub features: Vec<f64>,
    /// Which rows of the table they are, counted from 0: the others miss a value.
    pub rows: Vec<usize>,
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
            rows_dropped: self.rows_dropped,
        }
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
    with_classes(table, target, drop, 2)
}

/// As [`classification`], for models that take more than two classes.
pub fn multiclass(table: &Table, target: Option<&str>, drop: &[String]) -> Result<Classification, DataError> {
    with_classes(table, target, drop, MOST_CLASSES)
}

fn with_classes(
    table: &Table,
    target: Option<&str>,
    drop: &[String],
    most: usize,
) -> Result<Classification, DataError> {
    let target = match target {
        Some(name) => table.position(name, "`target`")?,
        None => table.names().len() - 1,
    };
    let dropped = drop.iter().map(|name| table.position(name, "`drop`")).collect::<Result<Vec<_>, _>>()?;
    let name = &table.names()[target];
    if dropped.contains(&target) {
        return Err(DataError(format!(
            "{} leaves out the target column; choose another target with `target` or keep it",
            drop_option(name)
        )));
    }
    let columns: Vec<usize> =
        (0..table.names().len()).filter(|c| *c != target && !dropped.contains(c)).collect();
    if columns.is_empty() {
        return Err(DataError(format!(
            "{} has no feature columns besides the target {}; add some or drop fewer",
            table.name(),
            quoted(name)
        )));
    }
    let Features { features, rows, rows_dropped } = complete(table, &columns, Some(target), Instead::Drop)?;
    let classes = find_classes(table, target, &rows, most)?;
    let labels = labels(table, target, &classes, &rows)?;
    let feature_names = columns.iter().map(|c| table.names()[*c].clone()).collect();
    Ok(Classification { features, feature_names, labels, target: name.clone(), classes, rows_dropped })
}

/// The same features, target and classes as in `training`, from another table whose columns may stand in any order.
pub fn classification_like(table: &Table, training: &Classification) -> Result<Classification, DataError> {
    let target = table.position(&training.target, "the fitted model")?;
    let columns = positions(table, &training.feature_names)?;
    let Features { features, rows, rows_dropped } = complete(table, &columns, Some(target), Instead::Drop)?;
    let labels = labels(table, target, &training.classes, &rows)?;
    let Classification { feature_names, target, classes, .. } = training.clone();
    Ok(Classification { features, feature_names, labels, target, classes, rows_dropped })
}

/// The named columns as features, for prediction.
pub fn features(table: &Table, names: &[String]) -> Result<Features, DataError> {
    complete(table, &positions(table, names)?, None, Instead::Nothing)
}

/// One numeric column, by default the last, and how many of its values were missing.
pub fn column(table: &Table, target: Option<&str>) -> Result<(Vec<f64>, usize), DataError> {
    let position = match target {
        Some(name) => table.position(name, "`target`")?,
        None => table.names().len() - 1,
    };
    let only = complete(table, &[position], None, Instead::Choose)?;
    Ok((only.features, only.rows_dropped))
}

fn positions(table: &Table, names: &[String]) -> Result<Vec<usize>, DataError> {
    names.iter().map(|name| table.position(name, "the fitted model")).collect()
}

/// The rows in which none of the columns, nor the label, is missing.
fn complete(
    table: &Table,
    columns: &[usize],
    label: Option<usize>,
    instead: Instead,
) -> Result<Features, DataError> {
    let mut features = Vec::with_capacity(table.rows() * columns.len());
    let mut rows = Vec::with_capacity(table.rows());
    let mut missing = vec![0; table.names().len()];
    for row in 0..table.rows() {
        let start = features.len();
        let mut whole = true;
        for &c in columns {
            match table.number(row, c, instead)? {
                Some(value) => features.push(value),
                None => {
                    missing[c] += 1;
                    whole = false;
                }
            }
        }
        if let Some(c) = label
            && table.cell(row, c).is_none()
        {
            missing[c] += 1;
            whole = false;
        }
        if whole {
            rows.push(row);
        } else {
            features.truncate(start);
        }
    }
    if rows.is_empty() {
        let worst = (0..missing.len()).rev().max_by_key(|c| missing[*c]).unwrap_or(0);
        let name = &table.names()[worst];
        let instead = if Some(worst) == label || columns.len() == 1 {
            Some("choose another with `target`".to_string())
        } else {
            instead.of(name)
        };
        let or = instead.map_or(String::new(), |way| format!(" or {way}"));
        return Err(DataError(format!(
            "every row of {} misses a value, most often in column {}; fill some in{or}",
            table.name(),
            quoted(name),
        )));
    }
    Ok(Features { features, rows_dropped: table.rows() - rows.len(), rows })
}

/// The number that a class is written as, if it is one.
fn as_number(class: &str) -> Option<f64> {
    class.parse().ok()
}

/// Whether two spellings mean one class: 1 and 1.0 do.
fn same(a: &str, b: &str) -> bool {
    a == b || as_number(a).is_some_and(|a| as_number(b) == Some(a))
}

fn find_classes(table: &Table, target: usize, rows: &[usize], most: usize) -> Result<Vec<String>, DataError> {
    let mut found: Vec<&str> = Vec::new();
    for &row in rows {
        let class = table.cell(row, target).unwrap_or_default();
        if as_number(class).is_some_and(|v| !v.is_finite()) {
            return Err(table.bad_cell(
                row,
                target,
                "is not a class",
                "correct it, or write ? if it is missing",
            ));
        }
        if found.len() <= MOST_CLASSES && !found.iter().any(|other| same(other, class)) {
            found.push(class);
        }
    }
    if found.iter().all(|class| as_number(class).is_some()) {
        found.sort_by(|a, b| as_number(a).unwrap_or(0.0).total_cmp(&as_number(b).unwrap_or(0.0)));
    } else {
        found.sort();
    }
    let sensible = found.len() <= FEW_CLASSES || found.len() * ROWS_OF_A_CLASS <= rows.len();
    if (2..=most).contains(&found.len()) && sensible {
        return Ok(found.into_iter().map(String::from).collect());
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
            quoted(found[0])
        ),
        n => format!(
            "{file}, column {name}: there are {} classes ({}); choose a column of {wanted} with `target` or keep the rows of {wanted} only",
            if n > MOST_CLASSES { format!("more than {MOST_CLASSES}") } else { n.to_string() },
            list(found.into_iter())
        ),
    }))
}

fn labels(table: &Table, target: usize, classes: &[String], rows: &[usize]) -> Result<Vec<u8>, DataError> {
    let label = |&row: &usize| {
        let class = table.cell(row, target).unwrap_or_default();
        match classes.iter().position(|known| same(known, class)) {
            Some(label) => Ok(label as u8),
            None => Err(table.bad_cell(
                row,
                target,
                "is not a class of the training data",
                &format!("use one of {}", list(classes.iter().map(String::as_str))),
            )),
        }
    };
    rows.iter().map(label).collect()
}
