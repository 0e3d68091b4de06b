//! Values that the samples are made of.

use std::sync::Arc;

use bytes::Bytes;
use dht_core::config::RingParams;
use dht_core::manifest::ChunkRef;
use dht_core::message::{Hello, RingId};
use dht_core::peer::Signature;
use dht_core::register::{Ballot, Key, OperationId, Register, Value};
use dht_core::{Contact, Id, PeerRecord};
use dht_net::Identity;

pub(crate) fn record() -> PeerRecord {
    let addrs = vec![([192, 0, 2, 1], 4433).into(), "[2001:db8::1]:443".parse().expect("v6")];
    Identity::from_seed([1; 32]).record(300, 2, addrs)
}

pub(crate) fn contact() -> Contact {
    Contact::new(Arc::new(record()), 3)
}

pub(crate) fn other_contact() -> Contact {
    Contact::new(Arc::new(Identity::from_seed([2; 32]).record(0, 0, vec![])), 0)
}

/// As an event of the map names it.
pub(crate) fn unsigned_contact() -> Contact {
    let addrs = record().addrs.into_iter().take(1).collect();
    let record = PeerRecord { revision: 0, addrs, signature: Signature::NONE, ..record() };
    Contact::new(Arc::new(record), 3)
}

pub(crate) fn hello() -> Hello {
    Hello {
        ring: Some(RingParams::founding(ring_id(), 3)),
        record: Some(record()),
        instance: u64::MAX,
        observed: Some(([192, 0, 2, 7], 9).into()),
        member: true,
    }
}

pub(crate) fn client_hello() -> Hello {
    Hello { ring: None, record: None, instance: 0, observed: None, member: false }
}

pub(crate) fn ring_id() -> RingId {
    RingId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
}

pub(crate) fn id() -> Id {
    Id::of_key(b"abc")
}

pub(crate) fn key() -> Key {
    Key::new("a key").expect("short")
}

pub(crate) fn operation() -> OperationId {
    OperationId([0x0d; 16])
}

pub(crate) fn ballot() -> Ballot {
    Ballot { epoch: 1, counter: 128, peer: record().key }
}

pub(crate) fn register() -> Register {
    let value = Value::Present(Bytes::from_static(b"value"));
    Register { key: key(), ballot: ballot(), operations: vec![operation()], value }
}

pub(crate) fn chunk() -> ChunkRef {
    ChunkRef { hash: [0xcc; 32], len: 1 << 20 }
}
