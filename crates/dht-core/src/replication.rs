//! Who keeps what: the ranges of a node, which of them it holds completely, and the copying that
//! brings it there.
//!
//! Repair is pulled: every node compares what it should keep with the peers that share it, and
//! fetches what it lacks. So a joiner fills its arc, survivors bring copies back to R, and a second
//! run finds nothing to do. Registers come before chunks. Nothing is deleted here.
//!
//! Of the circle, a node has some arcs *open*: it keeps them, holds every register of them, and
//! votes. Some are *held*: it has all that was written until it stopped being their keeper, or was
//! handed them, and does not vote. What an earlier life had open is *stale* until it is compared.

mod handoff;
mod opening;
mod ranges;
#[cfg(test)]
pub(crate) mod rehearsal;
mod risk;
#[cfg(test)]
mod schedules;
mod serve;
mod session;
mod surplus;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::event::{ReplyId, StoreOutcome};
use crate::id::Id;
use crate::interval::{Interval, IntervalSet};
use crate::manifest::ChunkRef;
use crate::message::ring::{Kind, Response};
use crate::outbox::{Outbox, StoreOwner};
use crate::peer::Contact;
use crate::stats::RepairCounts;
use crate::surroundings::Surroundings;
use crate::timer::Timer;

use handoff::Departure;
use opening::Opening;
use ranges::{possible_arcs, sources, sure_arcs};
use risk::Shown;
use serve::Serving;
use session::{Ended, Session};
use surplus::Surplus;

/// A comparison starts so long after the last change of neighbours: a burst of joins is one change
/// (guess: a few round trips of the pushes that follow a change).
const SETTLE: Duration = Duration::from_millis(200);
/// Quick rounds after a change of neighbours, before the period takes over: they wait 0.4 s, 0.8 s
/// and so on (guess: 16 joiners in a row fill up from the one behind them).
const MAX_QUICK_ROUNDS: u32 = 5;
/// Quick rounds without a change of neighbours after which what an earlier life held counts again,
/// if nobody else holds it: about 5 s (guess: a ring that restarts as a whole finds itself sooner).
const QUIET_ROUNDS: u32 = 4;
/// While some arc is not open, rounds wait no longer than after so many quick ones: 1.6 s.
const MAX_OPENING_BACKOFF: u32 = 2;
/// Comparisons under way at once (guess: enough to keep one disk and one link busy).
const MAX_SESSIONS: usize = 4;
/// Of them, comparisons of chunks: they may take hours, and registers must not wait for them.
const MAX_CHUNK_SESSIONS: usize = 2;
/// Comparisons that wait for their turn; more are left to the next round (guess: all arcs and
/// sources of a register range twice over).
const MAX_QUEUED: usize = 256;

/// The replication machine of one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replication {
    /// Arcs that are kept here and whose registers are held completely.
    open: IntervalSet,
    /// Arcs whose registers were held completely when they were last kept, or handed over.
    held: IntervalSet,
    /// Points whose registers were written here while their arc was not open: of others there this node may
    /// lack some, but these must not be lost with a change of neighbours. An earlier life's are forgotten.
    accepted: IntervalSet,
    /// Arcs that were open or held when an earlier life of this node ended.
    stale: IntervalSet,
    openings: Vec<Opening>,
    sessions: BTreeMap<u64, Session>,
    queue: VecDeque<Plan>,
    serving: BTreeMap<ReplyId, Serving>,
    departure: Option<Departure>,
    surplus: Surplus,
    /// Comparisons that others asked for, and those of them that ended complete.
    requested: VecDeque<Plan>,
    handed: VecDeque<Plan>,
    /// The neighbours that matter here, before and after, as seen last.
    near: (Vec<Id>, Vec<Id>),
    /// Comparisons that found no difference since the last periodic round: quick rounds spare them.
    equal: Vec<Plan>,
    /// What comparisons told of the own arc's other keepers.
    shown: Shown,
    /// Quick rounds done since the last change; each waits twice as long as the one before.
    rounds: u32,
    counts: RepairCounts,
    changed: bool,
}

/// A comparison to be made.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    kind: Kind,
    arc: Interval,
    from: Contact,
}

/// What the others should know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// What a leaver still has to hand off; `None` while counting.
    Leaving { missing: Option<u64> },
    /// All of it has new keepers.
    HandedOff,
}

impl Replication {
    /// The only node of a ring holds everything there is.
    pub(crate) fn found(&mut self, me: Id) {
        let everything = Interval::full(me);
        if !self.open.covers(&everything) {
            self.open_arc(&everything);
        }
        self.openings.clear();
        self.surplus = Surplus::founding(everything);
    }

    /// What an earlier life held.
    pub(crate) fn restore(&mut self, open: IntervalSet) {
        self.stale = open;
    }

