//! `motes predict`: class probabilities of new rows, with their posterior spread.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Write as _};

use motes::files::{Durable, write_atomically};
use motes::npz::read_npz;
use motes::{Ended, Pool};
use motes_models::data;
use motes_models::logistic::{self, Prediction};

use crate::args::PredictArgs;
use crate::models::{Remember, read};

/// Writes a row of probabilities for each row of the data.
pub fn predict(args: PredictArgs) -> Result<Ended, String> {
    let summary_path = args.dir.join("summary.json");
    let text = std::fs::read_to_string(&summary_path).map_err(|e| {
        format!("cannot read {}: {e}; give the directory of a finished run", summary_path.display())
    })?;
    let remember = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .and_then(|summary| serde_json::from_value::<Remember>(summary.get("data")?.clone()).ok())
        .ok_or(format!(
            "{} does not say how to prepare new rows; predict needs a finished run of the model logistic",
            summary_path.display()
        ))?;
    let clouds_path = args.dir.join("posterior.npz");
    let open = || File::open(&clouds_path).map(BufReader::new);
    let array = |name| {
        let file =
            open().map_err(|e| format!("cannot read {}: {e}; run the fit again", clouds_path.display()))?;
        read_npz(file, name).map_err(|e| format!("{} {e}; run the fit again", clouds_path.display()))
    };
    let mut clouds = array("clouds")?;
    if clouds.values.is_empty() {
        clouds = array("particles")?; // none were kept
    }
    let width = remember.features.len() + usize::from(remember.intercept);
    if clouds.shape.get(1) != Some(&width) || clouds.values.is_empty() {
        return Err(format!("{} does not belong to this run; run the fit again", clouds_path.display()));
    }

    let bytes = read(&args.data)?;
    let table = data::read_table(&bytes, &args.data.display().to_string()).map_err(|e| e.to_string())?;
    let mut rows = data::features(&table, &remember.features).map_err(|e| e.to_string())?;
    if rows.rows_dropped > 0 {
        eprintln!("{} rows with missing values get no prediction", rows.rows_dropped);
    }
    if let Some(moments) = &remember.moments {
        moments.apply(&mut rows.features);
    }
    let pool = Pool::new(None).map_err(|e| e.to_string())?;
    let predictions = pool.install(|| {
        logistic::predict(&clouds.values, &rows.features, remember.features.len(), remember.intercept)
    });
    let csv = csv(&remember, &rows.rows, &predictions);
    match &args.output {
        Some(path) if path.exists() => {
            return Err(format!(
                "{} is there already and is left as it is; choose another --output",
                path.display()
            ));
        }
        Some(path) => {
            write_atomically(path, Durable::No, |out| out.write_all(csv.as_bytes()))
                .map_err(|e| e.to_string())?;
            eprintln!("{} predictions in {}", predictions.len(), path.display());
        }
        None => {
            let written = std::io::stdout().write_all(csv.as_bytes());
            written.map_err(|e| format!("cannot print: {e}; give a file with --output"))?;
        }
    }
    Ok(Ended::Complete)
}

/// Row numbers count the rows of the data from 1, as people do; the header is not one.
fn csv(remember: &Remember, rows: &[usize], predictions: &[Prediction]) -> String {
    let mut out = String::from("row,class,probability,low,high\n");
    for (row, p) in rows.iter().zip(predictions) {
        let class = &remember.classes[usize::from(p.mean >= 0.5)];
        let class = if class.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", class.replace('"', "\"\""))
        } else {
            class.clone()
        };
        let _ = writeln!(out, "{},{class},{},{},{}", row + 1, p.mean, p.low, p.high);
    }
    out
}
