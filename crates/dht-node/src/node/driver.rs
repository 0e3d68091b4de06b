//! The one task that owns the state machine: facts come in through a bounded inbox, orders go out
//! to the [`Carrier`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dht_core::config::RingParams;
use dht_core::event::{OpId, Purpose, ReadOutcome, ReplyId, WriteOutcome};
use dht_core::message::Forwarding;
use dht_core::message::client::{LookupReport, NodeState};
use dht_core::message::ring::{Request, Response, Routing};
use dht_core::node::{Node as Core, Snapshot};
use dht_core::register::{Key, OperationId, Value};
use dht_core::time::micros;
use dht_core::{Command, Config, Contact, Effect, Event, Id, Instant, Notice};
use tokio::sync::{mpsc, oneshot, watch};

use super::budget::HopBudget;
use super::carrier::Carrier;
use super::estimate;
use super::journal::LogBudget;
use super::latency::Latency;
use crate::advice;

/// What the driver is told.
#[derive(Debug)]
pub(super) enum Input {
    /// Make the state machine, unless there is one, and give it a first command.
    Begin(Box<Begin>),
    /// A fact for the state machine.
    Event(Event),
    /// A question of another member.
    Request { reply: ReplyId, from: Contact, request: Request, answer: oneshot::Sender<Response> },
    /// Something the node itself or a client wants.
    Ask(Ask),
    /// The state machine as it is.
    Snapshot { answer: oneshot::Sender<Option<Seen>> },
}

/// The state machine at one moment.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) snapshot: Snapshot,
    /// By their exponents, lowest first.
    pub(super) fingers: Vec<(u8, Contact)>,
    /// How many members its map names.
    pub(super) map: usize,
}

impl Seen {
    fn of(core: &Core) -> Seen {
        // Exponents lie below 160.
        let fingers = core.fingers().map(|(exponent, held)| (exponent as u8, held.clone()));
        let (fingers, map) = (fingers.collect(), core.map().count());
        Seen { snapshot: core.snapshot(), fingers, map }
    }
}

/// How the state machine starts.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) me: Contact,
    pub(super) params: RingParams,
    pub(super) command: Command,
}

/// A command that ends with a notice of its own.
#[derive(Debug)]
pub(super) enum Ask {
    Lookup { target: LookupTarget, answer: oneshot::Sender<Found> },
    Read { key: Key, answer: oneshot::Sender<ReadOutcome> },
    Write { key: Key, operation: OperationId, value: Value, answer: oneshot::Sender<WriteOutcome> },
}

/// What a lookup looks for, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookupTarget {
    pub(super) id: Id,
    pub(super) routing: Option<Routing>,
    pub(super) depth: Option<u16>,
    pub(super) forwarding: Option<Forwarding>,
    pub(super) purpose: Purpose,
}

/// What a lookup came to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) report: LookupReport,
    /// The owner's successor list, perhaps with its predecessor at the end.
    pub(super) successors: Vec<Contact>,
}

/// What everybody may watch of the node.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Status {
    pub(super) state: NodeState,
    /// It has, or had, its place in the ring.
    pub(super) ready: bool,
    /// Of the ring, once there is one.
    pub(super) params: Option<RingParams>,
    /// While it leaves for good: what still lacks a new keeper; `None` while counting.
    pub(super) missing: Option<u64>,
    /// The state machine is through with leaving or stopping.
    pub(super) left: bool,
    /// A live node with the same key was found there.
    pub(super) twin: Option<Contact>,
}

impl Status {
    pub(super) fn new() -> Status {
        Status {
            state: NodeState::Joining,
            ready: false,
            params: None,
            missing: None,
            left: false,
            twin: None,
        }
    }
}

/// The driver is gone, or the state machine has not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotRunning;

/// Talks to the driver. Every method waits while the inbox is full.
#[derive(Clone, Debug)]
pub(super) struct DriverHandle {
    inbox: mpsc::Sender<Input>,
    next_reply: Arc<AtomicU64>,
}

impl DriverHandle {
    /// The handle and the inbox that a [`Driver`] is to read.
    pub(super) fn new() -> (DriverHandle, mpsc::Receiver<Input>) {
        let (inbox, receiver) = mpsc::channel(INBOX);
        (DriverHandle { inbox, next_reply: Arc::default() }, receiver)
    }

    /// Makes the state machine; if there is one already, only gives it the command.
    pub(super) async fn begin(&self, begin: Begin) {
        self.send(Input::Begin(Box::new(begin))).await;
    }

    /// Gives an order that needs no answer of its own.
    pub(super) async fn command(&self, command: Command) {
        self.event(Event::Command(command)).await;
    }

    /// Tells a fact.
    pub(super) async fn event(&self, event: Event) {
        self.send(Input::Event(event)).await;
    }

