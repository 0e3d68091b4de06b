//! The data machines of several members against each other: a network, disks and time in memory.
//!
//! Links are no machine here but an argument: a test says who stands on the circle, and who has
//! noticed. So every disagreement about it can be staged.

mod disk;
#[macro_use]
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, RingParams};
use crate::event::{Notice, OpId, ReadOutcome, ReplyId, RpcId, WriteOutcome};
use crate::id::Id;
use crate::interval::IntervalSet;
use crate::manifest::ChunkRef;
use crate::message::RingId;
use crate::message::ring::{Request, Response};
use crate::outbox::Outbox;
use crate::peer::Contact;
use crate::quorum::{Quorum, Task};
use crate::register::{Key, OperationId, Value};
use crate::replication::{Progress, Replication};
use crate::stats::AtRisk;
use crate::surroundings::Surroundings;
use crate::testing::contact_in_life;
use crate::time::Instant;

use disk::Disk;
use stage::Mail;

/// Answers some requests in the place of a member.
pub(crate) type Lie = Box<dyn FnMut(&Request) -> Option<Response>>;

/// Members by number, and what is on its way between them.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) members: BTreeMap<u64, Member>,
    /// Who stands on the circle.
    pub(crate) ring: BTreeSet<u64>,
    pub(crate) notices: Vec<(u64, Notice)>,
    /// What leavers said last.
    pub(crate) progress: BTreeMap<u64, Progress>,
    pub(crate) lies: BTreeMap<u64, Lie>,
    /// What was fetched, and by whom.
    pub(crate) fetched: Vec<(u64, ChunkRef)>,
    /// Answers to questions that the test posed itself.
    pub(crate) heard: BTreeMap<ReplyId, Response>,
    coordinators: BTreeMap<OpId, u64>,
    params: RingParams,
    config: Arc<Config>,
    mail: BTreeMap<(Instant, u64), (u64, Mail)>,
    replies: BTreeMap<ReplyId, (u64, RpcId)>,
    sequence: u64,
}

/// The data machines of one member, and what it sees.
pub(crate) struct Member {
    pub(crate) me: Contact,
    pub(crate) out: Outbox,
    pub(crate) quorum: Quorum,
    pub(crate) replication: Replication,
    pub(crate) disk: Disk,
    pub(crate) is_live: bool,
    /// How much longer its disk takes.
    pub(crate) disk_delay: Duration,
    alone: bool,
    successors: Vec<Contact>,
    predecessors: Vec<Contact>,
}

impl World {
    /// Members at these places, all of whom know each other, hold nothing, and know it.
    pub(crate) fn ring(places: &[u64]) -> World {
        let mut world = World::founded(places[0]);
        for n in &places[1..] {
            world.enter(*n);
        }
        world.settle();
        world.run(Duration::from_secs(60));
        for n in places {
            assert!(world.is_open_at_home(*n), "{n} never opened its arc");
        }
        world
    }

    /// One member that founded the ring.
    pub(crate) fn founded(place: u64) -> World {
        let mut world = World {
            now: Instant(1),
            members: BTreeMap::new(),
            ring: BTreeSet::new(),
            notices: Vec::new(),
            progress: BTreeMap::new(),
            lies: BTreeMap::new(),
            fetched: Vec::new(),
            heard: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            params: RingParams::founding(RingId(1), 3),
            config: Arc::new(Config::default()),
            mail: BTreeMap::new(),
            replies: BTreeMap::new(),
            sequence: 0,
        };
        world.enter(place);
        let member = world.member(place);
        member.replication.found(member.me.id);
        world.settle();
        world
    }

    /// A new member on the circle. Nobody sees it before [`World::settle`].
    pub(crate) fn enter(&mut self, n: u64) {
        let member = Member {
            me: place(n, 1),
            out: Outbox::new(self.config.clone(), n, self.now),
            quorum: Quorum::default(),
            replication: Replication::default(),
            disk: Disk::default(),
            is_live: true,
            disk_delay: Duration::ZERO,
            alone: false,
            successors: Vec::new(),
            predecessors: Vec::new(),
        };
        self.members.insert(n, member);
        self.ring.insert(n);
    }

