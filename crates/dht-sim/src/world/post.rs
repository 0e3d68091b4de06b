//! Messages: what nodes order is sent, delayed, lost, held back, and delivered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dht_core::event::{Failure, FetchId, ReplyId, RpcId, StoreId, StoreOutcome};
use dht_core::manifest::ChunkRef;
use dht_core::message::ring::{Request, Response, RouteAnswer};
use dht_core::{Contact, Effect, Event, Id, Instant, Notice, PeerRecord};

use super::World;
use super::held::{Begun, Notify};
use crate::invariants::acknowledged;
use crate::ledger::Finished;
use crate::member::{Stage, number, number_of};
use crate::trace::Kind;

/// Most messages that wait for a stopped process (guess: what a socket buffer of 200 KiB holds).
const MAX_WAITING: usize = 256;

/// Everything that is on its way or waits for somebody.
#[derive(Clone, Debug, Default)]
pub(super) struct Post {
    /// Boxed: a tree moves its values about.
    mail: BTreeMap<(Instant, u64), Box<Parcel>>,
    sequence: u64,
    /// When the message was sent that is being delivered.
    at_hand: Option<Instant>,
    /// Questions that were delivered and are not answered yet.
    pub(super) questions: BTreeMap<ReplyId, Question>,
    /// The same by their calls.
    asked: BTreeMap<Call, ReplyId>,
    /// Calls that nobody will answer; in timed worlds the caller's own timer finds out.
    lost: BTreeSet<Call>,
    /// Whether notifications are held back at their targets, for scripts.
    pub(super) holds_notifies: bool,
    pub(super) notifies: Vec<Notify>,
    /// Nodes whose answers are held back, for scripts.
    pub(super) begun: BTreeMap<u64, Begun>,
    /// What waits for nodes whose processes are stopped.
    waiting: BTreeMap<u64, VecDeque<Parcel>>,
}

/// Names a question for its whole way: who asked, in which life, under which number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Call {
    by: u64,
    life: u64,
    rpc: RpcId,
}

/// When a message was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    at: Instant,
    /// Messages are numbered in this order, so that it tells them apart where time stands still.
    order: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Parcel {
    /// `is_echo`: it arrived before, and nobody waits for a second answer.
    Request {
        sent: Sent,
        call: Call,
        from: Contact,
        to: u64,
        life: Option<u64>,
        request: Request,
        is_echo: bool,
    },
    Answer {
        sent: Sent,
        call: Call,
        outcome: Result<Answer, Failure>,
    },
    Dropped {
        to: u64,
        life: u64,
        reply: ReplyId,
    },
    Stored {
        to: u64,
        life: u64,
        store: StoreId,
        outcome: StoreOutcome,
    },
    Fetched {
        to: u64,
        life: u64,
        fetch: FetchId,
        chunk: ChunkRef,
        from: u64,
    },
}

/// What was answered, and by which life.
pub(super) type Answer = (Response, Option<Arc<PeerRecord>>);

#[derive(Clone, Debug)]
pub(super) struct Question {
    /// `None`: nobody waits for the answer.
    pub(super) call: Option<Call>,
    /// Who was asked.
    pub(super) at: u64,
    /// The point, if it was a step of a lookup.
    pub(super) key: Option<Id>,
}

impl Parcel {
    /// Whom it is for.
    fn target(&self) -> u64 {
        match self {
            Parcel::Request { to, .. }
            | Parcel::Dropped { to, .. }
            | Parcel::Stored { to, .. }
            | Parcel::Fetched { to, .. } => *to,
            Parcel::Answer { call, .. } => call.by,
        }
    }

    /// When it was sent, if it may bring a list.
    fn sent(&self) -> Option<Instant> {
        match self {
            Parcel::Request { sent, .. } | Parcel::Answer { sent, .. } => Some(sent.at),
            Parcel::Dropped { .. } | Parcel::Stored { .. } | Parcel::Fetched { .. } => None,
        }
    }
}

