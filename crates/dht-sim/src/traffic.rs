//! What the messages of a world would cost on a real network, in bytes.
//!
//! Simulated messages travel without a transport. This model counts what dht-net would send for
//! them: frames, datagrams and their headers, acknowledgements, handshakes where no connection is
//! open, keep-alives, and what is sent to peers that are dead. Its constants are measured on
//! dht-net ([`cost`]); a test in `crates/dht-node/tests/traffic.rs` holds them to it.

pub mod cost;
mod size;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dht_core::message::ring::{Request, Response};
use dht_core::{Id, Instant};

use cost::{Cost, Path};

use size::{answer_name, request_name};

pub use size::{answer_len, request_len};

/// Counts the bytes that a world would send.
#[derive(Clone, Debug)]
pub struct Traffic {
    path: Path,
    /// The pairs that have a connection, and when it was last used.
    open: BTreeMap<(u64, u64), Instant>,
    /// Who dialled a dead peer, how long it lets that one be, and until when.
    silent: BTreeMap<(u64, u64), (Duration, Instant)>,
    /// Points that are looked up for clients at the moment.
    wanted: BTreeSet<Id>,
    swept: Instant,
    counts: Counts,
}

/// What bytes were sent for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Use {
    /// Links: STABILIZE, notifications, pushes, probes, joins with their lookups, merge probes.
    Upkeep,
    /// Lookups that the driver of the world ordered.
    Lookups,
    /// Registers and chunks: reads, writes, comparisons, copies; without chunk bytes.
    Copies,
    /// Opening connections, keeping them alive, closing them.
    Connections,
    /// QUIC's search for the longest datagram of a path, once for every connection.
    Discovery,
    /// Datagrams to peers that are dead.
    Dead,
}

/// Bytes and datagrams by what they were sent for, IP and UDP headers included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    costs: [Cost; Use::ALL.len()],
    /// By the name of the message, questions and answers apart; those of clients' lookups and those
    /// to the dead are left out.
    pub messages: BTreeMap<&'static str, Cost>,
    /// Connections opened.
    pub handshakes: u64,
    /// Requests sent.
    pub requests: u64,
}

impl Use {
    /// All of them, in the order of reports.
    pub const ALL: [Use; 6] =
        [Use::Upkeep, Use::Lookups, Use::Copies, Use::Connections, Use::Discovery, Use::Dead];

    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Use::Upkeep => "upkeep",
            Use::Lookups => "lookups",
            Use::Copies => "copies",
            Use::Connections => "connections",
            Use::Discovery => "discovery",
            Use::Dead => "dead",
        }
    }
}

impl Counts {
    /// What was sent for one use.
    pub fn of(&self, purpose: Use) -> Cost {
        self.costs[purpose as usize]
    }

    /// Everything.
    pub fn total(&self) -> Cost {
        self.costs.iter().fold(Cost::default(), |sum, cost| sum.and(*cost))
    }

    /// What was sent since an earlier count of the same world.
    pub fn since(&self, before: &Counts) -> Counts {
        let mut costs = self.costs;
        costs.iter_mut().zip(&before.costs).for_each(|(cost, held)| *cost = cost.less(*held));
        let mut messages = self.messages.clone();
        for (name, held) in &before.messages {
            messages.entry(name).and_modify(|cost| *cost = cost.less(*held));
        }
        Counts {
            costs,
            messages,
            handshakes: self.handshakes.saturating_sub(before.handshakes),
            requests: self.requests.saturating_sub(before.requests),
        }
    }

    fn add(&mut self, purpose: Use, cost: Cost) {
        let held = &mut self.costs[purpose as usize];
        *held = held.and(cost);
    }

    fn add_message(&mut self, purpose: Use, name: &'static str, cost: Cost) {
        self.add(purpose, cost);
        if purpose != Use::Lookups {
            let held = self.messages.entry(name).or_default();
            *held = held.and(cost);
        }
    }
}

impl Traffic {
    /// Counts from now on, on paths of this kind.
    pub fn new(path: Path) -> Traffic {
        Traffic {
            path,
            open: BTreeMap::new(),
            silent: BTreeMap::new(),
            wanted: BTreeSet::new(),
            swept: Instant::ZERO,
            counts: Counts::default(),
        }
    }

    /// A client wants the owner of this point: steps towards it are no upkeep.
    pub fn want(&mut self, key: Id) {
        self.wanted.insert(key);
    }

    /// The client has it, or gave up.
    pub fn drop_want(&mut self, key: Id) {
        self.wanted.remove(&key);
    }

