//! Plays scripts.

use std::time::Duration;

use dht_core::{Command, Config};

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

/// Plays a script to its end or to the first step at whose end something does not hold. The same
/// script and seed give the same outcome.
pub fn run(script: &Script, seed: u64) -> Outcome {
    run_with(script, seed, |_| {})
}

/// Like [`run`]; at the end, `show` is given the last lines of what happened, oldest first.
pub fn run_with(script: &Script, seed: u64, show: impl FnMut(&str)) -> Outcome {
    let config = match script.depth {
        None => Config::default(),
        Some(depth) => Config {
            depth,
            min_list: depth,
            // The longest that a node keeps.
            predecessor_peers: depth.min(32),
            ..Config::default()
        },
    };
    let config = WorldConfig::new(config, seed);
    let world = World::new(config).expect("the parser holds the depth within its bounds");
    let mut player = Player { world };
    let (mut last, mut problems) = (0, Vec::new());
    for line in &script.steps {
        last = line.number;
        problems = player.play_checked(line.number, &line.step);
        if !problems.is_empty() {
            break;
        }
    }
    player.world.trace().last_lines().for_each(show);
    Outcome::of(&player.world, last, problems, seed)
}

struct Player {
    world: World,
}

impl Player {
    /// Plays one step and tells what does not hold at its end.
    fn play_checked(&mut self, number: usize, step: &Step) -> Vec<ScriptProblem> {
        let known = self.world.problems().len();
        let mut problems = match step {
            Step::Expect(expectation) => judge(&self.world, number, expectation),
            step => {
                let violations = self.play(step);
                self.world.save_memories();
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
            Step::Heal => world.heal(),
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
            // Judged without playing.
            Step::Expect(_) => {}
        }
        Vec::new()
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
