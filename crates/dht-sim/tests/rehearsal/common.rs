//! What several test files share.

// Each test binary uses some of these and not the others.
#![allow(dead_code)]

use std::time::Duration;

use dht_core::{Config, Id};
use dht_sim::invariants::{Links, one_live_successor, sufficient_principals};
use dht_sim::world::{QUIET_LIMIT, World, WorldConfig};

/// Settings with lists of `depth` entries.
pub fn depth(depth: u16) -> Config {
    Config { depth, min_list: depth, predecessor_peers: depth.min(32), ..Config::default() }
}

/// A world in which these nodes form an ideal ring: the first one founds it, the others join one
/// after the other.
pub fn ring(config: WorldConfig, nodes: &[u64]) -> World {
    let mut world = World::new(config).expect("the settings are within their bounds");
    world.found(nodes[0]);
    for node in &nodes[1..] {
        world.join(*node, nodes[0]);
        let end = world.now().after(Duration::from_secs(60));
        assert!(world.run_while(end, |world| world.is_member(*node)), "{node} does not get in");
    }
    settle(&mut world);
    world
}

/// Waits until the world is quiet; nothing may be wrong then.
pub fn settle(world: &mut World) {
    let quiet = world.run_until_quiet(QUIET_LIMIT);
    assert_eq!((quiet, world.flaws()), (Ok(()), Vec::new()), "{}", story(world));
    assert_eq!(world.problems(), [], "{}", story(world));
}

/// The last lines of what happened, for whoever has to find out why.
pub fn story(world: &World) -> String {
    world.trace().last_lines().collect::<Vec<_>>().join("\n")
}

/// Whether the proofs still hold without this node: everybody keeps a live entry, and enough
/// members are left that nobody skips. Rings that are too small for that may lose nobody.
pub fn may_lose(world: &World, node: u64) -> bool {
    let Some(id) = world.id_of(node) else { return false };
    let mut links: Links = world.links().clone();
    links.nodes.remove(&id);
    one_live_successor::check(&links).is_empty() && sufficient_principals::check(&links).is_empty()
}

/// The points of these nodes.
pub fn ids(nodes: &[u64]) -> Vec<Id> {
    nodes.iter().map(|node| Id::from_u64(*node)).collect()
}
