//! Why a node does not start, and why it stopped.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use dht_core::config::ConfigError;
use dht_core::message::RingId;

/// Why [`Node::start`](super::Node::start) gave up. Nothing runs then, and nothing was changed but
/// perhaps an empty data directory made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting broke its bound.
    #[error(transparent)]
    Setting(#[from] ConfigError),
    /// The data directory cannot be made or read.
    #[error("cannot use the data directory {}: {source}", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has the data directory open.
    #[error(
        "the data directory {} is in use by {}; stop that node or give this one another --data-dir",
        path.display(),
        holder_text(*holder)
    )]
    DataDirInUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it, if it said so.
        holder: Option<u32>,
    },
    /// There is data, but the key that it belongs to is gone. A new key would orphan the data.
    #[error(
        "{} holds data but no identity key ({}); put the key back, or start with another --data-dir",
        path.display(),
        key.display()
    )]
    IdentityMissing {
        /// The directory.
        path: PathBuf,
        /// Where the key should be.
        key: PathBuf,
    },
    /// The key is there, but what it kept is gone: a disk that is not mounted looks like that, and
    /// to start empty would be to forget copies that others count on.
    #[error(
        "the key {} is here but its store {} is not: mount or restore its disk; or, if it is lost, \
         remove the key too and start as a new node",
        key.display(),
        path.display()
    )]
    StoreMissing {
        /// Where the store should be.
        path: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The data directory belongs to a ring of another name.
    #[error(
        "--ring {asked} differs from the ring {held} that the data in {} belong to; leave the flag \
         out, or start with another --data-dir",
        path.display()
    )]
    OtherRingName {
        /// The directory.
        path: PathBuf,
        /// The name of its ring.
        held: String,
        /// What was asked for.
        asked: String,
    },
    /// The key file is there but cannot be used: cut short, overwritten, or not readable.
    #[error(transparent)]
    Identity(#[from] dht_net::IdentityError),
    /// What the store keeps about its ring cannot be read.
    #[error(
        "the store's record `{name}` is damaged; restore it from a copy, or start with another --data-dir"
    )]
    RecordDamaged {
        /// Name of the record.
        name: &'static str,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    StoreOpen(Box<dht_store::OpenError>),
    /// The store opened but does not work.
    #[error(transparent)]
    Store(#[from] dht_store::StoreError),
    /// Another socket has the port.
    #[error("UDP port {} of {} is in use by another process; give this node another --listen", addr.port(), addr.ip())]
    PortInUse {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The socket cannot be bound for another reason.
    #[error("cannot listen on {addr}: {source}; give another --listen")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A bound of the transport is out of range: a bug.
    #[error(transparent)]
    Limit(dht_net::BindError),
    /// The data directory belongs to a ring with another number of copies.
    #[error(
        "--replicas {asked} differs from the ring's {ring}: it was set when the ring was founded; leave the flag out"
    )]
    ReplicasDiffer {
        /// What was asked for.
        asked: u8,
        /// What the ring says.
        ring: u8,
    },
    /// Not a number of copies.
    #[error("--replicas is {asked}, but must lie between 1 and 8")]
    Replicas {
        /// What was asked for.
        asked: u8,
    },
    /// A task of the start panicked: a bug.
    #[error("opening the data place failed; this is a bug")]
    Crashed,
    /// `--advertise` cannot be dialled by anybody.
    #[error("--advertise {addr} cannot be dialled: it must name one address and a port")]
    Advertise {
        /// What was asked for.
        addr: SocketAddr,
    },
}

/// Why a node stopped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StopReason {
    /// [`Node::stop`](super::Node::stop) was called: it may come back.
    #[error("the node was stopped")]
    Stopped,
    /// It left its ring for good, by [`Node::leave`](super::Node::leave) or an admin request.
    #[error("the node left its ring")]
    Left,
    /// [`Node::kill`](super::Node::kill) was called, or the handle was dropped.
    #[error("the node was killed")]
    Killed,
    /// Another live node has the same key.
    #[error(
        "id in use at {addr}: another live node has this node's key; stop one of the two, and give \
         it a --data-dir of its own"
    )]
    IdInUse {
        /// Where the other one answers.
        addr: SocketAddr,
    },
    /// The node was told to join a ring but its data belong to another one.
    #[error(
        "{addr} belongs to ring {theirs:032x}, but the data here belong to ring {ours:032x}: two \
         rings never merge; start with another --data-dir",
        theirs = theirs.0,
        ours = ours.0
    )]
    OtherRing {
        /// Who was asked.
        addr: SocketAddr,
        /// The ring of the data here.
        ours: RingId,
        /// The ring there.
        theirs: RingId,
    },
    /// `--replicas` differs from the ring's.
    #[error(
        "--replicas {asked} differs from the ring's {ring}: it was set when the ring was founded; leave the flag out"
    )]
    ReplicasDiffer {
        /// What was asked for.
        asked: u8,
        /// What the ring says.
        ring: u8,
    },
    /// The store failed: going on could lose what was acknowledged.
    #[error("the store failed; look at the disk, then start again")]
    StoreFailed,
    /// A task of the node panicked: a bug.
    #[error("a task of the node failed; this is a bug")]
    Crashed,
}

fn holder_text(holder: Option<u32>) -> String {
    match holder {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

impl From<dht_net::BindError> for StartError {
    fn from(error: dht_net::BindError) -> StartError {
        match error {
            dht_net::BindError::PortInUse { addr } => StartError::PortInUse { addr },
            dht_net::BindError::Io { addr, source } => StartError::Bind { addr, source },
            error @ dht_net::BindError::Limit { .. } => StartError::Limit(error),
        }
    }
}
