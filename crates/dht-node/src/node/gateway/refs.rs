//! Chunk lists too long for a manifest: kept as chunks themselves, read piece by piece.

use bytes::{Bytes, BytesMut};
use dht_core::manifest::{ChunkRef, Content};
use dht_core::message::bulk::MAX_CHUNK_LEN;

/// Most chunks a manifest names itself; a longer list is chunked. 1024 by default: 36 KiB of
/// manifest, a quarter of the greatest register (guess).
pub(super) const MAX_DIRECT: usize = 1024;
/// Most pieces of a chunked list: at 1 MiB per piece 30 million chunks (guess).
pub(super) const MAX_PIECES: usize = 1024;

/// The pieces of a long list: the postcard form of a `Vec<ChunkRef>`, cut.
pub(super) fn pieces(refs: &[ChunkRef], piece: u32) -> Vec<Bytes> {
    let whole = Bytes::from(postcard::to_allocvec(refs).expect("a list in memory has a form"));
    let step = piece as usize;
    (0..whole.len()).step_by(step).map(|at| whole.slice(at..whole.len().min(at + step))).collect()
}

/// Reads a chunked list without holding it whole.
#[derive(Debug, Default)]
pub(super) struct RefReader {
    /// Entries still to come; unknown before the first byte.
    left: Option<u64>,
    pending: BytesMut,
}

/// A list that is no list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadList;

impl RefReader {
    pub(super) fn new() -> RefReader {
        RefReader::default()
    }

    /// Takes one piece and returns the entries that are complete now.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Vec<ChunkRef>, BadList> {
        self.pending.extend_from_slice(piece);
        let mut refs = Vec::new();
        let mut rest: &[u8] = &self.pending;
        loop {
            let left = match self.left {
                Some(left) => left,
                None => match postcard::take_from_bytes::<u64>(rest) {
                    Ok((count, after)) => {
                        rest = after;
                        self.left = Some(count);
                        count
                    }
                    Err(postcard::Error::DeserializeUnexpectedEnd) => break,
                    Err(_) => return Err(BadList),
                },
            };
            if left == 0 {
                break;
            }
            match postcard::take_from_bytes::<ChunkRef>(rest) {
                Ok((entry, after)) if is_sound(&entry) => {
                    rest = after;
                    self.left = Some(left - 1);
                    refs.push(entry);
                }
                Err(postcard::Error::DeserializeUnexpectedEnd) => break,
                Ok(_) | Err(_) => return Err(BadList),
            }
        }
        let consumed = self.pending.len() - rest.len();
        drop(self.pending.split_to(consumed));
        Ok(refs)
    }

    /// Whether the list ended where it said it would.
    pub(super) fn is_complete(&self) -> bool {
        self.left == Some(0) && self.pending.is_empty()
    }
}

/// Whether a reference can be a chunk's at all: the wire may say anything.
pub(super) fn is_sound(chunk: &ChunkRef) -> bool {
    (1..=MAX_CHUNK_LEN).contains(&chunk.len)
}

/// Whether a manifest's list is within bounds.
pub(super) fn is_content_sound(content: &Content) -> bool {
    match content {
        Content::Inline(_) => true,
        Content::Chunks(refs) => refs.len() <= MAX_DIRECT && refs.iter().all(is_sound),
        Content::ChunkList(refs) => refs.len() <= MAX_PIECES && refs.iter().all(is_sound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(count: u32) -> Vec<ChunkRef> {
        (0..count)
            .map(|n| ChunkRef { hash: *blake3::hash(&n.to_le_bytes()).as_bytes(), len: n + 1 })
            .collect()
    }

    #[test]
    fn a_list_survives_any_cut() {
        for count in [0, 1, 127, 128, 1025] {
            for piece in [1, 7, 64, 40_000] {
                let list = refs(count);
                let mut reader = RefReader::new();
                let mut read = Vec::new();
                for piece in pieces(&list, piece) {
                    assert!(!reader.is_complete());
                    read.extend(reader.feed(&piece).expect("our own form"));
                }
                assert!(reader.is_complete());
                assert_eq!(read, list);
            }
        }
    }

    #[test]
    fn lists_that_lie_are_noticed() {
        let whole = postcard::to_allocvec(&refs(3)).expect("a list");
        let mut short = RefReader::new();
        short.feed(&whole[..whole.len() - 1]).expect("so far so good");
        assert!(!short.is_complete());
        let mut long = RefReader::new();
        long.feed(&whole).expect("so far so good");
        long.feed(&[0]).expect("kept, not read");
        assert!(!long.is_complete());
        let huge = vec![ChunkRef { hash: [0; 32], len: MAX_CHUNK_LEN + 1 }];
        let form = postcard::to_allocvec(&huge).expect("a list");
        assert_eq!(RefReader::new().feed(&form), Err(BadList));
        assert!(!is_content_sound(&Content::Chunks(refs(MAX_DIRECT as u32 + 1))));
        assert!(is_content_sound(&Content::Chunks(refs(MAX_DIRECT as u32))));
    }
}
