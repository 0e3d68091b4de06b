//! Random schedules: members come, leave, die and start anew, each notices at its own time, and
//! keys are written and read meanwhile. What was acknowledged is never lost, and never "not found".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Progress;
use super::rehearsal::{World, chunk};
use crate::event::{OpId, ReadOutcome, WriteOutcome};
use crate::quorum::Task;
use crate::register::{Register, Value};

/// How long copying may take after a change, before the next loss.
const REST: Duration = Duration::from_secs(40);
const MAX_MEMBERS: usize = 14;
const KEYS: usize = 12;
const CHUNKS: u32 = 30;

/// A world, its chance, and what must be true of it.
struct Schedule {
    world: World,
    rng: Pcg64Mcg,
    /// The version that was acknowledged last, by key.
    acknowledged: BTreeMap<usize, u64>,
    /// Versions whose outcome is unknown: they may appear at any time.
    unknown: BTreeSet<(usize, u64)>,
    /// Operations under way: what they are about, and what was acknowledged when they began.
    reads: Vec<(OpId, usize, Option<u64>)>,
    writes: BTreeMap<usize, (OpId, u64)>,
    version: u64,
    /// How many members had every copy when there was last time for it; 0 after a loss.
    rested: usize,
    log: Vec<String>,
}

/// Case 53: members change all the time.
#[test]
fn what_was_acknowledged_is_never_lost() {
    for seed in 0..4 {
        Schedule::new(seed).run(15);
    }
}

impl Schedule {
    fn new(seed: u64) -> Schedule {
        let mut world = World::founded(30_000);
        let disk = &mut world.member(30_000).disk;
        disk.chunks.extend((0..CHUNKS).map(|n| (chunk(n).id(), chunk(n))));
        Schedule {
            world,
            rng: Pcg64Mcg::seed_from_u64(seed),
            acknowledged: BTreeMap::new(),
            unknown: BTreeSet::new(),
            reads: Vec::new(),
            writes: BTreeMap::new(),
            version: 0,
            rested: 0,
            log: vec![format!("seed {seed}")],
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.begin_operations();
            match self.rng.random_range(0..10) {
                0..4 => self.enter(),
                4..6 => self.kill(),
                6..8 => self.leave(),
                _ => self.restart(),
            }
            self.settle();
        }
        self.world.run(REST);
        self.end_operations();
        self.check();
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.random_range(0..bound)
    }

    fn any(&mut self) -> u64 {
        let at = self.below(self.world.ring.len());
        *self.world.ring.iter().nth(at).expect("somebody")
    }

    /// Some join at once.
    fn enter(&mut self) {
        for _ in 0..=self.below(8) {
            let n = self.rng.random_range(1..65_535);
            if self.world.members.len() < MAX_MEMBERS && !self.world.members.contains_key(&n) {
                self.log.push(format!("enter {n}"));
                self.world.enter(n);
            }
        }
    }

    /// As many die at once as a register's keepers can bear: two when all copies are there, one
    /// while joiners still copy.
    fn kill(&mut self) {
        let losses = match self.world.ring.len() {
            0..4 => return,
            _ if self.rested >= 6 && self.rng.random() => 1,
            4..6 => {
                self.rest();
                1
            }
            _ => {
                self.rest();
                2
            }
        };
        self.rested = 0;
        for _ in 0..losses {
            let n = self.any();
            self.log.push(format!("kill {n}"));
            self.world.kill(n);
            self.world.ring.remove(&n);
        }
        self.settle();
        self.world.run(REST);
        self.world.members.retain(|_, member| member.is_live);
    }

    fn leave(&mut self) {
        if self.world.ring.len() < 2 {
            return;
        }
        if self.below(3) == 0 {
            self.rest();
        }
        let n = self.any();
        self.log.push(format!("leave {n}"));
        self.world.leave(n);
        for _ in 0..2000 {
            if self.world.progress.get(&n) == Some(&Progress::HandedOff) {
                break;
            }
            self.world.run(Duration::from_millis(50));
        }
        let progress = self.world.progress.remove(&n);
        assert_eq!(progress, Some(Progress::HandedOff), "{:?}", self.log);
        self.world.kill(n);
        self.world.ring.remove(&n);
        self.settle();
        self.world.members.remove(&n);
    }

