//! A table of text cells read from CSV, whose every error names the place and the remedy.

use std::collections::HashMap;
use std::fmt::Write;

use motes::did_you_mean;
use motes::printable::printable;
use motes::sentence::foreign;

use super::reading::room_for;
use super::text::text;
use super::{DataError, numbers};

/// The cells of a CSV file. Numbers are parsed where they are asked for, so that unused columns may hold anything.
#[derive(Clone, Debug)]
pub struct Table {
    name: String,
    names: Vec<String>,
    /// All cells, one after another, without the blanks around them.
    text: String,
    /// Where each row begins in `text`.
    starts: Vec<usize>,
    /// Where each cell ends, counted from the beginning of its row.
    ends: Vec<u32>,
    /// The line on which each row begins.
    lines: Vec<u64>,
    /// Whether commas separate the columns.
    commas: bool,
    notes: Vec<String>,
}

/// Separators, likeliest first.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Reads a CSV file with a header line; `name` stands for the file in messages.
pub fn read_table(bytes: &[u8], name: &str) -> Result<Table, DataError> {
    let mut notes = Vec::new();
    let text = text(bytes, name, &mut notes)?;
    let bytes = text.as_bytes();
    let separator = separator(bytes);
    match separator {
        b',' => {}
        b'\t' => notes.push(format!("{name}: the columns are separated by tabs")),
        other => notes.push(format!("{name}: the columns are separated by '{}'", char::from(other))),
    }
    // What the table and the numbers in it will take at least.
    let cells = bytes.iter().filter(|b| **b == separator || **b == b'\n').count() as u128;
    room_for(bytes.len() as u128 + 20 * cells, name, &format!("{cells} cells"), "give a smaller file")?;
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_reader(bytes);
    let mut record = csv::StringRecord::new();
    let mut table = Table {
        name: name.into(),
        names: Vec::new(),
        text: String::with_capacity(bytes.len()),
        starts: Vec::new(),
        ends: Vec::with_capacity(cells as usize),
        lines: Vec::new(),
        commas: separator == b',',
        notes,
    };
    let mut lines = Lines::new(bytes);
    let mut header = None;
    loop {
        let more = reader.read_record(&mut record).map_err(|e| {
            DataError(format!("{name} cannot be read as CSV: {}; check the file", foreign(e)))
        })?;
        if !more {
            break;
        }
        let line = lines.of_record(record.position().map_or(0, |p| p.byte()));
        match header.take() {
            None if table.names.is_empty() => header = Some((names(&record, name, line)?, line)),
            None => table.push(&record, line)?,
            Some((mut names, at)) => {
                // R writes no name above the names of the rows.
                let ends_empty = record.iter().next_back().is_none_or(|cell| cell.trim().is_empty());
                if record.len() == names.len() + 1 && !ends_empty {
                    names.insert(0, String::new());
                }
                check_names(&names, name, at)?;
                table.names = names;
                table.push(&record, line)?;
            }
        }
    }
    if let Some((names, at)) = header {
        check_names(&names, name, at)?;
        return Err(DataError(format!("{name} has a header but no rows; add a row per sample")));
    }
    if table.names.is_empty() {
        return Err(DataError(format!(
            "{name} is empty; give a CSV file with a header line and a row per sample"
        )));
    }
    Ok(table)
}

/// The separator that cuts the header, and the row below it, into most pieces.
fn separator(bytes: &[u8]) -> u8 {
    let mut counts = [[0usize; SEPARATORS.len()]; 2];
    let (mut line, mut quoted, mut blank) = (0, false, true);
    for byte in bytes {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted => {
                line += usize::from(!blank);
                blank = true;
                continue;
            }
            byte if !quoted => {
                if let Some(i) = SEPARATORS.iter().position(|s| s == byte)
                    && let Some(counts) = counts.get_mut(line)
                {
                    counts[i] += 1;
                }
            }
            _ => {}
        }
        blank = false;
        if line > 1 {
            break;
        }
    }
    let [header, row] = counts;
    // Decimal commas stand in rows and hardly in names.
    let pieces = |i: usize| (header[i] > 0 && (line < 1 || row[i] > 0 || blank), header[i]);
    let best = (0..SEPARATORS.len()).rev().max_by_key(|i| pieces(*i)).unwrap_or(0);
    if header[best] == 0 { b',' } else { SEPARATORS[best] }
}

/// Counts lines up to the beginning of a record: the reader's own count leaves out blank lines before it.
struct Lines<'a> {
    bytes: &'a [u8],
    /// Whether a carriage return alone ends a line somewhere.
    lone: bool,
    at: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let lone = |i: usize| bytes[i] == b'\r' && bytes.get(i + 1) != Some(&b'\n');
        Lines { bytes, lone: bytes.contains(&b'\r') && (0..bytes.len()).any(lone), at: 0, line: 1 }
    }

    fn of_record(&mut self, byte: u64) -> u64 {
        let from = usize::try_from(byte).unwrap_or(usize::MAX).min(self.bytes.len());
        let blank = self.bytes[from..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        let start = from + blank;
        let passed = &self.bytes[self.at.min(start)..start];
        self.line += passed.iter().filter(|b| **b == b'\n').count() as u64;
        if self.lone {
            let alone = |i: &usize| passed[*i] == b'\r' && passed.get(i + 1) != Some(&b'\n');
            self.line += (0..passed.len()).filter(alone).count() as u64;
        }
        self.at = start;
        self.line
    }
}

