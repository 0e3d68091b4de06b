//! Lookups that members hand on: the same way as those that their askers carry themselves, in fewer delays;
//! and right among the dead, on slow ways, and where nodes keep state for different routings.

use std::time::Duration;

use dht_core::event::{OpId, Purpose};
use dht_core::message::client::LookupReport;
use dht_core::message::forward::HandedReport;
use dht_core::message::ring::Routing;
use dht_core::message::{Forwarding, Routings};
use dht_core::{Config, Id, Notice};
use dht_sim::faults::FaultPlan;
use dht_sim::world::{LookupOrder, World, WorldConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Those that live nodes have.
const LIVE: [Routing; 3] = [Routing::Successors, Routing::BothWays, Routing::Fingers];
/// How long a lookup may take among the dead.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long every message takes, where all take as long.
const DELAY: Duration = Duration::from_millis(20);

fn random_id(rng: &mut Pcg64Mcg) -> Id {
    Id::from_bytes(rng.random())
}

/// A ring of random places that has been there for a while, and whose messages all take [`DELAY`].
fn grown(nodes: u64, config: Config, seed: u64) -> World {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let plan = FaultPlan { shortest_delay: DELAY, longest_delay: DELAY, ..FaultPlan::default() };
    let setup = WorldConfig { plan, kept_lines: 0, ..WorldConfig::new(config, seed) };
    let mut world = World::new(setup).expect("within all bounds");
    world.grow((0..nodes).map(|n| (n, random_id(&mut rng))).collect());
    world.run_for(Duration::from_secs(120));
    assert_eq!(world.flaws(), []);
    world
}

/// How lookups go.
#[derive(Clone, Copy, Debug)]
struct Way {
    routing: Routing,
    depth: u16,
    forwarding: Forwarding,
}

fn order(world: &mut World, (asker, key): (u64, Id), way: Way) -> OpId {
    let order = LookupOrder {
        key,
        routing: Some(way.routing),
        depth: Some(way.depth),
        forwarding: Some(way.forwarding),
        purpose: Purpose::Client,
    };
    world.order_lookup(asker, order)
}

/// What came of lookups that all begin now.
fn look_up(world: &mut World, lookups: &[(u64, Id)], way: Way) -> Vec<LookupReport> {
    let ops: Vec<OpId> = lookups.iter().map(|lookup| order(world, *lookup, way)).collect();
    assert!(world.run_until_answered(PATIENCE + Duration::from_secs(1), ops.clone()));
    let report = |op| match world.take_outcome(op) {
        Some(Notice::Found { report, .. }) => report,
        other => panic!("{other:?}"),
    };
    ops.into_iter().map(report).collect()
}

/// Who was gone to in turn, and whether whoever named it lacked state for the routing.
fn steps(report: &LookupReport) -> Vec<(Id, bool)> {
    match &report.handed {
        None => report.path.iter().map(|step| (step.contact.id, step.fell_back)).collect(),
        Some(HandedReport { path, .. }) => {
            assert!(report.path.is_empty());
            path.iter().map(|step| (step.place.id, step.fell_back)).collect()
        }
    }
}

/// The same lookups from the same ring, by both.
fn both(world: &World, lookups: &[(u64, Id)], routing: Routing, depth: u16) {
    let walk = |forwarding| {
        let way = Way { routing, depth, forwarding };
        let mut world = world.clone();
        let reports = look_up(&mut world, lookups, way);
        assert_eq!(world.problems(), []);
        reports
    };
    let (iterative, recursive) = (walk(Forwarding::Iterative), walk(Forwarding::Recursive));
    let delay = u64::try_from(DELAY.as_micros()).expect("short");
    for (one, other) in iterative.iter().zip(&recursive) {
        let case = format!("{routing:?} {depth}: {one:#?} {other:#?}");
        assert_eq!((&one.owner, one.hops), (&other.owner, other.hops), "{case}");
        assert_eq!((one.timeouts, other.timeouts), (0, 0), "{case}");
        assert_eq!(steps(one), steps(other), "{case}");
        assert!(other.handed.as_ref().is_some_and(|held| held.gave_up.is_none()), "{case}");
        let hops = u64::from(one.hops);
        assert_eq!(one.elapsed_us, 2 * hops * delay, "a round trip for each hop: {case}");
        let ways = if hops == 0 { 0 } else { hops + 1 };
        assert_eq!(other.elapsed_us, ways * delay, "one way for each, and the answer: {case}");
    }
}

/// Every asker, and keys on every arc.
fn all_pairs(world: &World) -> Vec<(u64, Id)> {
    let members = world.members();
    let keys: Vec<Id> = world.links().members().map(|(id, _)| id.wrapping_add(Id::MAX)).collect();
    members.iter().flat_map(|asker| keys.iter().map(move |key| (*asker, *key))).collect()
}

fn owner(world: &World, key: Id) -> Id {
    let members: Vec<Id> = world.links().members().map(|(id, _)| id).collect();
    let at = members.partition_point(|id| *id < key);
    members[at % members.len()]
}

#[test]
fn both_take_the_same_way_and_one_takes_half_as_long() {
    let world = grown(24, Config { depth: 4, min_list: 4, ..Config::default() }, 1);
    let pairs = all_pairs(&world);
    assert_eq!(pairs.len(), 24 * 24);
    for routing in LIVE {
        for depth in [1, 2, 3] {
            both(&world, &pairs, routing, depth);
        }
    }
    for depth in [4, 16] {
        both(&world, &pairs, Routing::Successors, depth);
        both(&world, &pairs, Routing::BothWays, depth);
    }
    // Here nodes choose by the round trips that they have measured, which grow with every lookup: each pair
    // begins from the same state.
    for pair in pairs.iter().step_by(5) {
        both(&world, &[*pair], Routing::Fingers, 16);
    }
}

#[test]
fn in_mixed_rings_both_go_by_the_links_alike() {
    let mut world = grown(20, Config { depth: 4, min_list: 4, ..Config::default() }, 3);
    for n in 0..20 {
        let keep: Routings = LIVE.into_iter().skip(n as usize % 3).take(1).collect();
        world.configure(n, |config| config.keep = keep);
        world.restart(n);
        world.run_for(Duration::from_secs(20));
    }
    world.run_for(Duration::from_secs(60));
    let pairs = all_pairs(&world);
    for routing in LIVE {
        both(&world, &pairs, routing, 2);
    }
}

/// A quarter of all dies at once; nobody has noticed yet.
#[test]
fn handed_on_lookups_find_their_way_round_the_dead() {
    let (mut handed, mut gave_up) = (0, 0);
    for (seed, routing) in (1..=4).flat_map(|seed| LIVE.map(|routing| (seed, routing))) {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let config = Config { lookup_timeout: PATIENCE, ..Config::default() };
        let mut world = grown(48, config, seed);
        let dead: Vec<u64> = (0..48).filter(|_| rng.random_range(0..4) == 0).collect();
        dead.iter().for_each(|n| world.fail(*n));
        let members = world.members();
        let draw = |_| (members[rng.random_range(0..members.len())], random_id(&mut rng));
        let lookups: Vec<(u64, Id)> = (0..40).map(draw).collect();
        let way = Way { routing, depth: 4, forwarding: Forwarding::Recursive };
        let reports = look_up(&mut world, &lookups, way);
        for ((_, key), report) in lookups.iter().zip(reports) {
            let found = report.owner.as_ref().map(|held| held.id);
            assert_eq!(found, Some(owner(&world, *key)), "{routing:?} {seed}: {report:#?}");
            let how = report.handed.expect("it was handed on");
            gave_up += usize::from(how.gave_up.is_some());
            // Met somebody silent, and was answered all the same.
            handed += usize::from(how.gave_up.is_none() && report.timeouts > 0);
        }
        assert_eq!(world.problems(), []);
    }
    assert!(handed > 20 && gave_up > 20, "{handed} {gave_up}");
}

/// All at once every way gets longer than the time-outs that were learnt: everybody who hands a question on
/// believes that the next one is silent, and tries others. They are slow, and all go on with it.
#[test]
fn on_ways_that_get_longer_questions_do_not_multiply() {
    let config = Config { lookup_timeout: PATIENCE, ..Config::default() };
    let world = grown(48, config, 9);
    let slow = Duration::from_millis(300);
    let plan = FaultPlan { shortest_delay: slow, longest_delay: slow, ..FaultPlan::default() };
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    for routing in LIVE {
        let mut world = world.clone();
        world.set_plan(plan);
        let asker = rng.random_range(0..48);
        let key = random_id(&mut rng);
        let taken = |world: &World| -> u64 {
            let counters = |n: u64| world.snapshot(n).expect("it runs").counters;
            (0..48).map(|n| counters(n).forwards.taken).sum()
        };
        let way = Way { routing, depth: 4, forwarding: Forwarding::Recursive };
        let reports = look_up(&mut world, &[(asker, key)], way);
        let found = reports[0].owner.as_ref().map(|held| held.id);
        assert_eq!(found, Some(owner(&world, key)), "{routing:?}: {reports:#?}");
        world.run_for(PATIENCE);
        // Seventeen copies at most, on ways of twelve hops.
        let taken = taken(&world);
        assert!((2..=17 * 12).contains(&taken), "{routing:?}: {taken}");
    }
}

/// Whoever has acknowledged a question and dies takes it along: its asker goes on by itself, in time.
#[test]
fn a_question_that_is_lost_is_carried_by_its_asker() {
    let mut world = grown(16, Config { depth: 4, min_list: 4, ..Config::default() }, 5);
    let ids: Vec<(Id, u64)> = world
        .links()
        .members()
        .map(|(id, _)| (id, world.number_at(id).expect("a node of this world")))
        .collect();
    let way = Way { routing: Routing::Successors, depth: 1, forwarding: Forwarding::Recursive };
    let op = order(&mut world, (ids[0].1, ids[3].0), way);
    // It has taken the question, which is on its way to the next one, and so is the acknowledgement.
    world.run_for(DELAY + DELAY / 2);
    world.fail(ids[1].1);
    world.fail(ids[2].1);
    assert!(world.run_until_answered(Duration::from_secs(10), [op]));
    let Some(Notice::Found { report, .. }) = world.take_outcome(op) else { panic!("it ended") };
    assert_eq!(report.owner.as_ref().map(|held| held.id), Some(ids[3].0), "{report:#?}");
    let handed = report.handed.as_ref().expect("it was handed on");
    assert!(handed.gave_up.is_some() && !report.path.is_empty(), "{report:#?}");
    assert_eq!(world.problems(), []);
}
