//! Sweeps: random worlds, one for each seed, in which everything goes wrong that can be named.
//!
//! Each seed draws a script ([`draw`]), so that whatever fails can be read, played step by step, and
//! cut down ([`shrink`]) to the few steps that matter. Not every world has every fault: each draws
//! which kinds it has, since a world in which everything fails all the time keeps few promises that
//! could be broken (Groce et al., "Swarm testing", ISSTA 2012).

mod draw;
mod shrink;
mod steps;

use std::fmt;

use serde::Serialize;

use crate::script::{MAX_NODES, Outcome, Play, Script, parse, play};

pub use draw::draw;
pub use shrink::{Shrunk, shrink};

/// Longest virtual time of one world: a day.
pub const MAX_MINUTES: u64 = 1440;
/// Most nodes that run at once. Half of what a script may name: ids of the dead come again, and new
/// ones too.
pub const MAX_RUNNING: u64 = MAX_NODES as u64 / 2;

/// What every world of a sweep is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckConfig {
    /// About how many nodes run at once: 3 to [`MAX_RUNNING`].
    pub nodes: u64,
    /// For how many virtual minutes things go wrong, before all is let come to rest: 1 to
    /// [`MAX_MINUTES`].
    pub minutes: u64,
    /// What happens in them.
    pub kind: WorldKind,
}

/// What happens in the worlds of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorldKind {
    /// Anything that can be named.
    Any,
    /// Steps in any order, each to its end while time stands still, with cuts and late replies. The
    /// rings are small, and `minutes` has no say.
    Steps,
    /// All nodes of an ideal ring are cut into two, three or four parts, by place or anyhow. Nothing
    /// else happens, but that registers are written before, and others while it is cut. After the
    /// minutes the cut is healed, there must be one ideal ring again within [`MERGE_LIMIT_MS`], and a
    /// minute later everything acknowledged must be found by every member.
    Partition,
}

/// How long parts may take to become one ideal ring again: twelve rounds of the merge probe, which
/// comes every 10 s.
pub const MERGE_LIMIT_MS: u64 = 120_000;

/// A setting outside of what works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckError {
    field: &'static str,
    value: u64,
    low: u64,
    high: u64,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckError { field, value, low, high } = self;
        write!(f, "{field} is {value}, but must lie between {low} and {high}")
    }
}

impl std::error::Error for CheckError {}

/// What one world came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// Messages delivered, timers fired, and what else happened.
    pub events: u64,
    /// The script that was played.
    pub script: Script,
    /// How it ended.
    pub outcome: Outcome,
}

/// One thing that did not hold, in the shape of the JSON contract.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SeedViolation {
    /// Of which world.
    pub seed: u64,
    /// The property, as one word.
    pub invariant: &'static str,
    /// At the end of which line of the seed's script it was seen.
    pub step: usize,
    /// For people.
    pub message: String,
    /// The command that plays it again.
    pub replay: String,
}

impl CheckConfig {
    /// Checks every bound.
    pub fn validate(&self) -> Result<(), CheckError> {
        let range = |field, value, low, high| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(CheckError { field, value, low, high }),
        };
        range("nodes", self.nodes, 3, MAX_RUNNING)?;
        range("minutes", self.minutes, 1, MAX_MINUTES)
    }
}

/// Draws the world of a seed and lives through it.
pub fn check(config: CheckConfig, seed: u64) -> Checked {
    // As it will be read: with the numbers of its lines.
    let script = parse(&draw(config, seed).to_string()).expect("what is drawn makes sense");
    let (outcome, world) = play(&script, Play { seed, lines: 0, planted: None });
    Checked { events: world.events(), script, outcome }
}

impl Checked {
    /// What did not hold. `replay` makes the command that plays a seed again.
    pub fn violations(&self, replay: impl Fn(u64) -> String) -> Vec<SeedViolation> {
        let seed = self.outcome.seed;
        let violation = |problem: &crate::script::ScriptProblem| SeedViolation {
            seed,
            invariant: problem.kind,
            step: problem.step,
            message: problem.message.clone(),
            replay: replay(seed),
        };
        self.outcome.problems.iter().map(violation).collect()
    }
}
