//! LEAVE: served for a neighbour, and done by the node itself.

use super::{Change, Question, Ring, Standing};
use crate::message::ring::{Request, Response};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;

impl Ring {
    /// A neighbour goes.
    pub(crate) fn on_leave(
        &mut self,
        out: &mut Outbox,
        leaver: Contact,
        successors: Vec<Contact>,
        predecessor: Option<Contact>,
        for_good: bool,
    ) {
        let me = self.links.me().id;
        // A goodbye that comes late is one of an earlier life, and void for the next.
        let is_leaver =
            |held: &Contact| held.id == leaver.id && held.incarnation() <= leaver.incarnation();
        if self.links.head().is_some_and(is_leaver) {
            self.abandon_query_to(out, &leaver);
            let inherited = successors.into_iter().filter(|entry| !is_leaver(entry));
            self.links.set_successors(inherited);
            self.heard = None;
            self.counts.repairs = self.counts.repairs.saturating_add(1);
            self.links_changed();
            self.stabilize_again = true;
        }
        if self.links.predecessor().is_some_and(is_leaver) {
            self.links.set_predecessor(None);
            self.links_changed();
            self.requeue_rectify();
            // Its predecessor will be ours, once it has answered a ping.
            if let Some(next) = predecessor.filter(|next| !is_leaver(next) && next.id != me) {
                self.queue_notifier(next, Vec::new());
            }
        }
        self.changes.push_back(Change::Removed { contact: leaver, for_good });
        self.check_emptied();
        self.settle(out);
    }

    /// From now on no target for anything new; still answers.
    pub(crate) fn begin_leaving(&mut self) {
        self.standing = Standing::Leaving;
    }

    /// Tells both neighbours that we go. [`Change::Unlinked`] follows.
    pub(crate) fn unlink(&mut self, out: &mut Outbox, for_good: bool, remembered: &[Contact]) {
        self.standing = Standing::Leaving;
        let mut told: Vec<Contact> = Vec::new();
        for neighbor in self.links.predecessor().into_iter().chain(self.links.head()) {
            if !told.iter().any(|held| held.id == neighbor.id) {
                told.push(neighbor.clone());
            }
        }
        for neighbor in &told {
            let request = Request::Leave {
                successors: self.links.successors().to_vec(),
                predecessor: self.links.predecessor().cloned(),
                for_good,
                remembered: remembered.to_vec(),
            };
            out.call(CallOwner::Unlink, neighbor, request);
        }
        if told.is_empty() {
            self.changes.push_back(Change::Unlinked);
        }
    }

    /// Out for good: no more questions are answered.
    pub(crate) fn leave_now(&mut self, out: &mut Outbox) {
        self.standing = Standing::Gone;
        self.operation = None;
        for question in std::mem::take(&mut self.deferred) {
            let (Question::Neighbors { reply, .. } | Question::Join { reply, .. }) = question;
            out.reply(reply, Response::NotMember);
        }
        for held in std::mem::take(&mut self.joins_waiting) {
            out.reply(held.reply, Response::NotMember);
        }
    }
}
