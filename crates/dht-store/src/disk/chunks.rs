//! Chunk files: written aside, synced, moved into place, and moved aside again when they rot.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use dht_core::manifest::{ChunkRef, ContentHash};

use super::files::{Files, NewFile};
use super::layout::Layout;
use crate::error::{StoreError, hex};
use crate::space::{Promise, Promised, Space, SpaceProbe, reserve};

/// Most files that are kept aside for inspection; the oldest goes first (guess).
const MAX_QUARANTINED: usize = 64;
/// Bytes that are read at once to check a file.
const READ_LEN: usize = 64 * 1024;

/// The folders of chunk files.
pub(crate) struct ChunkFolders {
    layout: Layout,
    files: Arc<dyn Files>,
    space: SpaceProbe,
    reserve_bytes: u64,
    promised: Arc<Promised>,
    /// Which of the 256 folders are known to be there, durably.
    folders: Mutex<[bool; 256]>,
    next_name: AtomicU64,
    /// Files come into place under a shared lock and leave it under an exclusive one, each together
    /// with the row that says so. Closed is what it says once the store ended.
    closed: RwLock<bool>,
    /// A file is in place whose row could not be written: the next start must look again.
    astray: AtomicBool,
}

impl ChunkFolders {
    /// In the directories of `layout`, which are there.
    pub(crate) fn new(
        layout: Layout,
        files: Arc<dyn Files>,
        space: SpaceProbe,
        reserve_bytes: u64,
    ) -> ChunkFolders {
        ChunkFolders {
            layout,
            files,
            space,
            reserve_bytes,
            promised: Arc::default(),
            folders: Mutex::new([false; 256]),
            next_name: AtomicU64::new(0),
            closed: RwLock::new(false),
            astray: AtomicBool::new(false),
        }
    }

    /// Starts a file for a chunk, if there is room for it beside the reserve.
    pub(crate) fn begin(&self, chunk: ChunkRef) -> Result<PartialChunk, StoreError> {
        drop(self.enter()?);
        let promise = self.promise(chunk.len.into())?;
        let number = self.next_name.fetch_add(1, Ordering::Relaxed);
        let path = self.layout.tmp().join(format!("chunk-{number}"));
        let file =
            self.files.create(&path).map_err(|source| StoreError::io("make", &path, source))?;
        Ok(PartialChunk {
            chunk,
            path,
            file: Ok(file),
            files: self.files.clone(),
            hasher: blake3::Hasher::new(),
            received: 0,
            promise,
        })
    }

    /// Checks what came, makes it durable in its place, and lets `file_row` write the row, all
    /// while no other call can move the file away again.
    pub(crate) fn finish(
        &self,
        mut partial: PartialChunk,
        file_row: impl FnOnce(ChunkRef) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        partial.verify()?;
        partial.sync()?;
        let chunk = partial.chunk;
        let open = self.enter()?;
        let folder = self.folder(chunk.hash[0])?;
        let path = self.layout.chunk(&chunk.hash);
        self.files
            .rename(&partial.path, &path)
            .map_err(|source| StoreError::io("move into place", &path, source))?;
        // From here on the file is in place: it must get a row now or at the next start.
        partial.file_moved();
        let filed = self
            .files
            .sync_dir(&folder)
            .map_err(|source| StoreError::io("sync", &folder, source))
            .and_then(|()| file_row(chunk));
        if filed.is_err() {
            self.astray.store(true, Ordering::Release);
        }
        drop(open);
        filed
    }

