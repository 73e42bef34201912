//! Columns of numbers or words: what every model of tables gets, from files and from memory alike.

use std::collections::{HashMap, HashSet};

use super::csv::{drop_option, quoted};
use super::numbers::{Cell, comma, is_grouped, point};
use super::{DataError, Table};

/// The code of a missing word.
pub(super) const MISSING: u32 = u32::MAX;
/// A column of more words than this must have some rows for each, or it is one of names, ids or dates.
const FEW_LEVELS: usize = 20;
const ROWS_OF_A_LEVEL: usize = 3;
/// No column has more: each is a feature.
const MOST_LEVELS: usize = 250;
/// Numbers among words are levels, as in 1, 2, 3+, where there are so few of both, and so many rows of each.
const MIXED_LEVELS: usize = 12;
const ROWS_OF_A_MIXED_LEVEL: usize = 2;
/// So many cells take longer to read than a thread to start.
const CELLS_OF_A_THREAD: usize = 50_000;
/// Names of columns that programs write to count rows.
const COUNTS: [&str; 7] = ["unnamed: 0", "x", "x1", "...1", "index", "id", "obs"];
/// Names of columns that programs write to name rows, be it by numbers.
const ROW_NAMES: [&str; 3] = ["rownames", "row.names", "row_names"];

/// Some columns of the same length.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The columns.
    pub columns: Vec<Column>,
    /// How many rows there are.
    pub rows: usize,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// A value for each row.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers; NaN where one is missing.
    Numbers(Vec<f64>),
    /// Words.
    Words(Words),
}

/// A word for each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    /// Which of the levels each is; one beyond all of them where it is missing.
    pub codes: Vec<u32>,
    /// The words, each once.
    pub levels: Vec<String>,
}

/// What a column is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whatever its cells are.
    Any,
    /// Numbers.
    Numbers,
    /// Words, even where these are numbers.
    Words,
}

/// What people can do with a column that cannot be used, besides mending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    /// It is one of several features.
    Drop,
    /// It is all that is asked for.
    Choose,
    /// A fitted model needs it.
    Nothing,
}

impl Values {
    /// Whether a row has no value.
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Values::Numbers(values) => values[row].is_nan(),
            Values::Words(words) => words.word(row).is_none(),
        }
    }
}

impl Words {
    /// The word of a row, unless it is missing.
    pub fn word(&self, row: usize) -> Option<&str> {
        self.levels.get(self.codes[row] as usize).map(String::as_str)
    }

    /// Which of the levels occur in some rows.
    pub(super) fn occurring(&self, rows: &[usize]) -> Vec<bool> {
        let mut there = vec![false; self.levels.len()];
        for row in rows {
            if let Some(there) = there.get_mut(self.codes[*row] as usize) {
                *there = true;
            }
        }
        there
    }

    /// The words of a column of cells.
    fn of(table: &Table, column: usize) -> Self {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut words = Words::default();
        for row in 0..table.rows() {
            let code = match table.cell(row, column) {
                None => MISSING,
                Some(word) => *known.entry(word).or_insert_with(|| {
                    words.levels.push(word.into());
                    words.levels.len() as u32 - 1
                }),
            };
            words.codes.push(code);
        }
        words
    }
}

impl Frame {
    /// The given columns of a table. All columns that cannot be used are named in one message.
    pub(super) fn of(
        table: &Table,
        columns: &[(usize, Kind)],
        instead: Instead,
        notes: &mut Vec<String>,
    ) -> Result<Frame, DataError> {
        let mut numbers = numeric(table, columns);
        let mut refused = Refused { table, instead, columns: Vec::new() };
        let mut commas = Vec::new();
        let mut out = Vec::with_capacity(columns.len());
        for (&(column, kind), found) in columns.iter().zip(&mut numbers) {
            let values = match std::mem::take(found) {
                _ if kind == Kind::Words => Values::Words(Words::of(table, column)),
                Found { values, odd: None } => Values::Numbers(values),
                Found { odd: Some(odd), .. } => {
                    let decimals = with_commas(table, column);
                    if is_grouped(table.raw(odd, column)) && grouped(table, column, decimals.is_some()) {
                        refused.grouped(odd, column, decimals.is_some());
                        continue;
                    } else if let Some(values) = decimals {
                        commas.push(column);
                        Values::Numbers(values)
                    } else if kind == Kind::Numbers {
                        refused.cell(odd, column);
                        continue;
                    } else {
                        let words = Words::of(table, column);
                        match refused.judge(&words, odd, column) {
                            true => Values::Words(words),
                            false => continue,
                        }
                    }
                }
            };
            out.push(Column { name: table.names()[column].clone(), values });
        }
        refused.into_result()?;
        if let Some(first) = commas.first() {
            let name = quoted(&table.names()[*first]);
            let more = commas.len() - 1;
            let also = if more > 0 { format!(" and {more} more") } else { String::new() };
            notes.push(format!("{}: decimal commas in column {name}{also}", table.name()));
        }
        Ok(Frame { columns: out, rows: table.rows() })
    }

