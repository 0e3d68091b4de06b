//! Leaving for good: the new keepers of every arc copy it before the links go.

use super::session::Session;
use super::{Plan, Progress, Replication};
use crate::event::ReplyId;
use crate::interval::Interval;
use crate::message::ring::{Kind, Request, Response};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;
use crate::timer::Timer;
use crate::view::View;

use std::time::Duration;

/// How often a new keeper is asked how much it still lacks (guess: often enough for a progress bar).
const POLL: Duration = Duration::from_millis(200);
/// How often a keeper may fail to answer before another one is sought. Until then its own neighbours
/// find out whether it is dead (guess).
const MAX_FAILURES: u32 = 5;

/// What a leaver has to hand off.
#[derive(Clone, Debug, Default)]
pub(super) struct Departure {
    tasks: Vec<Task>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Task {
    number: u64,
    kind: Kind,
    arc: Interval,
    /// Peers that could become the keeper, the right one first.
    keepers: Vec<Contact>,
    failures: u32,
    missing: Option<u64>,
}

impl Replication {
    /// Begins to hand off; with nobody there to take anything, that is already the end.
    pub(crate) fn begin_leave(&mut self, out: &mut Outbox, view: &View<'_>) -> Progress {
        let mut departure = Departure::default();
        let after = view.peers_after();
        for (kind, copies) in [
            (Kind::Registers, view.params.register_copies()),
            (Kind::Chunks, usize::from(view.params.replicas)),
        ] {
            for (at, arc) in view.kept_arcs(copies).into_iter().enumerate() {
                // Without us, the set of arc `at` reaches one peer further: the one this many
                // places after us. Where there are fewer peers, everybody keeps it already.
                let first = copies.saturating_sub(at + 1);
                let keepers: Vec<Contact> = after.iter().skip(first).cloned().collect();
                // In a ring that small, the others share all; the nearest makes sure of it.
                let keepers = if keepers.is_empty() { after.clone() } else { keepers };
                if !keepers.is_empty() {
                    departure.next += 1;
                    let number = departure.next;
                    let task = Task { number, kind, arc, keepers, failures: 0, missing: None };
                    departure.tasks.push(task);
                }
            }
        }
        self.departure = Some(departure);
        self.poll_handoff(out)
    }

    /// Asks every keeper how much it lacks.
    pub(crate) fn poll_handoff(&mut self, out: &mut Outbox) -> Progress {
        let Some(departure) = &self.departure else { return Progress::HandedOff };
        if departure.tasks.is_empty() {
            return Progress::HandedOff;
        }
        for task in &departure.tasks {
            let Some(keeper) = task.keepers.first() else { continue };
            let request = Request::Handoff { kind: task.kind, arc: task.arc };
            let patience = out.config.initial_timeout.saturating_mul(2);
            out.call_patiently(CallOwner::Handoff(task.number), keeper, request, patience);
        }
        Progress::Leaving { missing: departure.missing() }
    }

    /// A keeper's answer, or its failure (`None`).
    pub(crate) fn on_handoff_answer(
        &mut self,
        out: &mut Outbox,
        number: u64,
        response: Option<Response>,
    ) -> Option<Progress> {
        let departure = self.departure.as_mut()?;
        let at = departure.tasks.iter().position(|task| task.number == number)?;
        let task = &mut departure.tasks[at];
        match response {
            Some(Response::HandoffMissing { missing: Some(0) }) => {
                departure.tasks.remove(at);
            }
            Some(Response::HandoffMissing { missing }) => {
                task.missing = missing;
                task.failures = 0;
            }
            Some(Response::Busy) => {}
            _ => {
                task.failures += 1;
                if task.failures > MAX_FAILURES {
                    task.failures = 0;
                    task.keepers.remove(0);
                }
                if task.keepers.is_empty() {
                    // Nobody is left to take it.
                    departure.tasks.remove(at);
                }
            }
        }
        if departure.tasks.is_empty() {
            return Some(Progress::HandedOff);
        }
        out.timers.set_by(Timer::HandoffPoll, out.now.after(POLL));
        Some(Progress::Leaving { missing: departure.missing() })
    }

    /// A leaver asks us to copy an arc from it: a comparison like any other, which ends complete.
    pub(super) fn serve_handoff(
        &mut self,
        out: &mut Outbox,
        reply: ReplyId,
        from: Contact,
        kind: Kind,
        arc: Interval,
    ) {
        let plan = Plan { kind, arc, from };
        let running = self.sessions.values().find(|session| session.plan == plan);
        let missing = match running {
            Some(session) => Some(session.missing().max(1)),
            None if self.handed.iter().any(|held| *held == plan) => {
                self.handed.retain(|held| *held != plan);
                Some(0)
            }
            None => {
                // What was compared before this question does not count: more may have been
                // written since.
                if !self.requested.contains(&plan) {
                    self.requested.push_back(plan.clone());
                    if self.requested.len() > MAX_HANDED {
                        self.requested.pop_front();
                    }
                }
                self.plan(plan);
                self.start_sessions(out);
                None
            }
        };
        out.reply(reply, Response::HandoffMissing { missing });
    }

    /// Notes that a comparison which a leaver asked for ended complete.
    pub(super) fn note_handed(&mut self, session: &Session) {
        if !self.requested.contains(&session.plan) {
            return;
        }
        self.requested.retain(|held| *held != session.plan);
        self.handed.push_back(session.plan.clone());
        if self.handed.len() > MAX_HANDED {
            self.handed.pop_front();
        }
    }
}

/// Comparisons that ended complete and are remembered for leavers (guess: several leavers at once).
const MAX_HANDED: usize = 64;

impl Departure {
    fn missing(&self) -> Option<u64> {
        self.tasks.iter().map(|task| task.missing).try_fold(0, |sum, held| Some(sum + held?))
    }
}
