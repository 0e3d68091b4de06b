//! For exhaustive exploration: the driver decides when timers fire, when calls time out and whom a
//! joiner asks, and a node can be put into a form without times.
//!
//! A node in real use is driven by [`Node::handle_event`] and [`Node::handle_timeout`]; nothing
//! here is meant for it. A driver that explores gives every event the same late moment and calls
//! [`Node::distill`] afterwards. So every pause has run out when something happens, a timer fires
//! whenever the driver likes, and two nodes that will act alike for ever are equal in all they
//! hold: what `{:+?}` prints of a distilled node is a projection of its state without a clock.

use super::{Forwards, Joining, Mapping, Node};
use crate::event::{Effect, ReplyId, RpcId};
use crate::fingers::Fingers;
use crate::map::Map;
use crate::map::spread::Spread;
use crate::outbox::CallOwner;
use crate::peer::Contact;
use crate::quorum::Quorum;
use crate::replication::Replication;
use crate::ring::Standing;
use crate::stats::Counters;
use crate::time::Instant;
use crate::timer::Timer;

/// A timer of the ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Alarm {
    /// Time for STABILIZE.
    Stabilize,
    /// A push was held back by the rate limit.
    Push,
    /// A question has waited as long as it may: the node's own query is abandoned.
    AbandonQuery,
    /// Routing questions have waited as long as they may.
    GiveUpRoutes,
    /// Time to look for a place; see [`Node::seek_place_at`].
    SeekPlace,
    /// Time to ping a remembered peer; see [`Node::probe_remembered`].
    MergeProbe,
    /// A lookup asks a busy node again.
    RetryLookup(u64),
}

/// A call that waits for its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingCall {
    /// Which.
    pub rpc: RpcId,
    /// Who was asked.
    pub to: Contact,
    /// What for.
    pub kind: CallKind,
}

/// What a call is for, as far as it matters to who explores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CallKind {
    /// Something was said; the answer is only a sign of life.
    Told,
    /// The failure detector's, direct or through another node.
    Probe,
    /// A ping on which a step of the ring waits.
    Ping,
    /// A question about pointers, or of a lookup.
    Question,
    /// A joiner asks for its place.
    Join,
    /// About registers and copies, or of a departure: no part of the ring's upkeep.
    Other,
}

impl Node {
    /// The timers of the ring that are set.
    pub fn alarms(&self) -> Vec<Alarm> {
        self.out.timers.all().filter_map(alarm).collect()
    }

    /// The calls that wait for an answer.
    pub fn calls(&self) -> Vec<PendingCall> {
        let pending = |(rpc, owner, to): (RpcId, &CallOwner, &Contact)| PendingCall {
            rpc,
            to: to.clone(),
            kind: kind(owner),
        };
        self.out.calls().map(pending).collect()
    }

    /// The requests that wait here for their answer.
    pub fn open_questions(&self) -> Vec<ReplyId> {
        self.ring.questions().chain(self.waiting_routes.keys().copied()).collect()
    }

    /// Changes with successor list, predecessor and own record; 0 after [`Node::distill`].
    pub fn links_stamp(&self) -> u64 {
        self.ring.links().stamp()
    }

    /// Fires a timer, if it is set.
    pub fn fire(&mut self, now: Instant, alarm: Alarm) {
        self.out.now = self.out.now.max(now);
        let timer = timer(alarm);
        if self.out.timers.is_set(timer) {
            self.out.timers.stop(timer);
            self.on_timer(timer);
            self.wire();
        }
    }

    /// A call has waited long enough.
    pub fn expire_call(&mut self, now: Instant, rpc: RpcId) {
        self.out.now = self.out.now.max(now);
        if let Some(call) = self.out.finish_call(rpc) {
            self.out.effect(Effect::Cancel { rpc });
            self.on_missed(rpc, call);
            self.wire();
        }
    }

    /// Forgets a call without a word: whoever made it learns neither of an answer nor of silence.
    pub fn let_go(&mut self, rpc: RpcId) {
        self.out.finish_call(rpc);
    }

    /// Asks a member for a place, as if the lookup of the own place had ended at it.
    pub fn seek_place_at(&mut self, now: Instant, member: &Contact) {
        self.out.now = self.out.now.max(now);
        self.seek_place(member.clone());
        self.wire();
    }

    /// Pings a remembered peer, as if chance had chosen it.
    pub fn probe_remembered(&mut self, now: Instant, contact: &Contact) {
        self.out.now = self.out.now.max(now);
        if self.ring.standing() == Standing::Member {
            self.ping_remembered(contact);
            self.wire();
        }
    }

    /// Lets the failure detector call a peer dead, rightly or wrongly.
    pub fn declare_dead(&mut self, now: Instant, contact: &Contact) {
        self.out.now = self.out.now.max(now);
        let verdict = self.liveness.gone(contact, self.out.now);
        self.on_verdict(verdict);
        self.wire();
    }

    /// Whether the node looks for a place.
    pub fn seeks_place(&self) -> bool {
        self.wants_place()
    }

    /// Whether one that looks for a place goes on looking: it asks, or will, or knows nobody.
    pub fn keeps_seeking(&self) -> bool {
        self.is_search_alive()
    }

