//! Questions to the index, each answered from one read transaction.

use std::ops::Bound;

use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::ring::Kind;
use dht_core::register::{Ballot, Key, Register};
use dht_core::stats::StoreReport;
use redb::{ReadTransaction, ReadableTableMetadata};

use super::index::Failure;
use super::tables::{CHUNK_BYTES, CHUNKS, META, PLACES, REGISTERS, TOMBSTONES, state};
use crate::arcs::{Stretch, stretches};
use crate::error::Damaged;
use crate::record::{Digest, Place, chunk_from_bytes, register_from_bytes, split_place_key};
use crate::store::{MAX_NAMES_BYTES, names_from, value_len};

/// Whether a walk goes on.
#[derive(PartialEq, Eq)]
enum Walk {
    On,
    Stop,
}

/// A register by its key.
pub(super) fn load(transaction: &ReadTransaction, key: &Key) -> Result<Option<Register>, Failure> {
    let registers = transaction.open_table(REGISTERS)?;
    let row = registers.get(key.as_bytes())?;
    row.map(|row| decode(key.as_bytes(), row.value())).transpose()
}

/// The registers at some points.
pub(super) fn load_many(
    transaction: &ReadTransaction,
    ids: &[Id],
) -> Result<Vec<Register>, Failure> {
    let registers = transaction.open_table(REGISTERS)?;
    let mut found = Vec::new();
    for id in ids {
        walk_places(transaction, &Stretch::point(*id), |_, name, _| {
            if let Some(row) = registers.get(name)? {
                found.push(decode(name, row.value())?);
            }
            Ok(Walk::On)
        })?;
    }
    Ok(found)
}

/// BLAKE3 over an arc.
pub(super) fn digest(
    transaction: &ReadTransaction,
    kind: Kind,
    arc: Interval,
) -> Result<(ContentHash, u64), Failure> {
    let mut digest = Digest::default();
    for stretch in stretches(arc, None) {
        match kind {
            Kind::Registers => walk_places(transaction, &stretch, |id, _, place| {
                digest.add_register(id, &place);
                Ok(Walk::On)
            })?,
            Kind::Chunks => walk_chunks(transaction, &stretch, |chunk| {
                digest.add_chunk(&chunk);
                Ok(Walk::On)
            })?,
        }
    }
    Ok(digest.finish())
}

/// A page of points and ballots.
pub(super) fn list_registers(
    transaction: &ReadTransaction,
    arc: Interval,
    after: Option<Id>,
    limit: usize,
) -> Result<(Vec<(Id, Ballot)>, bool), Failure> {
    let (mut page, mut last) = (Vec::new(), true);
    for stretch in stretches(arc, after) {
        walk_places(transaction, &stretch, |id, _, place| {
            if page.len() >= limit {
                last = false;
                return Ok(Walk::Stop);
            }
            page.push((id, place.ballot));
            Ok(Walk::On)
        })?;
        if !last {
            break;
        }
    }
    Ok((page, last))
}

/// A page of chunks.
pub(super) fn list_chunks(
    transaction: &ReadTransaction,
    arc: Interval,
    after: Option<Id>,
    limit: usize,
) -> Result<(Vec<ChunkRef>, bool), Failure> {
    let (mut page, mut last) = (Vec::new(), true);
    for stretch in stretches(arc, after) {
        walk_chunks(transaction, &stretch, |chunk| {
            if page.len() >= limit {
                last = false;
                return Ok(Walk::Stop);
            }
            page.push(chunk);
            Ok(Walk::On)
        })?;
        if !last {
            break;
        }
    }
    Ok((page, last))
}

/// A page of registers by name.
pub(super) fn list_names(
    transaction: &ReadTransaction,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<Register>, bool), Failure> {
    let registers = transaction.open_table(REGISTERS)?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    for row in registers.range::<&[u8]>((names_from(prefix, after), Bound::Unbounded))? {
        let (name, row) = row?;
        if !name.value().starts_with(prefix) {
            break;
        }
        if page.len() >= limit || bytes >= MAX_NAMES_BYTES {
            return Ok((page, false));
        }
        let register = decode(name.value(), row.value())?;
        bytes += value_len(&register);
        page.push(register);
    }
    Ok((page, true))
}

/// Keys of an arc without tombstones; of the whole circle, from counters.
pub(super) fn count_keys(transaction: &ReadTransaction, arc: Interval) -> Result<u64, Failure> {
    if arc.is_full() {
        return Ok(usage(transaction)?.keys);
    }
    let mut count = 0;
    for stretch in stretches(arc, None) {
        walk_places(transaction, &stretch, |_, _, place| {
            count += u64::from(!place.deleted);
            Ok(Walk::On)
        })?;
    }
    Ok(count)
}

/// A named record.
pub(super) fn meta(transaction: &ReadTransaction, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    Ok(transaction.open_table(META)?.get(name)?.map(|row| row.value().to_vec()))
}

/// What is held. Tables know their length.
pub(super) fn usage(transaction: &ReadTransaction) -> Result<StoreReport, Failure> {
    let registers = transaction.open_table(REGISTERS)?.len()?;
    Ok(StoreReport {
        keys: registers.saturating_sub(state(transaction, TOMBSTONES)?),
        chunks: transaction.open_table(CHUNKS)?.len()?,
        bytes: state(transaction, CHUNK_BYTES)?,
    })
}

fn walk_places(
    transaction: &ReadTransaction,
    stretch: &Stretch,
    mut visit: impl FnMut(Id, &[u8], Place) -> Result<Walk, Failure>,
) -> Result<(), Failure> {
    let places = transaction.open_table(PLACES)?;
    let (from, to) = stretch.bounds();
    let bounds = (from.as_ref().map(|key| key.as_slice()), to.as_ref().map(|key| key.as_slice()));
    for row in places.range::<&[u8]>(bounds)? {
        let (key, row) = row?;
        let Some((id, name)) = split_place_key(key.value()) else {
            return Err(Failure::Record(Damaged::Place { id: Id::ZERO }));
        };
        let place = Place::from_bytes(row.value()).ok_or(Failure::Record(Damaged::Place { id }))?;
        if visit(id, name, place)? == Walk::Stop {
            break;
        }
    }
    Ok(())
}

fn walk_chunks(
    transaction: &ReadTransaction,
    stretch: &Stretch,
    mut visit: impl FnMut(ChunkRef) -> Result<Walk, Failure>,
) -> Result<(), Failure> {
    let chunks = transaction.open_table(CHUNKS)?;
    let (from, to) = stretch.bounds();
    let bounds = (from.as_ref().map(|key| key.as_slice()), to.as_ref().map(|key| key.as_slice()));
    for row in chunks.range::<&[u8]>(bounds)? {
        let (key, row) = row?;
        let id = key.value().first_chunk().map_or(Id::ZERO, |id| Id::from_bytes(*id));
        let chunk = chunk_from_bytes(row.value()).ok_or(Failure::Record(Damaged::Place { id }))?;
        if visit(chunk)? == Walk::Stop {
            break;
        }
    }
    Ok(())
}

/// The register that a row holds, if it is the one that its key names.
fn decode(name: &[u8], row: &[u8]) -> Result<Register, Failure> {
    match register_from_bytes(row) {
        Some(register) if register.key.as_bytes() == name => Ok(register),
        _ => Err(match Key::new(name.to_vec()) {
            Ok(key) => Failure::Record(Damaged::Register { key }),
            Err(_) => Failure::Record(Damaged::Place { id: Id::of_key(name) }),
        }),
    }
}
