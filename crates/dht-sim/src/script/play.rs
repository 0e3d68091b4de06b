//! Plays scripts.

use std::time::Duration;

use dht_core::event::Purpose;
use dht_core::message::ring::Routing;
use dht_core::planted::Planted;
use dht_core::register::{Key, Value};
use dht_core::{Command, Config, Id};

use super::expect::judge;
use super::{Outcome, Script, ScriptProblem, Step};
use crate::invariants::{Problem, Violation};
use crate::world::{QUIET_LIMIT, World, WorldConfig};

/// How long one node of `ring` may take to join: ten times what an empty network needs (guess).
const JOIN_LIMIT: Duration = Duration::from_secs(60);
/// How long a leaver may take to hand off what it holds; a script holds nothing (guess).
const LEAVE_LIMIT: Duration = Duration::from_secs(60);
/// How often `quiet` tells those that wait to join again: whoever could let them in may itself
/// first have to find its way back (guess).
const JOIN_ROUNDS: usize = 3;

/// How to play a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Play {
    /// All chance.
    pub seed: u64,
    /// How many of the last lines of the trace to keep.
    pub lines: usize,
    /// A naive rule that all nodes follow: only to see whether the checkers see it.
    #[doc(hidden)]
    pub planted: Option<Planted>,
}

/// How many lines of its trace a script keeps for people: enough for the last few seconds of a small
/// ring.
const KEPT_LINES: usize = 400;
/// How often a world is looked at that should become ideal: less than any period.
const TICK: Duration = Duration::from_millis(500);
/// How many looks lie between two rounds of telling those to join that have no place: 15 s (guess:
/// the longest pause between two attempts of their own is 8 s, jittered).
const RETRY_TICKS: u32 = 30;

/// Plays a script to its end or to the first step at whose end something does not hold. The same
/// script and seed give the same outcome.
pub fn run(script: &Script, seed: u64) -> Outcome {
    run_with(script, seed, |_| {})
}

/// Like [`run`]; at the end, `show` is given the last lines of what happened, oldest first.
pub fn run_with(script: &Script, seed: u64, show: impl FnMut(&str)) -> Outcome {
    let (outcome, world) = play(script, Play { seed, lines: KEPT_LINES, planted: None });
    world.trace().last_lines().for_each(show);
    outcome
}

/// Like [`run`]; the world as it is at the end, too.
pub fn play(script: &Script, how: Play) -> (Outcome, World) {
    let mut keep = Config::default().keep;
    if !script.is_timed {
        // A finger that is being looked up when time stands still would be a step that nobody wrote.
        let is_still = |routing: &Routing| !matches!(routing, Routing::Fingers | Routing::Full);
        keep = keep.iter().filter(is_still).collect();
    }
    let (planted, forwarding) = (how.planted, script.forwarding);
    let config = match script.depth {
        None => Config { planted, keep, forwarding, ..Config::default() },
        Some(depth) => Config {
            depth,
            min_list: depth,
            // The longest that a node keeps.
            predecessor_peers: depth.min(32),
            planted,
            keep,
            forwarding,
            ..Config::default()
        },
    };
    let config = WorldConfig { kept_lines: how.lines, ..WorldConfig::new(config, how.seed) };
    let world = World::new(config).expect("the parser holds the depth within its bounds");
    let mut player = Player { world, is_timed: script.is_timed };
    let (mut last, mut problems) = (0, Vec::new());
    for line in &script.steps {
        last = line.number;
        problems = player.play_checked(line.number, &line.step);
        if !problems.is_empty() {
            break;
        }
    }
    let outcome = Outcome::of(&player.world, last, problems, how.seed);
    (outcome, player.world)
}

struct Player {
    world: World,
    is_timed: bool,
}