    /// The member starts anew with its disk and what it had persisted.
    pub(crate) fn restart(&mut self, n: u64) {
        let out = Outbox::new(self.config.clone(), n + 1000, self.now);
        let member = self.member(n);
        let open = member.replication.open_arcs();
        member.out = out;
        member.quorum = Quorum::default();
        member.replication = Replication::default();
        member.replication.restore(open);
        member.is_live = true;
        (member.successors, member.predecessors) = (Vec::new(), Vec::new());
        self.ring.insert(n);
        // What was on its way to the earlier life is void.
        self.replies.retain(|_, (to, _)| *to != n);
    }

    /// The member falls silent; those who still list it find out by asking.
    pub(crate) fn kill(&mut self, n: u64) {
        self.member(n).is_live = false;
    }

    /// All on the circle see the circle as it is.
    pub(crate) fn settle(&mut self) {
        let members = &self.members;
        self.ring.retain(|n| members[n].is_live);
        for n in self.ring.clone() {
            let (after, before) = (self.after(n), self.before(n));
            self.link(n, &after, &before);
        }
    }

    /// One member sees these neighbours, nearest first.
    pub(crate) fn link(&mut self, n: u64, after: &[u64], before: &[u64]) {
        let contacts = |list: &[u64]| list.iter().map(|n| place(*n, 1)).collect::<Vec<_>>();
        let (after, before) = (contacts(after), contacts(before));
        let alone = self.ring.len() == 1;
        let (now, params) = (self.now, self.params);
        let member = self.member(n);
        let changed =
            (member.alone, &member.successors, &member.predecessors) != (alone, &after, &before);
        (member.alone, member.successors, member.predecessors) = (alone, after, before);
        if changed {
            member.out.now = now;
            with!(member, params, |replication, out, around| replication.on_neighbors(out, around));
            self.collect(n);
        }
    }

    /// The others after a place, nearest first, as far as a list reaches.
    pub(crate) fn after(&self, n: u64) -> Vec<u64> {
        let others = self.ring.range(n + 1..).chain(self.ring.range(..n));
        others.take(16).copied().collect()
    }

    /// The others before a place, nearest first, as far as a list reaches.
    pub(crate) fn before(&self, n: u64) -> Vec<u64> {
        let others = self.ring.range(..n).rev().chain(self.ring.range(n + 1..).rev());
        others.take(5).copied().collect()
    }

    /// The owner of a point and the members after it.
    pub(crate) fn candidates(&self, point: Id) -> Vec<u64> {
        let owner = self.ring.iter().find(|n| point <= place(**n, 1).id);
        let owner = *owner.or(self.ring.first()).expect("somebody");
        std::iter::once(owner).chain(self.after(owner)).collect()
    }

    /// Begins an operation at a member.
    pub(crate) fn begin(&mut self, n: u64, key: &str, task: Task) -> OpId {
        self.sequence += 1;
        let op = OpId(self.sequence);
        let now = self.now;
        self.coordinators.insert(op, n);
        let member = self.member(n);
        member.out.now = now;
        let want = member.quorum.begin(&mut member.out, op, self::key(key), task);
        self.look_up(n, want);
        op
    }

    /// Begins a write with an operation id of its own.
    pub(crate) fn begin_write(&mut self, n: u64, key: &str, text: &str) -> OpId {
        let mut operation = [0; 16];
        operation[..8].copy_from_slice(&(self.sequence + 1).to_be_bytes());
        let value = Value::Present(text.to_owned().into());
        self.begin(n, key, Task::Write { operation: OperationId(operation), value })
    }

    /// A write to its end, which is good.
    pub(crate) fn put(&mut self, n: u64, key: &str, text: &str) {
        let op = self.begin_write(n, key, text);
        let outcome = self.written(op);
        assert!(matches!(outcome, WriteOutcome::Done { .. }), "{key} at {n}: {outcome:?}");
    }

    /// A read to its end, which is good.
    pub(crate) fn get(&mut self, n: u64, key: &str) -> Option<String> {
        let op = self.begin(n, key, Task::Read);
        match self.read(op) {
            ReadOutcome::Value { register, .. } => register.and_then(|held| text(&held.value)),
            outcome => panic!("{key} at {n}: {outcome:?}"),
        }
    }

    /// Waits for the end of a write.
    pub(crate) fn written(&mut self, op: OpId) -> WriteOutcome {
        self.try_written(op).expect("every write ends")
    }

