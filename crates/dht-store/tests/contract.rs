//! What every store promises, asked of both.

mod common;

use std::sync::Barrier;
use std::thread;

use common::{Rig, chunk_of, key, put, read, register};
use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::manifest::ChunkRef;
use dht_core::message::bulk::MAX_CHUNK_LEN;
use dht_core::message::ring::Kind;
use dht_core::register::{Key, MAX_KEY_LEN, MAX_VALUE_LEN, Register};
use dht_store::{MAX_META_LEN, MAX_NAMES_BYTES, Store, StoreError};

/// Runs each test over both stores.
macro_rules! contract {
    ($($name:ident)*) => {
        mod disk {
            $(#[test] fn $name() { super::$name(super::Rig::disk()); })*
        }
        mod memory {
            $(#[test] fn $name() { super::$name(super::Rig::memory()); })*
        }
    };
}

contract! {
    the_highest_ballot_wins_and_the_answers_say_so
    registers_of_one_batch_see_each_other
    ballots_decide_as_the_core_says
    the_longest_register_fits
    registers_are_found_by_point_in_the_order_asked
    pages_walk_an_arc_clockwise_through_zero
    chunk_pages_walk_an_arc_too
    digests_cover_what_their_definition_says
    names_are_listed_by_prefix_in_order
    a_page_of_long_values_ends_early
    tombstones_are_no_keys
    chunks_of_every_length_come_back
    bytes_that_do_not_match_leave_nothing
    a_dropped_writer_leaves_nothing
    two_writers_of_one_chunk_both_succeed
    a_rotten_chunk_is_no_longer_held_and_can_be_replaced
    a_good_chunk_stays_when_it_is_accused
    named_records_are_replaced
    a_closed_store_says_so
}

fn whole() -> Interval {
    Interval::full(Id::ZERO)
}

fn save(store: &dyn Store, register: Register) {
    assert_eq!(store.save(vec![register]).expect("saves"), [None]);
}

fn the_highest_ballot_wins_and_the_answers_say_so(mut rig: Rig) {
    let (older, newer) = (register("k", 1, Some(b"old")), register("k", 2, Some(b"new")));
    assert_eq!(rig.store().load(&key("k")).expect("loads"), None);
    save(rig.store(), older.clone());
    save(rig.store(), newer.clone());
    let answer = rig.store().save(vec![older, newer.clone()]).expect("saves");
    assert_eq!(answer, [Some(newer.ballot), None], "held instead; then: an equal one is kept");
    assert_eq!(rig.store().load(&key("k")).expect("loads"), Some(newer.clone()));
    rig.reopen();
    assert_eq!(rig.store().load(&key("k")).expect("loads"), Some(newer));
    assert_eq!(rig.store().save(Vec::new()).expect("nothing to do"), []);
}

fn registers_of_one_batch_see_each_other(rig: Rig) {
    let batch: Vec<Register> = [3, 1, 3, 4].map(|counter| register("k", counter, None)).into();
    let third = batch[0].ballot;
    assert_eq!(rig.store().save(batch).expect("saves"), [None, Some(third), None, None]);
    let held = rig.store().load(&key("k")).expect("loads").expect("held");
    assert_eq!(held.ballot.counter, 4);
}

fn ballots_decide_as_the_core_says(rig: Rig) {
    let mut held: Option<Register> = None;
    for (epoch, counter, peer) in
        [(1, 9, 1), (1, 9, 0), (1, 9, 2), (2, 0, 0), (1, u64::MAX, 9), (u64::MAX, 0, 0), (0, 0, 0)]
    {
        let mut next = register("k", counter, Some(&[peer]));
        next.ballot.epoch = epoch;
        next.ballot.peer.0 = [peer; 32];
        let wins = next.supersedes(held.as_ref());
        let answer = rig.store().save(vec![next.clone()]).expect("saves");
        assert_eq!(answer[0].is_none(), wins, "{:?}", next.ballot);
        if wins {
            held = Some(next);
        }
        assert_eq!(rig.store().load(&key("k")).expect("loads"), held);
    }
}

fn the_longest_register_fits(mut rig: Rig) {
    let mut longest = register("k", 1, Some(&vec![0xab; MAX_VALUE_LEN]));
    longest.key = Key::new(vec![0xff; MAX_KEY_LEN]).expect("the longest key");
    save(rig.store(), longest.clone());
    rig.reopen();
    assert_eq!(rig.store().load(&longest.key).expect("loads"), Some(longest));
}

fn registers_are_found_by_point_in_the_order_asked(rig: Rig) {
    let all: Vec<Register> =
        ["a", "b", "c"].map(|name| register(name, 1, Some(name.as_bytes()))).into();
    rig.store().save(all.clone()).expect("saves");
    let ids = ["c", "absent", "a", "c"].map(|name| key(name).id());
    let found = rig.store().load_many(&ids).expect("loads");
    assert_eq!(found, [all[2].clone(), all[0].clone(), all[2].clone()]);
    assert_eq!(rig.store().load_many(&[]).expect("loads"), []);
}

/// All entries of an arc, page by page.
fn paged<T>(
    limit: usize,
    id: impl Fn(&T) -> Id,
    page: impl Fn(Option<Id>, usize) -> Result<(Vec<T>, bool), StoreError>,
) -> Vec<Id> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let (entries, last) = page(after, limit).expect("lists");
        assert!(entries.len() <= limit && (last || entries.len() == limit));
        found.extend(entries.iter().map(&id));
        if last {
            return found;
        }
        after = found.last().copied();
    }
}

