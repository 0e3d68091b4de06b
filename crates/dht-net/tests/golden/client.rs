//! Between a client and a member.

use std::collections::BTreeMap;

use dht_core::Id;
use dht_core::message::client::*;
use dht_core::message::forward::{
    Forwarding, GaveUp, HandedDetour, HandedReport, HandedStep, PlaceMark,
};
use dht_core::message::ring::Routing;
use dht_core::message::{ClientRequest, ClientResponse};
use dht_core::stats::*;

use crate::samples::*;
use crate::{Pinned, variants};

pub(crate) fn add(pinned: &mut Pinned) {
    pinned.add_all(
        variants!(ClientRequest: Identify, Put, Get, Info, Remove, List, ListHere, Lookup, Sample,
            Neighborhood, Stats),
        requests(),
    );
    pinned.add_all(
        variants!(ClientResponse: Identity, Stored, Found, Info, Removed, Listed, Lookup, Sampled,
            Neighborhood, Stats, Failed),
        responses(),
    );
}

fn requests() -> Vec<ClientRequest> {
    vec![
        ClientRequest::Identify,
        ClientRequest::Put(PutRequest {
            key: key(),
            operation: operation(),
            chunk_size: Some(1 << 20),
            content_type: Some("text/plain".to_owned()),
            meta: meta(),
        }),
        ClientRequest::Get { key: key() },
        ClientRequest::Info { key: key(), first: 256 },
        ClientRequest::Remove { key: key(), operation: operation() },
        ClientRequest::List { prefix: b"a".to_vec(), after: Some(b"ab".to_vec()), limit: 1000 },
        ClientRequest::ListHere { prefix: vec![], after: None, limit: 1 },
        ClientRequest::Lookup {
            id: id(),
            routing: Some(Routing::Successors),
            depth: Some(1),
            forwarding: Some(Forwarding::Recursive),
        },
        ClientRequest::Sample { lookups: 1000, routing: Routing::Full, depth: 16, seed: 42 },
        ClientRequest::Neighborhood,
        ClientRequest::Stats,
    ]
}

fn responses() -> Vec<ClientResponse> {
    vec![
        ClientResponse::Identity {
            contact: contact(),
            ring: Some(ring_id()),
            ring_name: "default".to_owned(),
            state: NodeState::Member,
            version: "0.1.0".to_owned(),
        },
        ClientResponse::Stored(PutReport {
            size: 1 << 33,
            hash: [0xee; 32],
            version: "1-2-aa".to_owned(),
            chunks: 8192,
            acks: 2,
            wanted: 3,
            replicas: vec![contact()],
            hops: 5,
        }),
        ClientResponse::Found(file()),
        ClientResponse::Info(InfoReport {
            file: file(),
            created_ms: -1,
            replicas: vec![(other_contact(), ReplicaState::Outdated)],
            chunks: vec![(chunk(), vec![other_contact()])],
            chunk_count: 1,
        }),
        ClientResponse::Removed { version: "1-3-aa".to_owned() },
        ClientResponse::Listed {
            keys: vec![ListedKey {
                key: key(),
                size: Some(300),
                ballot: ballot(),
                modified_ms: 1_700_000_000_000,
            }],
            more: true,
        },
        ClientResponse::Lookup(LookupReport {
            id: id(),
            routing: Routing::Fingers,
            depth: 16,
            asker: contact(),
            owner: Some(other_contact()),
            hops: 1,
            timeouts: 2,
            path: vec![PathStep {
                contact: other_contact(),
                connect_us: 900,
                rtt_us: 120,
                fell_back: true,
            }],
            detours: vec![Detour { contact: other_contact(), reason: DetourReason::TimedOut }],
            elapsed_us: 5000,
            failure: Some(LookupFailure::Exhausted),
            handed: Some(HandedReport {
                path: vec![HandedStep { place: PlaceMark::of(&contact()), fell_back: true }],
                detours: vec![HandedDetour {
                    place: PlaceMark::of(&other_contact()),
                    reason: DetourReason::TimedOut,
                }],
                gave_up: Some(GaveUp::NoAnswer),
            }),
        }),
        ClientResponse::Sampled(SampleReport {
            histogram: vec![1, 2, 300],
            failed: 1,
            timeouts: 2,
        }),
        ClientResponse::Neighborhood(NeighborhoodReport {
            contact: contact(),
            state: NodeState::Leaving,
            predecessor: Some(other_contact()),
            successors: vec![other_contact()],
            predecessors: vec![contact()],
            keys: 10,
            bytes: 20,
            depth: 16,
            routings: vec![Routing::Successors, Routing::Full],
            addrs: vec![([192, 0, 2, 1], 4433).into()],
            fingers: vec![(158, other_contact())],
            map: 3,
            upkeep: upkeep_traffic(),
            depth_back: 5,
        }),
        ClientResponse::Stats(Box::new(stats())),
        ClientResponse::Failed {
            code: ClientErrorCode::NoQuorum,
            message: "1 of 3 answered".to_owned(),
        },
    ]
}

fn meta() -> BTreeMap<String, String> {
    BTreeMap::from([("author".to_owned(), "someone".to_owned())])
}

fn file() -> FileReport {
    FileReport {
        size: 300,
        hash: [0xee; 32],
        version: "1-2-aa".to_owned(),
        content_type: None,
        meta: meta(),
        hops: 1,
    }
}

fn stats() -> StatsReport {
    let lookups = LookupCounts {
        hops: Histogram::from_counts(vec![1, 0, 5]),
        failed: 1,
        timeouts: 2,
        cached: 3,
    };
    StatsReport {
        contact: contact(),
        ring: None,
        ring_name: "default".to_owned(),
        state: NodeState::Isolated,
        uptime_s: 100,
        version: "0.1.0".to_owned(),
        estimated_nodes: 31.5,
        predecessor: None,
        successors: vec![other_contact()],
        routing: Routing::Successors,
        depth: 16,
        counters: Counters {
            lookups: BTreeMap::from([((Routing::Successors, 1), lookups)]),
            upkeep: upkeep(),
            repair: RepairCounts { missing: 1, copied: 2, bytes: 3, equal: 4 },
            forwards: ForwardCounts { taken: 1, refused: 2, gave_up: 3 },
        },
        latency: LatencyReport { p50: Some(1), p90: Some(2), p99: Some(3), max: None },
        store: StoreReport { keys: 1, chunks: 2, bytes: 3 },
        traffic: TrafficReport { bytes_in: 1, bytes_out: 2 },
        at_risk: AtRisk { views: 1, chunks: 2 },
        corrupt: 3,
        disk: Some(DiskReport { total: 5, available: 4 }),
        upkeep_traffic: upkeep_traffic(),
        forwarding: Forwarding::Recursive,
        hop_budget: Some(8.0),
        hint: Some(HopHint { mean: 31.5, lookups: 64 }),
    }
}

fn upkeep_traffic() -> UpkeepTraffic {
    UpkeepTraffic { span_ms: 1000, links: 300, fingers: 2, map: 1 }
}

fn upkeep() -> UpkeepCounts {
    UpkeepCounts {
        stabilizations: 1,
        repairs: 2,
        rectifications: 3,
        pushes: 4,
        joins_served: 5,
        missed_probes: 6,
        deaths: 7,
        busy: 8,
        merge_probes: 9,
        merges: 10,
    }
}

/// Lookups of points at the edges are read back right.
#[test]
fn points_have_twenty_bytes() {
    for point in [Id::ZERO, Id::MAX] {
        let bytes = postcard::to_allocvec(&point).expect("plain data");
        assert_eq!(bytes, point.to_bytes());
    }
}