    /// The rows in which no column misses a value, nor does the label; and how many values each column misses.
    pub(super) fn complete<'a>(&'a self, label: Option<&'a Column>) -> (Vec<usize>, Vec<(&'a str, usize)>) {
        let columns = || self.columns.iter().chain(label);
        let mut whole = vec![true; self.rows];
        let mut missing = Vec::new();
        for column in columns() {
            let mut count = 0;
            for (row, whole) in whole.iter_mut().enumerate() {
                if column.values.is_missing(row) {
                    *whole = false;
                    count += 1;
                }
            }
            if count > 0 {
                missing.push((column.name.as_str(), count));
            }
        }
        ((0..self.rows).filter(|row| whole[*row]).collect(), missing)
    }
}

/// What reading a column as numbers has come to.
#[derive(Default)]
struct Found {
    values: Vec<f64>,
    /// The first row whose cell is no finite number.
    odd: Option<usize>,
}

/// All columns as numbers; threads share the columns of a large table.
fn numeric(table: &Table, columns: &[(usize, Kind)]) -> Vec<Found> {
    let threads = match table.rows() * columns.len() < CELLS_OF_A_THREAD {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut shares = columns.chunks(columns.len().div_ceil(threads).max(1));
    let own = shares.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let others: Vec<_> = shares.map(|share| scope.spawn(move || numeric_share(table, share))).collect();
        let mut found = numeric_share(table, own);
        for other in others {
            found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        found
    })
}

/// Some columns as numbers, block of rows after block of rows, so that each block's text is looked at once.
fn numeric_share(table: &Table, columns: &[(usize, Kind)]) -> Vec<Found> {
    const BLOCK: usize = 512;
    let room = |kind| if kind == Kind::Words { 0 } else { table.rows() };
    let mut found: Vec<Found> = columns
        .iter()
        .map(|(_, kind)| Found { values: Vec::with_capacity(room(*kind)), odd: None })
        .collect();
    for start in (0..table.rows()).step_by(BLOCK) {
        for (&(column, kind), found) in columns.iter().zip(&mut found) {
            if found.odd.is_some() || kind == Kind::Words {
                continue;
            }
            for row in start..(start + BLOCK).min(table.rows()) {
                match point(table.raw(row, column)) {
                    Cell::Number(value) => found.values.push(value),
                    Cell::Missing => found.values.push(f64::NAN),
                    Cell::Infinite | Cell::Text => {
                        found.odd = Some(row);
                        found.values = Vec::new();
                        break;
                    }
                }
            }
        }
    }
    found
}

/// The column as numbers with decimal commas, if it is one.
fn with_commas(table: &Table, column: usize) -> Option<Vec<f64>> {
    let value = |row| match comma(table.raw(row, column)) {
        Cell::Number(value) => Some(value),
        Cell::Missing => Some(f64::NAN),
        Cell::Infinite | Cell::Text => None,
    };
    (0..table.rows()).map(value).collect()
}

/// Whether the commas of a column stand between thousands, or may do so: those that could be decimal commas are, where
/// other signs separate the columns.
fn grouped(table: &Table, column: usize, decimals: bool) -> bool {
    let number = |cell: &str| is_grouped(cell) || matches!(point(cell), Cell::Number(_) | Cell::Missing);
    (table.commas_separate() || !decimals) && (0..table.rows()).all(|row| number(table.raw(row, column)))
}

/// Columns that cannot be used.
struct Refused<'a> {
    table: &'a Table,
    instead: Instead,
    /// Which, and what is wrong with them.
    columns: Vec<(usize, Wrong)>,
}

enum Wrong {
    Cell(String),
    Column(String),
}