impl Post {
    /// When the next message arrives.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.mail.first_key_value().map(|((at, _), _)| *at)
    }

    /// Loses everything that is on its way.
    pub(super) fn drop_everything(&mut self) {
        self.mail.clear();
    }

    pub(super) fn arrives_at(&mut self, at: Instant, parcel: Parcel) {
        let at = (at, self.draw());
        self.mail.insert(at, Box::new(parcel));
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The number of the last message that was sent.
    pub(super) fn last_sent(&self) -> u64 {
        self.sequence
    }

    /// What to write on a message that is sent now.
    fn stamp(&self, at: Instant) -> Sent {
        Sent { at, order: self.sequence + 1 }
    }

    /// When the oldest of all messages was sent that may still arrive.
    pub(super) fn oldest_sent(&self) -> Option<Instant> {
        let waiting = self.waiting.values().flatten();
        let held = self.begun.values().flat_map(|begun| &begun.answers);
        let parcels = self.mail.values().map(Box::as_ref).chain(waiting).chain(held);
        let under_way = parcels.filter_map(Parcel::sent).chain(self.at_hand);
        under_way.min()
    }
}

impl World {
    /// Delivers the message that arrives next, whenever that is. Whether there was one.
    pub(super) fn deliver_next(&mut self) -> bool {
        let Some((_, parcel)) = self.post.mail.pop_first() else { return false };
        let target = parcel.target();
        if self.members.get(&target).is_some_and(|held| held.is_paused) {
            self.wait_for(target, *parcel);
            return true;
        }
        self.post.at_hand = parcel.sent();
        match *parcel {
            Parcel::Request { sent, call, from, to, life, request, is_echo } => {
                let asked = (!is_echo).then_some(call);
                self.deliver_request(sent, call, asked, from, (to, life), request);
            }
            Parcel::Answer { sent, call, outcome } => self.deliver_answer(sent, call, outcome),
            Parcel::Dropped { to, life, reply } => {
                if self.is_in_life(to, life) {
                    self.tell(to, Event::RequestDropped { reply });
                }
            }
            Parcel::Stored { to, life, store, outcome } => {
                if self.is_in_life(to, life) {
                    self.tell(to, Event::Stored { store, outcome });
                }
            }
            Parcel::Fetched { to, life, fetch, chunk, from } => {
                if self.is_in_life(to, life) {
                    self.deliver_chunk(to, fetch, chunk, from);
                }
            }
        }
        true
    }

    /// Carries out what a node orders, and looks at it.
    pub(super) fn drain(&mut self, n: u64) {
        let mut has_left = None;
        while let Some(effect) = self.member_mut(n).node.poll_effect() {
            match effect {
                Effect::Send { rpc, to, request } => self.send(n, rpc, &to, request),
                Effect::Cancel { rpc } => self.cancel(n, rpc),
                Effect::Reply { reply, response } => self.reply(n, reply, response),
                Effect::Store { store, command } => {
                    let member = self.member_mut(n);
                    let outcome = member.disk.carry_out(command);
                    let life = member.life();
                    let delay = self.plan.disk_delay;
                    self.post(delay, Parcel::Stored { to: n, life, store, outcome });
                }
                Effect::Fetch { fetch, chunk, from } => {
                    let life = self.member(n).life();
                    let from = number(&from);
                    let there = self.draw_delay(n, from);
                    let delay = there + self.draw_delay(from, n) + self.plan.disk_delay;
                    self.post(delay, Parcel::Fetched { to: n, life, fetch, chunk, from });
                }
                Effect::Persist(memory) => self.member_mut(n).disk.memory = memory,
                Effect::Notice(Notice::Left) => has_left = Some(self.trace_left(n)),
                Effect::Notice(notice) => self.on_notice(n, notice),
            }
        }
        match has_left {
            Some(for_good) => self.end_life(n, Stage::Left, for_good),
            None => self.refresh(n),
        }
    }

    /// A node's process runs again: what waited for it arrives at once.
    pub(super) fn release(&mut self, n: u64) {
        for parcel in self.post.waiting.remove(&n).into_iter().flatten() {
            self.post.arrives_at(self.now, parcel);
        }
    }

