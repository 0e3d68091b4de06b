//! How nodes start, stop, and come back.

use dht_core::message::client::{AdminRequest, AdminResponse, NodeState};
use tempfile::TempDir;

use super::*;
use crate::node::StartError;

/// Case 1: it notices in the handshake.
#[tokio::test]
async fn joining_oneself_makes_a_ring_of_one() {
    for host in ["127.0.0.1", "localhost"] {
        let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr();
        let addr = free.expect("bound");
        let mut config = config(&[]);
        config.listen = Some(addr);
        config.join = vec![format!("{host}:{}", addr.port()).parse().expect("an address")];
        let node = start(config).await;
        assert_eq!(state(&node).await, NodeState::Member);
    }
}

#[tokio::test]
async fn one_good_address_among_bad_ones_is_enough() {
    let first = start(config(&[])).await;
    let mut config = config(&[]);
    config.join = ["nope.invalid:1", "127.0.0.1:9", &first.listen().to_string()]
        .map(|text| text.parse().expect("an address"))
        .into();
    let second = start(config).await;
    whole(&[&first, &second]).await;
}

/// Cases 3 and 4: nobody is there, and then somebody is.
#[tokio::test]
async fn clients_are_served_while_no_bootstrap_answers() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let dead = socket.local_addr().expect("bound");
    let node = Node::start(config(&[dead])).await.expect("it starts");
    assert_eq!(state(&node).await, NodeState::Joining);
    let client = Client::new();
    let failed = client.try_put(&node, "x", &content(5, 0)).await;
    assert_eq!(failed.expect_err("no ring").0, ClientErrorCode::NotMember);
    // The bootstrap appears.
    drop(socket);
    let mut config = config(&[]);
    config.listen = Some(dead);
    let first = start(config).await;
    within(node.ready()).await.expect("it finds its place");
    whole(&[&first, &node]).await;
}

