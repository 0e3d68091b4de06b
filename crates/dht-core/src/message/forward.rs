//! Recursive lookups: a question that members hand on to each other, and its end, told to the asker
//! (`docs/protocol.md`, "Forwarding").

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::message::client::DetourReason;
use crate::message::ring::Routing;
use crate::peer::Contact;

/// Most retries that one question may cost, over all who hand it on: so at most so many copies of it are
/// under way beside the first, even where everybody is slow instead of dead. 16 by default (guess: with a
/// quarter of all nodes dead a way of six hops meets two).
pub const MAX_RETRIES: u8 = 16;

/// Who carries a lookup from node to node.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Forwarding {
    /// The asker contacts every node on the way itself.
    #[default]
    Iterative,
    /// Each node hands the question on, and the owner answers the asker.
    Recursive,
}

impl Forwarding {
    /// Both.
    pub const ALL: [Forwarding; 2] = [Forwarding::Iterative, Forwarding::Recursive];

    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Forwarding::Iterative => "iterative",
            Forwarding::Recursive => "recursive",
        }
    }
}

/// Names a question, so that its asker knows the answer again. Who was not on the way cannot guess it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticket {
    /// Of the lookup, at its asker.
    pub number: u64,
    /// Without a pattern.
    pub nonce: u64,
}

/// A place as a message names it that names many: for people to read, not signed, and never dialled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlaceMark {
    /// Where on the circle.
    pub id: Id,
    /// Where it is dialled, as whoever named it knows; `None` if it knows none.
    pub addr: Option<SocketAddr>,
}

impl PlaceMark {
    /// The place of a contact.
    pub fn of(contact: &Contact) -> PlaceMark {
        PlaceMark { id: contact.id, addr: contact.record.addrs.first().copied() }
    }
}

/// One node that had the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandedStep {
    /// Which.
    pub place: PlaceMark,
    /// Whether whoever handed it on keeps no state for the routing asked for, and went by its links.
    pub fell_back: bool,
}

/// One that was to have the question, and did not take it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandedDetour {
    /// Which.
    pub place: PlaceMark,
    /// What went wrong.
    pub reason: DetourReason,
}

/// "Who owns this key? If it is not you, hand this on; the owner tells the asker."
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Forward {
    /// To answer by.
    pub ticket: Ticket,
    /// Whom to answer.
    pub asker: Contact,
    /// The point looked for.
    pub key: Id,
    /// The last node known to lie before the key, as in a
    /// [`RouteQuery`](crate::message::ring::RouteQuery).
    pub after: Id,
    /// The node past the key, nearest to it, that sent the question back.
    pub past: Option<Id>,
    /// How to choose.
    pub routing: Routing,
    /// How many entries of the list may be used, from 1 up.
    pub depth: u16,
    /// Whether the owner's answer should bring its successor list.
    pub want_list: bool,
    /// Steps so far, that to the receiver among them.
    pub hops: u32,
    /// Most steps.
    pub max_hops: u32,
    /// Contacts that failed so far.
    pub timeouts: u32,
    /// How many times whoever has the question may try another node, from here to the end; at most
    /// [`MAX_RETRIES`]. Who hands it on keeps a share and gives the rest.
    pub retries: u8,
    /// The nodes that had it, without the asker: the last one is the receiver. At most
    /// [`MAX_PATH`](crate::message::client::MAX_PATH); beyond that only hops are counted.
    pub path: Vec<HandedStep>,
    /// The last contacts that failed, at most [`MAX_FAILED`](crate::message::ring::MAX_FAILED): they are
    /// not gone to again.
    pub detours: Vec<HandedDetour>,
}

/// What became of a question, told to its asker by whoever had it last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForwardEnd {
    /// Of the question.
    pub ticket: Ticket,
    /// The point that was looked for.
    pub key: Id,
    /// What became of it.
    pub outcome: ForwardOutcome,
    /// Steps from node to node.
    pub hops: u32,
    /// Contacts that failed.
    pub timeouts: u32,
    /// The nodes that had it; see [`Forward::path`].
    pub path: Vec<HandedStep>,
    /// The last contacts that failed; see [`Forward::detours`].
    pub detours: Vec<HandedDetour>,
}

/// How a question ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ForwardOutcome {
    /// "I own it."
    Mine {
        /// With the predecessor, the arc that is owned.
        predecessor: Option<Contact>,
        /// If wanted; at most [`MAX_CONTACTS`](crate::message::ring::MAX_CONTACTS).
        successors: Vec<Contact>,
    },
    /// "I can neither answer it nor hand it on."
    Stuck {
        /// Why.
        reason: GaveUp,
    },
}

/// Why a lookup that was handed on goes on iteratively.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum GaveUp {
    /// No answer came in time: the question was lost, or is late.
    NoAnswer,
    /// Whoever would come next is silent, and only upkeep can say who takes its place.
    NextSilent,
    /// Too many did not take it.
    TooManySilent,
    /// The node that had it knew nobody nearer to the key.
    NoProgress,
    /// More steps than the message allows.
    TooManyHops,
    /// The node that had it has lost its place.
    NotMember,
}

impl GaveUp {
    /// The word shown to people and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            GaveUp::NoAnswer => "no_answer",
            GaveUp::NextSilent => "next_silent",
            GaveUp::TooManySilent => "too_many_silent",
            GaveUp::NoProgress => "no_progress",
            GaveUp::TooManyHops => "too_many_hops",
            GaveUp::NotMember => "not_member",
        }
    }
}

/// How members carried a lookup, for its asker and its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandedReport {
    /// The nodes that had the question in turn, without the asker: the last one is the owner, or whoever
    /// got stuck with it. Empty if nobody answered. How long each took the asker does not know.
    pub path: Vec<HandedStep>,
    /// The last contacts that failed.
    pub detours: Vec<HandedDetour>,
    /// Why the asker went on by itself; `None`: the owner answered.
    pub gave_up: Option<GaveUp>,
}
