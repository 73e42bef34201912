//! The run directory: the only contract between computing and reading.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use trace::{TraceFile, make_directory};

use crate::algorithms::VARIATIONAL;
use crate::checkpoint::{self, Due, Generations, Header};
use crate::columns::{self, Cell};
use crate::files::{Durable, csv_field, write_atomically};
use crate::npz::NpzWriter;
use crate::settings::Settings;
use crate::summary::{Summary, kept_draws, posterior_moments, variational_draws};
use crate::{Error, Model, Real, State, StepInfo};

mod trace;

/// How often a checkpoint is due when no number of steps is given.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// How densely a run is recorded; results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Rows of the trace are this many steps apart.
    pub trace_every: u64,
    /// Steps between checkpoints; `None` for every ten seconds or so.
    pub checkpoint_every: Option<u64>,
}

/// A run directory open for writing.
pub struct RunDirectory {
    path: PathBuf,
    trace: TraceFile,
    recording: Recording,
    rows: TraceRows,
    generations: Generations,
    settings_digest: u32,
    /// Seconds spent before this process took over.
    seconds_before: f64,
    due: Due,
    line: Vec<u8>,
}

impl RunDirectory {
    /// Makes the directory, or takes an empty one, and writes the config first of all.
    pub fn create<F: Real>(
        path: &Path,
        config: &str,
        model: &dyn Model<F>,
        settings: &Settings,
        recording: Recording,
    ) -> Result<Self, Error> {
        let mut trace = TraceFile::claim(path)?;
        Self::write_config(path, config)?;
        trace.replace(trace_header(model, settings).as_bytes())?;
        Ok(Self::open(path, trace, 0.0, model, settings, recording))
    }

    /// Writes (or replaces) the config of a run.
    pub fn write_config(path: &Path, config: &str) -> Result<(), Error> {
        write_atomically(&path.join("config.toml"), Durable::Yes, |out| out.write_all(config.as_bytes()))
    }

    /// Opens the directory of an interrupted or finished run and brings `state` to its last good checkpoint.
    ///
    /// Without any checkpoint the state is left as it is, at step 0. Also returns warnings for the user.
    pub fn resume<F: Real>(
        path: &Path,
        model: &dyn Model<F>,
        settings: &Settings,
        recording: Recording,
        state: &mut State<F>,
    ) -> Result<(Self, Vec<String>), Error> {
        // Before anything is read or cut: another process may be at work.
        let mut trace = TraceFile::open(path)?;
        let (header, mut warnings) = Self::read(path, settings, recording, state)?;
        if header.is_none() {
            warnings.iter_mut().for_each(|warning| warning.push_str(": the run starts again"));
        }
        let (trace_bytes, seconds) = header.as_ref().map_or((0, 0.0), |h| (h.trace_bytes, h.seconds));
        if let Some(h) = header.filter(|h| h.instruction_set != crate::instruction_set()) {
            warnings.push(format!(
                "the checkpoint was written with other instructions ({}; here {}): results will agree up to rounding, not bit for bit",
                h.instruction_set,
                crate::instruction_set()
            ));
        }
        match state.k {
            0 => trace.replace(trace_header(model, settings).as_bytes())?,
            _ => trace.cut_back(trace_bytes)?,
        }
        Generations::new(checkpoint::directory(path)).forget_after(state.k)?;
        let directory = Self::open(path, trace, seconds, model, settings, recording);
        Ok((directory, warnings))
    }

    /// Brings `state` to the last good checkpoint of a run directory, and changes nothing there. Refuses one of other
    /// settings; returns the header, if there is a checkpoint, and what is wrong with newer ones.
    pub fn read<F: Real>(
        path: &Path,
        settings: &Settings,
        recording: Recording,
        state: &mut State<F>,
    ) -> Result<(Option<Header>, Vec<String>), Error> {
        let (header, mut warnings) = Generations::new(checkpoint::directory(path)).load(state)?;
        let Some(header) = header else { return Ok((None, warnings)) };
        if header.settings != settings_digest(settings, recording)
            || (state.auto.is_none() && state.k > settings.steps)
        {
            return Err(changed(path));
        }
        warnings.iter_mut().for_each(|warning| warning.push_str(": the older generation is used"));
        Ok((Some(header), warnings))
    }

