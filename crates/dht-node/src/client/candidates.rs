//! What a member can choose from at a step of a lookup: the entries of its lists, as it tells them.

use std::collections::BTreeSet;

use dht_core::message::client::NeighborhoodReport;
use dht_core::message::ring::Routing;
use dht_core::stats::UpkeepTraffic;
use dht_core::{Contact, Id};

/// Where an entry stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Listed {
    /// At this place of the successor list, from 0.
    Successor(usize),
    /// At this place of the predecessor list, from 0.
    Predecessor(usize),
    /// The finger of this exponent, and perhaps of lower ones: the first node at or after `me + 2^i`.
    Finger(u8),
}

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Where it stands.
    pub listed: Listed,
    /// Whom it names.
    pub contact: Contact,
}

/// The entries that a step of a routing at a depth can choose from, every node once: successors in
/// order, then predecessors in order, then fingers from the nearest on. A member that keeps no state
/// for the routing has its successor list. A map of all members is not listed.
pub fn candidates(report: &NeighborhoodReport, routing: Routing, depth: u16) -> Vec<Candidate> {
    let depth = usize::from(depth.max(1));
    within(report, routing, depth, depth)
}

/// The same with so many successors and so many predecessors.
pub(super) fn within(
    report: &NeighborhoodReport,
    routing: Routing,
    ahead: usize,
    back: usize,
) -> Vec<Candidate> {
    let routing = if report.routings.contains(&routing) { routing } else { Routing::Successors };
    let mut seen = BTreeSet::from([report.contact.id]);
    let mut found = Vec::new();
    let mut add = |listed, contact: &Contact| {
        if seen.insert(contact.id) {
            found.push(Candidate { listed, contact: contact.clone() });
        }
    };
    if routing != Routing::Full {
        let window = report.successors.iter().take(ahead).enumerate();
        window.for_each(|(at, contact)| add(Listed::Successor(at), contact));
    }
    if routing == Routing::BothWays {
        let window = report.predecessors.iter().take(back).enumerate();
        window.for_each(|(at, contact)| add(Listed::Predecessor(at), contact));
    }
    if routing == Routing::Fingers {
        // Farthest first, so that a node is told with the greatest exponent it serves.
        for exponent in (0..160).rev() {
            if let Some(contact) = finger(report, exponent) {
                add(Listed::Finger(exponent), contact);
            }
        }
        let me = report.contact.id;
        let is_window = |held: &Candidate| matches!(held.listed, Listed::Successor(_));
        let window = found.iter().take_while(|held| is_window(held)).count();
        found[window..].sort_by_key(|held| me.distance_to(held.contact.id));
    }
    found
}

/// How many entries a member holds for a routing at a depth: all that a step can choose from.
pub fn entries_held(report: &NeighborhoodReport, routing: Routing, depth: u16) -> usize {
    match routing {
        Routing::Full => usize::try_from(report.map).unwrap_or(usize::MAX),
        _ => candidates(report, routing, depth).len(),
    }
}

/// What a member sent between two reports; all since its start if it was started anew meanwhile.
pub fn upkeep_between(before: &UpkeepTraffic, after: &UpkeepTraffic) -> UpkeepTraffic {
    if after.span_ms < before.span_ms {
        return *after;
    }
    UpkeepTraffic {
        span_ms: after.span_ms - before.span_ms,
        links: after.links.saturating_sub(before.links),
        fingers: after.fingers.saturating_sub(before.fingers),
        map: after.map.saturating_sub(before.map),
    }
}

/// What a member sent to keep a routing's entries right, in bytes a second, UDP payloads; `None` for no
/// time. The lists are kept for all of them.
pub fn upkeep_bytes_per_s(sent: &UpkeepTraffic, routing: Routing) -> Option<f64> {
    let bytes = match routing {
        Routing::Successors | Routing::BothWays => sent.links,
        Routing::Fingers => sent.links.saturating_add(sent.fingers),
        Routing::Full => sent.links.saturating_add(sent.map),
    };
    (sent.span_ms > 0).then(|| bytes as f64 * 1000.0 / sent.span_ms as f64)
}

