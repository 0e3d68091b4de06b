//! Messages: what nodes order is sent, delayed, lost, held back, and delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dht_core::event::{Failure, FetchId, ReplyId, RpcId, StoreId, StoreOutcome};
use dht_core::manifest::ChunkRef;
use dht_core::message::ring::{Request, Response, RouteAnswer};
use dht_core::{Contact, Effect, Event, Id, Instant, Notice};

use super::World;
use crate::member::{Stage, number};
use crate::trace::Kind;

/// Everything that is on its way or waits for somebody.
#[derive(Clone, Debug, Default)]
pub(super) struct Post {
    mail: BTreeMap<(Instant, u64), Parcel>,
    sequence: u64,
    /// Questions that were delivered and are not answered yet.
    questions: BTreeMap<ReplyId, Question>,
    /// The same by their calls.
    asked: BTreeMap<Call, ReplyId>,
    /// Calls that nobody will answer; in timed worlds the caller's own timer finds out.
    lost: BTreeSet<Call>,
    /// Whether notifications are held back at their targets, for scripts.
    holds_notifies: bool,
    notifies: Vec<Notify>,
    /// Nodes whose answers are held back, for scripts.
    begun: BTreeMap<u64, Begun>,
}

/// Names a question for its whole way: who asked, in which life, under which number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Call {
    by: u64,
    life: u64,
    rpc: RpcId,
}

#[derive(Clone, Debug)]
enum Parcel {
    Request { call: Call, from: Contact, to: u64, life: Option<u64>, request: Request },
    Answer { call: Call, outcome: Result<Response, Failure> },
    Dropped { to: u64, life: u64, reply: ReplyId },
    Stored { to: u64, life: u64, store: StoreId, outcome: StoreOutcome },
    Fetched { to: u64, life: u64, fetch: FetchId, chunk: ChunkRef, from: u64 },
}

#[derive(Clone, Debug)]
struct Question {
    /// `None`: nobody waits for the answer.
    call: Option<Call>,
    /// Who was asked.
    at: u64,
    /// The point, if it was a step of a lookup.
    key: Option<Id>,
}

#[derive(Clone, Debug)]
struct Notify {
    to: u64,
    from: Contact,
    request: Request,
}

#[derive(Clone, Debug, Default)]
struct Begun {
    /// Whether the step is still being started: calls made now belong to it.
    is_starting: bool,
    calls: BTreeSet<Call>,
    answers: Vec<Parcel>,
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

