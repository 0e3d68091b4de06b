//! The links of one place: successor list, predecessor, predecessor list. Data and the rules of
//! order; who may change them and when is the ring machine's concern.

use std::collections::BTreeSet;

use crate::config::Config;
use crate::id::{Id, between};
use crate::interval::Interval;
use crate::message::ring::{MAX_CONTACTS, digest};
use crate::peer::Contact;

/// The neighbours of one place on the circle.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    me: Contact,
    /// Entries the successor list is kept at; see [`crate::config::Config::depth`].
    list_len: usize,
    /// Distinct other peers it runs on to.
    min_peers: usize,
    /// Distinct peers the predecessor list runs back to.
    predecessor_peers: usize,
    /// Entries it has at least.
    predecessors_len: usize,
    successors: Vec<Contact>,
    predecessor: Option<Contact>,
    predecessors: Vec<Contact>,
    /// The digest of the list that the predecessor itself has sent.
    told: Option<u64>,
    stamp: u64,
    changes: u64,
}

impl Links {
    pub(crate) fn new(me: Contact, config: &Config) -> Links {
        // Two lives of one place must never use the same stamp: a question that names the old life may
        // be answered by the new one (S17). An odd factor spreads lives over the whole range.
        let stamp = me.incarnation().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Links {
            me,
            list_len: config.list_len(),
            min_peers: usize::from(config.min_list),
            predecessor_peers: usize::from(config.predecessor_peers),
            predecessors_len: config.predecessors_len(),
            successors: Vec::new(),
            predecessor: None,
            predecessors: Vec::new(),
            told: None,
            stamp,
            changes: 0,
        }
    }

    /// Whether this place stands in one of the lists.
    pub(crate) fn is_neighbor(&self, id: Id) -> bool {
        self.successors.iter().chain(&self.predecessors).any(|held| held.id == id)
    }

    /// How many entries the list is kept at.
    pub(crate) fn list_len(&self) -> usize {
        self.list_len
    }

    /// Takes over a successor list, as far as `cut` lets it. Whether anything changed.
    pub(crate) fn set_successors(&mut self, list: impl IntoIterator<Item = Contact>) -> bool {
        let list = self.cut(list);
        let changed = !same(&list, &self.successors);
        // Even with the same places, the records may be newer.
        self.successors = list;
        if changed {
            self.touch();
        }
        changed
    }

    /// Takes over a successor list whatever stands in it (see [`crate::planted`]).
    pub(crate) fn set_successors_uncut(&mut self, list: impl IntoIterator<Item = Contact>) {
        self.successors = list.into_iter().take(self.list_len).collect();
        self.touch();
    }

    /// Takes over a predecessor. Whether it is another one.
    pub(crate) fn set_predecessor(&mut self, predecessor: Option<Contact>) -> bool {
        let changed = !same(predecessor.as_slice(), self.predecessor.as_slice());
        let gone = std::mem::replace(&mut self.predecessor, predecessor);
        if changed {
            let mut known = std::mem::take(&mut self.predecessors);
            if self.predecessor.is_none() {
                // The one that was nearest is gone; those behind it are still worth knowing.
                let is_gone =
                    |entry: &Contact| gone.as_ref().is_some_and(|held| held.id == entry.id);
                known.retain(|entry| !is_gone(entry));
            }
            self.predecessors = self.back(known);
            self.told = None;
            self.touch();
        }
        changed
    }

    /// Takes over what the predecessor said of its own predecessors. Whether any of those changed whose copies
    /// this node may have to keep; those farther back are for lookups alone.
    pub(crate) fn set_predecessors(&mut self, behind: Vec<Contact>) -> bool {
        let told = digest(&behind);
        let list = self.back(behind);
        let changed = !same(&list, &self.predecessors);
        let near_changed = changed && !same(self.near(&list), self.near(&self.predecessors));
        self.predecessors = list;
        self.told = Some(told);
        self.changes = self.changes.wrapping_add(u64::from(changed));
        near_changed
    }