    fn open<F: Real>(
        path: &Path,
        trace: TraceFile,
        seconds_before: f64,
        model: &dyn Model<F>,
        settings: &Settings,
        recording: Recording,
    ) -> Self {
        RunDirectory {
            path: path.to_path_buf(),
            trace,
            recording,
            rows: TraceRows::new(model, settings, recording),
            generations: Generations::new(checkpoint::directory(path)),
            settings_digest: settings_digest(settings, recording),
            seconds_before,
            due: Due::new(recording.checkpoint_every, CHECKPOINT_INTERVAL),
            line: Vec::new(),
        }
    }

    /// Takes on settings that were settled on the way, as by a run that lasts for a given time.
    pub fn adopt(&mut self, settings: &Settings) {
        self.settings_digest = settings_digest(settings, self.recording);
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Seconds spent in the loop by earlier processes.
    pub fn seconds_before(&self) -> f64 {
        self.seconds_before
    }

    /// Adds a row to the trace, if one is due.
    pub fn record<F: Real>(&mut self, info: &StepInfo<'_, F>) -> Result<(), Error> {
        self.line.clear();
        self.rows.append(info, &mut self.line);
        self.trace.append(&self.line)
    }

    /// Takes over a trace that was recorded by [`TraceRows`], in place of all rows so far.
    pub fn replace_trace(&mut self, text: &[u8]) -> Result<(), Error> {
        self.trace.replace(text)
    }

    /// Brings all rows of the trace to its file.
    pub fn sync_trace(&mut self) -> Result<(), Error> {
        self.trace.sync()
    }

    /// Whether a checkpoint should be written after step k.
    pub fn checkpoint_is_due(&mut self, k: u64) -> bool {
        self.due.after(k)
    }

    /// Writes a checkpoint: the trace up to here first, then the state.
    pub fn checkpoint<F: Real>(&mut self, state: &State<F>, spent: Duration) -> Result<(), Error> {
        let began = Instant::now();
        self.trace.sync()?;
        let seconds = self.seconds_before + spent.as_secs_f64();
        let header = Header::of(state, self.settings_digest, self.trace.bytes(), seconds);
        self.generations.write(state, &header).map_err(|e| self.misplaced(e))?;
        self.due.written(began.elapsed());
        Ok(())
    }

    /// Keeps the state at the end of theta's stage, for a run that is to go on from there with another tolerance.
    pub fn keep_theta<F: Real>(&mut self, state: &State<F>, spent: Duration) -> Result<(), Error> {
        self.trace.sync()?;
        let seconds = self.seconds_before + spent.as_secs_f64();
        let header = Header::of(state, self.settings_digest, self.trace.bytes(), seconds);
        let path = theta_file(&self.path);
        let dir = path.parent().unwrap_or(&self.path);
        std::fs::create_dir_all(dir).map_err(Error::write(dir))?;
        write_atomically(&path, Durable::Yes, |out| checkpoint::encode(state, &header, out))
            .map_err(|e| self.misplaced(e))
    }

    /// Opens the directory of a fit by auto and brings `state` to the end of theta's stage, from where it goes on with another
    /// tolerance; `None` if it never came so far.
    pub fn reopen<F: Real>(
        path: &Path,
        model: &dyn Model<F>,
        settings: &Settings,
        recording: Recording,
        state: &mut State<F>,
    ) -> Result<Option<Self>, Error> {
        let mut trace = TraceFile::open(path)?;
        let kept = theta_file(path);
        let file = match File::open(&kept) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::read(&kept)(e)),
        };
        let header =
            checkpoint::decode(BufReader::with_capacity(1 << 16, file), state).map_err(|problem| {
                Error::File { path: kept.clone(), problem: format!("{problem}; `fit-again()`") }
            })?;
        if header.settings != settings_digest(settings, recording) {
            return Err(changed(path));
        }
        if let Some(auto) = &mut state.auto {
            auto.reopen();
        }
        trace.cut_back(header.trace_bytes)?;
        Generations::new(checkpoint::directory(path)).forget_after(state.k)?;
        Ok(Some(Self::open(path, trace, header.seconds, model, settings, recording)))
    }

    /// Writes the final checkpoint, `posterior.npz` and, last, `summary.json`.
    pub fn finish<F: Real>(
        &mut self,
        model: &dyn Model<F>,
        settings: &Settings,
        state: &State<F>,
        spent: Duration,
        summary: &Summary,
    ) -> Result<(), Error> {
        self.checkpoint(state, spent)?;
        let trace = self.path.join("trace.csv");
        let traced = self.rows.theta;
        write_atomically(&self.path.join("posterior.npz"), Durable::No, |out| {
            let lines = || Ok(BufReader::new(File::open(&trace)?));
            write_posterior(out, lines, traced, model, settings, state)
        })
        .map_err(|e| self.misplaced(e))?;
        self.trace.is_in_place()?;
        summary.write(&self.path)
    }

    /// What is to be said of a file that could not be written: first of all that its place is another now.
    fn misplaced(&self, error: Error) -> Error {
        self.trace.is_in_place().err().unwrap_or(error)
    }
}

