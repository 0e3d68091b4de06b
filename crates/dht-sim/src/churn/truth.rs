//! Who really owned a point, and when: the simulator knows every life.
//!
//! The owner of a point is the first live member at or after it. Two hand-overs take a moment, and
//! while one is under way both sides may rightly say "mine":
//!
//! - A joiner is a member as soon as it was let in, and answers for its arc from then on. Its
//!   successor owns that arc too until it takes the joiner as its predecessor. From then on, or when
//!   the joiner's *grace* is over even if nobody took it, only the joiner is right.
//! - An answer of a node that has died since is right if the node owned the point while the lookup
//!   was under way.
//!
//! An answer is *wrong* if there was no moment, from the beginning of the lookup to its end, at which
//! whoever gave it was a live member and no settled live member lay from the point up to it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use dht_core::{Id, Instant};

/// The lives of all members, as far back as a lookup may reach.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    lives: BTreeMap<Id, Life>,
    ended: VecDeque<(Instant, Id)>,
    grace: Duration,
    reach: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    joined: Instant,
    settled: Instant,
    ended: Instant,
}

impl Truth {
    /// `grace`: how long a joiner may wait to be taken as a predecessor. `reach`: the longest time a
    /// lookup takes.
    pub(super) fn new(grace: Duration, reach: Duration) -> Truth {
        Truth { lives: BTreeMap::new(), ended: VecDeque::new(), grace, reach }
    }

    /// A node was let in.
    pub(super) fn joined(&mut self, now: Instant, id: Id) {
        let settled = now.after(self.grace);
        self.lives.insert(id, Life { joined: now, settled, ended: Instant::NEVER });
    }

    /// Its successor took it as its predecessor.
    pub(super) fn settled(&mut self, now: Instant, id: Id) {
        if let Some(life) = self.lives.get_mut(&id) {
            life.settled = life.settled.min(now);
        }
    }

    /// A member died, or lost its place.
    pub(super) fn ended(&mut self, now: Instant, id: Id) {
        if let Some(life) = self.lives.get_mut(&id) {
            life.ended = life.ended.min(now);
            self.ended.push_back((now, id));
        }
        while let Some((at, id)) = self.ended.front().copied()
            && now.since(at) > self.reach
        {
            self.ended.pop_front();
            if self.lives.get(&id).is_some_and(|life| life.ended <= at) {
                self.lives.remove(&id);
            }
        }
    }

    /// Whether this answer was right at some moment of the lookup.
    pub(super) fn is_right(&self, key: Id, answerer: Id, began: Instant, ended: Instant) -> bool {
        let Some(life) = self.lives.get(&answerer) else { return false };
        // Whatever makes it right begins with the lookup, with its own life, or with the end of one
        // that lay before it.
        let nearer = || self.nearer(key, answerer);
        let moments = [began, life.joined].into_iter().chain(nearer().map(|near| near.ended));
        let is_within = |at: &Instant| began <= *at && *at <= ended;
        let lives_at = |at: Instant| life.joined <= at && at < life.ended;
        moments
            .filter(is_within)
            .any(|at| lives_at(at) && nearer().all(|near| at < near.settled || near.ended <= at))
    }

    /// The lives from a point up to a node, without it.
    fn nearer(&self, key: Id, node: Id) -> impl Iterator<Item = &Life> {
        let (first, second) = match key <= node {
            true => ((Bound::Included(key), Bound::Excluded(node)), None),
            false => {
                let rest = (Bound::Unbounded, Bound::Excluded(node));
                ((Bound::Included(key), Bound::Unbounded), Some(rest))
            }
        };
        let second = second.into_iter().flat_map(|range| self.lives.range(range));
        self.lives.range(first).chain(second).map(|(_, life)| life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> Id {
        Id::from_u64(n)
    }

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000)
    }

    /// 10, 20 and 30 from the first second on.
    fn truth() -> Truth {
        let mut truth = Truth::new(Duration::from_secs(10), Duration::from_secs(60));
        for n in [10, 20, 30] {
            truth.joined(at(0), id(n));
            truth.settled(at(0), id(n));
        }
        truth
    }

    #[test]
    fn the_first_member_at_or_after_a_point_is_right() {
        let truth = truth();
        let right = |key, node| truth.is_right(id(key), id(node), at(1), at(2));
        assert!(right(11, 20) && right(20, 20) && right(31, 10) && right(10, 10));
        assert!(!right(11, 30) && !right(21, 20) && !right(11, 10) && !right(11, 15));
    }

    #[test]
    fn an_heir_is_right_from_the_death_on_and_the_dead_one_before_it() {
        let mut truth = truth();
        truth.ended(at(5), id(20));
        let right = |node, began, ended| truth.is_right(id(11), id(node), at(began), at(ended));
        assert!(right(20, 4, 6) && right(30, 4, 6), "both owned it meanwhile");
        assert!(right(30, 6, 7) && right(20, 1, 2));
        assert!(!right(20, 6, 7), "it was dead before the lookup began");
        assert!(!right(30, 1, 4), "nobody had died yet");
    }

    #[test]
    fn a_joiner_and_its_successor_are_right_until_it_is_taken() {
        let mut truth = truth();
        truth.joined(at(5), id(15));
        let right =
            |truth: &Truth, node, at_s| truth.is_right(id(11), id(node), at(at_s), at(at_s));
        assert!(right(&truth, 15, 6) && right(&truth, 20, 6));
        assert!(!right(&truth, 15, 4), "not yet a member");
        assert!(!right(&truth, 20, 15), "it should have been taken by then");
        truth.settled(at(8), id(15));
        assert!(right(&truth, 15, 8) && !right(&truth, 20, 8) && right(&truth, 20, 7));
    }

    #[test]
    fn old_lives_are_forgotten() {
        let mut truth = truth();
        truth.ended(at(5), id(20));
        truth.ended(at(66), id(30));
        assert_eq!(truth.lives.len(), 2);
    }
}
