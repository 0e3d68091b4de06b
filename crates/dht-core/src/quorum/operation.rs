//! One register operation: whom it asked, what they said, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Task;
use crate::config::majority;
use crate::event::{Notice, OpId, ReadOutcome, StoreCommand, WriteOutcome};
use crate::id::Id;
use crate::message::client::{LookupFailure, ReplicaState};
use crate::message::ring::Request;
use crate::outbox::{CallOwner, Outbox, StoreOwner};
use crate::peer::{Contact, PeerKey};
use crate::register::{Ballot, FIRST_EPOCH, Key, OperationId, Register, Value};
use crate::surroundings::Surroundings;

/// One register operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) op: OpId,
    pub(super) key: Key,
    pub(super) task: Task,
    pub(super) phase: Phase,
    /// The owner and the distinct peers after it.
    pub(super) candidates: Vec<Contact>,
    /// How many of the first candidates should hold the register.
    pub(super) set: usize,
    pub(super) hops: u32,
    /// Names the present round of questions; 0 before the first.
    pub(super) round: u64,
    /// Whether this node held the key's arc completely before it was asked.
    pub(super) is_open: bool,
    /// The highest ballot that stood in the way of a proposal.
    pub(super) floor: Option<Ballot>,
    pub(super) failure: Option<LookupFailure>,
    /// A write was sent to somebody: it may appear even if we fail.
    pub(super) was_proposed: bool,
    asked: BTreeSet<Id>,
    answers: BTreeMap<Id, Answer>,
}

/// What an operation is waiting for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// The owner is being looked up, or the next attempt is waited for.
    Lookup,
    /// What the keepers hold.
    Read,
    /// This register is being written; at the end of it, a read or a write is answered.
    Write(Register),
}

/// What one candidate said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// It holds the whole arc of the key, and this.
    Vote(Option<Register>),
    /// It holds this, and perhaps not all.
    Information(Option<Register>),
    /// It holds what is being written, durably.
    Accepted,
    /// Nothing that counts.
    Failed,
}

/// What a read phase has come to.
pub(super) enum Decision {
    Wait,
    Retry,
    Value(Option<Register>),
}

