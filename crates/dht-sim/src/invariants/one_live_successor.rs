//! Every member has at least one live entry in its list.
//!
//! Source: Zave 2017, OneLiveSuccessor. Condition: no fault took away the whole list of a member at
//! once, and the ring has had `r + 1` principals (smaller rings have no such promise).

use super::{Links, Violation};

/// The members without a live entry.
pub fn check(links: &Links) -> Vec<Violation> {
    let lost = links.members().filter(|(_, held)| {
        !held.alone && !held.successors.iter().any(|entry| links.is_member(*entry))
    });
    lost.map(|(node, _)| Violation::NoLiveSuccessor { node }).collect()
}
