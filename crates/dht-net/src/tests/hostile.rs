//! Peers that break rules, and limits that are reached.

use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::sync::{Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use dht_core::manifest::ChunkRef;
use dht_core::message::Refusal;
use dht_core::message::client::{ClientErrorCode, ClientResponse, PutRequest};
use dht_core::register::{Key, OperationId};
use futures_util::future::{join_all, select_all};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Connection, UdpPoller};

use super::*;
use crate::frame::{PREFIX, decode, encode};
use crate::{DialError, RequestError, codes};

/// A connection from `a` to `b` for bytes of any kind.
async fn raw(a: &TestNode, b: &TestNode) -> Connection {
    a.ping(&b.record()).await.expect("answered");
    a.endpoint.shared.table.current(&b.key()).expect("connected").connection.clone()
}

/// Sends these bytes as they are, and reads what comes back: an answer, or the number of a reset.
async fn say(connection: &Connection, bytes: &[u8], end: bool) -> Result<Answer, u64> {
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    send.write_all(bytes).await.expect("taken");
    if end {
        send.finish().expect("open");
    }
    match recv.read_to_end(1 << 20).await {
        Ok(answer) => Ok(decode(&answer[PREFIX..]).expect("an answer")),
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => Err(code.into_inner()),
        Err(error) => panic!("{error}"),
    }
}

/// A frame whose message has exactly so many bytes.
fn frame_of(len: usize) -> Frame {
    let put = |filling: usize| {
        Frame::Client(ClientRequest::Put(PutRequest {
            key: Key::new("k").expect("one byte"),
            operation: OperationId([0; 16]),
            chunk_size: None,
            content_type: Some("x".repeat(filling)),
            meta: Default::default(),
        }))
    };
    let rest = encode(&put(len), usize::MAX).expect("short").len() - PREFIX - len;
    let frame = put(len - rest);
    assert_eq!(encode(&frame, usize::MAX).expect("short").len() - PREFIX, len);
    frame
}

/// Case 63: exactly the limit passes, one byte more does not, in both directions.
#[tokio::test]
async fn the_frame_limit_is_exact() {
    let limit = Limits::default().max_frame;
    let generous = |config: &mut EndpointConfig| config.limits.max_frame = limit + 1;
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let c = TestNode::with(3, generous);
    // The answerer resets such requests with 3: it has got them whole.
    let taken = RequestError::Reset { code: 3 };
    for len in [limit - 1, limit] {
        let error = a.endpoint.request(&b.record(), frame_of(len)).await.expect_err("taken");
        assert_eq!(error, taken);
    }
    let error = a.endpoint.request(&b.record(), frame_of(limit + 1)).await.expect_err("too long");
    assert_eq!(error, RequestError::TooLarge { len: limit + 1, limit });
    // Whoever sends it all the same is told the limit.
    let reply = c.endpoint.request(&b.record(), frame_of(limit + 1)).await.expect("refused");
    assert_eq!(reply.answer, Answer::Refused(Refusal::TooLarge { limit: limit as u64 }));
    let error = b.endpoint.request(&c.record(), frame_of(limit)).await.expect_err("taken");
    assert_eq!(error, taken);
    assert_eq!((b.served(), c.served()), (2, 1));

    let longest = limit - 6;
    for (from, message, right) in [
        (&b, longest, true),
        (&c, longest, true),
        (&b, longest + 1, false),
        (&c, longest + 1, false),
    ] {
        let limit_of_list = message as u32;
        let list = ClientRequest::List { prefix: vec![], after: None, limit: limit_of_list };
        let answer = a.endpoint.request(&from.record(), Frame::Client(list)).await;
        let code = ClientErrorCode::Failed;
        let whole = ClientResponse::Failed { code, message: "y".repeat(message) };
        match answer {
            Ok(reply) if right => assert_eq!(reply.answer, Answer::Client(whole)),
            // `b` sees that it cannot answer, `c` answers more than `a` takes.
            Ok(reply) => {
                let refusal = Refusal::TooLarge { limit: limit as u64 };
                assert_eq!((from.key(), reply.answer), (b.key(), Answer::Refused(refusal)));
            }
            Err(error) => {
                assert_eq!((from.key(), right, error), (c.key(), false, RequestError::BadAnswer));
            }
        }
    }
}

