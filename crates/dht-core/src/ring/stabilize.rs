//! STABILIZE with its step 2, and PUSH.

use std::time::Duration;

use super::{Change, Operation, Ring, Standing, Told};
use crate::event::RpcId;
use crate::id::between;
use crate::links::same;
use crate::message::ring::{Neighbors, Request, Response, digest};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;
use crate::planted::Planted;
use crate::timer::Timer;

/// Shortest pause between two pushes, as a share of the period: 1/20 (guess: a change passes a
/// list of 16 within one period even if every node is held back once).
const PUSHES_PER_PERIOD: u32 = 20;

impl Ring {
    /// STABILIZE: asks the head for its predecessor and list.
    pub(crate) fn stabilize(&mut self, out: &mut Outbox) {
        if !matches!(self.standing, Standing::Member | Standing::Leaving) {
            return;
        }
        if self.operation.is_some() {
            self.stabilize_again = true;
            return;
        }
        self.stabilize_again = false;
        self.counts.stabilizations = self.counts.stabilizations.saturating_add(1);
        self.last_stabilize = Some(out.now);
        if let Some(head) = self.links.head().cloned() {
            let stamp = self.heard_of(&head).map(|heard| heard.stamp);
            let rpc = out.call(CallOwner::Stabilize, &head, Request::Neighbors { stamp });
            self.operation = Some(Operation::Stabilize { rpc, head });
        } else if let Some(predecessor) = self.links.predecessor().cloned() {
            // Empty list: adopt the predecessor if it answers.
            self.step_two(out, predecessor);
        }
    }

    /// STABILIZE because a lookup found somebody silent; at most one per push interval.
    pub(crate) fn stabilize_soon(&mut self, out: &mut Outbox) {
        let pause = push_pause(out);
        if self.last_stabilize.is_none_or(|last| out.now.since(last) >= pause) {
            self.stabilize(out);
        }
    }

    /// A head that changed its list says so; treated as a STABILIZE reply.
    pub(crate) fn on_push(&mut self, out: &mut Outbox, from: Contact, pushed: Neighbors) {
        let is_head = self
            .links
            .head()
            .is_some_and(|head| head.id == from.id && head.incarnation() <= from.incarnation());
        if !is_head || self.standing != Standing::Member || self.is_outdated(&from, &pushed) {
            return;
        }
        match &self.operation {
            Some(Operation::Stabilize { rpc, .. }) => {
                // What it says now is newer than the answer on its way, which is discarded.
                out.cancel_call(*rpc);
                self.operation = None;
            }
            Some(_) => {
                self.pushed = Some((from, pushed));
                return;
            }
            None => {}
        }
        self.counts.pushes = self.counts.pushes.saturating_add(1);
        self.apply_head_answer(out, from, pushed, true);
        self.settle(out);
    }

    /// Whether the head has said something newer in the same life: stamps count up.
    fn is_outdated(&self, from: &Contact, pushed: &Neighbors) -> bool {
        let is_older = |heard: &Neighbors| {
            let ahead = pushed.stamp.wrapping_sub(heard.stamp);
            ahead > u64::MAX / 2
        };
        self.heard_of(from).is_some_and(is_older)
    }

    /// Somebody who may lie between us and our head. If it lies further on, it is passed on to the
    /// one it may concern: that is how two rings are zipped into one.
    pub(crate) fn on_candidate(&mut self, out: &mut Outbox, contact: Contact) {
        if contact.key() == self.links.me().key() || self.standing != Standing::Member {
            return;
        }
        if self.links.is_better_head(&contact) {
            self.candidate = Some(contact);
            self.settle(out);
        } else if let Some(next) = self.links.closest_preceding(contact.id).cloned() {
            out.tell(&next, Request::Candidate { contact });
        }
    }

    /// The rate limit lets the next push out.
    pub(crate) fn on_push_timer(&mut self, out: &mut Outbox) {
        self.settle(out);
    }

    pub(super) fn on_operation_answer(
        &mut self,
        out: &mut Outbox,
        rpc: RpcId,
        from: &Contact,
        response: Option<Response>,
    ) {
        // A late reply to an abandoned query is discarded (S12).
        match self.operation.take() {
            // It is `from` that answers: the one that was asked, perhaps in a newer life.
            Some(Operation::Stabilize { rpc: asked, .. }) if asked == rpc => {
                self.on_stabilize_answer(out, from.clone(), response);
            }
            Some(Operation::StepTwo { rpc: asked, .. }) if asked == rpc => {
                self.on_step_two_answer(out, from.clone(), response);
            }
            Some(Operation::ServeJoin { rpc: asked, joiner, reply, .. }) if asked == rpc => {
                self.on_head_pinged(out, from.clone(), joiner, reply, response);
            }
            other => {
                self.operation = other;
                if out.is_planted(Planted::LateReply) {
                    self.apply_late(from, response);
                }
            }
        }
    }

