//! Both stores behind one handle, and things to put into them.
#![allow(dead_code)] // Each test file uses what it needs.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::peer::PeerKey;
use dht_core::register::{Ballot, Key, OperationId, Register, Value};
use dht_store::{DiskStore, MemoryStore, Options, Store, StoreError};
use tempfile::TempDir;

/// A store under test.
pub enum Rig {
    Disk { dir: TempDir, store: Option<DiskStore> },
    Memory(MemoryStore),
}

impl Rig {
    pub fn disk() -> Rig {
        let dir = TempDir::new().expect("a temporary directory");
        let store = Some(open(dir.path()));
        Rig::Disk { dir, store }
    }

    pub fn memory() -> Rig {
        Rig::Memory(MemoryStore::new())
    }

    pub fn store(&self) -> &dyn Store {
        match self {
            Rig::Disk { store, .. } => store.as_ref().expect("open between reopenings"),
            Rig::Memory(store) => store,
        }
    }

    /// What outlives a process must; the twin in memory just goes on.
    pub fn reopen(&mut self) {
        if let Rig::Disk { dir, store } = self {
            drop(store.take());
            *store = Some(open(dir.path()));
        }
    }

    /// Flips a bit of a chunk behind the store's back.
    pub fn rot(&self, hash: &ContentHash) {
        match self {
            Rig::Disk { dir, .. } => {
                let path = chunk_path(dir.path(), hash);
                let mut bytes = fs::read(&path).expect("the chunk's file");
                bytes[0] ^= 1;
                fs::write(&path, bytes).expect("writes");
            }
            Rig::Memory(store) => assert!(store.rot_chunk(hash)),
        }
    }
}

pub fn open(dir: &Path) -> DiskStore {
    DiskStore::open(dir, Options::default()).expect("opens")
}

pub fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn chunk_path(dir: &Path, hash: &ContentHash) -> PathBuf {
    dir.join("chunks").join(hex(&hash[..1])).join(hex(hash))
}

pub fn key(name: &str) -> Key {
    Key::new(name.to_owned()).expect("a short name")
}

/// A register with a value, or a tombstone.
pub fn register(name: &str, counter: u64, value: Option<&[u8]>) -> Register {
    Register {
        key: key(name),
        ballot: Ballot { epoch: 1, counter, peer: PeerKey([7; 32]) },
        operations: vec![OperationId([counter as u8; 16])],
        value: match value {
            Some(bytes) => Value::Present(Bytes::copy_from_slice(bytes)),
            None => Value::Deleted,
        },
    }
}

pub fn chunk_of(bytes: &[u8]) -> ChunkRef {
    ChunkRef { hash: *blake3::hash(bytes).as_bytes(), len: bytes.len() as u32 }
}

/// Writes a whole chunk.
pub fn put(store: &dyn Store, bytes: &[u8]) -> Result<ChunkRef, StoreError> {
    let chunk = chunk_of(bytes);
    let mut writer = store.chunk_writer(chunk)?;
    for piece in bytes.chunks(64 * 1024) {
        writer.write(piece)?;
    }
    writer.commit()?;
    Ok(chunk)
}

/// Reads a whole chunk.
pub fn read(store: &dyn Store, hash: &ContentHash) -> Option<Vec<u8>> {
    let (len, mut reader) = store.open_chunk(hash).expect("opens")?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("reads");
    assert_eq!(bytes.len(), len as usize);
    Some(bytes)
}

/// Files below a directory, for checks that nothing is left.
pub fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("reads") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files_in(&path)) } else { found.push(path) }
    }
    found
}
