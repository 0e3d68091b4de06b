//! What happens between the members of a rehearsal: time, mail, and who answers what.

use std::time::Duration;

use super::{World, number, place};
use crate::event::{Effect, FetchId, Notice, OpId, ReplyId, RpcId, StoreId, StoreOutcome};
use crate::message::ring::{Request, Response};
use crate::outbox::{CallOwner, StoreOwner};
use crate::peer::Contact;
use crate::quorum::Want;
use crate::surroundings::Surroundings;
use crate::time::Instant;
use crate::timer::Timer;

/// Every message and every disk takes so long.
const DELAY: Duration = Duration::from_millis(1);

/// What is on its way.
pub(super) enum Mail {
    Request { from: Contact, reply: ReplyId, request: Request },
    Response { rpc: RpcId, response: Response },
    Stored { store: StoreId, outcome: StoreOutcome },
    Fetched { fetch: FetchId, from: u64 },
}

/// Calls a machine of a member with what all of them need.
macro_rules! with {
    ($member:expr, $params:expr, |$machine:ident, $out:ident, $around:ident| $body:expr) => {{
        let member = $member;
        let (me, params) = (member.me.clone(), $params);
        let $around = &Surroundings {
            me: &me,
            params: &params,
            alone: member.alone,
            successors: &member.successors,
            predecessors: &member.predecessors,
        };
        let ($machine, $out) = (&mut member.$machine, &mut member.out);
        $body
    }};
}

impl World {
    /// Waits for an operation to end; `None`: its coordinator died.
    pub(super) fn ended<T>(&mut self, op: OpId, find: impl Fn(&Notice) -> Option<T>) -> Option<T> {
        let end = self.now.after(Duration::from_secs(40));
        loop {
            if let Some(found) = self.notices.iter().find_map(|(_, notice)| find(notice)) {
                return Some(found);
            }
            let coordinator = self.members.get(&self.coordinators[&op]);
            let is_live =
                coordinator.is_some_and(|member| member.is_live && member.quorum.len() > 0);
            if !is_live || !self.step(end) {
                return None;
            }
        }
    }

