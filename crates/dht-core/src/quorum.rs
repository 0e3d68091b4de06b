//! Coordinates reads and writes of registers.
//!
//! A register lies on the owner of its key and the next distinct peers. A read asks them all and
//! ends when a majority has voted; a write reads first, then proposes a higher ballot and ends when
//! a majority holds it durably. Until views exist the highest ballot wins and clocks decide
//! nothing (`docs/protocol.md`, "Registers").
//!
//! Only a node that holds the whole arc of a key votes. What others hold is information: it may
//! raise the ballot that wins, and it never makes "not found".

use std::collections::{BTreeMap, BTreeSet};

use crate::config::majority;
use crate::event::{Notice, OpId, ReadOutcome, StoreCommand, StoreOutcome, WriteOutcome};
use crate::id::Id;
use crate::message::client::{LookupFailure, ReplicaState};
use crate::message::ring::{Request, Response};
use crate::outbox::{CallOwner, Outbox, StoreOwner};
use crate::peer::Contact;
use crate::register::{Ballot, FIRST_EPOCH, Key, OperationId, Register, Value};
use crate::time::Instant;
use crate::timer::Timer;
use crate::view::View;

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
}

#[derive(Clone, Debug)]
struct Operation {
    op: OpId,
    key: Key,
    task: Task,
    phase: Phase,
    /// The owner and the distinct peers after it.
    candidates: Vec<Contact>,
    /// How many of the first candidates should hold the register.
    set: usize,
    hops: u32,
    asked: BTreeSet<Id>,
    answers: BTreeMap<Id, Answer>,
    failure: Option<LookupFailure>,
    /// A write was sent to somebody: it may appear even if we fail.
    was_proposed: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// The owner is being looked up, or the next attempt is waited for.
    Lookup,
    Read,
    /// This register is being written; at the end of it, a read or a write is answered.
    Write(Register),
}

