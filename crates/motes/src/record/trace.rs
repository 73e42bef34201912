//! `trace.csv` as a file that grows: locked, counted in bytes, cut back when a run goes on from a checkpoint.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::files::{is_unfinished, sweep};
use crate::sentence::foreign_path;

/// The trace of a run directory, open for writing at its end. Nobody else can open it for as long as it is.
pub struct TraceFile {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    /// The run directory, locked too: whoever deletes the trace does not let a second writer in.
    _run: Option<File>,
}

/// Makes a directory, or takes one that is empty but for what a false start has left.
pub fn make_directory(run: &Path) -> Result<(), Error> {
    match fs::read_dir(run) {
        Ok(mut entries) => match entries.any(|e| !e.is_ok_and(|e| is_false_start(&e))) {
            true => Err(not_empty(run)),
            false => Ok(()),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(run).map_err(Error::write(run))
        }
        Err(e) => Err(Error::write(run)(e)),
    }
}

impl TraceFile {
    /// Makes a run directory, or takes an empty one, and opens its trace.
    pub fn claim(run: &Path) -> Result<Self, Error> {
        make_directory(run)?;
        let trace = Self::open(run)?;
        match trace.bytes {
            0 => Ok(trace),
            _ => Err(not_empty(run)), // somebody else was faster
        }
    }

    /// Opens the trace of a run, or a new one; what it holds is kept until it is [replaced](Self::replace) or
    /// [cut back](Self::cut_back).
    pub fn open(run: &Path) -> Result<Self, Error> {
        let path = run.join("trace.csv");
        let lock = |file: &File| match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::Settings(format!(
                "another motes is writing to {}; wait for it, or stop it first",
                foreign_path(run)
            ))),
            // A file system without locks is no reason not to run.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        };
        // Some systems open no directories.
        let directory = File::open(run).ok();
        directory.as_ref().map_or(Ok(()), lock)?;
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = open.map_err(Error::write(&path))?;
        lock(&file)?;
        sweep(run);
        let bytes = file.metadata().map_err(Error::read(&path))?.len();
        Ok(TraceFile { path, file: BufWriter::with_capacity(1 << 16, file), bytes, _run: directory })
    }

    /// Refuses to go on where the run directory was moved away, or its trace deleted or replaced: what is written from
    /// now on would be half a run at the old place, or get into another's way.
    pub fn is_in_place(&self) -> Result<(), Error> {
        let there = fs::metadata(&self.path);
        let same = match (&there, self.file.get_ref().metadata()) {
            (Ok(there), Ok(ours)) => same_file(there, &ours),
            (Err(e), _) => e.kind() != std::io::ErrorKind::NotFound,
            // What cannot be told will show when it is written to.
            _ => true,
        };
        match same {
            true => Ok(()),
            false => Err(Error::File {
                path: self.path.clone(),
                problem: "was moved, deleted or replaced while the run was writing to it; `resume()` the run where it is now, or `fit-again()`"
                    .into(),
            }),
        }
    }

    /// How long the trace is, with what is still to be written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes a text in place of all that is there.
    pub fn replace(&mut self, text: &[u8]) -> Result<(), Error> {
        let rewound = self.file.rewind().and_then(|()| self.file.get_ref().set_len(0));
        rewound.map_err(Error::write(&self.path))?;
        self.bytes = 0;
        self.append(text)?;
        // Whoever reads the run of a process at work finds at least the names of the columns.
        self.file.flush().map_err(Error::write(&self.path))
    }

    /// Forgets what comes after the first `bytes`.
    pub fn cut_back(&mut self, bytes: u64) -> Result<(), Error> {
        if self.bytes < bytes {
            if self.bytes == 0 {
                // It was not there, or as good as not.
                let _ = fs::remove_file(&self.path);
            }
            return Err(Error::File {
                path: self.path.clone(),
                problem: format!("has lost rows ({} of {bytes} bytes are left); `fit-again()`", self.bytes),
            });
        }
        let cut = self.file.get_ref().set_len(bytes).and_then(|()| self.file.seek(SeekFrom::End(0)));
        self.bytes = cut.map_err(Error::write(&self.path))?;
        Ok(())
    }

    /// Adds rows.
    pub fn append(&mut self, rows: &[u8]) -> Result<(), Error> {
        self.bytes += rows.len() as u64;
        self.file.write_all(rows).map_err(|e| Error::write(&self.path)(e))
    }

    /// Brings all rows to the disk, if they still have their place there.
    pub fn sync(&mut self) -> Result<(), Error> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        synced.map_err(Error::write(&self.path))?;
        self.is_in_place()
    }
}

/// Whether two files are one.
#[cfg(unix)]
fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Where that cannot be told: a file that is open can be neither moved nor replaced there.
#[cfg(not(unix))]
fn same_file(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

fn not_empty(run: &Path) -> Error {
    Error::Settings(format!(
        "{} is not empty and is left as it is; choose another `out`, or continue that run with `resume()`",
        foreign_path(run)
    ))
}

/// Whether an entry is what a run leaves behind that was killed before its config was written.
fn is_false_start(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let empty = || entry.metadata().is_ok_and(|m| m.is_file() && m.len() == 0);
    is_unfinished(&name) || (name == "trace.csv" && empty())
}
