//! Rings that grow and shrink under files.

use dht_core::Id;
use dht_core::message::client::ReplicaState;
use dht_core::message::ring::Routing;

use super::*;

#[tokio::test]
async fn files_survive_a_kill_and_a_leave() {
    let mut nodes = ring(5).await;
    let client = Client::new();
    let files: Vec<(String, Bytes)> =
        (0..6).map(|n| (format!("file {n}"), content(1 + n * (400 << 10), n as u8))).collect();
    for (at, (name, content)) in files.iter().enumerate() {
        let report = client.put(&nodes[at % 5], name, content).await;
        assert!(report.acks >= 2 && report.wanted >= 3, "{report:?}");
    }
    let dead = nodes.remove(1);
    dead.kill();
    assert_eq!(within(dead.stopped()).await, StopReason::Killed);
    everywhere(&client, &nodes, &files).await;
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    let leaver = nodes.remove(2);
    let mut told = Vec::new();
    let reason = within(leaver.leave(|missing| told.push(missing))).await;
    assert_eq!(reason, StopReason::Left);
    everywhere(&client, &nodes, &files).await;
    whole(&nodes.iter().collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_ring_can_be_left_down_to_its_last_node() {
    let mut nodes = ring(4).await;
    let client = Client::new();
    let files: Vec<(String, Bytes)> =
        (0..4).map(|n| (format!("file {n}"), content(1 + n * (900 << 10), n as u8))).collect();
    for (name, content) in &files {
        client.put(&nodes[0], name, content).await;
    }
    while nodes.len() > 1 {
        let leaver = nodes.remove(0);
        assert_eq!(within(leaver.leave(drop)).await, StopReason::Left);
        everywhere(&client, &nodes, &files).await;
    }
}

async fn everywhere(client: &Client, nodes: &[Node], files: &[(String, Bytes)]) {
    for (name, content) in files {
        for node in nodes {
            match client.get(node, name).await {
                Ok(read) => assert!(read == *content, "{name} differs"),
                Err(code) => panic!("{name} from {:?}: {code:?}", node.contact()),
            }
        }
    }
}

/// Case 41: owners change while files are put.
#[tokio::test]
async fn joiners_in_the_middle_of_traffic_lose_nothing() {
    let mut nodes = ring(2).await;
    let client = Client::new();
    let mut files = Vec::new();
    for turn in 0..4u8 {
        let joiner = Node::start(config(&[nodes[0].listen()])).await.expect("it starts");
        for n in 0..5u8 {
            let name = format!("file {turn} {n}");
            let content = content(200 << 10, turn * 10 + n);
            client.put(&nodes[usize::from(n) % nodes.len()], &name, &content).await;
            assert!(client.get(&nodes[0], &name).await.expect("at once") == content);
            files.push((name, content));
        }
        within(joiner.ready()).await.expect("it finds its place");
        nodes.push(joiner);
        everywhere(&client, &nodes, &files).await;
    }
}

#[tokio::test]
async fn every_member_lists_the_keys_of_all() {
    let nodes = ring(5).await;
    let client = Client::new();
    for n in 0..30 {
        client.put(&nodes[n % 5], &format!("k{n:02}"), &content(n, 0)).await;
    }
    for n in (0..30).step_by(3) {
        let operation = OperationId(rand::random());
        let request = ClientRequest::Remove { key: key(&format!("k{n:02}")), operation };
        client.ask(&nodes[0], request).await;
    }
    let expected: Vec<String> =
        (0..30).filter(|n| n % 3 != 0).map(|n| format!("k{n:02}")).collect();
    for node in &nodes {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let request = ClientRequest::List { prefix: b"k".to_vec(), after, limit: 7 };
            let answer = client.ask(node, request).await;
            let ClientResponse::Listed { keys, more } = answer else { panic!("{answer:?}") };
            assert!(keys.len() <= 7);
            after = keys.last().map(|entry| entry.key.as_bytes().to_vec());
            seen.extend(keys.into_iter().map(|entry| {
                let name = String::from_utf8(entry.key.as_bytes().to_vec()).expect("a name");
                assert_eq!(entry.size, name[1..].parse().ok());
                name
            }));
            if !more {
                break;
            }
        }
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn lookups_are_counted_and_shown() {
    let nodes = ring(5).await;
    let client = Client::new();
    let id = Id::of_key(b"some key");
    let mut owners = Vec::new();
    for node in &nodes {
        let request = ClientRequest::Lookup { id, routing: None, depth: Some(1), forwarding: None };
        let answer = client.ask(node, request).await;
        let ClientResponse::Lookup(report) = answer else { panic!("{answer:?}") };
        let owner = report.owner.expect("somebody owns it");
        assert_eq!(report.path.last().map_or(node.contact().id, |step| step.contact.id), owner.id);
        owners.push(owner.id);
    }
    owners.dedup();
    assert_eq!(owners.len(), 1, "everybody agrees");
    let request =
        ClientRequest::Sample { lookups: 200, routing: Routing::Successors, depth: 1, seed: 1 };
    let answer = client.ask(&nodes[0], request).await;
    let ClientResponse::Sampled(report) = answer else { panic!("{answer:?}") };
    assert_eq!(report.histogram.iter().sum::<u64>() + report.failed, 200);
    assert_eq!(report.histogram.len(), 5, "0 to 4 hops: {:?}", report.histogram);
    let ClientResponse::Stats(stats) = client.ask(&nodes[0], ClientRequest::Stats).await else {
        panic!("no stats")
    };
    let counted = &stats.counters.lookups[&(Routing::Successors, 1)];
    assert_eq!(counted.count(), 201);
    assert_eq!(stats.estimated_nodes, 5.0);
    assert!(stats.latency.p50.is_some() && stats.traffic.bytes_out > 0);
    let usage =
        ClientRequest::Lookup { id, routing: Some(Routing::Full), depth: None, forwarding: None };
    let answer = client.ask(&nodes[0], usage).await;
    let ClientResponse::Lookup(report) = answer else { panic!("{answer:?}") };
    assert!(report.owner.is_some() && report.hops <= 1);
    assert!(report.path.iter().all(|step| !step.fell_back && step.contact.record.is_signed()));
}

/// A member tells what it holds to route by, and what it sent to keep that right: some of what it sent
/// in all.
#[tokio::test]
async fn a_member_tells_its_fingers_and_its_upkeep() {
    let shallow = |join: &[SocketAddr]| {
        let mut config = config(join);
        config.core.depth = 1;
        config
    };
    // Lists of 8: in a ring of 18, somebody's must leave half of the circle to fingers.
    let mut nodes = vec![start(shallow(&[])).await];
    for _ in 1..18 {
        let via = nodes[0].listen();
        nodes.push(start(shallow(&[via])).await);
    }
    let client = Client::new();
    let ids: Vec<Id> = nodes.iter().map(|node| node.contact().id).collect();
    let mut found = None;
    until("fingers are looked up", async || {
        for node in &nodes {
            let answer = client.ask(node, ClientRequest::Neighborhood).await;
            let ClientResponse::Neighborhood(report) = answer else { panic!("{answer:?}") };
            if report.upkeep.fingers > 0 && !report.fingers.is_empty() {
                found = Some((node, report));
                return true;
            }
        }
        false
    })
    .await;
    let (node, report) = found.expect("it came true");
    assert!(report.fingers.is_sorted_by_key(|(exponent, _)| *exponent));
    assert!(report.fingers.iter().all(|(_, held)| ids.contains(&held.id)), "{report:?}");
    let ClientResponse::Stats(stats) = client.ask(node, ClientRequest::Stats).await else {
        panic!("no stats")
    };
    let sent = report.upkeep;
    assert!(sent.span_ms > 0 && sent.links > 0 && sent.map > 0, "{sent:?}");
    assert!(
        sent.links + sent.fingers + sent.map < stats.traffic.bytes_out,
        "{sent:?} of {stats:?}"
    );
    assert!(stats.upkeep_traffic.links >= sent.links);
}

#[tokio::test]
async fn info_names_the_holders_of_every_copy() {
    let nodes = ring(5).await;
    let client = Client::new();
    client.put(&nodes[0], "file", &content(2 << 20, 9)).await;
    until("every copy is written", async || {
        let answer =
            client.ask(&nodes[3], ClientRequest::Info { key: key("file"), first: 0 }).await;
        let ClientResponse::Info(info) = answer else { panic!("{answer:?}") };
        assert_eq!((info.chunk_count, info.chunks.len(), info.replicas.len()), (2, 2, 5));
        assert_eq!(info.file.meta["a"], "b");
        // More where a slow peer was not waited for.
        info.chunks.iter().all(|(_, holders)| holders.len() >= 3)
    })
    .await;
    let answer = client.ask(&nodes[1], ClientRequest::Neighborhood).await;
    let ClientResponse::Neighborhood(seen) = answer else { panic!("{answer:?}") };
    assert_eq!(seen.successors.len(), 4);
    assert_eq!(seen.addrs, [nodes[1].listen()]);
}

/// A majority may have answered before the asker's own disk did.
#[tokio::test]
async fn info_never_calls_the_one_that_answers_silent() {
    let nodes = ring(3).await;
    let client = Client::new();
    for n in 0..40 {
        client.put(&nodes[0], &format!("key {n}"), &content(10, 1)).await;
    }
    for n in 0..40 {
        let request = ClientRequest::Info { key: key(&format!("key {n}")), first: 0 };
        let answer = client.ask(&nodes[n % 3], request).await;
        let ClientResponse::Info(info) = answer else { panic!("{answer:?}") };
        assert_eq!(info.replicas.len(), 3);
        for (peer, state) in info.replicas {
            assert_ne!(state, ReplicaState::Silent, "{} of {n}", peer.id);
        }
    }
}

/// With more copies than usual, lists must reach further than by default.
#[tokio::test]
async fn six_copies_are_brought_back_as_three_would_be() {
    let mut founder = config(&[]);
    founder.replicas = Some(6);
    let mut nodes = vec![start(founder).await];
    for _ in 1..14 {
        let via = nodes[0].listen();
        nodes.push(start(config(&[via])).await);
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    let client = Client::new();
    client.put(&nodes[0], "file", &content(4 << 20, 9)).await;
    for at in [5, 9] {
        let dead = nodes.remove(at);
        dead.kill();
        within(dead.stopped()).await;
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    let ask = || ClientRequest::Info { key: key("file"), first: 0 };
    until("every copy is there again", async || {
        let ClientResponse::Info(info) = client.ask(&nodes[3], ask()).await else { return false };
        let current = |(_, state): &(_, ReplicaState)| *state == ReplicaState::Current;
        info.chunks.iter().all(|(_, holders)| holders.len() >= 6)
            && info.replicas.iter().filter(|held| current(held)).count() == 11
    })
    .await;
}

/// `--depth` is each node's own, and no list can be longer than the next one's by more than one: a
/// short list is not the whole ring.
#[tokio::test]
async fn one_shallow_node_hides_no_key() {
    let mut nodes = vec![start(config(&[])).await];
    for n in 1..14 {
        let mut config = config(&[nodes[0].listen()]);
        config.core.depth = if n == 4 { 1 } else { 16 };
        nodes.push(start(config).await);
    }
    let client = Client::new();
    for n in 0..30 {
        client.put(&nodes[n % 14], &format!("key {n}"), &content(10, 1)).await;
    }
    for node in &nodes {
        until("all keys are listed", async || {
            let request = ClientRequest::List { prefix: Vec::new(), after: None, limit: 100 };
            let ClientResponse::Listed { keys, more } = client.ask(node, request).await else {
                return false;
            };
            keys.len() == 30 && !more
        })
        .await;
    }
}
