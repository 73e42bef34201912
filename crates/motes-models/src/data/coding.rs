//! How columns become features: numbers as they are, words by treatment coding, as the training rows have them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::DataError;
use super::csv::{columns_instead, list, quoted, shown};
use super::frame::{Column, Frame, Kind, Values, Words};
use super::reading::room_for;

/// The columns that features are made of, in their order; part of summary.json.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coding {
    /// One after the other.
    pub columns: Vec<Coded>,
}

/// How a column becomes features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coded {
    /// The column's name.
    pub name: String,
    /// The words of a category: the first is the reference, and each other one has a feature that is 1 for its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<String>>,
    /// Whether the column does not vary in the training rows, so that it has no features.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub constant: bool,
}

/// What is done with rows that hold a word that the coding does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are left out.
    LeaveOut,
    /// They count as rows of the reference level.
    Reference,
    /// The first of them is an error.
    Refuse,
}

/// Features made of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// Row after row.
    pub features: Vec<f64>,
    /// Which rows they are.
    pub rows: Vec<usize>,
    /// Words that the coding does not know, each with its column.
    pub unknown: Vec<(String, String)>,
}

/// A level that is to be the reference of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The column.
    pub column: String,
    /// The level.
    pub level: String,
}

impl Reference {
    /// Reads COL=LEVEL, where either may hold the sign, for one of these columns.
    pub fn parse(text: &str, columns: &[String]) -> Result<Reference, DataError> {
        let cuts = || text.match_indices('=').map(|(i, _)| (text[..i].trim(), text[i + 1..].trim()));
        if let Some((column, level)) = cuts().find(|(column, _)| columns.iter().any(|c| c == column)) {
            return Ok(Reference { column: column.into(), level: level.into() });
        }
        let Some((column, _)) = cuts().next() else {
            return Err(DataError(format!("`reference={}` names no level; write COLUMN=LEVEL", shown(text))));
        };
        Err(DataError(format!(
            "there is no column {} as `reference` asks for; {}",
            quoted(column),
            columns_instead(column, columns)
        )))
    }
}

impl Coding {
    /// The coding that the given rows of a frame call for. Columns that do not vary there are left out if asked for, with a note.
    pub fn learn(
        frame: &Frame,
        rows: &[usize],
        references: &[Reference],
        keep_constant: bool,
        notes: &mut Vec<String>,
    ) -> Result<Coding, DataError> {
        let mut coding = Coding::default();
        let mut constant = Vec::new();
        for column in &frame.columns {
            let reference = references.iter().find(|r| r.column == column.name).map(|r| r.level.as_str());
            let (levels, is_constant) = match &column.values {
                Values::Numbers(values) => (None, !keep_constant && is_constant(values, rows)),
                Values::Words(words) => {
                    let levels = levels(words, rows, &column.name, reference)?;
                    let is_constant = levels.len() < 2;
                    if !is_constant {
                        notes.push(category(&column.name, &levels));
                    }
                    (Some(levels), is_constant)
                }
            };
            if is_constant {
                constant.push(column.name.as_str());
            }
            coding.columns.push(Coded { name: column.name.clone(), levels, constant: is_constant });
        }
        match constant[..] {
            [] => {}
            [one] => notes.push(format!("column {} is constant and was left out", quoted(one))),
            _ => notes
                .push(format!("columns {} are constant and were left out", list(constant.iter().copied()))),
        }
        if coding.columns.iter().all(|column| column.constant) {
            return Err(DataError(
                "no column varies in the rows to train on, so there is nothing to learn from; add columns or rows".into(),
            ));
        }
        coding.check_names()?;
        Ok(coding)
    }

    fn check_names(&self) -> Result<(), DataError> {
        let mut seen = HashSet::new();
        match self.names().into_iter().find(|name| !seen.insert(name.clone())) {
            Some(twice) => Err(DataError(format!(
                "two features would be called {}; rename one of their columns",
                quoted(&twice)
            ))),
            None => Ok(()),
        }
    }

    /// All numbers, by their columns' names.
    pub fn of_numbers(names: &[String]) -> Coding {
        Coding {
            columns: names
                .iter()
                .map(|name| Coded { name: name.clone(), levels: None, constant: false })
                .collect(),
        }
    }

    /// The names of the features.
    pub fn names(&self) -> Vec<String> {
        let of = |column: &Coded| match &column.levels {
            _ if column.constant => Vec::new(),
            None => vec![column.name.clone()],
            Some(levels) => levels.iter().skip(1).map(|level| format!("{}={level}", column.name)).collect(),
        };
        self.columns.iter().flat_map(of).collect()
    }

    /// The columns that have features.
    fn varying(&self) -> impl Iterator<Item = &Coded> {
        self.columns.iter().filter(|column| !column.constant)
    }

