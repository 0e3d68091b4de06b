//! Ring membership: STABILIZE with its step 2, PUSH, RECTIFY, JOIN as served, LEAVE.
//!
//! The rules are the corrected ones (Zave, "Reasoning about identifier spaces: how to make Chord
//! correct", TSE 2017; `docs/protocol.md`), not those of 2001. Steps are made atomic by deferral:
//! from sending a query to applying its reply, the node's own pointers are in doubt, and questions
//! about them wait. The wait is bounded by one time-out; then the node abandons its own query
//! unapplied, since waiting without bound can close a circle of nodes that wait for each other.

mod join;
mod leave;
mod rectify;
mod stabilize;
mod steer;

use std::collections::VecDeque;

use crate::event::{ReplyId, RpcId};
use crate::id::Id;
use crate::interval::Interval;
use crate::links::Links;
use crate::message::ring::{Neighbors, Response};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;
use crate::planted::Planted;
use crate::stats::UpkeepCounts;
use crate::time::Instant;
use crate::timer::Timer;

use rectify::Rectify;
use stabilize::push_pause;

/// The ring machine of one place.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    links: Links,
    standing: Standing,
    operation: Option<Operation>,
    deferred: VecDeque<Question>,
    /// Joins that wait until the head is verified.
    joins_waiting: Vec<WaitingJoin>,
    /// A head that does not answer us, and for which a neighbour has just vouched: it lives.
    vouched: Option<Contact>,
    /// The joiner let in last, and when. Of an isolated node it may ask for neighbors before it has
    /// notified.
    guest: Option<(Contact, Instant)>,
    rectify: Option<Rectify>,
    notified: VecDeque<(Contact, Vec<Contact>)>,
    stabilize_again: bool,
    candidate: Option<Contact>,
    pushed: Option<(Contact, Neighbors)>,
    push_wanted: bool,
    last_push: Option<Instant>,
    last_stabilize: Option<Instant>,
    /// The head's last answer, for when it says "unchanged".
    heard: Option<(Contact, Neighbors)>,
    /// The predecessor list that the head was told last, and has heard.
    told: Option<Told>,
    /// The one that is on its way.
    telling: Option<(RpcId, Told)>,
    /// When the head was last told a list because it had grown.
    last_grown: Option<Instant>,
    /// After a join: whom to tell once the head knows us.
    introduce_to: Option<Contact>,
    changes: VecDeque<Change>,
    counts: UpkeepCounts,
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// No place yet.
    Outside,
    /// Has a place. Without links it is alone: it owns everything.
    Member,
    /// Had a place, and all neighbours fell silent.
    Isolated,
    /// On its way out; still serves.
    Leaving,
    /// Out.
    Gone,
}

/// What the ring machine wants of the others.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Change {
    /// Successors, predecessor or predecessor list changed.
    Links,
    /// The node's claim to its place was heard by a neighbour.
    Placed,
    /// Make sure that this one lives.
    Verify(Contact),
    /// The same; one who claims its place has already found it silent.
    VerifyTestified(Contact),
    /// This one has no place any more: it said so.
    Gone(Contact),
    /// A neighbour was taken out: dead, or gone by LEAVE or a stop.
    Removed {
        /// Who.
        contact: Contact,
        /// Whether it left for good.
        for_good: bool,
    },
    /// No neighbour is left.
    Emptied,
    /// Everybody who had to know that we go was told.
    Unlinked,
}

/// A predecessor list as it was told.
#[derive(Clone, Debug)]
struct Told {
    head: Contact,
    list: Vec<Contact>,
}

impl Told {
    /// Whether it was told to this node, in this life.
    fn is_for(&self, head: &Contact) -> bool {
        self.head.id == head.id && self.head.incarnation() == head.incarnation()
    }
}

/// A query of our own under way: our pointers are in doubt.
#[derive(Clone, Debug)]
enum Operation {
    Stabilize { rpc: RpcId, head: Contact },
    StepTwo { rpc: RpcId, candidate: Contact },
    ServeJoin { rpc: RpcId, head: Contact, joiner: Contact, reply: ReplyId },
}

