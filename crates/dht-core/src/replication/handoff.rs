//! Leaving for good: the new keepers of every arc copy it before the links go. The other side of
//! the same question, too: copying an arc from somebody who will not hold it any more.

use std::time::Duration;

use super::session::{Ended, Session};
use super::{Plan, Progress, Replication};
use crate::event::ReplyId;
use crate::interval::Interval;
use crate::message::ring::{Kind, Request, Response};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;
use crate::surroundings::Surroundings;
use crate::timer::Timer;

/// How often a new keeper is asked how much it still lacks (guess: often enough for a progress bar).
const POLL: Duration = Duration::from_millis(100);
/// How often a keeper may fail to answer before another one is sought. Until then its own neighbours
/// find out whether it is dead (guess).
const MAX_FAILURES: u32 = 5;
/// Comparisons that others asked for and that are remembered (guess: several leavers at once).
const MAX_REQUESTED: usize = 64;

/// What a leaver has to hand off.
#[derive(Clone, Debug, Default)]
pub(super) struct Departure {
    tasks: Vec<Task>,
}

#[derive(Clone, Debug)]
struct Task {
    /// Names its calls.
    number: u64,
    kind: Kind,
    arc: Interval,
    /// Peers that could become the keeper, the right one first.
    keepers: Vec<Contact>,
    failures: u32,
    missing: Option<u64>,
    is_asked: bool,
}

impl Replication {
    /// Begins to hand off; with nobody there to take anything, that is already the end.
    pub(crate) fn begin_leave(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
    ) -> Option<Progress> {
        let mut departure = Departure::default();
        let after = around.peers_after();
        for (kind, copies) in [
            (Kind::Registers, around.params.register_copies()),
            (Kind::Chunks, usize::from(around.params.replicas)),
        ] {
            for (at, arc) in around.kept_arcs(copies).into_iter().enumerate() {
                // Without us, the set of arc `at` reaches one peer further: the one this many
                // places after us. Where there are fewer peers, everybody keeps it already.
                let first = copies.saturating_sub(at + 1);
                let keepers: Vec<Contact> = after.iter().skip(first).cloned().collect();
                // In a ring that small, the others share all; the nearest makes sure of it.
                let keepers = if keepers.is_empty() { after.clone() } else { keepers };
                if !keepers.is_empty() {
                    departure.tasks.push(Task {
                        number: out.draw_number(),
                        kind,
                        arc,
                        keepers,
                        failures: 0,
                        missing: None,
                        is_asked: false,
                    });
                }
            }
        }
        self.departure = Some(departure);
        self.poll_handoff(out, around)
    }

    /// Whether this node has begun to leave for good. It acknowledges no writes any more: its copy
    /// will be gone, and the comparisons of the new keepers may be over.
    pub(super) fn is_leaving(&self) -> bool {
        self.departure.is_some()
    }

    /// A new keeper that is no neighbour any more is gone; the next one takes its place.
    pub(super) fn drop_lost_keepers(&mut self, out: &mut Outbox, around: &Surroundings<'_>) {
        let Some(departure) = &mut self.departure else { return };
        let listed = |contact: &Contact| around.successors.iter().any(|held| held.id == contact.id);
        for task in &mut departure.tasks {
            let first = task.keepers.first().map(|held| held.id);
            task.keepers.retain(listed);
            if task.keepers.first().map(|held| held.id) != first {
                // A late answer of the one that is gone must not count for the next.
                task.number = out.draw_number();
                task.is_asked = false;
                task.failures = 0;
            }
        }
        // Nobody is left to take it.
        departure.tasks.retain(|task| !task.keepers.is_empty());
    }

    /// Asks every new keeper how much it lacks. `None`: we are not leaving.
    pub(crate) fn poll_handoff(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
    ) -> Option<Progress> {
        self.push_surplus(out.now, around);
        self.poll_pushes(out);
        if let Some(departure) = &mut self.departure {
            departure.tasks.iter_mut().for_each(|task| task.ask(out));
        }
        self.after_handoff_step(out)
    }

    /// The answer of a new keeper, or its failure (`None`).
    pub(crate) fn on_handoff_answer(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        number: u64,
        response: Option<Response>,
    ) -> Option<Progress> {
        self.on_push_answer(out.now, around, number, response.as_ref());
        if let Some(departure) = &mut self.departure {
            departure.on_answer(number, response.as_ref());
        }
        self.after_handoff_step(out)
    }

    /// Somebody who will not hold an arc any more asks us to copy it: a comparison like any other,
    /// which ends complete.
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
            None if self.handed.contains(&plan) => {
                self.handed.retain(|held| *held != plan);
                Some(0)
            }
            None => {
                // What was compared before this question does not count: more may have been
                // written since.
                if !self.requested.contains(&plan) {
                    self.requested.push_back(plan.clone());
                    if self.requested.len() > MAX_REQUESTED {
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

    /// Notes that a comparison which somebody asked for ended complete.
    pub(super) fn note_handed(&mut self, session: &Session, ended: Ended) {
        let plan = &session.plan;
        let Ended::Complete { open } = ended else { return };
        if !self.requested.contains(plan) {
            return;
        }
        self.requested.retain(|held| held != plan);
        self.handed.push_back(plan.clone());
        if self.handed.len() > MAX_REQUESTED {
            self.handed.pop_front();
        }
        // From now on it is held here, whatever becomes of the one it came from. If it belongs to
        // somebody else, it will be handed on.
        match plan.kind {
            Kind::Registers if open => {
                for arc in self.open.missing(&plan.arc) {
                    self.take_on(Kind::Registers, &arc);
                }
            }
            Kind::Registers => {}
            Kind::Chunks => self.take_on(Kind::Chunks, &plan.arc),
        }
    }

    fn after_handoff_step(&mut self, out: &mut Outbox) -> Option<Progress> {
        if let Some(due) = self.next_push(out.now.after(POLL)) {
            out.timers.set_by(Timer::HandoffPoll, due);
        }
        let departure = self.departure.as_ref()?;
        if departure.tasks.is_empty() && self.is_surplus_done() {
            return Some(Progress::HandedOff);
        }
        out.timers.set_by(Timer::HandoffPoll, out.now.after(POLL));
        Some(Progress::Leaving { missing: departure.missing() })
    }
}

impl Departure {
    fn on_answer(&mut self, number: u64, response: Option<&Response>) {
        let Some(at) = self.tasks.iter().position(|task| task.number == number) else { return };
        let task = &mut self.tasks[at];
        task.is_asked = false;
        match response {
            Some(Response::HandoffMissing { missing: Some(0) }) => {
                self.tasks.remove(at);
            }
            Some(Response::HandoffMissing { missing }) => {
                task.missing = *missing;
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
                    self.tasks.remove(at);
                }
            }
        }
    }

    fn missing(&self) -> Option<u64> {
        self.tasks.iter().map(|task| task.missing).try_fold(0, |sum, held| Some(sum + held?))
    }
}

impl Task {
    fn ask(&mut self, out: &mut Outbox) {
        if let Some(keeper) = self.keepers.first()
            && !self.is_asked
        {
            self.is_asked = true;
            let request = Request::Handoff { kind: self.kind, arc: self.arc };
            let patience = out.config.initial_timeout.saturating_mul(2);
            out.call_patiently(CallOwner::Handoff(self.number), keeper, request, patience);
        }
    }
}
