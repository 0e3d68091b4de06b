//! The small world of the tests: one delay, no loss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::*;
use crate::event::{OpId, Purpose, ReadOutcome, StoreCommand, StoreOutcome, WriteOutcome};
use crate::manifest::ChunkRef;
use crate::message::RingId;
use crate::message::client::LookupReport;
use crate::message::ring::Kind;
use crate::register::{Ballot, Key, OperationId, Register, Value};
use crate::testing::{contact, point};

const DELAY: Duration = Duration::from_millis(1);

/// Nodes by number, and what is on its way between them.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) config: Arc<Config>,
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) dead: BTreeSet<u64>,
    pub(super) mail: BTreeMap<(Instant, u64), Mail>,
    sequence: u64,
    replies: BTreeMap<ReplyId, (u64, RpcId)>,
    pub(super) notices: Vec<(u64, Notice)>,
    pub(super) disks: BTreeMap<u64, Disk>,
}

/// What one node stores.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) registers: BTreeMap<Id, Register>,
    pub(super) chunks: BTreeMap<Id, ChunkRef>,
}

pub(super) enum Mail {
    Request { to: u64, event: Event },
    Response { to: u64, rpc: RpcId, response: Response },
}

pub(super) fn number(contact: &Contact) -> u64 {
    let bytes = contact.id.to_bytes();
    let read = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    match read(0) {
        0 => read(12),
        spread => spread,
    }
}

impl World {
    pub(super) fn new(config: Config) -> World {
        World {
            now: Instant(1),
            config: Arc::new(config),
            nodes: BTreeMap::new(),
            dead: BTreeSet::new(),
            mail: BTreeMap::new(),
            sequence: 0,
            replies: BTreeMap::new(),
            notices: Vec::new(),
            disks: BTreeMap::new(),
        }
    }

    /// A ring of these nodes, joined one after the other through the first.
    pub(super) fn ring(config: Config, members: &[u64]) -> World {
        let mut world = World::new(config);
        world.add(members[0]);
        world.command(members[0], Command::Found);
        for member in &members[1..] {
            world.add(*member);
            world.command(*member, Command::Join { via: vec![contact(members[0])] });
            world.run(Duration::from_millis(500));
        }
        world.run(Duration::from_secs(20));
        world
    }

    pub(super) fn add(&mut self, n: u64) {
        let params = RingParams::founding(RingId(1), 3);
        let node = Node::new(contact(n), params, self.config.clone(), n, self.now);
        self.nodes.insert(n, node);
    }

    pub(super) fn command(&mut self, n: u64, command: Command) {
        let now = self.now;
        self.node(n).handle_event(now, Event::Command(command));
        self.collect(n);
    }

    pub(super) fn node(&mut self, n: u64) -> &mut Node {
        self.nodes.get_mut(&n).expect("a node of this world")
    }

    pub(super) fn kill(&mut self, n: u64) {
        self.dead.insert(n);
    }

