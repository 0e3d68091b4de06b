//! Judges what a script expects.

use std::time::Duration;

use dht_core::event::{Purpose, ReadOutcome};
use dht_core::message::client::NodeState;
use dht_core::{Id, Notice};

use super::{Expectation, ScriptProblem};
use crate::invariants::Problem;
use crate::world::World;

/// What does not meet the expectation; the world is left as it is.
pub(super) fn judge(world: &World, step: usize, expectation: &Expectation) -> Vec<ScriptProblem> {
    let judge = Judge { world, step };
    match expectation {
        Expectation::Ring(ring) => judge.ring(ring),
        Expectation::Alone(node) => judge.without_neighbors(*node, true),
        Expectation::Isolated(node) => judge.without_neighbors(*node, false),
        Expectation::Owner { key, node } => judge.owner(*key, *node),
        Expectation::Data => judge.data(),
    }
}

struct Judge<'a> {
    world: &'a World,
    step: usize,
}

impl Judge<'_> {
    fn ring(&self, ring: &[u64]) -> Vec<ScriptProblem> {
        let running = self.world.running();
        let mut problems = Vec::new();
        for node in ring.iter().filter(|node| !running.contains(node)) {
            problems.push(self.problem("not_live", *node, format!("node {node} does not live")));
        }
        for node in running.iter().filter(|node| !ring.contains(node)) {
            problems.push(self.problem("live", *node, format!("node {node} lives")));
        }
        let now = self.world.now();
        let flaws = self.world.flaws_of_ring(ring).into_iter();
        problems.extend(flaws.map(|violation| {
            ScriptProblem::of(self.world, self.step, &Problem { at: now, violation })
        }));
        problems
    }

    fn without_neighbors(&self, node: u64, alone: bool) -> Vec<ScriptProblem> {
        let wanted = if alone { "alone" } else { "isolated" };
        let found = match self.world.snapshot(node) {
            Some(snapshot) if self.world.is_running(node) => {
                match (snapshot.state, snapshot.alone) {
                    (NodeState::Member, true) => "alone",
                    (state, _) => state.as_str(),
                }
            }
            _ => "dead",
        };
        if found == wanted {
            return Vec::new();
        }
        let message = format!("node {node} is {found}, not {wanted}");
        vec![self.problem(if alone { "not_alone" } else { "not_isolated" }, node, message)]
    }

    /// Every live member looks the point up, with its whole list and with one entry, on a copy of
    /// the world: first while time stands still, then, for those that have to wait for a verdict,
    /// for as long as a lookup may take.
    fn owner(&self, key: u64, node: u64) -> Vec<ScriptProblem> {
        let members: Vec<u64> = self.world.members();
        if members.is_empty() {
            let message = format!("nobody is there to answer for the point {key}");
            return vec![self.problem("wrong_owner", node, message)];
        }
        let mut copy = self.world.clone();
        let known = copy.problems().len();
        let point = Id::from_u64(key);
        let mut asked = Vec::new();
        for member in &members {
            for depth in [None, Some(1)] {
                asked.push((*member, copy.look_up(*member, point, depth, Purpose::Upkeep)));
            }
        }
        copy.settle();
        let patience = copy.config().lookup_timeout + Duration::from_secs(1);
        copy.run_until_answered(patience, asked.iter().map(|(_, op)| *op));
        let mut problems: Vec<ScriptProblem> = copy
            .problems()
            .iter()
            .skip(known)
            .map(|problem| ScriptProblem::of(&copy, self.step, problem))
            .collect();
        for (member, op) in asked {
            let found = match copy.take_outcome(op) {
                Some(Notice::Found { report, .. }) => report.owner.map(|owner| owner.id),
                _ => None,
            };
            if found == copy.id_of(node) {
                continue;
            }
            let message = match found.and_then(|id| copy.number_at(id)) {
                Some(other) => format!("node {member} answers {other} for the point {key}"),
                None => format!(
                    "node {member} found nobody for the point {key}, on the network as it is"
                ),
            };
            problems.push(self.problem("wrong_owner", member, message));
        }
        problems
    }

    /// Every member reads everything that was acknowledged, on a copy of the world; of rings that never
    /// met, those where somebody holds it.
    fn data(&self) -> Vec<ScriptProblem> {
        let mut copy = self.world.clone();
        let mut asked = Vec::new();
        let circles = self.world.circles();
        for (key, ballot) in self.world.promises() {
            let holds = |n: &u64| {
                let held = self.world.register(*n, key.id());
                held.is_some_and(|held| held.ballot >= ballot)
            };
            for circle in circles.iter().filter(|circle| circle.iter().any(holds)) {
                for member in circle.iter().filter(|n| self.world.is_member(**n)) {
                    asked.push((*member, ballot, key.clone(), copy.read(*member, key.clone())));
                }
            }
        }
        let patience = copy.config().operation_timeout + Duration::from_secs(1);
        copy.run_until_answered(patience, asked.iter().map(|(_, _, _, op)| *op));
        let mut problems = Vec::new();
        for (member, ballot, key, op) in asked {
            let outcome = copy.take_outcome(op);
            let held = match &outcome {
                Some(Notice::Read { outcome: ReadOutcome::Value { register, .. }, .. }) => {
                    register.as_ref().map(|held| held.ballot)
                }
                _ => None,
            };
            if held < Some(ballot) {
                let message = format!("node {member} reads {key:?} and finds {outcome:?}");
                problems.push(self.problem("acknowledged_lost", member, message));
            }
        }
        problems
    }

    fn problem(&self, kind: &'static str, id: u64, message: String) -> ScriptProblem {
        ScriptProblem { step: self.step, kind, id: Some(id), message }
    }
}
