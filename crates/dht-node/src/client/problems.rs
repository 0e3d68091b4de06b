//! What is wrong with a ring's links, judged from a walk. Missing copies are no ring problem.

use std::collections::{BTreeMap, BTreeSet};

use dht_core::Id;
use dht_core::message::client::{NeighborhoodReport, NodeState};

use super::walk::{Trail, WalkEnd};

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// What kind.
    pub kind: ProblemKind,
    /// Whose links are concerned.
    pub id: Id,
    /// The same for a person.
    pub message: String,
}

/// Kinds of problems.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProblemKind {
    /// The walk did not come back to its start.
    NotClosed,
    /// The first member hangs off the ring: the walk came to a loop without it.
    Loop,
    /// It is in a list, and does not answer.
    DeadLink,
    /// The head of the list is not the next member.
    WrongSuccessor,
    /// The predecessor is not the member before.
    WrongPredecessor,
    /// The list has fewer entries than there are members for.
    ShortList,
    /// Some entry of the list is not the member it should be.
    WrongEntry,
    /// It is in the ring and not in state `member`.
    NotMember,
}

impl ProblemKind {
    /// The word shown to people and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            ProblemKind::NotClosed => "not_closed",
            ProblemKind::Loop => "loop",
            ProblemKind::DeadLink => "dead_link",
            ProblemKind::WrongSuccessor => "wrong_successor",
            ProblemKind::WrongPredecessor => "wrong_predecessor",
            ProblemKind::ShortList => "short_list",
            ProblemKind::WrongEntry => "wrong_entry",
            ProblemKind::NotMember => "not_member",
        }
    }
}

/// Everything that is wrong, in the order of the walk. Where the walk did not close, nobody knows
/// the whole truth, and lists are not compared with it.
pub(super) fn find_problems(trail: &Trail) -> Vec<Problem> {
    let mut problems = Vec::new();
    judge_end(trail, &mut problems);
    let mut truth: Vec<Id> = trail.reports.iter().map(|report| report.contact.id).collect();
    truth.sort();
    let wanted = wanted_lengths(trail, &truth);
    for report in &trail.reports {
        judge_state(report, &mut problems);
        judge_links(report, &trail.silent, &mut problems);
        if trail.end == WalkEnd::Complete {
            judge_lists(report, &truth, &wanted, &trail.silent, &mut problems);
        }
    }
    problems
}

fn judge_end(trail: &Trail, problems: &mut Vec<Problem>) {
    let (kind, id, message) = match trail.end {
        WalkEnd::Complete => return,
        WalkEnd::Loop(id) => {
            (ProblemKind::Loop, id, "the walk came back here and not to its start".to_owned())
        }
        WalkEnd::Stuck(id) => {
            let last = trail.reports.iter().find(|report| report.contact.id == id);
            let message = match last.is_some_and(|report| report.successors.is_empty()) {
                true => "it knows no other node, and is no ring of its own",
                false => "nobody in this member's list answers",
            };
            (ProblemKind::NotClosed, id, message.to_owned())
        }
        WalkEnd::TooLong => {
            let Some(last) = trail.reports.last() else { return };
            let message = format!("the walk was given up after {} members", trail.reports.len());
            (ProblemKind::NotClosed, last.contact.id, message)
        }
    };
    problems.push(Problem { kind, id, message });
}

fn judge_state(report: &NeighborhoodReport, problems: &mut Vec<Problem>) {
    if report.state != NodeState::Member {
        let message = format!("its state is {}", report.state.as_str());
        problems.push(Problem { kind: ProblemKind::NotMember, id: report.contact.id, message });
    }
}

fn judge_links(report: &NeighborhoodReport, silent: &BTreeSet<Id>, problems: &mut Vec<Problem>) {
    let mut say = |message| {
        problems.push(Problem { kind: ProblemKind::DeadLink, id: report.contact.id, message });
    };
    for (at, contact) in report.successors.iter().enumerate() {
        if silent.contains(&contact.id) {
            say(format!("entry {} of its list, {}, does not answer", at + 1, contact.id));
        }
    }
    if let Some(contact) = report.predecessor.as_ref().filter(|at| silent.contains(&at.id)) {
        say(format!("its predecessor, {}, does not answer", contact.id));
    }
}

