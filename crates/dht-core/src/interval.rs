//! Arcs of the circle, open at the start and closed at the end, and sets of them.

use serde::{Deserialize, Serialize};

use crate::id::Id;

/// The clockwise arc `(start, end]`; with `start == end` it is the whole circle.
///
/// Ownership in Chord is of this form: a node owns from just after its predecessor up to itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Interval {
    /// The point just before the arc.
    pub start: Id,
    /// The last point of the arc.
    pub end: Id,
}

impl Interval {
    /// The arc `(start, end]`.
    pub fn new(start: Id, end: Id) -> Interval {
        Interval { start, end }
    }

    /// The whole circle, cut at `at`.
    pub fn full(at: Id) -> Interval {
        Interval { start: at, end: at }
    }

    /// Whether the arc is the whole circle.
    pub fn is_full(&self) -> bool {
        self.start == self.end
    }

    /// Whether `point` lies on the arc.
    pub fn contains(&self, point: Id) -> bool {
        self.is_full() || {
            let to_point = self.start.distance_to(point);
            to_point != Id::ZERO && to_point <= self.start.distance_to(self.end)
        }
    }

    /// The share of the circle that the arc covers, in `0.0..=1.0`.
    pub fn fraction(&self) -> f64 {
        if self.is_full() { 1.0 } else { self.start.distance_to(self.end).as_fraction() }
    }

    /// What both arcs cover: none, one or two arcs, in clockwise order from the start of `self`.
    pub fn intersection(&self, other: &Interval) -> Vec<Interval> {
        if self.is_full() {
            return vec![*other];
        }
        if other.is_full() {
            return vec![*self];
        }
        let length = self.start.distance_to(self.end);
        let mut pieces = Vec::new();
        // Unroll the other arc into offsets from our start: one piece, or two if it passes it.
        let from = self.start.distance_to(other.start);
        let to = self.start.distance_to(other.end);
        let mut push = |low: Id, high: Id| {
            let high = high.min(length);
            if low < high {
                pieces.push(Interval {
                    start: self.start.wrapping_add(low),
                    end: self.start.wrapping_add(high),
                });
            }
        };
        if from < to {
            push(from, to);
        } else {
            push(Id::ZERO, to);
            push(from, length);
        }
        pieces
    }

    /// What `self` covers and `other` does not: none, one or two arcs.
    pub fn difference(&self, other: &Interval) -> Vec<Interval> {
        if other.is_full() {
            return Vec::new();
        }
        self.intersection(&Interval { start: other.end, end: other.start })
    }
}

/// A set of points made of few disjoint arcs, such as the ranges a node holds completely.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct IntervalSet {
    arcs: Vec<Interval>,
}

impl IntervalSet {
    /// The empty set.
    pub fn new() -> IntervalSet {
        IntervalSet::default()
    }

    /// Whether there is no point in the set.
    pub fn is_empty(&self) -> bool {
        self.arcs.is_empty()
    }

    /// Adds an arc, joining arcs that touch.
    pub fn insert(&mut self, arc: Interval) {
        let mut merged = arc;
        if merged.is_full() {
            self.arcs = vec![merged];
            return;
        }
        // Each pass swallows one arc that overlaps or touches; few arcs, so simple wins.
        while let Some(at) = self.arcs.iter().position(|held| touch(held, &merged)) {
            let held = self.arcs.swap_remove(at);
            merged = hull(&held, &merged);
            if merged.is_full() {
                self.arcs = vec![merged];
                return;
            }
        }
        self.arcs.push(merged);
        self.arcs.sort_by_key(|arc| arc.start);
    }

    /// Takes an arc out.
    pub fn remove(&mut self, arc: &Interval) {
        let mut left: Vec<Interval> =
            self.arcs.iter().flat_map(|held| held.difference(arc)).collect();
        left.sort_by_key(|arc| arc.start);
        self.arcs = left;
    }

    /// Keeps only what lies on `arc`.
    pub fn retain(&mut self, arc: &Interval) {
        self.arcs = self.arcs.iter().flat_map(|held| held.intersection(arc)).collect();
        self.arcs.sort_by_key(|arc| arc.start);
    }

    /// Whether the set contains the point.
    pub fn contains(&self, point: Id) -> bool {
        self.arcs.iter().any(|arc| arc.contains(point))
    }

    /// Whether the set covers the whole arc.
    pub fn covers(&self, arc: &Interval) -> bool {
        self.missing(arc).is_empty()
    }

