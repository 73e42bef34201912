//! The driver of every run: a new one or one that goes on, in a directory or in memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use motes::auto::{self, Assessment};
use motes::checkpoint;
use motes::files::{Durable, write_atomically};
use motes::printable::Number;
use motes::ranks::{Ranks, agree, any};
use motes::record::{RunDirectory, TraceRows, trace_header};
use motes::sentence::{Face, foreign_path};
use motes::settings::InitTheta;
use motes::summary::{Assessed, Metrics};
use motes::tested::Tested;
use motes::{
    Cloud, Diagnostics, Ended, Flow, Model, Observer, Real, Settings, State, StepInfo, Summary, Team,
};
use motes_models::registry::{Epochs, Fitted, Problem};
use serde_json::Value;

use crate::coefficients::{self, coefficients};
use crate::job::{Budget, Job, Length, next_default};
use crate::{Error, report};

/// Where a run begins, and where it is kept.
pub enum Start<F> {
    /// At step 0 in a new or empty directory.
    New(PathBuf),
    /// At step 0 in the next free directory of runs/.
    Next,
    /// At step 0, in memory.
    Memory,
    /// Where the last checkpoint of a run directory is.
    Directory(PathBuf),
    /// Where theta's stage of a fit by auto ended, in its directory: it goes on from there with another tolerance.
    Theta(PathBuf),
    /// In memory, where another run has ended.
    Saved {
        /// Its state.
        state: Box<State<F>>,
        /// The text of its trace.
        trace: Vec<u8>,
        /// The seconds that it took.
        seconds: f64,
    },
}

/// Who watches a run.
pub trait Watch<F: Real>: Observer<F> {
    /// Whether the run is to stop; asked where there are no steps to observe yet.
    fn stopped(&self) -> bool;

    /// Hears that there is a place for the run, which begins now, or goes on from a step.
    fn begins(&mut self, _job: &Job, _from: Option<&State<F>>) {}

    /// Hears at once what the notes of the outcome say in the end.
    fn warn(&mut self, _line: &str) {}

    /// Hears that the last step is made and files are written.
    fn over(&mut self) {}
}

/// What a run has come to.
pub struct Outcome<F> {
    /// What was asked for, with what was settled on the way.
    pub job: Job,
    /// The state after the last step.
    pub state: State<F>,
    /// The content of summary.json.
    pub summary: Summary,
    /// Seconds spent in the loop, by earlier processes too.
    pub seconds: f64,
    /// Whether all steps were made. A run that ended early at step 0 was stopped in its warm start.
    pub ended: Ended,
    /// The run directory, if it has one.
    pub dir: Option<PathBuf>,
    /// The text of the trace of a run in memory, or of one that was read.
    pub trace: Vec<u8>,
    /// What should be known about the run, in a line each.
    pub notes: Vec<String>,
}

