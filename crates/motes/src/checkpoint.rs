//! Checkpoints: the whole state in one checksummed file, two generations of it, never half of one.
//!
//! Layout: magic, header length (u64), JSON header, arrays in a fixed order (little-endian), CRC-32 of all before it.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::files::{Durable, sweep, write_atomically};
use crate::{Acceptance, Error, Real, State, Ticker, instruction_set};

const MAGIC: &[u8; 8] = b"MOTESCP1";
/// A header holds a few numbers and the sizes of at most `MAX_PARTICLES` kept clouds.
const MAX_HEADER: u64 = 4 << 20;

/// What stands in a checkpoint besides the state's arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of Motes that wrote it.
    pub version: String,
    /// The instruction set its kernels ran on: another one may round differently.
    pub instruction_set: String,
    /// The length of trace.csv at this step.
    pub trace_bytes: u64,
    /// Seconds spent in the loop so far.
    pub seconds: f64,
    /// The digest of the settings that the state belongs to.
    pub settings: u32,
    precision: String,
    k: u64,
    d: usize,
    steps_averaged: u64,
    particles_averaged: u64,
    batch_length: u64,
    batch_filled: u64,
    batch_count: u64,
    kept_every: u64,
    kept_sizes: Vec<(u64, usize)>,
    acceptance: Acceptance,
    lengths: [usize; 12],
}

impl Header {
    /// A header for the given state.
    pub fn of<F: Real>(state: &State<F>, settings: u32, trace_bytes: u64, seconds: f64) -> Self {
        Header {
            version: env!("CARGO_PKG_VERSION").into(),
            instruction_set: instruction_set().into(),
            trace_bytes,
            seconds,
            settings,
            precision: F::NAME.into(),
            k: state.k,
            d: state.cloud.d(),
            steps_averaged: state.averages.steps,
            particles_averaged: state.averages.particles,
            batch_length: state.batches.length,
            batch_filled: state.batches.filled,
            batch_count: state.batches.count,
            kept_every: state.kept.every,
            kept_sizes: state.kept.sizes.clone(),
            acceptance: state.acceptance.clone(),
            lengths: arrays(state).map(|a| a.len()),
        }
    }

    /// Whether the arrays that follow have the state's shape. The cloud may have grown, batch means and kept clouds
    /// fill up: these lengths vary, within what was planned.
    fn fits<F: Real>(&self, state: &State<F>) -> bool {
        let kept = self.kept_sizes.iter().try_fold(0usize, |sum, (_, n)| sum.checked_add(*n));
        let expected = arrays(state).map(|a| a.len());
        self.precision == F::NAME
            && self.d == state.cloud.d()
            && self.d > 0
            && self.lengths.iter().zip(expected).enumerate().all(|(i, (&have, want))| match i {
                1 => have.is_multiple_of(self.d) && have <= state.cloud.room(),
                7 => have <= state.batches.room(),
                9 => kept.and_then(|n| n.checked_mul(self.d)) == Some(have) && have <= state.kept.room(),
                _ => have == want,
            })
    }
}

/// A slice of either kind of number.
enum Slice<'a, F> {
    Double(&'a [f64]),
    Particle(&'a [F]),
}

impl<F: Real> Slice<'_, F> {
    fn len(&self) -> usize {
        match self {
            Slice::Double(s) => s.len(),
            Slice::Particle(s) => s.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Slice::Double(s) => bytemuck::cast_slice(s),
            Slice::Particle(s) => bytemuck::cast_slice(s),
        }
    }
}

/// All arrays of a state, in the order of the file.
fn arrays<F: Real>(s: &State<F>) -> [Slice<'_, F>; 12] {
    [
        Slice::Double(&s.theta),
        Slice::Particle(s.cloud.as_slice()),
        Slice::Double(&s.memory),
        Slice::Double(&s.averages.theta),
        Slice::Double(&s.averages.x),
        Slice::Double(&s.averages.x2),
        Slice::Double(&s.batches.current),
        Slice::Double(&s.batches.means),
        Slice::Double(&s.batches.spread),
        Slice::Particle(&s.kept.data),
        Slice::Double(&s.variational),
        Slice::Double(&s.predictive),
    ]
}

