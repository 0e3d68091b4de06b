//! The tables of the index, and what one change does to them.

use dht_core::id::Id;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::register::{Ballot, Register};
use redb::{ReadTransaction, ReadableTable, Table, TableDefinition, TableError, WriteTransaction};

use super::index::Failure;
use crate::error::Damaged;
use crate::record::{
    Place, chunk_from_bytes, chunk_to_bytes, place_key, register_from_bytes, register_to_bytes,
};

/// Registers by the bytes of their key.
pub(crate) const REGISTERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("registers");
/// Ballots by point and key: circle order without the values.
pub(crate) const PLACES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("places");
/// Hash and length of chunks by point.
pub(crate) const CHUNKS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("chunks");
/// Named records of the node.
pub(crate) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
/// Counters and flags of the store itself.
const STATE: TableDefinition<'_, &str, u64> = TableDefinition::new("state");

/// How many registers are tombstones.
pub(crate) const TOMBSTONES: &str = "tombstones";
/// Bytes of all chunks.
pub(crate) const CHUNK_BYTES: &str = "chunk bytes";
/// 1 if the store was closed in order: chunk files and rows agree.
pub(crate) const CLEAN: &str = "clean";

/// A register ready to be written: encoded by the caller, so that the one who commits for all does
/// not do the work of all.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    name: Vec<u8>,
    place_key: Vec<u8>,
    place: Place,
    bytes: Vec<u8>,
}

impl Entry {
    /// Of a register.
    pub(crate) fn new(register: &Register) -> Entry {
        Entry {
            name: register.key.as_bytes().to_vec(),
            place_key: place_key(&register.key),
            place: Place::of(register),
            bytes: register_to_bytes(register),
        }
    }

    /// Bytes of the stored form.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// One change of the index.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Keep registers, each if its ballot is higher.
    Save(Vec<Entry>),
    /// Replace a named record.
    Meta(String, Vec<u8>),
    /// A chunk file is in place and durable.
    ChunkAdded(ChunkRef),
    /// A chunk file is gone from its place.
    ChunkGone(ContentHash),
    /// Note that chunk files and rows agree, or that they may not.
    Clean(bool),
    /// Nothing but to make durable what came before.
    Flush,
}

impl Change {
    /// Whether it must be durable before it is answered. Chunk rows need not: they are found again
    /// by looking at the files.
    pub(crate) fn is_durable(&self) -> bool {
        !matches!(self, Change::ChunkAdded(_) | Change::ChunkGone(_))
    }
}

/// What came of one change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Applied {
    /// For a `Save`, as [`dht_core::event::StoreOutcome::Saved`].
    pub(crate) held: Vec<Option<Ballot>>,
    /// Whether anything is different now.
    pub(crate) changed: bool,
}

/// All tables, open for writing.
pub(crate) struct Tables<'txn> {
    registers: Table<'txn, &'static [u8], &'static [u8]>,
    places: Table<'txn, &'static [u8], &'static [u8]>,
    chunks: Table<'txn, &'static [u8], &'static [u8]>,
    meta: Table<'txn, &'static str, &'static [u8]>,
    state: Table<'txn, &'static str, u64>,
}

