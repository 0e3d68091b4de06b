//! The worlds of `dht-node sim check`, as many as there is time for: the seeds 1 to 200, and some
//! parted rings. Longer sweeps are the command's (`docs/simulation.md`, "Sweeps").

use std::ops::RangeInclusive;

use dht_sim::check::{CheckConfig, WorldKind, check};

fn all_hold(seeds: RangeInclusive<u64>, config: CheckConfig) {
    for seed in seeds {
        let outcome = check(config, seed).outcome;
        assert!(outcome.ok, "seed {seed}, line {}: {:#?}", outcome.step, outcome.problems);
    }
}

const ANY: CheckConfig = CheckConfig { nodes: 64, minutes: 10, kind: WorldKind::Any };

// Several tests, so that they run side by side.

#[test]
fn seeds_1_to_50() {
    all_hold(1..=50, ANY);
}

#[test]
fn seeds_51_to_100() {
    all_hold(51..=100, ANY);
}

#[test]
fn seeds_101_to_150() {
    all_hold(101..=150, ANY);
}

#[test]
fn seeds_151_to_200() {
    all_hold(151..=200, ANY);
}

/// Case 29, case 30 of the same ring: parts of a cut ring become one again within two minutes.
#[test]
fn parts_become_one_ring_again() {
    all_hold(1..=9, CheckConfig { nodes: 24, minutes: 2, kind: WorldKind::Partition });
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let config = CheckConfig { nodes: 16, minutes: 3, kind: WorldKind::Any };
    assert_eq!(check(config, 7), check(config, 7));
    assert_ne!(check(config, 7).outcome.trace, check(config, 8).outcome.trace);
}
