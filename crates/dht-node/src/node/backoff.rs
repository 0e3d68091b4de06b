//! How long to wait before the next try: longer each time, and not all nodes at the same moment.

use std::time::Duration;

use rand::RngExt;

/// Delays that double from [`FIRST`] to [`LONGEST`], each jittered.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Backoff {
        Backoff { next: FIRST }
    }

    /// The next delay: 0.75 to 1.25 of 1, 2, 4, .. 60 s.
    pub(super) fn delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(LONGEST);
        delay.mul_f64(rand::rng().random_range(0.75..1.25))
    }

    /// The next delay where somebody answers who cannot help yet.
    pub(super) fn short_delay(&mut self) -> Duration {
        self.next = self.next.min(SHORT);
        self.delay()
    }
}

/// Longest delay where somebody answers, as one that looks for its own place does: asking costs
/// little, and the answer may be another one any moment (guess).
const SHORT: Duration = Duration::from_secs(2);
/// First delay (`docs/protocol.md`: a dead bootstrap is asked after 1, 2, 4, .. s).
const FIRST: Duration = Duration::from_secs(1);
/// Longest delay. 60 s by default (guess): a bootstrap that comes up is used within a minute.
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_asked_again_soon() {
        let mut backoff = Backoff::new();
        for _ in 0..8 {
            backoff.delay();
        }
        for _ in 0..8 {
            assert!(backoff.short_delay() <= SHORT.mul_f64(1.25));
        }
    }

    #[test]
    fn delays_double_up_to_a_minute() {
        let mut backoff = Backoff::new();
        for base in [1, 2, 4, 8, 16, 32, 60, 60] {
            let base = Duration::from_secs(base);
            let delay = backoff.delay();
            assert!(delay >= base.mul_f64(0.75) && delay <= base.mul_f64(1.25), "{delay:?}");
        }
    }
}
