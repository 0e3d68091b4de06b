//! What a node is started with.

use std::net::SocketAddr;
use std::path::PathBuf;

use dht_core::{Config, PeerKey};

use super::address::JoinAddr;

/// Everything a node needs to know before it starts. [`NodeConfig::new`] is a working node: a ring
/// of its own on loopback, or the ring its data directory remembers.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// UDP socket to bind. `None`: port 4433, or a free one if that is taken; on loopback, unless
    /// `join` names another host. A given address is bound or the start fails; port 0 picks one.
    pub listen: Option<SocketAddr>,
    /// What others shall dial. `None`: the bound address if it is a specific one, else what peers
    /// observe.
    pub advertise: Option<SocketAddr>,
    /// Members to join through; all are tried. Empty: the ring the data directory remembers, or a
    /// new one.
    pub join: Vec<JoinAddr>,
    /// Where identity, registers and chunks are kept.
    pub data: DataPlace,
    /// Rings of other names never mix.
    pub ring_name: String,
    /// How the state machine behaves; [`Config::validate`] is run at the start.
    pub core: Config,
    /// Copies of every chunk. `None`: what the ring says, 3 for a new one. A value that differs
    /// from the ring's is an error showing both.
    pub replicas: Option<u8>,
    /// Keys that may ask for admin requests from anywhere; loopback may always.
    pub admins: Vec<PeerKey>,
    /// Mean hops that the node's own lookups may take; where they take more, the node says so, once. `None`:
    /// nobody watches. At least 1. [`DEFAULT_HOP_BUDGET`] by default. Lower: it speaks up earlier.
    pub hop_budget: Option<f64>,
    /// Version of the program, as shown to clients.
    pub version: String,
}

impl NodeConfig {
    /// The defaults, with this data place.
    pub fn new(data: DataPlace) -> NodeConfig {
        NodeConfig {
            listen: None,
            advertise: None,
            join: Vec::new(),
            data,
            ring_name: DEFAULT_RING_NAME.to_owned(),
            core: Config::default(),
            replicas: None,
            admins: Vec::new(),
            hop_budget: Some(DEFAULT_HOP_BUDGET),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Where a node keeps what must outlive it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataPlace {
    /// In this directory, which is made if it is not there.
    Dir(PathBuf),
    /// Nowhere: identity, registers and chunks are in memory and end with the node.
    Ephemeral,
}

/// Port of a node that was not told another (`docs/cli.md`).
pub const DEFAULT_PORT: u16 = 4433;
/// Name of a ring that was not given one (`docs/cli.md`).
pub const DEFAULT_RING_NAME: &str = "default";
/// Copies of every chunk in a ring founded without a say (Dynamo 2007, section 4.5).
pub const DEFAULT_REPLICAS: u8 = 3;
/// Mean hops of a node that was told nothing else (guess). A walk with the default list of 16 takes 8 on
/// about 240 nodes, where fingers with the same list would take 3: the first size at which another routing
/// saves more than half (`docs/protocol.md`, formulas (c) and (e)).
pub const DEFAULT_HOP_BUDGET: f64 = 8.0;
