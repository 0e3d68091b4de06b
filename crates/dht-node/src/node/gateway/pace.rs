//! How long a chunk usually takes, so that a reader knows when to ask somebody else as well.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A decaying maximum of how long chunks took to read: close to the slowest of the last few dozen.
#[derive(Debug)]
pub(super) struct Pace {
    slowest: Mutex<Option<f64>>,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { slowest: Mutex::new(None) }
    }

    /// One chunk came whole after so long.
    pub(super) fn took(&self, elapsed: Duration) {
        let mut slowest = self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = elapsed.as_secs_f64();
        *slowest = Some(match *slowest {
            Some(held) => seconds.max(held + (seconds - held) * DECAY),
            None => seconds,
        });
    }

    /// How long to wait for one holder before the next is asked as well.
    pub(super) fn patience(&self) -> Duration {
        let slowest = *self.slowest.lock().unwrap_or_else(PoisonError::into_inner);
        match slowest {
            Some(seconds) => {
                Duration::from_secs_f64((seconds * SLACK).min(LONGEST.as_secs_f64())).max(SHORTEST)
            }
            None => FIRST,
        }
    }
}

/// How much of the maximum one faster chunk takes away. 1/32 (guess: a slow moment is forgotten
/// within a hundred chunks).
const DECAY: f64 = 1.0 / 32.0;
/// Patience over the slowest chunk of late. 2 by default ("The Tail at Scale", CACM 2013, hedges at
/// the 95th percentile; twice the maximum costs next to no extra reads).
const SLACK: f64 = 2.0;
/// Patience before anything is known (guess).
const FIRST: Duration = Duration::from_secs(1);
/// Shortest patience: below it a busy disk would double the reads (guess).
const SHORTEST: Duration = Duration::from_millis(200);
/// Longest patience (guess): a client that waits 30 s for progress still sees a second try.
const LONGEST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_the_slowest_of_late() {
        let pace = Pace::new();
        assert_eq!(pace.patience(), FIRST);
        pace.took(Duration::from_millis(1));
        assert_eq!(pace.patience(), SHORTEST);
        pace.took(Duration::from_millis(900));
        assert_eq!(pace.patience(), Duration::from_millis(1800));
        (0..500).for_each(|_| pace.took(Duration::from_millis(1)));
        assert_eq!(pace.patience(), SHORTEST);
        pace.took(Duration::from_secs(1000));
        assert_eq!(pace.patience(), LONGEST);
    }
}
