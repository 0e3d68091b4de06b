//! Cuts a stream of bytes into chunks.

use bytes::{Buf, Bytes, BytesMut};
use dht_core::message::bulk::{MAX_CHUNK_LEN, MIN_CHUNK_LEN};

/// Collects pieces of any length until a chunk is full. Holds at most one chunk.
#[derive(Debug)]
pub(super) struct Chunker {
    size: usize,
    filling: BytesMut,
}

impl Chunker {
    /// Chunks of `size` bytes, the last one shorter.
    pub(super) fn new(size: u32) -> Chunker {
        Chunker { size: size as usize, filling: BytesMut::new() }
    }

    /// Takes from `piece` until it is empty or a chunk is full, which is returned then; to be
    /// called again while something is left of the piece.
    pub(super) fn feed(&mut self, piece: &mut Bytes) -> Option<Bytes> {
        let taken = piece.len().min(self.size - self.filling.len());
        self.filling.extend_from_slice(&piece[..taken]);
        piece.advance(taken);
        (self.filling.len() == self.size).then(|| self.filling.split().freeze())
    }

    /// What is left at the end, if anything is.
    pub(super) fn finish(self) -> Option<Bytes> {
        (!self.filling.is_empty()).then(|| self.filling.freeze())
    }
}

/// Whether chunks of this length are taken.
pub(super) fn is_chunk_size(size: u32) -> bool {
    (MIN_CHUNK_LEN..=MAX_CHUNK_LEN).contains(&size)
}

/// Length of chunks unless the writer asks for another. 1 MiB by default (guess: one round trip and
/// one fsync for each are small beside it, and one is verified in memory).
pub(super) const DEFAULT_CHUNK_SIZE: u32 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(len: usize, size: u32, piece: usize) -> Vec<usize> {
        let mut chunker = Chunker::new(size);
        let mut lengths = Vec::new();
        let bytes = vec![7u8; len];
        for part in bytes.chunks(piece.max(1)) {
            let mut part = Bytes::copy_from_slice(part);
            while !part.is_empty() {
                lengths.extend(chunker.feed(&mut part).map(|chunk| chunk.len()));
            }
        }
        lengths.extend(chunker.finish().map(|chunk| chunk.len()));
        lengths
    }

    #[test]
    fn borders_are_exact() {
        assert_eq!(cut(0, 10, 3), Vec::<usize>::new());
        assert_eq!(cut(9, 10, 3), [9]);
        assert_eq!(cut(10, 10, 3), [10]);
        assert_eq!(cut(11, 10, 3), [10, 1]);
        assert_eq!(cut(20, 10, 7), [10, 10]);
        assert_eq!(cut(25, 10, 25), [10, 10, 5], "one piece may hold several chunks");
    }

    #[test]
    fn sizes_have_bounds() {
        assert!(!is_chunk_size(MIN_CHUNK_LEN - 1) && is_chunk_size(MIN_CHUNK_LEN));
        assert!(is_chunk_size(MAX_CHUNK_LEN) && !is_chunk_size(MAX_CHUNK_LEN + 1));
    }
}
