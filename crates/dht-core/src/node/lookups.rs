//! Lookups under way: each step asks a node, or answers from our own state.

use std::collections::BTreeMap;

use super::Node;
use super::serve::RouteOutcome;
use crate::event::{Failure, Notice, OpId, Purpose, RpcId};
use crate::id::Id;
use crate::lookup::{LookupQuery, LookupStep, LookupTarget, Owner, Timing};
use crate::message::Forwarding;
use crate::message::client::{DetourReason, LookupFailure};
use crate::message::ring::{Kind, Request, Response, RouteAnswer, RouteQuery, Routing};
use crate::outbox::CallOwner;
use crate::peer::Contact;
use crate::ring::Standing;
use crate::timer::Timer;

/// How long a lookup lets a busy node be, as a share of the shortest time-out: 1/4 (guess).
const PAUSES_PER_TIMEOUT: u32 = 4;

/// The table of lookups.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookups {
    running: BTreeMap<u64, Lookup>,
}

#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) query: LookupQuery,
    reason: Reason,
    rpc: Option<RpcId>,
    /// Whether others have it, or had.
    pub(super) handed: Option<Handed>,
}

/// A lookup that was handed on.
#[derive(Clone, Debug)]
pub(super) struct Handed {
    /// Shows that an answer comes from the way of the question.
    pub(super) nonce: u64,
    /// Whether it goes on iteratively meanwhile.
    pub(super) gave_up: bool,
}

/// Who wants to know.
#[derive(Clone, Debug)]
pub(super) enum Reason {
    /// The driver.
    Driver { op: OpId, purpose: Purpose },
    /// A join, through this member.
    Join { via: Contact },
    /// Our own id + 1, looked up in another part of the ring.
    Unify,
    /// Whether a remembered peer that answers and this node are in one part of the ring: then the
    /// walk ends at `wanted`.
    MergeCheck { contact: Contact, wanted: Id },
    /// Whether the ring goes round only once.
    RoundCheck,
    /// A register operation.
    Quorum { number: u64 },
    /// Our own finger of this exponent.
    Finger,
    /// Who keeps something that this node holds and does not keep.
    Keepers { kind: Kind },
}

impl Lookups {
    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// One that is under way.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Lookup> {
        self.running.get_mut(&number)
    }
}

impl Node {
    /// [`crate::Command::Lookup`].
    pub(super) fn look_up_for_driver(
        &mut self,
        op: OpId,
        key: Id,
        routing: Option<Routing>,
        depth: Option<u16>,
        purpose: Purpose,
        forwarding: Option<Forwarding>,
    ) {
        let config = &self.out.config;
        let target = LookupTarget {
            key,
            routing: routing.unwrap_or(config.routing),
            depth: depth.unwrap_or(config.depth),
            want_list: purpose == Purpose::Upkeep,
        };
        let forwarding = forwarding.unwrap_or(config.forwarding);
        self.look_up_by(target, Reason::Driver { op, purpose }, forwarding);
    }

    /// A lookup by this member, which asks every node on the way itself.
    pub(super) fn look_up(&mut self, target: LookupTarget, reason: Reason) {
        self.look_up_by(target, reason, Forwarding::Iterative);
    }

    /// A lookup by this member.
    pub(super) fn look_up_by(
        &mut self,
        target: LookupTarget,
        reason: Reason,
        forwarding: Forwarding,
    ) {
        let (me, max_hops) = (self.ring.links().me().clone(), self.out.config.max_hops);
        let query = LookupQuery::by_member(target, me, max_hops, self.out.now);
        self.run_lookup(query, reason, forwarding);
    }

    /// A lookup in the part of the ring that `via` belongs to.
    pub(super) fn look_up_through(&mut self, key: Id, via: Contact, reason: Reason) {
        let config = &self.out.config;
        let target = LookupTarget {
            key,
            routing: Routing::Successors,
            depth: config.depth,
            want_list: false,
        };
        let me = self.ring.links().me().clone();
        let query = LookupQuery::through(target, me, via, config.max_hops, self.out.now);
        self.run_lookup(query, reason, Forwarding::Iterative);
    }