    pub(super) fn on_stabilize_answer(
        &mut self,
        out: &mut Outbox,
        head: Contact,
        response: Option<Response>,
    ) {
        match response {
            Some(Response::Neighbors(answer)) => self.apply_head_answer(out, head, answer, false),
            Some(Response::Unchanged) => {
                if let Some(answer) = self.heard_of(&head).cloned() {
                    self.apply_head_answer(out, head, answer, false);
                }
            }
            Some(Response::NotMember) => {
                // It counts as no reply, not as death: whoever said so was isolated, and may have its
                // place again by now. If it is, it has to hear that we count on it.
                self.changes.push_back(Change::Verify(head));
                self.notify_head(out);
            }
            Some(_) => {
                let pause = out.jittered(push_pause(out));
                out.timers.set_by(Timer::Stabilize, out.now.after(pause));
            }
            None => {
                self.stabilize_in_a_while(out, &head);
                self.changes.push_back(Change::Verify(head));
            }
        }
    }

    /// `succ := cut([h] ++ h.list)`, wholesale; then step 2 or a notify.
    pub(super) fn apply_head_answer(
        &mut self,
        out: &mut Outbox,
        head: Contact,
        answer: Neighbors,
        pushed: bool,
    ) {
        // A push is applied later than it came, and a newer life may be known by now.
        let newer = self
            .links
            .head()
            .filter(|held| held.id == head.id && held.incarnation() > head.incarnation());
        let head = newer.cloned().unwrap_or(head);
        self.take_list(out, &head, &answer);
        let me = self.links.me().id;
        // Our own predecessor may lie there, too: three nodes that hold one entry each can form a ring
        // that goes round twice, and only this tells them. An empty list is the same case. It comes
        // second, since nobody looks whether it lives.
        let mut known = answer.predecessor.iter().chain(self.links.predecessor());
        let closer = known.find(|c| between(me, c.id, head.id)).cloned();
        let knows_us = answer.predecessor.as_ref().is_some_and(|held| held.id == me);
        self.heard = Some((head.clone(), answer));
        match closer {
            Some(candidate) if out.is_planted(Planted::AdoptUnasked) => {
                let list = self.links.successors().to_vec();
                self.links.set_successors(std::iter::once(candidate).chain(list));
                self.links_changed();
                self.notify_head(out);
            }
            Some(candidate) => self.step_two(out, candidate),
            None if pushed && knows_us => {}
            None => self.notify(out, &head),
        }
    }

    /// STEP 2: asks one who may be a closer successor for its list before adopting it.
    pub(super) fn step_two(&mut self, out: &mut Outbox, candidate: Contact) {
        let request = Request::Neighbors { stamp: None };
        let rpc = out.call(CallOwner::StepTwo, &candidate, request);
        self.operation = Some(Operation::StepTwo { rpc, candidate });
    }

    pub(super) fn on_step_two_answer(
        &mut self,
        out: &mut Outbox,
        candidate: Contact,
        response: Option<Response>,
    ) {
        match response {
            // One that leaves is no target for anything new, unless there is nobody else.
            Some(Response::Neighbors(answer)) if answer.leaving && self.links.head().is_some() => {
                // Members between us and the leaver may be known to nobody but the leaver, which cannot go
                // before the ring is right.
                let me = self.links.me().id;
                match answer.predecessor.filter(|held| between(me, held.id, candidate.id)) {
                    Some(behind) => self.step_two(out, behind),
                    None => self.notify_head(out),
                }
            }
            Some(Response::Neighbors(answer)) if self.links.is_better_head(&candidate) => {
                let displaced = self.links.head().cloned();
                self.take_list(out, &candidate, &answer);
                // One that was our head and is unknown to the new one lives in another part of the
                // ring: it must not be forgotten.
                let unknown = |held: &Contact| {
                    held.id != candidate.id
                        && answer.successors.iter().all(|entry| entry.id != held.id)
                };
                if let Some(contact) = displaced.filter(unknown) {
                    out.tell(&candidate, Request::Candidate { contact });
                }
                self.heard = Some((candidate.clone(), answer));
                self.notify(out, &candidate);
                // A STABILIZE that changed the head runs again at once.
                self.stabilize_again = true;
            }
            Some(Response::NotMember) => {
                // No reply, and not death, as above. Without a head this one is all that we have.
                let head = self.links.head().unwrap_or(&candidate).clone();
                self.changes.push_back(Change::Verify(candidate));
                self.notify(out, &head);
            }
            Some(_) => self.notify_head(out),
            None => {
                self.changes.push_back(Change::Verify(candidate));
                self.notify_head(out);
            }
        }
    }

    pub(super) fn take_list(&mut self, out: &Outbox, head: &Contact, answer: &Neighbors) {
        let list = std::iter::once(head.clone()).chain(answer.successors.iter().cloned());
        if out.is_planted(Planted::SelfInList) {
            self.links.set_successors_uncut(list);
            return self.links_changed();
        }
        if out.is_planted(Planted::PatchPiecemeal) {
            return self.patch_list(list.collect());
        }
        if self.links.set_successors(list) {
            self.links_changed();
        }
        if self.standing == Standing::Isolated {
            // The last neighbour fell silent while one more was being asked, and that one answered.
            self.standing = Standing::Member;
            self.changes.push_back(Change::Placed);
        }
    }

