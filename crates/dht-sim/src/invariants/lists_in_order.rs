//! A list never holds its own node, never an entry twice, and follows the circle: successors
//! clockwise, predecessors anticlockwise, the predecessor first.
//!
//! Source: Zave 2017, OrderedSuccessorLists and NoDuplicates. Condition: none, it holds always.

use dht_core::{Id, between};

use super::{Links, List, Violation};

/// What is wrong with the lists of any node.
pub fn check(links: &Links) -> Vec<Violation> {
    links.nodes.keys().flat_map(|node| check_node(links, *node)).collect()
}

/// What is wrong with the lists of this node.
pub fn check_node(links: &Links, node: Id) -> Vec<Violation> {
    let Some(held) = links.nodes.get(&node) else { return Vec::new() };
    let mut found = Vec::new();
    if !is_clockwise(node, &held.successors) {
        let (list, held) = (List::Successors, held.successors.clone());
        found.push(Violation::OutOfOrder { node, list, held });
    }
    if !is_anticlockwise(node, &held.predecessors) {
        let (list, held) = (List::Predecessors, held.predecessors.clone());
        found.push(Violation::OutOfOrder { node, list, held });
    }
    // Without a predecessor the list may still hold those behind the last one.
    if held.predecessor.is_some_and(|first| held.predecessors.first() != Some(&first)) {
        found.push(Violation::PredecessorApart { node });
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
