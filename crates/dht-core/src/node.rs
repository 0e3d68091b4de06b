//! One place on the circle: wires the machines together.

mod data;
mod fingers;
mod forward;
mod lookups;
mod map;
mod membership;
mod serve;
mod signs;
pub mod steer;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::config::{Config, RingParams};
use crate::event::{Command, Effect, Event, Failure, Notice, ReplyId, RpcId};
use crate::fingers::Fingers;
use crate::id::Id;
use crate::interval::{Interval, IntervalSet};
use crate::links::Links;
use crate::liveness::Liveness;
use crate::lookup::Timing;
use crate::map::Map;
use crate::map::spread::Spread;
use crate::message::client::NodeState;
use crate::message::ring::Response;
use crate::outbox::{Call, CallOwner, Outbox};
use crate::peer::{Contact, PeerRecord};
use crate::quorum::{Quorum, Task};
use crate::remembered::Remembered;
use crate::replication::Replication;
use crate::ring::{Change, Ring, Standing};
use crate::stats::{AtRisk, Counters};
use crate::time::Instant;
use crate::timer::Timer;

use forward::Forwards;
use lookups::Lookups;
use map::Mapping;
use membership::Joining;
use serve::WaitingRoute;

/// One place on the circle.
#[derive(Debug, Clone)]
pub struct Node {
    params: RingParams,
    out: Outbox,
    ring: Ring,
    liveness: Liveness,
    remembered: Remembered,
    joining: Joining,
    lookups: Lookups,
    forwards: Forwards,
    fingers: Fingers,
    map: Map,
    mapping: Mapping,
    spread: Spread,
    quorum: Quorum,
    replication: Replication,
    waiting_routes: BTreeMap<ReplyId, WaitingRoute>,
    counters: Counters,
    told_state: NodeState,
    is_ready: bool,
    /// Neighbours or memory changed since they were last given out to be kept.
    unsaved: bool,
    /// Whether what was given out last said that this node was a ring of one.
    saved_alone: bool,
    leave: Option<membership::Departure>,
}

/// What a node looks like from outside at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// The node's own place.
    pub me: Contact,
    /// What it is doing.
    pub state: NodeState,
    /// Whether it is alone because it never had a neighbour or all of them left.
    pub alone: bool,
    /// The nearest node before it.
    pub predecessor: Option<Contact>,
    /// The successor list, nearest first.
    pub successors: Vec<Contact>,
    /// The predecessor list, nearest first.
    pub predecessors: Vec<Contact>,
    /// Peers that are no neighbours now but would be asked for a way back.
    pub remembered: Vec<Contact>,
    /// What the node owns; `None`: nothing.
    pub owned: Option<Interval>,
    /// The arcs whose registers the node holds completely.
    pub open: IntervalSet,
    /// What was counted.
    pub counters: Counters,
    /// What is one failure away from trouble.
    pub at_risk: AtRisk,
}

/// How much of what a node holds at one moment: all of it is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Calls without an answer yet.
    pub calls: usize,
    /// Lookups under way.
    pub lookups: usize,
    /// Lookups handed on, and their ends, that nobody acknowledged yet.
    pub forwards: usize,
    /// Fingers held.
    pub fingers: usize,
    /// Members that the full map names.
    pub map: usize,
    /// Events of the map on their way.
    pub events: usize,
    /// Register operations under way.
    pub operations: usize,
    /// Questions of others that wait for an answer: about our pointers, or on their way to a key.
    pub deferred: usize,
    /// Peers remembered.
    pub remembered: usize,
}

impl Snapshot {
    /// Whether the successor list leads round the whole ring: its last entry is the predecessor. Its
    /// length says nothing, for no list is longer by more than one than the list of its head.
    pub fn sees_whole_ring(&self) -> bool {
        let id = |contact: &Contact| contact.id;
        self.successors.last().map(id) == self.predecessor.as_ref().map(id)
    }
}