impl Player {
    /// Plays one step and tells what does not hold at its end.
    fn play_checked(&mut self, number: usize, step: &Step) -> Vec<ScriptProblem> {
        let known = self.world.problems().len();
        let mut problems = match step {
            Step::Expect(expectation) => judge(&self.world, number, expectation),
            step => {
                let violations = match self.is_timed {
                    true => self.play_timed(step),
                    false => self.play(step),
                };
                if !self.is_timed {
                    self.world.save_memories();
                }
                self.describe(number, violations)
            }
        };
        let seen = self.world.problems().iter().skip(known);
        problems.extend(seen.map(|problem| ScriptProblem::of(&self.world, number, problem)));
        if problems.is_empty() {
            let disorder = self.world.is_beyond_repair().into_iter().collect();
            problems = self.describe(number, disorder);
        }
        problems
    }

    fn play(&mut self, step: &Step) -> Vec<Violation> {
        let world = &mut self.world;
        match step {
            Step::Ring(nodes) => return self.ring(nodes),
            Step::Join { node, via } => {
                world.enter_stepped();
                world.join(*node, *via);
                world.settle();
            }
            Step::Stabilize(node) => {
                let node = *node;
                self.holding_notifies(|world| world.command(node, Command::Stabilize));
            }
            Step::Rectify(node) => {
                let node = *node;
                self.holding_notifies(|world| {
                    world.deliver_notifies(node, None);
                });
            }
            Step::Notify { node, from } => {
                let (node, from) = (*node, *from);
                self.holding_notifies(|world| {
                    if world.deliver_notifies(node, Some(from)) == 0 {
                        world.notify(node, from);
                    }
                });
            }
            Step::Fail(node) => {
                world.enter_stepped();
                world.fail(*node);
                world.settle();
            }
            Step::Leave(node) => self.leave(*node),
            Step::Restart(node) => {
                world.enter_stepped();
                world.restart(*node);
                world.settle();
            }
            Step::Partition(groups) => {
                world.enter_stepped();
                world.partition(groups);
                world.settle();
            }
            Step::Stop(node) => {
                world.enter_stepped();
                world.stop(*node);
                world.settle();
            }
            Step::Crash(node) => {
                world.enter_stepped();
                world.crash(*node);
                world.settle();
            }
            Step::Cut { from, to } => {
                world.enter_stepped();
                world.cut_one_way(*from, *to);
                world.settle();
            }
            Step::Resume(_) | Step::Look { .. } | Step::Put { .. } | Step::Get { .. } => {
                world.enter_stepped();
                self.play_timed(step);
                self.world.settle();
            }
            Step::Heal
            | Step::Network(_)
            | Step::Pause(_)
            | Step::Slow { .. }
            | Step::Clock { .. } => return self.play_timed(step),
            Step::Begin { node, step } => {
                world.begin(*node);
                let violations = self.play(step);
                self.world.begun(*node);
                return violations;
            }
            Step::Finish(node) => {
                let node = *node;
                self.holding_notifies(|world| world.finish(node));
            }
            Step::Wait(time) => world.run_for(Duration::from_millis(*time)),
            Step::Quiet => return self.quiet(),
            Step::UntilIdeal(time) => return self.until_ideal(Duration::from_millis(*time)),
            // Judged without playing.
            Step::Expect(_) => {}
        }
        Vec::new()
    }

