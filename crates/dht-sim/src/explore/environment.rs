//! What the environment may do: who may be asked for a place, who may die, when a timer may fire.

use super::letters::{Letter, Sort};
use super::state::{Seat, State};
use super::steps::World;
use super::summary::{Summary, let_in_by};

impl World {
    /// Whom one that looks for a place may ask: a new one anybody; one that had a place only those
    /// to whom the ways lead that it remembers. A lookup ends at one whose list the place fits
    /// into; asking one whose list changes meanwhile is asking it later.
    pub(super) fn hosts<'a>(
        &'a self,
        state: &'a State,
        seeker: &'a Summary,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let within = if seeker.is_host() { self.reach(state, seeker) } else { u8::MAX };
        let fits = move |(host, node): &(usize, u32)| {
            *host != seeker.place
                && within & (1 << host) != 0
                && self.locals.summary(*node).would_host(seeker.place)
        };
        state.running().filter(fits).map(|(host, _)| host)
    }

    /// Those that run and can be found from whom a node remembers, as bits.
    fn reach(&self, state: &State, from: &Summary) -> u8 {
        let mut found: u8 = 0;
        let mut next: Vec<u8> = from.remembered.iter().map(|held| held.0).collect();
        while let Some(at) = next.pop() {
            if found & (1 << at) != 0 {
                continue;
            }
            let Some(node) = state.node(at.into()) else { continue };
            found |= 1 << at;
            let summary = self.locals.summary(node);
            let near = summary.successors.iter().chain(&summary.predecessor);
            next.extend(near.map(|held| held.0));
        }
        found
    }

    /// Whether few enough of a node's own words are in flight for its timer to fire.
    pub(super) fn is_rested(&self, state: &State, place: usize) -> bool {
        if self.flight.told == u8::MAX {
            return true;
        }
        let told = |letter: &&Letter| letter.sort() == Sort::Tell && letter.from() == place;
        state.flight().iter().filter(told).count() <= usize::from(self.flight.told)
    }

    pub(super) fn may_start(&self, state: &State, place: usize) -> bool {
        match state.seats[place] {
            Seat::Free => true,
            Seat::Dead { .. } => self.rejoins,
            Seat::Runs(_) => false,
        }
    }

    /// Whether the environment may kill this node: somebody who has a place survives, and the
    /// fault takes from nobody the last live entry of its list (`docs/protocol.md`,
    /// "What must hold"). A list on its way to a joiner counts as that joiner's. A false verdict
    /// can part the ring, and then the only one that both parts know must not die either.
    pub(super) fn may_fail(&self, state: &State, place: usize) -> bool {
        let mut hosts: u8 = 0;
        let mut others = 0;
        for (at, node) in state.running().filter(|(at, _)| *at != place) {
            if self.locals.summary(node).is_host() {
                hosts |= 1 << at;
                others += 1;
            }
        }
        if others == 0 {
            return false;
        }
        let with = hosts | (1 << place);
        let loses_list = |at: usize, node: u32| {
            let summary = self.locals.summary(node);
            let had = summary.has_entry(with & !(1 << at));
            summary.is_member() && had && !summary.has_entry(hosts & !(1 << at))
        };
        if others > 1 && state.running().any(|(at, node)| at != place && loses_list(at, node)) {
            return false;
        }
        if state.suspicions < self.suspicions && !self.know_of_each_other(state, hosts) {
            return false;
        }
        let answers = |letter: &&Letter| letter.to() != place && letter.sort() == Sort::Answer;
        state.flight().iter().filter(answers).all(|letter| {
            let body = self.locals.bodies.get(letter.body());
            let_in_by(body, letter.from()).is_none_or(|list| list & hosts != 0)
        })
    }

    /// Whether these know of each other, in one direction at least and through others of them too.
    fn know_of_each_other(&self, state: &State, hosts: u8) -> bool {
        let knows = |(at, node): (usize, u32)| {
            let known = self.locals.summary(node).remembered.iter();
            known.fold(1u8 << at, |all, held| all | (1 << held.0)) & hosts
        };
        let groups: Vec<u8> =
            state.running().filter(|(at, _)| hosts & (1 << at) != 0).map(knows).collect();
        let mut met = groups.first().copied().unwrap_or(0);
        for _ in &groups {
            let touches = |group: &&u8| **group & met != 0;
            met = groups.iter().filter(touches).fold(met, |all, group| all | group);
        }
        met == hosts
    }
}
