//! Breadth first through all states.

use super::fair::{Repair, Repaired};
use super::local::Flaw;
use super::state::{MAX_PLACES, State};
use super::steps::{Step, World};
use super::table::Table;
use super::visited::Visited;
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
    let mut search = Search::new(plan);
    let first = search.first();
    search.run(first, &mut progress);
    search.into_report()
}

/// A search under way.
pub(super) struct Search {
    plan: Plan,
    pub(super) world: World,
    seen: Visited,
    /// For every state, in the order they were seen: from which one it was reached, and how.
    parents: Vec<(u32, u32)>,
    /// For every state: where the fair schedule goes from it while something is in flight, and how
    /// the state is repaired once nothing is.
    follows: Vec<Follow>,
    /// The states of the present depth, and of the next one, written down.
    waiting: Vec<u8>,
    next: Vec<u8>,
    repaired: Repaired,
    /// The links of all nodes together, as they were met.
    shapes: Table,
    report: Report,
}

/// What the fair schedule does first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Follow(u32);

impl Follow {
    const UNKNOWN: Follow = Follow(u32::MAX);
    const BY_UPKEEP: Follow = Follow(u32::MAX - 1);
    const BY_MEMORY: Follow = Follow(u32::MAX - 2);
    const WRONG: Follow = Follow(u32::MAX - 3);

    /// The state that it leads to.
    fn state(self) -> Option<u32> {
        (self.0 < Follow::WRONG.0).then_some(self.0)
    }
}

impl Search {
    pub(super) fn new(plan: &Plan) -> Search {
        Search {
            plan: plan.clone(),
            world: World::new(plan),
            seen: Visited::default(),
            parents: Vec::new(),
            follows: Vec::new(),
            waiting: Vec::new(),
            next: Vec::new(),
            repaired: Repaired::default(),
            shapes: Table::default(),
            report: Report::new(plan),
        }
    }

    /// The state in which the first node has founded its ring.
    pub(super) fn first(&mut self) -> State {
        let Plan { joins, failures, false_suspicions, .. } = self.plan;
        self.world.first(joins, failures, false_suspicions)
    }

    /// Looks into everything that can be reached from a state.
    pub(super) fn run(&mut self, first: State, progress: &mut impl FnMut(&Progress)) {
        self.meet(first, None, 0, Step::Fail(0));
        let mut number = 0;
        while !self.next.is_empty() && self.report.depth < self.plan.max_depth {
            self.waiting = std::mem::take(&mut self.next);
            let mut at = 0;
            while at < self.waiting.len() && !self.is_over() {
                let state = State::read(&self.waiting, &mut at);
                self.look_into(&state, number);
                number += 1;
                if u64::from(number) % PROGRESS_EVERY == 0 {
                    progress(&self.progress(number));
                }
            }
            if self.is_over() {
                // What was not looked into yet is checked below, with the rest.
                self.next.extend_from_slice(&self.waiting[at..]);
                break;
            }
            self.report.depth += u32::from(!self.next.is_empty());
        }
        let is_all = self.next.is_empty();
        self.report.closed = is_all && self.report.overfull == 0;
        self.check_rest();
        self.count_repairs();
    }

    pub(super) fn into_report(mut self) -> Report {
        let (nodes, steps, messages) = self.world.locals.counts();
        self.report.nodes = nodes as u64;
        self.report.node_steps = steps as u64;
        self.report.messages = messages as u64;
        self.report
    }

    fn progress(&self, number: u32) -> Progress {
        Progress {
            states: self.report.states,
            transitions: self.report.transitions,
            depth: self.report.depth,
            waiting: self.report.states - u64::from(number),
        }
    }

    fn is_over(&self) -> bool {
        self.report.violations.len() >= self.plan.max_violations
            || self.report.states >= self.plan.max_states
    }

    /// Tries all that may happen next.
    fn look_into(&mut self, state: &State, number: u32) {
        let drains = self.world.draining_step(state);
        for step in self.world.steps(state) {
            let mut reached = *state;
            let flaw = self.world.apply(&mut reached, step);
            self.report.transitions += 1;
            let met = self.meet(reached, flaw, number, step);
            if drains == Some(step)
                && let Some(met) = met
            {
                self.follows[number as usize] = Follow(met);
            }
        }
        if drains.is_none() {
            self.check_repair(state, number);
        }
    }

