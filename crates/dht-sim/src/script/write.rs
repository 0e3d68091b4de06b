//! Writes scripts down as [`super::parse`] reads them.

use std::fmt;

use dht_core::message::Forwarding;
use dht_core::time::micros;

use super::{Expectation, Script, Step};
use crate::faults::{FaultPlan, Spread};

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(depth) = self.depth {
            writeln!(f, "depth {depth}")?;
        }
        if self.is_timed {
            writeln!(f, "timed")?;
        }
        if self.forwarding != Forwarding::default() {
            writeln!(f, "forwarding {}", self.forwarding.as_str())?;
        }
        self.steps.iter().try_for_each(|line| writeln!(f, "{}", line.step))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Ring(nodes) => write!(f, "ring {}", words(nodes)),
            Step::Join { node, via } => write!(f, "join {node} via {via}"),
            Step::Stabilize(node) => write!(f, "stabilize {node}"),
            Step::Rectify(node) => write!(f, "rectify {node}"),
            Step::Notify { node, from } => write!(f, "notify {node} from {from}"),
            Step::Fail(node) => write!(f, "fail {node}"),
            Step::Leave(node) => write!(f, "leave {node}"),
            Step::Stop(node) => write!(f, "stop {node}"),
            Step::Crash(node) => write!(f, "crash {node}"),
            Step::Restart(node) => write!(f, "restart {node}"),
            Step::Partition(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| words(group)).collect();
                write!(f, "partition {}", groups.join(" | "))
            }
            Step::Heal => write!(f, "heal"),
            Step::Cut { from, to } => write!(f, "cut {from} {to}"),
            Step::Network(plan) => network(f, plan),
            Step::Pause(node) => write!(f, "pause {node}"),
            Step::Resume(node) => write!(f, "resume {node}"),
            Step::Slow { node, by } => write!(f, "slow {node} {by}"),
            Step::Clock { node, by } => write!(f, "clock {node} {by}"),
            Step::Look { key, node } => write!(f, "look {key} at {node}"),
            Step::Put { key, node } => write!(f, "put {key} at {node}"),
            Step::Get { key, node } => write!(f, "get {key} at {node}"),
            Step::Begin { step, .. } => write!(f, "begin {step}"),
            Step::Finish(node) => write!(f, "finish {node}"),
            Step::Wait(time) => write!(f, "wait {time}"),
            Step::Quiet => write!(f, "quiet"),
            Step::UntilIdeal(time) => write!(f, "until ideal {time}"),
            Step::Expect(expectation) => write!(f, "expect {expectation}"),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::Ring(nodes) => write!(f, "ring {}", words(nodes)),
            Expectation::Alone(node) => write!(f, "alone {node}"),
            Expectation::Isolated(node) => write!(f, "isolated {node}"),
            Expectation::Owner { key, node } => write!(f, "owner {key} {node}"),
            Expectation::Data => write!(f, "data"),
        }
    }
}

fn words(nodes: &[u64]) -> String {
    nodes.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn network(f: &mut fmt::Formatter<'_>, plan: &FaultPlan) -> fmt::Result {
    let millis = |span| micros(span) / 1000;
    write!(f, "network delay={}..{}", millis(plan.shortest_delay), millis(plan.longest_delay))?;
    if plan.spread == Spread::ByWay {
        write!(f, " by-way")?;
    }
    let shares = [
        ("loss", plan.loss_per_mille),
        ("twice", plan.twice_per_mille),
        ("spikes", plan.spikes_per_mille),
    ];
    for (name, share) in shares.iter().filter(|(_, share)| *share > 0) {
        write!(f, " {name}={share}")?;
    }
    write!(f, " disk={}", millis(plan.disk_delay))
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "depth 2\ntimed\nforwarding recursive\nring 0 2 4\njoin 1 via 0\nstabilize 1\nrectify 2\n\
            notify 4 from 2\nfail 4\nleave 2\nstop 1\nrestart 4\ncrash 4\nrestart 1\n\
            partition 0 1 | 4 | 2\nheal\ncut 0 1\n\
            network delay=1..50 by-way loss=20 twice=5 spikes=1 disk=2\npause 0\nresume 0\n\
            slow 0 500\nclock 0 60000\nlook 7 at 0\nput 3 at 0\nget 3 at 1\n\
            begin stabilize 0\nfinish 0\nwait 250\nquiet\nuntil ideal 120000\nexpect ring 0 1\n\
            expect alone 0\nexpect isolated 1\nexpect owner 7 0\nexpect data\n";
        let script = parse(text).expect("all of it");
        assert_eq!(script.to_string(), text);
        assert_eq!(parse(&script.to_string()).as_ref(), Ok(&script));
    }
}
