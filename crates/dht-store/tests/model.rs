//! Random operations: the store on disk, reopened now and then, answers as its twin in memory does.

mod common;

use common::{Rig, chunk_of, key, put, read, register};
use dht_core::id::Id;
use dht_core::interval::Interval;
use dht_core::message::ring::Kind;
use proptest::prelude::*;

/// One operation over few names, ballots, chunks and points, so that they meet often.
#[derive(Debug, Clone)]
enum Op {
    Save(Vec<(u8, u64, bool)>),
    Put(u8),
    Rot(u8),
    Meta(u8, u8),
    Reopen,
    Load(u8),
    LoadMany(Vec<u8>),
    Lists { start: u8, end: u8, after: Option<u8>, limit: usize },
    Names { prefix: String, after: Option<String>, limit: usize },
    Read(u8),
}

fn name(n: u8) -> String {
    ["a", "a/", "a/b", "b", "b/a", "é", "z"][usize::from(n) % 7].repeat(1 + usize::from(n) / 7)
}

fn bytes(n: u8) -> Vec<u8> {
    vec![n; usize::from(n) * 40]
}

/// Points that are those of keys and chunks, next to them, or the ends of the circle.
fn point(n: u8) -> Id {
    match n % 5 {
        0 => key(&name(n / 5)).id(),
        1 => chunk_of(&bytes(n / 5)).id(),
        2 => key(&name(n / 5)).id().wrapping_sub(Id::from_u64(1)),
        3 => Id::ZERO,
        _ => Id::MAX,
    }
}

fn op() -> impl Strategy<Value = Op> {
    let small = 0u8..14;
    prop_oneof![
        6 => prop::collection::vec((small.clone(), 0u64..5, any::<bool>()), 0..5)
            .prop_map(Op::Save),
        4 => small.clone().prop_map(Op::Put),
        1 => small.clone().prop_map(Op::Rot),
        1 => (0u8..3, any::<u8>()).prop_map(|(name, value)| Op::Meta(name, value)),
        1 => Just(Op::Reopen),
        2 => small.clone().prop_map(Op::Load),
        1 => prop::collection::vec(small.clone(), 0..6).prop_map(Op::LoadMany),
        4 => (any::<u8>(), any::<u8>(), prop::option::of(any::<u8>()), 0usize..6)
            .prop_map(|(start, end, after, limit)| Op::Lists { start, end, after, limit }),
        2 => ("[ab]?/?", prop::option::of("[abz]/?a?"), 0usize..6)
            .prop_map(|(prefix, after, limit)| Op::Names { prefix, after, limit }),
        2 => small.prop_map(Op::Read),
    ]
}

/// Carries out an operation and writes down all answers.
fn answer(rig: &mut Rig, op: &Op) -> String {
    let store = rig.store();
    match op {
        Op::Save(entries) => {
            let value = |n: u8, deleted: bool| (!deleted).then(|| vec![n; 3]);
            let registers = entries.iter().map(|(n, counter, deleted)| {
                register(&name(*n), *counter, value(*n, *deleted).as_deref())
            });
            format!("{:?}", store.save(registers.collect()).expect("saves"))
        }
        Op::Put(n) => format!("{:?}", put(store, &bytes(*n)).expect("keeps")),
        Op::Rot(n) => {
            let hash = chunk_of(&bytes(*n)).hash;
            if *n > 0 && store.has_chunk(&hash).expect("asks") {
                rig.rot(&hash);
                let seen = read(rig.store(), &hash);
                rig.store().quarantine_chunk(&hash).expect("sets aside");
                return format!("{seen:?}");
            }
            format!("{:?}", store.quarantine_chunk(&hash).expect("nothing to do"))
        }
        Op::Meta(name, value) => {
            let name = format!("record {name}");
            let before = store.meta(&name).expect("asks");
            store.set_meta(&name, &[*value]).expect("keeps");
            format!("{before:?}")
        }
        Op::Reopen => {
            rig.reopen();
            String::new()
        }
        Op::Load(n) => format!("{:?}", store.load(&key(&name(*n))).expect("loads")),
        Op::LoadMany(all) => {
            let ids: Vec<Id> = all.iter().map(|n| key(&name(*n)).id()).collect();
            format!("{:?}", store.load_many(&ids).expect("loads"))
        }
        Op::Lists { start, end, after, limit } => {
            let arc = Interval::new(point(*start), point(*end));
            let after = after.map(point);
            format!(
                "{:?} {:?} {:?} {:?} {:?}",
                store.list_registers(arc, after, *limit).expect("lists"),
                store.list_chunks(arc, after, *limit).expect("lists"),
                store.digest(Kind::Registers, arc).expect("digests"),
                store.digest(Kind::Chunks, arc).expect("digests"),
                store.count_keys(arc).expect("counts"),
            )
        }
        Op::Names { prefix, after, limit } => {
            let after = after.as_ref().map(String::as_bytes);
            format!("{:?}", store.list_names(prefix.as_bytes(), after, *limit).expect("lists"))
        }
        Op::Read(n) => format!("{:?}", read(store, &chunk_of(&bytes(*n)).hash)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_answer_alike(ops in prop::collection::vec(op(), 1..60)) {
        let (mut disk, mut memory) = (Rig::disk(), Rig::memory());
        for op in &ops {
            prop_assert_eq!(answer(&mut disk, op), answer(&mut memory, op), "{:?}", op);
            let usages = [&disk, &memory].map(|rig| rig.store().usage().expect("counts"));
            prop_assert_eq!(&usages[0], &usages[1], "after {:?}", op);
        }
    }
}
