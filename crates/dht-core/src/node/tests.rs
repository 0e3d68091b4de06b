//! Whole nodes against each other in a small world. The simulator has larger ones; these tests pin
//! the wiring.

mod forward;
mod loopy;
mod upkeep;
mod world;

use std::time::Duration;

use super::*;
use crate::event::{Memory, OpId, ReadOutcome, WriteOutcome};
use crate::manifest::ChunkRef;
use crate::message::RingId;
use crate::message::ring::Request;
use crate::register::{Key, OperationId, Value};
use crate::testing::{contact, contact_in_life};

use world::{World, number, spread};

fn small() -> Config {
    Config { depth: 3, min_list: 3, ..Config::default() }
}

#[test]
fn a_ring_grows_from_one_node_and_becomes_ideal() {
    let members: Vec<u64> = (0..12).map(|n| n * 10).collect();
    let mut world = World::ring(small(), &members);
    world.check_ideal();
    for n in &members {
        let ready = world.notices.iter().filter(|said| **said == (*n, Notice::Ready)).count();
        assert_eq!(ready, 1, "{n}");
    }
    for (at, asker) in members.iter().enumerate() {
        for (target, owner) in members.iter().enumerate() {
            for depth in 1..=3 {
                let report = world.look_up(*asker, owner.wrapping_sub(3).min(*owner), depth);
                let distance = (target + members.len() - at) % members.len();
                assert_eq!(report.owner.map(|held| number(&held)), Some(*owner));
                assert_eq!(report.path.len(), distance.div_ceil(usize::from(depth)));
            }
        }
    }
}

#[test]
fn the_survivors_mend_the_ring() {
    let members: Vec<u64> = (1..=12).map(|n| n * 10).collect();
    let mut world = World::ring(small(), &members);
    world.kill(50);
    world.kill(60);
    let report = world.look_up(10, 55, 1);
    assert_eq!(report.owner.map(|held| number(&held)), Some(70), "detours: {:?}", report.detours);
    assert!(!report.detours.is_empty());
    world.run(Duration::from_secs(5));
    world.check_ideal();
}

#[test]
fn sixteen_joins_at_once_through_one_member() {
    let mut world = World::new(Config::default());
    world.add(0);
    world.command(0, Command::Found);
    for n in 1..=16 {
        world.add(n);
        world.command(n, Command::Join { via: vec![contact(0)] });
    }
    world.run(Duration::from_secs(20));
    world.check_ideal();
}

#[test]
fn leaving_works_down_to_the_last() {
    let mut world = World::ring(small(), &[0, 10, 20, 30, 40]);
    for n in [20, 0, 40, 10] {
        world.command(n, Command::Leave);
        world.run(Duration::from_secs(2));
        assert!(world.notices.contains(&(n, Notice::Left)));
        world.kill(n);
        world.run(Duration::from_secs(10));
        world.check_ideal();
    }
    assert!(world.nodes[&30].snapshot().alone, "all others left for good");
}

#[test]
fn the_last_of_two_is_isolated_and_finds_the_other_again() {
    let mut world = World::ring(small(), &[0, 10]);
    world.kill(10);
    world.run(Duration::from_secs(10));
    assert_eq!(world.nodes[&0].state(), NodeState::Isolated);
    assert_eq!(world.nodes[&0].snapshot().owned, None, "never a silent ring of one");
    let back = contact_in_life(10, 2);
    let params = RingParams::founding(RingId(1), 3);
    let node = Node::new(back, params, world.config.clone(), 7, world.now);
    world.nodes.insert(10, node);
    world.dead.remove(&10);
    let open = IntervalSet::new();
    world.command(10, Command::Remember(Memory { contacts: vec![contact(0)], open, alone: false }));
    world.run(Duration::from_secs(30));
    world.check_ideal();
}

