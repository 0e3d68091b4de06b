//! The store on disk: its parts put together, and its answers.

mod backend;
mod chunks;
mod commit;
mod files;
mod index;
mod layout;
mod lock;
mod open;
mod questions;
mod reconcile;
mod tables;

#[cfg(test)]
mod faults;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::ring::Kind;
use dht_core::register::{Ballot, Key, Register};
use dht_core::stats::StoreReport;

use self::chunks::{ChunkFolders, PartialChunk};
use self::commit::Committer;
use self::files::SystemFiles;
use self::index::Index;
use self::layout::Layout;
use self::lock::DirLock;
use self::tables::{Applied, Change, Entry};
use crate::error::{OpenError, StoreError};
use crate::options::Options;
use crate::space::Space;
use crate::store::{ChunkReader, ChunkWriter, Store, check_chunk_len, check_meta_len};

pub use self::reconcile::Recovery;

/// A store in a directory: registers and names in an embedded database, chunks in files of their
/// own. `docs/store.md` has the layout and why what is acknowledged stays.
pub struct DiskStore {
    shared: Arc<Shared>,
    recovery: Recovery,
}

struct Shared {
    chunks: ChunkFolders,
    index: Index,
    committer: Committer,
    layout: Layout,
    /// Taken out when the store ends. Last, so that it outlives the files it covers.
    lock: Mutex<Option<DirLock>>,
}

impl DiskStore {
    /// Opens the store in `dir`, and makes one where `options` allow it. After a crash it brings
    /// chunk files and index together first, which takes time by the number of chunk files, not by
    /// their bytes (measured: 10,000 files, well below a second).
    pub fn open(dir: &Path, options: Options) -> Result<DiskStore, OpenError> {
        open::open(dir, options, Arc::new(SystemFiles))
    }

    /// What opening had to mend.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.shared.layout.dir
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskStore").field("dir", &self.dir()).finish_non_exhaustive()
    }
}

/// Ends the store in order if nobody closed it; a failure then shows at the next start.
impl Drop for DiskStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(dir = %self.dir().display(), %error, "the store did not close in order");
        }
    }
}

impl Shared {
    fn submit(&self, change: Change) -> Result<Applied, StoreError> {
        self.committer.submit(change, |changes| self.index.apply(changes))
    }

    /// Refuses registers that may not fit, before the database runs into the end of the disk: it
    /// would have to be reopened. Generous, for most pages are used again: twice the bytes, two
    /// pages for each register, and some for the tree (guess).
    fn check_room(&self, entries: &[Entry]) -> Result<(), StoreError> {
        let bytes: usize = entries.iter().map(Entry::len).sum();
        let needed = 2 * bytes as u64 + 8192 * entries.len() as u64 + 64 * 1024;
        match self.chunks.space()? {
            Some(space) if space.available < needed => Err(StoreError::NoSpace {
                path: self.layout.index(),
                needed,
                available: Some(space.available),
                reserve: 0,
            }),
            _ => Ok(()),
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        let agree = self.chunks.close();
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            return Ok(());
        }
        let noted = if agree { self.submit(Change::Clean(true)).map(|_| ()) } else { Ok(()) };
        let closed = self.index.close();
        *lock = None;
        noted.and(closed)
    }
}

impl Store for DiskStore {
    fn load(&self, key: &Key) -> Result<Option<Register>, StoreError> {
        self.shared.index.read(|transaction| questions::load(transaction, key))
    }

    fn load_many(&self, ids: &[Id]) -> Result<Vec<Register>, StoreError> {
        self.shared.index.read(|transaction| questions::load_many(transaction, ids))
    }

    fn save(&self, registers: Vec<Register>) -> Result<Vec<Option<Ballot>>, StoreError> {
        let entries: Vec<Entry> = registers.iter().map(Entry::new).collect();
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        drop(registers);
        self.shared.check_room(&entries)?;
        Ok(self.shared.submit(Change::Save(entries))?.held)
    }

