//! Reads scripts. A script that was read makes sense: every node it names is known and runs where
//! it has to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dht_core::Config;
use dht_core::message::Forwarding;

use crate::faults::{FaultPlan, Spread};

use super::{
    Expectation, Line, MAX_NODES, MAX_WAIT_MS, Script, ScriptError, ScriptErrorKind, Step,
};

/// Reads a script: one step per line, `#` starts a comment. Fails at the first line that makes no
/// sense, and says what was expected there.
pub fn parse(text: &str) -> Result<Script, ScriptError> {
    let mut reader = Reader::default();
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Lines end as they do on any system.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    for (at, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or("").replace('|', " | ").to_ascii_lowercase();
        let words: Vec<&str> = code.split_whitespace().collect();
        let number = at + 1;
        reader.line(number, &words).map_err(|kind| ScriptError { line: number, kind })?;
    }
    if reader.steps.is_empty() {
        return Err(ScriptError { line: 1, kind: ScriptErrorKind::NoStep });
    }
    let Reader { depth, is_timed, forwarding, steps, .. } = reader;
    Ok(Script { depth, is_timed, forwarding: forwarding.unwrap_or_default(), steps })
}

/// The form of a line.
const FORWARDING: &str = "forwarding iterative|recursive";

type Parsed<T> = Result<T, ScriptErrorKind>;

/// What is known after the lines so far.
#[derive(Default)]
struct Reader {
    depth: Option<u16>,
    is_timed: bool,
    forwarding: Option<Forwarding>,
    steps: Vec<Line>,
    /// Every node named so far, and whether it runs.
    nodes: BTreeMap<u64, bool>,
    begun: BTreeSet<u64>,
}

impl Reader {
    fn line(&mut self, number: usize, words: &[&str]) -> Parsed<()> {
        match words {
            [] => return Ok(()),
            ["depth", rest @ ..] => return self.depth(rest),
            ["timed"] => return self.timed(),
            ["forwarding", rest @ ..] => return self.forwarding(rest),
            _ => {}
        }
        let step = self.step(words)?;
        self.steps.push(Line { number, step });
        Ok(())
    }

    fn depth(&mut self, words: &[&str]) -> Parsed<()> {
        let [depth] = words else { return form("depth R") };
        if self.depth.is_some() || !self.steps.is_empty() {
            let rule = "`depth` stands in the first line, once";
            return Err(ScriptErrorKind::Misplaced { rule });
        }
        let depth = in_range(number(depth)?, 1, Config::MAX_DEPTH.into())?;
        self.depth = u16::try_from(depth).ok();
        Ok(())
    }

    fn timed(&mut self) -> Parsed<()> {
        if self.is_timed || !self.steps.is_empty() {
            let rule = "`timed` stands before the first step, once";
            return Err(ScriptErrorKind::Misplaced { rule });
        }
        self.is_timed = true;
        Ok(())
    }

    fn forwarding(&mut self, words: &[&str]) -> Parsed<()> {
        let named = |word: &&str| Forwarding::ALL.into_iter().find(|held| held.as_str() == *word);
        let [word] = words else { return form(FORWARDING) };
        let Some(forwarding) = named(word) else { return form(FORWARDING) };
        if self.forwarding.is_some() || !self.steps.is_empty() {
            let rule = "`forwarding` stands before the first step, once";
            return Err(ScriptErrorKind::Misplaced { rule });
        }
        self.forwarding = Some(forwarding);
        Ok(())
    }

