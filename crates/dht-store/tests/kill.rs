//! SIGKILL at any moment (case 78): a process writes and says what was acknowledged, is killed, and
//! all of it must be there afterwards, opened without any help.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use common::{chunk_of, key, open, put, read, register};
use dht_core::register::Value;
use dht_store::{DiskStore, Store};
use tempfile::TempDir;

/// Set for the child: the directory, and the number of the round.
const CHILD_DIR: &str = "DHT_STORE_TEST_KILL";
const CHILD_ROUND: &str = "DHT_STORE_TEST_ROUND";
/// How many times the child is killed, unless this variable says otherwise.
const ROUNDS_VARIABLE: &str = "DHT_STORE_KILL_ROUNDS";
const ROUNDS: u64 = 40;
/// Threads that write at once in the child, so that batches form and any moment hits something.
const WRITERS: u64 = 4;

/// The bytes of one chunk: mostly short, sometimes long, sometimes none.
fn bytes(round: u64, writer: u64, n: u64) -> Vec<u8> {
    let len = match n % 9 {
        0 => 0,
        8 => 300_000,
        other => 1000 * other as usize,
    };
    let head = format!("{round} {writer} {n} ");
    head.bytes().cycle().take(len).collect()
}

/// What one writer does, for ever: a chunk, a register of a key of its own, one of a key shared by
/// all, a record.
fn write_for_ever(store: &DiskStore, round: u64, writer: u64) {
    let say = |line: String| {
        std::io::stdout().write_all(line.as_bytes()).expect("the test listens");
    };
    for n in 0.. {
        put(store, &bytes(round, writer, n)).expect("keeps");
        say(format!("\nchunk {round} {writer} {n}\n"));
        let counter = (round << 32) + n;
        let value = counter.to_string().into_bytes();
        let own = register(&format!("own {writer}"), counter, Some(&value));
        let mut shared = register("shared", counter, Some(&value));
        shared.ballot.peer.0 = [writer as u8; 32];
        store.save(vec![own, shared]).expect("saves");
        say(format!("\nregister {writer} {counter}\n"));
        if n % 5 == 0 {
            store.set_meta(&format!("record {writer}"), &value).expect("keeps");
            say(format!("\nrecord {writer} {counter}\n"));
        }
    }
}

/// Not a test: the process that is killed.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn write_until_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let round = std::env::var(CHILD_ROUND).expect("set").parse().expect("a number");
    std::io::stdout().write_all(b"\nbegun\n").expect("the test listens");
    let store = open(Path::new(&dir));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || write_for_ever(store, round, writer));
        }
    });
}

/// Everything that was acknowledged so far.
#[derive(Default)]
struct Acknowledged {
    chunks: Vec<[u64; 3]>,
    registers: BTreeMap<u64, u64>,
    records: BTreeMap<u64, u64>,
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        let mut words = line.split(' ');
        let kind = words.next();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        match (kind, &numbers[..]) {
            (Some("chunk"), [round, writer, n]) => self.chunks.push([*round, *writer, *n]),
            (Some("register"), [writer, counter]) => {
                self.registers.insert(*writer, *counter);
            }
            (Some("record"), [writer, counter]) => {
                self.records.insert(*writer, *counter);
            }
            _ => {}
        }
    }

    /// Checks the chunks of a round, and all registers and records.
    fn check(&self, store: &DiskStore, round: u64) {
        for [at, writer, n] in self.chunks.iter().filter(|chunk| chunk[0] == round) {
            let bytes = bytes(*at, *writer, *n);
            let held = read(store, &chunk_of(&bytes).hash);
            assert!(held == Some(bytes), "chunk {at} {writer} {n} is not as acknowledged");
        }
        let counter = |name: &str| {
            let held = store.load(&key(name)).expect("loads").expect("held");
            let value = Value::Present(held.ballot.counter.to_string().into_bytes().into());
            assert_eq!(held.value, value, "value and ballot of {name} belong together");
            held.ballot.counter
        };
        for (writer, acknowledged) in &self.registers {
            assert!(counter(&format!("own {writer}")) >= *acknowledged);
        }
        if let Some(highest) = self.registers.values().max() {
            assert!(counter("shared") >= *highest);
        }
        for (writer, acknowledged) in &self.records {
            let record = store.meta(&format!("record {writer}")).expect("asks").expect("held");
            let held: u64 = String::from_utf8(record).expect("text").parse().expect("a number");
            assert!(held >= *acknowledged);
        }
    }
}

/// Lets a child write, kills it after `lines` of its lines and a little more, and notes what it
/// said, up to the last line that got out.
fn kill_once(dir: &Path, round: u64, lines: usize, spin: u64, acknowledged: &mut Acknowledged) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "write_until_killed", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(CHILD_ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = output.lines().map_while(Result::ok).skip_while(|line| line != "begun").skip(1);
    said.by_ref().filter(|line| !line.is_empty()).take(lines).for_each(|line| {
        acknowledged.note(&line);
    });
    for step in 0..spin {
        std::hint::black_box(step);
    }
    child.kill().expect("kills");
    said.for_each(|line| acknowledged.note(&line));
    child.wait().expect("ends");
}

#[test]
fn what_was_acknowledged_survives_sigkill() {
    let rounds = std::env::var(ROUNDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let dir = TempDir::new().expect("a temporary directory");
    let mut acknowledged = Acknowledged::default();
    let mut chance = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..rounds.unwrap_or(ROUNDS) {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        // Often within its first steps, opening among them; sometimes after hundreds.
        let lines = if round % 2 == 0 { chance % 8 } else { chance % 400 } as usize;
        kill_once(dir.path(), round, lines, chance % 2_000_000, &mut acknowledged);
        // Now and then the next child finds the directory as the kill left it, and may be killed
        // while it mends.
        if round % 3 != 0 {
            acknowledged.check(&open(dir.path()), round);
        }
    }
    let store = open(dir.path());
    (0..rounds.unwrap_or(ROUNDS)).for_each(|round| acknowledged.check(&store, round));
    let usage = store.usage().expect("counts");
    let files = common::files_in(&dir.path().join("chunks")).len() as u64;
    assert_eq!(usage.chunks, files);
    assert_eq!(common::files_in(&dir.path().join("tmp")).len(), 0);
    assert!(acknowledged.chunks.len() > 100, "the children got to write");
}
