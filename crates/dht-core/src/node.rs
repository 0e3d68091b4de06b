//! One place on the circle: wires the machines together.

use std::sync::Arc;

use crate::config::{Config, RingParams};
use crate::event::{Effect, Event};
use crate::interval::Interval;
use crate::message::client::NodeState;
use crate::peer::Contact;
use crate::stats::Counters;
use crate::time::Instant;

/// One place on the circle.
#[derive(Debug, Clone)]
pub struct Node {
    me: Contact,
}

/// What a node looks like from outside at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// The node's own place.
    pub me: Contact,
    /// What it is doing.
    pub state: NodeState,
    /// Whether it is alone because it never had a neighbour or all of them left.
    pub alone: bool,
    /// The nearest node before it.
    pub predecessor: Option<Contact>,
    /// The successor list, nearest first.
    pub successors: Vec<Contact>,
    /// The predecessor list, nearest first.
    pub predecessors: Vec<Contact>,
    /// Peers that are no neighbours now but would be asked for a way back.
    pub remembered: Vec<Contact>,
    /// What the node owns; `None`: nothing.
    pub owned: Option<Interval>,
    /// What was counted.
    pub counters: Counters,
}

impl Node {
    /// A node that has no ring yet. `seed` feeds all its chance.
    pub fn new(
        me: Contact,
        params: RingParams,
        config: Arc<Config>,
        seed: u64,
        now: Instant,
    ) -> Node {
        let _ = (params, config, seed, now);
        Node { me }
    }

    /// Tells the node a fact.
    pub fn handle_event(&mut self, now: Instant, event: Event) {
        let _ = (now, event);
    }

    /// Fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// The next order, until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        None
    }

    /// When [`Node::handle_timeout`] should be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The node as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            me: self.me.clone(),
            state: NodeState::Joining,
            alone: false,
            predecessor: None,
            successors: Vec::new(),
            predecessors: Vec::new(),
            remembered: Vec::new(),
            owned: None,
            counters: Counters::default(),
        }
    }
}
