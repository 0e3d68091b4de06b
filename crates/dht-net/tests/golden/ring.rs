//! Between members.

use dht_core::message::client::DetourReason;
use dht_core::message::forward::{
    Forward, ForwardEnd, ForwardOutcome, GaveUp, HandedDetour, HandedStep, PlaceMark, Ticket,
};
use dht_core::message::map::{Claim, MapEvent, MapPlace};
use dht_core::message::ring::{Kind, Neighbors, RouteAnswer, RouteQuery, Routing};
use dht_core::message::{Refusal, Request, Response};
use dht_core::{Id, Interval};

use crate::samples::*;
use crate::{Pinned, variants};

pub(crate) fn add(pinned: &mut Pinned) {
    pinned.add_all(
        variants!(Request: Ping, Route, Join, Neighbors, Notify, Push, Candidate, ProbeFor, Leave,
            Unify, ReadRegister, WriteRegister, Digest, List, FetchRegisters, Handoff, NotifySame,
            MapReport, MapSpread, MapTell, MapPage, MapDigest,
            Forward, ForwardEnd),
        requests(),
    );
    pinned.add_all(
        variants!(ForwardOutcome: Mine, Stuck),
        vec![mine(), ForwardOutcome::Stuck { reason: GaveUp::NoProgress }],
    );
    pinned.add_all(
        variants!(RouteAnswer: Mine, NotMine, Next, Instead),
        vec![
            RouteAnswer::Mine { predecessor: Some(contact()), successors: vec![other_contact()] },
            RouteAnswer::NotMine { predecessor: other_contact() },
            RouteAnswer::Next { next: contact() },
            RouteAnswer::Instead { contact: other_contact() },
        ],
    );
    pinned.add_all(
        variants!(Response: Done, Route, Joined, JoinElsewhere, Neighbors, Unchanged, Probed,
            Register, Accepted, Outdated, Moved, Unknown, Digest, RegisterPage, ChunkPage,
            Registers, HandoffMissing, Busy, NotMember, Refused, WhichPredecessors, MapPage,
            MapDiffers, NoMap),
        responses(),
    );
}

fn requests() -> Vec<Request> {
    let arc = arc();
    vec![
        Request::Ping,
        Request::Route(RouteQuery {
            key: id(),
            after: Id::from_u64(5),
            routing: Routing::BothWays,
            depth: 300,
            failed: vec![Id::MAX],
            want_list: true,
        }),
        Request::Join,
        Request::Neighbors { stamp: Some(200) },
        Request::Neighbors { stamp: None },
        Request::Notify { predecessors: vec![contact(), other_contact()] },
        Request::Push(neighbors()),
        Request::Candidate { contact: contact() },
        Request::ProbeFor { target: other_contact() },
        Request::Leave {
            successors: vec![other_contact()],
            predecessor: Some(contact()),
            for_good: true,
            remembered: vec![contact()],
        },
        Request::Unify { via: other_contact(), ttl: 2 },
        Request::ReadRegister { part: 4095, epoch: 1, key: key() },
        Request::WriteRegister { part: 4095, epoch: 1, register: register() },
        Request::Digest { kind: Kind::Registers, arc },
        Request::List { kind: Kind::Chunks, arc, after: Some(id()) },
        Request::FetchRegisters { ids: vec![id(), Id::ZERO] },
        Request::Handoff { kind: Kind::Chunks, arc },
        Request::NotifySame { digest: 70_000 },
        Request::MapReport { events: vec![here()] },
        Request::MapSpread { batch: 70_000, end: Id::MAX, events: vec![gone(), here()] },
        Request::MapTell { events: vec![gone()] },
        Request::MapPage { after: Id::MAX },
        Request::MapDigest { digests: vec![0, 70_000] },
        Request::Forward(Box::new(Forward {
            ticket: ticket(),
            asker: contact(),
            key: id(),
            after: Id::from_u64(5),
            past: Some(Id::MAX),
            routing: Routing::Fingers,
            depth: 300,
            want_list: true,
            hops: 2,
            max_hops: 100_000,
            timeouts: 1,
            retries: 9,
            path: path(),
            detours: detours(),
        })),
        Request::ForwardEnd(Box::new(end(ForwardOutcome::Stuck { reason: GaveUp::NextSilent }))),
        Request::ForwardEnd(Box::new(end(mine()))),
    ]
}

fn ticket() -> Ticket {
    Ticket { number: 300, nonce: 0x0123_4567_89ab_cdef }
}

fn path() -> Vec<HandedStep> {
    vec![
        HandedStep { place: PlaceMark::of(&other_contact()), fell_back: true },
        HandedStep { place: PlaceMark::of(&contact()), fell_back: false },
    ]
}

fn detours() -> Vec<HandedDetour> {
    vec![HandedDetour { place: PlaceMark::of(&other_contact()), reason: DetourReason::Busy }]
}

fn end(outcome: ForwardOutcome) -> ForwardEnd {
    let (path, detours) = (path(), detours());
    ForwardEnd { ticket: ticket(), key: id(), outcome, hops: 2, timeouts: 1, path, detours }
}

fn mine() -> ForwardOutcome {
    ForwardOutcome::Mine { predecessor: Some(contact()), successors: vec![other_contact()] }
}

fn responses() -> Vec<Response> {
    vec![
        Response::Done,
        Response::Route(RouteAnswer::Next { next: other_contact() }),
        Response::Joined(neighbors()),
        Response::JoinElsewhere { next: other_contact() },
        Response::Neighbors(neighbors()),
        Response::Unchanged,
        Response::Probed { answered: true },
        Response::Register { open: true, register: Some(register()) },
        Response::Register { open: false, register: None },
        Response::Accepted,
        Response::Outdated { held: ballot() },
        Response::Moved { epoch: 2, members: vec![other_contact()] },
        Response::Unknown,
        Response::Digest { digest: [0xdd; 32], count: 1000, open: true },
        Response::RegisterPage { entries: vec![(id(), ballot())], last: true },
        Response::ChunkPage { entries: vec![chunk()], last: false },
        Response::Registers(vec![register()]),
        Response::HandoffMissing { missing: Some(7) },
        Response::Busy,
        Response::NotMember,
        Response::Refused(Refusal::NoProgress),
        Response::WhichPredecessors,
        Response::MapPage { events: vec![here()], last: true },
        Response::MapDiffers { parts: vec![0, 300], events: vec![gone()] },
        Response::NoMap,
    ]
}

fn here() -> MapEvent {
    MapEvent::Here(MapPlace { contact: unsigned_contact(), count: 1, keeps_map: true })
}

fn gone() -> MapEvent {
    MapEvent::Gone { id: id(), claim: Claim { incarnation: 70_000, count: 2 } }
}

fn neighbors() -> Neighbors {
    Neighbors {
        stamp: 70_000,
        predecessor: Some(other_contact()),
        successors: vec![contact(), other_contact()],
        leaving: true,
    }
}

fn arc() -> Interval {
    Interval::new(Id::from_u64(1), id())
}
