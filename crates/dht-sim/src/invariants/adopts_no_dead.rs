//! Nobody takes one for its head that it has itself found dead.
//!
//! Source: `docs/protocol.md`, "Upkeep": no pointer is adopted that has not itself just answered; and
//! scenario S12: a reply that arrives after its sender was found dead is void. Condition: the verdict was
//! right, and the head was not in the list already, where a list copied whole may bring it before it
//! is dropped again.

use std::collections::BTreeSet;

use dht_core::Id;

use super::{Links, Violation};

/// Whether `node` did wrong when its list became what `links` say: `before` is the list it had, and
/// `found_dead` those that it had rightly found dead.
pub fn check(
    links: &Links,
    node: Id,
    before: &[Id],
    found_dead: &BTreeSet<Id>,
) -> Option<Violation> {
    let adopted = *links.nodes.get(&node)?.successors.first()?;
    let is_wrong = !before.contains(&adopted)
        && found_dead.contains(&adopted)
        && !links.nodes.contains_key(&adopted);
    is_wrong.then_some(Violation::AdoptedDead { node, adopted })
}