    /// A step of a timed script: it begins, and what follows from it takes its time.
    fn play_timed(&mut self, step: &Step) -> Vec<Violation> {
        let world = &mut self.world;
        let millis = |by: &u64| Duration::from_millis(*by);
        match step {
            Step::Join { node, via } => world.join(*node, *via),
            Step::Stabilize(node) => world.command(*node, Command::Stabilize),
            Step::Fail(node) => world.fail(*node),
            Step::Leave(node) => world.leave(*node),
            Step::Stop(node) => world.stop(*node),
            Step::Crash(node) => world.crash(*node),
            Step::Restart(node) => world.restart(*node),
            Step::Partition(groups) => world.partition(groups),
            Step::Heal => world.heal(),
            Step::Cut { from, to } => world.cut_one_way(*from, *to),
            Step::Network(plan) => world.set_plan(*plan),
            Step::Pause(node) => world.pause(*node),
            Step::Resume(node) => world.resume(*node),
            Step::Slow { node, by } => world.slow_down(*node, millis(by)),
            Step::Clock { node, by } => world.jump_clock(*node, millis(by)),
            Step::Look { key, node } => {
                world.look_up(*node, Id::from_u64(*key), None, Purpose::Client);
            }
            Step::Put { key, node } => {
                world.write(*node, register_of(*key), Value::Present(Vec::new().into()));
            }
            Step::Get { key, node } => {
                world.read(*node, register_of(*key));
            }
            Step::Ring(nodes) => {
                world.grow(nodes.iter().map(|n| (*n, Id::from_u64(*n))).collect());
                return self.world.flaws();
            }
            Step::Wait(_) | Step::Quiet | Step::UntilIdeal(_) | Step::Expect(_) => {
                return self.play(step);
            }
            // They hold time back, which is what stepped scripts are for.
            Step::Rectify(_) | Step::Notify { .. } | Step::Begin { .. } | Step::Finish(_) => {}
        }
        Vec::new()
    }

    /// Lets time pass until nothing is left to mend. Those that could not join are told again now and
    /// then: whoever could let them in may have come back only now.
    fn until_ideal(&mut self, limit: Duration) -> Vec<Violation> {
        let end = self.world.now().after(limit);
        let mut ticks = 0;
        loop {
            if ticks % RETRY_TICKS == 0 {
                self.world.retry_joins();
            }
            if self.world.is_ideal() {
                return Vec::new();
            }
            if self.world.now() >= end {
                let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                let late = Violation::NotYetIdeal { millis };
                return std::iter::once(late).chain(self.world.flaws()).collect();
            }
            self.world.run_until(self.world.now().after(TICK).min(end));
            ticks += 1;
        }
    }

    /// An ideal ring as it comes about: the first node founds it, the others join one by one, and
    /// upkeep does the rest.
    fn ring(&mut self, nodes: &[u64]) -> Vec<Violation> {
        let world = &mut self.world;
        if let Some((first, others)) = nodes.split_first() {
            world.found(*first);
            for node in others {
                world.join(*node, *first);
                let end = world.now().after(JOIN_LIMIT);
                world.run_while(end, |world| world.is_member(*node));
            }
        }
        self.quiet()
    }

    /// Between the begin and the end of a step, notifications wait at their targets.
    fn holding_notifies(&mut self, start: impl FnOnce(&mut World)) {
        self.world.enter_stepped();
        self.world.hold_notifies(true);
        start(&mut self.world);
        self.world.settle();
        self.world.hold_notifies(false);
    }

    fn leave(&mut self, node: u64) {
        self.world.enter_stepped();
        self.world.leave(node);
        self.world.settle();
        if self.world.is_running(node) && !self.world.is_held(node) {
            // It asks its new keepers by a timer how far they are: to the end means in time.
            let end = self.world.now().after(LEAVE_LIMIT);
            self.world.run_while(end, |world| !world.is_running(node));
        }
    }

    fn quiet(&mut self) -> Vec<Violation> {
        for _ in 0..JOIN_ROUNDS {
            let any = self.world.retry_joins();
            if let Err(violation) = self.world.run_until_quiet(QUIET_LIMIT) {
                return vec![violation];
            }
            if !any {
                break;
            }
        }
        self.world.flaws()
    }

    fn describe(&self, number: usize, violations: Vec<Violation>) -> Vec<ScriptProblem> {
        let at = self.world.now();
        let problem =
            |violation| ScriptProblem::of(&self.world, number, &Problem { at, violation });
        violations.into_iter().map(problem).collect()
    }
}

/// The register of this number.
fn register_of(number: u64) -> Key {
    Key::new(format!("key-{number}")).expect("a number is no long name")
}