    /// All neighbours fell silent. They may have gone on without us, so what we hold has to be
    /// compared before it counts again.
    pub(crate) fn on_isolated(&mut self) {
        for set in [std::mem::take(&mut self.open), std::mem::take(&mut self.held)] {
            set.arcs().iter().for_each(|arc| self.stale.insert(*arc));
        }
        self.openings.clear();
        self.near = Default::default();
        self.changed = true;
    }

    /// Neighbours changed: what is to be kept may have, too.
    pub(crate) fn on_neighbors(&mut self, out: &mut Outbox, around: &Surroundings<'_>) {
        if around.alone {
            self.found(around.me.id);
        }
        self.plan_openings(around);
        self.note_surplus(around);
        self.push_surplus(out.now, around);
        self.drop_lost_keepers(out, around);
        self.drop_shown(around);
        let ids = |list: Vec<Contact>, most| -> Vec<Id> {
            list.iter().take(most).map(|held| held.id).collect()
        };
        let copies = around.params.register_copies();
        let near = (ids(around.peers_before(), copies), ids(around.peers_after(), copies));
        if near == self.near && out.timers.is_set(Timer::Repair) {
            if self.is_opening() {
                out.timers.set_by(Timer::RepairSoon, out.now.after(SETTLE));
            }
            return;
        }
        self.near = near;
        self.rounds = 0;
        out.timers.set_by(Timer::RepairSoon, out.now.after(SETTLE));
        if !out.timers.is_set(Timer::Repair) {
            let pause = out.jittered(out.config.repair_every);
            out.set_timer(Timer::Repair, pause);
        }
        self.drop_what_is_not_kept(around);
    }

    /// A round is due.
    pub(crate) fn on_timer(&mut self, out: &mut Outbox, around: &Surroundings<'_>, timer: Timer) {
        if timer == Timer::Repair {
            let pause = out.jittered(out.config.repair_every);
            out.set_timer(Timer::Repair, pause);
            self.equal.clear();
        }
        if around.alone {
            self.found(around.me.id);
            return;
        }
        self.plan_openings(around);
        self.note_surplus(around);
        if self.rounds >= QUIET_ROUNDS {
            self.trust_earlier_life(around);
        }
        self.plan_opening_sessions();
        let is_short = self.is_short(around);
        if timer == Timer::Repair || self.rounds < MAX_QUICK_ROUNDS || is_short {
            self.plan_repair(around);
        }
        let goes_on = self.rounds < MAX_QUICK_ROUNDS || self.is_opening() || is_short;
        if timer == Timer::RepairSoon && goes_on {
            // Copies may reach our sources only now: look again, less and less often.
            let most = if self.is_opening() { MAX_OPENING_BACKOFF } else { MAX_QUICK_ROUNDS };
            let pause = out.jittered(SETTLE.saturating_mul(2 << self.rounds.min(most)));
            self.rounds = self.rounds.saturating_add(1);
            out.set_timer(Timer::RepairSoon, pause);
        }
        self.push_surplus(out.now, around);
        self.start_sessions(out);
    }

    /// Whether all registers of a point's arc are held here: only then is an answer a vote.
    pub(crate) fn is_open(&self, point: Id) -> bool {
        self.open.contains(point)
    }

    /// The arcs held completely, for the next life.
    pub(crate) fn open_arcs(&self) -> IntervalSet {
        let mut arcs = self.stale.clone();
        let held = self.open.arcs().iter().chain(self.held.arcs());
        held.for_each(|arc| arcs.insert(*arc));
        arcs
    }

