//! Finds a way into the ring: founds one, goes back to the peers of earlier lives, or knocks at the
//! addresses it was given until somebody lets it in.

mod knock;

use std::sync::Arc;
use std::time::Duration;

use dht_core::config::RingParams;
use dht_core::event::Memory;
use dht_core::message::RingId;
use dht_core::message::client::NodeState;
use dht_core::{Command, Contact};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::backoff::Backoff;
use super::config::DEFAULT_REPLICAS;
use super::driver::Begin;
use super::error::StopReason;
use super::shared::{Order, Shared};

use knock::{Knock, knock};

/// The search for a ring.
pub(super) struct Bootstrap {
    shared: Arc<Shared>,
    /// The ring of earlier lives, or the one that was found.
    ring: Option<RingParams>,
    /// What the last life knew; given to the state machine once.
    memory: Option<Memory>,
    /// Whether something is stored here: then the ring cannot be given up for another.
    holds: bool,
    begun: bool,
    /// What was said of each address, so that it is not said again and again.
    said: Vec<Option<String>>,
}

impl Bootstrap {
    pub(super) fn new(
        shared: Arc<Shared>,
        ring: Option<RingParams>,
        memory: Memory,
        holds: bool,
    ) -> Bootstrap {
        let said = vec![None; shared.config.join.len()];
        Bootstrap { shared, ring, memory: Some(memory), holds, begun: false, said }
    }

    /// Until the node has its place; again whenever it has lost it.
    pub(super) async fn run(mut self) {
        if self.shared.config.join.is_empty() {
            self.go_alone().await;
            return;
        }
        if self.holds {
            // Whoever stores something belongs to its ring, whoever else answers.
            self.go_back().await;
        }
        loop {
            if self.knock_until_placed().await == Knocking::Over {
                return;
            }
            let mut status = self.shared.status.clone();
            let lost = status.wait_for(|status| status.ready && !is_placed(status.state));
            if lost.await.is_err() {
                return;
            }
            tracing::warn!("all neighbours fell silent: asking the --join addresses again");
        }
    }

    /// No address was given, or all of them are this node's own.
    async fn go_alone(&mut self) {
        self.go_back().await;
        if self.begun {
            return;
        }
        let was_alone = self.memory.take_if(|memory| memory.alone);
        if let (Some(params), Some(memory)) = (self.ring, was_alone) {
            tracing::info!("this node was all that was left of its ring, and goes on alone");
            self.shared.presence.set_ring(Some(params), &self.shared.endpoint);
            return self.begin(params, Command::Remember(memory)).await;
        }
        let replicas = self.shared.config.replicas.unwrap_or(DEFAULT_REPLICAS);
        let params = match self.ring {
            Some(params) => params,
            None => RingParams::founding(RingId(rand::random()), replicas),
        };
        if self.keep_ring(params).await {
            tracing::info!(ring = %format_args!("{:032x}", params.id.0), "founding a ring of one");
            self.begin(params, Command::Found).await;
        }
    }

    /// Asks the peers of earlier lives, if there were any and they did not leave it alone.
    async fn go_back(&mut self) {
        let has_peers = |memory: &mut Memory| !memory.contacts.is_empty() && !memory.alone;
        let Some(params) = self.ring else { return };
        if let Some(memory) = self.memory.take_if(has_peers) {
            tracing::info!(peers = memory.contacts.len(), "asking the peers this node knew");
            self.shared.presence.set_ring(Some(params), &self.shared.endpoint);
            self.begin(params, Command::Remember(memory)).await;
        }
    }

    async fn knock_until_placed(&mut self) -> Knocking {
        let mut status = self.shared.status.clone();
        let mut backoffs: Vec<Backoff> = self.said.iter().map(|_| Backoff::new()).collect();
        let mut myself = vec![false; self.said.len()];
        let mut knocks: FuturesUnordered<BoxFuture<'static, (usize, Knock)>> =
            (0..self.said.len()).map(|at| self.schedule(at, Duration::ZERO)).collect();
        loop {
            let (at, answer) = tokio::select! {
                Some(answer) = knocks.next() => answer,
                placed = status.wait_for(|status| status.ready && is_placed(status.state)) => {
                    return if placed.is_ok() { Knocking::Placed } else { Knocking::Over };
                }
            };
            if matches!(answer, Knock::Myself) {
                self.say(at, "is this node itself".to_owned());
                myself[at] = true;
                if !myself.contains(&false) {
                    self.go_alone().await;
                    return Knocking::Over;
                }
                continue;
            }
            let is_there = matches!(answer, Knock::Unplaced);
            if self.on_answer(at, answer).await == Knocking::Over {
                return Knocking::Over;
            }
            let pause = if is_there { backoffs[at].short_delay() } else { backoffs[at].delay() };
            knocks.push(self.schedule(at, pause));
        }
    }

