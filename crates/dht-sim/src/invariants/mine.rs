//! Nobody but the right node says "mine", and a lookup ends only at a node that said so.
//!
//! Source: `docs/protocol.md`, "Owning". Condition for the first half: hand-overs. Between the
//! moment a joiner has its place and the moment its successor hears of it, both may say "mine"; so
//! a node does wrong only if it once held the owner as its predecessor, and has no reason to
//! believe that it went: where the other conditions are broken, only if it holds it now. The second
//! half holds always.

use std::collections::BTreeSet;

use dht_core::message::client::NodeState;
use dht_core::{Id, Interval};

use super::{Links, Violation};

/// Whether `node` did wrong to say "mine" of `key`. `known` are those that it has held as its
/// predecessor and that have not gone since.
pub fn check(links: &Links, node: Id, key: Id, known: &BTreeSet<Id>) -> Option<Violation> {
    // From the point up to the node, the point itself included.
    let rest = Interval::new(key, node);
    let nearer = |id: &&Id| **id != node && key != node && (**id == key || rest.contains(**id));
    let lives = |id: &&Id| links.nodes.get(id).is_some_and(|held| held.state == NodeState::Member);
    let owner = known.iter().filter(nearer).filter(lives).min_by_key(|id| key.distance_to(**id))?;
    Some(Violation::WrongOwner { node, key, owner: *owner })
}

/// Whether a lookup of `key` may end at `node`, given who said "mine" while it ran.
pub fn check_end(key: Id, node: Id, said_mine: &BTreeSet<Id>) -> Option<Violation> {
    (!said_mine.contains(&node)).then_some(Violation::NeverSaidMine { key, node })
}
