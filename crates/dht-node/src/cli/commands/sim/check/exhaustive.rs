//! `sim check --exhaustive`: small worlds, every order of everything that may happen.

use dht_sim::explore::{Flight, Pace, Plan, Report, Violation, explore};
use serde::Serialize;

use crate::cli::args::{SlowKind, SmallWorldArgs};
use crate::cli::deadline::Deadline;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::cli::units::count;

/// What a search found.
#[derive(Debug, Serialize)]
struct Explored {
    list: u16,
    joins: u8,
    failures: u8,
    false_suspicions: u8,
    rejoins: bool,
    slow: Vec<&'static str>,
    in_flight: Option<u8>,
    /// Different states.
    states: u64,
    /// Steps that were tried.
    transitions: u64,
    /// The most steps that lead to any state on the shortest way.
    depth: u32,
    /// Whether every state was looked into.
    closed: bool,
    /// States of which upkeep alone makes the ideal ring.
    by_upkeep: u64,
    /// States that need the pings to remembered peers besides.
    by_memory: u64,
    /// States at the edge of a bounded search, of which it is not known.
    unchecked: u64,
    violations: Vec<Found>,
}

/// A state that must not be, and the shortest way to it.
#[derive(Debug, Serialize)]
struct Found {
    what: String,
    path: Vec<String>,
    picture: Vec<String>,
    schedule: Vec<String>,
}

pub(super) fn run(
    args: &SmallWorldArgs,
    deadline: Deadline,
    output: Output,
) -> Result<Exit, Failure> {
    let plan = plan(args);
    let progress = output.progress();
    let report = deadline.bound_thread(move || {
        explore(&plan, |at| {
            let states = count(at.states, "state");
            progress.message(&format!("{states}, {} steps deep", at.depth));
        })
    })?;
    let explored = Explored::of(report);
    let exit = if explored.violations.is_empty() { Exit::Done } else { Exit::Failed };
    exit.having_said(output.result(&explored, || explored.for_people()))
}

fn plan(args: &SmallWorldArgs) -> Plan {
    let mut flight = Flight::answers();
    for kind in &args.slow {
        match kind {
            SlowKind::All => flight = Flight::free(),
            SlowKind::Pings => flight.pings = Pace::Slow,
            SlowKind::Questions => flight.questions = Pace::Slow,
            SlowKind::Notifications => flight.notifications = Pace::Slow,
            SlowKind::Candidates => flight.candidates = Pace::Slow,
            SlowKind::Pushes => flight.pushes = Pace::Slow,
        }
    }
    flight.in_flight = args.in_flight.unwrap_or(u8::MAX);
    Plan {
        list: args.list,
        joins: args.joins,
        failures: args.failures,
        false_suspicions: args.false_suspicions,
        rejoins: args.rejoins,
        flight,
        max_states: args.max_states,
        max_depth: args.max_depth.unwrap_or(u32::MAX),
        ..Plan::default()
    }
}

/// The kinds of messages that may be overtaken by anything.
fn slow(flight: &Flight) -> Vec<&'static str> {
    let kinds = [
        (flight.pings, "pings"),
        (flight.questions, "questions"),
        (flight.notifications, "notifications"),
        (flight.candidates, "candidates"),
        (flight.pushes, "pushes"),
    ];
    kinds.into_iter().filter(|(pace, _)| *pace == Pace::Slow).map(|(_, name)| name).collect()
}

impl Explored {
    fn of(report: Report) -> Explored {
        let found = |violation: Violation| Found {
            what: format!("{:?}", violation.what),
            path: violation.path,
            picture: violation.picture,
            schedule: violation.schedule,
        };
        Explored {
            list: report.plan.list,
            joins: report.plan.joins,
            failures: report.plan.failures,
            false_suspicions: report.plan.false_suspicions,
            rejoins: report.plan.rejoins,
            slow: slow(&report.plan.flight),
            in_flight: Some(report.plan.flight.in_flight).filter(|most| *most < u8::MAX),
            states: report.states,
            transitions: report.transitions,
            depth: report.depth,
            closed: report.closed,
            by_upkeep: report.by_upkeep,
            by_memory: report.by_memory,
            unchecked: report.unchecked,
            violations: report.violations.into_iter().map(found).collect(),
        }
    }

    /// What was asked for besides, as it is written on the command line.
    fn other_settings(&self) -> String {
        let rejoins = self.rejoins.then(|| ", --rejoins".to_owned());
        let slow = Some(&self.slow).filter(|kinds| !kinds.is_empty());
        let slow = slow.map(|kinds| format!(", --slow {}", kinds.join(",")));
        let in_flight = self.in_flight.map(|most| format!(", --in-flight {most}"));
        [rejoins, slow, in_flight].into_iter().flatten().collect()
    }

    fn for_people(&self) -> String {
        let reach = match self.closed {
            true => "to the end".to_owned(),
            false => format!("up to the bound, {} steps deep", self.depth),
        };
        let mut text = format!(
            "lists of {}, {}, {}, {}{}: {reach}\n{}, {}; repaired by upkeep {}, by memory {}, \
             not checked {}\n",
            self.list,
            count(self.joins.into(), "join"),
            count(self.failures.into(), "failure"),
            count(self.false_suspicions.into(), "false suspicion"),
            self.other_settings(),
            count(self.states, "state"),
            count(self.transitions, "transition"),
            self.by_upkeep,
            self.by_memory,
            self.unchecked,
        );
        if self.violations.is_empty() {
            text.push_str("every state met holds what it must, and leads to the ideal ring\n");
        }
        for found in &self.violations {
            text.push_str(&format!("\n{}\n", found.what));
            for (at, step) in found.path.iter().enumerate() {
                text.push_str(&format!("  {:2}. {step}\n", at + 1));
            }
            for line in found.picture.iter().chain(&found.schedule) {
                text.push_str(&format!("      {line}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_how_far_the_search_went() {
        let plan = Plan { joins: 1, failures: 0, ..Plan::default() };
        let explored = Explored::of(explore(&plan, |_| {}));
        let text = explored.for_people();
        assert!(text.starts_with("lists of 2, 1 join, 0 failures, 0 false suspicions: to the end"));
        assert!(explored.closed && text.ends_with("leads to the ideal ring\n"), "{text}");
    }

    #[test]
    fn what_was_asked_is_said() {
        let flight = Flight { pushes: Pace::Slow, in_flight: 2, ..Flight::answers() };
        let plan = Plan { joins: 1, failures: 0, rejoins: true, flight, ..Plan::default() };
        let explored = Explored::of(explore(&plan, |_| {}));
        let text = explored.for_people();
        let asked = "0 false suspicions, --rejoins, --slow pushes, --in-flight 2: to the end";
        assert!(text.lines().next().is_some_and(|line| line.ends_with(asked)), "{text}");
        assert_eq!(explored.slow, ["pushes"]);
    }
}
