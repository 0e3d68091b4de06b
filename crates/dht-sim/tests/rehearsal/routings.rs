//! Lookups by every routing that live nodes have: hop for hop as the rule says where all is well, and right
//! where it is not.

use std::collections::BTreeMap;
use std::time::Duration;

use dht_core::event::Purpose;
use dht_core::message::Routings;
use dht_core::message::client::LookupReport;
use dht_core::message::ring::Routing;
use dht_core::{Config, Id, Notice};
use dht_sim::hops::RingTable;
use dht_sim::world::{World, WorldConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How long a lookup may take among the dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// A ring of random places that has been there for a while.
fn grown(nodes: u64, config: Config, seed: u64) -> World {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut world = World::new(WorldConfig::new(config, seed)).expect("within all bounds");
    world.grow((0..nodes).map(|n| (n, random_id(&mut rng))).collect());
    world.run_for(Duration::from_secs(120));
    assert_eq!(world.flaws(), []);
    world
}

fn random_id(rng: &mut Pcg64Mcg) -> Id {
    Id::from_bytes(rng.random())
}

/// What came of lookups that all begin now.
fn look_up(
    world: &mut World,
    lookups: &[(u64, Id)],
    routing: Routing,
    depth: Option<u16>,
) -> Vec<LookupReport> {
    let ask = |(asker, key): &(u64, Id)| {
        world.look_up_by(*asker, *key, Some(routing), depth, Purpose::Client)
    };
    let asked: Vec<_> = lookups.iter().map(ask).collect();
    world.run_for(PATIENCE + Duration::from_secs(1));
    let outcome = |op| match world.take_outcome(op) {
        Some(Notice::Found { report, .. }) => report,
        other => panic!("a lookup ends within its time: {other:?}"),
    };
    asked.into_iter().map(outcome).collect()
}

fn draw(world: &World, count: usize, rng: &mut Pcg64Mcg) -> Vec<(u64, Id)> {
    let members = world.members();
    (0..count).map(|_| (members[rng.random_range(0..members.len())], random_id(rng))).collect()
}

fn owner(world: &World, key: Id) -> Id {
    let members: Vec<Id> = world.links().members().map(|(id, _)| id).collect();
    let at = members.partition_point(|id| *id < key);
    members[at % members.len()]
}

#[test]
fn live_nodes_walk_as_the_rule_says() {
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    for nodes in [2, 5, 60] {
        let mut world = grown(nodes, Config::default(), nodes);
        let ids: Vec<Id> = world.links().members().map(|(id, _)| id).collect();
        let table = RingTable::new(ids.clone());
        let rank: BTreeMap<Id, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        for routing in Routing::ALL {
            for depth in [1, 2, 5, 16] {
                let lookups = draw(&world, 60, &mut rng);
                let reports = look_up(&mut world, &lookups, routing, Some(depth));
                for ((asker, key), report) in lookups.iter().zip(reports) {
                    let asker = rank[&world.id_of(*asker).expect("it runs")];
                    let wanted = table.hops(asker, *key, routing, depth).expect("all live");
                    let found = report.owner.as_ref().map(|held| held.id);
                    assert_eq!(found, Some(owner(&world, *key)));
                    let case = format!("{routing:?} {depth} of {nodes}: {report:#?}");
                    assert!(report.path.iter().all(|step| !step.fell_back), "{case}");
                    match routing {
                        // Among those who are equally near, nodes choose by latency.
                        Routing::Fingers if depth >= 4 => {
                            assert!((report.hops as usize).abs_diff(wanted) <= 1, "{case}");
                        }
                        _ => assert_eq!(
                            (report.hops as usize, report.timeouts),
                            (wanted, 0),
                            "{case}"
                        ),
                    }
                }
            }
        }
    }
}

/// A quarter of all dies at once; nobody has noticed yet.
#[test]
fn every_routing_finds_its_way_round_the_dead() {
    for (seed, routing) in (1..=4).flat_map(|seed| Routing::ALL.map(|routing| (seed, routing))) {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        // One after the other is found dead, where several in a row are.
        let config = Config { lookup_timeout: PATIENCE, ..Config::default() };
        let mut world = grown(48, config, seed);
        let dead: Vec<u64> = (0..48).filter(|_| rng.random_range(0..4) == 0).collect();
        dead.iter().for_each(|n| world.fail(*n));
        let lookups = draw(&world, 40, &mut rng);
        let reports = look_up(&mut world, &lookups, routing, Some(4));
        let mut timeouts = 0;
        for ((_, key), report) in lookups.iter().zip(reports) {
            timeouts += report.timeouts;
            let found = report.owner.as_ref().map(|held| held.id);
            assert_eq!(found, Some(owner(&world, *key)), "{routing:?} {seed}: {report:#?}");
        }
        assert!(timeouts > 0, "somebody met the dead");
        assert_eq!(world.problems(), []);
    }
}

/// Nodes that keep state for different routings are one ring: whoever lacks it goes by its links, and the
/// path says so.
#[test]
fn a_mixed_ring_answers_every_lookup() {
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut world = grown(30, Config::default(), 3);
    for n in 0..30 {
        let keep: Routings = Routing::ALL.into_iter().skip(n as usize % 4).take(1).collect();
        world.configure(n, |config| config.keep = keep);
        world.restart(n);
        world.run_for(Duration::from_secs(20));
    }
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.problems(), []);
    for routing in Routing::ALL {
        let lookups = draw(&world, 60, &mut rng);
        let reports = look_up(&mut world, &lookups, routing, Some(2));
        let mut fell_back = 0;
        for ((_, key), report) in lookups.iter().zip(reports) {
            let found = report.owner.as_ref().map(|held| held.id);
            assert_eq!(found, Some(owner(&world, *key)), "{routing:?}: {report:#?}");
            fell_back += report.path.iter().filter(|step| step.fell_back).count();
        }
        assert_eq!(fell_back > 0, routing != Routing::Successors, "{routing:?}");
    }
}

