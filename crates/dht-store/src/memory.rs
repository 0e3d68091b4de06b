//! The twin that keeps nothing: for nodes that run in memory, and for tests.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::ring::Kind;
use dht_core::register::{Ballot, Key, Register, Value};
use dht_core::stats::StoreReport;

use crate::arcs::{Stretch, stretches};
use crate::error::StoreError;
use crate::record::{Digest, Place, place_key, split_place_key};
use crate::space::Space;
use crate::store::{
    ChunkReader, ChunkWriter, MAX_NAMES_BYTES, Store, check_chunk_len, check_meta_len, names_from,
    value_len,
};

/// A store in memory. It ends with the process; until then it answers as [`DiskStore`] does.
///
/// [`DiskStore`]: crate::DiskStore
#[derive(Debug)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    held: Mutex<Held>,
    limit: u64,
}

/// Everything that is held.
#[derive(Debug, Default)]
struct Held {
    registers: BTreeMap<Bytes, Register>,
    places: BTreeMap<Vec<u8>, Place>,
    chunks: BTreeMap<[u8; Id::LEN], (ContentHash, Bytes)>,
    meta: BTreeMap<String, Vec<u8>>,
    chunk_bytes: u64,
    tombstones: u64,
    closed: bool,
}

impl MemoryStore {
    /// Bytes of chunks that [`MemoryStore::new`] takes: 1 GiB (guess: what a machine can spare
    /// without being asked).
    pub const DEFAULT_LIMIT: u64 = 1024 * 1024 * 1024;

    /// An empty store for up to [`MemoryStore::DEFAULT_LIMIT`] bytes of chunks.
    pub fn new() -> MemoryStore {
        MemoryStore::with_limit(MemoryStore::DEFAULT_LIMIT)
    }

    /// An empty store for up to `limit` bytes of chunks; more is [`StoreError::NoSpace`].
    pub fn with_limit(limit: u64) -> MemoryStore {
        MemoryStore { shared: Arc::new(Shared { held: Mutex::default(), limit }) }
    }

    /// Flips a bit of a held chunk, as a rotting disk would: for tests of what follows. Answers
    /// whether there was a bit to flip.
    pub fn rot_chunk(&self, hash: &ContentHash) -> bool {
        let mut held = self.shared.lock();
        let Some((name, bytes)) = held.chunks.get_mut(&Id::of_chunk(hash).to_bytes()) else {
            return false;
        };
        if name != hash || bytes.is_empty() {
            return false;
        }
        let mut rotten = bytes.to_vec();
        rotten[0] ^= 1;
        *bytes = Bytes::from(rotten);
        true
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl Shared {
    /// A panic in another call cannot leave the maps half-changed: each call changes them last.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, Held>, StoreError> {
        let held = self.lock();
        if held.closed { Err(StoreError::Closed) } else { Ok(held) }
    }
}

impl Held {
    fn save(&mut self, register: Register) -> Option<Ballot> {
        let held = self.registers.get(register.key.as_bytes());
        if !register.supersedes(held) {
            return held.map(|held| held.ballot).filter(|ballot| *ballot > register.ballot);
        }
        let was_deleted = held.is_some_and(|held| held.value == Value::Deleted);
        let place = Place::of(&register);
        self.tombstones += u64::from(place.deleted);
        self.tombstones -= u64::from(was_deleted);
        self.places.insert(place_key(&register.key), place);
        self.registers.insert(Bytes::copy_from_slice(register.key.as_bytes()), register);
        None
    }

    fn places(&self, stretch: &Stretch) -> impl Iterator<Item = (Id, &[u8], &Place)> {
        let (from, to) = stretch.bounds();
        self.places.range((from.map(Vec::from), to.map(Vec::from))).filter_map(|(key, place)| {
            let (id, name) = split_place_key(key)?;
            Some((id, name, place))
        })
    }