    /// As much of a predecessor list as holds `predecessor_peers` distinct peers.
    fn near<'a>(&self, list: &'a [Contact]) -> &'a [Contact] {
        let mut peers = BTreeSet::new();
        let is_far = |entry: &Contact| {
            let is_full = peers.len() >= self.predecessor_peers;
            if entry.key() != self.me.key() {
                peers.insert(entry.key());
            }
            is_full
        };
        let end = list.iter().position(is_far).unwrap_or(list.len());
        &list[..end]
    }

    /// Takes the head off the list.
    pub(crate) fn drop_head(&mut self) -> Option<Contact> {
        if self.successors.is_empty() {
            return None;
        }
        let head = self.successors.remove(0);
        self.touch();
        Some(head)
    }

    /// One that acts as a member is known to hold its place in this life, whatever the lists say.
    pub(crate) fn renew_life(&mut self, member: &Contact) {
        let mut changed = false;
        let newer = |held: &mut Contact| {
            if held.id == member.id && held.incarnation() < member.incarnation() {
                *held = member.clone();
                changed = true;
            }
        };
        let near = self.successors.iter_mut().chain(&mut self.predecessors);
        near.chain(&mut self.predecessor).for_each(newer);
        if changed {
            self.touch();
        }
    }

    /// Takes out the entry behind those of `skipped` at the front, if it is `dead`. A joiner's
    /// earlier life does not count as the head of the member that lets it in.
    pub(crate) fn drop_behind(&mut self, skipped: &[Id], dead: impl Fn(&Contact) -> bool) {
        let at = self.successors.iter().position(|entry| !skipped.contains(&entry.id));
        if let Some(at) = at.filter(|at| *at > 0 && dead(&self.successors[*at])) {
            self.successors.remove(at);
            self.touch();
        }
    }

    /// Puts newer records of known peers in the place of older ones of the same life. A new life
    /// has no claim to the place of an older one; it has to be let in again.
    pub(crate) fn renew(&mut self, contact: &Contact) {
        let newer = |held: &mut Contact| {
            // Another place of the same number belongs to another peer: its record, which lies
            // elsewhere in memory, need not be looked at.
            if held.index == contact.index && held.id != contact.id {
                return;
            }
            let same_life =
                held.key() == contact.key() && held.incarnation() == contact.incarnation();
            if same_life && held.record.sequence() < contact.record.sequence() {
                held.record = contact.record.clone();
            }
        };
        self.successors.iter_mut().for_each(newer);
        self.predecessors.iter_mut().for_each(newer);
        self.predecessor.iter_mut().for_each(newer);
    }

    /// Takes over the node's own newer record.
    pub(crate) fn set_me(&mut self, me: Contact) {
        self.me = me;
        self.touch();
    }

    /// Starts to count changes anew; see [`crate::node::steer`].
    pub(crate) fn forget_stamp(&mut self) {
        (self.stamp, self.changes, self.told) = (0, 0, None);
    }

    pub(crate) fn me(&self) -> &Contact {
        &self.me
    }

    /// The successor list, nearest first.
    pub(crate) fn successors(&self) -> &[Contact] {
        &self.successors
    }

    /// The nearest node after this one.
    pub(crate) fn head(&self) -> Option<&Contact> {
        self.successors.first()
    }

    pub(crate) fn predecessor(&self) -> Option<&Contact> {
        self.predecessor.as_ref()
    }

    /// Whether this is the predecessor, in this life, and who stands behind it is its own word, of this
    /// digest.
    pub(crate) fn holds_list_of(&self, contact: &Contact, digest: u64) -> bool {
        let is_it =
            |held: &Contact| held.id == contact.id && held.incarnation() == contact.incarnation();
        self.told == Some(digest) && self.predecessor.as_ref().is_some_and(is_it)
    }

    /// The predecessor list, nearest first.
    pub(crate) fn predecessors(&self) -> &[Contact] {
        &self.predecessors
    }

    /// Changes whenever successor list, predecessor or own record do.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// How often anything here has changed, the predecessor list included.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether there is any neighbour at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.successors.is_empty() && self.predecessor.is_none()
    }

    /// Whether `x` lies between this node and its head; with an empty list, everybody else does.
    pub(crate) fn is_before_head(&self, x: Id) -> bool {
        let head = self.head().map_or(self.me.id, |head| head.id);
        between(self.me.id, x, head)
    }

    /// Whether this one should be the head instead of the present one: it lies before it, or it is a
    /// newer life in its place.
    pub(crate) fn is_better_head(&self, contact: &Contact) -> bool {
        let is_new_life =
            |head: &Contact| head.id == contact.id && head.incarnation() < contact.incarnation();
        self.is_before_head(contact.id) || self.head().is_some_and(is_new_life)
    }

    /// Whether `x` lies between the predecessor and this node; without one, everybody else does.
    pub(crate) fn is_after_predecessor(&self, x: Id) -> bool {
        let predecessor = self.predecessor.as_ref().map_or(self.me.id, |held| held.id);
        between(predecessor, x, self.me.id)
    }

    /// What lies between the predecessor and this node.
    pub(crate) fn owned(&self) -> Option<Interval> {
        self.predecessor.as_ref().map(|held| Interval::new(held.id, self.me.id))
    }

    /// The farthest entry of the list that lies strictly before `x`.
    pub(crate) fn closest_preceding(&self, x: Id) -> Option<&Contact> {
        self.successors.iter().rev().find(|entry| between(self.me.id, entry.id, x))
    }

    /// Stops at the first entry that is this node itself or out of order, and keeps as many entries
    /// as the list is meant to have (`docs/protocol.md`, "cut").
    fn cut(&self, list: impl IntoIterator<Item = Contact>) -> Vec<Contact> {
        let mut kept: Vec<Contact> = Vec::new();
        let mut peers = BTreeSet::new();
        for entry in list {
            let last = kept.last().map_or(self.me.id, |last| last.id);
            let enough = kept.len() >= self.list_len && peers.len() >= self.min_peers;
            if enough || kept.len() == MAX_CONTACTS || !between(last, entry.id, self.me.id) {
                break;
            }
            if entry.key() != self.me.key() {
                peers.insert(entry.key());
            }
            kept.push(entry);
        }
        kept
    }

    /// The predecessor and those behind it, in order, until enough entries and distinct peers.
    fn back(&self, behind: impl IntoIterator<Item = Contact>) -> Vec<Contact> {
        let mut kept: Vec<Contact> = Vec::new();
        let mut peers = BTreeSet::new();
        for entry in self.predecessor.iter().cloned().chain(behind) {
            let last = kept.last().map_or(self.me.id, |last| last.id);
            let enough =
                kept.len() >= self.predecessors_len && peers.len() >= self.predecessor_peers;
            if enough || kept.len() == MAX_CONTACTS {
                break;
            }
            if kept.last().is_some_and(|held| held.id == entry.id) {
                continue;
            }
            if !between(self.me.id, entry.id, last) {
                break;
            }
            if entry.key() != self.me.key() {
                peers.insert(entry.key());
            }
            kept.push(entry);
        }
        kept
    }

    fn touch(&mut self) {
        if self.is_empty() {
            // Without a neighbour there is nobody behind whom one could stand.
            self.predecessors.clear();
        }
        self.stamp = self.stamp.wrapping_add(1);
        self.changes = self.changes.wrapping_add(1);
    }
}

