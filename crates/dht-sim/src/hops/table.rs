//! A ring as one sorted table of ids: every node's lists are windows into it, its fingers are found in it, and
//! its map is all of it, without copies.

use dht_core::message::ring::Routing;
use dht_core::route::{Hop, next_hop, next_hop_both_ways, next_hop_fingers};
use dht_core::{Id, Interval};
use rand_pcg::Pcg64Mcg;

use super::random_ids;

/// An ideal ring. Its nodes are named by their rank, in the order of their ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingTable {
    ids: Vec<Id>,
}

impl RingTable {
    /// A ring of these places, at least one; the order does not matter, equal ones count once.
    pub fn new(mut ids: Vec<Id>) -> RingTable {
        ids.sort_unstable();
        ids.dedup();
        assert!(!ids.is_empty(), "a ring has at least one member");
        RingTable { ids }
    }

    /// A ring of so many random places, at least one.
    pub fn random(nodes: usize, rng: &mut Pcg64Mcg) -> RingTable {
        RingTable { ids: random_ids(nodes.max(1), rng) }
    }

    /// The places in order.
    pub fn ids(&self) -> &[Id] {
        &self.ids
    }

    /// The rank of the node that owns a point: the first one at or after it.
    pub fn owner(&self, point: Id) -> usize {
        self.wrapped(self.ids.partition_point(|id| *id < point))
    }

    /// How many hops a lookup takes from the asker to the owner of a point, with `depth` entries of
    /// each list. `None`: it did not get there.
    pub fn hops(&self, asker: usize, key: Id, routing: Routing, depth: u16) -> Option<usize> {
        let nodes = self.ids.len();
        let mut at = asker % nodes;
        let mut hops = 0;
        while !self.arc(at).contains(key) {
            if hops == nodes {
                return None;
            }
            at = self.step(at, key, routing, usize::from(depth))?;
            hops += 1;
        }
        Some(hops)
    }

    /// The rank of the node that this one sends an asker to.
    fn step(&self, at: usize, key: Id, routing: Routing, depth: usize) -> Option<usize> {
        let (me, nodes) = (self.ids[at], self.ids.len());
        let on = |place: usize| self.wrapped(at + 1 + place);
        let back = |place: usize| self.wrapped(at + nodes - 1 - place);
        let exists = |place: usize| place + 1 < nodes;
        let successor = |place: usize| exists(place).then(|| self.ids[on(place)]);
        let predecessor = |place: usize| exists(place).then(|| self.ids[back(place)]);
        let finger = |exponent| self.owner(me.wrapping_add(Id::power_of_two(exponent)));
        let finger_id = |exponent| Some(self.ids[finger(exponent)]).filter(|id| *id != me);
        let nobody_failed = |_| false;
        let hop = match routing {
            Routing::Successors => next_hop(me, successor, key, depth, nobody_failed),
            Routing::BothWays => {
                next_hop_both_ways(me, successor, predecessor, key, depth, nobody_failed)
            }
            Routing::Fingers => {
                next_hop_fingers(me, successor, finger_id, key, depth, nobody_failed)
            }
            Routing::Full => Ok(Hop::Place(self.ids[self.owner(key)])),
        };
        hop.ok().map(|hop| match hop {
            Hop::Entry(place) => on(place),
            Hop::Back(place) => back(place),
            Hop::Finger(exponent) => finger(exponent),
            Hop::Place(id) => self.owner(id),
        })
    }

    fn arc(&self, at: usize) -> Interval {
        let before = if at == 0 { self.ids.len() - 1 } else { at - 1 };
        Interval::new(self.ids[before], self.ids[at])
    }

    /// A rank below twice the size, taken round the circle. A remainder would do the same, but a
    /// division at every entry makes a walk take 1.7 times as long (measured, a million nodes).
    fn wrapped(&self, rank: usize) -> usize {
        let nodes = self.ids.len();
        if rank < nodes { rank } else { rank - nodes }
    }
}

#[cfg(test)]
mod tests {
    use dht_core::theory;
    use rand::SeedableRng;

    use super::super::random_id;
    use super::*;

    /// Case 98: every asker, every owner.
    #[test]
    fn on_small_rings_measured_equals_the_formula() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for nodes in [1, 2, 3, 17, 64] {
            let table = RingTable::random(nodes, &mut rng);
            for depth in [1, 2, 3, 4, 8, 16, 100] {
                let mut counts = vec![0u64; nodes + 1];
                for (asker, key) in
                    (0..nodes).flat_map(|asker| table.ids().iter().map(move |key| (asker, *key)))
                {
                    counts[table
                        .hops(asker, key, Routing::Successors, depth)
                        .expect("nobody is dead")] += 1;
                }
                let pairs = (nodes * nodes) as f64;
                let n = nodes as u64;
                for (hops, count) in counts.iter().enumerate() {
                    let expected = theory::successors_probability(n, depth, hops as u64);
                    let share = *count as f64 / pairs;
                    assert!((share - expected).abs() < 1e-12, "{hops} hops, {nodes}, {depth}");
                }
            }
        }
    }

    /// Case 98: the walk stays in O(N); fingers added by accident would bend it.
    #[test]
    fn the_mean_grows_with_the_ring() {
        let mut rng = Pcg64Mcg::seed_from_u64(2);
        let mut mean = |nodes: usize| {
            let table = RingTable::random(nodes, &mut rng);
            let owner = table.ids()[0];
            let hops = (0..nodes).map(|asker| {
                table.hops(asker, owner, Routing::Successors, 1).expect("nobody is dead")
            });
            hops.sum::<usize>() as f64 / nodes as f64
        };
        for nodes in [16, 64, 256, 1024] {
            assert_eq!(mean(nodes), (nodes as f64 - 1.0) / 2.0);
        }
    }

    /// Every asker, and keys anywhere: the walk of the nodes against the mean that is worked out from ranks.
    #[test]
    fn walks_agree_with_the_exact_mean_of_their_ring() {
        const KEYS: usize = 4000;
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        for nodes in [1, 2, 3, 5, 17, 64] {
            let table = RingTable::random(nodes, &mut rng);
            for routing in [Routing::Successors, Routing::BothWays, Routing::Fingers, Routing::Full]
            {
                for depth in [1, 2, 4, 16] {
                    let mut total = 0;
                    for _ in 0..KEYS {
                        let key = random_id(&mut rng);
                        let hops =
                            |asker| table.hops(asker, key, routing, depth).expect("all live");
                        total += (0..nodes).map(hops).sum::<usize>();
                    }
                    let mean = total as f64 / (nodes * KEYS) as f64;
                    let exact =
                        theory::exact_mean(table.ids(), routing, depth).expect("few members");
                    assert!(
                        (mean - exact).abs() <= 0.01 * exact,
                        "{nodes} {routing:?} {depth}: {mean} {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_key_at_a_place_belongs_to_it_and_the_next_point_does_not() {
        let table = RingTable::new([10, 30, 20].map(Id::from_u64).to_vec());
        let hops = |asker, key| table.hops(asker, Id::from_u64(key), Routing::Successors, 1);
        assert_eq!(hops(0, 10), Some(0), "a local hit is no hop");
        assert_eq!(hops(0, 11), Some(1));
        assert_eq!(hops(0, 31), Some(0), "the arc of the first passes zero");
        assert_eq!(hops(1, 31), Some(2));
        let owners = [10, 11, 20, 30, 31].map(|point| table.owner(Id::from_u64(point)));
        assert_eq!(owners, [0, 1, 1, 2, 0]);
    }
}
