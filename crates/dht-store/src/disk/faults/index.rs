//! The index on a failing disk (redb 620, redb 836): for every step that can fail, what was
//! acknowledged is there afterwards, and what was not is there as a whole or not at all.

use std::path::Path;

use bytes::Bytes;
use dht_core::manifest::ChunkRef;
use dht_core::peer::PeerKey;
use dht_core::register::{Ballot, Key, Register, Value};

use super::platter::{Fault, Shared};
use crate::disk::index::{Index, create_database};
use crate::disk::questions::{load, usage};
use crate::disk::tables::{Change, Entry, REGISTERS, chunk_row};
use crate::error::{Damaged, StoreError};

/// Changes that one script makes, each in a transaction of its own.
const CHANGES: u64 = 6;
/// Registers in each: enough to touch several pages.
const WIDTH: u64 = 12;

fn register(n: u64, counter: u64) -> Register {
    Register {
        key: Key::new(format!("key {n}")).unwrap(),
        ballot: Ballot { epoch: 1, counter, peer: PeerKey([1; 32]) },
        operations: vec![],
        value: Value::Present(Bytes::from(vec![counter as u8; 700])),
    }
}

fn save(counter: u64) -> Change {
    Change::Save((0..WIDTH).map(|n| Entry::new(&register(n, counter))).collect())
}

fn new_platter() -> Shared {
    let platter = Shared::default();
    create_database(&platter.opener()).unwrap();
    platter
}

fn open(platter: &Shared) -> Index {
    Index::open(Path::new("platter"), platter.opener()).unwrap()
}

/// The counter that all registers have; they must agree, for each change is one transaction.
fn counter(index: &Index) -> u64 {
    let counters: Vec<u64> = (0..WIDTH)
        .map(|n| {
            let key = register(n, 0).key;
            let held = index.read(|transaction| load(transaction, &key)).unwrap();
            held.map_or(0, |held| held.ballot.counter)
        })
        .collect();
    assert!(counters.iter().all(|counter| *counter == counters[0]), "torn: {counters:?}");
    counters[0]
}

/// Changes 1, 2, 3, .. until one fails; answers the last that was acknowledged, and the failure.
fn run(index: &Index) -> (u64, Option<StoreError>) {
    for counter in 1..=CHANGES {
        if let Err(error) = index.apply(&[save(counter)]) {
            return (counter - 1, Some(error));
        }
    }
    (CHANGES, None)
}

/// Steps of a whole script on a healthy disk, opening and closing included.
fn steps_of_a_run() -> u64 {
    let platter = new_platter();
    let before = platter.steps();
    let index = open(&platter);
    run(&index);
    index.close().unwrap();
    platter.steps() - before
}

/// Case 77: the old or the new state, whichever step fails.
#[test]
fn a_step_that_fails_once_loses_nothing_acknowledged() {
    let (mut writes, mut syncs) = (0, 0);
    for n in 0..steps_of_a_run() {
        let platter = new_platter();
        platter.set_fault(Some(Fault::Once(platter.steps() + n)));
        let Ok(index) = Index::open(Path::new("platter"), platter.opener()) else {
            // It failed while opening: nothing was acknowledged, and a second try succeeds.
            assert_eq!(counter(&open(&platter)), 0);
            continue;
        };
        let (acknowledged, error) = run(&index);
        let failed = platter.0.lock().unwrap().failed;
        match (failed, error) {
            // Nothing failed yet: it will while closing.
            (None, None) => assert_eq!(counter(&index), CHANGES),
            // After a failed sync nothing more is promised in this life.
            (Some("sync"), Some(StoreError::SyncFailed { .. })) => {
                syncs += 1;
                let later = index.apply(&[save(CHANGES + 1)]);
                assert!(matches!(later, Err(StoreError::SyncFailed { .. })), "step {n}");
            }
            // A failed write is mended on the spot: reopened, done again, acknowledged.
            (Some("write" | "set_len"), None) => {
                writes += 1;
                assert_eq!(counter(&index), CHANGES);
            }
            other => panic!("step {n}: {other:?}"),
        }
        let _ = index.close();
        let held = counter(&open(&platter));
        assert!(
            (acknowledged..=acknowledged + 1).contains(&held),
            "step {n}: {acknowledged} acknowledged, {held} held"
        );
    }
    assert!(writes > 10 && syncs > 5, "{writes} writes and {syncs} syncs were failed");
}

#[test]
fn a_full_disk_for_a_moment_is_mended_on_the_spot() {
    for n in 0..steps_of_a_run() {
        let platter = new_platter();
        let index = open(&platter);
        platter.set_fault(Some(Fault::Full(platter.steps() + n)));
        let (acknowledged, error) = run(&index);
        assert!(error.is_none(), "step {n}: {error:?}");
        assert_eq!((acknowledged, counter(&index)), (CHANGES, CHANGES));
    }
}