/// The last one to go decides: over an earlier death the ring has closed, and the leaver handed
/// everything over; but not while the dead one still stands in the list.
#[test]
fn the_last_neighbour_to_go_decides_between_alone_and_isolated() {
    let mut world = World::ring(small(), &[0, 10, 20]);
    world.kill(10);
    world.run(Duration::from_secs(10));
    world.command(20, Command::Leave);
    world.run(Duration::from_secs(5));
    world.kill(20);
    world.run(Duration::from_secs(10));
    assert!(world.nodes[&0].snapshot().alone);

    let mut world = World::ring(small(), &[0, 10, 20]);
    world.kill(10);
    world.kill(20);
    let leave = Request::Leave {
        successors: vec![contact(0), contact(10)],
        predecessor: Some(contact(10)),
        for_good: true,
        remembered: vec![],
    };
    let now = world.now;
    let event = Event::Request { reply: ReplyId(u64::MAX), from: contact(20), request: leave };
    world.node(0).handle_event(now, event);
    while world.node(0).poll_effect().is_some() {}
    world.run(Duration::from_secs(10));
    assert_eq!(world.nodes[&0].state(), NodeState::Isolated);
}

/// A neighbour that leaves hands down whom it remembers; a stranger's word counts for nothing.
#[test]
fn only_neighbours_hand_down_whom_they_remember() {
    for (leaver, is_believed) in [(20, true), (77, false)] {
        let mut world = World::ring(small(), &[0, 10, 20]);
        let leave = Request::Leave {
            successors: vec![],
            predecessor: None,
            for_good: true,
            remembered: vec![contact(0), contact(50)],
        };
        let reply = ReplyId(u64::MAX);
        let event = Event::Request { reply, from: contact(leaver), request: leave };
        let now = world.now;
        world.node(0).handle_event(now, event);
        let remembered = world.nodes[&0].snapshot().remembered;
        let knows = |n| remembered.iter().any(|held| number(held) == n);
        assert_eq!((knows(50), knows(0)), (is_believed, false), "{leaver}");
    }
}

/// The only peer that a returning node remembers shows it the way and dies before it is in.
#[test]
fn whoever_shows_the_way_back_is_remembered() {
    let members: Vec<u64> = (0..8).map(|n| n * 10).collect();
    let mut world = World::ring(small(), &members);
    let params = RingParams::founding(RingId(1), 3);
    let node = Node::new(contact_in_life(35, 2), params, world.config.clone(), 7, world.now);
    world.nodes.insert(35, node);
    let open = IntervalSet::new();
    world.command(35, Command::Remember(Memory { contacts: vec![contact(0)], open, alone: false }));
    // Until its first attempt ends somebody is always in its way.
    while !world.notices.iter().any(|(n, said)| (*n, said) == (35, &Notice::Ready)) {
        world.run(Duration::from_millis(1));
        let is_join = |mail: &world::Mail| {
            let world::Mail::Request { event: Event::Request { request, .. }, .. } = mail else {
                return false;
            };
            *request == Request::Join
        };
        if world.mail.values().any(is_join) && !world.dead.contains(&0) {
            world.mail.retain(|_, mail| !is_join(mail));
            world.kill(0);
        }
        assert!(world.now < Instant(60_000_000), "{:?}", world.nodes[&35].snapshot());
    }
    world.run(Duration::from_secs(10));
    world.check_ideal();
}

#[test]
fn a_whole_ring_restarts_at_once() {
    let members: Vec<u64> = (0..8).map(|n| n * 10).collect();
    let mut world = World::ring(Config::default(), &members);
    world.mail.clear();
    for n in &members {
        let contacts = world.nodes[n].snapshot().remembered;
        let params = RingParams::founding(RingId(1), 3);
        let node =
            Node::new(contact_in_life(*n, 2), params, world.config.clone(), n + 100, world.now);
        world.nodes.insert(*n, node);
        let open = IntervalSet::new();
        world.command(*n, Command::Remember(Memory { contacts, open, alone: false }));
    }
    world.run(Duration::from_secs(60));
    world.check_ideal();
}

