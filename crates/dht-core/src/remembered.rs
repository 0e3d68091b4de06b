//! Peers this node once knew: whom to ask for a way back, and where to look for a lost part of the
//! ring.

use std::collections::VecDeque;

use crate::id::Id;
use crate::peer::Contact;
use crate::time::Instant;

/// A bounded memory of contacts.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    peers: Vec<Entry>,
    /// Lives that ended with a LEAVE: old lists may still name them, and their silence is no news.
    left: VecDeque<(Id, u64)>,
    limit: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    contact: Contact,
    /// It fell silent instead of leaving: while one such is remembered, a node without neighbours
    /// is not alone but isolated.
    silent: bool,
    seen: Instant,
}

impl Remembered {
    pub(crate) fn new(limit: usize) -> Remembered {
        Remembered { peers: Vec::new(), left: VecDeque::new(), limit }
    }

    /// A neighbour now. Whether that is news.
    pub(crate) fn note(&mut self, contact: &Contact, now: Instant) -> bool {
        if self.left.iter().any(|(id, life)| *id == contact.id && contact.incarnation() <= *life) {
            return false;
        }
        match self.peers.iter_mut().find(|held| held.contact.id == contact.id) {
            Some(held) => {
                let news = held.contact.record.sequence() != contact.record.sequence();
                if held.contact.record.sequence() < contact.record.sequence() {
                    held.contact = contact.clone();
                    held.silent = false;
                }
                held.seen = now;
                news
            }
            None => {
                self.make_room();
                self.peers.push(Entry { contact: contact.clone(), silent: false, seen: now });
                true
            }
        }
    }

    /// It was heard.
    pub(crate) fn heard(&mut self, contact: &Contact) {
        if let Some(held) = self.peers.iter_mut().find(|held| held.contact.id == contact.id) {
            held.silent = false;
        }
    }

    /// It fell silent.
    pub(crate) fn fell_silent(&mut self, contact: &Contact, now: Instant) {
        self.note(contact, now);
        if let Some(held) = self.peers.iter_mut().find(|held| held.contact.id == contact.id) {
            held.silent = held.contact.record.sequence() <= contact.record.sequence();
        }
    }

    /// Whoever fell silent is not missed any more, only looked for.
    pub(crate) fn settle(&mut self) {
        self.peers.iter_mut().for_each(|held| held.silent = false);
    }

    /// It left for good.
    pub(crate) fn forget(&mut self, contact: &Contact) {
        let is_it = |held: &Entry| {
            held.contact.id == contact.id && held.contact.incarnation() <= contact.incarnation()
        };
        self.peers.retain(|held| !is_it(held));
        if self.left.len() == self.limit {
            self.left.pop_front();
        }
        self.left.push_back((contact.id, contact.incarnation()));
    }

    /// Whether anybody fell silent and was not heard again.
    pub(crate) fn has_silent(&self) -> bool {
        self.peers.iter().any(|held| held.silent)
    }

    /// Everybody, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Contact> {
        self.peers.iter().map(|held| &held.contact)
    }

    /// Everybody: the silent first, then the ones seen last.
    pub(crate) fn contacts(&self) -> Vec<Contact> {
        let mut entries: Vec<&Entry> = self.peers.iter().collect();
        entries.sort_by_key(|held| (!held.silent, std::cmp::Reverse(held.seen), held.contact.id));
        entries.into_iter().map(|held| held.contact.clone()).collect()
    }

    /// Forgets who was seen when; see [`crate::node::steer`].
    pub(crate) fn forget_time(&mut self) {
        self.peers.iter_mut().for_each(|held| held.seen = Instant::ZERO);
        self.peers.sort_by_key(|held| held.contact.id);
    }

    fn make_room(&mut self) {
        if self.peers.len() < self.limit {
            return;
        }
        let oldest = self.peers.iter().enumerate().min_by_key(|(_, held)| (held.silent, held.seen));
        if let Some(at) = oldest.map(|(at, _)| at) {
            self.peers.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{contact, contact_in_life};

    #[test]
    fn the_silent_are_kept_longest_and_asked_first() {
        let mut memory = Remembered::new(3);
        for n in 1..=3 {
            memory.note(&contact(n), Instant(n));
        }
        memory.fell_silent(&contact(1), Instant(4));
        memory.note(&contact(4), Instant(5));
        let ids: Vec<Id> = memory.contacts().iter().map(|held| held.id).collect();
        assert_eq!(ids, [1, 4, 3].map(Id::from_u64));
        assert!(memory.has_silent());
        memory.heard(&contact(1));
        assert!(!memory.has_silent());
    }

    #[test]
    fn a_new_life_is_not_silent_and_who_left_is_forgotten() {
        let mut memory = Remembered::new(3);
        memory.fell_silent(&contact(1), Instant(1));
        memory.note(&contact_in_life(1, 2), Instant(2));
        memory.fell_silent(&contact(1), Instant(3));
        assert!(!memory.has_silent(), "a verdict about an older life is void");
        memory.forget(&contact_in_life(1, 2));
        memory.fell_silent(&contact_in_life(1, 2), Instant(4));
        assert!(memory.contacts().is_empty(), "who left is not silent");
        memory.note(&contact_in_life(1, 3), Instant(5));
        memory.forget(&contact_in_life(1, 2));
        assert_eq!(memory.contacts(), [contact_in_life(1, 3)], "but may come back");
    }
}
