//! What happened in a world, line by line: its hash shows that two runs were the same, its last
//! lines show how a failure came about.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use dht_core::Instant;

/// A record of everything that happened. All lines enter the hash; only the last ones are kept.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    count: u64,
    kept: VecDeque<String>,
    limit: usize,
}

impl Trace {
    /// A trace that keeps its last `limit` lines; older ones go.
    pub fn new(limit: usize) -> Trace {
        Trace { hash: OFFSET_BASIS, count: 0, kept: VecDeque::new(), limit }
    }

    /// Adds one line.
    pub fn line(&mut self, at: Instant, what: fmt::Arguments<'_>) {
        let mut line = match self.kept.len() >= self.limit {
            true => self.kept.pop_front().unwrap_or_default(),
            false => String::new(),
        };
        line.clear();
        let (seconds, micros) = (at.0 / 1_000_000, at.0 % 1_000_000);
        let written = write!(line, "{seconds}.{micros:06} {what}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        self.count += 1;
        if self.limit > 0 {
            self.kept.push_back(line);
        }
    }

    /// Over all lines so far: equal for equal traces.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many lines there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last lines, oldest first.
    pub fn last_lines(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(String::as_str)
    }
}

/// FNV-1a with 64 bits: nobody attacks a trace, and it needs no crate.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_make_equal_hashes_and_the_order_counts() {
        let trace = |lines: &[&str]| {
            let mut trace = Trace::new(2);
            lines.iter().for_each(|line| trace.line(Instant(1_500_000), format_args!("{line}")));
            trace
        };
        assert_eq!(trace(&["a", "b", "c"]).hash(), trace(&["a", "b", "c"]).hash());
        assert_ne!(trace(&["a", "b", "c"]).hash(), trace(&["b", "a", "c"]).hash());
        assert_ne!(trace(&["ab"]).hash(), trace(&["a", "b"]).hash());
        let kept = trace(&["a", "b", "c"]);
        assert_eq!(kept.last_lines().collect::<Vec<_>>(), ["1.500000 b", "1.500000 c"]);
        assert_eq!(kept.count(), 3);
        assert_eq!(Trace::new(0).last_lines().count(), 0);
    }
}