/// Case 89: claimed lengths, half frames and garbage.
#[tokio::test]
async fn lengths_are_not_trusted() {
    let (a, b) = (TestNode::start(1), TestNode::with(2, |config| config.limits = hasty()));
    let connection = raw(&a, &b).await;
    let too_large =
        Answer::Refused(Refusal::TooLarge { limit: Limits::default().max_frame as u64 });
    let malformed = Answer::Refused(Refusal::Malformed);
    let quic_varint = [0xc0, 0, 0, 0, 0, 0, 0, 1];
    let ten_bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    // Without an end: the answer comes at once, not after a time-out.
    assert_eq!(say(&connection, &quic_varint, false).await, Ok(too_large.clone()));
    assert_eq!(say(&connection, &ten_bytes, false).await, Ok(too_large));
    let ping = encode(&ping(), 100).expect("short");
    for bytes in [&[][..], &[0], &[0, 0, 0, 0], &[0, 0, 0, 1, 99], &ping[..ping.len() - 1]] {
        assert_eq!(say(&connection, bytes, true).await, Ok(malformed.clone()), "{bytes:?}");
    }
    let mut one_more = ping.to_vec();
    one_more[3] += 1;
    one_more.push(0);
    assert_eq!(say(&connection, &one_more, true).await, Ok(malformed));
    // A right header, and then silence.
    for bytes in [&[0][..], &ping[..PREFIX], &ping[..ping.len() - 1]] {
        assert_eq!(say(&connection, bytes, false).await, Err(codes::TIMED_OUT), "{bytes:?}");
    }
    assert_eq!(b.served(), 1);
    a.ping(&b.record()).await.expect("the connection is as good as before");
}

#[tokio::test]
async fn nothing_is_answered_before_the_hello() {
    let (a, b) = (TestNode::start(1), TestNode::with(2, |config| config.limits = hasty()));
    let dial = || crate::dial::handshake(&a.endpoint.shared, b.addr(), Some(b.key()));
    let link = dial().await.expect("a handshake");
    let ping = encode(&ping(), 100).expect("short");
    for _ in 0..3 {
        let refused = Ok(Answer::Refused(Refusal::NoHello));
        assert_eq!(say(&link.connection, &ping, true).await, refused);
    }
    assert!(link.tell().await.is_ok(), "a late hello is one");
    assert_eq!(b.endpoint.connections(), 1);
    // Without any, the connection is closed.
    let link = dial().await.expect("a handshake");
    let quinn::ConnectionError::ApplicationClosed(close) = link.connection.closed().await else {
        panic!("not closed by the other side");
    };
    assert_eq!(close.error_code, codes::BAD_HELLO.into());
    assert_eq!(b.served(), 0);
}