/// Writes a checkpoint to any writer.
pub fn encode<F: Real>(state: &State<F>, header: &Header, out: &mut impl Write) -> std::io::Result<()> {
    let mut checksum = crc32fast::Hasher::new();
    let mut put = |bytes: &[u8]| {
        checksum.update(bytes);
        out.write_all(bytes)
    };
    let json = serde_json::to_vec(header)?;
    put(MAGIC)?;
    put(&(json.len() as u64).to_le_bytes())?;
    put(&json)?;
    for array in arrays(state) {
        put(array.bytes())?;
    }
    let checksum = checksum.finalize();
    out.write_all(&checksum.to_le_bytes())
}

/// Reads while it sums up what it has read.
struct Checked<R> {
    input: R,
    checksum: crc32fast::Hasher,
}

impl<R: Read> Checked<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        self.input.read_exact(bytes).map_err(|_| "is torn or truncated")?;
        self.checksum.update(bytes);
        Ok(())
    }

    fn array<T: bytemuck::Pod>(&mut self, mut values: Vec<T>, len: usize) -> Result<Vec<T>, String> {
        values.clear();
        values.resize(len, T::zeroed());
        self.fill(bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// Whether the checksum that follows is right and nothing comes after it.
    fn ends_well(mut self) -> bool {
        let mut stored = [0; 4];
        let computed = self.checksum.finalize().to_le_bytes();
        self.input.read_exact(&mut stored).is_ok()
            && stored == computed
            && matches!(self.input.read(&mut [0]), Ok(0))
    }
}

/// Reads a checkpoint into `state`, whose shape (made by [`State::initial`]) it must fit. On failure the state is
/// unchanged, and the error's text completes a sentence that begins with the file's name.
pub fn decode<F: Real>(input: impl Read, state: &mut State<F>) -> Result<Header, String> {
    let mut input = Checked { input, checksum: crc32fast::Hasher::new() };
    let mut start = [0; 16];
    input.fill(&mut start)?;
    if &start[..8] != MAGIC {
        return Err("is not a checkpoint of this version of Motes".into());
    }
    let length = u64::from_le_bytes(start[8..].try_into().expect("8 bytes"));
    if length > MAX_HEADER {
        return Err("has a damaged header".into());
    }
    let json = input.array(Vec::new(), length as usize)?;
    let header: Header = serde_json::from_slice(&json).map_err(|_| "has a damaged header")?;
    if !header.fits(state) {
        return Err("does not fit this run's settings".into());
    }
    let l = header.lengths;
    let theta = input.array(Vec::new(), l[0])?;
    let cloud = input.array(Vec::with_capacity(state.cloud.room()), l[1])?;
    let memory = input.array(Vec::new(), l[2])?;
    let mean_theta = input.array(Vec::new(), l[3])?;
    let (x, x2) = (input.array(Vec::new(), l[4])?, input.array(Vec::new(), l[5])?);
    let current = input.array(Vec::new(), l[6])?;
    let means = input.array(Vec::with_capacity(state.batches.room()), l[7])?;
    let spread = input.array(Vec::new(), l[8])?;
    let kept = input.array(Vec::with_capacity(state.kept.room()), l[9])?;
    let (variational, predictive) = (input.array(Vec::new(), l[10])?, input.array(Vec::new(), l[11])?);
    if !input.ends_well() {
        return Err("fails its checksum".into());
    }

    state.k = header.k;
    state.theta = theta;
    state.cloud.replace(cloud);
    (state.memory, state.variational, state.predictive) = (memory, variational, predictive);
    state.averages.steps = header.steps_averaged;
    state.averages.particles = header.particles_averaged;
    (state.averages.theta, state.averages.x, state.averages.x2) = (mean_theta, x, x2);
    state.batches.length = header.batch_length;
    state.batches.filled = header.batch_filled;
    state.batches.count = header.batch_count;
    (state.batches.current, state.batches.means, state.batches.spread) = (current, means, spread);
    state.kept.every = header.kept_every;
    state.kept.sizes.clear();
    state.kept.sizes.extend(&header.kept_sizes);
    state.kept.data = kept;
    state.acceptance = header.acceptance.clone();
    Ok(header)
}

/// The checkpoints of a run: files named by step, the newest two of them.
pub struct Generations {
    dir: PathBuf,
    extension: &'static str,
}

impl Generations {
    /// The checkpoints in `dir`, which is made when the first is written.
    pub fn new(dir: PathBuf) -> Self {
        Generations { dir, extension: "motes" }
    }

    /// The same for files with another extension.
    pub fn with_extension(dir: PathBuf, extension: &'static str) -> Self {
        Generations { dir, extension }
    }

    /// Writes a generation and removes all but the newest two.
    pub fn write<F: Real>(&self, state: &State<F>, header: &Header) -> Result<(), Error> {
        self.write_as(state.k, |out| encode(state, header, out))
    }

    /// Writes the generation of step k in a format of the caller's, and removes all but the newest two.
    pub fn write_as(
        &self,
        k: u64,
        write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        fs::create_dir_all(&self.dir).map_err(Error::write(&self.dir))?;
        let path = self.file_of(k);
        write_atomically(&path, Durable::Yes, write)?;
        for old in self.list()?.into_iter().filter(|p| *p <= path).skip(2) {
            fs::remove_file(&old).map_err(Error::write(&old))?;
        }
        Ok(())
    }

    /// Loads the newest generation that can be trusted. Returns its header, if there is any, and what is wrong
    /// with newer ones. A file that is whole but belongs to other settings is an error: the run must not go back
    /// behind it.
    pub fn load<F: Real>(&self, state: &mut State<F>) -> Result<(Option<Header>, Vec<String>), Error> {
        let mut warnings = Vec::new();
        for path in self.list()? {
            let file = File::open(&path).map_err(Error::read(&path))?;
            match decode(std::io::BufReader::with_capacity(1 << 16, file), state) {
                Ok(header) => return Ok((Some(header), warnings)),
                Err(problem) if is_whole(&path)? => {
                    let remedy = "put back the config.toml and the motes that it was written with, or start a new run with fit --config";
                    return Err(Error::File { path, problem: format!("{problem}; {remedy}") });
                }
                Err(problem) => warnings.push(format!("{} {problem}", path.display())),
            }
        }
        Ok((None, warnings))
    }

    /// Removes generations newer than step k, which a resumed run will write again, and unfinished ones.
    pub fn forget_after(&self, k: u64) -> Result<(), Error> {
        let newest = self.file_of(k);
        let newer = self.list()?.into_iter().filter(|p| *p > newest);
        for path in newer {
            fs::remove_file(&path).map_err(Error::write(&path))?;
        }
        sweep(&self.dir);
        Ok(())
    }

    /// The generations there are, newest first.
    pub fn list(&self) -> Result<Vec<PathBuf>, Error> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::read(&self.dir)(e)),
        };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|e| Some(e.ok()?.path()))
            .filter(|p| p.extension().is_some_and(|e| e == self.extension))
            .collect();
        paths.sort_unstable_by(|a, b| b.cmp(a));
        Ok(paths)
    }

    fn file_of(&self, k: u64) -> PathBuf {
        self.dir.join(format!("{k:020}.{}", self.extension))
    }
}

