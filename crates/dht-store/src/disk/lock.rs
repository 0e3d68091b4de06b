//! One process, and in it one store, for a directory.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::files::private;
use super::layout::open_io;
use crate::error::OpenError;

/// Longest text of a lock file that is read: a process number has ten digits at most.
const MAX_TEXT: u64 = 32;

/// The lock on a directory. The system holds it for the open file, so it ends with the process
/// however that ends; the number in the file is for people.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
}

impl DirLock {
    /// Takes the lock on `dir`, whose lock file is `path`, and writes this process's number into it.
    pub(crate) fn take(dir: &Path, path: &Path) -> Result<DirLock, OpenError> {
        let file = private()
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|source| open_io("open", path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse { dir: dir.to_owned(), holder: holder(file) });
            }
            Err(TryLockError::Error(source)) => return Err(open_io("lock", path, source)),
        }
        let mut lock = DirLock { file };
        // A disk without room for a number can still be read from: then the holder is unnamed.
        if let Err(error) = lock.sign() {
            tracing::warn!(path = %path.display(), %error, "cannot write the lock's holder");
        }
        Ok(lock)
    }

    fn sign(&mut self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(format!("{}\n", std::process::id()).as_bytes())
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // The next holder is locked in before it has signed: until then nobody shall be named.
        let _ = self.file.set_len(0);
        // Closing would do, but for a process that is just being started: it has a copy of the
        // file for a moment, and the lock would last as long.
        let _ = self.file.unlock();
    }
}

/// Who holds the lock, as far as the file says.
fn holder(file: File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_TEXT).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
