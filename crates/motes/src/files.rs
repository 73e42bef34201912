//! Writing files so that a reader never sees half of one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Error;

/// Whether a file must survive a crash of the machine, which costs some milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// It must: the run cannot be continued without it.
    Yes,
    /// It can be made again from what is durable.
    No,
}

/// Writes a file under a temporary name and renames it into place, so that no reader ever sees half of it.
pub fn write_atomically(
    path: &Path,
    durable: Durable,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let result = (|| {
        let mut file = BufWriter::with_capacity(1 << 16, File::create(&temporary)?);
        write(&mut file)?;
        file.flush()?;
        if durable == Durable::No {
            return fs::rename(&temporary, path);
        }
        file.get_ref().sync_all()?;
        fs::rename(&temporary, path)?;
        // The rename itself must survive too.
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    })();
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(Error::write(path))
}

/// A field of a CSV file, in quotes where it needs them.
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}
