//! A table of text cells read from CSV, whose every error names the place and the remedy.

use std::collections::HashMap;
use std::fmt::Write;

use motes::did_you_mean;
use motes::printable::printable;
use motes::sentence::foreign;

use super::idx::GZIP;
use super::reading::room_for;
use super::{DataError, looks_like_idx};

/// The cells of a CSV file. Numbers are parsed where they are asked for, so that unused columns may hold anything.
#[derive(Clone, Debug)]
pub struct Table {
    name: String,
    names: Vec<String>,
    /// All cells, one after another, without the blanks around them.
    text: String,
    /// Where each cell ends in `text`, row after row.
    ends: Vec<usize>,
    /// The line on which each row begins.
    lines: Vec<u64>,
}

/// Reads a CSV file with a header line; `name` stands for the file in messages.
pub fn read_table(bytes: &[u8], name: &str) -> Result<Table, DataError> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(DataError(format!("{name} is UTF-16 text; save it as UTF-8")));
    }
    if bytes.starts_with(&GZIP) {
        return Err(DataError(format!("{name} is compressed; unpack it first, for example with gunzip")));
    }
    if looks_like_idx(bytes) {
        return Err(DataError(format!("{name} begins like an IDX file of images; give a CSV file")));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // What the table will hold at least: the text of the cells, and where each ends.
    let cells = bytes.iter().filter(|b| matches!(b, b',' | b'\n' | b'\r')).count() as u128;
    room_for(bytes.len() as u128 + 8 * cells, name, &format!("{cells} cells"), "give a smaller file")?;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut record = csv::ByteRecord::new();
    let mut table = Table {
        name: name.into(),
        names: Vec::new(),
        text: String::new(),
        ends: Vec::new(),
        lines: Vec::new(),
    };
    let mut lines = Lines { bytes, at: 0, line: 1 };
    loop {
        let more = reader.read_byte_record(&mut record).map_err(|e| {
            DataError(format!("{name} cannot be read as CSV: {}; check the file", foreign(e)))
        })?;
        if !more {
            break;
        }
        let line = lines.of_record(record.position().map_or(0, |p| p.byte()));
        if table.names.is_empty() {
            table.names = header(&record, name, line)?;
        } else {
            table.push(&record, line)?;
        }
    }
    if table.names.is_empty() {
        return Err(DataError(format!(
            "{name} is empty; give a CSV file with a header line and a row per sample"
        )));
    }
    if table.lines.is_empty() {
        return Err(DataError(format!("{name} has a header but no rows; add a row per sample")));
    }
    Ok(table)
}

/// Counts lines up to the beginning of a record: the reader's own count leaves out blank lines before it.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    fn of_record(&mut self, byte: u64) -> u64 {
        let from = usize::try_from(byte).unwrap_or(usize::MAX).min(self.bytes.len());
        let blank = self.bytes[from..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        let start = from + blank;
        let passed = &self.bytes[self.at.min(start)..start];
        // A lone carriage return ends a line too.
        let ends = (0..passed.len())
            .filter(|&i| passed[i] == b'\n' || (passed[i] == b'\r' && passed.get(i + 1) != Some(&b'\n')));
        self.line += ends.count() as u64;
        self.at = start;
        self.line
    }
}

fn header(record: &csv::ByteRecord, file: &str, line: u64) -> Result<Vec<String>, DataError> {
    let mut names: Vec<String> = Vec::with_capacity(record.len());
    let mut seen = HashMap::new();
    for (i, cell) in record.iter().enumerate() {
        let name = utf8(cell).map_err(|cell| {
            DataError(format!(
                "{file}, line {line}, column {}: the name '{cell}' is not UTF-8; save the file as UTF-8",
                i + 1
            ))
        })?;
        if let Some(first) = seen.insert(name.to_string(), i + 1) {
            return Err(DataError(format!(
                "{file}, line {line}: columns {first} and {} are both named {}; rename one of them",
                i + 1,
                quoted(name)
            )));
        }
        names.push(name.into());
    }
    if let [only] = &names[..]
        && let Some(separator) = [';', '\t', '|'].into_iter().find(|c| only.contains(*c))
    {
        return Err(DataError(format!(
            "{file}, line {line}: the columns seem to be separated by {separator:?}; separate them by commas"
        )));
    }
    if names.iter().all(|name| name.parse::<f64>().is_ok()) {
        return Err(DataError(format!(
            "{file}, line {line}: the first row is all numbers ({}); begin the file with a header line that names the columns",
            list(names.iter().map(String::as_str))
        )));
    }
    if let Some(i) = names.iter().position(String::is_empty) {
        return Err(DataError(format!(
            "{file}, line {line}, column {}: the column has no name; name every column in the header line (pandas: index=False)",
            i + 1
        )));
    }
    Ok(names)
}

