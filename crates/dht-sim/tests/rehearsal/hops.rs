//! Case 98: hops as real nodes count them.

use std::time::Duration;

use dht_core::event::Purpose;
use dht_core::message::ring::Routing;
use dht_core::stats::LookupCounts;
use dht_core::{Config, Id, theory};
use dht_sim::world::WorldConfig;

use crate::common::{ring, settle};

/// Every member looks up the place of every member; what all of them counted together.
fn counted(nodes: u64, depth: u16) -> LookupCounts {
    let members: Vec<u64> = (0..nodes).map(|n| n * 10).collect();
    let mut world = ring(WorldConfig::new(Config::default(), nodes), &members);
    for asker in &members {
        let ask =
            |key: &u64| world.look_up(*asker, Id::from_u64(*key), Some(depth), Purpose::Client);
        let asked: Vec<_> = members.iter().map(ask).collect();
        assert!(world.run_until_answered(Duration::from_secs(60), asked));
    }
    settle(&mut world);
    let mut all = LookupCounts::default();
    for node in members {
        let counters = world.snapshot(node).expect("it runs").counters;
        let counts = &counters.lookups[&(Routing::Successors, depth)];
        all.hops.merge(&counts.hops);
        all.failed += counts.failed;
        all.timeouts += counts.timeouts;
        all.cached += counts.cached;
    }
    all
}

#[test]
fn measured_hops_equal_the_formula() {
    for (nodes, depth) in [(1, 1), (2, 1), (3, 1), (3, 2), (16, 1), (16, 3), (64, 1), (64, 16)] {
        let counts = counted(nodes, depth);
        assert_eq!(counts.hops.total(), nodes * nodes);
        assert_eq!((counts.failed, counts.timeouts, counts.cached), (0, 0, 0));
        assert_eq!(counts.hops.counts()[0], nodes, "a local hit is no hop");
        let mean = counts.hops.mean().expect("counted");
        let expected = theory::successors_mean(nodes, depth);
        assert!((mean - expected).abs() < 1e-9, "{nodes}, {depth}: {mean} against {expected}");
        for (hops, count) in counts.hops.counts().iter().enumerate() {
            let expected = theory::successors_probability(nodes, depth, hops as u64);
            let share = *count as f64 / (nodes * nodes) as f64;
            assert!((share - expected).abs() < 1e-9, "{hops} hops at {nodes}, {depth}");
        }
    }
}

#[test]
fn detours_are_counted_apart_from_hops() {
    let members: Vec<u64> = (0..8).map(|n| n * 10).collect();
    let mut world = ring(WorldConfig::new(Config::default(), 1), &members);
    world.fail(30);
    let op = world.look_up(10, Id::from_u64(45), Some(1), Purpose::Client);
    assert!(world.run_until_answered(Duration::from_secs(20), [op]));
    let counters = world.snapshot(10).expect("it runs").counters;
    let counts = &counters.lookups[&(Routing::Successors, 1)];
    assert_eq!(counts.hops.counts(), [0, 0, 0, 1], "20, 40, 50: the dead node is no hop");
    assert_eq!((counts.timeouts, counts.failed), (1, 0));
}
