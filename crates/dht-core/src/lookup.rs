//! Lookups: a passive query that says whom to ask next, and the table of those under way.
//!
//! Unless they are handed on (`docs/protocol.md`, "Forwarding"), lookups are iterative: the asker contacts
//! each hop itself, so a dead hop costs one time-out and a detour, and the path can be shown with its round
//! trips ("Owning").

use std::time::Duration;

use crate::id::{Id, between};
use crate::message::client::{
    Detour, DetourReason, LookupFailure, LookupReport, MAX_DETOURS, MAX_PATH, PathStep,
};
use crate::message::forward::HandedReport;
use crate::message::ring::{MAX_FAILED, RouteAnswer, RouteQuery, Routing};
use crate::peer::Contact;
use crate::time::{Instant, micros};

/// How often one node may be found busy before it counts as failed (guess).
const MAX_BUSY: u8 = 8;

/// One lookup, driven by whoever asked: it never sends anything itself.
#[derive(Clone, Debug)]
pub struct LookupQuery {
    key: Id,
    routing: Routing,
    depth: u16,
    want_list: bool,
    asker: Contact,
    started: Instant,
    max_hops: u32,
    /// Live nodes on the way before the key, the asker first (unless it is no member).
    trail: Vec<Contact>,
    /// Whether the first node of the trail is the asker itself.
    asker_is_member: bool,
    /// Live nodes past the key that named one before themselves, the nearest to the key last. Along
    /// successors only the last one counts: a walk that has to turn back begins again before the key.
    behind: Vec<Contact>,
    /// Whether the node being asked was named by one that keeps no state for this routing.
    is_instead: bool,
    failed: Vec<Id>,
    path: Vec<PathStep>,
    detours: Vec<Detour>,
    hops: u32,
    timeouts: u64,
    busy: u8,
    asking: Option<Contact>,
    /// What became of it while members handed it on.
    handed: Option<HandedReport>,
}

/// What a lookup wants next.
#[derive(Clone, PartialEq, Debug)]
pub enum LookupStep {
    /// Ask this node this question. The asker itself is answered from its own state.
    Ask(Contact, RouteQuery),
    /// Ask the same again in a little while: the node is busy.
    Pause,
    /// It is over.
    End(Result<Owner, LookupFailure>),
}

/// Who said "mine".
#[derive(Clone, PartialEq, Debug)]
pub struct Owner {
    /// The owner.
    pub contact: Contact,
    /// Its predecessor: with it, the arc it owns.
    pub predecessor: Option<Contact>,
    /// Its successor list, if that was asked for.
    pub successors: Vec<Contact>,
}

/// How a question went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timing {
    /// Time to open a connection, in microseconds; 0 if there was one.
    pub connect_us: u64,
    /// Time from question to answer without the connecting, in microseconds.
    pub rtt_us: u64,
}

/// What a lookup looks for, and how.
#[derive(Clone, PartialEq, Debug)]
pub struct LookupTarget {
    /// The point.
    pub key: Id,
    /// How to choose the next node.
    pub routing: Routing,
    /// With how many entries.
    pub depth: u16,
    /// Whether the owner should send its successor list.
    pub want_list: bool,
}

impl LookupQuery {
    /// A lookup by a member: its first step asks `asker` itself.
    pub fn by_member(
        target: LookupTarget,
        asker: Contact,
        max_hops: u32,
        now: Instant,
    ) -> LookupQuery {
        let trail = vec![asker.clone()];
        LookupQuery::new(target, asker, trail, true, max_hops, now)
    }

    /// A lookup by somebody outside the ring, or in another part of it: its first step asks `via`.
    pub fn through(
        target: LookupTarget,
        asker: Contact,
        via: Contact,
        max_hops: u32,
        now: Instant,
    ) -> LookupQuery {
        LookupQuery::new(target, asker, vec![via], false, max_hops, now)
    }

    fn new(
        target: LookupTarget,
        asker: Contact,
        trail: Vec<Contact>,
        asker_is_member: bool,
        max_hops: u32,
        now: Instant,
    ) -> LookupQuery {
        LookupQuery {
            key: target.key,
            routing: target.routing,
            depth: target.depth.max(1),
            want_list: target.want_list,
            asker,
            started: now,
            max_hops,
            trail,
            asker_is_member,
            behind: Vec::new(),
            is_instead: false,
            failed: Vec::new(),
            path: Vec::new(),
            detours: Vec::new(),
            hops: 0,
            timeouts: 0,
            busy: 0,
            asking: None,
            handed: None,
        }
    }

