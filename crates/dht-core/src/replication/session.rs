//! One comparison: an arc, a kind, a peer. A digest first; on difference the two lists are merged
//! page by page, clockwise from the start of the arc, and what is lacking here is fetched.

use std::collections::VecDeque;

use super::Plan;
use crate::event::{StoreCommand, StoreOutcome};
use crate::id::Id;
use crate::manifest::{ChunkRef, ContentHash};
use crate::message::ring::{Kind, MAX_PAGE, Request, Response};
use crate::outbox::{CallOwner, Outbox, StoreOwner};
use crate::register::{Ballot, FIRST_EPOCH, Register};

/// Registers fetched with one request (guess: with inline files of 4 KiB a frame of 256 KiB).
const FETCH_BATCH: usize = 48;
/// What may be lacking before the merge pauses to fetch (guess: one page).
const MAX_WANTED: usize = MAX_PAGE;
/// Chunks that a peer may fail to give in a row before the comparison is given up (guess: twice
/// what is fetched at once).
const MAX_FAILED_IN_A_ROW: u32 = 8;

/// A comparison under way.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) plan: Plan,
    stage: Stage,
    our_digest: Option<(ContentHash, u64)>,
    their_digest: Option<(ContentHash, u64)>,
    their_open: bool,
    ours: Side,
    theirs: Side,
    wanted: VecDeque<Entry>,
    /// Registers asked for, in order.
    asked: VecDeque<Entry>,
    /// Registers being saved, or chunks being fetched.
    in_flight: usize,
    registers_copied: u64,
    /// Entries that both sides list.
    common: u64,
    /// What the peer listed and could not give, in all and in a row.
    failed: u64,
    failed_in_a_row: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Digest,
    Merge,
    Ended(Ended),
}

/// How a comparison ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// All that the peer holds is held here now.
    Complete {
        /// Whether the peer holds the whole arc.
        open: bool,
    },
    /// The peer or the disk failed, or a fetch did.
    Broken,
}

/// One of the two lists, as far as it was read.
#[derive(Clone, Debug, Default)]
struct Side {
    entries: VecDeque<Entry>,
    after: Option<Id>,
    is_last: bool,
    is_asked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Register(Id, Ballot),
    Chunk(ChunkRef),
}

impl Session {
    /// Asks both sides for a digest.
    pub(super) fn start(out: &mut Outbox, number: u64, plan: Plan) -> Session {
        let (kind, arc) = (plan.kind, plan.arc);
        out.store(StoreOwner::Repair(number), StoreCommand::Digest { kind, arc });
        let session = Session {
            stage: Stage::Digest,
            our_digest: None,
            their_digest: None,
            their_open: false,
            ours: Side::default(),
            theirs: Side::default(),
            wanted: VecDeque::new(),
            asked: VecDeque::new(),
            in_flight: 0,
            registers_copied: 0,
            common: 0,
            failed: 0,
            failed_in_a_row: 0,
            plan,
        };
        session.ask(out, number, Request::Digest { kind, arc });
        session
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        match self.stage {
            Stage::Ended(ended) => Some(ended),
            Stage::Digest | Stage::Merge => None,
        }
    }

    pub(super) fn found_equal(&self) -> bool {
        self.our_digest.is_some() && self.our_digest == self.their_digest
    }

    pub(super) fn registers_copied(&self) -> u64 {
        self.registers_copied
    }

    /// How many entries lay here when it began.
    pub(super) fn held_before(&self) -> u64 {
        self.our_digest.map_or(0, |(_, count)| count)
    }

    /// How many of them the peer lacks.
    pub(super) fn only_here(&self) -> u64 {
        if self.found_equal() { 0 } else { self.held_before().saturating_sub(self.common) }
    }

    /// What is known to be lacking here.
    pub(super) fn missing(&self) -> u64 {
        (self.wanted.len() + self.asked.len() + self.in_flight) as u64
    }

    pub(super) fn on_response(
        &mut self,
        out: &mut Outbox,
        number: u64,
        response: Option<Response>,
    ) {
        match (self.stage, response) {
            (Stage::Digest, Some(Response::Digest { digest, count, open })) => {
                self.their_digest = Some((digest, count));
                self.their_open = open;
                self.compare(out, number);
            }
            (Stage::Merge, Some(Response::RegisterPage { entries, last }))
                if self.plan.kind == Kind::Registers =>
            {
                let entries = entries.into_iter().map(|(id, ballot)| Entry::Register(id, ballot));
                self.take_page(entries.collect(), last);
                self.merge(out, number);
            }
            (Stage::Merge, Some(Response::ChunkPage { entries, last }))
                if self.plan.kind == Kind::Chunks =>
            {
                self.take_page(entries.into_iter().map(Entry::Chunk).collect(), last);
                self.merge(out, number);
            }
            (Stage::Merge, Some(Response::Registers(registers))) => {
                self.save(out, number, registers);
            }
            _ => self.stage = Stage::Ended(Ended::Broken),
        }
    }

