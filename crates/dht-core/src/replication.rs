//! Who keeps what: the ranges of a node, which of them it holds completely, and the copying that
//! brings it there.
//!
//! Repair is pulled: every node compares what it should keep with the peers that share it, and
//! fetches what it lacks. So a joiner fills its arc, survivors bring copies back to R, and a second
//! run finds nothing to do. Registers come before chunks. Nothing is deleted here.

mod handoff;
mod opening;
mod serve;
mod session;

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
use crate::timer::Timer;
use crate::view::View;

use handoff::Departure;
use opening::Opening;
use serve::Serving;
use session::Session;

/// A comparison starts so long after the last change of neighbours: a burst of joins is one change
/// (guess: a few round trips of the pushes that follow a change).
const SETTLE: Duration = Duration::from_millis(200);
/// Comparisons under way at once (guess: enough to keep one disk and one link busy).
const MAX_SESSIONS: usize = 4;
/// Comparisons that wait for their turn; more are left to the next round (guess: all arcs and
/// sources of a register range twice over).
const MAX_QUEUED: usize = 256;

/// The replication machine of one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replication {
    /// Arcs whose registers are held completely.
    open: IntervalSet,
    /// Arcs that were open when an earlier life of this node ended.
    stale: IntervalSet,
    openings: Vec<Opening>,
    sessions: BTreeMap<u64, Session>,
    queue: VecDeque<Plan>,
    serving: BTreeMap<ReplyId, Serving>,
    departure: Option<Departure>,
    /// Comparisons that leavers asked for, and those of them that ended complete.
    requested: VecDeque<Plan>,
    handed: VecDeque<Plan>,
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
    /// The first node of a ring holds everything there is.
    pub(crate) fn found(&mut self, me: Id) {
        self.open.insert(Interval::full(me));
        self.changed = true;
    }

    /// What an earlier life held.
    pub(crate) fn restore(&mut self, open: IntervalSet) {
        self.stale = open;
    }

    /// Neighbours changed: what is to be kept may have, too.
    pub(crate) fn on_neighbors(&mut self, out: &mut Outbox, view: &View<'_>) {
        self.rounds = 0;
        self.plan_openings(view);
        out.timers.set_by(Timer::RepairSoon, out.now.after(SETTLE));
        if !out.timers.is_set(Timer::Repair) {
            let pause = out.jittered(out.config.repair_every);
            out.set_timer(Timer::Repair, pause);
        }
        let listed = |contact: &Contact| {
            view.successors.iter().chain(view.predecessors).any(|held| held.id == contact.id)
        };
        self.queue.retain(|plan| listed(&plan.from));
    }

    /// A round is due.
    pub(crate) fn on_timer(&mut self, out: &mut Outbox, view: &View<'_>, timer: Timer) {
        if timer == Timer::Repair {
            let pause = out.jittered(out.config.repair_every);
            out.set_timer(Timer::Repair, pause);
        }
        if view.alone {
            self.found(view.me.id);
            return;
        }
        self.plan_openings(view);
        self.plan_opening_sessions(view);
        if timer == Timer::Repair || self.rounds < MAX_QUICK_ROUNDS {
            self.plan_repair(view);
        }
        if timer == Timer::RepairSoon && (self.rounds < MAX_QUICK_ROUNDS || self.is_opening()) {
            // Copies may reach our sources only now: look again, less and less often.
            let pause = SETTLE.saturating_mul(2 << self.rounds.min(MAX_QUICK_ROUNDS));
            self.rounds = self.rounds.saturating_add(1);
            let pause = out.jittered(pause);
            out.set_timer(Timer::RepairSoon, pause);
        }
        self.start_sessions(out);
    }

    /// Whether all registers of a point's arc are held here: only then is an answer a vote.
    pub(crate) fn is_open(&self, point: Id) -> bool {
        self.open.contains(point)
    }

    /// The arcs held completely, for the next life; what is stale stays so until it is open again.
    pub(crate) fn open_arcs(&self) -> IntervalSet {
        let mut arcs = self.stale.clone();
        self.open.arcs().iter().for_each(|arc| arcs.insert(*arc));
        arcs
    }

    /// Whether the open arcs changed since this was asked last.
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
        view: &View<'_>,
        owner: StoreOwner,
        outcome: StoreOutcome,
    ) {
        match owner {
            StoreOwner::Serve(reply) => self.finish_serving(out, reply, outcome),
            StoreOwner::Repair(number) => {
                if let Some(session) = self.sessions.get_mut(&number) {
                    session.on_stored(out, number, outcome);
                    self.after_session_step(out, view, number);
                }
            }
            StoreOwner::Quorum(_) => {}
        }
    }

    /// A peer answered a comparison, or failed to (`None`).
    pub(crate) fn on_response(
        &mut self,
        out: &mut Outbox,
        view: &View<'_>,
        number: u64,
        response: Option<Response>,
    ) {
        if let Some(session) = self.sessions.get_mut(&number) {
            session.on_response(out, number, response);
            self.after_session_step(out, view, number);
        }
    }

    /// A chunk was copied, or could not be.
    pub(crate) fn on_fetched(
        &mut self,
        out: &mut Outbox,
        view: &View<'_>,
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
                self.after_session_step(out, view, number);
            }
        }
    }

    fn after_session_step(&mut self, out: &mut Outbox, view: &View<'_>, number: u64) {
        let Some(session) = self.sessions.get(&number) else { return };
        let Some(ended) = session.ended() else { return };
        let Some(session) = self.sessions.remove(&number) else { return };
        self.counts.copied = self.counts.copied.saturating_add(session.registers_copied());
        if matches!(ended, session::Ended::Complete { .. }) {
            self.note_handed(&session);
        }
        if session.found_equal() {
            self.counts.equal = self.counts.equal.saturating_add(1);
        }
        self.note_opening(view, &session.plan, ended);
        self.start_sessions(out);
    }

    fn plan(&mut self, plan: Plan) {
        let known = self.queue.contains(&plan)
            || self.sessions.values().any(|session| session.plan == plan);
        if !known && self.queue.len() < MAX_QUEUED {
            self.queue.push_back(plan);
        }
    }

    /// Compares chunks and registers with everybody who shares an arc, and chunks also with those
    /// just behind: before we came, they were the keepers.
    fn plan_repair(&mut self, view: &View<'_>) {
        let (before, after) = (view.peers_before(), view.peers_after());
        for (kind, copies) in [
            (Kind::Registers, view.params.register_copies()),
            (Kind::Chunks, usize::from(view.params.replicas)),
        ] {
            let arcs = view.kept_arcs(copies);
            let sources = sources(&before, &after, copies, arcs.len());
            for (from, arcs_shared) in sources {
                for arc in &arcs[arcs_shared] {
                    self.plan(Plan { kind, arc: *arc, from: from.clone() });
                }
            }
        }
    }

    fn start_sessions(&mut self, out: &mut Outbox) {
        while self.sessions.len() < MAX_SESSIONS {
            let Some(plan) = self.queue.pop_front() else { return };
            let number = out.draw_number();
            let session = Session::start(out, number, plan);
            self.sessions.insert(number, session);
        }
    }
}

