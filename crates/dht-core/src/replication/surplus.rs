//! What a node holds and does not keep any more: handed to those who keep it.
//!
//! A joiner, or a part of the ring that was found again, takes arcs out of a node's range. As long
//! as the new keepers lack what lies there, this node is the one that has it, and a lookup may not
//! lead here any more. So the node looks up who keeps the arc, piece by piece, and has each of them
//! copy it, as a leaver does (`docs/decisions/0007-surplus-is-handed-on.md`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::Replication;
use super::ranges::{outside, possible_arcs, sure_arcs};
use crate::config::majority;
use crate::id::Id;
use crate::interval::{Interval, IntervalSet};
use crate::message::ring::{Kind, Request, Response};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;
use crate::surroundings::{Surroundings, distinct};
use crate::time::Instant;
use crate::timer::Timer;

/// How long after a failure the keepers are looked up again (guess: as long as it takes to notice
/// that a keeper died).
const REST: Duration = Duration::from_secs(1);
/// How often a keeper may fail before the keepers are looked up again (guess).
const MAX_FAILURES: u32 = 3;
/// Most arcs that are noted; more are not taken on (guess: a node that lost a range to each of as
/// many joiners).
const MAX_ARCS: usize = 1024;

/// A handing on, one piece of one kind at a time.
#[derive(Clone, Debug)]
struct Push {
    /// The end of the piece.
    point: Id,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Its keepers are wanted.
    Wanted,
    /// They are being looked up.
    LookingUp,
    /// These keepers do not have the piece yet.
    Handing { piece: Interval, left: Vec<Keeper>, failures: u32 },
    /// The keepers cannot be found or reached; again then.
    Resting { until: Instant },
}

#[derive(Clone, Debug)]
struct Keeper {
    /// Names the calls to it.
    number: u64,
    contact: Contact,
    is_asked: bool,
}

/// Chunks that are not kept any more, and what is handed on at the moment: of them, and of the
/// registers in [`Replication`]'s `held`.
#[derive(Clone, Debug, Default)]
pub(super) struct Surplus {
    /// Arcs whose chunks this node kept once.
    chunks: IntervalSet,
    /// Arcs whose chunks this node keeps.
    kept_chunks: IntervalSet,
    pushes: BTreeMap<Kind, Push>,
    /// Pushes in a row that failed.
    failures: u32,
}

impl Surplus {
    /// The only node of a ring keeps everything.
    pub(super) fn founding(everything: Interval) -> Surplus {
        let mut surplus = Surplus::default();
        surplus.kept_chunks.insert(everything);
        surplus
    }
}

impl Replication {
    /// The next point whose owner, predecessor and successors are wanted by
    /// [`Replication::on_keepers`].
    pub(crate) fn take_wanted(&mut self) -> Option<(Kind, Id)> {
        let wanted = |(_, push): &(&Kind, &mut Push)| matches!(push.stage, Stage::Wanted);
        let (kind, push) = self.surplus.pushes.iter_mut().find(wanted)?;
        push.stage = Stage::LookingUp;
        Some((*kind, push.point))
    }

    /// Who keeps the piece that is to be handed on: the owner, the one before it, and those after
    /// it; `None`: they were not found.
    pub(crate) fn on_keepers(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        kind: Kind,
        found: Option<(Contact, Option<Contact>, Vec<Contact>)>,
    ) {
        let (copies, enough) = match kind {
            Kind::Registers => {
                let copies = around.params.register_copies();
                (copies, majority(copies))
            }
            Kind::Chunks => {
                (usize::from(around.params.replicas), usize::from(around.params.replicas))
            }
        };
        let arcs = self.surplus_arcs(around, kind);
        let Some(push) = self.surplus.pushes.get_mut(&kind) else { return };
        if !matches!(push.stage, Stage::LookingUp) {
            return;
        }
        let piece = found.as_ref().and_then(|(owner, before, _)| {
            let start = before.as_ref().map_or(owner.id, |before| before.id);
            let owned = Interval::new(start, owner.id);
            let pieces = arcs.iter().flat_map(|arc| arc.intersection(&owned));
            pieces.into_iter().find(|piece| piece.contains(push.point))
        });
        let keepers = found.map(|(owner, _, after)| {
            let after = distinct(&owner, &after);
            let keepers = std::iter::once(&owner).chain(after).take(copies).cloned();
            keepers.collect::<Vec<Contact>>()
        });
        push.stage = match (piece, keepers) {
            // If the ring takes us for a keeper, our own lists will soon say so too.
            (Some(piece), Some(keepers))
                if keepers.iter().all(|held| held.key() != around.me.key()) =>
            {
                let left = keepers.into_iter().take(enough);
                let left = left.map(|contact| Keeper {
                    number: out.draw_number(),
                    contact,
                    is_asked: false,
                });
                Stage::Handing { piece, left: left.collect(), failures: 0 }
            }
            _ => Stage::Resting { until: out.now.after(REST) },
        };
        if let Stage::Resting { until } = push.stage {
            self.surplus.failures = self.surplus.failures.saturating_add(1);
            out.timers.set_by(Timer::HandoffPoll, until);
        }
        self.poll_pushes(out);
    }

    /// Ranges changed: what fell out of them is surplus, what came back is not.
    pub(super) fn note_surplus(&mut self, around: &Surroundings<'_>) {
        let copies = usize::from(around.params.replicas);
        let possible = possible_arcs(around, copies);
        for arc in sure_arcs(around, copies) {
            self.surplus.kept_chunks.insert(arc);
            self.surplus.chunks.remove(&arc);
        }
        for arc in outside(&self.surplus.kept_chunks, &possible) {
            self.surplus.kept_chunks.remove(&arc);
            self.take_on(Kind::Chunks, &arc);
        }
    }

