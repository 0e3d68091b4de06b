//! The states that were met, each with its number: the table that bounds how far a search gets. A slot
//! takes 12 bytes. Of a fingerprint eight bits choose a shard and 64 others are kept in it, so with
//! 500 million states two different ones are taken for one with a probability of about 1 in 38,000.
//!
//! Shards grow one by one, so that growing never needs room for two whole tables.

/// How many shards: one for each value of the byte that chooses.
const SHARDS: usize = 256;
/// Slots of a new shard.
const FIRST_ROOM: usize = 64;
/// A free slot.
const FREE: u64 = 0;

/// A map from fingerprints to the numbers of states.
#[derive(Debug)]
pub(super) struct Visited {
    shards: Vec<Shard>,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    keys: Vec<u64>,
    numbers: Vec<u32>,
    len: usize,
}

impl Default for Visited {
    fn default() -> Visited {
        Visited { shards: vec![Shard::default(); SHARDS] }
    }
}

impl Visited {
    /// Keeps a number for a state, unless it has one; the number it has.
    pub(super) fn set(&mut self, fingerprint: u128, number: u32) -> u32 {
        let (shard, key) = split(fingerprint);
        self.shards[shard].set(key, number)
    }

    /// The number of a state.
    pub(super) fn find(&self, fingerprint: u128) -> Option<u32> {
        let (shard, key) = split(fingerprint);
        let shard = &self.shards[shard];
        let slot = shard.slot(key)?;
        (shard.keys[slot] != FREE).then(|| shard.numbers[slot])
    }
}

impl Shard {
    fn set(&mut self, key: u64, number: u32) -> u32 {
        // Seven slots of eight may be taken.
        if self.len * 8 >= self.keys.len() * 7 {
            self.grow();
        }
        let Some(slot) = self.slot(key) else { return number };
        if self.keys[slot] == FREE {
            self.keys[slot] = key;
            self.numbers[slot] = number;
            self.len += 1;
        }
        self.numbers[slot]
    }

    /// Where a key is, or would be; `None`: there is no slot at all.
    fn slot(&self, key: u64) -> Option<usize> {
        let mask = self.keys.len().checked_sub(1)?;
        let mut slot = key as usize & mask;
        while self.keys[slot] != FREE && self.keys[slot] != key {
            slot = (slot + 1) & mask;
        }
        Some(slot)
    }

    fn grow(&mut self) {
        let room = (self.keys.len() * 2).max(FIRST_ROOM);
        let keys = std::mem::replace(&mut self.keys, vec![FREE; room]);
        let numbers = std::mem::replace(&mut self.numbers, vec![0; room]);
        self.len = 0;
        for (key, number) in keys.into_iter().zip(numbers).filter(|(key, _)| *key != FREE) {
            self.set(key, number);
        }
    }
}

/// The shard of a fingerprint, and what is kept of it.
fn split(fingerprint: u128) -> (usize, u64) {
    ((fingerprint >> 120) as usize, (fingerprint as u64).max(FREE + 1))
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::of_words;
    use super::*;

    #[test]
    fn every_state_keeps_its_first_number() {
        let mut visited = Visited::default();
        let key = |n: u32| of_words([u64::from(n)]);
        assert_eq!(visited.find(key(0)), None);
        for n in 0..100_000 {
            assert_eq!((visited.set(key(n), n), visited.set(key(n), n + 1)), (n, n));
        }
        assert!((0..100_000).all(|n| visited.find(key(n)) == Some(n)));
        assert_eq!(visited.find(key(100_000)), None);
        assert_eq!(visited.shards.iter().map(|shard| shard.len).sum::<usize>(), 100_000);
    }

    #[test]
    fn states_that_differ_in_the_shard_alone_are_two() {
        let mut visited = Visited::default();
        assert_eq!((visited.set(0, 7), visited.set(1 << 120, 8), visited.find(0)), (7, 8, Some(7)));
    }
}
