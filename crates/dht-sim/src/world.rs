//! A world: nodes of dht-core, a clock, and a network between them, all drawn from one seed.
//!
//! There are two ways to let things happen. *Timed*, every message takes its time and may get lost,
//! and the nodes' own timers find out ([`World::run_for`], [`World::run_until_quiet`]). *Stepped*,
//! time stands still: every message arrives at once, who is dead or cut off is known at once, and
//! no timer fires ([`World::settle`]). After every event of either kind the invariants are checked.

mod clock;
mod held;
mod lives;
mod post;
mod sent;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dht_core::config::{ConfigError, RingParams};
use dht_core::event::{Memory, OpId, Purpose};
use dht_core::message::client::NodeState;
use dht_core::message::map::MapPlace;
use dht_core::message::ring::Routing;
use dht_core::message::{Forwarding, RingId};
use dht_core::node::{Node, Snapshot};
use dht_core::register::{Ballot, Key, OperationId, Register, Value};
use dht_core::{Command, Config, Contact, Event, Id, Instant, Notice};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::faults::{Cuts, FaultPlan};
use crate::invariants::{Links, NodeLinks, Problem, Violation, ideal, one_ring};
use crate::ledger::Ledger;
use crate::member::{Member, mix};
use crate::trace::{Kind, Trace};
use crate::traffic::Traffic;
use crate::watch::{Breach, Watch};

use post::Post;

pub use clock::QUIET_LIMIT;

/// How many lines of its trace a world keeps for people: enough for the last few seconds of a small
/// ring.
const KEPT_LINES: usize = 400;

/// What a world is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct WorldConfig {
    /// Settings of every node.
    pub node: Config,
    /// Copies of every chunk: set at the founding.
    pub replicas: u8,
    /// What goes wrong all the time.
    pub plan: FaultPlan,
    /// All chance: delays, losses, and that of the nodes.
    pub seed: u64,
    /// What the clock shows at first.
    pub start: Instant,
    /// How many lines of its trace the world keeps for people. Writing them costs more than all the
    /// rest, so sweeps keep none and play what failed again.
    pub kept_lines: usize,
}

impl WorldConfig {
    /// Nodes with these settings on a quiet network.
    pub fn new(node: Config, seed: u64) -> WorldConfig {
        let plan = FaultPlan::default();
        let (start, kept_lines) = (Instant(1_000_000), KEPT_LINES);
        WorldConfig { node, replicas: 3, plan, seed, start, kept_lines }
    }
}

/// A lookup that a member is to run. What is `None` is as the member's settings say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupOrder {
    /// The point.
    pub key: Id,
    /// How to route.
    pub routing: Option<Routing>,
    /// With how many entries.
    pub depth: Option<u16>,
    /// Who carries it from node to node.
    pub forwarding: Option<Forwarding>,
    /// Whether it counts in the statistics.
    pub purpose: Purpose,
}

/// Whole rings under a virtual clock. A clone goes on by itself, exactly as the original would.
#[derive(Clone, Debug)]
pub struct World {
    start: Instant,
    now: Instant,
    config: Arc<Config>,
    /// Settings of nodes that have their own.
    configs: BTreeMap<u64, Arc<Config>>,
    params: RingParams,
    plan: FaultPlan,
    seed: u64,
    rng: Pcg64Mcg,
    cuts: Cuts,
    /// Nodes all of whose messages, in and out, take so much longer.
    slow: BTreeMap<u64, std::time::Duration>,
    members: BTreeMap<u64, Member>,
    numbers: BTreeMap<Id, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    post: Post,
    is_stepped: bool,
    next_op: u64,
    /// Ends of lookups that were handed on, by who told them and their tickets.
    ends_told: BTreeSet<(u64, u64, u64)>,
    lookups: BTreeMap<OpId, (u64, Id)>,
    outcomes: BTreeMap<OpId, Notice>,
    ledger: Ledger,
    watch: Watch,
    trace: Trace,
    /// Counts what would be sent, where somebody wants to know.
    traffic: Option<Box<Traffic>>,
}

impl World {
    /// An empty world. Fails if the settings of the nodes break a bound.
    pub fn new(config: WorldConfig) -> Result<World, ConfigError> {
        config.node.validate()?;
        let WorldConfig { node, replicas, plan, seed, start, kept_lines } = config;
        let params = RingParams::founding(RingId(u128::from(mix(&[seed]))), replicas);
        let ledger = Ledger::new(&node, &params);
        let watch = Watch::new(node.list_len(), node.predecessors_wanted());
        Ok(World {
            start,
            now: start,
            config: Arc::new(node),
            configs: BTreeMap::new(),
            params,
            plan,
            seed,
            rng: Pcg64Mcg::seed_from_u64(mix(&[seed, 1])),
            cuts: Cuts::default(),
            slow: BTreeMap::new(),
            members: BTreeMap::new(),
            numbers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            post: Post::default(),
            is_stepped: false,
            next_op: 0,
            ends_told: BTreeSet::new(),
            lookups: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            ledger,
            watch,
            trace: Trace::new(kept_lines),
            traffic: None,
        })
    }

