//! Which lookups are walked: pairs of asker and key, stratified by rank.
//!
//! The key is a random point. The asker lies a random number of ranks before the key's owner, which
//! is the same as any asker with the same chance. These distances are not drawn freely: their range
//! is cut into equal strata with two lookups in each. So no distance is missed or favoured by
//! chance, and the two lookups of a stratum tell how much chance is left in the mean.
//!
//! This only chooses where walks begin. How long they take, and whether they end at the owner, is
//! for the walk to say.

use dht_core::Id;
use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;

use super::table::RingTable;

/// Lookups of one stratum; the last one takes what is left over. Two are the fewest that show a
/// spread, and the fewer lookups a stratum has, the narrower it is.
const IN_STRATUM: u64 = 2;

/// The strata of so many lookups on one ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Strata {
    lookups: u64,
    count: u64,
}

impl Strata {
    /// For so many lookups, at least one.
    pub(super) fn new(lookups: u64) -> Strata {
        Strata { lookups, count: (lookups / IN_STRATUM).max(1) }
    }

    /// All of them, far ones between near ones: so progress goes at an even pace, although the walks
    /// of far askers are long.
    pub(super) fn mixed(self) -> impl Iterator<Item = u64> {
        // The golden section spreads multiples most evenly; without a common divisor, they meet
        // every stratum once.
        let golden = (self.count as f64 * 0.618_033_988_75) as u64;
        let stride = (golden.max(1)..).find(|stride| common_divisor(*stride, self.count) == 1);
        let stride = u128::from(stride.expect("a prime above the count has none in common"));
        (0..self.count).map(move |n| (u128::from(n) * stride % u128::from(self.count)) as u64)
    }

    /// How many lookups a stratum has.
    pub(super) fn lookups_of(self, stratum: u64) -> u64 {
        let is_last = stratum + 1 == self.count;
        if is_last { self.lookups - stratum * IN_STRATUM } else { IN_STRATUM }
    }

    /// A lookup of a stratum: the asker's rank, and the key.
    pub(super) fn draw(self, stratum: u64, table: &RingTable, rng: &mut Pcg64Mcg) -> (usize, Id) {
        let nodes = table.ids().len();
        let within = self.lookups_of(stratum) as f64 * rng.random::<f64>();
        let along = ((stratum * IN_STRATUM) as f64 + within) / self.lookups as f64;
        let distance = ((along * nodes as f64) as usize).min(nodes - 1);
        let key = random_id(rng);
        ((table.owner(key) + nodes - distance) % nodes, key)
    }
}

/// Any point of the circle.
pub(crate) fn random_id(rng: &mut Pcg64Mcg) -> Id {
    let mut bytes = [0; Id::LEN];
    rng.fill_bytes(&mut bytes);
    Id::from_bytes(bytes)
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_stratum_has_its_turn_once() {
        for lookups in [1, 2, 3, 4, 5, 7, 100, 777, 20_000, 20_001] {
            let strata = Strata::new(lookups);
            let mut turns: Vec<u64> = strata.mixed().collect();
            turns.sort_unstable();
            assert_eq!(turns, (0..strata.count).collect::<Vec<u64>>(), "{lookups}");
            let all: u64 = turns.iter().map(|stratum| strata.lookups_of(*stratum)).sum();
            assert_eq!(all, lookups);
        }
    }

    #[test]
    fn far_strata_stand_between_near_ones() {
        let early: Vec<u64> = Strata::new(2000).mixed().take(10).collect();
        let near = early.iter().filter(|stratum| **stratum < 500).count();
        assert!((3..=7).contains(&near), "{early:?}");
    }

    #[test]
    fn a_stratum_holds_its_share_of_the_distances() {
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let table = RingTable::random(1000, &mut rng);
        let strata = Strata::new(101);
        for stratum in strata.mixed() {
            // Lookup n of 101 lies between the ranks 1000 n/101 and 1000 (n + 1)/101.
            let low = (1000 * 2 * stratum / 101) as usize;
            let high = (1000 * (2 * stratum + strata.lookups_of(stratum))).div_ceil(101) as usize;
            for _ in 0..50 {
                let (asker, key) = strata.draw(stratum, &table, &mut rng);
                let distance = (table.owner(key) + 1000 - asker) % 1000;
                assert!((low..high).contains(&distance), "{distance} in {stratum}");
            }
        }
    }

    #[test]
    fn on_one_node_it_asks_itself() {
        let mut rng = Pcg64Mcg::seed_from_u64(4);
        let table = RingTable::random(1, &mut rng);
        assert_eq!(Strata::new(1).draw(0, &table, &mut rng).0, 0);
    }
}
