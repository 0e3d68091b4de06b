//! What came of a run, in the shape of the JSON contract.

use std::collections::BTreeMap;

use dht_core::stats::Histogram;
use dht_core::theory::expected_mean;
use serde::Serialize;

use super::files::FileCounts;
use super::{ChurnConfig, Sample};
use crate::traffic::{Counts, Use};

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ChurnReport {
    /// Members at the beginning.
    pub nodes: usize,
    /// Joins per second in the whole ring, and as many deaths.
    pub rate: f64,
    /// The seed that gives the same report again.
    pub seed: u64,
    /// How lookups were routed.
    pub routing: &'static str,
    /// Entries of the successor list.
    pub depth: u16,
    /// Who carried lookups from node to node.
    pub forwarding: &'static str,
    /// Upkeep period in milliseconds, jittered by 0.5 to 1.5.
    pub stabilize_every_ms: u64,
    /// How long a lookup may take, in milliseconds.
    pub lookup_timeout_ms: u64,
    /// Virtual seconds that were measured.
    pub seconds: f64,
    /// Joins while it was measured.
    pub joins: u64,
    /// Deaths while it was measured.
    pub deaths: u64,
    /// Lookups that ended: with an owner, or with none in time.
    pub lookups: u64,
    /// Those that found nobody within their time.
    pub failed: u64,
    /// Those answered by a node that owned the point at no moment of the lookup.
    pub wrong: u64,
    /// Those that members handed on, and their askers went on with by themselves.
    pub gave_up: u64,
    /// Those whose asker died before they ended; in no other count.
    pub orphaned: u64,
    /// Of lookups that found an owner; `None` if there were none.
    pub mean_hops: Option<f64>,
    /// Standard error of that mean; `None` of fewer than two.
    pub mean_hops_stderr: Option<f64>,
    /// What an ideal ring of as many as there were on average takes; `None` where no formula is
    /// known.
    pub expected_hops: Option<f64>,
    /// The share of the lookups that ended, whose first contact owned the point, or the asker itself did.
    pub first_try: Option<f64>,
    /// Contacts that failed, for whatever reason, of all lookups that ended.
    pub timeouts_per_lookup: Option<f64>,
    /// Standard error of that mean.
    pub timeouts_stderr: Option<f64>,
    /// Of lookups that found an owner, in milliseconds; `None` if there were none.
    pub latency_ms: Option<Latency>,
    /// Writes that were acknowledged and could not be read after the end.
    pub acked_lost: u64,
    /// Reads and writes.
    pub files: FileCounts,
    /// How often the ring was found broken, once for each time it broke.
    pub ring_breaks: u64,
    /// Seconds at whose end it was broken.
    pub broken_seconds: u64,
    /// How often a member was left with nobody alive in its list.
    pub dead_lists: u64,
    /// Virtual seconds from the last event until everything was ideal; `None`: it never was.
    pub mended_after_s: Option<f64>,
    /// Everything that was sent.
    pub bytes_per_node_per_s: f64,
    /// The same by what it was sent for.
    pub bytes: BTreeMap<&'static str, f64>,
    /// The bytes for `upkeep` and `copies` by message.
    pub messages: BTreeMap<&'static str, f64>,
    /// Datagrams sent.
    pub datagrams_per_node_per_s: f64,
    /// Connections opened.
    pub handshakes_per_node_per_s: f64,
    /// Members on average, by which the bytes were divided.
    pub mean_nodes: f64,
    /// What happened in the world in all: messages, timers.
    pub events: u64,
    /// The first lookups that failed or were wrong.
    pub faults: Vec<Fault>,
}

/// Percentiles.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    /// Half of all took no longer.
    pub p50: f64,
    /// 90 % took no longer.
    pub p90: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// None took longer.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

/// A lookup that did not end well.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fault {
    /// `failed` or `wrong`.
    pub kind: &'static str,
    /// Virtual seconds since the world began.
    pub at_s: f64,
    /// Who asked.
    pub asker: u64,
    /// The point.
    pub key: String,
    /// What the lookup says of itself.
    pub report: String,
}

