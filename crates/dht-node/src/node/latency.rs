//! How long the lookups took that the hop statistics count.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dht_core::stats::LatencyReport;
use dht_core::time::micros;
use hdrhistogram::Histogram;

/// A histogram of times, to a digit more than they repeat.
#[derive(Debug)]
pub(super) struct Latency {
    times: Mutex<Histogram<u64>>,
}

impl Latency {
    pub(super) fn new() -> Latency {
        let times = Histogram::new_with_bounds(1, MAX_US, DIGITS)
            .expect("the bounds are constants that fit");
        Latency { times: Mutex::new(times) }
    }

    /// A lookup found its owner after so long.
    pub(super) fn record(&self, elapsed: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.saturating_record(micros(elapsed).max(1));
    }

    pub(super) fn report(&self) -> LatencyReport {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if times.is_empty() {
            return LatencyReport::default();
        }
        LatencyReport {
            p50: Some(times.value_at_quantile(0.5)),
            p90: Some(times.value_at_quantile(0.9)),
            p99: Some(times.value_at_quantile(0.99)),
            max: Some(times.max()),
        }
    }
}

/// Longest time that is told apart: a minute, above every time limit of a lookup.
const MAX_US: u64 = 60_000_000;
/// Significant digits: 1 % is finer than times repeat.
const DIGITS: u8 = 2;