fn names(record: &csv::StringRecord, file: &str, line: u64) -> Result<Vec<String>, DataError> {
    let names: Vec<String> = record.iter().map(|cell| cell.trim().to_string()).collect();
    if names.iter().all(|name| name.parse::<f64>().is_ok()) {
        return Err(DataError(format!(
            "{file}, line {line}: the first row is all numbers ({}); begin the file with a header line that names the columns",
            list(names.iter().map(String::as_str))
        )));
    }
    Ok(names)
}

fn check_names(names: &[String], file: &str, line: u64) -> Result<(), DataError> {
    let mut seen = HashMap::new();
    for (i, name) in names.iter().enumerate() {
        if let Some(first) = seen.insert(name, i + 1) {
            let twice = format!("columns {first} and {} are both named {}", i + 1, quoted(name));
            // Hardly anybody names a column by a number, and rows often have a value twice.
            let remedy = match names.iter().any(|name| name.parse::<f64>().is_ok()) {
                true => "begin the file with a header line that names the columns, or rename one of them",
                false => "rename one of them",
            };
            return Err(DataError(format!("{file}, line {line}: {twice}; {remedy}")));
        }
    }
    // The first one may be an index that somebody's program has written.
    match names.iter().skip(1).position(String::is_empty) {
        Some(i) => Err(DataError(format!(
            "{file}, line {line}, column {}: the column has no name; name every column in the header line",
            i + 2
        ))),
        None => Ok(()),
    }
}

impl Table {
    fn push(&mut self, record: &csv::StringRecord, line: u64) -> Result<(), DataError> {
        let (len, wanted) = (record.len(), self.names.len());
        if len != wanted {
            return Err(DataError(format!(
                "{}, line {line}: the row has {len} value{} where the header names {wanted} column{}; check its separators and quotes",
                self.name,
                if len == 1 { "" } else { "s" },
                if wanted == 1 { "" } else { "s" },
            )));
        }
        let start = self.text.len();
        self.starts.push(start);
        for cell in record {
            self.text.push_str(cell.trim());
            let end = u32::try_from(self.text.len() - start).map_err(|_| {
                DataError(format!("{}, line {line}: the row is too long; check its quotes", self.name))
            })?;
            self.ends.push(end);
        }
        self.lines.push(line);
        Ok(())
    }

    /// The file's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether commas separate the columns.
    pub(super) fn commas_separate(&self) -> bool {
        self.commas
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

    /// What people should know about the way the file was read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The cell's text without surrounding blanks; `None` if it is a word for a missing value.
    pub fn cell(&self, row: usize, column: usize) -> Option<&str> {
        Some(self.raw(row, column)).filter(|text| !numbers::is_missing(text))
    }

    /// The cell's text without surrounding blanks.
    pub(super) fn raw(&self, row: usize, column: usize) -> &str {
        let i = row * self.names.len() + column;
        let from = if column == 0 { 0 } else { self.ends[i - 1] };
        let start = self.starts[row];
        &self.text[start + from as usize..start + self.ends[i] as usize]
    }

    /// The position of the column that an option names.
    pub fn position(&self, column: &str, option: &str) -> Result<usize, DataError> {
        self.names.iter().position(|name| name == column).ok_or_else(|| {
            DataError(format!(
                "{} has no column {} as {option} asks for; {}",
                self.name,
                quoted(column),
                columns_instead(column, &self.names)
            ))
        })
    }

    /// Where a cell stands, and what it holds.
    pub(super) fn place(&self, row: usize, column: usize) -> String {
        format!(
            "line {}, column {}: {}",
            self.lines[row],
            quoted(&self.names[column]),
            quoted(self.raw(row, column))
        )
    }

    pub(super) fn bad_cell(&self, row: usize, column: usize, problem: &str, remedy: &str) -> DataError {
        DataError(format!("{}, {} {problem}; {remedy}", self.name, self.place(row, column)))
    }
}

/// What to say to somebody who has named a column that is not there.
pub(super) fn columns_instead(column: &str, names: &[String]) -> String {
    match did_you_mean(column, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean {}?", quoted(name)),
        None => format!("the columns are {}", list(names.iter().map(String::as_str))),
    }
}

/// How many rows, and what was done to them.
pub(super) fn rows_were(count: usize) -> (&'static str, &'static str) {
    if count == 1 { ("row", "was") } else { ("rows", "were") }
}

/// A value in quotes, short and on one line.
pub(crate) fn quoted(value: &str) -> String {
    format!("'{}'", shown(value))
}

pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 40;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => foreign(format_args!("{}...", printable(&value[..end]))),
        None => foreign(printable(value)),
    }
}

/// The option that leaves columns out.
pub(super) fn drop_option<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let plain = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    let word = |name: &'a str| if plain(name) { shown(name) } else { quoted(name) };
    format!("`drop={}`", names.into_iter().map(word).collect::<Vec<_>>().join(","))
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
