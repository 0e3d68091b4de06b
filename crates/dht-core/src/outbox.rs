//! What all machines share to act: calls to other nodes with their time-outs, store commands,
//! timers, chance, and the queue of effects. Machines get it as an argument; none of them keeps it.

mod steer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::config::Config;
use crate::event::{Effect, FetchId, Notice, ReplyId, RpcId, StoreCommand, StoreId};
use crate::manifest::ChunkRef;
use crate::message::ring::{Request, Response};
use crate::peer::{Contact, PeerKey};
use crate::planted::Planted;
use crate::rtt::RttTable;
use crate::time::{Instant, micros};
use crate::timer::{Timer, TimerTable};

pub(crate) use steer::FIRST_NEW;

/// Who made a call and gets its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CallOwner {
    /// STABILIZE asks its head.
    Stabilize,
    /// STEP 2 asks the candidate.
    StepTwo,
    /// A member makes sure that its head lives before it lets a joiner in.
    ServeJoin,
    /// RECTIFY pings the one that notified.
    RectifyNotifier,
    /// RECTIFY pings the predecessor.
    RectifyPredecessor,
    /// Told, and only the fact that it was heard matters.
    Told,
    /// A head is notified.
    Notify,
    /// A joiner asks to be let in.
    Join,
    /// A joiner asks whether its own id is in use.
    OwnIdentity,
    /// A leaver waits to be let go.
    Unlink,
    /// A step of a lookup.
    Lookup(u64),
    /// A direct probe.
    Probe(PeerKey),
    /// An indirect probe.
    IndirectProbe(PeerKey),
    /// A probe on behalf of another node.
    ProbeFor(ReplyId),
    /// A remembered peer is pinged.
    MergeProbe,
    /// A register operation.
    Quorum(u64),
    /// A comparison of copies.
    Repair(u64),
    /// A leaver asks a new keeper.
    Handoff(u64),
    /// A report on its way to the lead of the map.
    MapReport(u64),
    /// A copy of a batch of events.
    MapCopy(u64),
    /// A page of the map.
    MapPage,
    /// A comparison of maps, of 2^n digests.
    MapDigest(u8),
    /// A lookup is handed on, or its end is told.
    Forward(u64),
}

/// Who gave the store a command and gets its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StoreOwner {
    /// A member's request about a register.
    Serve(ReplyId),
    /// A register operation of our own.
    Quorum(u64),
    /// A comparison of copies.
    Repair(u64),
}

/// Most overdue calls that are still listened for (guess: as many as a burst of lookups leaves behind).
const MAX_OVERDUE: usize = 256;

/// A call without an answer yet.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) to: Contact,
    pub(crate) owner: CallOwner,
    pub(crate) sent: Instant,
    /// Whether its round trip says something of the peer: the answer came without waiting.
    pub(crate) measures: bool,
    patience: Duration,
    deadline: Instant,
}

/// The shared means of all machines.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// The moment of the event being handled.
    pub(crate) now: Instant,
    pub(crate) config: Arc<Config>,
    pub(crate) timers: TimerTable,
    pub(crate) rtt: RttTable,
    effects: VecDeque<Effect>,
    calls: BTreeMap<RpcId, Call>,
    expiry: BTreeSet<(Instant, RpcId)>,
    /// Calls whose time is over, for a while longer: a late answer changes nothing any more, but it is a sign
    /// of life, and the only one that can say that time-outs have become too short (RFC 6298, section 5,
    /// doubles them instead; here each call has a number, so that a late answer can be measured).
    overdue: BTreeMap<RpcId, Call>,
    overdue_until: BTreeSet<(Instant, RpcId)>,
    /// Calls that were given up; empty unless [`Planted::LateReply`] was planted.
    late: BTreeMap<RpcId, Call>,
    stores: BTreeMap<StoreId, StoreOwner>,
    fetches: BTreeMap<FetchId, (u64, ChunkRef)>,
    next: u64,
    rng: Pcg64Mcg,
}

