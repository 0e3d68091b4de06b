//! What a node counts. Hops in exact histograms, nothing sampled; failures, time-outs and cached
//! answers apart from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::message::RingId;
use crate::message::client::NodeState;
use crate::message::forward::Forwarding;
use crate::message::ring::Routing;
use crate::peer::Contact;

/// Longest histogram: lookups with more hops all count in its last place. Long before that the
/// core gives a lookup up.
pub const MAX_HISTOGRAM: usize = 100_001;

/// An exact histogram of small whole numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Histogram {
    /// `counts[v]`: how often `v` was seen. The last entry is never zero.
    counts: Vec<u64>,
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// From counts of 0, 1, 2, ...
    pub fn from_counts(mut counts: Vec<u64>) -> Histogram {
        while counts.last() == Some(&0) {
            counts.pop();
        }
        Histogram { counts }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u32) {
        let at = (value as usize).min(MAX_HISTOGRAM - 1);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    /// Adds everything another one counted.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// How often 0, 1, 2, ... were seen.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Their mean; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        let total = self.total();
        let sum: f64 = self.weighted(|value| value);
        (total > 0).then(|| sum / total as f64)
    }

    /// Their population standard deviation; `None` if there are none.
    pub fn stddev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.weighted(|value| (value - mean) * (value - mean));
        Some((squares / self.total() as f64).sqrt())
    }

    /// The standard error of the mean, if the values were drawn independently of each other; `None`
    /// if there are fewer than two.
    pub fn standard_error(&self) -> Option<f64> {
        // The spread of a sample is that of its origin less the part that the mean took up.
        let freedom = self.total().checked_sub(1).filter(|freedom| *freedom > 0)?;
        self.stddev().map(|stddev| stddev / (freedom as f64).sqrt())
    }

    /// The smallest value that at least the share `q` of all values do not exceed (nearest rank);
    /// `None` if there are none.
    pub fn quantile(&self, q: f64) -> Option<u32> {
        let total = self.total();
        let rank = ((q.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0u64;
        self.counts.iter().enumerate().find_map(|(value, count)| {
            seen = seen.saturating_add(*count);
            (*count > 0 && seen >= rank).then_some(value as u32)
        })
    }

    /// The greatest value; `None` if there are none.
    pub fn max(&self) -> Option<u32> {
        self.counts.len().checked_sub(1).map(|last| last as u32)
    }

    fn weighted(&self, weight: impl Fn(f64) -> f64) -> f64 {
        self.counts
            .iter()
            .enumerate()
            .map(|(value, count)| weight(value as f64) * *count as f64)
            .sum()
    }
}

/// Lookups of one routing and depth.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LookupCounts {
    /// Of lookups that found the owner: hops, 0 if the asker owned the key itself.
    pub hops: Histogram,
    /// Lookups that found nobody.
    pub failed: u64,
    /// Contacts that failed for whatever reason, over all lookups: never part of the hops.
    pub timeouts: u64,
    /// Lookups answered from what was learned earlier: never part of the hops.
    pub cached: u64,
}

impl LookupCounts {
    /// All lookups: answered by walking, failed, and cached.
    pub fn count(&self) -> u64 {
        self.hops.total().saturating_add(self.failed).saturating_add(self.cached)
    }

    /// Counts a lookup that found the owner.
    pub fn found(&mut self, hops: u32, timeouts: u64) {
        self.hops.record(hops);
        self.timeouts = self.timeouts.saturating_add(timeouts);
    }

    /// Counts a lookup that found nobody.
    pub fn failed(&mut self, timeouts: u64) {
        self.failed = self.failed.saturating_add(1);
        self.timeouts = self.timeouts.saturating_add(timeouts);
    }
}

/// Everything the core counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Lookups for clients, by routing and depth.
    pub lookups: BTreeMap<(Routing, u16), LookupCounts>,
    /// Upkeep of the links.
    pub upkeep: UpkeepCounts,
    /// Upkeep of the copies.
    pub repair: RepairCounts,
    /// Lookups that are handed on.
    pub forwards: ForwardCounts,
}

