//! Questions and answers, bodies, hellos, closing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use dht_core::config::RingParams;
use dht_core::manifest::ChunkRef;
use dht_core::message::bulk::{ChunkRequest, ChunkResponse};
use dht_core::message::client::{AdminRequest, AdminResponse};
use dht_core::message::{Answer, Frame, Hello, Refusal, RingId};

use super::*;
use crate::{BodyError, DialError, Lost, RequestError};

#[tokio::test]
async fn a_request_is_answered_over_one_connection_in_both_directions() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let first = a.endpoint.request(&b.record(), ping()).await.expect("answered");
    assert!(first.connect_us > 0, "the first one connects");
    let second = a.endpoint.request(&b.record(), ping()).await.expect("answered");
    assert_eq!(second.connect_us, 0);
    b.ping(&a.record()).await.expect("answered");
    assert_eq!((a.endpoint.connections(), b.endpoint.connections()), (1, 1));
    assert_eq!((a.served(), b.served()), (1, 2));
    let (at_a, at_b) = (a.endpoint.traffic(), b.endpoint.traffic());
    assert!(at_a.bytes_out > 0 && at_a.bytes_out >= at_b.bytes_in && at_b.bytes_in > 0);
}

#[tokio::test]
async fn each_side_learns_who_the_other_is_and_how_it_is_seen() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let peer = a.endpoint.dial(b.addr(), None).await.expect("connected");
    assert_eq!((peer.key, peer.remote), (b.key(), b.addr()));
    assert_eq!(peer.hello.record, Some(b.record()));
    assert_eq!(peer.hello.observed, Some(a.addr()));
    assert_eq!(a.endpoint.connections(), 1);
    a.endpoint.dial(b.addr(), None).await.expect("the same connection");
    a.endpoint.dial(b.addr(), Some(b.key())).await.expect("the same connection");
    assert_eq!(a.endpoint.connections(), 1);
}

#[tokio::test]
async fn bulk_flows_both_ways_and_arrives_whole() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    // Around the pieces that bodies are cut into, and well beyond every window.
    for len in [0, 1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 8 << 20] {
        let mut reply = a.endpoint.request(&b.record(), get(len)).await.expect("answered");
        assert_eq!(reply.answer, Answer::Chunk(ChunkResponse::Found { len }));
        let mut got = Vec::new();
        while let Some(bytes) = reply.body.read(1 << 20).await.expect("no reset") {
            assert!(!bytes.is_empty() && bytes.len() <= 1 << 20);
            got.extend_from_slice(&bytes);
        }
        assert_eq!(got, content(len as usize));
        assert_eq!(reply.body.read(1).await, Ok(None), "the end stays the end");
        for most in [1000, 1 << 20] {
            let mut reply = a.endpoint.request(&b.record(), get(len)).await.expect("answered");
            let mut got = Vec::new();
            while let Some(bytes) = reply.body.read_gathered(most).await.expect("no reset") {
                assert!(!bytes.is_empty() && bytes.len() <= most);
                got.extend_from_slice(&bytes);
            }
            assert_eq!(got, content(len as usize), "at most {most}");
            assert_eq!(reply.body.read_gathered(most).await, Ok(None));
        }
    }
    let sent = content(5_000_000);
    let chunk = ChunkRef { hash: *blake3::hash(&sent).as_bytes(), len: 5_000_000 };
    let frame = Frame::Chunk(ChunkRequest::Put { chunk });
    let (mut body, reply) = a.endpoint.request_body(&b.record(), frame).await.expect("opened");
    for piece in sent.chunks(1_000_001) {
        body.write(Bytes::copy_from_slice(piece)).await.expect("taken");
    }
    body.finish().expect("finished");
    assert_eq!(reply.await.expect("answered").answer, Answer::Chunk(ChunkResponse::Stored));
}

