//! Requests of others, and the way to answer them.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use dht_core::message::{Answer, Frame, Hello};
use dht_core::{PeerKey, PeerRecord};

use crate::body::{BodyReader, BodyWriter};

/// A request. It was read, its bounds are checked, and every record in it is signed.
#[derive(Debug)]
pub struct Incoming {
    /// Who asks: the key that the connection presented.
    pub key: PeerKey,
    /// What the asker said of itself.
    pub hello: Option<Hello>,
    /// The asker's own record, if it has one: always for `Ring` and `Chunk` frames.
    pub contact_record: Option<Arc<PeerRecord>>,
    /// Where its packets come from.
    pub remote: SocketAddr,
    /// Whether that is this host.
    pub is_loopback: bool,
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
pub struct Responder {}

impl Responder {
    /// Answers, and that is all.
    pub async fn answer(self, answer: Answer) {
        let _ = answer;
    }

    /// Answers, and bytes follow.
    pub async fn answer_with_body(self, answer: Answer) -> BodyWriter {
        let _ = answer;
        BodyWriter {}
    }

    /// Answers, and another answer follows.
    pub async fn progress(&mut self, answer: Answer) {
        let _ = answer;
    }

    /// Resolves when the asker does not want the answer any more, or is gone.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::ready(())
    }

    /// Gives up with a number for the asker.
    pub fn reset(self, code: u64) {
        let _ = code;
    }
}
