//! Contacts for unit tests.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::id::Id;
use crate::peer::{Contact, PeerKey, PeerRecord, Signature};

/// Where number `n` lies: small numbers at the start of the circle, large ones spread over all of
/// it, by their share of `u64::MAX`.
pub(crate) fn point(n: u64) -> Id {
    if n <= u64::from(u32::MAX) {
        return Id::from_u64(n);
    }
    let mut bytes = [0; Id::LEN];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    Id::from_bytes(bytes)
}

/// The contact at point `n`, in its first life.
pub(crate) fn contact(n: u64) -> Contact {
    contact_in_life(n, 1)
}

/// The contact at point `n` in a given life.
pub(crate) fn contact_in_life(n: u64, incarnation: u64) -> Contact {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&n.to_be_bytes());
    let port = 1000 + (n % 60_000) as u16;
    let record = PeerRecord {
        key: PeerKey(key),
        incarnation,
        revision: 0,
        addrs: vec![SocketAddr::from(([127, 0, 0, 1], port))],
        signature: Signature([0; 64]),
    };
    Contact::at(point(n), Arc::new(record))
}
