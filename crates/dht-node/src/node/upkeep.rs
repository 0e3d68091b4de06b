//! What a node sends to keep its routing state right, counted as it goes out.
//!
//! The endpoint counts bytes, but not what they were sent for. Here the frames of upkeep are counted,
//! each with what dht-net adds to a frame of that length: constants measured on real endpoints, and
//! held to them by `tests/traffic.rs`. Opening connections and keeping them alive is not in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dht_core::message::Frame;
use dht_core::message::ring::{Request, Response, RouteQuery, Routing};
use dht_core::stats::UpkeepTraffic;
use dht_core::time::micros;
use dht_core::{Id, PeerKey};
use dht_sim::traffic::cost::Path;

/// Counts the bytes of upkeep that one node sends.
#[derive(Debug)]
pub(super) struct UpkeepMeter {
    me: Id,
    began: Instant,
    links: AtomicU64,
    fingers: AtomicU64,
    map: AtomicU64,
}

/// What a message of upkeep keeps right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Successor and predecessor lists.
    Links,
    /// Fingers.
    Fingers,
    /// The full map.
    Map,
}

impl UpkeepMeter {
    /// Nothing was sent yet. `key` is the node's own.
    pub(super) fn new(key: &PeerKey) -> UpkeepMeter {
        let [links, fingers, map] = [0; 3].map(AtomicU64::new);
        UpkeepMeter { me: Id::of_place(key, 0), began: Instant::now(), links, fingers, map }
    }

    /// What this node's own request is for and what it takes, if it is one of upkeep. To be counted
    /// once it was answered, since to a peer that cannot be dialled nothing of it goes out.
    pub(super) fn of_request(&self, frame: &Frame) -> Option<(Kept, u64)> {
        let Frame::Ring { request, .. } = frame else { return None };
        let kept = kept_by(self.me, request)?;
        let bytes = PATH.request(PREFIX + encoded_len(frame)).payload();
        Some((kept, bytes))
    }

    /// What an answer takes.
    pub(super) fn of_answer(kept: Kept, response: &Response) -> (Kept, u64) {
        (kept, PATH.answer(PREFIX + ANSWER + encoded_len(response)).payload())
    }

    /// It went out.
    pub(super) fn sent(&self, (kept, bytes): (Kept, u64)) {
        let counter = match kept {
            Kept::Links => &self.links,
            Kept::Fingers => &self.fingers,
            Kept::Map => &self.map,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Everything that was sent so far.
    pub(super) fn report(&self) -> UpkeepTraffic {
        UpkeepTraffic {
            span_ms: micros(self.began.elapsed()) / 1000,
            links: self.links.load(Ordering::Relaxed),
            fingers: self.fingers.load(Ordering::Relaxed),
            map: self.map.load(Ordering::Relaxed),
        }
    }
}

/// What a request of `asker` keeps right; `None`: it is a lookup, or about data.
pub(super) fn kept_by(asker: Id, request: &Request) -> Option<Kept> {
    match request {
        Request::Ping
        | Request::Join
        | Request::Neighbors { .. }
        | Request::Notify { .. }
        | Request::NotifySame { .. }
        | Request::Push(_)
        | Request::Candidate { .. }
        | Request::ProbeFor { .. }
        | Request::Leave { .. }
        | Request::Unify { .. } => Some(Kept::Links),
        Request::MapReport { .. }
        | Request::MapSpread { .. }
        | Request::MapTell { .. }
        | Request::MapPage { .. }
        | Request::MapDigest { .. } => Some(Kept::Map),
        Request::Route(query) if is_of_finger(asker, query) => Some(Kept::Fingers),
        Request::Route(_)
        | Request::Forward(_)
        | Request::ForwardEnd(_)
        | Request::ReadRegister { .. }
        | Request::WriteRegister { .. }
        | Request::Digest { .. }
        | Request::List { .. }
        | Request::FetchRegisters { .. }
        | Request::Handoff { .. } => None,
    }
}

/// Whether a lookup is one of a finger: of the point at a power of two from whoever asks. A key lies
/// there by chance once in 2^152 times.
fn is_of_finger(asker: Id, query: &RouteQuery) -> bool {
    let reach = asker.distance_to(query.key);
    let power = reach.bits().checked_sub(1).map(Id::power_of_two);
    query.routing == Routing::Fingers && power == Some(reach)
}

fn encoded_len<T: serde::Serialize>(message: &T) -> usize {
    postcard::experimental::serialized_size(message).expect("plain data has a postcard form")
}

/// Four bytes of length stand before every frame and answer (`docs/wire.md`).
const PREFIX: usize = 4;
/// The kind of an answer, one byte.
const ANSWER: usize = 1;
/// Longer datagrams would save 33 bytes in a few of them.
const PATH: Path = Path::Internet;

#[cfg(test)]
mod tests {
    use dht_core::message::Answer;
    use dht_core::message::ring::Neighbors;

    use super::*;

    fn query(key: Id, routing: Routing) -> Request {
        let after = Id::ZERO;
        let (failed, want_list) = (Vec::new(), false);
        Request::Route(RouteQuery { key, after, routing, depth: 16, failed, want_list })
    }

    #[test]
    fn lookups_of_fingers_are_told_from_those_of_clients() {
        let asker = Id::of_key(b"asker");
        let ahead = |exponent| asker.wrapping_add(Id::power_of_two(exponent));
        for exponent in [0, 31, 32, 95, 96, 158, 159] {
            let asked = query(ahead(exponent), Routing::Fingers);
            assert_eq!(kept_by(asker, &asked), Some(Kept::Fingers), "2^{exponent}");
            assert_eq!(kept_by(Id::of_key(b"another"), &asked), None);
            assert_eq!(kept_by(asker, &query(ahead(exponent), Routing::Successors)), None);
        }
        assert_eq!(kept_by(asker, &query(ahead(7).next(), Routing::Fingers)), None);
        assert_eq!(kept_by(asker, &query(asker, Routing::Fingers)), None, "its own point");
        assert_eq!(kept_by(asker, &Request::Ping), Some(Kept::Links));
    }

    #[test]
    fn what_was_sent_is_counted_by_what_it_was_for() {
        let meter = UpkeepMeter::new(&PeerKey([1; 32]));
        let frame = Frame::Ring { from: 0, to: 0, request: Request::Ping };
        let ping = meter.of_request(&frame).expect("upkeep");
        // 8 bytes of frame, 41 beside it, 28 to acknowledge the answer (docs/simulation.md).
        assert_eq!(ping, (Kept::Links, 8 + 41 + 28));
        meter.sent(ping);
        let pong = UpkeepMeter::of_answer(Kept::Fingers, &Response::Done);
        assert_eq!(pong, (Kept::Fingers, 6 + 34));
        meter.sent(pong);
        meter.sent(pong);
        let UpkeepTraffic { links, fingers, map, .. } = meter.report();
        assert_eq!((links, fingers, map), (77, 80, 0));
    }

    #[test]
    fn an_answer_has_the_length_it_has_in_its_frame() {
        let said = Neighbors { stamp: 5, predecessor: None, successors: vec![], leaving: false };
        let response = Response::Neighbors(said);
        let framed = encoded_len(&Answer::Ring(response.clone()));
        assert_eq!(framed, ANSWER + encoded_len(&response));
    }
}
