//! Cuts a script down to what it needs to fail.

use std::collections::BTreeSet;

use crate::script::{Line, Outcome, Play, Script, Step, parse, play};

/// A script that fails, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrunk {
    /// As short as it got.
    pub script: Script,
    /// How it ends.
    pub outcome: Outcome,
    /// How many scripts were played.
    pub played: u32,
}

/// Cuts a failing script down as long as it fails in the same way, within so many plays. Lines are
/// taken out by halves, quarters and so on, down to single ones (Zeller and Hildebrandt,
/// "Simplifying and isolating failure-inducing input", TSE 2002), then nodes out of the ring, and
/// times are made shorter. `progress` is told how long the script is whenever it got shorter.
pub fn shrink(
    script: &Script,
    seed: u64,
    max_plays: u32,
    mut progress: impl FnMut(usize),
) -> Option<Shrunk> {
    let (outcome, _) = play(script, Play { seed, lines: 0, planted: None });
    let kind = outcome.problems.first()?.kind;
    let mut search = Search {
        seed,
        kind,
        best: script.clone(),
        outcome,
        played: 1,
        max_plays,
        asked_too_much: asks_too_much(script),
    };
    search.cut_tail();
    loop {
        let before = search.best.clone();
        search.without_lines(&mut progress);
        search.without_ring_nodes(&mut progress);
        search.with_shorter_times(&mut progress);
        if search.best == before || search.is_over() {
            break;
        }
    }
    let Search { best, outcome, played, .. } = search;
    Some(Shrunk { script: best, outcome, played })
}

struct Search {
    seed: u64,
    /// The property that the script breaks.
    kind: &'static str,
    best: Script,
    outcome: Outcome,
    played: u32,
    max_plays: u32,
    /// Whether the whole script did.
    asked_too_much: bool,
}

impl Search {
    fn is_over(&self) -> bool {
        self.played >= self.max_plays
    }

    /// Whether this script makes sense and fails in the same way; then it is the best one.
    fn try_steps(&mut self, steps: Vec<Step>) -> bool {
        if self.is_over() {
            return false;
        }
        let lines = steps.into_iter().map(|step| Line { number: 0, step }).collect();
        let candidate = Script { steps: lines, ..self.best };
        let Ok(script) = parse(&candidate.to_string()) else { return false };
        if asks_too_much(&script) && !self.asked_too_much {
            return false;
        }
        self.played += 1;
        let (outcome, _) = play(&script, Play { seed: self.seed, lines: 0, planted: None });
        if outcome.problems.first().is_none_or(|problem| problem.kind != self.kind) {
            return false;
        }
        (self.best, self.outcome) = (script, outcome);
        self.cut_tail();
        true
    }

    /// Nothing after the step that failed matters.
    fn cut_tail(&mut self) {
        let last = self.outcome.step;
        self.best.steps.retain(|line| line.number <= last);
    }

    fn steps(&self) -> Vec<Step> {
        self.best.steps.iter().map(|line| line.step.clone()).collect()
    }

    fn without_lines(&mut self, progress: &mut impl FnMut(usize)) {
        let mut size = self.best.steps.len().div_ceil(2);
        while size > 0 && !self.is_over() {
            // From the end: what comes late depends on what came before.
            let mut end = self.best.steps.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut steps = self.steps();
                steps.drain(start..end.min(steps.len()));
                if self.try_steps(steps) {
                    progress(self.best.steps.len());
                }
                end = start.min(self.best.steps.len());
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    fn without_ring_nodes(&mut self, progress: &mut impl FnMut(usize)) {
        let Some(Step::Ring(nodes)) = self.steps().first().cloned() else { return };
        for node in nodes {
            let steps: Vec<Step> =
                self.steps().into_iter().filter_map(|step| without(step, node)).collect();
            if self.try_steps(steps) {
                progress(self.best.steps.len());
            }
        }
    }

    fn with_shorter_times(&mut self, progress: &mut impl FnMut(usize)) {
        for at in 0..self.best.steps.len() {
            while let Some(Step::Wait(time)) = self.steps().get(at).cloned() {
                let mut steps = self.steps();
                steps[at] = Step::Wait(time / 2);
                if time < 2 || !self.try_steps(steps) {
                    break;
                }
                progress(self.best.steps.len());
            }
        }
    }
}

/// Whether an ideal ring is expected while a node is slow or messages get lost: the steps that would let all go
/// well again are the first that look as if they could be done without.
fn asks_too_much(script: &Script) -> bool {
    let (mut slow, mut is_lossy) = (BTreeSet::new(), false);
    script.steps.iter().any(|line| {
        match &line.step {
            Step::Slow { node, by: 0 } => _ = slow.remove(node),
            Step::Slow { node, .. } => _ = slow.insert(*node),
            Step::Network(plan) => is_lossy = plan.loss_per_mille > 0,
            _ => {}
        }
        matches!(line.step, Step::UntilIdeal(_)) && (is_lossy || !slow.is_empty())
    })
}

/// A step in a world where a node never was.
fn without(step: Step, node: u64) -> Option<Step> {
    match step {
        Step::Ring(mut nodes) => {
            nodes.retain(|held| *held != node);
            (!nodes.is_empty()).then_some(Step::Ring(nodes))
        }
        Step::Partition(mut groups) => {
            groups.iter_mut().for_each(|group| group.retain(|held| *held != node));
            groups.retain(|group| !group.is_empty());
            (!groups.is_empty()).then_some(Step::Partition(groups))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_cut_away() {
        let text = "timed\nring 0 5 10 20 30\njoin 7 via 0\nwait 3000\nfail 5\nwait 4000\n\
            put 1 at 0\nleave 10\nwait 5000\nexpect alone 30\nwait 10\n";
        let script = parse(text).expect("all of it");
        let mut lengths = Vec::new();
        let shrunk = shrink(&script, 1, 500, |length| lengths.push(length)).expect("it fails");
        // A second node is what it takes not to be alone.
        let [Step::Ring(nodes), Step::Expect(_)] =
            &shrunk.script.steps.iter().map(|line| line.step.clone()).collect::<Vec<_>>()[..]
        else {
            panic!("{}", shrunk.script)
        };
        assert_eq!(nodes.len(), 2, "{}", shrunk.script);
        assert!(!shrunk.outcome.ok && shrunk.played < 500 && !lengths.is_empty());
        let fine = parse("timed\nring 0 5\nexpect ring 0 5\n").expect("all of it");
        assert_eq!(shrink(&fine, 1, 10, |_| {}), None);
    }

    #[test]
    fn what_lets_all_go_well_again_stays() {
        // One millisecond is too short to be ideal again after the death, slow or not.
        let text = "timed\nring 0 5 10\nslow 5 20000\nnetwork delay=1..2 loss=500\nfail 10\n\
            slow 5 0\nnetwork delay=1..2\nuntil ideal 1\n";
        let script = parse(text).expect("all of it");
        let shrunk = shrink(&script, 1, 200, |_| {}).expect("it fails");
        assert!(!asks_too_much(&shrunk.script), "{}", shrunk.script);
        let without = |word: &str| -> String {
            let kept = text.split_inclusive('\n').filter(|line| !line.starts_with(word));
            kept.collect()
        };
        for word in ["slow 5 0", "network delay=1..2\n"] {
            let cut = parse(&without(word)).expect("makes sense");
            assert!(asks_too_much(&cut) && !asks_too_much(&script), "{cut}");
        }
    }
}