    fn chunks(&self, stretch: &Stretch) -> impl Iterator<Item = ChunkRef> {
        self.chunks.range(stretch.bounds()).map(|(_, (hash, bytes))| chunk_ref(hash, bytes))
    }

    /// Bytes of all chunks once this one is there, if that is within the limit.
    fn bytes_with(&self, chunk: &ChunkRef, limit: u64) -> Result<u64, StoreError> {
        let replaced = self.chunk(&chunk.hash).map_or(0, |bytes| bytes.len() as u64);
        let sum = self.chunk_bytes - replaced + u64::from(chunk.len);
        if sum <= limit {
            return Ok(sum);
        }
        Err(StoreError::NoSpace {
            path: PathBuf::from("memory"),
            needed: chunk.len.into(),
            available: Some(limit.saturating_sub(self.chunk_bytes)),
            reserve: 0,
        })
    }

    fn chunk(&self, hash: &ContentHash) -> Option<&Bytes> {
        let (name, bytes) = self.chunks.get(&Id::of_chunk(hash).to_bytes())?;
        (name == hash).then_some(bytes)
    }
}

impl Store for MemoryStore {
    fn load(&self, key: &Key) -> Result<Option<Register>, StoreError> {
        Ok(self.shared.open()?.registers.get(key.as_bytes()).cloned())
    }

    fn load_many(&self, ids: &[Id]) -> Result<Vec<Register>, StoreError> {
        let held = self.shared.open()?;
        let mut found = Vec::new();
        for id in ids {
            for (_, name, _) in held.places(&Stretch::point(*id)) {
                found.extend(held.registers.get(name).cloned());
            }
        }
        Ok(found)
    }

    fn save(&self, registers: Vec<Register>) -> Result<Vec<Option<Ballot>>, StoreError> {
        let mut held = self.shared.open()?;
        Ok(registers.into_iter().map(|register| held.save(register)).collect())
    }

    fn digest(&self, kind: Kind, arc: Interval) -> Result<(ContentHash, u64), StoreError> {
        let held = self.shared.open()?;
        let mut digest = Digest::default();
        for stretch in stretches(arc, None) {
            match kind {
                Kind::Registers => {
                    held.places(&stretch).for_each(|(id, _, place)| digest.add_register(id, place));
                }
                Kind::Chunks => held.chunks(&stretch).for_each(|chunk| digest.add_chunk(&chunk)),
            }
        }
        Ok(digest.finish())
    }

    fn list_registers(
        &self,
        arc: Interval,
        after: Option<Id>,
        limit: usize,
    ) -> Result<(Vec<(Id, Ballot)>, bool), StoreError> {
        let held = self.shared.open()?;
        let stretches = stretches(arc, after);
        let mut rest = stretches.iter().flat_map(|stretch| held.places(stretch));
        let page = rest.by_ref().take(limit).map(|(id, _, place)| (id, place.ballot)).collect();
        Ok((page, rest.next().is_none()))
    }

    fn list_chunks(
        &self,
        arc: Interval,
        after: Option<Id>,
        limit: usize,
    ) -> Result<(Vec<ChunkRef>, bool), StoreError> {
        let held = self.shared.open()?;
        let stretches = stretches(arc, after);
        let mut rest = stretches.iter().flat_map(|stretch| held.chunks(stretch));
        let page = rest.by_ref().take(limit).collect();
        Ok((page, rest.next().is_none()))
    }

    fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<(Vec<Register>, bool), StoreError> {
        let held = self.shared.open()?;
        let mut page = Vec::new();
        let mut bytes = 0;
        let from = (names_from(prefix, after), Bound::Unbounded);
        for (name, register) in held.registers.range::<[u8], _>(from) {
            if !name.starts_with(prefix) {
                break;
            }
            if page.len() >= limit || bytes >= MAX_NAMES_BYTES {
                return Ok((page, false));
            }
            bytes += value_len(register);
            page.push(register.clone());
        }
        Ok((page, true))
    }