    /// The parts of `arc` that the set does not contain.
    pub fn missing(&self, arc: &Interval) -> Vec<Interval> {
        self.arcs.iter().fold(vec![*arc], |left, held| {
            left.iter().flat_map(|piece| piece.difference(held)).collect()
        })
    }

    /// The arcs, disjoint, by start.
    pub fn arcs(&self) -> &[Interval] {
        &self.arcs
    }
}

/// Whether two arcs share a point or lie end to start.
fn touch(a: &Interval, b: &Interval) -> bool {
    a.end == b.start || b.end == a.start || !a.intersection(b).is_empty()
}

/// The arc that covers two arcs which touch.
fn hull(a: &Interval, b: &Interval) -> Interval {
    let covers = |start: Id, end: Id| {
        let candidate = Interval { start, end };
        (a.difference(&candidate).is_empty() && b.difference(&candidate).is_empty())
            .then_some(candidate)
    };
    let candidates = [
        covers(a.start, a.end),
        covers(b.start, b.end),
        covers(a.start, b.end),
        covers(b.start, a.end),
    ];
    // Of the arcs that cover both, the shortest; two halves that meet at both ends make a circle.
    let closed = (a.end == b.start && b.end == a.start)
        || (a.difference(b).len() + b.difference(a).len() > 0
            && a.start != b.start
            && Interval { start: a.end, end: a.start }.difference(b).is_empty());
    if closed {
        return Interval::full(a.start);
    }
    candidates
        .into_iter()
        .flatten()
        .filter(|candidate| !candidate.is_full())
        .min_by_key(|candidate| candidate.start.distance_to(candidate.end))
        .unwrap_or(Interval::full(a.start))
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    fn big(id: Id) -> BigUint {
        BigUint::from_bytes_be(&id.to_bytes())
    }

    /// Points of a tiny world, so that equal and neighbouring ends are common.
    fn small() -> impl Strategy<Value = Id> {
        prop_oneof![
            (0u64..8).prop_map(Id::from_u64),
            (0u64..8).prop_map(|n| Id::MAX.wrapping_sub(Id::from_u64(n))),
        ]
    }

    fn arc() -> impl Strategy<Value = Interval> {
        (small(), small()).prop_map(|(start, end)| Interval { start, end })
    }

    fn points() -> Vec<Id> {
        (0..10).flat_map(|n| [Id::from_u64(n), Id::MAX.wrapping_sub(Id::from_u64(n))]).collect()
    }

    proptest! {
        #[test]
        fn contains_agrees_with_big_integers(a in small(), b in small(), x in small()) {
            let modulus = BigUint::from(1u8) << 160;
            let away = |y: Id| (big(y) + &modulus - big(a)) % &modulus;
            let inside = a == b || (away(x) > BigUint::ZERO && away(x) <= away(b));
            prop_assert_eq!(Interval::new(a, b).contains(x), inside);
        }

        #[test]
        fn intersection_and_difference_agree_with_membership(a in arc(), b in arc()) {
            let both = a.intersection(&b);
            let only = a.difference(&b);
            for x in points() {
                let (in_a, in_b) = (a.contains(x), b.contains(x));
                prop_assert_eq!(both.iter().any(|p| p.contains(x)), in_a && in_b, "{:?}", x);
                prop_assert_eq!(only.iter().any(|p| p.contains(x)), in_a && !in_b, "{:?}", x);
            }
        }

        #[test]
        fn sets_agree_with_membership(
            steps in prop::collection::vec((any::<bool>(), arc()), 1..12),
            probe in arc(),
        ) {
            let mut set = IntervalSet::new();
            let mut model: Vec<(Id, bool)> = points().into_iter().map(|x| (x, false)).collect();
            for (insert, arc) in steps {
                if insert { set.insert(arc) } else { set.remove(&arc) }
                for (x, held) in &mut model {
                    if arc.contains(*x) { *held = insert; }
                }
                for (x, held) in &model {
                    prop_assert_eq!(set.contains(*x), *held, "{:?} in {:?}", x, set);
                }
                for (i, a) in set.arcs().iter().enumerate() {
                    for b in &set.arcs()[i + 1..] {
                        prop_assert!(!touch(a, b), "{:?} and {:?} are not merged", a, b);
                    }
                }
            }
            let missing = set.missing(&probe);
            for (x, held) in &model {
                let lacking = probe.contains(*x) && !held;
                prop_assert_eq!(missing.iter().any(|p| p.contains(*x)), lacking);
            }
            prop_assert_eq!(set.covers(&probe), missing.is_empty());
        }
    }
}
