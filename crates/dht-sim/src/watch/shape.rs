//! What all lists together look like, kept up to date step by step: who is skipped by whom, and whose
//! best successor lies where. The invariants tell the truth from scratch ([`crate::invariants`]);
//! this tells, at a price that does not grow with the ring, when there is nothing for them to see.

use std::collections::{BTreeMap, BTreeSet};

use dht_core::message::client::NodeState;
use dht_core::{Id, between};

use crate::invariants::{Links, NodeLinks};

/// The running account.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    /// Members that stay: those who have begun to leave are none of these.
    staying: BTreeSet<Id>,
    /// Which of the staying members each member's list skips; only where it skips any.
    skips: BTreeMap<Id, Vec<Id>>,
    /// By how many lists a staying member is skipped; only where it is skipped.
    skipped: BTreeMap<Id, usize>,
    /// Best successors of members.
    best: BTreeMap<Id, Id>,
    /// Members whose best successor does not lie after them on the way from zero, and which that is.
    wraps: BTreeMap<Id, Id>,
}

impl Shape {
    /// A node's links changed, or it came or went: `links` are those after it.
    pub(super) fn update(&mut self, links: &Links, node: Id) {
        let held = links.nodes.get(&node).filter(|held| held.is_member());
        let stays = held.is_some_and(|held| held.state == NodeState::Member);
        let was_member = self.best.contains_key(&node);
        let did_stay = self.staying.contains(&node);
        self.forget_skips_of(node);
        match (did_stay, stays) {
            (false, true) => {
                self.staying.insert(node);
                self.is_skipped_by_others(links, node);
            }
            (true, false) => {
                self.staying.remove(&node);
                self.skipped.remove(&node);
                for list in self.skips.values_mut() {
                    list.retain(|id| *id != node);
                }
            }
            _ => {}
        }
        if let Some(held) = held {
            self.note_skips_of(node, held);
        }
        if was_member != held.is_some() {
            let concerned: Vec<Id> = links
                .members()
                .filter(|(id, held)| *id != node && names(held, node))
                .map(|(id, _)| id)
                .collect();
            concerned.into_iter().for_each(|id| self.note_best(links, id));
        }
        self.note_best(links, node);
    }

    /// How many members nobody skips.
    pub(super) fn principals(&self) -> usize {
        self.staying.len() - self.skipped.len()
    }

    /// Whether the best successors form one cycle that goes once round. Every cycle passes zero once
    /// for each time it goes round; if all passages lead to the same member, no cycle can miss it, and
    /// none comes to it twice. `false`: look closer.
    pub(super) fn is_plainly_one_ring(&self) -> bool {
        let mut targets = self.wraps.values();
        targets.next().is_some_and(|first| targets.all(|target| target == first))
    }

    fn note_best(&mut self, links: &Links, node: Id) {
        let Some(held) = links.nodes.get(&node).filter(|held| held.is_member()) else {
            self.best.remove(&node);
            self.wraps.remove(&node);
            return;
        };
        let best = links.best_successor(node, held);
        self.best.insert(node, best);
        match best <= node {
            true => self.wraps.insert(node, best),
            false => self.wraps.remove(&node),
        };
    }

    fn forget_skips_of(&mut self, node: Id) {
        for id in self.skips.remove(&node).into_iter().flatten() {
            if let Some(count) = self.skipped.get_mut(&id) {
                *count -= 1;
                if *count == 0 {
                    self.skipped.remove(&id);
                }
            }
        }
    }

    fn note_skips_of(&mut self, node: Id, held: &NodeLinks) {
        let mut found = Vec::new();
        let before = std::iter::once(&node).chain(&held.successors);
        for (a, b) in before.zip(&held.successors) {
            let ahead = self.staying.range(a..).skip(usize::from(self.staying.contains(a)));
            let clockwise = ahead.chain(self.staying.range(..=a));
            found.extend(clockwise.take_while(|member| between(*a, **member, *b)).copied());
        }
        found.sort_unstable();
        found.dedup();
        found.iter().for_each(|id| *self.skipped.entry(*id).or_default() += 1);
        if !found.is_empty() {
            self.skips.insert(node, found);
        }
    }

    /// A new member stands between two entries of some lists.
    fn is_skipped_by_others(&mut self, links: &Links, new: Id) {
        for (node, held) in links.members().filter(|(node, _)| *node != new) {
            let before = std::iter::once(&node).chain(&held.successors);
            if before.zip(&held.successors).any(|(a, b)| between(*a, new, *b)) {
                self.skips.entry(node).or_default().push(new);
                *self.skipped.entry(new).or_default() += 1;
            }
        }
    }
}

fn names(held: &NodeLinks, node: Id) -> bool {
    held.predecessor == Some(node) || held.successors.contains(&node)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::invariants::{one_ring, sufficient_principals};

    /// Nodes come, go, leave and point anywhere; the account says what the invariants say.
    #[test]
    fn the_account_agrees_with_a_count_from_scratch() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut plain = 0;
        for _ in 0..50 {
            let mut links = Links { depth: 3, predecessors: 3, nodes: BTreeMap::new() };
            let mut shape = Shape::default();
            for _ in 0..200 {
                let node = Id::from_u64(rng.random_range(0..12));
                match rng.random_range(0..5) {
                    0 => _ = links.nodes.remove(&node),
                    kind => {
                        let mut list: Vec<Id> =
                            (0..12).filter(|_| rng.random()).map(Id::from_u64).collect();
                        list.retain(|id| *id != node);
                        list.sort_by_key(|id| node.distance_to(*id));
                        list.truncate(rng.random_range(1..=3));
                        let mut held = NodeLinks::member(list.last().copied(), list);
                        if kind == 1 {
                            held.state = NodeState::Leaving;
                        }
                        links.nodes.insert(node, held);
                    }
                }
                shape.update(&links, node);
                assert_eq!(shape.principals(), sufficient_principals::count(&links));
                if shape.is_plainly_one_ring() {
                    plain += 1;
                    assert_eq!(one_ring::check(&links), [], "{links:?}");
                }
            }
        }
        assert!(plain > 100, "the short cut is taken: {plain}");
    }
}
