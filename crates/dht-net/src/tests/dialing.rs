//! Who answers where, and what is made of it.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use dht_core::message::Refusal;
use futures_util::future::join_all;

use super::*;
use crate::about::About;
use crate::{BindError, DialError, Lost, RequestError};

/// Case 1: a node that dials itself notices at once.
#[tokio::test]
async fn dialling_oneself_is_recognised() {
    let a = TestNode::start(1);
    let addr = a.addr();
    for expect in [None, Some(a.key())] {
        assert_eq!(a.endpoint.dial(addr, expect).await.err(), Some(DialError::Myself { addr }));
    }
    assert_eq!(a.ping(&a.record()).await, Err(RequestError::Myself { addr }));
    assert_eq!((a.endpoint.connections(), a.served()), (0, 0));
}

/// Case 11: two processes with one key notice each other.
#[tokio::test]
async fn a_copied_identity_is_recognised() {
    let a = TestNode::start(1);
    let twin = TestNode::with_hello(1, |_| {}, |hello| hello.instance = 77);
    let addr = a.addr();
    assert_eq!(twin.endpoint.dial(addr, None).await.err(), Some(DialError::SameIdentity { addr }));
    assert_eq!(twin.ping(&a.record()).await, Err(RequestError::SameIdentity { addr }));
    // A third party that talks to both is not torn between them.
    let third = TestNode::start(3);
    for _ in 0..3 {
        a.ping(&third.record()).await.expect("answered");
        twin.ping(&third.record()).await.expect("answered");
    }
    assert_eq!((a.endpoint.connections(), twin.endpoint.connections()), (1, 1));
}

/// Case 11: what is meant for the life that others know goes there, not to a later process with the
/// same key, as long as the earlier one can be reached.
#[tokio::test]
async fn a_later_process_does_not_answer_for_an_earlier_life() {
    let (a, third) = (TestNode::start(1), TestNode::start(3));
    a.ping(&third.record()).await.expect("answered");
    let twin = TestNode::with_hello(1, |_| {}, |hello| hello.instance = 77);
    let later = twin.identity.record(2, 0, vec![twin.addr()]);
    twin.endpoint.set_hello(Hello {
        ring: Some(RingParams::founding(RING, 3)),
        record: Some(later.clone()),
        instance: 77,
        observed: None,
        member: true,
    });
    twin.ping(&third.record()).await.expect("answered");
    for asked in 1..=3 {
        third.ping(&a.record()).await.expect("answered");
        assert_eq!((a.served(), twin.served()), (asked, 0));
    }
    third.ping(&later).await.expect("answered");
    assert_eq!((a.served(), twin.served()), (3, 1));
    // The earlier one is gone: whoever has the key now answers.
    a.endpoint.close(Duration::from_secs(2)).await;
    third.until(|third| third.endpoint.connections() == 1).await;
    third.ping(&a.record()).await.expect("answered");
    assert_eq!(twin.served(), 2);
}

#[tokio::test]
async fn only_the_expected_key_will_do() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let (addr, presented) = (b.addr(), b.key());
    let expected = Identity::from_seed([9; 32]).key();
    let wrong = DialError::WrongPeer { addr, expected, presented };
    let stale = Identity::from_seed([9; 32]).record(1, 0, vec![addr]);
    assert_eq!(a.ping(&stale).await, Err(RequestError::Dial(wrong.clone())));
    // The address is left alone for the absent peer, not for the one that is there.
    let error = a.ping(&stale).await.expect_err("left alone");
    assert!(matches!(error, RequestError::Dial(DialError::BackingOff { .. })), "{error:?}");
    a.ping(&b.record()).await.expect("answered");
    assert_eq!(b.served(), 1);
    // Who dials an address by name does not wait.
    let c = TestNode::start(3);
    assert_eq!(c.endpoint.dial(addr, Some(expected)).await.err(), Some(wrong.clone()));
    assert_eq!(c.endpoint.dial(addr, Some(expected)).await.err(), Some(wrong));
}