/// Quick rounds after a change of neighbours, before the period takes over: they wait 0.4 s, 0.8 s
/// and so on (guess: 16 joiners in a row fill up from the one behind them).
const MAX_QUICK_ROUNDS: u32 = 5;

/// Which peers share which of the kept arcs. `arcs` are numbered from our own; the `j`-th peer
/// before us shares all but the first `j`, the `j`-th after us all but the last `j`; those up to
/// `copies` places further on held our arcs before others came between.
fn sources(
    before: &[Contact],
    after: &[Contact],
    copies: usize,
    arcs: usize,
) -> Vec<(Contact, std::ops::Range<usize>)> {
    let mut sources: Vec<(Contact, std::ops::Range<usize>)> = Vec::new();
    let mut add = |contact: &Contact, range: std::ops::Range<usize>| {
        if range.is_empty() {
            return;
        }
        match sources.iter_mut().find(|(held, _)| held.id == contact.id) {
            Some((_, held)) => *held = held.start.min(range.start)..held.end.max(range.end),
            None => sources.push((contact.clone(), range)),
        }
    };
    for (at, contact) in after.iter().take(2 * copies).enumerate() {
        let shared = if at + 1 < copies { arcs.saturating_sub(at + 1).max(1) } else { 1 };
        // In a small ring one peer stands on both sides, and shares everything.
        let everything = after.len() < copies;
        add(contact, 0..if everything { arcs } else { shared.min(arcs) });
    }
    for (at, contact) in before.iter().take(copies.saturating_sub(1)).enumerate() {
        add(contact, (at + 1).min(arcs)..arcs);
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::contact;

    #[test]
    fn sources_share_the_arcs_they_keep_themselves() {
        let before: Vec<Contact> = [40, 30, 20, 10].map(contact).into();
        let after: Vec<Contact> = [60, 70, 80, 90].map(contact).into();
        let list = sources(&before, &after, 3, 3);
        let ranges: Vec<_> = list
            .iter()
            .map(|(held, range)| (held.id.to_bytes()[19], range.start, range.end))
            .collect();
        let expected = [(60, 0, 2), (70, 0, 1), (80, 0, 1), (90, 0, 1), (40, 1, 3), (30, 2, 3)];
        assert_eq!(ranges, expected);
    }
}
