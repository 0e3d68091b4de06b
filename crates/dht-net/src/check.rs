//! What every message must keep to, checked once, right after it is read: no list over its bound,
//! and no record that its own key did not sign.
//!
//! A contact that is one of many is left out if its record is not good; one that the message is
//! about makes the whole message malformed. Good records come out as shared copies.

use std::sync::Arc;

use dht_core::message::bulk::{ChunkRequest, ChunkResponse, MAX_CHUNK_LEN, MAX_CHUNKS};
use dht_core::message::client::{
    ClientRequest, ClientResponse, Detour, LookupReport, MAX_FINGERS, MAX_LISTED, MAX_PATH,
    NeighborhoodReport,
};
use dht_core::message::forward::{Forward, ForwardEnd, ForwardOutcome, HandedDetour, HandedStep};
use dht_core::message::map::{MAX_MAP_DIGESTS, MAX_MAP_EVENTS, MAX_MAP_PAGE};
use dht_core::message::ring::{
    MAX_CONTACTS, MAX_FAILED, MAX_PAGE, Neighbors, Request, Response, RouteAnswer, RouteQuery,
};
use dht_core::message::{Answer, Frame, Hello};
use dht_core::peer::MAX_ADDRS;
use dht_core::register::{MAX_KEY_LEN, MAX_OPERATIONS, MAX_VALUE_LEN, Register, Value};
use dht_core::stats::StatsReport;
use dht_core::{Contact, PeerRecord};

use crate::record::RecordBook;

/// Whether a frame keeps to its bounds; bad list entries are taken out.
pub(crate) fn check_frame(frame: &mut Frame, book: &RecordBook) -> bool {
    match frame {
        Frame::Hello(hello) => check_hello(hello, book),
        Frame::Ring { request, from: _, to: _ } => check_request(request, book),
        Frame::Chunk(request) => check_chunk_request(request),
        Frame::Client(request) => check_client_request(request),
        Frame::Admin(_) => true,
    }
}

/// Whether an answer keeps to its bounds; bad list entries are taken out.
pub(crate) fn check_answer(answer: &mut Answer, book: &RecordBook) -> bool {
    match answer {
        Answer::Hello(hello) => check_hello(hello, book),
        Answer::Ring(response) => check_response(response, book),
        Answer::Chunk(response) => check_chunk_response(response),
        Answer::Client(response) => check_client_response(response, book),
        Answer::Admin(_) | Answer::Refused(_) => true,
    }
}

fn check_hello(hello: &Hello, book: &RecordBook) -> bool {
    hello.record.as_ref().is_none_or(|record| admit(Arc::new(record.clone()), book).is_some())
}

fn check_request(request: &mut Request, book: &RecordBook) -> bool {
    match request {
        Request::Ping | Request::Join | Request::Neighbors { stamp: _ } => true,
        Request::Route(RouteQuery { failed, .. }) => failed.len() <= MAX_FAILED,
        Request::Notify { predecessors } => list(predecessors, book),
        Request::Push(neighbors) => check_neighbors(neighbors, book),
        Request::Candidate { contact: one }
        | Request::ProbeFor { target: one }
        | Request::Unify { via: one, ttl: _ } => essential(one, book),
        Request::Leave { successors, predecessor, for_good: _, remembered } => {
            optional(predecessor, book);
            list(successors, book) && list(remembered, book)
        }
        Request::WriteRegister { register, part: _, epoch: _ } => check_register(register),
        Request::FetchRegisters { ids } => ids.len() <= MAX_PAGE,
        Request::MapReport { events } | Request::MapSpread { events, batch: _, end: _ } => {
            events.len() <= MAX_MAP_EVENTS
        }
        Request::MapTell { events } => events.len() <= MAX_MAP_PAGE,
        Request::MapDigest { digests } => digests.len() <= MAX_MAP_DIGESTS,
        Request::Forward(forward) => check_forward(forward, book),
        Request::ForwardEnd(end) => check_forward_end(end, book),
        Request::ReadRegister { .. }
        | Request::Digest { .. }
        | Request::List { .. }
        | Request::Handoff { .. }
        | Request::NotifySame { digest: _ }
        | Request::MapPage { after: _ } => true,
    }
}

/// Only the asker is ever dialled of all whom the question names.
fn check_forward(forward: &mut Forward, book: &RecordBook) -> bool {
    is_way_bounded(&forward.path, &forward.detours) && essential(&mut forward.asker, book)
}

fn check_forward_end(end: &mut ForwardEnd, book: &RecordBook) -> bool {
    let is_bounded = is_way_bounded(&end.path, &end.detours);
    match &mut end.outcome {
        ForwardOutcome::Mine { predecessor, successors } => {
            optional(predecessor, book);
            is_bounded && list(successors, book)
        }
        ForwardOutcome::Stuck { reason: _ } => is_bounded,
    }
}

