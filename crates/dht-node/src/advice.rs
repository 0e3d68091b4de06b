//! What lookups cost beside what they could cost: one sentence by the formulas, for a node's log and for
//! those who look at its figures. It is advice; nothing changes by itself.

use dht_core::message::ring::Routing;
use dht_core::theory;

/// Another way to look up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Alternative {
    /// How to route.
    pub(crate) routing: Routing,
    /// With how many entries.
    pub(crate) depth: u16,
    /// Mean hops by formula.
    pub(crate) mean: f64,
}

/// The mean by formula on a ring of an estimated size; `None` where there is no formula, or where it
/// would take too long to work it out.
pub(crate) fn expected_mean(routing: Routing, nodes: u64, depth: u16) -> Option<f64> {
    is_feasible(routing, nodes).then(|| theory::expected_mean(routing, nodes, depth)).flatten()
}

/// What would take at least a tenth fewer hops on so many nodes than the routing and depth at hand: longer
/// lists, both ways, and fingers alone or with a list. A full map is not among them: it is not built.
pub(crate) fn alternatives(nodes: u64, routing: Routing, depth: u16) -> Vec<Alternative> {
    let mean = |routing, depth| {
        is_feasible(routing, nodes).then(|| theory::near_mean(routing, nodes, depth)).flatten()
    };
    let Some(now) = mean(routing, depth) else { return Vec::new() };
    let walks = matches!(routing, Routing::Successors | Routing::BothWays);
    let all = [
        (walks && depth < LIST).then_some((routing, LIST)),
        (routing == Routing::Successors).then_some((Routing::BothWays, depth)),
        Some((Routing::Fingers, 1)),
        Some((Routing::Fingers, LIST)),
    ];
    let others = all.into_iter().flatten().filter(|other| *other != (routing, depth));
    let costed = others.filter_map(|(routing, depth)| {
        Some(Alternative { routing, depth, mean: mean(routing, depth)? })
    });
    costed.filter(|other| other.mean < WORTH_IT * now).collect()
}

/// What lookups cost and could cost, in one sentence: `mean 31.2 hops for about 63 nodes; depth 16 would
/// make it 2.4; fingers 3.8, with the 16-entry list 1.9`. Without a measured mean, the expected one.
pub(crate) fn sentence(measured: Option<f64>, nodes: u64, routing: Routing, depth: u16) -> String {
    let about = if nodes == 1 { "1 node".to_owned() } else { format!("about {nodes} nodes") };
    let now = match (measured, expected_mean(routing, nodes, depth)) {
        (Some(mean), _) => format!("mean {} hops for {about}", figure(mean)),
        (None, Some(mean)) => format!("{} hops are to be expected for {about}", figure(mean)),
        (None, None) => format!("no lookups yet on {about}"),
    };
    let others = alternatives(nodes, routing, depth);
    if others.is_empty() {
        return format!("{now}; no other routing or depth would make it a tenth less");
    }
    let mut parts = vec![now];
    for (at, other) in others.iter().enumerate() {
        let mean = figure(other.mean);
        let verb = if at == 0 { " would make it" } else { "" };
        let follows_fingers = at > 0 && others[at - 1].routing == Routing::Fingers;
        match (other.routing, other.depth) {
            (Routing::Fingers, 1) => parts.push(format!("fingers{verb} {mean}")),
            (Routing::Fingers, list) if follows_fingers => {
                if let Some(last) = parts.last_mut() {
                    last.push_str(&format!(", with the {list}-entry list {mean}"));
                }
            }
            (Routing::Fingers, list) => {
                parts.push(format!("fingers with the {list}-entry list{verb} {mean}"));
            }
            (other_routing, depth) if other_routing == routing => {
                parts.push(format!("depth {depth}{verb} {mean}"));
            }
            (Routing::BothWays, _) => parts.push(format!("both ways{verb} {mean}")),
            (routing, _) => parts.push(format!("{}{verb} {mean}", routing.as_str())),
        }
    }
    parts.join("; ")
}

/// An estimated number of nodes as a number of nodes: at least the one that estimates.
pub(crate) fn whole(estimate: f64) -> u64 {
    // The cast saturates, and makes 0 of what is no number.
    (estimate.round() as u64).max(1)
}

/// Sums over all nodes take time and memory, and an estimate may be anything.
fn is_feasible(routing: Routing, nodes: u64) -> bool {
    routing != Routing::BothWays || nodes <= MOST_NODES
}

fn figure(mean: f64) -> String {
    if mean < 100.0 { format!("{mean:.1}") } else { format!("{mean:.0}") }
}

/// The default length of the successor list.
const LIST: u16 = 16;
/// Estimates are off by a quarter with that list; what gains less than a tenth is not worth a word (guess).
const WORTH_IT: f64 = 0.9;
/// Milliseconds of work (guess).
const MOST_NODES: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_told_what_else_there_is() {
        assert_eq!(
            sentence(Some(31.2), 63, Routing::Successors, 1),
            "mean 31.2 hops for about 63 nodes; depth 16 would make it 2.4; both ways 16.0; fingers 3.8, \
             with the 16-entry list 1.9"
        );
        assert_eq!(
            sentence(Some(8.9), 256, Routing::Successors, 16),
            "mean 8.9 hops for about 256 nodes; both ways would make it 4.5; fingers 4.9, with the \
             16-entry list 3.0"
        );
        assert_eq!(
            sentence(None, 63, Routing::BothWays, 2),
            "8.2 hops are to be expected for about 63 nodes; depth 16 would make it 1.5; fingers 3.8, \
             with the 16-entry list 1.9"
        );
    }

    #[test]
    fn what_would_not_help_is_not_named() {
        let best = "mean 0.9 hops for about 16 nodes; no other routing or depth would make it a tenth less";
        assert_eq!(sentence(Some(0.94), 16, Routing::Successors, 16), best);
        assert_eq!(
            sentence(Some(3.8), 64, Routing::Fingers, 1),
            "mean 3.8 hops for about 64 nodes; fingers with the 16-entry list would make it 2.0"
        );
        assert!(alternatives(64, Routing::Fingers, 16).is_empty());
        assert!(
            sentence(None, 1, Routing::Successors, 1).starts_with("0.0 hops are to be expected")
        );
    }

    #[test]
    fn an_estimate_may_be_anything() {
        let numbers = [0.0, 0.4, 1.6, -3.0, f64::NAN, f64::INFINITY].map(whole);
        assert_eq!(numbers, [1, 1, 2, 1, 1, u64::MAX]);
        for routing in Routing::ALL {
            for nodes in numbers {
                assert!(!sentence(None, nodes, routing, 1).contains("NaN"));
            }
        }
        assert_eq!(expected_mean(Routing::BothWays, u64::MAX, 1), None, "it would take for ever");
        assert!(expected_mean(Routing::BothWays, 1000, 1).is_some());
    }
}
