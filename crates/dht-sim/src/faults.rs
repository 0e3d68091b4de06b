//! How a world goes wrong: slow and lossy messages, slow disks, cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dht_core::time::micros;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::member::mix;

/// What goes wrong all the time, drawn from the world's seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    /// Shortest time a message is on its way.
    pub shortest_delay: Duration,
    /// Longest time a message is on its way, but for spikes.
    pub longest_delay: Duration,
    /// How the delays between the two are spread.
    pub spread: Spread,
    /// How many of 1000 messages take ten times as long.
    pub spikes_per_mille: u32,
    /// How many of 1000 messages, questions and answers alike, are lost.
    pub loss_per_mille: u32,
    /// How many of 1000 messages arrive twice, each at its own time.
    pub twice_per_mille: u32,
    /// How long a disk takes for one command.
    pub disk_delay: Duration,
}

/// How the delays of messages are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Every delay is equally likely for every message, so messages overtake each other often.
    Even,
    /// Every way has its own delay, which its messages take give or take a quarter: some nodes are
    /// near each other, others far, and the way back may be another.
    ByWay,
}

/// How much longer a message takes that meets a spike: a queue that had filled up (guess).
const SPIKE: u32 = 10;

impl Default for FaultPlan {
    /// A quiet network of short ways: 1 to 20 ms (guess: from one rack to one continent), no loss,
    /// disks of 1 ms (guess: one flush of an SSD).
    fn default() -> FaultPlan {
        FaultPlan {
            shortest_delay: Duration::from_millis(1),
            longest_delay: Duration::from_millis(20),
            spread: Spread::Even,
            spikes_per_mille: 0,
            loss_per_mille: 0,
            twice_per_mille: 0,
            disk_delay: Duration::from_millis(1),
        }
    }
}

impl FaultPlan {
    /// How long the next message between two nodes takes. Never zero: time has to pass between
    /// cause and effect.
    pub(crate) fn draw_delay(&self, rng: &mut Pcg64Mcg, from: u64, to: u64) -> Duration {
        let shortest = micros(self.shortest_delay).max(1);
        let longest = micros(self.longest_delay).max(shortest);
        let drawn = match self.spread {
            Spread::Even => rng.random_range(shortest..=longest),
            Spread::ByWay => {
                let own = shortest + mix(&[from, to]) % (longest - shortest + 1);
                (own - own / 4 + rng.random_range(0..=own / 2)).clamp(shortest, longest)
            }
        };
        let drawn = Duration::from_micros(drawn);
        match draw(rng, self.spikes_per_mille) {
            true => drawn.saturating_mul(SPIKE),
            false => drawn,
        }
    }

    /// Whether the next message is lost.
    pub(crate) fn draw_loss(&self, rng: &mut Pcg64Mcg) -> bool {
        draw(rng, self.loss_per_mille)
    }

    /// Whether the next message arrives twice.
    pub(crate) fn draw_twice(&self, rng: &mut Pcg64Mcg) -> bool {
        draw(rng, self.twice_per_mille)
    }
}

fn draw(rng: &mut Pcg64Mcg, per_mille: u32) -> bool {
    per_mille > 0 && rng.random_range(0..1000) < per_mille
}

/// Which ways are cut at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuts {
    /// How many partitions there have been, and heals.
    count: u64,
    groups: BTreeMap<u64, usize>,
    one_way: BTreeSet<(u64, u64)>,
    misdirected: BTreeSet<u64>,
}

impl Cuts {
    /// Only members of the same group reach each other; nodes named in none form one more group.
    pub(crate) fn partition(&mut self, groups: &[Vec<u64>]) {
        self.count += 1;
        self.groups.clear();
        for (at, group) in groups.iter().enumerate() {
            self.groups.extend(group.iter().map(|n| (*n, at + 1)));
        }
    }

    /// Nothing that `from` sends reaches `to` any more, answers included.
    pub(crate) fn cut_one_way(&mut self, from: u64, to: u64) {
        self.one_way.insert((from, to));
    }

    /// Whoever dials this node from now on gets somebody else, since its record names a wrong
    /// address.
    pub(crate) fn misdirect(&mut self, node: u64) {
        self.misdirected.insert(node);
    }

    /// Whether whoever dials this node gets somebody else.
    pub(crate) fn is_misdirected(&self, node: u64) -> bool {
        self.misdirected.contains(&node)
    }

    /// All ways are open again.
    pub(crate) fn heal(&mut self) {
        *self = Cuts { count: self.count + 1, ..Cuts::default() };
    }

    /// Puts a node into the group of another one: a joiner belongs where it joins.
    pub(crate) fn follow(&mut self, node: u64, other: u64) {
        match self.groups.get(&other) {
            Some(group) => self.groups.insert(node, *group),
            None => self.groups.remove(&node),
        };
    }

    /// Whether a message gets from one to the other.
    pub(crate) fn lets_through(&self, from: u64, to: u64) -> bool {
        self.group(from) == self.group(to) && !self.one_way.contains(&(from, to))
    }

    /// Whether questions and answers get through between the two, whoever asks.
    pub(crate) fn both_ways(&self, a: u64, b: u64) -> bool {
        let reaches = |from, to| self.lets_through(from, to) && !self.is_misdirected(to);
        reaches(a, b) && reaches(b, a)
    }

    /// Changes with every partition and heal.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The group of a node: 0 unless a partition named it.
    pub(crate) fn group(&self, node: u64) -> usize {
        self.groups.get(&node).copied().unwrap_or(0)
    }

    /// Whether anything is cut.
    pub(crate) fn is_any(&self) -> bool {
        !(self.groups.is_empty() && self.one_way.is_empty() && self.misdirected.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_way_has_its_own_delay() {
        let plan = FaultPlan { spread: Spread::ByWay, ..FaultPlan::default() };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut mean = |from, to| {
            let drawn = (0..200).map(|_| micros(plan.draw_delay(&mut rng, from, to)));
            drawn.sum::<u64>() / 200
        };
        let ways: Vec<u64> = (0..20).map(|to| mean(99, to)).collect();
        let (least, most) = (ways.iter().min(), ways.iter().max());
        assert!(least < Some(&6_000) && most > Some(&15_000), "{ways:?}");
        assert!(mean(1, 2).abs_diff(mean(1, 2)) < 1_000);
    }

    #[test]
    fn groups_keep_to_themselves_and_joiners_follow() {
        let mut cuts = Cuts::default();
        assert!(cuts.lets_through(1, 2));
        cuts.partition(&[vec![1, 2], vec![3]]);
        assert!(cuts.lets_through(1, 2) && cuts.lets_through(4, 5));
        assert!(!cuts.lets_through(1, 3) && !cuts.lets_through(3, 4));
        cuts.follow(4, 3);
        assert!(cuts.lets_through(3, 4) && !cuts.lets_through(4, 5));
        cuts.heal();
        assert!(cuts.lets_through(1, 3) && !cuts.is_any());
    }

    #[test]
    fn a_cut_in_one_direction_leaves_the_other() {
        let mut cuts = Cuts::default();
        cuts.cut_one_way(1, 2);
        assert!(!cuts.lets_through(1, 2) && cuts.lets_through(2, 1) && cuts.is_any());
    }
}
