//! Registers written and read while members come and go: is what was acknowledged still there?

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use dht_core::Notice;
use dht_core::event::{OpId, ReadOutcome, WriteOutcome};
use dht_core::register::{Key, Value};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::world::World;

/// Reads and writes of a run. Every key is written once.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    drawn: u64,
    pending: BTreeMap<OpId, Pending>,
    acked: Vec<Key>,
    counts: FileCounts,
}

/// What reads and writes came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FileCounts {
    /// Writes that were ordered of members that lived to see the end.
    pub writes: u64,
    /// Writes that were acknowledged.
    pub acked: u64,
    /// Reads of keys that had been acknowledged, while members came and went.
    pub reads: u64,
    /// Reads that came to no answer.
    pub unanswered: u64,
    /// Reads that were answered "there is nothing".
    pub absent: u64,
}

#[derive(Clone, Debug)]
struct Pending {
    by: u64,
    key: Key,
    is_write: bool,
}

impl Files {
    /// Lets a member write the next key.
    pub(super) fn write(&mut self, world: &mut World, by: u64) {
        self.drawn += 1;
        let key = Key::new(format!("churn-{}", self.drawn)).expect("a short name is a key");
        let value = Value::Present(Bytes::from_static(&[7; VALUE_LEN]));
        let op = world.write(by, key.clone(), value);
        self.pending.insert(op, Pending { by, key, is_write: true });
    }

    /// Lets a member read a key that was acknowledged, if there is one.
    pub(super) fn read(&mut self, world: &mut World, by: u64, rng: &mut Pcg64Mcg) {
        if self.acked.is_empty() {
            return;
        }
        let key = self.acked[rng.random_range(0..self.acked.len())].clone();
        let op = world.read(by, key.clone());
        self.pending.insert(op, Pending { by, key, is_write: false });
    }

    /// An operation has ended. Whether it was one of these.
    pub(super) fn ended(&mut self, op: OpId, notice: &Notice) -> bool {
        let Some(pending) = self.pending.remove(&op) else { return false };
        match notice {
            Notice::Written { outcome, .. } => {
                self.counts.writes += 1;
                if matches!(outcome, WriteOutcome::Done { .. }) {
                    self.counts.acked += 1;
                    self.acked.push(pending.key);
                }
            }
            Notice::Read { outcome, .. } => {
                self.counts.reads += 1;
                match outcome {
                    ReadOutcome::Value { register: Some(_), .. } => {}
                    ReadOutcome::Value { register: None, .. } => self.counts.absent += 1,
                    _ => self.counts.unanswered += 1,
                }
            }
            _ => debug_assert!(!pending.is_write, "lookups are asked elsewhere"),
        }
        true
    }

    /// A member died: nobody hears what became of its operations.
    pub(super) fn died(&mut self, n: u64) {
        self.pending.retain(|_, held| held.by != n);
    }

    /// Whether any operation is under way.
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn counts(&self) -> FileCounts {
        self.counts
    }

    /// After the end: how many acknowledged keys no member can read, each asked of a few in turn.
    pub(super) fn count_lost(&self, world: &mut World, rng: &mut Pcg64Mcg) -> u64 {
        let mut left = self.acked.clone();
        for _ in 0..ATTEMPTS {
            let members = world.members();
            if members.is_empty() {
                break;
            }
            let mut ops: BTreeMap<OpId, Key> = BTreeMap::new();
            for key in std::mem::take(&mut left) {
                let by = members[rng.random_range(0..members.len())];
                ops.insert(world.read(by, key.clone()), key);
            }
            let limit = world.config().operation_timeout + Duration::from_secs(1);
            world.run_until_answered(limit, ops.keys().copied());
            for (op, key) in ops {
                let is_there = |notice: &Notice| match notice {
                    Notice::Read { outcome: ReadOutcome::Value { register, .. }, .. } => {
                        register.is_some()
                    }
                    _ => false,
                };
                if !world.take_outcome(op).is_some_and(|notice| is_there(&notice)) {
                    left.push(key);
                }
            }
        }
        left.len() as u64
    }
}

/// Bytes of each value: a small manifest (guess).
const VALUE_LEN: usize = 200;
/// How many members are asked for a key before it counts as lost.
const ATTEMPTS: usize = 3;
