//! Bulk bytes on a stream.

use bytes::Bytes;
use dht_core::message::Answer;

use crate::error::BodyError;

/// Bytes that follow a frame or an answer, as they arrive.
#[derive(Debug)]
pub struct BodyReader {}

impl BodyReader {
    /// The next bytes, at most `max` of them; `None` at the end. A reset is an error, never an end.
    pub async fn read(&mut self, max: usize) -> Result<Option<Bytes>, BodyError> {
        let _ = max;
        Err(BodyError::BadAnswer)
    }

    /// The next answer where several follow each other; `None` at the end.
    pub async fn next_answer(&mut self) -> Result<Option<Answer>, BodyError> {
        Err(BodyError::BadAnswer)
    }
}

/// Sends bytes after a frame or an answer. Dropped before [`BodyWriter::finish`], it resets the
/// stream, so that the other side never takes a part for the whole.
#[derive(Debug)]
pub struct BodyWriter {}

impl BodyWriter {
    /// Sends these bytes, waiting while the other side takes no more.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), BodyError> {
        let _ = bytes;
        Err(BodyError::BadAnswer)
    }

    /// Says that this was all.
    pub fn finish(self) -> Result<(), BodyError> {
        Err(BodyError::BadAnswer)
    }

    /// Gives up with a number for the other side.
    pub fn reset(self, code: u64) {
        let _ = code;
    }
}
