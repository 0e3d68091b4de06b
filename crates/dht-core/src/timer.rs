//! Named timers and the table that holds them.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Instant;

/// Everything that fires by itself. Stopping a timer removes it, so no handler has to ask whether
/// it is still wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Timer {
    /// Time for STABILIZE; sets itself again, jittered.
    Stabilize,
    /// A push was held back by the rate limit; it goes out now.
    Push,
    /// A question has waited as long as it may: our own query is abandoned and it is answered.
    Deferred,
    /// Routing questions that waited for a verdict are answered "busy".
    WaitingRoutes,
    /// The next attempt to join, or to find a way back.
    Join,
    /// Time to ping a remembered peer.
    MergeProbe,
    /// Time to look up a finger.
    Fingers,
    /// The next batch of events may go out.
    MapBatch,
    /// Reports that were held back by the rate limit go out now.
    MapReport,
    /// Time to look after the map; sets itself again, jittered.
    MapUpkeep,
    /// Time to compare copies with the neighbours; sets itself again, jittered.
    Repair,
    /// A comparison after a change of neighbours, once the change has settled.
    RepairSoon,
    /// Unlinking has waited long enough for its acknowledgements.
    Unlink,
    /// Time to ask the new keepers again how much they still lack.
    HandoffPoll,
    /// A lookup took too long.
    LookupDeadline(u64),
    /// A lookup asks a busy node again.
    LookupRetry(u64),
    /// A register operation took too long.
    QuorumDeadline(u64),
    /// A register operation tries again.
    QuorumRetry(u64),
    /// A lookup that was handed on stays without an answer: its asker goes on by itself.
    Handed(u64),
}

/// At most one deadline for each timer.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimerTable {
    deadlines: BTreeMap<Timer, Instant>,
    order: BTreeSet<(Instant, Timer)>,
}

impl TimerTable {
    /// Sets a timer, instead of any deadline it had.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.stop(timer);
        self.deadlines.insert(timer, at);
        self.order.insert((at, timer));
    }

    /// Sets a timer unless it would fire earlier anyway.
    pub(crate) fn set_by(&mut self, timer: Timer, at: Instant) {
        if self.deadlines.get(&timer).is_none_or(|held| at < *held) {
            self.set(timer, at);
        }
    }

    /// Removes a timer.
    pub(crate) fn stop(&mut self, timer: Timer) {
        if let Some(at) = self.deadlines.remove(&timer) {
            self.order.remove(&(at, timer));
        }
    }

    /// Takes out one timer that is due, the earliest first.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.stop(timer);
        Some(timer)
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Whether a timer is set.
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.deadlines.contains_key(&timer)
    }

    /// Those that are set.
    pub(crate) fn all(&self) -> impl Iterator<Item = Timer> {
        self.deadlines.keys().copied()
    }

    /// Removes all of them.
    pub(crate) fn clear(&mut self) {
        *self = TimerTable::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_once() {
        let mut table = TimerTable::default();
        table.set(Timer::Push, Instant(20));
        table.set(Timer::Join, Instant(10));
        table.set(Timer::Push, Instant(5));
        assert_eq!(table.next(), Some(Instant(5)));
        assert_eq!(table.pop_due(Instant(4)), None);
        assert_eq!(table.pop_due(Instant(30)), Some(Timer::Push));
        assert_eq!(table.pop_due(Instant(30)), Some(Timer::Join));
        assert_eq!(table.pop_due(Instant(30)), None);
    }

    #[test]
    fn set_by_never_delays() {
        let mut table = TimerTable::default();
        table.set_by(Timer::Join, Instant(10));
        table.set_by(Timer::Join, Instant(20));
        assert_eq!(table.next(), Some(Instant(10)));
        table.set_by(Timer::Join, Instant(3));
        assert_eq!(table.next(), Some(Instant(3)));
        table.stop(Timer::Join);
        assert_eq!((table.next(), table.is_set(Timer::Join)), (None, false));
    }
}