    /// The answer to a question of a lookup, or its failure.
    pub(super) fn on_lookup_answer(
        &mut self,
        number: u64,
        rpc: RpcId,
        from: &Contact,
        outcome: Result<Response, Failure>,
        timing: Timing,
    ) {
        let Some(lookup) = self.lookups.running.get_mut(&number) else { return };
        if lookup.rpc != Some(rpc) {
            return;
        }
        lookup.rpc = None;
        if let (Reason::Join { .. }, Ok(Response::Route(_))) = (&lookup.reason, &outcome) {
            // Those it knew may be gone by the next attempt, and this one is a member.
            self.remembered.note(from, self.out.now);
        }
        match &outcome {
            Ok(Response::Route(answer)) => {
                lookup.query.renew_asked(from);
                self.learn_from_answer(from, answer);
            }
            Ok(Response::NotMember) => self.map.doubt(from.id),
            Ok(_) => {}
            Err(_) => {
                self.fingers.doubt(from.id);
                self.map.doubt(from.id);
            }
        }
        let Some(lookup) = self.lookups.running.get_mut(&number) else { return };
        let query = &mut lookup.query;
        let step = match outcome {
            Ok(Response::Route(answer)) => query.on_answer(answer, timing),
            Ok(Response::Busy) => query.on_busy(),
            Ok(Response::NotMember) => query.on_failure(DetourReason::NotMember),
            Ok(_) => query.on_failure(DetourReason::NoProgress),
            Err(Failure::TimedOut) => query.on_failure(DetourReason::TimedOut),
            Err(_) => query.on_failure(DetourReason::Unreachable),
        };
        self.follow(number, step);
    }

    /// An answer to a question of a lookup that was given up.
    pub(super) fn on_late_lookup_answer(
        &mut self,
        number: u64,
        from: &Contact,
        answer: RouteAnswer,
        timing: Timing,
    ) {
        let Some(lookup) = self.lookups.running.get_mut(&number) else { return };
        let Some(step) = lookup.query.on_late_answer(from, answer, timing) else { return };
        if let Some(asked) = lookup.rpc.take() {
            self.out.cancel_call(asked);
        }
        self.out.timers.stop(Timer::LookupRetry(number));
        self.follow(number, step);
    }

    /// A paused lookup goes on.
    pub(super) fn retry_lookup(&mut self, number: u64) {
        if let Some(lookup) = self.lookups.running.get_mut(&number) {
            let step = lookup.query.retry();
            self.follow(number, step);
        }
    }

    /// A lookup took too long.
    pub(super) fn on_lookup_deadline(&mut self, number: u64) {
        self.end_lookup(number, Err(LookupFailure::TimedOut));
    }

    fn run_lookup(&mut self, query: LookupQuery, reason: Reason, forwarding: Forwarding) {
        let number = self.out.draw_number();
        let full = self.lookups.running.len() >= self.out.config.max_operations;
        self.lookups.running.insert(number, Lookup { query, reason, rpc: None, handed: None });
        if full {
            self.end_lookup(number, Err(LookupFailure::Overloaded));
            return;
        }
        let patience = self.out.config.lookup_timeout;
        self.out.set_timer(Timer::LookupDeadline(number), patience);
        match forwarding {
            Forwarding::Iterative => self.start_lookup(number),
            Forwarding::Recursive => self.hand_on_lookup(number),
        }
    }

    fn start_lookup(&mut self, number: u64) {
        if let Some(lookup) = self.lookups.running.get_mut(&number) {
            let step = lookup.query.start();
            self.follow(number, step);
        }
    }

    /// Does what a lookup wants next, until it has to wait for somebody else.
    pub(super) fn follow(&mut self, number: u64, mut step: LookupStep) {
        loop {
            match step {
                LookupStep::End(outcome) => return self.end_lookup(number, outcome),
                LookupStep::Pause => {
                    let pause = self.out.config.min_timeout / PAUSES_PER_TIMEOUT;
                    return self.out.set_timer(Timer::LookupRetry(number), pause);
                }
                LookupStep::Ask(contact, query) if contact.id == self.id() => {
                    match self.ask_myself(number, contact, query) {
                        Some(next) => step = next,
                        None => return,
                    }
                }
                LookupStep::Ask(contact, query) => return self.ask(number, contact, query),
            }
        }
    }

    fn ask(&mut self, number: u64, contact: Contact, query: RouteQuery) {
        let Some(lookup) = self.lookups.running.get_mut(&number) else { return };
        let owner = CallOwner::Lookup(number);
        let request = Request::Route(query);
        let rpc = if lookup.query.needs_patience() {
            let answer = self.out.rtt.timeout(&contact.key(), &self.out.config);
            let patience = self.out.config.hold_route().saturating_add(answer);
            self.out.call_patiently(owner, &contact, request, patience)
        } else {
            self.out.call(owner, &contact, request)
        };
        lookup.rpc = Some(rpc);
    }