/// Case 91: ten times the limit of streams, opened and given up in every way.
#[tokio::test]
async fn streams_given_up_leave_no_trace() {
    let few = |config: &mut EndpointConfig| config.limits.max_streams_per_peer = 8;
    let (a, b) = (TestNode::with(1, few), TestNode::with(2, few));
    let connection = raw(&a, &b).await;
    let frame = encode(&ping(), 100).expect("short");
    let ways: [(&str, &[u8], [u8; 3]); 9] = [
        ("nothing", b"", *b"---"),
        ("reset before a byte", b"", *b"r--"),
        ("stopped before a byte", b"", *b"s--"),
        ("half a frame, reset", &frame[..5], *b"r--"),
        ("half a frame, stopped, reset", &frame[..5], *b"sr-"),
        ("a frame, reset, stopped", &frame, *b"rs-"),
        ("a frame, finished, stopped", &frame, *b"fs-"),
        ("a frame, finished, reset, stopped", &frame, *b"frs"),
        ("a frame, finished, dropped", &frame, *b"f--"),
    ];
    for (name, bytes, steps) in ways {
        for _ in 0..80 {
            let opened = tokio::time::timeout(Duration::from_secs(30), connection.open_bi()).await;
            let (mut send, mut recv) = opened.expect(name).expect("connected");
            send.write_all(bytes).await.expect("taken");
            for step in steps {
                // Each may come too late to matter.
                let _ = match step {
                    b'r' => send.reset(7u32.into()),
                    b's' => recv.stop(7u32.into()),
                    b'f' => send.finish(),
                    _ => Ok(()),
                };
            }
        }
        a.ping(&b.record()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    b.until(|b| b.endpoint.shared.table.all().iter().all(|link| link.is_idle())).await;
}

/// Case 91: at the limit the next request waits for its turn.
#[tokio::test]
async fn at_the_stream_limit_requests_wait_their_turn() {
    let few = |config: &mut EndpointConfig| config.limits.max_streams_per_peer = 16;
    let (a, b) = (TestNode::with(1, few), TestNode::with(2, few));
    let record = b.record();
    let mut hanging: Vec<_> =
        (0..16).map(|_| Box::pin(a.endpoint.request(&record, hang()))).collect();
    tokio::select! {
        _ = select_all(hanging.iter_mut()) => panic!("nobody answers this"),
        () = b.until(|b| b.served() >= 14) => {}
    }
    let mut next = std::pin::pin!(a.ping(&record));
    tokio::select! {
        _ = &mut next => panic!("there is no stream for it"),
        _ = tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>()) => {}
    }
    // quinn tells of free streams only once more than an eighth of them are.
    hanging.truncate(8);
    next.await.expect("its turn");
}

/// Case 95: a peer that asks for much and reads nothing harms only itself.
#[tokio::test]
async fn a_greedy_peer_does_not_starve_others() {
    let (greedy, b, modest) = (TestNode::start(1), TestNode::start(2), TestNode::start(3));
    let connection = raw(&greedy, &b).await;
    let frame = encode(&get(8 << 20), 100).expect("short");
    let mut unread = Vec::new();
    for _ in 0..100 {
        let (mut send, recv) = connection.open_bi().await.expect("a stream");
        send.write_all(&frame).await.expect("taken");
        send.finish().expect("open");
        unread.push(recv);
    }
    b.until(|b| b.served() == 101).await;
    let record = b.record();
    let mut reply = modest.endpoint.request(&record, get(1 << 20)).await.expect("answered");
    let mut len = 0;
    while let Some(bytes) = reply.body.read(1 << 20).await.expect("no reset") {
        len += bytes.len();
    }
    assert_eq!(len, 1 << 20);
}

/// Whoever keeps to the rules may leave its bodies unread: upkeep goes on over the same connection.
#[tokio::test]
async fn bodies_that_stand_still_hold_up_no_control_message() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let (to_a, to_b) = (a.record(), b.record());
    let most = Limits::default().max_bulk_per_peer;
    let mut unread = Vec::new();
    for _ in 0..most {
        unread.push(a.endpoint.request(&to_b, get(8 << 20)).await.expect("answered"));
        unread.push(b.endpoint.request(&to_a, get(8 << 20)).await.expect("answered"));
    }
    // The next one waits until another body is done.
    let mut next = std::pin::pin!(a.endpoint.request(&to_b, get(1)));
    tokio::select! {
        _ = &mut next => panic!("it should wait"),
        _ = tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>()) => {}
    }
    for _ in 0..100 {
        a.ping(&to_b).await.expect("not held up");
        b.ping(&to_a).await.expect("not held up");
    }
    unread.remove(0);
    next.await.expect("its turn");
    assert_eq!(a.endpoint.connections(), 1);
}

#[tokio::test]
async fn a_slow_owner_sheds_requests_in_the_end() {
    let a = TestNode::start(1);
    let identity = Arc::new(Identity::from_seed([2; 32]));
    let mut config = EndpointConfig::new("test");
    config.listen = Some(loopback(0));
    config.limits = Limits { max_queued: 1, ..hasty() };
    let hello = Hello { ring: None, record: None, instance: 2, observed: None, member: false };
    let (b, mut incoming) = Endpoint::bind(config, identity.clone(), hello).expect("a free port");
    let record = identity.record(1, 0, vec![b.local_addr()]);
    let answers = join_all((0..3).map(|_| a.endpoint.request(&record, hang())));
    let answers = tokio::time::timeout(Duration::from_secs(2), answers);
    let ((), unanswered) = tokio::join!(
        async {
            let kept = incoming.recv().await.expect("the first");
            let _ =
                tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
            drop(kept);
            incoming.close();
            while incoming.recv().await.is_some() {}
        },
        answers
    );
    let mut overloaded = 0;
    for answer in unanswered.expect("all were told something") {
        match answer {
            Ok(reply) => {
                assert!(matches!(reply.answer, Answer::Refused(Refusal::Overloaded { .. })));
                overloaded += 1;
            }
            Err(error) => assert_eq!(error, RequestError::Reset { code: codes::CANCELLED }),
        }
    }
    assert_eq!(overloaded, 1, "one was served, one waited, one was shed");
}

