//! Who is let in gets a whole list, not one successor.
//!
//! Source: Zave 2017, "Reasoning about identifier spaces", the corrected join: a new member has a list
//! of full length from its first step on, so that the death of its first neighbour does not strand
//! it. Condition: the ring has had `r + 1` principals, all lists have been full for as long as a
//! message may be under way, and the joiner is a joiner, let in by a member: one that finds its way
//! back from isolation may come into a smaller part. One entry may be missing, where an earlier life of the joiner stood.

use dht_core::Id;

use super::{Links, Violation};

/// Whether a node that has just become a member has too short a list.
pub fn check(links: &Links, node: Id) -> Option<Violation> {
    let joiner = links.nodes.get(&node)?;
    let held = joiner.successors.len();
    // Who lets it in becomes its predecessor; one that is isolated has no list to give.
    if !joiner.predecessor.is_some_and(|host| links.is_member(host)) {
        return None;
    }
    (held + 1 < links.depth).then_some(Violation::ShortList { node, held, wanted: links.depth })
}