/// The first node at or after `me + 2^exponent`: an entry of the list, if that reaches there.
pub(super) fn finger(report: &NeighborhoodReport, exponent: u8) -> Option<&Contact> {
    let me = report.contact.id;
    let start = Id::power_of_two(exponent.into());
    let near = report.successors.iter().find(|held| me.distance_to(held.id) >= start);
    let far = || report.fingers.iter().find(|(held, _)| *held == exponent).map(|(_, held)| held);
    near.or_else(far)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use dht_core::PeerRecord;
    use dht_core::message::client::NodeState;
    use dht_core::peer::Signature;
    use dht_core::{Contact, PeerKey};

    use super::*;

    pub(crate) fn contact(n: u64) -> Contact {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        let addrs = vec![([127, 0, 0, 1], 4000 + (n % 1000) as u16).into()];
        let signature = Signature([0; 64]);
        let record =
            PeerRecord { key: PeerKey(key), incarnation: 1, revision: 0, addrs, signature };
        Contact { id: Id::from_u64(n), ..Contact::new(Arc::new(record), 0) }
    }

    /// A member that keeps everything.
    pub(crate) fn report(
        me: u64,
        successors: &[u64],
        predecessors: &[u64],
        fingers: &[(u8, u64)],
    ) -> NeighborhoodReport {
        let all = |list: &[u64]| list.iter().map(|n| contact(*n)).collect::<Vec<_>>();
        NeighborhoodReport {
            contact: contact(me),
            state: NodeState::Member,
            predecessor: predecessors.first().map(|n| contact(*n)),
            successors: all(successors),
            predecessors: all(predecessors),
            keys: 0,
            bytes: 0,
            depth: 16,
            routings: vec![Routing::Successors, Routing::BothWays, Routing::Fingers],
            addrs: Vec::new(),
            fingers: fingers.iter().map(|(exponent, n)| (*exponent, contact(*n))).collect(),
            map: 0,
            upkeep: UpkeepTraffic { span_ms: 2000, links: 600, fingers: 20, map: 0 },
            depth_back: 16,
        }
    }

    fn shown(report: &NeighborhoodReport, routing: Routing, depth: u16) -> Vec<(Listed, u64)> {
        let number = |id: Id| (0..100_000).find(|n| Id::from_u64(*n) == id).expect("small");
        let all = candidates(report, routing, depth);
        all.into_iter().map(|held| (held.listed, number(held.contact.id))).collect()
    }

    #[test]
    fn every_routing_chooses_from_its_own_lists() {
        use Listed::{Finger, Predecessor, Successor};
        let member = report(0, &[5, 9, 20], &[70_000, 60_000, 9], &[(5, 40), (6, 70), (7, 70)]);
        assert_eq!(shown(&member, Routing::Successors, 2), [(Successor(0), 5), (Successor(1), 9)]);
        assert_eq!(
            shown(&member, Routing::BothWays, 3),
            [
                (Successor(0), 5),
                (Successor(1), 9),
                (Successor(2), 20),
                (Predecessor(0), 70_000),
                (Predecessor(1), 60_000)
            ],
            "9 stands in both lists"
        );
        // 2^0 to 2^2 lead to 5, 2^3 to 9 and 2^4 to 20: entries of the list that a depth of 1 leaves out.
        assert_eq!(
            shown(&member, Routing::Fingers, 1),
            [(Successor(0), 5), (Finger(3), 9), (Finger(4), 20), (Finger(5), 40), (Finger(7), 70)]
        );
        assert_eq!(
            shown(&member, Routing::Full, 1),
            [(Successor(0), 5)],
            "it keeps no map and goes by its successors"
        );
    }

    #[test]
    fn who_keeps_no_state_goes_by_its_successors() {
        let mut member = report(0, &[5, 9], &[7], &[(5, 40)]);
        member.routings = vec![Routing::Successors];
        assert_eq!(shown(&member, Routing::BothWays, 1), [(Listed::Successor(0), 5)]);
        assert_eq!(entries_held(&member, Routing::Fingers, 2), 2);
    }

    #[test]
    fn what_is_held_and_what_it_takes() {
        let mut member = report(0, &[5, 9, 20], &[70_000], &[(5, 40), (6, 70), (7, 70)]);
        assert_eq!(entries_held(&member, Routing::Successors, 16), 3);
        assert_eq!(entries_held(&member, Routing::BothWays, 16), 4);
        assert_eq!(entries_held(&member, Routing::Fingers, 16), 5);
        member.map = 31;
        assert_eq!(entries_held(&member, Routing::Full, 1), 31);
        let rate = |routing| upkeep_bytes_per_s(&member.upkeep, routing);
        assert_eq!(rate(Routing::BothWays), Some(300.0));
        assert_eq!(rate(Routing::Fingers), Some(310.0));
        assert_eq!(rate(Routing::Full), Some(300.0), "a quiet map sends nothing for minutes");
        assert_eq!(upkeep_bytes_per_s(&UpkeepTraffic::default(), Routing::Fingers), None);
        let after = UpkeepTraffic { span_ms: 6000, links: 1000, fingers: 20, map: 0 };
        let between = upkeep_between(&member.upkeep, &after);
        assert_eq!(upkeep_bytes_per_s(&between, Routing::Fingers), Some(100.0));
        assert_eq!(upkeep_between(&after, &member.upkeep), member.upkeep, "it was started anew");
    }
}
