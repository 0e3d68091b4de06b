//! Fault cases of the ring that other projects met (`docs/faults.md`), each as its smallest test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dht_core::config::RingParams;
use dht_core::event::{Memory, Purpose, RpcId};
use dht_core::message::RingId;
use dht_core::message::client::{LookupFailure, NodeState};
use dht_core::message::ring::{Request, Response, Routing};
use dht_core::node::Node;
use dht_core::peer::Signature;
use dht_core::{
    Command, Config, Contact, Effect, Event, Id, Instant, Interval, Notice, PeerKey, PeerRecord,
};
use dht_sim::faults::FaultPlan;
use dht_sim::world::{World, WorldConfig, ids as places};

use crate::common::{depth, ids, ring, settle, story};

/// How long a dead node may still be pointed to: its head's probes, the indirect one, and pushes to
/// everybody else (`docs/simulation.md`, "Mending"), with room.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(10);

fn nobody_points_to(world: &World, node: u64) {
    let gone = Id::from_u64(node);
    for (id, held) in &world.links().nodes {
        let holds = held.successors.contains(&gone) || held.predecessors.contains(&gone);
        assert!(!holds, "{id:?} keeps {node}: {held:?}\n{}", story(world));
    }
}

/// Case 2: a node whose record names a wrong address cannot be dialled; nobody takes it over, and
/// nobody else is disturbed.
#[test]
fn one_that_cannot_be_dialled_is_never_adopted() {
    let members = [0, 10, 20, 30, 40];
    let mut world = ring(WorldConfig::new(depth(3), 1), &members);
    let before = world.links().clone();
    world.join(15, 30);
    world.misdirect(15);
    world.run_for(Duration::from_secs(60));
    nobody_points_to(&world, 15);
    for node in ids(&members) {
        assert_eq!(world.links().nodes[&node], before.nodes[&node]);
    }
}

/// Case 2 on a ring that had such a node as a member: it is dropped, and comes back by itself as
/// soon as it can be dialled.
#[test]
fn a_member_that_cannot_be_dialled_any_more_is_dropped() {
    let mut world = ring(WorldConfig::new(depth(3), 2), &[0, 10, 20, 30, 40]);
    world.misdirect(20);
    world.run_for(FAILURE_TIMEOUT);
    for node in ids(&[0, 10, 30, 40]) {
        assert!(!world.links().nodes[&node].successors.contains(&Id::from_u64(20)));
    }
    world.heal();
    settle(&mut world);
}

/// Case 15, the ring's part: sixteen joins at once through one member.
#[test]
fn sixteen_join_at_once_through_one_member() {
    for seed in 0..5 {
        let mut world = ring(WorldConfig::new(Config::default(), seed), &[0]);
        (1..=16).for_each(|node| world.join(node * 10, 0));
        settle(&mut world);
        assert_eq!(world.members().len(), 17);
    }
}

/// Case 19: the joiner dies after each event of its join in turn.
#[test]
fn a_joiner_that_dies_at_any_moment_leaves_no_ghost() {
    let before = ring(WorldConfig::new(depth(3), 3), &[0, 10, 20, 30]);
    let events = events_of_a_join(before.clone());
    for moment in 0..events {
        let mut world = before.clone();
        world.join(15, 30);
        run_events(&mut world, moment);
        world.fail(15);
        world.run_for(FAILURE_TIMEOUT);
        nobody_points_to(&world, 15);
        assert_eq!(world.problems(), [], "after {moment} events");
        settle(&mut world);
    }
}

/// Scenario S15, second part: the member that lets the joiner in dies after each event in turn.
#[test]
fn the_host_of_a_join_may_die_at_any_moment() {
    let before = ring(WorldConfig::new(depth(3), 4), &[0, 10, 20, 30, 40]);
    let events = events_of_a_join(before.clone());
    for moment in 0..events {
        let mut world = before.clone();
        world.join(15, 30);
        run_events(&mut world, moment);
        world.fail(10);
        settle(&mut world);
        assert!(world.is_member(15), "after {moment} events");
    }
}

fn events_of_a_join(mut world: World) -> u64 {
    let before = world.trace().count();
    world.join(15, 30);
    let end = world.now().after(FAILURE_TIMEOUT);
    let is_placed = |world: &World| world.is_member(15) && world.flaws().is_empty();
    assert!(world.run_while(end, is_placed));
    world.trace().count() - before
}

fn run_events(world: &mut World, events: u64) {
    let enough = world.trace().count() + events;
    let end = world.now().after(FAILURE_TIMEOUT);
    world.run_while(end, |world| world.trace().count() >= enough);
}

