//! A directory for readers of files.

use std::path::PathBuf;

use tempfile::TempDir;

/// A directory that is removed in the end, in memory if there is such a place: it is written to thousands of times.
pub struct Scratch(TempDir);

impl Scratch {
    /// A new, empty one.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Scratch(dir.expect("a temporary directory"))
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file inside.
    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a place to write to");
    }
}
