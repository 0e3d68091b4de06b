//! The edge of the core: what a driver tells it, and what it orders.
//!
//! Facts go in as [`Event`]s, orders come out as [`Effect`]s. An order that expects an answer
//! carries an id, and the answer carries it back.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::interval::{Interval, IntervalSet};
use crate::manifest::{ChunkRef, ContentHash};
use crate::message::Forwarding;
use crate::message::client::{LookupReport, NodeState};
use crate::message::ring::{Kind, Request, Response, Routing};
use crate::peer::{Contact, PeerRecord};
use crate::register::{Ballot, Key, OperationId, Register, Value};

/// Ties a [`Effect::Send`] to its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RpcId(pub u64);

/// Ties an [`Event::Request`] to its [`Effect::Reply`]; drawn by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReplyId(pub u64);

/// Ties a [`Command`] to the [`Notice`] of its end; drawn by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpId(pub u64);

/// Ties an [`Effect::Store`] to its [`Event::Stored`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreId(pub u64);

/// Ties an [`Effect::Fetch`] to its [`Event::Fetched`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FetchId(pub u64);

/// What happened outside.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A member asks. Exactly one [`Effect::Reply`] with the same id follows, at once or later.
    Request {
        /// To answer by.
        reply: ReplyId,
        /// Who asks: a place of the key that the connection presented.
        from: Contact,
        /// What.
        request: Request,
    },
    /// The asker of a request is gone; no reply is needed any more.
    RequestDropped {
        /// Which.
        reply: ReplyId,
    },
    /// An answer to an [`Effect::Send`].
    Response {
        /// Which.
        rpc: RpcId,
        /// What came back.
        response: Response,
        /// What the answerer said of itself last, if the driver knows: a contact may name an earlier
        /// life than the one that answers.
        record: Option<Arc<PeerRecord>>,
        /// How long opening a connection took, in microseconds; 0 if there was one.
        connect_us: u64,
    },
    /// An [`Effect::Send`] failed before the core's own time-out.
    Failed {
        /// Which.
        rpc: RpcId,
        /// How.
        failure: Failure,
    },
    /// The owner of the node wants something.
    Command(Command),
    /// An answer to an [`Effect::Store`].
    Stored {
        /// Which.
        store: StoreId,
        /// What came of it.
        outcome: StoreOutcome,
    },
    /// An answer to an [`Effect::Fetch`].
    Fetched {
        /// Which.
        fetch: FetchId,
        /// Whether the chunk is durable here now.
        stored: bool,
    },
}

/// Why a request came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Failure {
    /// Nothing came in time. Counts as a missed probe at once: only drivers that keep perfect time
    /// (the simulator in scripted steps) say so; others let the core's own timer decide.
    TimedOut,
    /// The transport gave up early. Lookups go on at once; a probe counts as missed only when its
    /// time is over, so that a local fault does not kill every neighbour in a microsecond.
    Unreachable,
    /// Somebody else answers at that address, or the ring is another one: the contact is void.
    NotThatPeer,
    /// Another process answers there with this very node's key: the identity was copied.
    SameIdentity,
}

/// What the owner of a node orders.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Be the first node of a ring.
    Found,
    /// Join through these members; they were dialled and answered. Said again with others while
    /// the state is `joining`.
    Join {
        /// Members of the ring.
        via: Vec<Contact>,
    },
    /// What [`Effect::Persist`] kept in an earlier life. The peers are asked for a way back, now and
    /// when all else falls silent; until then the node counts as isolated, so that a whole ring can
    /// restart at once. One that was alone goes on alone.
    Remember(Memory),
    /// The node's own record changed: other addresses.
    Renew {
        /// The newer record.
        record: Arc<PeerRecord>,
    },
    /// Find the owner of a point. [`Notice::Found`] follows.
    Lookup {
        /// To answer by.
        op: OpId,
        /// The point.
        key: Id,
        /// How; the node's own routing if none.
        routing: Option<Routing>,
        /// With how many entries; the node's own depth if none.
        depth: Option<u16>,
        /// Whether it counts in the node's statistics.
        purpose: Purpose,
        /// Who carries it from node to node; the node's own forwarding if none.
        forwarding: Option<Forwarding>,
    },
    /// Read a register. [`Notice::Read`] follows.
    Read {
        /// To answer by.
        op: OpId,
        /// Which.
        key: Key,
    },
    /// Write a register. [`Notice::Written`] follows.
    Write {
        /// To answer by.
        op: OpId,
        /// Which.
        key: Key,
        /// For retries.
        operation: OperationId,
        /// The new value.
        value: Value,
    },
    /// Run STABILIZE now; scripts and tests say so.
    Stabilize,
    /// Go for good: hand off, then unlink. [`Notice::Left`] follows.
    Leave,
    /// Stop, to come back later: unlink at once, keep everything. [`Notice::Left`] follows.
    Stop,
}

/// What a lookup is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// For a client: counted in the hop statistics.
    Client,
    /// For chunks, joins, repair: not counted.
    Upkeep,
}

/// What the core wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Ask a node. Exactly one [`Event::Response`] or [`Event::Failed`] is expected, unless
    /// [`Effect::Cancel`] comes first; later ones are ignored.
    Send {
        /// To answer by.
        rpc: RpcId,
        /// Whom.
        to: Contact,
        /// What.
        request: Request,
    },
    /// The answer is not wanted any more: its time is over.
    Cancel {
        /// Which.
        rpc: RpcId,
    },
    /// Answer a request.
    Reply {
        /// Which.
        reply: ReplyId,
        /// With what.
        response: Response,
    },
    /// Do something to the store. One [`Event::Stored`] is expected.
    Store {
        /// To answer by.
        store: StoreId,
        /// What.
        command: StoreCommand,
    },
    /// Copy a chunk from another member into the store. One [`Event::Fetched`] is expected.
    Fetch {
        /// To answer by.
        fetch: FetchId,
        /// Which.
        chunk: ChunkRef,
        /// From whom.
        from: Contact,
    },
    /// Keep this for the next start, instead of what was kept before. No answer.
    Persist(Memory),
    /// Something the driver or a person may want to know.
    Notice(Notice),
}

