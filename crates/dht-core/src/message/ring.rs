//! Between members: upkeep, lookups, registers, repair.

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use crate::id::Id;
use crate::interval::Interval;
use crate::manifest::{ChunkRef, ContentHash};
use crate::message::Refusal;
use crate::message::forward::{Forward, ForwardEnd};
use crate::message::map::MapEvent;
use crate::peer::Contact;
use crate::register::{Ballot, Key, Register};

/// Most entries of any list of contacts in one message: twice the greatest depth.
pub const MAX_CONTACTS: usize = 256;
/// Most failed places one routing question may name.
pub const MAX_FAILED: usize = 16;
/// Most entries of one page of registers or chunks (guess: 64 KiB per page).
pub const MAX_PAGE: usize = 1024;

/// How lookups choose their next node (`docs/protocol.md`, "Routing").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Routing {
    /// Clockwise along the successor list.
    Successors,
    /// Nearer side, along both lists.
    BothWays,
    /// Fingers at 2^i, then the successor list.
    Fingers,
    /// A map of all members.
    Full,
}

impl Routing {
    /// In the order of what they keep.
    pub const ALL: [Routing; 4] =
        [Routing::Successors, Routing::BothWays, Routing::Fingers, Routing::Full];

    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Routing::Successors => "successors",
            Routing::BothWays => "both-ways",
            Routing::Fingers => "fingers",
            Routing::Full => "full",
        }
    }
}

/// "Who is next on the way to this key?"
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteQuery {
    /// The point looked for.
    pub key: Id,
    /// The last node known to lie before the key: whoever is asked and lies past the key, as seen
    /// from here, answers "not mine" with its predecessor.
    pub after: Id,
    /// How to choose.
    pub routing: Routing,
    /// How many entries of the list may be used, from 1 up.
    pub depth: u16,
    /// Places that did not answer the asker; at most [`MAX_FAILED`].
    pub failed: Vec<Id>,
    /// Whether the owner's answer should bring its successor list.
    pub want_list: bool,
}

/// Answers a [`RouteQuery`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RouteAnswer {
    /// "I own it."
    Mine {
        /// With the predecessor, the arc that is owned.
        predecessor: Option<Contact>,
        /// If wanted; at most [`MAX_CONTACTS`].
        successors: Vec<Contact>,
    },
    /// "I lie past it and do not own it; ask my predecessor", or, both ways, one farther back that still
    /// lies at or past the key.
    NotMine {
        /// The one to ask.
        predecessor: Contact,
    },
    /// "Ask this one."
    Next {
        /// The one to ask.
        next: Contact,
    },
    /// "I keep no state for this routing. By my successor list and my predecessor, ask this one."
    Instead {
        /// The one to ask.
        contact: Contact,
    },
}

