//! Whole nodes against each other in a small world: one delay, no loss. The simulator has larger
//! ones; these tests pin the wiring.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::event::{OpId, Purpose};
use crate::message::RingId;
use crate::message::client::LookupReport;
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
