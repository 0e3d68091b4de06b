//! What dht-net really sends, beside what the simulator believes it sends
//! (`dht_sim::traffic::cost`). Printed by
//! `cargo test -p dht-node --test traffic -- --nocapture --include-ignored`.
//!
//! Two endpoints talk over loopback through a relay that counts datagrams. It can lose those that
//! would not fit a packet of the internet, and all of them, as if the peer were dead.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dht_core::config::RingParams;
use dht_core::message::ring::Neighbors;
use dht_core::message::{Answer, Frame, Hello, Request, Response, RingId};
use dht_core::{Contact, PeerRecord};
use dht_net::{Endpoint, EndpointConfig, Identity, Incoming};
use dht_sim::traffic::cost::{self, Cost, Path};
use dht_sim::traffic::{answer_len, request_len};
use tokio::sync::{Notify, mpsc};

/// A real incarnation: seconds since 1970, and 16 bits drawn at random.
const INCARNATION: u64 = 1_700_000_000 << 16;

/// What has passed.
struct Relay {
    addr: SocketAddr,
    datagrams: AtomicU64,
    bytes: AtomicU64,
    is_shut: AtomicBool,
    /// Told of every datagram.
    passed: Notify,
}

impl Relay {
    /// Between whoever calls and `to`; UDP payloads longer than `longest` are counted and lost.
    fn start(to: SocketAddr, longest: usize) -> Arc<Relay> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let relay = Arc::new(Relay {
            addr: socket.local_addr().expect("bound"),
            datagrams: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_shut: AtomicBool::new(false),
            passed: Notify::new(),
        });
        let shared = relay.clone();
        // Ends with the process: nobody waits for a relay.
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            let mut caller = to;
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                if from != to {
                    caller = from;
                }
                shared.datagrams.fetch_add(1, Ordering::SeqCst);
                shared.bytes.fetch_add(len as u64, Ordering::SeqCst);
                shared.passed.notify_one();
                if len <= longest && !shared.is_shut.load(Ordering::SeqCst) {
                    let next = if from == to { caller } else { to };
                    // Who is gone gets nothing.
                    let _ = socket.send_to(&buffer[..len], next);
                }
            }
        });
        relay
    }

    /// Waits until nothing has passed for a while, and takes what has passed till then.
    async fn take(&self, calm: Duration) -> Cost {
        while tokio::time::timeout(calm, self.passed.notified()).await.is_ok() {}
        let payload = self.bytes.swap(0, Ordering::SeqCst);
        Cost::of(payload, self.datagrams.swap(0, Ordering::SeqCst))
    }
}

fn endpoint(seed: u8, longest: u16) -> (Endpoint, mpsc::Receiver<Incoming>, Arc<Identity>) {
    let identity = Arc::new(Identity::from_seed([seed; 32]));
    let mut config = EndpointConfig::new("test");
    config.listen = Some(([127, 0, 0, 1], 0).into());
    config.limits.max_udp_payload = longest;
    let record = |revision, addrs| Some(identity.record(INCARNATION, revision, addrs));
    let mut hello = Hello {
        ring: Some(RingParams::founding(RingId(7 << 100), 3)),
        record: record(0, Vec::new()),
        instance: u64::MAX / u64::from(seed),
        observed: None,
        member: true,
    };
    let (endpoint, incoming) =
        Endpoint::bind(config, identity.clone(), hello.clone()).expect("a free port");
    hello.record = record(1, vec![endpoint.local_addr()]);
    endpoint.set_hello(hello);
    (endpoint, incoming, identity)
}

fn contacts(count: u8) -> Vec<Contact> {
    let at = |seed: u8| {
        let addrs = vec![([203, 0, 113, 7], 4433).into()];
        let record = Identity::from_seed([seed; 32]).record(INCARNATION, 1, addrs);
        Contact::new(Arc::new(record), 0)
    };
    (100..100 + count).map(at).collect()
}

fn neighbors() -> Response {
    let predecessor = contacts(17).pop();
    Response::Neighbors(Neighbors {
        stamp: 1,
        predecessor,
        successors: contacts(16),
        leaving: false,
    })
}

async fn answer_all(mut incoming: mpsc::Receiver<Incoming>) {
    while let Some(request) = incoming.recv().await {
        let answer = match request.frame {
            Frame::Ring { request: Request::Neighbors { .. }, .. } => neighbors(),
            _ => Response::Done,
        };
        request.responder.answer(Answer::Ring(answer)).await;
    }
}

/// One endpoint that asks another one through a relay.
struct Pair {
    relay: Arc<Relay>,
    asker: Endpoint,
    record: PeerRecord,
    _answerer: Endpoint,
    _serving: tokio::task::JoinSet<()>,
}

impl Pair {
    /// Endpoints that look for datagrams up to `longest`, on a path that takes `fits`.
    fn start(longest: u16, fits: usize) -> Pair {
        let (asker, incoming, _) = endpoint(1, longest);
        let (answerer, requests, identity) = endpoint(2, longest);
        let relay = Relay::start(answerer.local_addr(), fits);
        let record = identity.record(INCARNATION, 1, vec![relay.addr]);
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(answer_all(incoming));
        serving.spawn(answer_all(requests));
        Pair { relay, asker, record, _answerer: answerer, _serving: serving }
    }

