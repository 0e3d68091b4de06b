//! Scenarios step by step: read, played, and judged (`docs/simulation.md`, "Scripts").
//!
//! ```
//! let text = "depth 2\nring 0 2 4\njoin 1 via 0\nfail 4\nquiet\nexpect ring 0 1 2\n";
//! let script = dht_sim::script::parse(text).expect("every line is a step");
//! assert!(dht_sim::script::run(&script, 1).ok);
//! ```

mod expect;
mod outcome;
mod parse;
mod play;
mod write;

use std::fmt;

use dht_core::message::Forwarding;

use crate::faults::FaultPlan;

pub use outcome::{MemberReport, Outcome, ScriptProblem};
pub use parse::parse;
pub use play::{Play, play, run, run_with};

/// Most nodes one script may name (guess: beyond that a person cannot follow it).
pub const MAX_NODES: usize = 256;
/// Most milliseconds one `wait` may take: one day.
pub const MAX_WAIT_MS: u64 = 86_400_000;

/// A scenario whose every line makes sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// Length of all lists; `None`: what real nodes have.
    pub depth: Option<u16>,
    /// Whether messages take their time in every step, and timers fire only while time passes; else
    /// time stands still in a step until all that follows from it has happened.
    pub is_timed: bool,
    /// Who carries lookups for clients and registers from node to node.
    pub forwarding: Forwarding,
    /// In order.
    pub steps: Vec<Line>,
}

/// One step and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Line of the file, from 1 on.
    pub number: usize,
    /// What to do.
    pub step: Step,
}

/// One step. Nodes are named by their points.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// An ideal ring of these nodes.
    Ring(Vec<u64>),
    /// A node joins, with every message that it causes.
    Join {
        /// Who.
        node: u64,
        /// Through whom.
        via: u64,
    },
    /// STABILIZE through its step 2, with the notification that it sends.
    Stabilize(u64),
    /// A node handles the notifications that wait for it.
    Rectify(u64),
    /// A node handles a notification of one sender.
    Notify {
        /// Who handles it.
        node: u64,
        /// Who sent it.
        from: u64,
    },
    /// A node dies silently.
    Fail(u64),
    /// A node goes for good.
    Leave(u64),
    /// A node goes to come back.
    Stop(u64),
    /// A node dies silently, and its disk with it.
    Crash(u64),
    /// A node comes back with its memory.
    Restart(u64),
    /// Only nodes of one group reach each other.
    Partition(Vec<Vec<u64>>),
    /// All reach each other again.
    Heal,
    /// Nothing that one sends reaches the other.
    Cut {
        /// Who sends.
        from: u64,
        /// Who hears nothing.
        to: u64,
    },
    /// From now on the network is like this.
    Network(FaultPlan),
    /// A node's process is stopped.
    Pause(u64),
    /// It runs again.
    Resume(u64),
    /// All messages of a node take longer.
    Slow {
        /// Whose.
        node: u64,
        /// By how many milliseconds; 0: not any more.
        by: u64,
    },
    /// A node's clock jumps ahead.
    Clock {
        /// Whose.
        node: u64,
        /// By how many milliseconds.
        by: u64,
    },
    /// A member looks up the owner of a point.
    Look {
        /// The point.
        key: u64,
        /// Who asks.
        node: u64,
    },
    /// A member writes the register of this number.
    Put {
        /// Which.
        key: u64,
        /// Who writes.
        node: u64,
    },
    /// A member reads the register of this number.
    Get {
        /// Which.
        key: u64,
        /// Who reads.
        node: u64,
    },
    /// A step of a node begins, and its answers are held back.
    Begin {
        /// Whose step.
        node: u64,
        /// Which.
        step: Box<Step>,
    },
    /// The answers that were held back arrive.
    Finish(u64),
    /// So many milliseconds pass, with all timers.
    Wait(u64),
    /// Time passes until nothing changes any more.
    Quiet,
    /// Time passes until everybody who knows of each other is in one ideal ring; for at most so many
    /// milliseconds.
    UntilIdeal(u64),
    /// Something must hold now.
    Expect(Expectation),
}

