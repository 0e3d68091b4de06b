//! One sample of every shape, with something in every field: `docs/json.md` must name them all.

use std::collections::{BTreeMap, BTreeSet};

use dht_core::Id;
use serde::Serialize;
use serde_json::Value;

use super::*;
use crate::cli::exit::Kind;
use crate::cli::keys::KeyJson;

fn id() -> Id {
    Id::from_u64(7)
}

fn peer() -> PeerJson {
    PeerJson { id: id(), addr: Some("127.0.0.1:4433".to_owned()) }
}

fn key() -> KeyJson {
    // Never both in truth; here both must be documented.
    KeyJson { key: Some("k".to_owned()), key_hex: Some("6b".to_owned()) }
}

fn hash() -> HexJson {
    HexJson([7; 32])
}

fn text() -> String {
    "text".to_owned()
}

fn put() -> PutJson {
    PutJson {
        key: key(),
        id: id(),
        size: 1,
        hash: hash(),
        version: text(),
        chunks: 1,
        acks: 2,
        wanted: 3,
        replicas: vec![peer()],
        hops: 1,
        elapsed_ms: 1,
    }
}

fn get() -> GetJson {
    GetJson {
        key: key(),
        size: 1,
        hash: hash(),
        version: text(),
        hops: 1,
        verified: true,
        resumed_bytes: 0,
        elapsed_ms: 1,
    }
}

fn info() -> InfoJson {
    let chunk = ChunkJson { index: 0, hash: hash(), size: 1, copies: 1, holders: vec![peer()] };
    InfoJson {
        key: key(),
        id: id(),
        size: 1,
        hash: hash(),
        version: text(),
        content_type: Some(text()),
        meta: BTreeMap::new(),
        created: Some(text()),
        replicas: vec![ReplicaJson { peer: peer(), state: "current" }],
        chunks: vec![chunk],
        chunk_count: 1,
    }
}

fn list() -> ListJson {
    let listed = ListedJson { key: key(), size: 1, version: text(), modified: Some(text()) };
    ListJson { keys: vec![listed], next: Some(text()), next_hex: Some(text()) }
}

fn lookup() -> LookupJson {
    LookupJson {
        key: key(),
        id: id(),
        routing: "successors",
        depth: 1,
        forwarding: "recursive",
        gave_up: Some("no_answer"),
        hops: 1,
        timeouts: 1,
        asker: peer(),
        owner: peer(),
        path: vec![StepJson {
            peer: peer(),
            connect_us: Some(1),
            rtt_us: Some(1),
            fell_back: true,
        }],
        detours: vec![DetourJson { peer: peer(), reason: "timed_out" }],
        elapsed_us: 1,
    }
}

fn drawn() -> DrawnJson {
    let place = PlaceJson { id: id(), at: 0.5, role: "step", steps: vec![1] };
    DrawnJson { lookup: lookup(), complete: true, places: vec![place] }
}

fn compare() -> CompareJson {
    let entry = EntryJson {
        list: "successor",
        place: 0,
        peer: peer(),
        ahead: 0.5,
        before_key: true,
        failed: false,
        chosen: true,
    };
    let choice = ChoiceJson {
        peer: peer(),
        key_ahead: 0.5,
        chosen: Some(peer()),
        why: "farthest",
        listed: Some(true),
        entries: vec![entry],
    };
    let compared = ComparedJson {
        routing: "successors",
        depth: 1,
        hops: 1,
        timeouts: 1,
        owner: Some(peer()),
        elapsed_us: 1,
        steps: vec![choice],
        detours: vec![DetourJson { peer: peer(), reason: "timed_out" }],
    };
    CompareJson { key: key(), id: id(), asker: peer(), routings: vec![compared] }
}

