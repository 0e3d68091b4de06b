//! From what a node reports to the JSON of the contract.

use dht_core::Contact;
use dht_core::message::ring::Routing;
use dht_core::stats::{
    AtRisk, ForwardCounts, Histogram, HopHint, LatencyReport, LookupCounts, RepairCounts,
    StatsReport, StoreReport, TrafficReport, UpkeepCounts, UpkeepTraffic,
};
use dht_core::theory;

use crate::advice;
use crate::cli::commands::ring_id;
use crate::cli::json::{
    AdviceJson, AlternativeJson, AtRiskJson, DiskJson, ForwardsJson, HintJson, HopCountsJson,
    LatencyJson, LookupsJson, PeerJson, RepairJson, RoutingCountsJson, StatsJson, StoreJson,
    TrafficJson, UpkeepJson, UpkeepTrafficJson,
};

pub(super) fn shape(stats: &StatsReport) -> StatsJson {
    let own = (stats.routing, stats.depth);
    let nodes = advice::whole(stats.estimated_nodes);
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
            ..lookups(counts, Some((own, nodes)), by_routing)
        },
        upkeep: upkeep(&stats.counters.upkeep),
        store: store(&stats.store, stats.corrupt),
        disk: stats.disk.map(|disk| DiskJson { total: disk.total, available: disk.available }),
        repair: repair(&stats.counters.repair),
        traffic: traffic(&stats.traffic),
        at_risk: at_risk(stats.at_risk),
        estimated_nodes_error: estimate_error(stats),
        upkeep_traffic: upkeep_traffic(&stats.upkeep_traffic),
        advice: advice(counts.hops.mean(), nodes, own.0, own.1),
        hop_budget: stats.hop_budget,
        hint: hint(stats, nodes),
    }
}

/// How far the estimated number of nodes may be off: its relative standard error. 0 where the list leads
/// round the whole ring; else `1 / sqrt(k - 2)` of `k` entries: the arc over `k` evenly spread points is
/// Gamma distributed, and `(k - 1) / arc` has that spread. `None`: too few entries.
fn estimate_error(stats: &StatsReport) -> Option<f64> {
    let id = |contact: &Contact| contact.id;
    let entries = stats.successors.len();
    if stats.successors.last().map(id) == stats.predecessor.as_ref().map(id) {
        return Some(0.0);
    }
    (entries > 2).then(|| 1.0 / (entries as f64 - 2.0).sqrt())
}

fn advice(mean: Option<f64>, nodes: u64, routing: Routing, depth: u16) -> AdviceJson {
    let others = advice::alternatives(nodes, routing, depth);
    AdviceJson {
        text: advice::sentence(mean, nodes, routing, depth),
        alternatives: others
            .into_iter()
            .map(|other| AlternativeJson {
                routing: other.routing.as_str(),
                depth: other.depth,
                expected: other.mean,
            })
            .collect(),
    }
}

fn hint(stats: &StatsReport, nodes: u64) -> Option<HintJson> {
    let HopHint { mean, lookups } = stats.hint?;
    let may = stats.hop_budget.map_or(String::new(), |budget| format!(", and may take {budget}"));
    let others = advice::sentence(Some(mean), nodes, stats.routing, stats.depth);
    let message =
        format!("the last {lookups} lookups took {mean:.1} hops on average{may}: {others}");
    Some(HintJson { mean, lookups, message })
}

pub(super) fn upkeep_traffic(sent: &UpkeepTraffic) -> UpkeepTrafficJson {
    let UpkeepTraffic { span_ms, links, fingers, map } = *sent;
    let all = links.saturating_add(fingers).saturating_add(map);
    let bytes_per_s = (span_ms > 0).then(|| all as f64 * 1000.0 / span_ms as f64);
    UpkeepTrafficJson { links, fingers, map, bytes_per_s }
}

/// Lookups of one routing and depth on so many nodes, or of several mixed, for which there is no formula.
pub(super) fn lookups(
    counts: &LookupCounts,
    of: Option<((Routing, u16), u64)>,
    by_routing: Vec<RoutingCountsJson>,
) -> LookupsJson {
    LookupsJson {
        count: counts.count(),
        failed: counts.failed,
        timeouts: counts.timeouts,
        cached: counts.cached,
        hops: hops(&counts.hops, of),
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
        hops: hops(&counts.hops, Some(((routing, depth), nodes))),
    }
}

