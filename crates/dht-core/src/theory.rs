//! What routing should cost: mean hops by formula (`docs/protocol.md`, "Hop formulas").
//!
//! Nothing here looks at a list or walks a ring: what is measured and what is expected share no
//! code. The asker is uniform over the members, so the rank distance `d` from asker to owner is
//! exactly uniform on `0..n`, whatever the ring looks like. Rings have at least one member and
//! depths are at least 1; a 0 counts as 1.
//!
//! Formulas (a), (c) and (f) are exact for every ring. (b), (c2), (d) and (e) are means over random
//! rings: one ring at hand differs from them.

mod here;

pub use here::{MAX_MEMBERS, exact_mean};

use crate::message::ring::Routing;

/// The expected mean of a routing at a depth on `n` members, as a number of hops; `None` where no
/// formula is known (fingers on few members).
pub fn expected_mean(routing: Routing, n: u64, depth: u16) -> Option<f64> {
    match routing {
        Routing::Successors => Some(successors_mean(n, depth)),
        Routing::BothWays => Some(both_ways_mean(n, depth)),
        Routing::Fingers => fingers_mean(n, depth),
        Routing::Full => Some(full_map_mean(n)),
    }
}

/// How the mean of a routing grows with the number of members, for people.
pub fn growth(routing: Routing) -> &'static str {
    match routing {
        Routing::Successors | Routing::BothWays => "O(N)",
        Routing::Fingers => "O(log N)",
        Routing::Full => "O(1)",
    }
}

/// Formulas (a) and (c): mean hops along the successor list with `k` entries. With
/// `n - 1 = qk + s`, `0 <= s < k`: `(q + 1)(kq/2 + s) / n`. At `k = 1` that is `(n - 1) / 2`.
pub fn successors_mean(n: u64, k: u16) -> f64 {
    let (n, k, q, s) = whole_and_rest(n, k);
    (q + 1.0) * (k * q / 2.0 + s) / n
}

/// The variance that belongs to [`successors_mean`]; `(n^2 - 1) / 12` at `k = 1`.
pub fn successors_variance(n: u64, k: u16) -> f64 {
    let mean = successors_mean(n, k);
    let (n, k, q, s) = whole_and_rest(n, k);
    // The sum of squares 1..q is q(q+1)(2q+1)/6.
    let squares = k * q * (q + 1.0) * (2.0 * q + 1.0) / 6.0 + s * (q + 1.0) * (q + 1.0);
    squares / n - mean * mean
}

/// How likely `hops` hops are along the successor list with `k` entries: `P(0) = 1/n`,
/// `P(1..=q) = k/n`, `P(q + 1) = s/n`, and 0 beyond.
pub fn successors_probability(n: u64, k: u16, hops: u64) -> f64 {
    let (n, k, q, s) = whole_and_rest(n, k);
    match hops as f64 {
        0.0 => 1.0 / n,
        hops if hops <= q => k / n,
        hops if hops == q + 1.0 => s / n,
        _ => 0.0,
    }
}

/// Formula (b): mean hops both ways with one neighbour on each side, the side always chosen by
/// distance of ids: `(n + 1)/4 - 2^-n` for two members and more, 0 for one. [`both_ways_mean`] also
/// takes an owner that it sees on the other side, which tells on a handful of members only.
pub fn one_neighbor_each_side_mean(n: u64) -> f64 {
    match n {
        0 | 1 => 0.0,
        n => (n as f64 + 1.0) / 4.0 - 0.5f64.powf(n as f64),
    }
}

/// Formula (c2): mean hops both ways with `k` neighbours on each side, the side chosen by distance
/// of ids. Takes time in proportion to `n`.
///
/// The owner at rank distance `d` lies on the clockwise side if at least `d` of `n` random points
/// fall into the half of the circle after the asker: `B >= d` for `B ~ Bin(n, 1/2)`.
pub fn both_ways_mean(n: u64, k: u16) -> f64 {
    let (n, k) = (n.max(1), u64::from(k.max(1)));
    let at_least = binomial_half_tails(n);
    let hops_at = |d: u64| {
        let back = n - d;
        if d <= k || back <= k {
            return 1.0;
        }
        let clockwise = at_least[d as usize];
        clockwise * d.div_ceil(k) as f64 + (1.0 - clockwise) * back.div_ceil(k) as f64
    };
    // A sum of nothing is -0.0 in Rust, which nobody wants to read.
    (1..n).map(hops_at).fold(0.0, |sum, hops| sum + hops) / n as f64
}

/// [`expected_mean`], and for fingers on a size that was not measured, between two that were, the
/// straight line between them over the logarithm of the size: off by less than 1 % where a size left out
/// can tell (a test). `None` where nothing near was measured. For sentences and lines of pictures, not
/// to judge a measurement by.
pub fn near_mean(routing: Routing, n: u64, depth: u16) -> Option<f64> {
    let (n, depth) = (n.max(1), depth.max(1));
    match routing {
        // The list shows everybody.
        Routing::Fingers if n <= u64::from(depth) + 1 => Some(full_map_mean(n)),
        Routing::Fingers => {
            fingers_mean(n, depth).or_else(|| between_measured(measured(depth), depth, n))
        }
        routing => expected_mean(routing, n, depth),
    }
}