    /// A state was reached; `from` and `step` say how. Its number, unless it is no true one.
    fn meet(
        &mut self,
        state: State,
        flaw: Option<(usize, Flaw)>,
        from: u32,
        step: Step,
    ) -> Option<u32> {
        if state.is_overfull {
            self.report.overfull += 1;
            return None;
        }
        if let Some(wrong) = flaw.and_then(|(node, flaw)| self.wrong(&state, node, flaw)) {
            self.violated(wrong, &state, from, Some(step));
        }
        let new = self.parents.len() as u32;
        let number = self.seen.set(state.fingerprint(), new);
        if number == new {
            self.report.states += 1;
            self.parents.push((from, step.pack()));
            self.follows.push(Follow::UNKNOWN);
            state.write(&mut self.next);
            let is_new = self.shapes.insert(self.world.shape(&state));
            self.report.shapes += u64::from(is_new);
            if self.world.count_alone(&state) > 1 {
                self.violated(Wrong::TwoAlone, &state, number, None);
            }
        }
        Some(number)
    }

    /// Whether a state is repaired.
    fn check_repair(&mut self, state: &State, number: u32) {
        let (repair, _) = self.world.repair(state, &mut self.repaired);
        self.follows[number as usize] = match repair {
            Repair::ByUpkeep => Follow::BY_UPKEEP,
            Repair::ByMemory => Follow::BY_MEMORY,
            Repair::Never | Repair::Endless => Follow::WRONG,
        };
        match repair {
            Repair::ByUpkeep | Repair::ByMemory => {}
            Repair::Never => self.violated(Wrong::NotRepaired, state, number, None),
            Repair::Endless => self.violated(Wrong::Endless, state, number, None),
        }
    }

    /// Where the search ended early, the states that were not looked into are checked whatever is
    /// in flight: all others lead to these, or to such as were checked.
    fn check_rest(&mut self) {
        let rest = std::mem::take(&mut self.next);
        let (mut at, mut states) = (0, Vec::new());
        while at < rest.len() {
            let state = State::read(&rest, &mut at);
            // Only the fingerprint tells its number.
            states.extend(self.seen.find(state.fingerprint()).map(|number| (number, state)));
            for (number, state) in states.drain(..) {
                self.check_repair(&state, number);
            }
        }
    }

    /// Follows the fair schedule from every state to one where nothing is in flight. While
    /// something is, its steps are steps of the search, so that only where they run in a circle is
    /// it left to say that messages cause messages without end.
    fn count_repairs(&mut self) {
        let mut on_way: Vec<u32> = Vec::new();
        for start in 0..self.follows.len() as u32 {
            let mut at = start;
            on_way.clear();
            let end = loop {
                let follow = self.follows[at as usize];
                let Some(next) = follow.state() else { break follow };
                on_way.push(at);
                if on_way.len() > self.follows.len() {
                    break Follow::WRONG;
                }
                at = next;
            };
            if end == Follow::WRONG && on_way.len() > self.follows.len() {
                self.found_circle(start);
                return;
            }
            on_way.iter().for_each(|number| self.follows[*number as usize] = end);
            match end {
                Follow::BY_UPKEEP => self.report.by_upkeep += 1,
                Follow::BY_MEMORY => self.report.by_memory += 1,
                Follow::WRONG => self.report.unrepaired += 1,
                _ => self.report.unchecked += 1,
            }
        }
    }

    /// Tells the way to a state from which deliveries alone come back to it.
    fn found_circle(&mut self, number: u32) {
        let state = self.on_way_to(number, None).0;
        self.violated(Wrong::Endless, &state, number, None);
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
        let path = self.on_way_to(number, last).1;
        let picture = self.world.picture(state);
        let schedule = match what {
            Wrong::NotRepaired | Wrong::Endless => self.world.tell_repair(state),
            _ => Vec::new(),
        };
        self.report.violations.push(Violation { what, path, picture, schedule });
    }