    /// Drops the lookups of the own place: where they end is the driver's concern.
    pub fn drop_lookups_of_own_place(&mut self) {
        self.drop_join_lookups();
    }

    /// Drops the search for a place: whom to ask is the driver's concern, when
    /// [`Alarm::SeekPlace`] is set.
    pub fn drop_search(&mut self) {
        let asked = |(rpc, owner, _): (RpcId, &CallOwner, &Contact)| {
            matches!(owner, CallOwner::Join | CallOwner::OwnIdentity).then_some(rpc)
        };
        let joins: Vec<RpcId> = self.out.calls().filter_map(asked).collect();
        joins.into_iter().for_each(|rpc| _ = self.out.finish_call(rpc));
        self.leave_search();
    }

    /// Takes away what only time, chance and counting have put here, and what belongs to registers
    /// and copies. The stamps of the links go too: whoever asks must not name one. All effects must
    /// have been polled, and lookups of the own place been dropped. Numbers of calls stay the same
    /// from one time to the next; new ones get small numbers, and what was renumbered is returned.
    ///
    /// Every field is named here, so that whoever adds one decides whether it is forgotten.
    pub fn distill(&mut self) -> Vec<(RpcId, RpcId)> {
        self.distill_lookups(crate::outbox::FIRST_NEW);
        let state = self.state();
        let seeks = self.wants_place();
        let has_asked = self.out.calls().any(|(_, owner, _)| *owner == CallOwner::Join);
        let Node {
            params: _,
            out,
            ring,
            liveness,
            remembered,
            joining,
            lookups: _,
            fingers,
            map,
            mapping,
            spread,
            forwards,
            quorum,
            replication,
            waiting_routes: _,
            counters,
            told_state,
            is_ready,
            unsaved,
            saved_alone,
            leave: _,
        } = self;
        let renumbered = out.distill(0);
        ring.distill(&renumbered);
        liveness.forget_time();
        remembered.forget_time();
        *joining = Joining::default();
        // They have no say in the ring.
        *fingers = Fingers::new(Instant::ZERO);
        (*map, *mapping, *spread) =
            (Map::default(), Mapping::default(), Spread::new(Instant::ZERO));
        *forwards = Forwards::default();
        *quorum = Quorum::default();
        *replication = Replication::default();
        *counters = Counters::default();
        *told_state = state;
        (*is_ready, *unsaved, *saved_alone) = (true, false, false);
        if seeks && has_asked {
            self.keep_asking();
        } else {
            self.leave_search();
        }
        self.renumber_lookups(&renumbered);
        self.distill_routes();
        renumbered.into_iter().collect()
    }
}

fn alarm(timer: Timer) -> Option<Alarm> {
    match timer {
        Timer::Stabilize => Some(Alarm::Stabilize),
        Timer::Push => Some(Alarm::Push),
        Timer::Deferred => Some(Alarm::AbandonQuery),
        Timer::WaitingRoutes => Some(Alarm::GiveUpRoutes),
        Timer::Join => Some(Alarm::SeekPlace),
        Timer::MergeProbe => Some(Alarm::MergeProbe),
        Timer::LookupRetry(number) => Some(Alarm::RetryLookup(number)),
        Timer::Fingers
        | Timer::MapBatch
        | Timer::MapReport
        | Timer::MapUpkeep
        | Timer::Repair
        | Timer::RepairSoon
        | Timer::Unlink
        | Timer::HandoffPoll
        | Timer::LookupDeadline(_)
        | Timer::QuorumDeadline(_)
        | Timer::QuorumRetry(_)
        | Timer::Handed(_) => None,
    }
}

fn timer(alarm: Alarm) -> Timer {
    match alarm {
        Alarm::Stabilize => Timer::Stabilize,
        Alarm::Push => Timer::Push,
        Alarm::AbandonQuery => Timer::Deferred,
        Alarm::GiveUpRoutes => Timer::WaitingRoutes,
        Alarm::SeekPlace => Timer::Join,
        Alarm::MergeProbe => Timer::MergeProbe,
        Alarm::RetryLookup(number) => Timer::LookupRetry(number),
    }
}