impl Node {
    /// A node that has no ring yet. `seed` feeds all its chance.
    pub fn new(
        me: Contact,
        params: RingParams,
        config: Arc<Config>,
        seed: u64,
        now: Instant,
    ) -> Node {
        let links = Links::new(me, &config);
        Node {
            params,
            ring: Ring::new(links),
            liveness: Liveness::default(),
            remembered: Remembered::new(config.max_remembered),
            joining: Joining::default(),
            lookups: Lookups::default(),
            forwards: Forwards::default(),
            fingers: Fingers::new(now),
            map: Map::default(),
            mapping: Mapping::default(),
            spread: Spread::new(now),
            quorum: Quorum::default(),
            replication: Replication::default(),
            waiting_routes: BTreeMap::new(),
            counters: Counters::default(),
            told_state: NodeState::Joining,
            is_ready: false,
            unsaved: false,
            saved_alone: false,
            leave: None,
            out: Outbox::new(config, seed, now),
        }
    }

    /// Tells the node a fact.
    pub fn handle_event(&mut self, now: Instant, event: Event) {
        self.out.now = self.out.now.max(now);
        match event {
            Event::Request { reply, from, request } => self.on_request(reply, from, request),
            Event::RequestDropped { reply } => {
                self.waiting_routes.remove(&reply);
                self.replication.drop_serving(reply);
            }
            Event::Response { rpc, response, record, connect_us } => {
                self.on_response(rpc, response, record, connect_us);
            }
            Event::Failed { rpc, failure } => self.on_failed(rpc, failure),
            Event::Command(command) => self.on_command(command),
            Event::Stored { store, outcome } => self.on_stored(store, outcome),
            Event::Fetched { fetch, stored } => self.on_fetched(fetch, stored),
        }
        self.wire();
    }