#[tokio::test]
async fn a_dropped_body_is_a_reset_never_an_end() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let chunk = ChunkRef { hash: [0; 32], len: 10 };
    let frame = Frame::Chunk(ChunkRequest::Put { chunk });
    let (mut body, reply) = a.endpoint.request_body(&b.record(), frame).await.expect("opened");
    body.write(Bytes::from_static(b"half")).await.expect("taken");
    b.until(|b| b.served() == 1).await;
    drop(body);
    let answer = reply.await.expect("answered").answer;
    assert_eq!(answer, Answer::Chunk(ChunkResponse::Mismatch));
    assert_eq!(b.dropped.load(Ordering::SeqCst), 1);
    // And the other way: an answerer that gives up half-way, with a number.
    let list = Frame::Client(ClientRequest::Neighborhood);
    let error = a.endpoint.request(&b.record(), list).await.expect_err("reset");
    assert_eq!(error, RequestError::Reset { code: 3 });
}

#[tokio::test]
async fn a_dropped_question_is_taken_back() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    a.ping(&b.record()).await.expect("answered");
    {
        let record = b.record();
        let mut asking = std::pin::pin!(a.endpoint.request(&record, hang()));
        tokio::select! {
            _ = &mut asking => panic!("nobody answers this"),
            () = b.until(|b| b.served() == 2) => {}
        }
    }
    b.until(|b| b.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn admin_requests_bring_several_answers() {
    let (a, b) = (TestNode::start(1), TestNode::client());
    let peer = b.endpoint.dial(a.addr(), None).await.expect("connected");
    let mut reply = peer.request(Frame::Admin(AdminRequest::Leave)).await.expect("answered");
    let mut answers = vec![reply.answer];
    while let Some(answer) = reply.body.next_answer().await.expect("no reset") {
        answers.push(answer);
    }
    let leaving = |missing| Answer::Admin(AdminResponse::Leaving { missing });
    let left = Answer::Admin(AdminResponse::Left);
    assert_eq!(answers, [leaving(None), leaving(Some(2)), leaving(Some(0)), left]);
}

#[tokio::test]
async fn a_client_may_not_speak_as_a_member() {
    let (a, client) = (TestNode::start(1), TestNode::client());
    let peer = client.endpoint.dial(a.addr(), Some(a.key())).await.expect("connected");
    for frame in [ping(), get(1)] {
        let reply = peer.request(frame).await.expect("answered");
        assert_eq!(reply.answer, Answer::Refused(Refusal::NoHello));
    }
    assert_eq!(a.served(), 0);
    // And nobody may ask a client.
    let error = a.endpoint.request(&client.identity.record(1, 0, vec![]), ping()).await;
    let reply = error.expect("over the connection that the client made");
    assert_eq!(reply.answer, Answer::Refused(Refusal::Unsupported));
}

/// Case 30: the ids tell them apart.
#[tokio::test]
async fn two_rings_of_one_name_never_mix() {
    let a = TestNode::start(1);
    let other = RingId(8);
    let b =
        TestNode::with_hello(2, |_| {}, |hello| hello.ring = Some(RingParams::founding(other, 3)));
    let error = a.ping(&b.record()).await.expect_err("refused");
    assert_eq!(error, RequestError::OtherRing { ours: RING, theirs: other });
    let error = b.endpoint.dial(a.addr(), None).await.expect_err("refused");
    assert_eq!(error, DialError::OtherRing { ours: other, theirs: RING });
    assert_eq!((a.endpoint.connections(), b.endpoint.connections()), (0, 0));
    // Who has no ring yet may talk to both.
    let joiner = TestNode::with_hello(3, |_| {}, |hello| hello.ring = None);
    joiner.ping(&a.record()).await.expect("answered");
    joiner.ping(&b.record()).await.expect("answered");
}

#[tokio::test]
async fn a_changed_hello_is_heard_before_the_next_request() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    a.ping(&b.record()).await.expect("answered");
    let seen = |node: &TestNode, key| {
        let link = node.endpoint.shared.table.current(&key).expect("connected");
        link.theirs().expect("greeted").hello.clone()
    };
    let newer = a.identity.record(1, 2, vec![a.addr()]);
    let mut hello = seen(&b, a.key());
    hello.record = Some(newer.clone());
    hello.member = false;
    a.endpoint.set_hello(hello);
    a.ping(&b.record()).await.expect("answered");
    assert_eq!(seen(&b, a.key()).record, Some(newer));
    assert!(!seen(&b, a.key()).member);
    // The one who accepted can change its mind as well; into another ring it is cut off.
    let other = RingId(9);
    let mut hello = seen(&a, b.key());
    hello.ring = Some(RingParams::founding(other, 3));
    b.endpoint.set_hello(hello);
    let error = b.ping(&a.record()).await.expect_err("refused");
    assert_eq!(error, RequestError::OtherRing { ours: other, theirs: RING });
    a.until(|a| a.endpoint.connections() == 0).await;
    b.until(|b| b.endpoint.connections() == 0).await;
}

