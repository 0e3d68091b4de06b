//! Opening an arc: when a node may say that it holds every register of it.
//!
//! A node opens an arc once it has pulled the registers from a majority of the arc's keepers that
//! hold it open; or from all its keepers, if one of them - or somebody before them, or this node by
//! what was handed to it - holds the arc completely. The second is how a ring grows, when new
//! keepers outnumber the old.
//!
//! An arc that is not kept any more is closed, and stays *held* until its keepers have it.

use std::collections::BTreeMap;

use super::ranges::{outside, possible_arcs, sure_arcs};
use super::session::Ended;
use super::{Plan, Replication};
use crate::config::majority;
use crate::id::Id;
use crate::interval::{Interval, IntervalSet};
use crate::message::ring::Kind;
use crate::peer::Contact;
use crate::surroundings::Surroundings;

/// An arc on its way to being open.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Opening {
    arc: Interval,
    /// The other keepers, and the one who was a keeper before us.
    keepers: Vec<Contact>,
    /// Peers further on, asked as long as no keeper holds the arc completely.
    further: Vec<Contact>,
    /// Who was pulled from, and whether it held the arc completely.
    pulled: BTreeMap<Id, bool>,
    /// How many of them are a majority of the arc's keepers.
    enough: usize,
}

impl Replication {
    /// Whether some arc is not open yet.
    pub(super) fn is_opening(&self) -> bool {
        !self.openings.is_empty()
    }

    /// Closes what is not kept any more, and notes what has to be opened.
    pub(super) fn plan_openings(&mut self, around: &Surroundings<'_>) {
        let copies = around.params.register_copies();
        self.close_outside(&possible_arcs(around, copies));
        let (behind, ahead) = (around.peers_before(), around.peers_after());
        let mut openings = Vec::new();
        for (at, kept) in sure_arcs(around, copies).iter().enumerate() {
            let nearer = behind.iter().take(at).cloned();
            let farther = ahead.iter().take(copies.saturating_sub(at)).cloned();
            let mut keepers: Vec<Contact> = Vec::new();
            for contact in nearer.chain(farther) {
                if keepers.iter().all(|held| held.id != contact.id) {
                    keepers.push(contact);
                }
            }
            let is_keeper = |contact: &&Contact| keepers.iter().any(|held| held.id == contact.id);
            let further: Vec<Contact> =
                ahead.iter().filter(|held| !is_keeper(held)).cloned().collect();
            for arc in self.open.missing(kept) {
                let before = self.openings.iter().find(|held| held.arc == arc);
                let pulled = before.map(|held| held.pulled.clone()).unwrap_or_default();
                let enough = majority((keepers.len() + 1).min(copies));
                let (keepers, further) = (keepers.clone(), further.clone());
                openings.push(Opening { arc, keepers, further, pulled, enough });
            }
        }
        self.openings = openings;
        self.open_what_is_pulled();
    }

    /// Compares registers with those that were not pulled from yet.
    pub(super) fn plan_opening_sessions(&mut self) {
        let mut plans = Vec::new();
        for opening in &self.openings {
            for from in opening.sources() {
                let (arc, from) = (opening.arc, from.clone());
                plans.push(Plan { kind: Kind::Registers, arc, from });
            }
        }
        plans.into_iter().for_each(|plan| self.plan(plan));
    }

    /// A comparison ended; an arc may be open now.
    pub(super) fn note_opening(&mut self, plan: &Plan, ended: Ended) {
        let Ended::Complete { open } = ended else { return };
        if plan.kind != Kind::Registers {
            return;
        }
        for opening in self.openings.iter_mut().filter(|held| held.arc == plan.arc) {
            opening.pulled.insert(plan.from.id, open);
        }
        self.open_what_is_pulled();
    }

    /// Opens every arc for which enough was pulled.
    pub(super) fn open_what_is_pulled(&mut self) {
        let held = std::mem::take(&mut self.openings);
        let (open, left): (Vec<Opening>, Vec<Opening>) =
            held.into_iter().partition(|opening| opening.is_done(&self.held));
        self.openings = left;
        for opening in open {
            self.open_arc(&opening.arc);
        }
    }

    /// From now on this node votes on the arc.
    pub(super) fn open_arc(&mut self, arc: &Interval) {
        self.open.insert(*arc);
        self.held.remove(arc);
        self.accepted.remove(arc);
        self.stale.remove(arc);
        self.changed = true;
    }

    fn close_outside(&mut self, possible: &IntervalSet) {
        for arc in outside(&self.open, possible) {
            self.open.remove(&arc);
            self.held.insert(arc);
            self.changed = true;
        }
    }
}

impl Opening {
    /// Who is still to be pulled from.
    fn sources(&self) -> impl Iterator<Item = &Contact> {
        let nobody_open = !self.pulled.values().any(|open| *open);
        let further: &[Contact] =
            if nobody_open && self.are_keepers_pulled() { &self.further } else { &[] };
        let sources = self.keepers.iter().chain(further);
        sources.filter(|from| self.pulled.get(&from.id) != Some(&true))
    }

    /// `held`: what this node was handed completely, or held when it was a keeper before.
    fn is_done(&self, held: &IntervalSet) -> bool {
        let open = self.keepers.iter().filter(|from| self.pulled.get(&from.id) == Some(&true));
        let has_source = self.pulled.values().any(|open| *open) || held.covers(&self.arc);
        open.count() >= self.enough || (has_source && self.are_keepers_pulled())
    }

    fn are_keepers_pulled(&self) -> bool {
        !self.keepers.is_empty()
            && self.keepers.iter().all(|held| self.pulled.contains_key(&held.id))
    }
}
