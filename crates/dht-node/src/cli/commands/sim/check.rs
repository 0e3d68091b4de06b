//! `sim check`: sweeps of seeds over random worlds.

mod exhaustive;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dht_sim::check::{self, CheckConfig, SeedViolation, check, draw, shrink};
use serde::Serialize;

use crate::cli::args::{SimCheckArgs, WorldKind};
use crate::cli::deadline::Deadline;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::units::count;

/// Virtual minutes of a world (guess: some hundred troubles, and a second of this machine's time).
const DEFAULT_MINUTES: u64 = 10;

/// What a sweep found, in the shape of the JSON contract.
#[derive(Debug, Serialize)]
struct Report {
    /// How many worlds were lived through.
    seeds: u64,
    /// Messages, timers and deeds in all of them.
    events: u64,
    /// The first thing that did not hold, for every seed that failed.
    violations: Vec<SeedViolation>,
    /// The first failing seed as a short script.
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<Short>,
}

/// What happens in a world, with `--print-script`.
#[derive(Debug, Serialize)]
struct Drawn {
    seed: u64,
    text: String,
}

/// A failing world, cut down.
#[derive(Debug, Serialize)]
struct Short {
    seed: u64,
    text: String,
    /// The command that plays it, with the text in a file.
    replay: String,
}

pub(super) fn run(
    args: &SimCheckArgs,
    deadline: Deadline,
    output: Output,
) -> Result<Exit, Failure> {
    if args.exhaustive {
        return exhaustive::run(&args.small, deadline, output);
    }
    let kind = match args.worlds {
        WorldKind::Any => check::WorldKind::Any,
        WorldKind::Steps => check::WorldKind::Steps,
        WorldKind::Partition => check::WorldKind::Partition,
    };
    if kind == check::WorldKind::Steps && args.minutes.is_some() {
        return Err(Failure::usage("--minutes: no time passes in worlds of steps; leave it out"));
    }
    let minutes = args.minutes.unwrap_or(DEFAULT_MINUTES);
    let config = CheckConfig { nodes: args.nodes, minutes, kind };
    config.validate().map_err(|error| Failure::usage(format!("--{error}")))?;
    if args.print_script {
        let seed = *args.seeds.start();
        let script = Drawn { seed, text: draw(config, seed).to_string() };
        output.result(&script, || script.text.clone())?;
        return Ok(Exit::Done);
    }
    let progress = output.progress();
    let args = args.clone();
    let report = deadline.bound_thread(move || sweep(&args, config, &progress))?;
    let exit = if report.violations.is_empty() { Exit::Done } else { Exit::Failed };
    exit.having_said(output.result(&report, || for_people(&report)))
}

fn sweep(args: &SimCheckArgs, config: CheckConfig, progress: &Progress) -> Report {
    let jobs = args.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        usize::from,
    );
    let (first, last) = (*args.seeds.start(), *args.seeds.end());
    let total = last - first + 1;
    let (next, done, events) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<BTreeMap<u64, SeedViolation>> = Mutex::default();
    progress.message("worlds");
    let kind = match args.worlds {
        WorldKind::Any => "",
        WorldKind::Steps => " --worlds steps",
        WorldKind::Partition => " --worlds partition",
    };
    let replay = |seed| {
        let CheckConfig { nodes, minutes, .. } = config;
        let seeds = format!("{seed}..{seed}");
        let minutes = match args.worlds {
            WorldKind::Steps => String::new(),
            _ => format!(" --minutes {minutes}"),
        };
        format!("dht-node sim check --seeds {seeds} --nodes {nodes}{minutes}{kind}")
    };
    let live = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return;
            }
            let seed = first + number;
            let checked = check(config, seed);
            events.fetch_add(checked.events, Ordering::Relaxed);
            if let Some(violation) = checked.violations(replay).into_iter().next() {
                failed.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, violation);
            }
            progress.count(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| _ = scope.spawn(live)));
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let violations: Vec<SeedViolation> = failed.into_values().collect();
    let script = violations
        .first()
        .and_then(|violation| cut_down(config, violation.seed, args.shrink, progress));
    Report { seeds: total, events: events.into_inner(), violations, script }
}

fn cut_down(config: CheckConfig, seed: u64, plays: u32, progress: &Progress) -> Option<Short> {
    let replay = format!("dht-node sim script FILE --seed {seed}");
    if plays == 0 {
        let text = draw(config, seed).to_string();
        return Some(Short { seed, text, replay });
    }
    progress.message("cutting the first failure down");
    let whole = dht_sim::script::parse(&draw(config, seed).to_string()).ok()?;
    let shrunk = shrink(&whole, seed, plays, |lines| {
        progress
            .message(&format!("cutting the first failure down: {}", count(lines as u64, "line")));
    })?;
    Some(Short { seed, text: shrunk.script.to_string(), replay })
}

fn for_people(report: &Report) -> String {
    let mut text = format!(
        "{}, {}: {}\n",
        count(report.seeds, "world"),
        count(report.events, "event"),
        match report.violations.len() {
            0 => "every invariant held wherever its condition did".to_owned(),
            failed => format!("{} failed", count(failed as u64, "world")),
        }
    );
    for violation in &report.violations {
        let SeedViolation { seed, invariant, step, message, replay } = violation;
        text.push_str(&format!("\nseed {seed}, line {step}: {invariant}: {message}\n  {replay}\n"));
    }
    if let Some(script) = &report.script {
        text.push_str(&format!("\n# {}\n{}", script.replay, script.text));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_the_seed_how_to_play_it_again_and_the_script() {
        let violation = SeedViolation {
            seed: 7,
            invariant: "not_ideal",
            step: 9,
            message: "#5 has no place: isolated".to_owned(),
            replay: "dht-node sim check --seeds 7..7".to_owned(),
        };
        let script = Short {
            seed: 7,
            text: "timed\nring 5\n".to_owned(),
            replay: "dht-node sim script FILE --seed 7".to_owned(),
        };
        let report =
            Report { seeds: 2, events: 1, violations: vec![violation], script: Some(script) };
        assert_eq!(
            for_people(&report),
            "2 worlds, 1 event: 1 world failed\n\nseed 7, line 9: not_ideal: #5 has no place: \
             isolated\n  dht-node sim check --seeds 7..7\n\n# dht-node sim script FILE --seed 7\n\
             timed\nring 5\n"
        );
    }
}
