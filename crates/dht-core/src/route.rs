//! The next hop: which of the nodes one knows to ask on the way to a key.
//!
//! These functions are pure, so that the simulator walks rings of a million nodes with the very
//! rule that real nodes use.

use crate::id::{Id, between};

/// Where a node finds whom to ask next about a key that it does not own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// The entry at this place of the successor list.
    Entry(usize),
    /// The entry at this place of the predecessor list.
    Back(usize),
    /// The finger of this exponent.
    Finger(u32),
    /// This member, by the full map.
    Place(Id),
}

/// Why there is nobody to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoHop {
    /// The entry that would own the key did not answer the asker, nor did any between it and this node:
    /// only upkeep can say who comes next.
    HeadSilent,
    /// The same of the predecessor list.
    PredecessorSilent,
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
) -> Result<Hop, NoHop> {
    let owns = |id: Id| id == key || between(me, key, id);
    let window = Window::walk(entry, depth, &failed, owns);
    match (window.crossed, window.farthest) {
        (Some((at, owner)), _) if !failed(owner) => Ok(Hop::Entry(at)),
        // Nobody behind a silent owner can say "mine" before upkeep has run: the last live node
        // before it must find out.
        (_, Some(at)) => Ok(Hop::Entry(at)),
        (Some(_), None) => Err(NoHop::HeadSilent),
        (None, None) => Err(NoHop::Nobody),
    }
}

/// Chooses the next hop of a node past the key from a predecessor list, nearest entry first: [`next_hop`]
/// in the mirror.
///
/// Of the first `depth` entries that are not `failed`, the farthest is chosen that lies at or after the key.
/// The last entry before which the key's arc ends owns the key; if that one is silent, the node after it has
/// to find out, which is the next live entry towards this node, or else this node itself.
pub fn hop_back(
    me: Id,
    entry: impl Fn(usize) -> Option<Id>,
    key: Id,
    depth: usize,
    failed: impl Fn(Id) -> bool,
) -> Result<Hop, NoHop> {
    let lies_before = |id: Id| id != key && !between(key, id, me);
    let window = Window::walk(entry, depth, failed, lies_before);
    match (window.crossed, window.farthest) {
        (_, Some(at)) => Ok(Hop::Back(at)),
        (Some(_), None) => Err(NoHop::PredecessorSilent),
        (None, None) => Err(NoHop::Nobody),
    }
}

/// The first `depth` entries of a list that are not failed, as far as none of them lies beyond the key.
struct Window {
    /// The last of them.
    farthest: Option<usize>,
    /// The entry that follows, if it is the first beyond the key; it may be failed.
    crossed: Option<(usize, Id)>,
}

impl Window {
    fn walk(
        entry: impl Fn(usize) -> Option<Id>,
        depth: usize,
        failed: impl Fn(Id) -> bool,
        is_beyond: impl Fn(Id) -> bool,
    ) -> Window {
        let mut farthest = None;
        let mut usable = 0;
        for at in 0.. {
            let Some(id) = entry(at) else { break };
            if is_beyond(id) {
                return Window { farthest, crossed: Some((at, id)) };
            }
            if !failed(id) {
                farthest = Some(at);
                usable += 1;
                if usable >= depth.max(1) {
                    break;
                }
            }
        }
        Window { farthest, crossed: None }
    }
}

/// Chooses the next hop of routing `both-ways`: the owner if either window of `depth` entries shows it, else
/// a step towards the side on which the key is nearer by distance of ids, clockwise if both are equal
/// (`docs/protocol.md`, formulas (b) and (c2)). Where nobody on that side answered the asker, a step to the
/// other side.
///
/// A step brings the key nearer on the side it was taken, so a walk keeps its direction.
pub fn next_hop_both_ways(
    me: Id,
    successor: impl Fn(usize) -> Option<Id>,
    predecessor: impl Fn(usize) -> Option<Id>,
    key: Id,
    depth: usize,
    failed: impl Fn(Id) -> bool,
) -> Result<Hop, NoHop> {
    let on = next_hop(me, &successor, key, depth, &failed);
    let owns = |id: Id| id == key || between(me, key, id);
    if let Ok(Hop::Entry(at)) = on
        && successor(at).is_some_and(owns)
    {
        return on;
    }
    let back = hop_back(me, &predecessor, key, depth, &failed);
    if let Ok(Hop::Back(at)) = back
        && predecessor(at + 1).is_some_and(|behind| behind != key && !between(key, behind, me))
    {
        return back;
    }
    let (nearer, farther) = match me.distance_to(key) <= key.distance_to(me) {
        true => (on, back),
        false => (back, on),
    };
    if nearer == Err(NoHop::Nobody) { farther } else { nearer }
}

