//! A disk that is really full (case 76; redb 620, seaweedfs 3628): 20 MiB, filled to the last byte.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::{chunk_of, files_in, key, open, put, read, register};
use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::ChunkRef;
use dht_store::{DiskStore, Options, Store, StoreError};
use tempfile::TempDir;

/// Set for the child: a small disk of its own.
const CHILD_DIR: &str = "DHT_STORE_TEST_FULL";
const MIB: usize = 1024 * 1024;

/// Runs a shell script in a mount namespace of its own, where a disk of 20 MiB may be made; `None`
/// where the system does not let us.
fn with_small_disk(dir: &Path, script: &str) -> Option<std::process::Output> {
    let mount = "mount -t tmpfs -o size=20m tmpfs \"$DISK\"";
    let unshare = |script: &str| {
        let exe = std::env::current_exe().expect("this test");
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .env("DISK", dir)
            .env("EXE", exe)
            .env(CHILD_DIR, dir)
            .output()
    };
    match unshare(mount) {
        Ok(output) if output.status.success() => {}
        _ => return None,
    }
    Some(unshare(&format!("{mount} && {script}")).expect("it could before"))
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let dir = TempDir::new().expect("a temporary directory");
    let child = "exec \"$EXE\" --exact fill_a_disk --ignored --nocapture";
    let Some(output) = with_small_disk(dir.path(), child) else {
        let note = b"skipped: no mount namespace may be made here\n";
        std::io::stderr().write_all(note).expect("writes");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{said}");
}

/// Chunks of this length until the disk is full; answers those that were acknowledged.
fn fill(store: &DiskStore, len: usize) -> Vec<ChunkRef> {
    let mut kept = Vec::new();
    for n in 0u64.. {
        let mut bytes = vec![len as u8; len];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        match put(store, &bytes) {
            Ok(chunk) => kept.push(chunk),
            Err(StoreError::NoSpace { .. }) => {
                assert!(!store.has_chunk(&chunk_of(&bytes).hash).expect("asks"));
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    kept
}

/// Everything acknowledged is held, everything held is right, and nothing else lies about.
fn check(store: &DiskStore, kept: &[ChunkRef]) {
    let (mut listed, last) =
        store.list_chunks(Interval::full(Id::ZERO), None, 10_000).expect("lists");
    assert!(last);
    for chunk in &listed {
        let bytes = read(store, &chunk.hash).expect("held");
        assert_eq!(chunk_of(&bytes), *chunk);
    }
    let mut kept = kept.to_vec();
    kept.sort();
    listed.sort();
    assert_eq!(listed, kept);
    assert_eq!(files_in(&store.dir().join("tmp")).len(), 0);
}

/// Not a test: runs on a disk of its own.
#[test]
#[ignore = "run by another test, on a small disk"]
fn fill_a_disk() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let dir = Path::new(&dir);
    let store = open(dir);
    store.save(vec![register("early", 1, Some(b"value"))]).expect("saves");
    let mut kept = fill(&store, MIB);
    assert!((15..=19).contains(&kept.len()), "{} MiB of 20 were used", kept.len());
    // The reserve is there for registers.
    for n in 0..50 {
        store.save(vec![register(&format!("late {n}"), 1, Some(&[7; 1000]))]).expect("saves");
    }
    store.set_meta("ring", b"one").expect("keeps");
    check(&store, &kept);
    store.close().expect("closes");

    // Without the check before each write, the system itself says no, in the middle of things.
    let blind = || Options { space: Arc::new(|_: &Path| Ok(None)), ..Options::default() };
    let store = DiskStore::open(dir, blind()).expect("opens");
    assert!(store.recovery().clean);
    kept.extend(fill(&store, 50_000));
    kept.extend(fill(&store, 5_000));
    kept.extend(fill(&store, 600));
    let mut saved = 0;
    let full = loop {
        match store.save(vec![register("early", saved + 2, Some(&[7; 5000]))]) {
            Ok(_) => saved += 1,
            Err(error) => break error,
        }
        assert!(saved < 10_000, "one register, written again and again, needs little room");
        let one_more = register(&format!("more {saved}"), 1, Some(&[7; 5000]));
        if let Err(error) = store.save(vec![one_more]) {
            break error;
        }
    };
    assert!(matches!(full, StoreError::NoSpace { .. }), "{full}");
    check(&store, &kept);
    let held = store.load(&key("early")).expect("loads").expect("held");
    assert!(held.ballot.counter > saved, "{} after {saved}", held.ballot.counter);

    // Room again: the same store goes on, and a new start finds everything.
    let gone = kept.swap_remove(0);
    fs::remove_file(common::chunk_path(dir, &gone.hash)).expect("removes");
    assert_eq!(read(&store, &gone.hash), None);
    store.save(vec![register("after", 1, Some(&[7; 5000]))]).expect("saves again");
    kept.push(put(&store, b"a chunk again").expect("keeps again"));
    check(&store, &kept);
    store.close().expect("closes");
    let store = open(dir);
    assert!(store.recovery().clean);
    check(&store, &kept);
    for name in ["early", "late 49", "after"] {
        assert!(store.load(&key(name)).expect("loads").is_some(), "{name}");
    }
}
