//! Frames, answers, refusals, chunks, admin requests, and enums without content.

use bytes::Bytes;
use dht_core::message::client::{
    ClientErrorCode, DetourReason, LookupFailure, NodeState, ReplicaState,
};
use dht_core::message::forward::{Forwarding, GaveUp};
use dht_core::message::ring::{Kind, Routing};
use dht_core::message::{
    AdminRequest, AdminResponse, Answer, ChunkRequest, ChunkResponse, ClientRequest,
    ClientResponse, Frame, Refusal, Request, Response,
};
use dht_core::register::Value;

use crate::samples::*;
use crate::{Pinned, variants};

pub(crate) fn add(pinned: &mut Pinned) {
    pinned.add_all(
        variants!(Frame: Hello, Ring, Chunk, Client, Admin),
        vec![
            Frame::Hello(hello()),
            Frame::Hello(client_hello()),
            Frame::Ring { from: 1, to: 2, request: Request::Ping },
            Frame::Chunk(ChunkRequest::Get { hash: [0xcc; 32] }),
            Frame::Client(ClientRequest::Identify),
            Frame::Admin(AdminRequest::Leave),
        ],
    );
    pinned.add_all(
        variants!(Answer: Hello, Ring, Chunk, Client, Admin, Refused),
        vec![
            Answer::Hello(hello()),
            Answer::Ring(Response::Done),
            Answer::Chunk(ChunkResponse::Stored),
            Answer::Client(ClientResponse::Removed { version: "1-2-aa".to_owned() }),
            Answer::Admin(AdminResponse::Left),
            Answer::Refused(Refusal::Malformed),
        ],
    );
    let (ours, yours) = (ring_id(), dht_core::message::RingId(1));
    pinned.add_all(
        variants!(Refusal: Malformed, OtherRing, NoHello, NoSuchPlace, NotAdmin, Overloaded,
            TooLarge, ShuttingDown, NoProgress, Unsupported),
        vec![
            Refusal::Malformed,
            Refusal::OtherRing { ours, yours },
            Refusal::NoHello,
            Refusal::NoSuchPlace { index: 9 },
            Refusal::NotAdmin,
            Refusal::Overloaded { retry_after_ms: 1000 },
            Refusal::TooLarge { limit: 262_144 },
            Refusal::ShuttingDown,
            Refusal::NoProgress,
            Refusal::Unsupported,
        ],
    );
    add_chunks(pinned);
    add_bare(pinned);
}

fn add_chunks(pinned: &mut Pinned) {
    pinned.add_all(
        variants!(ChunkRequest: Put, Get, Have),
        vec![
            ChunkRequest::Put { chunk: chunk() },
            ChunkRequest::Get { hash: [0xcc; 32] },
            ChunkRequest::Have { hashes: vec![[1; 32], [2; 32]] },
        ],
    );
    pinned.add_all(
        variants!(ChunkResponse: Stored, Mismatch, NoSpace, Found, Absent, Have, Failed),
        vec![
            ChunkResponse::Stored,
            ChunkResponse::Mismatch,
            ChunkResponse::NoSpace,
            ChunkResponse::Found { len: 1 << 20 },
            ChunkResponse::Absent,
            ChunkResponse::Have { held: vec![true, false] },
            ChunkResponse::Failed,
        ],
    );
    pinned.add_all(
        variants!(Value: Deleted, Present),
        vec![Value::Deleted, Value::Present(Bytes::from_static(b"value"))],
    );
}

fn add_bare(pinned: &mut Pinned) {
    pinned.add_all(variants!(AdminRequest: Leave), vec![AdminRequest::Leave]);
    pinned.add_all(
        variants!(AdminResponse: Leaving, Left),
        vec![
            AdminResponse::Leaving { missing: None },
            AdminResponse::Leaving { missing: Some(300) },
            AdminResponse::Left,
        ],
    );
    pinned.add_all(
        variants!(Routing: Successors, BothWays, Fingers, Full),
        vec![Routing::Successors, Routing::BothWays, Routing::Fingers, Routing::Full],
    );
    pinned.add_all(
        variants!(Forwarding: Iterative, Recursive),
        vec![Forwarding::Iterative, Forwarding::Recursive],
    );
    pinned.add_all(
        variants!(GaveUp: NoAnswer, NextSilent, TooManySilent, NoProgress, TooManyHops, NotMember),
        vec![
            GaveUp::NoAnswer,
            GaveUp::NextSilent,
            GaveUp::TooManySilent,
            GaveUp::NoProgress,
            GaveUp::TooManyHops,
            GaveUp::NotMember,
        ],
    );
    pinned.add_all(variants!(Kind: Registers, Chunks), vec![Kind::Registers, Kind::Chunks]);
    pinned.add_all(
        variants!(NodeState: Joining, Member, Isolated, Leaving),
        vec![NodeState::Joining, NodeState::Member, NodeState::Isolated, NodeState::Leaving],
    );
    pinned.add_all(
        variants!(ReplicaState: Current, Outdated, Missing, Silent),
        vec![
            ReplicaState::Current,
            ReplicaState::Outdated,
            ReplicaState::Missing,
            ReplicaState::Silent,
        ],
    );
    pinned.add_all(
        variants!(DetourReason: TimedOut, Unreachable, NotMember, NoProgress, Busy),
        vec![
            DetourReason::TimedOut,
            DetourReason::Unreachable,
            DetourReason::NotMember,
            DetourReason::NoProgress,
            DetourReason::Busy,
        ],
    );
    pinned.add_all(
        variants!(LookupFailure: NotMember, Exhausted, TooManyHops, TimedOut,
            Overloaded),
        vec![
            LookupFailure::NotMember,
            LookupFailure::Exhausted,
            LookupFailure::TooManyHops,
            LookupFailure::TimedOut,
            LookupFailure::Overloaded,
        ],
    );
    pinned.add_all(
        variants!(ClientErrorCode: Failed, NotFound, Unreachable, NoQuorum, UnknownOutcome,
            Conflict, Incomplete, Denied, NoSpace, Usage, NotMember),
        vec![
            ClientErrorCode::Failed,
            ClientErrorCode::NotFound,
            ClientErrorCode::Unreachable,
            ClientErrorCode::NoQuorum,
            ClientErrorCode::UnknownOutcome,
            ClientErrorCode::Conflict,
            ClientErrorCode::Incomplete,
            ClientErrorCode::Denied,
            ClientErrorCode::NoSpace,
            ClientErrorCode::Usage,
            ClientErrorCode::NotMember,
        ],
    );
}
