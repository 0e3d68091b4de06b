//! How long a ring takes to become ideal again, in virtual time:
//! `cargo run --release -p dht-sim --example mending`. The figures of `docs/simulation.md`,
//! "Mending", come from here.

use std::io::Write;
use std::time::Duration;

use dht_core::{Config, Id, Instant};
use dht_sim::faults::FaultPlan;
use dht_sim::invariants::{List, Violation};
use dht_sim::world::{QUIET_LIMIT, World, WorldConfig};

const SEEDS: u64 = 100;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "virtual seconds until all is right, {SEEDS} seeds")?;
    writeln!(out, "{:<32}  successor lists        predecessor lists too", "")?;
    writeln!(out, "{:<32} {COLUMNS} {COLUMNS}", "")?;
    let rows: [(&str, Measure); 6] = [
        ("1 of 16 dies", |seed| after_deaths(seed, 16, 1)),
        ("3 neighbours of 16 die", |seed| after_deaths(seed, 16, 3)),
        ("1 of 64 dies", |seed| after_deaths(seed, 64, 1)),
        ("1 of 16 leaves", after_leave),
        ("31 join at once through the first", |seed| after_joins(seed, 31)),
        ("1 joins a ring of 16", after_join),
    ];
    for (name, measure) in rows {
        let spans: Vec<Spans> = (0..SEEDS).map(measure).collect();
        let links = shares(spans.iter().map(|spans| spans.links).collect());
        let all = shares(spans.iter().map(|spans| spans.all).collect());
        writeln!(out, "{name:<32} {links} {all}")?;
    }
    Ok(())
}

/// One measurement, from a seed.
type Measure = fn(u64) -> Spans;

const COLUMNS: &str = " median    p90    max";

/// How long it took.
struct Spans {
    /// Until successor lists and predecessors were right.
    links: Duration,
    /// Until predecessor lists were right too.
    all: Duration,
}

/// Median, 90th percentile and maximum, in seconds.
fn shares(mut spans: Vec<Duration>) -> String {
    spans.sort();
    let at = |share: usize| spans[(spans.len() - 1) * share / 100].as_secs_f64();
    format!("{:>7.2} {:>6.2} {:>6.2}", at(50), at(90), at(100))
}

/// Default nodes 0.1 to 1 ms from each other, as on one machine or in one rack.
fn config(seed: u64) -> WorldConfig {
    let plan = FaultPlan {
        shortest_delay: Duration::from_micros(100),
        longest_delay: Duration::from_millis(1),
        ..FaultPlan::default()
    };
    WorldConfig { plan, ..WorldConfig::new(Config::default(), seed) }
}

fn place(seed: u64, n: u64) -> Id {
    Id::of_key(&[seed.to_be_bytes(), n.to_be_bytes()].concat())
}

fn ring(seed: u64, nodes: u64) -> World {
    let mut world = World::new(config(seed)).expect("the default is within its bounds");
    world.found_at(0, place(seed, 0));
    (1..nodes).for_each(|n| world.join_at(n, place(seed, n), 0));
    world.run_until_quiet(QUIET_LIMIT).expect("nothing goes wrong in this world");
    world
}

/// From the moment `began` until nothing is left to mend.
fn until_ideal(world: &mut World, began: Instant) -> Spans {
    let is_mirror =
        |flaw: &Violation| matches!(flaw, Violation::NotIdeal { list: List::Predecessors, .. });
    let end = world.now().after(Duration::from_secs(600));
    let has_links = |world: &World| world.flaws().iter().all(is_mirror);
    assert!(world.run_while(end, has_links), "still not ideal");
    let links = world.now().since(began);
    assert!(world.run_while(end, |world| world.flaws().is_empty()), "still not ideal");
    Spans { links, all: world.now().since(began) }
}

fn after_deaths(seed: u64, nodes: u64, dead: usize) -> Spans {
    let mut world = ring(seed, nodes);
    world.run_for(Duration::from_millis(seed * 13));
    let order: Vec<Id> = world.links().nodes.keys().copied().collect();
    for id in order.iter().cycle().skip((seed % nodes) as usize).take(dead) {
        let node = world.number_at(*id).expect("a node of this world");
        world.fail(node);
    }
    let began = world.now();
    until_ideal(&mut world, began)
}

fn after_leave(seed: u64) -> Spans {
    let mut world = ring(seed, 16);
    let (began, leaver) = (world.now(), seed % 16);
    world.leave(leaver);
    let end = began.after(Duration::from_secs(60));
    assert!(world.run_while(end, |world| !world.is_running(leaver)), "it does not get away");
    until_ideal(&mut world, began)
}

fn after_joins(seed: u64, joiners: u64) -> Spans {
    let mut world = ring(seed, 1);
    let began = world.now();
    (1..=joiners).for_each(|n| world.join_at(n, place(seed, n), 0));
    until_ideal(&mut world, began)
}

fn after_join(seed: u64) -> Spans {
    let mut world = ring(seed, 16);
    let began = world.now();
    world.join_at(100, place(seed, 100), seed % 16);
    until_ideal(&mut world, began)
}