/// From place to place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// "Are you there?"
    Ping,
    /// A step of a lookup.
    Route(RouteQuery),
    /// "Let me in after you." The joiner is the sender.
    Join,
    /// The question of STABILIZE and of its step 2: predecessor and list.
    Neighbors {
        /// The stamp of the last answer from the same life of the same node: if nothing changed
        /// since, the answer says just that.
        stamp: Option<u64>,
    },
    /// "I believe I am your predecessor." RECTIFY follows.
    Notify {
        /// The sender's predecessor list, nearest first; at most [`MAX_CONTACTS`].
        predecessors: Vec<Contact>,
    },
    /// A changed list, sent to the predecessor: treated as a STABILIZE answer.
    Push(Neighbors),
    /// A node that may lie between the receiver and its head: a candidate for step 2.
    Candidate {
        /// The candidate.
        contact: Contact,
    },
    /// "Does this one answer you?" The indirect probe.
    ProbeFor {
        /// The one that did not answer the sender.
        target: Contact,
    },
    /// The sender goes. To the predecessor and to the successor alike.
    Leave {
        /// The leaver's successor list; at most [`MAX_CONTACTS`].
        successors: Vec<Contact>,
        /// The leaver's predecessor.
        predecessor: Option<Contact>,
        /// For good (`leave`), or coming back (a stop).
        for_good: bool,
        /// Whom else the leaver would look for: it is the last to know them, perhaps. At most
        /// [`MAX_CONTACTS`].
        remembered: Vec<Contact>,
    },
    /// "There is another part of our ring; look up your own id + 1 through this member of it"
    /// (Shafaat et al., ring unification).
    Unify {
        /// A member of the other part.
        via: Contact,
        /// How many neighbours further this may still be told.
        ttl: u8,
    },
    /// Read one register.
    ReadRegister {
        /// The part of the circle the key lies in.
        part: u16,
        /// The view the asker believes in.
        epoch: u64,
        /// Which register.
        key: Key,
    },
    /// Accept a write if its ballot is higher than what is held; durable before answering.
    WriteRegister {
        /// The part of the circle the key lies in.
        part: u16,
        /// The view the asker believes in.
        epoch: u64,
        /// The write.
        register: Register,
    },
    /// One digest over all registers or chunks held in an arc.
    Digest {
        /// Which kind.
        kind: Kind,
        /// The arc, named exactly by both sides.
        arc: Interval,
    },
    /// A page of what is held in an arc, in order from the arc's start.
    List {
        /// Which kind.
        kind: Kind,
        /// The arc.
        arc: Interval,
        /// Where the last page ended.
        after: Option<Id>,
    },
    /// Fetch some registers by their points; at most [`MAX_PAGE`], answered as far as they fit.
    FetchRegisters {
        /// The points.
        ids: Vec<Id>,
    },
    /// "I am leaving for good, or do not keep this arc any more, and you do: copy it from me." Asked
    /// again until the answer says that nothing is missing.
    Handoff {
        /// Which kind.
        kind: Kind,
        /// The arc.
        arc: Interval,
    },
    /// A [`Request::Notify`] with a list that was sent before.
    NotifySame {
        /// Of that list; see [`digest`]. Notifications may overtake each other.
        digest: u64,
    },
    /// "This happened: let everybody know." On its way to the lead of the map.
    MapReport {
        /// At most [`super::map::MAX_MAP_EVENTS`].
        events: Vec<MapEvent>,
    },
    /// Events on their way to everybody.
    MapSpread {
        /// Drawn by the lead: each batch is taken once.
        batch: u64,
        /// The receiver passes it on to everybody after itself up to here, without.
        end: Id,
        /// At most [`super::map::MAX_MAP_EVENTS`].
        events: Vec<MapEvent>,
    },
    /// Events for the receiver alone, which lacks them.
    MapTell {
        /// At most [`super::map::MAX_MAP_PAGE`].
        events: Vec<MapEvent>,
    },
    /// "Who is a member?", from zero on: a page of the map.
    MapPage {
        /// The last point of the page before; [`Id::MAX`] for the first one.
        after: Id,
    },
    /// "In which parts of the circle does your map differ from mine?"
    MapDigest {
        /// One for each of 2^b equal parts; at most [`super::map::MAX_MAP_DIGESTS`].
        digests: Vec<u32>,
    },
    /// A lookup that is handed on. `Done` says that the receiver has it now, and will hand it on or end
    /// it; who has too much to do says `Busy` and has not.
    Forward(Box<Forward>),
    /// The end of one, to its asker.
    ForwardEnd(Box<ForwardEnd>),
}

impl Request {
    /// The point, if this is a step of a lookup.
    pub fn looked_up(&self) -> Option<Id> {
        match self {
            Request::Route(query) => Some(query.key),
            Request::Forward(forward) => Some(forward.key),
            Request::ForwardEnd(end) => Some(end.key),
            _ => None,
        }
    }
}

/// Names a list of contacts: the first 8 bytes of SHA-1 over the places and the numbers of their records.
pub fn digest(list: &[Contact]) -> u64 {
    let mut hash = Sha1::new();
    for contact in list {
        let (incarnation, revision) = contact.record.sequence();
        hash.update(contact.id.to_bytes());
        hash.update(incarnation.to_be_bytes());
        hash.update(revision.to_be_bytes());
    }
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 20]>::from(hash.finalize());
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// What repair compares and copies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Register state, by the point of its key.
    Registers,
    /// Chunks, by the point of their hash.
    Chunks,
}