    async fn on_answer(&mut self, at: usize, answer: Knock) -> Knocking {
        match answer {
            Knock::Member { contact, ring, observed, .. } if self.may_adopt(&ring) => {
                let Shared { presence, endpoint, driver, .. } = &*self.shared;
                let renewed =
                    observed.and_then(|addr| presence.observe(contact.key(), addr, endpoint));
                if let Some(record) = renewed {
                    driver.command(Command::Renew { record }).await;
                }
                return self.join(contact, ring).await;
            }
            Knock::Member { addr, ring: RingParams { id: theirs, .. }, .. }
            | Knock::OtherRing { addr, theirs } => {
                let ours = self.ring.map_or(theirs, |ring| ring.id);
                return self.give_up(StopReason::OtherRing { addr, ours, theirs });
            }
            Knock::Twin { addr } => {
                if !self.shared.status.borrow().ready {
                    return self.give_up(StopReason::IdInUse { addr });
                }
                self.say(
                    at,
                    "answers with this node's own key: the data directory was copied, \
                    stop that node"
                        .to_owned(),
                );
            }
            Knock::Unplaced => self.say(at, "answers but has no place in a ring yet".to_owned()),
            Knock::Failed { reason } => {
                self.say(at, reason);
                // Nobody answers for now: those of earlier lives may.
                self.go_back().await;
            }
            Knock::Myself => {}
        }
        Knocking::On
    }

    /// Whether this ring is ours, or may become ours: a founder that stores nothing gives up its
    /// founding when it is told to join (`docs/protocol.md`, "Rings").
    fn may_adopt(&self, theirs: &RingParams) -> bool {
        match self.ring {
            Some(ours) => ours.id == theirs.id || (!self.holds && !self.begun),
            None => true,
        }
    }

    async fn join(&mut self, via: Contact, ring: RingParams) -> Knocking {
        if let Some(asked) = self.shared.config.replicas.filter(|asked| *asked != ring.replicas) {
            return self.give_up(StopReason::ReplicasDiffer { asked, ring: ring.replicas });
        }
        if self.ring.is_some_and(|ours| ours.id == ring.id)
            && let Some(memory) = self.memory.take()
        {
            // Not alone any more: there is somebody of its ring.
            self.begin(ring, Command::Remember(Memory { alone: false, ..memory })).await;
        }
        if !self.begun {
            // Killed before the state machine has told whom it knows, the next life must not take
            // itself for the founder.
            let contacts = vec![via.clone()];
            self.shared.disk.remember(Memory { contacts, ..Memory::default() }).await;
        }
        if !self.keep_ring(ring).await {
            return Knocking::Over;
        }
        self.begin(ring, Command::Join { via: vec![via] }).await;
        Knocking::On
    }

    /// From now on this is our ring. Whether that could be kept.
    async fn keep_ring(&mut self, params: RingParams) -> bool {
        if self.ring != Some(params) && self.shared.disk.save_ring(params).await.is_err() {
            self.give_up(StopReason::StoreFailed);
            return false;
        }
        self.ring = Some(params);
        self.shared.presence.set_ring(Some(params), &self.shared.endpoint);
        true
    }

    async fn begin(&mut self, params: RingParams, command: Command) {
        self.begun = true;
        let me = self.shared.contact();
        self.shared.driver.begin(Begin { me, params, command }).await;
    }

    fn give_up(&self, reason: StopReason) -> Knocking {
        self.shared.orders.give(Order::Halt(reason));
        Knocking::Over
    }

    /// One line for each new thing that is learned of an address.
    fn say(&mut self, at: usize, what: String) {
        if self.said[at].as_ref() != Some(&what) {
            tracing::warn!("--join {}: {what}", self.shared.config.join[at]);
            self.said[at] = Some(what);
        }
    }

    fn schedule(&self, at: usize, delay: Duration) -> BoxFuture<'static, (usize, Knock)> {
        let endpoint = self.shared.endpoint.clone();
        let addr = self.shared.config.join[at].clone();
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            (at, knock(&endpoint, &addr).await)
        })
    }
}

/// Whether to go on knocking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Knocking {
    /// The node has no place yet.
    On,
    /// It has one for now.
    Placed,
    /// There is nothing more to do here.
    Over,
}

fn is_placed(state: NodeState) -> bool {
    matches!(state, NodeState::Member | NodeState::Leaving)
}