fn kind(owner: &CallOwner) -> CallKind {
    match owner {
        CallOwner::Told | CallOwner::Notify => CallKind::Told,
        CallOwner::Probe(_) | CallOwner::IndirectProbe(_) | CallOwner::ProbeFor(_) => {
            CallKind::Probe
        }
        CallOwner::ServeJoin
        | CallOwner::RectifyNotifier
        | CallOwner::RectifyPredecessor
        | CallOwner::MergeProbe => CallKind::Ping,
        CallOwner::Stabilize | CallOwner::StepTwo | CallOwner::Lookup(_) => CallKind::Question,
        CallOwner::Join => CallKind::Join,
        CallOwner::OwnIdentity
        | CallOwner::Unlink
        | CallOwner::Quorum(_)
        | CallOwner::Repair(_)
        | CallOwner::Handoff(_)
        | CallOwner::MapReport(_)
        | CallOwner::MapCopy(_)
        | CallOwner::MapPage
        | CallOwner::MapDigest(_)
        | CallOwner::Forward(_) => CallKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::{Config, RingParams};
    use crate::event::{Command, Event};
    use crate::message::client::NodeState;
    use crate::message::ring::{Neighbors, Request, Response};
    use crate::message::{RingId, Routings};
    use crate::testing::contact_in_life;

    /// A node in its life 0 that has joined 40 at some moment, by the driver's choice.
    fn joined(seed: u64, now: Instant) -> Node {
        let (me, other) = (contact_in_life(10, 0), contact_in_life(40, 0));
        let params = RingParams::founding(RingId(1), 1);
        // As the explorer sets it.
        let keep = Routings::LEAST;
        let config = Arc::new(Config { keeps_data: false, keep, ..Config::default() });
        let mut node = Node::new(me, params, config, seed, now);
        node.distill();
        node.seek_place_at(now, &other);
        let asked = sent(&mut node);
        assert_eq!(asked.iter().map(|(_, request)| request).collect::<Vec<_>>(), [&Request::Join]);
        let welcome = Neighbors { stamp: 7, predecessor: None, successors: vec![], leaving: false };
        let (rpc, response, record) = (asked[0].0, Response::Joined(welcome), None);
        node.handle_event(now, Event::Response { rpc, response, record, connect_us: 0 });
        node
    }

    fn sent(node: &mut Node) -> Vec<(RpcId, Request)> {
        let mut sent = Vec::new();
        while let Some(effect) = node.poll_effect() {
            if let Effect::Send { rpc, request, .. } = effect {
                sent.push((rpc, request));
            }
        }
        sent
    }

    fn printed(node: &Node) -> String {
        format!("{node:+?}")
    }

    #[test]
    fn a_distilled_node_shows_neither_time_nor_chance() {
        let distilled = |seed, now| {
            let mut node = joined(seed, now);
            sent(&mut node);
            node.distill();
            node
        };
        let (one, other) = (distilled(1, Instant(5)), distilled(2, Instant(77_000_000)));
        assert_eq!(printed(&one), printed(&other));
        assert!(printed(&one).contains("~0"), "lives show");
        let mut again = one.clone();
        assert_eq!((again.distill(), printed(&again)), (vec![], printed(&one)), "once is enough");
    }

    #[test]
    fn what_differs_for_the_ring_shows() {
        let mut one = joined(1, Instant(5));
        sent(&mut one);
        let mut other = one.clone();
        let request = Request::Candidate { contact: contact_in_life(20, 0) };
        let from = contact_in_life(40, 0);
        other.handle_event(Instant(6), Event::Request { reply: ReplyId(1), from, request });
        sent(&mut other);
        one.distill();
        other.distill();
        assert_ne!(printed(&one), printed(&other));
    }

    #[test]
    fn timers_fire_and_calls_end_when_the_driver_says_so() {
        let mut node = joined(1, Instant(5));
        sent(&mut node);
        let renumbered = node.distill();
        let calls = node.calls();
        assert_eq!(calls.len(), 1, "the head is asked");
        assert_eq!((calls[0].kind, calls[0].rpc), (CallKind::Question, RpcId(1)));
        assert!(renumbered.iter().any(|(_, new)| *new == RpcId(1)));
        assert!(node.alarms().contains(&Alarm::Stabilize));
        node.expire_call(Instant(9), RpcId(1));
        let of_kind = |node: &Node, kind| -> Vec<PendingCall> {
            node.calls().into_iter().filter(|call| call.kind == kind).collect()
        };
        let probes = of_kind(&node, CallKind::Probe);
        assert_eq!(probes.len(), 1, "silence is looked into");
        node.let_go(probes[0].rpc);
        assert!(of_kind(&node, CallKind::Probe).is_empty());
        node.fire(Instant(10), Alarm::Stabilize);
        assert_eq!(of_kind(&node, CallKind::Question).len(), 1, "STABILIZE asks again");
        assert!(node.alarms().contains(&Alarm::Stabilize), "and its timer is set again");
    }

    #[test]
    fn a_false_verdict_is_one_of_the_detector() {
        let mut node = joined(1, Instant(5));
        node.declare_dead(Instant(6), &contact_in_life(40, 0));
        assert_eq!(node.state(), NodeState::Isolated);
        assert!(node.seeks_place() && node.keeps_seeking());
        node.drop_search();
        assert!(node.keeps_seeking() && node.alarms().contains(&Alarm::SeekPlace));
    }

    #[test]
    fn nothing_is_left_of_a_search_but_its_timer() {
        let me = contact_in_life(10, 0);
        let params = RingParams::founding(RingId(1), 1);
        let mut node = Node::new(me, params, Arc::new(Config::default()), 1, Instant(5));
        let via = vec![contact_in_life(40, 0)];
        node.handle_event(Instant(5), Event::Command(Command::Join { via }));
        sent(&mut node);
        node.drop_lookups_of_own_place();
        sent(&mut node);
        node.distill();
        assert_eq!((node.alarms(), node.calls()), (vec![Alarm::SeekPlace], vec![]));
    }
}