    fn digest(&self, kind: Kind, arc: Interval) -> Result<(ContentHash, u64), StoreError> {
        self.shared.index.read(|transaction| questions::digest(transaction, kind, arc))
    }

    fn list_registers(
        &self,
        arc: Interval,
        after: Option<Id>,
        limit: usize,
    ) -> Result<(Vec<(Id, Ballot)>, bool), StoreError> {
        let index = &self.shared.index;
        index.read(|transaction| questions::list_registers(transaction, arc, after, limit))
    }

    fn list_chunks(
        &self,
        arc: Interval,
        after: Option<Id>,
        limit: usize,
    ) -> Result<(Vec<ChunkRef>, bool), StoreError> {
        let index = &self.shared.index;
        index.read(|transaction| questions::list_chunks(transaction, arc, after, limit))
    }

    fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<(Vec<Register>, bool), StoreError> {
        let index = &self.shared.index;
        index.read(|transaction| questions::list_names(transaction, prefix, after, limit))
    }

    fn count_keys(&self, arc: Interval) -> Result<u64, StoreError> {
        self.shared.index.read(|transaction| questions::count_keys(transaction, arc))
    }

    fn has_chunk(&self, hash: &ContentHash) -> Result<bool, StoreError> {
        let row = self.shared.index.read(|transaction| tables::chunk_row(transaction, hash))?;
        Ok(row.is_some())
    }

    fn chunk_writer(&self, chunk: ChunkRef) -> Result<Box<dyn ChunkWriter>, StoreError> {
        check_chunk_len(&chunk)?;
        let partial = self.shared.chunks.begin(chunk)?;
        Ok(Box::new(DiskWriter { shared: self.shared.clone(), partial }))
    }

    fn open_chunk(&self, hash: &ContentHash) -> Result<Option<(u32, ChunkReader)>, StoreError> {
        let row = self.shared.index.read(|transaction| tables::chunk_row(transaction, hash))?;
        let Some(chunk) = row else { return Ok(None) };
        if let Some(file) = self.shared.chunks.read(&chunk)? {
            let reader: ChunkReader = Box::new(file);
            return Ok(Some((chunk.len, reader)));
        }
        // Gone or cut short from outside: it must not count as held, or nobody mends it.
        self.quarantine_chunk(hash)?;
        Ok(None)
    }

    fn quarantine_chunk(&self, hash: &ContentHash) -> Result<(), StoreError> {
        let shared = &self.shared;
        let row = shared.index.read(|transaction| tables::chunk_row(transaction, hash))?;
        let Some(chunk) = row else { return Ok(()) };
        let drop_row = || shared.submit(Change::ChunkGone(*hash)).map(|_| ());
        if shared.chunks.quarantine(&chunk, drop_row)? {
            let path = shared.layout.chunk(hash);
            tracing::warn!(path = %path.display(), "a chunk did not match its name; set aside");
        }
        Ok(())
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.index.read(|transaction| questions::meta(transaction, name))
    }

    fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        check_meta_len(value)?;
        self.shared.submit(Change::Meta(name.to_owned(), value.to_vec())).map(|_| ())
    }

    fn usage(&self) -> Result<StoreReport, StoreError> {
        self.shared.index.read(questions::usage)
    }

    fn space(&self) -> Result<Option<Space>, StoreError> {
        self.shared.chunks.space()
    }

    fn flush(&self) -> Result<(), StoreError> {
        if self.shared.index.has_unsynced() {
            self.shared.submit(Change::Flush)?;
        }
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        self.shared.close()
    }
}

/// A chunk on its way to the disk.
struct DiskWriter {
    shared: Arc<Shared>,
    partial: PartialChunk,
}

impl ChunkWriter for DiskWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.partial.write(bytes)
    }

    fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let DiskWriter { shared, partial } = *self;
        let file_row = |chunk| shared.submit(Change::ChunkAdded(chunk)).map(|_| ());
        shared.chunks.finish(partial, file_row)
    }
}
