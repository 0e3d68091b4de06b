//! Time in a world: timers, quiet, and steps in which time stands still.

use std::time::Duration;

use dht_core::Instant;
use dht_core::event::OpId;
use dht_core::message::client::NodeState;
use dht_core::time::micros;

use super::World;
use crate::invariants::{Violation, bounded};
use crate::trace::Kind;

/// How long quiet may take to come: 60 virtual minutes (the contract of `sim script`).
pub const QUIET_LIMIT: Duration = Duration::from_secs(3600);
/// Most messages one step may cause. A step in a ring of 64 causes some thousands; more is a loop
/// (scenario S19).
const MAX_STEP_MESSAGES: u64 = 200_000;
/// How many periods of the slowest timer nothing may change.
const QUIET_PERIODS: u32 = 3;

impl World {
    /// Lets time pass, with all timers.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now().after(span));
    }

    /// Lets time pass up to a moment, with all timers.
    pub fn run_until(&mut self, end: Instant) {
        self.enter_timed();
        while self.advance(end) {}
        self.now = self.now.max(end);
    }

    /// Lets time pass until `is_done` or up to a moment. Whether it was done in time.
    pub fn run_while(&mut self, end: Instant, is_done: impl Fn(&World) -> bool) -> bool {
        self.enter_timed();
        loop {
            if is_done(self) {
                return true;
            }
            if !self.advance(end) {
                self.now = self.now.max(end);
                return is_done(self);
            }
        }
    }

    /// Lets time pass until these operations have ended, for at most so long; what they came to is
    /// left to be taken. Whether all have ended.
    pub fn run_until_answered(
        &mut self,
        limit: Duration,
        ops: impl IntoIterator<Item = OpId>,
    ) -> bool {
        let ops: Vec<OpId> = ops.into_iter().collect();
        let end = self.now.after(limit);
        self.run_while(end, |world| ops.iter().all(|op| world.outcomes.contains_key(op)))
    }

    /// Lets time pass until no pointer has changed for three periods of the slowest timer. What is
    /// ideal then is up to the caller: [`World::flaws`].
    pub fn run_until_quiet(&mut self, limit: Duration) -> Result<(), Violation> {
        self.enter_timed();
        let (began, end) = (self.now, self.now.after(limit));
        loop {
            let calm = self.last_change().max(began).after(self.patience());
            if self.now >= calm {
                break;
            }
            if calm > end {
                self.run_until(end);
                if self.last_change().max(began).after(self.patience()) > self.now {
                    let seconds = micros(limit) / 1_000_000;
                    return Err(Violation::NeverQuiet { seconds });
                }
                break;
            }
            self.run_until(calm);
        }
        if self.flaws().is_empty() {
            self.mended();
        }
        Ok(())
    }

    /// Delivers every message at once, and whatever follows from it, until none is under way. Time
    /// stands still and no timer fires.
    pub fn settle(&mut self) {
        self.enter_stepped();
        let mut delivered = 0;
        while self.deliver_next() {
            delivered += 1;
            if delivered == MAX_STEP_MESSAGES {
                self.watch.report(self.now, Violation::Endless { messages: delivered });
                self.post.drop_everything();
                return;
            }
        }
    }

    /// From now on time stands still until time is let pass again.
    pub fn enter_stepped(&mut self) {
        if !self.is_stepped {
            self.is_stepped = true;
            self.fail_lost();
        }
    }

    fn enter_timed(&mut self) {
        if self.is_stepped {
            self.is_stepped = false;
            self.release_notifies();
        }
    }

    /// The next thing that happens, unless it lies beyond `end`. Whether there was one.
    fn advance(&mut self, end: Instant) -> bool {
        let mail = self.post.next_arrival();
        let timer = self.deadlines.first().copied();
        let mail_first = match (mail, timer) {
            (Some(mail), Some((timer, _))) => mail <= timer,
            (mail, _) => mail.is_some(),
        };
        let at = if mail_first { mail } else { timer.map(|(at, _)| at) };
        let Some(at) = at.filter(|at| *at <= end) else { return false };
        self.now = self.now.max(at);
        if mail_first {
            self.deliver_next();
        } else if let Some((_, n)) = timer {
            self.fire(n);
        }
        true
    }

    fn fire(&mut self, n: u64) {
        self.trace.event(self.now, Kind::Timer, &[n], format_args!("{n} is woken"));
        let now = self.now;
        let member = self.member_mut(n);
        let clock = member.clock(now);
        member.node.handle_timeout(clock);
        self.drain(n);
        let member = self.member(n);
        let next = member.node.poll_timeout();
        let over = bounded::check(member.me.id, &member.node.sizes(), &self.config);
        if let Some(violation) = over {
            self.watch.report(now, violation);
        }
        let member = self.member(n);
        if member.is_running() && next.is_some_and(|next| next <= clock) {
            let node = member.me.id;
            self.watch.report(now, Violation::StandsStill { node });
            // The world goes on all the same.
            self.postpone(n);
        }
    }

    fn postpone(&mut self, n: u64) {
        let later = self.now.after(Duration::from_millis(1));
        let before = self.member_mut(n).deadline.replace(later);
        if let Some(before) = before {
            self.deadlines.remove(&(before, n));
        }
        self.deadlines.insert((later, n));
    }

    /// How long nothing may change before it is quiet: three periods of the slowest timer, which is
    /// the merge probe at its longest jitter. A probe reaches one remembered stranger at a time,
    /// and one without a place asks one remembered peer at a time, so whoever has many to ask needs
    /// a whole round.
    fn patience(&self) -> Duration {
        let longest_period = self.config().merge_probe_every * 3 / 2;
        let to_ask = |n: &u64| {
            let node = &self.member(*n).node;
            match node.state() {
                NodeState::Joining | NodeState::Isolated => node.remembered().count(),
                NodeState::Member | NodeState::Leaving => {
                    let is_neighbor = |id| {
                        let mut near = node.successors().iter().chain(node.predecessors());
                        near.any(|held| held.id == id)
                    };
                    node.remembered().filter(|held| !is_neighbor(held.id)).count()
                }
            }
        };
        let most = self.running().iter().map(to_ask).max();
        let round = u32::try_from(most.unwrap_or(0)).unwrap_or(u32::MAX);
        longest_period.saturating_mul(QUIET_PERIODS.max(round.saturating_add(2)))
    }
}