/// The rows of a trace as text, for a file or for memory.
pub struct TraceRows {
    /// Components of theta.
    theta: usize,
    /// Which of [`columns::all`] follow.
    columns: Vec<usize>,
    /// How many scalars the model has.
    scalars: usize,
    /// How many metrics the model has, where they are asked for.
    metrics: usize,
    every: u64,
}

impl TraceRows {
    /// For a run with these settings.
    pub fn new<F: Real>(model: &dyn Model<F>, settings: &Settings, recording: Recording) -> Self {
        let recorded = columns::all::<F>().into_iter().enumerate();
        TraceRows {
            theta: model.listed(),
            columns: recorded.filter(|(_, c)| (c.recorded)(settings)).map(|(i, _)| i).collect(),
            scalars: model.scalars().len(),
            metrics: traced_metrics(model, settings).len(),
            every: recording.trace_every,
        }
    }

    /// Appends the row of a step, if one is due.
    pub fn append<F: Real>(&self, info: &StepInfo<'_, F>, line: &mut Vec<u8>) {
        if !info.k.is_multiple_of(self.every) {
            return;
        }
        let mut numbers = zmij::Buffer::new();
        line.extend_from_slice(itoa::Buffer::new().format(info.k).as_bytes());
        let mut float = |line: &mut Vec<u8>, v: f64| {
            line.push(b',');
            line.extend_from_slice(numbers.format(v).as_bytes());
        };
        info.theta[..self.theta].iter().for_each(|t| float(line, *t));
        for i in &self.columns {
            match (columns::all::<F>()[*i].value)(info) {
                Cell::Number(value) => float(line, value),
                Cell::Count(value) => {
                    line.push(b',');
                    line.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                }
                Cell::Empty => line.push(b','),
            }
        }
        match info.scalars.len() == self.scalars {
            true => info.scalars.iter().for_each(|v| float(line, *v)),
            false => line.extend(std::iter::repeat_n(b',', self.scalars)),
        }
        match info.metrics {
            Some(measured) => measured.values.iter().for_each(|v| float(line, *v)),
            None => line.extend(std::iter::repeat_n(b',', self.metrics)),
        }
        line.push(b'\n');
    }
}

/// The names of the metrics that a trace records.
fn traced_metrics<F: Real>(model: &dyn Model<F>, settings: &Settings) -> Vec<String> {
    let predictive = model.predictive().filter(|_| settings.metrics_every > 0);
    predictive.map_or(Vec::new(), |p| p.names())
}

/// The first line of a trace.
pub fn trace_header<F: Real>(model: &dyn Model<F>, settings: &Settings) -> String {
    let mut names = vec!["k".to_string()];
    names.extend(model.theta_names().into_iter().take(model.listed()));
    let recorded = columns::all::<F>().into_iter().filter(|c| (c.recorded)(settings));
    names.extend(recorded.map(|c| c.name.to_string()));
    names.extend(model.scalars().iter().map(|scalar| scalar.name.to_string()));
    names.extend(traced_metrics(model, settings));
    let fields: Vec<String> = names.iter().map(|name| csv_field(name)).collect();
    fields.join(",") + "\n"
}