/// A join that waits for a verdict about the head.
#[derive(Clone, Debug)]
struct WaitingJoin {
    reply: ReplyId,
    joiner: Contact,
    head: Id,
}

/// A question about our pointers that waits until they are certain.
#[derive(Clone, Debug)]
enum Question {
    Neighbors { reply: ReplyId, from: Contact, stamp: Option<u64> },
    Join { reply: ReplyId, joiner: Contact },
}

impl Ring {
    pub(crate) fn new(links: Links) -> Ring {
        Ring {
            links,
            standing: Standing::Outside,
            operation: None,
            deferred: VecDeque::new(),
            joins_waiting: Vec::new(),
            vouched: None,
            guest: None,
            rectify: None,
            notified: VecDeque::new(),
            stabilize_again: false,
            candidate: None,
            pushed: None,
            push_wanted: false,
            last_push: None,
            last_stabilize: None,
            heard: None,
            told: None,
            telling: None,
            last_grown: None,
            introduce_to: None,
            changes: VecDeque::new(),
            counts: UpkeepCounts::default(),
        }
    }

    /// The first node of a ring: a member without neighbours.
    pub(crate) fn found(&mut self) {
        self.standing = Standing::Member;
        self.changes.push_back(Change::Placed);
    }

    /// Back from an earlier life, without a neighbour that answered yet.
    pub(crate) fn isolate(&mut self) {
        if self.links.is_empty() {
            self.standing = Standing::Isolated;
            // Only whom it lets in from now on is its guest.
            self.guest = None;
        }
    }

    /// All neighbours left for good: alone again.
    pub(crate) fn stand_alone(&mut self) {
        if self.links.is_empty() && self.standing == Standing::Isolated {
            self.standing = Standing::Member;
        }
    }

    /// Let in by `member`, with its list (`docs/protocol.md`, JOIN): the list is taken over whole,
    /// and the head is told at once.
    pub(crate) fn joined(&mut self, out: &mut Outbox, member: Contact, answer: Neighbors) {
        // A full list of which an earlier life of ours was left out ends before the member's own
        // place by more than it can show: the member is not what comes after its last entry.
        let leaves_out = answer.successors.len() + 1 == self.links.list_len()
            && answer.predecessor.is_some()
            && answer.successors.last().map(|last| last.id)
                != answer.predecessor.as_ref().map(|held| held.id);
        let end = (!leaves_out).then(|| member.clone());
        let most = if out.is_planted(Planted::JoinWithoutList) { 1 } else { usize::MAX };
        self.links.set_successors(answer.successors.into_iter().chain(end).take(most));
        self.links.set_predecessor(Some(member.clone()));
        self.standing = Standing::Member;
        self.introduce_to = Some(member);
        self.links_changed();
        self.stabilize(out);
    }

    /// An answer to a query of ours, or its failure (`None`).
    pub(crate) fn on_answer(
        &mut self,
        out: &mut Outbox,
        rpc: RpcId,
        owner: &CallOwner,
        from: &Contact,
        response: Option<Response>,
    ) {
        match owner {
            CallOwner::Stabilize | CallOwner::StepTwo | CallOwner::ServeJoin => {
                self.on_operation_answer(out, rpc, from, response);
            }
            CallOwner::RectifyNotifier => self.on_notifier_answer(out, from, response),
            CallOwner::RectifyPredecessor => self.on_predecessor_answer(out, from, response),
            _ => {}
        }
        self.settle(out);
    }

    /// "Tell me your predecessor and list."
    pub(crate) fn on_neighbors(
        &mut self,
        out: &mut Outbox,
        reply: ReplyId,
        from: Contact,
        stamp: Option<u64>,
    ) {
        self.ask(out, Question::Neighbors { reply, from, stamp });
    }

    /// "Let me in after you."
    pub(crate) fn on_join(&mut self, out: &mut Outbox, reply: ReplyId, joiner: Contact) {
        self.ask(out, Question::Join { reply, joiner });
    }

