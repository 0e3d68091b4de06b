//! Who should hold a chunk: the owner of its point and the next distinct peers.

use dht_core::Contact;
use dht_core::config::RingParams;

use crate::node::driver::Found;

/// The peers that should hold a chunk, and those that step in for them.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    /// Distinct peers in ring order from the owner: first the replica set, then the spares.
    pub(super) peers: Vec<Contact>,
    /// How many of them are the replica set.
    pub(super) set: usize,
    /// How many durable copies a write waits for.
    pub(super) acks: usize,
}

impl Placement {
    /// From what a lookup found; `None` if it found nobody.
    pub(super) fn of(found: Found, params: &RingParams) -> Option<Placement> {
        let owner = found.report.owner?;
        let mut peers: Vec<Contact> = Vec::with_capacity(found.successors.len() + 1);
        for contact in std::iter::once(owner).chain(found.successors) {
            if !peers.iter().any(|peer| peer.key() == contact.key()) {
                peers.push(contact);
            }
        }
        let set = params.chunk_set_size(peers.len());
        Some(Placement { set, acks: params.chunk_acks(set), peers })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dht_core::PeerKey;
    use dht_core::message::RingId;
    use dht_core::message::client::LookupReport;
    use dht_core::message::ring::Routing;
    use dht_core::peer::{PeerRecord, Signature};

    use super::*;

    fn contact(key: u8, index: u8) -> Contact {
        let record = PeerRecord {
            key: PeerKey([key; 32]),
            incarnation: 1,
            revision: 0,
            addrs: vec![],
            signature: Signature([0; 64]),
        };
        Contact::new(Arc::new(record), index)
    }

    fn found(owner: Option<Contact>, successors: Vec<Contact>) -> Found {
        let asker = contact(9, 0);
        let report = LookupReport {
            id: asker.id,
            routing: Routing::Successors,
            depth: 1,
            asker,
            owner,
            hops: 0,
            timeouts: 0,
            path: vec![],
            detours: vec![],
            elapsed_us: 0,
            failure: None,
            handed: None,
        };
        Found { report, successors }
    }

    #[test]
    fn places_of_one_peer_count_once() {
        let list = vec![contact(1, 1), contact(2, 0), contact(1, 2), contact(3, 0), contact(4, 0)];
        let params = RingParams::founding(RingId(1), 3);
        let placement =
            Placement::of(found(Some(contact(1, 0)), list), &params).expect("there is an owner");
        let keys: Vec<u8> = placement.peers.iter().map(|peer| peer.key().0[0]).collect();
        assert_eq!((keys, placement.set, placement.acks), (vec![1, 2, 3, 4], 3, 2));
    }

    #[test]
    fn small_rings_have_small_sets() {
        let params = RingParams::founding(RingId(1), 3);
        let alone = Placement::of(found(Some(contact(1, 0)), vec![]), &params).expect("an owner");
        assert_eq!((alone.set, alone.acks), (1, 1));
        assert!(Placement::of(found(None, vec![]), &params).is_none());
    }
}
