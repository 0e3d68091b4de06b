//! One peer as a client sees it, and its answers.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use dht_core::message::{Answer, Frame, Hello};
use dht_core::{PeerKey, PeerRecord};

use crate::ask::{To, ask, ask_body};
use crate::body::{BodyReader, BodyWriter};
use crate::error::RequestError;
use crate::frame::Kind;
use crate::link::{Link, read_reply};

/// A peer that answered a dial. It needs no record: should its connection close meanwhile, it is
/// dialled again at the same address, and only the same key will do.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The key it proved.
    pub key: PeerKey,
    /// What it said of itself.
    pub hello: Hello,
    /// Where it answered.
    pub remote: SocketAddr,
    pub(crate) link: Arc<Link>,
}

impl Peer {
    /// Asks it. See [`Endpoint::request`](crate::Endpoint::request).
    pub async fn request(&self, frame: Frame) -> Result<Reply, RequestError> {
        ask(&self.link.shared, To::Peer(self), frame).await
    }

    /// Asks it, with bytes after the frame. See
    /// [`Endpoint::request_body`](crate::Endpoint::request_body).
    pub async fn request_body(
        &self,
        frame: Frame,
    ) -> Result<(BodyWriter, PendingReply), RequestError> {
        ask_body(&self.link.shared, To::Peer(self), frame).await
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The first, and mostly the only one; a refusal of the peer too.
    pub answer: Answer,
    /// The bytes, or the further answers, that follow.
    pub body: BodyReader,
    /// What the peer said of itself last; `None` of a client.
    pub record: Option<Arc<PeerRecord>>,
    /// How long opening a connection took, in microseconds; 0 if there was one.
    pub connect_us: u64,
}

/// The answer to a request whose bytes are still being sent: await it. It may come before all bytes
/// are sent, and then says why no more are wanted.
#[derive(Debug)]
pub struct PendingReply {
    pub(crate) reader: BodyReader,
    pub(crate) kind: Kind,
    pub(crate) connect_us: u64,
}

impl IntoFuture for PendingReply {
    type Output = Result<Reply, RequestError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(read_reply(self.reader, self.kind, self.connect_us))
    }
}
