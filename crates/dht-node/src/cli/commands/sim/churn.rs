//! `sim churn`: rings whose members come and go.

use std::time::{Duration, Instant};

use dht_core::message::Forwarding;
use dht_core::message::ring::Routing;
use dht_sim::churn::papers::{self, Ours, PaperFigures, TableConfig, TableReport, TableRow};
use dht_sim::churn::simultaneous::SimultaneousRow;
use dht_sim::churn::{self, ChurnConfig, ChurnError, ChurnProgress, ChurnReport};
use serde::Serialize;

use crate::cli::args::{SimChurnArgs, TableArg};
use crate::cli::bounds::OutOfBounds;
use crate::cli::commands::{named_forwarding, routing_named};
use crate::cli::deadline::Deadline;
use crate::cli::exit::{Exit, Failure, Kind};
use crate::cli::output::{Output, table_text};
use crate::cli::progress::Progress;

/// A report, and how long it took to make.
#[derive(Serialize)]
struct Timed<T: Serialize> {
    #[serde(flatten)]
    report: T,
    /// Seconds of this machine's time.
    wall_s: f64,
}

pub(super) fn run(
    args: &SimChurnArgs,
    deadline: Deadline,
    output: Output,
) -> Result<Exit, Failure> {
    let routing = args.routing.as_deref().map(routing_named).transpose()?;
    let routing = routing.unwrap_or(Routing::Successors);
    let forwarding = args.forwarding.as_deref().map(named_forwarding).transpose()?;
    let forwarding = forwarding.unwrap_or_default();
    if let Some(table) = args.table {
        return run_table(args, table, (routing, forwarding), deadline, output);
    }
    let config = ChurnConfig { routing, forwarding, ..config(args)? };
    let progress = output.progress();
    let began = Instant::now();
    let report = deadline
        .bound_thread(move || churn::run(&config, |step| show_step(&progress, "", step)))?
        .map_err(|error| failure(&error))?;
    let timed = Timed { report, wall_s: began.elapsed().as_secs_f64() };
    output.result(&timed, || for_people(&timed.report, timed.wall_s, output))?;
    Ok(Exit::Done)
}

fn run_table(
    args: &SimChurnArgs,
    table: TableArg,
    (routing, forwarding): (Routing, Forwarding),
    deadline: Deadline,
    output: Output,
) -> Result<Exit, Failure> {
    let SimChurnArgs { nodes, lookups, lookup_rate, seed, .. } = *args;
    if table == TableArg::Ton2 && lookup_rate.is_some() {
        let text = "--lookup-rate: no time passes in table ton2; say how many with --lookups";
        return Err(Failure::usage(text));
    }
    if table == TableArg::Ton2 && matches!(routing, Routing::BothWays | Routing::Full) {
        let text = format!(
            "--routing {}: table ton2 is walked by successors or fingers",
            routing.as_str()
        );
        return Err(Failure::usage(text));
    }
    if table == TableArg::Ton2 && forwarding == Forwarding::Recursive {
        let text = "--forwarding recursive: the walks of table ton2 are their askers'";
        return Err(Failure::usage(text));
    }
    let table = table.table();
    let config = TableConfig { table, routing, forwarding, nodes, lookups, lookup_rate, seed };
    let progress = output.progress();
    let began = Instant::now();
    let report = deadline
        .bound_thread(move || papers::run(&config, |row, step| show_step(&progress, row, step)))?
        .map_err(|error| failure(&error))?;
    let timed = Timed { report, wall_s: began.elapsed().as_secs_f64() };
    output.result(&timed, || table_for_people(&timed.report, timed.wall_s, output))?;
    Ok(Exit::Done)
}

fn config(args: &SimChurnArgs) -> Result<ChurnConfig, Failure> {
    let rate = match (args.rate, args.median_session) {
        (Some(rate), _) => rate,
        (None, Some(Duration::ZERO)) => {
            let text = "--median-session 0s: sessions take time; say how long, as in 1m";
            return Err(Failure::usage(text));
        }
        (None, Some(median)) => ChurnConfig::rate_of_sessions(args.nodes, median),
        (None, None) => {
            let text = "how fast members come and go is missing: give --rate R (per second), or \
                        --median-session D, or --table ton2, ton3 or bamboo";
            return Err(Failure::usage(text));
        }
    };
    let minutes = args.minutes;
    if !(minutes > 0.0 && minutes <= MAX_MINUTES) {
        let text = format!("--minutes {minutes}: must be above 0 and at most {MAX_MINUTES}");
        return Err(Failure::usage(text));
    }
    let span = Duration::from_secs_f64(60.0 * minutes);
    let default = ChurnConfig::new(args.nodes, rate, span, args.seed);
    let default = match args.stabilize_every {
        Some(period) => default.with_period(period),
        None => default,
    };
    Ok(ChurnConfig {
        paired: args.median_session.is_some(),
        depth: args.depth.unwrap_or(default.depth),
        lookup_rate: args.lookup_rate.unwrap_or(default.lookup_rate),
        lookup_timeout: args.lookup_timeout.unwrap_or(default.lookup_timeout),
        write_rate: args.write_rate,
        path: args.path.path(),
        ..default
    })
}

