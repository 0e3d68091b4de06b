//! One try at one address: who answers there?

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dht_core::config::RingParams;
use dht_core::message::{Refusal, RingId};
use dht_core::{Contact, Id};
use dht_net::{DialError, Endpoint, Peer};

use crate::node::address::JoinAddr;

/// Who answered.
#[derive(Debug)]
pub(super) enum Knock {
    /// A member of a ring.
    Member {
        addr: SocketAddr,
        contact: Contact,
        ring: RingParams,
        /// Where it sees this node.
        observed: Option<SocketAddr>,
    },
    /// A member of another ring than the one we belong to.
    OtherRing { addr: SocketAddr, theirs: RingId },
    /// A peer that looks for its own place.
    Unplaced,
    /// This very node.
    Myself,
    /// Another process with this node's key.
    Twin { addr: SocketAddr },
    /// Nobody of use.
    Failed { reason: String },
}

/// Asks the resolver, then every address it names.
pub(super) async fn knock(endpoint: &Endpoint, join: &JoinAddr) -> Knock {
    let resolved = match tokio::time::timeout(RESOLVE_TIMEOUT, join.resolve()).await {
        Ok(Ok(addrs)) if !addrs.is_empty() => addrs,
        Ok(Ok(_)) => return failed("the name has no address"),
        Ok(Err(error)) => return failed(format!("the name cannot be resolved: {error}")),
        Err(_) => return failed("the resolver does not answer"),
    };
    let mut addrs = resolved;
    loop {
        match endpoint.dial_any(&addrs, None).await {
            Ok(peer) => {
                let key = peer.key;
                let knock = answered(join, peer);
                if matches!(knock, Knock::Unplaced) {
                    // What it says of itself it says on a new connection.
                    endpoint.disconnect(key);
                }
                return knock;
            }
            // A name may stand for this node and for others.
            Err(DialError::Myself { addr }) => {
                addrs.retain(|held| *held != addr);
                if addrs.is_empty() {
                    return Knock::Myself;
                }
            }
            // Somebody else asked there a moment ago; nothing was learned.
            Err(DialError::BackingOff { retry_after }) => tokio::time::sleep(retry_after).await,
            Err(DialError::SameIdentity { addr }) => return Knock::Twin { addr },
            Err(DialError::OtherRing { theirs, .. }) => {
                return Knock::OtherRing { addr: addrs[0], theirs };
            }
            Err(DialError::Refused { addr, refusal: Refusal::OtherRing { ours, .. } }) => {
                return Knock::OtherRing { addr, theirs: ours };
            }
            Err(error) => return failed(error.to_string()),
        }
    }
}

fn answered(join: &JoinAddr, peer: Peer) -> Knock {
    if let Some(expected) = join.id() {
        let found = Id::of_place(&peer.key, 0);
        if found != expected {
            return failed(format!("answers with id {found}, not with the one that was given"));
        }
    }
    let addr = peer.remote;
    match (peer.hello.record, peer.hello.ring) {
        (Some(record), Some(ring)) if peer.hello.member => {
            let contact = Contact::new(Arc::new(record), 0);
            Knock::Member { addr, contact, ring, observed: peer.hello.observed }
        }
        (Some(_), _) => Knock::Unplaced,
        (None, _) => failed("is a client, not a node"),
    }
}

fn failed(reason: impl Into<String>) -> Knock {
    Knock::Failed { reason: reason.into() }
}

/// How long a name may take to be resolved before the other addresses and the next try get their
/// turn (guess: two tries of a resolver).
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