fn between_measured(sizes: &[(u64, f64)], r: u16, n: u64) -> Option<f64> {
    let asymptote = (256, fingers_mean(256, r)?);
    let known = || sizes.iter().copied().filter(|(size, _)| *size > 1).chain([asymptote]);
    let (low, under) = known().filter(|(size, _)| *size <= n).max_by_key(|(size, _)| *size)?;
    let (high, over) = known().filter(|(size, _)| *size >= n).min_by_key(|(size, _)| *size)?;
    let along = if low == high {
        0.0
    } else {
        (n as f64 / low as f64).ln() / (high as f64 / low as f64).ln()
    };
    Some(under + along * (over - under))
}

/// Formulas (d) and (e): mean hops with fingers at `2^i` and `r` successors. Measured over random
/// rings; `None` outside of what was measured.
pub fn fingers_mean(n: u64, r: u16) -> Option<f64> {
    /// (e): what is added to (1/2) log2(n/r).
    const OFFSETS: [(u16, f64); 5] = [(1, 0.862), (2, 0.905), (4, 0.945), (8, 0.985), (16, 1.0)];

    let r = r.max(1);
    if let Some((_, mean)) = measured(r).iter().find(|(size, _)| *size == n.max(1)) {
        return Some(*mean);
    }
    let offset = OFFSETS.iter().find(|(length, _)| *length == r.min(16)).map(|(_, c)| *c)?;
    let reached = n >= 256 && n >= 16 * u64::from(r);
    reached.then(|| 0.5 * (n as f64 / f64::from(r)).log2() + offset)
}

/// The means that were measured with `r` successors, where the asymptote is not reached yet.
fn measured(r: u16) -> &'static [(u64, f64)] {
    /// (d).
    const ONE_SUCCESSOR: [(u64, f64); 8] = [
        (1, 0.0),
        (8, 2.010),
        (16, 2.639),
        (32, 3.234),
        (64, 3.779),
        (128, 4.323),
        (1000, 5.829),
        (4096, 6.856),
    ];
    /// (e).
    const SIXTEEN_SUCCESSORS: [(u64, f64); 5] =
        [(1, 0.0), (16, 0.9375), (32, 1.4375), (64, 1.956), (128, 2.470)];
    match r {
        1 => &ONE_SUCCESSOR,
        16 => &SIXTEEN_SUCCESSORS,
        _ => &[],
    }
}

/// Formula (f): mean hops with a map of all members: `1 - 1/n`.
pub fn full_map_mean(n: u64) -> f64 {
    1.0 - 1.0 / n.max(1) as f64
}

/// `n`, `k`, and `q`, `s` of `n - 1 = qk + s`, as numbers to calculate with: exact up to 2^53.
fn whole_and_rest(n: u64, k: u16) -> (f64, f64, f64, f64) {
    let (n, k) = (n.max(1), u64::from(k.max(1)));
    (n as f64, k as f64, ((n - 1) / k) as f64, ((n - 1) % k) as f64)
}

