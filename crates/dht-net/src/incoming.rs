//! Requests of others, and the way to answer them.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use dht_core::message::{Answer, Frame, Hello, Refusal};
use dht_core::{PeerKey, PeerRecord};

use crate::body::{BodyReader, BodyWriter};
use crate::shared::Shared;

/// A request. It was read, its bounds are checked, and every record in it is signed.
#[derive(Debug)]
pub struct Incoming {
    /// Who asks: the key that the connection proved.
    pub key: PeerKey,
    /// What the asker said of itself last; always there, since requests before it are refused.
    pub hello: Option<Hello>,
    /// The asker's own record, if it has one: always for `Ring` and `Chunk` frames.
    pub contact_record: Option<Arc<PeerRecord>>,
    /// Where its packets came from when it connected.
    pub remote: SocketAddr,
    /// Whether that is this very host: a loopback address, or the one that the packets came to.
    pub is_local: bool,
    /// Whether it may ask admin requests; others' are refused before they get here.
    pub is_admin: bool,
    /// What is asked; never a `Hello`.
    pub frame: Frame,
    /// The bytes that follow.
    pub body: BodyReader,
    /// To answer.
    pub responder: Responder,
}

/// Answers one request. Dropped without an answer, it resets the stream.
#[derive(Debug)]
pub struct Responder {
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: BodyWriter,
}

impl Responder {
    /// Answers, and that is all. Whether the asker is still there does not matter.
    pub async fn answer(mut self, answer: Answer) {
        let frame = self.frame(&answer);
        if self.writer.write_piece(frame).await.is_ok() {
            // A stream that was stopped a moment ago has nobody to tell.
            let _ = self.writer.finish();
        }
    }

    /// Answers, and bytes follow. If the asker is gone, the first write says so.
    pub async fn answer_with_body(mut self, answer: Answer) -> BodyWriter {
        let frame = self.frame(&answer);
        // The writer keeps an error for its next use.
        let _ = self.writer.write_piece(frame).await;
        self.writer.yield_to_others();
        self.writer
    }

    /// Answers, and another answer follows.
    pub async fn progress(&mut self, answer: Answer) {
        let frame = self.frame(&answer);
        // The writer keeps an error for its next use.
        let _ = self.writer.write_piece(frame).await;
    }

    /// Resolves when the asker does not want the answer any more, or is gone.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.writer.stopped()
    }

    /// Gives up with a number for the asker: one of [`codes`](crate::codes), or of
    /// [`ClientErrorCode`](dht_core::message::client::ClientErrorCode).
    pub fn reset(self, code: u64) {
        self.writer.reset(code);
    }

    fn frame(&self, answer: &Answer) -> Bytes {
        self.shared.encode(answer).unwrap_or_else(|_| {
            tracing::warn!("an answer is too long for a frame; this is a bug");
            let limit = self.shared.limits.max_frame as u64;
            let refusal = Answer::Refused(Refusal::TooLarge { limit });
            self.shared.encode(&refusal).expect("every frame limit has room for a refusal")
        })
    }
}