/// How long each member's list must be, in the order of `truth`: as long as it keeps it, and no longer
/// than its head's list and the head itself, since it is made of those (Zave 2017, section 3). Behind
/// a member with a short list, lists grow by one from member to member.
fn wanted_lengths(trail: &Trail, truth: &[Id]) -> Vec<usize> {
    let (size, others) = (truth.len(), truth.len().saturating_sub(1));
    let kept: BTreeMap<Id, usize> =
        trail.reports.iter().map(|report| (report.contact.id, report.depth.into())).collect();
    let mut wanted: Vec<usize> = truth.iter().map(|id| kept[id].min(others)).collect();
    // The shortest list bounds others and is bounded by none, so once round from there is enough.
    let shortest = (0..size).min_by_key(|at| wanted[*at]).unwrap_or(0);
    for back in 1..size {
        let at = (shortest + size - back) % size;
        wanted[at] = wanted[at].min(wanted[(at + 1) % size] + 1);
    }
    wanted
}

/// Compares one member's list and predecessor with the members in their order. Dead entries were
/// named already: they are left out of the list before it is compared.
fn judge_lists(
    report: &NeighborhoodReport,
    truth: &[Id],
    wanted: &[usize],
    silent: &BTreeSet<Id>,
    problems: &mut Vec<Problem>,
) {
    let id = report.contact.id;
    let mut say = |kind, message| problems.push(Problem { kind, id, message });
    let place = truth.partition_point(|other| *other < id);
    let after = |steps: usize| truth[(place + steps) % truth.len()];
    let live: Vec<Id> = report
        .successors
        .iter()
        .map(|contact| contact.id)
        .filter(|entry| !silent.contains(entry))
        .collect();
    let others = truth.len() - 1;
    if let Some(head) = live.first().filter(|head| others > 0 && **head != after(1)) {
        let message = format!("its successor is {head}, but should be {}", after(1));
        say(ProblemKind::WrongSuccessor, message);
    } else if let Some(at) = (0..live.len()).find(|at| live[*at] != after(at + 1) || *at >= others)
    {
        let should = after(at + 1);
        let message =
            format!("entry {} of its list is {}, but should be {should}", at + 1, live[at]);
        say(ProblemKind::WrongEntry, message);
    }
    let wanted = wanted[place];
    if live.len() < wanted {
        let message = format!("its list has {} live entries of {wanted}", live.len());
        say(ProblemKind::ShortList, message);
    }
    let before = truth[(place + truth.len() - 1) % truth.len()];
    match &report.predecessor {
        Some(contact) if contact.id != before && !silent.contains(&contact.id) => {
            let message = format!("its predecessor is {}, but should be {before}", contact.id);
            say(ProblemKind::WrongPredecessor, message);
        }
        None if others > 0 => {
            let message = format!("it has no predecessor, but should have {before}");
            say(ProblemKind::WrongPredecessor, message);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dht_core::peer::Signature;
    use dht_core::{Contact, PeerKey, PeerRecord};

    use super::*;

    fn contact(n: u64) -> Contact {
        let record = PeerRecord {
            key: PeerKey([n as u8; 32]),
            incarnation: 1,
            revision: 0,
            addrs: Vec::new(),
            signature: Signature([0; 64]),
        };
        Contact::at(Id::from_u64(n), Arc::new(record))
    }

    fn report(n: u64, successors: &[u64], predecessor: Option<u64>) -> NeighborhoodReport {
        NeighborhoodReport {
            contact: contact(n),
            state: NodeState::Member,
            predecessor: predecessor.map(contact),
            successors: successors.iter().map(|n| contact(*n)).collect(),
            predecessors: Vec::new(),
            keys: 0,
            bytes: 0,
            depth: 2,
            routings: Vec::new(),
            addrs: Vec::new(),
            fingers: Vec::new(),
            map: 0,
            upkeep: Default::default(),
            depth_back: 2,
        }
    }

    fn ideal() -> Trail {
        let reports = vec![
            report(20, &[30, 40], Some(10)),
            report(30, &[40, 10], Some(20)),
            report(40, &[10, 20], Some(30)),
            report(10, &[20, 30], Some(40)),
        ];
        Trail { reports, end: WalkEnd::Complete, silent: BTreeSet::new() }
    }

    fn kinds(trail: &Trail) -> Vec<(ProblemKind, u64)> {
        let number = |id: Id| (0..100).find(|n| Id::from_u64(*n) == id).expect("small");
        find_problems(trail).iter().map(|problem| (problem.kind, number(problem.id))).collect()
    }

    #[test]
    fn an_ideal_ring_has_no_problem() {
        assert_eq!(kinds(&ideal()), []);
        let alone = Trail {
            reports: vec![report(7, &[], None)],
            end: WalkEnd::Complete,
            silent: BTreeSet::new(),
        };
        assert_eq!(kinds(&alone), []);
    }

    #[test]
    fn every_wrong_link_is_named() {
        let mut trail = ideal();
        trail.reports[0] = report(20, &[40, 10], Some(10));
        trail.reports[1] = report(30, &[40, 20], Some(10));
        trail.reports[2] = report(40, &[10], None);
        trail.reports[3].state = NodeState::Leaving;
        let expected = [
            (ProblemKind::WrongSuccessor, 20),
            (ProblemKind::WrongEntry, 30),
            (ProblemKind::WrongPredecessor, 30),
            (ProblemKind::ShortList, 40),
            (ProblemKind::WrongPredecessor, 40),
            (ProblemKind::NotMember, 10),
        ];
        assert_eq!(kinds(&trail), expected);
    }

    #[test]
    fn lists_behind_a_short_one_grow_by_one() {
        let mut trail = ideal();
        trail.reports.iter_mut().for_each(|report| report.depth = 3);
        trail.reports[2].depth = 1;
        trail.reports[2].successors.truncate(1);
        trail.reports[3].successors.push(contact(40));
        trail.reports[0].successors.push(contact(10));
        let short = vec![(ProblemKind::ShortList, 20)];
        assert_eq!(kinds(&trail), [], "1 at 40, 2 at 30, 3 at 20, 3 at 10");
        trail.reports[0].successors.pop();
        assert_eq!(kinds(&trail), short);
    }

    #[test]
    fn a_node_without_a_place_is_no_ring_of_its_own() {
        let mut alone = report(7, &[], None);
        alone.state = NodeState::Joining;
        let end = WalkEnd::Stuck(Id::from_u64(7));
        let trail = Trail { reports: vec![alone], end, silent: BTreeSet::new() };
        assert_eq!(kinds(&trail), [(ProblemKind::NotClosed, 7), (ProblemKind::NotMember, 7)]);
        assert!(find_problems(&trail)[0].message.contains("knows no other node"));
    }

    #[test]
    fn a_dead_entry_is_named_once() {
        let mut trail = ideal();
        trail.reports[0] = report(20, &[25, 30, 40], Some(15));
        trail.silent = BTreeSet::from([Id::from_u64(25), Id::from_u64(15)]);
        assert_eq!(kinds(&trail), [(ProblemKind::DeadLink, 20), (ProblemKind::DeadLink, 20)]);
    }

    #[test]
    fn where_the_walk_does_not_close_lists_are_not_judged() {
        let mut trail = ideal();
        trail.reports.pop();
        trail.end = WalkEnd::Loop(Id::from_u64(30));
        assert_eq!(kinds(&trail), [(ProblemKind::Loop, 30)]);
        trail.end = WalkEnd::Stuck(Id::from_u64(40));
        assert_eq!(kinds(&trail), [(ProblemKind::NotClosed, 40)]);
    }
}