    fn step(&mut self, words: &[&str]) -> Parsed<Step> {
        let (word, rest) = words.split_first().expect("empty lines are no steps");
        match (*word, rest) {
            ("ring", nodes) => self.ring(nodes),
            ("join", [node, "via", via]) => self.join(node, via),
            ("join", _) => form("join J via M"),
            ("stabilize", [node]) => Ok(Step::Stabilize(self.running(node)?)),
            ("stabilize", _) => form("stabilize N"),
            ("rectify", [node]) => Ok(Step::Rectify(self.running(node)?)),
            ("rectify", _) => form("rectify N"),
            ("notify", [node, "from", from]) => {
                Ok(Step::Notify { node: self.running(node)?, from: self.known(from)? })
            }
            ("notify", _) => form("notify N from C"),
            ("fail", [node]) => self.ends(node).map(Step::Fail),
            ("fail", _) => form("fail N"),
            ("leave", [node]) => self.ends(node).map(Step::Leave),
            ("leave", _) => form("leave N"),
            ("stop", [node]) => self.ends(node).map(Step::Stop),
            ("stop", _) => form("stop N"),
            ("crash", [node]) => self.ends(node).map(Step::Crash),
            ("crash", _) => form("crash N"),
            ("restart", [node]) => {
                let node = self.known(node)?;
                self.nodes.insert(node, true);
                Ok(Step::Restart(node))
            }
            ("restart", _) => form("restart N"),
            ("partition", groups) => self.partition(groups),
            ("heal", []) => Ok(Step::Heal),
            ("heal", _) => form("heal"),
            ("cut" | "pause" | "resume" | "slow" | "clock" | "network", rest) => {
                self.trouble(word, rest)
            }
            ("look" | "put" | "get", [key, "at", node]) => {
                let (key, node) = (number(key)?, self.running(node)?);
                Ok(match *word {
                    "look" => Step::Look { key, node },
                    "put" => Step::Put { key, node },
                    _ => Step::Get { key, node },
                })
            }
            ("look", _) => form("look K at N"),
            ("put", _) => form("put K at N"),
            ("get", _) => form("get K at N"),
            ("begin", step) => self.begin(step),
            ("finish", [node]) => self.finish(node),
            ("finish", _) => form("finish N"),
            ("wait", [time]) => Ok(Step::Wait(in_range(number(time)?, 0, MAX_WAIT_MS)?)),
            ("wait", _) => form("wait MS"),
            ("quiet", []) => Ok(Step::Quiet),
            ("quiet", _) => form("quiet"),
            ("until", ["ideal", time]) => {
                Ok(Step::UntilIdeal(in_range(number(time)?, 1, MAX_WAIT_MS)?))
            }
            ("until", _) => form("until ideal MS"),
            ("expect", what) => self.expect(what).map(Step::Expect),
            (word, _) => Err(ScriptErrorKind::UnknownStep { word: clip(word) }),
        }
    }

    /// What goes wrong.
    fn trouble(&self, word: &str, rest: &[&str]) -> Parsed<Step> {
        match (word, rest) {
            ("cut", [from, to]) => {
                let (from, to) = (self.known(from)?, self.known(to)?);
                match from == to {
                    true => Err(ScriptErrorKind::NamedTwice { node: from }),
                    false => Ok(Step::Cut { from, to }),
                }
            }
            ("cut", _) => form("cut A B"),
            ("pause", [node]) => Ok(Step::Pause(self.running(node)?)),
            ("pause", _) => form("pause N"),
            ("resume", [node]) => Ok(Step::Resume(self.known(node)?)),
            ("resume", _) => form("resume N"),
            ("slow", [node, by]) => {
                let by = in_range(number(by)?, 0, MAX_WAIT_MS)?;
                // To end it is no step of the node's own.
                let node = if by == 0 { self.known(node) } else { self.running(node) }?;
                Ok(Step::Slow { node, by })
            }
            ("slow", _) => form("slow N MS"),
            ("clock", [node, by]) => Ok(Step::Clock {
                node: self.running(node)?,
                by: in_range(number(by)?, 0, MAX_WAIT_MS)?,
            }),
            ("clock", _) => form("clock N MS"),
            (_, settings) => network(settings).map(Step::Network),
        }
    }

    fn ring(&mut self, words: &[&str]) -> Parsed<Step> {
        if !self.steps.is_empty() {
            let rule = "`ring` is the first step, once";
            return Err(ScriptErrorKind::Misplaced { rule });
        }
        if words.is_empty() {
            return form("ring N ..");
        }
        let nodes: Vec<u64> = words.iter().map(|word| number(word)).collect::<Parsed<_>>()?;
        for node in &nodes {
            if self.nodes.insert(*node, true).is_some() {
                return Err(ScriptErrorKind::NamedTwice { node: *node });
            }
        }
        self.check_count()?;
        Ok(Step::Ring(nodes))
    }

