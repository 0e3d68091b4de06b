//! What a client is started with.

use std::sync::Arc;
use std::time::Duration;

use dht_net::Identity;

use crate::node::{DEFAULT_RING_NAME, JoinAddr};

/// How a client finds its ring and how patient it is.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Members to connect to, best first; any one will do. At most [`MAX_NODES`] are tried.
    pub nodes: Vec<JoinAddr>,
    /// Name of the ring: members of others are never talked to.
    pub ring_name: String,
    /// Longest time without progress: until an answer, or until the next bytes of a file.
    pub timeout: Duration,
    /// The client's key: nodes that list it take admin requests from it. `None`: one for the moment.
    pub identity: Option<Arc<Identity>>,
    /// Bounds everything the client does, from [`Client::connect`](super::Client::connect) on;
    /// `None`: no bound.
    pub deadline: Option<Duration>,
}

impl ClientConfig {
    /// A client of the default ring with the default patience.
    pub fn new(nodes: Vec<JoinAddr>) -> ClientConfig {
        ClientConfig {
            nodes,
            ring_name: DEFAULT_RING_NAME.to_owned(),
            timeout: DEFAULT_TIMEOUT,
            identity: None,
            deadline: None,
        }
    }
}

/// Longest time without progress unless told otherwise (`docs/cli.md`): above the 20 s that a
/// register operation may take.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Most members a client tries; the rest are left out. 16 (guess).
pub const MAX_NODES: usize = 16;
