//! What can go wrong, one type for each boundary.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use dht_core::PeerKey;
use dht_core::message::{Refusal, RingId};
use quinn::ConnectionError;

use crate::codes;

/// Why an identity file could not be used. The file is never changed then.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// There is none: [`Identity::create`](crate::Identity::create) makes one.
    #[error("there is no identity key at {}", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// There is one already, and it is never overwritten.
    #[error("{} exists already and is not overwritten", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// The file is not as long as an identity: it was cut short, or is another file.
    #[error(
        "the identity key {} has {len} bytes instead of {expected}: restore it from a copy; if it is \
         lost, start with another data directory",
        path.display()
    )]
    WrongSize {
        /// Where.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The length of an identity in bytes.
        expected: u64,
    },
    /// The file has the right length but does not hold what was written.
    #[error(
        "the identity key {} is damaged: restore it from a copy; if it is lost, start with another \
         data directory",
        path.display()
    )]
    Corrupt {
        /// Where.
        path: PathBuf,
    },
    /// The system could not read or write it.
    #[error("cannot read or write the identity key {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why an endpoint did not start. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another socket has the port.
    #[error("UDP port {} of {} is in use by another process", addr.port(), addr.ip())]
    PortInUse {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The socket cannot be bound for another reason.
    #[error("cannot bind UDP port {} of {}: {source}", addr.port(), addr.ip())]
    Io {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A limit is out of the range that QUIC allows.
    #[error("{field} is {value}, but must lie between {least} and {most}")]
    Limit {
        /// Which limit.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
}

/// Why no connection came about. Nothing was asked of the peer, so the caller may try elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DialError {
    /// The host says that nothing listens at this port.
    #[error("nothing listens at {addr}")]
    NothingListens {
        /// Where.
        addr: SocketAddr,
    },
    /// Nothing came back in time: nothing listens there, or packets are lost.
    #[error("no answer from {addr}")]
    NoAnswer {
        /// Where.
        addr: SocketAddr,
    },
    /// The socket cannot send there: another address family, or no address at all.
    #[error("{addr} cannot be dialled from here")]
    Unroutable {
        /// Where.
        addr: SocketAddr,
    },
    /// The peer's record names no address.
    #[error("the peer's record names no address")]
    NoAddress,
    /// Every address of the peer failed a moment ago and is left alone for a while.
    #[error(
        "every address of the peer failed a moment ago; the next try is due in {retry_after:?}"
    )]
    BackingOff {
        /// When the first address may be tried again.
        retry_after: Duration,
    },
    /// A node of this program with another ring name listens there.
    #[error("{addr} belongs to a ring of another name")]
    OtherRingName {
        /// Where.
        addr: SocketAddr,
    },
    /// A node listens there that speaks another version of the protocol.
    #[error("{addr} speaks version {theirs} of the protocol, this program version {ours}")]
    OtherVersion {
        /// Where.
        addr: SocketAddr,
        /// Our version.
        ours: u16,
        /// Theirs.
        theirs: u16,
    },
    /// Something else than a node listens there.
    #[error("{addr} does not speak this protocol")]
    OtherProtocol {
        /// Where.
        addr: SocketAddr,
    },
    /// Another peer than the one that was meant answers there: the address is stale.
    #[error("{addr} answers with key {presented}, not with {expected}")]
    WrongPeer {
        /// Where.
        addr: SocketAddr,
        /// Who was meant.
        expected: PeerKey,
        /// Who answered.
        presented: PeerKey,
    },
    /// The peer belongs to another ring of the same name.
    #[error("the peer belongs to ring {theirs:032x}, this node to ring {ours:032x}", theirs = theirs.0, ours = ours.0)]
    OtherRing {
        /// Our ring.
        ours: RingId,
        /// Theirs.
        theirs: RingId,
    },
    /// The peer answered and took no connection.
    #[error("{addr} refused: {refusal:?}")]
    Refused {
        /// Where.
        addr: SocketAddr,
        /// Why.
        refusal: Refusal,
    },
    /// The address is this very endpoint's.
    #[error("{addr} is this node itself")]
    Myself {
        /// Where.
        addr: SocketAddr,
    },
    /// Another process answers there with this node's key: the identity was copied.
    #[error("another process answers at {addr} with this node's own key")]
    SameIdentity {
        /// Where.
        addr: SocketAddr,
    },
    /// The connection broke before it was usable.
    #[error("the connection to {addr} broke: {cause}")]
    Broken {
        /// Where.
        addr: SocketAddr,
        /// How.
        cause: Lost,
    },
    /// As many connections as are allowed are all in use.
    #[error("all {limit} connections are in use")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// This endpoint was closed.
    #[error("this endpoint is closed")]
    Closed,
}

