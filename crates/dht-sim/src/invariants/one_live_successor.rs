//! Every member has at least one live entry in its list.
//!
//! Source: Zave 2017, OneLiveSuccessor. Condition: no fault took away the whole list of a member at
//! once, and the ring has had `r + 1` principals (smaller rings have no such promise).

use dht_core::Id;

use super::{Links, Violation};

/// The members without a live entry.
pub fn check(links: &Links) -> Vec<Violation> {
    let members = links.members().map(|(node, _)| node);
    let lost = members.filter(|node| !check_node(links, *node));
    lost.map(|node| Violation::NoLiveSuccessor { node }).collect()
}

/// Whether this node has a live entry, or needs none because it is alone.
pub fn check_node(links: &Links, node: Id) -> bool {
    links.nodes.get(&node).is_none_or(|held| {
        held.alone || held.successors.iter().any(|entry| links.is_member(*entry))
    })
}
