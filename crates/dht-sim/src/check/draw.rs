//! Draws the script of a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use dht_core::message::Forwarding;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{CheckConfig, MERGE_LIMIT_MS, WorldKind, steps};
use crate::faults::{FaultPlan, Spread};
use crate::member::mix;
use crate::script::{Expectation, Line, Script, Step};

/// Things that are done to a world in one minute, on average: often enough that the next comes before
/// the last is mended, rarely enough that many are (guess).
const DEEDS_PER_MINUTE: u64 = 12;
/// How long the ring may take to become ideal once nothing goes wrong any more: longer than whoever
/// was away for the whole time needs to be found, one remembered peer every 15 s at most.
const REST_MS: u64 = 3_600_000;
/// How long copies may take to get where they should be, before everything is read: the repair window.
const REPAIR_MS: u64 = 60_000;
/// How long writes may take before the ring is cut: the longest time of a register operation.
const WRITE_MS: u64 = 20_000;
/// Registers that are written and read.
const KEYS: u64 = 16;

/// What may go wrong in one world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    /// Nodes join that were never there, or not for long.
    Join,
    /// Silent deaths.
    Fail,
    /// Orderly goings, for good.
    Leave,
    /// Orderly goings, to come back.
    Stop,
    /// The dead and the stopped come back with their memory.
    Restart,
    /// Deaths of disks.
    Crash,
    /// Several neighbours die at once.
    Row,
    /// The ring is cut into parts, and healed.
    Partition,
    /// One way is cut, and healed.
    Cut,
    /// Stopped processes that go on.
    Pause,
    /// Nodes whose messages are late.
    Slow,
    /// Clocks that jump.
    Clock,
    /// The network gets better or worse.
    Network,
    /// Lookups, writes and reads.
    Work,
    /// Time to mend, until all is ideal.
    Rest,
}

const KINDS: [Kind; 15] = [
    Kind::Join,
    Kind::Fail,
    Kind::Leave,
    Kind::Stop,
    Kind::Restart,
    Kind::Crash,
    Kind::Row,
    Kind::Partition,
    Kind::Cut,
    Kind::Pause,
    Kind::Slow,
    Kind::Clock,
    Kind::Network,
    Kind::Work,
    Kind::Rest,
];

/// The script of a seed: a ring, some minutes in which things go wrong, and time to come to rest.
pub fn draw(config: CheckConfig, seed: u64) -> Script {
    let mut artist = Artist::new(config, seed);
    match config.kind {
        WorldKind::Any => artist.anything(),
        WorldKind::Steps => return steps::draw(config.nodes, seed),
        WorldKind::Partition => artist.parts(seed),
    }
    let number = |(at, step)| Line { number: at + 1, step };
    let steps = artist.steps.into_iter().enumerate().map(number).collect();
    Script { depth: artist.depth, is_timed: true, forwarding: draw_forwarding(seed), steps }
}

/// A third of all worlds hand their lookups on. The draw stands apart from all others, so that these are as
/// they were before there was a choice.
fn draw_forwarding(seed: u64) -> Forwarding {
    match mix(&[seed, 4]) % 3 {
        0 => Forwarding::Recursive,
        _ => Forwarding::Iterative,
    }
}

/// Draws one script, and knows what its nodes are doing as far as a script can tell.
struct Artist {
    config: CheckConfig,
    rng: Pcg64Mcg,
    depth: Option<u16>,
    kinds: Vec<Kind>,
    steps: Vec<Step>,
    /// Virtual milliseconds so far.
    elapsed: u64,
    running: BTreeSet<u64>,
    /// They ran once, and may come back with their memory.
    gone: BTreeSet<u64>,
    paused: BTreeSet<u64>,
    slow: BTreeMap<u64, u64>,
    is_cut: bool,
}

