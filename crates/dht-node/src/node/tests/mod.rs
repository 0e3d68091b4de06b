//! Real nodes on loopback, in one process. Conditions are waited for, never times.

mod files;
mod forward;
mod life;
mod ring;

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dht_core::message::client::{
    ClientErrorCode, ClientRequest, ClientResponse, PutReport, PutRequest,
};
use dht_core::message::{Answer, Frame, Hello};
use dht_core::register::{Key, OperationId};
use dht_net::{Endpoint, EndpointConfig, Identity, Peer};

use tempfile::TempDir;

use super::{DataPlace, JoinAddr, Node, NodeConfig, StopReason};

/// Settings of a node that lives in a test: a free port, and upkeep five times as often.
fn config(join: &[SocketAddr]) -> NodeConfig {
    // Shown for tests that fail; a second call changes nothing.
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
    let mut config = NodeConfig::new(DataPlace::Ephemeral);
    config.listen = Some(([127, 0, 0, 1], 0).into());
    config.join = join.iter().copied().map(JoinAddr::from_socket).collect();
    config.core.stabilize_every = Duration::from_millis(200);
    config
}

async fn start(config: NodeConfig) -> Node {
    let node = Node::start(config).await.expect("the node starts");
    within(node.ready()).await.expect("the node finds its place");
    node
}

/// A ring of `count` nodes whose lists are complete.
async fn ring(count: usize) -> Vec<Node> {
    let mut nodes = vec![start(config(&[])).await];
    for _ in 1..count {
        let via = nodes[0].listen();
        nodes.push(start(config(&[via])).await);
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    nodes
}

/// Waits until these nodes and no others are in each other's lists, in ring order.
async fn whole(nodes: &[&Node]) {
    let mut ids: Vec<_> = nodes.iter().map(|node| node.contact().id).collect();
    ids.sort();
    until("the ring is whole", async || {
        for node in nodes {
            let Some(seen) = node.snapshot().await else { return false };
            let at = ids.iter().position(|id| *id == seen.me.id).expect("one of them");
            let expected: Vec<_> = (1..ids.len()).map(|n| ids[(at + n) % ids.len()]).collect();
            let listed: Vec<_> = seen.successors.iter().map(|contact| contact.id).collect();
            let predecessor = seen.predecessor.map(|contact| contact.id);
            if listed != expected || predecessor != expected.last().copied() {
                return false;
            }
        }
        true
    })
    .await;
}

/// Asks again and again until the condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let mut turn = tokio::time::interval(Duration::from_millis(20));
    let waiting = async {
        while !holds().await {
            turn.tick().await;
        }
    };
    if tokio::time::timeout(LIMIT, waiting).await.is_err() {
        panic!("it never came true that {what}");
    }
}

/// A future that must end at all.
async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(LIMIT, future).await.expect("it ends")
}

/// A client with a key of its own.
struct Client {
    endpoint: Endpoint,
}

impl Client {
    fn new() -> Client {
        let hello = Hello { ring: None, record: None, instance: 7, observed: None, member: false };
        let config = EndpointConfig::new("default");
        let bound = Endpoint::bind(config, Arc::new(Identity::generate()), hello);
        let (endpoint, _) = bound.expect("a free port");
        Client { endpoint }
    }

    async fn peer(&self, node: &Node) -> Peer {
        within(self.endpoint.dial(node.listen(), None)).await.expect("the node answers")
    }

    async fn ask(&self, node: &Node, request: ClientRequest) -> ClientResponse {
        let peer = self.peer(node).await;
        let reply = within(peer.request(Frame::Client(request))).await.expect("an answer");
        let Answer::Client(response) = reply.answer else { panic!("{:?}", reply.answer) };
        response
    }

    async fn put(&self, node: &Node, name: &str, content: &Bytes) -> PutReport {
        match self.try_put(node, name, content).await {
            Ok(report) => report,
            Err((code, message)) => panic!("put: {code:?}: {message}"),
        }
    }

    async fn try_put(
        &self,
        node: &Node,
        name: &str,
        content: &Bytes,
    ) -> Result<PutReport, (ClientErrorCode, String)> {
        let peer = self.peer(node).await;
        let frame = Frame::Client(ClientRequest::Put(put_request(name)));
        let (mut body, pending) = peer.request_body(frame).await.expect("a stream");
        within(body.write(content.clone())).await.expect("taken");
        body.finish().expect("ended");
        let reply = within(pending.into_future()).await.expect("an answer");
        match reply.answer {
            Answer::Client(ClientResponse::Stored(report)) => Ok(report),
            Answer::Client(ClientResponse::Failed { code, message }) => Err((code, message)),
            other => panic!("{other:?}"),
        }
    }

    /// The whole file, checked against its hash.
    async fn get(&self, node: &Node, name: &str) -> Result<Bytes, ClientErrorCode> {
        let peer = self.peer(node).await;
        let request = ClientRequest::Get { key: key(name) };
        let mut reply = within(peer.request(Frame::Client(request))).await.expect("an answer");
        let report = match reply.answer {
            Answer::Client(ClientResponse::Found(report)) => report,
            Answer::Client(ClientResponse::Failed { code, .. }) => return Err(code),
            other => panic!("{other:?}"),
        };
        let mut content = Vec::new();
        while let Some(piece) =
            within(reply.body.read(1 << 20)).await.map_err(|_| ClientErrorCode::Incomplete)?
        {
            content.extend_from_slice(&piece);
        }
        assert_eq!(content.len() as u64, report.size);
        assert_eq!(*blake3::hash(&content).as_bytes(), report.hash);
        Ok(content.into())
    }
}

fn put_request(name: &str) -> PutRequest {
    PutRequest {
        key: key(name),
        operation: OperationId(rand::random()),
        chunk_size: None,
        content_type: Some("text/plain".to_owned()),
        meta: [("a".to_owned(), "b".to_owned())].into(),
    }
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).expect("a short name")
}

/// Bytes that repeat nowhere, so that no two chunks are the same.
fn content(len: usize, seed: u8) -> Bytes {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes.into()
}

/// Far above what anything here takes, so that a loaded machine fails nothing.
const LIMIT: Duration = Duration::from_secs(120);

/// Settings of a node that keeps its data in a directory.
fn in_dir(dir: &TempDir, join: &[SocketAddr]) -> NodeConfig {
    let mut config = config(join);
    config.data = DataPlace::Dir(dir.path().to_owned());
    config
}

/// A ring with a node in each of these directories.
async fn ring_in(dirs: &[TempDir]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for dir in dirs {
        let via: Vec<SocketAddr> = nodes.first().map(Node::listen).into_iter().collect();
        nodes.push(start(in_dir(dir, &via)).await);
    }
    whole(&nodes.iter().collect::<Vec<_>>()).await;
    nodes
}