    /// The failure detector's word. Only now may a head be dropped.
    pub(crate) fn on_dead(&mut self, out: &mut Outbox, dead: &Contact) {
        let is_dead =
            |held: &Contact| held.id == dead.id && held.incarnation() <= dead.incarnation();
        self.rectify_on_verdict(out, dead, true);
        if self.links.head().is_some_and(is_dead) {
            self.abandon_query_to(out, dead);
            self.links.drop_head();
            self.heard = None;
            self.counts.repairs = self.counts.repairs.saturating_add(1);
            self.changes.push_back(Change::Removed { contact: dead.clone(), for_good: false });
            self.links_changed();
            self.stabilize_again = true;
        }
        let is_lost = self.links.successors().is_empty()
            && self.links.predecessor().is_some_and(is_dead)
            && !out.is_planted(Planted::KeepDeadPredecessor);
        if is_lost {
            self.links.set_predecessor(None);
            self.requeue_rectify();
            self.changes.push_back(Change::Removed { contact: dead.clone(), for_good: false });
            self.links_changed();
        }
        let joiners: Vec<Id> = self.joins_waiting.iter().map(|held| held.joiner.id).collect();
        self.links.drop_behind(&joiners, is_dead);
        self.wake_joins(|_| true);
        self.check_emptied();
        self.settle(out);
    }

    /// The failure detector found it alive after all.
    pub(crate) fn on_alive(&mut self, out: &mut Outbox, alive: &Contact) {
        self.rectify_on_verdict(out, alive, false);
        // Those behind the head are verified beside it, and a word about them decides nothing.
        let awaits = |head: Id| head == alive.id;
        if self.joins_waiting.iter().any(|held| awaits(held.head)) {
            self.vouched = Some(alive.clone());
        }
        self.wake_joins(awaits);
        self.settle(out);
    }

    /// A question has waited as long as it may: our own query is abandoned unapplied.
    pub(crate) fn on_deferred_timeout(&mut self, out: &mut Outbox) {
        match self.operation.take() {
            Some(Operation::ServeJoin { rpc, reply, .. }) => {
                out.cancel_call(rpc);
                self.busy(out, reply);
            }
            Some(Operation::Stabilize { rpc, head }) => {
                out.cancel_call(rpc);
                self.stabilize_in_a_while(out, &head);
            }
            Some(Operation::StepTwo { rpc, candidate }) => {
                out.cancel_call(rpc);
                // It counts as no reply. Where ways are long somebody may wait for us every time we ask, and a
                // head that never hears from us would keep its dead predecessor for ever.
                self.notify_head(out);
                self.stabilize_in_a_while(out, &candidate);
                self.changes.push_back(Change::Verify(candidate));
            }
            None => {}
        }
        self.settle(out);
    }

    /// Not at once, after a question came to nothing: whoever waits for us may be whom we wait for, all round the
    /// ring. Pauses have to differ by as much as an answer takes, or all ask at the same time again.
    fn stabilize_in_a_while(&mut self, out: &mut Outbox, asked: &Contact) {
        self.stabilize_again = false;
        let pause = out.rtt.timeout(&asked.key(), &out.config).max(push_pause(out));
        let pause = out.jittered(pause);
        out.timers.set_by(Timer::Stabilize, out.now.after(pause));
    }

    /// The next thing the others should know.
    pub(crate) fn pop_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    pub(crate) fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    pub(crate) fn counts(&self) -> &UpkeepCounts {
        &self.counts
    }

    pub(crate) fn counts_mut(&mut self) -> &mut UpkeepCounts {
        &mut self.counts
    }

    /// How many questions of others wait.
    pub(crate) fn deferred(&self) -> usize {
        self.deferred.len() + self.joins_waiting.len()
    }

    /// Whether the node is alone: a member without any neighbour.
    pub(crate) fn is_alone(&self) -> bool {
        self.standing == Standing::Member && self.links.is_empty() && !self.is_in_doubt()
    }

    /// The last neighbour has gone within this very event, and nobody has looked yet whether it left or fell
    /// silent: until then nothing is claimed.
    fn is_in_doubt(&self) -> bool {
        self.changes.contains(&Change::Emptied)
    }

    /// Whether this one was let in last.
    pub(crate) fn is_guest(&self, id: Id) -> bool {
        self.guest.as_ref().is_some_and(|(guest, _)| guest.id == id)
    }