    /// A node is gone: whoever waits for its answer waits in vain.
    pub(super) fn on_gone(&mut self, n: u64) {
        self.post.begun.remove(&n);
        for parcel in self.post.waiting.remove(&n).into_iter().flatten() {
            self.drop_parcel(parcel);
        }
        self.post.notifies.retain(|held| held.to != n);
        self.post.lost.retain(|call| call.by != n);
        let unanswered: Vec<Question> =
            self.post.questions.extract_if(.., |_, held| held.at == n).map(|(_, q)| q).collect();
        unanswered.into_iter().filter_map(|held| held.call).for_each(|call| self.lose_asked(call));
    }

    /// A cut came: questions whose answer cannot come back any more are lost.
    pub(super) fn fail_cut_off(&mut self) {
        let cuts = &self.cuts;
        let is_cut = |held: &mut Question| {
            held.call.is_some_and(|call| !cuts.lets_through(held.at, call.by))
        };
        let cut_off: Vec<Call> = self
            .post
            .questions
            .extract_if(.., |_, held| is_cut(held))
            .filter_map(|(_, held)| held.call)
            .collect();
        cut_off.into_iter().for_each(|call| self.lose_asked(call));
    }

    /// Time stands still from now on: calls that nobody answers fail at once.
    pub(super) fn fail_lost(&mut self) {
        for call in std::mem::take(&mut self.post.lost) {
            self.lose(call);
        }
    }

    fn send(&mut self, n: u64, rpc: RpcId, to: &Contact, request: Request) {
        self.note_sent(n, &request);
        let member = self.member(n);
        let call = Call { by: n, life: member.life(), rpc };
        let from = member.me.clone();
        let to = number(to);
        // Nobody reaches an earlier life of oneself by dialling one's own address.
        let target = self.members.get(&to).filter(|held| held.is_running() && to != n);
        let life = target.map(|held| held.life());
        if let Some(traffic) = &mut self.traffic {
            traffic.asked(self.now, n, to, life.is_some(), &request);
        }
        if let Some(begun) = self.post.begun.get_mut(&n).filter(|begun| begun.is_starting) {
            begun.calls.insert(call);
        }
        if self.draw_loss() {
            self.lose(call);
            return;
        }
        if self.draw_twice() {
            let delay = self.draw_delay(n, to);
            let (from, request) = (from.clone(), request.clone());
            let sent = self.post.stamp(self.now);
            let echo = Parcel::Request { sent, call, from, to, life, request, is_echo: true };
            self.post(delay, echo);
        }
        let delay = self.draw_delay(n, to);
        let sent = self.post.stamp(self.now);
        self.post(delay, Parcel::Request { sent, call, from, to, life, request, is_echo: false });
    }

    fn reply(&mut self, n: u64, reply: ReplyId, response: Response) {
        let Some(question) = self.post.questions.remove(&reply) else { return };
        question.call.map(|call| self.post.asked.remove(&call));
        if let (Some(key), Response::Route(RouteAnswer::Mine { .. })) = (question.key, &response) {
            let node = self.member(n).me.id;
            self.watch.on_mine(self.now, node, key);
        }
        let Some(call) = question.call else { return };
        let record = self.member(n).me.record.clone();
        if let Some(traffic) = &mut self.traffic {
            traffic.answered(self.now, n, call.by, question.key, &response);
        }
        if self.draw_loss() {
            self.lose(call);
            return;
        }
        if self.draw_twice() {
            let delay = self.draw_delay(n, call.by);
            let outcome = Ok((response.clone(), Some(record.clone())));
            self.post_answer(delay, call, outcome);
        }
        let delay = self.draw_delay(n, call.by);
        self.post_answer(delay, call, Ok((response, Some(record))));
    }

    fn cancel(&mut self, n: u64, rpc: RpcId) {
        let call = Call { by: n, life: self.member(n).life(), rpc };
        self.post.lost.remove(&call);
        let Some(reply) = self.post.asked.get(&call).copied() else { return };
        let Some(at) = self.post.questions.get(&reply).map(|held| held.at) else { return };
        let life = self.member(at).life();
        let delay = self.draw_delay(n, at);
        self.post(delay, Parcel::Dropped { to: at, life, reply });
    }

    fn lose_asked(&mut self, call: Call) {
        self.post.asked.remove(&call);
        self.lose(call);
    }

    /// Nobody will answer this call. Where time stands still the caller hears it at once.
    fn lose(&mut self, call: Call) {
        if self.is_stepped {
            self.post_answer(Duration::ZERO, call, Err(Failure::TimedOut));
        } else {
            self.post.lost.insert(call);
        }
    }