#[test]
fn registers_survive_growth_death_and_leaving() {
    let members = spread(9);
    let mut world = World::ring(Config::default(), &members[..1]);
    let keys: Vec<String> = (0..60).map(|n| format!("key-{n}")).collect();
    for key in &keys {
        world.put(members[0], key, key);
    }
    for n in &members[1..] {
        world.add(*n);
        world.command(*n, Command::Join { via: vec![contact(members[0])] });
        for (at, key) in keys.iter().enumerate().step_by(7) {
            let asker = members[at % members.len()];
            if world.nodes.get(&asker).is_some_and(|node| node.state() == NodeState::Member) {
                assert_eq!(world.get(asker, key), Some(key.clone()), "{key} at {asker}");
            }
        }
    }
    world.run(Duration::from_secs(60));
    for n in &members {
        let open = world.nodes[n].snapshot().open;
        let owned = world.nodes[n].snapshot().owned.expect("a member");
        assert!(open.covers(&owned), "{n} holds what it owns");
        assert_eq!(world.get(*n, "no such key"), None);
    }
    for key in &keys {
        assert!(world.copies(key) >= 5, "{key}: {}", world.copies(key));
    }
    world.put(members[3], &keys[0], "second");
    for dead in [members[2], members[3]] {
        world.kill(dead);
    }
    for key in &keys[1..] {
        assert_eq!(world.get(members[5], key), Some(key.clone()), "{key} after two died");
    }
    assert_eq!(world.get(members[8], &keys[0]), Some("second".to_owned()));
    world.run(Duration::from_secs(60));
    for key in &keys {
        assert!(world.copies(key) >= 5, "{key} after repair: {}", world.copies(key));
    }
    for left in [members[0], members[1], members[4], members[5], members[6], members[7]] {
        world.command(left, Command::Leave);
        for _ in 0..100 {
            if world.notices.contains(&(left, Notice::Left)) {
                break;
            }
            world.run(Duration::from_secs(1));
        }
        assert!(world.notices.contains(&(left, Notice::Left)), "{left} never left");
        world.kill(left);
        for key in &keys[1..] {
            assert_eq!(world.get(members[8], key), Some(key.clone()), "{key} after {left} left");
        }
    }
}

#[test]
fn a_whole_ring_restarts_at_once_and_still_votes() {
    let members = spread(6);
    let mut world = World::ring(Config::default(), &members);
    world.put(members[2], "k", "v");
    world.run(Duration::from_secs(60));
    world.mail.clear();
    for n in &members {
        let before = world.nodes[n].snapshot();
        let params = RingParams::founding(RingId(1), 3);
        let node =
            Node::new(contact_in_life(*n, 2), params, world.config.clone(), n + 100, world.now);
        world.nodes.insert(*n, node);
        let (contacts, open) = (before.remembered, before.open);
        world.command(*n, Command::Remember(Memory { contacts, open, alone: false }));
    }
    world.run(Duration::from_secs(90));
    world.check_ideal();
    for n in &members {
        assert_eq!(world.get(*n, "k"), Some("v".to_owned()));
        assert_eq!(world.get(*n, "never"), None);
        let snapshot = world.nodes[n].snapshot();
        assert!(world.nodes[n].is_open(snapshot.me.id), "{n} votes again");
    }
}

/// How many live nodes hold a chunk.
fn chunk_copies(world: &World, chunk: &ChunkRef) -> usize {
    let holds =
        |n: &u64| world.disks.get(n).is_some_and(|disk| disk.chunks.contains_key(&chunk.id()));
    world.live().iter().filter(|n| holds(n)).count()
}

#[test]
fn chunks_spread_to_joiners_and_come_back_to_three_copies_after_a_death() {
    let members = spread(7);
    let mut world = World::ring(Config::default(), &members[..1]);
    // More than two pages, so that lists are read on.
    let chunks: Vec<ChunkRef> = (0..2500u32)
        .map(|n| {
            let mut hash = [7; 32];
            hash[..4].copy_from_slice(&n.to_be_bytes());
            ChunkRef { hash, len: 1000 }
        })
        .collect();
    let disk = world.disks.entry(members[0]).or_default();
    disk.chunks.extend(chunks.iter().map(|chunk| (chunk.id(), *chunk)));
    for n in &members[1..] {
        world.add(*n);
        world.command(*n, Command::Join { via: vec![contact(members[0])] });
    }
    world.run(Duration::from_secs(120));
    assert!(chunks.iter().all(|chunk| chunk_copies(&world, chunk) >= 3));
    world.kill(members[0]);
    world.kill(members[3]);
    world.run(Duration::from_secs(120));
    assert!(chunks.iter().all(|chunk| chunk_copies(&world, chunk) >= 3));
    let copied = |world: &World| -> u64 {
        world.live().iter().map(|n| world.nodes[n].counters().repair.copied).sum()
    };
    let before = copied(&world);
    world.run(Duration::from_secs(120));
    assert_eq!(copied(&world), before, "a further round finds nothing to do");
}

