//! What the store costs on this machine: `cargo run --release -p dht-store --example figures [DIR]`.
//!
//! Prints how many durable writes a second one thread and eight threads get, how fast chunks come
//! and go, how long a start takes after a kill, and what an idle store takes of memory.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Instant;
use std::{fs, thread};

use bytes::Bytes;
use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::ChunkRef;
use dht_core::message::ring::Kind;
use dht_core::peer::PeerKey;
use dht_core::register::{Ballot, Key, Register, Value};
use dht_store::{DiskStore, Options, Store, StoreError};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let scratch = tempfile::TempDir::new()?;
    let dir = std::env::args_os().nth(1).map_or(scratch.path().join("store"), Into::into);
    say(&format!("directory                        {}", dir.display()))?;
    let store = DiskStore::open(&dir, Options::default())?;
    say(&format!("memory of an idle store's process {:>7} KiB", resident()))?;
    for threads in [1, 8] {
        let per_second = rate(threads, 200, |n| store.save(vec![register(n, 500)]).map(drop))?;
        say(&format!("registers, {threads} thread(s)          {per_second:>8.0} /s"))?;
    }
    for threads in [1, 8] {
        let per_second = rate(threads, 24, |n| put(&store, &chunk(n, 1 << 20)).map(drop))?;
        say(&format!("chunks of 1 MiB, {threads} thread(s)    {per_second:>8.0} /s"))?;
    }
    let per_second = rate(1, 200, |n| {
        let hash = chunk_of(&chunk(n % 24, 1 << 20)).hash;
        let mut bytes = Vec::new();
        if let Some((_, mut reader)) = store.open_chunk(&hash)? {
            reader.read_to_end(&mut bytes).map_err(|_| StoreError::Closed)?;
        }
        Ok(())
    })?;
    say(&format!("chunks of 1 MiB read            {per_second:>8.0} /s"))?;
    starts(&store, &dir)?;
    say(&format!("memory of the process at the end  {:>7} KiB", resident()))?;
    Ok(())
}

/// Starts after a kill, with many registers and chunk files; the kill is a copy of the directory.
fn starts(store: &DiskStore, dir: &Path) -> Result<(), Failure> {
    for batch in 0..100u64 {
        let registers = (0..1000).map(|n| register((1 << 40) + batch * 1000 + n, 500));
        store.save(registers.collect())?;
    }
    rate(8, 1250, |n| put(store, &chunk((1 << 40) + n, 100)).map(drop))?;
    let began = Instant::now();
    let (_, count) = store.digest(Kind::Registers, Interval::full(Id::ZERO))?;
    say(&format!("digest of {count} registers     {:>8.0} ms", millis(began)))?;
    let copy = tempfile::TempDir::new_in(dir.parent().unwrap_or(dir))?;
    copy_tree(dir, copy.path())?;
    let began = Instant::now();
    let killed = DiskStore::open(copy.path(), Options::default())?;
    let usage = killed.usage()?;
    say(&format!(
        "start after a kill              {:>8.0} ms ({} keys, {} chunks)",
        millis(began),
        usage.keys,
        usage.chunks
    ))?;
    drop(killed);
    let began = Instant::now();
    drop(DiskStore::open(copy.path(), Options::default())?);
    say(&format!("start and end in order          {:>8.0} ms", millis(began)))?;
    Ok(())
}

/// Calls a second, `each` in each of `threads` threads.
fn rate(
    threads: u64,
    each: u64,
    call: impl Fn(u64) -> Result<(), StoreError> + Sync,
) -> Result<f64, StoreError> {
    let began = Instant::now();
    thread::scope(|scope| {
        let call = &call;
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || (0..each).try_for_each(|n| call(thread * each + n))))
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no call panics"))
    })?;
    Ok((threads * each) as f64 / began.elapsed().as_secs_f64())
}

fn register(n: u64, len: usize) -> Register {
    Register {
        key: Key::new(format!("key {n}")).expect("a short key"),
        ballot: Ballot { epoch: 1, counter: 1, peer: PeerKey([1; 32]) },
        operations: vec![],
        value: Value::Present(Bytes::from(vec![n as u8; len])),
    }
}

fn chunk(n: u64, len: usize) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn chunk_of(bytes: &[u8]) -> ChunkRef {
    ChunkRef { hash: *blake3::hash(bytes).as_bytes(), len: bytes.len() as u32 }
}

fn put(store: &DiskStore, bytes: &[u8]) -> Result<(), StoreError> {
    let mut writer = store.chunk_writer(chunk_of(bytes))?;
    bytes.chunks(64 * 1024).try_for_each(|piece| writer.write(piece))?;
    writer.commit()
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Resident memory of this process in KiB, where the system says it; else 0.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
