//! The exact mean of the ring at hand: every asker, every key.
//!
//! Which way a lookup goes depends on the owner alone, and both ways also on which side of the point opposite
//! the asker the key lies. So hops are counted once for each asker and each owner, by ranks, and weighed by
//! the share of the circle that the keys take. Nothing of this is used to route.

use crate::id::Id;
use crate::message::ring::Routing;

/// Largest ring whose exact mean is worked out where it differs from ring to ring. It takes time in
/// proportion to the square: a second or two at 16,384 (guess).
pub const MAX_MEMBERS: usize = 16_384;

/// The mean hops of a routing at a depth on a ring of these members, in any order, over uniform askers and
/// uniform keys. `None`: of no member, or of more than [`MAX_MEMBERS`] where that matters.
pub fn exact_mean(members: &[Id], routing: Routing, depth: u16) -> Option<f64> {
    let mut ids = members.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let (nodes, depth) = (ids.len(), usize::from(depth.max(1)));
    match routing {
        _ if nodes == 0 => None,
        // From any owner's view the askers lie at the distances 0..n, one at each: the arcs drop out.
        Routing::Successors => {
            let total: usize = (0..nodes).map(|distance| distance.div_ceil(depth)).sum();
            Some(total as f64 / nodes as f64)
        }
        Routing::Full => Some(1.0 - 1.0 / nodes as f64),
        _ if nodes > MAX_MEMBERS => None,
        Routing::BothWays => Some(both_ways(&ids, depth)),
        Routing::Fingers => Some(fingers(&ids, depth)),
    }
}

/// The share of the circle that each node owns, by rank.
fn arcs(ids: &[Id]) -> Vec<f64> {
    let before = |at: usize| ids[(at + ids.len() - 1) % ids.len()];
    let arc = |at: usize| match ids.len() {
        1 => 1.0,
        _ => before(at).distance_to(ids[at]).as_fraction(),
    };
    (0..ids.len()).map(arc).collect()
}

fn both_ways(ids: &[Id], depth: usize) -> f64 {
    let (nodes, arcs, half) = (ids.len(), arcs(ids), Id::power_of_two(159));
    let mut total = 0.0;
    for asker in 0..nodes {
        let opposite = ids[asker].wrapping_add(half);
        let mut is_past = false;
        for distance in 1..nodes {
            let (owner, back) = ((asker + distance) % nodes, nodes - distance);
            let on_hops = distance.div_ceil(depth) as f64;
            let back_hops = back.div_ceil(depth) as f64;
            let starts_past = is_past;
            is_past = is_past || ids[asker].distance_to(ids[owner]) > half;
            total += if distance <= depth || back <= depth {
                arcs[owner]
            } else if starts_past {
                arcs[owner] * back_hops
            } else if is_past {
                // The opposite point lies within this arc.
                let past = opposite.distance_to(ids[owner]).as_fraction();
                (arcs[owner] - past) * on_hops + past * back_hops
            } else {
                arcs[owner] * on_hops
            };
        }
    }
    total / nodes as f64
}

fn fingers(ids: &[Id], depth: usize) -> f64 {
    let (nodes, arcs) = (ids.len(), arcs(ids));
    let jumps: Vec<Vec<usize>> = (0..nodes).map(|at| jumps(ids, at, depth)).collect();
    // Hops from each node to the owner at a distance, one distance after the other.
    let mut hops = vec![0u8; nodes * nodes];
    // How many of a node's jumps end before the owner.
    let mut usable = vec![0usize; nodes];
    let mut total = 0.0;
    for distance in 1..nodes {
        for at in 0..nodes {
            while jumps[at].get(usable[at]).is_some_and(|jump| *jump < distance) {
                usable[at] += 1;
            }
            let taken = if distance <= depth {
                1
            } else {
                // The first jump is the next node, which lies before any owner farther on.
                let jump = jumps[at][usable[at] - 1];
                1 + hops[(distance - jump) * nodes + (at + jump) % nodes]
            };
            hops[distance * nodes + at] = taken;
            total += f64::from(taken) * arcs[(at + distance) % nodes];
        }
    }
    total / nodes as f64
}

