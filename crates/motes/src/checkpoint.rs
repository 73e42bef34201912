//! Checkpoints: the whole state in one checksummed file, two generations of it, never half of one.
//!
//! The layout is that of safetensors, so that NumPy, PyTorch and others can read it: named arrays, and what else there is to
//! know as metadata. The last array is the CRC-32 of all bytes before it. It is written without a copy of the state, which
//! the crate's own writer would make.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::{Deserialize, Serialize};

use crate::files::{Durable, sweep, write_atomically};
use crate::ranks::{Ranks, gather_words, of_first};
use crate::sentence::foreign_path;
use crate::state::{Array, Values, ValuesMut};
use crate::{Acceptance, Error, Real, State, Ticker, auto, instruction_set};

/// The number of the arithmetic: runs of one number give the same bits, so that a checkpoint of another cannot go on here.
pub const ARITHMETIC: u32 = 7;
/// The key of the metadata under which Motes keeps its own.
const KEY: &str = "motes";
/// The name of the array that holds the checksum.
const CHECKSUM: &str = "crc32";
/// A header holds a few numbers and some twenty names.
const MAX_HEADER: u64 = 1 << 20;

/// What stands in a checkpoint besides the state's arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of Motes that wrote it.
    pub version: String,
    /// The number of its arithmetic.
    pub arithmetic: u32,
    /// Whether its kernels had fused multiply-add: without it, they round differently.
    pub instruction_set: String,
    /// The length of trace.csv at this step.
    pub trace_bytes: u64,
    /// Seconds spent in the loop so far.
    pub seconds: f64,
    /// The digest of the settings that the state belongs to.
    pub settings: u32,
    precision: String,
    k: u64,
    steps_averaged: u64,
    batch_length: u64,
    batch_filled: u64,
    batch_count: u64,
    kept_every: u64,
    acceptance: Acceptance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auto: Option<auto::Progress>,
}

impl Header {
    /// A header for the given state.
    pub fn of<F: Real>(state: &State<F>, settings: u32, trace_bytes: u64, seconds: f64) -> Self {
        Header {
            version: env!("CARGO_PKG_VERSION").into(),
            arithmetic: ARITHMETIC,
            instruction_set: instruction_set().into(),
            trace_bytes,
            seconds,
            settings,
            precision: F::NAME.into(),
            k: state.k,
            steps_averaged: state.averages.steps,
            batch_length: state.batches.length,
            batch_filled: state.batches.filled,
            batch_count: state.batches.count,
            kept_every: state.kept.every,
            acceptance: state.acceptance.clone(),
            auto: state.auto.as_ref().map(|auto| auto.stand()),
        }
    }
}

impl<F: Real> Values<'_, F> {
    fn bytes(&self) -> &[u8] {
        match self {
            Values::Double(s) => bytemuck::cast_slice(s),
            Values::Particle(s) => bytemuck::cast_slice(s),
            Values::Pairs(s) => bytemuck::cast_slice(s),
        }
    }

    fn info(&self, start: usize) -> TensorInfo {
        let (dtype, shape) = match self {
            Values::Double(s) => (Dtype::F64, vec![s.len()]),
            Values::Particle(s) => (particle_type::<F>(), vec![s.len()]),
            Values::Pairs(s) => (Dtype::U64, vec![s.len(), 2]),
        };
        TensorInfo { dtype, shape, data_offsets: (start, start + self.bytes().len()) }
    }
}

fn particle_type<F: Real>() -> Dtype {
    if size_of::<F>() == 4 { Dtype::F32 } else { Dtype::F64 }
}