    /// One stops and starts again, before or after the others noticed.
    fn restart(&mut self) {
        if self.world.ring.len() < 3 {
            return;
        }
        let n = self.any();
        self.log.push(format!("restart {n}"));
        self.rest();
        self.world.kill(n);
        if self.rng.random() {
            self.world.ring.remove(&n);
            self.settle();
            self.world.run(REST);
        }
        self.world.restart(n);
    }

    fn rest(&mut self) {
        self.world.settle();
        self.world.run(REST);
        self.rested = self.world.ring.len();
    }

    /// All see the circle as it is, one after the other.
    fn settle(&mut self) {
        let mut left: Vec<u64> = self.world.ring.iter().copied().collect();
        while !left.is_empty() {
            let n = left.swap_remove(self.below(left.len()));
            let (after, before) = (self.world.after(n), self.world.before(n));
            self.world.link(n, &after, &before);
            let pause = self.rng.random_range(0..100);
            self.world.run(Duration::from_millis(pause));
            if self.below(4) == 0 {
                self.begin_operations();
            }
        }
        self.end_operations();
    }

    fn begin_operations(&mut self) {
        let (n, at) = (self.any(), self.below(KEYS));
        let name = format!("key-{at}");
        if self.rng.random() {
            let before = self.acknowledged.get(&at).copied();
            let op = self.world.begin(n, &name, Task::Read);
            self.reads.push((op, at, before));
        } else if !self.writes.contains_key(&at) {
            self.version += 1;
            let op = self.world.begin_write(n, &name, &self.version.to_string());
            self.writes.insert(at, (op, self.version));
        }
    }

    /// Every operation ends, whatever its end.
    fn end_operations(&mut self) {
        for (at, (op, version)) in std::mem::take(&mut self.writes) {
            match self.world.try_written(op) {
                Some(WriteOutcome::Done { .. }) => {
                    self.acknowledged.insert(at, version);
                }
                Some(WriteOutcome::NoQuorum { .. }) => {}
                // Its coordinator died, or too few answered.
                _ => {
                    self.unknown.insert((at, version));
                }
            }
        }
        for (op, at, before) in std::mem::take(&mut self.reads) {
            if let Some(ReadOutcome::Value { register, .. }) = self.world.try_read(op) {
                self.check_read(at, before, register);
            }
        }
    }

    fn check_read(&self, at: usize, before: Option<u64>, register: Option<Register>) {
        let found = register.and_then(|held| match held.value {
            Value::Present(bytes) => String::from_utf8_lossy(&bytes).parse::<u64>().ok(),
            Value::Deleted => None,
        });
        let may_be =
            found >= before || found.is_some_and(|found| self.unknown.contains(&(at, found)));
        assert!(may_be, "key-{at}: {found:?} after {before:?}; {:?}", self.log);
    }

    /// After quiet: everybody votes, everything is found, everything has its copies.
    fn check(&mut self) {
        self.rest();
        let members = self.world.ring.len();
        for n in self.world.ring.clone() {
            assert!(self.world.is_open_at_home(n), "{n} is not open; {:?}", self.log);
        }
        for n in 0..CHUNKS {
            let copies = self.world.chunk_copies(&chunk(n));
            assert!(copies >= members.min(3), "chunk {n}: {copies}; {:?}", self.log);
        }
        for at in 0..KEYS {
            let before = self.acknowledged.get(&at).copied();
            let asker = self.any();
            let op = self.world.begin(asker, &format!("key-{at}"), Task::Read);
            match self.world.read(op) {
                ReadOutcome::Value { register, .. } => self.check_read(at, before, register),
                outcome => panic!("key-{at}: {outcome:?}; {:?}", self.log),
            }
        }
    }
}