/// Makes the run, and writes what is to be written; with a report in the words of a face, if it has a directory. A step in the middle of a long
/// evaluation is given up soon after the team's flag is set. Must be called inside [`motes::Pool::install`].
///
/// Several ranks must all call it, with the same job. Rank 0 alone reads and writes, and needs to know where the run is; another has
/// its trace too if it is told that it is in memory. What fails at the very end may fail on rank 0 alone.
pub fn carry_out<'m, F: Real>(
    mut job: Job,
    model: &'m dyn Model<F>,
    start: Start<F>,
    with_report: Option<Face>,
    watch: &mut dyn Watch<F>,
    team: impl Into<Team<'m>>,
) -> Result<Outcome<F>, Error> {
    let team = team.into();
    if let Some(every) = job.length.budget().and_then(|b| trace_every(b, model, &job.settings)) {
        job.config.run.trace_every = Some(every);
    }
    let mut notes = Vec::new();
    let Begun { state, mut place, before } = begin(&mut job, model, start, watch, &mut notes, team.ranks)?;
    let in_warm_start = state.is_none();
    let mut state = state.unwrap_or_else(|| State::initial(model, &job.settings));
    let ran = match job.length {
        // The warm start begins again when the run is resumed from step 0.
        _ if in_warm_start => Ok((Ended::Early, Duration::ZERO)),
        Length::Steps => place.run(model, &job, &mut state, (watch, team), None),
        Length::Seconds(budget) => for_a_time(budget, &mut job, model, &mut state, &mut place, (watch, team)),
    };
    watch.over();
    let ran = ran.map_err(|e| match place {
        Place::Elsewhere => e,
        _ => blame_start(as_kept(e, &place), &job, model),
    });
    // A failure that is known to all ranks is told by the first.
    let ran = agree(team.ranks, ran);
    let mut note = |warning: Option<String>, watch: &mut dyn Watch<F>| {
        warning.iter().for_each(|line| watch.warn(line));
        notes.extend(warning);
    };
    let (ended, spent) = match (ran, place) {
        (Ok(ran), there) => {
            place = there;
            ran
        }
        (Err(e), Place::Directory(directory)) => {
            if let Some(face) = with_report.filter(|_| e.is_divergence()) {
                let path = directory.path().to_path_buf();
                drop(directory); // the last rows of the trace are written
                note(report::after_run(&path, Some(&e.to_string()), face), watch);
            }
            return Err(e);
        }
        (Err(e), _) => return Err(e),
    };
    let seconds = before + spent.as_secs_f64();
    let assessed = match ended {
        Ended::Complete => assess(&job, model, &state, watch, team)?,
        Ended::Early => None,
    };
    // A run that was stopped while it was assessed is not over: what it has come to is kept, and it is assessed again.
    let stopped = ended == Ended::Complete && assessed.is_none();
    if stopped && let Place::Directory(directory) = &mut place {
        directory.checkpoint(&state, spent)?;
    }
    let ended = if stopped { Ended::Early } else { ended };
    let assessed = assessed.unwrap_or(Assessed { level: level(&job), ..Assessed::default() });
    let mut summary = summary(&job, model, &state, seconds, &assessed);
    let (dir, trace) = match place {
        Place::Memory(memory) => {
            summary.scalars = scalars(model, &job.settings, state.k, &memory.text[..]);
            (None, memory.text)
        }
        Place::Elsewhere => (None, Vec::new()),
        Place::Directory(mut directory) => {
            if !model.scalars().is_empty() {
                directory.sync_trace()?;
                let path = directory.path().join("trace.csv");
                let file = File::open(&path).map_err(motes::Error::io("read", &path))?;
                summary.scalars = scalars(model, &job.settings, state.k, BufReader::new(file));
            }
            if ended == Ended::Complete {
                finish(&mut directory, &job, model, &state, spent, &summary)?;
            }
            if let Some(face) = with_report.filter(|_| !in_warm_start) {
                note(report::after_run(directory.path(), None, face), watch);
            }
            (Some(directory.path().to_path_buf()), Vec::new())
        }
    };
    Ok(Outcome { job, state, summary, seconds, ended, dir, trace, notes })
}

/// A divergence of a run that has not written a checkpoint yet does not speak of any.
fn as_kept(mut error: Error, place: &Place) -> Error {
    use motes::Error::{Diverged, Rejected};
    if let Error::Run(Diverged { kept, .. } | Rejected { kept, .. }) = &mut error
        && let Place::Directory(directory) = place
    {
        let mut files = std::fs::read_dir(directory.path().join("checkpoint")).into_iter().flatten();
        *kept = files.next().is_some();
    }
    error
}