#[tokio::test]
async fn a_wildcard_is_never_passed_on() {
    let mut nodes = Vec::new();
    for at in 0..3 {
        let join: Vec<SocketAddr> = nodes
            .first()
            .map(|node: &Node| ([127, 0, 0, 1], node.listen().port()).into())
            .into_iter()
            .collect();
        let mut config = config(&join);
        config.listen = Some(([0, 0, 0, 0], 0).into());
        nodes.push(start(config).await);
        assert_eq!(nodes.len(), at + 1);
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    until("everybody is reached at loopback", async || {
        for node in &nodes {
            let seen = node.snapshot().await.expect("it runs");
            for contact in seen.successors.iter().chain([&seen.me]) {
                assert!(contact.record.addrs.iter().all(|addr| !addr.ip().is_unspecified()));
                if contact.record.addrs.is_empty() {
                    return false;
                }
            }
        }
        true
    })
    .await;
}

#[tokio::test]
async fn a_port_in_use_is_named_and_the_default_gives_way() {
    let first = start(config(&[])).await;
    let mut taken = config(&[]);
    taken.listen = Some(first.listen());
    match Node::start(taken).await {
        Err(StartError::PortInUse { addr }) => assert_eq!(addr, first.listen()),
        other => panic!("{other:?}"),
    }
    let blocker = std::net::UdpSocket::bind(("127.0.0.1", crate::node::DEFAULT_PORT));
    let mut free = config(&[]);
    free.listen = None;
    let node = start(free).await;
    assert_eq!(node.took_other_port(), node.listen().port() != crate::node::DEFAULT_PORT);
    drop(blocker);
}

#[tokio::test]
async fn replicas_are_the_rings() {
    let first = start(config(&[])).await;
    let mut other = config(&[first.listen()]);
    other.replicas = Some(5);
    let node = Node::start(other).await.expect("it starts");
    let reason = within(node.ready()).await.expect_err("it stops");
    assert_eq!(reason, StopReason::ReplicasDiffer { asked: 5, ring: 3 });
    let text = reason.to_string();
    assert!(text.contains('5') && text.contains('3'), "{text}");
}

#[tokio::test]
async fn identity_and_files_outlive_a_stop() {
    let dir = tempfile::tempdir().expect("a directory");
    let client = Client::new();
    let node = start(in_dir(&dir, &[])).await;
    let (id, life) = (node.contact().id, node.contact().incarnation());
    client.put(&node, "file", &content(100_000, 1)).await;
    match Node::start(in_dir(&dir, &[])).await {
        Err(StartError::DataDirInUse { holder, .. }) => {
            assert_eq!(holder, Some(std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(within(node.stop()).await, StopReason::Stopped);
    let node = start(in_dir(&dir, &[])).await;
    assert_eq!(node.contact().id, id);
    assert!(node.contact().incarnation() > life);
    assert!(client.get(&node, "file").await.expect("kept") == content(100_000, 1));
    node.kill();
    within(node.stopped()).await;
    let node = start(in_dir(&dir, &[])).await;
    assert!(client.get(&node, "file").await.expect("kept") == content(100_000, 1));
}

/// Case 14: a damaged or lost key stops the start.
#[tokio::test]
async fn a_key_is_never_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = start(in_dir(&dir, &[])).await;
    within(node.stop()).await;
    let key = dir.path().join("identity.key");
    let bytes = std::fs::read(&key).expect("the key");
    for cut in [0, bytes.len() / 2] {
        std::fs::write(&key, &bytes[..cut]).expect("cut");
        let error = Node::start(in_dir(&dir, &[])).await.expect_err("no key");
        assert!(matches!(error, StartError::Identity(_)), "{error:?}");
        assert!(error.to_string().contains("identity.key"), "{error}");
    }
    std::fs::remove_file(&key).expect("removed");
    let error = Node::start(in_dir(&dir, &[])).await.expect_err("no key");
    assert!(matches!(error, StartError::IdentityMissing { .. }), "{error:?}");
    std::fs::write(&key, &bytes).expect("restored");
    within(start(in_dir(&dir, &[])).await.stop()).await;
}

#[tokio::test]
async fn a_founder_gives_up_its_ring_only_while_it_holds_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = start(in_dir(&dir, &[])).await;
    let founded = within(node.ready()).await.expect("it runs").ring;
    within(node.stop()).await;
    let first = start(config(&[])).await;
    let ring = within(first.ready()).await.expect("it runs").ring;
    let node = start(in_dir(&dir, &[first.listen()])).await;
    assert_eq!(within(node.ready()).await.expect("it joined").ring, ring);
    assert_ne!(founded, ring);
    Client::new().put(&node, "file", &content(10, 0)).await;
    whole(&[&first, &node]).await;
    within(node.stop()).await;
    let stranger = start(config(&[])).await;
    let theirs = within(stranger.ready()).await.expect("it runs").ring;
    let node = Node::start(in_dir(&dir, &[stranger.listen()])).await.expect("it starts");
    let reason = within(node.stopped()).await;
    assert_eq!(reason, StopReason::OtherRing { addr: stranger.listen(), ours: ring, theirs });
}

#[tokio::test]
async fn a_whole_ring_restarts_at_once_without_being_told_whom_to_join() {
    let dirs: Vec<TempDir> = (0..4).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let mut nodes: Vec<Node> = Vec::new();
    for (at, dir) in dirs.iter().enumerate() {
        let join: Vec<SocketAddr> = nodes.first().map(Node::listen).into_iter().collect();
        let mut config = in_dir(dir, &join);
        // Below the ports that the system hands out, so that nobody takes it meanwhile.
        let port = 10_000 + (std::process::id() % 5_000) as u16 * 4 + at as u16;
        config.listen = Some(([127, 0, 0, 1], port).into());
        nodes.push(start(config).await);
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    let client = Client::new();
    for n in 0..5 {
        client.put(&nodes[0], &format!("file {n}"), &content(100_000, n)).await;
    }
    let ports: Vec<SocketAddr> = nodes.iter().map(Node::listen).collect();
    for node in &nodes {
        node.kill();
    }
    for node in &nodes {
        within(node.stopped()).await;
    }
    drop(nodes);
    let mut nodes = Vec::new();
    for (dir, port) in dirs.iter().zip(ports) {
        nodes.push(start_again(dir, port).await);
    }
    for node in &nodes {
        within(node.ready()).await.expect("it finds its way back");
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    // The connections of the old one lead to lives that ended without a word.
    let client = Client::new();
    for n in 0..5 {
        for node in &nodes {
            let read = client.get(node, &format!("file {n}")).await.expect("kept");
            assert!(read == content(100_000, n));
        }
    }
}

/// A node on the port of its earlier life, once that is free: connections of a killed node linger.
async fn start_again(dir: &TempDir, port: SocketAddr) -> Node {
    let mut started = None;
    until("the port is free again", async || {
        let mut config = in_dir(dir, &[]);
        config.listen = Some(port);
        match Node::start(config).await {
            Ok(node) => started = Some(node),
            Err(StartError::PortInUse { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
        started.is_some()
    })
    .await;
    started.expect("just started")
}

/// Case 11: the copy is refused, the first one goes on.
#[tokio::test]
async fn a_second_node_with_the_same_key_is_refused() {
    let dirs: Vec<TempDir> = (0..2).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let mut nodes = ring_in(&dirs).await;
    within(nodes.pop().expect("two").stop()).await;
    let copy = tempfile::tempdir().expect("a directory");
    copy_folder(dirs[1].path(), copy.path());
    nodes.push(start(in_dir(&dirs[1], &[nodes[0].listen()])).await);
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    let twin = Node::start(in_dir(&copy, &[nodes[0].listen()])).await.expect("it starts");
    match within(twin.stopped()).await {
        StopReason::IdInUse { addr } => assert_eq!(addr, nodes[1].listen()),
        other => panic!("{other:?}"),
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("read") {
        let entry = entry.expect("read");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("known").is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => _ = std::fs::copy(entry.path(), to).expect("copied"),
        }
    }
}

#[tokio::test]
async fn leaving_may_be_asked_over_loopback() {
    let nodes = ring(2).await;
    let client = Client::new();
    client.put(&nodes[0], "file", &content(2 << 20, 4)).await;
    let peer = client.peer(&nodes[1]).await;
    let reply = peer.request(Frame::Admin(AdminRequest::Leave)).await;
    let mut reply = reply.expect("an answer");
    let mut last = Some(reply.answer);
    while let Some(Answer::Admin(AdminResponse::Leaving { .. })) = last {
        last = within(reply.body.next_answer()).await.expect("an answer");
    }
    assert_eq!(last, Some(Answer::Admin(AdminResponse::Left)));
    assert_eq!(within(nodes[1].stopped()).await, StopReason::Left);
    assert!(client.get(&nodes[0], "file").await.expect("handed over") == content(2 << 20, 4));
}

/// A node that was never let in has nothing to hand over, and says so as any other.
#[tokio::test]
async fn leaving_may_be_asked_of_a_node_that_is_still_joining() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let dead = socket.local_addr().expect("bound");
    let node = Node::start(config(&[dead])).await.expect("it starts");
    let client = Client::new();
    let peer = client.peer(&node).await;
    let reply = within(peer.request(Frame::Admin(AdminRequest::Leave)).into_future()).await;
    let reply = reply.expect("an answer");
    assert_eq!(reply.answer, Answer::Admin(AdminResponse::Left));
    drop((reply, peer));
    assert_eq!(within(node.stopped()).await, StopReason::Left);
}

async fn state(node: &Node) -> NodeState {
    match Client::new().ask(node, ClientRequest::Identify).await {
        ClientResponse::Identity { state, .. } => state,
        other => panic!("{other:?}"),
    }
}

/// One died, the ring closed over the gap, the other left in order: the last one has everything, and
/// serves, also when it starts again.
#[tokio::test]
async fn the_last_of_a_ring_serves_on_its_own() {
    let dirs: Vec<TempDir> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let mut nodes = ring_in(&dirs).await;
    let client = Client::new();
    client.put(&nodes[0], "file", &content(200_000, 1)).await;
    let third = nodes.pop().expect("three");
    third.kill();
    within(third.stopped()).await;
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    let second = nodes.pop().expect("two");
    assert_eq!(within(second.leave(|_| {})).await, StopReason::Left);
    let last = nodes.pop().expect("one");
    until("it is alone", async || last.snapshot().await.is_some_and(|seen| seen.alone)).await;
    assert!(client.get(&last, "file").await.expect("kept") == content(200_000, 1));
    client.put(&last, "later", &content(10, 2)).await;
    within(last.stop()).await;
    let again = start(in_dir(&dirs[0], &[])).await;
    for (name, content) in [("file", content(200_000, 1)), ("later", content(10, 2))] {
        assert!(client.get(&again, name).await.expect("kept") == content, "{name}");
    }
}

/// Case 80: a disk that is not mounted looks like an empty one.
#[tokio::test]
async fn a_lost_store_is_not_made_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = start(in_dir(&dir, &[])).await;
    within(node.stop()).await;
    std::fs::rename(dir.path().join("store"), dir.path().join("away")).expect("moved");
    let refused = Node::start(in_dir(&dir, &[])).await;
    assert!(matches!(refused, Err(StartError::StoreMissing { .. })), "{refused:?}");
    std::fs::rename(dir.path().join("away"), dir.path().join("store")).expect("moved back");
    let node = start(in_dir(&dir, &[])).await;
    within(node.stop()).await;
}

/// A first start that was cut short between store and key is a first start still.
#[tokio::test]
async fn a_store_without_a_key_that_never_started_gets_one() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(dht_store::DiskStore::open(&dir.path().join("store"), Default::default()).expect("made"));
    within(start(in_dir(&dir, &[])).await.stop()).await;
}

/// Case 30: what is stored belongs to its ring.
#[tokio::test]
async fn data_of_a_ring_of_another_name_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    within(start(in_dir(&dir, &[])).await.stop()).await;
    let mut other = in_dir(&dir, &[]);
    other.ring_name = "other".to_owned();
    let text = match Node::start(other).await {
        Err(error @ StartError::OtherRingName { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(text.contains("--ring other differs from the ring default"), "{text}");
}