    /// Whether the arcs held completely changed since this was asked last.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn counts(&self) -> RepairCounts {
        let missing = self.sessions.values().map(Session::missing).sum();
        RepairCounts { missing, ..self.counts.clone() }
    }

    /// The store answered something of ours.
    pub(crate) fn on_stored(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        owner: StoreOwner,
        outcome: StoreOutcome,
    ) {
        match owner {
            StoreOwner::Serve(reply) => self.finish_serving(out, around, reply, outcome),
            StoreOwner::Repair(number) => {
                if let Some(session) = self.sessions.get_mut(&number) {
                    session.on_stored(out, number, outcome);
                    self.after_session_step(out, around, number);
                }
            }
            StoreOwner::Quorum(_) => {}
        }
    }

    /// A peer answered a comparison, or failed to (`None`).
    pub(crate) fn on_response(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        number: u64,
        response: Option<Response>,
    ) {
        if let Some(session) = self.sessions.get_mut(&number) {
            session.on_response(out, number, response);
            self.after_session_step(out, around, number);
        }
    }

    /// A chunk was copied, or could not be.
    pub(crate) fn on_fetched(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        number: u64,
        chunk: ChunkRef,
        stored: bool,
    ) {
        if stored {
            self.counts.copied = self.counts.copied.saturating_add(1);
            self.counts.bytes = self.counts.bytes.saturating_add(u64::from(chunk.len));
        }
        if let Some(session) = self.sessions.get_mut(&number) {
            session.on_fetched(stored);
        }
        // A free place for one of any session.
        let numbers: Vec<u64> = self.sessions.keys().copied().collect();
        for number in numbers {
            if let Some(session) = self.sessions.get_mut(&number) {
                session.fetch_more(out, number);
                self.after_session_step(out, around, number);
            }
        }
    }

    fn after_session_step(&mut self, out: &mut Outbox, around: &Surroundings<'_>, number: u64) {
        let Some(ended) = self.sessions.get(&number).and_then(Session::ended) else { return };
        let Some(session) = self.sessions.remove(&number) else { return };
        self.counts.copied = self.counts.copied.saturating_add(session.registers_copied());
        if session.found_equal() {
            self.counts.equal = self.counts.equal.saturating_add(1);
            // One that has not opened its arc yet says so: the next round asks again.
            let is_settled =
                session.plan.kind == Kind::Chunks || ended == (Ended::Complete { open: true });
            if is_settled && self.equal.len() < MAX_QUEUED {
                self.equal.push(session.plan.clone());
            }
        }
        self.note_shown(around, &session, ended);
        self.note_handed(&session, ended);
        self.note_opening(&session.plan, ended);
        self.push_surplus(out.now, around);
        self.start_sessions(out);
    }

    /// Adds a comparison, unless it is due anyway.
    fn plan(&mut self, plan: Plan) {
        let known = self.queue.contains(&plan)
            || self.sessions.values().any(|session| session.plan == plan);
        if !known && self.queue.len() < MAX_QUEUED {
            self.queue.push_back(plan);
        }
    }

    /// Compares registers and chunks with everybody who shares an arc.
    fn plan_repair(&mut self, around: &Surroundings<'_>) {
        let (before, after) = (around.peers_before(), around.peers_after());
        for (kind, copies) in [
            (Kind::Registers, around.params.register_copies()),
            (Kind::Chunks, usize::from(around.params.replicas)),
        ] {
            let arcs = sure_arcs(around, copies);
            for (from, shared) in sources(&before, &after, copies, arcs.len()) {
                for arc in &arcs[shared] {
                    let plan = Plan { kind, arc: *arc, from: from.clone() };
                    if !self.equal.contains(&plan) {
                        self.plan(plan);
                    }
                }
            }
        }
    }

    /// Starts what may start now. What overlaps waits: two sources at once would bring the same
    /// copies twice.
    fn start_sessions(&mut self, out: &mut Outbox) {
        while self.sessions.len() < MAX_SESSIONS {
            let of_chunks = |plan: &Plan| plan.kind == Kind::Chunks;
            let running = self.sessions.values().filter(|held| of_chunks(&held.plan)).count();
            let may_start = |plan: &Plan| {
                let overlaps = |other: &Plan| {
                    other.kind == plan.kind && !other.arc.intersection(&plan.arc).is_empty()
                };
                let is_free = !self.sessions.values().any(|session| overlaps(&session.plan));
                is_free && (!of_chunks(plan) || running < MAX_CHUNK_SESSIONS)
            };
            // Registers first, but for the last place if no chunks have one: where ways are long, a round of
            // registers may take as long as the pause before the next, and a leaver waits for its chunks.
            let is_turn_of_chunks = running == 0 && self.sessions.len() + 1 == MAX_SESSIONS;
            let preferred = |plan: &Plan| of_chunks(plan) == is_turn_of_chunks && may_start(plan);
            let first = self.queue.iter().position(preferred);
            let Some(at) = first.or_else(|| self.queue.iter().position(may_start)) else { return };
            let Some(plan) = self.queue.remove(at) else { return };
            let number = out.draw_number();
            let session = Session::start(out, number, plan);
            self.sessions.insert(number, session);
        }
    }

    /// Comparisons of arcs that are not kept any more are not worth their copies.
    fn drop_what_is_not_kept(&mut self, around: &Surroundings<'_>) {
        let registers = possible_arcs(around, around.params.register_copies());
        let chunks = possible_arcs(around, usize::from(around.params.replicas));
        let requested = &self.requested;
        let is_wanted = |plan: &Plan| {
            let kept = if plan.kind == Kind::Registers { &registers } else { &chunks };
            kept.covers(&plan.arc) || requested.contains(plan)
        };
        self.sessions.retain(|_, session| is_wanted(&session.plan));
        // The round that is due now plans anew.
        self.queue.retain(|plan| requested.contains(plan));
    }

    /// Everybody has had time to come back: what an earlier life held is the best there is, where
    /// nobody holds more.
    fn trust_earlier_life(&mut self, around: &Surroundings<'_>) {
        let stale = std::mem::take(&mut self.stale);
        let chunks = possible_arcs(around, usize::from(around.params.replicas));
        for arc in stale.arcs() {
            for arc in self.open.missing(arc) {
                self.take_on(Kind::Registers, &arc);
            }
            for arc in chunks.missing(arc) {
                self.take_on(Kind::Chunks, &arc);
            }
        }
        self.open_what_is_pulled();
    }
}
