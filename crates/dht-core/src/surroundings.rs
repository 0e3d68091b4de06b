//! What the data machines see of a node's surroundings.

use crate::config::RingParams;
use crate::interval::Interval;
use crate::peer::Contact;

/// A node's surroundings at one moment, borrowed from the ring machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) me: &'a Contact,
    pub(crate) params: &'a RingParams,
    /// No neighbours, because there never were any or all of them left.
    pub(crate) alone: bool,
    /// Nearest first, never this node.
    pub(crate) successors: &'a [Contact],
    /// Nearest first, never this node.
    pub(crate) predecessors: &'a [Contact],
}

impl Surroundings<'_> {
    /// The distinct other peers clockwise from this node, nearest first.
    pub(crate) fn peers_after(&self) -> Vec<Contact> {
        distinct(self.me, self.successors).cloned().collect()
    }

    /// The distinct other peers anticlockwise from this node, nearest first.
    pub(crate) fn peers_before(&self) -> Vec<Contact> {
        distinct(self.me, self.predecessors).cloned().collect()
    }

    /// The arcs for which this node is one of the `copies` keepers, nearest first: number `i` is
    /// owned by the `i`-th peer before this node, this node being number 0. One full circle when
    /// there are not more peers than copies.
    pub(crate) fn kept_arcs(&self, copies: usize) -> Vec<Interval> {
        if self.alone {
            return vec![Interval::full(self.me.id)];
        }
        let mut arcs = Vec::new();
        let mut end = self.me.id;
        let before = distinct(self.me, self.predecessors);
        for start in before.take(copies).map(|held| held.id) {
            arcs.push(Interval::new(start, end));
            end = start;
        }
        // Fewer others than copies: what is left of the circle is kept too.
        if arcs.len() < copies && !arcs.is_empty() && end != self.me.id {
            arcs.push(Interval::new(self.me.id, end));
        }
        arcs
    }
}

/// The first place of each peer but our own, in the order given.
pub(crate) fn distinct<'a>(
    me: &'a Contact,
    list: &'a [Contact],
) -> impl Iterator<Item = &'a Contact> {
    let is_first = move |(at, entry): &(usize, &'a Contact)| {
        let mut nearer = list[..*at].iter().chain([me]);
        !nearer.any(|held| held.is_of_peer_of(entry))
    };
    list.iter().enumerate().filter(is_first).map(|(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::message::RingId;
    use crate::testing::contact;

    #[test]
    fn a_node_keeps_the_arcs_of_the_peers_before_it() {
        let params = RingParams::founding(RingId(1), 3);
        let me = contact(50);
        let before = [contact(40), contact(30), contact(20), contact(10)];
        let around = |before| Surroundings {
            me: &me,
            params: &params,
            alone: false,
            successors: &[],
            predecessors: before,
        };
        let arc = |a, b| Interval::new(Id::from_u64(a), Id::from_u64(b));
        assert_eq!(around(&before).kept_arcs(3), [arc(40, 50), arc(30, 40), arc(20, 30)]);
        assert_eq!(around(&before[..1]).kept_arcs(3), [arc(40, 50), arc(50, 40)]);
        assert_eq!(around(&[]).kept_arcs(3), [], "in doubt, nothing");
    }
}
