//! Every message that crosses the wire, as plain data. Enums only grow at the end; dht-net pins
//! each variant's bytes in a golden test.

pub mod bulk;
pub mod client;
pub mod forward;
pub mod map;
pub mod ring;
mod routings;

use serde::{Deserialize, Serialize};

use crate::config::RingParams;
use crate::peer::PeerRecord;

pub use bulk::{ChunkRequest, ChunkResponse};
pub use client::{AdminRequest, AdminResponse, ClientRequest, ClientResponse};
pub use forward::Forwarding;
pub use ring::{Request, Response};
pub use routings::Routings;

/// Names a ring for good: drawn at random when it is founded. Two rings of different ids never mix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RingId(pub u128);

/// The first frame in either direction on a new connection, and again whenever the sender's record
/// or ring changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The ring the sender belongs to and what was set at its founding; none for a client and for a
    /// peer that has not joined yet.
    pub ring: Option<RingParams>,
    /// The sender's own signed record; none for a client.
    pub record: Option<PeerRecord>,
    /// Drawn at every start: tells one's own echo, and a second process with the same key, from a
    /// peer.
    pub instance: u64,
    /// The address the sender sees the receiver at.
    pub observed: Option<std::net::SocketAddr>,
    /// Whether the sender has its place in the ring.
    pub member: bool,
}

/// What opens a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Frame {
    /// Who is calling.
    Hello(Hello),
    /// From one place to another.
    Ring {
        /// Which place of the sender's peer speaks.
        from: u8,
        /// Which place of the receiver's peer is meant.
        to: u8,
        /// What it wants.
        request: Request,
    },
    /// Chunk bytes between members.
    Chunk(ChunkRequest),
    /// From a client to any member.
    Client(ClientRequest),
    /// What only loopback and listed keys may ask.
    Admin(AdminRequest),
}

/// What comes back on the stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Frame::Hello`].
    Hello(Hello),
    /// To [`Frame::Ring`].
    Ring(Response),
    /// To [`Frame::Chunk`].
    Chunk(ChunkResponse),
    /// To [`Frame::Client`].
    Client(ClientResponse),
    /// To [`Frame::Admin`]; several may follow each other, the last one says so.
    Admin(AdminResponse),
    /// To anything.
    Refused(Refusal),
}

/// Why a request was not taken. The numbers of the variants are the wire's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// The frame could not be read, or broke a bound.
    Malformed,
    /// The two sides belong to different rings.
    OtherRing {
        /// The ring of the one who refuses.
        ours: RingId,
        /// The ring of the one who is refused.
        yours: RingId,
    },
    /// The sender has not said hello.
    NoHello,
    /// The receiver holds no such place.
    NoSuchPlace {
        /// The index asked for.
        index: u8,
    },
    /// Not over this connection: neither loopback nor a listed key.
    NotAdmin,
    /// Too much is going on; try again after this many milliseconds.
    Overloaded {
        /// How long to wait.
        retry_after_ms: u32,
    },
    /// Larger than the receiver takes.
    TooLarge {
        /// The bound, in bytes.
        limit: u64,
    },
    /// The receiver is going down.
    ShuttingDown,
    /// A lookup that came no closer to its key.
    NoProgress,
    /// Known to the protocol but not to this program.
    Unsupported,
}