/// What a run counts as it goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) joins: u64,
    pub(super) deaths: u64,
    pub(super) failed: u64,
    pub(super) wrong: u64,
    pub(super) gave_up: u64,
    pub(super) orphaned: u64,
    pub(super) hops: Sample,
    pub(super) histogram: Histogram,
    pub(super) timeouts: Sample,
    pub(super) first_tries: Sample,
    pub(super) latencies_us: Vec<u64>,
    pub(super) population: Sample,
    pub(super) ring_breaks: u64,
    pub(super) broken_seconds: u64,
    pub(super) is_broken: bool,
    pub(super) dead_lists: u64,
    pub(super) faults: Vec<Fault>,
}

/// What is known only at the end.
pub(super) struct Ending {
    pub(super) seconds: f64,
    pub(super) traffic: Counts,
    pub(super) mended_after_s: Option<f64>,
    pub(super) acked_lost: u64,
    pub(super) files: FileCounts,
    pub(super) events: u64,
}

impl Tally {
    /// Adds a lookup that did not end well; beyond [`MAX_FAULTS`] it is only counted.
    pub(super) fn add_fault(&mut self, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    pub(super) fn report(mut self, config: &ChurnConfig, ending: Ending) -> ChurnReport {
        let Ending { seconds, traffic, mended_after_s, acked_lost, files, events } = ending;
        let mean_nodes = self.population.mean().unwrap_or(0.0);
        // Where nobody was left nobody sent anything.
        let share = |amount: u64| amount as f64 / mean_nodes.max(1.0) / seconds.max(1e-9);
        let bytes =
            Use::ALL.iter().map(|purpose| (purpose.as_str(), share(traffic.of(*purpose).bytes)));
        let messages = traffic.messages.iter().map(|(name, cost)| (*name, share(cost.bytes)));
        ChurnReport {
            nodes: config.nodes,
            rate: config.rate,
            seed: config.seed,
            routing: config.routing.as_str(),
            depth: config.depth,
            forwarding: config.forwarding.as_str(),
            stabilize_every_ms: millis(config.stabilize_every),
            lookup_timeout_ms: millis(config.lookup_timeout),
            seconds,
            joins: self.joins,
            deaths: self.deaths,
            lookups: self.histogram.total() + self.failed,
            failed: self.failed,
            wrong: self.wrong,
            gave_up: self.gave_up,
            orphaned: self.orphaned,
            mean_hops: self.hops.mean(),
            mean_hops_stderr: self.hops.stderr(),
            expected_hops: expected_mean(config.routing, mean_nodes.round() as u64, config.depth),
            first_try: self.first_tries.mean(),
            timeouts_per_lookup: self.timeouts.mean(),
            timeouts_stderr: self.timeouts.stderr(),
            latency_ms: Latency::of(&mut self.latencies_us),
            acked_lost,
            files,
            // A ring that is not ideal in the end counts as broken once more.
            ring_breaks: self.ring_breaks + u64::from(mended_after_s.is_none()),
            broken_seconds: self.broken_seconds,
            dead_lists: self.dead_lists,
            mended_after_s,
            bytes_per_node_per_s: share(traffic.total().bytes),
            bytes: bytes.collect(),
            messages: messages.collect(),
            datagrams_per_node_per_s: share(traffic.total().datagrams),
            handshakes_per_node_per_s: share(traffic.handshakes),
            mean_nodes,
            events,
            faults: self.faults,
        }
    }
}

impl Latency {
    fn of(values_us: &mut [u64]) -> Option<Latency> {
        values_us.sort_unstable();
        let max = *values_us.last()?;
        let millis = |us: u64| us as f64 / 1000.0;
        let rank = |share: f64| {
            let at = (share * values_us.len() as f64).ceil() as usize;
            millis(values_us.get(at.saturating_sub(1)).copied().unwrap_or(max))
        };
        let mean = millis(values_us.iter().sum()) / values_us.len() as f64;
        Some(Latency { p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), max: millis(max), mean })
    }
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Most faults that are told: the first ones tell the story.
const MAX_FAULTS: usize = 20;
