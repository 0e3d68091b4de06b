//! The checkers are checked: each is handed a good state and a bad one made by hand.

use dht_core::Id;
use dht_core::message::client::NodeState;
use dht_sim::invariants::{
    Links, List, NodeLinks, Violation, ideal, lists_in_order, mine, one_live_successor, one_ring,
    predecessor_kept, sufficient_principals,
};

use crate::common::ids;

fn id(n: u64) -> Id {
    Id::from_u64(n)
}

/// An ideal ring with lists of two.
fn good(members: &[u64]) -> Links {
    let count = members.len();
    let mut links = Links { depth: 2, predecessors: 2, ..Links::default() };
    for at in 0..count {
        let step = |by: usize| id(members[(at + by) % count]);
        let lists = 2.min(count - 1);
        let successors: Vec<Id> = (1..=lists).map(step).collect();
        let predecessors: Vec<Id> = (1..=lists).map(|by| step(count - by)).collect();
        let member = NodeLinks {
            predecessors: predecessors.clone(),
            ..NodeLinks::member(predecessors.first().copied(), successors)
        };
        links.nodes.insert(id(members[at]), member);
    }
    links
}

fn with(change: impl Fn(&mut NodeLinks), node: u64) -> Links {
    let mut links = good(&[0, 10, 20, 30]);
    change(links.nodes.get_mut(&id(node)).expect("a member"));
    links
}

#[test]
fn nothing_is_wrong_with_an_ideal_ring() {
    for members in [&[7u64][..], &[0, 10], &[0, 10, 20], &[0, 10, 20, 30, 40, 50]] {
        let links = good(members);
        let found = [
            lists_in_order::check(&links),
            one_live_successor::check(&links),
            one_ring::check(&links),
            ideal::check(&links, &ids(members)),
        ];
        assert_eq!(found.concat(), [], "{members:?}");
        assert_eq!(sufficient_principals::count(&links), members.len());
        assert_eq!(sufficient_principals::check(&links).is_empty(), members.len() > 2);
    }
}

#[test]
fn lists_out_of_order_are_seen() {
    let successors = |list: &[u64]| {
        let links = with(|held| held.successors = ids(list), 10);
        lists_in_order::check(&links)
    };
    for list in [&[10u64][..], &[20, 10], &[20, 20], &[30, 20], &[20, 0, 10]] {
        let expected =
            Violation::OutOfOrder { node: id(10), list: List::Successors, held: ids(list) };
        assert_eq!(successors(list), [expected]);
    }
    assert_eq!(successors(&[30, 0]), [], "order is not truth");
    let predecessors = |first: u64, list: &[u64]| {
        let links = with(
            |held| {
                held.predecessor = Some(id(first));
                held.predecessors = ids(list);
            },
            10,
        );
        lists_in_order::check(&links)
    };
    assert_eq!(predecessors(0, &[0, 30]), []);
    assert_eq!(predecessors(0, &[30, 20]), [Violation::PredecessorApart { node: id(10) }]);
    let expected =
        Violation::OutOfOrder { node: id(10), list: List::Predecessors, held: ids(&[0, 20, 30]) };
    assert_eq!(predecessors(0, &[0, 20, 30]), [expected]);
}

#[test]
fn a_list_of_the_dead_is_seen() {
    let links = with(|held| held.successors = ids(&[15, 17]), 10);
    assert_eq!(one_live_successor::check(&links), [Violation::NoLiveSuccessor { node: id(10) }]);
    let mut links = good(&[0, 10, 20, 30]);
    links.nodes.get_mut(&id(20)).expect("a member").state = NodeState::Joining;
    links.nodes.remove(&id(30));
    let lost = one_live_successor::check(&links);
    assert_eq!(lost, [Violation::NoLiveSuccessor { node: id(10) }], "a joiner has no place yet");
}

#[test]
fn skipped_members_are_no_principals() {
    let links = with(|held| held.successors = ids(&[20, 0]), 10);
    assert_eq!(sufficient_principals::count(&links), 3);
    assert_eq!(sufficient_principals::check(&links), []);
    let links = with(|held| held.successors = ids(&[0]), 10);
    let expected = Violation::FewPrincipals { found: 2, needed: 3 };
    assert_eq!(sufficient_principals::check(&links), [expected]);
    let links = with(|held| held.state = NodeState::Leaving, 20);
    assert_eq!(sufficient_principals::count(&links), 3, "who leaves is none any more");
}

