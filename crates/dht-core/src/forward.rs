//! A lookup that is handed on: what the rules of lookups make of it at the node that has it.
//!
//! The node chooses whom to hand it to by the very choice that answers a routing question. This module
//! holds the choice to the progress that an asker holds answers to ([`crate::lookup`]).

use crate::id::{Id, between};
use crate::message::client::{DetourReason, MAX_PATH};
use crate::message::forward::{
    Forward, ForwardEnd, ForwardOutcome, GaveUp, HandedDetour, HandedStep, MAX_RETRIES, PlaceMark,
};
use crate::message::ring::{MAX_FAILED, RouteAnswer, RouteQuery};
use crate::peer::Contact;

impl Forward {
    /// The question as an asker that contacts every node would put it to whoever has this.
    pub(crate) fn query(&self) -> RouteQuery {
        RouteQuery {
            key: self.key,
            after: self.after,
            routing: self.routing,
            depth: self.depth,
            failed: self.detours.iter().map(|held| held.place.id).collect(),
            want_list: self.want_list,
        }
    }

    /// Whether what `me` can check of it holds: it is meant for `me`, and was sent by the node before on its
    /// path, or by its asker.
    pub(crate) fn is_sound(&self, me: Id, from: Id) -> bool {
        let sender = match self.path.as_slice() {
            // Of a long way the end is not told.
            path if path.len() < self.hops as usize => None,
            [.., before, _] => Some(before.place.id),
            _ => Some(self.asker.id),
        };
        is_path_of(&self.path, self.hops, me)
            && sender.is_none_or(|sender| sender == from)
            && self.detours.len() <= MAX_FAILED
            && self.retries <= MAX_RETRIES
    }

    /// Whom `me` hands it to by the answer that its own state gives, and what it says then; or why nobody gets
    /// it. `limit`: the most steps that `me` takes part in. What stays behind is what a retry begins from.
    ///
    /// Before the key a step comes closer clockwise, past it anticlockwise, and whoever is past the key is
    /// nearer to it than all before who were. So no way is a loop.
    pub(crate) fn advance(
        &mut self,
        me: Id,
        answer: RouteAnswer,
        limit: u32,
    ) -> Result<(Contact, Box<Forward>), GaveUp> {
        let is_past = me != self.after && (me == self.key || between(self.after, self.key, me));
        let (next, turns_back, fell_back) = match answer {
            RouteAnswer::Next { next } => (next, false, false),
            RouteAnswer::NotMine { predecessor } => (predecessor, true, false),
            RouteAnswer::Instead { contact } => (contact, is_past, true),
            RouteAnswer::Mine { .. } => return Err(GaveUp::NoProgress),
        };
        let from_key = |id: Id| self.key.distance_to(id);
        let (mut after, mut past) = (self.after, self.past);
        if turns_back {
            if from_key(next.id) >= from_key(me) {
                return Err(GaveUp::NoProgress);
            }
            // A walk both ways may begin backwards at its asker, which lies before the key.
            past = if self.hops > 0 { Some(me) } else { past };
        } else {
            let may_own = next.id == self.key || between(me, self.key, next.id);
            let is_closer = match may_own {
                true => past.is_none_or(|past| from_key(next.id) < from_key(past)),
                false => next.id.distance_to(self.key) < me.distance_to(self.key),
            };
            if !is_closer || (is_past && !may_own) {
                return Err(GaveUp::NoProgress);
            }
            after = if is_past { after } else { me };
        }
        if self.hops >= self.max_hops.min(limit) {
            return Err(GaveUp::TooManyHops);
        }
        let mut path = self.path.clone();
        if path.len() < MAX_PATH {
            path.push(HandedStep { place: PlaceMark::of(&next), fell_back });
        }
        let (hops, retries) = (self.hops + 1, self.give_retries());
        Ok((next, Box::new(Forward { after, past, hops, retries, path, ..self.clone() })))
    }

    /// One did not take it: it is not gone to again.
    pub(crate) fn failed(&mut self, contact: &Contact, reason: DetourReason) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.detours.len() >= MAX_FAILED {
            self.detours.remove(0);
        }
        self.detours.push(HandedDetour { place: PlaceMark::of(contact), reason });
    }

    /// Takes one of the retries; false: there is none left.
    pub(crate) fn retry(&mut self) -> bool {
        let left = self.retries.checked_sub(1);
        self.retries = left.unwrap_or(0);
        left.is_some()
    }

    /// What its asker is told.
    pub(crate) fn end(self, outcome: ForwardOutcome) -> ForwardEnd {
        let Forward { ticket, key, hops, timeouts, path, detours, .. } = self;
        ForwardEnd { ticket, key, outcome, hops, timeouts, path, detours }
    }

    /// Takes out the retries that go with it. A quarter stays, rounded up: eight nodes in a row have one then,
    /// of the sixteen that a question starts with. What is given away is not kept, so there are never more.
    fn give_retries(&mut self) -> u8 {
        let kept = self.retries.div_ceil(4);
        let given = self.retries - kept;
        self.retries = kept;
        given
    }
}

impl ForwardEnd {
    /// Whether what its asker can check of it holds: whoever sends it is the last one on its path.
    pub(crate) fn is_sound(&self, from: Id) -> bool {
        is_path_of(&self.path, self.hops, from) && self.detours.len() <= MAX_FAILED
    }
}

