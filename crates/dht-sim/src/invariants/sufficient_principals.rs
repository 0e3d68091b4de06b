//! At least `r + 1` members are principals: nobody's list skips them.
//!
//! Source: Zave 2017, SufficientPrincipals: `p` is a principal if no adjacent pair `(a, b)` of any
//! member's `[n] ++ successors` has `between(a, p, b)`. Together with OneLiveSuccessor it implies
//! one ordered ring with connected appendages. Condition: there have been so many before, and no
//! fault took one away since. Who has begun to leave is none any more.

use std::collections::BTreeSet;

use dht_core::message::client::NodeState;
use dht_core::{Id, between};

use super::{Links, NodeLinks, Violation};

/// Whether there are too few.
pub fn check(links: &Links) -> Vec<Violation> {
    let (found, needed) = (count(links), links.depth + 1);
    match found < needed {
        true => vec![Violation::FewPrincipals { found, needed }],
        false => Vec::new(),
    }
}

/// How many members nobody skips.
pub fn count(links: &Links) -> usize {
    let stays = |held: &NodeLinks| held.state == NodeState::Member;
    let members: Vec<Id> =
        links.members().filter(|(_, held)| stays(held)).map(|(id, _)| id).collect();
    let mut skipped: BTreeSet<Id> = BTreeSet::new();
    for (node, held) in links.members() {
        let before = std::iter::once(&node).chain(&held.successors);
        for (a, b) in before.zip(&held.successors) {
            // Most pairs are neighbours: look at the next member after `a` first.
            let start = members.partition_point(|member| member <= a);
            let after = (0..members.len()).map(|step| members[(start + step) % members.len()]);
            skipped.extend(after.take_while(|member| between(*a, *member, *b)));
        }
    }
    members.len() - skipped.len()
}