impl Table {
    fn push(&mut self, record: &csv::ByteRecord, line: u64) -> Result<(), DataError> {
        if record.len() != self.names.len() {
            return Err(DataError(format!(
                "{}, line {line}: the row has {} values where the header names {} columns; check its commas and quotes",
                self.name,
                record.len(),
                self.names.len()
            )));
        }
        for (cell, name) in record.iter().zip(&self.names) {
            let cell = utf8(cell).map_err(|cell| {
                DataError(format!(
                    "{}, line {line}, column {}: '{cell}' is not UTF-8; save the file as UTF-8",
                    self.name,
                    quoted(name)
                ))
            })?;
            self.text.push_str(cell);
            self.ends.push(self.text.len());
        }
        self.lines.push(line);
        Ok(())
    }

    /// The file's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The column names of the header.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of rows below the header.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// The line of the file on which a row begins.
    pub fn line(&self, row: usize) -> u64 {
        self.lines[row]
    }

    /// The cell's text without surrounding blanks; `None` if missing: empty, `?` or `NA`.
    pub fn cell(&self, row: usize, column: usize) -> Option<&str> {
        let i = row * self.names.len() + column;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        let text = &self.text[start..self.ends[i]];
        (!matches!(text, "" | "?" | "NA")).then_some(text)
    }

    /// The cell as a finite number, or `None` if missing.
    pub(super) fn number(
        &self,
        row: usize,
        column: usize,
        instead: Instead,
    ) -> Result<Option<f64>, DataError> {
        let Some(text) = self.cell(row, column) else { return Ok(None) };
        let or =
            |join: &str| instead.of(&self.names[column]).map_or(String::new(), |way| format!("{join}{way}"));
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(value)),
            Ok(_) => Err(self.bad_cell(
                row,
                column,
                "is not a finite number",
                &format!("correct it, or write ? if it is missing{}", or(", or ")),
            )),
            Err(_) => {
                Err(self.bad_cell(row, column, "is not a number", &format!("correct it{}", or(" or "))))
            }
        }
    }

    /// The position of the column that an option names.
    pub fn position(&self, column: &str, option: &str) -> Result<usize, DataError> {
        self.names.iter().position(|name| name == column).ok_or_else(|| {
            let names = || self.names.iter().map(String::as_str);
            let remedy = match did_you_mean(column, names()) {
                Some(name) => format!("did you mean {}?", quoted(name)),
                None => format!("the columns are {}", list(names())),
            };
            DataError(format!(
                "{} has no column {} as {option} asks for; {remedy}",
                self.name,
                quoted(column)
            ))
        })
    }

    pub(super) fn bad_cell(&self, row: usize, column: usize, problem: &str, remedy: &str) -> DataError {
        DataError(format!(
            "{}, line {}, column {}: {} {problem}; {remedy}",
            self.name,
            self.lines[row],
            quoted(&self.names[column]),
            quoted(self.cell(row, column).unwrap_or_default()),
        ))
    }
}

/// What people can do with a column that cannot be used, besides mending it.
#[derive(Clone, Copy)]
pub(super) enum Instead {
    /// It is one of several features.
    Drop,
    /// It is all that is asked for.
    Choose,
    /// A fitted model needs it.
    Nothing,
}

impl Instead {
    pub fn of(self, column: &str) -> Option<String> {
        match self {
            Instead::Drop => Some(format!("leave the column out with {}", drop_option(column))),
            Instead::Choose => Some("choose another column with `target`".into()),
            Instead::Nothing => None,
        }
    }
}

/// The cell without surrounding blanks, or what can be shown of it.
fn utf8(cell: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(cell).map(str::trim).map_err(|_| shown(&String::from_utf8_lossy(cell)))
}

/// A value in quotes, short and on one line.
pub(super) fn quoted(value: &str) -> String {
    format!("'{}'", shown(value))
}

pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 40;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => foreign(format_args!("{}...", printable(&value[..end]))),
        None => foreign(printable(value)),
    }
}

/// The option that leaves a column out.
pub(super) fn drop_option(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    format!("`drop={}`", if plain { shown(name) } else { quoted(name) })
}

/// Some values in quotes, and how many more there are.
pub(super) fn list<'a>(values: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 12;
    let more = values.len().saturating_sub(MOST);
    let mut out = values.take(MOST).map(quoted).collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out
}