/// Arcs between points, also whole circles, also through zero.
fn arcs(points: &[Id]) -> Vec<Interval> {
    let mut ends = vec![Id::ZERO, Id::MAX];
    for point in [points[0], points[points.len() / 2], points[points.len() - 1]] {
        ends.extend([point, point.next(), point.wrapping_sub(Id::from_u64(1))]);
    }
    ends.iter().flat_map(|a| ends.iter().map(|b| Interval::new(*a, *b))).collect()
}

/// What a walk must find: by definition, the points of the arc by distance from its start.
fn expected(points: &[Id], arc: Interval) -> Vec<Id> {
    let mut found: Vec<Id> = points.iter().copied().filter(|id| arc.contains(*id)).collect();
    found.sort_by_key(|id| arc.start.next().distance_to(*id));
    found
}

fn pages_walk_an_arc_clockwise_through_zero(rig: Rig) {
    let store = rig.store();
    let names: Vec<String> = (0..30).map(|n| format!("name {n}")).collect();
    store.save(names.iter().map(|name| register(name, 3, Some(b"x"))).collect()).expect("saves");
    let mut points: Vec<Id> = names.iter().map(|name| key(name).id()).collect();
    points.sort();
    for arc in arcs(&points) {
        let wanted = expected(&points, arc);
        for limit in [1, 7, 30, 31] {
            let found =
                paged(limit, |(id, _)| *id, |after, limit| store.list_registers(arc, after, limit));
            assert_eq!(found, wanted, "{arc:?} by {limit}");
        }
        let (none, last) = store.list_registers(arc, None, 0).expect("lists");
        assert_eq!((none.len(), last), (0, wanted.is_empty()));
        assert_eq!(store.count_keys(arc).expect("counts"), wanted.len() as u64);
        assert_eq!(store.digest(Kind::Registers, arc).expect("digests").1, wanted.len() as u64);
    }
    let (page, _) = store.list_registers(whole(), None, 30).expect("lists");
    assert!(page.iter().all(|(_, ballot)| ballot.counter == 3));
}

fn chunk_pages_walk_an_arc_too(rig: Rig) {
    let store = rig.store();
    let mut chunks: Vec<ChunkRef> =
        (0..20u8).map(|n| put(store, &vec![n; usize::from(n) + 1]).expect("kept")).collect();
    chunks.sort_by_key(ChunkRef::id);
    let points: Vec<Id> = chunks.iter().map(ChunkRef::id).collect();
    for arc in arcs(&points) {
        let wanted = expected(&points, arc);
        for limit in [1, 7, 20, 21] {
            let found =
                paged(limit, ChunkRef::id, |after, limit| store.list_chunks(arc, after, limit));
            assert_eq!(found, wanted, "{arc:?} by {limit}");
        }
        assert_eq!(store.digest(Kind::Chunks, arc).expect("digests").1, wanted.len() as u64);
    }
    assert_eq!(store.list_chunks(Interval::full(Id::MAX), None, 99).expect("lists").0, chunks);
}