/// Case 23: of twelve nodes with lists of four, three or four neighbours die in one instant, at
/// every place of the ring.
#[test]
fn consecutive_successors_die_together() {
    let members: Vec<u64> = (0..12).map(|n| n * 10).collect();
    let before = ring(WorldConfig::new(depth(4), 5), &members);
    for (dead, start) in [3, 4].into_iter().flat_map(|dead| (0..12).map(move |at| (dead, at))) {
        let mut world = before.clone();
        (0..dead).for_each(|step| world.fail(members[(start + step) % 12]));
        let end = world.now().after(Duration::from_secs(60));
        // Whoever lost its whole list must not turn into a ring of its own.
        let owns_all = |world: &World| {
            let all = |held: Interval| held.is_full();
            let snapshots = world.running().into_iter().filter_map(|n| world.snapshot(n));
            snapshots.into_iter().any(|snapshot| snapshot.owned.is_some_and(all))
        };
        assert!(!world.run_while(end, owns_all), "{dead} from {start}\n{}", story(&world));
        settle(&mut world);
        assert_eq!(world.members().len(), 12 - dead);
    }
}

/// Case 26: no live neighbour is forgotten: whoever was in a list and lives is in a list or
/// remembered.
#[test]
fn no_live_neighbor_is_forgotten() {
    for seed in 0..20 {
        let members: Vec<u64> = (0..12).map(|n| n * 10).collect();
        let mut world = ring(WorldConfig::new(depth(3), seed), &members);
        for node in [seed % 12, (seed + 1) % 12, (seed + 5) % 12] {
            world.fail(node * 10);
            world.join(node * 10 + 5, (node * 10 + 30) % 120);
            world.run_for(Duration::from_millis(700 * seed));
        }
        for node in world.members() {
            let snapshot = world.snapshot(node).expect("it runs");
            let lists = [snapshot.successors, snapshot.predecessors, snapshot.remembered];
            let held = lists.concat();
            for other in world.acquaintances(node) {
                let lives = world.links().nodes.contains_key(&other);
                let is_held = held.iter().any(|contact| contact.id == other);
                assert!(!lives || is_held, "seed {seed}: {node} forgot {other:?}");
            }
        }
    }
}

/// Case 27: too many hops are an error, and counted as one.
#[test]
fn a_lookup_that_takes_too_many_hops_fails_and_is_counted() {
    let config = Config { max_hops: 3, ..depth(2) };
    let mut world = ring(WorldConfig::new(config, 6), &(0..16).collect::<Vec<u64>>());
    let near = world.look_up(0, Id::from_u64(3), Some(1), Purpose::Client);
    let far = world.look_up(0, Id::from_u64(9), Some(1), Purpose::Client);
    assert!(world.run_until_answered(Duration::from_secs(20), [near, far]));
    let mut failure = |op| match world.take_outcome(op) {
        Some(Notice::Found { report, .. }) => report.failure,
        other => panic!("{other:?}"),
    };
    assert_eq!((failure(near), failure(far)), (None, Some(LookupFailure::TooManyHops)));
    let counters = world.snapshot(0).expect("it runs").counters;
    let counts = &counters.lookups[&(Routing::Successors, 1)];
    assert_eq!((counts.failed, counts.hops.counts()), (1, [0, 0, 0, 1].as_slice()));
}

/// Case 31: one direction between two neighbours is cut. Others can tell each that the other lives,
/// so nobody is replaced.
#[test]
fn one_way_reachability_does_not_stir_the_ring() {
    for (from, to) in [(0, 10), (10, 0), (0, 20), (20, 0)] {
        let mut world = ring(WorldConfig::new(depth(3), 7), &[0, 10, 20, 30, 40, 50]);
        world.cut_one_way(from, to);
        let before = world.now();
        let changes = |world: &World| -> BTreeMap<u64, u64> {
            let count = |n: u64| {
                let upkeep = world.snapshot(n).expect("it runs").counters.upkeep;
                (n, upkeep.deaths + upkeep.repairs + upkeep.rectifications)
            };
            world.running().into_iter().map(count).collect()
        };
        let counts = changes(&world);
        world.run_for(Duration::from_secs(120));
        let failure_periods = world.now().since(before).as_secs() / FAILURE_TIMEOUT.as_secs();
        for (node, count) in changes(&world) {
            let changed = count - counts[&node];
            assert!(changed <= failure_periods, "{node} changed {changed} times, cut {from} {to}");
        }
        assert_eq!(world.members().len(), 6);
        world.heal();
        settle(&mut world);
    }
}

/// Case 34: woken exactly at each deadline, a node always moves the next one forward - with nobody
/// to talk to, and with neighbours that have fallen silent.
#[test]
fn the_next_deadline_always_lies_ahead() {
    let params = RingParams::founding(RingId(1), 3);
    for remembers in [false, true] {
        let now = Instant(1);
        let mut node = Node::new(contact(1, 1), params, Arc::new(Config::default()), 1, now);
        let command = match remembers {
            true => {
                Command::Remember(Memory { contacts: vec![contact(2, 1)], ..Memory::default() })
            }
            false => Command::Found,
        };
        node.handle_event(now, Event::Command(command));
        for _ in 0..2_000 {
            while node.poll_effect().is_some() {}
            let Some(due) = node.poll_timeout() else { break };
            node.handle_timeout(due);
            while node.poll_effect().is_some() {}
            assert!(node.poll_timeout().is_none_or(|next| next > due), "at {due:?}");
        }
    }
}

