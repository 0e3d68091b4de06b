//! Chunk files on a failing disk: for every call that can fail, what was acknowledged is there
//! afterwards; and the order of calls on which survival of a loss of power rests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::ChunkRef;
use tempfile::TempDir;

use crate::disk::files::{Files, NewFile, SystemFiles};
use crate::disk::{DiskStore, open};
use crate::error::{OpenError, StoreError};
use crate::options::Options;
use crate::store::Store;

/// The system's files, except that one call fails.
#[derive(Debug, Clone, Default)]
struct FaultyFiles {
    calls: Arc<Mutex<Calls>>,
}

#[derive(Debug, Default)]
struct Calls {
    log: Vec<String>,
    fails_at: Option<usize>,
    full: bool,
}

impl FaultyFiles {
    fn failing_at(n: usize) -> FaultyFiles {
        let files = FaultyFiles::default();
        files.calls.lock().unwrap().fails_at = Some(n);
        files
    }

    fn call(&self, name: &str, path: &Path) -> io::Result<()> {
        let mut calls = self.calls.lock().unwrap();
        let last = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let now = calls.log.len();
        calls.log.push(format!("{name} {last}"));
        match calls.fails_at == Some(now) {
            true if calls.full => Err(io::ErrorKind::StorageFull.into()),
            true => Err(io::Error::other("made to fail")),
            false => Ok(()),
        }
    }

    fn log(&self) -> Vec<String> {
        self.calls.lock().unwrap().log.clone()
    }
}

#[derive(Debug)]
struct FaultyFile {
    files: FaultyFiles,
    path: PathBuf,
    inner: Box<dyn NewFile>,
}

