//! Drives the real binary in a directory of its own and compares run directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use motes::npz::{Array, read_npz};
use serde_json::Value;

/// A temporary directory in which `motes` runs.
pub struct Place(tempfile::TempDir);

/// An array of a run's posterior.npz.
pub fn array(run: &Path, name: &str) -> Array {
    read_npz(fs::File::open(run.join("posterior.npz")).unwrap(), name).unwrap()
}

/// What a process left behind.
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    pub call: String,
}

/// The command, without arguments.
pub fn motes() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motes"));
    command.env("RUST_BACKTRACE", "1").stdin(Stdio::null());
    command
}

/// These flags after the paper's first algorithm, unless they name another.
pub fn by_pgd(flags: &str) -> String {
    if flags.contains("--algorithm") { flags.into() } else { format!("--algorithm pgd {flags}") }
}

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// One in memory if there is such a place: hundreds of small runs would wait for the disk most of the time.
    pub fn in_memory() -> Self {
        Place(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file inside.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Makes a named pipe inside.
    pub fn pipe(&self, name: &str) {
        assert!(Command::new("mkfifo").arg(self.path(name)).status().unwrap().success());
    }

    /// Runs a line of the shell in which `$motes` is the command.
    pub fn shell(&self, line: &str) -> Done {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("motes", env!("CARGO_BIN_EXE_motes")).env("RUST_BACKTRACE", "1");
        Done::of(command.current_dir(self.0.path()).stdin(Stdio::null()))
    }

    /// Reads a text file inside.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The command with these blank-separated arguments.
    pub fn command(&self, words: &str) -> Command {
        let mut command = motes();
        command.args(words.split_whitespace()).current_dir(self.0.path());
        command
    }

    /// Runs it to its end.
    pub fn motes(&self, words: &str) -> Done {
        Done::of(&mut self.command(words))
    }

    /// Starts it and does not wait.
    pub fn spawn(&self, words: &str) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it and expects success without a word.
    pub fn quietly(&self, words: &str) {
        let done = self.motes(&format!("{words} --quiet"));
        done.ok();
        assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""), "{}", done.call);
    }

    /// The same without a report, which takes longer than a small run.
    pub fn bare(&self, words: &str) {
        self.quietly(&format!("{words} --no-report"));
    }

    /// Expects a refusal in one sentence that contains all these pieces, and that nothing was written.
    pub fn refuses(&self, words: &str, pieces: &[&str]) -> String {
        let before = self.tree();
        let done = self.motes(words);
        let sentence = done.refused(pieces);
        assert_eq!(before, self.tree(), "`{words}` touched files");
        sentence
    }

    /// All files with their contents; directories end in a slash.
    pub fn tree(&self) -> Vec<(PathBuf, Vec<u8>)> {
        tree(self.0.path())
    }
}

impl Done {
    pub fn of(command: &mut Command) -> Done {
        let call = format!("{command:?}");
        Done::from(command.output().unwrap(), call)
    }

    /// Waits for a process.
    pub fn wait(child: Child) -> Done {
        Done::from(child.wait_with_output().unwrap(), "a child".into())
    }

    fn from(output: std::process::Output, call: String) -> Done {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let done =
            Done { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr), call };
        for sign in ["panicked", "RUST_BACKTRACE", "stack backtrace", "overflowed its stack"] {
            assert!(!done.err.contains(sign), "{} crashed: {}", done.call, done.err);
        }
        done
    }

    /// Expects success.
    #[track_caller]
    pub fn ok(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{} says: {}", self.call, self.err);
        self
    }

    /// Expects exit code 2 and one sentence with these pieces, which is returned.
    #[track_caller]
    pub fn refused(&self, pieces: &[&str]) -> String {
        assert_eq!(self.code, Some(2), "{} says: {}{}", self.call, self.err, self.out);
        assert_eq!(self.err.lines().count(), 1, "{} says more than one line: {}", self.call, self.err);
        assert!(self.err.ends_with('\n') && self.out.is_empty(), "{}: {:?}", self.call, self.out);
        let sentence = self.err.trim_end().strip_prefix("motes: ").expect("it begins with motes:");
        for piece in pieces {
            assert!(sentence.contains(piece), "{}: '{sentence}' lacks '{piece}'", self.call);
        }
        sentence.to_string()
    }
}

/// All files below with their contents, sorted.
pub fn tree(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.push((path.join(""), Vec::new()));
                open.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.push((path, content));
            }
        }
    }
    found.sort();
    found
}

/// Copies a run directory.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The summary as JSON.
pub fn summary(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap()
}

/// A number in the summary.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// The numbers of an array.
pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array")).iter().map(number).collect()
}

/// Where a fit by auto keeps the end of theta's stage, beside its checkpoints.
const THETA_STAGE: &str = "theta-stage.bin";

