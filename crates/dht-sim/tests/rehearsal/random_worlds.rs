//! Worlds in which nodes come and go at random while messages are slow and get lost. Faults stay
//! within the conditions of the proofs, so every invariant is checked after every event.

use std::ops::Range;
use std::time::Duration;

use dht_sim::faults::FaultPlan;
use dht_sim::world::{World, WorldConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common::{depth, may_lose, settle, story};

/// Nodes are numbered below this, so that ids are used again.
const NUMBERS: u64 = 24;
/// How many times something is done to each world.
const DEEDS: usize = 30;
/// Between two faults that take a node away, upkeep gets so long: dead heads are found and lists
/// mended again (`docs/simulation.md`, "Mending").
const REPAIR_WINDOW: Duration = Duration::from_secs(10);

fn plan(rng: &mut Pcg64Mcg) -> FaultPlan {
    FaultPlan {
        longest_delay: Duration::from_millis(rng.random_range(5..150)),
        loss_per_mille: rng.random_range(10..=50),
        ..FaultPlan::default()
    }
}

fn pick(rng: &mut Pcg64Mcg, from: &[u64]) -> Option<u64> {
    (!from.is_empty()).then(|| from[rng.random_range(0..from.len())])
}

/// One random thing, if it may be done now. Whether it took a node away.
fn deed(world: &mut World, rng: &mut Pcg64Mcg) -> bool {
    let (running, members) = (world.running(), world.members());
    let number = rng.random_range(0..NUMBERS);
    match rng.random_range(0..10) {
        0..5 => {
            if let Some(via) = pick(rng, &members)
                && !running.contains(&number)
            {
                match world.snapshot(number).is_some() && rng.random() {
                    true => world.restart(number),
                    false => world.join(number, via),
                }
            }
            false
        }
        kind => {
            let Some(victim) = pick(rng, &members).filter(|victim| may_lose(world, *victim)) else {
                return false;
            };
            match kind {
                5..8 => world.fail(victim),
                8 => world.leave(victim),
                _ => world.stop(victim),
            }
            true
        }
    }
}

fn live(seed: u64) -> World {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let config = depth(rng.random_range(2..=4));
    let config = WorldConfig { plan: plan(&mut rng), ..WorldConfig::new(config, seed) };
    let mut world = World::new(config).expect("the settings are within their bounds");
    world.found(0);
    for _ in 0..DEEDS {
        let took = deed(&mut world, &mut rng);
        let pause = Duration::from_millis(rng.random_range(0..2000));
        let end = world.now().after(if took { REPAIR_WINDOW + pause } else { pause });
        // Stopping at the first problem, the story ends where it happened.
        world.run_while(end, |world| !world.problems().is_empty());
        assert_eq!(world.problems(), [], "seed {seed}\n{}", story(&world));
    }
    world
}

fn all_end_ideal(seeds: Range<u64>) {
    for seed in seeds {
        let mut world = live(seed);
        world.retry_joins();
        settle(&mut world);
    }
}

// Four tests, so that they run side by side.

#[test]
fn fifty_worlds_end_ideal() {
    all_end_ideal(0..50);
}

#[test]
fn fifty_more_worlds_end_ideal() {
    all_end_ideal(50..100);
}

#[test]
fn another_fifty_worlds_end_ideal() {
    all_end_ideal(100..150);
}

#[test]
fn the_last_fifty_worlds_end_ideal() {
    all_end_ideal(150..200);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |seed| live(seed).trace().digest();
    assert_eq!(hash(3), hash(3));
    assert_ne!(hash(3), hash(4));
}