    fn join(&mut self, node: &str, via: &str) -> Parsed<Step> {
        let (node, via) = (number(node)?, self.known(via)?);
        if node == via {
            return Err(ScriptErrorKind::NamedTwice { node });
        }
        self.nodes.insert(node, true);
        self.check_count()?;
        Ok(Step::Join { node, via })
    }

    fn partition(&mut self, words: &[&str]) -> Parsed<Step> {
        let mut groups = Vec::new();
        let mut named = BTreeSet::new();
        for group in words.split(|word| *word == "|") {
            let group: Vec<u64> =
                group.iter().map(|word| self.known(word)).collect::<Parsed<_>>()?;
            if group.is_empty() {
                return form("partition A .. | B .. | ..");
            }
            if let Some(node) = group.iter().find(|node| !named.insert(**node)) {
                return Err(ScriptErrorKind::NamedTwice { node: *node });
            }
            groups.push(group);
        }
        Ok(Step::Partition(groups))
    }

    fn begin(&mut self, words: &[&str]) -> Parsed<Step> {
        const FORM: &str = "begin STEP` with a `join`, `stabilize`, `rectify`, `notify` or `leave";
        if !matches!(words.first(), Some(&("join" | "stabilize" | "rectify" | "notify" | "leave")))
        {
            return form(FORM);
        }
        let step = self.step(words)?;
        let (Step::Join { node, .. }
        | Step::Stabilize(node)
        | Step::Rectify(node)
        | Step::Notify { node, .. }
        | Step::Leave(node)) = step
        else {
            return form(FORM);
        };
        if !self.begun.insert(node) {
            return Err(ScriptErrorKind::NotBegun { node, has_begun: true });
        }
        Ok(Step::Begin { node, step: Box::new(step) })
    }

    fn finish(&mut self, word: &str) -> Parsed<Step> {
        let node = self.known(word)?;
        if !self.begun.remove(&node) {
            return Err(ScriptErrorKind::NotBegun { node, has_begun: false });
        }
        Ok(Step::Finish(node))
    }

    fn expect(&mut self, words: &[&str]) -> Parsed<Expectation> {
        match words {
            ["ring", nodes @ ..] if !nodes.is_empty() => {
                let mut nodes: Vec<u64> =
                    nodes.iter().map(|word| self.known(word)).collect::<Parsed<_>>()?;
                nodes.sort_unstable();
                if let Some(pair) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(ScriptErrorKind::NamedTwice { node: pair[0] });
                }
                Ok(Expectation::Ring(nodes))
            }
            ["alone", node] => Ok(Expectation::Alone(self.known(node)?)),
            ["isolated", node] => Ok(Expectation::Isolated(self.known(node)?)),
            ["owner", key, node] => {
                Ok(Expectation::Owner { key: number(key)?, node: self.known(node)? })
            }
            ["data"] => Ok(Expectation::Data),
            ["ring", ..] => form("expect ring N .."),
            ["alone", ..] => form("expect alone N"),
            ["isolated", ..] => form("expect isolated N"),
            ["owner", ..] => form("expect owner K N"),
            _ => form("expect ring .., alone .., isolated .., owner .. or data"),
        }
    }

    /// A node that runs so far and does not from now on.
    fn ends(&mut self, word: &str) -> Parsed<u64> {
        let node = self.running(word)?;
        self.nodes.insert(node, false);
        Ok(node)
    }

    fn running(&self, word: &str) -> Parsed<u64> {
        let node = self.known(word)?;
        match self.nodes.get(&node) {
            Some(true) => Ok(node),
            _ => Err(ScriptErrorKind::NotRunning { node }),
        }
    }

    fn known(&self, word: &str) -> Parsed<u64> {
        let node = number(word)?;
        match self.nodes.contains_key(&node) {
            true => Ok(node),
            false => Err(ScriptErrorKind::UnknownNode { node }),
        }
    }

    fn check_count(&self) -> Parsed<()> {
        match self.nodes.len() > MAX_NODES {
            true => Err(ScriptErrorKind::TooManyNodes { limit: MAX_NODES }),
            false => Ok(()),
        }
    }
}