/// Whether a path of so many steps ends at a node, as far as it is told.
fn is_path_of(path: &[HandedStep], hops: u32, end: Id) -> bool {
    let hops = hops as usize;
    let is_whole = hops <= MAX_PATH;
    hops > 0
        && path.len() == hops.min(MAX_PATH)
        && (!is_whole || path.last().is_some_and(|step| step.place.id == end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::forward::Ticket;
    use crate::message::ring::Routing;
    use crate::testing::{contact, point};

    /// A question by 10 for 100 that is at the node of its last step.
    fn question(after: u64, past: Option<u64>, routing: Routing) -> Forward {
        Forward {
            ticket: Ticket { number: 1, nonce: 2 },
            asker: contact(10),
            key: point(100),
            after: point(after),
            past: past.map(point),
            routing,
            depth: 4,
            want_list: false,
            hops: 1,
            max_hops: 1000,
            timeouts: 0,
            retries: MAX_RETRIES,
            path: Vec::new(),
            detours: Vec::new(),
        }
    }

    /// What goes on from `me`: to whom, after whom, past whom.
    fn step(
        me: u64,
        mut question: Forward,
        answer: RouteAnswer,
    ) -> Result<(Id, Id, Option<Id>), GaveUp> {
        let (next, onward) = question.advance(point(me), answer, 1000)?;
        assert_eq!((onward.hops, onward.path.len()), (2, 1));
        Ok((next.id, onward.after, onward.past))
    }

    fn next(n: u64) -> RouteAnswer {
        RouteAnswer::Next { next: contact(n) }
    }

    fn back(n: u64) -> RouteAnswer {
        RouteAnswer::NotMine { predecessor: contact(n) }
    }

    fn instead(n: u64) -> RouteAnswer {
        RouteAnswer::Instead { contact: contact(n) }
    }

    #[test]
    fn every_step_comes_closer() {
        let on = |past| question(20, past, Routing::Successors);
        let goes = |to, after, past: Option<u64>| Ok((point(to), point(after), past.map(point)));
        assert_eq!(step(40, on(None), next(60)), goes(60, 40, None));
        assert_eq!(step(40, on(None), next(100)), goes(100, 40, None), "the key's own place");
        assert_eq!(step(40, on(None), next(120)), goes(120, 40, None));
        assert_eq!(step(40, on(Some(150)), instead(120)), goes(120, 40, Some(150)));
        assert_eq!(step(120, on(None), back(110)), goes(110, 20, Some(120)));
        assert_eq!(step(120, on(Some(130)), instead(110)), goes(110, 20, Some(120)));
        let none = Err(GaveUp::NoProgress);
        assert_eq!(step(40, on(Some(120)), next(30)), none, "farther round than it has been");
        assert_eq!(step(40, on(Some(120)), next(120)), none, "there it was");
        assert_eq!(step(120, on(None), back(130)), none, "away from the key");
        assert_eq!(step(120, on(None), back(90)), none, "it would be the owner itself");
        assert_eq!(step(120, on(None), next(50)), none, "whoever is past it knows none before it");
        let mine = RouteAnswer::Mine { predecessor: None, successors: vec![] };
        assert_eq!(step(40, on(None), mine), none);
    }

    #[test]
    fn a_walk_both_ways_may_begin_backwards() {
        let mut begun = Forward { hops: 0, ..question(10, None, Routing::BothWays) };
        let (to, onward) = begun.advance(point(10), back(500), 9).expect("nearer that way");
        assert_eq!((to.id, onward.after, onward.past), (point(500), point(10), None));
    }

    #[test]
    fn only_the_last_failures_are_carried() {
        let mut held = question(20, None, Routing::Fingers);
        for n in 0..MAX_FAILED as u64 + 3 {
            held.failed(&contact(n), DetourReason::TimedOut);
        }
        assert_eq!((held.timeouts, held.detours.len()), (MAX_FAILED as u32 + 3, MAX_FAILED));
        assert_eq!(held.query().failed.first(), Some(&point(3)));
    }

    /// Copies that arrive where a way of so many hops ends, if nobody is heard in time: whoever hands a copy
    /// on tries all others that it may.
    fn copies(mut held: Forward, hops: u32) -> usize {
        if hops == 0 {
            return 1;
        }
        let mut sum = 0;
        loop {
            let (_, onward) = held.advance(point(40), next(60), 1000).expect("a step forward");
            sum += copies(Forward { after: held.after, ..*onward }, hops - 1);
            if !held.retry() {
                return sum;
            }
        }
    }

    #[test]
    fn a_question_never_multiplies() {
        for hops in 1..12 {
            let copies = copies(question(20, None, Routing::Successors), hops);
            assert!((2..=1 + usize::from(MAX_RETRIES)).contains(&copies), "{copies} at {hops}");
        }
        // The first eight on the way can step round one each.
        let mut held = question(20, None, Routing::Successors);
        for at in 0..8 {
            let (_, onward) = held.advance(point(40), next(60), 1000).expect("a step forward");
            assert!(held.retry(), "{at}");
            held = Forward { after: held.after, ..*onward };
        }
    }
}