fn hops(hops: &Histogram, of: Option<((Routing, u16), u64)>) -> HopCountsJson {
    HopCountsJson {
        mean: hops.mean(),
        p50: hops.quantile(0.5),
        p90: hops.quantile(0.9),
        p99: hops.quantile(0.99),
        max: hops.max(),
        histogram: hops.counts().to_vec(),
        expected: of.and_then(|((routing, depth), n)| advice::expected_mean(routing, n, depth)),
        expected_shares: of.and_then(|((routing, depth), n)| expected_shares(routing, n, depth)),
    }
}

/// How likely 0, 1, 2, ... hops are on so many nodes, by formula (c) of `docs/protocol.md`; `None` for
/// routings whose distribution has no formula, and where it would be longer than anybody reads.
fn expected_shares(routing: Routing, nodes: u64, depth: u16) -> Option<Vec<f64>> {
    let most = nodes.saturating_sub(1).div_ceil(u64::from(depth.max(1)));
    let is_known = routing == Routing::Successors && most < MOST_SHARES;
    is_known.then(|| {
        (0..=most).map(|hops| theory::successors_probability(nodes, depth, hops)).collect()
    })
}

/// Longest expected distribution that is told (guess).
const MOST_SHARES: u64 = 10_000;

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
    fn the_expected_distribution_stands_beside_the_measured_one() {
        let json = shape(&report());
        // 16 nodes with lists of 16: one hop to all but oneself.
        assert_eq!(json.lookups.hops.expected_shares, Some(vec![1.0 / 16.0, 15.0 / 16.0]));
        let other = &json.lookups.by_routing[0].hops;
        assert_eq!(other.expected_shares.as_ref().map(Vec::len), Some(16), "depth 1");
        assert_eq!(expected_shares(Routing::Fingers, 16, 1), None, "no formula");
        assert_eq!(expected_shares(Routing::Successors, u64::MAX, 1), None, "too long");
    }

    #[test]
    fn the_error_of_the_estimate_comes_from_the_length_of_the_list() {
        let mut stats = report();
        assert_eq!(estimate_error(&stats), None, "two entries tell nothing");
        let entry = stats.successors[0].clone();
        stats.successors = vec![entry.clone(); 18];
        assert_eq!(estimate_error(&stats), Some(0.25));
        stats.predecessor = Some(entry);
        assert_eq!(estimate_error(&stats), Some(0.0), "the list leads round");
        (stats.successors, stats.predecessor) = (Vec::new(), None);
        assert_eq!(estimate_error(&stats), Some(0.0), "alone");
    }

    #[test]
    fn a_hint_says_what_would_help() {
        let mut stats = report();
        (stats.estimated_nodes, stats.depth) = (63.0, 1);
        let json = shape(&stats);
        let hint = json.hint.expect("over the budget");
        assert_eq!((hint.mean, hint.lookups), (8.5, 64));
        let beginning = "the last 64 lookups took 8.5 hops on average, and may take 8: mean 8.5 hops for \
                         about 63 nodes; depth 16 would make it 2.4";
        assert!(hint.message.starts_with(beginning), "{}", hint.message);
        assert!(json.advice.text.starts_with("mean 7.0 hops for about 63 nodes; depth 16"));
        let named: Vec<(&str, u16)> =
            json.advice.alternatives.iter().map(|other| (other.routing, other.depth)).collect();
        let expected = [("successors", 16), ("both-ways", 1), ("fingers", 1), ("fingers", 16)];
        assert_eq!(named, expected);
        stats.hint = None;
        assert!(shape(&stats).hint.is_none());
    }

    #[test]
    fn upkeep_is_told_a_second() {
        let json = shape(&report()).upkeep_traffic;
        assert_eq!((json.links, json.fingers, json.bytes_per_s), (2_000, 50, Some(205.0)));
        assert_eq!(upkeep_traffic(&UpkeepTraffic::default()).bytes_per_s, None);
    }
}
