//! The running node: one task drives the state machine of `dht-core`, others carry its messages
//! over `dht-net` and its records to `dht-store`, and the gateway serves clients.
//!
//! ```text
//! endpoint -> serve -> driver (owns the state machine) -> carrier -> endpoint, disk
//!                   -> chunks -> disk
//!                   -> gateway -> driver, chunks
//! bootstrap -> driver        keeper: the end
//! ```

mod address;
mod backoff;
mod bootstrap;
mod budget;
mod carrier;
mod chunks;
mod config;
mod disk;
mod driver;
mod error;
mod estimate;
mod gateway;
mod journal;
mod keeper;
mod latency;
mod life;
mod observed;
mod presence;
mod serve;
mod shared;
mod start;
mod tasks;
#[cfg(test)]
mod tests;
mod upkeep;

use std::net::SocketAddr;
use std::time::Duration;

use dht_core::Contact;
use dht_core::message::RingId;
use dht_core::node::Snapshot;
use tokio::sync::watch;

pub use address::{AddrError, AddrErrorReason, JoinAddr, MAX_RESOLVED};
pub use config::{
    DEFAULT_HOP_BUDGET, DEFAULT_PORT, DEFAULT_REPLICAS, DEFAULT_RING_NAME, DataPlace, NodeConfig,
};
pub use error::{StartError, StopReason};

use driver::{DriverHandle, Status};
use shared::{Order, Orders};
use tasks::Tasks;

/// A running node. Dropping it is [`Node::kill`].
#[derive(Debug)]
pub struct Node {
    listen: SocketAddr,
    took_other_port: bool,
    ring_name: String,
    contact: watch::Receiver<Contact>,
    status: watch::Receiver<Status>,
    driver: DriverHandle,
    orders: Orders,
    stopped: watch::Receiver<Option<StopReason>>,
    /// Holds the one task that ends all others.
    keeper: Tasks,
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
        start::start(config).await
    }

    /// Waits until the node has its place in the ring, or needs none. An error if it stopped first.
    pub async fn ready(&self) -> Result<Ready, StopReason> {
        let mut status = self.status.clone();
        let ring = tokio::select! {
            biased;
            reason = self.stopped() => return Err(reason),
            ready = status.wait_for(|status| status.ready && status.params.is_some()) => {
                ready.ok().and_then(|status| status.params).map(|params| params.id)
            }
        };
        match ring {
            Some(ring) => Ok(Ready {
                contact: self.contact(),
                listen: self.listen,
                ring,
                ring_name: self.ring_name.clone(),
            }),
            None => Err(self.stopped().await),
        }
    }

    /// The node's place, with its newest record.
    pub fn contact(&self) -> Contact {
        self.contact.borrow().clone()
    }

    /// The bound socket, with its real port. A wildcard if one was asked for.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Whether another port than the default had to be taken, because nobody asked for one and the
    /// default was in use.
    pub fn took_other_port(&self) -> bool {
        self.took_other_port
    }

    /// The state machine as it is now; `None` when it has not begun or has stopped.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        self.driver.snapshot().await
    }

    /// Stops in order, to come back later: clients finish what they are at (within 5 s), neighbours
    /// mend at once, copies and memberships stay. Returns when everything is closed; within 2 s when
    /// idle. Told again, it waits for the same.
    pub async fn stop(&self) -> StopReason {
        self.orders.give(Order::Stop);
        self.stopped().await
    }

    /// Leaves for good: copies first, then the links, then everything is closed. `progress` is told
    /// how many registers and chunks still lack a new keeper, `None` while counting. Without a
    /// bound: others decide how fast they copy. A [`Node::stop`] meanwhile calls it off.
    pub async fn leave(&self, mut progress: impl FnMut(Option<u64>) + Send) -> StopReason {
        self.orders.give(Order::Leave);
        let mut status = self.status.clone();
        loop {
            tokio::select! {
                reason = self.stopped() => return reason,
                changed = status.changed() => {
                    if changed.is_err() {
                        return self.stopped().await;
                    }
                    let missing = status.borrow_and_update().missing;
                    progress(missing);
                }
            }
        }
    }

    /// Ends at once, as a SIGKILL would: nobody is told, sockets are closed, acknowledged data are
    /// on disk. [`Node::stopped`] tells when that is done.
    pub fn kill(&self) {
        self.orders.give(Order::Halt(StopReason::Killed));
    }

    /// Waits until the node has stopped, for whatever reason, and all of it is closed.
    pub async fn stopped(&self) -> StopReason {
        let mut stopped = self.stopped.clone();
        let reason = match stopped.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone(),
            Err(_) => None,
        };
        self.keeper.finish(KEEPER_LIMIT).await;
        reason.unwrap_or(StopReason::Crashed)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The keeper goes on by itself until all is closed; without a runtime it is gone already.
        self.kill();
    }
}

/// How long the keeper may take to return once it has said that all is closed (guess: no time).
const KEEPER_LIMIT: Duration = Duration::from_secs(1);
