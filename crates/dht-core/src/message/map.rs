//! What members tell each other of who is a member: the events of the full map.
//!
//! Events are short, since each of them goes to everybody: a place is named without the signature of its
//! peer's record, and with one address. So what comes in an event is good for asking that peer - the connection
//! proves who answers - and never for telling others of it.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::Id;
use crate::peer::{Contact, PeerKey, PeerRecord, Signature};

/// Most events of one message that is spread or reported (guess: 13 KiB, ten datagrams).
pub const MAX_MAP_EVENTS: usize = 256;
/// Most events of one page, or of one answer to digests (guess: 53 KiB, what one frame carries well).
pub const MAX_MAP_PAGE: usize = 1024;
/// Most digests of one message: parts of the circle (guess: 16 KiB; four places each at 16,384 members).
pub const MAX_MAP_DIGESTS: usize = 4096;

/// Which claim about a place is newer: of two lives of its peer the later one; within one life whoever
/// contradicts what was said counts one up (SWIM 2002, section 4.2, "incarnation numbers").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The life of the peer.
    pub incarnation: u64,
    /// How often it was contradicted within that life.
    pub count: u32,
}

/// A member, as the map knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapPlace {
    /// How to reach it; the signature of the record may be missing.
    pub contact: Contact,
    /// See [`Claim`].
    pub count: u32,
    /// Whether it keeps the map itself, and so passes events on.
    pub keeps_map: bool,
}

/// A change of the membership.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MapEvent {
    /// This one has its place.
    Here(MapPlace),
    /// This one has no place any more. Of two events of the same claim this is the newer one.
    Gone {
        /// Where it was.
        id: Id,
        /// What is contradicted.
        claim: Claim,
    },
}

impl MapPlace {
    /// Which claim this is.
    pub fn claim(&self) -> Claim {
        Claim { incarnation: self.contact.incarnation(), count: self.count }
    }
}

impl MapEvent {
    /// The place it is about.
    pub fn id(&self) -> Id {
        match self {
            MapEvent::Here(place) => place.contact.id,
            MapEvent::Gone { id, .. } => *id,
        }
    }

    /// Orders events about one place: the greater one is the newer one.
    pub fn rank(&self) -> (Claim, bool) {
        match self {
            MapEvent::Here(place) => (place.claim(), false),
            MapEvent::Gone { claim, .. } => (*claim, true),
        }
    }

    /// About how many bytes it takes on the wire.
    pub fn size(&self) -> usize {
        match self {
            MapEvent::Here(_) => HERE_LEN,
            MapEvent::Gone { .. } => GONE_LEN,
        }
    }
}

/// Key, index, incarnation, count, and one IPv4 address.
const HERE_LEN: usize = 52;
/// Point, incarnation and count.
const GONE_LEN: usize = 30;

#[derive(Serialize, Deserialize)]
struct Wire {
    key: PeerKey,
    index: u8,
    incarnation: u64,
    count: u32,
    keeps_map: bool,
    addr: Option<SocketAddr>,
}

impl Serialize for MapPlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = &self.contact.record;
        Wire {
            key: record.key,
            index: self.contact.index,
            incarnation: record.incarnation,
            count: self.count,
            keeps_map: self.keeps_map,
            addr: record.addrs.first().copied(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MapPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MapPlace, D::Error> {
        let Wire { key, index, incarnation, count, keeps_map, addr } =
            Wire::deserialize(deserializer)?;
        let record = PeerRecord {
            key,
            incarnation,
            revision: 0,
            addrs: addr.into_iter().collect(),
            signature: Signature::NONE,
        };
        Ok(MapPlace { contact: Contact::new(Arc::new(record), index), count, keeps_map })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::contact;

    #[test]
    fn a_place_goes_over_the_wire_without_its_signature() {
        let record = PeerRecord {
            key: PeerKey([7; 32]),
            incarnation: 1_800_000_000_000_000,
            revision: 3,
            addrs: vec!["192.0.2.1:4433".parse().expect("an address")],
            signature: Signature([9; 64]),
        };
        let contact = Contact::new(Arc::new(record), 2);
        let event = MapEvent::Here(MapPlace { contact, count: 1, keeps_map: true });
        let bytes = postcard::to_allocvec(&event).expect("plain data");
        assert_eq!(bytes.len(), HERE_LEN);
        let read: MapEvent = postcard::from_bytes(&bytes).expect("what was written");
        let (MapEvent::Here(read), MapEvent::Here(said)) = (&read, &event) else {
            panic!("{read:?}");
        };
        assert_eq!((read.contact.id, read.claim()), (said.contact.id, said.claim()));
        assert_eq!(read.contact.record.addrs, said.contact.record.addrs);
        assert!(!read.contact.record.is_signed() && said.contact.record.is_signed());
        let gone = MapEvent::Gone { id: event.id(), claim: said.claim() };
        assert_eq!(postcard::to_allocvec(&gone).expect("plain data").len(), GONE_LEN);
    }

    #[test]
    fn whoever_contradicts_is_newer() {
        let here = |life, count| {
            let mut place = MapPlace { contact: contact(1), count, keeps_map: true };
            let record = PeerRecord { incarnation: life, ..(*place.contact.record).clone() };
            place.contact.record = Arc::new(record);
            MapEvent::Here(place)
        };
        let gone = |incarnation, count| MapEvent::Gone {
            id: contact(1).id,
            claim: Claim { incarnation, count },
        };
        let order = [here(1, 0), gone(1, 0), here(1, 1), gone(1, 1), here(2, 0), gone(2, 0)];
        assert!(order.is_sorted_by_key(MapEvent::rank));
    }
}
