//! From what a node reports to the JSON of the contract.

use dht_core::message::ring::Routing;
use dht_core::stats::{
    AtRisk, ForwardCounts, Histogram, LatencyReport, LookupCounts, RepairCounts, StatsReport,
    StoreReport, TrafficReport, UpkeepCounts,
};
use dht_core::theory;

use crate::cli::commands::ring_id;
use crate::cli::json::{
    AtRiskJson, DiskJson, ForwardsJson, HopCountsJson, LatencyJson, LookupsJson, PeerJson,
    RepairJson, RoutingCountsJson, StatsJson, StoreJson, TrafficJson, UpkeepJson,
};

pub(super) fn shape(stats: &StatsReport) -> StatsJson {
    let own = (stats.routing, stats.depth);
    let nodes = whole(stats.estimated_nodes);
    let none = LookupCounts::default();
    let counts = stats.counters.lookups.get(&own).unwrap_or(&none);
    let others = stats.counters.lookups.iter().filter(|(kind, _)| **kind != own);
    let by_routing = others.map(|(kind, counts)| by_routing(*kind, counts, nodes)).collect();
    let LatencyReport { p50, p90, p99, max } = stats.latency;
    let latency = Some(LatencyJson { p50, p90, p99, max });
    StatsJson {
        peer: PeerJson::of(&stats.contact),
        ring: stats.ring_name.clone(),
        ring_id: stats.ring.map(ring_id),
        state: stats.state.as_str(),
        uptime_s: stats.uptime_s,
        version: stats.version.clone(),
        estimated_nodes: stats.estimated_nodes,
        predecessor: stats.predecessor.as_ref().map(|contact| contact.id),
        successors: stats.successors.iter().map(|contact| contact.id).collect(),
        routing: stats.routing.as_str(),
        depth: stats.depth,
        forwarding: stats.forwarding.as_str(),
        forwards: forwards(&stats.counters.forwards),
        lookups: LookupsJson {
            latency_us: latency,
            ..lookups(counts, theory::expected_mean(own.0, nodes, own.1), by_routing)
        },
        upkeep: upkeep(&stats.counters.upkeep),
        store: store(&stats.store, stats.corrupt),
        disk: stats.disk.map(|disk| DiskJson { total: disk.total, available: disk.available }),
        repair: repair(&stats.counters.repair),
        traffic: traffic(&stats.traffic),
        at_risk: at_risk(stats.at_risk),
    }
}

/// An estimated number of nodes as a number of nodes: at least the one that estimates.
fn whole(estimate: f64) -> u64 {
    // The cast saturates, and makes 0 of what is no number.
    (estimate.round() as u64).max(1)
}

pub(super) fn lookups(
    counts: &LookupCounts,
    expected: Option<f64>,
    by_routing: Vec<RoutingCountsJson>,
) -> LookupsJson {
    LookupsJson {
        count: counts.count(),
        failed: counts.failed,
        timeouts: counts.timeouts,
        cached: counts.cached,
        hops: hops(&counts.hops, expected),
        by_routing,
        latency_us: None,
    }
}

pub(super) fn by_routing(
    (routing, depth): (Routing, u16),
    counts: &LookupCounts,
    nodes: u64,
) -> RoutingCountsJson {
    RoutingCountsJson {
        routing: routing.as_str(),
        depth,
        count: counts.count(),
        failed: counts.failed,
        timeouts: counts.timeouts,
        cached: counts.cached,
        hops: hops(&counts.hops, theory::expected_mean(routing, nodes, depth)),
    }
}

fn hops(hops: &Histogram, expected: Option<f64>) -> HopCountsJson {
    HopCountsJson {
        mean: hops.mean(),
        p50: hops.quantile(0.5),
        p90: hops.quantile(0.9),
        p99: hops.quantile(0.99),
        max: hops.max(),
        histogram: hops.counts().to_vec(),
        expected,
    }
}

pub(super) fn upkeep(counts: &UpkeepCounts) -> UpkeepJson {
    UpkeepJson {
        stabilizations: counts.stabilizations,
        repairs: counts.repairs,
        rectifications: counts.rectifications,
        pushes: counts.pushes,
        joins_served: counts.joins_served,
        missed_probes: counts.missed_probes,
        deaths: counts.deaths,
        busy: counts.busy,
        merge_probes: counts.merge_probes,
        merges: counts.merges,
    }
}

fn forwards(counts: &ForwardCounts) -> ForwardsJson {
    let ForwardCounts { taken, refused, gave_up } = *counts;
    ForwardsJson { taken, refused, gave_up }
}

pub(super) fn store(report: &StoreReport, corrupt: u64) -> StoreJson {
    StoreJson { keys: report.keys, chunks: report.chunks, bytes: report.bytes, corrupt }
}

pub(super) fn at_risk(at_risk: AtRisk) -> AtRiskJson {
    AtRiskJson { views: at_risk.views, chunks: at_risk.chunks }
}

pub(super) fn repair(counts: &RepairCounts) -> RepairJson {
    RepairJson {
        missing: counts.missing,
        copied: counts.copied,
        bytes: counts.bytes,
        equal: counts.equal,
    }
}

pub(super) fn traffic(report: &TrafficReport) -> TrafficJson {
    TrafficJson { bytes_in: report.bytes_in, bytes_out: report.bytes_out }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn own_lookups_stand_apart_from_those_at_other_depths() {
        let json = shape(&report());
        let lookups = &json.lookups;
        assert_eq!(lookups.hops.histogram, [1, 1, 1]);
        assert_eq!((lookups.failed, lookups.cached, lookups.count), (1, 3, 7));
        let walked: u64 = lookups.hops.histogram.iter().sum();
        assert_eq!(lookups.count, walked + lookups.failed + lookups.cached);
        assert_eq!(lookups.by_routing.len(), 1);
        assert_eq!((lookups.by_routing[0].depth, lookups.by_routing[0].count), (1, 1));
        assert_eq!(lookups.hops.expected, theory::expected_mean(Routing::Successors, 16, 16));
    }

    #[test]
    fn an_estimate_may_be_anything() {
        let numbers = [0.0, 0.4, 1.6, -3.0, f64::NAN, f64::INFINITY].map(whole);
        assert_eq!(numbers, [1, 1, 2, 1, 1, u64::MAX]);
    }
}
