//! Reports: one page that shows a run, or compares several, and needs nothing but a browser.

mod blob;
mod clouds;
mod compare;
pub(crate) mod page;
mod ratio;
mod read;
pub mod stats;
mod table;
mod thin;
pub(crate) mod words;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

pub use page::{STYLE, base64, escape};
pub use table::{likelihood_table, table};
pub use words::{quoted, shell};

use motes::files::{Durable, sweep, write_atomically};
use motes::sentence::{Face, foreign_path};

use crate::Error;
use read::Limits;

/// No report is larger.
const MAX_BYTES: usize = 1_000_000;

/// Writes the page of runs: to `output`, or to report.html in their directory, or here for several. Returns where.
pub fn write_page(dirs: &[PathBuf], output: Option<PathBuf>) -> Result<PathBuf, Error> {
    let output = match (output, dirs) {
        (Some(path), _) => path,
        (None, [dir]) => dir.join("report.html"),
        (None, _) => PathBuf::from("report.html"),
    };
    let page = match dirs {
        [dir] => match begun_replicates(dir)? {
            Some(replicates) => html(&replicates, &[], Some(dir), Face::Shell)?,
            None => html(dirs, &[], None, Face::Shell)?,
        },
        _ => html(dirs, &[], None, Face::Shell)?,
    };
    write(&output, &page)?;
    Ok(output)
}

/// The replicates in a directory that have begun, if it holds replicates: they are what there is to see of it.
fn begun_replicates(dir: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    // What is wrong with its config is said where it is read.
    let Some(mut places) = crate::replicates::places(dir).ok().flatten() else { return Ok(None) };
    places.retain(|place| place.join("config.toml").exists());
    match places.is_empty() {
        true => Err(format!("no replicate in {} has begun; `resume()` them first", foreign_path(dir)).into()),
        false => Ok(Some(places)),
    }
}

/// Writes the report of a run that has just ended, by a problem or without one, in the words of a face. The run is what counts: a
/// failure here is only a warning.
pub fn after_run(dir: &Path, problem: Option<&str>, face: Face) -> Option<String> {
    let page = html(&[dir.to_path_buf()], &[problem.map(String::from)], None, face);
    try_to_write(&dir.join("report.html"), page)
}

/// Writes the page that compares runs, each with the problem that ended it. Returns a warning if it could not.
pub fn after_comparison(dirs: &[PathBuf], problems: &[Option<String>], output: &Path) -> Option<String> {
    try_to_write(output, html(dirs, problems, None, Face::Shell))
}

/// Writes the page of the replicates of a directory into it. Returns a warning if it could not.
pub fn after_replicates(dir: &Path, replicates: &[PathBuf], face: Face) -> Option<String> {
    try_to_write(&dir.join("report.html"), html(replicates, &[], Some(dir), face))
}

fn try_to_write(output: &Path, page: Result<String, Error>) -> Option<String> {
    page.and_then(|html| write(output, &html)).err().map(not_written)
}

/// What is said of a report that a run could not leave.
pub fn not_written(problem: Error) -> String {
    format!("the report was not written: {problem}")
}

/// The page, cut back until it is small enough to be mailed and opened anywhere; of replicates with what they come to together, as
/// their own directory has it. What only Python can fit speaks as Python does, whoever asks.
fn html(
    dirs: &[PathBuf],
    problems: &[Option<String>],
    together: Option<&Path>,
    face: Face,
) -> Result<String, Error> {
    let several = dirs.len() > 1;
    let mut limits = Limits {
        components: if several { 12 } else { 50 },
        coordinates: 1000,
        stretches: (if several { 6000 } else { 5000 } / dirs.len()).max(40),
        per_trace: 400,
        name: 80,
    };
    loop {
        let mut runs: Vec<read::Run> =
            dirs.iter().map(|dir| read::run(dir, limits, !several)).collect::<Result<_, _>>()?;
        runs.iter_mut().zip(problems).for_each(|(run, problem)| run.problem = problem.clone());
        let pooled = together.filter(|dir| dir.join("summary.json").exists());
        let mut pooled = pooled.map(|dir| read::run(dir, limits, false)).transpose()?;
        runs.iter_mut().chain(&mut pooled).for_each(|run| run.read_by(face));
        let html = page::page(&runs, pooled.as_ref());
        if html.len() <= MAX_BYTES {
            return Ok(html);
        }
        if limits.coordinates < 4 {
            return Err(format!("a report of {} runs is too large; name fewer of them", dirs.len()).into());
        }
        limits.components = (limits.components / 2).max(1);
        limits.coordinates /= 2;
        limits.stretches /= 2;
        limits.name = (limits.name / 2).max(20);
    }
}

/// Replaces an earlier report, and nothing else.
pub fn write(path: &Path, html: &str) -> Result<(), Error> {
    let shown = foreign_path(path);
    if path.is_dir() {
        return Err(format!("{shown} is a directory; give a file name to `output`").into());
    }
    if path.exists() && !is_report(path) {
        return Err(format!(
            "{shown} is not a Motes report and is left as it is; choose another name with `output`"
        )
        .into());
    }
    // What a killed report has left, should this one be for the same place.
    sweep(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")));
    // Not durable: a report that a crash takes is made again in a moment.
    write_atomically(path, Durable::No, |out| out.write_all(html.as_bytes())).map_err(|e| match e {
        motes::Error::Io { source, .. } => {
            format!("cannot write {shown}: {source}; choose another place with `output`").into()
        }
        other => other.into(),
    })
}

fn is_report(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
    read.is_ok() && String::from_utf8_lossy(&start).contains(page::MARK)
}
