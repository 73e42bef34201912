//! `motes predict`.

use std::io::Write as _;

use motes::Ended;
use motes::files::{Durable, write_atomically};
use motes::sentence::foreign_path;

use motes_models::data::Unknown;

use crate::args::{PredictArgs, UnknownWords};

/// Writes a row of probabilities for each row of the data.
pub fn predict(args: PredictArgs) -> Result<Ended, String> {
    let unknown = match args.unknown {
        Some(UnknownWords::Reference) => Unknown::Reference,
        None => Unknown::Refuse,
    };
    if let Some(path) = args.output.as_ref().filter(|path| path.exists()) {
        return Err(format!(
            "{} already exists and is left as it is; choose another --output",
            foreign_path(path)
        ));
    }
    let predictions = motes_app::predict::predict(&args.dir, &args.data, unknown)?;
    predictions.notes.iter().for_each(|note| say!("{note}"));
    match &args.output {
        Some(path) => {
            write_atomically(path, Durable::No, |out| out.write_all(predictions.csv.as_bytes()))
                .map_err(|e| e.to_string())?;
            say!("{} predictions in {}", predictions.rows, foreign_path(path));
        }
        None => {
            let written = crate::print(&predictions.csv);
            written.map_err(|e| format!("cannot print: {e}; give a file with --output"))?;
        }
    }
    Ok(Ended::Complete)
}