#[test]
fn a_disk_that_stays_broken_is_an_error_and_not_a_loss() {
    for n in 0..steps_of_a_run() {
        let platter = new_platter();
        let index = open(&platter);
        platter.set_fault(Some(Fault::From(platter.steps() + n)));
        let (acknowledged, error) = run(&index);
        assert!(error.is_some() || acknowledged == CHANGES);
        platter.set_fault(None);
        if let Some(StoreError::Index { .. }) = error {
            // Only writes failed, and the disk is well again: so is the index, without a restart.
            index.apply(&[save(CHANGES + 1)]).unwrap();
            assert_eq!(counter(&index), CHANGES + 1);
        } else {
            let _ = index.close();
            let held = counter(&open(&platter));
            assert!((acknowledged..=acknowledged + 1).contains(&held), "step {n}");
        }
    }
}

/// A small generator: the seed and the step replay a failure.
fn coin(mut state: u64) -> impl FnMut() -> bool {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state & 1 == 1
    }
}

#[test]
fn a_loss_of_power_at_any_step_loses_nothing_acknowledged() {
    for n in 0..steps_of_a_run() {
        let platter = new_platter();
        platter.set_fault(Some(Fault::From(platter.steps() + n)));
        let acknowledged = match Index::open(Path::new("platter"), platter.opener()) {
            Ok(index) => run(&index).0,
            Err(_) => 0,
        };
        for seed in 0..12 {
            // All of what was not synced, none of it, or some.
            let mut some = coin(0x9e37_79b9_7f4a_7c15 ^ (n << 8) ^ seed);
            let left = platter.after_power_loss(|| seed == 0 || (seed > 1 && some()));
            let index = open(&left);
            let held = counter(&index);
            assert!(
                (acknowledged..=acknowledged + 1).contains(&held),
                "step {n}, seed {seed}: {acknowledged} acknowledged, {held} held"
            );
            // And the disk is as good as any other.
            index.apply(&[save(held + 1)]).unwrap();
            assert_eq!(counter(&index), held + 1);
        }
    }
}

#[test]
fn chunk_rows_that_were_not_durable_survive_a_reopening() {
    let chunk = |n: u8| ChunkRef { hash: [n; 32], len: 10 };
    let row = |index: &Index, n: u8| {
        index.read(|transaction| chunk_row(transaction, &chunk(n).hash)).unwrap()
    };
    for n in 0..20 {
        let platter = new_platter();
        let index = open(&platter);
        index.apply(&[Change::ChunkAdded(chunk(1)), Change::ChunkAdded(chunk(2))]).unwrap();
        index.apply(&[Change::ChunkGone(chunk(1).hash)]).unwrap();
        assert!(index.has_unsynced());
        platter.set_fault(Some(Fault::Full(platter.steps() + n)));
        index.apply(&[save(1)]).unwrap();
        assert_eq!((row(&index, 1), row(&index, 2)), (None, Some(chunk(2))), "step {n}");
        assert_eq!(index.read(usage).unwrap().bytes, 10);
        assert!(!index.has_unsynced());
        // They went to the disk with the register.
        let left = open(&platter.after_power_loss(|| false));
        assert_eq!((row(&left, 1), row(&left, 2)), (None, Some(chunk(2))));
    }
}

#[test]
fn chunk_rows_wait_for_company_but_not_for_ever() {
    let platter = new_platter();
    let index = open(&platter);
    let before = platter.steps();
    for n in 0..=u8::MAX {
        index.apply(&[Change::ChunkAdded(ChunkRef { hash: [n; 32], len: 1 })]).unwrap();
    }
    assert!(index.has_unsynced());
    let lost = open(&platter.after_power_loss(|| false));
    assert_eq!(lost.read(usage).unwrap().chunks, 0, "{} steps", platter.steps() - before);
    index.apply(&[Change::ChunkAdded(ChunkRef { hash: [0; 32], len: 2 })]).unwrap();
    assert!(!index.has_unsynced(), "the 257th made all of them durable");
    let kept = open(&platter.after_power_loss(|| false));
    assert_eq!(kept.read(usage).unwrap().chunks, 256);
}

#[test]
fn a_repeated_write_costs_no_sync() {
    let platter = new_platter();
    let index = open(&platter);
    index.apply(&[save(2)]).unwrap();
    let before = platter.steps();
    index.apply(&[save(2), save(1)]).unwrap();
    assert_eq!(platter.steps(), before);
}

#[test]
fn a_damaged_register_is_an_error_until_it_is_written_again() {
    let platter = new_platter();
    let index = open(&platter);
    index.apply(&[save(1)]).unwrap();
    index.close().unwrap();
    let key = register(0, 0).key;
    let database = platter.opener()(&Default::default()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(REGISTERS).unwrap().insert(key.as_bytes(), &b"\x01rot"[..]).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let index = open(&platter);
    match index.read(|transaction| load(transaction, &key)) {
        Err(StoreError::Corrupt { record: Damaged::Register { key: named } }) => {
            assert_eq!(named, key);
        }
        other => panic!("{other:?}"),
    }
    index.apply(&[save(1)]).unwrap();
    assert_eq!(counter(&index), 1, "an equal write mends it");
}

#[test]
fn a_panic_of_the_database_is_an_error_of_one_call() {
    let platter = new_platter();
    let index = open(&platter);
    index.apply(&[save(1)]).unwrap();
    let failed = index.read::<()>(|_| panic!("a page that makes no sense"));
    assert!(matches!(failed, Err(StoreError::Index { .. })), "{failed:?}");
    assert!(failed.unwrap_err().to_string().contains("a page that makes no sense"));
    assert_eq!(counter(&index), 1);
}