/// Reads a run directory up to its last checkpoint, and changes nothing there. Must be called inside
/// [`motes::Pool::install`].
pub fn open<F: Real>(job: Job, model: &dyn Model<F>, dir: &Path) -> Result<Outcome<F>, Error> {
    let mut state = State::initial(model, &job.settings);
    let (header, notes) = RunDirectory::read(dir, &job.settings, job.config.run.recording(), &mut state)?;
    let header = header.ok_or_else(|| match &notes[..] {
        [] => format!("{} has no checkpoint yet; fit the model again", foreign_path(dir)),
        damage => format!("{}, and there is no older checkpoint; fit the model again", damage.join(" and ")),
    })?;
    let path = dir.join("trace.csv");
    let mut trace = std::fs::read(&path).map_err(motes::Error::io("read", &path))?;
    let bytes = usize::try_from(header.trace_bytes).unwrap_or(usize::MAX);
    let whole = trace.len() >= bytes && trace.starts_with(trace_header(model, &job.settings).as_bytes());
    trace.truncate(bytes);
    if !whole || !holds_numbers(&trace) {
        let problem = "is not what this run has written; put it back, or fit the model again".into();
        return Err(motes::Error::File { path, problem }.into());
    }
    let seconds = header.seconds;
    // What a finished run has written knows more than its state: a pass that assessed it is not made again.
    let written = Summary::read(dir).ok().flatten().filter(|s| s.steps == state.k);
    let assessed = match &written {
        Some(_) => Assessed::default(),
        None => Assessed {
            assessment: Assessment::of_fit(model, &state, job.settings.seed),
            seconds: None,
            level: level(&job),
        },
    };
    let mut summary = written.unwrap_or_else(|| summary(&job, model, &state, seconds, &assessed));
    summary.scalars = scalars(model, &job.settings, state.k, &trace[..]);
    let ended = if state.is_over(&job.settings) { Ended::Complete } else { Ended::Early };
    Ok(Outcome { job, state, summary, seconds, ended, dir: Some(dir.to_path_buf()), trace, notes })
}

/// Whether a table has a number, or nothing, in every column of every row.
fn holds_numbers(table: &[u8]) -> bool {
    let number = |value: &str| value.is_empty() || value.parse::<f64>().is_ok();
    csv::Reader::from_reader(table).records().all(|row| row.is_ok_and(|row| row.iter().all(number)))
}

/// A divergence is made again for at most so many steps.
const MADE_AGAIN: u64 = 1000;

/// A run that diverged soon is made again from the model's own start: if that goes well, the start that was chosen is to
/// blame, and not the step size.
fn blame_start<F: Real>(error: Error, job: &Job, model: &dyn Model<F>) -> Error {
    let (step, norm, h) = match &error {
        Error::Run(motes::Error::Diverged { step, norm, h, .. }) => (*step, *norm, *h),
        Error::Run(motes::Error::Rejected { step, h, .. }) => (*step, f64::NAN, *h),
        _ => return error,
    };
    let (chosen, usual) = (&job.settings, job.problem.defaults().init_particles);
    let mut start: Vec<String> = match chosen.init_theta.values() {
        [] => Vec::new(),
        [theta] => vec![format!("`init-theta={}`", Number(*theta))],
        _ => vec!["`init-theta`".into()],
    };
    if chosen.init_particles != usual && job.config.run.init_particles.is_some() {
        start.push(format!("`init-particles={}`", chosen.init_particles));
    }
    if start.is_empty() || step > MADE_AGAIN || chosen.warm_start.is_some() {
        return error;
    }
    let other = Settings {
        init_theta: InitTheta::Model,
        init_particles: usual,
        steps: step,
        burn_in: 0,
        adjust_after: chosen.adjust_after.min(step - 1),
        grow: Default::default(),
        ..chosen.clone()
    };
    let made = motes::start(model, &other)
        .and_then(|mut state| motes::run(model, &other, &mut state, None, &mut []));
    match made {
        Ok(_) => Error::Start { step, start: start.join(" and "), norm, h },
        Err(_) => error,
    }
}

/// The level of a run's intervals.
fn level(job: &Job) -> f64 {
    job.config.run.level.unwrap_or(0.95)
}