#[tokio::test]
async fn other_names_and_versions_are_told_apart() {
    let a = TestNode::start(1);
    let other_name = TestNode::with(2, |config| config.ring_name = "another".to_owned());
    let addr = other_name.addr();
    assert_eq!(a.endpoint.dial(addr, None).await.err(), Some(DialError::OtherRingName { addr }));
    let later = About { version: 9, ..About::new("test") };
    let (_quiet, addr) = foreign_server(later.alpn(), Some(later));
    let error = DialError::OtherVersion { addr, ours: 1, theirs: 9 };
    assert_eq!(a.endpoint.dial(addr, None).await.err(), Some(error));
}

/// Case 22: whoever speaks another protocol is not taken for a peer.
#[tokio::test]
async fn a_foreign_server_is_no_peer() {
    let a = TestNode::start(1);
    let (_quiet, addr) = foreign_server(b"h3".to_vec(), None);
    assert_eq!(a.endpoint.dial(addr, None).await.err(), Some(DialError::OtherProtocol { addr }));
    let record = Identity::from_seed([9; 32]).record(1, 0, vec![addr]);
    let error = RequestError::Dial(DialError::OtherProtocol { addr });
    assert_eq!(a.ping(&record).await, Err(error));
    assert_eq!(a.endpoint.connections(), 0);
}

#[tokio::test]
async fn silence_is_no_answer_and_is_left_alone_for_a_while() {
    let a = TestNode::with(1, |config| config.limits = hasty());
    let (_socket, addr) = dead_port();
    assert_eq!(a.endpoint.dial(addr, None).await.err(), Some(DialError::NoAnswer { addr }));
    let record = Identity::from_seed([9; 32]).record(1, 0, vec![addr]);
    assert_eq!(a.ping(&record).await, Err(RequestError::Dial(DialError::NoAnswer { addr })));
    let sent = a.endpoint.traffic().bytes_out;
    let error = a.ping(&record).await.expect_err("left alone");
    assert!(matches!(error, RequestError::Dial(DialError::BackingOff { .. })), "{error:?}");
    assert_eq!(a.endpoint.traffic().bytes_out, sent);
    let nowhere = Identity::from_seed([9; 32]).record(1, 1, vec![]);
    assert_eq!(a.ping(&nowhere).await, Err(RequestError::Dial(DialError::NoAddress)));
    let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 9);
    let error = a.endpoint.dial(v6, None).await.err();
    assert_eq!(error, Some(DialError::Unroutable { addr: v6 }), "from a v4 socket");
}

/// Whoever names an address is told at once that nobody is there; and the next one gets its turn.
#[tokio::test]
async fn a_closed_port_is_told_from_silence() {
    let a = TestNode::start(1);
    let (socket, closed) = dead_port();
    drop(socket);
    let error = a.endpoint.dial(closed, None).await.err();
    assert_eq!(error, Some(DialError::NothingListens { addr: closed }));
    let b = TestNode::start(2);
    let peer = a.endpoint.dial_any(&[closed, b.addr()], None).await.expect("the second answers");
    assert_eq!(peer.key, b.key());
}

/// A dial goes on when whoever wanted it gives up: else a caller with a short time-out would dial a
/// dead address for ever, and never learn that it is dead.
#[tokio::test]
async fn giving_up_early_still_learns_that_an_address_is_dead() {
    let a = TestNode::with(1, |config| config.limits = hasty());
    let (_socket, addr) = dead_port();
    let record = Identity::from_seed([9; 32]).record(1, 0, vec![addr]);
    let asking = a.endpoint.request(&record, ping());
    assert!(tokio::time::timeout(Duration::from_millis(20), asking).await.is_err(), "gave up");
    let error = a.ping(&record).await.expect_err("the same dial");
    assert_eq!(error, RequestError::Dial(DialError::NoAnswer { addr }));
    let error = a.ping(&record).await.expect_err("left alone");
    assert!(matches!(error, RequestError::Dial(DialError::BackingOff { .. })), "{error:?}");
}

