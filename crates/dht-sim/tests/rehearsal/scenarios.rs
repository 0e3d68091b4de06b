//! The scenarios that break naive Chord (`docs/simulation.md`, "Scenarios"), as files that people
//! can play too, and others of the same kind made from them.

use std::path::{Path, PathBuf};

use dht_sim::script::{Expectation, Line, Outcome, Script, Step, parse, run};

/// How many scenario files there are at least: a folder that is not found must not pass as empty.
const AT_LEAST: usize = 34;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = std::fs::read_dir(&folder).expect("the folder of the scenarios");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "script"));
    files.sort();
    assert!(files.len() >= AT_LEAST, "{} scenarios in {}", files.len(), folder.display());
    files
}

/// The scenario of this name and its parts (`s12a`, `s12b`), with their names.
fn scenarios(wanted: &str) -> Vec<(String, Script)> {
    let mut found = Vec::new();
    for path in files() {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let part = name.strip_prefix(wanted);
        if part.is_some_and(|part| part.chars().all(char::is_alphabetic)) {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            found.push((
                name.clone(),
                parse(&text).unwrap_or_else(|error| panic!("{name}: {error}")),
            ));
        }
    }
    assert!(!found.is_empty(), "no scenario {wanted}");
    found
}

fn expect_ok(name: &str, outcome: &Outcome) {
    assert!(outcome.ok, "{name} fails at line {}: {:#?}", outcome.step, outcome.problems);
}

/// Plays a scenario as it is written, then under other chance, other names and other depths.
fn holds(wanted: &str) {
    for (name, script) in scenarios(wanted) {
        expect_ok(&name, &run(&script, 1));
        for seed in 2..6 {
            expect_ok(&format!("{name}, seed {seed}"), &run(&script, seed));
        }
        for turn in [1, 17, 35] {
            let turned = renamed(&script, turn);
            expect_ok(&format!("{name}, turned by {turn}"), &run(&turned, turn));
        }
        for depth in [2, 3, 4] {
            let other = at_depth(&script, depth);
            expect_ok(&format!("{name}, depth {depth}"), &run(&other, 1));
        }
    }
}

/// The same scenario elsewhere on the circle: every point moves on, and those that pass the end
/// come in again at the start, so the order round the circle stays.
fn renamed(script: &Script, turn: u64) -> Script {
    let greatest = script.steps.iter().flat_map(|line| points(&line.step)).max().unwrap_or(0);
    let circle = 10 * (greatest + 1);
    let rename = |point: u64| (10 * point + turn * circle / 40) % circle;
    let steps = script
        .steps
        .iter()
        .map(|line| Line { number: line.number, step: map(&line.step, &rename) });
    Script { steps: steps.collect(), ..*script }
}

/// The same scenario with longer lists. Who is isolated depends on their length.
fn at_depth(script: &Script, depth: u16) -> Script {
    let keeps = |line: &&Line| {
        script.depth == Some(depth) || !matches!(line.step, Step::Expect(Expectation::Isolated(_)))
    };
    let steps = script.steps.iter().filter(keeps).cloned().collect();
    Script { depth: Some(depth), steps, ..*script }
}

fn points(step: &Step) -> Vec<u64> {
    let found = std::cell::RefCell::new(Vec::new());
    map(step, &|point| {
        found.borrow_mut().push(point);
        point
    });
    found.into_inner()
}