/// What is known of a finished run besides its state: what a fit by auto knows of itself, or what an adjusted pass at its estimate
/// tells, where one can be made; nothing if that was stopped.
fn assess<F: Real>(
    job: &Job,
    model: &dyn Model<F>,
    state: &State<F>,
    watch: &dyn Watch<F>,
    team: Team<'_>,
) -> Result<Option<Assessed>, Error> {
    let stopped = || any(team.ranks, watch.stopped());
    let unknown = Assessed { level: level(job), ..Assessed::default() };
    if state.auto.is_some() {
        let assessment = Assessment::of_fit(model, state, job.settings.seed);
        return Ok(Some(Assessed { assessment, ..unknown }));
    }
    if job.config.run.no_assess == Some(true) || auto::can_assess(model, &job.settings).is_err() {
        return Ok(Some(unknown));
    }
    let began = Instant::now();
    let theta = state.averages.theta_mean().unwrap_or_else(|| state.theta.clone());
    // A pass that fails says nothing about the run: it is as if there had been none.
    let assessment = auto::assess(model, &job.settings, &theta, &state.cloud, team, stopped).ok().flatten();
    let assessment = assessment.map(|mut known| {
        if Diagnostics::is_moving(state) {
            known.runs_away = auto::runs_away(model, &job.settings, &theta, &state.cloud, team, stopped);
        }
        known
    });
    if stopped() {
        return Ok(None);
    }
    let seconds = assessment.as_ref().map(|_| began.elapsed().as_secs_f64());
    Ok(Some(Assessed { assessment, seconds, ..unknown }))
}

/// The summary of a run that has come to this state.
pub fn summary<F: Real>(
    job: &Job,
    model: &dyn Model<F>,
    state: &State<F>,
    seconds: f64,
    assessed: &Assessed,
) -> Summary {
    let choices = job.config.flat().into();
    let mut summary = Summary::of(model, &job.settings, choices, state, seconds, assessed);
    summary.data = job.problem.remember();
    summary.formula = job.problem.formula();
    // Rows count as often as their weights say.
    let counted = summary.data.as_ref().and_then(|data| data["weights"][1].as_f64());
    if let (Some(counted), Some(l)) = (counted, &mut summary.log_likelihood) {
        l.n = Some(counted.round() as u64);
        l.set_value(l.value, summary.d_theta);
    }
    if let (Some(metrics), Some(error)) = (&mut summary.metrics, baseline(&summary.test, &summary.data)) {
        let after = metrics.0.iter().position(|(name, _)| name == "test_error").map_or(0, |i| i + 1);
        metrics.0.insert(after, ("baseline_error".into(), error));
    }
    summary.coefficients = coefficients(job, model, state, &summary).filter(|all| all.len() <= motes::LISTED);
    summary
}

/// The share of test rows that are not of the class that most training rows are of.
fn baseline(test: &Option<Tested>, data: &Option<Value>) -> Option<f64> {
    let rows: Vec<u64> = test.as_ref()?.confusion.iter().map(|row| row.iter().sum()).collect();
    let trained = data.as_ref()?.get("class_rows")?.as_array()?;
    let trained: Vec<u64> = trained.iter().filter_map(Value::as_u64).collect();
    let most = (0..trained.len()).fold(0, |best, i| if trained[i] > trained[best] { i } else { best });
    Some(1.0 - *rows.get(most)? as f64 / rows.iter().sum::<u64>() as f64)
}

/// The means of what a model wants in the trace over the last pass over all groups, for a run that has come to step k.
pub fn scalars<F: Real>(
    model: &dyn Model<F>,
    settings: &Settings,
    k: u64,
    trace: impl BufRead,
) -> Option<Metrics> {
    let names: Vec<&str> = model.scalars().iter().map(|scalar| scalar.name).collect();
    let after = k.saturating_sub(Epochs { count: 1, groups: model.groups() }.steps(settings.batch));
    let mut lines = trace.lines().map_while(Result::ok);
    let header = lines.next()?;
    let heads: Vec<&str> = header.split(',').collect();
    // Names of parameters, which may hold commas, come first: counted from the end, columns are where they are.
    let columns: Option<Vec<usize>> =
        names.iter().map(|name| Some(heads.len() - heads.iter().rposition(|head| head == name)?)).collect();
    let (columns, mut sums, mut rows) = (columns?, vec![0.0; names.len()], 0.0);
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[0].parse::<u64>().is_ok_and(|k| k > after) {
            rows += 1.0;
            for (sum, column) in sums.iter_mut().zip(&columns) {
                *sum += cells.len().checked_sub(*column).map_or("", |i| cells[i]).parse().unwrap_or(f64::NAN);
            }
        }
    }
    let named = names.iter().zip(sums).map(|(name, sum)| (name.to_string(), sum / rows));
    (rows > 0.0 && !names.is_empty()).then(|| Metrics(named.collect()))
}

