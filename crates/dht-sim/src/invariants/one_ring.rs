//! The best successors form one cycle that goes once round the circle, and every member reaches it.
//!
//! Source: Zave 2017, AtLeastOneRing, AtMostOneRing, OrderedRing, ConnectedAppendages. Condition:
//! as for the two invariants that imply it. On smaller rings a disorder may pass if upkeep alone
//! repairs it; the world that checks tries that out on a copy.

use std::collections::{BTreeMap, BTreeSet};

use dht_core::Id;

use super::{Links, Violation};

/// What is wrong with the ring as a whole.
pub fn check(links: &Links) -> Vec<Violation> {
    let rings = rings(links);
    if rings.len() > 1 {
        // Every member reaches some cycle; with one cycle, every member reaches that one.
        let found = rings.iter().filter_map(|ring| ring.first().copied()).collect();
        return vec![Violation::Cycles { found }];
    }
    let mut found = Vec::new();
    for cycle in rings {
        let descents =
            cycle.iter().zip(cycle.iter().cycle().skip(1)).filter(|(a, b)| b <= a).count();
        if descents > 1 {
            found.push(Violation::Disordered { cycle });
        }
    }
    found
}

/// The cycles of best successors, each from its smallest id on, in the order of these.
pub fn rings(links: &Links) -> Vec<Vec<Id>> {
    let next: BTreeMap<Id, Id> =
        links.members().map(|(id, held)| (id, links.best_successor(id, held))).collect();
    let mut seen: BTreeSet<Id> = BTreeSet::new();
    let mut rings = Vec::new();
    for start in next.keys() {
        let mut path = Vec::new();
        let mut at = *start;
        while seen.insert(at) {
            path.push(at);
            at = next[&at];
        }
        // Where this walk met itself, a cycle begins; where it met an earlier walk, none does.
        if let Some(from) = path.iter().position(|id| *id == at) {
            let mut cycle = path.split_off(from);
            let smallest = cycle.iter().enumerate().min_by_key(|(_, id)| **id).map(|(at, _)| at);
            cycle.rotate_left(smallest.unwrap_or(0));
            rings.push(cycle);
        }
    }
    rings.sort();
    rings
}
