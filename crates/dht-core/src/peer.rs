//! Who is on the circle: peers, their signed address records, and their places.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::Id;

/// Longest address list of one peer. A host has a handful of interfaces; more is an attempt to
/// make others dial (guess).
pub const MAX_ADDRS: usize = 8;

/// An ed25519 public key: what a peer *is*. One peer may hold several places on the circle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerKey(pub [u8; 32]);

impl PeerKey {
    /// The raw key bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key:{:02x}{:02x}{:02x}{:02x}", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// An ed25519 signature. The core carries it and never looks inside; dht-net checks it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl Signature {
    /// No signature: of a record that was heard of in an event of the map.
    pub const NONE: Signature = Signature([0; 64]);
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sig:{:02x}{:02x}..", self.0[0], self.0[1])
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // serde has arrays up to 32; two halves keep the form fixed-size.
        let (left, right) = self.0.split_at(32);
        let half = |part: &[u8]| -> [u8; 32] { part.try_into().expect("split in the middle") };
        (half(left), half(right)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Signature, D::Error> {
        let (left, right) = <([u8; 32], [u8; 32])>::deserialize(deserializer)?;
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&left);
        bytes[32..].copy_from_slice(&right);
        Ok(Signature(bytes))
    }
}

/// What a peer says of itself, signed by its key, so that second-hand copies cannot be forged and
/// stale ones never win over newer ones.
///
/// The sequence number is `(incarnation, revision)`, compared in that order: the incarnation grows
/// with every start of the peer, the revision with every change of address within one life.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerRecord {
    /// The peer.
    pub key: PeerKey,
    /// Which life of the peer this is. Verdicts and late replies about an older one are void.
    pub incarnation: u64,
    /// Which set of addresses within that life.
    pub revision: u32,
    /// Where the peer can be dialled, best first; at most [`MAX_ADDRS`].
    pub addrs: Vec<SocketAddr>,
    /// By `key`, over everything above.
    pub signature: Signature,
}

impl PeerRecord {
    /// Whether it carries a signature, which dht-net checks. One without is good for dialling its peer, and
    /// for nothing else.
    pub fn is_signed(&self) -> bool {
        self.signature != Signature::NONE
    }

    /// The sequence number: the greater one is the newer record.
    pub fn sequence(&self) -> (u64, u32) {
        (self.incarnation, self.revision)
    }
}

/// A place on the circle with all that is needed to reach it: what successor and predecessor lists
/// are made of.
///
/// On the wire it is the record and the index; the id is computed by whoever reads it, so it cannot
/// be claimed.
#[derive(Clone, PartialEq, Eq)]
pub struct Contact {
    /// Where on the circle.
    pub id: Id,
    /// Which place of its peer.
    pub index: u8,
    /// The peer.
    pub record: Arc<PeerRecord>,
}

impl Contact {
    /// Place number `index` of a peer.
    pub fn new(record: Arc<PeerRecord>, index: u8) -> Contact {
        Contact { id: Id::of_place(&record.key, index), index, record }
    }

    /// A contact at a chosen id: scenarios name their points. Never sent over a real wire.
    pub fn at(id: Id, record: Arc<PeerRecord>) -> Contact {
        Contact { id, index: 0, record }
    }

    /// Whether both places belong to one peer.
    pub(crate) fn is_of_peer_of(&self, other: &Contact) -> bool {
        // Two places of one number are one place or belong to two peers: their records, which lie elsewhere in
        // memory, need not be looked at.
        if self.index == other.index { self.id == other.id } else { self.key() == other.key() }
    }

    /// The peer that holds the place.
    pub fn key(&self) -> PeerKey {
        self.record.key
    }

    /// Which life of the peer this contact speaks of.
    pub fn incarnation(&self) -> u64 {
        self.record.incarnation
    }
}

impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.id)?;
        // `{:+?}` tells lives apart.
        if f.sign_plus() { write!(f, "~{}", self.incarnation()) } else { Ok(()) }
    }
}

impl Serialize for Contact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.index, &self.record).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Contact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Contact, D::Error> {
        let (index, record) = <(u8, Arc<PeerRecord>)>::deserialize(deserializer)?;
        Ok(Contact::new(record, index))
    }
}
