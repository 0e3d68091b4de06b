//! What must hold: one property, one file, headed by its source and by the condition under which it
//! holds (`docs/protocol.md`, "What must hold").
//!
//! Checkers look at [`Links`], plain data: whoever doubts them hands them a bad state and watches.

pub mod acknowledged;
pub mod adopts_no_dead;
pub mod bounded;
pub mod ideal;
pub mod joins_with_list;
pub mod lists_in_order;
pub mod mine;
pub mod one_live_successor;
pub mod one_ring;
pub mod predecessor_kept;
pub mod sufficient_principals;

use std::collections::BTreeMap;
use std::fmt;

use dht_core::message::client::NodeState;
use dht_core::node::Node;
use dht_core::{Contact, Id, Instant};

/// The links of every node that runs, at one moment. Whoever is not in it is dead.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Links {
    /// How many entries a list has at most: `r` in the proofs.
    pub depth: usize,
    /// How many entries a predecessor list has at most.
    pub predecessors: usize,
    /// By place.
    pub nodes: BTreeMap<Id, NodeLinks>,
}

/// What one node points to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeLinks {
    /// What it is doing.
    pub state: NodeState,
    /// Whether it believes that nobody else is there.
    pub alone: bool,
    /// The nearest node before it.
    pub predecessor: Option<Id>,
    /// Nearest first.
    pub successors: Vec<Id>,
    /// Nearest first.
    pub predecessors: Vec<Id>,
}

impl NodeLinks {
    /// A member with these successors and this predecessor.
    pub fn member(predecessor: Option<Id>, successors: Vec<Id>) -> NodeLinks {
        NodeLinks {
            state: NodeState::Member,
            alone: predecessor.is_none() && successors.is_empty(),
            predecessor,
            successors,
            predecessors: predecessor.into_iter().collect(),
        }
    }

    /// What a node points to now.
    pub fn of(node: &Node) -> NodeLinks {
        let ids = |list: &[Contact]| list.iter().map(|entry| entry.id).collect();
        NodeLinks {
            state: node.state(),
            alone: node.is_alone(),
            predecessor: node.predecessor().map(|held| held.id),
            successors: ids(node.successors()),
            predecessors: ids(node.predecessors()),
        }
    }

    /// Whether it has a place in the ring.
    pub fn is_member(&self) -> bool {
        matches!(self.state, NodeState::Member | NodeState::Leaving)
    }
}

impl Links {
    /// Those that have a place in the ring, in order.
    pub fn members(&self) -> impl Iterator<Item = (Id, &NodeLinks)> {
        self.nodes.iter().filter(|(_, links)| links.is_member()).map(|(id, links)| (*id, links))
    }

    /// Whether this place belongs to a live member.
    pub fn is_member(&self, id: Id) -> bool {
        self.nodes.get(&id).is_some_and(NodeLinks::is_member)
    }

    /// The node that a member would turn to next: its first live entry; without one its
    /// predecessor, which an empty list adopts; without that itself.
    pub fn best_successor(&self, id: Id, links: &NodeLinks) -> Id {
        let mut candidates = links.successors.iter().chain(&links.predecessor);
        candidates.find(|held| self.is_member(**held)).copied().unwrap_or(id)
    }
}

/// Which of the two lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// The successor list.
    Successors,
    /// The predecessor list.
    Predecessors,
}