/// What the network is like: settings in any order, those that are not named as on a quiet one.
fn network(settings: &[&str]) -> Parsed<FaultPlan> {
    const FORM: &str = "network delay=MS..MS by-way loss=N twice=N spikes=N disk=MS";
    let mut plan = FaultPlan::default();
    let millis = |word| in_range(number(word)?, 0, MAX_WAIT_MS).map(Duration::from_millis);
    let per_mille = |word| in_range(number(word)?, 0, 1000).map(|n| n as u32);
    for setting in settings {
        match setting.split_once('=') {
            None if *setting == "by-way" => plan.spread = Spread::ByWay,
            Some(("delay", range)) => {
                let Some((low, high)) = range.split_once("..") else { return form(FORM) };
                (plan.shortest_delay, plan.longest_delay) = (millis(low)?, millis(high)?);
                if plan.shortest_delay > plan.longest_delay {
                    return form(FORM);
                }
            }
            Some(("loss", word)) => plan.loss_per_mille = per_mille(word)?,
            Some(("twice", word)) => plan.twice_per_mille = per_mille(word)?,
            Some(("spikes", word)) => plan.spikes_per_mille = per_mille(word)?,
            Some(("disk", word)) => plan.disk_delay = millis(word)?,
            _ => return form(FORM),
        }
    }
    Ok(plan)
}

fn number(word: &str) -> Parsed<u64> {
    word.parse().map_err(|_| ScriptErrorKind::NoNumber { word: clip(word) })
}

fn in_range(value: u64, low: u64, high: u64) -> Parsed<u64> {
    match (low..=high).contains(&value) {
        true => Ok(value),
        false => Err(ScriptErrorKind::OutOfRange { value, low, high }),
    }
}

fn form<T>(expected: &'static str) -> Parsed<T> {
    Err(ScriptErrorKind::Form { expected })
}

/// A word as a complaint repeats it: a long one is cut.
fn clip(word: &str) -> String {
    match word.char_indices().nth(ECHOED) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_owned(),
    }
}