/// Case 6 on real sockets: dead addresses in front of the live one, of both families.
#[tokio::test]
async fn the_live_one_of_several_addresses_is_found() {
    let dual = |config: &mut EndpointConfig| {
        config.listen = Some(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0));
    };
    let (a, b) = (TestNode::with(1, dual), TestNode::start(2));
    let (_held, dead) = dead_port();
    let v6_dead = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), b.addr().port());
    for addrs in [vec![v6_dead, b.addr()], vec![b.addr(), v6_dead], vec![dead, v6_dead, b.addr()]] {
        let peer = a.endpoint.dial_any(&addrs, None).await.expect("found");
        assert_eq!((peer.key, peer.remote), (b.key(), b.addr()));
        let record = b.identity.record(1, 1, addrs);
        a.endpoint.disconnect(b.key());
        a.until(|a| a.endpoint.connections() == 0).await;
        a.ping(&record).await.expect("answered");
        a.endpoint.disconnect(b.key());
        a.until(|a| a.endpoint.connections() == 0).await;
    }
}

/// After a mass restart, lists are full of yesterday's addresses; the newest record wins.
#[tokio::test]
async fn a_stale_second_hand_record_never_wins() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let (_held, dead) = dead_port();
    let stale = b.identity.record(0, 9, vec![dead]);
    // `a` has heard of the newer one, from anybody.
    assert!(a.endpoint.shared.book.admit(Arc::new(b.record())).is_some());
    a.ping(&stale).await.expect("dialled where it is now");
}

/// A restarted peer does not know the old connection; the next packet shows it.
#[test]
fn a_restarted_peer_is_dialled_anew() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a thread")
    };
    let (ours, theirs) = (runtime(), runtime());
    let a = ours.block_on(async { TestNode::start(1) });
    let b = theirs.block_on(async { TestNode::start(2) });
    ours.block_on(a.ping(&b.record())).expect("answered");
    let addr = b.addr();
    // As with SIGKILL, nothing runs that could send a farewell.
    drop(theirs);
    drop(b);
    let theirs = runtime();
    let b = theirs.block_on(async {
        let listen = |config: &mut EndpointConfig| config.listen = Some(addr);
        TestNode::with_hello(2, listen, |hello| hello.instance = 22)
    });
    // Unless some packet of QUIC's own has found out before, the next request does.
    if let Err(error) = ours.block_on(a.ping(&b.record())) {
        assert_eq!(error, RequestError::Lost(Lost::Restarted), "the old connection is void");
        ours.block_on(a.ping(&b.record())).expect("answered");
    }
    assert_eq!((a.endpoint.connections(), b.served()), (1, 1));
}

/// Case 20 through the public face.
#[tokio::test]
async fn a_taken_port_is_named() {
    let a = TestNode::start(1);
    let port = a.addr().port();
    let wildcard = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    for listen in [a.addr(), SocketAddr::new(wildcard, port)] {
        let mut config = EndpointConfig::new("test");
        config.listen = Some(listen);
        let hello = Hello { ring: None, record: None, instance: 0, observed: None, member: false };
        let error = Endpoint::bind(config, Arc::new(Identity::generate()), hello)
            .expect_err("the port is taken");
        assert!(matches!(error, BindError::PortInUse { .. }), "{error:?}");
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }
}