    pub(super) fn on_stored(&mut self, out: &mut Outbox, number: u64, outcome: StoreOutcome) {
        match (self.stage, outcome) {
            (Stage::Digest, StoreOutcome::Digest { digest, count }) => {
                self.our_digest = Some((digest, count));
                self.compare(out, number);
            }
            (Stage::Merge, StoreOutcome::Registers { entries, last }) => {
                let entries = entries.into_iter().map(|(id, ballot)| Entry::Register(id, ballot));
                self.ours.take(entries.collect(), last);
                self.merge(out, number);
            }
            (Stage::Merge, StoreOutcome::Chunks { entries, last }) => {
                let entries = entries.into_iter().map(Entry::Chunk).collect();
                self.ours.take(entries, last);
                self.merge(out, number);
            }
            (Stage::Merge, StoreOutcome::Saved(saved)) => {
                self.registers_copied += saved.iter().filter(|held| held.is_none()).count() as u64;
                self.in_flight = 0;
                self.merge(out, number);
            }
            (Stage::Ended(_), _) => {}
            _ => self.stage = Stage::Ended(Ended::Broken),
        }
    }

    pub(super) fn on_fetched(&mut self, stored: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if stored {
            self.failed_in_a_row = 0;
            return;
        }
        self.failed += 1;
        self.failed_in_a_row += 1;
        if self.failed_in_a_row >= MAX_FAILED_IN_A_ROW {
            // It is gone, or it lies. The next round asks somebody else.
            self.stage = Stage::Ended(Ended::Broken);
        }
    }

    /// Starts as many fetches as there is room for, and goes on merging when none is left.
    pub(super) fn fetch_more(&mut self, out: &mut Outbox, number: u64) {
        if self.stage == Stage::Merge {
            self.merge(out, number);
        }
    }

    fn compare(&mut self, out: &mut Outbox, number: u64) {
        let (Some(ours), Some(theirs)) = (self.our_digest, self.their_digest) else { return };
        if ours == theirs || theirs.1 == 0 {
            self.stage = Stage::Ended(Ended::Complete { open: self.their_open });
            return;
        }
        self.stage = Stage::Merge;
        self.merge(out, number);
    }

    /// Reads on where a list is needed, notes what is lacking, fetches it.
    fn merge(&mut self, out: &mut Outbox, number: u64) {
        while self.wanted.len() < MAX_WANTED {
            let (ours, theirs) = (self.ours.entries.front(), self.theirs.entries.front());
            match (ours, theirs) {
                (_, None) if !self.theirs.is_last => {
                    self.ask_for_page(out, number);
                    break;
                }
                (None, _) if !self.ours.is_last && !self.theirs.entries.is_empty() => {
                    self.ask_for_own_page(out, number);
                    break;
                }
                (_, None) => break,
                (None, Some(entry)) => {
                    self.wanted.push_back(*entry);
                    self.theirs.entries.pop_front();
                }
                (Some(ours), Some(theirs)) => self.merge_two(*ours, *theirs),
            }
        }
        self.fetch(out, number);
        let all_read = self.theirs.is_last && self.theirs.entries.is_empty();
        if all_read && self.missing() == 0 {
            self.stage = Stage::Ended(match self.failed {
                0 => Ended::Complete { open: self.their_open },
                _ => Ended::Broken,
            });
        }
    }

    fn merge_two(&mut self, ours: Entry, theirs: Entry) {
        let start = self.plan.arc.start;
        match ours.order(start).cmp(&theirs.order(start)) {
            std::cmp::Ordering::Less => {
                self.ours.entries.pop_front();
            }
            std::cmp::Ordering::Greater => {
                self.wanted.push_back(theirs);
                self.theirs.entries.pop_front();
            }
            std::cmp::Ordering::Equal => {
                if let (Entry::Register(_, ours), Entry::Register(_, newer)) = (ours, theirs)
                    && newer > ours
                {
                    self.wanted.push_back(theirs);
                }
                self.common += 1;
                self.ours.entries.pop_front();
                self.theirs.entries.pop_front();
            }
        }
    }