    fn count_keys(&self, arc: Interval) -> Result<u64, StoreError> {
        let held = self.shared.open()?;
        let count = |stretch: &Stretch| {
            held.places(stretch).filter(|(_, _, place)| !place.deleted).count() as u64
        };
        Ok(stretches(arc, None).iter().map(count).sum())
    }

    fn has_chunk(&self, hash: &ContentHash) -> Result<bool, StoreError> {
        Ok(self.shared.open()?.chunk(hash).is_some())
    }

    fn chunk_writer(&self, chunk: ChunkRef) -> Result<Box<dyn ChunkWriter>, StoreError> {
        check_chunk_len(&chunk)?;
        let held = self.shared.open()?;
        held.bytes_with(&chunk, self.shared.limit)?;
        Ok(Box::new(MemoryWriter { shared: self.shared.clone(), chunk, bytes: Vec::new() }))
    }

    fn open_chunk(&self, hash: &ContentHash) -> Result<Option<(u32, ChunkReader)>, StoreError> {
        let held = self.shared.open()?;
        Ok(held.chunk(hash).map(|bytes| {
            let reader: ChunkReader = Box::new(Cursor::new(bytes.clone()));
            (chunk_ref(hash, bytes).len, reader)
        }))
    }

    fn quarantine_chunk(&self, hash: &ContentHash) -> Result<(), StoreError> {
        let mut held = self.shared.open()?;
        let rotten = held.chunk(hash).filter(|bytes| blake3::hash(bytes).as_bytes() != hash);
        if let Some(len) = rotten.map(Bytes::len) {
            // Nobody can inspect the memory of a process from outside: the bytes are not kept.
            held.chunks.remove(&Id::of_chunk(hash).to_bytes());
            held.chunk_bytes -= len as u64;
        }
        Ok(())
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.shared.open()?.meta.get(name).cloned())
    }

    fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        check_meta_len(value)?;
        self.shared.open()?.meta.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn usage(&self) -> Result<StoreReport, StoreError> {
        let held = self.shared.open()?;
        Ok(StoreReport {
            keys: held.registers.len() as u64 - held.tombstones,
            chunks: held.chunks.len() as u64,
            bytes: held.chunk_bytes,
        })
    }

    fn space(&self) -> Result<Option<Space>, StoreError> {
        let held = self.shared.open()?;
        let total = self.shared.limit;
        Ok(Some(Space { total, available: total.saturating_sub(held.chunk_bytes) }))
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.shared.open().map(|_| ())
    }

    fn close(&self) -> Result<(), StoreError> {
        self.shared.lock().closed = true;
        Ok(())
    }
}

/// Gathers a chunk, which is as long as it is announced at most.
#[derive(Debug)]
struct MemoryWriter {
    shared: Arc<Shared>,
    chunk: ChunkRef,
    bytes: Vec<u8>,
}

impl ChunkWriter for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let received = self.bytes.len() as u64 + bytes.len() as u64;
        if received > u64::from(self.chunk.len) {
            return Err(StoreError::Mismatch { chunk: self.chunk, received, actual: None });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let MemoryWriter { shared, chunk, bytes } = *self;
        let received = bytes.len() as u64;
        if received != u64::from(chunk.len) {
            return Err(StoreError::Mismatch { chunk, received, actual: None });
        }
        let actual = *blake3::hash(&bytes).as_bytes();
        if actual != chunk.hash {
            return Err(StoreError::Mismatch { chunk, received, actual: Some(actual) });
        }
        let mut held = shared.open()?;
        held.chunk_bytes = held.bytes_with(&chunk, shared.limit)?;
        held.chunks.insert(chunk.id().to_bytes(), (chunk.hash, Bytes::from(bytes)));
        Ok(())
    }
}

fn chunk_ref(hash: &ContentHash, bytes: &Bytes) -> ChunkRef {
    let len = u32::try_from(bytes.len()).expect("no chunk is longer than MAX_CHUNK_LEN");
    ChunkRef { hash: *hash, len }
}
