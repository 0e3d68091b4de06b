//! One peer as a client sees it, and its answers.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;

use dht_core::PeerKey;
use dht_core::message::{Answer, Frame, Hello};

use crate::body::{BodyReader, BodyWriter};
use crate::error::RequestError;

/// A peer that answered a dial.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The key it presented.
    pub key: PeerKey,
    /// What it said of itself.
    pub hello: Hello,
    /// Where it answered.
    pub remote: SocketAddr,
}

impl Peer {
    /// Asks it.
    pub async fn request(&self, frame: Frame) -> Result<Reply, RequestError> {
        let _ = frame;
        Err(RequestError::Closed)
    }

    /// Asks it, with bytes after the frame.
    pub async fn request_body(
        &self,
        frame: Frame,
    ) -> Result<(BodyWriter, PendingReply), RequestError> {
        let _ = frame;
        Err(RequestError::Closed)
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The first, and mostly the only one; a refusal of the peer too.
    pub answer: Answer,
    /// The bytes, or the further answers, that follow.
    pub body: BodyReader,
    /// How long opening a connection took, in microseconds; 0 if there was one.
    pub connect_us: u64,
}

/// The answer to a request whose bytes are still being sent.
#[derive(Debug)]
pub struct PendingReply {}

impl IntoFuture for PendingReply {
    type Output = Result<Reply, RequestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(std::future::ready(Err(RequestError::Closed)))
    }
}