    /// Waits for the end of a read.
    pub(crate) fn read(&mut self, op: OpId) -> ReadOutcome {
        self.try_read(op).expect("every read ends")
    }

    /// Waits for the end of a write, unless its coordinator dies.
    pub(crate) fn try_written(&mut self, op: OpId) -> Option<WriteOutcome> {
        self.ended(op, |notice| match notice {
            Notice::Written { op: ended, outcome } if *ended == op => Some(outcome.clone()),
            _ => None,
        })
    }

    /// Waits for the end of a read, unless its coordinator dies.
    pub(crate) fn try_read(&mut self, op: OpId) -> Option<ReadOutcome> {
        self.ended(op, |notice| match notice {
            Notice::Read { op: ended, outcome } if *ended == op => Some(outcome.clone()),
            _ => None,
        })
    }

    /// Somebody from outside asks a member; its effects wait for whoever looks at them first.
    pub(crate) fn pose(&mut self, n: u64, reply: ReplyId, request: Request) {
        let (now, params) = (self.now, self.params);
        let member = self.member(n);
        member.out.now = now;
        let from = place(9, 1);
        with!(member, params, |replication, out, around| {
            replication.serve(out, around, reply, from, request);
        });
    }

    /// A member begins to leave for good.
    pub(crate) fn leave(&mut self, n: u64) {
        let (now, params) = (self.now, self.params);
        let member = self.member(n);
        member.out.now = now;
        let progress =
            with!(member, params, |replication, out, around| replication.begin_leave(out, around));
        self.progress.extend(progress.map(|progress| (n, progress)));
        self.collect(n);
    }

    /// Lets everything happen that happens within `span`.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        self.members.keys().copied().collect::<Vec<_>>().into_iter().for_each(|n| self.collect(n));
        while self.step(end) {}
        self.now = end;
    }

    pub(crate) fn member(&mut self, n: u64) -> &mut Member {
        self.members.get_mut(&n).expect("a member of this world")
    }

    /// Whether a member votes for its own point.
    pub(crate) fn is_open_at_home(&self, n: u64) -> bool {
        self.members[&n].replication.is_open(place(n, 1).id)
    }

    /// What a member knows to be one failure away from trouble.
    pub(crate) fn at_risk(&mut self, n: u64) -> AtRisk {
        let params = self.params;
        let member = self.member(n);
        with!(member, params, |replication, _out, around| replication.at_risk(around))
    }

    /// What a member has open.
    pub(crate) fn open(&self, n: u64) -> IntervalSet {
        self.members[&n].replication.open.clone()
    }

    /// How many live members hold a key.
    pub(crate) fn copies(&self, key: &str) -> usize {
        let id = self::key(key).id();
        self.count_live(|disk| disk.registers.contains_key(&id))
    }

    /// How many live members hold a chunk.
    pub(crate) fn chunk_copies(&self, chunk: &ChunkRef) -> usize {
        self.count_live(|disk| disk.chunks.contains_key(&chunk.id()))
    }

    fn count_live(&self, holds: impl Fn(&Disk) -> bool) -> usize {
        self.members.values().filter(|member| member.is_live && holds(&member.disk)).count()
    }
}

/// The contact at place `n` of 65,536, in a given life.
pub(crate) fn place(n: u64, incarnation: u64) -> Contact {
    let mut bytes = [0; Id::LEN];
    bytes[..2].copy_from_slice(&(n as u16).to_be_bytes());
    let Contact { record, .. } = contact_in_life(n, incarnation);
    Contact::at(Id::from_bytes(bytes), record)
}

/// The place of a contact.
pub(crate) fn number(contact: &Contact) -> u64 {
    let bytes = contact.id.to_bytes();
    u64::from(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// So many places, evenly spread.
pub(crate) fn spread(count: u64) -> Vec<u64> {
    (0..count).map(|n| 100 + n * (65_536 / count)).collect()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name.to_owned()).expect("a short key")
}

/// A chunk of 1000 bytes.
pub(crate) fn chunk(n: u32) -> ChunkRef {
    let mut hash = [7; 32];
    hash[..4].copy_from_slice(&n.to_be_bytes());
    ChunkRef { hash, len: 1000 }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Present(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::Deleted => None,
    }
}