/// What a node's next life should know.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Neighbours and remembered peers.
    pub contacts: Vec<Contact>,
    /// The arcs whose registers this node holds completely.
    pub open: IntervalSet,
    /// Whether it was a ring of one: nobody else held anything.
    pub alone: bool,
}

/// What the store is asked. All writes are durable before they are answered.
#[derive(Clone, PartialEq, Debug)]
pub enum StoreCommand {
    /// Read one register.
    Load {
        /// Which.
        key: Key,
    },
    /// Keep these registers, each only if its ballot is higher than what is held, in one
    /// transaction.
    Save {
        /// Which.
        registers: Vec<Register>,
    },
    /// Read some registers by their points.
    LoadMany {
        /// The points.
        ids: Vec<Id>,
    },
    /// A digest over what is held in an arc.
    Digest {
        /// Registers or chunks.
        kind: Kind,
        /// The arc.
        arc: Interval,
    },
    /// A page of what is held in an arc, clockwise from its start.
    List {
        /// Registers or chunks.
        kind: Kind,
        /// The arc.
        arc: Interval,
        /// Where the last page ended.
        after: Option<Id>,
        /// Most entries.
        limit: usize,
    },
}

/// What the store says.
#[derive(Clone, PartialEq, Debug)]
pub enum StoreOutcome {
    /// To `Load`.
    Loaded(Option<Register>),
    /// To `Save`: for each register in order, the ballot that is held instead if that one is
    /// higher.
    Saved(Vec<Option<Ballot>>),
    /// To `LoadMany`: those that are held, in the order asked.
    LoadedMany(Vec<Register>),
    /// To `Digest`.
    Digest {
        /// Over everything in order.
        digest: ContentHash,
        /// How many there are.
        count: u64,
    },
    /// To `List` of registers, clockwise.
    Registers {
        /// Point and ballot.
        entries: Vec<(Id, Ballot)>,
        /// Whether nothing follows.
        last: bool,
    },
    /// To `List` of chunks, clockwise.
    Chunks {
        /// The chunks.
        entries: Vec<ChunkRef>,
        /// Whether nothing follows.
        last: bool,
    },
    /// The disk failed: nothing was changed.
    Failed,
}

/// What the core tells its driver.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// The node is doing something else now.
    State(NodeState),
    /// The node has its place in the ring, or needs none. Once per life.
    Ready,
    /// No member took the join so far; the core goes on trying.
    JoinFailed {
        /// Whom it asked last.
        via: Contact,
    },
    /// The ring already has a live node with this node's key.
    IdInUse {
        /// Where.
        contact: Contact,
    },
    /// To [`Command::Lookup`].
    Found {
        /// Which.
        op: OpId,
        /// The path and the owner.
        report: LookupReport,
        /// The owner's successor list, and its predecessor: the replica set starts with the owner.
        successors: Vec<Contact>,
    },
    /// A lookup that the statistics count found its owner.
    LookedUp {
        /// After so long.
        elapsed: Duration,
    },
    /// To [`Command::Read`].
    Read {
        /// Which.
        op: OpId,
        /// What came of it.
        outcome: ReadOutcome,
    },
    /// To [`Command::Write`].
    Written {
        /// Which.
        op: OpId,
        /// What came of it.
        outcome: WriteOutcome,
    },
    /// Before [`Notice::Left`], while a leave hands off.
    Leaving {
        /// What still lacks a new keeper; `None` while counting.
        missing: Option<u64>,
    },
    /// To [`Command::Leave`] and [`Command::Stop`]: nothing more will be sent.
    Left,
    /// A neighbour was found dead.
    Died {
        /// Who.
        contact: Contact,
    },
}

/// What a read came to.
#[derive(Clone, PartialEq, Debug)]
pub enum ReadOutcome {
    /// A majority answered; the register with the highest ballot, a tombstone too.
    Value {
        /// What is held; `None`: nothing ever was.
        register: Option<Register>,
        /// Who should hold it, and what each said.
        replicas: Vec<(Contact, crate::message::client::ReplicaState)>,
        /// Of the lookup.
        hops: u32,
    },
    /// Nobody owns the key that could be reached.
    Unreachable(crate::message::client::LookupFailure),
    /// Too few answered.
    NoQuorum {
        /// How many answered.
        answered: usize,
        /// How many are needed.
        needed: usize,
    },
}

/// What a write came to.
#[derive(Clone, PartialEq, Debug)]
pub enum WriteOutcome {
    /// Durable on a majority.
    Done {
        /// The register as written.
        register: Register,
        /// Who acknowledged.
        acks: Vec<Contact>,
        /// How many peers should hold it.
        wanted: usize,
        /// Of the lookup.
        hops: u32,
    },
    /// Nobody owns the key that could be reached: nothing was proposed.
    Unreachable(crate::message::client::LookupFailure),
    /// Too few answered: nothing was proposed.
    NoQuorum {
        /// How many answered.
        answered: usize,
        /// How many are needed.
        needed: usize,
    },
    /// It was proposed, and too few acknowledged: it may appear later. A retry with the same
    /// operation id is safe.
    UnknownOutcome {
        /// How many acknowledged.
        acked: usize,
        /// How many are needed.
        needed: usize,
    },
}