fn row() -> HopRowJson {
    HopRowJson {
        routing: "successors",
        depth: Some(1),
        mean: Some(1.0),
        stderr: Some(1.0),
        stddev: Some(1.0),
        p50: Some(1),
        p90: Some(1),
        p99: Some(1),
        max: Some(1),
        expected: Some(1.0),
        expected_here: Some(1.0),
        growth: "O(N)",
        failed: 0,
        timeouts: 0,
        available: true,
        chi_square_p: Some(1.0),
        histogram: vec![1],
        state: Some(1.0),
        upkeep_bytes_per_s: Some(1.0),
    }
}

fn ring() -> RingJson {
    let member = MemberJson {
        peer: peer(),
        state: "member",
        arc: Some(1.0),
        keys: 1,
        bytes: 1,
        predecessor: Some(id()),
        successors: vec![id()],
    };
    RingJson {
        ring: text(),
        ring_id: Some(text()),
        nodes: 1,
        complete: true,
        members: vec![member],
        problems: vec![ProblemJson { kind: "dead_link", id: id(), message: text() }],
        lookups: Some(vec![RingLookupJson {
            id: id(),
            routing: "successors",
            depth: 1,
            asker: id(),
            owner: id(),
            hops: 1,
            path: vec![id()],
        }]),
    }
}

fn hop_counts() -> HopCountsJson {
    HopCountsJson {
        mean: Some(1.0),
        p50: Some(1),
        p90: Some(1),
        p99: Some(1),
        max: Some(1),
        histogram: vec![1],
        expected: Some(1.0),
        expected_shares: Some(vec![1.0]),
    }
}

fn upkeep_traffic() -> UpkeepTrafficJson {
    UpkeepTrafficJson { links: 1, fingers: 1, map: 1, bytes_per_s: Some(1.0) }
}

fn lookups() -> LookupsJson {
    let other = RoutingCountsJson {
        routing: "successors",
        depth: 1,
        count: 1,
        failed: 0,
        timeouts: 0,
        cached: 0,
        hops: hop_counts(),
    };
    LookupsJson {
        count: 1,
        failed: 0,
        timeouts: 0,
        cached: 0,
        hops: hop_counts(),
        by_routing: vec![other],
        latency_us: Some(LatencyJson { p50: Some(1), p90: Some(1), p99: Some(1), max: Some(1) }),
    }
}

fn upkeep() -> UpkeepJson {
    UpkeepJson {
        stabilizations: 1,
        repairs: 1,
        rectifications: 1,
        pushes: 1,
        joins_served: 1,
        missed_probes: 1,
        deaths: 1,
        busy: 1,
        merge_probes: 1,
        merges: 1,
    }
}

fn stats() -> StatsJson {
    StatsJson {
        peer: peer(),
        ring: text(),
        ring_id: Some(text()),
        state: "member",
        uptime_s: 1,
        version: text(),
        estimated_nodes: 1.0,
        predecessor: Some(id()),
        successors: vec![id()],
        routing: "successors",
        depth: 16,
        forwarding: "recursive",
        lookups: lookups(),
        forwards: ForwardsJson { taken: 1, refused: 1, gave_up: 1 },
        upkeep: upkeep(),
        store: StoreJson { keys: 1, chunks: 1, bytes: 1, corrupt: 1 },
        disk: Some(DiskJson { total: 1, available: 1 }),
        repair: RepairJson { missing: 1, copied: 1, bytes: 1, equal: 1 },
        traffic: TrafficJson { bytes_in: 1, bytes_out: 1 },
        at_risk: AtRiskJson { views: 1, chunks: 1 },
        estimated_nodes_error: Some(0.25),
        upkeep_traffic: upkeep_traffic(),
        advice: AdviceJson {
            text: text(),
            alternatives: vec![AlternativeJson { routing: "fingers", depth: 1, expected: 1.0 }],
        },
        hop_budget: Some(8.0),
        hint: Some(HintJson { mean: 9.0, lookups: 64, message: text() }),
    }
}