fn map(step: &Step, rename: &impl Fn(u64) -> u64) -> Step {
    let all = |nodes: &[u64]| nodes.iter().map(|node| rename(*node)).collect::<Vec<u64>>();
    match step {
        Step::Ring(nodes) => Step::Ring(all(nodes)),
        Step::Join { node, via } => Step::Join { node: rename(*node), via: rename(*via) },
        Step::Stabilize(node) => Step::Stabilize(rename(*node)),
        Step::Rectify(node) => Step::Rectify(rename(*node)),
        Step::Notify { node, from } => Step::Notify { node: rename(*node), from: rename(*from) },
        Step::Fail(node) => Step::Fail(rename(*node)),
        Step::Leave(node) => Step::Leave(rename(*node)),
        Step::Restart(node) => Step::Restart(rename(*node)),
        Step::Partition(groups) => Step::Partition(groups.iter().map(|group| all(group)).collect()),
        Step::Begin { node, step } => {
            Step::Begin { node: rename(*node), step: Box::new(map(step, rename)) }
        }
        Step::Finish(node) => Step::Finish(rename(*node)),
        Step::Expect(Expectation::Ring(nodes)) => {
            let mut nodes = all(nodes);
            nodes.sort_unstable();
            Step::Expect(Expectation::Ring(nodes))
        }
        Step::Expect(Expectation::Alone(node)) => Step::Expect(Expectation::Alone(rename(*node))),
        Step::Expect(Expectation::Isolated(node)) => {
            Step::Expect(Expectation::Isolated(rename(*node)))
        }
        Step::Expect(Expectation::Owner { key, node }) => {
            Step::Expect(Expectation::Owner { key: rename(*key), node: rename(*node) })
        }
        Step::Stop(node) => Step::Stop(rename(*node)),
        Step::Crash(node) => Step::Crash(rename(*node)),
        Step::Cut { from, to } => Step::Cut { from: rename(*from), to: rename(*to) },
        Step::Pause(node) => Step::Pause(rename(*node)),
        Step::Resume(node) => Step::Resume(rename(*node)),
        Step::Slow { node, by } => Step::Slow { node: rename(*node), by: *by },
        Step::Clock { node, by } => Step::Clock { node: rename(*node), by: *by },
        Step::Look { key, node } => Step::Look { key: rename(*key), node: rename(*node) },
        Step::Put { key, node } => Step::Put { key: *key, node: rename(*node) },
        Step::Get { key, node } => Step::Get { key: *key, node: rename(*node) },
        Step::Heal
        | Step::Network(_)
        | Step::Wait(_)
        | Step::Quiet
        | Step::UntilIdeal(_)
        | Step::Expect(Expectation::Data) => step.clone(),
    }
}

macro_rules! scenario_tests {
    ($($name:ident: $prefix:literal,)*) => {
        $(#[test]
        fn $name() {
            holds($prefix);
        })*
    };
}

scenario_tests! {
    s1_the_second_node_dies: "s1",
    s2_a_dead_predecessor_is_handed_out: "s2",
    s3_one_of_two_joiners_dies: "s3",
    s4_a_joiner_and_its_second_successor_die: "s4",
    s5_two_joiners_die: "s5",
    s7_below_r_plus_1_principals: "s7",
    s8_the_founder_dies: "s8",
    s10_an_id_comes_back: "s10",
    s12_late_replies: "s12",
    s14_many_join_one_gap: "s14",
    s15_deaths_between_steps: "s15",
    s16_split_and_heal: "s16",
    s17_the_sole_survivor_accepts: "s17",
    s19_several_neighbors_die_at_once: "s19",
    leaves_and_restarts: "leave",
}

#[test]
fn a_broken_expectation_fails_at_its_line() {
    let script =
        parse("depth 2\nring 0 2 4\nfail 4\nexpect ring 0 2 4\nquiet\n").expect("a script");
    let outcome = run(&script, 1);
    assert!(!outcome.ok);
    assert_eq!(outcome.step, 4);
    let kinds: Vec<&str> = outcome.problems.iter().map(|problem| problem.kind).collect();
    assert_eq!(kinds, ["not_live"], "nobody has noticed yet");
    let json = serde_json::to_value(&outcome).expect("plain data");
    assert_eq!(json["ok"], false);
    assert_eq!(json["members"][0]["id"], 0);
    assert_eq!(json["members"][0]["successors"], serde_json::json!([2, 4]));
    assert_eq!(json["problems"][0]["id"], 4);
    assert_eq!(json["rings"], serde_json::json!([[0, 2]]));
}

#[test]
fn each_expectation_can_fail() {
    let kind = |text: &str| {
        let outcome = run(&parse(text).expect("a script"), 1);
        outcome.problems.first().map(|problem| problem.kind)
    };
    assert_eq!(kind("ring 0 1\nexpect alone 0"), Some("not_alone"));
    assert_eq!(kind("ring 0 1\nexpect isolated 0"), Some("not_isolated"));
    assert_eq!(kind("ring 0 1\nexpect ring 0"), Some("live"));
    assert_eq!(kind("ring 0 1\nexpect owner 1 0"), Some("wrong_owner"));
    assert_eq!(kind("ring 0\nfail 0\nexpect owner 1 0"), Some("wrong_owner"));
    assert_eq!(kind("ring 0\nexpect alone 0\nexpect ring 0\nexpect owner 7 0"), None);
}

#[test]
fn the_same_script_and_seed_give_the_same_outcome() {
    let (_, script) = scenarios("s14").remove(0);
    assert_eq!(run(&script, 5), run(&script, 5));
    assert_ne!(run(&script, 5).trace, run(&script, 6).trace);
}