/// What a node says of its surroundings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Neighbors {
    /// Changes whenever anything below does.
    pub stamp: u64,
    /// The predecessor; whether it lives is for the asker to find out.
    pub predecessor: Option<Contact>,
    /// The successor list; at most [`MAX_CONTACTS`].
    pub successors: Vec<Contact>,
    /// Whether the node has announced that it leaves.
    pub leaving: bool,
}

/// Answers a [`Request`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Response {
    /// It is done, or heard.
    Done,
    /// To [`Request::Route`].
    Route(RouteAnswer),
    /// To [`Request::Join`]: welcome, this is the list of the member you come after.
    Joined(Neighbors),
    /// To [`Request::Join`]: not after me, ask this one.
    JoinElsewhere {
        /// The one to ask.
        next: Contact,
    },
    /// To [`Request::Neighbors`].
    Neighbors(Neighbors),
    /// To [`Request::Neighbors`]: nothing changed since the stamp.
    Unchanged,
    /// To [`Request::ProbeFor`].
    Probed {
        /// Whether the target answered.
        answered: bool,
    },
    /// To [`Request::ReadRegister`].
    Register {
        /// Whether the answerer holds the whole arc of the key: only then is this a vote, and only
        /// then does `None` mean that there is nothing.
        open: bool,
        /// What is held.
        register: Option<Register>,
    },
    /// To [`Request::WriteRegister`]: durable.
    Accepted,
    /// To [`Request::WriteRegister`]: something newer is held.
    Outdated {
        /// Its ballot.
        held: Ballot,
    },
    /// To register requests: the key is decided by a newer view.
    Moved {
        /// Its epoch.
        epoch: u64,
        /// Its members.
        members: Vec<Contact>,
    },
    /// To register requests: this node knows no view of that part.
    Unknown,
    /// To [`Request::Digest`].
    Digest {
        /// Over points and ballots, or hashes, in order.
        digest: ContentHash,
        /// How many there are.
        count: u64,
        /// Whether the answerer holds the whole arc.
        open: bool,
    },
    /// To [`Request::List`] of registers: point and ballot.
    RegisterPage {
        /// In order; at most [`MAX_PAGE`].
        entries: Vec<(Id, Ballot)>,
        /// Whether this was the last page.
        last: bool,
    },
    /// To [`Request::List`] of chunks.
    ChunkPage {
        /// In order of their points; at most [`MAX_PAGE`].
        entries: Vec<ChunkRef>,
        /// Whether this was the last page.
        last: bool,
    },
    /// To [`Request::FetchRegisters`]: those that fit in one frame, in the order asked.
    Registers(Vec<Register>),
    /// To [`Request::Handoff`]: how much is still to be copied; done at none.
    HandoffMissing {
        /// Registers or chunks; `None` while it is not yet known.
        missing: Option<u64>,
    },
    /// Not now; ask again soon.
    Busy,
    /// The receiver is not, or no more, a member: counts as no reply.
    NotMember,
    /// Not taken at all.
    Refused(Refusal),
    /// To [`Request::NotifySame`]: that list is not known here; send it.
    WhichPredecessors,
    /// To [`Request::MapPage`].
    MapPage {
        /// In the order of the circle from zero; at most [`super::map::MAX_MAP_PAGE`].
        events: Vec<MapEvent>,
        /// Whether this was the last page.
        last: bool,
    },
    /// To [`Request::MapDigest`].
    MapDiffers {
        /// The parts that differ.
        parts: Vec<u16>,
        /// What is known of them; at most [`super::map::MAX_MAP_PAGE`].
        events: Vec<MapEvent>,
    },
    /// To requests about the map: none is kept here.
    NoMap,
}

impl Response {
    /// Whether only one that has a place in the ring answers so.
    pub fn is_of_member(&self) -> bool {
        matches!(
            self,
            Response::Route(_)
                | Response::Joined(_)
                | Response::JoinElsewhere { .. }
                | Response::Neighbors(_)
                | Response::Unchanged
        )
    }
}
