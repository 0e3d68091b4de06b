//! A live predecessor gives way only to a closer one.
//!
//! Source: `docs/protocol.md`, RECTIFY: otherwise the predecessor is pinged, and stays if it
//! answers. A node that breaks this claims the arc of a live member (scenario S2). Condition: the
//! node and its predecessor reach each other, the predecessor is not leaving, and nobody gave a
//! false verdict about it.

use dht_core::message::client::NodeState;
use dht_core::{Id, between};

use super::{Links, Violation};

/// Whether `node` did wrong when its predecessor changed from `before` to `taken`; `links` are
/// those after the change.
pub fn check(links: &Links, node: Id, before: Id, taken: Option<Id>) -> Option<Violation> {
    let is_closer = taken.is_some_and(|taken| taken == before || between(before, taken, node));
    let is_live = links.nodes.get(&before).is_some_and(|held| held.state == NodeState::Member);
    (is_live && !is_closer).then_some(Violation::PredecessorDropped {
        node,
        dropped: before,
        taken,
    })
}
