//! What a script came to, in the shape of the JSON contract.

use dht_core::Id;
use serde::Serialize;

use crate::invariants::{Problem, one_ring};
use crate::world::World;

/// The end of a script.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Outcome {
    /// Whether everything held.
    pub ok: bool,
    /// Line of the first step that failed, or of the last step.
    pub step: usize,
    /// What did not hold.
    pub problems: Vec<ScriptProblem>,
    /// The cycles of best successors.
    pub rings: Vec<Vec<u64>>,
    /// Everybody who runs.
    pub members: Vec<MemberReport>,
    /// All chance came from it.
    pub seed: u64,
    /// How much virtual time passed, in milliseconds.
    pub elapsed_ms: u64,
    /// Over everything that happened: the same script and seed give the same one.
    pub trace: String,
}

/// Something that did not hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ScriptProblem {
    /// At the end of which line it was seen.
    pub step: usize,
    /// One word.
    pub kind: &'static str,
    /// The node it is about, if it is about one.
    pub id: Option<u64>,
    /// For people.
    pub message: String,
}

/// One node that runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MemberReport {
    /// Its point.
    pub id: u64,
    /// What it is doing.
    pub state: &'static str,
    /// The nearest node before it.
    pub predecessor: Option<u64>,
    /// Nearest first.
    pub successors: Vec<u64>,
    /// Nearest first.
    pub predecessors: Vec<u64>,
}

impl ScriptProblem {
    /// An invariant that did not hold.
    pub(super) fn of(world: &World, step: usize, problem: &Problem) -> ScriptProblem {
        let violation = &problem.violation;
        ScriptProblem {
            step,
            kind: violation.kind(),
            id: violation.node().and_then(|id| world.number_at(id)),
            message: violation.to_string(),
        }
    }
}

impl Outcome {
    /// The world as it is at the end of a step, and what did not hold up to there.
    pub(super) fn of(
        world: &World,
        step: usize,
        problems: Vec<ScriptProblem>,
        seed: u64,
    ) -> Outcome {
        let numbers =
            |ids: &[Id]| -> Vec<u64> { ids.iter().filter_map(|id| world.number_at(*id)).collect() };
        let links = world.links();
        let member = |(id, held): (&Id, &crate::invariants::NodeLinks)| {
            Some(MemberReport {
                id: world.number_at(*id)?,
                state: held.state.as_str(),
                predecessor: held.predecessor.and_then(|id| world.number_at(id)),
                successors: numbers(&held.successors),
                predecessors: numbers(&held.predecessors),
            })
        };
        Outcome {
            ok: problems.is_empty(),
            step,
            problems,
            rings: one_ring::rings(links).iter().map(|ring| numbers(ring)).collect(),
            members: links.nodes.iter().filter_map(member).collect(),
            seed,
            elapsed_ms: world.elapsed_us() / 1000,
            trace: format!("{:016x}", world.trace().digest()),
        }
    }
}