    /// The first step.
    pub fn start(&mut self) -> LookupStep {
        self.turn_back()
    }

    /// Asks the same node again after a [`LookupStep::Pause`].
    pub fn retry(&mut self) -> LookupStep {
        match self.asking.clone() {
            Some(contact) => self.ask(contact),
            None => self.turn_back(),
        }
    }

    /// The node being asked, as it showed itself: whom the full map names it names without a signature.
    pub fn renew_asked(&mut self, shown: &Contact) {
        if let Some(asked) = self.asking.as_mut().filter(|asked| asked.id == shown.id) {
            *asked = shown.clone();
        }
    }

    /// An answer of the node that was asked.
    pub fn on_answer(&mut self, answer: RouteAnswer, timing: Timing) -> LookupStep {
        let Some(answerer) = self.asking.take() else { return LookupStep::Pause };
        self.note_contact(&answerer, timing);
        match answer {
            RouteAnswer::Mine { predecessor, successors } => {
                LookupStep::End(Ok(Owner { contact: answerer, predecessor, successors }))
            }
            RouteAnswer::Next { next } => self.on_next(answerer, next),
            RouteAnswer::NotMine { predecessor } => self.on_not_mine(answerer, predecessor),
            RouteAnswer::Instead { contact } => {
                let named = contact.id;
                let step = match self.is_past(&answerer) {
                    true => self.on_not_mine(answerer, contact),
                    false => self.on_next(answerer, contact),
                };
                self.is_instead = self.asking.as_ref().is_some_and(|asked| asked.id == named);
                step
            }
        }
    }

    /// One that had been given up answers after all. It lives; and if it knows a step farther than the lookup
    /// has come meanwhile, the lookup goes on from there. `None`: it goes on as it does.
    ///
    /// Where ways got longer all at once, whoever was not asked since has too short a time-out. A lookup that
    /// threw its late answers away would try one such node after the other.
    pub fn on_late_answer(
        &mut self,
        answerer: &Contact,
        answer: RouteAnswer,
        timing: Timing,
    ) -> Option<LookupStep> {
        self.failed.retain(|id| *id != answerer.id);
        let is_progress = match answer {
            RouteAnswer::Mine { .. } => true,
            RouteAnswer::Next { .. } | RouteAnswer::Instead { .. } => self.is_before(answerer),
            RouteAnswer::NotMine { .. } => false,
        };
        if !is_progress {
            return None;
        }
        self.asking = Some(answerer.clone());
        Some(self.on_answer(answer, timing))
    }

    /// The node that was asked is busy.
    pub fn on_busy(&mut self) -> LookupStep {
        self.busy = self.busy.saturating_add(1);
        if self.asking.as_ref().is_some_and(|asked| self.is_asker(asked)) {
            // Nobody else can answer for the asker; the time limit of the lookup ends this.
            return LookupStep::Pause;
        }
        if self.busy > MAX_BUSY { self.on_failure(DetourReason::Busy) } else { LookupStep::Pause }
    }

    /// The node that was asked gave no usable answer: back to the last live node before it.
    pub fn on_failure(&mut self, reason: DetourReason) -> LookupStep {
        let Some(contact) = self.asking.take() else { return self.turn_back() };
        self.timeouts = self.timeouts.saturating_add(1);
        if self.detours.len() < MAX_DETOURS {
            self.detours.push(Detour { contact: contact.clone(), reason });
        }
        let failed_before = self.failed.contains(&contact.id);
        self.avoid(contact.id);
        // It may stand on the trail and on the path, if it died after it had answered.
        let asker = self.asker_is_member.then_some(self.asker.id);
        self.trail.retain(|live| live.id != contact.id || Some(live.id) == asker);
        match self.routing {
            Routing::BothWays => self.behind.retain(|live| live.id != contact.id),
            Routing::Successors | Routing::Fingers | Routing::Full => self.behind.clear(),
        }
        if failed_before {
            // The one before it sends us there again: only upkeep can change that, and it takes time.
            return LookupStep::Pause;
        }
        self.turn_back()
    }

