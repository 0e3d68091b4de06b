//! One node of a world: the state machine, its disk, and whether it runs.

use std::sync::Arc;

use dht_core::message::client::NodeState;
use dht_core::node::Node;
use dht_core::peer::Signature;
use dht_core::{Contact, Id, Instant, PeerKey, PeerRecord};

use crate::disk::Disk;

/// A node and everything that outlives its lives.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) node: Node,
    pub(crate) me: Contact,
    pub(crate) disk: Disk,
    pub(crate) stage: Stage,
    /// The deadline under which the world has it in its table.
    pub(crate) deadline: Option<Instant>,
    /// Through whom it was told to join last; `None` if it founded the ring.
    pub(crate) via: Option<u64>,
    /// It was told to go for good.
    pub(crate) leaves_for_good: bool,
    /// How far its clock is ahead of the world's, in microseconds.
    pub(crate) ahead_us: u64,
    /// When its life began.
    pub(crate) began: Instant,
    /// State, whether alone, and version of its links when it was looked at last.
    pub(crate) seen: Option<(NodeState, bool, u64)>,
    /// In which window it sent messages last, and how many.
    pub(crate) sent: (u64, u64),
    /// Its process is stopped: nothing happens in it, and what comes in waits.
    pub(crate) is_paused: bool,
}

/// Where a node is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It runs.
    Running,
    /// It died silently.
    Dead,
    /// It is through with leaving or stopping.
    Left,
}

impl Member {
    /// Which life this is.
    pub(crate) fn life(&self) -> u64 {
        self.me.incarnation()
    }

    /// What its clock shows.
    pub(crate) fn clock(&self, now: Instant) -> Instant {
        Instant(now.0.saturating_add(self.ahead_us))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }
}

/// The contact of node `n` at a point, in a given life. The key is made from the number, so that a
/// world finds the node by its key; the signature is empty, since only dht-net looks at it.
pub(crate) fn contact(n: u64, id: Id, life: u64) -> Contact {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&n.to_be_bytes());
    let record = PeerRecord {
        key: PeerKey(key),
        incarnation: life,
        revision: 0,
        addrs: Vec::new(),
        signature: Signature([0; 64]),
    };
    Contact::at(id, Arc::new(record))
}

/// The number of the node that a contact names.
pub(crate) fn number(contact: &Contact) -> u64 {
    number_of(&contact.record)
}

/// The same of a record.
pub(crate) fn number_of(record: &PeerRecord) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *record.key.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Mixes numbers into a seed (the finalizer of SplitMix64): seeds of different nodes and lives must
/// not resemble each other.
pub(crate) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, part| {
        let mut z = (mixed ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_names_its_node() {
        let contact = contact(u64::MAX - 3, Id::from_u64(7), 2);
        assert_eq!((number(&contact), contact.incarnation()), (u64::MAX - 3, 2));
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(mix(&[1, 2]), mix(&[2, 1]));
        assert_ne!(mix(&[1, 2, 1]), mix(&[1, 2, 2]));
    }
}
