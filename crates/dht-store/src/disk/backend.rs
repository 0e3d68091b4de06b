//! The index file as the database sees it, and what is remembered of its failures.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend};

use super::files::private;

/// What a backend could not do, for as long as its store is open.
#[derive(Debug, Default)]
pub(crate) struct Health {
    sync_failed: AtomicBool,
}

impl Health {
    /// Whether a sync failed. The system may then have thrown away what it could not write and
    /// still show it to readers, so that a second sync succeeds and says nothing: only a disk that
    /// was looked at and a new start end this.
    pub(crate) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }
}

/// Opens the database; called again after a failure of its file.
pub(crate) type Opener = Box<dyn Fn(&Arc<Health>) -> Result<Database, DatabaseError> + Send + Sync>;

/// An index up to this size is read and checked as a whole whenever it is opened: an eighth of a
/// second at worst (measured: 570 MiB take 0.4 s from memory). Larger ones are checked only after
/// a crash, as the database does by itself; each register carries its own check anyhow.
const CHECKED_LEN: u64 = 64 * 1024 * 1024;

/// Opens the index file at `path`, and makes it if `create` says so.
pub(crate) fn open_file(
    path: &Path,
    cache_bytes: usize,
    create: bool,
    health: &Arc<Health>,
) -> Result<Database, DatabaseError> {
    let file = private().create_new(create).open(path)?;
    let len = file.metadata()?.len();
    if len == 0 && !create {
        // The database would take an empty file for a new one: registers would vanish in silence.
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty");
        return Err(source.into());
    }
    let backend = Watched { inner: FileBackend::new(file)?, health: health.clone() };
    open_backend(backend, cache_bytes, len <= CHECKED_LEN)
}

/// Opens a database on any backend. With `check`, all of it is read and verified.
pub(crate) fn open_backend(
    backend: impl StorageBackend,
    cache_bytes: usize,
    check: bool,
) -> Result<Database, DatabaseError> {
    Builder::new()
        .set_cache_size(cache_bytes)
        .set_check_integrity_on_open(check)
        .create_with_backend(backend)
}

/// Passes everything on and notes failed syncs. Locks are not passed on: the directory's own lock
/// covers the file.
#[derive(Debug)]
pub(crate) struct Watched<B> {
    inner: B,
    health: Arc<Health>,
}

impl<B> Watched<B> {
    #[cfg(test)]
    pub(crate) fn new(inner: B, health: &Arc<Health>) -> Watched<B> {
        Watched { inner, health: health.clone() }
    }
}

impl<B: StorageBackend> StorageBackend for Watched<B> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner
            .sync_data()
            .inspect_err(|_| self.health.sync_failed.store(true, Ordering::Release))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}