    /// Starts node `n` at the point `n` as the first of a ring.
    pub fn found(&mut self, n: u64) {
        self.found_at(n, Id::from_u64(n));
    }

    /// Starts node `n` at any point as the first of a ring.
    pub fn found_at(&mut self, n: u64, id: Id) {
        self.begin_life(n, id, false);
        self.command(n, Command::Found);
    }

    /// Starts node `n` at the point `n`, without memory, and tells it to join through `via`. One
    /// that runs already is only told whom to ask.
    pub fn join(&mut self, n: u64, via: u64) {
        self.join_at(n, Id::from_u64(n), via);
    }

    /// Like [`World::join`], at any point.
    pub fn join_at(&mut self, n: u64, id: Id, via: u64) {
        let Some(other) = self.members.get(&via).map(|held| held.me.clone()) else { return };
        if self.is_running(n) && self.member(n).node.state() == NodeState::Leaving {
            // A process that is started again while it still says goodbye has to end first.
            self.fail(n);
        }
        if !self.is_running(n) {
            self.begin_life(n, id, false);
            self.cuts.follow(n, via);
        }
        let id = self.member(n).me.id;
        self.watch.acquaint(id, [other.id]);
        self.member_mut(n).via = Some(via);
        self.command(n, Command::Join { via: vec![other] });
    }

    /// Brings a ring of these nodes about, much as a real one grows, but with short ways: one founds
    /// it, and again and again as many join as there are, each through the member before its place.
    /// Then upkeep goes on until the ring is ideal.
    pub fn grow(&mut self, mut nodes: Vec<(u64, Id)>) {
        nodes.sort_by_key(|(_, id)| *id);
        let mut stride = nodes.len().next_power_of_two();
        if let Some((first, id)) = nodes.first() {
            self.found_at(*first, *id);
        }
        while stride > 1 {
            let half = stride / 2;
            for at in (half..nodes.len()).step_by(stride) {
                let ((n, id), (before, _)) = (nodes[at], nodes[at - half]);
                self.join_at(n, id, before);
            }
            let end = self.now.after(QUIET_LIMIT);
            self.run_while(end, |world| world.watch.joining() == 0);
            stride = half;
        }
        let end = self.now.after(QUIET_LIMIT);
        while !self.flaws().is_empty() && self.now < end {
            self.run_for(self.config.stabilize_every);
        }
    }

    /// Tells everybody who has no place yet again to join: through the member it was first told of,
    /// or, if that one has no place either, through any that has one or had one. Whether there was
    /// anybody to tell.
    pub fn retry_joins(&mut self) -> bool {
        let has_place = |n: &u64| self.member(*n).node.state() != NodeState::Joining;
        let hosts: Vec<u64> = self.running().into_iter().filter(has_place).collect();
        let mut any = false;
        for n in self.running() {
            let member = self.member(n);
            let is_pending = member.node.state() == NodeState::Joining;
            let Some(via) = member.via.filter(|_| is_pending) else { continue };
            let reaches = |other: &u64| self.cuts.lets_through(n, *other);
            let others: Vec<u64> = match self.is_member(via) {
                true => vec![via],
                false => hosts.iter().copied().filter(reaches).collect(),
            };
            let contacts: Vec<Contact> =
                others.iter().map(|other| self.member(*other).me.clone()).collect();
            if !contacts.is_empty() {
                any = true;
                self.watch.acquaint(self.member(n).me.id, ids(&contacts));
                self.command(n, Command::Join { via: contacts });
            }
        }
        any
    }

    /// Tells a node to go for good. It is gone once it has handed off and unlinked.
    pub fn leave(&mut self, n: u64) {
        if self.is_running(n) {
            self.member_mut(n).leaves_for_good = true;
            self.command(n, Command::Leave);
        }
    }

    /// Tells a node to stop, to come back later by [`World::restart`].
    pub fn stop(&mut self, n: u64) {
        self.command(n, Command::Stop);
    }

    /// Gives a node any other order.
    pub fn command(&mut self, n: u64, command: Command) {
        if self.is_running(n) {
            let line = format_args!("{n} is told {command:?}");
            self.trace.event(self.now, Kind::Order, &[n], line);
            self.tell(n, Event::Command(command));
        }
    }