    /// A question arrives, or fails to. `asked`: who waits for an answer, if anybody.
    fn deliver_request(
        &mut self,
        sent: Sent,
        call: Call,
        asked: Option<Call>,
        from: Contact,
        (to, life): (u64, Option<u64>),
        request: Request,
    ) {
        let arrives = life.is_some_and(|life| self.is_in_life(to, life))
            && self.cuts.lets_through(call.by, to);
        if !arrives || (self.cuts.is_misdirected(to) && asked.is_none()) {
            asked.into_iter().for_each(|call| self.lose(call));
            return;
        }
        if self.cuts.is_misdirected(to) {
            let delay = self.draw_delay(to, call.by);
            self.post_answer(delay, call, Err(Failure::NotThatPeer));
            return;
        }
        let line = format_args!("{to} is asked by {}: {request:?}", call.by);
        self.trace.event(self.now, Kind::Question, &[to, call.by, call.rpc.0], line);
        let is_notify = matches!(request, Request::Notify { .. } | Request::NotifySame { .. });
        if self.post.holds_notifies && is_notify {
            self.hold_notify(Notify { to, from, request });
            self.post_answer(Duration::ZERO, call, Ok((Response::Done, None)));
            return;
        }
        let key = request.looked_up();
        self.note_list(to, sent, from.id, list_asked_with(&request));
        let reply = ReplyId(self.post.draw());
        self.post.questions.insert(reply, Question { call: asked, at: to, key });
        self.post.asked.extend(asked.map(|call| (call, reply)));
        self.tell(to, Event::Request { reply, from, request });
    }

    fn deliver_answer(&mut self, sent: Sent, call: Call, outcome: Result<Answer, Failure>) {
        if !self.is_in_life(call.by, call.life) {
            return;
        }
        if let Some(begun) = self.post.begun.get_mut(&call.by)
            && begun.calls.contains(&call)
        {
            begun.answers.push(Parcel::Answer { sent, call, outcome });
            return;
        }
        let heard = outcome.as_ref().map(|(response, _)| response);
        let line = format_args!("{} hears {heard:?}", call.by);
        self.trace.event(self.now, Kind::Answer, &[call.by, call.rpc.0], line);
        if let Ok((response, Some(record))) = &outcome {
            let answerer = self.members.get(&number_of(record)).map(|held| held.me.id);
            let list = list_answered_with(response);
            answerer.into_iter().for_each(|id| self.note_list(call.by, sent, id, list));
        }
        let rpc = call.rpc;
        let event = match outcome {
            Ok((response, record)) => Event::Response { rpc, response, record, connect_us: 0 },
            Err(failure) => Event::Failed { rpc, failure },
        };
        self.tell(call.by, event);
    }

    /// A list arrives. An empty one is none: whoever is alone, or isolated, sends it.
    fn note_list(&mut self, to: u64, sent: Sent, sender: Id, list: &[Contact]) {
        if !list.is_empty() {
            let reader = self.member(to).me.id;
            let entries = std::iter::once(sender).chain(list.iter().map(|held| held.id)).collect();
            self.watch.heard(reader, sent.order, entries);
        }
    }

    fn deliver_chunk(&mut self, to: u64, fetch: FetchId, chunk: ChunkRef, from: u64) {
        let source = self.members.get(&from).filter(|held| held.is_running());
        let stored = source.is_some_and(|held| held.disk.holds_chunk(&chunk))
            && self.cuts.lets_through(from, to);
        if stored {
            self.member_mut(to).disk.keep_chunk(chunk);
        }
        self.tell(to, Event::Fetched { fetch, stored });
    }

