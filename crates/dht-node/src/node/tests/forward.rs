//! Lookups that members hand on, over QUIC.

use dht_core::Id;
use dht_core::message::Forwarding;
use dht_core::message::client::LookupReport;
use dht_core::message::ring::Routing;
use dht_core::stats::StatsReport;

use super::*;

async fn look_up(
    client: &Client,
    node: &Node,
    id: Id,
    (routing, depth): (Routing, u16),
    forwarding: Forwarding,
) -> LookupReport {
    let (routing, depth, forwarding) = (Some(routing), Some(depth), Some(forwarding));
    match client.ask(node, ClientRequest::Lookup { id, routing, depth, forwarding }).await {
        ClientResponse::Lookup(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Who was gone to in turn.
fn way(report: &LookupReport) -> Vec<Id> {
    match &report.handed {
        None => report.path.iter().map(|step| step.contact.id).collect(),
        Some(handed) => handed.path.iter().map(|step| step.place.id).collect(),
    }
}

/// Whoever carries a lookup, it goes the same way, and the owner tells the asker.
#[tokio::test]
async fn both_go_the_same_way() {
    let nodes = ring(8).await;
    let client = Client::new();
    let listens: Vec<SocketAddr> = nodes.iter().map(Node::listen).collect();
    let mut compared = 0;
    for how in [(Routing::Successors, 1), (Routing::Successors, 3), (Routing::BothWays, 1)] {
        for (n, node) in nodes.iter().enumerate() {
            for key in 0..4 {
                let id = Id::of_key(format!("key {n} {key}").as_bytes());
                let one = look_up(&client, node, id, how, Forwarding::Iterative).await;
                let other = look_up(&client, node, id, how, Forwarding::Recursive).await;
                let owner = |report: &LookupReport| report.owner.as_ref().map(|held| held.id);
                assert!(owner(&one).is_some(), "{one:?}");
                assert_eq!(owner(&one), owner(&other), "{one:?} {other:?}");
                let handed = other.handed.as_ref().expect("it was handed on");
                // A busy machine may make a node seem silent, and then both go round it as they can.
                if one.timeouts + other.timeouts == 0 && handed.gave_up.is_none() {
                    assert_eq!((one.hops, way(&one)), (other.hops, way(&other)));
                    assert!(other.path.is_empty() && handed.path.len() == other.hops as usize);
                    let addrs = handed.path.iter().filter_map(|step| step.place.addr);
                    assert!(addrs.clone().count() == handed.path.len());
                    assert!(addrs.into_iter().all(|addr| listens.contains(&addr)));
                    compared += usize::from(other.hops > 1);
                }
            }
        }
    }
    assert!(compared > 0, "every pair met somebody silent");
}

/// Files are put and got over lookups that are handed on, if the nodes are told to.
#[tokio::test]
async fn files_are_found_by_lookups_that_are_handed_on() {
    let recursive = |join: &[SocketAddr]| {
        let mut config = config(join);
        config.core.forwarding = Forwarding::Recursive;
        config.core.depth = 2;
        config
    };
    let mut nodes = vec![start(recursive(&[])).await];
    for _ in 1..12 {
        nodes.push(start(recursive(&[nodes[0].listen()])).await);
    }
    let client = Client::new();
    let files: Vec<(String, Bytes)> =
        (0..6).map(|n| (format!("file {n}"), content(1 + n * (300 << 10), n as u8))).collect();
    for (at, (name, content)) in files.iter().enumerate() {
        client.put(&nodes[at], name, content).await;
    }
    for (at, (name, content)) in files.iter().enumerate() {
        let read = client.get(&nodes[11 - at], name).await.expect("it is there");
        assert!(read == *content, "{name} differs");
    }
    let (mut taken, mut found) = (0, 0);
    for node in &nodes {
        let stats = match client.ask(node, ClientRequest::Stats).await {
            ClientResponse::Stats(stats) => stats,
            other => panic!("{other:?}"),
        };
        let StatsReport { forwarding, counters, .. } = *stats;
        assert_eq!(forwarding, Forwarding::Recursive);
        taken += counters.forwards.taken;
        found += counters.lookups.values().map(|counts| counts.hops.total()).sum::<u64>();
    }
    assert!(taken > 0 && found >= 12, "{taken} {found}");
}