/// What did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A list holds its own node, an entry twice, or entries out of order.
    OutOfOrder {
        /// Whose.
        node: Id,
        /// Which.
        list: List,
        /// As it is.
        held: Vec<Id>,
    },
    /// The predecessor is not the head of the predecessor list.
    PredecessorApart {
        /// Whose.
        node: Id,
    },
    /// A member has no live entry in its list.
    NoLiveSuccessor {
        /// Which.
        node: Id,
    },
    /// A node took one for its head that it had found dead, and that is.
    AdoptedDead {
        /// Which.
        node: Id,
        /// The dead one.
        adopted: Id,
    },
    /// A node was let in with too short a list.
    ShortList {
        /// Which.
        node: Id,
        /// How many entries it has.
        held: usize,
        /// How many it should have.
        wanted: usize,
    },
    /// Too few members are left that nobody's list skips.
    FewPrincipals {
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// The best successors form another number of cycles than one.
    Cycles {
        /// One member of each.
        found: Vec<Id>,
    },
    /// The cycle of best successors goes round the circle more than once.
    Disordered {
        /// Its members in the order of the cycle.
        cycle: Vec<Id>,
    },
    /// A node gave up a live predecessor for one that is farther away, or for none.
    PredecessorDropped {
        /// Which.
        node: Id,
        /// The live one.
        dropped: Id,
        /// The new one.
        taken: Option<Id>,
    },
    /// A node said "mine" of a point, though it knew of a live member between the point and itself.
    WrongOwner {
        /// Who said so.
        node: Id,
        /// The point.
        key: Id,
        /// The member that owns it.
        owner: Id,
    },
    /// A lookup ended at a node that did not say "mine" while it ran.
    NeverSaidMine {
        /// The point.
        key: Id,
        /// Where the lookup ended.
        node: Id,
    },
    /// A node that should have its place has none.
    NoPlace {
        /// Which.
        node: Id,
        /// What it is doing instead.
        state: NodeState,
    },
    /// A list or a predecessor is not what the order of the ring says.
    NotIdeal {
        /// Whose.
        node: Id,
        /// Which; a predecessor is the list of one.
        list: List,
        /// As it is.
        held: Vec<Id>,
        /// As it should be.
        wanted: Vec<Id>,
    },
    /// No node that runs holds a register as it was acknowledged, or newer.
    Lost {
        /// Its point.
        key: Id,
    },
    /// A node read an older version of a register than had been acknowledged.
    StaleRead {
        /// The register's point.
        key: Id,
        /// Who read.
        node: Id,
    },
    /// A node holds or sends more than it may.
    Unbounded {
        /// Which.
        node: Id,
        /// Of what.
        what: &'static str,
        /// How many.
        held: usize,
        /// How many it may.
        limit: usize,
    },
    /// A node's next deadline did not move although its timers had fired (case 34).
    StandsStill {
        /// Which.
        node: Id,
    },
    /// One step caused more messages than any step needs: a loop.
    Endless {
        /// How many were delivered.
        messages: u64,
    },
    /// The time for mending is over.
    NotYetIdeal {
        /// How long that was, in milliseconds.
        millis: u64,
    },
    /// Pointers went on changing.
    NeverQuiet {
        /// For how many seconds it was waited.
        seconds: u64,
    },
}

