//! Requests per second and bulk throughput between two endpoints in one process, each on a runtime
//! thread of its own, as a node runs it. For a ratio to bare QUIC on the same machine.
//!
//! `cargo run --release -p dht-net --example rpc_rate [seconds per row]`

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dht_core::PeerRecord;
use dht_core::manifest::ChunkRef;
use dht_core::message::{Answer, ChunkRequest, ChunkResponse, Frame, Hello, Request, Response};
use dht_net::{Endpoint, EndpointConfig, Identity, Incoming};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let time = Duration::from_secs_f64(seconds);
    let (started, record) = oneshot::channel();
    let server = thread::spawn(move || runtime().block_on(serve(started)));
    runtime().block_on(async {
        let record = record.await.expect("the server has started");
        let (endpoint, _incoming, _) = start();
        for in_flight in [1, 16, 64] {
            let rate = requests(&endpoint, &record, in_flight, time).await;
            say(format_args!("{in_flight:3} requests in flight   {rate:9.0} /s"));
        }
        for streams in [1, 3] {
            let rate = bulk(&endpoint, &record, streams, time, get).await;
            say(format_args!("{streams:3} chunks fetched at once {rate:9.1} MiB/s"));
            let rate = bulk(&endpoint, &record, streams, time, put).await;
            say(format_args!("{streams:3} chunks sent at once    {rate:9.1} MiB/s"));
        }
        endpoint.close(Duration::from_secs(1)).await;
    });
    drop(server);
}

fn say(line: std::fmt::Arguments<'_>) {
    writeln!(std::io::stdout(), "{line}").expect("somebody reads");
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn start() -> (Endpoint, mpsc::Receiver<Incoming>, PeerRecord) {
    let identity = Arc::new(Identity::generate());
    let mut config = EndpointConfig::new("rates");
    config.listen = Some(([127, 0, 0, 1], 0).into());
    let mut hello = Hello {
        ring: None,
        record: Some(identity.record(1, 0, vec![])),
        instance: u64::from(identity.key().0[0]),
        observed: None,
        member: false,
    };
    let (endpoint, incoming) =
        Endpoint::bind(config, identity.clone(), hello.clone()).expect("a free port");
    let record = identity.record(1, 1, vec![endpoint.local_addr()]);
    hello.record = Some(record.clone());
    endpoint.set_hello(hello);
    (endpoint, incoming, record)
}

async fn serve(started: oneshot::Sender<PeerRecord>) {
    let (_endpoint, mut incoming, record) = start();
    started.send(record).expect("somebody waits");
    let mut tasks = JoinSet::new();
    while let Some(request) = incoming.recv().await {
        tasks.spawn(answer(request));
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer(mut request: Incoming) {
    match request.frame {
        Frame::Chunk(ChunkRequest::Get { .. }) => {
            let found = Answer::Chunk(ChunkResponse::Found { len: CHUNK as u32 });
            let mut body = request.responder.answer_with_body(found).await;
            if body.write(Bytes::from_static(&ZEROS)).await.is_ok() {
                let _ = body.finish();
            }
        }
        Frame::Chunk(_) => {
            while let Ok(Some(_)) = request.body.read(CHUNK).await {}
            request.responder.answer(Answer::Chunk(ChunkResponse::Stored)).await;
        }
        _ => request.responder.answer(Answer::Ring(Response::Done)).await,
    }
}

/// Answers per second.
async fn requests(endpoint: &Endpoint, to: &PeerRecord, in_flight: usize, time: Duration) -> f64 {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight {
        let (endpoint, to) = (endpoint.clone(), to.clone());
        tasks.spawn(async move {
            let mut answered = 0u64;
            while began.elapsed() < time {
                let ping = Frame::Ring { from: 0, to: 0, request: Request::Ping };
                endpoint.request(&to, ping).await.expect("answered");
                answered += 1;
            }
            answered
        });
    }
    let answered: u64 = tasks.join_all().await.into_iter().sum();
    answered as f64 / began.elapsed().as_secs_f64()
}

/// MiB per second.
async fn bulk<F>(
    endpoint: &Endpoint,
    to: &PeerRecord,
    streams: usize,
    time: Duration,
    one: fn(Endpoint, PeerRecord) -> F,
) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        let (endpoint, to) = (endpoint.clone(), to.clone());
        tasks.spawn(async move {
            let mut chunks = 0u64;
            while began.elapsed() < time {
                one(endpoint.clone(), to.clone()).await;
                chunks += 1;
            }
            chunks
        });
    }
    let chunks: u64 = tasks.join_all().await.into_iter().sum();
    (chunks * CHUNK as u64) as f64 / f64::from(1 << 20) / began.elapsed().as_secs_f64()
}

async fn get(endpoint: Endpoint, to: PeerRecord) {
    let frame = Frame::Chunk(ChunkRequest::Get { hash: [0; 32] });
    let mut reply = endpoint.request(&to, frame).await.expect("answered");
    while reply.body.read(CHUNK).await.expect("no reset").is_some() {}
}

async fn put(endpoint: Endpoint, to: PeerRecord) {
    let chunk = ChunkRef { hash: [0; 32], len: CHUNK as u32 };
    let frame = Frame::Chunk(ChunkRequest::Put { chunk });
    let (mut body, reply) = endpoint.request_body(&to, frame).await.expect("opened");
    body.write(Bytes::from_static(&ZEROS)).await.expect("taken");
    body.finish().expect("open");
    reply.await.expect("answered");
}

/// Length of a chunk in bytes.
const CHUNK: usize = 1 << 20;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
