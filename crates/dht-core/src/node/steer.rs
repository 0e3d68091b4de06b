//! For exhaustive exploration: the driver decides when timers fire, when calls time out and whom a
//! joiner asks, and a node can be put into a form without times.
//!
//! A node in real use is driven by [`Node::handle_event`] and [`Node::handle_timeout`]; nothing here
//! is meant for it. A driver that explores gives every event the same late moment and calls
//! [`Node::distill`] afterwards. So every pause has run out when something happens, a timer fires
//! whenever the driver likes, and two nodes that will act alike for ever are equal in all they hold:
//! what `{:+?}` prints of a distilled node is a projection of its state without a clock.

use super::{Joining, Node};
use crate::event::{Effect, ReplyId, RpcId};
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
    /// have been polled, and lookups of the own place have been dropped. Numbers of calls stay the same from one time to the
    /// next; new ones get small numbers, and what was renumbered is returned.
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
        Timer::Repair
        | Timer::RepairSoon
        | Timer::Unlink
        | Timer::HandoffPoll
        | Timer::LookupDeadline(_)
        | Timer::QuorumDeadline(_)
        | Timer::QuorumRetry(_) => None,
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
        CallOwner::Told => CallKind::Told,
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
        | CallOwner::Handoff(_) => CallKind::Other,
    }
}