#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Vote(Option<Register>),
    Information(Option<Register>),
    Accepted,
    Failed,
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
        let operation = Operation {
            op,
            key,
            task,
            phase: Phase::Lookup,
            candidates: Vec::new(),
            set: 0,
            hops: 0,
            asked: BTreeSet::new(),
            answers: BTreeMap::new(),
            failure: None,
            was_proposed: false,
        };
        self.operations.insert(number, operation);
        let patience = out.config.operation_timeout;
        out.set_timer(Timer::QuorumDeadline(number), patience);
        Want::Lookup { number, key: point }
    }

    /// The lookup ended: the owner and the distinct peers after it, and the hops it took.
    pub(crate) fn on_lookup(
        &mut self,
        out: &mut Outbox,
        view: &View<'_>,
        number: u64,
        found: Result<(Vec<Contact>, u32), LookupFailure>,
    ) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        match found {
            Ok((candidates, hops)) => {
                operation.set = view.params.register_set_size(candidates.len());
                operation.candidates = candidates;
                operation.hops = hops;
                operation.failure = None;
                operation.phase = Phase::Read;
                operation.asked.clear();
                operation.answers.clear();
                self.go_on(out, view, number);
            }
            Err(failure) => {
                operation.failure = Some(failure);
                retry(out, number);
            }
        }
    }

    /// An answer of a keeper, or its failure (`None`).
    pub(crate) fn on_response(
        &mut self,
        out: &mut Outbox,
        view: &View<'_>,
        number: u64,
        from: &Contact,
        response: Option<Response>,
    ) {
        let answer = match response {
            Some(Response::Register { open, register }) => {
                let fits = self.operations.get(&number).is_some_and(|operation| {
                    register.as_ref().is_none_or(|held| held.key == operation.key)
                });
                match (fits, open) {
                    (false, _) => Answer::Failed,
                    (true, true) => Answer::Vote(register),
                    (true, false) => Answer::Information(register),
                }
            }
            Some(Response::Accepted) => Answer::Accepted,
            Some(Response::Outdated { .. }) => return self.on_outdated(out, number),
            // Without views nobody can have moved; until then it counts as no vote.
            Some(Response::Unknown | Response::Moved { .. }) => Answer::Information(None),
            _ => Answer::Failed,
        };
        self.take(out, view, number, from.id, answer);
    }

    /// Our own store's answer.
    pub(crate) fn on_stored(
        &mut self,
        out: &mut Outbox,
        view: &View<'_>,
        number: u64,
        is_open: bool,
        outcome: StoreOutcome,
    ) {
        let answer = match outcome {
            StoreOutcome::Loaded(register) if is_open => Answer::Vote(register),
            StoreOutcome::Loaded(register) => Answer::Information(register),
            StoreOutcome::Saved(held) => match held.first().copied().flatten() {
                Some(_) => return self.on_outdated(out, number),
                None => Answer::Accepted,
            },
            _ => Answer::Failed,
        };
        self.take(out, view, number, view.me.id, answer);
    }

    /// The next attempt is due: the key is looked up anew.
    pub(crate) fn on_retry(&mut self, number: u64) -> Option<Want> {
        let operation = self.operations.get_mut(&number)?;
        operation.phase = Phase::Lookup;
        Some(Want::Lookup { number, key: operation.key.id() })
    }

    /// It took too long: says what is certain.
    pub(crate) fn on_deadline(&mut self, out: &mut Outbox, number: u64) {
        let Some(operation) = self.finish(out, number) else { return };
        let needed = majority(operation.set.max(1));
        let answered =
            operation.answers.values().filter(|answer| **answer != Answer::Failed).count();
        let notice = match (&operation.task, operation.was_proposed, operation.failure) {
            (Task::Write { .. }, true, _) => {
                let acked = operation.count(|answer| *answer == Answer::Accepted);
                let outcome = WriteOutcome::UnknownOutcome { acked, needed };
                Notice::Written { op: operation.op, outcome }
            }
            (Task::Write { .. }, false, Some(failure)) => {
                Notice::Written { op: operation.op, outcome: WriteOutcome::Unreachable(failure) }
            }
            (Task::Write { .. }, false, None) => Notice::Written {
                op: operation.op,
                outcome: WriteOutcome::NoQuorum { answered, needed },
            },
            (Task::Read, _, Some(failure)) => {
                Notice::Read { op: operation.op, outcome: ReadOutcome::Unreachable(failure) }
            }
            (Task::Read, _, None) => Notice::Read {
                op: operation.op,
                outcome: ReadOutcome::NoQuorum { answered, needed },
            },
        };
        out.notice(notice);
    }

    /// The key of an operation under way.
    pub(crate) fn key(&self, number: u64) -> Option<&Key> {
        self.operations.get(&number).map(|operation| &operation.key)
    }

    /// How many operations are under way.
    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    fn take(&mut self, out: &mut Outbox, view: &View<'_>, number: u64, from: Id, answer: Answer) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let fits = match operation.phase {
            Phase::Lookup => false,
            Phase::Read => answer != Answer::Accepted,
            Phase::Write(_) => matches!(answer, Answer::Accepted | Answer::Failed),
        };
        if fits && operation.asked.contains(&from) {
            operation.answers.insert(from, answer);
            self.go_on(out, view, number);
        }
    }

    /// Asks whoever has to be asked now, or ends the phase.
    fn go_on(&mut self, out: &mut Outbox, view: &View<'_>, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.ask_more(out, view, number);
        match &operation.phase {
            Phase::Lookup => {}
            Phase::Read => match operation.read_decision() {
                Decision::Wait => {}
                Decision::Retry => retry(out, number),
                Decision::Value(held) => self.on_read(out, view, number, held),
            },
            Phase::Write(register) => {
                let register = register.clone();
                let acked = operation.count(|answer| *answer == Answer::Accepted);
                if acked >= majority(operation.set) {
                    self.on_written(out, number, register);
                } else if operation.pending() == 0 {
                    retry(out, number);
                }
            }
        }
    }

    /// The read phase found the newest register.
    fn on_read(&mut self, out: &mut Outbox, view: &View<'_>, number: u64, held: Option<Register>) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let next = match (&operation.task, &held) {
            (Task::Read, None) => return self.end_read(out, number, held),
            (Task::Read, Some(newest)) => {
                if operation.holders(newest.ballot) >= majority(operation.set) {
                    operation.write_back(out, view, newest);
                    return self.end_read(out, number, held);
                }
                newest.clone()
            }
            (Task::Write { operation: id, .. }, Some(newest)) if newest.operations.contains(id) => {
                // A retry of a write that did happen; make sure that a majority holds it.
                newest.clone()
            }
            (Task::Write { operation: id, value }, _) => {
                let (key, peer) = (operation.key.clone(), view.me.key());
                Register::followed_by(held.as_ref(), key, FIRST_EPOCH, peer, *id, value.clone())
            }
        };
        operation.was_proposed |= matches!(operation.task, Task::Write { .. });
        operation.phase = Phase::Write(next);
        operation.asked.clear();
        operation.answers.clear();
        self.go_on(out, view, number);
    }

    fn on_written(&mut self, out: &mut Outbox, number: u64, register: Register) {
        let Some(operation) = self.operations.get(&number) else { return };
        if matches!(operation.task, Task::Read) {
            return self.end_read(out, number, Some(register));
        }
        let Some(operation) = self.finish(out, number) else { return };
        let accepted = |held: &&Contact| operation.answers.get(&held.id) == Some(&Answer::Accepted);
        let acks = operation.candidates.iter().filter(accepted).cloned().collect();
        let outcome =
            WriteOutcome::Done { register, acks, wanted: operation.set, hops: operation.hops };
        out.notice(Notice::Written { op: operation.op, outcome });
    }

    fn end_read(&mut self, out: &mut Outbox, number: u64, register: Option<Register>) {
        let Some(operation) = self.finish(out, number) else { return };
        let replicas = operation.replica_states(register.as_ref());
        let outcome = ReadOutcome::Value { register, replicas, hops: operation.hops };
        out.notice(Notice::Read { op: operation.op, outcome });
    }

    /// Somebody holds a higher ballot: a rival won, and we begin again above it.
    fn on_outdated(&mut self, out: &mut Outbox, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        if matches!(operation.phase, Phase::Write(_)) {
            operation.phase = Phase::Lookup;
            retry(out, number);
        }
    }

    fn finish(&mut self, out: &mut Outbox, number: u64) -> Option<Operation> {
        out.timers.stop(Timer::QuorumDeadline(number));
        out.timers.stop(Timer::QuorumRetry(number));
        self.operations.remove(&number)
    }
}