    fn draw(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl World {
    /// From now on notifications wait at their targets until they are released, and their senders
    /// hear that they arrived.
    pub fn hold_notifies(&mut self, holds: bool) {
        self.post.holds_notifies = holds;
    }

    /// Delivers the notifications that wait at a node, oldest first; only those of one sender if it
    /// is named. How many there were.
    pub fn deliver_notifies(&mut self, to: u64, from: Option<u64>) -> usize {
        let is_meant =
            |held: &Notify| held.to == to && from.is_none_or(|from| number(&held.from) == from);
        let meant: Vec<Notify> = self.post.notifies.extract_if(.., |held| is_meant(held)).collect();
        let count = meant.len();
        meant.into_iter().for_each(|held| self.deliver_notify(held));
        count
    }

    /// Lets one node notify another one, as if it had sent the message now.
    pub fn notify(&mut self, to: u64, from: u64) {
        let Some(snapshot) = self.snapshot(from) else { return };
        let request = Request::Notify { predecessors: snapshot.predecessors };
        self.deliver_notify(Notify { to, from: snapshot.me, request });
    }

    /// Delivers all notifications that wait.
    pub(super) fn release_notifies(&mut self) {
        let held = std::mem::take(&mut self.post.notifies);
        held.into_iter().for_each(|notify| self.deliver_notify(notify));
    }

    /// From now on answers to what node `n` asks are held back; see [`World::begun`].
    pub fn begin(&mut self, n: u64) {
        let begun = Begun { is_starting: true, ..Begun::default() };
        self.post.begun.insert(n, begun);
    }

    /// Calls that node `n` makes from now on belong to other steps: their answers are delivered.
    pub fn begun(&mut self, n: u64) {
        if let Some(begun) = self.post.begun.get_mut(&n) {
            begun.is_starting = false;
        }
    }

    /// Sends the answers on that were held back.
    pub fn finish(&mut self, n: u64) {
        let Some(begun) = self.post.begun.remove(&n) else { return };
        for answer in begun.answers {
            let at = (self.now, self.post.draw());
            self.post.mail.insert(at, answer);
        }
    }

    /// Whether answers to this node are held back.
    pub fn is_held(&self, n: u64) -> bool {
        self.post.begun.contains_key(&n)
    }

    /// Delivers the message that arrives next, whenever that is. Whether there was one.
    pub(super) fn deliver_next(&mut self) -> bool {
        let Some((_, parcel)) = self.post.mail.pop_first() else { return false };
        match parcel {
            Parcel::Request { call, from, to, life, request } => {
                self.deliver_request(call, from, to, life, request);
            }
            Parcel::Answer { call, outcome } => self.deliver_answer(call, outcome),
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
                    let delay = self.draw_delay() + self.draw_delay() + self.plan.disk_delay;
                    let from = number(&from);
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

    /// A node is gone: whoever waits for its answer waits in vain.
    pub(super) fn on_gone(&mut self, n: u64) {
        self.post.begun.remove(&n);
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
        let member = self.member(n);
        let call = Call { by: n, life: member.life(), rpc };
        let from = member.me.clone();
        let to = number(to);
        // Nobody reaches an earlier life of oneself by dialling one's own address.
        let target = self.members.get(&to).filter(|held| held.is_running() && to != n);
        let life = target.map(|held| held.life());
        if let Some(begun) = self.post.begun.get_mut(&n).filter(|begun| begun.is_starting) {
            begun.calls.insert(call);
        }
        if self.draw_loss() {
            self.lose(call);
            return;
        }
        let delay = self.draw_delay();
        self.post(delay, Parcel::Request { call, from, to, life, request });
    }

    fn reply(&mut self, n: u64, reply: ReplyId, response: Response) {
        let Some(question) = self.post.questions.remove(&reply) else { return };
        question.call.map(|call| self.post.asked.remove(&call));
        if let (Some(key), Response::Route(RouteAnswer::Mine { .. })) = (question.key, &response) {
            let node = self.member(n).me.id;
            self.watch.on_mine(self.now, node, key);
        }
        let Some(call) = question.call else { return };
        if self.draw_loss() {
            self.lose(call);
            return;
        }
        let delay = self.draw_delay();
        self.post(delay, Parcel::Answer { call, outcome: Ok(response) });
    }

    fn cancel(&mut self, n: u64, rpc: RpcId) {
        let call = Call { by: n, life: self.member(n).life(), rpc };
        self.post.lost.remove(&call);
        let Some(reply) = self.post.asked.get(&call).copied() else { return };
        let Some(at) = self.post.questions.get(&reply).map(|held| held.at) else { return };
        let life = self.member(at).life();
        let delay = self.draw_delay();
        self.post(delay, Parcel::Dropped { to: at, life, reply });
    }

    fn lose_asked(&mut self, call: Call) {
        self.post.asked.remove(&call);
        self.lose(call);
    }

    /// Nobody will answer this call. Where time stands still the caller hears it at once.
    fn lose(&mut self, call: Call) {
        if self.is_stepped {
            let outcome = Err(Failure::TimedOut);
            self.post(Duration::ZERO, Parcel::Answer { call, outcome });
        } else {
            self.post.lost.insert(call);
        }
    }

    fn deliver_request(
        &mut self,
        call: Call,
        from: Contact,
        to: u64,
        life: Option<u64>,
        request: Request,
    ) {
        let arrives = life.is_some_and(|life| self.is_in_life(to, life))
            && self.cuts.lets_through(call.by, to);
        if !arrives {
            self.lose(call);
            return;
        }
        if self.cuts.is_misdirected(to) {
            let delay = self.draw_delay();
            self.post(delay, Parcel::Answer { call, outcome: Err(Failure::NotThatPeer) });
            return;
        }
        let line = format_args!("{to} is asked by {}: {request:?}", call.by);
        self.trace.event(self.now, Kind::Question, &[to, call.by, call.rpc.0], line);
        if self.post.holds_notifies && matches!(request, Request::Notify { .. }) {
            self.post.notifies.retain(|held| held.to != to || held.from.id != from.id);
            self.post.notifies.push(Notify { to, from, request });
            self.post(Duration::ZERO, Parcel::Answer { call, outcome: Ok(Response::Done) });
            return;
        }
        let key = match &request {
            Request::Route(query) => Some(query.key),
            _ => None,
        };
        let reply = ReplyId(self.post.draw());
        self.post.questions.insert(reply, Question { call: Some(call), at: to, key });
        self.post.asked.insert(call, reply);
        self.tell(to, Event::Request { reply, from, request });
    }

    fn deliver_answer(&mut self, call: Call, outcome: Result<Response, Failure>) {
        if !self.is_in_life(call.by, call.life) {
            return;
        }
        if let Some(begun) = self.post.begun.get_mut(&call.by)
            && begun.calls.contains(&call)
        {
            begun.answers.push(Parcel::Answer { call, outcome });
            return;
        }
        let line = format_args!("{} hears {outcome:?}", call.by);
        self.trace.event(self.now, Kind::Answer, &[call.by, call.rpc.0], line);
        let rpc = call.rpc;
        let event = match outcome {
            Ok(response) => Event::Response { rpc, response, connect_us: 0 },
            Err(failure) => Event::Failed { rpc, failure },
        };
        self.tell(call.by, event);
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

    fn deliver_notify(&mut self, notify: Notify) {
        let Notify { to, from, request } = notify;
        if !self.is_running(to) {
            return;
        }
        let line = format_args!("{to} handles {request:?} of {from:?}");
        self.trace.event(self.now, Kind::Question, &[to, number(&from)], line);
        let reply = ReplyId(self.post.draw());
        self.post.questions.insert(reply, Question { call: None, at: to, key: None });
        self.tell(to, Event::Request { reply, from, request });
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
            Notice::Read { op, .. } | Notice::Written { op, .. } => {
                self.outcomes.insert(*op, notice);
            }
            _ => {}
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

    fn post(&mut self, delay: Duration, parcel: Parcel) {
        let delay = if self.is_stepped { Duration::ZERO } else { delay };
        let at = (self.now.after(delay), self.post.draw());
        self.post.mail.insert(at, parcel);
    }

    fn draw_delay(&mut self) -> Duration {
        match self.is_stepped {
            true => Duration::ZERO,
            false => self.plan.draw_delay(&mut self.rng),
        }
    }

    fn draw_loss(&mut self) -> bool {
        !self.is_stepped && self.plan.draw_loss(&mut self.rng)
    }
}