/// Lookups that are handed on instead of driven by their askers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ForwardCounts {
    /// Questions of others that were taken.
    pub taken: u64,
    /// Questions of others that were not: too many waited already.
    pub refused: u64,
    /// Lookups of this node's own that it had handed on and went on with by itself.
    pub gave_up: u64,
}

/// Upkeep of the links.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UpkeepCounts {
    /// STABILIZE runs.
    pub stabilizations: u64,
    /// Times the head of the list changed because the old one was dead or had left.
    pub repairs: u64,
    /// Predecessors adopted.
    pub rectifications: u64,
    /// Lists received by push and taken over.
    pub pushes: u64,
    /// Joins served for others.
    pub joins_served: u64,
    /// Probes that were not answered in time.
    pub missed_probes: u64,
    /// Verdicts "dead".
    pub deaths: u64,
    /// Questions answered "busy".
    pub busy: u64,
    /// Pings to remembered peers that are no members now.
    pub merge_probes: u64,
    /// Times another part of the ring was found.
    pub merges: u64,
}

/// Upkeep of the copies.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RepairCounts {
    /// Copies known to be missing here now.
    pub missing: u64,
    /// Copies made since the start: registers and chunks.
    pub copied: u64,
    /// Bytes of the copied chunks.
    pub bytes: u64,
    /// Comparisons with a neighbour that found no difference.
    pub equal: u64,
}

/// What is one failure away from trouble in a node's own arc, as far as comparisons with the arc's
/// other keepers have shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AtRisk {
    /// 1 if no more than a majority of the keepers of the arc's registers vote: the arc counts as
    /// one view. Always so in rings of one or two, where every voter is needed.
    pub views: u64,
    /// Chunks of the arc that no other of their keepers is known to hold.
    pub chunks: u64,
}

/// Room for a node's data, in bytes: of its disk, or of a store in memory up to its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskReport {
    /// Size of the file system.
    pub total: u64,
    /// What may still be written.
    pub available: u64,
}

impl DiskReport {
    /// Whether little is left: less than a twentieth, but on a large disk less than 10 GiB, which is
    /// room for months, and on a small one less than 64 MiB, or a quarter: chunks are refused before
    /// the last of it is taken (guesses).
    pub fn is_nearly_full(&self) -> bool {
        let large = (self.total / 20).min(10 << 30);
        let small = (self.total / 4).min(64 << 20);
        self.available < large.max(small)
    }
}

/// Answers `stats`: one snapshot of one node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StatsReport {
    /// The node's place.
    pub contact: Contact,
    /// Its ring, if it has one.
    pub ring: Option<RingId>,
    /// Name of the ring.
    pub ring_name: String,
    /// What it is doing.
    pub state: NodeState,
    /// Since the start, in seconds.
    pub uptime_s: u64,
    /// Of the program.
    pub version: String,
    /// From the spacing of the neighbours.
    pub estimated_nodes: f64,
    /// The nearest node before it.
    pub predecessor: Option<Contact>,
    /// The nodes after it.
    pub successors: Vec<Contact>,
    /// What the node's own lookups use.
    pub routing: Routing,
    /// With how many entries.
    pub depth: u16,
    /// What the core counted.
    pub counters: Counters,
    /// Latencies of lookups for clients, in microseconds.
    pub latency: LatencyReport,
    /// The store.
    pub store: StoreReport,
    /// Frames and bulk bytes.
    pub traffic: TrafficReport,
    /// What is one failure away from trouble.
    pub at_risk: AtRisk,
    /// Stored chunks that failed their hash when they were read, since the start.
    pub corrupt: u64,
    /// Room for more; `None` where the system does not say.
    pub disk: Option<DiskReport>,
    /// What it sent to keep its routing state right.
    pub upkeep_traffic: UpkeepTraffic,
    /// Who carries the node's own lookups from node to node.
    pub forwarding: Forwarding,
    /// What the node's own lookups may cost, if that is watched.
    pub hop_budget: Option<f64>,
    /// That they cost more; `None` while they do not.
    pub hint: Option<HopHint>,
}

/// The node's own lookups take more hops than it was told they may.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct HopHint {
    /// Mean hops when that was last looked at.
    pub mean: f64,
    /// Over so many lookups.
    pub lookups: u64,
}

