//! Whole nodes against each other in a small world: one delay, no loss. The simulator has larger
//! ones; these tests pin the wiring.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::event::{OpId, Purpose, ReadOutcome, StoreCommand, StoreOutcome, WriteOutcome};
use crate::manifest::ChunkRef;
use crate::message::RingId;
use crate::message::client::LookupReport;
use crate::message::ring::Kind;
use crate::register::{Ballot, Key, OperationId, Register, Value};
use crate::testing::{contact, contact_in_life};

const DELAY: Duration = Duration::from_millis(1);

/// Nodes by number, and what is on its way between them.
struct World {
    now: Instant,
    config: Arc<Config>,
    nodes: BTreeMap<u64, Node>,
    dead: BTreeSet<u64>,
    mail: BTreeMap<(Instant, u64), Mail>,
    sequence: u64,
    replies: BTreeMap<ReplyId, (u64, RpcId)>,
    notices: Vec<(u64, Notice)>,
    disks: BTreeMap<u64, Disk>,
}

/// What one node stores.
#[derive(Default)]
struct Disk {
    registers: BTreeMap<Id, Register>,
    chunks: BTreeMap<Id, ChunkRef>,
}

enum Mail {
    Request { to: u64, event: Event },
    Response { to: u64, rpc: RpcId, response: Response },
}

fn number(contact: &Contact) -> u64 {
    let bytes = contact.id.to_bytes();
    u64::from_be_bytes(bytes[12..].try_into().expect("eight bytes"))
}