/// Most characters of a word that a complaint repeats (guess: a line of a terminal).
const ECHOED: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_on_any_system() {
        let wanted = parse("depth 2\nring 0 2\n\nquiet\n").expect("three steps");
        for text in ["depth 2\r\nring 0 2\r\n\r\nquiet\r\n", "depth 2\rring 0 2\r\rquiet"] {
            assert_eq!(parse(text), Ok(wanted.clone()), "{text:?}");
        }
    }

    #[test]
    fn every_step_of_the_contract_is_read() {
        let text = "depth 2 # the first line\n\nring 0 2 4\n  join 1 via 0\nstabilize 1\nrectify 2\n\
            notify 4 from 2\nfail 4\nleave 2\nrestart 4\npartition 0 1|4 | 2\nheal\n\
            begin stabilize 0\nfinish 0\nwait 250\nquiet\nexpect ring 4 0 1\nexpect alone 0\n\
            expect isolated 1\nEXPECT owner 7 0\n";
        let script = parse(text).expect("all of it");
        assert_eq!(script.depth, Some(2));
        let steps: Vec<Step> = script.steps.iter().map(|line| line.step.clone()).collect();
        let begun = Step::Begin { node: 0, step: Box::new(Step::Stabilize(0)) };
        let expected = [
            Step::Ring(vec![0, 2, 4]),
            Step::Join { node: 1, via: 0 },
            Step::Stabilize(1),
            Step::Rectify(2),
            Step::Notify { node: 4, from: 2 },
            Step::Fail(4),
            Step::Leave(2),
            Step::Restart(4),
            Step::Partition(vec![vec![0, 1], vec![4], vec![2]]),
            Step::Heal,
            begun,
            Step::Finish(0),
            Step::Wait(250),
            Step::Quiet,
            Step::Expect(Expectation::Ring(vec![0, 1, 4])),
            Step::Expect(Expectation::Alone(0)),
            Step::Expect(Expectation::Isolated(1)),
            Step::Expect(Expectation::Owner { key: 7, node: 0 }),
        ];
        assert_eq!(steps, expected);
        assert_eq!((script.steps[0].number, script.steps[17].number), (3, 20));
    }

    #[test]
    fn a_byte_order_mark_is_no_step() {
        assert_eq!(parse("\u{feff}ring 0").expect("a step").steps.len(), 1);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named_with_what_was_expected() {
        let complaint = |text: &str| parse(text).expect_err(text).to_string();
        let table = [
            ("", "line 1: nothing to play: `ring 0 2 4` would be a first step"),
            (
                "# only words\n\ndepth 2",
                "line 1: nothing to play: `ring 0 2 4` would be a first step",
            ),
            ("until 5", "line 1: expected `until ideal MS`"),
            ("depth 0", "line 1: 0 must lie between 1 and 128"),
            ("ring 0\ndepth 2", "line 2: `depth` stands in the first line, once"),
            ("ring", "line 1: expected `ring N ..`"),
            ("ring 0 0", "line 1: node 0 is named twice"),
            ("ring 0\nring 1", "line 2: `ring` is the first step, once"),
            ("ring 0 x", "line 1: 'x' is no number"),
            ("ring 0 -1", "line 1: '-1' is no number"),
            ("forwarding fast\nring 0", "line 1: expected `forwarding iterative|recursive`"),
            (
                "ring 0\nforwarding recursive",
                "line 2: `forwarding` stands before the first step, once",
            ),
            ("ring 0\n\njoin 1 0", "line 3: expected `join J via M`"),
            ("join 1 via 0", "line 1: node 0 is not known: `ring` or `join` names it first"),
            ("ring 0\njoin 0 via 0", "line 2: node 0 is named twice"),
            (
                "ring 0 1\nfail 1\nfail 1",
                "line 3: node 1 does not run: `join` or `restart` it first",
            ),
            ("ring 0\nstabilize 7", "line 2: node 7 is not known: `ring` or `join` names it first"),
            ("ring 0\nstabilize 0 1", "line 2: expected `stabilize N`"),
            ("ring 0 1\npartition 0 | ", "line 2: expected `partition A .. | B .. | ..`"),
            ("ring 0 1\npartition 0 | 0", "line 2: node 0 is named twice"),
            ("ring 0\nfinish 0", "line 2: no step of node 0 has begun"),
            (
                "ring 0\nbegin stabilize 0\nbegin stabilize 0",
                "line 3: a step of node 0 has begun already: `finish 0` first",
            ),
            (
                "ring 0\nbegin fail 0",
                "line 2: expected `begin STEP` with a `join`, `stabilize`, `rectify`, `notify` or \
                 `leave`",
            ),
            ("ring 0\nwait 86400001", "line 2: 86400001 must lie between 0 and 86400000"),
            ("ring 0\nexpect ring", "line 2: expected `expect ring N ..`"),
            (
                "ring 0\nexpect",
                "line 2: expected `expect ring .., alone .., isolated .., owner .. or data`",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(complaint(text), expected);
        }
    }

    #[test]
    fn who_does_not_run_does_nothing() {
        let after = |line: &str| parse(&format!("ring 0 1\nfail 1\n{line}"));
        for line in ["look 5 at 1", "put 5 at 1", "get 5 at 1", "pause 1", "slow 1 5", "clock 1 5"]
        {
            let said = after(line).expect_err(line).to_string();
            assert_eq!(said, "line 3: node 1 does not run: `join` or `restart` it first");
        }
        for line in ["slow 1 0", "resume 1", "cut 0 1", "partition 0 | 1", "expect owner 5 1"] {
            assert!(after(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_complaint_repeats_no_more_than_a_line() {
        for text in ["x".repeat(5000), format!("ring {}", "y".repeat(5000)), "я".repeat(5000)] {
            let said = parse(&text).expect_err("no step").to_string();
            assert!(said.chars().count() < 320 && said.contains("...'"), "{said}");
        }
    }

    #[test]
    fn comments_and_blank_lines_are_nothing() {
        let script = parse("# only words\n\n   \nring 0\n\t# more\n").expect("one step");
        let ring = Line { number: 4, step: Step::Ring(vec![0]) };
        assert_eq!(
            script,
            Script {
                depth: None,
                is_timed: false,
                forwarding: Forwarding::Iterative,
                steps: vec![ring],
            }
        );
    }

    #[test]
    fn the_number_of_nodes_is_bounded() {
        let ring = |count: usize| {
            let nodes: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            parse(&format!("ring {}", nodes.join(" ")))
        };
        assert!(ring(MAX_NODES).is_ok());
        let error = ring(MAX_NODES + 1).expect_err("one too many");
        assert_eq!(error.kind, ScriptErrorKind::TooManyNodes { limit: MAX_NODES });
    }
}