fn failure(error: &ChurnError) -> Failure {
    match error {
        ChurnError::NotFormed { .. } => Failure::new(Kind::Failed, error.to_string()),
        ChurnError::Node(error) => Failure::usage(OutOfBounds::from(error.clone()).to_string()),
        error => Failure::usage(format!("--{error}")),
    }
}

fn show_step(progress: &Progress, row: &str, step: ChurnProgress) {
    let mark = if row.is_empty() { "" } else { ": " };
    progress.message(&format!("{row}{mark}{}", step.what));
    progress.count(step.done_s, step.of_s);
}

fn for_people(report: &ChurnReport, wall_s: f64, output: Output) -> String {
    let mut table = output.table(&["figure", ">value"]);
    for (name, value) in lines(report) {
        table.add_row([name, value]);
    }
    let mut text = format!(
        "{} nodes, {} joins and {} deaths in {:.0} s of virtual time, seed {}; {wall_s:.0} s here\n\n{}",
        report.nodes,
        report.joins,
        report.deaths,
        report.seconds,
        report.seed,
        table_text(&table)
    );
    if report.mean_nodes < 1.5 {
        text.push_str("\nThe ring died out: its nodes went faster than others could come.\n");
    }
    if report.dead_lists > 0 {
        text.push_str(&format!(
            "\n{} times a member was left with nobody alive in its list of {}: beyond that no answer \
             is promised to be right.\n",
            report.dead_lists, report.depth
        ));
    }
    for fault in &report.faults {
        text.push_str(&format!(
            "\n{} at {:.3} s: {} asked for {}: {}\n",
            fault.kind, fault.at_s, fault.asker, fault.key, fault.report
        ));
    }
    text
}

fn lines(report: &ChurnReport) -> Vec<(String, String)> {
    let named = |name: &str, value: String| (name.to_owned(), value);
    let mut lines = vec![
        named("lookups", report.lookups.to_string()),
        named("failed", report.failed.to_string()),
        named("wrong", report.wrong.to_string()),
        named("mean hops", with_error(report.mean_hops, report.mean_hops_stderr)),
        named(
            "time-outs per lookup",
            with_error(report.timeouts_per_lookup, report.timeouts_stderr),
        ),
        named("right at the first try", share(report.first_try)),
        named("latency mean, ms", number(report.latency_ms.map(|held| held.mean), 0)),
        named("latency p50, ms", number(report.latency_ms.map(|held| held.p50), 0)),
        named("latency p99, ms", number(report.latency_ms.map(|held| held.p99), 0)),
        named("ring breaks", report.ring_breaks.to_string()),
        named("lists without a live entry", report.dead_lists.to_string()),
        named(
            "ideal after, s",
            report.mended_after_s.map_or("never".to_owned(), |s| format!("{s:.1}")),
        ),
        named("acknowledged writes", report.files.acked.to_string()),
        named("acknowledged and lost", report.acked_lost.to_string()),
        named("bytes per node and s", format!("{:.0}", report.bytes_per_node_per_s)),
    ];
    if report.forwarding == Forwarding::Recursive.as_str() {
        lines.insert(3, named("handed on and given up", report.gave_up.to_string()));
    }
    let parts = report.bytes.iter();
    lines.extend(parts.map(|(name, bytes)| (format!("  for {name}"), format!("{bytes:.0}"))));
    lines
}

fn share(of_all: Option<f64>) -> String {
    of_all.map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share))
}

fn table_for_people(report: &TableReport, wall_s: f64, output: Output) -> String {
    let mut table = output.table(&[
        "row",
        ">lookups",
        ">failed",
        ">paper",
        ">wrong",
        ">hops",
        ">expected",
        ">paper",
        ">time-outs",
        ">paper",
        ">breaks",
        ">upkeep B/s",
        ">all B/s",
        ">paper",
    ]);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    let size = match report.nodes {
        papers::NODES => String::new(),
        nodes => format!(
            "\non {nodes} nodes, where the paper has {}: its figures are for that ring",
            papers::NODES
        ),
    };
    format!(
        "{}\n{}{size}\nseed {}, {wall_s:.0} s here\n\n{}",
        report.source,
        report.note,
        report.seed,
        table_text(&table)
    )
}