impl Violation {
    /// Its kind, as one word for scripts.
    pub fn kind(&self) -> &'static str {
        match self {
            Violation::OutOfOrder { .. } | Violation::PredecessorApart { .. } => {
                "list_out_of_order"
            }
            Violation::NoLiveSuccessor { .. } => "no_live_successor",
            Violation::AdoptedDead { .. } => "adopted_dead",
            Violation::ShortList { .. } => "short_list",
            Violation::FewPrincipals { .. } => "few_principals",
            Violation::Cycles { .. } | Violation::Disordered { .. } => "not_one_ring",
            Violation::PredecessorDropped { .. } => "predecessor_dropped",
            Violation::WrongOwner { .. } | Violation::NeverSaidMine { .. } => "wrong_owner",
            Violation::NoPlace { .. }
            | Violation::NotIdeal { .. }
            | Violation::NotYetIdeal { .. } => "not_ideal",
            Violation::Lost { .. } | Violation::StaleRead { .. } => "acknowledged_lost",
            Violation::Unbounded { .. } => "unbounded",
            Violation::StandsStill { .. } => "stands_still",
            Violation::Endless { .. } => "endless",
            Violation::NeverQuiet { .. } => "never_quiet",
        }
    }

    /// The node it is about, if it is about one.
    pub fn node(&self) -> Option<Id> {
        match self {
            Violation::OutOfOrder { node, .. }
            | Violation::PredecessorApart { node }
            | Violation::NoLiveSuccessor { node }
            | Violation::AdoptedDead { node, .. }
            | Violation::ShortList { node, .. }
            | Violation::PredecessorDropped { node, .. }
            | Violation::WrongOwner { node, .. }
            | Violation::NeverSaidMine { node, .. }
            | Violation::NoPlace { node, .. }
            | Violation::NotIdeal { node, .. }
            | Violation::StaleRead { node, .. }
            | Violation::Unbounded { node, .. }
            | Violation::StandsStill { node } => Some(*node),
            Violation::FewPrincipals { .. }
            | Violation::Cycles { .. }
            | Violation::Disordered { .. }
            | Violation::Lost { .. }
            | Violation::Endless { .. }
            | Violation::NotYetIdeal { .. }
            | Violation::NeverQuiet { .. } => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |list: &List| match list {
            List::Successors => "successor list",
            List::Predecessors => "predecessor list",
        };
        match self {
            Violation::OutOfOrder { node, list, held } => {
                write!(f, "{} of {node:?} is out of order: {held:?}", name(list))
            }
            Violation::PredecessorApart { node } => {
                write!(f, "predecessor of {node:?} does not head its predecessor list")
            }
            Violation::NoLiveSuccessor { node } => write!(f, "{node:?} has no live successor"),
            Violation::AdoptedDead { node, adopted } => {
                write!(f, "{node:?} took {adopted:?} for its head, which it had found dead")
            }
            Violation::ShortList { node, held, wanted } => {
                write!(f, "{node:?} was let in with {held} successors instead of {wanted}")
            }
            Violation::FewPrincipals { found, needed } => {
                write!(f, "{found} members are skipped by nobody, {needed} are needed")
            }
            Violation::Cycles { found } => {
                write!(f, "{} rings instead of one: at {found:?}", found.len())
            }
            Violation::Disordered { cycle } => {
                write!(f, "the ring does not follow the circle: {cycle:?}")
            }
            Violation::PredecessorDropped { node, dropped, taken: Some(taken) } => {
                write!(f, "{node:?} gave up its live predecessor {dropped:?} for {taken:?}")
            }
            Violation::PredecessorDropped { node, dropped, taken: None } => {
                write!(f, "{node:?} gave up its live predecessor {dropped:?}")
            }
            Violation::WrongOwner { node, key, owner } => {
                write!(f, "{node:?} says that it owns {key:?}, which is {owner:?}'s")
            }
            Violation::NeverSaidMine { node, key } => {
                write!(f, "a lookup of {key:?} ended at {node:?}, which never said that it owns it")
            }
            Violation::NoPlace { node, state } => {
                write!(f, "{node:?} has no place: {}", state.as_str())
            }
            Violation::NotIdeal { node, list, held, wanted } => {
                write!(f, "{} of {node:?} is {held:?} instead of {wanted:?}", name(list))
            }
            Violation::Lost { key } => {
                write!(f, "nobody holds the register at {key:?} as it was acknowledged")
            }
            Violation::StaleRead { key, node } => {
                write!(f, "{node:?} read the register at {key:?} older than it was acknowledged")
            }
            Violation::Unbounded { node, what, held, limit } => {
                write!(f, "{node:?} has {held} {what}, more than {limit}")
            }
            Violation::StandsStill { node } => {
                write!(f, "the next deadline of {node:?} does not move")
            }
            Violation::Endless { messages } => {
                write!(f, "one step does not end: {messages} messages so far")
            }
            Violation::NotYetIdeal { millis } => {
                write!(f, "not ideal after {millis} ms; what is left:")
            }
            Violation::NeverQuiet { seconds } => {
                write!(f, "pointers still change after {seconds} s")
            }
        }
    }
}

/// A violation and when it was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// On the world's clock.
    pub at: Instant,
    /// What.
    pub violation: Violation,
}
