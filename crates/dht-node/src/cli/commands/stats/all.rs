//! `stats --all`: the sum over all nodes.

use dht_core::message::ring::Routing;
use dht_core::stats::{
    AtRisk, Counters, LookupCounts, StatsReport, StoreReport, TrafficReport, UpkeepTraffic,
};

use super::shape;
use crate::cli::exit::Failure;
use crate::cli::json::StatsAllJson;
use crate::cli::output::{Output, table_text};
use crate::cli::units::{count, show_bytes};
use crate::client::Client;

/// Sums of everything that can be summed.
#[derive(Debug, Default)]
struct Sum {
    nodes: usize,
    counters: Counters,
    store: StoreReport,
    traffic: TrafficReport,
    at_risk: AtRisk,
    corrupt: u64,
    upkeep_traffic: UpkeepTraffic,
    hints: usize,
}

impl Sum {
    fn add(&mut self, stats: &StatsReport) {
        self.nodes += 1;
        for (kind, counts) in &stats.counters.lookups {
            add_lookups(self.counters.lookups.entry(*kind).or_default(), counts);
        }
        let (upkeep, from) = (&mut self.counters.upkeep, &stats.counters.upkeep);
        add(&mut upkeep.stabilizations, from.stabilizations);
        add(&mut upkeep.repairs, from.repairs);
        add(&mut upkeep.rectifications, from.rectifications);
        add(&mut upkeep.pushes, from.pushes);
        add(&mut upkeep.joins_served, from.joins_served);
        add(&mut upkeep.missed_probes, from.missed_probes);
        add(&mut upkeep.deaths, from.deaths);
        add(&mut upkeep.busy, from.busy);
        add(&mut upkeep.merge_probes, from.merge_probes);
        add(&mut upkeep.merges, from.merges);
        let (repair, from) = (&mut self.counters.repair, &stats.counters.repair);
        add(&mut repair.missing, from.missing);
        add(&mut repair.copied, from.copied);
        add(&mut repair.bytes, from.bytes);
        add(&mut repair.equal, from.equal);
        add(&mut self.store.keys, stats.store.keys);
        add(&mut self.store.chunks, stats.store.chunks);
        add(&mut self.store.bytes, stats.store.bytes);
        add(&mut self.traffic.bytes_in, stats.traffic.bytes_in);
        add(&mut self.traffic.bytes_out, stats.traffic.bytes_out);
        add(&mut self.at_risk.views, stats.at_risk.views);
        add(&mut self.at_risk.chunks, stats.at_risk.chunks);
        add(&mut self.corrupt, stats.corrupt);
        let (sent, from) = (&mut self.upkeep_traffic, &stats.upkeep_traffic);
        // Spans are summed too, so that all bytes over all spans are the mean of one node.
        add(&mut sent.span_ms, from.span_ms);
        add(&mut sent.links, from.links);
        add(&mut sent.fingers, from.fingers);
        add(&mut sent.map, from.map);
        self.hints += usize::from(stats.hint.is_some());
    }

    fn shape(&self, ring: String, silent: usize) -> StatsAllJson {
        let mut all = LookupCounts::default();
        self.counters.lookups.values().for_each(|counts| add_lookups(&mut all, counts));
        let each = |(kind, counts): (&(Routing, u16), &LookupCounts)| {
            shape::by_routing(*kind, counts, self.nodes as u64)
        };
        StatsAllJson {
            ring,
            nodes: self.nodes,
            silent,
            // Depths mixed have no formula.
            lookups: shape::lookups(&all, None, self.counters.lookups.iter().map(each).collect()),
            upkeep: shape::upkeep(&self.counters.upkeep),
            store: shape::store(&self.store, self.corrupt),
            repair: shape::repair(&self.counters.repair),
            traffic: shape::traffic(&self.traffic),
            at_risk: shape::at_risk(self.at_risk),
            upkeep_traffic: shape::upkeep_traffic(&self.upkeep_traffic),
            hints: self.hints,
        }
    }
}

/// Asks every member of the ring, one after the other.
pub(super) async fn gather(client: &Client, output: Output) -> Result<StatsAllJson, Failure> {
    let progress = output.progress();
    progress.message("asking every member");
    let identity = client.identify().await?;
    let walk = client.walk().await?;
    let mut sum = Sum::default();
    let mut silent = 0;
    for (done, member) in walk.members.iter().enumerate() {
        let asked = async { client.dial(member.contact()).await?.stats().await };
        match asked.await {
            Ok(stats) => sum.add(&stats),
            Err(_) => silent += 1,
        }
        progress.count(done as u64 + 1, walk.members.len() as u64);
    }
    Ok(sum.shape(identity.ring_name, silent))
}

pub(super) fn for_people(json: &StatsAllJson, output: Output) -> String {
    let mut facts = output.table(&["ring", &json.ring]);
    facts.add_row(["nodes", &format!("{}, and {} silent", json.nodes, json.silent)]);
    let store = &json.store;
    facts.add_row([
        "stored",
        &format!(
            "{}, {}, {}, all copies counted",
            count(store.keys, "register"),
            count(store.chunks, "chunk"),
            show_bytes(store.bytes)
        ),
    ]);
    let repair = &json.repair;
    facts.add_row([
        "repair",
        &format!(
            "{} missing, {} made, {}",
            count(repair.missing, "copy"),
            repair.copied,
            show_bytes(repair.bytes)
        ),
    ]);
    let traffic = &json.traffic;
    facts.add_row([
        "traffic",
        &format!("{} in, {} out", show_bytes(traffic.bytes_in), show_bytes(traffic.bytes_out)),
    ]);
    facts.add_row(["upkeep", &super::upkeep(&json.upkeep)]);
    facts.add_row(["upkeep traffic, a node", &super::upkeep_traffic(&json.upkeep_traffic)]);
    if json.hints > 0 {
        let hints = count(json.hints as u64, "node");
        facts.add_row(["hints", &format!("lookups of {hints} take more hops than they may")]);
    }
    let lookups = &json.lookups;
    facts.add_row([
        "lookups",
        &format!(
            "{}: {} failed, {} cached, {} timeouts",
            lookups.count, lookups.failed, lookups.cached, lookups.timeouts
        ),
    ]);
    let mut text = table_text(&facts);
    for row in &lookups.by_routing {
        let title = format!("hops along {} at depth {}", row.routing, row.depth);
        text.push_str(&super::histogram(&title, &row.hops, output));
    }
    text
}

fn add_lookups(sum: &mut LookupCounts, counts: &LookupCounts) {
    sum.hops.merge(&counts.hops);
    add(&mut sum.failed, counts.failed);
    add(&mut sum.timeouts, counts.timeouts);
    add(&mut sum.cached, counts.cached);
}

fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn two_nodes_count_twice() {
        let mut sum = Sum::default();
        sum.add(&report());
        sum.add(&report());
        let json = sum.shape("default".to_owned(), 1);
        assert_eq!((json.nodes, json.silent, json.store.chunks), (2, 1, 4));
        assert_eq!(json.lookups.count, 16);
        assert_eq!(json.lookups.hops.histogram, [2, 2, 2, 0, 0, 0, 0, 2]);
        assert_eq!(json.lookups.by_routing.len(), 2);
        assert_eq!((json.upkeep.stabilizations, json.repair.missing), (18, 10));
        assert_eq!((json.traffic.bytes_in, json.at_risk.chunks, json.store.corrupt), (8, 4, 14));
        let sent = &json.upkeep_traffic;
        assert_eq!((sent.links, sent.bytes_per_s, json.hints), (4_000, Some(205.0), 2));
    }
}