impl Outbox {
    pub(crate) fn new(config: Arc<Config>, seed: u64, now: Instant) -> Outbox {
        Outbox {
            now,
            config,
            timers: TimerTable::default(),
            rtt: RttTable::default(),
            effects: VecDeque::new(),
            calls: BTreeMap::new(),
            expiry: BTreeSet::new(),
            overdue: BTreeMap::new(),
            overdue_until: BTreeSet::new(),
            late: BTreeMap::new(),
            stores: BTreeMap::new(),
            fetches: BTreeMap::new(),
            next: 0,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Asks a node and waits as long as its round trips suggest.
    pub(crate) fn call(&mut self, owner: CallOwner, to: &Contact, request: Request) -> RpcId {
        let patience = self.rtt.timeout(&to.key(), &self.config);
        self.send(owner, to, request, patience, true)
    }

    /// Asks a node something that it may have to think about, and waits up to `patience`.
    pub(crate) fn call_patiently(
        &mut self,
        owner: CallOwner,
        to: &Contact,
        request: Request,
        patience: Duration,
    ) -> RpcId {
        self.send(owner, to, request, patience, false)
    }

    /// Tells a node something; whether it hears is its own concern.
    pub(crate) fn tell(&mut self, to: &Contact, request: Request) {
        self.call(CallOwner::Told, to, request);
    }

    /// Takes a call out because its answer came. `None`: it was given up before.
    pub(crate) fn answered_call(&mut self, rpc: RpcId) -> Option<Call> {
        self.finish_call(rpc).or_else(|| self.late.remove(&rpc))
    }

    /// Takes a call out that has ended. `None`: it was given up before.
    pub(crate) fn finish_call(&mut self, rpc: RpcId) -> Option<Call> {
        let call = self.calls.remove(&rpc)?;
        self.expiry.remove(&(call.deadline, rpc));
        Some(call)
    }

    /// The call, if it still waits for an answer.
    pub(crate) fn pending_call(&self, rpc: RpcId) -> Option<&Call> {
        self.calls.get(&rpc)
    }

    /// Whether this naive rule was planted.
    pub(crate) fn is_planted(&self, planted: Planted) -> bool {
        self.config.planted == Some(planted)
    }

    /// How many calls wait for an answer.
    pub(crate) fn waiting_calls(&self) -> usize {
        self.calls.len()
    }

    /// Gives a call up: a late answer will be ignored.
    pub(crate) fn cancel_call(&mut self, rpc: RpcId) {
        if let Some(call) = self.finish_call(rpc) {
            self.note_late(rpc, &call);
            self.effects.push_back(Effect::Cancel { rpc });
        }
    }

    /// Takes out one call whose time is over. It is still listened for a while.
    pub(crate) fn pop_expired_call(&mut self) -> Option<(RpcId, Call)> {
        while self.overdue_until.first().is_some_and(|(until, _)| *until <= self.now) {
            self.stop_listening();
        }
        let (deadline, rpc) = *self.expiry.first()?;
        if deadline > self.now {
            return None;
        }
        let call = self.finish_call(rpc)?;
        if self.is_planted(Planted::LateReply) {
            self.note_late(rpc, &call);
            self.effects.push_back(Effect::Cancel { rpc });
            return Some((rpc, call));
        }
        if self.overdue.len() == MAX_OVERDUE {
            self.stop_listening();
        }
        self.overdue.insert(rpc, call.clone());
        self.overdue_until.insert((self.now.after(self.config.max_timeout), rpc));
        Some((rpc, call))
    }

    /// Takes an overdue call out because it ended after all.
    pub(crate) fn finish_overdue(&mut self, rpc: RpcId) -> Option<Call> {
        let call = self.overdue.remove(&rpc)?;
        self.overdue_until.retain(|(_, held)| *held != rpc);
        Some(call)
    }

    /// Gives up the overdue call that has waited longest.
    fn stop_listening(&mut self) {
        if let Some((_, rpc)) = self.overdue_until.pop_first() {
            self.overdue.remove(&rpc);
            self.effects.push_back(Effect::Cancel { rpc });
        }
    }

    /// Gives every call that is due some more time: we woke late ourselves, so silence says nothing
    /// of the others (Lifeguard, 2017, section IV-A).
    pub(crate) fn extend_due_calls(&mut self) {
        let due: Vec<RpcId> = self
            .expiry
            .iter()
            .take_while(|(deadline, _)| *deadline <= self.now)
            .map(|(_, rpc)| *rpc)
            .collect();
        for rpc in due {
            if let Some(call) = self.calls.get_mut(&rpc) {
                self.expiry.remove(&(call.deadline, rpc));
                call.deadline = self.now.after(call.patience);
                call.measures = false;
                self.expiry.insert((call.deadline, rpc));
            }
        }
    }

    /// Gives the store a command.
    pub(crate) fn store(&mut self, owner: StoreOwner, command: StoreCommand) -> StoreId {
        let store = StoreId(self.draw_number());
        self.stores.insert(store, owner);
        self.effects.push_back(Effect::Store { store, command });
        store
    }

    /// Takes a store command out because its answer came.
    pub(crate) fn finish_store(&mut self, store: StoreId) -> Option<StoreOwner> {
        self.stores.remove(&store)
    }

    /// Copies a chunk from another member, on behalf of a repair session.
    pub(crate) fn fetch(&mut self, session: u64, chunk: ChunkRef, from: &Contact) {
        let fetch = FetchId(self.draw_number());
        self.fetches.insert(fetch, (session, chunk));
        self.effects.push_back(Effect::Fetch { fetch, chunk, from: from.clone() });
    }

    /// Takes a fetch out because it ended: its session and chunk.
    pub(crate) fn finish_fetch(&mut self, fetch: FetchId) -> Option<(u64, ChunkRef)> {
        self.fetches.remove(&fetch)
    }

    /// How many fetches are under way.
    pub(crate) fn fetching(&self) -> usize {
        self.fetches.len()
    }

    /// Answers a request.
    pub(crate) fn reply(&mut self, reply: ReplyId, response: Response) {
        self.effects.push_back(Effect::Reply { reply, response });
    }

    /// Tells the driver.
    pub(crate) fn notice(&mut self, notice: Notice) {
        self.effects.push_back(Effect::Notice(notice));
    }

    /// Queues any other effect.
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// The next effect.
    pub(crate) fn pop_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When something is due next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let call = self.expiry.first().map(|(deadline, _)| *deadline);
        let overdue = self.overdue_until.first().map(|(until, _)| *until);
        call.into_iter().chain(overdue).chain(self.timers.next()).min()
    }

    /// Sets a timer to fire after `delay`.
    pub(crate) fn set_timer(&mut self, timer: Timer, delay: Duration) {
        self.timers.set(timer, self.now.after(delay));
    }

    /// A number that was not drawn before: names calls, commands, sessions and lookups.
    pub(crate) fn draw_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn draw_below(&mut self, end: u64) -> u64 {
        self.rng.random_range(0..end.max(1))
    }

    /// `period` times 0.5 to 1.5, so that nodes started together drift apart.
    pub(crate) fn jittered(&mut self, period: Duration) -> Duration {
        let whole = micros(period);
        let spread = self.rng.random_range(0..=whole.min(u64::MAX / 4));
        Duration::from_micros((whole / 2).saturating_add(spread))
    }

    /// Forgets every call, command and timer: the node is gone.
    pub(crate) fn drop_everything(&mut self) {
        let calls: Vec<RpcId> = self.calls.keys().copied().collect();
        calls.into_iter().for_each(|rpc| self.cancel_call(rpc));
        while !self.overdue_until.is_empty() {
            self.stop_listening();
        }
        self.timers.clear();
    }

    /// A late reply to this one will be applied, if that rule was planted.
    fn note_late(&mut self, rpc: RpcId, call: &Call) {
        if self.is_planted(Planted::LateReply) {
            self.late.insert(rpc, call.clone());
        }
    }

    fn send(
        &mut self,
        owner: CallOwner,
        to: &Contact,
        request: Request,
        patience: Duration,
        measures: bool,
    ) -> RpcId {
        let rpc = RpcId(self.draw_number());
        // A deadline at the very moment of sending would expire before any answer (case 34).
        let deadline = self.now.after(patience.max(Duration::from_micros(1)));
        let call = Call { to: to.clone(), owner, sent: self.now, measures, patience, deadline };
        self.calls.insert(rpc, call);
        self.expiry.insert((deadline, rpc));
        self.effects.push_back(Effect::Send { rpc, to: to.clone(), request });
        rpc
    }
}