impl Refused<'_> {
    /// Refuses a column for a cell that is no finite number.
    fn cell(&mut self, row: usize, column: usize) {
        let problem = match point(self.table.raw(row, column)) {
            Cell::Infinite => "is not a finite number",
            _ => "is not a number",
        };
        self.columns.push((column, Wrong::Cell(format!("{} {problem}", self.table.place(row, column)))));
    }

    /// Refuses a column for its commas, which may be decimal ones or stand between thousands.
    fn grouped(&mut self, row: usize, column: usize, decimals: bool) {
        let what = match decimals {
            true => "which may be a decimal comma or stand between thousands: write a point or no comma",
            false => "between thousands: write no commas",
        };
        let place = self.table.place(row, column);
        self.columns.push((column, Wrong::Cell(format!("{place} has a comma {what}"))));
    }

    /// Whether a column of words can be used as categories; `odd` is the first row that holds no number.
    fn judge(&mut self, words: &Words, odd: usize, column: usize) -> bool {
        let rows = words.codes.iter().filter(|code| **code != MISSING).count();
        let levels = words.levels.len();
        let number = |word: &String| matches!(point(word), Cell::Number(_) | Cell::Infinite);
        let mixed = words.levels.iter().any(number);
        let infinite = words.levels.iter().any(|word| point(word) == Cell::Infinite);
        if infinite || (mixed && (levels > MIXED_LEVELS || levels * ROWS_OF_A_MIXED_LEVEL > rows)) {
            let bad = |row: &usize| matches!(point(self.table.raw(*row, column)), Cell::Infinite);
            self.cell((0..self.table.rows()).find(bad).unwrap_or(odd), column);
            return false;
        }
        if levels <= FEW_LEVELS || (levels <= MOST_LEVELS && levels * ROWS_OF_A_LEVEL <= rows) {
            return true;
        }
        let dates = words.levels.iter().filter(|word| is_date(word)).count();
        let like = if 2 * dates > levels { "dates" } else { "names or ids" };
        self.columns.push((
            column,
            Wrong::Column(format!(
                "column {} has {levels} different words in {rows} rows, as {like} do",
                quoted(&self.table.names()[column])
            )),
        ));
        false
    }

    /// One message for all of them.
    fn into_result(self) -> Result<(), DataError> {
        let Some((_, first)) = self.columns.first() else { return Ok(()) };
        let file = self.table.name();
        let names = || self.columns.iter().map(|(column, _)| self.table.names()[*column].as_str());
        let one = self.columns.len() == 1;
        let leave_out = match self.instead {
            Instead::Drop if one => format!("leave the column out with {}", drop_option(names())),
            Instead::Drop => format!("leave the columns out with {}", drop_option(names())),
            Instead::Choose => "choose another column with `target`".into(),
            Instead::Nothing => String::new(),
        };
        let infinite = self
            .columns
            .iter()
            .any(|(_, wrong)| matches!(wrong, Wrong::Cell(text) if text.ends_with("finite number")));
        let mend = match (one, infinite) {
            (true, true) => "correct it, or write ? if it is missing",
            (true, false) => "correct it",
            (false, _) => "correct them",
        };
        let remedy = match (leave_out.is_empty(), first) {
            (true, _) => mend.to_string(),
            (false, Wrong::Column(_)) if one => leave_out,
            (false, _) => format!("{mend}{} or {leave_out}", if infinite && one { "," } else { "" }),
        };
        let said = |wrong: &Wrong| match wrong {
            Wrong::Cell(text) | Wrong::Column(text) => text.clone(),
        };
        let all: Vec<String> = self.columns.iter().take(12).map(|(_, wrong)| said(wrong)).collect();
        let more = match self.columns.len() - all.len() {
            0 => String::new(),
            more => format!(", and {more} more columns are like these"),
        };
        let joint = match first {
            Wrong::Cell(_) => ", ",
            Wrong::Column(_) => ": ",
        };
        Err(DataError(format!("{file}{joint}{}{more}; {remedy}", all.join(", "))))
    }
}

/// Whether a word looks like a date: three numbers with -, / or . between them, and perhaps a time.
fn is_date(word: &str) -> bool {
    let day = word.split([' ', 'T']).next().unwrap_or(word);
    ['-', '/', '.'].iter().any(|mark| {
        let parts: Vec<&str> = day.split(*mark).collect();
        parts.len() == 3
            && parts.iter().all(|p| (1..=4).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Why a column explains nothing, if it only counts the rows or names each of them, as programs write it.
pub(super) fn index(table: &Table, column: usize) -> Option<String> {
    let name = &table.names()[column];
    if name.is_empty() {
        // Nobody can name it, and names of rows explain nothing.
        return Some("the first column has no name and was left out, as an index".into());
    }
    let left_out = |why| format!("column {} {why} the rows and was left out", quoted(name));
    let lower = name.to_lowercase();
    if ROW_NAMES.contains(&lower.as_str()) {
        let mut seen = HashSet::new();
        let each = (0..table.rows()).all(|row| seen.insert(table.raw(row, column)));
        return each.then(|| left_out("names"));
    }
    if !COUNTS.contains(&lower.as_str()) {
        return None;
    }
    let first = match table.cell(0, column) {
        Some("0") => 0,
        Some("1") => 1,
        _ => return None,
    };
    let mut number = String::new();
    let each = (0..table.rows()).all(|row| {
        use std::fmt::Write as _;
        number.clear();
        let _ = write!(number, "{}", row + first);
        table.raw(row, column) == number
    });
    each.then(|| left_out("counts"))
}

/// Whether the first line looks like one more row: in each column of words it is one of them, in each of numbers a number.
pub(super) fn header_is_a_row(table: &Table, frame: &Frame, label: &Column) -> bool {
    let is_one = |column: &Column| match &column.values {
        Values::Numbers(_) => matches!(point(&column.name), Cell::Number(_)),
        Values::Words(words) => words.levels.contains(&column.name),
    };
    table.rows() > 1 && frame.columns.iter().chain([label]).all(is_one)
}
