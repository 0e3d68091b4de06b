//! Coordinates reads and writes of registers.
//!
//! A register lies on the owner of its key and the next distinct peers. A read asks them all and
//! ends when a majority has voted; a write reads first, then proposes a higher ballot and ends when
//! a majority holds it durably. Until views exist the highest ballot wins and clocks decide
//! nothing (`docs/protocol.md`, "Registers").
//!
//! Only a node that holds the whole arc of a key votes. What others hold is information: it may
//! raise the ballot that wins, and it never makes "not found".
//!
//! Acknowledgements count from the set alone. A stand-in for a silent member would make a write look
//! safe although the set, once it speaks again, has a majority that never saw it.

mod operation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::config::majority;
use crate::event::{Notice, OpId, StoreOutcome};
use crate::id::Id;
use crate::message::client::LookupFailure;
use crate::message::ring::Response;
use crate::outbox::Outbox;
use crate::peer::Contact;
use crate::register::{Ballot, FIRST_EPOCH, Key, OperationId, Register, Value};
use crate::surroundings::Surroundings;
use crate::timer::Timer;

use operation::{Answer, Decision, Operation, Phase};

/// What is to be done with a register.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Read,
    Write { operation: OperationId, value: Value },
}

/// Register operations under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quorum {
    operations: BTreeMap<u64, Operation>,
    /// Which operation a round belongs to. Calls and store commands carry the round: an answer that
    /// comes late must not count for another proposal.
    rounds: BTreeMap<u64, u64>,
}

/// What an operation wants of the other machines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Want {
    /// Look the key up, then call [`Quorum::on_lookup`].
    Lookup { number: u64, key: Id },
}

impl Quorum {
    /// Begins an operation: its lookup is wanted first.
    pub(crate) fn begin(&mut self, out: &mut Outbox, op: OpId, key: Key, task: Task) -> Want {
        let number = out.draw_number();
        let point = key.id();
        self.operations.insert(number, Operation::new(op, key, task));
        let patience = out.config.operation_timeout;
        out.set_timer(Timer::QuorumDeadline(number), patience);
        Want::Lookup { number, key: point }
    }