    /// Lets a member look up the owner of a point, at its own depth if none is named.
    pub fn look_up(&mut self, n: u64, key: Id, depth: Option<u16>, purpose: Purpose) -> OpId {
        self.look_up_by(n, key, None, depth, purpose)
    }

    /// The same by a routing; `None`: its own.
    pub fn look_up_by(
        &mut self,
        n: u64,
        key: Id,
        routing: Option<Routing>,
        depth: Option<u16>,
        purpose: Purpose,
    ) -> OpId {
        self.order_lookup(n, LookupOrder { key, routing, depth, forwarding: None, purpose })
    }

    /// The same, with every choice there is.
    pub fn order_lookup(&mut self, n: u64, order: LookupOrder) -> OpId {
        let op = self.draw_op();
        if self.is_running(n) {
            let LookupOrder { key, routing, depth, forwarding, purpose } = order;
            self.watch.lookup_began(key);
            self.lookups.insert(op, (n, key));
            self.command(n, Command::Lookup { op, key, routing, depth, purpose, forwarding });
        }
        op
    }

    /// Lets a member read a register.
    pub fn read(&mut self, n: u64, key: Key) -> OpId {
        let op = self.draw_op();
        self.ledger.reading(op, key.id(), self.watch.breaches());
        self.command(n, Command::Read { op, key });
        op
    }

    /// Lets a member write a register.
    pub fn write(&mut self, n: u64, key: Key, value: Value) -> OpId {
        let op = self.draw_op();
        let mut operation = [0; 16];
        operation[..8].copy_from_slice(&op.0.to_be_bytes());
        let operation = OperationId(operation);
        // A breach may outlive the cut that made it; only where nothing is broken nobody else writes.
        let part = (self.breach().is_some()).then(|| (self.cuts.count(), self.cuts.group(n)));
        self.ledger.writing(key.id(), part);
        self.command(n, Command::Write { op, key, operation, value });
        op
    }

