//! One task per connection: takes the peer's requests, and closes the connection when it is idle.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use dht_core::PeerKey;
use dht_core::message::{Answer, Frame, Hello, Refusal};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use quinn::{RecvStream, SendStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::time::{sleep_until, timeout};

use crate::body::{BodyReader, BodyWriter, FrameFault};
use crate::check::check_frame;
use crate::codes;
use crate::dial::RETRY_AFTER_MS;
use crate::frame::{Kind, decode};
use crate::incoming::{Incoming, Responder};
use crate::link::{Busy, Link};
use crate::table::Listed;

/// Serves a connection until it ends.
pub(crate) async fn serve(listed: Listed, incoming: mpsc::Sender<Incoming>) {
    let link = listed.link();
    // Bounded by QUIC's limit of streams: each of these holds one.
    let mut reading = FuturesUnordered::new();
    let mut look = pin!(sleep_until(link.due()));
    loop {
        tokio::select! {
            accepted = link.connection.accept_bi() => match accepted {
                Ok(stream) => {
                    let Some(request) = Request::new(link, stream) else { break };
                    reading.push(request.take(&incoming));
                }
                Err(error) => {
                    tracing::trace!(key = ?link.key, %error, "a connection ended");
                    break;
                }
            },
            Some(()) = reading.next() => {}
            () = &mut look => match link.close_if_due() {
                Some(later) => look.as_mut().reset(later),
                None => break,
            },
            () = link.retirement.notified() => look.as_mut().reset(link.due()),
        }
    }
}

/// A stream that a peer opened.
pub(crate) struct Request {
    link: Arc<Link>,
    reader: BodyReader,
    responder: Responder,
}

impl Request {
    /// `None` if the connection is about to close: then the request is not taken.
    pub(crate) fn new(link: &Arc<Link>, (send, recv): (SendStream, RecvStream)) -> Option<Request> {
        let (for_writer, for_reader) = (Busy::enter(link)?, Busy::enter(link)?);
        // What kind of request it is, the frame will say.
        let reader = BodyReader::new(recv, for_reader, Kind::Client);
        let writer = BodyWriter::new(send, for_writer);
        let responder = Responder { shared: link.shared.clone(), writer };
        Some(Request { link: link.clone(), reader, responder })
    }

    /// Reads the frame within the time-out. What is wrong with it is answered here: `None`.
    pub(crate) async fn read(mut self) -> Option<(Request, Frame)> {
        let limits = &self.link.shared.limits;
        let limit = limits.max_frame;
        let frame = match timeout(limits.read_timeout, self.reader.read_frame(limit)).await {
            Ok(Ok(bytes)) => decode::<Frame>(&bytes),
            Ok(Err(FrameFault::Cut)) => None,
            // The asker has taken it back, or is gone.
            Ok(Err(FrameFault::Body(_))) => return None,
            Ok(Err(FrameFault::TooLong)) => {
                let refusal = Refusal::TooLarge { limit: limit as u64 };
                self.refuse(refusal, codes::TOO_LARGE).await;
                return None;
            }
            Err(_) => {
                self.reader.stop(codes::TIMED_OUT);
                self.responder.reset(codes::TIMED_OUT);
                return None;
            }
        };
        let Some(mut frame) = frame else {
            self.refuse(Refusal::Malformed, codes::MALFORMED).await;
            return None;
        };
        // A hello's record is judged against the key of the connection instead.
        let is_hello = matches!(frame, Frame::Hello(_));
        if !is_hello && !check_frame(&mut frame, &self.link.shared.book) {
            self.refuse(Refusal::Malformed, codes::MALFORMED).await;
            return None;
        }
        self.reader.set_kind(Kind::of(&frame));
        Some((self, frame))
    }

    /// Answers with a refusal, and takes no more of the stream.
    pub(crate) async fn refuse(mut self, refusal: Refusal, code: u64) {
        self.reader.stop(code);
        self.responder.answer(Answer::Refused(refusal)).await;
    }

    /// Reads a request and hands it to the owner of the endpoint, or answers it here.
    async fn take(self, incoming: &mpsc::Sender<Incoming>) {
        let Some((request, frame)) = self.read().await else { return };
        let link = request.link.clone();
        let shared = &link.shared;
        if let Frame::Hello(hello) = frame {
            return request.on_hello_again(hello).await;
        }
        let is_local = link.is_local();
        let is_admin = may_administer(is_local, &link.key, &shared.admins);
        let theirs = link.theirs();
        let record = theirs.as_ref().and_then(|theirs| theirs.record.clone());
        let refusal = match &frame {
            _ if shared.stop.is_cancelled() => Some(Refusal::ShuttingDown),
            _ if shared.is_client => Some(Refusal::Unsupported),
            _ if theirs.is_none() => Some(Refusal::NoHello),
            Frame::Ring { .. } | Frame::Chunk(_) if record.is_none() => Some(Refusal::NoHello),
            Frame::Admin(_) if !is_admin => Some(Refusal::NotAdmin),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return request.refuse(refusal, codes::CANCELLED).await;
        }
        let Request { link: _, reader, responder } = request;
        let taken = Incoming {
            key: link.key,
            hello: theirs.map(|theirs| theirs.hello.clone()),
            contact_record: record,
            remote: link.remote,
            is_local,
            is_admin,
            frame,
            body: reader,
            responder,
        };
        hand_over(taken, incoming, &link).await;
    }

    /// The peer says something else of itself.
    async fn on_hello_again(self, hello: Hello) {
        let link = self.link.clone();
        match link.hear(hello) {
            Ok(_) => {
                let (version, ours) = link.shared.own.for_peer(link.remote);
                self.responder.answer(Answer::Hello(ours)).await;
                link.set_told(version);
            }
            Err(refusal) => self.refuse_for_good(refusal).await,
        }
    }

    /// Refuses a hello, and with it the whole connection; first lets the peer hear why.
    pub(crate) async fn refuse_for_good(self, refusal: Refusal) {
        let link = self.link.clone();
        tracing::debug!(key = ?link.key, remote = %link.remote, ?refusal, "a peer is refused");
        let other_ring = matches!(refusal, Refusal::OtherRing { .. });
        let code = if other_ring { codes::OTHER_RING } else { codes::BAD_HELLO };
        self.answer_and_close(Answer::Refused(refusal), code).await;
    }

    /// Answers, waits until the peer has it or has gone, and closes the connection.
    pub(crate) async fn answer_and_close(mut self, answer: Answer, code: u32) {
        self.reader.stop(codes::CANCELLED);
        // Resolves when everything written is acknowledged.
        let delivered = self.responder.closed();
        self.responder.answer(answer).await;
        let patience = self.link.shared.limits.handshake_timeout;
        // After that the peer learns only the number.
        let _ = timeout(patience, delivered).await;
        self.link.close(code);
    }

    /// The parts, for the first hello.
    pub(crate) fn into_responder(self) -> Responder {
        self.responder
    }
}

/// Admin requests are for whoever is on this host, and for keys that are listed.
fn may_administer(is_local: bool, key: &PeerKey, admins: &HashSet<PeerKey>) -> bool {
    is_local || admins.contains(key)
}

/// Waits if the owner is slow: the asker's stream, one of few, waits with it. At the end of its
/// patience the endpoint sheds the request.
async fn hand_over(taken: Incoming, incoming: &mpsc::Sender<Incoming>, link: &Link) {
    let shared = &link.shared;
    let taken = match incoming.try_send(taken) {
        Ok(()) => return,
        Err(TrySendError::Closed(taken)) => return refuse(taken, Refusal::ShuttingDown).await,
        Err(TrySendError::Full(taken)) => taken,
    };
    match incoming.send_timeout(taken, shared.limits.read_timeout).await {
        Ok(()) => {}
        Err(SendTimeoutError::Closed(taken)) => refuse(taken, Refusal::ShuttingDown).await,
        Err(SendTimeoutError::Timeout(taken)) => {
            refuse(taken, Refusal::Overloaded { retry_after_ms: RETRY_AFTER_MS }).await;
        }
    }
}

async fn refuse(taken: Incoming, refusal: Refusal) {
    taken.responder.answer(Answer::Refused(refusal)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_requests_are_for_loopback_and_listed_keys() {
        let (listed, other) = (PeerKey([1; 32]), PeerKey([2; 32]));
        let admins = HashSet::from([listed]);
        assert!(may_administer(true, &other, &admins));
        assert!(may_administer(false, &listed, &admins));
        assert!(!may_administer(false, &other, &admins));
    }
}