#[test]
fn two_rings_are_seen_and_so_is_one_that_goes_round_twice() {
    let mut links = good(&[0, 10, 20, 30]);
    for (node, next) in [(0, 20), (20, 0), (10, 30), (30, 10)] {
        let held = links.nodes.get_mut(&id(node)).expect("a member");
        held.successors = ids(&[next]);
    }
    assert_eq!(one_ring::check(&links), [Violation::Cycles { found: ids(&[0, 10]) }]);
    assert_eq!(one_ring::rings(&links), [ids(&[0, 20]), ids(&[10, 30])]);
    for (node, next) in [(0, 20), (20, 10), (10, 30), (30, 0)] {
        let held = links.nodes.get_mut(&id(node)).expect("a member");
        held.successors = ids(&[next]);
    }
    let cycle = ids(&[0, 20, 10, 30]);
    assert_eq!(one_ring::check(&links), [Violation::Disordered { cycle }]);
}

#[test]
fn an_appendage_is_no_ring() {
    let mut links = good(&[0, 20, 30]);
    links.nodes.insert(id(10), NodeLinks::member(Some(id(0)), ids(&[20, 30])));
    assert_eq!(one_ring::rings(&links), [ids(&[0, 20, 30])]);
    assert_eq!(one_ring::check(&links), []);
}

#[test]
fn what_is_not_ideal_is_named() {
    let ring = ids(&[0, 10, 20, 30]);
    let links = with(|held| held.successors = ids(&[30, 0]), 10);
    let expected = Violation::NotIdeal {
        node: id(10),
        list: List::Successors,
        held: ids(&[30, 0]),
        wanted: ids(&[20, 30]),
    };
    assert_eq!(ideal::check(&links, &ring), [expected]);
    let links = with(|held| held.predecessors = ids(&[0]), 10);
    let expected = Violation::NotIdeal {
        node: id(10),
        list: List::Predecessors,
        held: ids(&[0]),
        wanted: ids(&[0, 30]),
    };
    assert_eq!(ideal::check(&links, &ring), [expected]);
    let links = with(|held| held.predecessor = None, 10);
    assert_eq!(ideal::check(&links, &ring), [Violation::PredecessorApart { node: id(10) }]);
    let links = with(|held| held.state = NodeState::Isolated, 10);
    let expected = Violation::NoPlace { node: id(10), state: NodeState::Isolated };
    assert_eq!(ideal::check(&links, &ring), [expected]);
}

#[test]
fn a_live_predecessor_that_is_given_up_is_seen() {
    let links = good(&[0, 10, 20, 30]);
    let change =
        |taken: Option<u64>| predecessor_kept::check(&links, id(20), id(10), taken.map(id));
    assert_eq!(change(Some(15)), None, "closer");
    assert_eq!(change(Some(10)), None, "the same in a new life");
    let dropped = |taken: Option<u64>| {
        let taken = taken.map(id);
        Some(Violation::PredecessorDropped { node: id(20), dropped: id(10), taken })
    };
    assert_eq!(change(Some(0)), dropped(Some(0)));
    assert_eq!(change(None), dropped(None));
    assert_eq!(predecessor_kept::check(&links, id(20), id(15), None), None, "15 is dead");
}

#[test]
fn a_wrong_owner_is_seen() {
    let links = good(&[0, 10, 20, 30]);
    let known = [id(0), id(10), id(15)].into();
    let says = |node: u64, key: u64| mine::check(&links, id(node), id(key), &known);
    let wrong = |node: u64, key: u64, owner: u64| {
        Some(Violation::WrongOwner { node: id(node), key: id(key), owner: id(owner) })
    };
    assert_eq!(says(20, 11), None);
    assert_eq!(says(20, 20), None);
    assert_eq!(says(20, 13), None, "15 is dead");
    assert_eq!(says(20, 10), wrong(20, 10, 10), "the end of an arc belongs to it");
    assert_eq!(says(20, 5), wrong(20, 5, 10));
    assert_eq!(says(20, 31), wrong(20, 31, 0), "the nearest one after the point owns it");
    assert_eq!(mine::check(&links, id(20), id(5), &[].into()), None, "a hand-over");
    let said = [id(10)].into();
    assert_eq!(mine::check_end(id(5), id(10), &said), None);
    let expected = Violation::NeverSaidMine { key: id(5), node: id(20) };
    assert_eq!(mine::check_end(id(5), id(20), &said), Some(expected));
}