/// Case 39: periods are taken in their unit, short and long ones.
#[test]
fn periods_are_kept_in_their_unit() {
    for period in [Duration::from_millis(10), Duration::from_secs(3600)] {
        // Two that ask each other at the same moment wait for one time-out.
        let min_timeout = Duration::from_millis(2);
        let config = Config { stabilize_every: period, min_timeout, ..depth(2) };
        // Faster than the shortest period: a run that is under way is not begun again.
        let plan = FaultPlan {
            shortest_delay: Duration::from_micros(100),
            longest_delay: Duration::from_millis(1),
            ..FaultPlan::default()
        };
        let config = WorldConfig { plan, ..WorldConfig::new(config, 8) };
        let mut world = World::new(config).expect("within bounds");
        world.found(0);
        world.join(10, 0);
        world.run_for(period * 3);
        let count =
            |world: &World| world.snapshot(0).expect("it runs").counters.upkeep.stabilizations;
        let before = count(&world);
        world.run_for(period * 200);
        let runs = count(&world) - before;
        // Jittered by 0.5 to 1.5, two hundred periods hold about two hundred runs.
        assert!((170..=240).contains(&runs), "{runs} runs in 200 periods of {period:?}");
    }
}

/// Case 97: a clock at zero, and one that ends.
#[test]
fn clocks_at_their_ends_do_no_harm() {
    let almost_over = Instant(u64::MAX - 40_000_000);
    for start in [Instant::ZERO, almost_over] {
        let config = WorldConfig { start, ..WorldConfig::new(depth(2), 9) };
        let mut world = World::new(config).expect("within bounds");
        world.found(0);
        world.join(10, 0);
        world.join(20, 0);
        world.run_for(Duration::from_secs(30));
        assert_eq!((world.flaws(), world.problems()), (vec![], [].as_slice()), "from {start:?}");
        world.fail(10);
        world.run_for(Duration::from_secs(3600));
        assert_eq!(world.problems(), []);
    }
}

/// Case 97: endless time-outs never end, and overflow nothing.
#[test]
fn endless_time_outs_overflow_nothing() {
    let endless = Duration::from_secs(u64::MAX);
    let config = Config {
        stabilize_every: endless,
        initial_timeout: endless,
        min_timeout: endless,
        max_timeout: endless,
        lookup_timeout: endless,
        operation_timeout: endless,
        merge_probe_every: endless,
        repair_every: endless,
        ..Config::default()
    };
    let params = RingParams::founding(RingId(1), 3);
    let now = Instant(u64::MAX - 10);
    let mut node = Node::new(contact(1, u64::MAX), params, Arc::new(config), 1, now);
    node.handle_event(now, Event::Command(Command::Join { via: vec![contact(2, u64::MAX)] }));
    let mut asked: Vec<(RpcId, Request)> = Vec::new();
    while let Some(effect) = node.poll_effect() {
        if let Effect::Send { rpc, request, .. } = effect {
            asked.push((rpc, request));
        }
    }
    let (rpc, _) = asked.pop().expect("it asks its way in");
    let event =
        Event::Response { rpc, response: Response::NotMember, record: None, connect_us: u64::MAX };
    node.handle_event(now, event);
    node.handle_timeout(Instant(u64::MAX));
    node.handle_event(Instant(u64::MAX), Event::Command(Command::Stabilize));
    node.handle_timeout(Instant(u64::MAX));
    assert_eq!(node.snapshot().state, NodeState::Joining);
}

/// A node is dead for the rest of the ring exactly as long as its life lasts: the next one is
/// heard.
#[test]
fn a_restart_is_noticed_as_a_new_life() {
    let mut world = ring(WorldConfig::new(depth(3), 10), &[0, 10, 20, 30]);
    world.run_for(Duration::from_secs(5));
    world.restart(20);
    settle(&mut world);
    let snapshot = world.snapshot(10).expect("it runs");
    assert_eq!(places(&snapshot.successors)[0], Id::from_u64(20));
    assert_eq!(snapshot.successors[0].incarnation(), 2);
}

fn contact(n: u8, incarnation: u64) -> Contact {
    let record = PeerRecord {
        key: PeerKey([n; 32]),
        incarnation,
        revision: u32::MAX,
        addrs: Vec::new(),
        signature: Signature([0; 64]),
    };
    Contact::at(Id::from_u64(n.into()), Arc::new(record))
}
