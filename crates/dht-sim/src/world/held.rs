//! What scripts hold back: notifications at their targets, and answers to a step that has begun.

use std::collections::BTreeSet;

use dht_core::event::ReplyId;
use dht_core::message::ring::Request;
use dht_core::{Contact, Event};

use super::World;
use super::post::{Call, Parcel, Question};
use crate::member::number;
use crate::trace::Kind;

#[derive(Clone, Debug)]
pub(super) struct Notify {
    pub(super) to: u64,
    pub(super) from: Contact,
    pub(super) request: Request,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Begun {
    /// Whether the step is still being started: calls made now belong to it.
    pub(super) is_starting: bool,
    pub(super) calls: BTreeSet<Call>,
    pub(super) answers: Vec<Parcel>,
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

    /// A notification waits at its target. One that only says that an earlier one stands does not take its
    /// place.
    pub(super) fn hold_notify(&mut self, notify: Notify) {
        let is_same = |held: &Notify| held.to == notify.to && held.from.id == notify.from.id;
        let repeats = matches!(notify.request, Request::NotifySame { .. });
        if repeats && self.post.notifies.iter().any(is_same) {
            return;
        }
        self.post.notifies.retain(|held| !is_same(held));
        self.post.notifies.push(notify);
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
            self.post.arrives_at(self.now, answer);
        }
    }

    /// Whether answers to this node are held back.
    pub fn is_held(&self, n: u64) -> bool {
        self.post.begun.contains_key(&n)
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
}
