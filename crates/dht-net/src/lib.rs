//! The QUIC transport of dht-node: identity, TLS, frames, connections, bulk streams.
//!
//! An [`Endpoint`] owns one UDP socket. It keeps at most one connection in use with each peer,
//! dials on demand, and carries one request per stream: a frame, perhaps bulk bytes, and back the
//! same. What crosses the wire is told in `docs/wire.md`; what the messages mean is dht-core's.

mod about;
mod accept;
mod ask;
mod backoff;
mod body;
mod check;
pub mod codes;
mod config;
mod dial;
mod endpoint;
mod error;
mod frame;
mod identity;
mod incoming;
mod link;
mod peer;
mod race;
mod record;
mod refusal;
mod serve;
mod shared;
mod socket;
mod table;
mod tasks;
mod tls;
mod transport;

#[cfg(test)]
mod tests;

pub use about::VERSION as PROTOCOL_VERSION;
pub use body::{BodyReader, BodyWriter};
pub use config::{EndpointConfig, Limits};
pub use endpoint::Endpoint;
pub use error::{BindError, BodyError, DialError, IdentityError, Lost, RequestError};
pub use identity::Identity;
pub use incoming::{Incoming, Responder};
pub use peer::{Peer, PendingReply, Reply};
pub use record::{is_dialable, verify_record};
