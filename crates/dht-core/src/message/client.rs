//! Between a client and any member. The member is the asker: hops count from it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::manifest::{ChunkRef, ContentHash};
use crate::message::RingId;
use crate::message::forward::{Forwarding, HandedReport};
use crate::message::ring::Routing;
use crate::peer::Contact;
use crate::register::{Key, OperationId};
use crate::stats::{StatsReport, UpkeepTraffic};

/// Most keys of one page of `ls`.
pub const MAX_LISTED: usize = 1000;
/// Most lookups one sampling request runs, so that its answer comes in good time.
pub const MAX_SAMPLES: u32 = 10_000;
/// Most fingers one report lists: one for each power of two of the circle.
pub const MAX_FINGERS: usize = 160;

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ClientRequest {
    /// Who are you?
    Identify,
    /// Store a file: its bytes follow until the end of the stream. A stream that is reset instead
    /// of ended leaves no file.
    Put(PutRequest),
    /// Fetch a file: its bytes follow the answer. A stream that is reset instead of ended, with a
    /// number of [`ClientErrorCode`], failed half-way.
    Get {
        /// Which.
        key: Key,
    },
    /// The manifest, and who holds what.
    Info {
        /// Which.
        key: Key,
        /// List chunks from this one on: a long list comes in several answers.
        first: u64,
    },
    /// Delete a file.
    Remove {
        /// Which.
        key: Key,
        /// For retries.
        operation: OperationId,
    },
    /// Keys by name, over the whole ring.
    List {
        /// Only keys that start so.
        prefix: Vec<u8>,
        /// Only keys after this one.
        after: Option<Vec<u8>>,
        /// At most so many; at most [`MAX_LISTED`].
        limit: u32,
    },
    /// Like [`ClientRequest::List`], over what this member itself holds, tombstones included: what
    /// members ask each other to answer it.
    ListHere {
        /// Only keys that start so.
        prefix: Vec<u8>,
        /// Only keys after this one.
        after: Option<Vec<u8>>,
        /// At most so many; at most [`MAX_LISTED`].
        limit: u32,
    },
    /// One lookup with its path.
    Lookup {
        /// The point.
        id: Id,
        /// How to route; the member's own routing if none.
        routing: Option<Routing>,
        /// With how many entries; the member's own depth if none.
        depth: Option<u16>,
        /// Who carries it from node to node; the member's own forwarding if none.
        forwarding: Option<Forwarding>,
    },
    /// Many lookups of random points.
    Sample {
        /// How many; at most [`MAX_SAMPLES`].
        lookups: u32,
        /// How to route.
        routing: Routing,
        /// With how many entries.
        depth: u16,
        /// Draws the points.
        seed: u64,
    },
    /// The member's links and load: what `ring` walks along.
    Neighborhood,
    /// Everything the member counts.
    Stats,
}

/// A file to be stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PutRequest {
    /// Its key.
    pub key: Key,
    /// For retries.
    pub operation: OperationId,
    /// Length of the chunks, in bytes; the ring's default if none.
    pub chunk_size: Option<u32>,
    /// MIME type.
    pub content_type: Option<String>,
    /// What the writer wants to note.
    pub meta: BTreeMap<String, String>,
}

/// What a member answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ClientResponse {
    /// To `Identify`.
    Identity {
        /// The member's place.
        contact: Contact,
        /// Its ring, if it has one.
        ring: Option<RingId>,
        /// Name of the ring.
        ring_name: String,
        /// What it is doing.
        state: NodeState,
        /// Version of the program.
        version: String,
    },
    /// To `Put`.
    Stored(PutReport),
    /// To `Get`: the bytes follow.
    Found(FileReport),
    /// To `Info`.
    Info(InfoReport),
    /// To `Remove`.
    Removed {
        /// The version of the tombstone.
        version: String,
    },
    /// To `List` and `ListHere`.
    Listed {
        /// In order of their names.
        keys: Vec<ListedKey>,
        /// Whether there may be more.
        more: bool,
    },
    /// To `Lookup`.
    Lookup(LookupReport),
    /// To `Sample`.
    Sampled(SampleReport),
    /// To `Neighborhood`.
    Neighborhood(NeighborhoodReport),
    /// To `Stats`.
    Stats(Box<StatsReport>),
    /// It could not be done.
    Failed {
        /// What kind of failure.
        code: ClientErrorCode,
        /// What happened and what to do next, for a person.
        message: String,
    },
}