impl Files for FaultyFiles {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.call("create_dir", path).and_then(|()| SystemFiles.create_dir(path))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.call("create", path)?;
        let inner = SystemFiles.create(path)?;
        Ok(Box::new(FaultyFile { files: self.clone(), path: path.to_owned(), inner }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", to).and_then(|()| SystemFiles.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", path).and_then(|()| SystemFiles.remove(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call("sync_dir", path).and_then(|()| SystemFiles.sync_dir(path))
    }
}

impl NewFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.files.call("write", &self.path).and_then(|()| self.inner.write(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.files.call("sync", &self.path).and_then(|()| self.inner.sync())
    }
}

fn open_on(dir: &Path, files: &FaultyFiles) -> Result<DiskStore, OpenError> {
    open::open(dir, Options::default(), Arc::new(files.clone()))
}

fn chunk_of(bytes: &[u8]) -> ChunkRef {
    ChunkRef { hash: *blake3::hash(bytes).as_bytes(), len: bytes.len() as u32 }
}

fn put(store: &DiskStore, bytes: &[u8]) -> Result<(), StoreError> {
    let mut writer = store.chunk_writer(chunk_of(bytes))?;
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    writer.write(head)?;
    writer.write(tail)?;
    writer.commit()
}

/// Whether a chunk is held; if it is, its bytes must be right.
fn holds(store: &DiskStore, bytes: &[u8]) -> bool {
    let hash = chunk_of(bytes).hash;
    let opened = store.open_chunk(&hash).unwrap();
    assert_eq!(opened.is_some(), store.has_chunk(&hash).unwrap());
    opened.is_some_and(|(_, mut reader)| {
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        assert_eq!(found, bytes);
        true
    })
}

#[test]
fn a_chunk_is_synced_then_named_then_its_folder_is_synced() {
    let dir = TempDir::new().unwrap();
    let files = FaultyFiles::default();
    let store = open_on(dir.path(), &files).unwrap();
    let before = files.log().len();
    put(&store, b"some bytes").unwrap();
    let name = crate::error::hex(&chunk_of(b"some bytes").hash);
    let folder = &name[..2];
    let wanted = [
        "create chunk-0".to_owned(),
        "write chunk-0".to_owned(),
        "write chunk-0".to_owned(),
        "sync chunk-0".to_owned(),
        format!("create_dir {folder}"),
        "sync_dir chunks".to_owned(),
        format!("rename {name}"),
        format!("sync_dir {folder}"),
    ];
    assert_eq!(files.log()[before..], wanted);
    let before = files.log().len();
    put(&store, b"some bytes").unwrap();
    assert!(!files.log()[before..].iter().any(|call| call.starts_with("create_dir")));
}

#[test]
fn a_new_store_is_marked_before_and_after_it_is_made() {
    let dir = TempDir::new().unwrap();
    let files = FaultyFiles::default();
    drop(open_on(dir.path(), &files).unwrap());
    let log = files.log();
    let at = |wanted: &str| log.iter().position(|call| call == wanted).expect(wanted);
    assert!(at("rename format") < at("create_dir chunks"));
    assert!(at("create_dir chunks") < at("rename index.redb"));
    let finished = log.iter().rposition(|call| call == "rename format").unwrap();
    assert!(at("rename index.redb") < finished && at("rename format") < finished);
    assert_eq!(log.last().unwrap(), &format!("sync_dir {}", file_name(dir.path())));
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_store_whose_making_failed_at_any_call_is_made_the_next_time() {
    let healthy = FaultyFiles::default();
    drop(open_on(TempDir::new().unwrap().path(), &healthy).unwrap());
    for n in 0..healthy.log().len() {
        let parent = TempDir::new().unwrap();
        let dir = parent.path().join("a").join("b");
        let files = FaultyFiles::failing_at(n);
        let failed = open_on(&dir, &files).expect_err("it was made to fail");
        assert!(matches!(failed, OpenError::Io { .. }), "call {n}: {failed}");
        let store = open_on(&dir, &FaultyFiles::default()).expect("the next start makes it");
        put(&store, b"and it works").unwrap();
    }
}

/// Puts, a rotten chunk set aside, and the chunk put again; answers what was acknowledged.
fn run(store: &DiskStore, dir: &Path) -> Vec<&'static [u8]> {
    let mut kept: Vec<&'static [u8]> = Vec::new();
    let mut put_one = |bytes: &'static [u8]| {
        if put(store, bytes).is_ok() {
            kept.push(bytes);
        }
    };
    put_one(b"first");
    put_one(b"");
    put_one(b"rotten");
    let hash = chunk_of(b"rotten").hash;
    let name = crate::error::hex(&hash);
    let path = dir.join("chunks").join(&name[..2]).join(&name);
    if path.exists() {
        fs::write(&path, b"ratten").unwrap();
        let _ = store.quarantine_chunk(&hash);
        assert!(!store.has_chunk(&hash).unwrap(), "not held, even if it could not be moved");
    }
    kept.retain(|bytes| *bytes != b"rotten");
    for bytes in [&b"rotten"[..], b"last"] {
        if put(store, bytes).is_ok() {
            kept.push(bytes);
        }
    }
    kept
}

#[test]
fn a_call_that_fails_loses_no_acknowledged_chunk() {
    let healthy = FaultyFiles::default();
    let dir = TempDir::new().unwrap();
    let store = open_on(dir.path(), &healthy).unwrap();
    let first = healthy.log().len();
    assert_eq!(run(&store, dir.path()).len(), 4);
    drop(store);
    let calls = healthy.log().len();
    assert!(calls - first > 30);
    for (n, full) in (first..calls).flat_map(|n| [(n, false), (n, true)]) {
        let dir = TempDir::new().unwrap();
        let files = FaultyFiles::failing_at(n);
        files.calls.lock().unwrap().full = full;
        let store = open_on(dir.path(), &files).unwrap();
        let kept = run(&store, dir.path());
        assert!(kept.len() >= 3, "call {n}: only what failed is missing");
        check(&store, &kept, n);
        drop(store);
        let store = open_on(dir.path(), &FaultyFiles::default()).unwrap();
        check(&store, &kept, n);
        assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0, "call {n}");
        // Also files that came into place and got no row then: nothing lies about unknown.
        assert_eq!(store.usage().unwrap().chunks, chunk_files(dir.path()), "call {n}");
    }
}

fn chunk_files(dir: &Path) -> u64 {
    let folders = fs::read_dir(dir.join("chunks")).unwrap();
    let count =
        |folder: io::Result<fs::DirEntry>| fs::read_dir(folder.unwrap().path()).unwrap().count();
    folders.map(count).sum::<usize>() as u64
}

/// Everything acknowledged is held, and everything held is right.
fn check(store: &DiskStore, kept: &[&[u8]], n: usize) {
    for bytes in kept {
        assert!(holds(store, bytes), "call {n} lost {bytes:?}");
    }
    let (listed, last) = store.list_chunks(Interval::full(Id::ZERO), None, 99).unwrap();
    assert!(last);
    assert_eq!(store.usage().unwrap().chunks, listed.len() as u64, "call {n}");
    for chunk in listed {
        let all = [&b"first"[..], b"", b"rotten", b"last"];
        let bytes = all.into_iter().find(|bytes| chunk_of(bytes) == chunk).expect("one of ours");
        assert!(holds(store, bytes), "call {n}");
    }
}
