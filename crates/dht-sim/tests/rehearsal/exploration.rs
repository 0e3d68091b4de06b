//! Small worlds explored to the end (`docs/simulation.md`, "Exhaustive exploration").

use dht_core::planted::Planted;
use dht_sim::explore::{Flight, Pace, Plan, Report, Wrong, explore};

fn closes(plan: Plan) -> Report {
    let report = explore(&plan, |_| {});
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.closed && report.unchecked == 0, "{report:?}");
    assert_eq!(report.by_upkeep + report.by_memory, report.states);
    report
}

/// Everything flies: a joiner comes and one of the two dies.
#[test]
fn one_join_and_one_failure() {
    let plan = Plan { flight: Flight::free(), ..Plan::default() };
    let report = closes(plan);
    assert!(report.states > 10_000, "the world is small, and not that small: {report:?}");
}

/// Answers fly: two joiners come and two die, at any moment.
#[test]
fn two_joins_and_two_failures() {
    let report = closes(Plan { joins: 2, failures: 2, ..Plan::default() });
    assert!(report.states > 10_000 && report.by_memory == 0, "{report:?}");
}

/// One false verdict besides.
#[test]
fn one_join_one_failure_and_one_false_suspicion() {
    closes(Plan { false_suspicions: 1, ..Plan::default() });
}

/// Three joiners, a death and a false verdict, as far as they go within the bound: a node that is isolated
/// and remembers only the dead is let in by those who still count on it.
#[test]
fn the_beginning_of_three_joins_a_failure_and_a_false_suspicion() {
    let plan = Plan { joins: 3, false_suspicions: 1, max_states: 100_000, ..Plan::default() };
    let report = explore(&plan, |_| {});
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!((report.unrepaired, report.unchecked), (0, 0), "{report:?}");
}

/// A node comes back to its place in another life.
#[test]
fn a_node_comes_back() {
    closes(Plan { joins: 2, failures: 1, rejoins: true, ..Plan::default() });
}

/// Without notifications nobody ever learns of a joiner: the search says so, and tells how.
#[test]
fn a_rule_that_is_left_out_is_missed() {
    let flight = Flight { notifications: Pace::Lost, ..Flight::answers() };
    let report = explore(&Plan { flight, ..Plan::default() }, |_| {});
    let first = &report.violations[0];
    assert_eq!(first.what, Wrong::NotRepaired);
    assert_eq!(first.path.first().map(String::as_str), Some("1 asks 0 for a place"));
    assert!(!first.picture.is_empty() && !first.schedule.is_empty());
}

/// The naive rules of 2001, one at a time. Two are left out: the search drops late replies, as a node
/// does, and among three nodes a joiner without a list does no harm that upkeep does not repair.
#[test]
fn naive_rules_are_seen() {
    let left_out = [Planted::LateReply, Planted::JoinWithoutList];
    for planted in Planted::ALL.into_iter().filter(|rule| !left_out.contains(rule)) {
        let plan = Plan { joins: 2, failures: 2, planted: Some(planted), ..Plan::default() };
        let report = explore(&plan, |_| {});
        assert!(!report.violations.is_empty(), "{planted:?} was not seen");
    }
}

/// The same search is the same search.
#[test]
fn a_search_can_be_repeated() {
    let report = || explore(&Plan { joins: 2, max_states: 5000, ..Plan::default() }, |_| {});
    assert_eq!(report(), report());
}