    /// One node asks another one; `lives` says whether that one can answer.
    pub(crate) fn asked(&mut self, now: Instant, by: u64, to: u64, lives: bool, request: &Request) {
        self.counts.requests += 1;
        if !lives {
            return self.asked_dead(now, by, to);
        }
        self.connect(now, by, to);
        let purpose = self.purpose(request);
        let cost = self.path.request(request_len(request));
        self.counts.add_message(purpose, request_name(request), cost);
    }

    /// One node answers another one.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        by: u64,
        to: u64,
        key: Option<Id>,
        response: &Response,
    ) {
        let purpose = match response {
            _ if key.is_some_and(|key| self.wanted.contains(&key)) => Use::Lookups,
            response if is_about_copies(response) => Use::Copies,
            _ => Use::Upkeep,
        };
        let cost = self.path.answer(answer_len(response));
        self.counts.add_message(purpose, answer_name(response), cost);
        self.open.insert(pair(by, to), now);
    }

    /// What was sent so far. Connections that have been idle for longer than they are kept are
    /// closed, and their keep-alives counted, up to this moment.
    pub fn counts(&mut self, now: Instant) -> Counts {
        self.sweep(now);
        self.counts.clone()
    }

    fn purpose(&self, request: &Request) -> Use {
        match request {
            request if request.looked_up().is_some_and(|key| self.wanted.contains(&key)) => {
                Use::Lookups
            }
            Request::ReadRegister { .. }
            | Request::WriteRegister { .. }
            | Request::Digest { .. }
            | Request::List { .. }
            | Request::FetchRegisters { .. }
            | Request::Handoff { .. } => Use::Copies,
            _ => Use::Upkeep,
        }
    }

    /// Uses the connection of a pair, or opens one.
    fn connect(&mut self, now: Instant, by: u64, to: u64) {
        let used = self.open.insert(pair(by, to), now);
        let idle = used.map(|used| now.since(used));
        if let Some(idle) = idle {
            self.counts.add(Use::Connections, cost::idle(idle));
        }
        if idle.is_none_or(|idle| idle >= cost::IDLE_TIMEOUT) {
            self.counts.handshakes += 1;
            self.counts.add(Use::Connections, self.path.handshake());
            self.counts.add(Use::Discovery, self.path.discovery());
        }
        if now.since(self.swept) >= SWEEP_EVERY {
            self.sweep(now);
        }
    }

    /// Over an open connection QUIC sends again and again until it gives the connection up; without
    /// one, the peer is dialled, unless it was a short while ago.
    fn asked_dead(&mut self, now: Instant, by: u64, to: u64) {
        let opened = self.open.get(&pair(by, to)).filter(|used| {
            // Used last by the peer itself, or not found broken yet.
            now.since(**used) < cost::SILENCE_TIMEOUT
        });
        if opened.is_some() {
            // `silent` tells whether this is the first request that nobody answers.
            let cost = match self.silent.insert((by, to), (Duration::ZERO, now)) {
                None => cost::FIRST_UNANSWERED,
                Some(_) => cost::NEXT_UNANSWERED,
            };
            return self.counts.add(Use::Dead, cost);
        }
        let (pause, until) = self.silent.get(&(by, to)).copied().unwrap_or_default();
        if now >= until {
            let pause = (pause * 2).clamp(cost::MIN_BACKOFF, cost::MAX_BACKOFF);
            self.silent.insert((by, to), (pause, now.after(pause)));
            self.counts.add(Use::Dead, cost::DEAD_DIAL);
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let counts = &mut self.counts;
        self.open.retain(|_, used| {
            let idle = now.since(*used);
            let is_kept = idle < cost::IDLE_TIMEOUT;
            if !is_kept {
                counts.add(Use::Connections, cost::idle(idle));
            }
            is_kept
        });
        self.silent.retain(|_, (_, until)| now.since(*until) < FORGOTTEN_AFTER);
    }
}

fn pair(a: u64, b: u64) -> (u64, u64) {
    (a.min(b), a.max(b))
}

fn is_about_copies(response: &Response) -> bool {
    matches!(
        response,
        Response::Register { .. }
            | Response::Accepted
            | Response::Outdated { .. }
            | Response::Moved { .. }
            | Response::Unknown
            | Response::Digest { .. }
            | Response::RegisterPage { .. }
            | Response::ChunkPage { .. }
            | Response::Registers(_)
            | Response::HandoffMissing { .. }
    )
}

/// How often connections that nobody uses are looked for: any time will do, they are counted to the
/// same moment.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Twice the longest time that a dead peer is let be.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);