    /// A reply that comes too late, applied all the same (see [`crate::planted`]).
    fn apply_late(&mut self, from: &Contact, response: Option<Response>) {
        let behind = match response {
            Some(Response::Neighbors(answer)) => answer.successors,
            Some(Response::Unchanged) => self.links.successors().to_vec(),
            _ => return,
        };
        if self.links.set_successors(std::iter::once(from.clone()).chain(behind)) {
            self.links_changed();
        }
    }

    /// One entry of the old list after the other gives way to that of the new one (see
    /// [`crate::planted`]).
    fn patch_list(&mut self, new: Vec<Contact>) {
        let mut list = self.links.successors().to_vec();
        let turn = self.counts.stabilizations as usize % new.len().max(1);
        for (at, contact) in new.into_iter().enumerate() {
            match list.get_mut(at) {
                Some(held) if at == 0 || at == turn => *held = contact,
                Some(_) => {}
                None => list.push(contact),
            }
        }
        if self.links.set_successors(list) {
            self.links_changed();
        }
    }

    pub(super) fn notify_head(&mut self, out: &mut Outbox) {
        if let Some(head) = self.links.head().cloned() {
            self.notify(out, &head);
        }
    }

    pub(super) fn notify(&mut self, out: &mut Outbox, head: &Contact) {
        let list = self.links.predecessors();
        let is_heard = |told: &Told| told.is_for(head) && same(&told.list, list);
        if self.told.as_ref().is_some_and(is_heard) {
            let digest = digest(list);
            out.call(CallOwner::Notify, head, Request::NotifySame { digest });
        } else {
            let told = Told { head: head.clone(), list: list.to_vec() };
            let predecessors = told.list.clone();
            let rpc = out.call(CallOwner::Notify, head, Request::Notify { predecessors });
            self.telling = Some((rpc, told));
        }
        if let Some(member) = self.introduce_to.take() {
            // The head knows us now; the one before us may take us as its head.
            let contact = self.links.me().clone();
            out.tell(&member, Request::Candidate { contact });
        }
    }

    /// The head has heard our notification.
    pub(crate) fn on_notified(&mut self, out: &mut Outbox, rpc: RpcId, response: Response) {
        if response == Response::WhichPredecessors {
            // Once: whoever is told a list and asks for it is not told again.
            let told = self.told.take();
            let is_head = |held: &Contact| told.is_some_and(|told| told.head.id == held.id);
            if self.links.head().is_some_and(is_head) {
                self.notify_head(out);
            }
        } else if let Some((_, told)) = self.telling.take_if(|(asked, _)| *asked == rpc) {
            self.told = (response == Response::Done).then_some(told);
            self.flush_grown(out);
        }
    }

    pub(super) fn flush_push(&mut self, out: &mut Outbox) {
        if !self.push_wanted || self.standing != Standing::Member {
            return;
        }
        let Some(predecessor) = self.links.predecessor().cloned() else { return };
        let due = self.last_push.map(|last| last.after(push_pause(out)));
        if let Some(due) = due.filter(|due| *due > out.now) {
            out.timers.set_by(Timer::Push, due);
            return;
        }
        self.push_wanted = false;
        self.last_push = Some(out.now);
        let pushed = self.neighbors();
        out.tell(&predecessor, Request::Push(pushed));
    }

    /// Tells the head a predecessor list that has grown since the head heard it, no more often than pushes go
    /// out: in a young ring every list waits for the one before it. Whatever else changes can wait for the
    /// next period, and saves whole lists their way.
    pub(super) fn flush_grown(&mut self, out: &mut Outbox) {
        let len = self.links.predecessors().len();
        // Most often, and looked at after every step.
        if self.told.as_ref().is_none_or(|told| told.list.len() >= len) {
            return;
        }
        let Some(head) = self.links.head().cloned() else { return };
        let is_shorter = |told: &Told| told.is_for(&head) && told.list.len() < len;
        let is_on_its_way = self.telling.as_ref().is_some_and(|(_, told)| !is_shorter(told));
        if self.standing != Standing::Member
            || is_on_its_way
            || !self.told.as_ref().is_some_and(is_shorter)
        {
            return;
        }
        let due = self.last_grown.map(|last| last.after(push_pause(out)));
        if let Some(due) = due.filter(|due| *due > out.now) {
            out.timers.set_by(Timer::Push, due);
            return;
        }
        self.last_grown = Some(out.now);
        self.notify(out, &head);
    }

    pub(super) fn heard_of(&self, head: &Contact) -> Option<&Neighbors> {
        self.heard
            .as_ref()
            .filter(|(from, _)| from.id == head.id && from.incarnation() == head.incarnation())
            .map(|(_, answer)| answer)
    }
}

/// Shortest pause between two pushes, and between two STABILIZE runs that lookups cause.
pub(super) fn push_pause(out: &Outbox) -> Duration {
    out.config.stabilize_every / PUSHES_PER_PERIOD
}