    /// Answers a question of another member; [`Response::NotMember`] if nothing runs. When the
    /// future is dropped - the asker is gone - the state machine is told.
    pub(super) async fn ring_request(&self, from: Contact, request: Request) -> Response {
        let reply = ReplyId(self.next_reply.fetch_add(1, Ordering::Relaxed));
        let (answer, response) = oneshot::channel();
        let mut asked = Asked { inbox: &self.inbox, reply, answered: false };
        self.send(Input::Request { reply, from, request, answer }).await;
        let response = response.await.unwrap_or(Response::NotMember);
        asked.answered = true;
        response
    }

    /// Finds the owner of a point.
    pub(super) async fn lookup(&self, target: LookupTarget) -> Result<Found, NotRunning> {
        let (answer, found) = oneshot::channel();
        self.send(Input::Ask(Ask::Lookup { target, answer })).await;
        found.await.map_err(|_| NotRunning)
    }

    /// Reads a register.
    pub(super) async fn read(&self, key: Key) -> Result<ReadOutcome, NotRunning> {
        let (answer, outcome) = oneshot::channel();
        self.send(Input::Ask(Ask::Read { key, answer })).await;
        outcome.await.map_err(|_| NotRunning)
    }

    /// Writes a register.
    pub(super) async fn write(
        &self,
        key: Key,
        operation: OperationId,
        value: Value,
    ) -> Result<WriteOutcome, NotRunning> {
        let (answer, outcome) = oneshot::channel();
        self.send(Input::Ask(Ask::Write { key, operation, value, answer })).await;
        outcome.await.map_err(|_| NotRunning)
    }

    /// The state machine as it is now.
    pub(super) async fn snapshot(&self) -> Option<Snapshot> {
        self.seen().await.map(|seen| seen.snapshot)
    }

    /// The same with its fingers, all of one moment.
    pub(super) async fn seen(&self) -> Option<Seen> {
        let (answer, snapshot) = oneshot::channel();
        self.send(Input::Snapshot { answer }).await;
        snapshot.await.ok().flatten()
    }

    async fn send(&self, input: Input) {
        // A closed inbox means that the node is stopping; whoever waits sees its answer dropped.
        let _ = self.inbox.send(input).await;
    }
}

/// Tells the state machine when the asker of a question goes away before the answer.
struct Asked<'a> {
    inbox: &'a mpsc::Sender<Input>,
    reply: ReplyId,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            // A full inbox loses nothing but an answer to nobody.
            let _ = self.inbox.try_send(Input::Event(Event::RequestDropped { reply: self.reply }));
        }
    }
}

/// What the driver notes of lookups that ended.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) latency: Arc<Latency>,
    pub(super) budget: Arc<HopBudget>,
}

/// Owns the state machine.
#[derive(Debug)]
pub(super) struct Driver {
    inbox: mpsc::Receiver<Input>,
    carrier: Carrier,
    config: Arc<Config>,
    status: watch::Sender<Status>,
    core: Option<Core>,
    began: tokio::time::Instant,
    answers: HashMap<ReplyId, oneshot::Sender<Response>>,
    waiting: HashMap<OpId, Waiter>,
    next_op: u64,
    noted: Noted,
    log: LogBudget,
}

#[derive(Debug)]
enum Waiter {
    Lookup(oneshot::Sender<Found>),
    Read(oneshot::Sender<ReadOutcome>),
    Write(oneshot::Sender<WriteOutcome>),
}

impl Driver {
    pub(super) fn new(
        inbox: mpsc::Receiver<Input>,
        carrier: Carrier,
        config: Arc<Config>,
        status: watch::Sender<Status>,
        noted: Noted,
    ) -> Driver {
        Driver {
            inbox,
            carrier,
            config,
            status,
            core: None,
            began: tokio::time::Instant::now(),
            answers: HashMap::new(),
            waiting: HashMap::new(),
            next_op: 0,
            noted,
            log: LogBudget::new(),
        }
    }