    /// Goes the way to a state again, step by step.
    fn on_way_to(&mut self, number: u32, last: Option<Step>) -> (State, Vec<String>) {
        let mut steps: Vec<Step> = last.into_iter().collect();
        let mut at = number;
        while at != 0 {
            let (from, step) = self.parents[at as usize];
            steps.push(Step::unpack(step));
            at = from;
        }
        let mut state = self.first();
        let mut path = Vec::new();
        for step in steps.into_iter().rev() {
            path.push(self.world.tell(&state, step));
            self.world.apply(&mut state, step);
        }
        (state, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::local::Input;
    use crate::explore::state::Seat;
    use crate::explore::{Flight, Pace};

    fn plan(joins: u8, failures: u8) -> Plan {
        Plan { joins, failures, ..Plan::default() }
    }

    #[test]
    fn a_world_of_one_has_one_state() {
        let report = explore(&plan(0, 1), |_| {});
        assert_eq!((report.states, report.transitions, report.by_upkeep), (1, 1, 1));
        assert!(report.closed && report.violations.is_empty());
    }

    #[test]
    fn two_founders_are_seen() {
        let mut search = Search::new(&plan(1, 0));
        let mut state = search.first();
        state.seats[1] = Seat::Runs(search.world.locals.fresh(1, 0));
        search.world.act(&mut state, 1, Input::Found);
        search.run(state, &mut |_| {});
        let wrong: Vec<Wrong> = search.into_report().violations.iter().map(|v| v.what).collect();
        assert_eq!(wrong, [Wrong::TwoAlone, Wrong::NotRepaired]);
    }

    #[test]
    fn a_circle_of_deliveries_is_seen() {
        let mut search = Search::new(&plan(0, 0));
        let first = search.first();
        search.run(first, &mut |_| {});
        let step = search.world.steps(&first)[0];
        search.parents.push((0, step.pack()));
        search.follows = vec![Follow(1), Follow(0)];
        search.count_repairs();
        let report = search.into_report();
        assert_eq!(report.violations[0].what, Wrong::Endless);
    }

    /// What takes no time by default may as well: where it does, there are more states, and the
    /// links of the nodes take the same shapes.
    #[test]
    fn more_flight_adds_no_shape() {
        let shapes = |flight| {
            let report = explore(&Plan { flight, ..plan(2, 1) }, |_| {});
            assert!(report.closed && report.violations.is_empty());
            (report.shapes, report.states)
        };
        let answers = Flight::answers();
        let (wanted, fewest) = shapes(answers);
        for flight in [
            Flight { questions: Pace::Slow, ..answers },
            Flight { pushes: Pace::AtOnce, ..answers },
        ] {
            let (found, states) = shapes(flight);
            assert_eq!(found, wanted, "{flight:?}");
            assert!(states != fewest, "{flight:?} made no difference at all");
        }
    }

    /// Two answers on their way at a time show all that any number of them shows of three nodes.
    #[test]
    fn two_in_flight_reach_every_shape_of_three_nodes() {
        let report = |in_flight| {
            let flight = Flight { in_flight, ..Flight::answers() };
            let report = explore(&Plan { flight, ..plan(2, 2) }, |_| {});
            assert!(report.closed && report.violations.is_empty());
            (report.shapes, report.states)
        };
        let (all, two, one) = (report(u8::MAX), report(2), report(1));
        assert!(two.0 == all.0 && two.1 < all.1, "{two:?} of {all:?}");
        assert!(one.0 < two.0 && one.1 < two.1, "{one:?} of {two:?}");
    }

    #[test]
    fn where_the_search_ends_early_the_rest_is_checked() {
        for bound in [Plan { max_depth: 9, ..plan(2, 1) }, Plan { max_states: 900, ..plan(2, 1) }] {
            let report = explore(&bound, |_| {});
            assert!(!report.closed && report.violations.is_empty());
            assert_eq!((report.by_upkeep, report.unchecked), (report.states, 0));
        }
    }
}
