//! Writing files so that a reader never sees half of one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Error;

/// Writes a file under a temporary name, syncs it, and renames it into place.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let result = (|| {
        let mut file = BufWriter::with_capacity(1 << 16, File::create(&temporary)?);
        write(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        fs::rename(&temporary, path)?;
        // The rename itself must survive a crash too.
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    })();
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(Error::write(path))
}
