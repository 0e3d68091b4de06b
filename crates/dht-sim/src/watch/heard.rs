//! Lists that are on their way. The proofs know no messages: whoever adopts a list has it as it was
//! sent, though everybody in it may have gone since. That is a list a fault took away, as if its
//! reader had held it already.

use std::collections::{BTreeMap, VecDeque};

use dht_core::Id;

/// How many lists are kept for each reader: more than one step of upkeep, a push and the goodbyes of
/// some neighbours bring (guess).
const MAX_LISTS: usize = 8;

/// What each node was told last, and when who went.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    lists: BTreeMap<Id, VecDeque<List>>,
    /// The last message that was sent before a node's last life ended.
    ended: BTreeMap<Id, u64>,
}

#[derive(Clone, Debug)]
struct List {
    /// Messages are numbered in the order in which they are sent.
    sent: u64,
    /// The sender first.
    entries: Vec<Id>,
}

impl Heard {
    /// A message arrives at `reader`: the list of its sender.
    pub(super) fn list(&mut self, reader: Id, sent: u64, entries: Vec<Id>) {
        let lists = self.lists.entry(reader).or_default();
        if lists.len() == MAX_LISTS {
            lists.pop_front();
        }
        lists.push_back(List { sent, entries });
    }

    /// A life ends, when `sent` was the last message.
    pub(super) fn ended(&mut self, node: Id, sent: u64) {
        self.lists.remove(&node);
        self.ended.insert(node, sent);
    }

    /// Whether all who are gone of a list that `reader` holds now, and some of those it held `before`, come
    /// of one message that named somebody who still lived when it was sent.
    pub(super) fn died_on_its_way(&self, reader: Id, list: &[Id], before: &[Id]) -> bool {
        let lists = self.lists.get(&reader).into_iter().flatten();
        lists.into_iter().any(|heard| {
            let is_told = |id: &Id| heard.entries.contains(id) || before.contains(id);
            let lived = |id: &Id| {
                heard.entries.contains(id)
                    && self.ended.get(id).is_some_and(|ended| heard.sent <= *ended)
            };
            list.iter().all(is_told) && list.iter().any(lived)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_lived_when_it_was_sent_died_on_its_way() {
        let [reader, a, b, c] = [1, 2, 3, 4].map(Id::from_u64);
        let mut heard = Heard::default();
        heard.ended(a, 10);
        heard.list(reader, 11, vec![a, b]);
        assert!(!heard.died_on_its_way(reader, &[a], &[]), "it was gone when the list was sent");
        assert!(!heard.died_on_its_way(reader, &[a, b], &[]), "nobody saw the other one end");
        heard.ended(b, 11);
        assert!(heard.died_on_its_way(reader, &[a, b], &[]));
        assert!(!heard.died_on_its_way(reader, &[a], &[]), "the one who lived is not in it");
        assert!(!heard.died_on_its_way(reader, &[b, c], &[]), "the message did not name all");
        assert!(heard.died_on_its_way(reader, &[b, c], &[c]));
        for sent in 12..12 + MAX_LISTS as u64 {
            heard.list(reader, sent, vec![c]);
        }
        assert!(!heard.died_on_its_way(reader, &[a, b], &[]), "it is too long ago");
    }
}
