//! How the price of a lookup grows with the ring: means of walks over rings made up, by four routings, each
//! beside the formula. What takes a walk of O(N) steps to O(log N), and to one, is state: entries of lists,
//! fingers, a map.
//!
//! `cargo run --release --example hop_growth`

use std::error::Error;

use dht_core::message::ring::Routing;
use dht_core::theory;
use dht_sim::hops::{HopsConfig, Row, run};

const SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];
const ROUTINGS: [(Routing, u16); 5] = [
    (Routing::Successors, 1),
    (Routing::Successors, 16),
    (Routing::BothWays, 16),
    (Routing::Fingers, 16),
    (Routing::Full, 1),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>24}{}", "nodes:", SIZES.map(|nodes| format!("{nodes:>20}")).concat());
    for (routing, depth) in ROUTINGS {
        let config = HopsConfig {
            sizes: SIZES.to_vec(),
            routings: vec![routing],
            depths: vec![depth],
            lookups: Some(20_000),
            rings: Some(20),
            seed: 1,
        };
        let report = run(&config, |_| {})?;
        let cells =
            report.sizes.iter().map(|size| cell(size.nodes as u64, routing, depth, &size.routings));
        println!("{:>15}, depth {depth:>2}{}", routing.as_str(), cells.collect::<String>());
    }
    println!("\nEach cell: hops measured, and by the formula.");
    Ok(())
}

/// Measured beside expected.
fn cell(nodes: u64, routing: Routing, depth: u16, rows: &[Row]) -> String {
    let measured = rows.first().and_then(|row| row.mean).unwrap_or(f64::NAN);
    let expected = theory::expected_mean(routing, nodes, depth);
    let expected = expected.map_or("?".to_owned(), |mean| format!("{mean:.2}"));
    format!("{:>20}", format!("{measured:.2} ({expected})"))
}
