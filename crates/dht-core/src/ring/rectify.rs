//! RECTIFY: whether one who says "I am your predecessor" is.

use super::{Change, Ring, Standing};
use crate::message::ring::{Request, Response};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;
use crate::planted::Planted;

/// Notifications that wait for their turn; the oldest gives way (guess: in a quiet ring there is
/// one, after a burst of joins the nearest notifies again within a period).
const MAX_NOTIFIED: usize = 16;

/// A notification being looked into.
#[derive(Clone, Debug)]
pub(super) struct Rectify {
    notifier: Contact,
    behind: Vec<Contact>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Our own ping to the notifier is under way.
    Notifier,
    /// The present predecessor was pinged.
    Predecessor,
    /// It did not answer, and is being verified.
    Verdict,
}

impl Ring {
    /// "I believe I am your predecessor." `behind`: its predecessor list, if it came along.
    pub(crate) fn on_notify(
        &mut self,
        out: &mut Outbox,
        from: Contact,
        behind: Option<Vec<Contact>>,
    ) {
        // A leaver listens too: whoever comes between it and its predecessor meanwhile must stand in
        // what it tells its neighbours at the end.
        let listens =
            matches!(self.standing, Standing::Member | Standing::Isolated | Standing::Leaving);
        if !listens {
            return;
        }
        // What an earlier life of the predecessor said may come late; its goodbye is next.
        let is_over =
            |held: &Contact| held.id == from.id && held.incarnation() > from.incarnation();
        if self.links.predecessor().is_some_and(is_over) {
            return;
        }
        if self.standing == Standing::Member {
            self.changes.push_back(Change::Placed);
        }
        if self.links.predecessor().is_some_and(|held| held.id == from.id) {
            self.links.set_predecessor(Some(from));
            if behind.is_some_and(|behind| self.links.set_predecessors(behind)) {
                self.changes.push_back(Change::Links);
            }
            if self.links.successors().is_empty() {
                self.stabilize_again = true;
            }
        } else {
            self.queue_notifier(from, behind.unwrap_or_default());
        }
        self.settle(out);
    }

    /// Whether the predecessor list is the one of this digest that this node sent.
    pub(crate) fn holds_list_of(&self, from: &Contact, digest: u64) -> bool {
        self.links.holds_list_of(from, digest)
    }

    /// Puts one in line to be looked into; `behind` is its predecessor list.
    pub(super) fn queue_notifier(&mut self, notifier: Contact, behind: Vec<Contact>) {
        self.notified.retain(|(held, _)| held.id != notifier.id);
        if self.notified.len() == MAX_NOTIFIED {
            self.notified.pop_front();
        }
        self.notified.push_back((notifier, behind));
    }

    /// Looks into the next notification, if none is under way: the notifier is pinged first, since
    /// nobody is adopted who has not just answered.
    pub(super) fn rectify_next(&mut self, out: &mut Outbox) {
        if self.rectify.is_some() {
            return;
        }
        let Some((notifier, behind)) = self.notified.pop_front() else { return };
        out.call(CallOwner::RectifyNotifier, &notifier, Request::Ping);
        self.rectify = Some(Rectify { notifier, behind, stage: Stage::Notifier });
    }

    pub(super) fn on_notifier_answer(
        &mut self,
        out: &mut Outbox,
        from: &Contact,
        response: Option<Response>,
    ) {
        let Some(rectify) = self.rectify_at(Stage::Notifier, |held| held.notifier.id == from.id)
        else {
            return;
        };
        if response != Some(Response::Done) {
            self.rectify = None;
            return;
        }
        match self.links.predecessor().cloned() {
            Some(predecessor)
                if predecessor.id != from.id && !self.links.is_after_predecessor(from.id) =>
            {
                out.call(CallOwner::RectifyPredecessor, &predecessor, Request::Ping);
                self.rectify = Some(Rectify { stage: Stage::Predecessor, ..rectify });
            }
            _ => self.adopt_predecessor(rectify),
        }
    }

    pub(super) fn on_predecessor_answer(
        &mut self,
        out: &mut Outbox,
        from: &Contact,
        response: Option<Response>,
    ) {
        let Some(rectify) = self.rectify_at(Stage::Predecessor, |_| true) else { return };
        let is_predecessor = self.links.predecessor().is_some_and(|held| held.id == from.id);
        match response {
            Some(Response::Done | Response::Busy) if is_predecessor => self.rectify = None,
            _ if !is_predecessor => {
                // It was replaced meanwhile: compare anew.
                self.rectify = None;
                self.queue_notifier(rectify.notifier, rectify.behind);
            }
            Some(_) => {
                self.rectify = Some(Rectify { stage: Stage::Verdict, ..rectify });
                self.changes.push_back(Change::Gone(from.clone()));
            }
            None => {
                self.rectify = Some(Rectify { stage: Stage::Verdict, ..rectify });
                self.changes.push_back(Change::VerifyTestified(from.clone()));
            }
        }
        self.rectify_next(out);
    }

    /// A verdict about somebody; if it is the predecessor that a notifier waits to replace, that is
    /// decided now.
    pub(super) fn rectify_on_verdict(&mut self, out: &mut Outbox, about: &Contact, dead: bool) {
        // A verdict is about one life; a newer one is another matter.
        let is_about =
            |held: &Contact| held.id == about.id && held.incarnation() <= about.incarnation();
        if dead && self.rectify.as_ref().is_some_and(|held| is_about(&held.notifier)) {
            self.rectify = None;
            return;
        }
        let Some(rectify) = self.rectify_at(Stage::Verdict, |_| true) else { return };
        let predecessor = self.links.predecessor();
        let is_reborn = predecessor.is_some_and(|held| held.id == about.id && !is_about(held));
        let is_predecessor = predecessor.is_some_and(is_about);
        let keeps = out.is_planted(Planted::KeepDeadPredecessor);
        if is_reborn {
            self.rectify = None;
            self.queue_notifier(rectify.notifier, rectify.behind);
        } else if is_predecessor && dead && !keeps {
            self.changes.push_back(Change::Removed { contact: about.clone(), for_good: false });
            self.adopt_predecessor(rectify);
        } else if is_predecessor || self.links.predecessor().is_none() {
            self.rectify = None;
            if !is_predecessor {
                self.queue_notifier(rectify.notifier, rectify.behind);
            }
        }
        self.rectify_next(out);
    }

    /// The predecessor is gone by itself: whoever waited to replace it is looked at anew.
    pub(super) fn requeue_rectify(&mut self) {
        if let Some(rectify) = self.rectify.take_if(|held| held.stage != Stage::Notifier) {
            self.queue_notifier(rectify.notifier, rectify.behind);
        }
    }

    fn adopt_predecessor(&mut self, rectify: Rectify) {
        self.rectify = None;
        if self.standing == Standing::Isolated {
            self.standing = Standing::Member;
            self.changes.push_back(Change::Placed);
        }
        let changed = self.links.set_predecessor(Some(rectify.notifier));
        let list_changed =
            !rectify.behind.is_empty() && self.links.set_predecessors(rectify.behind);
        if changed {
            self.counts.rectifications = self.counts.rectifications.saturating_add(1);
            self.links_changed();
        } else if list_changed {
            self.changes.push_back(Change::Links);
        }
        // An empty list adopts the predecessor, which has just answered.
        if self.links.successors().is_empty() {
            self.stabilize_again = true;
        }
    }

    fn rectify_at(&self, stage: Stage, is_it: impl Fn(&Rectify) -> bool) -> Option<Rectify> {
        self.rectify.as_ref().filter(|held| held.stage == stage && is_it(held)).cloned()
    }
}
