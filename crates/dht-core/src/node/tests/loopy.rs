//! A ring that winds twice looks well to each of its nodes: heads and predecessors agree, every list is
//! in order. Only a walk all the way round shows it.

use std::time::Duration;

use super::world::{World, number};
use crate::config::Config;
use crate::message::Routings;
use crate::testing::contact;

/// Six nodes in two windings, 0 20 40 and 10 30 50, with lists of two; none remembers anybody else.
fn winding_twice() -> World {
    let config = Config {
        depth: 2,
        min_list: 2,
        predecessor_peers: 1,
        keep: Routings::LEAST,
        keeps_data: false,
        ..Config::default()
    };
    let mut world = World::new(config);
    let cycle = [100, 120, 140, 110, 130, 150];
    for n in cycle {
        world.add(n);
    }
    for (at, n) in cycle.into_iter().enumerate() {
        let next = |step: usize| contact(cycle[(at + step) % cycle.len()]);
        let node = world.node(n);
        node.ring.found();
        node.ring.links_mut().set_successors([next(1), next(2)]);
        node.ring.links_mut().set_predecessor(Some(next(5)));
        node.placed();
    }
    world
}

fn heads(world: &World) -> Vec<(u64, u64)> {
    let head = |node: &super::Node| node.successors().first().map_or(0, number);
    world.nodes.iter().map(|(n, node)| (*n, head(node))).collect()
}

#[test]
fn a_ring_that_winds_twice_is_straightened() {
    let mut world = winding_twice();
    let twisted = [(100, 120), (110, 130), (120, 140), (130, 150), (140, 110), (150, 100)];
    assert_eq!(heads(&world), twisted);
    // Upkeep alone sees nothing wrong; the walk comes with the merge probe.
    world.run(Duration::from_secs(4));
    assert_eq!(heads(&world), twisted);
    world.run(Duration::from_secs(60));
    let straight = [(100, 110), (110, 120), (120, 130), (130, 140), (140, 150), (150, 100)];
    assert_eq!(heads(&world), straight);
    let merges: u64 = world.nodes.values().map(|node| node.counters().upkeep.merges).sum();
    assert!(merges > 0, "it was seen by the walk");
}
