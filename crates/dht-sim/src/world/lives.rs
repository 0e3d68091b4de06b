//! How nodes' lives begin and end, and what of them outlives it.

use std::sync::Arc;

use dht_core::node::Node;
use dht_core::{Command, Config, Id, Instant};

use super::World;
use crate::invariants::acknowledged::{self, REPAIR_WINDOW};
use crate::member::{Member, Stage, contact, mix};
use crate::trace::Kind;

impl World {
    /// Ends a node's life silently.
    pub fn fail(&mut self, n: u64) {
        if self.is_running(n) {
            self.trace.event(self.now, Kind::Life, &[n, 0], format_args!("{n} dies"));
            self.end_life(n, Stage::Dead, false);
        }
    }

    /// Starts a node's next life on the same disk; one that still runs dies first. It finds its way
    /// back by itself, through those its last life remembered.
    pub fn restart(&mut self, n: u64) {
        let Some(member) = self.members.get(&n) else { return };
        let (id, via, memory) = (member.me.id, member.via, member.disk.memory.clone());
        self.fail(n);
        self.begin_life(n, id, true);
        self.member_mut(n).via = via;
        let knows_nobody = memory.contacts.is_empty() && !memory.alone;
        if memory.alone {
            // It was a ring of its own, and comes back as one.
            self.watch.on_second_ring(id);
        }
        self.watch.acquaint(id, memory.contacts.iter().map(|held| held.id));
        self.command(n, Command::Remember(memory));
        match via {
            Some(via) if knows_nobody => self.join(n, via),
            // The first of its ring, which died before it had saved whom it met: it founds the ring
            // again, and the others, who remember it, take it in.
            None if knows_nobody => {
                self.watch.on_second_ring(id);
                self.command(n, Command::Found);
            }
            _ => {}
        }
    }

    /// Changes the settings of a node from its next life on.
    pub fn configure(&mut self, n: u64, change: impl FnOnce(&mut Config)) {
        let mut config = Config::clone(&self.config_of(n));
        change(&mut config);
        self.configs.insert(n, Arc::new(config));
    }

    fn config_of(&self, n: u64) -> Arc<Config> {
        self.configs.get(&n).unwrap_or(&self.config).clone()
    }

    pub(super) fn begin_life(&mut self, n: u64, id: Id, keeps_disk: bool) {
        let before = self.members.remove(&n);
        let life = before.as_ref().map_or(1, |held| held.life() + 1);
        let me = contact(n, id, life);
        let seed = mix(&[self.seed, n, life]);
        // A clock belongs to the machine: a new life keeps what the old one had.
        let ahead_us = before.as_ref().map_or(0, |held| held.ahead_us);
        let clock = Instant(self.now.0.saturating_add(ahead_us));
        let node = Node::new(me.clone(), self.params, self.config_of(n), seed, clock);
        let disk = before.filter(|_| keeps_disk).map(|held| held.disk).unwrap_or_default();
        let stage = Stage::Running;
        let member = Member {
            node,
            me,
            disk,
            stage,
            deadline: None,
            via: None,
            leaves_for_good: false,
            ahead_us,
            began: self.now,
            seen: None,
            sent: (0, 0),
            is_paused: false,
        };
        self.members.insert(n, member);
        self.numbers.insert(id, n);
        // What it did not save in time is forgotten too.
        self.watch.forgot(id);
        let line = format_args!("{n} starts its life {life}");
        self.trace.event(self.now, Kind::Life, &[n, life], line);
        self.refresh(n);
    }

    pub(super) fn end_life(&mut self, n: u64, stage: Stage, for_good: bool) {
        let member = self.member_mut(n);
        member.stage = stage;
        let (id, deadline) = (member.me.id, member.deadline.take());
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, n));
        }
        for (_, (_, key)) in self.lookups.extract_if(.., |_, (asker, _)| *asker == n) {
            self.watch.lookup_ended(self.now, key, None);
        }
        self.watch.ended(self.now, id, self.post.last_sent(), for_good);
        self.on_copies_lost(n);
        self.on_gone(n);
    }

    /// Whether copies may not get where they should be.
    fn is_hindered(&self) -> bool {
        let is_paused = |member: &Member| member.is_running() && member.is_paused;
        self.cuts.is_any() || !self.slow.is_empty() || self.members.values().any(is_paused)
    }

    /// A node's copies are gone for now: whatever was acknowledged must be elsewhere.
    fn on_copies_lost(&mut self, n: u64) {
        let held = |member: &Member, key| member.disk.register(key).map(|held| held.ballot);
        if self.is_hindered() {
            self.ledger.hindered(self.now);
        }
        let running = || self.members.values().filter(|held| held.is_running());
        // Whoever came a while ago has had time to copy.
        let is_settled = |member: &&Member| self.now.since(member.began) >= REPAIR_WINDOW;
        let settled = running().filter(is_settled).count();
        let copies = usize::from(self.params.replicas).min(settled + 1);
        let dead = &self.members[&n];
        self.ledger.died(self.now, copies, |key| held(dead, key));
        for (key, promise) in self.ledger.promises() {
            let copies = running().filter_map(|member| held(member, key));
            if let Some(violation) = acknowledged::check(key, promise.ballot, copies) {
                self.watch.report(self.now, violation);
            }
        }
    }
}