/// Kinds of failure that scripts can tell apart. Numbers are stream error codes too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ClientErrorCode {
    /// Anything else.
    Failed,
    /// There is no such key.
    NotFound,
    /// No member answered, or not in time.
    Unreachable,
    /// Too few copies answered; nothing was proposed.
    NoQuorum,
    /// The write may appear later; a retry with the same operation id is safe.
    UnknownOutcome,
    /// A condition did not hold.
    Conflict,
    /// Data is short, lost or fails its hash.
    Incomplete,
    /// Not allowed.
    Denied,
    /// No space left.
    NoSpace,
    /// The request broke a bound.
    Usage,
    /// The member has no place in a ring yet, or lost it.
    NotMember,
}

/// What a node is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum NodeState {
    /// Looking for its place.
    Joining,
    /// In its place.
    Member,
    /// All its neighbours fell silent.
    Isolated,
    /// On its way out.
    Leaving,
}

impl NodeState {
    /// The word shown to people and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeState::Joining => "joining",
            NodeState::Member => "member",
            NodeState::Isolated => "isolated",
            NodeState::Leaving => "leaving",
        }
    }
}

/// What a `put` did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PutReport {
    /// Length of the file in bytes.
    pub size: u64,
    /// BLAKE3 of the file.
    pub hash: ContentHash,
    /// The ballot of the register, as an opaque text.
    pub version: String,
    /// How many chunks hold it; 0 if it lies in the manifest.
    pub chunks: u64,
    /// Smallest number of durable copies on distinct peers over manifest and all chunks when the
    /// put returned.
    pub acks: u32,
    /// How many copies there could have been: fewer peers than replicas make fewer.
    pub wanted: u32,
    /// Who holds the manifest.
    pub replicas: Vec<Contact>,
    /// Of the key's lookup.
    pub hops: u32,
}

/// What a `get` is about to send.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileReport {
    /// Length of the file in bytes.
    pub size: u64,
    /// BLAKE3 of the file.
    pub hash: ContentHash,
    /// The ballot of the register, as an opaque text.
    pub version: String,
    /// MIME type.
    pub content_type: Option<String>,
    /// What the writer noted.
    pub meta: BTreeMap<String, String>,
    /// Of the key's lookup.
    pub hops: u32,
}

/// What `info` knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InfoReport {
    /// The file.
    pub file: FileReport,
    /// When it was stored, in milliseconds of Unix time by the writing member's clock.
    pub created_ms: i64,
    /// Who should hold the manifest, and what each said.
    pub replicas: Vec<(Contact, ReplicaState)>,
    /// Chunks in order with the peers that hold a copy, from the one asked for on, as many as fit
    /// one answer.
    pub chunks: Vec<(ChunkRef, Vec<Contact>)>,
    /// How many chunks there are in all.
    pub chunk_count: u64,
}

/// What a peer said of its copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ReplicaState {
    /// The current version.
    Current,
    /// An older one.
    Outdated,
    /// None yet.
    Missing,
    /// No answer.
    Silent,
}

/// One line of `ls`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListedKey {
    /// The key.
    pub key: Key,
    /// Length of the file; `None` for a tombstone.
    pub size: Option<u64>,
    /// Orders versions of the same key: the ballot.
    pub ballot: crate::register::Ballot,
    /// When it was stored, in milliseconds of Unix time by the writing member's clock.
    pub modified_ms: i64,
}

