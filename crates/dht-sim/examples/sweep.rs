//! Sweeps seeds without the command line around it:
//! `cargo run --release -p dht-sim --example sweep -- FROM TO [NODES] [MINUTES]`. People use
//! `dht-node sim check`; this one is for whoever works on the simulator itself.

use std::io::Write;

use dht_sim::check::{CheckConfig, WorldKind, check, shrink};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let (from, to) = (numbers[0], numbers[1]);
    let config = CheckConfig {
        nodes: numbers.get(2).copied().unwrap_or(64),
        minutes: numbers.get(3).copied().unwrap_or(10),
        kind: match std::env::var("WORLDS").as_deref() {
            Ok("partition") => WorldKind::Partition,
            Ok("steps") => WorldKind::Steps,
            _ => WorldKind::Any,
        },
    };
    let mut out = std::io::stdout().lock();
    let (mut events, mut failed) = (0, 0);
    for seed in from..=to {
        let checked = check(config, seed);
        events += checked.events;
        let Some(problem) = checked.outcome.problems.first() else { continue };
        failed += 1;
        writeln!(out, "seed {seed} line {}: {}: {}", problem.step, problem.kind, problem.message)?;
        if std::env::var_os("SHRINK").is_some()
            && let Some(shrunk) = shrink(&checked.script, seed, 2000, |_| {})
        {
            writeln!(out, "{}# {:?}\n", shrunk.script, shrunk.outcome.problems.first())?;
        }
    }
    writeln!(out, "{} seeds, {failed} failed, {events} events", to - from + 1)?;
    Ok(())
}