/// Whether two lists name the same places, by the same records.
pub(crate) fn same(a: &[Contact], b: &[Contact]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.id == b.id && a.record.sequence() == b.record.sequence())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Routings;
    use crate::testing::contact;

    fn links(me: u64) -> Links {
        Links::new(contact(me), &config(Routings::LEAST))
    }

    fn config(keep: Routings) -> Config {
        Config { depth: 3, min_list: 3, predecessor_peers: 2, keep, ..Config::default() }
    }

    fn numbers(list: &[Contact]) -> Vec<Id> {
        list.iter().map(|entry| entry.id).collect()
    }

    fn ids(list: &[u64]) -> Vec<Id> {
        list.iter().map(|n| Id::from_u64(*n)).collect()
    }

    #[test]
    fn a_list_stops_at_itself_at_disorder_and_at_its_length() {
        let mut links = links(10);
        let mut take = |list: &[u64]| {
            links.set_successors(list.iter().map(|n| contact(*n)));
            numbers(links.successors())
        };
        assert_eq!(take(&[20, 30, 40, 50]), ids(&[20, 30, 40]));
        assert_eq!(take(&[20, 5, 10, 15]), ids(&[20, 5]), "never itself");
        assert_eq!(take(&[20, 15, 30]), ids(&[20]), "disorder");
        assert_eq!(take(&[20, 20, 30]), ids(&[20]), "duplicates are disorder");
        assert_eq!(take(&[10]), ids(&[]));
    }

    #[test]
    fn the_predecessor_list_runs_backwards_and_never_past_oneself() {
        let mut links = links(10);
        links.set_predecessor(Some(contact(8)));
        assert!(links.set_predecessors(vec![contact(6), contact(4)]));
        assert_eq!(numbers(links.predecessors()), ids(&[8, 6]));
        links.set_predecessors(vec![contact(9), contact(4)]);
        assert_eq!(numbers(links.predecessors()), ids(&[8]), "disorder");
        links.set_predecessors(vec![contact(20), contact(10)]);
        assert_eq!(numbers(links.predecessors()), ids(&[8, 20]));
        links.set_predecessor(Some(contact(9)));
        assert_eq!(numbers(links.predecessors()), ids(&[9, 8]), "a new one stands before the old");
        assert_eq!(links.owned(), Some(Interval::new(Id::from_u64(9), Id::from_u64(10))));
        links.set_successors([contact(20)]);
        links.set_predecessor(None);
        assert_eq!(numbers(links.predecessors()), ids(&[8]), "who is gone stands nowhere");
        links.drop_head();
        assert_eq!(numbers(links.predecessors()), ids(&[]), "nobody is near, nobody is behind");
    }

    #[test]
    fn for_both_ways_the_predecessor_list_is_as_long_as_the_depth() {
        let mut links = Links::new(contact(10), &config(Routings::ALL));
        links.set_predecessor(Some(contact(8)));
        assert!(links.set_predecessors([6, 4, 2].map(contact).to_vec()));
        assert_eq!(numbers(links.predecessors()), ids(&[8, 6, 4]));
        let before = links.changes();
        assert!(
            !links.set_predecessors([6, 3].map(contact).to_vec()),
            "no copies of 3 are kept here"
        );
        assert!(numbers(links.predecessors()) == ids(&[8, 6, 3]) && links.changes() != before);
        assert!(links.set_predecessors([5, 3].map(contact).to_vec()));
    }

    #[test]
    fn stamps_of_two_lives_differ() {
        let life = |incarnation| {
            let me = crate::testing::contact_in_life(10, incarnation);
            let mut links = Links::new(me, &config(Routings::LEAST));
            links.set_successors([contact(20)]);
            links.stamp()
        };
        assert_ne!(life(1), life(2));
    }

    #[test]
    fn stamps_change_with_the_links_only() {
        let mut links = links(10);
        let before = links.stamp();
        assert!(links.set_successors([contact(20)]));
        let after = links.stamp();
        assert_ne!(before, after);
        assert!(!links.set_successors([contact(20)]));
        assert_eq!(links.stamp(), after);
    }
}