#[test]
fn rival_writers_end_in_one_order() {
    let members = spread(6);
    let mut world = World::ring(Config::default(), &members);
    let key = || Key::new("k").expect("a short key");
    for (at, n) in members.iter().enumerate() {
        let operation = OperationId([at as u8; 16]);
        let value = Value::Present(format!("by {n}").into());
        let op = OpId(at as u64);
        world.command(*n, Command::Write { op, key: key(), operation, value });
    }
    world.run(Duration::from_secs(30));
    let done = |notice: &&(u64, Notice)| {
        matches!(&notice.1, Notice::Written { outcome: WriteOutcome::Done { .. }, .. })
    };
    assert_eq!(world.notices.iter().filter(done).count(), members.len());
    let winner = world.get(members[0], "k").expect("written");
    for n in &members {
        assert_eq!(world.get(*n, "k"), Some(winner.clone()), "as seen by {n}");
    }
}

#[test]
fn a_retried_write_happens_once() {
    let members = spread(5);
    let mut world = World::ring(Config::default(), &members);
    let mut versions = Vec::new();
    for asker in [members[1], members[4]] {
        let operation = OperationId([9; 16]);
        let notice = world.operate(asker, |op| Command::Write {
            op,
            key: Key::new("k").expect("a short key"),
            operation,
            value: Value::Present("v".into()),
        });
        let Notice::Written { outcome: WriteOutcome::Done { register, .. }, .. } = notice else {
            panic!("{notice:?}")
        };
        versions.push(register.ballot);
    }
    assert_eq!(versions[0], versions[1]);
}

#[test]
fn without_a_majority_nothing_is_proposed_and_nothing_is_not_found() {
    let members = spread(3);
    let mut world = World::ring(Config::default(), &members);
    world.put(members[0], "k", "v");
    world.kill(members[1]);
    world.kill(members[2]);
    let key = || Key::new("k").expect("a short key");
    let value = Value::Present("w".into());
    let operation = OperationId([1; 16]);
    let written =
        world.operate(members[0], |op| Command::Write { op, key: key(), operation, value });
    let Notice::Written { outcome, .. } = written else { panic!("{written:?}") };
    assert!(!matches!(outcome, WriteOutcome::Done { .. }), "{outcome:?}");
    let read = world.operate(members[0], |op| Command::Read { op, key: key() });
    assert!(
        !matches!(&read, Notice::Read { outcome: ReadOutcome::Value { register: None, .. }, .. }),
        "{read:?}"
    );
}

/// A node that is back before anybody noticed that it was gone, perhaps at another address: whoever
/// asks its old life is answered by the new one, and must learn of it all the same.
#[test]
fn a_new_life_takes_the_place_of_the_old_one_in_every_list() {
    let members = [0, 10, 20, 30];
    for back in members {
        let mut world = World::ring(small(), &members);
        let contacts = world.nodes[&back].snapshot().remembered;
        let params = RingParams::founding(RingId(1), 3);
        let me = contact_in_life(back, 2);
        let node = Node::new(me, params, world.config.clone(), back + 100, world.now);
        world.nodes.insert(back, node);
        let open = IntervalSet::new();
        world.command(back, Command::Remember(Memory { contacts, open, alone: false }));
        world.run(Duration::from_secs(20));
        world.check_ideal();
        for n in members.iter().filter(|n| **n != back) {
            let snapshot = world.nodes[n].snapshot();
            let mut held = snapshot.successors.iter().chain(&snapshot.predecessors);
            let is_old = |held: &&Contact| number(held) == back && held.incarnation() == 1;
            assert_eq!(held.find(is_old), None, "{n} still names the old life of {back}");
        }
    }
}
