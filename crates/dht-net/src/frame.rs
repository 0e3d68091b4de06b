//! Frames: four bytes of length, big-endian, then one message in postcard form.

use bytes::{BufMut, Bytes, BytesMut};
use dht_core::message::{Answer, ChunkRequest, ClientRequest, Frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message is longer than the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLong {
    /// Its length in bytes.
    pub(crate) len: usize,
}

/// The frame of a message; at most `limit` bytes after the length.
pub(crate) fn encode<T: Serialize>(message: &T, limit: usize) -> Result<Bytes, TooLong> {
    let mut frame = Vec::with_capacity(TYPICAL);
    frame.put_u32(0);
    // Messages are plain data, and a vector takes everything: there is nothing to fail.
    let mut frame = postcard::to_extend(message, frame).expect("plain data has a postcard form");
    let len = frame.len() - PREFIX;
    let prefix = u32::try_from(len).ok().filter(|_| len <= limit).ok_or(TooLong { len })?;
    frame[..PREFIX].copy_from_slice(&prefix.to_be_bytes());
    Ok(frame.into())
}

/// The message in these bytes, all of them; `None` if they are anything else.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

/// Which frames an answer may belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Hello,
    Ring,
    Chunk,
    Client,
    Admin,
}

impl Kind {
    /// What answers to this frame look like.
    pub(crate) fn of(frame: &Frame) -> Kind {
        match frame {
            Frame::Hello(_) => Kind::Hello,
            Frame::Ring { .. } => Kind::Ring,
            Frame::Chunk(_) => Kind::Chunk,
            Frame::Client(_) => Kind::Client,
            Frame::Admin(_) => Kind::Admin,
        }
    }

    /// Whether this may be an answer. A refusal always may.
    pub(crate) fn fits(self, answer: &Answer) -> bool {
        matches!(
            (self, answer),
            (_, Answer::Refused(_))
                | (Kind::Hello, Answer::Hello(_))
                | (Kind::Ring, Answer::Ring(_))
                | (Kind::Chunk, Answer::Chunk(_))
                | (Kind::Client, Answer::Client(_))
                | (Kind::Admin, Answer::Admin(_))
        )
    }
}

/// A request on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Its frame.
    pub(crate) frame: Bytes,
    /// What its answers look like.
    pub(crate) kind: Kind,
    /// Whether bulk comes back.
    pub(crate) wants_bulk: bool,
}

impl Question {
    pub(crate) fn new(message: &Frame, limit: usize) -> Result<Question, TooLong> {
        let wants_bulk = matches!(
            message,
            Frame::Chunk(ChunkRequest::Get { .. }) | Frame::Client(ClientRequest::Get { .. })
        );
        Ok(Question { frame: encode(message, limit)?, kind: Kind::of(message), wants_bulk })
    }
}

/// Takes frames out of bytes that come in pieces. It holds what arrived and no more, whatever
/// length is claimed.
#[derive(Debug, Default)]
pub(crate) struct Deframer {
    // Mostly one piece holds the whole frame: then nothing is copied.
    rest: Bytes,
}

/// What the bytes so far come to.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Deframed {
    /// One frame, without its length.
    Frame(Bytes),
    /// More bytes are needed.
    More,
    /// The length that is claimed is over the limit.
    TooLong,
}

impl Deframer {
    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if self.rest.is_empty() {
            self.rest = piece;
            return;
        }
        let mut joined = BytesMut::from(std::mem::take(&mut self.rest));
        joined.extend_from_slice(&piece);
        self.rest = joined.freeze();
    }

    /// Takes the next frame, if it is complete.
    pub(crate) fn frame(&mut self, limit: usize) -> Deframed {
        let Some(prefix) = self.rest.first_chunk::<PREFIX>() else {
            return Deframed::More;
        };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > limit {
            return Deframed::TooLong;
        }
        if self.rest.len() < PREFIX + len {
            return Deframed::More;
        }
        let mut frame = self.rest.split_to(PREFIX + len);
        Deframed::Frame(frame.split_off(PREFIX))
    }

    /// Takes at most `max` of the bytes that follow the last frame; `None` if none are here.
    pub(crate) fn take(&mut self, max: usize) -> Option<Bytes> {
        let len = self.rest.len().min(max);
        (len > 0).then(|| self.rest.split_to(len))
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Bytes of length before a message.
pub(crate) const PREFIX: usize = 4;
/// Room made for a frame at first: most are shorter.
const TYPICAL: usize = 512;

#[cfg(test)]
mod tests {
    use dht_core::message::Refusal;

    use super::*;

    fn refusal() -> Answer {
        Answer::Refused(Refusal::NoHello)
    }

    #[test]
    fn a_frame_is_a_length_and_a_message() {
        let frame = encode(&refusal(), 100).expect("short");
        assert_eq!(frame.as_ref(), [0, 0, 0, 2, 5, 2]);
        assert_eq!(decode::<Answer>(&frame[PREFIX..]), Some(refusal()));
        assert_eq!(decode::<Answer>(&[5, 2, 0]), None, "a byte too many");
        assert_eq!(decode::<Answer>(&[5]), None, "a byte too few");
        assert_eq!(decode::<Answer>(&[6]), None, "no such variant");
    }

    #[test]
    fn the_limit_counts_the_message() {
        assert!(encode(&refusal(), 2).is_ok());
        assert_eq!(encode(&refusal(), 1), Err(TooLong { len: 2 }));
        let mut deframer = Deframer::default();
        deframer.push(Bytes::from_static(&[0, 0, 0, 2, 5, 2]));
        assert_eq!(deframer.frame(1), Deframed::TooLong);
        assert_eq!(deframer.frame(2), Deframed::Frame(Bytes::from_static(&[5, 2])));
    }

    #[test]
    fn frames_come_out_of_pieces_of_any_size() {
        let bytes = [0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0, 9, 9];
        for size in 1..=bytes.len() {
            let mut deframer = Deframer::default();
            let mut frames = Vec::new();
            for piece in bytes.chunks(size) {
                deframer.push(Bytes::copy_from_slice(piece));
                while frames.len() < 2 {
                    match deframer.frame(100) {
                        Deframed::Frame(frame) => frames.push(frame.to_vec()),
                        other => {
                            assert_eq!(other, Deframed::More);
                            break;
                        }
                    }
                }
            }
            assert_eq!(frames, [vec![1, 2, 3], vec![]], "pieces of {size}");
            assert_eq!(deframer.take(1).as_deref(), Some(&[9][..]));
            assert_eq!(deframer.take(100).as_deref(), Some(&[9][..]));
            assert_eq!(deframer.take(100), None);
        }
    }

    /// Case 89: the length is never trusted with memory.
    #[test]
    fn a_huge_length_is_refused_before_anything_of_it_arrives() {
        let quic_varint_2_to_62_minus_1 = [0xff; 8];
        let leb128_in_ten_bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        for bytes in [&quic_varint_2_to_62_minus_1[..], &leb128_in_ten_bytes[..]] {
            let mut deframer = Deframer::default();
            deframer.push(Bytes::copy_from_slice(bytes));
            assert_eq!(deframer.frame(256 * 1024), Deframed::TooLong);
        }
    }
}
