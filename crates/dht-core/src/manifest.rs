//! Manifests: what a register's value says of a file.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::Id;

/// BLAKE3 of some content: the name of a chunk, and the check of a whole file.
pub type ContentHash = [u8; 32];

/// One file under one key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Form of this record; see [`Manifest::FORM`].
    pub form: u8,
    /// Length of the file in bytes.
    pub size: u64,
    /// BLAKE3 of the whole file.
    pub hash: ContentHash,
    /// Where the bytes are.
    pub content: Content,
    /// Length of every chunk but the last, in bytes.
    pub chunk_size: u32,
    /// MIME type, if the writer gave one.
    pub content_type: Option<String>,
    /// What the writer noted.
    pub meta: BTreeMap<String, String>,
    /// When the writer's member stored it, in milliseconds of Unix time: shown, never decided by.
    pub created_ms: i64,
}

impl Manifest {
    /// The only form so far.
    pub const FORM: u8 = 1;
}

/// Where the bytes of a file are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Content {
    /// In the manifest itself: small files.
    Inline(Bytes),
    /// In chunks, in order.
    Chunks(Vec<ChunkRef>),
    /// In chunks whose list is itself kept in chunks: each of these, in order, holds a piece of the
    /// postcard form of a `Vec<ChunkRef>`.
    ChunkList(Vec<ChunkRef>),
}

/// Names one chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ChunkRef {
    /// BLAKE3 of the chunk.
    pub hash: ContentHash,
    /// Its length in bytes.
    pub len: u32,
}

impl ChunkRef {
    /// Where the chunk lies on the circle.
    pub fn id(&self) -> Id {
        Id::of_chunk(&self.hash)
    }
}
