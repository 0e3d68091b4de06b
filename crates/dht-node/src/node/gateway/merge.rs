//! Merges what many members list into one page: the newest version of each key, without the
//! deleted ones.

use std::collections::BTreeMap;

use dht_core::message::client::ListedKey;
use dht_core::register::Key;

/// Collects the pages of all members for one stretch of names.
#[derive(Debug, Default)]
pub(super) struct Merge {
    newest: BTreeMap<Key, ListedKey>,
    /// Names up to here are complete; `None`: all are.
    horizon: Option<Key>,
}

impl Merge {
    pub(super) fn new() -> Merge {
        Merge::default()
    }

    /// Takes one member's page. If it has more, nothing after its last name is known of it.
    pub(super) fn add(&mut self, page: Vec<ListedKey>, more: bool) {
        let last = page.last().map(|entry| entry.key.clone());
        if let Some(last) = last.filter(|_| more) {
            self.horizon = Some(match self.horizon.take() {
                Some(horizon) => horizon.min(last),
                None => last,
            });
        }
        for entry in page {
            match self.newest.get_mut(&entry.key) {
                Some(held) if held.ballot < entry.ballot => *held = entry,
                Some(_) => {}
                None => drop(self.newest.insert(entry.key.clone(), entry)),
            }
        }
    }

    /// The first `limit` live keys in order, and where to go on; `None`: nothing follows.
    pub(super) fn finish(self, limit: usize) -> (Vec<ListedKey>, Option<Key>) {
        let horizon = self.horizon;
        let complete = |key: &Key| horizon.as_ref().is_none_or(|horizon| key <= horizon);
        let mut live = Vec::new();
        for (key, entry) in self.newest {
            if !complete(&key) {
                break;
            }
            if entry.size.is_some() {
                if live.len() == limit {
                    let last: Option<&ListedKey> = live.last();
                    let next = last.map(|entry| entry.key.clone());
                    return (live, next);
                }
                live.push(entry);
            }
        }
        (live, horizon)
    }
}

#[cfg(test)]
mod tests {
    use dht_core::PeerKey;
    use dht_core::register::Ballot;

    use super::*;

    fn entry(name: &str, counter: u64, size: Option<u64>) -> ListedKey {
        let ballot = Ballot { epoch: 1, counter, peer: PeerKey([0; 32]) };
        let key = Key::new(name.as_bytes().to_vec()).expect("short");
        ListedKey { key, size, ballot, modified_ms: 0 }
    }

    fn names(listed: &[ListedKey]) -> Vec<String> {
        listed.iter().map(|e| String::from_utf8_lossy(e.key.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn the_newest_version_decides_and_tombstones_hide() {
        let mut merge = Merge::new();
        merge.add(vec![entry("a", 1, Some(1)), entry("b", 2, None)], false);
        merge.add(vec![entry("a", 2, Some(9)), entry("b", 1, Some(5))], false);
        let (live, next) = merge.finish(10);
        assert_eq!((names(&live), live[0].size, next), (vec!["a".to_owned()], Some(9), None));
    }

    #[test]
    fn nothing_is_shown_beyond_what_every_member_told() {
        let mut merge = Merge::new();
        merge.add(vec![entry("a", 1, Some(1)), entry("c", 1, Some(1))], true);
        merge.add(vec![entry("b", 1, Some(1)), entry("d", 1, Some(1))], false);
        let (live, next) = merge.finish(10);
        assert_eq!(names(&live), ["a", "b", "c"]);
        assert_eq!(next.expect("the first member has more").as_bytes(), b"c");
    }

    #[test]
    fn a_full_page_says_where_to_go_on() {
        let mut merge = Merge::new();
        merge.add(vec![entry("a", 1, Some(1)), entry("b", 1, Some(1)), entry("c", 1, None)], false);
        let (live, next) = merge.finish(2);
        assert_eq!((names(&live).len(), next), (2, None), "only a tombstone follows");
        let mut merge = Merge::new();
        merge.add(vec![entry("a", 1, Some(1)), entry("b", 1, Some(1))], false);
        let (live, next) = merge.finish(1);
        assert_eq!((names(&live), next.is_some()), (vec!["a".to_owned()], true));
    }
}