/// Writes what a finished run leaves, the summary last.
pub fn finish<F: Real>(
    directory: &mut RunDirectory,
    job: &Job,
    model: &dyn Model<F>,
    state: &State<F>,
    spent: Duration,
    summary: &Summary,
) -> Result<(), Error> {
    let State { theta, buffers, cloud, .. } = state;
    let fitted = Fitted { theta, buffers, latents: &|count| first_particles(cloud, count) };
    job.problem.leave(directory.path(), job.settings.seed, &fitted)?;
    let listed = summary.coefficients.clone();
    if let Some(all) = listed.or_else(|| coefficients(job, model, state, summary)) {
        coefficients::write(directory.path(), &all)?;
    }
    Ok(directory.finish(model, &job.settings, state, spent, summary)?)
}

fn first_particles<F: Real>(cloud: &Cloud<F>, groups: usize) -> Vec<f32> {
    (0..groups).flat_map(|g| cloud.row(g, 0).iter().map(|v| v.f64() as f32)).collect()
}

/// Has the problem show how far a run has come.
struct Showing<'a> {
    problem: &'a dyn Problem,
    dir: PathBuf,
    seed: u64,
    every: u64,
    steps: u64,
    failed: Option<Error>,
}

impl<F: Real> Observer<F> for Showing<'_> {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        // At the end it leaves the same.
        if info.k == 0 || info.k >= self.steps || !info.k.is_multiple_of(self.every) {
            return Flow::Continue;
        }
        let StepInfo { theta, buffers, cloud, .. } = *info;
        let fitted = Fitted { theta, buffers, latents: &|count| first_particles(cloud, count) };
        match self.problem.show(&self.dir, self.seed, &fitted) {
            Ok(()) => Flow::Continue,
            Err(e) => {
                self.failed = Some(e.into());
                Flow::Stop
            }
        }
    }
}

/// Makes a run directory at step 0, with the files that its config names there.
pub fn create<F: Real>(job: &mut Job, model: &dyn Model<F>, dir: &Path) -> Result<RunDirectory, Error> {
    let files = name_files(job, dir)?;
    let text = job.config.to_toml_in(dir);
    let directory = RunDirectory::create(dir, &text, model, &job.settings, job.config.run.recording())?;
    write_files(dir, files)?;
    Ok(directory)
}

