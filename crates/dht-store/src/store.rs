//! What a node asks of its store.

use std::io::Read;
use std::ops::Bound;

use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::bulk::MAX_CHUNK_LEN;
use dht_core::message::ring::Kind;
use dht_core::register::{Ballot, Key, Register, Value};
use dht_core::stats::StoreReport;

use crate::error::StoreError;
use crate::space::Space;

/// Longest value of [`Store::set_meta`], in bytes (guess: a hundred times what a node remembers of
/// its peers).
pub const MAX_META_LEN: usize = 1024 * 1024;
/// A page of [`Store::list_names`] ends early when its values reach so many bytes (guess: what one
/// frame to a client may hold, a few times over), so that a page of long manifests stays small.
pub const MAX_NAMES_BYTES: usize = 4 * 1024 * 1024;

/// The bytes of a chunk, as they come from the disk: not yet verified.
pub type ChunkReader = Box<dyn Read + Send>;

/// Registers, chunks, and a few named records of one node.
///
/// What a call acknowledged is durable. What a call refused or failed to do was not acknowledged to
/// anybody: it is there as a whole or not at all, and asking again is safe.
///
/// Lists go clockwise from the start of an arc, `(start, end]`, also through zero; `after` is
/// exclusive and is the last point of the page before. The flag beside a page says that nothing
/// follows. Registers whose keys collide in SHA-1 live side by side; a page that ends between the
/// two loses sight of the second, which hurts nobody but who made them collide.
pub trait Store: Send + Sync + 'static {
    /// The register of a key, tombstones too.
    fn load(&self, key: &Key) -> Result<Option<Register>, StoreError>;

    /// The registers at these points that are held, in the order asked.
    fn load_many(&self, ids: &[Id]) -> Result<Vec<Register>, StoreError>;

    /// Keeps registers, each only if it [supersedes](Register::supersedes) what is held, all in one
    /// durable transaction. Answers as [`StoreOutcome::Saved`](dht_core::event::StoreOutcome::Saved)
    /// does: for each, in order, the ballot that is held instead if that one is higher; an equal
    /// one counts as kept.
    fn save(&self, registers: Vec<Register>) -> Result<Vec<Option<Ballot>>, StoreError>;

    /// BLAKE3 over what is held in an arc, clockwise from its start, and how many entries that are.
    /// Registers count with point, epoch, counter (big-endian) and peer; chunks with their hash.
    fn digest(&self, kind: Kind, arc: Interval) -> Result<(ContentHash, u64), StoreError>;

    /// A page of at most `limit` registers of an arc.
    fn list_registers(
        &self,
        arc: Interval,
        after: Option<Id>,
        limit: usize,
    ) -> Result<(Vec<(Id, Ballot)>, bool), StoreError>;

    /// A page of at most `limit` chunks of an arc.
    fn list_chunks(
        &self,
        arc: Interval,
        after: Option<Id>,
        limit: usize,
    ) -> Result<(Vec<ChunkRef>, bool), StoreError>;

    /// A page of at most `limit` registers whose keys start with `prefix`, by the bytes of their
    /// keys, tombstones included; `after` is exclusive. Ends early at [`MAX_NAMES_BYTES`] of
    /// values, after at least one register.
    fn list_names(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<(Vec<Register>, bool), StoreError>;

    /// How many keys an arc has, without tombstones.
    fn count_keys(&self, arc: Interval) -> Result<u64, StoreError>;

    /// Whether a chunk is held.
    fn has_chunk(&self, hash: &ContentHash) -> Result<bool, StoreError>;

    /// Starts to keep a chunk. Two writers of the same chunk do not disturb each other; a good copy
    /// takes the place of one that is held. Who wants to save the bytes asks
    /// [`Store::has_chunk`] first.
    fn chunk_writer(&self, chunk: ChunkRef) -> Result<Box<dyn ChunkWriter>, StoreError>;

    /// The length and the bytes of a chunk, if it is held. The caller checks the bytes against the
    /// hash, and calls [`Store::quarantine_chunk`] if they differ.
    fn open_chunk(&self, hash: &ContentHash) -> Result<Option<(u32, ChunkReader)>, StoreError>;

    /// Reports that the bytes of a chunk did not match its hash. They are read once more: if they
    /// still do not match they are kept aside for inspection and the chunk no longer counts as
    /// held. A chunk that is right after all - a good copy came meanwhile - stays.
    fn quarantine_chunk(&self, hash: &ContentHash) -> Result<(), StoreError>;

    /// A named record of the node: its ring, its remembered peers.
    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Replaces a named record, durably; at most [`MAX_META_LEN`] bytes.
    fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StoreError>;

    /// What is held; from counters, not from a scan.
    fn usage(&self) -> Result<StoreReport, StoreError>;

    /// How much room there is; `None` where the system does not say.
    fn space(&self) -> Result<Option<Space>, StoreError>;

    /// Makes durable what may still be rebuilt instead (the index rows of chunks).
    fn flush(&self) -> Result<(), StoreError>;

    /// Ends the store: calls in progress finish, later ones fail with [`StoreError::Closed`], and
    /// another process may open the directory. Closing twice is fine.
    fn close(&self) -> Result<(), StoreError>;
}

/// Takes the bytes of one chunk. Dropping it without [`ChunkWriter::commit`] leaves nothing behind.
pub trait ChunkWriter: Send {
    /// The next bytes, in pieces of any size; each is one write to the disk, so pieces of 64 KiB
    /// cost less than pieces of 1 KiB. More than the chunk's length in all is a
    /// [`StoreError::Mismatch`].
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Checks length and BLAKE3, then makes the chunk durable: when this returns `Ok`, it is held.
    fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Refuses a chunk that no member would send.
pub(crate) fn check_chunk_len(chunk: &ChunkRef) -> Result<(), StoreError> {
    if chunk.len > MAX_CHUNK_LEN {
        return Err(StoreError::TooLong { len: chunk.len.into(), max: MAX_CHUNK_LEN.into() });
    }
    Ok(())
}

/// Refuses a record that is too long.
pub(crate) fn check_meta_len(value: &[u8]) -> Result<(), StoreError> {
    if value.len() > MAX_META_LEN {
        return Err(StoreError::TooLong { len: value.len() as u64, max: MAX_META_LEN as u64 });
    }
    Ok(())
}

/// How much of a page of names a register takes up.
pub(crate) fn value_len(register: &Register) -> usize {
    match &register.value {
        Value::Deleted => 0,
        Value::Present(bytes) => bytes.len(),
    }
}

/// Where a walk over names begins: `after` is exclusive, and counts if it lies beyond the prefix.
pub(crate) fn names_from<'a>(prefix: &'a [u8], after: Option<&'a [u8]>) -> Bound<&'a [u8]> {
    match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    }
}
