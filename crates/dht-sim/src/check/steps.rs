//! Draws scripts in which time stands still: steps in any order, as long as each makes sense where it
//! stands, with cuts and late replies. Small rings, since it is the order of steps that matters.

use std::collections::BTreeSet;

use dht_core::message::Forwarding;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::member::mix;
use crate::script::{Line, Script, Step};

/// Most nodes of the first ring, and most steps (guess: the scenarios that break naive Chord have
/// up to four nodes and a dozen steps).
const MAX_RING: u64 = 5;
const MAX_STEPS: usize = 14;
/// Longest pause between two steps: a few periods.
const MAX_PAUSE_MS: u64 = 3000;

/// The script of a seed; it ends healed and quiet. Ids are below `ids`.
pub(super) fn draw(ids: u64, seed: u64) -> Script {
    let mut drawn = Drawn::new(ids, seed);
    let depth = drawn.rng.random_range(1..=4);
    drawn.ring();
    for _ in 0..drawn.rng.random_range(1..=MAX_STEPS) {
        let step = drawn.step();
        drawn.steps.push(step);
    }
    let begun = std::mem::take(&mut drawn.begun);
    drawn.steps.extend(begun.into_iter().map(Step::Finish));
    drawn.steps.extend([Step::Heal, Step::Quiet]);
    let number = |(at, step)| Line { number: at + 1, step };
    let steps = drawn.steps.into_iter().enumerate().map(number).collect();
    Script { depth: Some(depth), is_timed: false, forwarding: Forwarding::Iterative, steps }
}

struct Drawn {
    rng: Pcg64Mcg,
    ids: u64,
    steps: Vec<Step>,
    live: BTreeSet<u64>,
    known: BTreeSet<u64>,
    begun: BTreeSet<u64>,
}

impl Drawn {
    fn new(ids: u64, seed: u64) -> Drawn {
        Drawn {
            rng: Pcg64Mcg::seed_from_u64(mix(&[seed, 3])),
            ids,
            steps: Vec::new(),
            live: BTreeSet::new(),
            known: BTreeSet::new(),
            begun: BTreeSet::new(),
        }
    }

    fn ring(&mut self) {
        for _ in 0..self.rng.random_range(1..=MAX_RING) {
            let node = self.rng.random_range(0..self.ids);
            self.live.insert(node);
        }
        self.known = self.live.clone();
        self.steps.push(Step::Ring(self.live.iter().copied().collect()));
    }

    fn step(&mut self) -> Step {
        let new = self.rng.random_range(0..self.ids);
        let kind = self.rng.random_range(0..24);
        let Some(one) = pick(&mut self.rng, &self.live) else { return self.pause() };
        let other = pick(&mut self.rng, &self.live).unwrap_or(one);
        match kind {
            0..5 if one != new && !self.live.contains(&new) => {
                self.live.insert(new);
                self.known.insert(new);
                Step::Join { node: new, via: one }
            }
            5..11 => Step::Stabilize(one),
            11 => Step::Rectify(one),
            12 => Step::Notify { node: one, from: other },
            13..16 if self.live.len() > 1 => {
                self.live.remove(&one);
                if kind == 15 { Step::Leave(one) } else { Step::Fail(one) }
            }
            16 => {
                let node = pick(&mut self.rng, &self.known).unwrap_or(one);
                self.live.insert(node);
                Step::Restart(node)
            }
            18..20 => self.partition(),
            20 => Step::Heal,
            21..23 if self.begun.insert(one) => {
                Step::Begin { node: one, step: Box::new(Step::Stabilize(one)) }
            }
            23 => match pick(&mut self.rng, &self.begun) {
                Some(node) => {
                    self.begun.remove(&node);
                    Step::Finish(node)
                }
                None => self.pause(),
            },
            _ => self.pause(),
        }
    }

    fn partition(&mut self) -> Step {
        let side: Vec<u64> = self.known.iter().copied().filter(|_| self.rng.random()).collect();
        if side.is_empty() { Step::Heal } else { Step::Partition(vec![side]) }
    }

    fn pause(&mut self) -> Step {
        Step::Wait(self.rng.random_range(0..MAX_PAUSE_MS))
    }
}

fn pick(rng: &mut Pcg64Mcg, from: &BTreeSet<u64>) -> Option<u64> {
    let at = rng.random_range(0..from.len().max(1));
    from.iter().nth(at).copied()
}