/// Case 86: first packets without an end do not keep honest callers out.
#[tokio::test]
async fn half_open_handshakes_keep_nobody_out() {
    let few = |config: &mut EndpointConfig| config.limits.max_handshakes = 32;
    let (a, b) = (TestNode::with(1, few), TestNode::start(2));
    let (_deaf, _sent) = call_deafly(a.addr(), 1000);
    a.until(|a| a.endpoint.shared.handshakes.load(Ordering::Relaxed) >= 8).await;
    b.ping(&a.record()).await.expect("answered");
    let under_way = a.endpoint.shared.handshakes.load(Ordering::Relaxed);
    assert!(under_way <= 9, "{under_way} of the unproven hold a place");
}

/// Case 87: random and mutated first packets.
#[tokio::test]
async fn broken_packets_do_no_harm() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let (_deaf, sent) = call_deafly(a.addr(), 1);
    a.until(|_| !sent.lock().expect("one writer").is_empty()).await;
    let first = sent.lock().expect("one writer")[0].clone();
    let socket = std::net::UdpSocket::bind(loopback(0)).expect("a free port");
    // A small generator of Lehmer's kind: the same packets in every run.
    let mut state = 1u64;
    let mut random = move || {
        state = state * 48271 % 0x7fff_ffff;
        state as usize
    };
    for _ in 0..2000 {
        let mut packet = first.clone();
        for _ in 0..=random() % 8 {
            let at = random() % packet.len();
            packet[at] = random() as u8;
        }
        packet.truncate(packet.len() - random() % 3 * (random() % 100));
        socket.send_to(&packet, a.addr()).expect("sent");
        let noise: Vec<u8> = (0..random() % 1400).map(|_| random() as u8).collect();
        socket.send_to(&noise, a.addr()).expect("sent");
    }
    b.ping(&a.record()).await.expect("alive");
    assert!(a.endpoint.is_healthy());
}

/// A caller's certificate of the wrong shape is an error of the handshake, and no more. Case 87.
#[tokio::test]
async fn a_caller_without_a_key_gets_nowhere() {
    let a = TestNode::start(1);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("tls 1.3")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![crate::about::About::new("test").alpn()];
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).expect("tls 1.3");
    let client = quinn::Endpoint::client(loopback(0)).expect("a free port");
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let connecting = client.connect_with(config, a.addr(), "dht-node").expect("started");
    assert!(connecting.await.is_err());
    TestNode::start(2).ping(&a.record()).await.expect("alive");
    assert!(a.endpoint.is_healthy());
}

/// Many callers who hear nothing of what is answered.
fn call_deafly(addr: SocketAddr, calls: usize) -> (quinn::Endpoint, Arc<Mutex<Vec<Vec<u8>>>>) {
    let udp = std::net::UdpSocket::bind(loopback(0)).expect("a free port");
    let inner = quinn::Runtime::wrap_udp_socket(&quinn::TokioRuntime, udp).expect("wrapped");
    let sent = Arc::default();
    let socket = Arc::new(Deaf { inner, sent: Arc::downgrade(&sent) });
    let config = quinn::EndpointConfig::default();
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = quinn::Endpoint::new_with_abstract_socket(config, None, socket, runtime);
    let endpoint = endpoint.expect("an endpoint");
    let identity = Identity::from_seed([50; 32]);
    let tls = crate::tls::Tls::new(&identity, &crate::about::About::new("test")).expect("ed25519");
    for _ in 0..calls {
        let config = Arc::new(tls.client(None).expect("tls 1.3").config);
        let config = quinn::ClientConfig::new(config);
        let connecting = endpoint.connect_with(config, addr, "dht-node").expect("started");
        // Kept alive by nobody, it would say goodbye.
        std::mem::forget(connecting);
    }
    (endpoint, sent)
}

#[derive(Debug)]
struct Deaf {
    inner: Arc<dyn AsyncUdpSocket>,
    sent: Weak<Mutex<Vec<Vec<u8>>>>,
}

impl AsyncUdpSocket for Deaf {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if let Some(sent) = self.sent.upgrade() {
            sent.lock().expect("one writer").push(transmit.contents.to_vec());
        }
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

#[tokio::test]
async fn an_oversized_chunk_claim_is_malformed() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let chunk = ChunkRef { hash: [0; 32], len: u32::MAX };
    let frame = Frame::Chunk(dht_core::message::ChunkRequest::Put { chunk });
    let reply = a.endpoint.request(&b.record(), frame).await.expect("refused");
    assert_eq!(reply.answer, Answer::Refused(Refusal::Malformed));
    let error = a.endpoint.dial(loopback(9), Some(b.key())).await.map(|peer| peer.key);
    assert_eq!(error, Ok::<_, DialError>(b.key()), "the connection is used again");
}