/// Writes a checkpoint to any writer.
pub fn encode<F: Real>(state: &State<F>, header: &Header, out: &mut impl Write) -> std::io::Result<()> {
    let arrays = state.arrays();
    let mut end = 0;
    let mut tensors: Vec<(String, TensorInfo)> = Vec::with_capacity(arrays.len() + 1);
    for array in &arrays {
        let info = array.values.info(end);
        end = info.data_offsets.1;
        tensors.push((array.name.to_string(), info));
    }
    let checksum = TensorInfo { dtype: Dtype::U32, shape: vec![1], data_offsets: (end, end + 4) };
    tensors.push((CHECKSUM.to_string(), checksum));
    // One key alone: the order of several would change from run to run.
    let own = HashMap::from([(KEY.to_string(), serde_json::to_string(header)?)]);
    let metadata = Metadata::new(Some(own), tensors).map_err(std::io::Error::other)?;
    let mut json = serde_json::to_vec(&metadata)?;
    json.resize(json.len().next_multiple_of(8), b' ');

    let mut checksum = crc32fast::Hasher::new();
    let mut put = |bytes: &[u8]| {
        checksum.update(bytes);
        out.write_all(bytes)
    };
    put(&(json.len() as u64).to_le_bytes())?;
    put(&json)?;
    for array in &arrays {
        put(array.values.bytes())?;
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

    /// So many values, in a vector with room for more.
    fn array<T: bytemuck::Pod>(&mut self, len: usize, room: usize) -> Result<Vec<T>, String> {
        let mut values = Vec::with_capacity(room.max(len));
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

/// An array that was read and waits for the checksum to be seen.
enum Loaded<F> {
    Double(Vec<f64>),
    Particle(Vec<F>),
    Pairs(Vec<[u64; 2]>),
}

/// How many values an array of the file has, if it can be this array of the state.
fn fitting_len<F: Real>(array: &Array<ValuesMut<'_, F>>, info: &TensorInfo) -> Option<usize> {
    let (dtype, len, columns) = match &array.values {
        ValuesMut::Double(v) => (Dtype::F64, v.len(), 1),
        ValuesMut::Particle(v) => (particle_type::<F>(), v.len(), 1),
        ValuesMut::Pairs(v) => (Dtype::U64, v.len(), 2),
    };
    let have = match info.shape[..] {
        [len] if columns == 1 => len,
        [len, 2] if columns == 2 => len,
        _ => return None,
    };
    let fits = match array.grows {
        None => have == len,
        Some((room, row)) => have <= room && (row > 0 || have == 0) && have.is_multiple_of(row.max(1)),
    };
    (info.dtype == dtype && fits).then_some(have)
}

/// The state of rank 0, if it has one, for all ranks; `make` makes one of its shape.
pub fn state_of_first<F: Real>(
    ranks: &dyn Ranks,
    state: Option<State<F>>,
    make: impl FnOnce() -> State<F>,
) -> Result<Option<State<F>>, Error> {
    if ranks.size() == 1 {
        return Ok(state);
    }
    let mut bytes = Vec::new();
    if let Some(state) = &state {
        let written = encode(state, &Header::of(state, 0, 0, 0.0), &mut bytes);
        written.map_err(|e| Error::Settings(format!("cannot hand the checkpoint to other ranks: {e}")))?;
    }
    // What is judged once more is no part of a checkpoint.
    let again = |state: &State<F>| state.auto.as_ref().is_some_and(|auto| auto.progress.taken_back);
    let taken_back = gather_words(ranks, u64::from(state.as_ref().is_some_and(again)))[0] == 1;
    let bytes = of_first(ranks, bytes);
    if bytes.is_empty() || state.is_some() {
        return Ok(state);
    }
    let mut state = make();
    let read = decode(&bytes[..], &mut state);
    read.map_err(|problem| Error::Settings(format!("the checkpoint of rank 0 {problem}")))?;
    if let Some(auto) = &mut state.auto {
        auto.progress.taken_back = taken_back;
    }
    Ok(Some(state))
}

/// Reads a checkpoint into `state`, whose shape (made by [`State::initial`]) it must fit. On failure the state is
/// unchanged, and the error's text completes a sentence that begins with the file's name.
pub fn decode<F: Real>(input: impl Read, state: &mut State<F>) -> Result<Header, String> {
    let mut input = Checked { input, checksum: crc32fast::Hasher::new() };
    let mut length = [0; 8];
    input.fill(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err("is not a checkpoint of this version of Motes".into());
    }
    let json: Vec<u8> = input.array(length as usize, 0)?;
    let metadata: Metadata = serde_json::from_slice(&json).map_err(|_| "has a damaged header")?;
    let own = metadata.metadata().as_ref().and_then(|m| m.get(KEY)).ok_or("has a damaged header")?;
    let header: Header = serde_json::from_str(own).map_err(|_| "has a damaged header")?;
    if header.arithmetic != ARITHMETIC {
        return Err(format!(
            "was computed by Motes {} with arithmetic number {}, and this Motes computes with number {ARITHMETIC}",
            header.version, header.arithmetic
        ));
    }
    let other = "does not fit this run's settings";
    let same_kind = header.auto.is_some() == state.auto.is_some();
    let mut arrays = state.arrays_mut();
    if !same_kind || header.precision != F::NAME || metadata.tensors().len() != arrays.len() + 1 {
        return Err(other.into());
    }
    let (mut loaded, mut end) = (Vec::with_capacity(arrays.len()), 0);
    for array in &arrays {
        // In the order of the file, which the list of names does not tell where arrays are empty.
        let info = metadata.info(array.name).filter(|info| info.data_offsets.0 == end).ok_or(other)?;
        let len = fitting_len(array, info).ok_or(other)?;
        end = info.data_offsets.1;
        let room = array.grows.map_or(0, |(room, _)| room);
        loaded.push(match &array.values {
            ValuesMut::Double(_) => Loaded::Double(input.array(len, room)?),
            ValuesMut::Particle(_) => Loaded::Particle(input.array(len, room)?),
            ValuesMut::Pairs(_) => Loaded::Pairs(input.array(len, room)?),
        });
    }
    if !input.ends_well() {
        return Err("fails its checksum".into());
    }
    if !kept_clouds_add_up(&arrays, &loaded) {
        return Err(other.into());
    }

    for (array, loaded) in arrays.iter_mut().zip(loaded) {
        match (&mut array.values, loaded) {
            (ValuesMut::Double(to), Loaded::Double(from)) => **to = from,
            (ValuesMut::Particle(to), Loaded::Particle(from)) => **to = from,
            (ValuesMut::Pairs(to), Loaded::Pairs(from)) => **to = from,
            _ => unreachable!("made from the same list"),
        }
    }
    state.k = header.k;
    state.averages.steps = header.steps_averaged;
    state.batches.length = header.batch_length;
    state.batches.filled = header.batch_filled;
    state.batches.count = header.batch_count;
    state.kept.every = header.kept_every;
    state.acceptance = header.acceptance.clone();
    if let (Some(auto), Some(progress)) = (&mut state.auto, &header.auto) {
        auto.restore(progress.clone());
    }
    Ok(header)
}

/// Whether the clouds that are kept have as many particles as their sizes say.
fn kept_clouds_add_up<F: Real>(arrays: &[Array<ValuesMut<'_, F>>], loaded: &[Loaded<F>]) -> bool {
    let find = |name: &str| arrays.iter().position(|a| a.name == name).map(|i| (&arrays[i], &loaded[i]));
    let (Some((_, Loaded::Pairs(sizes))), Some((clouds, Loaded::Particle(data)))) =
        (find("kept.sizes"), find("kept.clouds"))
    else {
        return false;
    };
    let particles = sizes.iter().try_fold(0u64, |sum, [_, n]| sum.checked_add(*n));
    let d = clouds.grows.map_or(0, |(_, row)| row) as u64;
    particles.and_then(|n| n.checked_mul(d)) == Some(data.len() as u64)
}

/// The checkpoints of a run: files named by step, the newest two of them.
pub struct Generations {
    dir: PathBuf,
}

const EXTENSION: &str = "safetensors";

impl Generations {
    /// The checkpoints in `dir`, which is made when the first is written.
    pub fn new(dir: PathBuf) -> Self {
        Generations { dir }
    }

    /// Writes a generation and removes all but the newest two.
    pub fn write<F: Real>(&self, state: &State<F>, header: &Header) -> Result<(), Error> {
        fs::create_dir_all(&self.dir).map_err(Error::write(&self.dir))?;
        let path = self.file_of(state.k);
        write_atomically(&path, Durable::Yes, |out| encode(state, header, out))?;
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
            match decode(BufReader::with_capacity(1 << 16, file), state) {
                Ok(header) => return Ok((Some(header), warnings)),
                Err(problem) if is_whole(&path)? => {
                    let remedy =
                        "put back the config.toml and the motes that it was written with, or `fit-again()`";
                    return Err(Error::File { path, problem: format!("{problem}; {remedy}") });
                }
                Err(problem) => warnings.push(format!("{} {problem}", foreign_path(&path))),
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
            .filter(|p| p.extension().is_some_and(|e| e == EXTENSION))
            .collect();
        paths.sort_unstable_by(|a, b| b.cmp(a));
        Ok(paths)
    }

    fn file_of(&self, k: u64) -> PathBuf {
        self.dir.join(format!("{k:020}.{EXTENSION}"))
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
    let file = File::open(path).map_err(Error::read(path))?;
    let length = file.metadata().map_err(Error::read(path))?.len();
    let mut file = BufReader::with_capacity(1 << 16, file);
    let (mut checksum, mut chunk) = (crc32fast::Hasher::new(), [0; 1 << 13]);
    let mut left = length.saturating_sub(4);
    let mut read = |into: &mut [u8]| file.read_exact(into).map_err(Error::read(path));
    while left > 0 {
        let part = left.min(chunk.len() as u64) as usize;
        read(&mut chunk[..part])?;
        checksum.update(&chunk[..part]);
        left -= part as u64;
    }
    let mut stored = [0; 4];
    if length < 12 {
        return Ok(false);
    }
    read(&mut stored)?;
    Ok(checksum.finalize().to_le_bytes() == stored)
}

/// A short digest of a text, to tell whether a checkpoint belongs to it.
pub fn digest(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
}

/// The directory inside a run directory.
pub fn directory(run: &Path) -> PathBuf {
    run.join("checkpoint")
}
