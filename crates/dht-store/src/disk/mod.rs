//! The store on disk: opening it, and its answers.

mod backend;
mod chunks;
mod commit;
mod files;
mod index;
mod layout;
mod lock;
mod questions;
mod reconcile;
mod tables;

#[cfg(test)]
mod faults;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::ring::Kind;
use dht_core::register::{Ballot, Key, Register};
use dht_core::stats::StoreReport;

use self::backend::{Opener, open_file};
use self::chunks::{ChunkFolders, PartialChunk};
use self::commit::Committer;
use self::files::{Files, SystemFiles};
use self::index::{Index, create_database};
use self::layout::{Found, Layout, open_io};
use self::lock::DirLock;
use self::reconcile::reconcile;
use self::tables::{Applied, CLEAN, Change, Entry};
use crate::error::{OpenError, StoreError};
use crate::options::{DamagedIndex, Options};
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
        let opener = |path: PathBuf, cache: usize| -> Opener {
            Box::new(move |health| open_file(&path, cache, false, health))
        };
        DiskStore::open_with(dir, options, Arc::new(SystemFiles), opener)
    }

    /// As [`DiskStore::open`], on files that may fail.
    fn open_with(
        dir: &Path,
        options: Options,
        files: Arc<dyn Files>,
        opener: impl Fn(PathBuf, usize) -> Opener,
    ) -> Result<DiskStore, OpenError> {
        let layout = Layout { dir: dir.to_owned() };
        if layout.inspect(options.create)? == Found::Nothing {
            layout.create_dir(&*files)?;
        }
        let lock = DirLock::take(dir, &layout.lock())?;
        // Looked at again: another process may have made or changed it before we had the lock.
        let found = layout.inspect(options.create)?;
        layout.create_tmp(&*files)?;
        let mut recovery =
            Recovery { temporary: layout.clear_tmp(&*files)?, ..Recovery::default() };
        if found == Found::Nothing {
            layout.write_marker(&*files, false)?;
        }
        layout.create_folders(&*files)?;
        let open = || Index::open(&layout.index(), opener(layout.index(), options.cache_bytes));
        let index = if found == Found::Store {
            open_index(&layout, &*files, &options, &open, &mut recovery)?
        } else {
            if !layout.index().exists() {
                create_index(&layout, &*files, options.cache_bytes)?;
            }
            let index = open().map_err(|error| damaged(&layout, error))?;
            layout.write_marker(&*files, true)?;
            index
        };
        let chunks = ChunkFolders::new(layout.clone(), files, options.space, options.reserve_bytes);
        put_in_order(&layout, &chunks, &index, &mut recovery)
            .map_err(|source| OpenError::Store { dir: dir.to_owned(), source })?;
        let committer = Committer::new(layout.index());
        let lock = Mutex::new(Some(lock));
        let shared = Arc::new(Shared { chunks, index, committer, layout, lock });
        Ok(DiskStore { shared, recovery })
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

/// Opens the index of a store that has one, or does about it what the options say.
fn open_index(
    layout: &Layout,
    files: &dyn Files,
    options: &Options,
    open: &dyn Fn() -> Result<Index, Box<redb::Error>>,
    recovery: &mut Recovery,
) -> Result<Index, OpenError> {
    let path = layout.index();
    let there = path.try_exists().map_err(|source| open_io("read", &path, source))?;
    if there {
        match open() {
            Ok(index) => return Ok(index),
            // A disk that fails or is full says nothing about the index: it is left alone.
            Err(error) if !is_damage(&error) => return Err(damaged(layout, error)),
            Err(error) if options.damaged_index == DamagedIndex::Refuse => {
                return Err(damaged(layout, error));
            }
            Err(error) => {
                let aside = aside_name(layout);
                tracing::warn!(index = %path.display(), aside = %aside.display(), %error,
                    "the index is damaged: set aside, its registers are lost here");
                files.rename(&path, &aside).map_err(|source| open_io("move", &path, source))?;
                recovery.damaged_index = Some(aside);
            }
        }
    } else if options.damaged_index == DamagedIndex::Refuse {
        return Err(OpenError::IndexMissing { path });
    }
    create_index(layout, files, options.cache_bytes)?;
    open().map_err(|error| damaged(layout, error))
}

/// A name for a damaged index that nothing bears yet.
fn aside_name(layout: &Layout) -> PathBuf {
    (0u32..)
        .map(|n| layout.quarantine().join(format!("index.redb.{n}")))
        .find(|path| !path.exists())
        .expect("a directory has fewer names than there are numbers")
}

/// Makes an empty index under another name and moves it into place whole.
fn create_index(layout: &Layout, files: &dyn Files, cache_bytes: usize) -> Result<(), OpenError> {
    let path = layout.new_index();
    let opener: Opener = {
        let path = path.clone();
        Box::new(move |health| open_file(&path, cache_bytes, true, health))
    };
    create_database(&opener).map_err(|error| match *error {
        redb::Error::Io(source) => open_io("make", &path, source),
        other => OpenError::IndexDamaged { path: path.clone(), source: Box::new(other) },
    })?;
    files
        .rename(&path, &layout.index())
        .and_then(|()| files.sync_dir(&layout.dir))
        .map_err(|source| open_io("move into place", layout.index(), source))
}

/// Whether the file itself is wrong, not the disk under it.
fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Io(source) => {
            matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
        }
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        _ => false,
    }
}

fn damaged(layout: &Layout, error: Box<redb::Error>) -> OpenError {
    let path = layout.index();
    if is_damage(&error) {
        return OpenError::IndexDamaged { path, source: error };
    }
    match *error {
        redb::Error::Io(source) => open_io("open", path, source),
        other => open_io("open", path, io::Error::other(other)),
    }
}

/// Looks after a crash whether files and rows agree, and notes durably that from now on they may
/// not.
fn put_in_order(
    layout: &Layout,
    chunks: &ChunkFolders,
    index: &Index,
    recovery: &mut Recovery,
) -> Result<(), StoreError> {
    recovery.clean = index.read(|transaction| Ok(tables::state(transaction, CLEAN)? == 1))?;
    if !recovery.clean {
        reconcile(layout, chunks, index, recovery)?;
    }
    index.apply(&[Change::Clean(false)])?;
    Ok(())
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
