//! Whether upkeep alone repairs a state: a fair schedule, worked out from the state alone, must
//! lead to the ideal ring of those who run.

use dht_core::node::steer::Alarm;

use super::fingerprint;
use super::letters::Letter;
use super::state::State;
use super::steps::{Step, World, is_lost};
use super::summary::{Known, Summary};
use super::table::Table;

/// Most steps until nothing is in flight any more.
const MAX_DRAIN: usize = 3000;
/// Rounds of upkeep without the search for lost parts. A ring of four needs about four.
const PLAIN_ROUNDS: usize = 12;
/// Rounds with it.
const SEARCH_ROUNDS: usize = 8;

/// How a state is repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repair {
    /// By STABILIZE and RECTIFY, and by joins tried again.
    ByUpkeep,
    /// Only once nodes ping those they remember.
    ByMemory,
    /// Not at all, as far as the schedule went.
    Never,
    /// Messages cause messages without end.
    Endless,
}

/// What is known of states that were repaired before, with nothing in flight.
#[derive(Debug, Default)]
pub(super) struct Repaired {
    by_upkeep: Table,
    by_memory: Table,
}

impl World {
    /// Whether and how a state is repaired.
    pub(super) fn repair(&mut self, from: &State, known: &mut Repaired) -> (Repair, State) {
        let mut state = *from;
        let repair = self.run_repair(&mut state, known);
        (repair, state)
    }

    fn run_repair(&mut self, state: &mut State, known: &mut Repaired) -> Repair {
        let mut passed = Vec::new();
        let mut found = None;
        for round in 0..PLAIN_ROUNDS + SEARCH_ROUNDS {
            if !self.drain(state) {
                return Repair::Endless;
            }
            let key = state.fingerprint();
            if round < PLAIN_ROUNDS && known.by_upkeep.contains(key) {
                found = Some(Repair::ByUpkeep);
            } else if round < PLAIN_ROUNDS && known.by_memory.contains(key) {
                found = Some(Repair::ByMemory);
            }
            passed.push(key);
            if found.is_none() && self.is_ideal(state) {
                found =
                    Some(if round <= PLAIN_ROUNDS { Repair::ByUpkeep } else { Repair::ByMemory });
            }
            if found.is_some() {
                break;
            }
            if round >= PLAIN_ROUNDS && !self.search(state) {
                return Repair::Endless;
            }
            if !self.upkeep(state) {
                return Repair::Endless;
            }
        }
        match found {
            Some(Repair::ByUpkeep) => {
                passed.iter().for_each(|key| _ = known.by_upkeep.insert(*key))
            }
            Some(Repair::ByMemory) => {
                passed.iter().take(1).for_each(|key| _ = known.by_memory.insert(*key));
            }
            _ => {}
        }
        found.unwrap_or(Repair::Never)
    }

    /// Whether all who run form the ring that the order of the circle says.
    pub(super) fn is_ideal(&self, state: &State) -> bool {
        let ring: Vec<&Summary> =
            state.running().map(|(_, node)| self.locals.summary(node)).collect();
        let others = ring.len() - 1;
        if others == 0 {
            return ring[0].is_host()
                && ring[0].successors.is_empty()
                && ring[0].predecessor.is_none();
        }
        let depth = others.min(self.list);
        ring.iter().enumerate().all(|(at, held)| {
            let after = |step: usize| {
                let other = ring[(at + step) % ring.len()];
                (other.place as u8, other.life)
            };
            held.is_member()
                && held.successors.len() == depth
                && held.successors.iter().zip(1..).all(|(entry, step)| *entry == after(step))
                && held.predecessor == Some(after(others))
        })
    }

    /// The links of all nodes, as one number.
    pub(super) fn shape(&self, state: &State) -> u128 {
        let mut words = Vec::with_capacity(32);
        for (place, node) in state.running() {
            let held = self.locals.summary(node);
            let known = |held: &Known| (u64::from(held.0) << 8) | (held.1 << 16) | 1;
            words.push(((place as u64) << 40) | (held.life << 44) | ((held.state as u64) << 60));
            words.push(held.predecessor.as_ref().map_or(0, known));
            words.extend(held.successors.iter().map(known));
        }
        fingerprint::of_words(words)
    }

    /// Delivers what is in flight until nothing is; only who waits for each other in a circle is
    /// helped by its timer. Whether there was an end.
    fn drain(&mut self, state: &mut State) -> bool {
        for _ in 0..MAX_DRAIN {
            let Some(step) = self.draining_step(state) else { return true };
            self.apply(state, step);
        }
        false
    }

    /// What the fair schedule does next with what is in flight; `None`: nothing is. It is one of
    /// [`World::steps`].
    pub(super) fn draining_step(&self, state: &State) -> Option<Step> {
        let arrives = |letter: &Letter| self.can_arrive(state, *letter);
        match state.flight().iter().position(arrives) {
            Some(at) => Some(Step::Deliver(at as u8)),
            None => self.stuck(state),
        }
    }

    /// What helps when nothing arrives any more.
    fn stuck(&self, state: &State) -> Option<Step> {
        for (place, node) in state.running() {
            let waiting = &self.locals.summary(node).waiting;
            if let Some((rpc, ..)) = waiting.iter().find(|(rpc, ..)| is_lost(state, place, *rpc)) {
                return Some(Step::Expire { at: place as u8, rpc: *rpc });
            }
        }
        for (place, node) in state.running() {
            let alarms = &self.locals.summary(node).alarms;
            let helps = |alarm: &&Alarm| matches!(alarm, Alarm::AbandonQuery | Alarm::GiveUpRoutes);
            if let Some(alarm) = alarms.iter().find(helps) {
                return Some(Step::Fire { at: place as u8, alarm: *alarm });
            }
        }
        None
    }

    /// One period: every node runs STABILIZE, and who has no place asks for one.
    fn upkeep(&mut self, state: &mut State) -> bool {
        for (place, _) in state.running() {
            let Some(node) = state.node(place) else { continue };
            let summary = self.locals.summary(node);
            let at = place as u8;
            let mut due: Vec<Step> = Vec::new();
            for alarm in &summary.alarms {
                match alarm {
                    Alarm::Stabilize | Alarm::RetryLookup(_) => {
                        due.push(Step::Fire { at, alarm: *alarm });
                    }
                    Alarm::SeekPlace if summary.seeks => {
                        let host = self.hosts(state, summary).max_by_key(|host| {
                            let is_member = |node| self.locals.summary(node).is_member();
                            (state.node(*host).is_some_and(is_member), (*host + 8 - place) % 8)
                        });
                        due.extend(host.map(|host| Step::Seek { at, host: host as u8 }));
                    }
                    _ => {}
                }
            }
            for step in due {
                self.apply(state, step);
                if !self.drain(state) {
                    return false;
                }
            }
        }
        true
    }

    /// Every node pings those it remembers that are no neighbours.
    fn search(&mut self, state: &mut State) -> bool {
        for (place, _) in state.running() {
            let Some(node) = state.node(place) else { continue };
            let summary = self.locals.summary(node);
            let is_near = |about: u8| {
                summary.successors.iter().chain(&summary.predecessor).any(|held| held.0 == about)
            };
            let strangers: Vec<u8> = summary
                .remembered
                .iter()
                .map(|held| held.0)
                .filter(|about| !is_near(*about))
                .collect();
            for about in strangers {
                self.apply(state, Step::Probe { at: place as u8, about });
                if !self.drain(state) {
                    return false;
                }
            }
        }
        true
    }
}