fn is_way_bounded(path: &[HandedStep], detours: &[HandedDetour]) -> bool {
    path.len() <= MAX_PATH && detours.len() <= MAX_FAILED
}

fn check_response(response: &mut Response, book: &RecordBook) -> bool {
    match response {
        Response::Route(RouteAnswer::Mine { predecessor, successors }) => {
            optional(predecessor, book);
            list(successors, book)
        }
        Response::Route(
            RouteAnswer::NotMine { predecessor: one }
            | RouteAnswer::Next { next: one }
            | RouteAnswer::Instead { contact: one },
        )
        | Response::JoinElsewhere { next: one } => essential(one, book),
        Response::Joined(neighbors) | Response::Neighbors(neighbors) => {
            check_neighbors(neighbors, book)
        }
        Response::Register { register, open: _ } => register.as_ref().is_none_or(check_register),
        Response::Moved { members, epoch: _ } => list(members, book),
        Response::RegisterPage { entries, last: _ } => entries.len() <= MAX_PAGE,
        Response::MapPage { events, last: _ } => events.len() <= MAX_MAP_PAGE,
        Response::MapDiffers { parts, events } => {
            parts.len() <= MAX_MAP_DIGESTS && events.len() <= MAX_MAP_PAGE
        }
        Response::ChunkPage { entries, last: _ } => entries.len() <= MAX_PAGE,
        Response::Registers(registers) => {
            registers.len() <= MAX_PAGE && registers.iter().all(check_register)
        }
        Response::Done
        | Response::Unchanged
        | Response::Probed { .. }
        | Response::Accepted
        | Response::Outdated { .. }
        | Response::Unknown
        | Response::Digest { .. }
        | Response::HandoffMissing { .. }
        | Response::Busy
        | Response::NotMember
        | Response::Refused(_)
        | Response::WhichPredecessors
        | Response::NoMap => true,
    }
}

fn check_neighbors(neighbors: &mut Neighbors, book: &RecordBook) -> bool {
    optional(&mut neighbors.predecessor, book);
    list(&mut neighbors.successors, book)
}

fn check_register(register: &Register) -> bool {
    let value = match &register.value {
        Value::Deleted => 0,
        Value::Present(bytes) => bytes.len(),
    };
    register.operations.len() <= MAX_OPERATIONS && value <= MAX_VALUE_LEN
}

fn check_chunk_request(request: &ChunkRequest) -> bool {
    match request {
        ChunkRequest::Put { chunk } => chunk.len <= MAX_CHUNK_LEN,
        ChunkRequest::Get { hash: _ } => true,
        ChunkRequest::Have { hashes } => hashes.len() <= MAX_CHUNKS,
    }
}

fn check_chunk_response(response: &ChunkResponse) -> bool {
    match response {
        ChunkResponse::Found { len } => *len <= MAX_CHUNK_LEN,
        ChunkResponse::Have { held } => held.len() <= MAX_CHUNKS,
        ChunkResponse::Stored
        | ChunkResponse::Mismatch
        | ChunkResponse::NoSpace
        | ChunkResponse::Absent
        | ChunkResponse::Failed => true,
    }
}

fn check_client_request(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::List { prefix, after, limit: _ }
        | ClientRequest::ListHere { prefix, after, limit: _ } => {
            let after = after.as_ref().map_or(0, Vec::len);
            prefix.len() <= MAX_KEY_LEN && after <= MAX_KEY_LEN
        }
        // What these carry is bounded by the frame alone, and by the member that serves them.
        ClientRequest::Put(_)
        | ClientRequest::Identify
        | ClientRequest::Get { .. }
        | ClientRequest::Info { .. }
        | ClientRequest::Remove { .. }
        | ClientRequest::Lookup { .. }
        | ClientRequest::Sample { .. }
        | ClientRequest::Neighborhood
        | ClientRequest::Stats => true,
    }
}

/// A report to a client is a whole: leaving a step of a path out would falsify it. So every contact
/// in it is essential, except in plain lists of neighbours.
fn check_client_response(response: &mut ClientResponse, book: &RecordBook) -> bool {
    match response {
        ClientResponse::Identity { contact, .. } => essential(contact, book),
        ClientResponse::Stored(report) => all(&mut report.replicas, book),
        ClientResponse::Info(report) => {
            report.replicas.iter_mut().all(|(contact, _)| essential(contact, book))
                && report.chunks.iter_mut().all(|(_, holders)| all(holders, book))
        }
        ClientResponse::Listed { keys, more: _ } => keys.len() <= MAX_LISTED,
        ClientResponse::Lookup(report) => check_lookup(report, book),
        ClientResponse::Neighborhood(report) => check_neighborhood(report, book),
        ClientResponse::Stats(report) => check_stats(report, book),
        ClientResponse::Found(_)
        | ClientResponse::Removed { .. }
        | ClientResponse::Sampled(_)
        | ClientResponse::Failed { .. } => true,
    }
}

