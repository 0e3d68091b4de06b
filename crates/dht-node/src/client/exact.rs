//! What the hops of one given ring must be: every asker, every arc, walked one by one.
//!
//! This is the yardstick for measured hops, so it shares no code with the lookups of dht-core and
//! none with the closed formulas: it knows only the members' ids.

use dht_core::Id;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The hops of lookups along successor lists, for an asker drawn evenly from all members and a key
/// drawn evenly from the circle.
#[derive(Clone, PartialEq, Debug)]
pub struct ExactHops {
    /// `probability[h]`: the share of lookups that take `h` hops.
    pub probability: Vec<f64>,
    /// The mean.
    pub mean: f64,
}

impl ExactHops {
    /// Of the ring with these members, in any order, where lookups use lists of `depth` entries.
    /// Takes time and memory as the square of the members. Without members, all is zero.
    pub fn of_ring(ids: &[Id], depth: u16) -> ExactHops {
        let mut ring = ids.to_vec();
        ring.sort();
        ring.dedup();
        let mut probability = Vec::new();
        for owner in 0..ring.len() {
            // A key on the owner's arc is as good as any other there: no member lies between.
            let share = arc(&ring, owner) / ring.len() as f64;
            for hops in hops_to(&ring, owner, usize::from(depth.max(1))) {
                if probability.len() <= hops {
                    probability.resize(hops + 1, 0.0);
                }
                probability[hops] += share;
            }
        }
        let sum: f64 =
            probability.iter().enumerate().map(|(hops, share)| hops as f64 * share).sum();
        // Many shares were added up; without their dust, what equals the formula prints equal to it.
        let mean = without_dust(sum);
        ExactHops { probability, mean }
    }
}

/// Hops from every member to the owner.
fn hops_to(ring: &[Id], owner: usize, depth: usize) -> Vec<usize> {
    let size = ring.len();
    // From the nearest asker before the owner outwards, so that the rest of each walk is known.
    let mut by_distance = vec![0];
    for away in 1..size {
        let asker = (owner + size - away) % size;
        let next = next_node(ring, asker, ring[owner], depth);
        let left = (owner + size - next) % size;
        assert!(left < away, "every hop comes closer, or the yardstick itself is wrong");
        by_distance.push(1 + by_distance[left]);
    }
    by_distance
}

/// Whom a member asks that looks for `key` and does not own it: the first entry whose arc holds the
/// key, else the farthest entry that does not pass it.
fn next_node(ring: &[Id], asker: usize, key: Id, depth: usize) -> usize {
    let size = ring.len();
    let way = ring[asker].distance_to(key);
    let mut farthest = (asker + 1) % size;
    for step in 1..=depth.min(size - 1) {
        let entry = (asker + step) % size;
        if ring[asker].distance_to(ring[entry]) >= way {
            return entry;
        }
        farthest = entry;
    }
    farthest
}

fn arc(ring: &[Id], at: usize) -> f64 {
    if ring.len() == 1 {
        return 1.0;
    }
    ring[(at + ring.len() - 1) % ring.len()].distance_to(ring[at]).as_fraction()
}

/// How likely it is, were `exact` the truth, that counts lie as far from it as `counts` or farther
/// (Pearson's chi-square test). Neighbouring values are put together until five are expected of each
/// (Cochran 1954). `None` if there is too little to compare: no counts, or one group only.
pub fn chi_square_p(counts: &[u64], exact: &ExactHops) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let support = exact.probability.iter().rposition(|share| *share > 0.0)?;
    if counts.iter().skip(support + 1).any(|count| *count > 0) {
        // Something was seen that cannot be.
        return Some(0.0);
    }
    let mut groups: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    for (hops, share) in exact.probability.iter().enumerate() {
        open.0 += counts.get(hops).copied().unwrap_or(0) as f64;
        open.1 += share * total as f64;
        if open.1 >= 5.0 {
            groups.push(std::mem::take(&mut open));
        }
    }
    if let Some(last) = groups.last_mut() {
        last.0 += open.0;
        last.1 += open.1;
    }
    let freedom = groups.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let distance: f64 =
        groups.iter().map(|(seen, expected)| (seen - expected).powi(2) / expected).sum();
    ChiSquared::new(freedom as f64).ok().map(|law| law.sf(distance))
}

/// Steps of a mean of hops, one over this: far above the rounding of a million sums of numbers up to
/// one, 2^-53 each, and far below what any figure shows.
const DUST: f64 = 1e9;

/// Rounds away what sums of floating numbers leave behind: equal means print equal.
pub(crate) fn without_dust(mean: f64) -> f64 {
    (mean * DUST).round() / DUST
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_mean_that_equals_the_formula_prints_equal() {
        // Of 16 members with one hop to every other: 15/16, which three decimals round to 0.938.
        for seed in 0..20u8 {
            let ids: Vec<Id> = (0..16u8).map(|n| Id::of_key(&[seed, n])).collect();
            assert_eq!(ExactHops::of_ring(&ids, 16).mean, 0.9375, "seed {seed}");
        }
    }

    use super::*;

    fn ring(size: u64) -> Vec<Id> {
        // Far from even, so that arcs weigh differently.
        (0..size).map(|n| Id::of_key(&n.to_be_bytes())).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn small_rings_by_hand() {
        let one = ExactHops::of_ring(&ring(1), 4);
        assert_eq!((one.probability.len(), one.mean), (1, 0.0));
        let two = ExactHops::of_ring(&ring(2), 1);
        assert!(close(two.probability[0], 0.5) && close(two.mean, 0.5));
        // Five members, lists of two: the ranks 0 to 4 take 0, 1, 1, 2, 2 hops.
        let five = ExactHops::of_ring(&ring(5), 2);
        assert!(close(five.mean, 6.0 / 5.0), "{five:?}");
        assert!(close(five.probability[2], 2.0 / 5.0));
        assert_eq!(ExactHops::of_ring(&[], 3), ExactHops { probability: vec![], mean: 0.0 });
    }

    #[test]
    fn at_depth_one_every_distance_is_as_likely() {
        let exact = ExactHops::of_ring(&ring(13), 1);
        assert!(close(exact.mean, 6.0));
        assert!(exact.probability.iter().all(|share| close(*share, 1.0 / 13.0)));
    }

    #[test]
    fn the_test_tells_right_from_wrong() {
        let exact = ExactHops::of_ring(&ring(8), 1);
        let even = [1000; 8];
        assert!(chi_square_p(&even, &exact).expect("enough") > 0.999);
        let skewed = [1200, 1000, 1000, 1000, 1000, 1000, 1000, 800];
        assert!(chi_square_p(&skewed, &exact).expect("enough") < 0.001);
        let impossible = [10, 10, 10, 10, 10, 10, 10, 10, 1];
        assert_eq!(chi_square_p(&impossible, &exact), Some(0.0));
        assert_eq!(chi_square_p(&[], &exact), None);
        assert_eq!(chi_square_p(&[5], &ExactHops::of_ring(&ring(1), 1)), None);
    }

    #[test]
    fn the_p_value_is_the_textbook_one() {
        // Two groups, 60 and 40 of 100 where 50 were expected: chi-square 4 with one degree of
        // freedom, p = 0.0455 (two-sided normal tail at 2).
        let exact = ExactHops { probability: vec![0.5, 0.5], mean: 0.5 };
        let p = chi_square_p(&[60, 40], &exact).expect("enough");
        assert!((p - 0.045_500).abs() < 1e-5, "{p}");
    }
}
