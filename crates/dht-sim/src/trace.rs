//! What happened in a world: a hash over every event shows that two runs were the same, and the last
//! lines, for people, show how a failure came about.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use dht_core::Instant;

/// A record of everything that happened. All events enter the hash; lines are written only if some
/// are kept, since most worlds end well and nobody reads them.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    count: u64,
    kept: VecDeque<String>,
    limit: usize,
}

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The driver does something to the world: a cut, a fault.
    World,
    /// The driver does something to a node, or orders something.
    Order,
    /// A node's life begins or ends.
    Life,
    /// A timer fires.
    Timer,
    /// A question arrives.
    Question,
    /// An answer arrives.
    Answer,
    /// A node says something to its driver.
    Notice,
    /// A node points elsewhere.
    Links,
}

impl Trace {
    /// A trace that keeps its last `limit` lines; older ones go.
    pub fn new(limit: usize) -> Trace {
        Trace { hash: OFFSET_BASIS, count: 0, kept: VecDeque::new(), limit }
    }

    /// Adds one event: numbers that tell it from others of its kind, and a line for people.
    pub fn event(&mut self, at: Instant, kind: Kind, numbers: &[u64], what: fmt::Arguments<'_>) {
        self.hash(at.0);
        self.hash(kind as u64);
        numbers.iter().for_each(|number| self.hash(*number));
        self.count += 1;
        if self.limit == 0 {
            return;
        }
        let mut line = match self.kept.len() >= self.limit {
            true => self.kept.pop_front().unwrap_or_default(),
            false => String::new(),
        };
        line.clear();
        let (seconds, micros) = (at.0 / 1_000_000, at.0 % 1_000_000);
        let written = write!(line, "{seconds}.{micros:06} {what}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
        self.kept.push_back(line);
    }

    /// Over all events so far: equal for equal runs.
    pub fn digest(&self) -> u64 {
        self.hash
    }

    /// How many events there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last lines, oldest first.
    pub fn last_lines(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }

    fn hash(&mut self, number: u64) {
        // FNV-1a over words instead of bytes, and rotated so that high bits come down again: nobody
        // attacks a trace, and it needs no crate.
        self.hash = ((self.hash ^ number).wrapping_mul(PRIME)).rotate_left(29);
    }
}

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_events_make_equal_hashes_and_the_order_counts() {
        let trace = |events: &[u64]| {
            let mut trace = Trace::new(2);
            let mut add =
                |n: u64| trace.event(Instant(1_500_000), Kind::World, &[n], format_args!("{n}"));
            events.iter().for_each(|n| add(*n));
            trace
        };
        assert_eq!(trace(&[1, 2, 3]).digest(), trace(&[1, 2, 3]).digest());
        assert_ne!(trace(&[1, 2, 3]).digest(), trace(&[2, 1, 3]).digest());
        assert_ne!(trace(&[1]).digest(), trace(&[1, 1]).digest());
        let kept = trace(&[1, 2, 3]);
        assert_eq!(kept.last_lines().collect::<Vec<_>>(), ["1.500000 2", "1.500000 3"]);
        assert_eq!(kept.count(), 3);
        let mut none = Trace::new(0);
        none.event(Instant(1_500_000), Kind::World, &[1], format_args!("1"));
        assert_eq!((none.last_lines().count(), none.digest()), (0, trace(&[1]).digest()));
    }
}
