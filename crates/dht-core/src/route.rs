//! The next hop: which of the nodes one knows to ask on the way to a key.
//!
//! These functions are pure, so that the simulator walks rings of a million nodes with the very
//! rule that real nodes use.

use crate::id::{Id, between};

/// What a node finds in its successor list for a key that it does not own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// Go to the entry at this place of the list.
    Entry(usize),
    /// The entry that would own the key did not answer the asker, nor did any before it: only upkeep
    /// can say who comes next.
    HeadSilent,
    /// The list is empty, or nobody in it answered the asker.
    Nobody,
}

/// Chooses the next hop of routing `successors` from a successor list, nearest entry first (Chord,
/// SIGCOMM 2001, figure 3, with the list in the place of the fingers).
///
/// `entry(i)` gives the id at place `i`, `None` past the end. Of the first `depth` entries that are
/// not `failed`, the owner is chosen if it is among them - the first entry at or after the key -
/// and otherwise the last of them, which is the farthest that still lies before the key. So a walk
/// over `d` places takes `ceil(d / depth)` hops (`docs/protocol.md`, formula (c)).
pub fn next_hop(
    me: Id,
    entry: impl Fn(usize) -> Option<Id>,
    key: Id,
    depth: usize,
    failed: impl Fn(Id) -> bool,
) -> NextHop {
    let mut farthest = None;
    let mut usable = 0;
    for at in 0.. {
        let Some(id) = entry(at) else { break };
        let is_owner = id == key || between(me, key, id);
        if is_owner {
            if !failed(id) {
                return NextHop::Entry(at);
            }
            // Nobody behind a silent owner can say "mine" before upkeep has run: the last live
            // node before it must find out.
            return farthest.map_or(NextHop::HeadSilent, NextHop::Entry);
        }
        if !failed(id) {
            farthest = Some(at);
            usable += 1;
            if usable >= depth.max(1) {
                break;
            }
        }
    }
    farthest.map_or(NextHop::Nobody, NextHop::Entry)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hop(list: &[u64], key: u64, depth: usize, failed: &[u64]) -> NextHop {
        next_hop(
            Id::from_u64(0),
            |at| list.get(at).map(|n| Id::from_u64(*n)),
            Id::from_u64(key),
            depth,
            |id| failed.iter().any(|n| Id::from_u64(*n) == id),
        )
    }

    #[test]
    fn the_owner_is_taken_as_soon_as_the_window_shows_it() {
        let list = [10, 20, 30, 40];
        assert_eq!(hop(&list, 5, 1, &[]), NextHop::Entry(0));
        assert_eq!(hop(&list, 10, 1, &[]), NextHop::Entry(0), "the end of an arc belongs to it");
        assert_eq!(hop(&list, 11, 4, &[]), NextHop::Entry(1));
        assert_eq!(hop(&list, 35, 2, &[]), NextHop::Entry(1), "the farthest before the key");
        assert_eq!(hop(&list, 35, 1, &[]), NextHop::Entry(0));
        assert_eq!(hop(&list, 99, 3, &[]), NextHop::Entry(2));
        assert_eq!(hop(&list, 99, 0, &[]), NextHop::Entry(0), "a depth below 1 is 1");
        assert_eq!(hop(&[], 5, 3, &[]), NextHop::Nobody);
    }

    #[test]
    fn silent_entries_are_stepped_round() {
        let list = [10, 20, 30, 40];
        assert_eq!(hop(&list, 35, 1, &[10]), NextHop::Entry(1), "the next one stands in");
        assert_eq!(hop(&list, 25, 4, &[30]), NextHop::Entry(1), "its predecessor finds out");
        assert_eq!(hop(&list, 5, 4, &[10]), NextHop::HeadSilent);
        assert_eq!(hop(&list, 15, 4, &[10, 20]), NextHop::HeadSilent);
        assert_eq!(hop(&list, 99, 4, &[10, 20, 30, 40]), NextHop::Nobody);
    }

    proptest! {
        /// Case 27: every hop comes strictly closer, whatever the list holds.
        #[test]
        fn every_hop_makes_progress(
            me in any::<[u8; 20]>(), key in any::<[u8; 20]>(), depth in 0usize..6,
            list in prop::collection::vec(any::<[u8; 20]>(), 0..6),
        ) {
            let (me, key) = (Id::from_bytes(me), Id::from_bytes(key));
            let mut list: Vec<Id> = list.into_iter().map(Id::from_bytes).collect();
            list.retain(|id| *id != me);
            list.sort_by_key(|id| me.distance_to(*id));
            list.dedup();
            match next_hop(me, |at| list.get(at).copied(), key, depth, |_| false) {
                NextHop::Entry(at) => {
                    let id = list[at];
                    let owner = id == key || between(me, key, id);
                    prop_assert!(owner || id.distance_to(key) < me.distance_to(key));
                }
                NextHop::Nobody => prop_assert!(list.is_empty()),
                NextHop::HeadSilent => prop_assert!(false, "nobody failed"),
            }
        }
    }
}
