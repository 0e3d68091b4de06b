//! Drawn scripts: steps in any order, as long as each makes sense where it stands. The ring must be
//! ideal at the end of each, whatever happened.

use std::ops::Range;

use dht_sim::check::{CheckConfig, WorldKind, check};

fn all_hold(seeds: Range<u64>) {
    let config = CheckConfig { nodes: 10, minutes: 1, kind: WorldKind::Steps };
    for seed in seeds {
        let checked = check(config, seed);
        let outcome = checked.outcome;
        let (line, problems) = (outcome.step, outcome.problems);
        assert!(outcome.ok, "seed {seed}, line {line}: {problems:#?}\n{}", checked.script);
    }
}

#[test]
fn drawn_scripts_end_ideal() {
    all_hold(0..250);
}

#[test]
fn more_drawn_scripts_end_ideal() {
    all_hold(250..500);
}
