//! `motes report`: one page that shows a run, or compares several, and needs nothing but a browser.

mod blob;
mod clouds;
mod compare;
pub mod page;
pub mod read;
pub mod stats;
mod thin;
pub mod words;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use motes::files::{Durable, write_atomically};
use motes::{Ended, Error};

pub use page::{STYLE, escape};
pub use words::shell;

use crate::args::ReportArgs;
use read::Limits;

/// No report is larger.
const MAX_BYTES: usize = 1_000_000;

/// Writes the report that the command line asks for and says where it is.
pub fn report(args: ReportArgs) -> Result<Ended, String> {
    if let [dir] = args.dirs.as_slice()
        && crate::generator::is_config(&dir.join("config.toml"))
    {
        return crate::generator::report(dir, args.output);
    }
    if let Some(dir) = args.dirs.iter().find(|dir| crate::generator::is_config(&dir.join("config.toml"))) {
        return Err(format!(
            "{} is the run of a generator, which is not compared with others; give it alone",
            dir.display()
        ));
    }
    let output = match (&args.output, args.dirs.as_slice()) {
        (Some(path), _) => path.clone(),
        (None, [dir]) => dir.join("report.html"),
        (None, _) => PathBuf::from("report.html"),
    };
    let html = html(&args.dirs, &[])?;
    write(&output, &html)?;
    // That nobody reads it is no error.
    let _ = writeln!(std::io::stdout(), "{}", output.display());
    Ok(Ended::Complete)
}

/// Writes the report of a run that has just ended, by a problem or without one. The run is what counts: a failure here
/// is only a warning.
pub fn after_run(dir: &Path, problem: Option<&str>) {
    let dirs = [dir.to_path_buf()];
    warn_of(
        html(&dirs, &[problem.map(String::from)]).and_then(|html| write(&dir.join("report.html"), &html)),
    );
}

/// Writes the page that compares runs, each with the problem that ended it, and says whether it could.
pub fn after_comparison(dirs: &[PathBuf], problems: &[Option<String>], output: &Path) -> bool {
    warn_of(html(dirs, problems).and_then(|html| write(output, &html)))
}

fn warn_of(written: Result<(), String>) -> bool {
    if let Err(problem) = &written {
        say!("warning: the report was not written: {problem}");
    }
    written.is_ok()
}

/// What the table of a comparison needs of a run.
pub fn for_table(dir: &Path) -> Result<read::Run, String> {
    read::run(dir, Limits { components: 3, coordinates: 0, stretches: 40, per_trace: 40, name: 20 }, false)
}

/// The page, cut back until it is small enough to be mailed and opened anywhere.
fn html(dirs: &[PathBuf], problems: &[Option<String>]) -> Result<String, String> {
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
        let html = page::page(&runs);
        if html.len() <= MAX_BYTES {
            return Ok(html);
        }
        if limits.coordinates < 4 {
            return Err(format!("a report of {} runs is too large; name fewer of them", dirs.len()));
        }
        limits.components = (limits.components / 2).max(1);
        limits.coordinates /= 2;
        limits.stretches /= 2;
        limits.name = (limits.name / 2).max(20);
    }
}

/// Replaces an earlier report, and nothing else.
pub fn write(path: &Path, html: &str) -> Result<(), String> {
    let shown = path.display();
    if path.is_dir() {
        return Err(format!("{shown} is a directory; give a file name to --output"));
    }
    if path.exists() && !is_report(path) {
        return Err(format!(
            "{shown} is not a Motes report and is left as it is; choose another name with --output"
        ));
    }
    // Not durable: a report that a crash takes is made again in a moment.
    write_atomically(path, Durable::No, |out| out.write_all(html.as_bytes())).map_err(|e| match e {
        Error::Io { source, .. } => {
            format!("cannot write {shown}: {source}; choose another place with --output")
        }
        other => other.to_string(),
    })
}

fn is_report(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
    read.is_ok() && String::from_utf8_lossy(&start).contains(page::MARK)
}