/// What every member's map says.
fn maps(world: &World) -> Vec<(u64, Vec<Id>)> {
    let named = |n: u64| world.map_of(n).into_iter().map(|held| held.contact.id).collect();
    world.members().into_iter().map(|n| (n, named(n))).collect()
}

fn members(world: &World) -> Vec<Id> {
    world.links().members().map(|(id, _)| id).collect()
}

/// Members come, stop, die and come back; a while later every map names everybody who is there, and nobody else.
#[test]
fn every_map_names_everybody_after_a_while() {
    for seed in 1..=3 {
        // Other places than those of the ring.
        let mut rng = Pcg64Mcg::seed_from_u64(100 + seed);
        let mut world = grown(60, Config::default(), seed);
        assert!(maps(&world).iter().all(|(_, named)| *named == members(&world)), "{seed}");
        for n in 60..75 {
            world.join_at(n, random_id(&mut rng), n % 7);
            world.fail(20 + n - 60);
            if n % 3 == 0 {
                world.stop(40 + n - 60);
            }
            world.run_for(Duration::from_millis(rng.random_range(0..4000)));
        }
        for n in 20..25 {
            world.restart(n);
        }
        world.run_for(Duration::from_secs(60));
        for (n, named) in maps(&world) {
            assert_eq!(named, members(&world), "{seed}: the map of {n}");
        }
        assert_eq!(world.problems(), []);
    }
}

/// A ring that was cut in two: in each part the maps forget the other, and after it healed they name all.
#[test]
fn maps_follow_a_ring_that_parts_and_heals() {
    let mut world = grown(40, Config::default(), 5);
    let all = members(&world);
    let (left, right): (Vec<u64>, Vec<u64>) = (0..40).partition(|n| n % 2 == 0);
    world.partition(&[left.clone(), right.clone()]);
    world.run_for(Duration::from_secs(120));
    for side in [&left, &right] {
        let mut here: Vec<Id> = side.iter().filter_map(|n| world.id_of(*n)).collect();
        here.sort();
        for n in side {
            let named: Vec<Id> = world.map_of(*n).into_iter().map(|held| held.contact.id).collect();
            assert_eq!(named, here, "the map of {n}");
        }
    }
    world.heal();
    world.run_for(Duration::from_secs(180));
    for (n, named) in maps(&world) {
        assert_eq!(named, all, "the map of {n}");
    }
    assert_eq!(world.problems(), []);
}
