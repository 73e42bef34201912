//! The one way to read files that others have made: neither devices, nor directories, nor more than fits into memory.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;

use motes::memory::{available, size};
use motes::sentence::foreign_path;

use super::DataError;

/// What is read of a pipe at first.
const FIRST: usize = 1 << 16;
/// So little is read without a look at the memory, which takes longer than to read many a small file.
const LITTLE: usize = 1 << 20;

/// A file or a pipe, open for reading.
pub(super) struct Foreign {
    file: Box<dyn Read + Send>,
    /// How long a file is; of a pipe nobody knows.
    pub length: Option<u64>,
}

/// Why something cannot be read, and what to do about it.
struct Refusal {
    problem: String,
    remedy: &'static str,
}

impl Refusal {
    fn new(problem: impl Into<String>, remedy: &'static str) -> Self {
        Refusal { problem: problem.into(), remedy }
    }

    /// The sentence; `what` stands before the path, as in `the data`.
    fn of(self, path: &Path, what: &str) -> DataError {
        let gap = if what.is_empty() { "" } else { " " };
        DataError(format!("cannot read {what}{gap}{}: {}; {}", foreign_path(path), self.problem, self.remedy))
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::new(error.to_string(), "check the path")
    }
}

/// Reads a file or a pipe whole; `what` stands before its path in messages, as in `the data`, or is empty.
pub fn read_file(path: &Path, what: &str) -> Result<Vec<u8>, DataError> {
    read_file_of(path, what, u64::MAX, "")
}

/// The same for what cannot sensibly be longer than `most` bytes; `remedy` says what to give instead of a longer one.
pub fn read_file_of(path: &Path, what: &str, most: u64, remedy: &'static str) -> Result<Vec<u8>, DataError> {
    let too_long =
        || Refusal::new(format!("it is longer than {}", size(u128::from(most))), remedy).of(path, what);
    let file = open(path).map_err(|refusal| refusal.of(path, what))?;
    if file.length.is_some_and(|length| length > most) {
        return Err(too_long());
    }
    let bytes = whole(file, most, available).map_err(|refusal| refusal.of(path, what))?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// Opens a file or a pipe for readers that may not need all of it.
pub(super) fn open_file(path: &Path) -> Result<Foreign, DataError> {
    open(path).map_err(|refusal| refusal.of(path, ""))
}

/// Stands for standard input, as the name of a file.
const STDIN: &str = "-";

/// Whether a file can be read only once, so that whoever needs it again has to keep what was read.
pub fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == STDIN || fs::metadata(path).is_ok_and(|about| !about.is_file())
}

fn open(path: &Path) -> Result<Foreign, Refusal> {
    if path.as_os_str() == STDIN {
        return Ok(Foreign { file: Box::new(io::stdin()), length: None });
    }
    // Before it is opened, which a device might answer in its own way, and after, should it be another one by then.
    is_readable(fs::metadata(path)?.file_type())?;
    let file = File::open(path)?;
    let about = file.metadata()?;
    is_readable(about.file_type())?;
    Ok(Foreign { length: about.is_file().then_some(about.len()), file: Box::new(file) })
}

fn is_readable(kind: FileType) -> Result<(), Refusal> {
    if kind.is_dir() {
        return Err(Refusal::new("it is a directory", "give a file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_char_device() || kind.is_block_device() {
            return Err(Refusal::new("it is a device", "give a file or a pipe"));
        }
        if kind.is_socket() {
            return Err(Refusal::new("it is a socket", "give a file or a pipe"));
        }
    }
    Ok(())
}

/// All bytes, or a little more than `most` of them, as long as there is memory for them.
fn whole(mut source: Foreign, most: u64, available: impl Fn() -> Option<u128>) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    // One more byte than a file has: that there is none tells its end. Some files of the system say that they are empty.
    let mut room =
        source.length.map_or(FIRST, |l| usize::try_from(l).unwrap_or(usize::MAX)).saturating_add(1);
    loop {
        let left = if room > LITTLE { available() } else { None };
        let short = left.filter(|left| room as u128 > *left);
        // Where the system does not tell what there is, it may still refuse to give it.
        if short.is_some() || bytes.try_reserve_exact(room - bytes.len()).is_err() {
            return Err(too_much(source.length, bytes.len(), short));
        }
        let wanted = (room - bytes.len()) as u64;
        let read = source.by_ref().take(wanted).read_to_end(&mut bytes)? as u64;
        if read < wanted || bytes.len() as u64 > most {
            return Ok(bytes);
        }
        room = bytes.len().saturating_mul(2).max(FIRST);
    }
}

fn too_much(length: Option<u64>, read: usize, left: Option<u128>) -> Refusal {
    let left = left.map_or("no memory for that is left".into(), |left| {
        format!("{} of memory are available", size(left))
    });
    match length {
        Some(length) if read == 0 => {
            Refusal::new(format!("it has {} and {left}", size(length.into())), "give a smaller file")
        }
        _ => Refusal::new(format!("it goes on after {} and {left}", size(read as u128)), "give less data"),
    }
}

impl Read for Foreign {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.file.read(out)
    }
}

/// Refuses what would need more memory than there is, before any is asked for.
pub(super) fn room_for(need: u128, name: &str, what: &str, remedy: &str) -> Result<(), DataError> {
    match available() {
        Some(left) if need > left => Err(DataError(format!(
            "{name} has {what}, which take {} of memory, and {} are available; {remedy}",
            size(need),
            size(left)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(content: &[u8], length: Option<u64>) -> (tempfile::NamedTempFile, Foreign) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        let opened = Foreign { file: Box::new(File::open(file.path()).unwrap()), length };
        (file, opened)
    }

    #[test]
    fn all_is_read_whatever_length_was_told() {
        for n in [0, 1, 100, FIRST - 1, FIRST, FIRST + 1, 3 * FIRST, 1_000_000] {
            let content: Vec<u8> = (0..n).map(|i| (i * 7 % 251) as u8).collect();
            for length in [None, Some(0), Some(n as u64), Some(n as u64 / 2), Some(2 * n as u64)] {
                let (_file, source) = foreign(&content, length);
                assert!(whole(source, u64::MAX, || None).ok() == Some(content.clone()), "{n} {length:?}");
            }
        }
    }

    #[test]
    fn no_more_is_read_than_there_is_memory_for() {
        let content = vec![b'x'; 8 << 20];
        let refused = |length: Option<u64>, memory: u128| {
            let (_file, source) = foreign(&content, length);
            let refusal = whole(source, u64::MAX, || Some(memory)).expect_err("a refusal");
            refusal.of(Path::new("f"), "the data").to_string()
        };
        assert_eq!(
            refused(Some(8 << 20), 1000),
            "cannot read the data f: it has 8.0 MiB and 1000 bytes of memory are available; give a smaller file"
        );
        assert_eq!(
            refused(None, 3_000_000),
            "cannot read the data f: it goes on after 2.0 MiB and 2.9 MiB of memory are available; give less data"
        );
        let (_file, source) = foreign(&content, None);
        assert!(whole(source, 70_000, || None).is_ok_and(|bytes| bytes.len() < 300_000));
    }
}