    /// Does the next thing that is due until then. Whether there was one.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        let live = self.members.iter().filter(|(_, member)| member.is_live);
        let timer = live.filter_map(|(n, member)| Some((member.out.next_deadline()?, *n))).min();
        let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
        match (mail, timer) {
            (Some(at), timer) if at <= end && timer.is_none_or(|(due, _)| at <= due) => {
                self.now = self.now.max(at);
                self.deliver();
            }
            (_, Some((due, n))) if due <= end => {
                self.now = self.now.max(due);
                self.expire(n);
            }
            _ => return false,
        }
        true
    }

    fn expire(&mut self, n: u64) {
        let now = self.now;
        self.member(n).out.now = now;
        while let Some((_, call)) = self.member(n).out.pop_expired_call() {
            self.answered(n, call.owner, &call.to, None);
        }
        while let Some(timer) = self.member(n).out.timers.pop_due(now) {
            self.fire(n, timer);
        }
        self.collect(n);
    }

    fn fire(&mut self, n: u64, timer: Timer) {
        let params = self.params;
        let member = self.member(n);
        match timer {
            Timer::Repair | Timer::RepairSoon => {
                with!(member, params, |replication, out, around| replication
                    .on_timer(out, around, timer));
            }
            Timer::HandoffPoll => {
                let progress = with!(member, params, |replication, out, around| replication
                    .poll_handoff(out, around));
                self.progress.extend(progress.map(|progress| (n, progress)));
            }
            Timer::QuorumDeadline(number) => {
                member.quorum.on_deadline(&mut member.out, number);
            }
            Timer::QuorumRetry(number) => {
                if let Some(want) = member.quorum.on_retry(number) {
                    self.look_up(n, want);
                }
            }
            _ => {}
        }
    }

    pub(super) fn look_up(&mut self, n: u64, Want::Lookup { number, key }: Want) {
        let candidates = self.candidates(key).iter().map(|n| place(*n, 1)).collect();
        let params = self.params;
        let member = self.member(n);
        let is_open = member.replication.is_open(key);
        with!(member, params, |quorum, out, around| {
            quorum.on_lookup(out, around, is_open, number, Ok((candidates, 1)));
        });
        self.collect(n);
    }

    fn deliver(&mut self) {
        let Some((_, (to, mail))) = self.mail.pop_first() else { return };
        let (now, params) = (self.now, self.params);
        if !self.members.get(&to).is_some_and(|member| member.is_live) {
            return;
        }
        self.member(to).out.now = now;
        match mail {
            Mail::Request { from, reply, request } => {
                let lie = self.lies.get_mut(&to).and_then(|lie| lie(&request));
                let member = self.member(to);
                match lie {
                    Some(response) => member.out.reply(reply, response),
                    None => with!(member, params, |replication, out, around| replication
                        .serve(out, around, reply, from, request)),
                }
            }
            Mail::Response { rpc, response } => {
                if let Some(call) = self.member(to).out.finish_call(rpc) {
                    self.answered(to, call.owner, &call.to, Some(response));
                }
            }
            Mail::Stored { store, outcome } => self.stored(to, store, outcome),
            Mail::Fetched { fetch, from } => {
                let Some((number, chunk)) = self.member(to).out.finish_fetch(fetch) else { return };
                let stored = self.members.get(&from).is_some_and(|source| {
                    source.is_live && source.disk.chunks.contains_key(&chunk.id())
                });
                let member = self.member(to);
                if stored {
                    member.disk.chunks.insert(chunk.id(), chunk);
                }
                with!(member, params, |replication, out, around| replication
                    .on_fetched(out, around, number, chunk, stored));
                self.fetched.push((to, chunk));
            }
        }
        self.collect(to);
    }

    fn stored(&mut self, n: u64, store: StoreId, outcome: StoreOutcome) {
        let params = self.params;
        let member = self.member(n);
        match member.out.finish_store(store) {
            Some(StoreOwner::Quorum(number)) => {
                let key = member.quorum.key(number);
                let open = key.is_some_and(|key| member.replication.is_open(key.id()));
                with!(member, params, |quorum, out, around| quorum
                    .on_stored(out, around, number, open, outcome));
            }
            Some(owner) => with!(member, params, |replication, out, around| replication
                .on_stored(out, around, owner, outcome)),
            None => {}
        }
    }

    fn answered(&mut self, n: u64, owner: CallOwner, to: &Contact, response: Option<Response>) {
        let params = self.params;
        let member = self.member(n);
        match owner {
            CallOwner::Quorum(number) => with!(member, params, |quorum, out, around| quorum
                .on_response(out, around, number, to, response)),
            CallOwner::Repair(number) => with!(member, params, |replication, out, around| {
                replication.on_response(out, around, number, response);
            }),
            CallOwner::Handoff(number) => {
                let progress = with!(member, params, |replication, out, around| replication
                    .on_handoff_answer(out, around, number, response));
                self.progress.extend(progress.map(|progress| (n, progress)));
            }
            _ => {}
        }
    }

    /// Finds who keeps what a member holds for others.
    pub(super) fn find_keepers(&mut self, n: u64) {
        while let Some((kind, point)) = self.member(n).replication.take_wanted() {
            let mut keepers = self.candidates(point).into_iter().map(|n| place(n, 1));
            let owner = keepers.next().expect("somebody owns it");
            let before = self.before(number(&owner)).first().map(|n| place(*n, 1));
            let found = Some((owner, before, keepers.collect()));
            let params = self.params;
            with!(self.member(n), params, |replication, out, around| replication
                .on_keepers(out, around, kind, found));
        }
    }

    /// Carries out what a member ordered.
    pub(super) fn collect(&mut self, n: u64) {
        self.find_keepers(n);
        while let Some(effect) = self.member(n).out.pop_effect() {
            match effect {
                Effect::Send { rpc, to, request } => {
                    self.sequence += 1;
                    let reply = ReplyId(self.sequence);
                    self.replies.insert(reply, (n, rpc));
                    let from = self.members[&n].me.clone();
                    self.post(number(&to), DELAY, Mail::Request { from, reply, request });
                }
                Effect::Reply { reply, response } => match self.replies.remove(&reply) {
                    Some((to, rpc)) => self.post(to, DELAY, Mail::Response { rpc, response }),
                    None => {
                        self.heard.insert(reply, response);
                    }
                },
                Effect::Store { store, command } => {
                    let member = self.member(n);
                    let outcome = member.disk.run(command);
                    let delay = DELAY + member.disk_delay;
                    self.post(n, delay, Mail::Stored { store, outcome });
                }
                Effect::Fetch { fetch, from, .. } => {
                    self.post(n, DELAY * 2, Mail::Fetched { fetch, from: number(&from) });
                }
                Effect::Notice(notice) => self.notices.push((n, notice)),
                Effect::Cancel { .. } | Effect::Persist { .. } => {}
            }
        }
    }

    fn post(&mut self, to: u64, delay: Duration, mail: Mail) {
        self.sequence += 1;
        self.mail.insert((self.now.after(delay), self.sequence), (to, mail));
    }
}