impl World {
    fn new(config: Config) -> World {
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
    fn ring(config: Config, members: &[u64]) -> World {
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

    fn add(&mut self, n: u64) {
        let params = RingParams::founding(RingId(1), 3);
        let node = Node::new(contact(n), params, self.config.clone(), n, self.now);
        self.nodes.insert(n, node);
    }

    fn command(&mut self, n: u64, command: Command) {
        let now = self.now;
        self.node(n).handle_event(now, Event::Command(command));
        self.collect(n);
    }

    fn node(&mut self, n: u64) -> &mut Node {
        self.nodes.get_mut(&n).expect("a node of this world")
    }

    fn kill(&mut self, n: u64) {
        self.dead.insert(n);
    }

    fn live(&self) -> Vec<u64> {
        self.nodes.keys().copied().filter(|n| !self.dead.contains(n)).collect()
    }

    fn run(&mut self, span: Duration) {
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
                (to, Event::Response { rpc, response, connect_us: 0 })
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

    fn look_up(&mut self, n: u64, key: u64, depth: u16) -> LookupReport {
        let op = OpId(1_000_000 + self.sequence);
        let command = Command::Lookup {
            op,
            key: Id::from_u64(key),
            routing: None,
            depth: Some(depth),
            purpose: Purpose::Client,
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
    fn check_ideal(&self) {
        let live = self.live();
        for (at, n) in live.iter().enumerate() {
            let others = live.len() - 1;
            let after = |k: usize| Id::from_u64(live[(at + k) % live.len()]);
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
    fn run(&mut self, command: StoreCommand) -> StoreOutcome {
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
    fn operate(&mut self, n: u64, command: impl FnOnce(OpId) -> Command) -> Notice {
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

    fn put(&mut self, n: u64, key: &str, text: &str) {
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

    fn get(&mut self, n: u64, key: &str) -> Option<String> {
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
    fn copies(&self, key: &str) -> usize {
        let id = Id::of_key(key.as_bytes());
        self.live()
            .iter()
            .filter(|n| self.disks.get(n).is_some_and(|disk| disk.registers.contains_key(&id)))
            .count()
    }
}

/// Members spread over the whole circle, as real ones are.
fn spread(count: u64) -> Vec<u64> {
    (0..count).map(|n| n * (u64::MAX / count) + 7).collect()
}

fn small() -> Config {
    Config { depth: 3, min_list: 3, ..Config::default() }
}

#[test]
fn a_ring_grows_from_one_node_and_becomes_ideal() {
    let members: Vec<u64> = (0..12).map(|n| n * 10).collect();
    let mut world = World::ring(small(), &members);
    world.check_ideal();
    for n in &members {
        let ready = world.notices.iter().filter(|said| **said == (*n, Notice::Ready)).count();
        assert_eq!(ready, 1, "{n}");
    }
    for (at, asker) in members.iter().enumerate() {
        for (target, owner) in members.iter().enumerate() {
            for depth in 1..=3 {
                let report = world.look_up(*asker, owner.wrapping_sub(3).min(*owner), depth);
                let distance = (target + members.len() - at) % members.len();
                assert_eq!(report.owner.map(|held| number(&held)), Some(*owner));
                assert_eq!(report.path.len(), distance.div_ceil(usize::from(depth)));
            }
        }
    }
}

#[test]
fn the_survivors_mend_the_ring() {
    let members: Vec<u64> = (1..=12).map(|n| n * 10).collect();
    let mut world = World::ring(small(), &members);
    world.kill(50);
    world.kill(60);
    let report = world.look_up(10, 55, 1);
    assert_eq!(report.owner.map(|held| number(&held)), Some(70), "detours: {:?}", report.detours);
    assert!(!report.detours.is_empty());
    world.run(Duration::from_secs(5));
    world.check_ideal();
}

#[test]
fn sixteen_joins_at_once_through_one_member() {
    let mut world = World::new(Config::default());
    world.add(0);
    world.command(0, Command::Found);
    for n in 1..=16 {
        world.add(n);
        world.command(n, Command::Join { via: vec![contact(0)] });
    }
    world.run(Duration::from_secs(20));
    world.check_ideal();
}

#[test]
fn leaving_works_down_to_the_last() {
    let mut world = World::ring(small(), &[0, 10, 20, 30, 40]);
    for n in [20, 0, 40, 10] {
        world.command(n, Command::Leave);
        world.run(Duration::from_secs(2));
        assert!(world.notices.contains(&(n, Notice::Left)));
        world.kill(n);
        world.run(Duration::from_secs(10));
        world.check_ideal();
    }
    assert!(world.nodes[&30].snapshot().alone, "all others left for good");
}

#[test]
fn the_last_of_two_is_isolated_and_finds_the_other_again() {
    let mut world = World::ring(small(), &[0, 10]);
    world.kill(10);
    world.run(Duration::from_secs(10));
    assert_eq!(world.nodes[&0].state(), NodeState::Isolated);
    assert_eq!(world.nodes[&0].snapshot().owned, None, "never a silent ring of one");
    let back = contact_in_life(10, 2);
    let params = RingParams::founding(RingId(1), 3);
    let node = Node::new(back, params, world.config.clone(), 7, world.now);
    world.nodes.insert(10, node);
    world.dead.remove(&10);
    let open = IntervalSet::new();
    world.command(10, Command::Remember { contacts: vec![contact(0)], open });
    world.run(Duration::from_secs(30));
    world.check_ideal();
}

#[test]
fn a_whole_ring_restarts_at_once() {
    let members: Vec<u64> = (0..8).map(|n| n * 10).collect();
    let mut world = World::ring(Config::default(), &members);
    world.mail.clear();
    for n in &members {
        let contacts = world.nodes[n].snapshot().remembered;
        let params = RingParams::founding(RingId(1), 3);
        let node =
            Node::new(contact_in_life(*n, 2), params, world.config.clone(), n + 100, world.now);
        world.nodes.insert(*n, node);
        let open = IntervalSet::new();
        world.command(*n, Command::Remember { contacts, open });
    }
    world.run(Duration::from_secs(60));
    world.check_ideal();
}

#[test]
fn registers_survive_growth_death_and_leaving() {
    let members = spread(9);
    let mut world = World::ring(Config::default(), &members[..1]);
    let keys: Vec<String> = (0..60).map(|n| format!("key-{n}")).collect();
    for key in &keys {
        world.put(members[0], key, key);
    }
    for n in &members[1..] {
        world.add(*n);
        world.command(*n, Command::Join { via: vec![contact(members[0])] });
        for (at, key) in keys.iter().enumerate().step_by(7) {
            let asker = members[at % members.len()];
            if world.nodes.get(&asker).is_some_and(|node| node.state() == NodeState::Member) {
                assert_eq!(world.get(asker, key), Some(key.clone()), "{key} at {asker}");
            }
        }
    }
    world.run(Duration::from_secs(60));
    for n in &members {
        let open = world.nodes[n].snapshot().open;
        let owned = world.nodes[n].snapshot().owned.expect("a member");
        assert!(open.covers(&owned), "{n} holds what it owns");
        assert_eq!(world.get(*n, "no such key"), None);
    }
    for key in &keys {
        assert!(world.copies(key) >= 5, "{key}: {}", world.copies(key));
    }
    world.put(members[3], &keys[0], "second");
    for dead in [members[2], members[3]] {
        world.kill(dead);
    }
    for key in &keys[1..] {
        assert_eq!(world.get(members[5], key), Some(key.clone()), "{key} after two died");
    }
    assert_eq!(world.get(members[8], &keys[0]), Some("second".to_owned()));
    world.run(Duration::from_secs(60));
    for key in &keys {
        assert!(world.copies(key) >= 5, "{key} after repair: {}", world.copies(key));
    }
    for left in [members[0], members[1], members[4], members[5], members[6], members[7]] {
        world.command(left, Command::Leave);
        for _ in 0..100 {
            if world.notices.contains(&(left, Notice::Left)) {
                break;
            }
            world.run(Duration::from_secs(1));
        }
        assert!(world.notices.contains(&(left, Notice::Left)), "{left} never left");
        world.kill(left);
        for key in &keys[1..] {
            assert_eq!(world.get(members[8], key), Some(key.clone()), "{key} after {left} left");
        }
    }
}

#[test]
fn a_whole_ring_restarts_at_once_and_still_votes() {
    let members = spread(6);
    let mut world = World::ring(Config::default(), &members);
    world.put(members[2], "k", "v");
    world.run(Duration::from_secs(60));
    world.mail.clear();
    for n in &members {
        let before = world.nodes[n].snapshot();
        let params = RingParams::founding(RingId(1), 3);
        let node =
            Node::new(contact_in_life(*n, 2), params, world.config.clone(), n + 100, world.now);
        world.nodes.insert(*n, node);
        let (contacts, open) = (before.remembered, before.open);
        world.command(*n, Command::Remember { contacts, open });
    }
    world.run(Duration::from_secs(90));
    world.check_ideal();
    for n in &members {
        assert_eq!(world.get(*n, "k"), Some("v".to_owned()));
        assert_eq!(world.get(*n, "never"), None);
        let snapshot = world.nodes[n].snapshot();
        assert!(world.nodes[n].is_open(snapshot.me.id), "{n} votes again");
    }
}