/// Why a request has no answer. A refusal of the peer is no error but an answer
/// ([`Answer::Refused`](dht_core::message::Answer::Refused)).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// No connection came about: the peer heard nothing.
    #[error(transparent)]
    Dial(DialError),
    /// The peer belongs to another ring: it took nothing.
    #[error("the peer belongs to ring {theirs:032x}, this node to ring {ours:032x}", theirs = theirs.0, ours = ours.0)]
    OtherRing {
        /// Our ring.
        ours: RingId,
        /// Theirs.
        theirs: RingId,
    },
    /// The peer is this very endpoint.
    #[error("{addr} is this node itself")]
    Myself {
        /// Where.
        addr: SocketAddr,
    },
    /// Another process answers there with this node's key: the identity was copied.
    #[error("another process answers at {addr} with this node's own key")]
    SameIdentity {
        /// Where.
        addr: SocketAddr,
    },
    /// The frame is longer than the limit; nothing was sent.
    #[error("a message of {len} bytes is longer than the {limit} that one may have")]
    TooLarge {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The peer took no hello of ours, or no connection; see the refusal.
    #[error("the peer refused the connection: {0:?}")]
    Refused(Refusal),
    /// The peer gave up this one request. Whether it was carried out is not known.
    #[error("the peer reset the stream with code {code:#x}")]
    Reset {
        /// A number of [`codes`](crate::codes), or of
        /// [`ClientErrorCode`](dht_core::message::client::ClientErrorCode).
        code: u64,
    },
    /// The peer's answer could not be read, broke a bound, or does not belong to the question.
    #[error("the peer's answer cannot be read")]
    BadAnswer,
    /// The peer is going down. Whether the request was carried out is not known.
    #[error("the peer is going down")]
    ShuttingDown,
    /// The connection was lost with the request under way. Whether it was carried out is not known.
    #[error("the connection was lost: {0}")]
    Lost(Lost),
    /// This endpoint was closed.
    #[error("this endpoint is closed")]
    Closed,
}

/// How a connection came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Lost {
    /// Nothing arrived for too long.
    #[error("the peer fell silent")]
    Silence,
    /// The peer does not know the connection any more: it restarted.
    #[error("the peer restarted")]
    Restarted,
    /// The peer closed it.
    #[error("closed by the peer with code {code:#x}")]
    Closed {
        /// A number of [`codes`](crate::codes).
        code: u64,
    },
    /// A rule of QUIC or TLS was broken.
    #[error("protocol error {code:#x}")]
    Protocol {
        /// RFC 9000, section 20.1.
        code: u64,
    },
    /// We closed it ourselves.
    #[error("closed here")]
    Here,
}

/// Why a body stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BodyError {
    /// The other side gave this stream up: what came so far is not the whole.
    #[error("the other side reset the stream with code {code:#x}")]
    Reset {
        /// A number of [`codes`](crate::codes), or of
        /// [`ClientErrorCode`](dht_core::message::client::ClientErrorCode).
        code: u64,
    },
    /// Nothing moved for too long.
    #[error("the other side stalled")]
    Stalled,
    /// The connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(Lost),
    /// A further answer could not be read or broke a bound.
    #[error("a further answer cannot be read")]
    BadAnswer,
}

impl From<DialError> for RequestError {
    fn from(error: DialError) -> RequestError {
        match error {
            DialError::OtherRing { ours, theirs } => RequestError::OtherRing { ours, theirs },
            DialError::Myself { addr } => RequestError::Myself { addr },
            DialError::SameIdentity { addr } => RequestError::SameIdentity { addr },
            DialError::Closed => RequestError::Closed,
            other => RequestError::Dial(other),
        }
    }
}

impl From<Lost> for RequestError {
    fn from(lost: Lost) -> RequestError {
        match lost {
            Lost::Closed { code } if code == u64::from(codes::SHUTTING_DOWN) => {
                RequestError::ShuttingDown
            }
            lost => RequestError::Lost(lost),
        }
    }
}

impl From<BodyError> for RequestError {
    fn from(error: BodyError) -> RequestError {
        match error {
            BodyError::Reset { code } => RequestError::Reset { code },
            BodyError::Stalled => RequestError::Lost(Lost::Silence),
            BodyError::Lost(lost) => lost.into(),
            BodyError::BadAnswer => RequestError::BadAnswer,
        }
    }
}

impl From<&ConnectionError> for Lost {
    fn from(error: &ConnectionError) -> Lost {
        match error {
            ConnectionError::TimedOut => Lost::Silence,
            ConnectionError::Reset => Lost::Restarted,
            ConnectionError::ApplicationClosed(close) => {
                Lost::Closed { code: close.error_code.into_inner() }
            }
            ConnectionError::ConnectionClosed(close) => {
                Lost::Protocol { code: close.error_code.into() }
            }
            ConnectionError::TransportError(error) => Lost::Protocol { code: error.code.into() },
            // RFC 9000, section 20.1: the nearest numbers that there are.
            ConnectionError::VersionMismatch => Lost::Protocol { code: PROTOCOL_VIOLATION },
            ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => Lost::Here,
        }
    }
}

/// RFC 9000, section 20.1.
const PROTOCOL_VIOLATION: u64 = 0x0a;
