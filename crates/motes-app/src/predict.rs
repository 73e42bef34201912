//! Predictions: class probabilities of new rows, with their posterior spread.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use motes::files::csv_field;
use motes::npz::read_npz;
use motes::printable::Number;
use motes::sentence::{foreign, foreign_path};
use motes::tested::likeliest;
use motes::{Pool, Summary};
use motes_models::data::{self, Unknown};
use motes_models::registry::{self, Predicted, Predictor};
use serde_json::Value;

use crate::numbers::thousands;
use crate::{Error, replicates};

/// Predictions for the rows of a file.
pub struct Predictions {
    /// A row of probabilities for each, with a header.
    pub csv: String,
    /// How many there are.
    pub rows: usize,
    /// What people should know about the file.
    pub notes: Vec<String>,
}

/// How new rows are predicted by a model, from what is remembered of its data, if they are; what cannot be true is
/// refused in a clause.
pub fn predictor(model: &str, data: Option<&Value>) -> Result<Option<Box<dyn Predictor>>, String> {
    match (registry::find(model), data) {
        (Some(entry), Some(data)) => entry.predictor(data),
        _ => Ok(None),
    }
}

/// How new rows are predicted by a finished run, if they are.
fn predictor_of(summary: &Summary) -> Result<Option<Box<dyn Predictor>>, String> {
    let Some(predictor) = predictor(&summary.model, summary.data.as_ref())? else { return Ok(None) };
    if predictor.width() != summary.d_x {
        let (width, d_x) = (predictor.width(), summary.d_x);
        return Err(format!("data describes particles of {width} coordinates and d_x is {d_x}"));
    }
    let listed = summary.posterior.as_ref().map(|p| &p.names);
    if listed.is_some() && predictor.coordinates().is_some_and(|names| Some(&names) != listed) {
        return Err("data.features and posterior.names disagree".into());
    }
    Ok(Some(predictor))
}

/// Predicts each row of a file with a finished run; `unknown` says what becomes of words that it does not know.
pub fn predict(dir: &Path, file: &Path, unknown: Unknown) -> Result<Predictions, Error> {
    let summary_path = dir.join("summary.json");
    let unprepared = || {
        format!(
            "{} does not say how to prepare new rows; predict needs a finished run of a model that predicts, such as logistic or bnn",
            foreign_path(&summary_path)
        )
    };
    let summary = Summary::read(dir)?.ok_or_else(|| {
        format!("{} is not there; give the directory of a finished run", foreign_path(&summary_path))
    })?;
    let predictor = predictor_of(&summary).map_err(|what| {
        let path = foreign_path(&summary_path);
        format!("{path} cannot be understood ({what}); `resume()` the run, which writes it again")
    })?;
    let predictor = predictor.ok_or_else(unprepared)?;
    let predictor = &*predictor;
    let with = summary.predict_with.ok_or_else(unprepared)?;
    // Those of replicates that agree predict together.
    let places: Vec<PathBuf> = match &summary.replicates {
        Some(replicates) => {
            let pooled = replicates.runs.iter().zip(1..).filter(|(run, _)| run.pooled);
            pooled.map(|(_, number)| replicates::place(dir, number)).collect()
        }
        None => vec![dir.to_path_buf()],
    };
    let mut clouds = Vec::new();
    for place in &places {
        clouds.extend(clouds_of(place, with.array(), predictor.width())?);
    }
    let mut notes = Vec::new();
    let (mut features, rows) = new_rows(file, predictor, unknown, &mut notes)?;
    predictor.scale(&mut features);
    let level = summary.level;
    let csv = Pool::new(None)?.install(|| csv(predictor, &clouds, &features, &rows, level))?;
    notes.push(format!(
        "low and high are the {} % interval of the probability of the row's class, over {} draws of the posterior",
        Number(100.0 * level),
        thousands(&(clouds.len() / predictor.width()).to_string())
    ));
    Ok(Predictions { csv, rows: rows.len(), notes })
}

/// The particles of a run that predict, of so many coordinates each.
fn clouds_of(dir: &Path, name: &str, width: usize) -> Result<Vec<f64>, Error> {
    let path = dir.join("posterior.npz");
    let shown = foreign_path(&path);
    let file = File::open(&path).map_err(|e| format!("cannot read {shown}: {e}; run the fit again"))?;
    let clouds =
        read_npz(BufReader::new(file), name).map_err(|e| format!("{shown} {e}; run the fit again"))?;
    match clouds.shape[..] {
        [_, columns] if columns == width && !clouds.values.is_empty() => Ok(clouds.values),
        _ => Err(format!("{shown} does not belong to this run; run the fit again").into()),
    }
}

/// Refuses rows that give no probabilities.
fn refuse_overflow(rows: &[usize], is_finite: impl Fn(usize) -> bool) -> Result<(), Error> {
    match (0..rows.len()).find(|i| !is_finite(*i)) {
        Some(i) => Err(format!(
            "row {} has features that are too large to predict from; correct them or leave the row out",
            rows[i] + 1
        )
        .into()),
        None => Ok(()),
    }
}

/// The features of new rows, and which rows of the file they are, counted from 0.
fn new_rows(
    path: &Path,
    predictor: &dyn Predictor,
    unknown: Unknown,
    notes: &mut Vec<String>,
) -> Result<(Vec<f64>, Vec<usize>), Error> {
    let (bytes, name) = (registry::read(path)?, foreign_path(path));
    if predictor.columns().columns.is_empty() {
        let images = data::read_images(&bytes, &name)?;
        if images.height * images.width != predictor.inputs() {
            return Err(format!(
                "{name} has images of {} x {} pixels and the network takes {} inputs; give images of the same size",
                images.height, images.width, predictor.inputs()
            )
            .into());
        }
        return Ok((images.pixels.iter().map(|p| f64::from(*p)).collect(), (0..images.count).collect()));
    }
    let table = data::read_table(&bytes, &name)?;
    let rows = data::features(&table, predictor.columns(), unknown, notes)?;
    match table.rows() - rows.rows.len() {
        0 => {}
        1 => notes.push("1 row with missing values gets no prediction".into()),
        n => notes.push(format!("{n} rows with missing values get no prediction")),
    }
    if let [(column, word), ..] = &rows.unknown[..] {
        notes.push(format!(
            "words that occur in no training row count as the reference level, such as '{}' in column '{}'",
            foreign(word),
            foreign(column)
        ));
    }
    Ok((rows.features, rows.rows))
}

/// A line for each row. Row numbers count the rows of the data from 1, as people do; the header is not one.
fn csv(
    predictor: &dyn Predictor,
    clouds: &[f64],
    features: &[f64],
    rows: &[usize],
    level: f64,
) -> Result<String, Error> {
    let classes = predictor.classes();
    let Predicted { probabilities, intervals } = predictor.predict(clouds, features, level)?;
    let of_row = |i: usize| &probabilities[i * classes.len()..][..classes.len()];
    refuse_overflow(rows, |i| of_row(i).iter().all(|p| p.is_finite()))?;
    let mut out = String::from("row,class");
    for class in classes {
        let _ = write!(out, ",{}", csv_field(&format!("p({class})")));
    }
    out.push_str(",low,high\n");
    for (i, (row, [low, high])) in rows.iter().zip(intervals).enumerate() {
        let _ = write!(out, "{},{}", row + 1, csv_field(&classes[likeliest(of_row(i))]));
        for p in of_row(i) {
            let _ = write!(out, ",{}", Number(*p));
        }
        let _ = writeln!(out, ",{},{}", Number(low), Number(high));
    }
    Ok(out)
}