#[tokio::test]
async fn nobody_speaks_for_another_key() {
    let a = TestNode::start(1);
    let stranger = Identity::from_seed([9; 32]);
    let mut forged = Identity::from_seed([2; 32]).record(1, 0, vec![]);
    forged.incarnation = 2;
    for record in [stranger.record(1, 0, vec![]), forged] {
        let b = TestNode::with_hello(2, |_| {}, |_| {});
        let hello =
            Hello { ring: None, record: Some(record), instance: 2, observed: None, member: false };
        b.endpoint.set_hello(hello);
        let error = b.endpoint.dial(a.addr(), None).await.expect_err("refused");
        let refusal = Refusal::Malformed;
        assert_eq!(error, DialError::Refused { addr: a.addr(), refusal });
        // Nor when it was dialled.
        let error = a.endpoint.dial(b.addr(), None).await.expect_err("not believed");
        assert_eq!(error, DialError::OtherProtocol { addr: b.addr() });
    }
    a.until(|a| a.endpoint.connections() == 0).await;
}

#[tokio::test]
async fn idle_connections_close_and_the_next_request_dials_again() {
    let hasty = |config: &mut EndpointConfig| config.limits = hasty();
    let (a, b) = (TestNode::with(1, hasty), TestNode::with(2, hasty));
    for round in 1..=3 {
        a.ping(&b.record()).await.expect("answered");
        assert_eq!(b.served(), round);
        a.until(|a| a.endpoint.connections() == 0).await;
        b.until(|b| b.endpoint.connections() == 0).await;
    }
}

/// A connection that closes for want of use has not read what was just sent over it.
#[tokio::test]
async fn a_request_that_crosses_a_farewell_is_sent_again() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let farewell = |code| {
        b.endpoint.shared.table.current(&a.key()).expect("connected").close(code);
    };
    a.ping(&b.record()).await.expect("answered");
    for code in [crate::codes::IDLE, crate::codes::REDUNDANT] {
        farewell(code);
        a.ping(&b.record()).await.expect("over another connection");
    }
    assert_eq!(b.served(), 3);
    farewell(crate::codes::SHUTTING_DOWN);
    assert_eq!(a.ping(&b.record()).await, Err(RequestError::ShuttingDown));
}

#[tokio::test]
async fn a_connection_with_an_open_request_is_not_idle() {
    let a = TestNode::with(1, |config| {
        config.limits = Limits { silence_timeout: Duration::from_millis(600), ..hasty() };
    });
    let b = TestNode::with(2, |config| config.limits = hasty());
    let record = b.record();
    let asking = a.endpoint.request(&record, hang());
    let waited = tokio::time::timeout(Duration::from_millis(2000), asking).await;
    assert!(waited.is_err(), "still waiting: {waited:?}");
}