    /// Runs until it is dropped. Nothing in here waits for anything but input and time.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        loop {
            let due = self.due();
            if let Some(due) = due.filter(|due| *due != timer.deadline()) {
                timer.as_mut().reset(due);
            }
            tokio::select! {
                biased;
                () = &mut timer, if due.is_some() => self.on_timeout(),
                received = self.inbox.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return;
                    }
                    batch.drain(..).for_each(|input| self.on_input(input));
                }
            }
        }
    }

    fn on_timeout(&mut self) {
        let now = self.now();
        if let Some(core) = &mut self.core {
            core.handle_timeout(now);
            self.drain();
        }
    }

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Begin(begin) => self.on_begin(*begin),
            Input::Event(event) => {
                if let Event::Response { rpc, .. } | Event::Failed { rpc, .. } = &event {
                    self.carrier.sent(*rpc);
                }
                if let Event::RequestDropped { reply } = &event {
                    self.answers.remove(reply);
                }
                self.handle(event);
            }
            Input::Request { reply, from, request, answer } => {
                if self.core.is_none() {
                    let _ = answer.send(Response::NotMember);
                    return;
                }
                self.answers.insert(reply, answer);
                self.handle(Event::Request { reply, from, request });
            }
            Input::Ask(ask) => self.on_ask(ask),
            Input::Snapshot { answer } => {
                let _ = answer.send(self.core.as_ref().map(Seen::of));
            }
        }
    }

    fn on_begin(&mut self, begin: Begin) {
        let Begin { me, params, command } = begin;
        if self.core.is_none() {
            let config = Arc::new(self.config.for_ring(&params));
            self.core = Some(Core::new(me, params, config, rand::random(), self.now()));
            self.status.send_modify(|status| status.params = Some(params));
        }
        self.handle(Event::Command(command));
    }

    fn on_ask(&mut self, ask: Ask) {
        if self.core.is_none() {
            return;
        }
        let op = OpId(self.next_op);
        self.next_op += 1;
        let (waiter, command) = match ask {
            Ask::Lookup { target, answer } => {
                let LookupTarget { id: key, routing, depth, forwarding, purpose } = target;
                let command = Command::Lookup { op, key, routing, depth, purpose, forwarding };
                (Waiter::Lookup(answer), command)
            }
            Ask::Read { key, answer } => (Waiter::Read(answer), Command::Read { op, key }),
            Ask::Write { key, operation, value, answer } => {
                (Waiter::Write(answer), Command::Write { op, key, operation, value })
            }
        };
        self.waiting.insert(op, waiter);
        self.handle(Event::Command(command));
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        if let Some(core) = &mut self.core {
            core.handle_event(now, event);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(effect) = self.core.as_mut().and_then(Core::poll_effect) {
            match effect {
                Effect::Send { rpc, to, request } => self.carrier.send(rpc, to, request),
                Effect::Cancel { rpc } => self.carrier.cancel(rpc),
                Effect::Reply { reply, response } => {
                    if let Some(answer) = self.answers.remove(&reply) {
                        let _ = answer.send(response);
                    }
                }
                Effect::Store { store, command } => self.carrier.store(store, command),
                Effect::Fetch { fetch, chunk, from } => self.carrier.fetch(fetch, chunk, from),
                Effect::Persist(memory) => self.carrier.persist(memory),
                Effect::Notice(notice) => self.on_notice(notice),
            }
        }
    }

    fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::State(state) => {
                tracing::info!(state = state.as_str(), "the node's state changed");
                self.status.send_modify(|status| status.state = state);
            }
            Notice::Ready => self.status.send_modify(|status| status.ready = true),
            Notice::IdInUse { contact } => {
                self.status.send_modify(|status| status.twin = Some(contact));
            }
            Notice::Leaving { missing } => {
                self.status.send_modify(|status| status.missing = missing);
            }
            Notice::Left => self.status.send_modify(|status| status.left = true),
            Notice::JoinFailed { via } => {
                if let Some(withheld) = self.log.admit() {
                    tracing::warn!(via = %via.id, withheld, "no member took the join yet");
                }
            }
            Notice::Died { contact } => {
                if let Some(withheld) = self.log.admit() {
                    tracing::info!(id = %contact.id, withheld, "a neighbour died");
                }
            }
            Notice::Found { op, report, successors } => {
                if let Some(Waiter::Lookup(answer)) = self.waiting.remove(&op) {
                    let _ = answer.send(Found { report, successors });
                }
            }
            Notice::LookedUp { elapsed } => {
                self.noted.latency.record(elapsed);
                if self.noted.budget.ended() {
                    self.judge_hops();
                }
            }
            Notice::Read { op, outcome } => {
                if let Some(Waiter::Read(answer)) = self.waiting.remove(&op) {
                    let _ = answer.send(outcome);
                }
            }
            Notice::Written { op, outcome } => {
                if let Some(Waiter::Write(answer)) = self.waiting.remove(&op) {
                    let _ = answer.send(outcome);
                }
            }
        }
    }

    /// Looks at what the node's own lookups cost, and says so once if it is too much.
    fn judge_hops(&self) {
        let Some(core) = &self.core else { return };
        let (routing, depth) = (self.config.routing, self.config.depth);
        let lookups = core.counters().lookups;
        let Some(counts) = lookups.get(&(routing, depth)) else { return };
        if let Some(hint) = self.noted.budget.judge(&counts.hops) {
            let nodes = advice::whole(estimate::nodes(&core.snapshot()));
            let text = advice::sentence(Some(hint.mean), nodes, routing, depth);
            let budget = self.noted.budget.most();
            tracing::info!(budget, "lookups take more hops than they may: {text}");
        }
    }

    fn now(&self) -> Instant {
        Instant(micros(self.began.elapsed()))
    }

    fn due(&self) -> Option<tokio::time::Instant> {
        let due = self.core.as_ref()?.poll_timeout()?;
        self.began.checked_add(Duration::from_micros(due.0))
    }
}

/// Inputs that may wait. Full means that whoever tells the driver something waits (guess: a few
/// milliseconds of work).
const INBOX: usize = 1024;
/// Inputs taken before timers are looked at again (guess).
const BATCH: usize = 64;
