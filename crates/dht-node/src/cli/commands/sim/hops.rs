//! `sim hops`: hops on rings of any size.

use dht_core::message::ring::Routing;
use dht_sim::hops::{HopsConfig, HopsReport, Row};

use crate::cli::args::SimHopsArgs;
use crate::cli::deadline::Deadline;
use crate::cli::exit::{Exit, Failure};
use crate::cli::hop_report::{HopFiles, HopRecord, off, show_error, show_off};
use crate::cli::output::{Output, table_text};
use crate::cli::settings::parse_routing;
use crate::cli::units::count;

pub(super) fn run(args: SimHopsArgs, deadline: Deadline, output: Output) -> Result<Exit, Failure> {
    let SimHopsArgs { mut nodes, routing, depth, lookups, rings, seed, plot, csv } = args;
    let mut routings = routing.iter().map(|word| named(word)).collect::<Result<Vec<_>, _>>()?;
    if routings.is_empty() {
        routings.push(Routing::Successors);
    }
    let mut depths = depth;
    // Who names one twice wants it once.
    (nodes, routings, depths) = (distinct(nodes), distinct(routings), distinct(depths));
    let files = HopFiles::choose(plot.as_deref(), csv.as_deref())?;
    let config = HopsConfig { sizes: nodes, routings, depths, lookups, rings, seed };
    let progress = output.progress();
    let measured = deadline.bound_thread(move || {
        dht_sim::hops::run(&config, |step| {
            progress.message(&count(step.nodes as u64, "node"));
            progress.count(step.done, step.lookups);
        })
    })?;
    let report = measured.map_err(|error| Failure::usage(format!("--{error}")))?;
    files.write(&HopRecord::of_simulation(&report), output)?;
    output.result(&report, || for_people(&report, output))?;
    Ok(Exit::Done)
}

fn named(word: &str) -> Result<Routing, Failure> {
    parse_routing(word).map_err(|error| Failure::usage(format!("--routing {word}: {error}")))
}

/// The first of each, in their order.
fn distinct<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    values.into_iter().fold(Vec::new(), |mut kept, value| {
        if !kept.contains(&value) {
            kept.push(value);
        }
        kept
    })
}

fn for_people(report: &HopsReport, output: Output) -> String {
    let mut table = output.table(&[
        ">nodes",
        "routing",
        ">depth",
        ">mean",
        ">stderr",
        ">expected",
        ">here",
        ">off",
        ">stddev",
        ">p50",
        ">p99",
        ">max",
        "growth",
    ]);
    for size in &report.sizes {
        for row in &size.routings {
            table.add_row(cells(size.nodes, row));
        }
    }
    format!("seed {}\n\n{}", report.seed, table_text(&table))
}

fn cells(nodes: usize, row: &Row) -> [String; 13] {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let whole = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    [
        nodes.to_string(),
        row.routing.to_owned(),
        row.depth.map_or("-".to_owned(), |depth| depth.to_string()),
        number(row.mean),
        show_error(row.stderr),
        number(row.expected),
        number(row.expected_here),
        show_off(off(row.mean, row.expected)),
        number(row.stddev),
        whole(row.p50),
        whole(row.p99),
        whole(row.max),
        row.growth.to_owned(),
    ]
}