/// What a node sent since its start to keep its routing state right, by what it keeps: bytes of UDP
/// payload. What others send to it they count themselves, so sums over members count nothing twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UpkeepTraffic {
    /// For how long it was counted, in milliseconds.
    pub span_ms: u64,
    /// For both lists: STABILIZE, NOTIFY, PUSH, probes, joins and leaves.
    pub links: u64,
    /// For fingers: looking them up.
    pub fingers: u64,
    /// For a map of all members.
    pub map: u64,
}

/// Quantiles in microseconds; `None` before the first value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Greatest.
    pub max: Option<u64>,
}

/// What the store holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreReport {
    /// Registers, without tombstones.
    pub keys: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes of the chunks.
    pub bytes: u64,
}

/// Bytes on the wire since the start, UDP payloads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TrafficReport {
    /// Received.
    pub bytes_in: u64,
    /// Sent.
    pub bytes_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_histogram_has_no_figures() {
        let empty = Histogram::new();
        assert_eq!((empty.total(), empty.max()), (0, None));
        assert_eq!((empty.mean(), empty.stddev(), empty.quantile(0.5)), (None, None, None));
    }

    #[test]
    fn figures_are_exact() {
        let mut hops = Histogram::new();
        for value in [0, 0, 1, 2, 3, 3, 3, 9] {
            hops.record(value);
        }
        assert_eq!(hops.counts(), [2, 1, 1, 3, 0, 0, 0, 0, 0, 1]);
        assert_eq!(hops.mean(), Some(21.0 / 8.0));
        // Of 2 and 4: a sample variance of 2, over two values.
        let two = Histogram::from_counts(vec![0, 0, 1, 0, 1]);
        assert_eq!((two.stddev(), two.standard_error()), (Some(1.0), Some(1.0)));
        assert_eq!(Histogram::from_counts(vec![0, 1]).standard_error(), None);
        assert_eq!(hops.quantile(0.0), Some(0));
        assert_eq!(hops.quantile(0.5), Some(2));
        assert_eq!(hops.quantile(0.9), Some(9));
        assert_eq!(hops.max(), Some(9));
        let mut twice = hops.clone();
        twice.merge(&hops);
        assert_eq!(twice.total(), 16);
        assert_eq!(twice.stddev(), hops.stddev());
    }

    #[test]
    fn counts_saturate_and_huge_values_share_the_last_place() {
        let mut full = Histogram::from_counts(vec![u64::MAX, 0, 0]);
        full.record(0);
        full.record(u32::MAX);
        assert_eq!(full.counts()[0], u64::MAX);
        assert_eq!(full.total(), u64::MAX);
        assert_eq!(full.max(), Some(MAX_HISTOGRAM as u32 - 1));
        let mut counts =
            LookupCounts { failed: u64::MAX, timeouts: u64::MAX, ..Default::default() };
        counts.failed(7);
        assert_eq!(
            (counts.failed, counts.timeouts, counts.count()),
            (u64::MAX, u64::MAX, u64::MAX)
        );
    }

    #[test]
    fn a_disk_is_nearly_full_when_little_is_left_of_it() {
        const GIB: u64 = 1 << 30;
        let is_nearly_full = |total, available| DiskReport { total, available }.is_nearly_full();
        assert!(is_nearly_full(100 * GIB, 4 * GIB) && is_nearly_full(100 * GIB, 0));
        assert!(!is_nearly_full(100 * GIB, 5 * GIB));
        assert!(!is_nearly_full(1000 * GIB, 10 * GIB), "room for months");
        assert!(!is_nearly_full(0, 0) && !is_nearly_full(u64::MAX, u64::MAX));
        assert!(is_nearly_full(20 << 20, 4 << 20) && !is_nearly_full(20 << 20, 5 << 20));
        assert!(is_nearly_full(GIB, 60 << 20) && !is_nearly_full(GIB, 64 << 20));
    }

    #[test]
    fn failures_and_cached_answers_are_no_hops() {
        let mut counts = LookupCounts::default();
        counts.found(0, 0);
        counts.found(4, 2);
        counts.failed(3);
        counts.cached += 1;
        assert_eq!(counts.hops.total(), 2);
        assert_eq!((counts.count(), counts.timeouts), (4, 5));
    }
}