    /// The owner answered a question that members had handed on to it.
    pub(crate) fn found_by_others(&mut self, hops: u32, timeouts: u32, report: HandedReport) {
        self.hops = hops;
        self.timeouts = self.timeouts.saturating_add(timeouts.into());
        self.path.clear();
        self.handed = Some(report);
    }

    /// Members handed the question on and came to nothing, or said nothing: its first step. Whom they found
    /// silent is not asked.
    pub(crate) fn go_on_alone(&mut self, report: HandedReport, timeouts: u32) -> LookupStep {
        self.timeouts = self.timeouts.saturating_add(timeouts.into());
        report.detours.iter().for_each(|held| self.avoid(held.place.id));
        self.handed = Some(report);
        self.start()
    }

    /// How long it has been under way.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.since(self.started)
    }

    /// What came of it, for the asker and its clients.
    pub fn report(&self, outcome: Result<&Owner, LookupFailure>, now: Instant) -> LookupReport {
        LookupReport {
            id: self.key,
            routing: self.routing,
            depth: self.depth,
            asker: self.asker.clone(),
            owner: outcome.ok().map(|owner| owner.contact.clone()),
            hops: self.hops,
            timeouts: self.timeouts,
            path: self.path.clone(),
            detours: self.detours.clone(),
            elapsed_us: micros(self.elapsed(now)),
            failure: outcome.err(),
            handed: self.handed.clone(),
        }
    }

    /// The last live node known to lie before the key.
    pub fn last_live(&self) -> Option<&Contact> {
        self.trail.last()
    }

    /// What is looked for, and how.
    pub(crate) fn target(&self) -> LookupTarget {
        let LookupQuery { key, routing, depth, want_list, .. } = *self;
        LookupTarget { key, routing, depth, want_list }
    }

    /// The point looked for.
    pub fn key(&self) -> Id {
        self.key
    }

    /// How the lookup is routed, and with how many entries.
    pub fn routing(&self) -> (Routing, u16) {
        (self.routing, self.depth)
    }

    /// Node-to-node steps so far; 0 if the asker owns the key.
    pub fn hops(&self) -> u32 {
        self.hops
    }

    /// Contacts that failed so far: never part of the hops.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// How long the lookup has run.
    pub fn age(&self, now: Instant) -> Duration {
        now.since(self.started)
    }

    /// Whether the question being asked needs time, because the node asked has to run upkeep first:
    /// one that has answered before and names somebody else now, or any that needs a verdict about
    /// one who would own the key. Others answer at once: a silent node in the middle of the way is
    /// stepped over, and must not make every further silent one take as long as a verdict does.
    pub fn needs_patience(&self) -> bool {
        let (Some(first), Some(last)) = (self.trail.first(), self.trail.last()) else {
            return !self.failed.is_empty();
        };
        let Some(asked) = &self.asking else { return false };
        let turned = self.behind.last().unwrap_or(last);
        // Those left behind on the way there lie between where the walk began and the key.
        let from = if self.is_past(asked) { asked } else { first };
        let would_own = |id: &Id| {
            *id == self.key
                || match self.is_past(asked) {
                    true => between(self.key, *id, from.id),
                    false => between(from.id, self.key, *id),
                }
        };
        !self.failed.is_empty() && (asked.id == turned.id || self.failed.iter().any(would_own))
    }

    /// Forgets how long it took and what it only reports; see [`crate::node::steer`].
    pub(crate) fn forget_time(&mut self) {
        self.started = Instant::ZERO;
        (self.path, self.detours, self.handed) = (Vec::new(), Vec::new(), None);
        (self.hops, self.timeouts) = (0, 0);
    }

    fn on_next(&mut self, answerer: Contact, next: Contact) -> LookupStep {
        let may_own = next.id == self.key || between(answerer.id, self.key, next.id);
        let closer = if may_own {
            let from_key = |id: Id| self.key.distance_to(id);
            self.behind.last().is_none_or(|past| from_key(next.id) < from_key(past.id))
        } else {
            next.id.distance_to(self.key) < answerer.id.distance_to(self.key)
        };
        let answerer_is_before = self.trail.last().is_some_and(|last| last.id == answerer.id);
        if !closer || !(may_own || answerer_is_before || self.is_before(&answerer)) {
            return self.refuse(answerer);
        }
        if !answerer_is_before && self.is_before(&answerer) {
            self.trail.push(answerer);
        }
        self.go(next)
    }

    fn on_not_mine(&mut self, answerer: Contact, predecessor: Contact) -> LookupStep {
        // Past the key, the anticlockwise distance must shrink.
        let from_key = |id: Id| self.key.distance_to(id);
        let is_asker = self.is_asker(&answerer);
        let may_begin = self.routing == Routing::BothWays;
        if from_key(predecessor.id) >= from_key(answerer.id) || (is_asker && !may_begin) {
            return self.refuse(answerer);
        }
        let is_known = self.behind.last().is_some_and(|held| held.id == answerer.id);
        if !is_asker && !is_known {
            self.behind.push(answerer);
        }
        self.go(predecessor)
    }

    /// Whether a node lies past the key, as seen from the last live node before it.
    fn is_past(&self, contact: &Contact) -> bool {
        let before = self.trail.last().map_or(self.asker.id, |last| last.id);
        contact.id != before && (contact.id == self.key || between(before, self.key, contact.id))
    }

    /// Whether a node lies before the key, farther on than the trail so far.
    fn is_before(&self, contact: &Contact) -> bool {
        self.trail
            .last()
            .is_some_and(|last| contact.id != self.key && between(last.id, contact.id, self.key))
    }

    fn refuse(&mut self, answerer: Contact) -> LookupStep {
        self.asking = Some(answerer);
        self.on_failure(DetourReason::NoProgress)
    }

    fn go(&mut self, next: Contact) -> LookupStep {
        if self.hops >= self.max_hops {
            return LookupStep::End(Err(LookupFailure::TooManyHops));
        }
        self.ask(next)
    }

    /// Asks the last live node again, on the side of the key on which the walk goes.
    fn turn_back(&mut self) -> LookupStep {
        if self.timeouts > u64::from(self.max_hops) {
            return LookupStep::End(Err(LookupFailure::Exhausted));
        }
        match self.behind.last().or(self.trail.last()).cloned() {
            Some(contact) => self.ask(contact),
            None => LookupStep::End(Err(LookupFailure::Exhausted)),
        }
    }

    fn ask(&mut self, contact: Contact) -> LookupStep {
        let after = match self.trail.as_slice() {
            // A walk both ways has its direction from where it began: whoever is asked again keeps it.
            [.., before, last] if last.id == contact.id && self.routing == Routing::BothWays => {
                before.id
            }
            [_, .., last] => last.id,
            [last] if self.asker_is_member => last.id,
            // Asked from outside, the first node judges by itself.
            [_] | [] => contact.id,
        };
        self.asking = Some(contact.clone());
        let query = RouteQuery {
            key: self.key,
            after,
            routing: self.routing,
            depth: self.depth,
            failed: self.failed.clone(),
            want_list: self.want_list,
        };
        LookupStep::Ask(contact, query)
    }

    fn note_contact(&mut self, contact: &Contact, timing: Timing) {
        self.busy = 0;
        let fell_back = std::mem::take(&mut self.is_instead);
        let asked_again = self.path.last().is_some_and(|step| step.contact.id == contact.id)
            || self.trail.iter().chain(&self.behind).any(|live| live.id == contact.id);
        if self.is_asker(contact) || (asked_again && !self.path.is_empty()) {
            return;
        }
        self.hops = self.hops.saturating_add(1);
        if self.path.len() < MAX_PATH {
            let Timing { connect_us, rtt_us } = timing;
            let contact = contact.clone();
            self.path.push(PathStep { contact, connect_us, rtt_us, fell_back });
        }
    }

    fn avoid(&mut self, id: Id) {
        if self.failed.contains(&id) {
            return;
        }
        if self.failed.len() == MAX_FAILED {
            self.failed.remove(0);
        }
        self.failed.push(id);
    }

    fn is_asker(&self, contact: &Contact) -> bool {
        self.asker_is_member && contact.id == self.asker.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::contact;

    /// Walks from 0 to the owner of a far point, one node at a time; every tenth node fails once.
    fn walk(steps: u64) -> LookupReport {
        let key = Id::from_u64(steps);
        let target = LookupTarget { key, routing: Routing::Successors, depth: 1, want_list: false };
        let mut query = LookupQuery::by_member(target, contact(0), u32::MAX, Instant(1));
        let mut step = query.start();
        let mut failed = 0;
        loop {
            let asked = match step {
                LookupStep::Ask(contact, _) => contact,
                LookupStep::End(outcome) => {
                    let owner = outcome.expect("it is found");
                    return query.report(Ok(&owner), Instant(2));
                }
                LookupStep::Pause => {
                    step = query.retry();
                    continue;
                }
            };
            let at = (0..=steps).find(|n| contact(*n).id == asked.id).expect("on the way");
            step = if at == steps {
                query.on_answer(
                    RouteAnswer::Mine { predecessor: None, successors: vec![] },
                    Timing::default(),
                )
            } else if at % 10 == 9 && failed < at {
                failed = at;
                query.on_failure(DetourReason::TimedOut)
            } else {
                // Past a failed one the node before it names the next.
                let next = if failed == at + 1 { at + 2 } else { at + 1 };
                query.on_answer(RouteAnswer::Next { next: contact(next) }, Timing::default())
            };
        }
    }

    #[test]
    fn only_those_who_need_a_verdict_are_given_its_time() {
        let target = |n| LookupTarget {
            key: Id::from_u64(n),
            routing: Routing::Successors,
            depth: 4,
            want_list: false,
        };
        let next = |query: &mut LookupQuery, n| {
            query.on_answer(RouteAnswer::Next { next: contact(n) }, Timing::default());
        };
        let mut query = LookupQuery::by_member(target(90), contact(0), 99, Instant(1));
        query.start();
        next(&mut query, 40);
        assert!(!query.needs_patience(), "nobody failed");
        query.on_failure(DetourReason::TimedOut);
        assert!(query.needs_patience(), "the one before it is asked again");
        next(&mut query, 30);
        assert!(!query.needs_patience(), "whoever is named instead knows a way round");
        next(&mut query, 70);
        next(&mut query, 95);
        query.on_failure(DetourReason::TimedOut);
        next(&mut query, 80);
        assert!(query.needs_patience(), "only a verdict about the owner says who comes next");
    }

    #[test]
    fn a_late_answer_counts_as_far_as_it_leads_on() {
        let target = LookupTarget {
            key: Id::from_u64(90),
            routing: Routing::Successors,
            depth: 4,
            want_list: false,
        };
        let to = |n| RouteAnswer::Next { next: contact(n) };
        let asked = |step: &LookupStep| match step {
            LookupStep::Ask(contact, query) => (contact.id, query.failed.clone()),
            other => panic!("{other:?}"),
        };
        let mut query = LookupQuery::by_member(target, contact(0), 99, Instant(1));
        query.start();
        query.on_answer(to(40), Timing::default());
        query.on_failure(DetourReason::TimedOut);
        query.on_answer(to(30), Timing::default());
        let step = query.on_late_answer(&contact(40), to(70), Timing::default());
        assert_eq!(step.as_ref().map(asked), Some((Id::from_u64(70), vec![])));
        query.on_failure(DetourReason::TimedOut);
        let step = query.on_late_answer(&contact(30), to(60), Timing::default());
        assert_eq!(step, None, "the lookup has come farther");
        let mine = RouteAnswer::Mine { predecessor: None, successors: vec![] };
        let step = query.on_late_answer(&contact(95), mine, Timing::default());
        assert!(matches!(step, Some(LookupStep::End(Ok(_)))), "{step:?}");
    }

    #[test]
    fn a_long_path_is_cut_and_its_hops_are_not() {
        let short = walk(9);
        assert_eq!((short.hops, short.path.len(), short.timeouts), (9, 9, 0));
        let long = walk(2001);
        assert_eq!((long.timeouts, long.hops), (200, 1801), "every tenth was stepped over");
        assert_eq!((long.path.len(), long.detours.len()), (MAX_PATH, MAX_DETOURS));
    }
}
