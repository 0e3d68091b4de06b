//! `stats`: what a node counts, or all of them together.

mod all;
mod histogram;
mod shape;

use dht_core::message::Forwarding;

use super::with_client;
use crate::cli::args::{Globals, StatsArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{AtRiskJson, StatsJson, UpkeepJson, UpkeepTrafficJson};
use crate::cli::output::{Output, table_text};
use crate::cli::units::{about_nodes, count, show_bytes, show_micros};
use histogram::histogram;

pub(super) fn run(globals: &Globals, args: &StatsArgs, output: Output) -> Result<Exit, Failure> {
    if args.watch {
        return Err(Failure::not_built("--watch", "repeat `dht-node stats` with watch(1)"));
    }
    with_client(globals, async |client| {
        if args.all {
            let json = all::gather(client, output).await?;
            output.result(&json, || all::for_people(&json, output))?;
        } else {
            let json = shape::shape(&client.stats().await?);
            output.result(&json, || for_people(&json, output))?;
        }
        Ok(Exit::Done)
    })
}

fn for_people(json: &StatsJson, output: Output) -> String {
    let addr = json.peer.addr.as_deref().unwrap_or("unknown");
    let mut facts = output.table(&["node", &json.peer.id.to_string()]);
    facts.add_row(["address", addr]);
    let size = ring_size(json.estimated_nodes, json.estimated_nodes_error);
    facts.add_row(["ring", &format!("{}, {size}", json.ring)]);
    facts.add_row(["state", &format!("{} for {} s", json.state, json.uptime_s)]);
    facts.add_row(["version", &json.version]);
    let links = (json.predecessor, json.successors.len());
    let before = links.0.map_or("none".to_owned(), |id| id.to_string());
    facts.add_row(["predecessor", &before]);
    facts.add_row(["successors", &format!("{}, lookups use {}", links.1, json.depth)]);
    facts.add_row([
        "stored",
        &format!(
            "{}, {}, {}, {} found corrupt",
            count(json.store.keys, "key"),
            count(json.store.chunks, "chunk"),
            show_bytes(json.store.bytes),
            count(json.store.corrupt, "chunk")
        ),
    ]);
    if let Some(disk) = &json.disk {
        let (available, total) = (show_bytes(disk.available), show_bytes(disk.total));
        facts.add_row(["disk", &format!("{available} of {total} available")]);
    }
    facts.add_row([
        "repair",
        &format!(
            "{} missing, {} made, {}",
            count(json.repair.missing, "copy"),
            json.repair.copied,
            show_bytes(json.repair.bytes)
        ),
    ]);
    facts.add_row(["at risk", &at_risk(&json.at_risk)]);
    facts.add_row([
        "traffic",
        &format!(
            "{} in, {} out",
            show_bytes(json.traffic.bytes_in),
            show_bytes(json.traffic.bytes_out)
        ),
    ]);
    facts.add_row(["upkeep", &upkeep(&json.upkeep)]);
    facts.add_row(["upkeep traffic", &upkeep_traffic(&json.upkeep_traffic)]);
    let lookups = &json.lookups;
    facts.add_row([
        "lookups",
        &format!(
            "{}: {} failed, {} cached, {} timeouts",
            lookups.count, lookups.failed, lookups.cached, lookups.timeouts
        ),
    ]);
    let forwards = &json.forwards;
    if json.forwarding == Forwarding::Recursive.as_str() || forwards.taken > 0 {
        facts.add_row([
            "forwarding",
            &format!(
                "{}: {} taken from others, {} refused, {} of its own given up",
                json.forwarding,
                count(forwards.taken, "lookup"),
                forwards.refused,
                forwards.gave_up
            ),
        ]);
    }
    let time = |value: Option<u64>| value.map_or("-".to_owned(), show_micros);
    if let Some(latency) = &lookups.latency_us {
        facts.add_row([
            "latency",
            &format!(
                "p50 {}, p90 {}, p99 {}, max {}",
                time(latency.p50),
                time(latency.p90),
                time(latency.p99),
                time(latency.max)
            ),
        ]);
    }
    let mut text = table_text(&facts);
    text.push_str(&format!("\n{}\n", json.advice.text));
    if let Some(hint) = &json.hint {
        text.push_str(&format!("HINT: {}\n", hint.message));
    }
    let own = format!("hops along {} at depth {}", json.routing, json.depth);
    text.push_str(&histogram(&own, &lookups.hops, output));
    for other in &lookups.by_routing {
        let title = format!("hops along {} at depth {}", other.routing, other.depth);
        text.push_str(&histogram(&title, &other.hops, output));
    }
    text
}

fn at_risk(at_risk: &AtRiskJson) -> String {
    match (at_risk.views, at_risk.chunks) {
        (0, 0) => "nothing".to_owned(),
        (0, chunks) => format!("{chunks} chunks with one copy"),
        (_, chunks) => {
            format!("{chunks} chunks with one copy; its arc has no voter to spare")
        }
    }
}

fn upkeep(upkeep: &UpkeepJson) -> String {
    format!(
        "{}, {}, {}, {}, {} served, {}",
        count(upkeep.stabilizations, "stabilization"),
        count(upkeep.repairs, "repair"),
        count(upkeep.rectifications, "rectification"),
        if upkeep.pushes == 1 { "1 push".to_owned() } else { format!("{} pushes", upkeep.pushes) },
        count(upkeep.joins_served, "join"),
        count(upkeep.deaths, "death")
    )
}

/// The estimate of the ring's size, and how far it may be off.
fn ring_size(estimate: f64, error: Option<f64>) -> String {
    let nodes = about_nodes(estimate);
    match error {
        Some(0.0) => format!("{}, all of them in its list", count(estimate.round() as u64, "node")),
        Some(error) => format!("{nodes}, give or take {:.0} %", 100.0 * error),
        None => nodes,
    }
}

/// What was sent for upkeep.
fn upkeep_traffic(sent: &UpkeepTrafficJson) -> String {
    let rate = sent.bytes_per_s.map_or("-".to_owned(), |rate| format!("{rate:.0} B/s"));
    let all = sent.links.saturating_add(sent.fingers).saturating_add(sent.map);
    let (all, fingers) = (show_bytes(all), show_bytes(sent.fingers));
    format!("{rate}: {all} sent since the start, {fingers} of it for fingers")
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use dht_core::message::RingId;
    use dht_core::message::client::NodeState;
    use dht_core::message::ring::Routing;
    use dht_core::peer::Signature;
    use dht_core::stats::{
        AtRisk, Counters, DiskReport, HopHint, LatencyReport, StatsReport, StoreReport,
        TrafficReport, UpkeepTraffic,
    };
    use dht_core::{Contact, PeerKey, PeerRecord};

    use super::*;

    fn contact(n: u8) -> Contact {
        let addrs = vec![([127, 0, 0, 1], 4000 + u16::from(n)).into()];
        let signature = Signature([0; 64]);
        let key = PeerKey([n; 32]);
        Contact::new(Arc::new(PeerRecord { key, incarnation: 1, revision: 0, addrs, signature }), 0)
    }

    /// A report with something in every field.
    pub(in crate::cli) fn report() -> StatsReport {
        let mut counters = Counters::default();
        for (depth, hops) in [(16, 1), (16, 0), (16, 2), (1, 7)] {
            counters.lookups.entry((Routing::Successors, depth)).or_default().found(hops, 1);
        }
        let own = counters.lookups.entry((Routing::Successors, 16)).or_default();
        own.failed(2);
        own.cached = 3;
        counters.repair.missing = 5;
        counters.upkeep.stabilizations = 9;
        StatsReport {
            contact: contact(1),
            ring: Some(RingId(7)),
            ring_name: "default".to_owned(),
            state: NodeState::Member,
            uptime_s: 12,
            version: "0.1.0".to_owned(),
            estimated_nodes: 16.4,
            predecessor: Some(contact(2)),
            successors: vec![contact(3), contact(4)],
            routing: Routing::Successors,
            depth: 16,
            counters,
            latency: LatencyReport { p50: Some(1), p90: Some(2), p99: Some(3), max: Some(4) },
            store: StoreReport { keys: 1, chunks: 2, bytes: 3 },
            traffic: TrafficReport { bytes_in: 4, bytes_out: 5 },
            at_risk: AtRisk { views: 1, chunks: 2 },
            corrupt: 7,
            disk: Some(DiskReport { total: 1 << 40, available: 1 << 39 }),
            upkeep_traffic: UpkeepTraffic { span_ms: 10_000, links: 2_000, fingers: 50, map: 0 },
            forwarding: Forwarding::Recursive,
            hop_budget: Some(8.0),
            hint: Some(HopHint { mean: 8.5, lookups: 64 }),
        }
    }

    #[test]
    fn people_see_a_histogram_for_each_depth() {
        let text = for_people(&shape::shape(&report()), Output::bare(false));
        assert!(text.contains("hops along successors at depth 16: mean 1.00"), "{text}");
        assert!(text.contains("hops along successors at depth 1: mean 7.00"), "{text}");
        assert!(text.contains("recursive: 0 lookups taken from others"), "{text}");
        // All of the lookups took 7 hops; a sixteenth of them was expected to.
        assert!(text.contains(&format!("###|{}", "#".repeat(36))), "{text}");
        assert!(text.contains("about 16 nodes\n") && text.contains("205 B/s: "), "{text}");
        assert!(text.contains("mean 1.0 hops for about 16 nodes; no other"), "{text}");
        assert!(text.contains("HINT: the last 64 lookups took 8.5 hops on average"), "{text}");
    }

    #[test]
    fn the_size_of_the_ring_is_told_with_its_error() {
        assert_eq!(ring_size(63.2, Some(0.267)), "about 63 nodes, give or take 27 %");
        assert_eq!(ring_size(5.0, Some(0.0)), "5 nodes, all of them in its list");
        assert_eq!(ring_size(3.4, None), "about 3 nodes");
    }
}