/// Case 40: both sides dial at the same tick, and ask at once. No request is lost, one connection
/// stays, and nothing is left behind.
#[tokio::test]
async fn simultaneous_dials_leave_one_connection() {
    let quick = |config: &mut EndpointConfig| {
        config.limits.retire_after = Duration::from_millis(50);
    };
    let (a, b) = (TestNode::with(1, quick), TestNode::with(2, quick));
    let (to_a, to_b) = (a.record(), b.record());
    let rounds = 1000;
    let mut doubles = 0;
    for round in 1..=rounds {
        let ask = |node: &'static str, from: &TestNode, to: &PeerRecord| {
            let (endpoint, to) = (from.endpoint.clone(), to.clone());
            async move {
                let reply = endpoint.request(&to, ping()).await;
                let reply = reply.unwrap_or_else(|error| panic!("round {round}, {node}: {error}"));
                assert_eq!(reply.answer, Answer::Ring(Response::Done));
            }
        };
        // Two questions each: one on the dial, one that may find the other's connection.
        let questions =
            [ask("a", &a, &to_b), ask("b", &b, &to_a), ask("a", &a, &to_b), ask("b", &b, &to_a)];
        join_all(questions).await;
        if a.endpoint.shared.table.of(&b.key()).len() > 1 {
            doubles += 1;
        }
        if round % 100 == 0 {
            a.until(|a| a.endpoint.connections() == 1).await;
            b.until(|b| b.endpoint.connections() == 1).await;
            // The one that the smaller key dialled, as long as both lived.
            join_all([ask("a", &a, &to_b), ask("b", &b, &to_a)]).await;
            assert_eq!((a.endpoint.connections(), b.endpoint.connections()), (1, 1));
        }
        a.endpoint.disconnect(b.key());
        b.endpoint.disconnect(a.key());
        a.until(|a| a.endpoint.connections() == 0).await;
        b.until(|b| b.endpoint.connections() == 0).await;
    }
    assert!(doubles > rounds / 10, "the test did not do what it is for: {doubles}");
    assert_eq!(a.served() + b.served(), 4 * rounds + 2 * rounds / 100);
}

#[tokio::test]
async fn connections_are_bounded_and_idle_ones_make_room() {
    let few = |config: &mut EndpointConfig| config.limits.max_connections = 2;
    let hub = TestNode::with(1, few);
    let others: Vec<TestNode> = (2..6).map(TestNode::start).collect();
    for other in &others {
        other.ping(&hub.record()).await.expect("an idle one makes room");
        assert!(hub.endpoint.connections() <= 2);
    }
    // With both in use, nobody else gets in, and nobody is dialled.
    let record = hub.record();
    let hanging = others[..2].iter().map(|other| other.endpoint.request(&record, hang()));
    let mut hanging = std::pin::pin!(join_all(hanging));
    tokio::select! {
        _ = &mut hanging => panic!("nobody answers this"),
        () = hub.until(|hub| hub.served() == 6) => {}
    }
    let error = others[2].ping(&hub.record()).await.expect_err("full");
    let DialError::Refused { refusal: Refusal::Overloaded { .. }, .. } = dial_error(&error) else {
        panic!("{error:?}");
    };
    let error = hub.ping(&others[3].record()).await.expect_err("full");
    assert_eq!(dial_error(&error), &DialError::TooMany { limit: 2 });
}

fn dial_error(error: &RequestError) -> &DialError {
    match error {
        RequestError::Dial(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A QUIC server with raw keys that speaks only this ALPN. With `about`, it also says so when asked.
fn foreign_server(alpn: Vec<u8>, about: Option<About>) -> (JoinSet<()>, SocketAddr) {
    let identity = Identity::from_seed([66; 32]);
    let mut tls = crate::tls::Tls::new(&identity, &About::new("test")).expect("ed25519");
    let asked = about.map(|_| About::ALPN.to_vec());
    tls.set_answered([alpn].into_iter().chain(asked).collect());
    let server = quinn::ServerConfig::with_crypto(Arc::new(tls.server().expect("tls 1.3")));
    let endpoint = quinn::Endpoint::server(server, loopback(0)).expect("a free port");
    let addr = endpoint.local_addr().expect("bound");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some(caller) = endpoint.accept().await {
            let Ok(connection) = caller.await else { continue };
            if let Some(about) = about {
                connection.close(crate::codes::ABOUT.into(), &about.to_bytes());
            }
            connection.closed().await;
        }
    });
    (tasks, addr)
}
