//! What a driver does to a world: cuts, stopped and slow nodes, clocks that jump, lost disks.

use std::time::Duration;

use dht_core::Id;
use dht_core::time::micros;

use super::World;
use crate::disk::Disk;
use crate::faults::FaultPlan;

impl World {
    /// From now on only nodes of one group reach each other; nodes named in none form one more.
    pub fn partition(&mut self, groups: &[Vec<u64>]) {
        self.mark(&[1], format_args!("partition {groups:?}"));
        self.cuts.partition(groups);
        self.on_cut();
    }

    /// From now on nothing that `from` sends reaches `to`, answers included.
    pub fn cut_one_way(&mut self, from: u64, to: u64) {
        self.mark(&[2, from, to], format_args!("cut {from} to {to}"));
        self.cuts.cut_one_way(from, to);
        self.on_cut();
    }

    /// From now on whoever dials this node gets somebody else: its record names a wrong address.
    /// Its own questions still go out.
    pub fn misdirect(&mut self, n: u64) {
        self.mark(&[3, n], format_args!("{n} is misdirected"));
        self.cuts.misdirect(n);
        self.on_cut();
    }

    /// Stops a node's process, as the lid of a laptop does: nothing happens in it, and what comes in
    /// waits.
    pub fn pause(&mut self, n: u64) {
        if self.is_running(n) && !self.member(n).is_paused {
            self.mark(&[5, n], format_args!("{n} is paused"));
            self.member_mut(n).is_paused = true;
            self.refresh(n);
        }
    }

    /// Lets a stopped process run again. It finds all that waited, and its timers are late.
    pub fn resume(&mut self, n: u64) {
        if self.is_running(n) && self.member(n).is_paused {
            self.mark(&[6, n], format_args!("{n} goes on"));
            self.member_mut(n).is_paused = false;
            self.ledger.hindered(self.now);
            self.refresh(n);
            self.release(n);
        }
    }

    /// From now on all messages of a node, in and out, take so much longer; zero ends it.
    pub fn slow_down(&mut self, n: u64, extra: Duration) {
        self.mark(&[7, n], format_args!("{n} is slow by {extra:?}"));
        self.ledger.hindered(self.now);
        match extra {
            Duration::ZERO => self.slow.remove(&n),
            extra => self.slow.insert(n, extra),
        };
    }

    /// A node's clock jumps ahead. Back it cannot go: it is a monotonic one.
    pub fn jump_clock(&mut self, n: u64, by: Duration) {
        if self.is_running(n) {
            self.mark(&[8, n], format_args!("the clock of {n} jumps by {by:?}"));
            let member = self.member_mut(n);
            member.ahead_us = member.ahead_us.saturating_add(micros(by));
            self.refresh(n);
        }
    }

    /// Ends a node's life silently, and its disk with it.
    pub fn crash(&mut self, n: u64) {
        self.fail(n);
        if let Some(member) = self.members.get_mut(&n) {
            member.disk = Disk::default();
        }
    }

    /// From now on other things go wrong; what is on its way is not touched.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        self.plan = plan;
    }

    /// Opens all ways again.
    pub fn heal(&mut self) {
        self.mark(&[4], format_args!("heal"));
        self.ledger.hindered(self.now);
        self.cuts.heal();
    }

    fn on_cut(&mut self) {
        let (cuts, numbers) = (&self.cuts, &self.numbers);
        let apart = |a: Id, b: Id| match (numbers.get(&a), numbers.get(&b)) {
            (Some(a), Some(b)) => !cuts.both_ways(*a, *b),
            _ => false,
        };
        self.watch.on_cut(apart);
        self.fail_cut_off();
    }
}
