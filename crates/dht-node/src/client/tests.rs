//! The client against real nodes on loopback, in one process.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use dht_core::Id;
use dht_core::message::client::ClientErrorCode;
use dht_core::message::ring::Routing;
use dht_core::register::Key;
use tokio::io::ReadBuf;

use super::*;
use crate::node::{DataPlace, JoinAddr, Node, NodeConfig, StopReason};

async fn start(via: Option<&Node>) -> Node {
    let mut config = NodeConfig::new(DataPlace::Ephemeral);
    config.listen = Some(([127, 0, 0, 1], 0).into());
    config.join = via.map(addr).into_iter().collect();
    config.core.stabilize_every = Duration::from_millis(200);
    let node = Node::start(config).await.expect("the node starts");
    within(node.ready()).await.expect("the node finds its place");
    node
}

fn addr(node: &Node) -> JoinAddr {
    JoinAddr::from_socket(node.listen())
}

async fn client(nodes: &[&Node]) -> Client {
    let addrs = nodes.iter().map(|node| addr(node)).collect();
    within(Client::connect(ClientConfig::new(addrs))).await.expect("a node answers")
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).expect("a short name")
}

/// A future that must end at all; far above what anything here takes.
async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it ends")
}

fn code(error: &ClientError) -> ClientErrorCode {
    match error {
        ClientError::Failed { code, .. } => *code,
        other => panic!("not told by a member: {other}"),
    }
}

/// More chunks than one answer, or a manifest, can name.
#[tokio::test]
async fn info_lists_every_chunk_of_a_long_file() {
    let node = start(None).await;
    let client = client(&[&node]).await;
    let mut options = PutOptions::new();
    options.chunk_size = Some(64 << 10);
    let mut content = vec![0; 1100 * (64 << 10) + 5];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    let k = key("long");
    within(client.put(&k, &options, &mut content.as_slice(), |_| {})).await.expect("stored");
    let info = within(client.info(&k)).await.expect("known");
    assert_eq!((info.chunk_count, info.chunks.len()), (1101, 1101));
    for (bytes, (chunk, holders)) in content.chunks(64 << 10).zip(&info.chunks) {
        assert_eq!(chunk.hash, *blake3::hash(bytes).as_bytes());
        assert_eq!(holders.len(), 1);
    }
}

#[tokio::test]
async fn a_file_goes_in_and_comes_out_with_progress() {
    let node = start(None).await;
    let client = client(&[&node]).await;
    let (k, options) = (key("k"), PutOptions::new());
    let mut content = vec![0; 2_500_000];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    let mut sent = Vec::new();
    let mut input = content.as_slice();
    let put = client.put(&k, &options, &mut input, |bytes| sent.push(bytes));
    let stored = within(put).await.expect("stored");
    assert_eq!((stored.size, stored.acks), (2_500_000, 1));
    assert_eq!(sent.last(), Some(&2_500_000));
    assert!(sent.is_sorted(), "progress goes forward");

    let (mut output, mut last) = (Vec::new(), (0, 0));
    let get = client.get(&k, &mut output, |done, size| last = (done, size));
    let found = within(get).await.expect("found");
    assert!(output == content && found.version == stored.version);
    assert_eq!(last, (2_500_000, 2_500_000));
    let info = within(client.info(&key("k"))).await.expect("known");
    assert_eq!((info.chunk_count, info.chunks.len()), (3, 3));
    let (keys, more) =
        within(client.list(&Page { limit: 10, ..Page::default() })).await.expect("listed");
    assert_eq!((keys.len(), keys[0].size, more), (1, Some(2_500_000), false));

    let stats = within(client.stats()).await.expect("told");
    let looked_up: u64 = stats.counters.lookups.values().map(|counts| counts.count()).sum();
    assert!(looked_up >= 2 && stats.latency.max.is_some(), "the keys were looked up");

    within(client.remove(&key("k"), new_operation())).await.expect("deleted");
    let gone = within(client.get(&key("k"), &mut Vec::new(), |_, _| {})).await;
    assert_eq!(code(&gone.expect_err("deleted")), ClientErrorCode::NotFound);
    client.close().await;
    within(node.stop()).await;
}

/// An input that fails half-way stores nothing, and the failure is the input's.
#[tokio::test]
async fn an_input_that_breaks_leaves_no_file() {
    let node = start(None).await;
    let client = client(&[&node]).await;
    let mut input = Broken { left: 3_000_000 };
    let (half, options) = (key("half"), PutOptions::new());
    let put = client.put(&half, &options, &mut input, |_| {});
    let outcome = within(put).await;
    assert!(matches!(outcome, Err(ClientError::Input(_))), "{outcome:?}");
    let missing = within(client.info(&key("half"))).await.expect_err("nothing was stored");
    assert_eq!(code(&missing), ClientErrorCode::NotFound);
    within(node.stop()).await;
}