    pub(super) fn live(&self) -> Vec<u64> {
        self.nodes.keys().copied().filter(|n| !self.dead.contains(n)).collect()
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        loop {
            let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
            let timer = self
                .live()
                .into_iter()
                .filter_map(|n| self.nodes[&n].poll_timeout().map(|at| (at, n)))
                .min();
            match (mail, timer) {
                (Some(at), timer) if at <= end && timer.is_none_or(|(due, _)| at <= due) => {
                    self.now = self.now.max(at);
                    self.deliver();
                }
                (_, Some((due, n))) if due <= end => {
                    self.now = self.now.max(due);
                    let now = self.now;
                    self.node(n).handle_timeout(now);
                    let next = self.nodes[&n].poll_timeout();
                    assert!(next.is_none_or(|next| next > now), "{n} stands still (case 34)");
                    self.collect(n);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn deliver(&mut self) {
        let Some((_, mail)) = self.mail.pop_first() else { return };
        let (to, event) = match mail {
            Mail::Request { to, event } => (to, event),
            Mail::Response { to, rpc, response } => {
                (to, Event::Response { rpc, response, record: None, connect_us: 0 })
            }
        };
        if !self.dead.contains(&to) && self.nodes.contains_key(&to) {
            let now = self.now;
            self.node(to).handle_event(now, event);
            self.collect(to);
        }
    }

    fn collect(&mut self, n: u64) {
        while let Some(effect) = self.node(n).poll_effect() {
            self.sequence += 1;
            let at = (self.now.after(DELAY), self.sequence);
            match effect {
                Effect::Send { rpc, to, request } => {
                    let reply = ReplyId(self.sequence);
                    self.replies.insert(reply, (n, rpc));
                    let from = self.nodes[&n].snapshot().me;
                    let event = Event::Request { reply, from, request };
                    self.mail.insert(at, Mail::Request { to: number(&to), event });
                }
                Effect::Reply { reply, response } => {
                    let (to, rpc) = self.replies.remove(&reply).expect("asked once");
                    self.mail.insert(at, Mail::Response { to, rpc, response });
                }
                Effect::Notice(notice) => self.notices.push((n, notice)),
                Effect::Store { store, command } => {
                    let outcome = self.disks.entry(n).or_default().run(command);
                    let event = Event::Stored { store, outcome };
                    self.mail.insert(at, Mail::Request { to: n, event });
                }
                Effect::Fetch { fetch, chunk, from } => {
                    let from = self.disks.entry(number(&from)).or_default();
                    let held = from.chunks.contains_key(&chunk.id());
                    if held {
                        self.disks.entry(n).or_default().chunks.insert(chunk.id(), chunk);
                    }
                    let event = Event::Fetched { fetch, stored: held };
                    self.mail.insert(at, Mail::Request { to: n, event });
                }
                _ => {}
            }
        }
    }

    pub(super) fn look_up(&mut self, n: u64, key: u64, depth: u16) -> LookupReport {
        let op = OpId(1_000_000 + self.sequence);
        let command = Command::Lookup {
            op,
            key: point(key),
            routing: None,
            depth: Some(depth),
            purpose: Purpose::Client,
            forwarding: None,
        };
        self.command(n, command);
        for _ in 0..200 {
            let ended = self.notices.iter().find_map(|(_, notice)| match notice {
                Notice::Found { op: ended, report, .. } if *ended == op => Some(report.clone()),
                _ => None,
            });
            if let Some(report) = ended {
                return report;
            }
            self.run(Duration::from_millis(100));
        }
        panic!("lookup of {key} at {n} never ended");
    }

    /// Every list and predecessor equals the truth.
    pub(super) fn check_ideal(&self) {
        let live = self.live();
        for (at, n) in live.iter().enumerate() {
            let others = live.len() - 1;
            let after = |k: usize| point(live[(at + k) % live.len()]);
            let snapshot = self.nodes[n].snapshot();
            let want: Vec<Id> = (1..=others.min(self.config.list_len())).map(after).collect();
            let held: Vec<Id> = snapshot.successors.iter().map(|entry| entry.id).collect();
            assert_eq!(held, want, "successors of {n}");
            let before = (others > 0).then(|| after(others));
            assert_eq!(snapshot.predecessor.map(|held| held.id), before, "predecessor of {n}");
        }
    }
}

impl Disk {
    pub(super) fn run(&mut self, command: StoreCommand) -> StoreOutcome {
        match command {
            StoreCommand::Load { key } => {
                StoreOutcome::Loaded(self.registers.get(&key.id()).cloned())
            }
            StoreCommand::Save { registers } => {
                let mut held = Vec::new();
                for register in registers {
                    let id = register.key.id();
                    let before = self.registers.get(&id);
                    held.push(before.map(|before| before.ballot).filter(|b| *b > register.ballot));
                    if register.supersedes(before) {
                        self.registers.insert(id, register);
                    }
                }
                StoreOutcome::Saved(held)
            }
            StoreCommand::LoadMany { ids } => StoreOutcome::LoadedMany(
                ids.iter().filter_map(|id| self.registers.get(id).cloned()).collect(),
            ),
            StoreCommand::Digest { kind, arc } => {
                // Not the store's digest, but one that tells the same differences.
                let mut text = String::new();
                let entries = self.in_arc(kind, arc);
                entries.iter().for_each(|(id, ballot)| text += &format!("{id} {ballot:?};"));
                let mut digest = [0; 32];
                digest[..20].copy_from_slice(&Id::of_key(text.as_bytes()).to_bytes());
                StoreOutcome::Digest { digest, count: entries.len() as u64 }
            }
            StoreCommand::List { kind, arc, after, limit } => {
                let away = |id: Id| arc.start.distance_to(id);
                let mut left = self.in_arc(kind, arc);
                left.retain(|(id, _)| after.is_none_or(|after| away(*id) > away(after)));
                let last = left.len() <= limit;
                left.truncate(limit);
                match kind {
                    Kind::Registers => {
                        let entries = left.into_iter().filter_map(|(id, b)| Some((id, b?)));
                        StoreOutcome::Registers { entries: entries.collect(), last }
                    }
                    Kind::Chunks => {
                        let entries = left.iter().map(|(id, _)| self.chunks[id]).collect();
                        StoreOutcome::Chunks { entries, last }
                    }
                }
            }
        }
    }

    fn in_arc(&self, kind: Kind, arc: Interval) -> Vec<(Id, Option<Ballot>)> {
        let mut entries: Vec<(Id, Option<Ballot>)> = match kind {
            Kind::Registers => {
                self.registers.iter().map(|(id, held)| (*id, Some(held.ballot))).collect()
            }
            Kind::Chunks => self.chunks.keys().map(|id| (*id, None)).collect(),
        };
        entries.retain(|(id, _)| arc.contains(*id));
        entries.sort_by_key(|(id, _)| arc.start.distance_to(*id));
        entries
    }
}

impl World {
    /// A read or a write to its end.
    pub(super) fn operate(&mut self, n: u64, command: impl FnOnce(OpId) -> Command) -> Notice {
        self.sequence += 1;
        let op = OpId(2_000_000 + self.sequence);
        self.command(n, command(op));
        for _ in 0..300 {
            let ended = self.notices.iter().find_map(|(_, notice)| match notice {
                Notice::Read { op: ended, .. } | Notice::Written { op: ended, .. } => {
                    (*ended == op).then(|| notice.clone())
                }
                _ => None,
            });
            if let Some(notice) = ended {
                return notice;
            }
            self.run(Duration::from_millis(100));
        }
        panic!("an operation at {n} never ended");
    }

    pub(super) fn put(&mut self, n: u64, key: &str, text: &str) {
        let (key, value) = (key.to_owned(), Value::Present(text.to_owned().into()));
        let mut operation = OperationId([0; 16]);
        operation.0[..8].copy_from_slice(&self.sequence.to_be_bytes());
        let notice = self.operate(n, |op| {
            let key = Key::new(key).expect("a short key");
            Command::Write { op, key, operation, value }
        });
        let Notice::Written { outcome: WriteOutcome::Done { acks, wanted, .. }, .. } = notice
        else {
            panic!("{notice:?}")
        };
        assert!(acks.len() > wanted / 2);
    }

    pub(super) fn get(&mut self, n: u64, key: &str) -> Option<String> {
        let key = Key::new(key.to_owned()).expect("a short key");
        match self.operate(n, |op| Command::Read { op, key }) {
            Notice::Read { outcome: ReadOutcome::Value { register, .. }, .. } => {
                register.and_then(|held| match held.value {
                    Value::Present(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
                    Value::Deleted => None,
                })
            }
            notice => panic!("{notice:?}"),
        }
    }

    /// How many live nodes hold a key.
    pub(super) fn copies(&self, key: &str) -> usize {
        let id = Id::of_key(key.as_bytes());
        self.live()
            .iter()
            .filter(|n| self.disks.get(n).is_some_and(|disk| disk.registers.contains_key(&id)))
            .count()
    }
}

/// Members spread over the whole circle, as real ones are.
pub(super) fn spread(count: u64) -> Vec<u64> {
    (0..count).map(|n| n * (u64::MAX / count) + 7).collect()
}
