//! How long messages are in their frames (`docs/wire.md`, "Streams and frames").

use dht_core::message::forward::ForwardOutcome;
use dht_core::message::map::MapEvent;
use dht_core::message::ring::{Request, Response, RouteAnswer};
use serde::Serialize;

/// Bytes of a request with its length, as the frame `Ring` carries it.
pub fn request_len(request: &Request) -> usize {
    let real = contacts_asked(request) * REAL_RECORD + marks(request) * REAL_ADDR;
    PREFIX + RING_FRAME + encoded_len(request) + real
}

/// Bytes of an answer with its length.
pub fn answer_len(response: &Response) -> usize {
    PREFIX + RING_ANSWER + encoded_len(response) + contacts_answered(response) * REAL_RECORD
}

/// The name of a request in reports.
pub(super) fn request_name(request: &Request) -> &'static str {
    match request {
        Request::Ping => "ping",
        Request::Route(_) => "route",
        Request::Join => "join",
        Request::Neighbors { .. } => "neighbors",
        Request::Notify { .. } | Request::NotifySame { .. } => "notify",
        Request::Push(_) => "push",
        Request::Candidate { .. } => "candidate",
        Request::ProbeFor { .. } => "probe_for",
        Request::Leave { .. } => "leave",
        Request::Unify { .. } => "unify",
        Request::ReadRegister { .. } => "read_register",
        Request::WriteRegister { .. } => "write_register",
        Request::Digest { .. } => "digest",
        Request::List { .. } => "list",
        Request::FetchRegisters { .. } => "fetch_registers",
        Request::Handoff { .. } => "handoff",
        Request::MapReport { .. } => "map_report",
        Request::MapSpread { .. } => "map_spread",
        Request::MapTell { .. } => "map_tell",
        Request::MapPage { .. } => "map_page",
        Request::MapDigest { .. } => "map_digest",
        Request::Forward(_) => "forward",
        Request::ForwardEnd(_) => "forward_end",
    }
}

/// The name of an answer in reports. Short ones are told together.
pub(super) fn answer_name(response: &Response) -> &'static str {
    match response {
        Response::Route(_) => "answer_route",
        Response::Joined(_) => "answer_join",
        Response::Neighbors(_) => "answer_neighbors",
        Response::Registers(_) | Response::RegisterPage { .. } | Response::Register { .. } => {
            "answer_registers"
        }
        Response::Digest { .. } => "answer_digest",
        Response::MapPage { .. } => "answer_map_page",
        Response::MapDiffers { .. } => "answer_map_digest",
        _ => "answer_short",
    }
}

fn encoded_len<T: Serialize>(message: &T) -> usize {
    postcard::experimental::serialized_size(message).expect("plain data has a postcard form")
}

/// How many contacts stand in a request.
fn contacts_asked(request: &Request) -> usize {
    match request {
        Request::Notify { predecessors } => predecessors.len(),
        Request::Push(pushed) => {
            usize::from(pushed.predecessor.is_some()) + pushed.successors.len()
        }
        Request::Candidate { .. } | Request::ProbeFor { .. } | Request::Unify { .. } => 1,
        Request::MapReport { events }
        | Request::MapSpread { events, .. }
        | Request::MapTell { events } => places(events),
        Request::Leave { successors, predecessor, remembered, .. } => {
            successors.len() + usize::from(predecessor.is_some()) + remembered.len()
        }
        Request::Forward(_) => 1,
        Request::ForwardEnd(end) => match &end.outcome {
            ForwardOutcome::Mine { predecessor, successors } => {
                usize::from(predecessor.is_some()) + successors.len()
            }
            ForwardOutcome::Stuck { .. } => 0,
        },
        _ => 0,
    }
}

/// How many places a request names without their records.
fn marks(request: &Request) -> usize {
    match request {
        Request::Forward(forward) => forward.path.len() + forward.detours.len(),
        Request::ForwardEnd(end) => end.path.len() + end.detours.len(),
        _ => 0,
    }
}

/// How many contacts stand in an answer.
fn contacts_answered(response: &Response) -> usize {
    match response {
        Response::Route(RouteAnswer::Mine { predecessor, successors }) => {
            usize::from(predecessor.is_some()) + successors.len()
        }
        Response::Route(RouteAnswer::NotMine { .. } | RouteAnswer::Next { .. })
        | Response::JoinElsewhere { .. } => 1,
        Response::Joined(said) | Response::Neighbors(said) => {
            usize::from(said.predecessor.is_some()) + said.successors.len()
        }
        Response::Moved { members, .. } => members.len(),
        Response::MapPage { events, .. } | Response::MapDiffers { events, .. } => places(events),
        _ => 0,
    }
}

fn places(events: &[MapEvent]) -> usize {
    events.iter().filter(|event| matches!(event, MapEvent::Here(_))).count()
}

/// Four bytes of length before every frame and answer.
const PREFIX: usize = 4;
/// The kind of frame, and which places speak and are meant.
const RING_FRAME: usize = 3;
/// The kind of answer.
const RING_ANSWER: usize = 1;
/// What a real record has and a simulated one lacks: one IPv4 address with its port (7 bytes), and
/// an incarnation drawn from the time instead of counted from 1 (7 bytes instead of 1).
const REAL_RECORD: usize = REAL_ADDR + 6;
/// An IPv4 address with its port.
const REAL_ADDR: usize = 7;

#[cfg(test)]
mod tests {
    use dht_core::Id;
    use dht_core::message::ring::Neighbors;

    use super::*;
    use crate::member::contact;

    #[test]
    fn lengths_are_those_that_real_frames_have() {
        assert_eq!(request_len(&Request::Ping), 8);
        assert_eq!(answer_len(&Response::Done), 6);
        let list: Vec<_> = (0..16).map(|n| contact(n, Id::from_u64(n), 1)).collect();
        let said = Neighbors {
            stamp: 5,
            predecessor: list.first().cloned(),
            successors: list,
            leaving: false,
        };
        // Counted on real records by the test of dht-node: 1936, with a stamp that is longer by 5.
        assert_eq!(answer_len(&Response::Neighbors(said)), 1931);
    }
}