fn cells(row: &TableRow) -> [String; 14] {
    let PaperFigures { mean_hops, timeouts_per_lookup, failed_of_10000, bytes_per_node_per_s } =
        row.paper;
    let paper_failed = failed_of_10000.map_or("-".to_owned(), |failed| failed.to_string());
    let (hops, timeouts) = (number(mean_hops, 2), number(timeouts_per_lookup, 2));
    let bytes = number(bytes_per_node_per_s, 0);
    match &row.ours {
        Ours::Simultaneous(ours) => {
            let SimultaneousRow { lookups, failed, .. } = ours;
            [
                row.row.clone(),
                lookups.to_string(),
                failed.to_string(),
                paper_failed,
                "-".to_owned(),
                with_error(ours.mean_hops, ours.mean_hops_stderr),
                number(ours.expected_hops, 2),
                hops,
                with_error(ours.timeouts_per_lookup, ours.timeouts_stderr),
                timeouts,
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                bytes,
            ]
        }
        Ours::Churn(ours) => [
            row.row.clone(),
            ours.lookups.to_string(),
            ours.failed.to_string(),
            paper_failed,
            ours.wrong.to_string(),
            with_error(ours.mean_hops, ours.mean_hops_stderr),
            number(ours.expected_hops, 2),
            hops,
            with_error(ours.timeouts_per_lookup, ours.timeouts_stderr),
            timeouts,
            ours.ring_breaks.to_string(),
            format!("{:.0}", ours.bytes.get("upkeep").copied().unwrap_or(0.0)),
            format!("{:.0}", ours.bytes_per_node_per_s),
            bytes,
        ],
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn with_error(mean: Option<f64>, stderr: Option<f64>) -> String {
    let error = stderr.map_or(String::new(), |stderr| format!(" ± {stderr:.2}"));
    format!("{}{error}", number(mean, 2))
}

/// A week.
const MAX_MINUTES: f64 = 7.0 * 24.0 * 60.0;

#[cfg(test)]
mod tests {
    use clap::Parser;
    use dht_sim::churn::papers::Table;

    use super::*;
    use crate::cli::args::{Cli, Command, SimArgs, SimCommand};

    fn args(line: &str) -> SimChurnArgs {
        let words = format!("dht-node sim churn {line}");
        let cli = Cli::try_parse_from(words.split_whitespace()).expect(line);
        let Some(Command::Sim(SimArgs { command: SimCommand::Churn(args) })) = cli.command else {
            panic!("{line}")
        };
        args
    }

    #[test]
    fn flags_become_a_run() {
        let run = config(&args("--nodes 100 --rate 0.5 --minutes 2 --seed 3")).expect("complete");
        assert_eq!((run.nodes, run.rate, run.seed, run.paired), (100, 0.5, 3, false));
        assert_eq!((run.span, run.lookup_rate), (Duration::from_secs(120), 1.0));
        let run = config(&args("--nodes 1000 --median-session 84s --stabilize-every 30s"));
        let run = run.expect("complete");
        assert!(run.paired && (run.rate - 8.25).abs() < 0.01);
        let periods = (run.stabilize_every, run.warm_up);
        assert_eq!(periods, (Duration::from_secs(30), Duration::from_secs(90)));
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_said() {
        let told = |line: &str| match config(&args(line)) {
            Err(Failure::Told { kind: Kind::Usage, message }) => message,
            other => panic!("{line}: {other:?}"),
        };
        assert!(told("--nodes 100").contains("--rate R"));
        assert!(told("--median-session 0s").contains("take time"));
        assert!(told("--rate 1 --minutes -1").starts_with("--minutes -1: must be above 0"));
        for line in [
            "--rate 1 --median-session 5s",
            "--table ton2 --rate 1",
            "--lookups 5",
            "--rate 1 --lookups 5",
        ] {
            let words = format!("dht-node sim churn {line}");
            assert!(Cli::try_parse_from(words.split_whitespace()).is_err(), "{line}");
        }
    }

    #[test]
    fn people_see_our_figures_beside_the_papers() {
        let config = TableConfig { nodes: 30, lookups: 100, ..TableConfig::new(Table::Ton2, 1) };
        let report = papers::run(&config, |_, _| {}).expect("within all bounds");
        let text = table_for_people(&report, 1.0, Output::bare(false));
        let row = text.lines().find(|line| line.contains("p = 0.5")).expect("a row");
        assert!(row.contains("5.09") && row.contains("5.10"), "{text}");
        let run = ChurnConfig::new(3, 0.0, Duration::from_secs(10), 1);
        let run = churn::run(&run, |_| {}).expect("a ring of three");
        let text = for_people(&run, 1.0, Output::bare(false));
        assert!(text.contains("\n wrong ") && text.contains("for upkeep"), "{text}");
    }
}