fn check_lookup(report: &mut LookupReport, book: &RecordBook) -> bool {
    essential(&mut report.asker, book)
        && report.owner.as_mut().is_none_or(|owner| essential(owner, book))
        && report.path.iter_mut().all(|step| essential(&mut step.contact, book))
        && report.detours.iter_mut().all(|Detour { contact, .. }| {
            // One that did not answer may have been named by the full map alone.
            !contact.record.is_signed() || essential(contact, book)
        })
        && report.handed.as_ref().is_none_or(|held| is_way_bounded(&held.path, &held.detours))
}

fn check_neighborhood(report: &mut NeighborhoodReport, book: &RecordBook) -> bool {
    optional(&mut report.predecessor, book);
    if report.fingers.len() > MAX_FINGERS {
        return false;
    }
    report.fingers.retain_mut(|(_, contact)| essential(contact, book));
    essential(&mut report.contact, book)
        && report.addrs.len() <= MAX_ADDRS
        && list(&mut report.successors, book)
        && list(&mut report.predecessors, book)
}

fn check_stats(report: &mut StatsReport, book: &RecordBook) -> bool {
    optional(&mut report.predecessor, book);
    essential(&mut report.contact, book) && list(&mut report.successors, book)
}

/// A list whose bad entries are left out.
fn list(contacts: &mut Vec<Contact>, book: &RecordBook) -> bool {
    if contacts.len() > MAX_CONTACTS {
        return false;
    }
    contacts.retain_mut(|contact| essential(contact, book));
    true
}

/// A list in which every entry must be good.
fn all(contacts: &mut [Contact], book: &RecordBook) -> bool {
    contacts.len() <= MAX_CONTACTS && contacts.iter_mut().all(|contact| essential(contact, book))
}

/// A contact that may as well be missing.
fn optional(contact: &mut Option<Contact>, book: &RecordBook) {
    if contact.as_mut().is_some_and(|contact| !essential(contact, book)) {
        *contact = None;
    }
}

fn essential(contact: &mut Contact, book: &RecordBook) -> bool {
    match admit(contact.record.clone(), book) {
        Some(record) => {
            contact.record = record;
            true
        }
        None => false,
    }
}

fn admit(record: Arc<PeerRecord>, book: &RecordBook) -> Option<Arc<PeerRecord>> {
    (record.addrs.len() <= MAX_ADDRS).then(|| book.admit(record)).flatten()
}

#[cfg(test)]
mod tests {
    use dht_core::Id;
    use dht_core::message::client::NodeState;
    use dht_core::message::forward::{PlaceMark, Ticket};
    use dht_core::message::ring::Routing;
    use dht_core::stats::UpkeepTraffic;

    use super::*;
    use crate::Identity;

    fn good(seed: u8) -> Contact {
        let identity = Identity::from_seed([seed; 32]);
        Contact::new(Arc::new(identity.record(1, 0, vec![([127, 0, 0, 1], 1).into()])), 0)
    }

    fn forged(seed: u8) -> Contact {
        let mut record = (*good(seed).record).clone();
        record.incarnation += 1;
        Contact::new(Arc::new(record), 0)
    }

    fn ring(request: Request) -> Frame {
        Frame::Ring { from: 0, to: 0, request }
    }

    #[test]
    fn forged_entries_are_left_out_of_lists() {
        let book = RecordBook::default();
        let mut frame =
            ring(Request::Notify { predecessors: vec![good(1), forged(2), good(3), forged(1)] });
        assert!(check_frame(&mut frame, &book));
        assert_eq!(frame, ring(Request::Notify { predecessors: vec![good(1), good(3)] }));
        let mut frame = ring(Request::Leave {
            successors: vec![forged(1)],
            predecessor: Some(forged(2)),
            for_good: true,
            remembered: vec![forged(3)],
        });
        assert!(check_frame(&mut frame, &book));
        let empty = Request::Leave {
            successors: vec![],
            predecessor: None,
            for_good: true,
            remembered: vec![],
        };
        assert_eq!(frame, ring(empty));
    }

    #[test]
    fn a_message_about_a_forged_contact_is_malformed() {
        let book = RecordBook::default();
        for (contact, right) in [(good(1), true), (forged(1), false)] {
            let mut frame = ring(Request::Candidate { contact: contact.clone() });
            assert_eq!(check_frame(&mut frame, &book), right);
            assert_eq!(check_frame(&mut ring(forward(contact.clone())), &book), right);
            let mut answer = Answer::Ring(Response::Route(RouteAnswer::Next { next: contact }));
            assert_eq!(check_answer(&mut answer, &book), right);
        }
    }

