//! Rates in bytes per second, kept without losing a fraction of a byte.

use std::time::Duration;

use crate::time::Instant;

/// What was earned since a moment, in whole bytes, and up to when: what makes less than a byte waits for the
/// next time.
pub(crate) fn earned(since: Instant, now: Instant, bytes_per_s: u32) -> (i64, Instant) {
    let rate = u64::from(bytes_per_s.max(1));
    let bytes = now.0.saturating_sub(since.0).saturating_mul(rate) / 1_000_000;
    let used_us = bytes.saturating_mul(1_000_000) / rate;
    (i64::try_from(bytes).unwrap_or(i64::MAX), Instant(since.0.saturating_add(used_us)))
}

/// How long it takes to earn so much: never less, or a timer would be early and set for the same moment again.
pub(crate) fn time_to_earn(bytes: u64, bytes_per_s: u32) -> Duration {
    let rate = u64::from(bytes_per_s.max(1));
    Duration::from_micros(bytes.saturating_mul(1_000_000).div_ceil(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_often_one_looks() {
        let (mut since, mut total) = (Instant(0), 0);
        for look in 1..=1_000_000 / 7 {
            let (bytes, up_to) = earned(since, Instant(look * 7), 200);
            (since, total) = (up_to, total + bytes);
        }
        assert_eq!(total, 199, "all but the byte that is not full yet");
        assert_eq!(earned(Instant(5), Instant(3), 200), (0, Instant(5)), "no time has passed");
        assert_eq!(earned(Instant(0), Instant(1_500_000), 0), (1, Instant(1_000_000)));
    }

    #[test]
    fn what_was_waited_for_has_been_earned() {
        for (bytes, rate) in [(1, 3), (1, 1_000_000), (400, 200), (7, 1_000_000_000), (0, 5)] {
            let waited = time_to_earn(bytes, rate);
            let (earned, _) = earned(Instant(9), Instant(9).after(waited), rate);
            assert!(earned.unsigned_abs() >= bytes, "{bytes} at {rate}: {waited:?}");
        }
    }
}
