//! Plays one script and prints what came of it, with the end of its trace:
//! `cargo run -p dht-sim --example play -- FILE [SEED] [LINES]`. People use `dht-node sim script`;
//! this one is for whoever works on the simulator itself.

use std::io::Write;

use dht_sim::script::{Play, parse, play};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let lines = arguments.next().map_or(Ok(400), |lines| lines.parse())?;
    let script = parse(&std::fs::read_to_string(path)?)?;
    let mut out = std::io::stdout().lock();
    let (outcome, world) = play(&script, Play { seed, lines, planted: None });
    for line in world.trace().last_lines() {
        writeln!(out, "{line}")?;
    }
    for problem in world.problems() {
        writeln!(out, "{} {:?}", problem.at.0, problem.violation)?;
    }
    writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
    Ok(())
}