#[tokio::test]
async fn closing_lets_requests_end_and_tells_the_rest() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let record = b.record();
    let mut reply = a.endpoint.request(&record, get(3 << 20)).await.expect("answered");
    let mut hanging = std::pin::pin!(a.endpoint.request(&record, hang()));
    tokio::select! {
        _ = &mut hanging => panic!("nobody answers this"),
        () = b.until(|b| b.served() == 2) => {}
    }
    let reading = async {
        let mut len = 0;
        while let Some(bytes) = reply.body.read(4096).await.expect("no reset") {
            len += bytes.len();
        }
        len
    };
    let (len, hanging, ()) =
        tokio::join!(reading, hanging, b.endpoint.close(Duration::from_secs(2)));
    assert_eq!(len, 3 << 20, "what was under way came to its end");
    assert_eq!(hanging.expect_err("cut off"), RequestError::ShuttingDown);
    assert_eq!(b.ping(&a.record()).await, Err(RequestError::Closed));
    a.until(|a| a.endpoint.connections() == 0).await;
    // The port is free again at once.
    let again = TestNode::with(3, |config| config.listen = Some(record.addrs[0]));
    assert_eq!(again.addr(), record.addrs[0]);
}

/// Who is aborted looks like one whose process was killed: the others find out by themselves.
#[tokio::test]
async fn an_aborted_endpoint_says_nothing() {
    let (a, b) = (TestNode::with(1, |config| config.limits = hasty()), TestNode::start(2));
    let record = b.record();
    let mut hanging = std::pin::pin!(a.endpoint.request(&record, hang()));
    tokio::select! {
        _ = &mut hanging => panic!("nobody answers this"),
        () = b.until(|b| b.served() == 1) => {}
    }
    b.endpoint.abort(Duration::from_secs(10)).await;
    assert_eq!(b.ping(&a.record()).await, Err(RequestError::Closed));
    assert_eq!(hanging.await.expect_err("lost"), RequestError::Lost(Lost::Silence));
    // The port is free again.
    let again = TestNode::with(3, |config| config.listen = Some(record.addrs[0]));
    assert_eq!(again.addr(), record.addrs[0]);
}

#[tokio::test]
async fn a_dropped_endpoint_ends_everything() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    a.ping(&b.record()).await.expect("answered");
    let weak = std::sync::Arc::downgrade(&b.endpoint.shared);
    drop(b);
    a.until(|a| a.endpoint.connections() == 0).await;
    a.until(|_| weak.strong_count() == 0).await;
}

#[tokio::test]
async fn a_stalled_reader_does_not_hold_the_writer_for_ever() {
    let narrow = |config: &mut EndpointConfig| {
        config.limits = Limits { stream_window: 1 << 16, connection_window: 1 << 19, ..hasty() };
    };
    let (a, b) = (TestNode::with(1, narrow), TestNode::with(2, narrow));
    // More than all windows hold, and nobody reads it.
    let mut reply = a.endpoint.request(&b.record(), get(8 << 20)).await.expect("answered");
    b.until(|b| b.dropped.load(Ordering::SeqCst) == 1).await;
    let error = loop {
        match reply.body.read(1 << 20).await {
            Ok(bytes) => assert!(bytes.is_some(), "a part never passes for the whole"),
            Err(error) => break error,
        }
    };
    assert_eq!(error, BodyError::Reset { code: crate::codes::STALLED });
}

#[tokio::test]
async fn disconnecting_cuts_off_what_is_under_way() {
    let (a, b) = (TestNode::start(1), TestNode::start(2));
    let record = b.record();
    let mut hanging = std::pin::pin!(a.endpoint.request(&record, hang()));
    tokio::select! {
        _ = &mut hanging => panic!("nobody answers this"),
        () = b.until(|b| b.served() == 1) => {}
    }
    b.endpoint.disconnect(a.key());
    let code = u64::from(crate::codes::DISCONNECTED);
    assert_eq!(hanging.await.expect_err("cut off"), RequestError::Lost(Lost::Closed { code }));
}