fn digests_cover_what_their_definition_says(rig: Rig) {
    let store = rig.store();
    let empty = (*blake3::hash(b"").as_bytes(), 0);
    for kind in [Kind::Registers, Kind::Chunks] {
        assert_eq!(store.digest(kind, whole()).expect("digests"), empty);
    }
    let mut registers: Vec<Register> =
        (0..9u64).map(|n| register(&format!("name {n}"), n, None)).collect();
    let mut chunks: Vec<ChunkRef> = (0..9u8).map(|n| put(store, &[n]).expect("kept")).collect();
    store.save(registers.clone()).expect("saves");
    let arc = Interval::full(Id::of_key(b"somewhere"));
    registers.sort_by_key(|register| arc.start.next().distance_to(register.key.id()));
    chunks.sort_by_key(|chunk| arc.start.next().distance_to(chunk.id()));
    let mut all = blake3::Hasher::new();
    for register in &registers {
        all.update(&register.key.id().to_bytes());
        all.update(&register.ballot.epoch.to_be_bytes());
        all.update(&register.ballot.counter.to_be_bytes());
        all.update(register.ballot.peer.as_bytes());
    }
    let wanted = (*all.finalize().as_bytes(), 9);
    assert_eq!(store.digest(Kind::Registers, arc).expect("digests"), wanted);
    let mut all = blake3::Hasher::new();
    for chunk in &chunks {
        all.update(&chunk.hash);
    }
    let wanted = (*all.finalize().as_bytes(), 9);
    assert_eq!(store.digest(Kind::Chunks, arc).expect("digests"), wanted);
    save(store, register("name 4", 99, None));
    assert_ne!(store.digest(Kind::Registers, arc).expect("digests").0, wanted.0);
}

fn names_are_listed_by_prefix_in_order(rig: Rig) {
    let store = rig.store();
    let names = ["", "a", "a/", "a/b", "a/b/c", "a/c", "b", "z"];
    let registers = names.iter().filter(|name| !name.is_empty());
    store.save(registers.map(|name| register(name, 1, None)).collect()).expect("saves");
    let mut odd = register("x", 1, Some(b"value"));
    odd.key = Key::new(vec![0xff, 0xff]).expect("two bytes");
    save(store, odd);
    let list = |prefix: &[u8], after: Option<&[u8]>, limit| {
        let (page, last) = store.list_names(prefix, after, limit).expect("lists");
        let names: Vec<String> = page
            .iter()
            .map(|register| String::from_utf8_lossy(register.key.as_bytes()).into_owned())
            .collect();
        (names.join(" "), last)
    };
    assert_eq!(list(b"a/", None, 9), ("a/ a/b a/b/c a/c".to_owned(), true));
    assert_eq!(list(b"a/", None, 2), ("a/ a/b".to_owned(), false));
    assert_eq!(list(b"a/", Some(b"a/b"), 2), ("a/b/c a/c".to_owned(), true));
    assert_eq!(list(b"a/", Some(b"a"), 1), ("a/".to_owned(), false), "after before the prefix");
    assert_eq!(list(b"a/", Some(b"b"), 9), (String::new(), true), "after beyond the prefix");
    assert_eq!(list(b"", None, 3), ("a a/ a/b".to_owned(), false));
    assert_eq!(list(b"", Some(b"z"), 9), ("\u{fffd}\u{fffd}".to_owned(), true));
    assert_eq!(list(&[0xff], None, 9).0, "\u{fffd}\u{fffd}");
    assert_eq!(list(b"a/", None, 0), (String::new(), false));
    assert_eq!(list(b"nothing", None, 0), (String::new(), true));
}

fn a_page_of_long_values_ends_early(rig: Rig) {
    let store = rig.store();
    let value = vec![1; MAX_VALUE_LEN];
    let fit = MAX_NAMES_BYTES.div_ceil(MAX_VALUE_LEN);
    for n in 0..fit + 2 {
        save(store, register(&format!("{n:03}"), 1, Some(&value)));
    }
    let (page, last) = store.list_names(b"", None, 1000).expect("lists");
    assert_eq!((page.len(), last), (fit, false));
    let after = page.last().expect("not empty").key.clone();
    let (page, last) = store.list_names(b"", Some(after.as_bytes()), 1000).expect("lists");
    assert_eq!((page.len(), last), (2, true));
}