/// The checkpoint files, oldest first.
pub fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = match fs::read_dir(run.join("checkpoint")) {
        Ok(entries) => entries.map(|e| e.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.retain(|file| !file.ends_with(THETA_STAGE));
    files.sort();
    files
}

/// What a checkpoint knows besides its arrays, without the time spent, and the arrays.
pub fn checkpoint_state(file: &Path) -> (Value, Vec<u8>) {
    let bytes = fs::read(file).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let tensors: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let own = tensors["__metadata__"]["motes"].as_str().expect("a checkpoint of Motes");
    let mut header: Value = serde_json::from_str(own).unwrap();
    header.as_object_mut().unwrap().remove("seconds").expect("a checkpoint knows its time");
    (header, bytes[8 + length..bytes.len() - 4].to_vec())
}

/// Expects that two finished runs agree in every bit but the time they took.
#[track_caller]
pub fn same_bits(a: &Path, b: &Path) {
    // The last of them are a generator's.
    let pictures = ["weights.safetensors", "pictures/samples.png", "pictures/reconstructions.png"];
    let others = pictures.into_iter().filter(|file| a.join(file).exists());
    for file in ["trace.csv", "posterior.npz"].into_iter().chain(others) {
        let (left, right) = (fs::read(a.join(file)).unwrap(), fs::read(b.join(file)).unwrap());
        let first = left.iter().zip(&right).position(|(l, r)| l != r);
        assert!(
            left == right,
            "{file} differs between {} ({} bytes) and {} ({} bytes), first at {first:?}",
            a.to_string_lossy(),
            left.len(),
            b.to_string_lossy(),
            right.len()
        );
    }
    let state = |run: &Path| checkpoint_state(checkpoints(run).last().expect("a checkpoint"));
    let ((left_header, left), (right_header, right)) = (state(a), state(b));
    assert_eq!(
        left_header,
        right_header,
        "checkpoints of {} and {}",
        a.to_string_lossy(),
        b.to_string_lossy()
    );
    assert!(
        left == right,
        "the checkpoint arrays of {} and {} differ",
        a.to_string_lossy(),
        b.to_string_lossy()
    );
    let [left, right] = [a, b].map(|run| run.join("checkpoint").join(THETA_STAGE));
    assert_eq!(left.exists(), right.exists(), "{} and {}", left.to_string_lossy(), right.to_string_lossy());
    if left.exists() {
        let same = checkpoint_state(&left) == checkpoint_state(&right);
        assert!(same, "{} and {} differ", left.to_string_lossy(), right.to_string_lossy());
    }
    let timeless = |run: &Path| {
        let mut json = summary(run);
        json.as_object_mut().unwrap().remove("time").expect("a summary knows its time");
        json
    };
    assert_eq!(timeless(a), timeless(b), "summaries of {} and {}", a.to_string_lossy(), b.to_string_lossy());
}

/// Expects that nothing temporary is left.
#[track_caller]
pub fn tidy(run: &Path) {
    let left: Vec<PathBuf> = tree(run).into_iter().map(|(p, _)| p).collect();
    assert!(left.iter().all(|p| p.extension().is_none_or(|e| e != "tmp")), "{left:?}");
}

/// Sends a signal by its name.
#[track_caller]
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Ends a process after a while without warning. Whether it had not yet ended by itself.
pub fn kill_after(mut child: Child, wait: std::time::Duration) -> bool {
    std::thread::sleep(wait);
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    let done = Done::wait(child);
    if !running {
        done.ok();
    }
    running
}

/// The signals that end a run in good order.
pub fn signals() -> Vec<&'static str> {
    // Below `nohup` SIGHUP is ignored, here and in every process that is started here.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let hangup_is_ignored = u64::from_str_radix(ignored, 16).unwrap_or(0) & 1 != 0;
    if hangup_is_ignored { vec!["INT", "TERM"] } else { vec!["INT", "TERM", "HUP"] }
}

/// A small generator of pseudo-random numbers (splitmix64), the same in every run of the tests.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// An IDX file of bytes.
pub fn idx(dims: &[usize], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    dims.iter().for_each(|d| bytes.extend((*d as u32).to_be_bytes()));
    bytes.extend(content);
    bytes
}

/// The same in a gzip file without compression (RFC 1952 around stored blocks of RFC 1951).
pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = content.chunks(65_535).peekable();
    while let Some(block) = blocks.next() {
        bytes.push(u8::from(blocks.peek().is_none()));
        bytes.extend((block.len() as u16).to_le_bytes());
        bytes.extend((!(block.len() as u16)).to_le_bytes());
        bytes.extend(block);
    }
    bytes.extend(crc32fast::hash(content).to_le_bytes());
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes
}
