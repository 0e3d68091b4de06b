//! Breadth first through all states.

use super::fair::{Repair, Repaired};
use super::local::Flaw;
use super::state::{MAX_PLACES, State};
use super::steps::{Step, World};
use super::table::Table;
use super::{Plan, Progress, Report, Violation, Wrong};

/// How many states lie between two reports of progress.
const PROGRESS_EVERY: u64 = 1 << 16;

/// Looks into every state that the plan allows, nearest first.
///
/// # Panics
///
/// If the plan asks for more than four joins.
pub fn explore(plan: &Plan, mut progress: impl FnMut(&Progress)) -> Report {
    assert!(usize::from(plan.joins) < MAX_PLACES, "at most four nodes can join");
    let mut search = Search::new(plan, World::new(plan));
    search.run(&mut progress);
    search.into_report()
}

struct Search {
    plan: Plan,
    world: World,
    seen: Table,
    /// For every state, in the order they were seen: from which one it was reached, and how.
    parents: Vec<(u32, u32)>,
    /// The states of the present depth, and of the next one, written down.
    waiting: Vec<u8>,
    next: Vec<u8>,
    repaired: Repaired,
    report: Report,
}

impl Search {
    fn new(plan: &Plan, world: World) -> Search {
        let report = Report {
            plan: plan.clone(),
            states: 0,
            transitions: 0,
            depth: 0,
            closed: false,
            overfull: 0,
            by_upkeep: 0,
            by_memory: 0,
            disordered: 0,
            nodes: 0,
            node_steps: 0,
            messages: 0,
            violations: Vec::new(),
        };
        Search {
            plan: plan.clone(),
            world,
            seen: Table::default(),
            parents: Vec::new(),
            waiting: Vec::new(),
            next: Vec::new(),
            repaired: Repaired::default(),
            report,
        }
    }

    fn first(&mut self) -> State {
        let Plan { joins, failures, false_suspicions, .. } = self.plan;
        self.world.first(joins, failures, false_suspicions)
    }

    fn run(&mut self, progress: &mut impl FnMut(&Progress)) {
        let first = self.first();
        self.meet(first, None, 0, Step::Fail(0));
        let mut steps = Vec::new();
        let mut number = 0;
        while !self.next.is_empty() {
            self.waiting = std::mem::take(&mut self.next);
            if self.report.depth >= self.plan.max_depth {
                return;
            }
            let mut at = 0;
            while at < self.waiting.len() {
                let state = State::read(&self.waiting, &mut at);
                self.world.steps(&state, &mut steps);
                for step in &steps {
                    let mut reached = state;
                    let flaw = self.world.apply(&mut reached, *step);
                    self.report.transitions += 1;
                    self.meet(reached, flaw, number, *step);
                    if self.is_over() {
                        return;
                    }
                }
                number += 1;
                if u64::from(number) % PROGRESS_EVERY == 0 {
                    progress(&Progress {
                        states: self.report.states,
                        transitions: self.report.transitions,
                        depth: self.report.depth,
                        waiting: self.report.states - u64::from(number),
                    });
                }
            }
            self.report.depth += u32::from(!self.next.is_empty());
        }
        self.report.closed = self.report.overfull == 0;
    }

    fn is_over(&self) -> bool {
        self.report.violations.len() >= self.plan.max_violations
            || self.report.states >= self.plan.max_states
    }

    /// A state was reached; `from` and `step` say how.
    fn meet(&mut self, state: State, flaw: Option<(usize, Flaw)>, from: u32, step: Step) {
        if state.is_overfull {
            self.report.overfull += 1;
            return;
        }
        let wrong = flaw.and_then(|(node, flaw)| self.wrong(&state, node, flaw));
        if let Some(wrong) = wrong {
            self.violated(wrong, &state, from, Some(step));
        }
        if !self.seen.insert(state.fingerprint()) {
            return;
        }
        self.report.states += 1;
        self.parents.push((from, step.pack()));
        state.write(&mut self.next);
        let number = (self.parents.len() - 1) as u32;
        if self.world.count_alone(&state) > 1 {
            self.violated(Wrong::TwoAlone, &state, number, None);
        }
        match self.world.repair(&state, &mut self.repaired).0 {
            Repair::ByUpkeep => self.report.by_upkeep += 1,
            Repair::ByMemory => self.report.by_memory += 1,
            Repair::Never => self.violated(Wrong::NotRepaired, &state, number, None),
            Repair::Endless => self.violated(Wrong::Endless, &state, number, None),
        }
    }

    /// What a flaw of one node means in this world. After a false verdict a live predecessor may be
    /// lost.
    fn wrong(&self, state: &State, node: usize, flaw: Flaw) -> Option<Wrong> {
        match flaw {
            Flaw::StampKept => Some(Wrong::StampKept { node }),
            Flaw::GaveUp => Some(Wrong::GaveUp { node }),
            Flaw::OutOfOrder => Some(Wrong::OutOfOrder { node }),
            Flaw::PredecessorDropped(dropped) => {
                let is_member = |held| self.world.locals.summary(held).is_member();
                let erred = state.suspicions < self.plan.false_suspicions;
                let counts = !erred && state.node(dropped).is_some_and(is_member);
                counts.then_some(Wrong::PredecessorDropped { node, dropped })
            }
        }
    }

    /// Notes what is wrong, with the way there: to `number`, and one step further if there is one.
    fn violated(&mut self, what: Wrong, state: &State, number: u32, last: Option<Step>) {
        if self.report.violations.len() >= self.plan.max_violations {
            return;
        }
        let mut steps: Vec<Step> = last.into_iter().collect();
        let mut at = number;
        while at != 0 {
            let (from, step) = self.parents[at as usize];
            steps.push(Step::unpack(step));
            at = from;
        }
        let mut on_way = self.first();
        let mut path = Vec::new();
        for step in steps.into_iter().rev() {
            path.push(self.world.tell(&on_way, step));
            self.world.apply(&mut on_way, step);
        }
        debug_assert_eq!(on_way.fingerprint(), state.fingerprint());
        let picture = self.world.picture(state);
        let schedule = match what {
            Wrong::NotRepaired | Wrong::Endless => self.world.tell_repair(state),
            _ => Vec::new(),
        };
        self.report.violations.push(Violation { what, path, picture, schedule });
    }

    fn into_report(mut self) -> Report {
        let (nodes, steps, messages) = self.world.locals.counts();
        self.report.nodes = nodes as u64;
        self.report.node_steps = steps as u64;
        self.report.messages = messages as u64;
        self.report
    }
}