/// What a read phase has come to.
enum Decision {
    Wait,
    Retry,
    Value(Option<Register>),
}

impl Operation {
    /// Asks the set, and one further candidate for every one that gave nothing to count.
    fn ask_more(&mut self, out: &mut Outbox, view: &View<'_>, number: u64) {
        let idle = self.count(|answer| match answer {
            Answer::Failed | Answer::Information(None) => true,
            Answer::Information(Some(_)) => matches!(self.phase, Phase::Read),
            Answer::Vote(_) | Answer::Accepted => false,
        });
        let wanted = self.set.saturating_add(idle).min(self.candidates.len());
        for at in 0..wanted {
            let contact = self.candidates[at].clone();
            if !self.asked.insert(contact.id) {
                continue;
            }
            if contact.key() == view.me.key() {
                let command = match &self.phase {
                    Phase::Write(register) => {
                        StoreCommand::Save { registers: vec![register.clone()] }
                    }
                    _ => StoreCommand::Load { key: self.key.clone() },
                };
                out.store(StoreOwner::Quorum(number), command);
                continue;
            }
            let part = self.key.id().part(view.params.part_bits);
            let request = match &self.phase {
                Phase::Write(register) => {
                    Request::WriteRegister { part, epoch: FIRST_EPOCH, register: register.clone() }
                }
                _ => Request::ReadRegister { part, epoch: FIRST_EPOCH, key: self.key.clone() },
            };
            // Disks may take their time; the failure detector looks after the dead.
            let patience = out.config.initial_timeout.saturating_mul(2);
            out.call_patiently(CallOwner::Quorum(number), &contact, request, patience);
        }
    }