    /// What each of the columns that have features has to be.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&str, Kind)> {
        let kind = |column: &Coded| if column.levels.is_some() { Kind::Words } else { Kind::Numbers };
        self.varying().map(move |column| (column.name.as_str(), kind(column)))
    }

    /// The features of the given rows, none of which misses a value; columns are found by their names.
    pub fn features(
        &self,
        frame: &Frame,
        rows: &[usize],
        unknown: Unknown,
        file: &str,
    ) -> Result<Features, DataError> {
        let d = self.names().len();
        room_for(
            8 * d as u128 * rows.len() as u128,
            file,
            &format!("{} rows of {d} features", rows.len()),
            "leave some columns out with `drop`",
        )?;
        let column = |name: &str| {
            frame.columns.iter().find(|column| column.name == name).ok_or_else(|| {
                DataError(format!(
                    "{file} has no column {} as the fitted model asks for; add it",
                    quoted(name)
                ))
            })
        };
        let parts = self
            .varying()
            .map(|coded| Part::new(coded, column(&coded.name)?, file))
            .collect::<Result<Vec<_>, DataError>>()?;
        let mut strange = Vec::new();
        for (part, coded) in parts.iter().zip(self.varying()) {
            let Part::Words { words, places, .. } = part else { continue };
            let there = words.occurring(rows);
            let unknown = (0..there.len()).filter(|level| there[*level] && places[*level].is_none());
            strange.extend(unknown.map(|level| (coded.name.clone(), words.levels[level].clone())));
        }
        if unknown == Unknown::Refuse && !strange.is_empty() {
            return Err(refuse_unknown(&strange, self, file));
        }
        let mut out = Features {
            features: Vec::with_capacity(d * rows.len()),
            rows: Vec::with_capacity(rows.len()),
            unknown: strange,
        };
        for &row in rows {
            let start = out.features.len();
            let known = parts.iter().all(|part| part.push(row, unknown, &mut out.features));
            match known {
                true => out.rows.push(row),
                false => out.features.truncate(start),
            }
        }
        Ok(out)
    }
}

fn refuse_unknown(strange: &[(String, String)], coding: &Coding, file: &str) -> DataError {
    let said: Vec<String> = strange
        .iter()
        .take(6)
        .map(|(column, word)| format!("{} in column {}", quoted(word), quoted(column)))
        .collect();
    let more = if strange.len() > 6 { format!(" and {} more", strange.len() - 6) } else { String::new() };
    let known = coding.columns.iter().find(|c| c.name == strange[0].0).and_then(|c| c.levels.as_ref());
    let known = known.map_or(String::new(), |levels| list(levels.iter().map(String::as_str)));
    DataError(format!(
        "{file} holds words that the training rows did not: {}{more}; column {} had {known}: correct them, or count them as the reference level with `unknown=reference`",
        said.join(", "),
        quoted(&strange[0].0),
    ))
}

/// A column of a frame beside its coding.
enum Part<'a> {
    Numbers(&'a [f64]),
    Words {
        words: &'a Words,
        /// Where each level of the frame stands in the coding.
        places: Vec<Option<usize>>,
        features: usize,
    },
}

impl<'a> Part<'a> {
    fn new(coded: &Coded, column: &'a Column, file: &str) -> Result<Self, DataError> {
        match (&column.values, &coded.levels) {
            (Values::Numbers(values), None) => Ok(Part::Numbers(values)),
            (Values::Words(words), Some(levels)) => {
                let place = |word: &String| levels.iter().position(|level| level == word);
                let places = words.levels.iter().map(place).collect();
                Ok(Part::Words { words, places, features: levels.len() - 1 })
            }
            (Values::Words(_), None) => Err(DataError(format!(
                "{file}: column {} holds words where the fitted model has numbers; correct it",
                quoted(&column.name)
            ))),
            (Values::Numbers(_), Some(_)) => Err(DataError(format!(
                "{file}: column {} holds numbers where the fitted model has words; give them as text",
                quoted(&column.name)
            ))),
        }
    }

    /// Adds a row's features, and says whether they are known.
    fn push(&self, row: usize, unknown: Unknown, out: &mut Vec<f64>) -> bool {
        match self {
            Part::Numbers(values) => out.push(values[row]),
            Part::Words { words, places, features } => {
                let place = places.get(words.codes[row] as usize).copied().flatten();
                if place.is_none() && unknown != Unknown::Reference {
                    return false;
                }
                let place = place.unwrap_or(0);
                out.extend((1..=*features).map(|level| if level == place { 1.0 } else { 0.0 }));
            }
        }
        true
    }
}

/// Whether the values of some rows are the same up to rounding.
fn is_constant(values: &[f64], rows: &[usize]) -> bool {
    let Some(first) = rows.first().map(|row| values[*row]) else { return true };
    let mut rows = rows.iter().map(|row| values[*row]);
    let largest = rows.clone().fold(0.0f64, |m, v| m.max(v.abs()));
    rows.all(|v| (v - first).abs() <= 8.0 * f64::EPSILON * largest)
}

/// The words that occur in some rows: sorted, as numbers if all are, with the reference in front.
fn levels(
    words: &Words,
    rows: &[usize],
    column: &str,
    reference: Option<&str>,
) -> Result<Vec<String>, DataError> {
    let occurring = words.levels.iter().zip(words.occurring(rows)).filter(|(_, there)| *there);
    let mut levels: Vec<String> = occurring.map(|(word, _)| word.clone()).collect();
    super::classification::sort_words(&mut levels);
    if let Some(reference) = reference {
        let Some(place) = levels.iter().position(|level| level == reference) else {
            return Err(DataError(format!(
                "column {} has no level {} in the rows to train on, as `reference` asks for; its levels are {}",
                quoted(column),
                quoted(reference),
                list(levels.iter().map(String::as_str))
            )));
        };
        let level = levels.remove(place);
        levels.insert(0, level);
    }
    Ok(levels)
}

/// What people are told of a category.
fn category(name: &str, levels: &[String]) -> String {
    let (name, reference) = (quoted(name), quoted(&levels[0]));
    match levels {
        [_, other] => format!("column {name} is a category: {} against {reference}", quoted(other)),
        _ => format!("column {name} is a category of {} levels, each against {reference}", levels.len()),
    }
}
