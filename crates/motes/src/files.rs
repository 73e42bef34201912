//! Writing files so that a reader never sees half of one, and nobody else's file is touched on the way.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Error;

/// How the name of an unfinished file ends, so that leftovers of killed processes are known for what they are.
const UNFINISHED: &str = ".motes.tmp";
/// Random characters before that.
const RANDOM: usize = 8;
/// A file system takes names of 255 bytes: one that is nearly as long cannot have all of it in that of the unfinished file.
const LONGEST: usize = 200;

/// Whether a file must survive a crash of the machine, which costs some milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// It must: the run cannot be continued without it.
    Yes,
    /// It can be made again from what is durable.
    No,
}

/// Writes a file under a temporary name and renames it into place, so that no reader ever sees half of it.
///
/// The temporary file is a new one beside it, never one that is there already: a fixed name could be somebody's own file,
/// or a link to one.
pub fn write_atomically(
    path: &Path,
    durable: Durable,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().filter(|name| name.len() <= LONGEST).unwrap_or(OsStr::new("file"));
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(UNFINISHED).rand_bytes(RANDOM);
    let result = (|| {
        // Opened here, for the permissions that new files have: the crate's own files are for their owner alone.
        let open = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let (file, temporary) = builder.make_in(dir, open)?.into_parts();
        // For `sweep`, which must not take what is being written.
        let _ = file.try_lock();
        let mut file = BufWriter::with_capacity(1 << 16, file);
        write(&mut file)?;
        file.flush()?;
        if durable == Durable::Yes {
            file.get_ref().sync_all()?;
        }
        temporary.persist(path).map_err(|e| e.error)?;
        match durable {
            // The rename itself must survive too.
            Durable::Yes => File::open(dir)?.sync_all(),
            Durable::No => Ok(()),
        }
    })();
    result.map_err(Error::write(path))
}

/// Whether this is the name of a file that [`write_atomically`] has not finished.
pub fn is_unfinished(name: &OsStr) -> bool {
    let start = name.as_encoded_bytes().strip_suffix(UNFINISHED.as_bytes());
    let parts = start.and_then(|start| start.strip_prefix(b".")?.split_last_chunk::<{ RANDOM + 1 }>());
    parts.is_some_and(|(of, [dot, random @ ..])| {
        !of.is_empty() && *dot == b'.' && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// Removes what killed processes have left unfinished in a directory, and nothing that is being written. Leftovers are
/// in nobody's way: what cannot be removed stays.
pub fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        // Neither links nor pipes, which are not ours.
        if !is_unfinished(&entry.file_name()) || !entry.file_type().is_ok_and(|t| t.is_file()) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        // Whoever is writing it holds the lock, unless the file system has none.
        if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A field of a CSV file, in quotes where it needs them.
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn unfinished_files_are_known_by_their_names() {
        for (name, ours) in [
            (".a.csv.Ab12Cd34.motes.tmp", true),
            (".00000000000000000085.motes.zzzzzzzz.motes.tmp", true),
            ("a.csv.Ab12Cd34.motes.tmp", false),
            (".a.csv.Ab12Cd3.motes.tmp", false),
            (".a.csv.Ab12Cd3-.motes.tmp", false),
            (".Ab12Cd34.motes.tmp", false),
            ("..Ab12Cd34.motes.tmp", false),
            ("a.csv.tmp", false),
            ("", false),
        ] {
            assert_eq!(is_unfinished(OsStr::new(name)), ours, "{name}");
        }
    }

    #[test]
    fn a_file_in_the_making_has_a_new_name_that_only_the_dead_leave_behind() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("a.csv.tmp"), "mine").unwrap();
        fs::write(at(".a.csv.Ab12Cd34.motes.tmp"), "of a process that was killed").unwrap();
        let long = "x".repeat(255);
        for name in ["a.csv", &long] {
            write_atomically(&at(name), Durable::Yes, |out| {
                out.write_all(b"whole")?;
                sweep(place.path());
                let found: Vec<String> =
                    names(place.path()).into_iter().filter(|n| is_unfinished(OsStr::new(n))).collect();
                assert_eq!(found.len(), 1, "the leftover is gone, what is being written is not: {found:?}");
                assert!(!found[0].contains("Ab12Cd34"));
                Ok(())
            })
            .unwrap();
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "whole");
        }
        assert_eq!(names(place.path()), ["a.csv", "a.csv.tmp", &long]);
        assert_eq!(fs::read_to_string(at("a.csv.tmp")).unwrap(), "mine");
        // A failure leaves the old file and nothing else.
        let failed = write_atomically(&at("a.csv"), Durable::No, |out| {
            out.write_all(b"half")?;
            Err(std::io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().contains("free some space"));
        assert_eq!(names(place.path()), ["a.csv", "a.csv.tmp", &long]);
        assert_eq!(fs::read_to_string(at("a.csv")).unwrap(), "whole");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_has_the_permissions_of_any_other() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions().mode();
        fs::write(place.path().join("plain"), "").unwrap();
        write_atomically(&place.path().join("ours"), Durable::No, |_| Ok(())).unwrap();
        assert_eq!(mode("ours"), mode("plain"));
    }
}
