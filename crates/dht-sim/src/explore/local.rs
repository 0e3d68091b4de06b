//! What happens at one node, worked out once: a node's step depends only on the node, on what it
//! hears, and on who runs. Worlds are made of such steps, so that each of them costs the state
//! machine once and a look into a table ever after.

use std::sync::Arc;

use dht_core::config::RingParams;
use dht_core::event::{Failure, ReplyId, RpcId};
use dht_core::message::ring::{Request, Response};
use dht_core::message::{RingId, Routings};
use dht_core::node::Node;
use dht_core::node::steer::{Alarm, CallKind, PendingCall};
use dht_core::planted::Planted;
use dht_core::{Command, Config, Contact, Effect, Event, Id, Instant};

use super::letters::{Bodies, Body, Letter, plain_request, plain_response};
use super::steps::alarm_number;
use super::summary::{Summary, is_closer};
use super::table::Table;
use super::{Flight, Pace, fingerprint};

/// When everything happens: so late that every pause of a node at moment 0 has run out.
const LATE: Instant = Instant(3_600_000_000);
/// When a push goes out that the rate limit held back within one step.
const LATER: Instant = Instant(7_200_000_000);
/// More calls of the failure detector than one step can make.
const MAX_PROBES: usize = 64;

/// What happens to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// It founds the ring.
    Found,
    /// A request comes.
    Hear { from: usize, body: u32 },
    /// An answer comes.
    Answer { from: usize, rpc: u8, body: u32 },
    /// A call has waited long enough.
    Expire { rpc: u8 },
    /// A timer fires.
    Fire(Alarm),
    /// It asks this one for a place.
    Seek { at: usize, life: u64 },
    /// It pings one it remembers.
    Probe { at: usize, life: u64 },
    /// Its failure detector errs about this one.
    Bury { at: usize, life: u64 },
}

impl Input {
    fn code(self) -> u64 {
        let place = |at: usize, life: u64| (at as u64) | (life << 8);
        match self {
            Input::Found => 1 << 40,
            Input::Hear { from, body } => (2 << 40) | ((from as u64) << 32) | u64::from(body),
            Input::Answer { from, rpc, body } => {
                (3 << 48) | ((from as u64) << 40) | (u64::from(rpc) << 32) | u64::from(body)
            }
            Input::Expire { rpc } => (4 << 40) | u64::from(rpc),
            Input::Fire(alarm) => (5 << 40) | alarm_number(alarm),
            Input::Seek { at, life } => (6 << 40) | place(at, life),
            Input::Probe { at, life } => (7 << 40) | place(at, life),
            Input::Bury { at, life } => (8 << 40) | place(at, life),
        }
    }
}

/// Who runs, by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Alive {
    /// They run.
    pub(super) running: u8,
    /// They run and have no place yet.
    pub(super) outside: u8,
}

impl Alive {
    pub(super) fn runs(self, place: usize) -> bool {
        self.running & (1 << place) != 0
    }

    fn pong(self, place: usize) -> Response {
        if self.outside & (1 << place) != 0 { Response::NotMember } else { Response::Done }
    }
}

/// What came of one step.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The node afterwards.
    pub(super) next: u32,
    /// Calls, by number, that wait no more.
    pub(super) ended: u64,
    /// What was sent.
    pub(super) letters: Box<[Letter]>,
    /// What was answered: to whom, and what.
    pub(super) replies: Box<[(usize, u32)]>,
    /// What the node did wrong.
    pub(super) flaw: Option<Flaw>,
}

/// What a node can do wrong by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flaw {
    /// Its links changed and their stamp did not: "unchanged" would be a lie.
    StampKept,
    /// It gave up this predecessor, which runs, for one that is not closer.
    PredecessorDropped(usize),
    /// It wants a place, knows somebody, and has stopped to look.
    GaveUp,
    /// A list is out of order, or holds the node itself or an entry twice.
    OutOfOrder,
}

/// All nodes that were ever met, each once, and what becomes of them.
#[derive(Debug)]
pub(super) struct Locals {
    config: Arc<Config>,
    params: RingParams,
    flight: Flight,
    nodes: Vec<Node>,
    summaries: Vec<Summary>,
    index: Table,
    outcomes: Vec<Outcome>,
    memo: Table,
    pub(super) bodies: Bodies,
}

impl Locals {
    /// Nodes whose successor lists hold `list` entries.
    pub(super) fn new(list: u16, flight: Flight, planted: Option<Planted>) -> Locals {
        let config = Config {
            depth: list,
            min_list: 1,
            predecessor_peers: 1,
            keep: Routings::LEAST,
            missed_probes: 1,
            keeps_data: false,
            planted,
            ..Config::default()
        };
        Locals {
            config: Arc::new(config),
            params: RingParams::founding(RingId(1), 1),
            flight,
            nodes: Vec::new(),
            summaries: Vec::new(),
            index: Table::default(),
            outcomes: Vec::new(),
            memo: Table::default(),
            bodies: Bodies::default(),
        }
    }