    /// Opens the file of a chunk; `None` if it is not there or has another length than its row says.
    pub(crate) fn read(&self, chunk: &ChunkRef) -> Result<Option<File>, StoreError> {
        let path = self.layout.chunk(&chunk.hash);
        let fault = |source| StoreError::io("read", &path, source);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(fault(source)),
        };
        let len = file.metadata().map_err(fault)?.len();
        Ok((len == u64::from(chunk.len)).then_some(file))
    }

    /// Looks at a chunk's file once more. If it is not what its name says, moves it aside and lets
    /// `drop_row` take back the row; answers whether it did.
    pub(crate) fn quarantine(
        &self,
        chunk: &ChunkRef,
        drop_row: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let closed = self.closed.write().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(StoreError::Closed);
        }
        if self.read(chunk)?.is_some_and(|file| is_whole(file, &chunk.hash)) {
            return Ok(false);
        }
        // The file goes first: a row without a file is noticed at the next start, but a rotten file
        // without a row would be taken for a chunk.
        let moved = self.set_aside(&chunk.hash);
        if moved.is_err() {
            self.astray.store(true, Ordering::Release);
        }
        drop_row()?;
        moved.map(|()| true)
    }

    /// Moves a file whose bytes are wrong out of its folder, durably. It may be gone already.
    pub(crate) fn set_aside(&self, hash: &ContentHash) -> Result<(), StoreError> {
        let from = self.layout.chunk(hash);
        let aside = self.layout.quarantine();
        self.make_room_aside()?;
        let fault = |source| StoreError::io("move aside", &from, source);
        let to = (0..MAX_QUARANTINED)
            .map(|n| aside.join(format!("{}.{n}", hex(hash))))
            .find(|path| !path.exists());
        let moved = match to {
            Some(to) => self.files.rename(&from, &to),
            None => self.files.remove(&from),
        };
        match moved {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(fault)?,
        }
        let folder = self.layout.folder(hash[0]);
        self.files.sync_dir(&folder).map_err(|source| StoreError::io("sync", &folder, source))
    }

    fn make_room_aside(&self) -> Result<(), StoreError> {
        let aside = self.layout.quarantine();
        let fault = |source| StoreError::io("read", &aside, source);
        let mut kept = Vec::new();
        for entry in fs::read_dir(&aside).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            // A damaged index lies here too; that one stays until somebody has looked at it.
            if hash_of_name(&entry.path().with_extension("")).is_none() {
                continue;
            }
            kept.push((entry.metadata().and_then(|data| data.modified()).ok(), entry.path()));
        }
        kept.sort();
        let surplus = (kept.len() + 1).saturating_sub(MAX_QUARANTINED);
        for (_, path) in kept.iter().take(surplus) {
            self.files.remove(path).map_err(|source| StoreError::io("remove", path, source))?;
        }
        Ok(())
    }

    /// Refuses bytes that would eat into the reserve; else promises them.
    fn promise(&self, needed: u64) -> Result<Promise, StoreError> {
        let (room, kept) = match self.space()? {
            Some(space) => {
                let kept = reserve(self.reserve_bytes, space.total);
                (space.available.saturating_sub(kept), kept)
            }
            None => (u64::MAX, 0),
        };
        self.promised.promise(needed, room).map_err(|left| StoreError::NoSpace {
            path: self.layout.chunks(),
            needed,
            available: Some(left.saturating_add(kept)),
            reserve: kept,
        })
    }

    /// How much room there is.
    pub(crate) fn space(&self) -> Result<Option<Space>, StoreError> {
        let dir = &self.layout.dir;
        (self.space)(dir).map_err(|source| StoreError::io("ask for the space of", dir, source))
    }

    /// Ends all changes of files: waits for those that run, refuses later ones. Answers whether
    /// files and rows agree.
    pub(crate) fn close(&self) -> bool {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        !self.astray.load(Ordering::Acquire)
    }

    fn enter(&self) -> Result<RwLockReadGuard<'_, bool>, StoreError> {
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *closed { Err(StoreError::Closed) } else { Ok(closed) }
    }

    /// One of the folders, made durably when its first chunk comes: 256 empty ones would cost an
    /// idle node a MiB of disk.
    fn folder(&self, number: u8) -> Result<PathBuf, StoreError> {
        let path = self.layout.folder(number);
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut folders[usize::from(number)];
        if !*known {
            let chunks = self.layout.chunks();
            self.files
                .create_dir(&path)
                .and_then(|()| self.files.sync_dir(&chunks))
                .map_err(|source| StoreError::io("make", &path, source))?;
            *known = true;
        }
        Ok(path)
    }
}

/// A chunk that is being written. Dropping it takes the file away.
#[derive(Debug)]
pub(crate) struct PartialChunk {
    chunk: ChunkRef,
    path: PathBuf,
    /// Until it is synced; after a failure, that: how much of a write arrived is unknown then, so
    /// nothing can follow.
    file: Result<Box<dyn NewFile>, StoreError>,
    files: Arc<dyn Files>,
    hasher: blake3::Hasher,
    received: u64,
    promise: Promise,
}

impl PartialChunk {
    /// Appends bytes, up to the announced length.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let received = self.received + bytes.len() as u64;
        if received > u64::from(self.chunk.len) {
            return Err(StoreError::Mismatch { chunk: self.chunk, received, actual: None });
        }
        let file = self.file.as_mut().map_err(|error| error.clone())?;
        if let Err(source) = file.write(bytes) {
            let error = StoreError::io("write", &self.path, source);
            self.file = Err(error.clone());
            return Err(error);
        }
        self.hasher.update(bytes);
        self.received = received;
        self.promise.written(bytes.len() as u64);
        Ok(())
    }

    fn verify(&self) -> Result<(), StoreError> {
        self.file.as_ref().map_err(|error| error.clone())?;
        let (chunk, received) = (self.chunk, self.received);
        if received != u64::from(chunk.len) {
            return Err(StoreError::Mismatch { chunk, received, actual: None });
        }
        let actual = *self.hasher.finalize().as_bytes();
        if actual != chunk.hash {
            return Err(StoreError::Mismatch { chunk, received, actual: Some(actual) });
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let file = self.file.as_mut().map_err(|error| error.clone())?;
        file.sync().map_err(|source| StoreError::io("sync", &self.path, source))
    }

    /// Its file bears its final name now.
    fn file_moved(&mut self) {
        self.path = PathBuf::new();
    }
}

impl Drop for PartialChunk {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = self.files.remove(&self.path) {
            // The next start takes it away.
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a temporary file");
        }
    }
}

/// Whether the bytes of a file are those that its name says. What cannot be read is not.
fn is_whole(mut file: File, hash: &ContentHash) -> bool {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_LEN];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return hasher.finalize().as_bytes() == hash,
            Ok(len) => {
                hasher.update(&buffer[..len]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// The hash that a chunk file is named by; `None` for any other name.
pub(crate) fn hash_of_name(path: &Path) -> Option<ContentHash> {
    let name = path.file_name()?.to_str()?;
    let digits = name.as_bytes();
    if digits.len() != 64 || !digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut hash = ContentHash::default();
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}