    fn fetch(&mut self, out: &mut Outbox, number: u64) {
        match self.plan.kind {
            Kind::Registers if self.in_flight == 0 && self.asked.is_empty() => {
                let batch = self.wanted.len().min(FETCH_BATCH);
                if batch > 0 {
                    self.asked.extend(self.wanted.drain(..batch));
                    let ids = self.asked.iter().map(Entry::id).collect();
                    self.ask(out, number, Request::FetchRegisters { ids });
                }
            }
            Kind::Registers => {}
            Kind::Chunks => {
                while out.fetching() < out.config.max_fetches {
                    let Some(Entry::Chunk(chunk)) = self.wanted.pop_front() else { break };
                    self.in_flight += 1;
                    out.fetch(number, chunk, &self.plan.from);
                }
            }
        }
    }

    /// Registers came, in the order asked, as far as they fit into one answer.
    fn save(&mut self, out: &mut Outbox, number: u64, came: Vec<Register>) {
        let mut registers = Vec::new();
        for register in came {
            let id = register.key.id();
            // What was not asked for, or was passed over before, is none of our business.
            let Some(at) = self.asked.iter().position(|entry| entry.id() == id) else { continue };
            // The peer does not hold those before it any more.
            self.failed += at as u64;
            self.asked.drain(..=at);
            if register.ballot.epoch == FIRST_EPOCH {
                registers.push(register);
            }
        }
        if registers.is_empty() {
            // Nothing of what it listed: it is no source.
            self.stage = Stage::Ended(Ended::Broken);
            return;
        }
        // What did not fit is asked for again.
        while let Some(entry) = self.asked.pop_back() {
            self.wanted.push_front(entry);
        }
        self.in_flight = registers.len();
        out.store(StoreOwner::Repair(number), StoreCommand::Save { registers });
    }

    fn take_page(&mut self, mut entries: Vec<Entry>, last: bool) {
        // What is outside the arc or out of order was not asked for.
        let (arc, start) = (self.plan.arc, self.plan.arc.start);
        entries.truncate(MAX_PAGE);
        let mut previous = self.theirs.after.map(|id| order(start, id));
        entries.retain(|entry| {
            let place = entry.order(start);
            let fits = arc.contains(entry.id()) && previous.is_none_or(|held| held < place);
            if fits {
                previous = Some(place);
            }
            fits
        });
        let is_empty = entries.is_empty();
        self.theirs.take(entries, last || is_empty);
    }

    fn ask_for_page(&mut self, out: &mut Outbox, number: u64) {
        if !std::mem::replace(&mut self.theirs.is_asked, true) {
            let (kind, arc, after) = (self.plan.kind, self.plan.arc, self.theirs.after);
            self.ask(out, number, Request::List { kind, arc, after });
        }
    }

    fn ask_for_own_page(&mut self, out: &mut Outbox, number: u64) {
        if !std::mem::replace(&mut self.ours.is_asked, true) {
            let (kind, arc, after) = (self.plan.kind, self.plan.arc, self.ours.after);
            let command = StoreCommand::List { kind, arc, after, limit: MAX_PAGE };
            out.store(StoreOwner::Repair(number), command);
        }
    }

    fn ask(&self, out: &mut Outbox, number: u64, request: Request) {
        // The peer's disk may take its time.
        let patience = out.config.initial_timeout.saturating_mul(2);
        out.call_patiently(CallOwner::Repair(number), &self.plan.from, request, patience);
    }
}

impl Side {
    fn take(&mut self, entries: Vec<Entry>, last: bool) {
        self.is_asked = false;
        self.is_last = last;
        if let Some(entry) = entries.last() {
            self.after = Some(entry.id());
        }
        self.entries.extend(entries);
    }
}

impl Entry {
    fn id(&self) -> Id {
        match self {
            Entry::Register(id, _) => *id,
            Entry::Chunk(chunk) => chunk.id(),
        }
    }

    fn order(&self, start: Id) -> (bool, Id) {
        order(start, self.id())
    }
}

/// The place of a point clockwise from the start of the arc; the start itself comes last, on a full
/// circle.
fn order(start: Id, id: Id) -> (bool, Id) {
    let away = start.distance_to(id);
    (away == Id::ZERO, away)
}

#[cfg(test)]
mod tests;
