//! Exhaustive exploration of small worlds, over the very state machine that real nodes run.
//!
//! A ring grows from one node, by a few joins, and loses a few nodes again. Whatever may happen
//! next is tried in every state: any message in flight arrives, any timer fires, a call to a dead
//! node ends, a node joins or dies. There is no clock; [`dht_core::node::steer`] says what is left
//! of a node without one. In every state some things must hold, and a fair schedule must lead from
//! it to the ideal ring. `docs/simulation.md`, "Exhaustive exploration", tells what is left out and
//! why.

mod environment;
mod fair;
mod fingerprint;
mod letters;
mod local;
mod search;
mod state;
mod steps;
mod story;
mod summary;
mod table;
mod visited;

use dht_core::planted::Planted;

pub use search::explore;

/// What to explore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Entries of a successor list: `r` in the proofs.
    pub list: u16,
    /// Nodes that join the first one, each once; at most 4.
    pub joins: u8,
    /// Nodes that die.
    pub failures: u8,
    /// Verdicts "dead" about a live neighbour.
    pub false_suspicions: u8,
    /// Whether a dead node may join again, in its next life; that is one of the joins.
    pub rejoins: bool,
    /// Which messages take time.
    pub flight: Flight,
    /// A naive rule in place of the right one, to see whether the search sees it.
    pub planted: Option<Planted>,
    /// Where to stop: so many states.
    pub max_states: u64,
    /// Where to stop: so many steps from the first state.
    pub max_depth: u32,
    /// How many violations are told before the search ends.
    pub max_violations: usize,
}

/// How messages travel. Answers that bring lists always take their time: they may be overtaken by
/// anything, and outlive who sent them. The more of the others do, the more states there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flight {
    /// Pings of RECTIFY and of a served join. Nothing is lost when they take no time: what made a
    /// node ping may as well have happened later.
    pub pings: Pace,
    /// Questions of STABILIZE and of its step 2.
    pub questions: Pace,
    /// Notifications.
    pub notifications: Pace,
    /// Word of a candidate.
    pub candidates: Pace,
    /// Pushes.
    pub pushes: Pace,
    /// A node's STABILIZE timer fires while at most so many messages of its own that nobody answers
    /// are in flight.
    pub told: u8,
    /// Nobody begins anything - no STABILIZE timer fires, nobody asks for a place - while so many
    /// messages are in flight. With 2, every step of the ring is overtaken by any one other.
    pub in_flight: u8,
}

/// How long one kind of message takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// It never arrives.
    Lost,
    /// It arrives before anything else happens.
    AtOnce,
    /// It arrives some time, unless its receiver dies.
    Slow,
}

impl Flight {
    /// Only answers take time, and lists travel only by answers.
    pub fn answers() -> Flight {
        Flight {
            pings: Pace::AtOnce,
            questions: Pace::AtOnce,
            notifications: Pace::AtOnce,
            candidates: Pace::AtOnce,
            pushes: Pace::Lost,
            told: u8::MAX,
            in_flight: u8::MAX,
        }
    }

    /// Everything takes time.
    pub fn free() -> Flight {
        Flight {
            pings: Pace::Slow,
            questions: Pace::Slow,
            notifications: Pace::Slow,
            candidates: Pace::Slow,
            pushes: Pace::Slow,
            told: u8::MAX,
            in_flight: u8::MAX,
        }
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            list: 2,
            joins: 1,
            failures: 1,
            false_suspicions: 0,
            rejoins: false,
            flight: Flight::answers(),
            planted: None,
            max_states: u64::MAX,
            max_depth: u32::MAX,
            max_violations: 3,
        }
    }
}

/// How far a search is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// States seen so far.
    pub states: u64,
    /// Steps tried so far.
    pub transitions: u64,
    /// How many steps from the first state the search is.
    pub depth: u32,
    /// How many of the states wait to be looked into.
    pub waiting: u64,
}

/// What a search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What was explored.
    pub plan: Plan,
    /// Different states.
    pub states: u64,
    /// Different links of all nodes together: states without what is in flight or under way.
    pub shapes: u64,
    /// Steps that were tried.
    pub transitions: u64,
    /// The most steps that lead to any state on the shortest way.
    pub depth: u32,
    /// Whether every state was looked into: there are no others.
    pub closed: bool,
    /// States left out because more messages were in flight than fit.
    pub overfull: u64,
    /// States of which upkeep alone makes the ideal ring.
    pub by_upkeep: u64,
    /// States that need the pings to remembered peers besides.
    pub by_memory: u64,
    /// States that are not repaired.
    pub unrepaired: u64,
    /// States of which this is not known, because a state on their way was left out.
    pub unchecked: u64,
    /// Different nodes that were met.
    pub nodes: u64,
    /// Steps of single nodes: how often the state machine ran.
    pub node_steps: u64,
    /// Different messages that were sent.
    pub messages: u64,
    /// What did not hold.
    pub violations: Vec<Violation>,
}

impl Report {
    fn new(plan: &Plan) -> Report {
        Report {
            plan: plan.clone(),
            states: 0,
            shapes: 0,
            transitions: 0,
            depth: 0,
            closed: false,
            overfull: 0,
            by_upkeep: 0,
            by_memory: 0,
            unrepaired: 0,
            unchecked: 0,
            nodes: 0,
            node_steps: 0,
            messages: 0,
            violations: Vec::new(),
        }
    }
}

/// A state that must not be, and the shortest way to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// What is wrong.
    pub what: Wrong,
    /// What happened, step by step, from the first node's founding on.
    pub path: Vec<String>,
    /// The nodes at the end, and what is in flight.
    pub picture: Vec<String>,
    /// What the fair schedule did from there on, if that is what is wrong.
    pub schedule: Vec<String>,
}

/// What can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A node's list is out of order, or holds the node itself or an entry twice.
    OutOfOrder {
        /// Which node.
        node: usize,
    },
    /// A node gave up a live predecessor for one that is not closer.
    PredecessorDropped {
        /// Which node.
        node: usize,
        /// Whom.
        dropped: usize,
    },
    /// A node's links changed and the stamp that tells others so did not.
    StampKept {
        /// Which node.
        node: usize,
    },
    /// A node wants a place, knows whom to ask, and has stopped to ask.
    GaveUp {
        /// Which node.
        node: usize,
    },
    /// Two nodes each believe that nobody else is there.
    TwoAlone,
    /// Upkeep does not lead from here to the ideal ring.
    NotRepaired,
    /// Messages cause messages without end.
    Endless,
}