/// When checkpoints are to be written.
pub struct Due {
    /// Steps between them; by the clock without.
    every: Option<u64>,
    interval: Duration,
    ticker: Ticker,
}

impl Due {
    /// Every so many steps, or whenever the interval has passed.
    pub fn new(every: Option<u64>, interval: Duration) -> Self {
        Due { every, interval, ticker: Ticker::new(interval) }
    }

    /// Whether one is due after step k.
    pub fn after(&mut self, k: u64) -> bool {
        match self.every {
            Some(every) => k.is_multiple_of(every),
            None => self.ticker.tick(),
        }
    }

    /// Hears how long one took: by the clock, writing must not take more than a tenth of the time.
    pub fn written(&mut self, took: Duration) {
        self.ticker = Ticker::new(self.interval.max(10 * took));
    }
}

/// Whether a file is as it was written: its last four bytes are the checksum of all the others.
fn is_whole(path: &Path) -> Result<bool, Error> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    Ok(bytes.split_last_chunk().is_some_and(|(body, stored)| {
        body.starts_with(&MAGIC[..7]) && crc32fast::hash(body).to_le_bytes() == *stored
    }))
}

/// A short digest of a text, to tell whether a checkpoint belongs to it.
pub fn digest(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
}

/// The directory inside a run directory.
pub fn directory(run: &Path) -> PathBuf {
    run.join("checkpoint")
}