/// Data that go into the run directory: the name of each file, and its bytes.
type Files = Vec<(&'static str, Vec<u8>)>;

/// Lets the config name the files that a problem keeps in a directory, which are still to be written.
pub(crate) fn name_files(job: &mut Job, dir: &Path) -> Result<Files, Error> {
    let Some(placed) = job.problem.place(dir)? else { return Ok(Vec::new()) };
    job.config.options.extend(placed.options);
    job.config.data_sha256 = Some(placed.sha256);
    Ok(placed.files)
}

/// Writes them.
pub(crate) fn write_files(dir: &Path, files: Files) -> Result<(), Error> {
    for (name, bytes) in files {
        write_atomically(&dir.join(name), Durable::Yes, |out| out.write_all(&bytes))?;
    }
    Ok(())
}

/// A run before its first step here; without a state if it was stopped in its warm start.
struct Begun<F> {
    state: Option<State<F>>,
    place: Place,
    /// Seconds spent before.
    before: f64,
}

fn begin<F: Real>(
    job: &mut Job,
    model: &dyn Model<F>,
    start: Start<F>,
    watch: &mut dyn Watch<F>,
    notes: &mut Vec<String>,
    ranks: &dyn Ranks,
) -> Result<Begun<F>, Error> {
    let placed = match (ranks.rank(), start) {
        (0, start) => find_place(job, model, start, watch, notes),
        (_, Start::Memory) => find_place(job, model, Start::Memory, watch, notes),
        _ => Ok((None, Place::Elsewhere, 0.0)),
    };
    let (state, place, before) = agree(ranks, placed)?;
    let state = checkpoint::state_of_first(ranks, state, || State::initial(model, &job.settings))?;
    watch.begins(job, state.as_ref());
    let state = match state.filter(|state| state.k > 0) {
        Some(state) => Some(state),
        None => motes::start_unless(model, &job.settings, || any(ranks, watch.stopped()))?,
    };
    Ok(Begun { state, place, before })
}

/// Where the run is, with its state there if it has one, and the seconds that it took to come there.
fn find_place<F: Real>(
    job: &mut Job,
    model: &dyn Model<F>,
    start: Start<F>,
    watch: &mut dyn Watch<F>,
    notes: &mut Vec<String>,
) -> Result<(Option<State<F>>, Place, f64), Error> {
    let memory = |job: &Job, text: Vec<u8>| {
        let rows = TraceRows::new(model, &job.settings, job.config.run.recording());
        Place::Memory(Memory { rows, text })
    };
    let start = match start {
        Start::Next => Start::New(next_default(&format!("{}-{}", model.name(), job.settings.algorithm))?),
        other => other,
    };
    Ok(match start {
        Start::New(dir) => (None, Place::Directory(Box::new(create(job, model, &dir)?)), 0.0),
        Start::Memory | Start::Next => {
            (None, memory(job, trace_header(model, &job.settings).into_bytes()), 0.0)
        }
        Start::Saved { state, trace, seconds } => (Some(*state), memory(job, trace), seconds),
        Start::Directory(dir) => {
            let mut state = State::initial(model, &job.settings);
            let recording = job.config.run.recording();
            let (directory, warnings) =
                RunDirectory::resume(&dir, model, &job.settings, recording, &mut state)?;
            warnings.iter().for_each(|line| watch.warn(line));
            *notes = warnings;
            RunDirectory::write_config(&dir, &job.config.to_toml_in(&dir))?;
            let before = directory.seconds_before();
            (Some(state), Place::Directory(Box::new(directory)), before)
        }
        Start::Theta(dir) => {
            let mut state = State::initial(model, &job.settings);
            let recording = job.config.run.recording();
            let reopened = RunDirectory::reopen(&dir, model, &job.settings, recording, &mut state)?;
            let directory = reopened.ok_or_else(|| {
                format!(
                    "{} has not come to the end of theta's stage yet; `resume()` it as it is first",
                    foreign_path(&dir)
                )
            })?;
            RunDirectory::write_config(&dir, &job.config.to_toml_in(&dir))?;
            let before = directory.seconds_before();
            (Some(state), Place::Directory(Box::new(directory)), before)
        }
    })
}

/// Where a run is recorded.
enum Place {
    Directory(Box<RunDirectory>),
    Memory(Memory),
    /// By rank 0 alone, and this is another.
    Elsewhere,
}

/// A trace in memory.
struct Memory {
    rows: TraceRows,
    text: Vec<u8>,
}

impl<F: Real> Observer<F> for Memory {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        self.rows.append(info, &mut self.text);
        Flow::Continue
    }
}