#[tokio::test]
async fn another_node_is_asked_when_one_is_gone() {
    let first = start(None).await;
    let second = start(Some(&first)).await;
    let client = client(&[&first, &second]).await;
    let asked = within(client.identify()).await.expect("the first answers");
    assert_eq!(asked.contact.id, first.contact().id);
    within(first.stop()).await;
    let asked = within(client.identify()).await.expect("the second answers");
    assert_eq!(asked.contact.id, second.contact().id);
    assert_eq!(client.member().id(), second.contact().id);
    within(second.stop()).await;
}

#[tokio::test]
async fn a_pin_is_held_against_who_answers() {
    let node = start(None).await;
    let pinned = |id: Id| -> Vec<JoinAddr> {
        vec![format!("{id}@{}", node.listen()).parse().expect("an address")]
    };
    let right = Client::connect(ClientConfig::new(pinned(node.contact().id)));
    within(right).await.expect("it is the one");
    let wrong = Client::connect(ClientConfig::new(pinned(Id::from_u64(7))));
    let Err(ClientError::NoNode(attempts)) = within(wrong).await else { panic!("another one") };
    let is_wrong = |attempt: &Attempt| matches!(attempt.error, AttemptError::WrongId { presented } if presented == node.contact().id);
    assert!(attempts.len() == 1 && is_wrong(&attempts[0]), "{attempts:?}");
    let mut other_ring = ClientConfig::new(vec![addr(&node)]);
    other_ring.ring_name = "another".to_owned();
    let refused = within(Client::connect(other_ring)).await.expect_err("another ring");
    assert!(refused.to_string().contains("another name"), "{refused}");
    within(node.stop()).await;
}

/// A dead node, a name that does not exist and a live node: the live one is found. Where nothing
/// answers, the deadline ends it.
#[tokio::test]
async fn one_good_node_among_bad_ones_is_enough() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let silent = JoinAddr::from_socket(silent.local_addr().expect("it is bound"));
    let unknown: JoinAddr = "nope.invalid:1".parse().expect("a name");
    let node = start(None).await;
    let nodes = vec![silent.clone(), unknown, addr(&node)];
    let client = within(Client::connect(ClientConfig::new(nodes))).await.expect("one answers");
    assert_eq!(client.member().id(), node.contact().id);
    within(node.stop()).await;

    let mut hurried = ClientConfig::new(vec![silent]);
    hurried.deadline = Some(Duration::from_millis(100));
    let late = within(Client::connect(hurried)).await.expect_err("nobody answers");
    assert!(matches!(late, ClientError::Deadline { .. }), "{late}");
}

#[tokio::test]
async fn a_walk_and_a_survey_see_the_whole_ring() {
    let mut nodes = vec![start(None).await];
    for _ in 0..3 {
        nodes.push(start(nodes.first()).await);
    }
    let client = client(&[&nodes[2]]).await;
    let mut turn = tokio::time::interval(Duration::from_millis(20));
    let walk = within(async {
        loop {
            let walk = client.walk().await.expect("the member answers");
            if walk.complete && walk.problems.is_empty() && walk.members.len() == 4 {
                return walk;
            }
            turn.tick().await;
        }
    })
    .await;
    assert_eq!(walk.members[0].contact().id, nodes[2].contact().id, "it begins where it asked");
    let circle: f64 = walk.members.iter().map(|member| member.arc).sum();
    assert!((circle - 1.0).abs() < 1e-9 && walk.depth() == 16);

    let plan = SurveyPlan { samples: 400, seed: 1, routing: Routing::Successors, depth: 1 };
    let (mut told, mut silent) = (0, BTreeSet::new());
    let row = within(survey(&client, &walk, &mut silent, plan, |done| told = done)).await;
    let row = row.expect("measured");
    assert_eq!((row.hops.total() + row.failed, told), (400, 400));
    assert!(row.hops.max().is_some_and(|most| most <= 3), "three others: {row:?}");
    assert!(silent.is_empty());
    // Who was silent is not asked again, and where all were nobody is left to ask.
    silent.extend(walk.ids());
    let row = within(survey(&client, &walk, &mut silent, plan, |_| {})).await.expect("no lookups");
    assert_eq!((row.hops.total(), row.failed), (0, 400));
    for node in &nodes {
        within(node.stop()).await;
    }
}

#[tokio::test]
async fn a_leave_is_followed_to_its_end() {
    let stays = start(None).await;
    let goes = start(Some(&stays)).await;
    let client = client(&[&goes]).await;
    let mut input: &[u8] = b"kept";
    let (k, options) = (key("k"), PutOptions::new());
    let put = client.put(&k, &options, &mut input, |_| {});
    within(put).await.expect("stored");
    within(client.member().leave(|_| {})).await.expect("it may go");
    client.close().await;
    assert_eq!(within(goes.stopped()).await, StopReason::Left);
    let left = self::client(&[&stays]).await;
    let mut output = Vec::new();
    within(left.get(&key("k"), &mut output, |_, _| {})).await.expect("it was handed over");
    assert_eq!(output, b"kept");
    within(stays.stop()).await;
}

/// Gives some bytes, then an error.
struct Broken {
    left: usize,
}

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let some = self.left.min(buffer.remaining());
        buffer.put_slice(&vec![7; some]);
        self.left -= some;
        Poll::Ready(Ok(()))
    }
}