fn changed(run: &Path) -> Error {
    Error::File {
        path: run.join("config.toml"),
        problem: "was changed since the checkpoint was written; put it back, or `fit-again()`".into(),
    }
}

/// Where the end of theta's stage is kept.
fn theta_file(run: &Path) -> PathBuf {
    checkpoint::directory(run).join("theta-stage.bin")
}

/// The digest of all that the files depend on but how long the run is, which resuming may change.
fn settings_digest(settings: &Settings, recording: Recording) -> u32 {
    let length = Settings::default();
    let (tolerance, max_evaluations) = (length.tolerance, length.max_evaluations);
    let fixed =
        (Settings { steps: 0, tolerance, max_evaluations, ..settings.clone() }, recording.trace_every);
    checkpoint::digest(&serde_json::to_string(&fixed).expect("settings are plain data"))
}

/// The bytes of `posterior.npz` for a trace in memory.
pub fn posterior_npz<F: Real>(
    trace: &[u8],
    model: &dyn Model<F>,
    settings: &Settings,
    state: &State<F>,
) -> std::io::Result<Vec<u8>> {
    let mut out = std::io::Cursor::new(Vec::new());
    write_posterior(&mut out, || Ok(trace), model.listed(), model, settings, state)?;
    Ok(out.into_inner())
}

fn write_posterior<F: Real, R: BufRead>(
    out: &mut (impl Write + Seek),
    trace: impl Fn() -> std::io::Result<R>,
    traced: usize,
    model: &dyn Model<F>,
    settings: &Settings,
    state: &State<F>,
) -> std::io::Result<()> {
    let mut npz = NpzWriter::new(out);
    let (cloud, kept) = (&state.cloud, &state.kept);
    // The axis of the groups is left out where there is one group, and so is that of their coordinates where each has one.
    let axes: &[usize] = match (cloud.groups(), model.d_x()) {
        (1, d) => &[d],
        (groups, 1) => &[groups],
        (groups, d) => &[groups, d],
    };
    let rows_of = |n: usize| [&[n], axes].concat();
    npz.begin::<F>("particles", &rows_of(cloud.n()))?;
    in_pieces(cloud.by_particle(), |piece| npz.values(piece))?;
    if let Some((mean, var)) = posterior_moments(model, state) {
        npz.array("mean", axes, &mean)?;
        npz.array("var", axes, &var)?;
    }
    let mut steps: Vec<u64> =
        kept.sizes.iter().flat_map(|[k, n]| std::iter::repeat_n(*k, *n as usize)).collect();
    if !state.remembered(VARIATIONAL).is_empty() {
        let draws = kept_draws(state);
        npz.begin::<F>("clouds", &rows_of(draws))?;
        let mut written = Ok(());
        variational_draws(settings, state, draws, |x| {
            if written.is_ok() {
                written = npz.values(x);
            }
        });
        written?;
        steps = vec![state.k; draws];
    } else {
        npz.begin::<F>("clouds", &rows_of(kept.rows()))?;
        in_pieces(kept.by_particle(), |piece| npz.values(piece))?;
    }
    npz.integers("clouds_k", &steps)?;
    // The trace is read back row by row: it may be far larger than memory should hold.
    let rows = trace()?.lines().count().saturating_sub(1);
    npz.begin::<f64>("theta", &[rows, traced])?;
    let mut row = Vec::with_capacity(traced);
    for line in trace()?.lines().skip(1) {
        row.clear();
        row.extend(line?.split(',').skip(1).take(traced).map(|v| v.parse::<f64>().unwrap_or(f64::NAN)));
        row.resize(traced, f64::NAN);
        npz.values(&row)?;
    }
    npz.strings("x_names", &model.x_names())?;
    if cloud.groups() > 1 {
        npz.strings("group_names", &model.group_names())?;
    }
    npz.finish()
}

/// Hands values out some thousands at a time.
fn in_pieces<F: Real>(
    values: impl Iterator<Item = F>,
    mut take: impl FnMut(&[F]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut piece = Vec::with_capacity(1 << 14);
    for value in values {
        piece.push(value);
        if piece.len() == piece.capacity() {
            take(&piece)?;
            piece.clear();
        }
    }
    take(&piece)
}
