//! The directory of a store: whose it is, what is refused, and what damage does to it.

mod common;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{chunk_of, chunk_path, files_in, key, open, put, read, register};
use dht_store::{
    Create, DamagedIndex, DiskStore, MemoryStore, OpenError, Options, Space, Store, StoreError,
};
use tempfile::TempDir;

const MIB: u64 = 1024 * 1024;

fn refused(dir: &Path, options: Options) -> OpenError {
    DiskStore::open(dir, options).expect_err("refused")
}

fn create(create: Create) -> Options {
    Options { create, ..Options::default() }
}

fn damaged_index(damaged_index: DamagedIndex) -> Options {
    Options { damaged_index, ..Options::default() }
}

/// A directory with a register, a record, and two chunks in it, closed in order.
fn filled() -> TempDir {
    let dir = TempDir::new().expect("a temporary directory");
    let store = open(dir.path());
    store.save(vec![register("k", 1, Some(b"value"))]).expect("saves");
    store.set_meta("ring", b"one").expect("keeps");
    put(&store, b"first chunk").expect("keeps");
    put(&store, b"second chunk").expect("keeps");
    store.close().expect("closes");
    dir
}

#[test]
fn a_directory_is_made_for_its_owner_only() {
    let parent = TempDir::new().expect("a temporary directory");
    let dir = parent.path().join("data").join("store");
    let store = open(&dir);
    put(&store, b"x").expect("keeps");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let folder = chunk_path(&dir, &chunk_of(b"x").hash);
        let dirs = [&dir, &dir.join("chunks"), &dir.join("tmp"), &folder.parent().unwrap().into()];
        for path in dirs {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        for path in files_in(&dir) {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
    drop(store);
    assert_eq!(fs::read_to_string(dir.join("format")).expect("reads"), "dht-store 1\n");
}

#[test]
fn a_later_format_is_refused_naming_both() {
    let dir = filled();
    fs::write(dir.path().join("format"), "dht-store 7 with words to come\n").expect("writes");
    let before = files_in(dir.path());
    let error = refused(dir.path(), Options::default());
    assert!(matches!(error, OpenError::FutureFormat { found: 7, supported: 1, .. }), "{error}");
    assert!(error.to_string().contains("has format 7, this program reads formats up to 1"));
    assert_eq!(files_in(dir.path()), before);
}

#[test]
fn a_damaged_marker_is_refused() {
    for text in ["", "dht-store", "dht-store x", "dht-store 0", "dht-store 1 old", "other 1"] {
        let dir = filled();
        fs::write(dir.path().join("format"), text).expect("writes");
        let error = refused(dir.path(), create(Create::Always));
        assert!(matches!(error, OpenError::MarkerDamaged { .. }), "{text:?}: {error}");
    }
}

/// Case 80: an empty mount point must not look like total loss.
#[test]
fn a_directory_without_marker_is_a_store_only_if_asked() {
    let dir = TempDir::new().expect("a temporary directory");
    assert!(matches!(refused(dir.path(), create(Create::Never)), OpenError::Missing { .. }));
    let nowhere = dir.path().join("nowhere");
    assert!(matches!(refused(&nowhere, create(Create::Never)), OpenError::Missing { .. }));
    assert!(!nowhere.exists());
    fs::write(dir.path().join("letter.txt"), "dear").expect("writes");
    let error = refused(dir.path(), Options::default());
    assert!(matches!(&error, OpenError::NotAStore { found, .. } if found == "letter.txt"));
    assert_eq!(files_in(dir.path()).len(), 1, "nothing was put beside it");
    drop(DiskStore::open(dir.path(), create(Create::Always)).expect("asked for"));
    drop(DiskStore::open(dir.path(), create(Create::Never)).expect("a store by now"));
}

#[test]
fn a_fresh_disk_with_lost_and_found_is_empty() {
    let dir = TempDir::new().expect("a temporary directory");
    fs::create_dir(dir.path().join("lost+found")).expect("makes");
    drop(open(dir.path()));
}

#[test]
fn a_store_that_lost_its_marker_is_refused_and_taken_over_whole_if_asked() {
    let dir = filled();
    fs::remove_file(dir.path().join("format")).expect("removes");
    assert!(matches!(refused(dir.path(), Options::default()), OpenError::NotAStore { .. }));
    let store = DiskStore::open(dir.path(), create(Create::Always)).expect("asked for");
    assert!(store.load(&key("k")).expect("loads").is_some());
    assert_eq!(store.usage().expect("counts").chunks, 2);
}

#[test]
fn a_store_that_was_never_finished_is_finished() {
    let dir = TempDir::new().expect("a temporary directory");
    fs::write(dir.path().join("format"), "dht-store 1 new\n").expect("writes");
    fs::create_dir(dir.path().join("tmp")).expect("makes");
    fs::write(dir.path().join("tmp").join("index.redb"), "half an index").expect("writes");
    let store = open(dir.path());
    assert_eq!(store.recovery().temporary, 1);
    put(&store, b"x").expect("keeps");
}

#[test]
fn two_stores_of_one_process_exclude_each_other() {
    let dir = filled();
    let store = open(dir.path());
    let own = Some(std::process::id());
    let error = refused(dir.path(), Options::default());
    assert!(matches!(&error, OpenError::InUse { holder, .. } if *holder == own), "{error}");
    store.close().expect("closes");
    drop(open(dir.path()));
}

/// Set for the child of a test: the directory it shall open.
const CHILD_DIR: &str = "DHT_STORE_TEST_HOLD";

/// Not a test: the other process, which holds a store until its standard input ends.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn hold_a_store() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let store = open(Path::new(&dir));
    std::io::stdout().write_all(b"\nholding\n").expect("the test listens");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("reads");
    drop(store);
}

/// A process that has opened the store, and its output, which must stay open as long as it.
fn holder(dir: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "hold_a_store", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut holding = lines.map_while(Result::ok).skip_while(|line| line != "holding");
    assert!(holding.next().is_some(), "the child opened the store");
    (child, holding)
}

#[test]
fn a_second_process_is_refused_with_the_number_of_the_first() {
    let dir = filled();
    let (mut child, _output) = holder(dir.path());
    let error = refused(dir.path(), Options::default());
    assert!(
        matches!(&error, OpenError::InUse { holder, .. } if *holder == Some(child.id())),
        "{error}"
    );
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().expect("kills");
    child.wait().expect("ends");
    let store = open(dir.path());
    assert!(!store.recovery().clean, "a lock ends with its process, however that ends");
    drop(store);
    let (mut child, _output) = holder(dir.path());
    drop(child.stdin.take());
    assert!(child.wait().expect("ends").success());
    assert!(open(dir.path()).recovery().clean);
}

/// Copies a directory as it is now: what a process killed at this moment leaves.
fn snapshot(dir: &Path) -> TempDir {
    let copy = TempDir::new().expect("a temporary directory");
    for path in files_in(dir) {
        let to = copy.path().join(path.strip_prefix(dir).expect("below it"));
        fs::create_dir_all(to.parent().expect("has one")).expect("makes");
        fs::copy(&path, to).expect("copies");
    }
    copy
}

#[test]
fn chunk_files_without_rows_get_theirs_after_a_crash() {
    let dir = filled();
    let store = open(dir.path());
    assert!(store.recovery().clean);
    put(&store, b"third chunk").expect("keeps");
    put(&store, b"").expect("keeps");
    let copy = snapshot(dir.path());
    let revived = open(copy.path());
    let recovery = revived.recovery();
    assert_eq!((recovery.clean, recovery.added, recovery.lost), (false, 2, 0));
    assert_eq!(read(&revived, &chunk_of(b"third chunk").hash), Some(b"third chunk".to_vec()));
    assert_eq!(revived.usage().expect("counts"), store.usage().expect("counts"));
    assert_eq!(revived.usage().expect("counts").chunks, 4);
    drop(revived);
    let copied = open(copy.path());
    assert!(copied.recovery().clean, "closed in order this time");
}

#[test]
fn files_and_rows_that_disagree_after_a_crash_are_brought_together() {
    let dir = filled();
    let store = open(dir.path());
    put(&store, b"third chunk").expect("keeps");
    store.flush().expect("flushes");
    let copy = snapshot(dir.path());
    fs::remove_file(chunk_path(copy.path(), &chunk_of(b"first chunk").hash)).expect("removes");
    let short = chunk_path(copy.path(), &chunk_of(b"second chunk").hash);
    fs::write(&short, "sec").expect("writes");
    fs::write(chunk_path(copy.path(), &chunk_of(b"third chunk").hash).with_extension("txt"), "?")
        .expect("a stranger among the chunks");
    let unsynced = chunk_path(copy.path(), &[0xee; 32]);
    fs::create_dir_all(unsynced.parent().expect("has one")).expect("makes");
    fs::write(&unsynced, "").expect("what a file may be that was never synced");
    fs::create_dir(copy.path().join("tmp")).expect("makes");
    fs::write(copy.path().join("tmp").join("chunk-9"), "half").expect("writes");
    let revived = open(copy.path());
    let recovery = revived.recovery();
    let mended = (recovery.added, recovery.lost, recovery.set_aside, recovery.temporary);
    assert_eq!(mended, (0, 1, 2, 1));
    let usage = revived.usage().expect("counts");
    assert_eq!((usage.chunks, usage.bytes), (1, 11));
    assert!(!short.exists() && !unsynced.exists());
    assert_eq!(fs::read_dir(copy.path().join("quarantine")).expect("reads").count(), 2);
}

#[test]
fn a_chunk_file_that_vanishes_or_shrinks_is_no_longer_held() {
    let dir = filled();
    let store = open(dir.path());
    let (first, second) = (chunk_of(b"first chunk"), chunk_of(b"second chunk"));
    fs::remove_file(chunk_path(dir.path(), &first.hash)).expect("removes");
    fs::write(chunk_path(dir.path(), &second.hash), "sec").expect("writes");
    for chunk in [first, second] {
        assert!(store.has_chunk(&chunk.hash).expect("nobody has looked yet"));
        assert_eq!(read(&store, &chunk.hash), None);
        assert!(!store.has_chunk(&chunk.hash).expect("asks"));
    }
    assert_eq!(store.usage().expect("counts").bytes, 0);
}

#[test]
fn only_so_many_rotten_files_are_kept() {
    let dir = TempDir::new().expect("a temporary directory");
    let store = open(dir.path());
    fs::write(dir.path().join("quarantine").join("index.redb.0"), "a wreck").expect("writes");
    for n in 0..70u8 {
        let chunk = put(&store, &[n, 1]).expect("keeps");
        fs::write(chunk_path(dir.path(), &chunk.hash), [n, 2]).expect("rots");
        store.quarantine_chunk(&chunk.hash).expect("sets aside");
    }
    assert_eq!(files_in(&dir.path().join("quarantine")).len(), 64 + 1, "and the old index stays");
    assert!(dir.path().join("quarantine").join("index.redb.0").exists());
}

/// Case 80, where only the folder of chunks lay on the disk that is not mounted.
#[test]
fn a_store_without_its_folder_of_chunks_is_refused() {
    let dir = filled();
    let (chunks, away) = (dir.path().join("chunks"), dir.path().join("tmp").join("away"));
    fs::rename(&chunks, &away).expect("moves");
    for _ in 0..2 {
        let error = refused(dir.path(), Options::default());
        assert!(matches!(error, OpenError::ChunksMissing { .. }), "{error}");
        assert!(!chunks.exists(), "nothing is put in its place");
    }
}

/// Ways in which an index is destroyed from outside.
fn destroy(path: &Path, way: &str) {
    let len = fs::metadata(path).expect("there").len();
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    match way {
        "removed" => fs::remove_file(path).expect("removes"),
        "emptied" => file.set_len(0).expect("cuts"),
        "one byte" => file.set_len(1).expect("cuts"),
        "halved" => file.set_len(len / 2).expect("cuts"),
        "garbage" => fs::write(path, vec![0xa5; len as usize]).expect("writes"),
        "zeros" => fs::write(path, vec![0; len as usize]).expect("writes"),
        "text" => fs::write(path, "not a database").expect("writes"),
        other => unreachable!("{other}"),
    }
}

#[test]
fn a_destroyed_index_is_refused_and_its_chunks_are_found_again_if_asked() {
    for way in ["removed", "emptied", "one byte", "halved", "garbage", "zeros", "text"] {
        let dir = filled();
        let index = dir.path().join("index.redb");
        destroy(&index, way);
        let wreck = fs::read(&index).ok();
        for _ in 0..2 {
            let error = refused(dir.path(), Options::default());
            match error {
                OpenError::IndexMissing { .. } => assert_eq!(way, "removed"),
                OpenError::IndexDamaged { .. } => assert_ne!(way, "removed"),
                other => panic!("{way}: {other}"),
            }
            assert!(error.to_string().contains("give up the registers"), "{way}: {error}");
            assert_eq!(
                fs::read(&index).ok().map(|bytes| bytes.len()),
                wreck.as_ref().map(Vec::len)
            );
        }
        let options = damaged_index(DamagedIndex::SetAside);
        let store = DiskStore::open(dir.path(), options).expect("asked for");
        let recovery = store.recovery().clone();
        assert_eq!((recovery.added, recovery.damaged_index.is_some()), (2, wreck.is_some()));
        assert_eq!(store.load(&key("k")).expect("loads"), None);
        assert_eq!(read(&store, &chunk_of(b"first chunk").hash), Some(b"first chunk".to_vec()));
        let aside = recovery.damaged_index.map(|path| fs::metadata(path).expect("kept").len());
        assert_eq!(aside, wreck.map(|bytes| bytes.len() as u64), "{way}");
        drop(store);
        drop(open(dir.path()));
    }
}

#[test]
fn any_flipped_byte_of_the_index_is_noticed_or_harmless() {
    let dir = filled();
    let index = dir.path().join("index.redb");
    let whole = fs::read(&index).expect("reads");
    let (mut noticed, mut harmless) = (0, 0);
    for at in (0..whole.len()).step_by(307) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        fs::write(&index, flipped).expect("writes");
        match DiskStore::open(dir.path(), Options::default()) {
            Ok(store) => {
                let held = store.load(&key("k")).expect("loads").expect("held");
                assert_eq!(held, register("k", 1, Some(b"value")), "byte {at}");
                assert_eq!(store.usage().expect("counts").chunks, 2, "byte {at}");
                harmless += 1;
            }
            Err(OpenError::IndexDamaged { .. }) => noticed += 1,
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(noticed > 5 && harmless > 5, "{noticed} noticed, {harmless} harmless");
}

/// Options whose disk has so much room as the counter says.
fn room(available: &Arc<AtomicU64>, total: u64) -> Options {
    let available = available.clone();
    let space =
        move |_: &Path| Ok(Some(Space { total, available: available.load(Ordering::SeqCst) }));
    Options { space: Arc::new(space), ..Options::default() }
}

#[test]
fn chunks_leave_the_reserve_to_registers() {
    let dir = TempDir::new().expect("a temporary directory");
    let available = Arc::new(AtomicU64::new(1000 * MIB));
    let store = DiskStore::open(dir.path(), room(&available, 1000 * MIB)).expect("opens");
    let chunk = chunk_of(&[1; 1000]);
    available.store(16 * MIB + 999, Ordering::SeqCst);
    match store.chunk_writer(chunk).err().expect("refused") {
        StoreError::NoSpace { needed, available, reserve, .. } => {
            assert_eq!((needed, available, reserve), (1000, Some(16 * MIB + 999), 16 * MIB));
        }
        other => panic!("{other}"),
    }
    available.store(16 * MIB + 1000, Ordering::SeqCst);
    let first = store.chunk_writer(chunk).expect("fits to the byte");
    assert!(store.chunk_writer(chunk).is_err(), "the room is promised to the first");
    drop(first);
    assert!(store.chunk_writer(chunk).is_ok());
    available.store(MIB, Ordering::SeqCst);
    store.save(vec![register("k", 1, Some(b"x"))]).expect("the reserve is for this");
    available.store(1000, Ordering::SeqCst);
    let full = store.save(vec![register("k", 2, Some(b"x"))]).expect_err("nothing is left");
    assert!(matches!(full, StoreError::NoSpace { available: Some(1000), .. }), "{full}");
    let held = store.load(&key("k")).expect("loads").expect("held");
    assert_eq!(held.ballot.counter, 1, "nothing was changed");
    assert_eq!(store.space().expect("asks").expect("answers").available, 1000);
}

#[test]
fn the_reserve_of_a_small_disk_is_a_twentieth() {
    let dir = TempDir::new().expect("a temporary directory");
    let available = Arc::new(AtomicU64::new(MIB + 10));
    let store = DiskStore::open(dir.path(), room(&available, 20 * MIB)).expect("opens");
    assert!(put(&store, &[1; 10]).is_ok());
    let full = put(&store, &[1; 11]).expect_err("the reserve begins");
    assert!(matches!(full, StoreError::NoSpace { reserve: MIB, .. }), "{full}");
    let text = full.to_string();
    assert!(text.contains("11 bytes are needed beside 1048576 that are kept"), "{text}");
}

#[test]
fn a_store_in_memory_has_its_limit_too() {
    let store = MemoryStore::with_limit(10);
    put(&store, b"12345678").expect("fits");
    put(&store, b"12345678").expect("a second copy replaces the first");
    let full = put(&store, b"123").expect_err("full");
    assert!(matches!(full, StoreError::NoSpace { needed: 3, available: Some(2), .. }), "{full}");
    put(&store, b"12").expect("fits to the byte");
    assert_eq!(store.space().expect("asks").expect("answers").available, 0);
    assert_eq!(store.usage().expect("counts").chunks, 2);
}
