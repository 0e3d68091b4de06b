//! How long lookups take that their askers carry, and those that members hand on, where every message takes
//! 20 ms: `cargo run --release -p dht-sim --example forwarding -- 64` (or any number of nodes). The figures of
//! `docs/results.md`, "Iterative and recursive forwarding", come from here.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use dht_core::event::{OpId, Purpose};
use dht_core::message::Forwarding;
use dht_core::message::client::LookupReport;
use dht_core::message::ring::Routing;
use dht_core::{Config, Id, Notice};
use dht_sim::faults::FaultPlan;
use dht_sim::world::{LookupOrder, World, WorldConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Of each way, once.
const DELAY: Duration = Duration::from_millis(20);
/// Lookups of each row, the same for both.
const LOOKUPS: usize = 500;
/// Above the longest walk there and back, three times.
const PATIENCE: Duration = Duration::from_secs(240);
/// Until fingers are there.
const SETTLING: Duration = Duration::from_secs(120);

const ROWS: [(Routing, u16); 6] = [
    (Routing::Successors, 1),
    (Routing::Successors, 16),
    (Routing::BothWays, 1),
    (Routing::BothWays, 16),
    (Routing::Fingers, 1),
    (Routing::Fingers, 16),
];

fn main() -> Result<(), Box<dyn Error>> {
    let nodes: u64 = std::env::args().nth(1).map_or(Ok(64), |text| text.parse())?;
    let mut rng = Pcg64Mcg::seed_from_u64(nodes);
    let mut world = ring(nodes, &mut rng)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{nodes} nodes, {DELAY:?} a message, {LOOKUPS} lookups a row")?;
    writeln!(out, "{:<12} depth    hops  iterative   recursive  ratio  gave up", "")?;
    for (routing, depth) in ROWS {
        let members = world.members();
        let draw = |_| (members[rng.random_range(0..members.len())], random_id(&mut rng));
        let lookups: Vec<(u64, Id)> = (0..LOOKUPS).map(draw).collect();
        let mut means = Forwarding::ALL.map(|forwarding| {
            let reports = look_up(&mut world, &lookups, (routing, depth, forwarding));
            (
                mean(&reports, |report| report.hops.into()),
                mean(&reports, |report| report.elapsed_us),
                reports,
            )
        });
        let [(hops, iterative, _), (other_hops, recursive, reports)] = &mut means;
        let gave_up = reports
            .iter()
            .filter(|report| report.handed.as_ref().is_none_or(|held| held.gave_up.is_some()))
            .count();
        writeln!(
            out,
            "{:<12} {depth:>5} {hops:>7.3} {:>7.1} ms {:>8.1} ms  {:.3}  {gave_up:>7}",
            routing.as_str(),
            *iterative / 1e3,
            *recursive / 1e3,
            *recursive / *iterative,
        )?;
        if (*hops - *other_hops).abs() > 1e-9 {
            writeln!(out, "{:>26.3} hops where they were handed on", *other_hops)?;
        }
    }
    Ok(())
}

fn ring(nodes: u64, rng: &mut Pcg64Mcg) -> Result<World, Box<dyn Error>> {
    let config = Config {
        lookup_timeout: PATIENCE,
        max_operations: 2 * LOOKUPS,
        max_forwards: 1_000_000,
        keeps_data: false,
        ..Config::default()
    };
    let plan = FaultPlan { shortest_delay: DELAY, longest_delay: DELAY, ..FaultPlan::default() };
    let mut world =
        World::new(WorldConfig { plan, kept_lines: 0, ..WorldConfig::new(config, nodes) })?;
    world.grow((0..nodes).map(|n| (n, random_id(rng))).collect());
    world.run_for(SETTLING);
    Ok(world)
}

fn random_id(rng: &mut Pcg64Mcg) -> Id {
    Id::from_bytes(rng.random())
}

/// What came of lookups that all begin now.
fn look_up(
    world: &mut World,
    lookups: &[(u64, Id)],
    (routing, depth, forwarding): (Routing, u16, Forwarding),
) -> Vec<LookupReport> {
    let ask = |(asker, key): &(u64, Id)| {
        let order = LookupOrder {
            key: *key,
            routing: Some(routing),
            depth: Some(depth),
            forwarding: Some(forwarding),
            purpose: Purpose::Client,
        };
        world.order_lookup(*asker, order)
    };
    let ops: Vec<OpId> = lookups.iter().map(ask).collect();
    let last = ops.last().copied();
    world.run_until_answered(PATIENCE, last);
    world.run_until_answered(PATIENCE, ops.clone());
    let report = |op| match world.take_outcome(op) {
        Some(Notice::Found { report, .. }) if report.failure.is_none() => report,
        other => panic!("nobody is dead here: {other:?}"),
    };
    ops.into_iter().map(report).collect()
}

fn mean(reports: &[LookupReport], value: impl Fn(&LookupReport) -> u64) -> f64 {
    reports.iter().map(|report| value(report) as f64).sum::<f64>() / reports.len() as f64
}
