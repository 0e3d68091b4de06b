//! Walking an arc of the circle over keys that are sorted from zero.

use std::ops::Bound;

use dht_core::id::Id;
use dht_core::interval::Interval;

/// A stretch of points that does not pass zero, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    first: Id,
    last: Id,
}

impl Stretch {
    /// The stretch as bounds over keys that start with the bytes of a point.
    pub(crate) fn bounds(&self) -> (Bound<[u8; Id::LEN]>, Bound<[u8; Id::LEN]>) {
        let end = match self.last {
            Id::MAX => Bound::Unbounded,
            last => Bound::Excluded(last.next().to_bytes()),
        };
        (Bound::Included(self.first.to_bytes()), end)
    }

    /// The stretch of a single point.
    pub(crate) fn point(id: Id) -> Stretch {
        Stretch { first: id, last: id }
    }
}

/// What of `arc` lies clockwise after `after` (all of it if that is none): at most two stretches,
/// in clockwise order. An `after` beyond the arc leaves nothing; one at its start leaves all of it,
/// unless the arc is the whole circle, where the start is also the last point.
pub(crate) fn stretches(arc: Interval, after: Option<Id>) -> Vec<Stretch> {
    let start = match after {
        Some(after) if arc.contains(after) && after == arc.end => return Vec::new(),
        Some(after) if arc.contains(after) => after,
        Some(after) if after != arc.start => return Vec::new(),
        _ => arc.start,
    };
    let (first, last) = (start.next(), arc.end);
    if first <= last {
        vec![Stretch { first, last }]
    } else {
        vec![Stretch { first, last: Id::MAX }, Stretch { first: Id::ZERO, last }]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn small() -> impl Strategy<Value = Id> {
        prop_oneof![
            (0u64..6).prop_map(Id::from_u64),
            (0u64..6).prop_map(|n| Id::MAX.wrapping_sub(Id::from_u64(n))),
        ]
    }

    fn walk(keys: &BTreeSet<[u8; Id::LEN]>, arc: Interval, after: Option<Id>) -> Vec<Id> {
        stretches(arc, after)
            .iter()
            .flat_map(|stretch| keys.range(stretch.bounds()).copied())
            .map(Id::from_bytes)
            .collect()
    }

    proptest! {
        /// The definition: the points of the arc, by their distance from its start, where a whole
        /// circle ends at its start.
        #[test]
        fn walks_are_clockwise_and_complete(
            points in prop::collection::btree_set(small(), 0..12),
            start in small(),
            end in small(),
            cut in small(),
        ) {
            let arc = Interval::new(start, end);
            let keys = points.iter().map(|id| id.to_bytes()).collect();
            let offset = |id: Id| start.distance_to(id).wrapping_sub(Id::from_u64(1));
            let mut expected: Vec<Id> =
                points.iter().copied().filter(|id| arc.contains(*id)).collect();
            expected.sort_by_key(|id| offset(*id));
            prop_assert_eq!(walk(&keys, arc, None), expected.clone());
            let rest: Vec<Id> = if arc.contains(cut) {
                expected.into_iter().filter(|id| offset(*id) > offset(cut)).collect()
            } else if cut == start {
                expected
            } else {
                Vec::new()
            };
            prop_assert_eq!(walk(&keys, arc, Some(cut)), rest);
        }
    }

    #[test]
    fn a_point_is_a_stretch_too() {
        for id in [Id::ZERO, Id::from_u64(7), Id::MAX] {
            let near = [id.wrapping_sub(Id::from_u64(1)), id, id.next()];
            let keys: BTreeSet<_> = near.iter().map(|id| id.to_bytes()).collect();
            let found: Vec<_> = keys.range(Stretch::point(id).bounds()).copied().collect();
            assert_eq!(found, [id.to_bytes()]);
        }
    }
}
