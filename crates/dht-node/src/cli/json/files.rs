//! Shapes of the commands about files.

use std::collections::BTreeMap;

use dht_core::Id;
use serde::Serialize;

use super::{HexJson, PeerJson};
use crate::cli::keys::KeyJson;

/// `put`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PutJson {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyJson,
    /// The key's point.
    pub(crate) id: Id,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// BLAKE3 of the file.
    pub(crate) hash: HexJson,
    /// Of the manifest; opaque.
    pub(crate) version: String,
    /// How many chunks; 0 if the file lies in its manifest.
    pub(crate) chunks: u64,
    /// Smallest number of durable copies.
    pub(crate) acks: u32,
    /// How many copies there could have been.
    pub(crate) wanted: u32,
    /// Who holds the manifest.
    pub(crate) replicas: Vec<PeerJson>,
    /// Of the key's lookup.
    pub(crate) hops: u32,
    /// From start to end, in milliseconds.
    pub(crate) elapsed_ms: u64,
}

/// `get`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GetJson {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyJson,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// BLAKE3 of the file.
    pub(crate) hash: HexJson,
    /// Of the manifest; opaque.
    pub(crate) version: String,
    /// Of the key's lookup.
    pub(crate) hops: u32,
    /// Length and hash were checked here; always true.
    pub(crate) verified: bool,
    /// Bytes kept from an interrupted run; 0, as resuming is not built.
    pub(crate) resumed_bytes: u64,
    /// From start to end, in milliseconds.
    pub(crate) elapsed_ms: u64,
}

/// `info`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InfoJson {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyJson,
    /// The key's point.
    pub(crate) id: Id,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// BLAKE3 of the file.
    pub(crate) hash: HexJson,
    /// Of the manifest; opaque.
    pub(crate) version: String,
    /// MIME type, if the writer gave one.
    pub(crate) content_type: Option<String>,
    /// What the writer noted.
    pub(crate) meta: BTreeMap<String, String>,
    /// When it was stored.
    pub(crate) created: Option<String>,
    /// Who should hold the manifest, and what each said.
    pub(crate) replicas: Vec<ReplicaJson>,
    /// The chunks in order; long lists are cut.
    pub(crate) chunks: Vec<ChunkJson>,
    /// How many chunks there are in all.
    pub(crate) chunk_count: u64,
}

/// One replica of a manifest.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReplicaJson {
    /// Who.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// `current`, `outdated`, `missing` or `silent`.
    pub(crate) state: &'static str,
}

/// One chunk.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChunkJson {
    /// Its number, from 0.
    pub(crate) index: u64,
    /// BLAKE3 of the chunk.
    pub(crate) hash: HexJson,
    /// Its bytes.
    pub(crate) size: u32,
    /// How many peers hold it.
    pub(crate) copies: usize,
    /// Which.
    pub(crate) holders: Vec<PeerJson>,
}

/// `rm`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RemoveJson {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyJson,
    /// The key's point.
    pub(crate) id: Id,
    /// Of the tombstone; opaque.
    pub(crate) version: String,
    /// From start to end, in milliseconds.
    pub(crate) elapsed_ms: u64,
}

/// `ls`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListJson {
    /// In order of their bytes.
    pub(crate) keys: Vec<ListedJson>,
    /// What `--after` takes for the next page; null at the end.
    pub(crate) next: Option<String>,
    /// The same in hex, if it is no text; it goes with `--key-hex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_hex: Option<String>,
}

/// One key of `ls`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ListedJson {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyJson,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// Of the manifest; opaque.
    pub(crate) version: String,
    /// When it was stored.
    pub(crate) modified: Option<String>,
}