impl<'txn> Tables<'txn> {
    /// Opens them, and makes those that are not there: a table that was never written cannot be
    /// read.
    pub(crate) fn open(transaction: &'txn WriteTransaction) -> Result<Tables<'txn>, TableError> {
        Ok(Tables {
            registers: transaction.open_table(REGISTERS)?,
            places: transaction.open_table(PLACES)?,
            chunks: transaction.open_table(CHUNKS)?,
            meta: transaction.open_table(META)?,
            state: transaction.open_table(STATE)?,
        })
    }

    /// How many tables there are.
    pub(crate) const COUNT: usize = 5;

    /// Carries out one change.
    pub(crate) fn apply(&mut self, change: &Change) -> redb::Result<Applied> {
        let changed = match change {
            Change::Save(entries) => return self.save(entries),
            Change::Meta(name, value) => {
                self.meta.insert(name.as_str(), value.as_slice())?;
                true
            }
            Change::ChunkAdded(chunk) => self.add_chunk(chunk)?,
            Change::ChunkGone(hash) => self.remove_chunk(hash)?,
            Change::Clean(clean) => {
                let before = self.state.insert(CLEAN, u64::from(*clean))?.map(|row| row.value());
                before != Some(u64::from(*clean))
            }
            Change::Flush => true,
        };
        Ok(Applied { held: Vec::new(), changed })
    }

    fn save(&mut self, entries: &[Entry]) -> redb::Result<Applied> {
        let mut applied = Applied::default();
        for entry in entries {
            let row = self.places.get(entry.place_key.as_slice())?;
            let held = row.and_then(|row| Place::from_bytes(row.value()));
            // `Register::supersedes` decides by the ballot alone, and so does this.
            applied.held.push(match held.map(|held| held.ballot) {
                Some(ballot) if ballot > entry.place.ballot => Some(ballot),
                Some(ballot) if ballot == entry.place.ballot && self.reads_back(entry)? => None,
                _ => {
                    self.put(entry, held)?;
                    applied.changed = true;
                    None
                }
            });
        }
        Ok(applied)
    }

    /// Whether what is held reads back: a damaged register is replaced by an equal one.
    fn reads_back(&self, entry: &Entry) -> redb::Result<bool> {
        let row = self.registers.get(entry.name.as_slice())?;
        Ok(row.is_some_and(|row| register_from_bytes(row.value()).is_some()))
    }

    fn put(&mut self, entry: &Entry, held: Option<Place>) -> redb::Result<()> {
        self.registers.insert(entry.name.as_slice(), entry.bytes.as_slice())?;
        self.places.insert(entry.place_key.as_slice(), entry.place.to_bytes().as_slice())?;
        let was_deleted = held.is_some_and(|held| held.deleted);
        self.count(TOMBSTONES, u64::from(entry.place.deleted), u64::from(was_deleted))
    }

    fn add_chunk(&mut self, chunk: &ChunkRef) -> redb::Result<bool> {
        let before = self
            .chunks
            .insert(chunk.id().to_bytes().as_slice(), chunk_to_bytes(chunk).as_slice())?
            .and_then(|row| chunk_from_bytes(row.value()));
        let before_len = before.map_or(0, |before| before.len);
        self.count(CHUNK_BYTES, chunk.len.into(), before_len.into())?;
        Ok(before != Some(*chunk))
    }

    fn remove_chunk(&mut self, hash: &ContentHash) -> redb::Result<bool> {
        let id = Id::of_chunk(hash).to_bytes();
        let removed = self.chunks.remove(id.as_slice())?;
        let Some(len) =
            removed.map(|row| chunk_from_bytes(row.value()).map_or(0, |chunk| chunk.len))
        else {
            return Ok(false);
        };
        self.count(CHUNK_BYTES, 0, len.into())?;
        Ok(true)
    }

    fn count(&mut self, counter: &str, more: u64, less: u64) -> redb::Result<()> {
        if more == less {
            return Ok(());
        }
        let before = self.state.get(counter)?.map_or(0, |row| row.value());
        self.state.insert(counter, before.saturating_add(more).saturating_sub(less))?;
        Ok(())
    }
}

/// A counter or flag; 0 if it was never set.
pub(crate) fn state(transaction: &ReadTransaction, name: &str) -> Result<u64, redb::Error> {
    Ok(transaction.open_table(STATE)?.get(name)?.map_or(0, |row| row.value()))
}

/// The row of a chunk.
pub(crate) fn chunk_row(
    transaction: &ReadTransaction,
    hash: &ContentHash,
) -> Result<Option<ChunkRef>, Failure> {
    let id = Id::of_chunk(hash);
    let Some(row) = transaction.open_table(CHUNKS)?.get(id.to_bytes().as_slice())? else {
        return Ok(None);
    };
    let chunk = chunk_from_bytes(row.value()).ok_or(Failure::Record(Damaged::Place { id }))?;
    Ok((chunk.hash == *hash).then_some(chunk))
}