/// `P(B >= d)` for `B ~ Bin(n, 1/2)` and every `d` in `0..=n`.
///
/// The single probabilities underflow long before `n` is large, so they are taken relative to the
/// most likely one and divided by their sum.
fn binomial_half_tails(n: u64) -> Vec<f64> {
    let size = usize::try_from(n).expect("a ring fits into memory") + 1;
    let mode = size / 2;
    let mut weight = vec![0.0; size];
    weight[mode] = 1.0;
    for d in mode..size - 1 {
        weight[d + 1] = weight[d] * (size - 1 - d) as f64 / (d + 1) as f64;
    }
    for d in (0..mode).rev() {
        weight[d] = weight[d + 1] * (d + 1) as f64 / (size - 1 - d) as f64;
    }
    let total: f64 = weight.iter().sum();
    let mut sum = 0.0;
    for at in (0..size).rev() {
        sum += weight[at] / total;
        weight[at] = sum;
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs())
    }

    /// The definition: each distance once, `ceil(d / k)` hops.
    fn by_counting(n: u64, k: u16) -> (f64, f64, Vec<u64>) {
        let hops: Vec<u64> = (0..n).map(|d| d.div_ceil(u64::from(k))).collect();
        let mean = hops.iter().sum::<u64>() as f64 / n as f64;
        let away = |hops: &u64| (*hops as f64 - mean) * (*hops as f64 - mean);
        let variance = hops.iter().map(away).sum::<f64>() / n as f64;
        (mean, variance, hops)
    }

    #[test]
    fn successors_agree_with_counting_every_distance() {
        for n in 1..=80 {
            for k in [1, 2, 3, 4, 7, 8, 16, 79, 80, 100] {
                let (mean, variance, hops) = by_counting(n, k);
                assert!(close(successors_mean(n, k), mean), "mean at {n}, {k}");
                assert!(close(successors_variance(n, k), variance), "variance at {n}, {k}");
                for h in 0..=n {
                    let counted = hops.iter().filter(|held| **held == h).count() as f64 / n as f64;
                    assert!(close(successors_probability(n, k, h), counted), "{h} at {n}, {k}");
                }
            }
        }
    }

    #[test]
    fn depth_one_is_half_the_ring() {
        assert_eq!(successors_mean(32, 1), 15.5);
        assert_eq!(successors_variance(32, 1), (32.0 * 32.0 - 1.0) / 12.0);
        assert_eq!(successors_mean(1, 1), 0.0, "alone, nothing is far");
        assert_eq!(successors_mean(0, 0), 0.0);
    }

    #[test]
    fn both_ways_agrees_with_its_closed_form_at_depth_one() {
        for n in 2..=200 {
            let size = n as f64;
            // What the window saves: at d = 1 and d = n - 1 the far way is never taken.
            let saved = (size - 2.0) * (size + 2.0) * 0.5f64.powf(size) / size;
            let (sum, closed) = (both_ways_mean(n, 1), one_neighbor_each_side_mean(n));
            assert!(close(sum, closed - saved), "{n}: {sum} against {closed} - {saved}");
        }
        assert_eq!((both_ways_mean(1, 1), one_neighbor_each_side_mean(1)), (0.0, 0.0));
        assert!(both_ways_mean(1, 1).is_sign_positive(), "not -0.0");
    }

    #[test]
    fn both_ways_needs_one_hop_where_the_window_shows_everybody() {
        assert!(close(both_ways_mean(9, 4), 8.0 / 9.0));
        assert!(both_ways_mean(100_000, 16) < successors_mean(100_000, 16));
        let ratio = both_ways_mean(100_000, 16) / (100_000.0 / 64.0);
        assert!((ratio - 1.0).abs() < 0.02, "about n / 4k: {ratio}");
    }

    #[test]
    fn tails_of_few_coins_are_counted_by_hand() {
        let tails = binomial_half_tails(3);
        for (tail, counted) in tails.iter().zip([1.0, 7.0 / 8.0, 4.0 / 8.0, 1.0 / 8.0]) {
            assert!(close(*tail, counted));
        }
        assert_eq!(tails.len(), 4);
    }

    #[test]
    fn fingers_take_the_measured_values_where_there_are_some() {
        assert_eq!(fingers_mean(64, 1), Some(3.779));
        assert_eq!(fingers_mean(64, 16), Some(1.956));
        assert_eq!(fingers_mean(256, 1), Some(4.862));
        assert_eq!(fingers_mean(256, 16), Some(3.0));
        assert_eq!(fingers_mean(20, 1), None, "not measured");
        assert_eq!(fingers_mean(1024, 3), None, "not measured");
    }

    #[test]
    fn between_measured_sizes_lies_a_straight_line() {
        let near = |n, r| near_mean(Routing::Fingers, n, r);
        assert_eq!((near(64, 1), near(1000, 16)), (Some(3.779), fingers_mean(1000, 16)));
        let between = near(63, 1).expect("between 32 and 64");
        assert!((3.74..3.779).contains(&between), "{between}");
        // Between 128, measured, and 256, where the formula begins.
        let between = near(181, 1).expect("between them");
        assert!((between - (4.323 + 4.862) / 2.0).abs() < 0.001, "{between}");
        assert_eq!((near(17, 16), near(4, 16)), (Some(16.0 / 17.0), Some(0.75)));
        assert!(near(18, 16).is_some_and(|mean| mean > 0.9375));
        assert_eq!((near(7, 1), near(100, 4)), (None, None), "nothing was measured");
        assert_eq!(near_mean(Routing::Successors, 63, 16), Some(successors_mean(63, 16)));
        // How far the line is off, told by measured sizes that are left out.
        for left_out in [32, 64, 128] {
            for r in [1, 16] {
                let others: Vec<(u64, f64)> =
                    measured(r).iter().copied().filter(|(n, _)| *n != left_out).collect();
                let line = between_measured(&others, r, left_out).expect("between others");
                let truth = fingers_mean(left_out, r).expect("measured");
                assert!((line / truth - 1.0).abs() < 0.01, "{left_out}, {r}: {line} {truth}");
            }
        }
    }

    #[test]
    fn every_routing_has_its_expectation() {
        let at = |routing| expected_mean(routing, 64, 1).expect("64 members were measured");
        assert_eq!(at(Routing::Successors), 31.5);
        assert!((at(Routing::BothWays) - 16.25).abs() < 1e-9);
        assert_eq!(at(Routing::Fingers), 3.779);
        assert_eq!(at(Routing::Full), 1.0 - 1.0 / 64.0);
        assert_eq!(growth(Routing::Successors), "O(N)");
    }
}
