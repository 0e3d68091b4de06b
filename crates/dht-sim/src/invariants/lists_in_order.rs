//! A list never holds its own node, never an entry twice, and follows the circle: successors
//! clockwise, predecessors anticlockwise, the predecessor first.
//!
//! Source: Zave 2017, OrderedSuccessorLists and NoDuplicates. Condition: none, it holds always.

use dht_core::{Id, between};

use super::{Links, List, Violation};

/// What is wrong with the lists of any node.
pub fn check(links: &Links) -> Vec<Violation> {
    let mut found = Vec::new();
    for (node, held) in &links.nodes {
        if !is_clockwise(*node, &held.successors) {
            let (list, held) = (List::Successors, held.successors.clone());
            found.push(Violation::OutOfOrder { node: *node, list, held });
        }
        if !is_anticlockwise(*node, &held.predecessors) {
            let (list, held) = (List::Predecessors, held.predecessors.clone());
            found.push(Violation::OutOfOrder { node: *node, list, held });
        }
        // Without a predecessor the list may still hold those behind the last one.
        if held.predecessor.is_some_and(|held_first| held.predecessors.first() != Some(&held_first))
        {
            found.push(Violation::PredecessorApart { node: *node });
        }
    }
    found
}

fn is_clockwise(node: Id, list: &[Id]) -> bool {
    let before = std::iter::once(&node).chain(list);
    before.zip(list).all(|(last, next)| between(*last, *next, node))
}

fn is_anticlockwise(node: Id, list: &[Id]) -> bool {
    let before = std::iter::once(&node).chain(list);
    before.zip(list).all(|(last, next)| between(node, *next, *last))
}
