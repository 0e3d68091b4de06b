//! After a crash: bring chunk files and chunk rows together again. Files are what was acknowledged;
//! rows follow them.

use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::bulk::MAX_CHUNK_LEN;
use redb::ReadableTableMetadata;

use super::chunks::{ChunkFolders, hash_of_name};
use super::index::Index;
use super::layout::Layout;
use super::tables::{CHUNKS, Change, chunk_row};
use crate::error::StoreError;
use crate::record::chunk_from_bytes;

/// Rows that are written in one transaction (guess: some hundred KiB).
const MAX_ROWS: usize = 4096;

/// What opening a store had to mend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the last process closed the store in order; then nothing had to be looked at.
    pub clean: bool,
    /// Chunk files that had no row yet.
    pub added: u64,
    /// Chunk rows whose files are gone: other members have to give those chunks again.
    pub lost: u64,
    /// Chunk files of a wrong length, moved aside.
    pub set_aside: u64,
    /// Files that interrupted writers left, removed.
    pub temporary: u64,
    /// Where the old index lies, if it was damaged and moved aside: the registers in it are lost
    /// here until other members give them again.
    pub damaged_index: Option<PathBuf>,
}

/// Looks at every chunk file's name and length, not at its bytes, and makes the rows agree.
pub(crate) fn reconcile(
    layout: &Layout,
    chunks: &ChunkFolders,
    index: &Index,
    recovery: &mut Recovery,
) -> Result<(), StoreError> {
    let mut rows = Rows { index, changes: Vec::new() };
    let mut files = 0;
    for number in 0..=u8::MAX {
        let folder = layout.folder(number);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(StoreError::io("read", folder, source)),
        };
        for entry in entries {
            let fault = |source| StoreError::io("read", &folder, source);
            let entry = entry.map_err(fault)?;
            let path = entry.path();
            let Some(hash) = hash_of_name(&path).filter(|hash| hash[0] == number) else {
                tracing::warn!(path = %path.display(), "not a chunk; left alone");
                continue;
            };
            let len = entry.metadata().map_err(fault)?.len();
            files += u64::from(mend(&path, hash, len, chunks, &mut rows, recovery)?);
        }
    }
    rows.write()?;
    let held = index.read(|transaction| Ok(transaction.open_table(CHUNKS)?.len()?))?;
    if held != files {
        drop_rows_without_files(layout, &mut rows, recovery)?;
    }
    rows.write()
}

/// Brings the row of one file in line; answers whether the file stays.
fn mend(
    path: &Path,
    hash: ContentHash,
    len: u64,
    chunks: &ChunkFolders,
    rows: &mut Rows<'_>,
    recovery: &mut Recovery,
) -> Result<bool, StoreError> {
    let row = rows.index.read(|transaction| chunk_row(transaction, &hash))?;
    let possible = match row {
        Some(row) => u64::from(row.len) == len,
        // Empty is what a file may look like that was never synced; only one name means it.
        None => len <= MAX_CHUNK_LEN.into() && (len > 0 || hash == *blake3::hash(b"").as_bytes()),
    };
    if !possible {
        tracing::warn!(path = %path.display(), len, "a chunk file of a wrong length; set aside");
        chunks.set_aside(&hash)?;
        recovery.set_aside += 1;
        if row.is_some() {
            rows.push(Change::ChunkGone(hash))?;
        }
        return Ok(false);
    }
    if row.is_none() {
        recovery.added += 1;
        let len = u32::try_from(len).expect("checked against the longest chunk");
        rows.push(Change::ChunkAdded(ChunkRef { hash, len }))?;
    }
    Ok(true)
}

fn drop_rows_without_files(
    layout: &Layout,
    rows: &mut Rows<'_>,
    recovery: &mut Recovery,
) -> Result<(), StoreError> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = rows.index.read(|transaction| {
            let table = transaction.open_table(CHUNKS)?;
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut page = Vec::new();
            for row in table.range::<&[u8]>((from, Bound::Unbounded))?.take(MAX_ROWS) {
                let (key, row) = row?;
                page.push((key.value().to_vec(), chunk_from_bytes(row.value())));
            }
            Ok(page)
        })?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(last.clone());
        for chunk in page.into_iter().filter_map(|(_, chunk)| chunk) {
            let path = layout.chunk(&chunk.hash);
            let there = path.try_exists().map_err(|source| StoreError::io("read", path, source))?;
            if !there {
                recovery.lost += 1;
                rows.push(Change::ChunkGone(chunk.hash))?;
            }
        }
    }
}

/// Changes on their way into the index, some thousand at a time.
struct Rows<'a> {
    index: &'a Index,
    changes: Vec<Change>,
}

impl Rows<'_> {
    fn push(&mut self, change: Change) -> Result<(), StoreError> {
        self.changes.push(change);
        if self.changes.len() >= MAX_ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        if !self.changes.is_empty() {
            self.index.apply(&std::mem::take(&mut self.changes))?;
        }
        Ok(())
    }
}
