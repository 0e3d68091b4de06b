//! Waiting for conditions.

use std::thread;
use std::time::{Duration, Instant};

/// Ten times what the slowest step takes on a quiet machine: who waits longer, waits for a fault.
pub const WATCHDOG: Duration = Duration::from_secs(100);

/// First pause between two looks; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// Looks again and again until there is a value. `None` when the watchdog barks first.
pub fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(value) = look() {
            return Some(value);
        }
        if started.elapsed() > limit {
            return None;
        }
        thread::park_timeout(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Looks again and again until the condition holds, and panics with the last reason why it did not
/// when [`WATCHDOG`] is over.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let mut reason = String::new();
    let found = poll(WATCHDOG, || match look() {
        Ok(value) => Some(value),
        Err(why) => {
            reason = why;
            None
        }
    });
    found.unwrap_or_else(|| panic!("waited in vain for: {what}\nlast seen: {reason}"))
}