/// One lookup, told step by step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LookupReport {
    /// The point.
    pub id: Id,
    /// How it was routed.
    pub routing: Routing,
    /// With how many entries.
    pub depth: u16,
    /// Who asked: hops count from here.
    pub asker: Contact,
    /// Who owns the point; `None` if nobody could be found, and then `failure` says why.
    pub owner: Option<Contact>,
    /// Steps from node to node.
    pub hops: u32,
    /// Failed contacts.
    pub timeouts: u64,
    /// The nodes contacted in order, without the asker: the last is the owner. A path of more than
    /// [`MAX_PATH`] steps is cut there; `hops` is not.
    pub path: Vec<PathStep>,
    /// The first failed contacts, at most [`MAX_DETOURS`].
    pub detours: Vec<Detour>,
    /// From start to end.
    pub elapsed_us: u64,
    /// Why there is no owner.
    pub failure: Option<LookupFailure>,
    /// How members carried it, if it was handed on. Hops are theirs then, and `path` has only what the
    /// asker did by itself: nothing, unless it gave up waiting.
    pub handed: Option<HandedReport>,
}

/// Most steps that a [`LookupReport`] lists: with the detours it fits a frame of 256 KiB, at most
/// 350 bytes each.
pub const MAX_PATH: usize = 512;
/// Most failed contacts that a [`LookupReport`] lists.
pub const MAX_DETOURS: usize = 128;

/// One node on the path of a lookup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathStep {
    /// Who.
    pub contact: Contact,
    /// Time to open a connection; 0 if there was one.
    pub connect_us: u64,
    /// Time from question to answer, without the connecting.
    pub rtt_us: u64,
    /// Whether whoever named this node keeps no state for the routing asked for, and went by its links.
    pub fell_back: bool,
}

/// A contact that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Detour {
    /// Who.
    pub contact: Contact,
    /// What went wrong.
    pub reason: DetourReason,
}

/// Why a contact counts as failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum DetourReason {
    /// No answer in time.
    TimedOut,
    /// The transport could not reach it.
    Unreachable,
    /// It answered that it is no member.
    NotMember,
    /// Its answer led nowhere.
    NoProgress,
    /// It was too busy.
    Busy,
}

/// Why a lookup found nobody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LookupFailure {
    /// The asker has no place in the ring.
    NotMember,
    /// Everybody that could be asked failed.
    Exhausted,
    /// More steps than any ring needs.
    TooManyHops,
    /// It took too long.
    TimedOut,
    /// The asker has too many lookups under way already.
    Overloaded,
}

/// What many lookups came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SampleReport {
    /// `histogram[h]`: how many lookups took `h` hops.
    pub histogram: Vec<u64>,
    /// Lookups that found nobody.
    pub failed: u64,
    /// Contacts that failed on the way, over all lookups.
    pub timeouts: u64,
}

/// A member's links and load.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NeighborhoodReport {
    /// The member.
    pub contact: Contact,
    /// What it is doing.
    pub state: NodeState,
    /// The nearest node before it.
    pub predecessor: Option<Contact>,
    /// The nodes after it.
    pub successors: Vec<Contact>,
    /// The nodes before it, nearest first.
    pub predecessors: Vec<Contact>,
    /// Registers on its own arc, without tombstones.
    pub keys: u64,
    /// Bytes of the chunks it stores.
    pub bytes: u64,
    /// Greatest depth its list serves.
    pub depth: u16,
    /// Routings it keeps state for.
    pub routings: Vec<Routing>,
    /// How it sees itself reached.
    pub addrs: Vec<SocketAddr>,
    /// The fingers beyond its successor list, by their exponents, lowest first; at most
    /// [`MAX_FINGERS`].
    pub fingers: Vec<(u8, Contact)>,
    /// Entries of its map of all members; 0 without one.
    pub map: u32,
    /// What it sent to keep all that right.
    pub upkeep: UpkeepTraffic,
    /// Greatest depth its predecessor list serves.
    pub depth_back: u16,
}

/// What only loopback and listed keys may ask.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AdminRequest {
    /// Go for good: copies first, then the links.
    Leave,
}

/// Answers and progress.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AdminResponse {
    /// Still copying.
    Leaving {
        /// Registers and chunks that still lack a new keeper; `None` while counting.
        missing: Option<u64>,
    },
    /// Gone.
    Left,
}