    fn on_notice(&mut self, n: u64, notice: Notice) {
        let line = format_args!("{n} says {notice:?}");
        self.trace.event(self.now, Kind::Notice, &[n], line);
        match &notice {
            Notice::Died { contact } => {
                let about = number(contact);
                let same_life = self.is_in_life(about, contact.incarnation());
                let reaches = self.cuts.both_ways(n, about);
                let by = self.member(n).me.id;
                self.watch.on_verdict(by, contact.id, same_life, reaches);
            }
            Notice::Found { op, report, .. } => {
                let owner = report.owner.as_ref().map(|held| held.id);
                self.on_lookup_end(n, *op, owner);
                self.outcomes.insert(*op, notice);
            }
            Notice::Read { op, outcome } => {
                let finished = self.ledger.read(*op, outcome);
                finished.into_iter().for_each(|read| self.on_read(n, &read));
                self.outcomes.insert(*op, notice);
            }
            Notice::Written { op, outcome } => {
                self.ledger.written(outcome, self.watch.breach().is_none());
                self.outcomes.insert(*op, notice);
            }
            _ => {}
        }
    }

    fn on_read(&mut self, n: u64, read: &Finished) {
        let is_long = |since| self.now.since(since) >= acknowledged::REPAIR_WINDOW;
        let is_calm = self.watch.calm_since().is_some_and(is_long);
        if !is_calm || self.watch.breaches() != read.breaches {
            return;
        }
        let node = self.member(n).me.id;
        let violation = acknowledged::check_read(read.key, node, read.promised, read.read);
        if let Some(violation) = violation {
            self.watch.report(self.now, violation);
        }
    }

    fn on_lookup_end(&mut self, n: u64, op: dht_core::event::OpId, owner: Option<Id>) {
        let Some((_, key)) = self.lookups.remove(&op) else { return };
        let node = &self.member(n).node;
        let me = node.me().id;
        if owner == Some(me) && node.owned().is_some_and(|arc| arc.contains(key)) {
            // It asked itself first, and that is no message.
            self.watch.on_mine(self.now, me, key);
        }
        self.watch.lookup_ended(self.now, key, owner);
    }

    fn trace_left(&mut self, n: u64) -> bool {
        self.trace.event(self.now, Kind::Life, &[n], format_args!("{n} is gone"));
        self.member(n).leaves_for_good
    }

    fn is_in_life(&self, n: u64, life: u64) -> bool {
        self.members.get(&n).is_some_and(|held| held.is_running() && held.life() == life)
    }

    fn post_answer(&mut self, delay: Duration, call: Call, outcome: Result<Answer, Failure>) {
        let sent = self.post.stamp(self.now);
        self.post(delay, Parcel::Answer { sent, call, outcome });
    }

    fn post(&mut self, delay: Duration, parcel: Parcel) {
        let delay = if self.is_stepped { Duration::ZERO } else { delay };
        self.post.arrives_at(self.now.after(delay), parcel);
    }

    fn draw_delay(&mut self, from: u64, to: u64) -> Duration {
        if self.is_stepped {
            return Duration::ZERO;
        }
        let extra = |n| self.slow.get(&n).copied().unwrap_or_default();
        let extra = extra(from) + extra(to);
        self.plan.draw_delay(&mut self.rng, from, to) + extra
    }

    fn draw_twice(&mut self) -> bool {
        !self.is_stepped && self.plan.draw_twice(&mut self.rng)
    }

    /// Keeps a parcel for a node whose process is stopped. Its sockets hold only so much: the oldest
    /// goes.
    fn wait_for(&mut self, n: u64, parcel: Parcel) {
        let waiting = self.post.waiting.entry(n).or_default();
        waiting.push_back(parcel);
        if waiting.len() > MAX_WAITING
            && let Some(oldest) = waiting.pop_front()
        {
            self.drop_parcel(oldest);
        }
    }

    /// A parcel will never arrive.
    fn drop_parcel(&mut self, parcel: Parcel) {
        if let Parcel::Request { call, is_echo: false, .. } = parcel {
            self.lose(call);
        }
    }

    fn draw_loss(&mut self) -> bool {
        !self.is_stepped && self.plan.draw_loss(&mut self.rng)
    }
}

/// The successor list that comes with a question.
fn list_asked_with(request: &Request) -> &[Contact] {
    match request {
        Request::Push(neighbors) => &neighbors.successors,
        Request::Leave { successors, .. } => successors,
        _ => &[],
    }
}

/// The successor list that comes with an answer.
fn list_answered_with(response: &Response) -> &[Contact] {
    match response {
        Response::Joined(neighbors) | Response::Neighbors(neighbors) => &neighbors.successors,
        _ => &[],
    }
}