    /// One step answered from our own state; `None`: the lookup is over or elsewhere.
    fn ask_myself(
        &mut self,
        number: u64,
        myself: Contact,
        query: RouteQuery,
    ) -> Option<LookupStep> {
        let lookup = self.lookups.running.get_mut(&number)?;
        if let Reason::Join { via } = &lookup.reason {
            // The ring still knows an earlier life of us, or another process with our key.
            let before = lookup.query.last_live().unwrap_or(via).clone();
            self.drop_lookup(number);
            self.on_own_place_found(myself, before);
            return None;
        }
        if !matches!(self.ring.standing(), Standing::Member | Standing::Leaving) {
            return Some(LookupStep::End(Err(LookupFailure::NotMember)));
        }
        let step = match self.route(&query) {
            RouteOutcome::Answer(answer) => {
                let lookup = self.lookups.running.get_mut(&number)?;
                lookup.query.on_answer(answer, Timing::default())
            }
            RouteOutcome::NotMember => LookupStep::End(Err(LookupFailure::NotMember)),
            RouteOutcome::Wait(suspect) => {
                self.verify_for_route(suspect, &query.failed);
                LookupStep::Pause
            }
        };
        Some(step)
    }

    /// Whether the own place is being looked up.
    pub(super) fn has_join_lookup(&self) -> bool {
        self.lookups.running.values().any(|held| matches!(held.reason, Reason::Join { .. }))
    }

    /// Drops the lookups of the own place.
    pub(super) fn drop_join_lookups(&mut self) {
        let is_join = |lookup: &Lookup| matches!(lookup.reason, Reason::Join { .. });
        let joins: Vec<u64> = self
            .lookups
            .running
            .iter()
            .filter(|(_, held)| is_join(held))
            .map(|(n, _)| *n)
            .collect();
        joins.into_iter().for_each(|number| _ = self.drop_lookup(number));
    }

    /// Numbers new lookups from 1 on and forgets all their times; see [`super::steer`]. `first` is
    /// the first number that is new.
    pub(super) fn distill_lookups(&mut self, first: u64) {
        let new: Vec<u64> = self.lookups.running.range(first..).map(|(n, _)| *n).collect();
        for number in new {
            let free = (1..).find(|n| !self.lookups.running.contains_key(n)).unwrap_or(number);
            if let Some(lookup) = self.lookups.running.remove(&number) {
                self.lookups.running.insert(free, lookup);
            }
            self.out.rename_lookup(number, free);
        }
        self.lookups.running.values_mut().for_each(|lookup| lookup.query.forget_time());
    }

    /// The calls have new numbers.
    pub(super) fn renumber_lookups(&mut self, renumbered: &BTreeMap<RpcId, RpcId>) {
        let calls = self.lookups.running.values_mut().filter_map(|lookup| lookup.rpc.as_mut());
        calls.for_each(|rpc| *rpc = renumbered.get(rpc).copied().unwrap_or(*rpc));
    }

    fn drop_lookup(&mut self, number: u64) -> Option<Lookup> {
        let lookup = self.lookups.running.remove(&number)?;
        self.out.timers.stop(Timer::LookupDeadline(number));
        self.out.timers.stop(Timer::LookupRetry(number));
        self.out.timers.stop(Timer::Handed(number));
        if let Some(rpc) = lookup.rpc {
            self.out.cancel_call(rpc);
        }
        Some(lookup)
    }

    pub(super) fn end_lookup(&mut self, number: u64, outcome: Result<Owner, LookupFailure>) {
        let Some(Lookup { query, reason, .. }) = self.drop_lookup(number) else { return };
        match reason {
            Reason::Driver { op, purpose } => self.tell_driver(op, purpose, &query, outcome),
            Reason::Join { via } => self.on_join_lookup(via, outcome),
            Reason::Unify => {
                if let Ok(owner) = outcome {
                    self.on_unify_lookup(owner.contact);
                }
            }
            Reason::RoundCheck => {
                if let Ok(owner) = outcome {
                    self.on_round_check(owner.contact);
                }
            }
            Reason::MergeCheck { contact, wanted } => self.on_merge_check(contact, wanted, outcome),
            Reason::Quorum { number } => {
                // The lookup of a key that a client reads or writes.
                self.count_lookup(&query, outcome.is_ok());
                self.on_quorum_lookup(number, &query, outcome);
            }
            Reason::Finger => self.on_finger_lookup(&query, outcome.ok().as_ref()),
            Reason::Keepers { kind } => self.on_keepers(kind, outcome),
        }
    }

    fn count_lookup(&mut self, query: &LookupQuery, found: bool) {
        let counts = self.counters.lookups.entry(query.routing()).or_default();
        if !found {
            return counts.failed(query.timeouts());
        }
        counts.found(query.hops(), query.timeouts());
        self.out.notice(Notice::LookedUp { elapsed: query.elapsed(self.out.now) });
    }

    fn tell_driver(
        &mut self,
        op: OpId,
        purpose: Purpose,
        query: &LookupQuery,
        outcome: Result<Owner, LookupFailure>,
    ) {
        if purpose == Purpose::Client {
            self.count_lookup(query, outcome.is_ok());
        }
        let report = query.report(outcome.as_ref().map_err(|failure| *failure), self.out.now);
        let successors = outcome.map(|owner| owner.successors).unwrap_or_default();
        self.out.notice(Notice::Found { op, report, successors });
    }
}