impl Operation {
    pub(super) fn new(op: OpId, key: Key, task: Task) -> Operation {
        Operation {
            op,
            key,
            task,
            phase: Phase::Lookup,
            candidates: Vec::new(),
            set: 0,
            hops: 0,
            round: 0,
            is_open: false,
            floor: None,
            failure: None,
            was_proposed: false,
            asked: BTreeSet::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Begins to ask anew.
    pub(super) fn enter(&mut self, round: u64, phase: Phase) {
        self.round = round;
        self.phase = phase;
        self.asked.clear();
        self.answers.clear();
    }

    /// Notes an answer, if this round waits for one like it. Whether it did.
    pub(super) fn take(&mut self, from: Id, answer: Answer) -> bool {
        let fits = match self.phase {
            Phase::Lookup => false,
            Phase::Read => answer != Answer::Accepted,
            Phase::Write(_) => matches!(answer, Answer::Accepted | Answer::Failed),
        };
        let is_taken = fits && self.asked.contains(&from);
        if is_taken {
            self.answers.insert(from, answer);
        }
        is_taken
    }

    /// Asks the set; when reading, also one further candidate for every one that gave no vote:
    /// joiners that still copy may stand between the key and those who hold it.
    pub(super) fn ask_more(&mut self, out: &mut Outbox, around: &Surroundings<'_>) {
        let further = match self.phase {
            Phase::Lookup => return,
            Phase::Read => self.count(|answer| !matches!(answer, Answer::Vote(_))),
            Phase::Write(_) => 0,
        };
        let number = self.round;
        let wanted = self.set.saturating_add(further).min(self.candidates.len());
        for at in 0..wanted {
            let contact = self.candidates[at].clone();
            if !self.asked.insert(contact.id) {
                continue;
            }
            if contact.key() == around.me.key() {
                let command = match &self.phase {
                    Phase::Write(register) => {
                        StoreCommand::Save { registers: vec![register.clone()] }
                    }
                    _ => StoreCommand::Load { key: self.key.clone() },
                };
                out.store(StoreOwner::Quorum(number), command);
                continue;
            }
            let part = self.key.id().part(around.params.part_bits);
            let request = match &self.phase {
                Phase::Write(register) => {
                    Request::WriteRegister { part, epoch: FIRST_EPOCH, register: register.clone() }
                }
                _ => Request::ReadRegister { part, epoch: FIRST_EPOCH, key: self.key.clone() },
            };
            let patience = disk_patience(out);
            out.call_patiently(CallOwner::Quorum(number), &contact, request, patience);
        }
    }

    pub(super) fn read_decision(&self) -> Decision {
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
    pub(super) fn holders(&self, ballot: Ballot) -> usize {
        let holds = |held: &&Contact| {
            self.answers
                .get(&held.id)
                .and_then(Answer::register)
                .is_some_and(|register| register.ballot == ballot)
        };
        self.candidates.iter().take(self.set).filter(holds).count()
    }

    /// What to write after `held`, above every ballot that is known.
    pub(super) fn proposal(
        &self,
        held: Option<&Register>,
        peer: PeerKey,
        operation: OperationId,
        value: &Value,
    ) -> Register {
        let mut next = match held {
            // A retry of a write that did happen: all that is left is to have a majority hold it.
            Some(newest) if newest.operations.contains(&operation) => newest.clone(),
            _ => {
                let key = self.key.clone();
                Register::followed_by(held, key, FIRST_EPOCH, peer, operation, value.clone())
            }
        };
        if let Some(floor) = self.floor
            && next.ballot <= floor
        {
            // The holder of that ballot is silent now; above it all the same.
            let counter = floor.counter.saturating_add(1);
            next.ballot = Ballot { epoch: FIRST_EPOCH, counter, peer };
        }
        next
    }

    /// Brings those of the set that lack the newest register up to date; nobody waits for it.
    pub(super) fn write_back(
        &self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        newest: &Register,
    ) {
        let part = newest.key.id().part(around.params.part_bits);
        for held in self.candidates.iter().take(self.set) {
            let lacks = self.answers.get(&held.id).is_some_and(|answer| {
                *answer != Answer::Failed
                    && answer.register().is_none_or(|register| register.ballot < newest.ballot)
            });
            if !lacks {
                continue;
            }
            let register = newest.clone();
            if held.key() == around.me.key() {
                let command = StoreCommand::Save { registers: vec![register] };
                out.store(StoreOwner::Quorum(self.round), command);
                continue;
            }
            let request = Request::WriteRegister { part, epoch: FIRST_EPOCH, register };
            out.call_patiently(CallOwner::Told, held, request, disk_patience(out));
        }
    }

    /// The end of a read.
    pub(super) fn read_outcome(&self, register: Option<Register>) -> ReadOutcome {
        let replicas = self.replica_states(register.as_ref());
        ReadOutcome::Value { register, replicas, hops: self.hops }
    }

    /// The end of a write.
    pub(super) fn write_outcome(&self, register: Register) -> WriteOutcome {
        let accepted = |held: &&Contact| self.answers.get(&held.id) == Some(&Answer::Accepted);
        let acks = self.candidates.iter().filter(accepted).cloned().collect();
        WriteOutcome::Done { register, acks, wanted: self.set, hops: self.hops }
    }

    /// What is certain when there is no more time.
    pub(super) fn shortfall(&self) -> Notice {
        let op = self.op;
        let needed = majority(self.set.max(1));
        let answered = self.count(|answer| *answer != Answer::Failed);
        match (&self.task, self.failure) {
            (Task::Read, Some(failure)) => {
                Notice::Read { op, outcome: ReadOutcome::Unreachable(failure) }
            }
            (Task::Read, None) => {
                Notice::Read { op, outcome: ReadOutcome::NoQuorum { answered, needed } }
            }
            (Task::Write { .. }, _) if self.was_proposed => {
                let acked = self.acked();
                Notice::Written { op, outcome: WriteOutcome::UnknownOutcome { acked, needed } }
            }
            (Task::Write { .. }, Some(failure)) => {
                Notice::Written { op, outcome: WriteOutcome::Unreachable(failure) }
            }
            (Task::Write { .. }, None) => {
                Notice::Written { op, outcome: WriteOutcome::NoQuorum { answered, needed } }
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

    /// How many of the set hold what is being written.
    pub(super) fn acked(&self) -> usize {
        let acked = |held: &&Contact| self.answers.get(&held.id) == Some(&Answer::Accepted);
        self.candidates.iter().take(self.set).filter(acked).count()
    }

    pub(super) fn pending(&self) -> usize {
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

/// Disks may take their time; the failure detector looks after the dead.
fn disk_patience(out: &Outbox) -> Duration {
    out.config.initial_timeout.saturating_mul(2)
}
