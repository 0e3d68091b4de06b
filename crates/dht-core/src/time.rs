//! The core's own clock value: time is an argument, never asked for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since a moment that the driver chose. Arithmetic saturates: a duration of
/// `u64::MAX` seconds is "never", not a panic.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Instant(pub u64);

impl Instant {
    /// The driver's moment zero.
    pub const ZERO: Instant = Instant(0);
    /// Later than everything.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// This moment and `duration` more.
    pub fn after(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(micros(duration)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in whole microseconds, at most `u64::MAX`.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant(5).after(Duration::MAX), Instant::NEVER);
        assert_eq!(Instant::NEVER.after(Duration::from_secs(1)), Instant::NEVER);
        assert_eq!(Instant(5).since(Instant(9)), Duration::ZERO);
        assert_eq!(Instant(9).since(Instant(5)), Duration::from_micros(4));
        assert_eq!(micros(Duration::from_millis(3)), 3_000);
    }
}