fn tombstones_are_no_keys(mut rig: Rig) {
    let counts = |rig: &Rig| {
        let usage = rig.store().usage().expect("counts");
        assert_eq!(usage.keys, rig.store().count_keys(whole()).expect("counts"));
        let half = [Interval::new(Id::ZERO, Id::MAX), Interval::new(Id::MAX, Id::ZERO)];
        let by_halves = half.map(|arc| rig.store().count_keys(arc).expect("counts"));
        assert_eq!(usage.keys, by_halves.iter().sum::<u64>());
        usage.keys
    };
    assert_eq!(counts(&rig), 0);
    save(rig.store(), register("a", 1, Some(b"x")));
    save(rig.store(), register("b", 1, None));
    assert_eq!(counts(&rig), 1);
    save(rig.store(), register("a", 2, None));
    save(rig.store(), register("a", 3, None));
    assert_eq!(counts(&rig), 0);
    save(rig.store(), register("b", 2, Some(b"back")));
    rig.reopen();
    assert_eq!(counts(&rig), 1);
    assert_eq!(rig.store().list_names(b"", None, 9).expect("lists").0.len(), 2);
    assert_eq!(rig.store().list_registers(whole(), None, 9).expect("lists").0.len(), 2);
}

fn chunks_of_every_length_come_back(mut rig: Rig) {
    let longest = MAX_CHUNK_LEN as usize;
    let lengths = [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, longest];
    let mut total = 0;
    let mut chunks = Vec::new();
    for (n, len) in lengths.into_iter().enumerate() {
        let bytes = vec![n as u8; len];
        let chunk = chunk_of(&bytes);
        assert!(!rig.store().has_chunk(&chunk.hash).expect("asks"));
        assert_eq!(read(rig.store(), &chunk.hash), None);
        put(rig.store(), &bytes).expect("kept");
        total += len as u64;
        chunks.push((chunk, bytes));
    }
    rig.reopen();
    for (chunk, bytes) in &chunks {
        assert!(rig.store().has_chunk(&chunk.hash).expect("asks"), "{} bytes", chunk.len);
        assert_eq!(read(rig.store(), &chunk.hash).as_ref(), Some(bytes));
    }
    let usage = rig.store().usage().expect("counts");
    assert_eq!((usage.chunks, usage.bytes), (lengths.len() as u64, total));
    let over = ChunkRef { hash: [0; 32], len: MAX_CHUNK_LEN + 1 };
    let refused = rig.store().chunk_writer(over).err().expect("refused");
    assert!(matches!(refused, StoreError::TooLong { len, max } if len == max + 1), "{refused}");
}

fn bytes_that_do_not_match_leave_nothing(rig: Rig) {
    let store = rig.store();
    let good = chunk_of(b"good bytes");
    let mut writer = store.chunk_writer(good).expect("begins");
    writer.write(b"good").expect("takes");
    let error = writer.commit().expect_err("too few");
    assert!(matches!(error, StoreError::Mismatch { received: 4, actual: None, .. }), "{error}");
    let mut writer = store.chunk_writer(good).expect("begins");
    let error = writer.write(b"good bytes and more").expect_err("too many");
    assert!(matches!(error, StoreError::Mismatch { received: 19, actual: None, .. }), "{error}");
    let mut writer = store.chunk_writer(good).expect("begins");
    writer.write(b"evil bytes").expect("takes");
    let error = writer.commit().expect_err("another hash");
    let evil = chunk_of(b"evil bytes").hash;
    assert!(matches!(error, StoreError::Mismatch { actual: Some(hash), .. } if hash == evil));
    assert!(error.to_string().contains(&common::hex(&evil)), "{error}");
    for bytes in [&b"good bytes"[..], b"evil bytes"] {
        assert!(!store.has_chunk(&chunk_of(bytes).hash).expect("asks"));
    }
    assert_eq!(store.usage().expect("counts").bytes, 0);
}

fn a_dropped_writer_leaves_nothing(mut rig: Rig) {
    let chunk = chunk_of(b"never finished");
    let mut writer = rig.store().chunk_writer(chunk).expect("begins");
    writer.write(b"never finished").expect("takes");
    drop(writer);
    assert!(!rig.store().has_chunk(&chunk.hash).expect("asks"));
    if let Rig::Disk { dir, .. } = &rig {
        assert_eq!(common::files_in(&dir.path().join("tmp")).len(), 0);
    }
    rig.reopen();
    assert!(!rig.store().has_chunk(&chunk.hash).expect("asks"));
    assert_eq!(rig.store().usage().expect("counts").chunks, 0);
}

