//! Whole endpoints over real sockets on loopback.

mod dialing;
mod hostile;
mod requests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dht_core::config::RingParams;
use dht_core::message::bulk::{ChunkRequest, ChunkResponse};
use dht_core::message::client::{
    AdminRequest, AdminResponse, ClientErrorCode, ClientRequest, ClientResponse,
};
use dht_core::message::{Answer, Frame, Hello, Request, Response, RingId};
use dht_core::{PeerKey, PeerRecord};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{Endpoint, EndpointConfig, Identity, Incoming, Limits};

const RING: RingId = RingId(7);

/// An endpoint that answers: pings, chunks, admin requests; `Stats` is never answered.
struct TestNode {
    endpoint: Endpoint,
    identity: Arc<Identity>,
    served: Arc<AtomicU64>,
    /// How many requests were given up by their askers.
    dropped: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl TestNode {
    fn start(seed: u8) -> TestNode {
        TestNode::with(seed, |_| {})
    }

    fn with(seed: u8, change: impl FnOnce(&mut EndpointConfig)) -> TestNode {
        TestNode::with_hello(seed, change, |_| {})
    }

    fn with_hello(
        seed: u8,
        change: impl FnOnce(&mut EndpointConfig),
        say: impl FnOnce(&mut Hello),
    ) -> TestNode {
        let identity = Arc::new(Identity::from_seed([seed; 32]));
        let mut config = EndpointConfig::new("test");
        config.listen = Some(loopback(0));
        change(&mut config);
        let mut hello = Hello {
            ring: Some(RingParams::founding(RING, 3)),
            record: Some(identity.record(1, 0, vec![])),
            instance: u64::from(seed),
            observed: None,
            member: true,
        };
        say(&mut hello);
        let (endpoint, incoming) =
            Endpoint::bind(config, identity.clone(), hello.clone()).expect("a free port");
        if hello.record.is_some() {
            hello.record =
                Some(identity.record(1, 1, vec![loopback(endpoint.local_addr().port())]));
            endpoint.set_hello(hello);
        }
        let (served, dropped) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_all(incoming, served.clone(), dropped.clone()));
        TestNode { endpoint, identity, served, dropped, _tasks: tasks }
    }

    fn client() -> TestNode {
        TestNode::with_hello(
            255,
            |config| config.listen = None,
            |hello| {
                hello.ring = None;
                hello.record = None;
                hello.member = false;
            },
        )
    }

    /// Where it can be dialled.
    fn addr(&self) -> SocketAddr {
        loopback(self.endpoint.local_addr().port())
    }

    fn key(&self) -> PeerKey {
        self.identity.key()
    }

    fn record(&self) -> PeerRecord {
        self.identity.record(1, 1, vec![self.addr()])
    }

    async fn ping(&self, to: &PeerRecord) -> Result<(), crate::RequestError> {
        let reply = self.endpoint.request(to, ping()).await?;
        assert_eq!(reply.answer, Answer::Ring(Response::Done));
        Ok(())
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }

    /// Waits until `what` holds; far too long means that it never will.
    #[track_caller]
    fn until(&self, what: impl Fn(&TestNode) -> bool) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let began = tokio::time::Instant::now();
            while !what(self) {
                assert!(began.elapsed() < Duration::from_secs(60), "never, at {caller}");
                let _ =
                    tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>())
                        .await;
            }
        }
    }
}

async fn answer_all(
    mut incoming: mpsc::Receiver<Incoming>,
    served: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
) {
    let mut tasks = JoinSet::new();
    while let Some(request) = incoming.recv().await {
        served.fetch_add(1, Ordering::SeqCst);
        tasks.spawn(answer_one(request, dropped.clone()));
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer_one(mut request: Incoming, dropped: Arc<AtomicU64>) {
    let mut responder = request.responder;
    match request.frame {
        Frame::Ring { request: Request::Ping, .. } => {
            responder.answer(Answer::Ring(Response::Done)).await;
        }
        Frame::Chunk(ChunkRequest::Get { hash }) => {
            let len = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
            let found = Answer::Chunk(ChunkResponse::Found { len });
            let mut body = responder.answer_with_body(found).await;
            match body.write(content(len as usize)).await {
                Ok(()) => body.finish().expect("still open"),
                Err(_) => {
                    dropped.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        Frame::Chunk(ChunkRequest::Put { chunk }) => {
            let mut got = Vec::new();
            let whole = loop {
                match request.body.read(usize::MAX).await {
                    Ok(Some(bytes)) => got.extend_from_slice(&bytes),
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            let right = whole && *blake3::hash(&got).as_bytes() == chunk.hash;
            let answer = if right { ChunkResponse::Stored } else { ChunkResponse::Mismatch };
            if !whole {
                dropped.fetch_add(1, Ordering::SeqCst);
            }
            responder.answer(Answer::Chunk(answer)).await;
        }
        Frame::Client(ClientRequest::Stats) => {
            responder.closed().await;
            dropped.fetch_add(1, Ordering::SeqCst);
        }
        Frame::Client(ClientRequest::List { limit, .. }) => {
            let (code, message) = (ClientErrorCode::Failed, "y".repeat(limit as usize));
            responder.answer(Answer::Client(ClientResponse::Failed { code, message })).await;
        }
        Frame::Admin(AdminRequest::Leave) => {
            for missing in [None, Some(2), Some(0)] {
                responder.progress(Answer::Admin(AdminResponse::Leaving { missing })).await;
            }
            responder.answer(Answer::Admin(AdminResponse::Left)).await;
        }
        _ => responder.reset(3),
    }
}

fn ping() -> Frame {
    Frame::Ring { from: 0, to: 0, request: Request::Ping }
}

fn hang() -> Frame {
    Frame::Client(ClientRequest::Stats)
}

/// A question for so many bytes of [`content`].
fn get(len: u32) -> Frame {
    let mut hash = [0; 32];
    hash[..4].copy_from_slice(&len.to_be_bytes());
    Frame::Chunk(ChunkRequest::Get { hash })
}

fn content(len: usize) -> Bytes {
    (0..len).map(|n| (n % 251) as u8).collect::<Vec<u8>>().into()
}

fn loopback(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// Limits with short times, for tests that wait for them.
fn hasty() -> Limits {
    Limits {
        read_timeout: Duration::from_millis(200),
        handshake_timeout: Duration::from_millis(500),
        idle_timeout: Duration::from_millis(300),
        retire_after: Duration::from_millis(200),
        stall_timeout: Duration::from_millis(300),
        ..Limits::default()
    }
}

/// A port on which nothing listens but nothing else can either.
fn dead_port() -> (std::net::UdpSocket, SocketAddr) {
    let socket = std::net::UdpSocket::bind(loopback(0)).expect("a free port");
    let addr = socket.local_addr().expect("bound");
    (socket, addr)
}