    /// The lookup ended: the owner and the distinct peers after it, and the hops it took. `is_open`:
    /// whether this node holds the key's arc completely now; it votes only if that is still so when
    /// its store has answered.
    pub(crate) fn on_lookup(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        is_open: bool,
        number: u64,
        found: Result<(Vec<Contact>, u32), LookupFailure>,
    ) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        match found {
            Ok((candidates, hops)) => {
                operation.set = around.params.register_set_size(candidates.len());
                operation.candidates = candidates;
                operation.hops = hops;
                operation.is_open = is_open;
                operation.failure = None;
                self.begin_round(out, around, number, Phase::Read);
            }
            Err(failure) => {
                operation.failure = Some(failure);
                self.pause(out, number);
            }
        }
    }

    /// An answer of a keeper to a question of this round, or its failure (`None`).
    pub(crate) fn on_response(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        round: u64,
        from: &Contact,
        response: Option<Response>,
    ) {
        let Some(number) = self.rounds.get(&round).copied() else { return };
        let answer = match response {
            Some(Response::Register { open, register }) => {
                let fits = self.operations.get(&number).is_some_and(|operation| {
                    register.as_ref().is_none_or(|held| {
                        held.key == operation.key && held.ballot.epoch == FIRST_EPOCH
                    })
                });
                match (fits, open) {
                    (false, _) => Answer::Failed,
                    (true, true) => Answer::Vote(register),
                    (true, false) => Answer::Information(register),
                }
            }
            Some(Response::Accepted) => Answer::Accepted,
            Some(Response::Outdated { held }) if held.epoch == FIRST_EPOCH => {
                return self.on_outdated(out, number, held);
            }
            // Without views nobody can have moved, and whoever knows no view says nothing of what
            // it holds.
            _ => Answer::Failed,
        };
        self.take(out, around, number, from.id, answer);
    }

    /// Our own store's answer to a question of this round.
    pub(crate) fn on_stored(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        round: u64,
        is_open: bool,
        outcome: StoreOutcome,
    ) {
        let Some(number) = self.rounds.get(&round).copied() else { return };
        // What was read before the arc was open may lack what opened it.
        let was_open = self.operations.get(&number).is_some_and(|operation| operation.is_open);
        let answer = match outcome {
            StoreOutcome::Loaded(register) if is_open && was_open => Answer::Vote(register),
            StoreOutcome::Loaded(register) => Answer::Information(register),
            StoreOutcome::Saved(held) => match held.first().copied().flatten() {
                Some(held) => return self.on_outdated(out, number, held),
                None => Answer::Accepted,
            },
            _ => Answer::Failed,
        };
        self.take(out, around, number, around.me.id, answer);
    }

    /// The next attempt is due: the key is looked up anew.
    pub(crate) fn on_retry(&mut self, number: u64) -> Option<Want> {
        let operation = self.operations.get_mut(&number)?;
        operation.phase = Phase::Lookup;
        Some(Want::Lookup { number, key: operation.key.id() })
    }

    /// It took too long: says what is certain.
    pub(crate) fn on_deadline(&mut self, out: &mut Outbox, number: u64) {
        if let Some(operation) = self.finish(out, number) {
            out.notice(operation.shortfall());
        }
    }

    /// The key of an operation under way, by its number or that of its round.
    pub(crate) fn key(&self, number: u64) -> Option<&Key> {
        let number = self.rounds.get(&number).unwrap_or(&number);
        self.operations.get(number).map(|operation| &operation.key)
    }

    /// How many operations are under way.
    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Asks anew; what the last round was told, or is told from now on, does not count.
    fn begin_round(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        number: u64,
        phase: Phase,
    ) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        self.rounds.remove(&operation.round);
        operation.enter(out.draw_number(), phase);
        self.rounds.insert(operation.round, number);
        self.go_on(out, around, number);
    }

    fn take(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        number: u64,
        from: Id,
        answer: Answer,
    ) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if operation.take(from, answer) {
            self.go_on(out, around, number);
        }
    }

    /// Asks whoever has to be asked now, or ends the phase.
    fn go_on(&mut self, out: &mut Outbox, around: &Surroundings<'_>, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.ask_more(out, around);
        match &operation.phase {
            Phase::Lookup => {}
            Phase::Read => match operation.read_decision() {
                Decision::Wait => {}
                Decision::Retry => self.pause(out, number),
                Decision::Value(held) => self.on_read(out, around, number, held),
            },
            Phase::Write(register) => {
                if operation.acked() >= majority(operation.set) {
                    let register = register.clone();
                    self.on_written(out, number, register);
                } else if operation.pending() == 0 {
                    self.pause(out, number);
                }
            }
        }
    }

    /// The read phase found the newest register.
    fn on_read(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        number: u64,
        held: Option<Register>,
    ) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let next = match (&operation.task, &held) {
            (Task::Read, None) => return self.end_read(out, number, held),
            (Task::Read, Some(newest)) => {
                if operation.holders(newest.ballot) >= majority(operation.set) {
                    operation.write_back(out, around, newest);
                    return self.end_read(out, number, held);
                }
                // Not yet safe from being lost: a later read must not say less than this one.
                newest.clone()
            }
            (Task::Write { operation: id, value }, _) => {
                operation.was_proposed = true;
                operation.proposal(held.as_ref(), around.me.key(), *id, value)
            }
        };
        self.begin_round(out, around, number, Phase::Write(next));
    }

    fn on_written(&mut self, out: &mut Outbox, number: u64, register: Register) {
        let Some(operation) = self.operations.get(&number) else { return };
        if matches!(operation.task, Task::Read) {
            return self.end_read(out, number, Some(register));
        }
        let Some(operation) = self.finish(out, number) else { return };
        let outcome = operation.write_outcome(register);
        out.notice(Notice::Written { op: operation.op, outcome });
    }

    fn end_read(&mut self, out: &mut Outbox, number: u64, register: Option<Register>) {
        let Some(operation) = self.finish(out, number) else { return };
        let outcome = operation.read_outcome(register);
        out.notice(Notice::Read { op: operation.op, outcome });
    }

    /// Somebody holds a higher ballot: a rival won, and we begin again above it.
    fn on_outdated(&mut self, out: &mut Outbox, number: u64, held: Ballot) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if matches!(operation.phase, Phase::Write(_)) {
            operation.floor = operation.floor.max(Some(held));
            self.pause(out, number);
        }
    }

    /// Tries again in a little while, with a new lookup; rivals drift apart by the jitter. What this
    /// round was told is kept, to say at the deadline how far it came.
    fn pause(&mut self, out: &mut Outbox, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        self.rounds.remove(&operation.round);
        operation.phase = Phase::Lookup;
        let pause = out.jittered(out.config.min_timeout);
        out.set_timer(Timer::QuorumRetry(number), pause);
    }

    fn finish(&mut self, out: &mut Outbox, number: u64) -> Option<Operation> {
        out.timers.stop(Timer::QuorumDeadline(number));
        out.timers.stop(Timer::QuorumRetry(number));
        let operation = self.operations.remove(&number)?;
        self.rounds.remove(&operation.round);
        Some(operation)
    }
}
