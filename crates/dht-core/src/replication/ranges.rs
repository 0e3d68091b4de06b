//! Which arcs a node keeps, and with whom it shares them.

use std::ops::Range;

use crate::interval::{Interval, IntervalSet};
use crate::peer::Contact;
use crate::surroundings::{Surroundings, distinct};

/// The arcs that this node certainly keeps with `copies` keepers each, nearest first.
///
/// A short predecessor list may mean a small ring or a young node. Only if everybody ahead is also
/// behind is the ring that small, and only then is what lies behind the last known predecessor
/// ours: a joiner must not copy the whole circle before it has heard who comes before it.
pub(super) fn sure_arcs(around: &Surroundings<'_>, copies: usize) -> Vec<Interval> {
    let mut arcs = around.kept_arcs(copies);
    if around.alone {
        return arcs;
    }
    let behind = around.peers_before();
    let is_behind = |held: &Contact| behind.iter().any(|other| other.id == held.id);
    let has_rest = arcs.len() > behind.len();
    if has_rest && !around.peers_after().iter().all(is_behind) {
        arcs.pop();
    }
    arcs
}

/// What this node may have to keep, as far as it knows: nothing of it is given up.
pub(super) fn possible_arcs(around: &Surroundings<'_>, copies: usize) -> IntervalSet {
    let mut arcs = IntervalSet::new();
    let mut behind = distinct(around.me, around.predecessors);
    match behind.nth(copies.saturating_sub(1)) {
        Some(last) if !around.alone => arcs.insert(Interval::new(last.id, around.me.id)),
        _ => arcs.insert(Interval::full(around.me.id)),
    }
    arcs
}

/// Which peers share which of the kept arcs. `arcs` are numbered from our own; the `j`-th peer
/// before us shares all but the first `j`, the `j`-th after us all but the last `j`, and the
/// `copies`-th after us kept our own arc before we came.
pub(super) fn sources(
    before: &[Contact],
    after: &[Contact],
    copies: usize,
    arcs: usize,
) -> Vec<(Contact, Range<usize>)> {
    let mut sources: Vec<(Contact, Range<usize>)> = Vec::new();
    let mut add = |contact: &Contact, range: Range<usize>| {
        if range.is_empty() {
            return;
        }
        match sources.iter_mut().find(|(held, _)| held.id == contact.id) {
            Some((_, held)) => *held = held.start.min(range.start)..held.end.max(range.end),
            None => sources.push((contact.clone(), range)),
        }
    };
    for (at, contact) in after.iter().take(copies).enumerate() {
        // In a small ring one peer stands on both sides, and shares everything.
        let everything = after.len() < copies;
        let shared = arcs.saturating_sub(at + 1).max(1);
        add(contact, 0..if everything { arcs } else { shared.min(arcs) });
    }
    for (at, contact) in before.iter().take(copies.saturating_sub(1)).enumerate() {
        add(contact, (at + 1).min(arcs)..arcs);
    }
    sources
}

/// What `set` contains and `other` does not.
pub(super) fn outside(set: &IntervalSet, other: &IntervalSet) -> Vec<Interval> {
    set.arcs().iter().flat_map(|arc| other.missing(arc)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RingParams;
    use crate::id::Id;
    use crate::message::RingId;
    use crate::testing::contact;

    fn arc(start: u64, end: u64) -> Interval {
        Interval::new(Id::from_u64(start), Id::from_u64(end))
    }

    /// The sure and the possible arcs of node 50, three copies.
    fn arcs(before: &[u64], after: &[u64]) -> (Vec<Interval>, IntervalSet) {
        let (me, params) = (contact(50), RingParams::founding(RingId(1), 3));
        let contacts = |list: &[u64]| list.iter().map(|n| contact(*n)).collect::<Vec<_>>();
        let (before, after) = (contacts(before), contacts(after));
        let around = Surroundings {
            me: &me,
            params: &params,
            alone: false,
            successors: &after,
            predecessors: &before,
        };
        (sure_arcs(&around, 3), possible_arcs(&around, 3))
    }

    #[test]
    fn with_enough_predecessors_both_are_the_same() {
        let (sure, possible) = arcs(&[40, 30, 20, 10], &[60, 70]);
        assert_eq!(sure, [arc(40, 50), arc(30, 40), arc(20, 30)]);
        assert_eq!(possible.arcs(), [arc(20, 50)]);
    }

    #[test]
    fn a_small_ring_is_kept_whole() {
        let (sure, possible) = arcs(&[40, 60], &[60, 40]);
        assert_eq!(sure, [arc(40, 50), arc(60, 40), arc(50, 60)]);
        assert_eq!(possible.arcs(), [arc(50, 50)]);
    }

    #[test]
    fn a_young_node_is_sure_of_little_and_gives_up_nothing() {
        let (sure, possible) = arcs(&[40], &[60, 70, 80]);
        assert_eq!(sure, [arc(40, 50)]);
        assert_eq!(possible.arcs(), [arc(50, 50)]);
        assert_eq!(arcs(&[], &[60]).0, [], "in doubt, nothing");
    }

    #[test]
    fn sources_share_the_arcs_they_keep_themselves() {
        let before: Vec<Contact> = [40, 30, 20, 10].map(contact).into();
        let after: Vec<Contact> = [60, 70, 80, 90].map(contact).into();
        let list = sources(&before, &after, 3, 3);
        let ranges: Vec<_> = list
            .iter()
            .map(|(held, range)| (held.id.to_bytes()[19], range.start, range.end))
            .collect();
        assert_eq!(ranges, [(60, 0, 2), (70, 0, 1), (80, 0, 1), (40, 1, 3), (30, 2, 3)]);
    }
}