    /// A lookup that is handed on, for `asker`: whoever owns its key will dial that one.
    fn forward(asker: Contact) -> Request {
        Request::Forward(Box::new(Forward {
            ticket: Ticket { number: 1, nonce: 1 },
            asker,
            key: Id::ZERO,
            after: Id::ZERO,
            past: None,
            routing: Routing::Successors,
            depth: 1,
            want_list: false,
            hops: 1,
            max_hops: 9,
            timeouts: 0,
            retries: 0,
            path: vec![],
            detours: vec![],
        }))
    }

    #[test]
    fn fingers_are_as_many_as_there_can_be_and_forged_ones_are_left_out() {
        let book = RecordBook::default();
        let report = |fingers: Vec<(u8, Contact)>| {
            Answer::Client(ClientResponse::Neighborhood(NeighborhoodReport {
                contact: good(1),
                state: NodeState::Member,
                predecessor: None,
                successors: vec![],
                predecessors: vec![],
                keys: 0,
                bytes: 0,
                depth: 1,
                routings: vec![],
                addrs: vec![],
                fingers,
                map: 0,
                upkeep: UpkeepTraffic::default(),
                depth_back: 1,
            }))
        };
        let mut answer = report(vec![(157, good(2)), (158, forged(3)), (159, good(4))]);
        assert!(check_answer(&mut answer, &book));
        assert_eq!(answer, report(vec![(157, good(2)), (159, good(4))]));
        for (len, right) in [(MAX_FINGERS, true), (MAX_FINGERS + 1, false)] {
            let mut answer = report(vec![(0, good(2)); len]);
            assert_eq!(check_answer(&mut answer, &book), right);
        }
    }

    #[test]
    fn equal_records_come_out_as_one() {
        let book = RecordBook::default();
        let mut frame = ring(Request::Notify { predecessors: vec![good(1), good(1)] });
        assert!(check_frame(&mut frame, &book));
        let Frame::Ring { request: Request::Notify { predecessors }, .. } = frame else {
            unreachable!("checking changes no kind");
        };
        assert!(Arc::ptr_eq(&predecessors[0].record, &predecessors[1].record));
    }

    #[test]
    fn lists_over_their_bound_are_malformed() {
        let book = RecordBook::default();
        let query = |failed| {
            let routing = Routing::Successors;
            let (key, after) = (Id::ZERO, Id::ZERO);
            ring(Request::Route(RouteQuery {
                key,
                after,
                routing,
                depth: 1,
                failed,
                want_list: false,
            }))
        };
        assert!(check_frame(&mut query(vec![Id::ZERO; MAX_FAILED]), &book));
        assert!(!check_frame(&mut query(vec![Id::ZERO; MAX_FAILED + 1]), &book));
        for (len, right) in [(MAX_CONTACTS, true), (MAX_CONTACTS + 1, false)] {
            let predecessors = vec![good(1); len];
            assert_eq!(check_frame(&mut ring(Request::Notify { predecessors }), &book), right);
        }
        for (len, right) in [(MAX_PATH, true), (MAX_PATH + 1, false)] {
            let place = PlaceMark { id: Id::ZERO, addr: None };
            let end = ForwardEnd {
                ticket: Ticket { number: 1, nonce: 1 },
                key: Id::ZERO,
                outcome: ForwardOutcome::Mine { predecessor: Some(forged(2)), successors: vec![] },
                hops: 1,
                timeouts: 0,
                path: vec![HandedStep { place, fell_back: false }; len],
                detours: vec![],
            };
            let mut frame = ring(Request::ForwardEnd(Box::new(end)));
            assert_eq!(check_frame(&mut frame, &book), right);
        }
        for (len, right) in [(MAX_PAGE, true), (MAX_PAGE + 1, false)] {
            let ids = vec![Id::ZERO; len];
            assert_eq!(check_frame(&mut ring(Request::FetchRegisters { ids }), &book), right);
        }
        for (len, right) in [(MAX_CHUNKS, true), (MAX_CHUNKS + 1, false)] {
            let mut frame = Frame::Chunk(ChunkRequest::Have { hashes: vec![[0; 32]; len] });
            assert_eq!(check_frame(&mut frame, &book), right);
            let mut answer = Answer::Chunk(ChunkResponse::Have { held: vec![true; len] });
            assert_eq!(check_answer(&mut answer, &book), right);
        }
        for (len, right) in [(MAX_KEY_LEN, true), (MAX_KEY_LEN + 1, false)] {
            let list = ClientRequest::List { prefix: vec![0; len], after: None, limit: 1 };
            assert_eq!(check_frame(&mut Frame::Client(list), &book), right);
        }
    }
}