    /// A node without a place, in one of its lives.
    pub(super) fn fresh(&mut self, place: usize, life: u64) -> u32 {
        let me = contact(place, life);
        let mut node = Node::new(me, self.params, self.config.clone(), 0, Instant::ZERO);
        node.distill();
        self.intern(node)
    }

    /// What comes of an input: the number of an [`Outcome`].
    pub(super) fn step(&mut self, node: u32, input: Input, alive: Alive) -> u32 {
        let who = (u128::from(alive.running) << 8) | u128::from(alive.outside);
        let key = (who << 96) | (u128::from(node) << 64) | u128::from(input.code());
        let key = fingerprint::of_words([(key >> 64) as u64, key as u64]);
        if let Some(number) = self.memo.find(key) {
            return number;
        }
        let outcome = self.work_out(node, input, alive);
        let number = self.outcomes.len() as u32;
        self.outcomes.push(outcome);
        self.memo.set(key, number);
        number
    }

    /// One of those that [`Locals::step`] named.
    pub(super) fn outcome(&self, number: u32) -> &Outcome {
        &self.outcomes[number as usize]
    }

    pub(super) fn summary(&self, node: u32) -> &Summary {
        &self.summaries[node as usize]
    }

    /// How many different nodes, steps and bodies of messages were met.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.nodes.len(), self.outcomes.len(), self.bodies.len())
    }

    fn intern(&mut self, node: Node) -> u32 {
        let key = fingerprint::of(&node);
        if let Some(number) = self.index.find(key) {
            return number;
        }
        let number = self.nodes.len() as u32;
        self.summaries.push(Summary::of(&node));
        self.nodes.push(node);
        self.index.set(key, number);
        number
    }

    fn work_out(&mut self, number: u32, input: Input, alive: Alive) -> Outcome {
        let mut node = self.nodes[number as usize].clone();
        let before = self.summaries[number as usize].clone();
        let mut sent = Sent::default();
        self.tell(&mut node, input);
        settle(&mut node, alive, self.flight, &mut sent);
        let is_redirected = |call: &PendingCall| call.kind == CallKind::Join && !is_old(call.rpc);
        if !matches!(input, Input::Seek { .. }) && node.calls().iter().any(is_redirected) {
            // Whom to ask next is the explorer's choice, and it has all of them.
            node.drop_search();
            settle(&mut node, alive, self.flight, &mut sent);
        }
        let gave_up = !node.keeps_seeking();
        node.drop_lookups_of_own_place();
        sent.take_from(&mut node);
        let stamp_kept = node.links_stamp() == 0;
        let calls = node.calls();
        let renumbered = node.distill();
        let place = |contact: &Contact| place_of(contact);
        let mut letters = Vec::new();
        for (rpc, to, kind, request) in sent.requests {
            let (me, to) = (before.place, place(&to));
            let waits = calls.iter().any(|call| call.rpc == rpc);
            let new = renumbered.iter().find(|(old, _)| *old == rpc).map_or(rpc, |(_, new)| *new);
            let call = u8::try_from(new.0).unwrap_or(0);
            if is_lost(&request, self.flight)
                || !alive.runs(to)
                || (kind != CallKind::Told && !waits)
            {
                continue;
            }
            let life = before.life;
            letters.push(match kind {
                CallKind::Told => {
                    let body = self.bodies.number(Body::Tell { life, request });
                    self.bodies.letter(body, me, to, 0)
                }
                CallKind::Ping => {
                    let body =
                        self.bodies.number(Body::Answer { life: None, response: alive.pong(to) });
                    self.bodies.letter(body, to, me, call)
                }
                _ => {
                    let body = self.bodies.number(Body::Ask { life, request });
                    self.bodies.letter(body, me, to, call)
                }
            });
        }
        letters.sort();
        letters.dedup();
        let replies = sent.replies.into_iter();
        let replies = replies
            .map(|(asker, said)| {
                (
                    asker,
                    self.bodies.number(Body::Answer { life: Some(before.life), response: said }),
                )
            })
            .collect();
        let held = |held: &u64| calls.iter().any(|call| call.rpc.0 == *held);
        let ended = (0..64).filter(|rpc| before.calls & (1 << rpc) != 0 && !held(rpc));
        let ended = ended.fold(0, |all, rpc| all | (1 << rpc));
        let next = self.intern(node);
        let after = &self.summaries[next as usize];
        let flaw = flaw(&before, after, alive, stamp_kept, gave_up);
        Outcome { next, ended, letters: letters.into(), replies, flaw }
    }

    fn tell(&self, node: &mut Node, input: Input) {
        match input {
            Input::Found => node.handle_event(LATE, Event::Command(Command::Found)),
            Input::Hear { from, body } => {
                let (Body::Tell { life, request } | Body::Ask { life, request }) =
                    self.bodies.get(body).clone()
                else {
                    return;
                };
                let (reply, from) = (ReplyId(from as u64 + 1), contact(from, life));
                node.handle_event(LATE, Event::Request { reply, from, request });
            }
            Input::Answer { from, rpc, body } => {
                let Body::Answer { life, response } = self.bodies.get(body).clone() else { return };
                let (rpc, record) =
                    (RpcId(rpc.into()), life.map(|life| contact(from, life).record));
                node.handle_event(LATE, Event::Response { rpc, response, record, connect_us: 0 });
            }
            Input::Expire { rpc } => node.expire_call(LATE, RpcId(rpc.into())),
            Input::Fire(alarm) => node.fire(LATE, alarm),
            Input::Seek { at, life } => node.seek_place_at(LATE, &contact(at, life)),
            Input::Probe { at, life } => {
                // The timer goes on; that it is set does not change.
                node.probe_remembered(LATE, &contact(at, life));
            }
            Input::Bury { at, life } => node.declare_dead(LATE, &contact(at, life)),
        }
    }
}