    /// Fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.out.now = self.out.now.max(now);
        if let Some(due) = self.out.next_deadline() {
            let late = self.out.now.since(due);
            if late > self.out.config.min_timeout / 2 {
                self.out.extend_due_calls();
            }
        }
        while let Some((rpc, call)) = self.out.pop_expired_call() {
            self.on_missed(rpc, call);
            self.wire();
        }
        // Only what was due at the start: a timer that sets itself again for this very moment must
        // not keep us here (case 34).
        let mut due = VecDeque::new();
        while let Some(timer) = self.out.timers.pop_due(self.out.now) {
            due.push_back(timer);
        }
        for timer in due {
            self.on_timer(timer);
            self.wire();
        }
    }

    /// The next order, until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.out.pop_effect()
    }

    /// When [`Node::handle_timeout`] should be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.out.next_deadline()
    }

    /// The node as it is now.
    pub fn snapshot(&self) -> Snapshot {
        let links = self.ring.links();
        Snapshot {
            me: links.me().clone(),
            state: self.state(),
            alone: self.ring.is_alone(),
            predecessor: links.predecessor().cloned(),
            successors: links.successors().to_vec(),
            predecessors: links.predecessors().to_vec(),
            remembered: self.remembered.contacts(),
            owned: self.ring.owned(),
            open: self.replication.open_arcs(),
            counters: self.counters(),
            at_risk: self.at_risk(),
        }
    }

    /// What the node is doing.
    pub fn state(&self) -> NodeState {
        match self.ring.standing() {
            Standing::Outside => NodeState::Joining,
            Standing::Member => NodeState::Member,
            Standing::Isolated => NodeState::Isolated,
            Standing::Leaving | Standing::Gone => NodeState::Leaving,
        }
    }

    /// The node's own place.
    pub fn me(&self) -> &Contact {
        self.ring.links().me()
    }

    /// The successor list, nearest first.
    pub fn successors(&self) -> &[Contact] {
        self.ring.links().successors()
    }

    /// The nearest node before this one.
    pub fn predecessor(&self) -> Option<&Contact> {
        self.ring.links().predecessor()
    }

    /// The predecessor list, nearest first.
    pub fn predecessors(&self) -> &[Contact] {
        self.ring.links().predecessors()
    }

    /// Changes whenever one of the lists or the predecessor does: who has looked at this value need not
    /// look at them again.
    pub fn links_version(&self) -> u64 {
        self.ring.links().changes()
    }

    /// Whether the node is alone because it never had a neighbour or all of them left.
    pub fn is_alone(&self) -> bool {
        self.ring.is_alone()
    }

    /// What the node owns; `None`: nothing.
    pub fn owned(&self) -> Option<Interval> {
        self.ring.owned()
    }

    /// The fingers beyond the successor list, by their exponents.
    pub fn fingers(&self) -> impl Iterator<Item = (u32, &Contact)> {
        self.fingers.iter()
    }

    /// Neighbours and others it would ask for a way back, in no order.
    pub fn remembered(&self) -> impl Iterator<Item = &Contact> {
        self.remembered.iter()
    }

    /// How much the node holds.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            calls: self.out.waiting_calls(),
            lookups: self.lookups.len(),
            forwards: self.forwards.len(),
            fingers: self.fingers.len(),
            map: self.map.len(),
            events: self.spread.len() + self.mapping.len(),
            operations: self.quorum.len(),
            deferred: self.ring.deferred() + self.waiting_routes.len(),
            remembered: self.remembered.iter().count(),
        }
    }

    /// What was set at the founding of the ring.
    pub fn params(&self) -> &RingParams {
        &self.params
    }

    /// Whether all registers of a point's arc are held here.
    pub fn is_open(&self, point: Id) -> bool {
        self.replication.is_open(point)
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        Counters {
            upkeep: self.ring.counts().clone(),
            repair: self.replication.counts(),
            ..self.counters.clone()
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Found => self.found(),
            Command::Join { via } => self.join(via),
            Command::Remember(memory) => self.remember(memory),
            Command::Renew { record } => {
                let me = self.ring.links().me();
                let renewed = Contact { record, ..me.clone() };
                self.ring.links_mut().set_me(renewed);
                self.report_renewed();
            }
            Command::Lookup { op, key, routing, depth, purpose, forwarding } => {
                self.look_up_for_driver(op, key, routing, depth, purpose, forwarding);
            }
            Command::Read { op, key } => self.operate(op, key, Task::Read),
            Command::Write { op, key, operation, value } => {
                self.operate(op, key, Task::Write { operation, value });
            }
            Command::Stabilize => self.ring.stabilize(&mut self.out),
            Command::Leave => self.depart(true),
            Command::Stop => self.depart(false),
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Stabilize => self.on_stabilize_timer(),
            Timer::Push => self.ring.on_push_timer(&mut self.out),
            Timer::Deferred => self.ring.on_deferred_timeout(&mut self.out),
            Timer::WaitingRoutes => self.give_up_waiting_routes(),
            Timer::Join => self.attempt_join(),
            Timer::MergeProbe => self.probe_for_merge(),
            Timer::Unlink => self.unlinked(),
            Timer::Fingers => self.look_up_finger(),
            Timer::MapBatch => self.send_batch(),
            Timer::MapReport => self.send_reports(),
            Timer::MapUpkeep => self.look_after_map(),
            Timer::LookupDeadline(number) => self.on_lookup_deadline(number),
            Timer::LookupRetry(number) => self.retry_lookup(number),
            Timer::Handed(number) => self.on_handed_timeout(number),
            Timer::Repair | Timer::RepairSoon => self.on_repair_timer(timer),
            Timer::HandoffPoll => self.poll_handoff(),
            Timer::QuorumDeadline(number) => self.quorum.on_deadline(&mut self.out, number),
            Timer::QuorumRetry(number) => self.retry_operation(number),
        }
    }

    fn on_response(
        &mut self,
        rpc: RpcId,
        response: Response,
        record: Option<Arc<PeerRecord>>,
        connect_us: u64,
    ) {
        if let Some(call) = self.out.finish_overdue(rpc) {
            return self.on_late_response(&call, response, connect_us);
        }
        let Some(mut call) = self.out.answered_call(rpc) else { return };
        let held = &call.to.record;
        let is_newer = |record: &Arc<PeerRecord>| {
            // An event of the map names nobody's revision, and carries no signature.
            let is_fuller = record.sequence() > held.sequence() || !held.is_signed();
            record.key == held.key && record.incarnation >= held.incarnation && is_fuller
        };
        if let Some(record) = record.filter(is_newer) {
            call.to.record = record;
        }
        if response.is_of_member() {
            self.ring.links_mut().renew_life(&call.to);
        }
        self.measure(&call, connect_us);
        self.note_heard(&call.to);
        let answer = Answered { rpc, call, outcome: Ok(response), connect_us };
        self.dispatch(answer);
    }

    /// An answer whose time was over. Only a lookup may still make use of it: it adopts nobody.
    fn on_late_response(&mut self, call: &Call, response: Response, connect_us: u64) {
        self.measure(call, connect_us);
        self.note_heard(&call.to);
        if let (CallOwner::Lookup(number), Response::Route(answer)) = (&call.owner, response) {
            let timing = self.timing(call, connect_us);
            self.on_late_lookup_answer(*number, &call.to, answer, timing);
        }
    }

    fn timing(&self, call: &Call, connect_us: u64) -> Timing {
        let waited = crate::time::micros(self.out.now.since(call.sent));
        Timing { connect_us, rtt_us: waited.saturating_sub(connect_us) }
    }

    fn measure(&mut self, call: &Call, connect_us: u64) {
        let waited = self.out.now.since(call.sent);
        let rtt = waited.saturating_sub(std::time::Duration::from_micros(connect_us));
        if call.measures {
            self.out.rtt.measured(call.to.key(), rtt, self.out.now);
        }
    }

    fn on_failed(&mut self, rpc: RpcId, failure: Failure) {
        self.out.finish_overdue(rpc);
        let Some(call) = self.out.pending_call(rpc) else { return };
        // A probe that the transport gave up early still counts as missed only when its time is
        // over: a local fault must not kill every neighbour in a microsecond.
        let waits = !matches!(
            call.owner,
            CallOwner::Lookup(_)
                | CallOwner::Forward(_)
                | CallOwner::Told
                | CallOwner::Notify
                | CallOwner::Join
                | CallOwner::OwnIdentity
                | CallOwner::MergeProbe
                | CallOwner::ProbeFor(_)
                | CallOwner::Unlink
                | CallOwner::Quorum(_)
                | CallOwner::Repair(_)
                | CallOwner::Handoff(_)
                | CallOwner::MapReport(_)
                | CallOwner::MapCopy(_)
                | CallOwner::MapPage
                | CallOwner::MapDigest(_)
        );
        if waits && failure == Failure::Unreachable {
            return;
        }
        let Some(call) = self.out.finish_call(rpc) else { return };
        match failure {
            Failure::TimedOut | Failure::NotThatPeer => self.on_missed(rpc, call),
            Failure::Unreachable | Failure::SameIdentity => {
                self.dispatch(Answered { rpc, call, outcome: Err(failure), connect_us: 0 });
            }
        }
    }

    fn on_missed(&mut self, rpc: RpcId, call: Call) {
        let counts = self.ring.counts_mut();
        counts.missed_probes = counts.missed_probes.saturating_add(1);
        self.liveness.missed(&call.to, self.out.now);
        self.dispatch(Answered { rpc, call, outcome: Err(Failure::TimedOut), connect_us: 0 });
    }

    /// Gives an answer, or its failure, to whoever asked.
    fn dispatch(&mut self, answered: Answered) {
        let Answered { rpc, call, outcome, connect_us } = answered;
        let out = &mut self.out;
        match call.owner.clone() {
            CallOwner::Stabilize
            | CallOwner::StepTwo
            | CallOwner::ServeJoin
            | CallOwner::RectifyNotifier
            | CallOwner::RectifyPredecessor => {
                self.ring.on_answer(out, rpc, &call.owner, &call.to, outcome.ok());
            }
            CallOwner::Told => {}
            CallOwner::Notify => {
                if let Ok(response) = outcome {
                    self.ring.on_notified(out, rpc, response);
                }
            }
            CallOwner::Join => self.on_join_answer(call.to, outcome.ok()),
            CallOwner::OwnIdentity => self.on_own_identity(call.to, outcome),
            CallOwner::Unlink => self.on_unlink_answer(),
            CallOwner::Lookup(number) => {
                let timing = self.timing(&call, connect_us);
                self.on_lookup_answer(number, rpc, &call.to, outcome, timing);
            }
            CallOwner::Forward(number) => self.on_forward_answer(number, &call.to, outcome),
            CallOwner::Probe(key) => match outcome {
                Ok(Response::NotMember) => {
                    let verdict = self.liveness.gone(&call.to, out.now);
                    self.on_verdict(verdict);
                }
                Ok(_) => {}
                Err(_) => {
                    let helper = self.helper_for(&call.to);
                    let verdict =
                        self.liveness.on_probe_failed(&mut self.out, key, helper.as_ref());
                    self.on_verdict(verdict);
                }
            },
            CallOwner::IndirectProbe(key) => {
                let answered = matches!(outcome, Ok(Response::Probed { answered: true }));
                let verdict = self.liveness.on_indirect(key, answered);
                self.on_verdict(verdict);
            }
            CallOwner::ProbeFor(reply) => {
                let answered = outcome == Ok(Response::Done);
                out.reply(reply, Response::Probed { answered });
            }
            CallOwner::MergeProbe => self.on_merge_probe(call.to, outcome.ok()),
            CallOwner::Quorum(number) => self.on_quorum_answer(number, &call.to, outcome.ok()),
            CallOwner::Repair(number) => self.on_repair_answer(number, outcome.ok()),
            CallOwner::Handoff(number) => self.on_handoff_answer(number, outcome.ok()),
            owner @ (CallOwner::MapReport(_)
            | CallOwner::MapCopy(_)
            | CallOwner::MapPage
            | CallOwner::MapDigest(_)) => self.on_map_answer(owner, &call.to, outcome),
        }
    }

    /// Carries what one machine found to the others, until nothing is left to carry.
    fn wire(&mut self) {
        while let Some(verdict) = self.liveness.pop_overtaken() {
            self.on_verdict(Some(verdict));
        }
        let mut links_changed = false;
        while let Some(change) = self.ring.pop_change() {
            match change {
                Change::Links => links_changed = true,
                Change::Placed => {
                    self.placed();
                    self.enter_map();
                }
                Change::Verify(contact) => self.verify(&contact),
                Change::VerifyTestified(contact) => {
                    let verdict = self.liveness.verify_testified(&mut self.out, &contact);
                    self.on_verdict(verdict);
                }
                Change::Gone(contact) => {
                    let verdict = self.liveness.gone(&contact, self.out.now);
                    self.on_verdict(verdict);
                }
                Change::Removed { contact, for_good } => {
                    self.report_gone(&contact);
                    self.neighbor_removed(contact, for_good);
                }
                Change::Emptied => self.emptied(),
                Change::Unlinked => self.unlinked(),
            }
        }
        if links_changed {
            self.links_changed();
            self.learn_neighbors();
            self.neighbors_changed();
        }
        self.look_up_keepers();
        self.answer_waiting_routes();
        let state = self.state();
        if state != self.told_state {
            self.told_state = state;
            self.out.notice(Notice::State(state));
        }
    }

    /// The node's own point.
    fn id(&self) -> Id {
        self.ring.links().me().id
    }
}

/// An answer with the call it belongs to.
struct Answered {
    rpc: RpcId,
    call: Call,
    outcome: Result<Response, Failure>,
    connect_us: u64,
}
