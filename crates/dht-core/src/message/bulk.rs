//! Chunk bytes between members. The bytes follow their frame raw on the same stream; they never
//! pass through the core.

use serde::{Deserialize, Serialize};

use crate::manifest::{ChunkRef, ContentHash};

/// Smallest chunk that a file may be cut into, in bytes; its last one may be smaller (guess: below
/// it the list of chunks grows faster than anything gains).
pub const MIN_CHUNK_LEN: u32 = 64 * 1024;
/// Largest chunk, in bytes: one is verified in memory before its bytes are passed on (guess).
pub const MAX_CHUNK_LEN: u32 = 8 * 1024 * 1024;
/// Most chunks one question may name.
pub const MAX_CHUNKS: usize = 1024;

/// What one member asks of another's chunks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ChunkRequest {
    /// Keep this chunk; its bytes follow.
    Put {
        /// Which.
        chunk: ChunkRef,
    },
    /// Send this chunk.
    Get {
        /// Which.
        hash: ContentHash,
    },
    /// Which of these do you hold? At most [`MAX_CHUNKS`].
    Have {
        /// Which.
        hashes: Vec<ContentHash>,
    },
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ChunkResponse {
    /// To `Put`: durable here.
    Stored,
    /// To `Put`: the bytes do not hash to the name, or their number is wrong.
    Mismatch,
    /// To `Put`: the disk took no more.
    NoSpace,
    /// To `Get`: the bytes follow.
    Found {
        /// How many.
        len: u32,
    },
    /// To `Get`: not here, or not any more whole.
    Absent,
    /// To `Have`: one flag per hash, in order.
    Have {
        /// Whether each is held.
        held: Vec<bool>,
    },
    /// The disk failed.
    Failed,
}