    /// What an operation came to: [`Notice::Found`], [`Notice::Read`] or [`Notice::Written`]. It is
    /// handed out once; `None` while it runs.
    pub fn take_outcome(&mut self, op: OpId) -> Option<Notice> {
        self.outcomes.remove(&op)
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How much time has passed, in microseconds.
    pub fn elapsed_us(&self) -> u64 {
        self.now.0.saturating_sub(self.start.0)
    }

    /// The settings of every node.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether this node runs.
    pub fn is_running(&self, n: u64) -> bool {
        self.members.get(&n).is_some_and(Member::is_running)
    }

    /// The nodes that run, by number.
    pub fn running(&self) -> Vec<u64> {
        self.members.iter().filter(|(_, held)| held.is_running()).map(|(n, _)| *n).collect()
    }

    /// The nodes that have a place in the ring, by number.
    pub fn members(&self) -> Vec<u64> {
        self.running().into_iter().filter(|n| self.is_member(*n)).collect()
    }

    /// Whether this node has a place in the ring.
    pub fn is_member(&self, n: u64) -> bool {
        self.is_running(n) && self.member(n).node.state() == NodeState::Member
    }

    /// A node as it is, or was when its last life ended; `None` if there never was one.
    pub fn snapshot(&self, n: u64) -> Option<Snapshot> {
        self.members.get(&n).map(|held| held.node.snapshot())
    }

    /// Whether the full map of every member names all members and nobody else.
    pub fn maps_are_whole(&self) -> bool {
        let all: Vec<Id> = self.watch.links().members().map(|(id, _)| id).collect();
        let is_whole = |node: &Node| node.map().map(|held| held.contact.id).eq(all.iter().copied());
        let members = self.members.values().filter(|held| held.is_running());
        members
            .filter(|held| held.node.state() == NodeState::Member)
            .all(|held| is_whole(&held.node))
    }

    /// Whom the full map of a node names, in the order of the circle from zero.
    pub fn map_of(&self, n: u64) -> Vec<MapPlace> {
        self.members.get(&n).into_iter().flat_map(|held| held.node.map()).cloned().collect()
    }

    /// The number of the node at a point.
    pub fn number_at(&self, id: Id) -> Option<u64> {
        self.numbers.get(&id).copied()
    }

    /// The fingers of a node beyond its successor list, by their exponents.
    pub fn fingers(&self, n: u64) -> Vec<(u32, Id)> {
        let node = self.members.get(&n).filter(|held| held.is_running()).map(|held| &held.node);
        node.into_iter().flat_map(|node| node.fingers().map(|(at, held)| (at, held.id))).collect()
    }

    /// The register that a node's disk holds at a point.
    pub fn register(&self, n: u64, id: Id) -> Option<&Register> {
        self.members.get(&n)?.disk.register(id)
    }

    /// The links of all nodes that run.
    pub fn links(&self) -> &Links {
        self.watch.links()
    }

    /// What did not hold so far.
    pub fn problems(&self) -> &[Problem] {
        self.watch.problems()
    }

    /// Whom a node has heard of in this life, or in earlier ones that it remembers.
    pub fn acquaintances(&self, n: u64) -> Vec<Id> {
        self.id_of(n).map(|id| self.watch.acquaintances(id)).unwrap_or_default()
    }

    /// Which condition of the invariants is broken at the moment.
    pub fn breach(&self) -> Option<Breach> {
        self.watch.breach()
    }

    /// How many events there were: messages, timers, and what the driver did.
    pub fn events(&self) -> u64 {
        self.trace.count()
    }

    /// What has happened.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// When any pointer changed last.
    pub fn last_change(&self) -> Instant {
        self.watch.last_change()
    }

    /// The registers that readers must find as they were acknowledged last, or newer.
    pub fn promises(&self) -> impl Iterator<Item = (&Key, Ballot)> {
        self.ledger.readable().map(|held| (&held.key, held.ballot))
    }

    /// Whether nothing keeps this world from being ideal; then the conditions of the invariants hold
    /// again.
    pub fn is_ideal(&mut self) -> bool {
        let is_ideal = self.flaws().is_empty();
        let is_any_paused = self.members.values().any(|held| held.is_running() && held.is_paused);
        if is_ideal && !is_any_paused {
            self.mended();
        }
        is_ideal
    }

    /// Everything is ideal: conditions that faults had broken hold again, unless faults have left parts that
    /// never heard of each other. Each of those may be an ideal ring, and they stay two.
    fn mended(&mut self) {
        if !self.cuts.is_any() && self.placed_circles().len() < 2 {
            self.watch.is_quiet(self.now);
        }
    }

    /// Counts what would be sent from now on.
    pub fn count_traffic(&mut self, traffic: Traffic) {
        self.traffic = Some(Box::new(traffic));
    }

    /// What counts the traffic, if anything does.
    pub fn traffic_mut(&mut self) -> Option<&mut Traffic> {
        self.traffic.as_deref_mut()
    }

    /// All outcomes that nobody took yet; see [`World::take_outcome`].
    pub fn take_outcomes(&mut self) -> BTreeMap<OpId, Notice> {
        std::mem::take(&mut self.outcomes)
    }

    /// Forgets a node that is dead or gone, with its disk: nobody will ask for it again.
    pub fn bury(&mut self, n: u64) {
        if !self.is_running(n)
            && let Some(member) = self.members.remove(&n)
        {
            self.numbers.remove(&member.me.id);
            self.watch.forgot(member.me.id);
        }
    }

    /// Whether an operation has ended whose outcome nobody took yet.
    pub fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// What keeps this world from being ideal: everybody who knows of each other, and is not cut
    /// off, in one ring, with every list and predecessor as the order says.
    pub fn flaws(&self) -> Vec<Violation> {
        let links = self.watch.links();
        self.placed_circles().iter().flat_map(|circle| ideal::check(links, circle)).collect()
    }

    /// Those who know of each other, where anybody has a place.
    fn placed_circles(&self) -> Vec<Vec<Id>> {
        let links = self.watch.links();
        let mut circles = self.id_circles();
        let is_paused = |id: &Id| {
            let member = self.numbers.get(id).and_then(|n| self.members.get(n));
            member.is_some_and(|held| held.is_paused)
        };
        // Where nobody ever had a place there is no ring to come into, and a stopped process mends
        // nothing.
        let has_place = |id: &Id| {
            let state = links.nodes.get(id).map(|held| held.state);
            state.is_some_and(|state| state != NodeState::Joining) && !is_paused(id)
        };
        circles.retain(|circle| circle.iter().any(has_place));
        circles
    }

    /// Those who know of each other and are not cut off: each list should be one ring.
    pub fn circles(&self) -> Vec<Vec<u64>> {
        let numbers = |circle: Vec<Id>| circle.iter().map(|id| self.numbers[id]).collect();
        self.id_circles().into_iter().map(numbers).collect()
    }

    fn id_circles(&self) -> Vec<Vec<Id>> {
        let reaches = |a: Id, b: Id| match (self.number_at(a), self.number_at(b)) {
            (Some(a), Some(b)) => {
                let is_paused = self.members[&a].is_paused || self.members[&b].is_paused;
                self.cuts.both_ways(a, b) && !is_paused
            }
            _ => false,
        };
        // Memory is bounded: a full one may have let somebody go.
        let full: BTreeMap<Id, BTreeSet<Id>> = self
            .members
            .values()
            .filter(|held| held.node.remembered().count() >= self.config.max_remembered)
            .map(|held| (held.me.id, held.node.remembered().map(|other| other.id).collect()))
            .collect();
        let recalls = |a: &Id, b: &Id| full.get(a).is_none_or(|known| known.contains(b));
        self.watch.circles(|a, b| reaches(a, b) && recalls(&a, &b))
    }

    /// What keeps these nodes from forming one ideal ring. Whether others run too is not looked at.
    pub fn flaws_of_ring(&self, ring: &[u64]) -> Vec<Violation> {
        let mut ids: Vec<Id> = ring.iter().filter_map(|n| self.id_of(*n)).collect();
        ids.sort();
        ideal::check(self.watch.links(), &ids)
    }

    /// The point of a node.
    pub fn id_of(&self, n: u64) -> Option<Id> {
        self.members.get(&n).map(|held| held.me.id)
    }

    /// Brings every disk up to date with what its node remembers, as its upkeep timer would: where
    /// time stands still, that timer never fires.
    pub fn save_memories(&mut self) {
        for member in self.members.values_mut().filter(|held| held.is_running()) {
            let snapshot = member.node.snapshot();
            let (contacts, open) = (snapshot.remembered, snapshot.open);
            member.disk.memory = Memory { contacts, open, alone: snapshot.alone };
        }
    }

    /// Whether a ring that is too small for the proofs is in disorder and upkeep alone does not
    /// repair it: tried out on a copy of this world.
    pub(crate) fn is_beyond_repair(&self) -> Option<Violation> {
        if self.watch.breach().is_some() || !self.watch.is_small() {
            return None;
        }
        let disorder = one_ring::check(self.watch.links()).into_iter().next()?;
        let mut copy = self.clone();
        let repaired = copy.run_until_quiet(QUIET_LIMIT).is_ok() && copy.flaws().is_empty();
        (!repaired).then_some(disorder)
    }

    /// Hands a node an event, carries out what it orders, and looks at the result.
    fn tell(&mut self, n: u64, event: Event) {
        let now = self.now;
        let member = self.member_mut(n);
        let clock = member.clock(now);
        member.node.handle_event(clock, event);
        self.drain(n);
    }

    /// Looks at a node after something happened to it.
    fn refresh(&mut self, n: u64) {
        let member = self.members.get_mut(&n).expect("only nodes of this world are looked at");
        let next = member.node.poll_timeout().filter(|at| *at < Instant::NEVER);
        // Its clock runs ahead of the world's.
        let next = next.map(|at| Instant(at.0.saturating_sub(member.ahead_us)));
        let next = next.filter(|_| !member.is_paused);
        if member.deadline != next {
            if let Some(before) = member.deadline {
                self.deadlines.remove(&(before, n));
            }
            self.deadlines.extend(next.map(|at| (at, n)));
            member.deadline = next;
        }
        let seen = (member.node.state(), member.node.is_alone(), member.node.links_version());
        if member.seen == Some(seen) {
            return;
        }
        member.seen = Some(seen);
        if !self.watch.is_news(&member.node) {
            return;
        }
        let (id, links) = (member.me.id, NodeLinks::of(&member.node));
        let heads = [links.predecessor, links.successors.first().copied()];
        let heads = heads.map(|id| id.and_then(|id| self.numbers.get(&id).copied()).unwrap_or(n));
        let line = format_args!("{n} points to {:?} and {:?}", links.predecessor, links.successors);
        self.trace.event(self.now, Kind::Links, &[n, heads[0], heads[1]], line);
        let post = &self.post;
        self.watch.looked(self.now, id, links, &|| post.oldest_sent());
        self.watch.acquaint(id, member.node.remembered().map(|held| held.id));
    }

    fn mark(&mut self, numbers: &[u64], line: std::fmt::Arguments<'_>) {
        self.trace.event(self.now, Kind::World, numbers, line);
    }

    fn draw_op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op)
    }

    fn member(&self, n: u64) -> &Member {
        self.members.get(&n).expect("only nodes of this world are named")
    }

    fn member_mut(&mut self, n: u64) -> &mut Member {
        self.members.get_mut(&n).expect("only nodes of this world are named")
    }
}

/// Which nodes a list of contacts names, by their points.
pub fn ids(list: &[Contact]) -> Vec<Id> {
    list.iter().map(|held| held.id).collect()
}