/// What a script may expect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expectation {
    /// Exactly these nodes live, in one ring, with ideal lists and predecessors.
    Ring(Vec<u64>),
    /// A node has no neighbours because all left or there never was one.
    Alone(u64),
    /// A node has no neighbours because they fell silent.
    Isolated(u64),
    /// Every live member finds this owner for a point.
    Owner {
        /// The point.
        key: u64,
        /// Its owner.
        node: u64,
    },
    /// Everything that was acknowledged can be read at every member.
    Data,
}

/// Why a text is no script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptError {
    /// Line of the file, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub kind: ScriptErrorKind,
}

/// The words that begin a step, for people.
const STEPS: &str = "ring, join, stabilize, rectify, notify, fail, leave, stop, crash, restart, begin, finish, \
    partition, cut, heal, network, pause, resume, slow, clock, look, put, get, wait, until ideal, quiet, expect";

/// What may be wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptErrorKind {
    /// There is nothing to play.
    NoStep,
    /// No step begins with this word.
    UnknownStep {
        /// The word.
        word: String,
    },
    /// The step is written otherwise.
    Form {
        /// How.
        expected: &'static str,
    },
    /// This is no number of a node, or of what else is counted.
    NoNumber {
        /// The word.
        word: String,
    },
    /// A number that must not be so small or so great.
    OutOfRange {
        /// The number.
        value: u64,
        /// The least that works.
        low: u64,
        /// The most that works.
        high: u64,
    },
    /// The step comes too late, or a second time.
    Misplaced {
        /// Where it belongs.
        rule: &'static str,
    },
    /// Nobody of this name was in the ring or joined it.
    UnknownNode {
        /// Which.
        node: u64,
    },
    /// The node died or left before.
    NotRunning {
        /// Which.
        node: u64,
    },
    /// The same node is named twice in one step.
    NamedTwice {
        /// Which.
        node: u64,
    },
    /// Too many nodes.
    TooManyNodes {
        /// The bound.
        limit: usize,
    },
    /// Two steps of one node at a time, or an end without a beginning.
    NotBegun {
        /// Which node.
        node: u64,
        /// Whether a step of it has begun already.
        has_begun: bool,
    },
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            ScriptErrorKind::NoStep => {
                write!(f, "nothing to play: `ring 0 2 4` would be a first step")
            }
            ScriptErrorKind::UnknownStep { word } => {
                write!(f, "'{word}' is no step; steps are {STEPS}")
            }
            ScriptErrorKind::Form { expected } => write!(f, "expected `{expected}`"),
            ScriptErrorKind::NoNumber { word } => write!(f, "'{word}' is no number"),
            ScriptErrorKind::OutOfRange { value, low, high } => {
                write!(f, "{value} must lie between {low} and {high}")
            }
            ScriptErrorKind::Misplaced { rule } => write!(f, "{rule}"),
            ScriptErrorKind::UnknownNode { node } => {
                write!(f, "node {node} is not known: `ring` or `join` names it first")
            }
            ScriptErrorKind::NotRunning { node } => {
                write!(f, "node {node} does not run: `join` or `restart` it first")
            }
            ScriptErrorKind::NamedTwice { node } => write!(f, "node {node} is named twice"),
            ScriptErrorKind::TooManyNodes { limit } => {
                write!(f, "a script has at most {limit} nodes")
            }
            ScriptErrorKind::NotBegun { node, has_begun: true } => {
                write!(f, "a step of node {node} has begun already: `finish {node}` first")
            }
            ScriptErrorKind::NotBegun { node, has_begun: false } => {
                write!(f, "no step of node {node} has begun")
            }
        }
    }
}

impl std::error::Error for ScriptError {}
