//! Carrying a run out, in memory or in a directory, as `motes fit` and `motes resume` do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use motes::files::{Durable, write_atomically};
use motes::record::{RunDirectory, TraceRows, trace_header};
use motes::{Ended, Error, Flow, Model, Settings, State, Summary};
use motes_app::config::Config;

use crate::callables::PyReal;
use crate::problem::{Kind, TABLE};
use crate::watch::Watch;

/// Where a run begins.
pub enum Start<F> {
    Scratch { out: Option<PathBuf> },
    Memory { state: Box<State<F>>, trace: Vec<u8>, seconds: f64 },
    Directory(PathBuf),
}

/// What a run has come to.
pub struct Executed<F> {
    pub state: State<F>,
    pub trace: Vec<u8>,
    pub summary: Summary,
    pub seconds: f64,
    pub ended: Ended,
    pub notes: Vec<String>,
}

/// Runs, and writes what is to be written.
pub fn execute<F: PyReal>(
    kind: &Kind,
    config: &mut Config,
    settings: &Settings,
    model: &dyn Model<F>,
    start: Start<F>,
    watch: &mut Watch<'_>,
    report: bool,
) -> Result<Executed<F>, Error> {
    let recording = config.recording();
    let rows = TraceRows::new(model, settings, recording);
    let mut notes = Vec::new();
    let signals = watch.signals;
    let begin = || motes::start_unless(model, settings, || signals.flow() == Flow::Stop);
    let (state, mut directory, before) = match start {
        Start::Scratch { out: None } => {
            watch.trace = Some((rows, trace_header(model, settings).into_bytes()));
            (begin()?, None, 0.0)
        }
        Start::Scratch { out: Some(out) } => {
            let table = kind.table_for(&out, config).map_err(Error::Settings)?;
            let text = config.to_toml().map_err(Error::Settings)?;
            let directory = RunDirectory::create(&out, &text, model, settings, recording)?;
            write_table(&out, table)?;
            (begin()?, Some(directory), 0.0)
        }
        Start::Memory { state, trace, seconds } => {
            watch.trace = Some((rows, trace));
            let state = if state.k == 0 { begin()? } else { Some(*state) };
            (state, None, seconds)
        }
        Start::Directory(dir) => {
            let mut state = State::initial(model, settings);
            let (directory, warnings) = RunDirectory::resume(&dir, model, settings, recording, &mut state)?;
            notes = warnings;
            RunDirectory::write_config(&dir, &config.to_toml().map_err(Error::Settings)?)?;
            let state = if state.k == 0 { begin()? } else { Some(state) };
            let before = directory.seconds_before();
            (state, Some(directory), before)
        }
    };
    let (state, ended, spent) = match state {
        Some(mut state) => {
            let (ended, spent) = motes::run(model, settings, &mut state, directory.as_mut(), &mut [watch])?;
            (state, ended, spent)
        }
        // Stopped in the warm start, which begins again when the run is resumed from step 0.
        None => (State::initial(model, settings), Ended::Early, Duration::ZERO),
    };
    let seconds = before + spent.as_secs_f64();
    let summary = summary_of(kind, config, settings, model, &state, seconds);
    let judged = state.k > 0 && settings.averages_clouds() && model.gives().log_density;
    if judged && summary.diagnostics.shadow_acceptance.is_none() {
        notes.push(
            "log_density is NaN at the end, so nothing is known of the step size; see motes.check_model"
                .into(),
        );
    }
    let trace = match &mut directory {
        None => watch.trace.take().map_or(Vec::new(), |(_, text)| text),
        Some(directory) => {
            if ended == Ended::Complete {
                directory.finish(model, settings, &state, spent, &summary)?;
                if report {
                    notes.extend(motes_app::report::after_run(directory.path(), None));
                }
            }
            read_file(&directory.path().join("trace.csv"))?
        }
    };
    Ok(Executed { state, trace, summary, seconds, ended, notes })
}

pub fn summary_of<F: PyReal>(
    kind: &Kind,
    config: &Config,
    settings: &Settings,
    model: &dyn Model<F>,
    state: &State<F>,
    seconds: f64,
) -> Summary {
    let choices = serde_json::to_value(config).expect("a config is plain data");
    let mut summary = Summary::of(model, settings, choices, state, seconds);
    summary.data = kind.remember().map(|r| serde_json::to_value(r).expect("plain data"));
    summary
}

pub fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(Error::io("read", path))
}

pub fn write_table(dir: &Path, table: Option<Vec<u8>>) -> Result<(), Error> {
    use std::io::Write;
    match table {
        Some(bytes) => write_atomically(&dir.join(TABLE), Durable::Yes, |out| out.write_all(&bytes)),
        None => Ok(()),
    }
}