/// How many ranks away the entries of a node's list and its fingers lie, in order.
fn jumps(ids: &[Id], at: usize, depth: usize) -> Vec<usize> {
    let nodes = ids.len();
    let mut jumps: Vec<usize> = (1..nodes.min(depth + 1)).collect();
    let mut distance = 1;
    for exponent in 0..160 {
        // The first node that is at least so far away.
        let far = Id::power_of_two(exponent);
        while distance < nodes && ids[at].distance_to(ids[(at + distance) % nodes]) < far {
            distance += 1;
        }
        if distance < nodes {
            jumps.push(distance);
        }
    }
    jumps.sort_unstable();
    jumps.dedup();
    jumps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory;

    fn mean(ids: &[u64], routing: Routing, depth: u16) -> f64 {
        let ids: Vec<Id> = ids.iter().map(|n| Id::from_u64(*n).shifted_to_top()).collect();
        exact_mean(&ids, routing, depth).expect("there are members")
    }

    impl Id {
        /// A small number as the first bits of the circle, 256 to the round.
        fn shifted_to_top(self) -> Id {
            let mut bytes = [0; Id::LEN];
            bytes[0] = self.to_bytes()[Id::LEN - 1];
            Id::from_bytes(bytes)
        }
    }

    #[test]
    fn rings_counted_by_hand() {
        assert_eq!(exact_mean(&[], Routing::Full, 1), None);
        for routing in [Routing::Successors, Routing::BothWays, Routing::Fingers, Routing::Full] {
            assert_eq!(mean(&[7], routing, 1), 0.0);
            assert_eq!(mean(&[0, 64], routing, 1), 0.5, "{routing:?}");
        }
        // Four nodes a quarter apart: the one opposite is two hops away on either side.
        assert_eq!(mean(&[0, 64, 128, 192], Routing::BothWays, 1), 1.0);
        // Fingers a half and a quarter ahead: the node three quarters on takes two hops.
        assert_eq!(mean(&[0, 64, 128, 192], Routing::Fingers, 1), (0.0 + 1.0 + 2.0 + 2.0) / 4.0);
        // Five nodes on a sixth of the circle: the arc of 0 takes 224 of 256, the others 8 each.
        let crowded = mean(&[0, 8, 16, 24, 32], Routing::BothWays, 1);
        let from_0 = 8.0 * (1.0 + 2.0 + 3.0 + 1.0);
        let from_8 = 224.0 + 8.0 * (1.0 + 2.0 + 3.0);
        // To 0 it is three hops on, for the keys up to 144, and two back.
        let from_16 = (144.0 - 32.0) * 3.0 + 112.0 * 2.0 + 8.0 * (1.0 + 1.0 + 2.0);
        // Two on, up to 152, and three back.
        let from_24 = (152.0 - 32.0) * 2.0 + 104.0 * 3.0 + 8.0 * (1.0 + 1.0 + 2.0);
        let from_32 = 224.0 + 8.0 * (1.0 + 2.0 + 3.0);
        let expected = (from_0 + from_8 + from_16 + from_24 + from_32) / 256.0 / 5.0;
        assert!((crowded - expected).abs() < 1e-12, "{crowded} {expected}");
    }

    /// Evenly spaced rings have no chance in them.
    #[test]
    fn even_rings_agree_with_counting() {
        for nodes in [2u64, 4, 8, 16, 32, 64, 128, 256] {
            let ids: Vec<u64> = (0..nodes).map(|n| n * 256 / nodes).collect();
            let both: f64 = (0..nodes).map(|d| d.min(nodes - d) as f64).sum::<f64>() / nodes as f64;
            assert!((mean(&ids, Routing::BothWays, 1) - both).abs() < 1e-9, "{nodes}");
            // Going to the closest before the key takes one hop for every 1 among the binary digits of
            // the distance less one, and one more to the owner.
            let steps = |d: u64| if d == 0 { 0.0 } else { f64::from((d - 1).count_ones()) + 1.0 };
            let fingers = (0..nodes).map(steps).sum::<f64>() / nodes as f64;
            assert!((mean(&ids, Routing::Fingers, 1) - fingers).abs() < 1e-9, "{nodes}");
            assert_eq!(mean(&ids, Routing::Successors, 3), theory::successors_mean(nodes, 3));
        }
    }
}