/// Chooses the next hop of routing `fingers`: the owner if the first `depth` entries of the successor list
/// show it, else whoever lies closest before the key, of these entries and of all fingers (Chord, SIGCOMM
/// 2001, figure 4, `closest_preceding_finger`; formulas (d) and (e) of `docs/protocol.md`).
///
/// `finger(i)` gives the first node at or after `me + 2^i`, as far as it is known. One that lies past the key
/// is never gone to, even where it would have to be the owner: only the lists are kept well enough for that.
pub fn next_hop_fingers(
    me: Id,
    successor: impl Fn(usize) -> Option<Id>,
    finger: impl Fn(u32) -> Option<Id>,
    key: Id,
    depth: usize,
    failed: impl Fn(Id) -> bool,
) -> Result<Hop, NoHop> {
    let on = next_hop(me, &successor, key, depth, &failed);
    let farthest = match on {
        Ok(Hop::Entry(at)) => successor(at).unwrap_or(me),
        Ok(Hop::Back(_) | Hop::Finger(_) | Hop::Place(_)) | Err(_) => me,
    };
    let is_owner = farthest != me && !between(me, farthest, key);
    if is_owner || on == Err(NoHop::HeadSilent) {
        return on;
    }
    // Fingers of greater exponents lie past the key or are the key itself.
    let exponents = (0..me.distance_to(key).bits()).rev();
    let mut usable = exponents.filter(|exponent| {
        finger(*exponent).is_some_and(|id| between(farthest, id, key) && !failed(id))
    });
    usable.next().map_or(on, |exponent| Ok(Hop::Finger(exponent)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hop(list: &[u64], key: u64, depth: usize, failed: &[u64]) -> Result<Hop, NoHop> {
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
        assert_eq!(hop(&list, 5, 1, &[]), Ok(Hop::Entry(0)));
        assert_eq!(hop(&list, 10, 1, &[]), Ok(Hop::Entry(0)), "the end of an arc belongs to it");
        assert_eq!(hop(&list, 11, 4, &[]), Ok(Hop::Entry(1)));
        assert_eq!(hop(&list, 35, 2, &[]), Ok(Hop::Entry(1)), "the farthest before the key");
        assert_eq!(hop(&list, 35, 1, &[]), Ok(Hop::Entry(0)));
        assert_eq!(hop(&list, 99, 3, &[]), Ok(Hop::Entry(2)));
        assert_eq!(hop(&list, 99, 0, &[]), Ok(Hop::Entry(0)), "a depth below 1 is 1");
        assert_eq!(hop(&[], 5, 3, &[]), Err(NoHop::Nobody));
    }

    #[test]
    fn silent_entries_are_stepped_round() {
        let list = [10, 20, 30, 40];
        assert_eq!(hop(&list, 35, 1, &[10]), Ok(Hop::Entry(1)), "the next one stands in");
        assert_eq!(hop(&list, 25, 4, &[30]), Ok(Hop::Entry(1)), "its predecessor finds out");
        assert_eq!(hop(&list, 5, 4, &[10]), Err(NoHop::HeadSilent));
        assert_eq!(hop(&list, 15, 4, &[10, 20]), Err(NoHop::HeadSilent));
        assert_eq!(hop(&list, 99, 4, &[10, 20, 30, 40]), Err(NoHop::Nobody));
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
                Ok(Hop::Entry(at)) => {
                    let id = list[at];
                    let owner = id == key || between(me, key, id);
                    prop_assert!(owner || id.distance_to(key) < me.distance_to(key));
                }
                Err(NoHop::Nobody) => prop_assert!(list.is_empty()),
                other => prop_assert!(false, "{other:?}, and nobody failed"),
            }
        }

        /// Every step both ways brings the key nearer on the side it is taken, and that side stays the
        /// nearer one.
        #[test]
        fn a_walk_both_ways_keeps_its_direction(
            ids in prop::collection::btree_set(any::<[u8; 20]>(), 2..40),
            key in any::<[u8; 20]>(), asker in any::<prop::sample::Index>(), depth in 1usize..5,
        ) {
            let ids: Vec<Id> = ids.into_iter().map(Id::from_bytes).collect();
            let (key, nodes) = (Id::from_bytes(key), ids.len());
            let owner = ids.iter().position(|id| *id >= key).unwrap_or(0);
            let mut at = asker.index(nodes);
            let mut went_on = None;
            for _ in 0..nodes {
                if at == owner {
                    return Ok(());
                }
                let successor = |n: usize| (n + 1 < nodes).then(|| ids[(at + 1 + n) % nodes]);
                let predecessor =
                    |n: usize| (n + 1 < nodes).then(|| ids[(at + 2 * nodes - 1 - n) % nodes]);
                let hop = next_hop_both_ways(ids[at], successor, predecessor, key, depth, |_| false);
                let (next, on) = match hop {
                    Ok(Hop::Entry(n)) => ((at + 1 + n) % nodes, true),
                    Ok(Hop::Back(n)) => ((at + 2 * nodes - 1 - n) % nodes, false),
                    other => panic!("{other:?}, and nobody failed"),
                };
                let closer = match on {
                    true => next == owner || ids[next].distance_to(key) < ids[at].distance_to(key),
                    false => key.distance_to(ids[next]) < key.distance_to(ids[at]),
                };
                prop_assert!(closer, "{hop:?}");
                prop_assert!(next == owner || went_on.is_none_or(|before| before == on), "{hop:?}");
                (at, went_on) = (next, Some(on));
            }
            prop_assert!(at == owner, "it takes too long");
        }
    }

    #[test]
    fn fingers_reach_the_closest_before_the_key() {
        // Fingers 2^4 to 2^9 of node 0: 16, 40, 70, 130, 300 and 700.
        let fingers = [16, 40, 70, 130, 300, 700];
        let hop = |key: u64, depth: usize, failed: &[u64]| {
            next_hop_fingers(
                Id::ZERO,
                |at| [5, 9, 12].get(at).map(|n| Id::from_u64(*n)),
                |exponent| {
                    let at = exponent.checked_sub(4)? as usize;
                    fingers.get(at).map(|n| Id::from_u64(*n))
                },
                Id::from_u64(key),
                depth,
                |id| failed.iter().any(|n| Id::from_u64(*n) == id),
            )
        };
        assert_eq!(hop(9, 3, &[]), Ok(Hop::Entry(1)), "the list shows the owner");
        assert_eq!(hop(12, 2, &[]), Ok(Hop::Entry(1)), "two entries do not");
        assert_eq!(hop(14, 3, &[]), Ok(Hop::Entry(2)));
        assert_eq!(hop(400, 3, &[]), Ok(Hop::Finger(8)));
        assert_eq!(hop(300, 3, &[]), Ok(Hop::Finger(7)), "300 would be the owner: not gone to");
        assert_eq!(hop(60, 3, &[]), Ok(Hop::Finger(5)));
        assert_eq!(hop(400, 3, &[300]), Ok(Hop::Finger(7)), "the next one stands in");
        assert_eq!(hop(400, 3, &[5, 9, 12]), Ok(Hop::Finger(8)), "without a list, too");
        assert_eq!(hop(4, 3, &[5]), Err(NoHop::HeadSilent));
        assert_eq!(hop(14, 3, &[5, 9, 12]), Err(NoHop::Nobody));
    }

    fn back(list: &[u64], key: u64, depth: usize, failed: &[u64]) -> Result<Hop, NoHop> {
        hop_back(
            Id::from_u64(100),
            |at| list.get(at).map(|n| Id::from_u64(*n)),
            Id::from_u64(key),
            depth,
            |id| failed.iter().any(|n| Id::from_u64(*n) == id),
        )
    }

    #[test]
    fn going_back_ends_at_the_last_one_past_the_key() {
        let list = [90, 80, 70, 60];
        assert_eq!(back(&list, 85, 4, &[]), Ok(Hop::Back(0)));
        assert_eq!(back(&list, 80, 4, &[]), Ok(Hop::Back(1)), "the end of an arc belongs to it");
        assert_eq!(back(&list, 65, 2, &[]), Ok(Hop::Back(1)), "two entries show no more");
        assert_eq!(back(&list, 5, 0, &[]), Ok(Hop::Back(0)), "a depth below 1 is 1");
        assert_eq!(back(&list, 65, 4, &[70]), Ok(Hop::Back(1)), "the one after it finds out");
        assert_eq!(back(&list, 65, 2, &[90]), Ok(Hop::Back(2)), "the next one stands in");
        assert_eq!(back(&list, 85, 4, &[90]), Err(NoHop::PredecessorSilent));
        assert_eq!(back(&list, 5, 4, &list), Err(NoHop::Nobody));
        assert_eq!(back(&[], 5, 4, &[]), Err(NoHop::Nobody));
    }

    #[test]
    fn both_ways_takes_the_nearer_side_or_the_owner_it_sees() {
        let hop = |key: u64, depth: usize, failed: &[u64]| {
            let at = |list: &[u64], n: usize| list.get(n).map(|n| Id::from_u64(*n));
            next_hop_both_ways(
                Id::from_u64(1000),
                |n| at(&[1100, 1200, 1300], n),
                |n| at(&[900, 800, 700], n),
                Id::from_u64(key),
                depth,
                |id| failed.iter().any(|n| Id::from_u64(*n) == id),
            )
        };
        assert_eq!(hop(1250, 2, &[]), Ok(Hop::Entry(1)));
        assert_eq!(hop(1250, 3, &[]), Ok(Hop::Entry(2)), "the owner");
        assert_eq!(hop(750, 2, &[]), Ok(Hop::Back(1)), "the owner");
        assert_eq!(hop(10, 2, &[]), Ok(Hop::Back(1)));
        assert_eq!(hop(5000, 2, &[]), Ok(Hop::Entry(1)));
        assert_eq!(hop(10, 3, &[900, 800, 700]), Ok(Hop::Entry(2)), "nobody answers on that side");
        assert_eq!(hop(850, 3, &[900]), Err(NoHop::PredecessorSilent), "the owner is silent");
    }
}
