//! JOIN as a member serves it.

use super::{Change, Operation, Question, Ring, Standing, WaitingJoin};
use crate::event::ReplyId;
use crate::id::{Id, between};
use crate::message::ring::{Neighbors, Request, Response};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;

impl Ring {
    /// Lets a joiner in after this node, once its own head has answered just now.
    pub(super) fn serve_join(&mut self, out: &mut Outbox, reply: ReplyId, joiner: Contact) {
        let me = self.links.me().id;
        let serves = matches!(self.standing, Standing::Member | Standing::Isolated);
        if !serves || joiner.id == me {
            out.reply(reply, Response::NotMember);
            return;
        }
        if self.is_expecting(out, &joiner) {
            self.busy(out, reply);
            return;
        }
        // An earlier life of the joiner at the front of the list is skipped (S17).
        let head = self.links.successors().iter().find(|entry| entry.id != joiner.id).cloned();
        match head {
            None => self.welcome(out, reply, joiner),
            // We do not reach it ourselves, but the verdict that the join waited for is that it lives;
            // another ping would only lead to another verdict.
            Some(head)
                if between(me, joiner.id, head.id)
                    && self.vouched.take_if(|held| held.id == head.id).is_some() =>
            {
                self.welcome(out, reply, joiner);
            }
            Some(head) if between(me, joiner.id, head.id) => {
                let rpc = out.call(CallOwner::ServeJoin, &head, Request::Ping);
                self.operation = Some(Operation::ServeJoin { rpc, head, joiner, reply });
            }
            Some(head) => {
                let next = self.links.closest_preceding(joiner.id).cloned().unwrap_or(head);
                out.reply(reply, Response::JoinElsewhere { next });
            }
        }
    }

    /// The head answered, or not: a head found dead is dropped and the next one tried.
    pub(super) fn on_head_pinged(
        &mut self,
        out: &mut Outbox,
        head: Contact,
        joiner: Contact,
        reply: ReplyId,
        response: Option<Response>,
    ) {
        let waiting = WaitingJoin { reply, joiner: joiner.clone(), head: head.id };
        match response {
            Some(Response::Done) => self.welcome(out, reply, joiner),
            Some(Response::NotMember) => {
                self.joins_waiting.push(waiting);
                self.changes.push_back(Change::Gone(head));
            }
            Some(_) => self.busy(out, reply),
            None if self.joins_waiting.len() < out.config.max_deferred => {
                self.joins_waiting.push(waiting);
                self.changes.push_back(Change::Verify(head));
            }
            None => self.busy(out, reply),
        }
    }

    /// A verdict came: joins that waited for one about such a head are served again.
    pub(super) fn wake_joins(&mut self, is_awaited: impl Fn(Id) -> bool) {
        for held in self.joins_waiting.extract_if(.., |held| is_awaited(held.head)) {
            let WaitingJoin { reply, joiner, .. } = held;
            self.deferred.push_back(Question::Join { reply, joiner });
        }
    }

    /// Whether another joiner was let in just now and has not become our head yet: a second one in
    /// the same gap would get the same list, and the two would have to be sorted out by upkeep.
    fn is_expecting(&self, out: &Outbox, joiner: &Contact) -> bool {
        self.guest.as_ref().is_some_and(|(guest, since)| {
            guest.id != joiner.id
                && self.links.head().is_none_or(|head| head.id != guest.id)
                && out.now.since(*since) < out.config.min_timeout
        })
    }

    fn welcome(&mut self, out: &mut Outbox, reply: ReplyId, joiner: Contact) {
        let successors = self.links.successors().iter();
        let answer = Neighbors {
            stamp: self.links.stamp(),
            predecessor: self.links.predecessor().cloned(),
            successors: successors.filter(|entry| entry.id != joiner.id).cloned().collect(),
            leaving: false,
        };
        self.counts.joins_served = self.counts.joins_served.saturating_add(1);
        self.guest = Some((joiner, out.now));
        out.reply(reply, Response::Joined(answer));
    }
}