/// What a node wants to be sent.
#[derive(Default)]
struct Sent {
    requests: Vec<(RpcId, Contact, CallKind, Request)>,
    replies: Vec<(usize, Response)>,
}

impl Sent {
    /// Takes what the node orders, while it still knows what its calls are for.
    fn take_from(&mut self, node: &mut Node) {
        let calls = node.calls();
        let mut ended = Vec::new();
        while let Some(effect) = node.poll_effect() {
            match effect {
                Effect::Send { rpc, to, request } => {
                    if let Some(call) = calls.iter().find(|call| call.rpc == rpc) {
                        self.requests.push((rpc, to, call.kind, plain_request(request)));
                    }
                }
                Effect::Reply { reply, response } => {
                    self.replies.push((reply.0 as usize - 1, plain_response(response)));
                }
                Effect::Cancel { rpc } => ended.push(rpc),
                _ => {}
            }
        }
        self.requests.retain(|(rpc, ..)| !ended.contains(rpc));
    }
}

/// Does what takes no time: the failure detector's questions are answered at once and rightly, what
/// is only told is not waited for, and no push is held back.
fn settle(node: &mut Node, alive: Alive, flight: Flight, sent: &mut Sent) {
    for _ in 0..MAX_PROBES {
        sent.take_from(node);
        let calls = node.calls();
        let waited_for =
            |call: &&PendingCall| !matches!(call.kind, CallKind::Told | CallKind::Other);
        calls.iter().filter(|call| !waited_for(call)).for_each(|call| node.let_go(call.rpc));
        if let Some(PendingCall { rpc, to, .. }) =
            calls.into_iter().find(|call| takes_no_time(call.kind, flight))
        {
            let to = place_of(&to);
            if alive.runs(to) {
                let response = alive.pong(to);
                let answer = Event::Response { rpc, response, record: None, connect_us: 0 };
                node.handle_event(LATE, answer);
            } else {
                node.handle_event(LATE, Event::Failed { rpc, failure: Failure::TimedOut });
            }
        } else if node.alarms().contains(&Alarm::Push) {
            node.fire(LATER, Alarm::Push);
        } else {
            return;
        }
    }
}

fn takes_no_time(kind: CallKind, flight: Flight) -> bool {
    kind == CallKind::Probe || (kind == CallKind::Ping && flight.pings != Pace::Slow)
}

/// Whether the plan loses this message.
fn is_lost(request: &Request, flight: Flight) -> bool {
    let pace = match request {
        Request::Neighbors { .. } => flight.questions,
        Request::Notify { .. } => flight.notifications,
        Request::Candidate { .. } => flight.candidates,
        Request::Push(_) => flight.pushes,
        _ => Pace::Slow,
    };
    pace == Pace::Lost
}

fn flaw(
    before: &Summary,
    after: &Summary,
    alive: Alive,
    stamp_kept: bool,
    gave_up: bool,
) -> Option<Flaw> {
    let changed = before.successors != after.successors || before.predecessor != after.predecessor;
    if changed && stamp_kept {
        return Some(Flaw::StampKept);
    }
    if gave_up {
        return Some(Flaw::GaveUp);
    }
    if !after.is_in_order {
        return Some(Flaw::OutOfOrder);
    }
    let (held, taken) = (before.predecessor?, after.predecessor);
    let is_kept = taken.is_some_and(|taken| {
        taken.0 == held.0 || is_closer(before.place, usize::from(held.0), usize::from(taken.0))
    });
    let dropped = usize::from(held.0);
    (alive.runs(dropped) && !is_kept).then_some(Flaw::PredecessorDropped(dropped))
}

fn is_old(rpc: RpcId) -> bool {
    rpc.0 < 64
}

/// The contact of a place in one of its lives.
pub(super) fn contact(place: usize, life: u64) -> Contact {
    // The number lies in the first bytes of the key, where it shows when the key is printed.
    crate::member::contact((place as u64 + 1) << 32, point(place), life)
}

/// Where a place lies.
pub(super) fn point(place: usize) -> Id {
    Id::from_u64((place as u64 + 1) * 16)
}

/// The place of a contact.
pub(super) fn place_of(contact: &Contact) -> usize {
    ((crate::member::number(contact) >> 32) - 1) as usize
}