fn stats_all() -> StatsAllJson {
    StatsAllJson {
        ring: text(),
        nodes: 1,
        silent: 1,
        lookups: lookups(),
        upkeep: upkeep(),
        store: StoreJson { keys: 1, chunks: 1, bytes: 1, corrupt: 1 },
        repair: RepairJson { missing: 1, copied: 1, bytes: 1, equal: 1 },
        traffic: TrafficJson { bytes_in: 1, bytes_out: 1 },
        at_risk: AtRiskJson { views: 1, chunks: 1 },
        upkeep_traffic: upkeep_traffic(),
        hints: 1,
    }
}

fn status() -> StatusJson {
    StatusJson {
        peer: peer(),
        ring: text(),
        state: "member",
        healthy: true,
        reasons: vec![text()],
        estimated_nodes: 1.0,
        missing: 1,
    }
}

fn identity() -> IdJson {
    IdJson {
        peer: peer(),
        key: hash(),
        addrs: vec![text()],
        ring: text(),
        ring_id: Some(text()),
        state: "member",
        version: text(),
        ticket: text(),
        client_key: Some(hash()),
    }
}

fn demo() -> DemoJson {
    let file = DemoFileJson {
        size: 1,
        hash: hash(),
        acks: 1,
        stored_at: id(),
        fetched_at: id(),
        fetched_again_at: id(),
    };
    DemoJson {
        nodes: 1,
        formed_ms: 1,
        file,
        killed: id(),
        mended_ms: 1,
        hops: vec![row()],
        memory_per_node: Some(1),
        elapsed_ms: 1,
    }
}

fn settings() -> SettingsJson {
    let origin = Some(text());
    let setting = SettingJson { name: "depth", values: vec![text()], source: "file", origin };
    SettingsJson { settings: vec![setting] }
}

fn sim_hops() -> Value {
    let config = dht_sim::hops::HopsConfig {
        routings: vec![dht_core::message::ring::Routing::Successors],
        sizes: vec![2],
        depths: vec![1],
        lookups: Some(10),
        rings: None,
        seed: 1,
    };
    value(dht_sim::hops::run(&config, |_| {}).expect("a ring of two"))
}

/// A run, and a table, of which both kinds of rows are shown.
fn sim_churn() -> Value {
    use dht_sim::churn::papers::{Table, TableConfig};
    let span = std::time::Duration::from_secs(1);
    let config = dht_sim::churn::ChurnConfig::new(3, 0.0, span, 1);
    let mut report = dht_sim::churn::run(&config, |_| {}).expect("a ring of three");
    report.faults.push(dht_sim::churn::Fault {
        kind: "failed",
        at_s: 1.0,
        asker: 1,
        key: text(),
        report: text(),
    });
    let table = TableConfig { nodes: 3, lookups: 10, ..TableConfig::new(Table::Ton2, 1) };
    let table = dht_sim::churn::papers::run(&table, |_, _| {}).expect("rings of three");
    let Value::Object(mut object) = value(report) else { unreachable!("a report is an object") };
    object.insert("table".to_owned(), value(table));
    object.insert("wall_s".to_owned(), 1.into());
    Value::Object(object)
}

fn sim_script() -> Value {
    // One that fails, so that there is a problem to tell of; its fields do not depend on the kind.
    let script = dht_sim::script::parse("ring 0 2\nexpect ring 0\n").expect("two steps");
    value(dht_sim::script::run(&script, 1))
}

fn value(shape: impl Serialize) -> Value {
    serde_json::to_value(shape).expect("every shape is JSON")
}

