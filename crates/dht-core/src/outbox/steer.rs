//! What exhaustive exploration needs of the outbox; see [`crate::node::steer`].

use std::collections::BTreeMap;
use std::time::Duration;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{CallOwner, Outbox};
use crate::event::RpcId;
use crate::peer::Contact;
use crate::rtt::RttTable;
use crate::time::Instant;
use crate::timer::{Timer, TimerTable};

/// Numbers below this one were given out by [`Outbox::distill`]; those drawn since are higher.
pub(crate) const FIRST_NEW: u64 = 64;

impl Outbox {
    /// The calls that wait for an answer.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (RpcId, &CallOwner, &Contact)> {
        self.calls.iter().map(|(rpc, call)| (*rpc, &call.owner, &call.to))
    }

    /// A lookup has another number.
    pub(crate) fn rename_lookup(&mut self, from: u64, to: u64) {
        for call in self.calls.values_mut().filter(|call| call.owner == CallOwner::Lookup(from)) {
            call.owner = CallOwner::Lookup(to);
        }
        if self.timers.is_set(Timer::LookupRetry(from)) {
            self.timers.stop(Timer::LookupRetry(from));
            self.timers.set(Timer::LookupRetry(to), Instant::NEVER);
        }
    }

    /// Forgets times, chance and everything about data, and numbers the new calls: the number says
    /// what the call is for wherever only one of its kind can be under way. What was renumbered.
    pub(crate) fn distill(&mut self, seed: u64) -> BTreeMap<RpcId, RpcId> {
        self.now = Instant::ZERO;
        self.rtt = RttTable::default();
        self.rng = Pcg64Mcg::seed_from_u64(seed);
        self.next = FIRST_NEW;
        self.stores.clear();
        self.fetches.clear();
        self.overdue.clear();
        self.overdue_until.clear();
        let mut timers = TimerTable::default();
        self.timers.all().filter(is_kept).for_each(|timer| timers.set(timer, Instant::NEVER));
        self.timers = timers;
        let mut renumbered = BTreeMap::new();
        let new: Vec<RpcId> = self.calls.range(RpcId(FIRST_NEW)..).map(|(rpc, _)| *rpc).collect();
        for rpc in new {
            let Some(call) = self.calls.remove(&rpc) else { continue };
            let own = own_number(&call.owner).filter(|own| !self.calls.contains_key(own));
            let free = (8..).map(RpcId).find(|free| !self.calls.contains_key(free));
            let number = own.or(free).unwrap_or(rpc);
            self.calls.insert(number, call);
            renumbered.insert(rpc, number);
        }
        for call in self.calls.values_mut() {
            (call.sent, call.deadline) = (Instant::ZERO, Instant::NEVER);
            (call.patience, call.measures) = (Duration::MAX, false);
        }
        self.expiry = self.calls.keys().map(|rpc| (Instant::NEVER, *rpc)).collect();
        renumbered
    }
}

/// The number of a call of which there is mostly one.
fn own_number(owner: &CallOwner) -> Option<RpcId> {
    match owner {
        CallOwner::Stabilize | CallOwner::StepTwo | CallOwner::ServeJoin => Some(RpcId(1)),
        CallOwner::RectifyNotifier | CallOwner::RectifyPredecessor => Some(RpcId(2)),
        CallOwner::Join => Some(RpcId(3)),
        CallOwner::MergeProbe => Some(RpcId(4)),
        CallOwner::Told
        | CallOwner::Notify
        | CallOwner::OwnIdentity
        | CallOwner::Unlink
        | CallOwner::Lookup(_)
        | CallOwner::Probe(_)
        | CallOwner::IndirectProbe(_)
        | CallOwner::ProbeFor(_)
        | CallOwner::Quorum(_)
        | CallOwner::Repair(_)
        | CallOwner::Handoff(_)
        | CallOwner::MapReport(_)
        | CallOwner::MapCopy(_)
        | CallOwner::MapPage
        | CallOwner::MapDigest(_)
        | CallOwner::Forward(_) => None,
    }
}

/// Whether a timer is one of the ring's. Data has no say in the ring, and a lookup that waits long
/// enough ends by itself.
fn is_kept(timer: &Timer) -> bool {
    match timer {
        Timer::Stabilize
        | Timer::Push
        | Timer::Deferred
        | Timer::WaitingRoutes
        | Timer::Join
        | Timer::MergeProbe
        | Timer::Unlink
        | Timer::LookupRetry(_) => true,
        Timer::Fingers
        | Timer::MapBatch
        | Timer::MapReport
        | Timer::MapUpkeep
        | Timer::Repair
        | Timer::RepairSoon
        | Timer::HandoffPoll
        | Timer::LookupDeadline(_)
        | Timer::QuorumDeadline(_)
        | Timer::QuorumRetry(_)
        | Timer::Handed(_) => false,
    }
}
