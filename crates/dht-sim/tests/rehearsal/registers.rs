//! Registers while the ring changes: what was written is read, always.

use std::time::Duration;

use bytes::Bytes;
use dht_core::event::{OpId, ReadOutcome, WriteOutcome};
use dht_core::register::{Key, Value};
use dht_core::{Config, Notice};
use dht_sim::world::{World, WorldConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common::{ring, settle, story};

/// Longest that clients wait.
const PATIENCE: Duration = Duration::from_secs(30);

fn key(n: usize) -> Key {
    Key::new(format!("key {n}")).expect("short")
}

fn value(n: usize) -> Value {
    Value::Present(Bytes::from(format!("value {n}")))
}

fn write_all(world: &mut World, members: &[u64], keys: usize) {
    let ops: Vec<OpId> =
        (0..keys).map(|n| world.write(members[n % members.len()], key(n), value(n))).collect();
    assert!(world.run_until_answered(PATIENCE, ops.iter().copied()), "{}", story(world));
    for op in ops {
        match world.take_outcome(op) {
            Some(Notice::Written { outcome: WriteOutcome::Done { .. }, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn check(outcome: Option<Notice>, n: usize) {
    match outcome {
        Some(Notice::Read { outcome: ReadOutcome::Value { register: Some(held), .. }, .. }) => {
            assert_eq!(held.value, value(n));
        }
        other => panic!("key {n}: {other:?}"),
    }
}

/// Case 17: alone, everything works, and one copy is all there can be.
#[test]
fn a_ring_of_one_keeps_and_finds() {
    let mut world = ring(WorldConfig::new(Config::default(), 1), &[7]);
    let write = world.write(7, key(1), value(1));
    assert!(world.run_until_answered(PATIENCE, [write]));
    match world.take_outcome(write) {
        Some(Notice::Written { outcome: WriteOutcome::Done { acks, wanted, .. }, .. }) => {
            assert_eq!((acks.len(), wanted), (1, 1));
        }
        other => panic!("{other:?}"),
    }
    let (held, none) = (world.read(7, key(1)), world.read(7, key(2)));
    assert!(world.run_until_answered(PATIENCE, [held, none]));
    check(world.take_outcome(held), 1);
    match world.take_outcome(none) {
        Some(Notice::Read { outcome: ReadOutcome::Value { register, .. }, .. }) => {
            assert_eq!(register, None, "nothing, for certain");
        }
        other => panic!("{other:?}"),
    }
}

/// Case 15: sixteen nodes join at once through one member while 500 keys exist; each key is
/// readable throughout.
#[test]
fn every_key_is_readable_while_sixteen_join_at_once() {
    const KEYS: usize = 500;
    let mut rng = Pcg64Mcg::seed_from_u64(15);
    let members = [0, 1 << 20, 2 << 20, 3 << 20];
    let mut world = World::new(WorldConfig::new(Config::default(), 15)).expect("within bounds");
    spread(&mut world, &members);
    write_all(&mut world, &members, KEYS);
    for joiner in 1..=16 {
        world.join_at(joiner, spread_id(&mut rng), members[0]);
    }
    let mut reads: Vec<(OpId, usize)> = Vec::new();
    for _ in 0..1_000 {
        world.run_for(Duration::from_millis(20));
        let askers = world.members();
        let n = rng.random_range(0..KEYS);
        reads.push((world.read(askers[rng.random_range(0..askers.len())], key(n)), n));
    }
    for n in 0..KEYS {
        let askers = world.members();
        reads.push((world.read(askers[n % askers.len()], key(n)), n));
    }
    assert!(world.run_until_answered(PATIENCE, reads.iter().map(|(op, _)| *op)));
    for (op, n) in reads {
        let outcome = world.take_outcome(op);
        check(outcome, n);
    }
    settle(&mut world);
    assert_eq!(world.members().len(), 20);
}

/// Keys lie anywhere on the circle of 2^160, so members should too.
fn spread(world: &mut World, members: &[u64]) {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    world.found_at(members[0], spread_id(&mut rng));
    for member in &members[1..] {
        world.join_at(*member, spread_id(&mut rng), members[0]);
    }
    settle(world);
}

fn spread_id(rng: &mut Pcg64Mcg) -> dht_core::Id {
    dht_core::Id::of_key(&rng.random::<u64>().to_be_bytes())
}

/// Case 50: a value that is renewed ten times over thirty days is there at every look.
#[test]
fn a_value_stays_for_thirty_days() {
    let hour = Duration::from_secs(3600);
    let config = Config {
        stabilize_every: hour,
        merge_probe_every: hour,
        repair_every: hour,
        ..Config::default()
    };
    let mut rng = Pcg64Mcg::seed_from_u64(50);
    let mut world = World::new(WorldConfig::new(config, 50)).expect("within bounds");
    world.found(0);
    for member in 1..4 {
        world.join(member, 0);
        world.run_for(hour);
    }
    world.run_for(hour * 10);
    for renewal in 0..10 {
        let write = world.write(renewal % 4, key(1), value(1));
        assert!(world.run_until_answered(PATIENCE, [write]));
        world.take_outcome(write).expect("it has ended");
        for look in 0..4 {
            world.run_for(hour * rng.random_range(1..36));
            let read = world.read((renewal + look) % 4, key(1));
            assert!(world.run_until_answered(PATIENCE, [read]));
            let outcome = world.take_outcome(read);
            check(outcome, 1);
        }
    }
    assert!(world.elapsed_us() > 20 * 24 * 3_600_000_000);
}
