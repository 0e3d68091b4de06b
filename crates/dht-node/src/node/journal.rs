//! Log lines that repeat are bounded: a node without a network for a night must not fill a disk.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets a few events of one kind through in every minute and counts the rest.
#[derive(Debug)]
pub(super) struct LogBudget {
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    used: u32,
    withheld: u64,
}

impl LogBudget {
    pub(super) fn new() -> LogBudget {
        let window = Window { began: Instant::now(), used: 0, withheld: 0 };
        LogBudget { window: Mutex::new(window) }
    }

    /// Whether one more line may be written now; if so, how many were withheld since the last one,
    /// in the form in which a log line leaves out what is nothing.
    pub(super) fn admit(&self) -> Option<Option<NonZeroU64>> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<Option<NonZeroU64>> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(window.began) >= MINUTE {
            window.began = now;
            window.used = 0;
        }
        if window.used >= LINES_PER_MINUTE {
            window.withheld = window.withheld.saturating_add(1);
            return None;
        }
        window.used += 1;
        Some(NonZeroU64::new(std::mem::take(&mut window.withheld)))
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// Lines of one kind in a minute. 4 by default (guess): ten minutes of every kind at once stay
/// below 100 kB.
const LINES_PER_MINUTE: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_a_minute_pass_and_the_rest_are_counted() {
        let budget = LogBudget::new();
        let now = Instant::now();
        let admitted: Vec<_> = (0..10).map(|_| budget.admit_at(now)).collect();
        assert_eq!(admitted.iter().flatten().count(), LINES_PER_MINUTE as usize);
        let later = now + MINUTE;
        assert_eq!(budget.admit_at(later), Some(NonZeroU64::new(10 - u64::from(LINES_PER_MINUTE))));
        assert_eq!(budget.admit_at(later), Some(None));
    }
}
