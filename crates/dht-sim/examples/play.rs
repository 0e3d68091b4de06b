//! Plays one script and prints what came of it, with the end of its trace:
//! `cargo run -p dht-sim --example play -- FILE [SEED] [trace]`. People use `dht-node sim script`;
//! this one is for whoever works on the simulator itself.

use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let script = dht_sim::script::parse(&std::fs::read_to_string(path)?)?;
    let mut out = std::io::stdout().lock();
    let outcome = dht_sim::script::run_with(&script, seed, |line| {
        let _ = writeln!(out, "{line}");
    });
    writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)?;
    Ok(())
}
