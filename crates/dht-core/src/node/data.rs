//! Registers and copies: carries what the data machines want to lookups, store and peers.

use super::Node;
use super::lookups::Reason;
use crate::event::{FetchId, Notice, OpId, ReplyId, StoreId, StoreOutcome};
use crate::lookup::{LookupQuery, LookupTarget, Owner};
use crate::message::client::LookupFailure;
use crate::message::ring::{Request, Response};
use crate::outbox::StoreOwner;
use crate::peer::Contact;
use crate::quorum::{Task, Want};
use crate::register::Key;
use crate::replication::Progress;
use crate::timer::Timer;
use crate::view::{View, distinct};

/// The surroundings, for machines that only look at them. A macro because a method would borrow the
/// whole node.
macro_rules! view {
    ($node:expr) => {
        View {
            me: $node.ring.links().me(),
            params: &$node.params,
            alone: $node.ring.is_alone(),
            successors: $node.ring.links().successors(),
            predecessors: $node.ring.links().predecessors(),
        }
    };
}

impl Node {
    /// [`crate::Command::Read`] and [`crate::Command::Write`].
    pub(super) fn operate(&mut self, op: OpId, key: Key, task: Task) {
        let too_many = self.quorum.len() >= self.out.config.max_operations;
        let Want::Lookup { number, key } = self.quorum.begin(&mut self.out, op, key, task);
        if too_many {
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
            let candidates = std::iter::once(owner.contact).chain(peers).collect();
            (candidates, query.hops())
        });
        let open = self.is_open_for(number);
        self.quorum.on_lookup(&mut self.out, &view!(self), open, number, found);
    }

    pub(super) fn on_quorum_answer(
        &mut self,
        number: u64,
        from: &Contact,
        response: Option<Response>,
    ) {
        self.quorum.on_response(&mut self.out, &view!(self), number, from, response);
    }

    pub(super) fn on_repair_answer(&mut self, number: u64, response: Option<Response>) {
        self.replication.on_response(&mut self.out, &view!(self), number, response);
    }

    pub(super) fn on_handoff_answer(&mut self, number: u64, response: Option<Response>) {
        if let Some(progress) = self.replication.on_handoff_answer(&mut self.out, number, response)
        {
            self.on_progress(progress);
        }
    }

    /// The store answered.
    pub(super) fn on_stored(&mut self, store: StoreId, outcome: StoreOutcome) {
        match self.out.finish_store(store) {
            Some(StoreOwner::Quorum(number)) => {
                let open = self.is_open_for(number);
                self.quorum.on_stored(&mut self.out, &view!(self), number, open, outcome);
            }
            Some(owner) => self.replication.on_stored(&mut self.out, &view!(self), owner, outcome),
            None => {}
        }
    }

    /// A chunk was copied, or could not be.
    pub(super) fn on_fetched(&mut self, fetch: FetchId, stored: bool) {
        if let Some((number, chunk)) = self.out.finish_fetch(fetch) {
            let view = view!(self);
            self.replication.on_fetched(&mut self.out, &view, number, chunk, stored);
        }
    }

    pub(super) fn on_repair_timer(&mut self, timer: Timer) {
        if self.is_keeping() {
            self.replication.on_timer(&mut self.out, &view!(self), timer);
        }
    }

    /// Neighbours changed: ranges may have, too.
    pub(super) fn neighbors_changed(&mut self) {
        if self.is_keeping() {
            self.replication.on_neighbors(&mut self.out, &view!(self));
        }
    }

    /// A request about registers or copies.
    pub(super) fn on_data_request(&mut self, reply: ReplyId, from: Contact, request: Request) {
        self.replication.serve(&mut self.out, &view!(self), reply, from, request);
    }

    /// A leaver's copies find new keepers first.
    pub(super) fn begin_handoff(&mut self) {
        let progress = self.replication.begin_leave(&mut self.out, &view!(self));
        self.on_progress(progress);
    }

    pub(super) fn poll_handoff(&mut self) {
        let progress = self.replication.poll_handoff(&mut self.out);
        self.on_progress(progress);
    }

    fn on_progress(&mut self, progress: Progress) {
        match progress {
            Progress::Leaving { missing } => self.out.notice(Notice::Leaving { missing }),
            Progress::HandedOff => self.unlink(true),
        }
    }

    /// Whether this node holds the arc of an operation's key completely.
    fn is_open_for(&self, number: u64) -> bool {
        self.quorum.key(number).is_some_and(|key| self.replication.is_open(key.id()))
    }

    fn look_up_for_operation(&mut self, number: u64, key: crate::Id) {
        let config = &self.out.config;
        let target =
            LookupTarget { key, routing: config.routing, depth: config.depth, want_list: true };
        self.look_up(target, Reason::Quorum { number });
    }

    fn is_keeping(&self) -> bool {
        use crate::ring::Standing;
        matches!(self.ring.standing(), Standing::Member | Standing::Leaving)
    }
}