    /// What the node owns: `(predecessor, me]`, everything when alone, nothing while in doubt.
    pub(crate) fn owned(&self) -> Option<Interval> {
        match self.standing {
            Standing::Member | Standing::Leaving => {
                let is_alone = self.links.is_empty() && !self.is_in_doubt();
                let alone = is_alone.then(|| Interval::full(self.links.me().id));
                self.links.owned().or(alone)
            }
            Standing::Outside | Standing::Isolated | Standing::Gone => None,
        }
    }

    /// Answers a question now, or holds it while our pointers are in doubt.
    fn ask(&mut self, out: &mut Outbox, question: Question) {
        let Some(operation) = &self.operation else {
            self.answer(out, question);
            self.settle(out);
            return;
        };
        if self.deferred.len() >= out.config.max_deferred {
            let (Question::Neighbors { reply, .. } | Question::Join { reply, .. }) = question;
            self.busy(out, reply);
            return;
        }
        let (Operation::Stabilize { head: asked, .. }
        | Operation::StepTwo { candidate: asked, .. }
        | Operation::ServeJoin { head: asked, .. }) = operation;
        let bound = out.rtt.timeout(&asked.key(), &out.config);
        self.deferred.push_back(question);
        out.timers.set_by(Timer::Deferred, out.now.after(bound));
    }

    fn answer(&mut self, out: &mut Outbox, question: Question) {
        match question {
            Question::Neighbors { reply, from, stamp } => {
                let serves = match self.standing {
                    Standing::Member | Standing::Leaving => true,
                    Standing::Isolated => self.is_guest(from.id),
                    Standing::Outside | Standing::Gone => false,
                };
                let response = match serves {
                    false => Response::NotMember,
                    true if stamp == Some(self.links.stamp()) => Response::Unchanged,
                    true => Response::Neighbors(self.neighbors()),
                };
                out.reply(reply, response);
            }
            Question::Join { reply, joiner } => self.serve_join(out, reply, joiner),
        }
    }

    fn neighbors(&self) -> Neighbors {
        Neighbors {
            stamp: self.links.stamp(),
            predecessor: self.links.predecessor().cloned(),
            successors: self.links.successors().to_vec(),
            leaving: self.standing == Standing::Leaving,
        }
    }

    /// After every step: what waited for the end of an operation gets its turn.
    fn settle(&mut self, out: &mut Outbox) {
        while self.operation.is_none() {
            if let Some(question) = self.deferred.pop_front() {
                self.answer(out, question);
            } else if let Some((from, pushed)) = self.pushed.take() {
                if self.links.head().is_some_and(|head| head.id == from.id) {
                    self.apply_head_answer(out, from, pushed, true);
                }
            } else if let Some(candidate) = self.candidate.take() {
                if self.links.is_better_head(&candidate) {
                    self.step_two(out, candidate);
                }
            } else if self.stabilize_again {
                self.stabilize_again = false;
                self.stabilize(out);
                if self.operation.is_none() {
                    break;
                }
            } else {
                break;
            }
        }
        if self.operation.is_none() {
            // Every join that waited has been served.
            self.vouched = None;
            out.timers.stop(Timer::Deferred);
            self.flush_push(out);
            self.flush_grown(out);
        }
        self.rectify_next(out);
    }

    fn links_changed(&mut self) {
        self.push_wanted = true;
        self.changes.push_back(Change::Links);
    }

    fn check_emptied(&mut self) {
        if self.links.is_empty() && self.standing == Standing::Member {
            self.changes.push_back(Change::Emptied);
        }
    }

    /// Ends a query to one that is no neighbour any more.
    fn abandon_query_to(&mut self, out: &mut Outbox, peer: &Contact) {
        match self.operation.take() {
            Some(Operation::Stabilize { rpc, head }) if head.id == peer.id => out.cancel_call(rpc),
            Some(Operation::ServeJoin { rpc, head, joiner, reply }) if head.id == peer.id => {
                out.cancel_call(rpc);
                self.deferred.push_front(Question::Join { reply, joiner });
            }
            other => self.operation = other,
        }
    }

    fn busy(&mut self, out: &mut Outbox, reply: ReplyId) {
        self.counts.busy = self.counts.busy.saturating_add(1);
        out.reply(reply, Response::Busy);
    }
}