    /// Notes an arc that this node holds for others.
    pub(super) fn take_on(&mut self, kind: Kind, arc: &Interval) {
        let arcs = match kind {
            Kind::Registers => &mut self.held,
            Kind::Chunks => &mut self.surplus.chunks,
        };
        if arcs.arcs().len() < MAX_ARCS {
            arcs.insert(*arc);
            self.changed |= kind == Kind::Registers;
        }
    }

    /// A register was written here. Where its arc is not open it is handed on by itself, should this node
    /// never come to hold the rest: a ring that is cut may be whole again before that.
    pub(super) fn note_accepted(&mut self, point: Id) {
        if !self.is_open(point) && self.accepted.arcs().len() < MAX_ARCS {
            let before = point.wrapping_sub(Id::ZERO.next());
            self.accepted.insert(Interval::new(before, point));
        }
    }

    /// Begins to hand on the next pieces, if there are any.
    pub(super) fn push_surplus(&mut self, now: Instant, around: &Surroundings<'_>) {
        for kind in [Kind::Registers, Kind::Chunks] {
            let arcs = self.surplus_arcs(around, kind);
            if let Some(push) = self.surplus.pushes.get(&kind) {
                let is_over = match &push.stage {
                    Stage::Wanted | Stage::LookingUp => false,
                    Stage::Resting { until } => *until <= now,
                    Stage::Handing { piece, .. } => {
                        !arcs.iter().any(|arc| piece.difference(arc).is_empty())
                    }
                };
                if !is_over {
                    continue;
                }
                self.surplus.pushes.remove(&kind);
            }
            if let Some(arc) = arcs.first() {
                let push = Push { point: arc.end, stage: Stage::Wanted };
                self.surplus.pushes.insert(kind, push);
            }
        }
    }

    /// Whether everything this node held for others has been handed on, or cannot be.
    pub(super) fn is_surplus_done(&self) -> bool {
        self.surplus.pushes.is_empty() || self.surplus.failures > MAX_FAILURES
    }

    /// Asks every keeper that lacks a piece how much.
    pub(super) fn poll_pushes(&mut self, out: &mut Outbox) {
        for (kind, push) in &mut self.surplus.pushes {
            let Stage::Handing { piece, left, .. } = &mut push.stage else { continue };
            for keeper in left.iter_mut().filter(|keeper| !keeper.is_asked) {
                keeper.is_asked = true;
                let request = Request::Handoff { kind: *kind, arc: *piece };
                let patience = out.config.initial_timeout.saturating_mul(2);
                let owner = CallOwner::Handoff(keeper.number);
                out.call_patiently(owner, &keeper.contact, request, patience);
            }
        }
    }

    /// A keeper's answer to a push, or its failure (`None`).
    pub(super) fn on_push_answer(
        &mut self,
        now: Instant,
        around: &Surroundings<'_>,
        number: u64,
        response: Option<&Response>,
    ) {
        for (kind, push) in &mut self.surplus.pushes {
            let Stage::Handing { piece, left, failures } = &mut push.stage else { continue };
            let Some(at) = left.iter().position(|keeper| keeper.number == number) else { continue };
            left[at].is_asked = false;
            match response {
                Some(Response::HandoffMissing { missing: Some(0) }) => {
                    left.remove(at);
                }
                Some(Response::HandoffMissing { .. } | Response::Busy) => {}
                _ => *failures += 1,
            }
            if left.is_empty() {
                let (kind, piece) = (*kind, *piece);
                return self.handed_on(now, around, kind, &piece);
            }
            if *failures > MAX_FAILURES {
                push.stage = Stage::Resting { until: now.after(REST) };
                self.surplus.failures = self.surplus.failures.saturating_add(1);
            }
        }
    }

    /// Its keepers have a piece: this node need not hold it any more.
    fn handed_on(&mut self, now: Instant, around: &Surroundings<'_>, kind: Kind, piece: &Interval) {
        self.surplus.failures = 0;
        self.surplus.pushes.remove(&kind);
        match kind {
            Kind::Registers => {
                self.held.remove(piece);
                self.accepted.remove(piece);
            }
            Kind::Chunks => self.surplus.chunks.remove(piece),
        }
        self.changed |= kind == Kind::Registers;
        self.push_surplus(now, around);
    }

    /// When keepers are to be asked again, if at all: at `soon`, or after a rest.
    pub(super) fn next_push(&self, soon: Instant) -> Option<Instant> {
        let due = |push: &Push| match push.stage {
            Stage::Wanted | Stage::LookingUp => None,
            Stage::Handing { .. } => Some(soon),
            Stage::Resting { until } => Some(until),
        };
        self.surplus.pushes.values().filter_map(due).min()
    }

    fn surplus_arcs(&self, around: &Surroundings<'_>, kind: Kind) -> Vec<Interval> {
        if around.alone {
            return Vec::new();
        }
        match kind {
            Kind::Registers if self.held.is_empty() && self.accepted.is_empty() => Vec::new(),
            Kind::Chunks if self.surplus.chunks.is_empty() => Vec::new(),
            Kind::Registers => {
                let possible = possible_arcs(around, around.params.register_copies());
                let mut arcs = outside(&self.held, &possible);
                arcs.extend(outside(&self.accepted, &possible));
                arcs
            }
            Kind::Chunks => {
                let copies = usize::from(around.params.replicas);
                outside(&self.surplus.chunks, &possible_arcs(around, copies))
            }
        }
    }
}