    fn read_decision(&self) -> Decision {
        let set: BTreeSet<Id> = self.candidates.iter().take(self.set).map(|held| held.id).collect();
        let in_set = |is: fn(&Answer) -> bool| {
            self.answers.iter().filter(|(id, answer)| set.contains(id) && is(answer)).count()
        };
        let votes = in_set(|answer| matches!(answer, Answer::Vote(_)));
        let newest = self.newest();
        if votes >= majority(self.set) {
            return Decision::Value(newest);
        }
        if self.pending() > 0 {
            return Decision::Wait;
        }
        // Everybody who could know was asked. Joiners that have not copied yet cannot vote; what
        // the old keepers hold is found all the same.
        let heard = in_set(|answer| *answer != Answer::Failed);
        let none_failed = self.count(|answer| *answer == Answer::Failed) == 0;
        let voted = self.count(|answer| matches!(answer, Answer::Vote(_))) > 0;
        match (&self.task, newest) {
            (Task::Read, Some(newest)) => Decision::Value(Some(newest)),
            (Task::Read, None) if voted && none_failed => Decision::Value(None),
            (Task::Write { .. }, Some(newest)) if heard >= majority(self.set) => {
                Decision::Value(Some(newest))
            }
            (Task::Write { .. }, None) if voted && none_failed && heard >= majority(self.set) => {
                Decision::Value(None)
            }
            _ => Decision::Retry,
        }
    }

    /// The register with the highest ballot of all answers.
    fn newest(&self) -> Option<Register> {
        let held = self.answers.values().filter_map(Answer::register);
        held.max_by_key(|register| register.ballot).cloned()
    }

    /// How many of the set hold this ballot.
    fn holders(&self, ballot: Ballot) -> usize {
        let holds = |held: &&Contact| {
            self.answers
                .get(&held.id)
                .and_then(Answer::register)
                .is_some_and(|register| register.ballot == ballot)
        };
        self.candidates.iter().take(self.set).filter(holds).count()
    }

    /// Brings those of the set that lack the newest register up to date; nobody waits for it.
    fn write_back(&self, out: &mut Outbox, view: &View<'_>, newest: &Register) {
        let part = newest.key.id().part(view.params.part_bits);
        for held in self.candidates.iter().take(self.set) {
            let lacks = self.answers.get(&held.id).is_some_and(|answer| {
                *answer != Answer::Failed
                    && answer.register().is_none_or(|register| register.ballot < newest.ballot)
            });
            if lacks {
                let register = newest.clone();
                out.tell(held, Request::WriteRegister { part, epoch: FIRST_EPOCH, register });
            }
        }
    }

    fn replica_states(&self, newest: Option<&Register>) -> Vec<(Contact, ReplicaState)> {
        let state = |held: &Contact| match self.answers.get(&held.id) {
            Some(Answer::Accepted) => ReplicaState::Current,
            Some(Answer::Failed) | None => ReplicaState::Silent,
            Some(answer) => match (answer.register(), newest) {
                (Some(register), Some(newest)) if register.ballot == newest.ballot => {
                    ReplicaState::Current
                }
                (Some(_), _) => ReplicaState::Outdated,
                (None, _) => ReplicaState::Missing,
            },
        };
        let set = self.candidates.iter().take(self.set);
        set.map(|held| (held.clone(), state(held))).collect()
    }

    fn pending(&self) -> usize {
        self.asked.len().saturating_sub(self.answers.len())
    }

    fn count(&self, is: impl Fn(&Answer) -> bool) -> usize {
        self.answers.values().filter(|answer| is(answer)).count()
    }
}

impl Answer {
    fn register(&self) -> Option<&Register> {
        match self {
            Answer::Vote(register) | Answer::Information(register) => register.as_ref(),
            Answer::Accepted | Answer::Failed => None,
        }
    }
}

/// Tries again in a little while, with a new lookup; rivals drift apart by the jitter.
fn retry(out: &mut Outbox, number: u64) {
    let pause = out.jittered(out.config.min_timeout);
    let at: Instant = out.now.after(pause);
    out.timers.set_by(Timer::QuorumRetry(number), at);
}
