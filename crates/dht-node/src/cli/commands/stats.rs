//! `stats`: what a node counts, or all of them together.

mod all;
mod shape;

use dht_core::message::Forwarding;

use super::with_client;
use crate::cli::args::{Globals, StatsArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{AtRiskJson, HopCountsJson, StatsJson, UpkeepJson};
use crate::cli::output::{Output, table_text};
use crate::cli::units::{about_nodes, count, show_bytes, show_micros};

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
    facts.add_row(["ring", &format!("{}, {}", json.ring, about_nodes(json.estimated_nodes))]);
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
    let own = format!("hops along {} at depth {}", json.routing, json.depth);
    histogram(&mut text, &own, &lookups.hops, output);
    for other in &lookups.by_routing {
        let title = format!("hops along {} at depth {}", other.routing, other.depth);
        histogram(&mut text, &title, &other.hops, output);
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

/// A histogram with bars, and the mean beside the expected one. Nothing if nothing was counted.
fn histogram(text: &mut String, title: &str, hops: &HopCountsJson, output: Output) {
    let Some(mean) = hops.mean else { return };
    let expected = hops
        .expected
        .map_or(String::new(), |mean| format!(", {mean:.2} expected now, for askers drawn evenly"));
    text.push_str(&format!("\n{title}: mean {mean:.2}{expected}\n"));
    let most = hops.histogram.iter().copied().max().unwrap_or(1).max(1);
    let mut table = output.table(&[">hops", ">lookups", ""]);
    for (value, count) in hops.histogram.iter().enumerate() {
        let width = (count.saturating_mul(BAR) / most) as usize;
        table.add_row([value.to_string(), count.to_string(), "#".repeat(width)]);
    }
    text.push_str(&table_text(&table));
}

/// Longest bar of a histogram, in characters.
const BAR: u64 = 40;

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use dht_core::message::RingId;
    use dht_core::message::client::NodeState;
    use dht_core::message::ring::Routing;
    use dht_core::peer::Signature;
    use dht_core::stats::{
        AtRisk, Counters, DiskReport, LatencyReport, StatsReport, StoreReport, TrafficReport,
        UpkeepTraffic,
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
        }
    }

    #[test]
    fn people_see_a_histogram_for_each_depth() {
        let text = for_people(&shape::shape(&report()), Output::bare(false));
        assert!(text.contains("hops along successors at depth 16: mean 1.00"), "{text}");
        assert!(text.contains("hops along successors at depth 1: mean 7.00"), "{text}");
        assert!(text.contains(&"#".repeat(40)), "{text}");
        assert!(text.contains("recursive: 0 lookups taken from others"), "{text}");
    }
}
