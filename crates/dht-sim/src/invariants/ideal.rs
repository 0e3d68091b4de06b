//! After quiet, every list and predecessor equals the truth.
//!
//! Source: Chord (ToN 2003), theorem IV.3, and Zave 2017: upkeep alone reaches the ideal state.
//! Condition: nobody came or went meanwhile, and those who should form one ring know of each other
//! at least in one direction, through others too.

use dht_core::Id;
use dht_core::message::client::NodeState;

use super::{Links, List, Violation};

/// What keeps `ring`, in the order of the circle, from being one ideal ring.
pub fn check(links: &Links, ring: &[Id]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, node) in ring.iter().enumerate() {
        let Some(held) = links.nodes.get(node) else {
            // Nobody can point from a dead node; the caller compares who lives.
            continue;
        };
        if ring.len() > 1 && held.state != NodeState::Member {
            found.push(Violation::NoPlace { node: *node, state: held.state });
            continue;
        }
        let others = ring.len() - 1;
        let after = |step: usize| ring[(at + step) % ring.len()];
        let successors: Vec<Id> = (1..=others.min(links.depth)).map(after).collect();
        let predecessors: Vec<Id> =
            (1..=others.min(links.predecessors)).map(|step| after(ring.len() - step)).collect();
        let lists = [
            (List::Successors, &held.successors, successors),
            (List::Predecessors, &held.predecessors, predecessors.clone()),
        ];
        let wrong = lists.into_iter().find(|(_, held, wanted)| *held != wanted);
        if let Some((list, held, wanted)) = wrong {
            found.push(Violation::NotIdeal { node: *node, list, held: held.clone(), wanted });
        } else if held.predecessor != predecessors.first().copied() {
            found.push(Violation::PredecessorApart { node: *node });
        }
    }
    found
}
