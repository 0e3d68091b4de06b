//! What was acknowledged to those who write registers, and what became of it.

use std::collections::{BTreeMap, BTreeSet};

use dht_core::event::{OpId, ReadOutcome, WriteOutcome};
use dht_core::register::{Ballot, Key};
use dht_core::{Config, Id, Instant, RingParams};

use crate::invariants::acknowledged::REPAIR_WINDOW;

/// The account of one world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    promises: BTreeMap<Id, Promise>,
    /// Reads under way: which register, what had been promised when it began, and how many
    /// conditions had been broken.
    reads: BTreeMap<OpId, (Id, Option<Ballot>, u64)>,
    /// In which parts of which cut each register was written, since it was last written in calm.
    writers: BTreeMap<Id, BTreeSet<Part>>,
    /// Whether lists are too short for the copies: then nothing is promised.
    is_closed: bool,
    /// When repair was hindered last.
    hindered: Option<Instant>,
}

/// Which cut, counted from the first, and which part of it.
pub(crate) type Part = (u64, usize);

/// One register as it was acknowledged last.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub(crate) key: Key,
    pub(crate) ballot: Ballot,
    /// No condition of the ring's invariants was broken when it was written.
    is_calm: bool,
    acks: usize,
    /// When holders of it died, within the window.
    deaths: Vec<Instant>,
}

/// A read that has ended: its register, what had been promised before it began, and what it found.
pub(crate) struct Finished {
    pub(crate) key: Id,
    pub(crate) promised: Option<Ballot>,
    pub(crate) read: Option<Ballot>,
    /// How many conditions had been broken when it began.
    pub(crate) breaches: u64,
}

impl Ledger {
    /// The account of a world with such nodes.
    pub(crate) fn new(config: &Config, params: &RingParams) -> Ledger {
        let longer = config.for_ring(params);
        let is_closed = longer.list_len() > config.list_len()
            || longer.predecessor_peers > config.predecessor_peers;
        Ledger { is_closed, ..Ledger::default() }
    }

    /// A write begins, in this part of a cut ring if it is one.
    pub(crate) fn writing(&mut self, key: Id, part: Option<Part>) {
        match part {
            Some(part) => _ = self.writers.entry(key).or_default().insert(part),
            None => _ = self.writers.remove(&key),
        }
    }

    /// A write came to its end.
    /// `is_calm`: no condition of the ring's invariants was broken then.
    pub(crate) fn written(&mut self, outcome: &WriteOutcome, is_calm: bool) {
        let WriteOutcome::Done { register, acks, .. } = outcome else { return };
        if self.is_closed {
            return;
        }
        let id = register.key.id();
        let is_newer = self.promises.get(&id).is_none_or(|held| held.ballot < register.ballot);
        if is_newer {
            let (key, ballot) = (register.key.clone(), register.ballot);
            let promise = Promise { key, ballot, is_calm, acks: acks.len(), deaths: Vec::new() };
            self.promises.insert(id, promise);
        }
    }

    /// A read begins.
    pub(crate) fn reading(&mut self, op: OpId, key: Id, breaches: u64) {
        let promised = self.promises.get(&key).filter(|held| held.is_calm);
        let promised = promised.map(|held| held.ballot);
        self.reads.insert(op, (key, promised, breaches));
    }

    /// A read came to its end; `None` if it found out nothing, or its promise has lapsed since.
    pub(crate) fn read(&mut self, op: OpId, outcome: &ReadOutcome) -> Option<Finished> {
        let (key, promised, breaches) = self.reads.remove(&op)?;
        let ReadOutcome::Value { register, .. } = outcome else { return None };
        self.promises.get(&key).filter(|held| held.is_calm)?;
        let read = register.as_ref().map(|held| held.ballot);
        Some(Finished { key, promised, read, breaches })
    }

    /// Repair is hindered now, or was until now.
    pub(crate) fn hindered(&mut self, now: Instant) {
        self.hindered = Some(now);
    }

    /// A node died, which held what `holds` says. Promises of which too many copies died lapse: as
    /// many as acknowledged, or `copies`, the most there could be.
    pub(crate) fn died(
        &mut self,
        now: Instant,
        copies: usize,
        holds: impl Fn(Id) -> Option<Ballot>,
    ) {
        let is_mended = |since: Instant| now.since(since) >= REPAIR_WINDOW;
        let may_forget = self.hindered.is_none_or(is_mended);
        self.promises.retain(|id, promise| {
            if holds(*id) < Some(promise.ballot) {
                return true;
            }
            promise.deaths.retain(|at| !(may_forget && is_mended(*at)));
            promise.deaths.push(now);
            promise.deaths.len() < promise.acks.min(copies)
        });
    }

    /// What readers must find once all is well. Until there are views, two parts of a cut ring may both
    /// write a register, and one of the two wins; then nothing is promised.
    pub(crate) fn readable(&self) -> impl Iterator<Item = &Promise> {
        let wrote = |key: &Id| self.writers.get(key).map_or(0, BTreeSet::len);
        let promises = self.promises.iter();
        promises.filter(move |(key, held)| held.is_calm || wrote(key) == 1).map(|(_, held)| held)
    }

    /// What must be there.
    pub(crate) fn promises(&self) -> impl Iterator<Item = (Id, &Promise)> {
        self.promises.iter().map(|(id, promise)| (*id, promise))
    }
}
