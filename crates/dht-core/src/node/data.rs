//! Registers and copies: carries what the data machines want to lookups, store and peers.

use super::Node;
use super::lookups::Reason;
use crate::event::{FetchId, Notice, OpId, ReplyId, StoreId, StoreOutcome};
use crate::lookup::{LookupQuery, LookupTarget, Owner};
use crate::message::client::LookupFailure;
use crate::message::ring::{Kind, Request, Response};
use crate::outbox::StoreOwner;
use crate::peer::Contact;
use crate::quorum::{Task, Want};
use crate::register::Key;
use crate::replication::Progress;
use crate::ring::Standing;
use crate::stats::AtRisk;
use crate::surroundings::{Surroundings, distinct};
use crate::timer::Timer;

/// The surroundings, for machines that only look at them. A macro because a method would borrow the
/// whole node.
macro_rules! around {
    ($node:expr) => {
        Surroundings {
            me: $node.ring.links().me(),
            params: &$node.params,
            alone: $node.ring.is_alone(),
            successors: $node.ring.links().successors(),
            predecessors: $node.ring.links().predecessors(),
        }
    };
}

impl Node {
    /// What is one failure away from trouble.
    pub(super) fn at_risk(&self) -> AtRisk {
        self.replication.at_risk(&around!(self))
    }

    /// [`crate::Command::Read`] and [`crate::Command::Write`].
    pub(super) fn operate(&mut self, op: OpId, key: Key, task: Task) {
        let too_many = self.quorum.len() >= self.out.config.max_operations;
        // A leaver takes no new writes: it would be one of those who acknowledge them.
        let is_leaving = self.ring.standing() == Standing::Leaving;
        let refused = too_many || (is_leaving && matches!(task, Task::Write { .. }));
        let Want::Lookup { number, key } = self.quorum.begin(&mut self.out, op, key, task);
        if refused {
            self.quorum.on_deadline(&mut self.out, number);
            return;
        }
        self.look_up_for_operation(number, key);
    }

    /// The next attempt of a register operation.
    pub(super) fn retry_operation(&mut self, number: u64) {
        if let Some(Want::Lookup { number, key }) = self.quorum.on_retry(number) {
            self.look_up_for_operation(number, key);
        }
    }

    /// The owner of a register was found, or not.
    pub(super) fn on_quorum_lookup(
        &mut self,
        number: u64,
        query: &LookupQuery,
        outcome: Result<Owner, LookupFailure>,
    ) {
        let found = outcome.map(|owner| {
            let peers = distinct(&owner.contact, &owner.successors);
            let candidates = std::iter::once(&owner.contact).chain(peers).cloned().collect();
            (candidates, query.hops())
        });
        let open = self.is_open_for(number);
        self.quorum.on_lookup(&mut self.out, &around!(self), open, number, found);
    }

    pub(super) fn on_quorum_answer(
        &mut self,
        number: u64,
        from: &Contact,
        response: Option<Response>,
    ) {
        self.quorum.on_response(&mut self.out, &around!(self), number, from, response);
    }

    pub(super) fn on_repair_answer(&mut self, number: u64, response: Option<Response>) {
        self.replication.on_response(&mut self.out, &around!(self), number, response);
    }

    pub(super) fn on_handoff_answer(&mut self, number: u64, response: Option<Response>) {
        let progress =
            self.replication.on_handoff_answer(&mut self.out, &around!(self), number, response);
        self.on_progress(progress);
    }

    /// The store answered.
    pub(super) fn on_stored(&mut self, store: StoreId, outcome: StoreOutcome) {
        match self.out.finish_store(store) {
            Some(StoreOwner::Quorum(number)) => {
                let open = self.is_open_for(number);
                self.quorum.on_stored(&mut self.out, &around!(self), number, open, outcome);
            }
            Some(owner) => {
                self.replication.on_stored(&mut self.out, &around!(self), owner, outcome)
            }
            None => {}
        }
    }

    /// A chunk was copied, or could not be.
    pub(super) fn on_fetched(&mut self, fetch: FetchId, stored: bool) {
        if let Some((number, chunk)) = self.out.finish_fetch(fetch) {
            let around = around!(self);
            self.replication.on_fetched(&mut self.out, &around, number, chunk, stored);
        }
    }

    pub(super) fn on_repair_timer(&mut self, timer: Timer) {
        if self.is_keeping() {
            self.replication.on_timer(&mut self.out, &around!(self), timer);
        }
    }

    /// Neighbours changed: ranges may have, too.
    pub(super) fn neighbors_changed(&mut self) {
        if self.is_keeping() {
            self.replication.on_neighbors(&mut self.out, &around!(self));
        }
    }

    /// A request about registers or copies.
    pub(super) fn on_data_request(&mut self, reply: ReplyId, from: Contact, request: Request) {
        self.replication.serve(&mut self.out, &around!(self), reply, from, request);
    }

    /// A leaver's copies find new keepers first.
    pub(super) fn begin_handoff(&mut self) {
        let progress = self.replication.begin_leave(&mut self.out, &around!(self));
        self.on_progress(progress);
    }

    pub(super) fn poll_handoff(&mut self) {
        let progress = self.replication.poll_handoff(&mut self.out, &around!(self));
        self.on_progress(progress);
    }

    /// Looks up who keeps what this node holds for others.
    pub(super) fn look_up_keepers(&mut self) {
        while let Some((kind, key)) = self.replication.take_wanted() {
            let target = self.target_with_list(key);
            self.look_up(target, Reason::Keepers { kind });
        }
    }

    /// They were found, or not.
    pub(super) fn on_keepers(&mut self, kind: Kind, outcome: Result<Owner, LookupFailure>) {
        let found = outcome.ok();
        let found = found.map(|owner| (owner.contact, owner.predecessor, owner.successors));
        self.replication.on_keepers(&mut self.out, &around!(self), kind, found);
    }

    fn on_progress(&mut self, progress: Option<Progress>) {
        match progress {
            Some(Progress::Leaving { missing }) => self.out.notice(Notice::Leaving { missing }),
            Some(Progress::HandedOff) => self.unlink(true),
            None => {}
        }
    }

    /// Whether this node holds the arc of an operation's key completely.
    fn is_open_for(&self, number: u64) -> bool {
        self.quorum.key(number).is_some_and(|key| self.replication.is_open(key.id()))
    }

    fn look_up_for_operation(&mut self, number: u64, key: crate::Id) {
        let target = self.target_with_list(key);
        let forwarding = self.out.config.forwarding;
        self.look_up_by(target, Reason::Quorum { number }, forwarding);
    }

    fn target_with_list(&self, key: crate::Id) -> LookupTarget {
        let config = &self.out.config;
        LookupTarget { key, routing: config.routing, depth: config.depth, want_list: true }
    }

    fn is_keeping(&self) -> bool {
        self.out.config.keeps_data
            && matches!(self.ring.standing(), Standing::Member | Standing::Leaving)
    }
}
