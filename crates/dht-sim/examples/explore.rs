//! Explores small worlds to the end and prints what was found:
//! `cargo run --release -p dht-sim --example explore -- --list 2 --joins 2 --failures 1`.
//!
//! Further: `--false-suspicions N`, `--rejoins`, `--told N`, `--in-flight N`, `--max-states N`, `--max-depth N`,
//! `--max-violations N`, `--free` (everything takes time), and for each of `--pings`,
//! `--questions`, `--notifications`, `--candidates` and `--pushes` one of `lost`, `at-once`, `slow`.

use std::io::Write;

use dht_sim::explore::{Flight, Pace, Plan, Progress, explore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plan = plan()?;
    let progress = |at: &Progress| {
        let Progress { states, transitions, depth, waiting } = at;
        let _ = writeln!(
            std::io::stderr(),
            "{states} states, {transitions} transitions, depth {depth}, {waiting} waiting"
        );
    };
    let report = explore(&plan, progress);
    let mut out = std::io::stdout().lock();
    for violation in &report.violations {
        writeln!(out, "{:?}", violation.what)?;
        for (number, step) in violation.path.iter().enumerate() {
            writeln!(out, "  {:2}. {step}", number + 1)?;
        }
        violation.picture.iter().try_for_each(|line| writeln!(out, "      {line}"))?;
        violation.schedule.iter().try_for_each(|line| writeln!(out, "    - {line}"))?;
    }
    writeln!(out, "{:?}", report.plan)?;
    writeln!(
        out,
        "states {}, shapes {}, transitions {}, depth {}, closed {}, overfull {}",
        report.states,
        report.shapes,
        report.transitions,
        report.depth,
        report.closed,
        report.overfull
    )?;
    writeln!(
        out,
        "repaired by upkeep {}, by memory {}, not {}, unchecked {}; violations {}",
        report.by_upkeep,
        report.by_memory,
        report.unrepaired,
        report.unchecked,
        report.violations.len()
    )?;
    writeln!(
        out,
        "nodes {}, steps of nodes {}, messages {}",
        report.nodes, report.node_steps, report.messages
    )?;
    Ok(())
}

fn plan() -> Result<Plan, Box<dyn std::error::Error>> {
    let mut plan = Plan::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--rejoins" {
            plan.rejoins = true;
            continue;
        }
        if name == "--free" {
            plan.flight = Flight::free();
            continue;
        }
        let value = arguments.next().ok_or(format!("{name}: what?"))?;
        match name.as_str() {
            "--pings" => plan.flight.pings = pace(&value)?,
            "--questions" => plan.flight.questions = pace(&value)?,
            "--notifications" => plan.flight.notifications = pace(&value)?,
            "--candidates" => plan.flight.candidates = pace(&value)?,
            "--pushes" => plan.flight.pushes = pace(&value)?,
            name => set_number(&mut plan, name, value.parse()?)?,
        }
    }
    Ok(plan)
}

fn set_number(plan: &mut Plan, name: &str, value: u64) -> Result<(), Box<dyn std::error::Error>> {
    match name {
        "--list" => plan.list = value.try_into()?,
        "--joins" => plan.joins = value.try_into()?,
        "--failures" => plan.failures = value.try_into()?,
        "--false-suspicions" => plan.false_suspicions = value.try_into()?,
        "--max-states" => plan.max_states = value,
        "--in-flight" => plan.flight.in_flight = value.try_into()?,
        "--told" => plan.flight.told = value.try_into()?,
        "--max-depth" => plan.max_depth = value.try_into()?,
        "--max-violations" => plan.max_violations = value.try_into()?,
        _ => return Err(format!("{name} is no option").into()),
    }
    Ok(())
}

fn pace(word: &str) -> Result<Pace, String> {
    match word {
        "lost" => Ok(Pace::Lost),
        "at-once" => Ok(Pace::AtOnce),
        "slow" => Ok(Pace::Slow),
        other => Err(format!("{other} is none of lost, at-once, slow")),
    }
}
