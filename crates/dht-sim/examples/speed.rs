//! How fast the simulator is: events per second of this machine, by the size of the world:
//! `cargo run --release -p dht-sim --example speed -- [NODES,..] [SECONDS]`. The figures of
//! `docs/simulation.md`, "Speed", come from here.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "how long the simulator itself takes is told by a real clock"
)]

use std::io::Write;
use std::time::{Duration, Instant};

use dht_core::{Config, Id};
use dht_sim::world::{World, WorldConfig};

/// One join and one death in so many seconds for every thousand nodes.
const CHURN_EVERY: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let sizes = arguments.next().unwrap_or_else(|| "64,256,1000,4000,10000".to_owned());
    let seconds: u64 = arguments.next().map_or(Ok(60), |seconds| seconds.parse())?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:>6} {:>10} {:>12} {:>12} {:>8}",
        "nodes", "events", "events/s", "us/event", "x"
    )?;
    for nodes in sizes.split(',') {
        let nodes: u64 = nodes.parse()?;
        // Links and lookups alone, as in the papers' simulations.
        let node = Config { keeps_data: false, ..Config::default() };
        let config = WorldConfig { kept_lines: 0, ..WorldConfig::new(node, 1) };
        let mut world = World::new(config)?;
        world.grow((0..nodes).map(|n| (n, place(n))).collect());
        let (began, before) = (Instant::now(), world.events());
        churn(&mut world, nodes, Duration::from_secs(seconds));
        let (took, events) = (began.elapsed().as_secs_f64(), world.events() - before);
        writeln!(
            out,
            "{nodes:>6} {events:>10} {:>12.0} {:>12.2} {:>8.1}",
            events as f64 / took,
            took * 1e6 / events as f64,
            seconds as f64 / took
        )?;
    }
    Ok(())
}

/// Time passes, while nodes die and others come.
fn churn(world: &mut World, nodes: u64, span: Duration) {
    let end = world.now().after(span);
    let mut next = nodes;
    while world.now() < end {
        for _ in 0..nodes.div_ceil(1000) {
            world.fail(next - nodes);
            world.join_at(next, place(next), next - nodes / 2);
            next += 1;
        }
        world.run_for(CHURN_EVERY);
    }
}

fn place(n: u64) -> Id {
    Id::of_key(&n.to_be_bytes())
}