impl Place {
    /// Steps until the end or until one of those who watch stops it.
    fn run<F: Real>(
        &mut self,
        model: &dyn Model<F>,
        job: &Job,
        state: &mut State<F>,
        (watch, team): (&mut dyn Watch<F>, Team<'_>),
        clock: Option<&mut Clock>,
    ) -> Result<(Ended, Duration), Error> {
        let Job { settings, problem, .. } = job;
        let mut showing = Showing {
            problem: &**problem,
            dir: PathBuf::new(),
            seed: settings.seed,
            every: problem.shows_every(settings),
            steps: settings.steps,
            failed: None,
        };
        let mut observers: Vec<&mut dyn Observer<F>> = vec![watch];
        observers.extend(clock.map(|clock| clock as &mut dyn Observer<F>));
        let directory = match self {
            Place::Directory(directory) => {
                showing.dir = directory.path().to_path_buf();
                if showing.every > 0 {
                    observers.push(&mut showing);
                }
                Some(&mut **directory)
            }
            Place::Elsewhere => None,
            Place::Memory(memory) => {
                observers.push(memory);
                None
            }
        };
        let ran = motes::run_unless(model, settings, state, directory, &mut observers, team)?;
        showing.failed.map_or(Ok(ran), Err)
    }
}

/// A trace has some hundred thousand rows at most where nothing else was asked for.
const ROWS: f64 = 1e5;
/// How long steps are timed at most to find out.
const TRIAL: Duration = Duration::from_millis(20);

/// Steps between rows of the trace, from how long steps take: those of em take no time and would fill the disk.
fn trace_every<F: Real>(budget: Budget, model: &dyn Model<F>, settings: &Settings) -> Option<u64> {
    let mut state = motes::start(model, settings).ok().filter(|_| budget.trace_every)?;
    let mut clock = Clock { began: Instant::now(), time: budget.time.mul_f64(0.01).min(TRIAL) };
    // A failure is for the run itself to tell.
    motes::run(model, settings, &mut state, None, &mut [&mut clock]).ok()?;
    let rate = state.k as f64 / clock.began.elapsed().as_secs_f64();
    Some((rate * budget.time.as_secs_f64() / ROWS).ceil().max(1.0) as u64)
}

/// Runs until the time is over. What was left open is settled on the way, so that the run is the same, bit for bit, as
/// one that was asked for these steps.
fn for_a_time<F: Real>(
    budget: Budget,
    job: &mut Job,
    model: &dyn Model<F>,
    state: &mut State<F>,
    place: &mut Place,
    (watch, team): (&mut dyn Watch<F>, Team<'_>),
) -> Result<(Ended, Duration), Error> {
    let accepts = job.settings.accepts();
    type Settled = fn(&mut Settings) -> &mut u64;
    let stages: [(f64, bool, Settled); 3] = [
        (0.25, accepts && budget.adjust_after, |s| &mut s.adjust_after),
        (0.5, budget.burn_in, |s| &mut s.burn_in),
        (1.0, true, |s| &mut s.steps),
    ];
    let mut spent = Duration::ZERO;
    for (part, _, settled) in stages.into_iter().filter(|(_, open, _)| *open) {
        let time = budget.time.mul_f64(part).saturating_sub(spent);
        let mut clock = Clock { began: Instant::now(), time };
        let (_, more) = place.run(model, job, state, (watch, team), Some(&mut clock))?;
        spent += more;
        if watch.stopped() {
            return Ok((Ended::Early, spent));
        }
        *settled(&mut job.settings) = state.k;
    }
    let settings = &mut job.settings;
    if !accepts && budget.adjust_after {
        settings.adjust_after = settings.burn_in / 2; // of no consequence, and what a replay assumes
    }
    if settings.burn_in >= settings.steps || (accepts && settings.adjust_after >= settings.steps) {
        return Err(Error::Refused(format!(
            "{} steps were made in {} s, which is all burn-in or before accept-reject begins; give a larger `budget`",
            settings.steps,
            budget.time.as_secs_f64()
        )));
    }
    job.settle();
    if let Place::Directory(directory) = place {
        directory.adopt(&job.settings);
        RunDirectory::write_config(directory.path(), &job.config.to_toml_in(directory.path()))?;
    }
    Ok((Ended::Complete, spent))
}

/// Stops a run when its time is over.
struct Clock {
    began: Instant,
    time: Duration,
}

impl<F: Real> Observer<F> for Clock {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        let over = self.began.elapsed().saturating_sub(info.metrics_time) >= self.time;
        if over { Flow::Stop } else { Flow::Continue }
    }
}