    async fn ask(&self, request: Request) {
        let frame = Frame::Ring { from: 0, to: 0, request };
        self.asker.request(&self.record, frame).await.expect("it answers");
    }

    /// What one exchange takes: the middle of five, since an acknowledgement may come alone or not.
    async fn exchange(&self, request: Request) -> Cost {
        let mut costs = Vec::new();
        for _ in 0..5 {
            self.ask(request.clone()).await;
            costs.push(self.relay.take(CALM).await);
        }
        costs.sort_by_key(|cost| cost.bytes);
        costs[2]
    }
}

/// Longer than the 25 ms that an acknowledgement may wait, and than most retransmissions.
const CALM: Duration = Duration::from_millis(250);

/// Prints both, and holds the model within a share of what was measured.
fn compare(name: &str, model: Cost, measured: Cost, share: f64) {
    let show = |cost: Cost| format!("{} bytes in {} datagrams", cost.payload(), cost.datagrams);
    println!("{name}: measured {}, model {}", show(measured), show(model));
    let off = (model.bytes as f64 - measured.bytes as f64).abs();
    assert!(off <= share * measured.bytes as f64, "{name}: {model:?}, but {measured:?}");
}

fn exchange_of(path: Path, request: &Request, response: &Response) -> Cost {
    // Contacts here are real ones, and the model adds what simulated ones lack.
    let surplus = |contacts: usize| contacts * 13;
    let (asked, answered) = match (request, response) {
        (Request::Notify { predecessors }, _) => (surplus(predecessors.len()), 0),
        (_, Response::Neighbors(_)) => (0, surplus(17)),
        _ => (0, 0),
    };
    let request = path.request(request_len(request) - asked);
    request.and(path.answer(answer_len(response) - answered))
}

#[tokio::test]
async fn the_model_sends_what_real_endpoints_send() {
    let plain = Pair::start(1200, 65_535);
    plain.ask(Request::Ping).await;
    let first = plain.relay.take(CALM).await;
    let ping = plain.exchange(Request::Ping).await;
    let path = Path::Undiscovered;
    compare("ping", exchange_of(path, &Request::Ping, &Response::Done), ping, 0.1);
    let opened =
        Cost { bytes: first.bytes - ping.bytes, datagrams: first.datagrams - ping.datagrams };
    compare("handshake", path.handshake(), opened, 0.1);

    let default = dht_net::Limits::default().max_udp_payload;
    for (path, fits) in [(Path::Internet, 1472), (Path::Loopback, 65_535)] {
        let pair = Pair::start(default, fits);
        pair.ask(Request::Ping).await;
        // Lost probes are sent again a few times a second.
        let all = pair.relay.take(4 * CALM).await;
        let searched =
            Cost { bytes: all.bytes - first.bytes, datagrams: all.datagrams - first.datagrams };
        compare(&format!("discovery, {path:?}"), path.discovery(), searched, 0.25);
        let asked = Request::Neighbors { stamp: None };
        let measured = pair.exchange(asked.clone()).await;
        let model = exchange_of(path, &asked, &neighbors());
        compare(&format!("STABILIZE with 16 contacts, {path:?}"), model, measured, 0.1);
        let asked = Request::Notify { predecessors: contacts(5) };
        let measured = pair.exchange(asked.clone()).await;
        let model = exchange_of(path, &asked, &Response::Done);
        compare(&format!("notify with 5 contacts, {path:?}"), model, measured, 0.1);
    }
}

#[tokio::test]
#[ignore = "waits for the time-outs of QUIC, nearly two minutes; measures what is sent to the dead"]
async fn the_model_sends_to_the_dead_and_keeps_alive_as_real_endpoints_do() {
    let long = Duration::from_secs(31);
    let idle = Pair::start(1200, 65_535);
    idle.ask(Request::Ping).await;
    idle.relay.take(CALM).await;
    compare("idle for 30 s, and closed", cost::idle(long), idle.relay.take(long / 2).await, 0.25);

    let (asker, _incoming, _) = endpoint(3, 1200);
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let relay = Relay::start(nobody.local_addr().expect("bound"), 65_535);
    let record = Identity::from_seed([77; 32]).record(INCARNATION, 1, vec![relay.addr]);
    let ping = Frame::Ring { from: 0, to: 0, request: Request::Ping };
    let asked = asker.request(&record, ping.clone());
    assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err());
    compare("dial of the dead", cost::DEAD_DIAL, relay.take(long / 3).await, 0.25);

    let pair = Pair::start(1200, 65_535);
    pair.ask(Request::Ping).await;
    pair.relay.take(CALM).await;
    pair.relay.is_shut.store(true, Ordering::SeqCst);
    // The answerer lives here, and would send its own signs of life.
    let Pair { relay, asker, record, _answerer, _serving } = pair;
    _answerer.abort(Duration::ZERO).await;
    let asked = asker.request(&record, ping);
    assert!(tokio::time::timeout(Duration::from_millis(300), asked).await.is_err());
    compare("request to the dead", cost::FIRST_UNANSWERED, relay.take(long).await, 0.25);
}