fn two_writers_of_one_chunk_both_succeed(rig: Rig) {
    let store = rig.store();
    let bytes = vec![5; 100_000];
    let together = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut writer = store.chunk_writer(chunk_of(&bytes)).expect("begins");
                writer.write(&bytes[..50_000]).expect("takes");
                together.wait();
                writer.write(&bytes[50_000..]).expect("takes");
                together.wait();
                writer.commit().expect("keeps");
            });
        }
    });
    assert_eq!(read(store, &chunk_of(&bytes).hash), Some(bytes));
    let usage = store.usage().expect("counts");
    assert_eq!((usage.chunks, usage.bytes), (1, 100_000));
}

fn a_rotten_chunk_is_no_longer_held_and_can_be_replaced(mut rig: Rig) {
    let chunk = put(rig.store(), b"some bytes").expect("kept");
    let other = put(rig.store(), b"others").expect("kept");
    rig.rot(&chunk.hash);
    let rotten = read(rig.store(), &chunk.hash).expect("still held");
    assert_ne!(rotten, b"some bytes");
    rig.store().quarantine_chunk(&chunk.hash).expect("set aside");
    assert!(!rig.store().has_chunk(&chunk.hash).expect("asks"));
    assert_eq!(read(rig.store(), &chunk.hash), None);
    rig.reopen();
    let (page, last) = rig.store().list_chunks(whole(), None, 9).expect("lists");
    assert_eq!((page, last), (vec![other], true));
    assert_eq!(rig.store().usage().expect("counts").bytes, 6);
    rig.store().quarantine_chunk(&chunk.hash).expect("nothing to do");
    put(rig.store(), b"some bytes").expect("kept again");
    assert_eq!(read(rig.store(), &chunk.hash), Some(b"some bytes".to_vec()));
}

fn a_good_chunk_stays_when_it_is_accused(rig: Rig) {
    let chunk = put(rig.store(), b"some bytes").expect("kept");
    rig.rot(&chunk.hash);
    put(rig.store(), b"some bytes").expect("a good copy comes before the complaint");
    rig.store().quarantine_chunk(&chunk.hash).expect("looks");
    assert_eq!(read(rig.store(), &chunk.hash), Some(b"some bytes".to_vec()));
    assert_eq!(rig.store().usage().expect("counts").chunks, 1);
}

fn named_records_are_replaced(mut rig: Rig) {
    assert_eq!(rig.store().meta("ring").expect("asks"), None);
    rig.store().set_meta("ring", b"one").expect("kept");
    rig.store().set_meta("peers", b"").expect("kept");
    rig.store().set_meta("ring", b"two").expect("kept");
    rig.reopen();
    assert_eq!(rig.store().meta("ring").expect("asks"), Some(b"two".to_vec()));
    assert_eq!(rig.store().meta("peers").expect("asks"), Some(Vec::new()));
    rig.store().set_meta("long", &vec![0; MAX_META_LEN]).expect("the longest");
    let refused = rig.store().set_meta("long", &vec![0; MAX_META_LEN + 1]);
    assert!(matches!(refused, Err(StoreError::TooLong { .. })));
}

fn a_closed_store_says_so(rig: Rig) {
    let store = rig.store();
    let mut late = store.chunk_writer(chunk_of(b"late")).expect("begins");
    store.flush().expect("flushes");
    store.close().expect("closes");
    store.close().expect("closing twice is fine");
    late.write(b"late").expect("takes");
    let closed: [(&str, Result<(), StoreError>); 14] = [
        ("commit", late.commit()),
        ("load", store.load(&key("a")).map(drop)),
        ("load_many", store.load_many(&[Id::ZERO]).map(drop)),
        ("save", store.save(vec![register("a", 1, None)]).map(drop)),
        ("digest", store.digest(Kind::Chunks, whole()).map(drop)),
        ("list_registers", store.list_registers(whole(), None, 1).map(drop)),
        ("list_chunks", store.list_chunks(whole(), None, 1).map(drop)),
        ("list_names", store.list_names(b"", None, 1).map(drop)),
        ("count_keys", store.count_keys(whole()).map(drop)),
        ("has_chunk", store.has_chunk(&[0; 32]).map(drop)),
        ("chunk_writer", store.chunk_writer(chunk_of(b"x")).map(drop)),
        ("open_chunk", store.open_chunk(&[0; 32]).map(drop)),
        ("meta", store.meta("ring").map(drop)),
        ("usage", store.usage().map(drop)),
    ];
    for (call, answer) in closed {
        assert!(matches!(answer, Err(StoreError::Closed)), "{call}: {answer:?}");
    }
}