/// The heading in `docs/json.md` and a sample.
fn all() -> Vec<(&'static str, Value)> {
    let remove = RemoveJson { key: key(), id: id(), version: text(), elapsed_ms: 1 };
    let hops = HopsJson { nodes: 1, samples: 1, seed: 1, came: 0, went: 0, routings: vec![row()] };
    let addr = text();
    let ping = PingJson { id: id(), addr, rtt_us: vec![1], min_us: 1, mean_us: 1, max_us: 1 };
    vec![
        ("Errors", value(ErrorJson::new(Kind::Failed, "no"))),
        ("run", value(ReadyJson { id: id(), listen: text(), ring: text() })),
        ("run --print-config", value(settings())),
        ("put", value(put())),
        ("get", value(get())),
        ("info", value(info())),
        ("rm", value(remove)),
        ("ls", value(list())),
        ("lookup", value(lookup())),
        ("lookup --draw", value(drawn())),
        ("lookup --compare", value(compare())),
        ("hops", value(hops)),
        ("ring", value(ring())),
        ("stats", value(stats())),
        ("stats --all", value(stats_all())),
        ("status", value(status())),
        ("ping", value(ping)),
        ("id", value(identity())),
        ("leave", value(LeaveJson { id: id(), left: true, elapsed_ms: 1 })),
        ("demo", value(demo())),
        ("sim hops", sim_hops()),
        ("sim churn", sim_churn()),
        ("sim script", sim_script()),
        ("completions", value(CompletionsJson { shell: text(), script: text() })),
    ]
}

/// The names of all fields, at every level.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(name, inner)| {
            found.insert(name.clone());
            fields(inner, found);
        }),
        Value::Array(list) => list.iter().for_each(|inner| fields(inner, found)),
        _ => {}
    }
}

const DOC: &str = include_str!("../../../../../docs/json.md");

/// The text under a heading of level two; its own, without the next one's.
fn section(heading: &str) -> &'static str {
    let mut sections = DOC.split("\n## ").skip(1);
    let is_it = |text: &&str| {
        text.lines().next().map(|line| line.replace('`', "")).as_deref() == Some(heading)
    };
    sections.find(is_it).unwrap_or_else(|| panic!("docs/json.md has no section {heading:?}"))
}

#[test]
fn every_field_is_documented() {
    let mut missing = Vec::new();
    for (heading, sample) in all() {
        let text = section(heading);
        let mut names = BTreeSet::new();
        fields(&sample, &mut names);
        for name in names {
            if !text.contains(&format!("`{name}`")) {
                missing.push(format!("{heading}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/json.md does not name {missing:#?}");
}

#[test]
fn every_kind_of_failure_is_documented_with_its_code() {
    let text = section("Errors");
    for kind in Kind::ALL {
        let row = format!("| `{}` | {} |", kind.as_str(), kind.exit() as u8);
        assert!(text.contains(&row), "docs/json.md has no row {row:?}");
    }
}

#[test]
fn shapes_have_the_fields_of_the_contract() {
    // Of docs/cli.md, "JSON shapes"; a missing one breaks scripts.
    let contract = [
        ("put", "key id size hash version chunks acks replicas hops elapsed_ms"),
        ("get", "key size hash version hops verified resumed_bytes elapsed_ms"),
        ("info", "key id size hash version content_type meta created replicas chunks"),
        ("ls", "keys next"),
        ("lookup", "key id routing depth hops timeouts owner path detours elapsed_us"),
        ("hops", "nodes samples routings"),
        ("ring", "ring nodes complete members problems"),
        (
            "stats",
            "id addr ring state uptime_s version estimated_nodes predecessor successors routing \
             depth lookups upkeep store disk repair traffic at_risk",
        ),
        ("sim hops", "seed sizes"),
        (
            "sim churn",
            "lookups failed wrong mean_hops timeouts_per_lookup acked_lost ring_breaks \
             bytes_per_node_per_s",
        ),
        ("sim script", "ok step problems rings members"),
    ];
    let samples: BTreeMap<&str, Value> = all().into_iter().collect();
    for (name, fields) in contract {
        for field in fields.split_whitespace() {
            assert!(samples[name].get(field).is_some(), "{name}: {field}");
        }
    }
}
