//! Opening an arc: when a node may say that it holds every register of it.
//!
//! A node opens an arc once it has pulled the registers from a majority of the arc's keepers that
//! hold it open, or from all of its keepers that live when fewer are open - the growth from a few
//! nodes, where the new keepers outnumber the old - and at least one is (after V6 of the view rules
//! in `docs/protocol.md`).

use std::collections::BTreeMap;

use super::session::Ended;
use super::{Plan, Replication};
use crate::config::majority;
use crate::id::Id;
use crate::interval::{Interval, IntervalSet};
use crate::message::ring::Kind;
use crate::peer::Contact;
use crate::view::View;

/// An arc on its way to being open.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Opening {
    arc: Interval,
    /// The other keepers, and the one who was a keeper before us.
    keepers: Vec<Contact>,
    /// Peers further on, asked as long as no keeper holds the arc open.
    further: Vec<Contact>,
    /// Who was pulled from, and whether it held the arc open.
    pulled: BTreeMap<Id, bool>,
}

impl Replication {
    /// Whether some arc is not open yet.
    pub(super) fn is_opening(&self) -> bool {
        !self.openings.is_empty()
    }

    /// Closes what is not kept any more, and notes what has to be opened.
    pub(super) fn plan_openings(&mut self, view: &View<'_>) {
        let copies = view.params.register_copies();
        let arcs = view.kept_arcs(copies);
        if arcs.is_empty() {
            return;
        }
        let mut kept = IntervalSet::new();
        arcs.iter().for_each(|arc| kept.insert(*arc));
        let before = self.open.clone();
        let outside: Vec<Interval> =
            self.open.arcs().iter().flat_map(|arc| kept.missing(arc)).collect();
        outside.iter().for_each(|arc| self.open.remove(arc));
        self.changed |= self.open != before;
        if view.alone {
            self.openings.clear();
            return;
        }
        let (behind, ahead) = (view.peers_before(), view.peers_after());
        let mut openings = Vec::new();
        for (at, arc) in arcs.iter().enumerate() {
            let nearer = behind.iter().take(at).cloned();
            let farther = ahead.iter().take(copies.saturating_sub(at)).cloned();
            let mut keepers: Vec<Contact> = Vec::new();
            for contact in nearer.chain(farther) {
                if keepers.iter().all(|held| held.id != contact.id) {
                    keepers.push(contact);
                }
            }
            let is_keeper = |contact: &&Contact| keepers.iter().any(|held| held.id == contact.id);
            let further = ahead.iter().filter(|held| !is_keeper(held)).cloned().collect();
            for arc in self.open.missing(arc) {
                let pulled = self
                    .openings
                    .iter()
                    .find(|held| held.arc == arc)
                    .map(|held| held.pulled.clone())
                    .unwrap_or_default();
                let (keepers, further) = (keepers.clone(), Vec::clone(&further));
                openings.push(Opening { arc, keepers, further, pulled });
            }
        }
        self.openings = openings;
        self.open_what_is_pulled(view);
    }

    /// Compares registers with those that were not pulled from yet.
    pub(super) fn plan_opening_sessions(&mut self, _view: &View<'_>) {
        let mut plans = Vec::new();
        for opening in &self.openings {
            let nobody_open = !opening.pulled.values().any(|open| *open);
            let all_asked =
                opening.keepers.iter().all(|held| opening.pulled.contains_key(&held.id));
            let further: &[Contact] = if nobody_open && all_asked { &opening.further } else { &[] };
            for from in opening.keepers.iter().chain(further) {
                if opening.pulled.get(&from.id) != Some(&true) {
                    let (arc, from) = (opening.arc, from.clone());
                    plans.push(Plan { kind: Kind::Registers, arc, from });
                }
            }
        }
        plans.into_iter().for_each(|plan| self.plan(plan));
    }

    /// A comparison ended; an arc may be open now.
    pub(super) fn note_opening(&mut self, view: &View<'_>, plan: &Plan, ended: Ended) {
        let Ended::Complete { open } = ended else { return };
        if plan.kind != Kind::Registers {
            return;
        }
        for opening in self.openings.iter_mut().filter(|held| held.arc == plan.arc) {
            opening.pulled.insert(plan.from.id, open);
        }
        self.open_what_is_pulled(view);
    }

    fn open_what_is_pulled(&mut self, view: &View<'_>) {
        let copies = view.params.register_copies();
        let (open, left): (Vec<Opening>, Vec<Opening>) =
            std::mem::take(&mut self.openings).into_iter().partition(|held| held.is_done(copies));
        self.openings = left;
        for opening in open {
            self.open.insert(opening.arc);
            self.changed = true;
        }
    }
}

impl Opening {
    fn is_done(&self, copies: usize) -> bool {
        let open = self.pulled.values().filter(|open| **open).count();
        let set = (self.keepers.len() + 1).min(copies);
        let all_keepers = !self.keepers.is_empty()
            && self.keepers.iter().all(|held| self.pulled.contains_key(&held.id));
        open >= majority(set) || (open > 0 && all_keepers)
    }
}
