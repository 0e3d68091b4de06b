//! A hash table of fingerprints. The keys are well mixed already, so a slot is taken from their low
//! bits and a collision moves on by one; nothing is ever removed. 16 bytes for each slot, and four
//! more where numbers are kept.

/// Free slots hold this key; a fingerprint that equals it would be taken for another one.
const FREE: u128 = 0;

/// A set of fingerprints, or a map from them to small numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    keys: Vec<u128>,
    numbers: Vec<u32>,
    len: usize,
}

impl Table {
    /// Adds a key; whether it is new. For sets.
    pub(super) fn insert(&mut self, key: u128) -> bool {
        self.make_room();
        let slot = self.slot(key);
        let is_new = self.keys[slot] == FREE;
        if is_new {
            self.keys[slot] = key.max(1);
            self.len += 1;
        }
        is_new
    }

    /// Keeps a number for a key, unless it has one; the number it has. For maps: every key of one
    /// map has a number.
    pub(super) fn set(&mut self, key: u128, number: u32) -> u32 {
        self.make_room();
        self.numbers.resize(self.keys.len(), 0);
        let slot = self.slot(key);
        if self.keys[slot] == FREE {
            self.keys[slot] = key.max(1);
            self.len += 1;
            self.numbers[slot] = number;
        }
        self.numbers[slot]
    }

    /// The number of a key.
    pub(super) fn find(&self, key: u128) -> Option<u32> {
        if self.keys.is_empty() {
            return None;
        }
        let slot = self.slot(key);
        (self.keys[slot] != FREE).then(|| self.numbers[slot])
    }

    /// Whether a key is there.
    pub(super) fn contains(&self, key: u128) -> bool {
        !self.keys.is_empty() && self.keys[self.slot(key)] != FREE
    }

    /// Where a key is, or would be.
    fn slot(&self, key: u128) -> usize {
        let key = key.max(1);
        let mask = self.keys.len() - 1;
        let mut slot = (key as usize) & mask;
        while self.keys[slot] != FREE && self.keys[slot] != key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn make_room(&mut self) {
        if self.len * 4 < self.keys.len() * 3 {
            return;
        }
        let room = (self.keys.len() * 2).max(1024);
        let keys = std::mem::replace(&mut self.keys, vec![FREE; room]);
        let numbers = std::mem::take(&mut self.numbers);
        if !numbers.is_empty() {
            self.numbers = vec![0; room];
        }
        for (at, key) in keys.into_iter().enumerate().filter(|(_, key)| *key != FREE) {
            let slot = self.slot(key);
            self.keys[slot] = key;
            if let Some(number) = numbers.get(at) {
                self.numbers[slot] = *number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_again() {
        let (mut set, mut map) = (Table::default(), Table::default());
        let key = |n: u32| u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        for n in 0..5000 {
            assert!(set.insert(key(n)) && !set.insert(key(n)));
            assert_eq!((map.set(key(n), n), map.set(key(n), n + 1)), (n, n));
        }
        assert!((0..5000).all(|n| set.contains(key(n)) && map.find(key(n)) == Some(n)));
        assert!(!set.contains(key(5000)) && map.find(key(5000)).is_none());
        assert_eq!((set.len, map.len), (5000, 5000));
    }
}