impl Artist {
    fn new(config: CheckConfig, seed: u64) -> Artist {
        let mut rng = Pcg64Mcg::seed_from_u64(mix(&[seed, 2]));
        let depths = [Some(2), Some(3), Some(4), Some(8), None];
        let depth = depths[rng.random_range(0..depths.len())];
        let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|_| rng.random()).collect();
        if kinds.iter().all(|kind| *kind == Kind::Rest) {
            kinds.push(Kind::Join);
        }
        Artist {
            config,
            rng,
            depth,
            kinds,
            steps: Vec::new(),
            elapsed: 0,
            running: BTreeSet::new(),
            gone: BTreeSet::new(),
            paused: BTreeSet::new(),
            slow: BTreeMap::new(),
            is_cut: false,
        }
    }

    fn anything(&mut self) {
        let count = 1 + self.below(self.config.nodes);
        self.begin(count);
        let end = self.config.minutes * 60_000;
        while self.elapsed < end {
            self.deed();
            let pause = self.below(120_000 / DEEDS_PER_MINUTE);
            self.wait(pause);
        }
        self.end();
    }

    fn parts(&mut self, seed: u64) {
        self.depth = None;
        self.kinds.clear();
        self.begin(self.config.nodes);
        self.writes(0..KEYS);
        self.wait(WRITE_MS);
        self.partition(2 + seed % 3);
        let minutes = self.config.minutes * 60_000;
        self.wait(minutes / 2);
        // Whoever writes a register now is the only one: no two parts write the same.
        self.writes(KEYS..2 * KEYS);
        self.wait(minutes - minutes / 2);
        self.steps.push(Step::Heal);
        self.steps.push(Step::UntilIdeal(MERGE_LIMIT_MS));
        self.wait(REPAIR_MS);
        self.steps.push(Step::Expect(Expectation::Data));
    }

    fn writes(&mut self, keys: Range<u64>) {
        for key in keys {
            let Some(node) = self.pick() else { return };
            self.steps.push(Step::Put { key, node });
        }
    }

    fn begin(&mut self, count: u64) {
        while self.running.len() < count as usize {
            let node = self.any_id();
            self.running.insert(node);
        }
        self.steps.push(Step::Ring(self.running.iter().copied().collect()));
        if self.kinds.contains(&Kind::Network) {
            self.network();
        }
    }

    /// Everything is let go well again.
    fn end(&mut self) {
        for node in std::mem::take(&mut self.paused) {
            self.steps.push(Step::Resume(node));
        }
        for (node, _) in std::mem::take(&mut self.slow) {
            self.steps.push(Step::Slow { node, by: 0 });
        }
        let calm = self.calm_network();
        self.steps.push(Step::Network(calm));
        self.steps.push(Step::Heal);
        self.steps.push(Step::UntilIdeal(REST_MS));
        self.steps.push(Step::Wait(REPAIR_MS));
        self.steps.push(Step::Expect(Expectation::Data));
    }

    fn deed(&mut self) {
        let kind = self.kinds[self.rng.random_range(0..self.kinds.len())];
        match kind {
            Kind::Join => self.join(),
            Kind::Fail => self.take(Step::Fail),
            Kind::Leave => self.take(Step::Leave),
            Kind::Stop => self.take(Step::Stop),
            Kind::Crash => self.take(Step::Crash),
            Kind::Row => self.row(),
            Kind::Restart => {
                if let Some(node) = self.pick_gone() {
                    self.gone.remove(&node);
                    self.running.insert(node);
                    self.steps.push(Step::Restart(node));
                }
            }
            Kind::Partition | Kind::Cut if self.is_cut => {
                self.is_cut = false;
                self.steps.push(Step::Heal);
            }
            Kind::Partition => {
                let parts = 2 + self.below(3);
                self.partition(parts);
            }
            Kind::Cut => self.cut(),
            Kind::Pause => self.pause(),
            Kind::Slow => self.slow(),
            Kind::Clock => {
                if let Some(node) = self.pick() {
                    let by = 1 << self.below(24);
                    self.steps.push(Step::Clock { node, by });
                }
            }
            Kind::Network => self.network(),
            Kind::Work => self.work(),
            Kind::Rest => {
                if !self.is_cut && self.paused.is_empty() && self.slow.is_empty() {
                    let calm = self.calm_network();
                    self.steps.push(Step::Network(calm));
                    self.steps.push(Step::UntilIdeal(REST_MS));
                }
            }
        }
    }

    fn join(&mut self) {
        let node = self.any_id();
        let is_full = self.running.len() as u64 >= self.config.nodes;
        let Some(via) = self.pick().filter(|via| *via != node && !is_full) else { return };
        if self.running.insert(node) {
            self.gone.remove(&node);
            self.steps.push(Step::Join { node, via });
        }
    }

    /// Takes a node away; never the last one that could let others in.
    fn take(&mut self, step: impl Fn(u64) -> Step) {
        if self.running.len() < 2 {
            return;
        }
        let Some(node) = self.pick() else { return };
        self.leaves(node);
        self.steps.push(step(node));
    }

    fn leaves(&mut self, node: u64) {
        self.running.remove(&node);
        self.paused.remove(&node);
        self.gone.insert(node);
    }

    /// Neighbours on the circle die at once.
    fn row(&mut self) {
        let most = self.running.len().saturating_sub(1).min(5);
        let Some(first) = self.pick() else { return };
        let count = 1 + self.below(most.max(1) as u64) as usize;
        let clockwise = self.running.range(first..).chain(self.running.range(..first));
        let row: Vec<u64> = clockwise.copied().take(count.min(most)).collect();
        for node in row {
            self.leaves(node);
            self.steps.push(Step::Fail(node));
        }
    }

    fn partition(&mut self, parts: u64) {
        let count = parts as usize;
        let mut groups: Vec<Vec<u64>> = vec![Vec::new(); count];
        let by_place = self.rng.random();
        let nodes: Vec<u64> = self.running.union(&self.gone).copied().collect();
        for (at, node) in nodes.iter().enumerate() {
            // Neighbours together, as when a cable is cut, or anyhow.
            let group = match by_place {
                true => at * count / nodes.len(),
                false => self.rng.random_range(0..count),
            };
            groups[group].push(*node);
        }
        groups.retain(|group| !group.is_empty());
        self.is_cut = true;
        self.steps.push(Step::Partition(groups));
    }

    fn cut(&mut self) {
        let (Some(from), Some(to)) = (self.pick(), self.pick()) else { return };
        if from != to {
            self.is_cut = true;
            self.steps.push(Step::Cut { from, to });
        }
    }

    fn pause(&mut self) {
        if let Some(node) = self.paused.pop_first() {
            self.steps.push(Step::Resume(node));
        } else if let Some(node) = self.pick() {
            self.paused.insert(node);
            self.steps.push(Step::Pause(node));
        }
    }

    fn slow(&mut self) {
        if let Some((node, _)) = self.slow.pop_first() {
            self.steps.push(Step::Slow { node, by: 0 });
        } else if let Some(node) = self.pick() {
            let by = 10 + self.below(2000);
            self.slow.insert(node, by);
            self.steps.push(Step::Slow { node, by });
        }
    }

    fn network(&mut self) {
        let millis = Duration::from_millis;
        let longest = 1 + self.below(300);
        let plan = FaultPlan {
            shortest_delay: millis(self.below(longest.min(20))),
            longest_delay: millis(longest),
            spread: if self.rng.random() { Spread::ByWay } else { Spread::Even },
            spikes_per_mille: self.below(20) as u32,
            loss_per_mille: self.below(60) as u32,
            twice_per_mille: self.below(60) as u32,
            disk_delay: millis(self.below(50)),
        };
        self.steps.push(Step::Network(plan));
    }

    /// A network that loses nothing. Its ways may be long: a ring has to become ideal on them, too.
    fn calm_network(&mut self) -> FaultPlan {
        let default = FaultPlan::default();
        if self.rng.random() {
            return default;
        }
        let longest = 1 + self.below(300);
        FaultPlan {
            shortest_delay: Duration::from_millis(self.below(longest)),
            longest_delay: Duration::from_millis(longest),
            spread: if self.rng.random() { Spread::ByWay } else { Spread::Even },
            ..default
        }
    }

    fn work(&mut self) {
        for _ in 0..1 + self.below(6) {
            let Some(node) = self.pick() else { return };
            let key = self.below(KEYS);
            let step = match self.below(4) {
                0 => Step::Look { key: self.any_id(), node },
                1 => Step::Get { key, node },
                _ => Step::Put { key, node },
            };
            self.steps.push(step);
        }
    }

    fn wait(&mut self, time: u64) {
        self.elapsed += time;
        self.steps.push(Step::Wait(time));
    }

    /// Any id: more than run at once, so that some are used again soon and some are new.
    fn any_id(&mut self) -> u64 {
        self.below(2 * self.config.nodes)
    }

    fn pick(&mut self) -> Option<u64> {
        let at = self.rng.random_range(0..self.running.len().max(1));
        self.running.iter().nth(at).copied()
    }

    fn pick_gone(&mut self) -> Option<u64> {
        let at = self.rng.random_range(0..self.gone.len().max(1));
        self.gone.iter().nth(at).copied()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.random_range(0..bound.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;

    #[test]
    fn what_is_drawn_makes_sense_and_every_kind_comes_up() {
        let config = CheckConfig { nodes: 16, minutes: 10, kind: WorldKind::Any };
        let texts: Vec<String> = (0..60).map(|seed| draw(config, seed).to_string()).collect();
        for text in &texts {
            let script = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(script.to_string(), *text);
        }
        let all = texts.concat();
        for word in [
            "forwarding",
            "join",
            "fail",
            "leave",
            "stop",
            "restart",
            "crash",
            "partition",
            "cut",
            "pause",
            "resume",
            "slow",
            "clock",
            "network",
            "look",
            "put",
            "get",
            "until ideal",
        ] {
            assert!(all.contains(&format!("\n{word} ")), "{word}");
        }
        assert_eq!(draw(config, 7), draw(config, 7));
        assert_ne!(draw(config, 7), draw(config, 8));
    }
}
