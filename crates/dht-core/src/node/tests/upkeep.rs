//! Rules of upkeep that were found missing by trying everything in small worlds, each where a single
//! node shows it (`docs/simulation.md`, "Exhaustive exploration").

use crate::event::{Purpose, RpcId};
use crate::message::ring::{Neighbors, Response};
use crate::node::tests::*;
use crate::testing::{contact_in_life, point};

/// A node and what it has sent.
struct Rig {
    node: Node,
    sent: Vec<(RpcId, u64, Request)>,
    replies: u64,
    found: Vec<crate::message::client::LookupReport>,
}

impl Rig {
    /// Node 10, let in by `member`, whose list is `list`.
    fn joined(member: u64, list: &[u64]) -> Rig {
        Rig::joined_with(small(), member, list)
    }

    fn joined_with(config: Config, member: u64, list: &[u64]) -> Rig {
        let params = RingParams::founding(RingId(1), 3);
        let node = Node::new(contact(10), params, Arc::new(config), 1, Instant(1));
        let mut rig = Rig { node, sent: Vec::new(), replies: 0, found: Vec::new() };
        rig.event(Event::Command(Command::Join { via: vec![contact(member)] }));
        let mine = Response::Route(crate::message::ring::RouteAnswer::Mine {
            predecessor: None,
            successors: vec![],
        });
        rig.answer(|request| matches!(request, Request::Route(_)), mine);
        rig.answer(|request| *request == Request::Join, Response::Joined(said(None, list)));
        rig
    }

    fn event(&mut self, event: Event) {
        self.node.handle_event(Instant(2), event);
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Send { rpc, to, request } => self.sent.push((rpc, number(&to), request)),
                Effect::Notice(Notice::Found { report, .. }) => self.found.push(report),
                _ => {}
            }
        }
    }

    fn hear(&mut self, from: u64, request: Request) {
        self.replies += 1;
        let (reply, from) = (ReplyId(self.replies), contact(from));
        self.event(Event::Request { reply, from, request });
    }

    /// Answers the last question of this kind; whom it was asked.
    fn answer(&mut self, is_it: impl Fn(&Request) -> bool, response: Response) -> u64 {
        let at = self.sent.iter().rposition(|(_, _, request)| is_it(request)).expect("was asked");
        let (rpc, to, _) = self.sent.remove(at);
        self.event(Event::Response { rpc, response, record: None, connect_us: 0 });
        to
    }

    /// Answers the last question of this kind that this node was asked.
    fn answer_of(&mut self, of: u64, is_it: impl Fn(&Request) -> bool, response: Response) {
        let last = self.sent.iter().rposition(|(_, to, request)| *to == of && is_it(request));
        let (rpc, ..) = self.sent.remove(last.expect("was asked"));
        self.event(Event::Response { rpc, response, record: None, connect_us: 0 });
    }

    /// Lets everything that was asked of a node time out, until it is found dead.
    fn bury(&mut self, dead: u64) {
        while let Some(at) = self.sent.iter().position(|(_, to, _)| *to == dead) {
            let (rpc, ..) = self.sent.remove(at);
            self.event(Event::Failed { rpc, failure: crate::event::Failure::TimedOut });
        }
    }

    /// The last question of this kind gets no answer in time.
    fn time_out(&mut self, is_it: impl Fn(&Request) -> bool) {
        let at = self.sent.iter().rposition(|(_, _, request)| is_it(request)).expect("was asked");
        let (rpc, ..) = self.sent.remove(at);
        self.event(Event::Failed { rpc, failure: crate::event::Failure::TimedOut });
    }

    fn asked(&self, to: u64, is_it: impl Fn(&Request) -> bool) -> bool {
        self.sent.iter().any(|(_, asked, request)| *asked == to && is_it(request))
    }

    fn list(&self) -> Vec<u64> {
        self.node.snapshot().successors.iter().map(number).collect()
    }
}

fn said(predecessor: Option<u64>, list: &[u64]) -> Neighbors {
    Neighbors {
        stamp: 1,
        predecessor: predecessor.map(contact),
        successors: list.iter().map(|n| contact(*n)).collect(),
        leaving: false,
    }
}

fn is_question(request: &Request) -> bool {
    matches!(request, Request::Neighbors { .. })
}

fn is_notify(request: &Request) -> bool {
    matches!(request, Request::Notify { .. })
}

/// Two nodes that took each other's "not a member" for death isolated each other in turn, for ever.
#[test]
fn not_a_member_counts_as_no_reply_and_not_as_death() {
    let mut rig = Rig::joined(40, &[20, 30]);
    assert_eq!(rig.answer(is_question, Response::NotMember), 20);
    assert_eq!(rig.list(), [20, 30, 40], "the head is asked whether it lives");
    assert!(rig.asked(20, is_notify), "and hears that we count on it");
    rig.answer_of(20, |request| *request == Request::Ping, Response::Done);
    assert_eq!(rig.list(), [20, 30, 40]);

    rig.event(Event::Command(Command::Stabilize));
    rig.answer(is_question, Response::NotMember);
    rig.answer_of(20, |request| *request == Request::Ping, Response::NotMember);
    assert_eq!(rig.list(), [30, 40], "one that has no place says so to a ping, too");
}

/// One that has only a predecessor, and that one isolated: without a word of ours it stays so.
#[test]
fn the_isolated_predecessor_of_an_empty_list_is_notified() {
    let mut rig = Rig::joined(40, &[]);
    rig.answer(is_question, Response::Neighbors(said(None, &[])));
    // Nothing is left but the predecessor.
    rig.sent.clear();
    rig.node.ring.links_mut().set_successors([]);
    rig.event(Event::Command(Command::Stabilize));
    assert_eq!(rig.answer(is_question, Response::NotMember), 40);
    assert!(rig.asked(40, is_notify));
}

/// Three nodes with one entry each can form a ring that goes round twice; each one's predecessor
/// lies before its head, and nothing else tells.
#[test]
fn a_predecessor_before_the_head_is_a_candidate() {
    let mut rig = Rig::joined(40, &[]);
    rig.answer(is_question, Response::Neighbors(said(Some(10), &[])));
    assert_eq!(rig.list(), [40]);
    // 20 takes us for its head, over 40; nobody else is before us but 40, which died.
    rig.node.ring.links_mut().set_predecessor(Some(contact(20)));
    rig.sent.clear();
    rig.event(Event::Command(Command::Stabilize));
    rig.answer(is_question, Response::Neighbors(said(Some(10), &[10])));
    assert!(rig.asked(20, is_question), "step 2");
    rig.answer(is_question, Response::Neighbors(said(Some(40), &[10])));
    assert_eq!(rig.list(), [20]);
}

/// The last neighbour falls silent while a candidate is being asked: if that one answers, the node
/// is not isolated.
#[test]
fn an_isolated_node_that_finds_a_head_has_its_place_again() {
    let mut rig = Rig::joined(40, &[]);
    rig.answer(is_question, Response::Neighbors(said(Some(10), &[])));
    rig.sent.clear();
    rig.event(Event::Command(Command::Stabilize));
    rig.hear(20, Request::Candidate { contact: contact(20) });
    rig.bury(40);
    assert_eq!(rig.node.state(), NodeState::Isolated);
    rig.answer(is_question, Response::Neighbors(said(None, &[])));
    assert_eq!((rig.node.state(), rig.list()), (NodeState::Member, vec![20]));
}

/// Isolated, a node may remember nobody that lives, while a member counts on it that it never met.
#[test]
fn an_isolated_node_asks_whoever_counts_on_it_for_a_place() {
    let isolated = || {
        let mut rig = Rig::joined(40, &[]);
        rig.bury(40);
        assert_eq!(rig.node.state(), NodeState::Isolated);
        rig.bury(40);
        rig.sent.clear();
        rig
    };
    let is_lookup = |request: &Request| matches!(request, Request::Route(_));
    let neighbors = Request::Neighbors { stamp: None };
    let mut rig = isolated();
    rig.hear(70, neighbors.clone());
    assert!(rig.asked(70, is_lookup), "it has a place, and ours is near it");

    let mut rig = isolated();
    rig.hear(70, Request::Join);
    rig.hear(70, neighbors.clone());
    assert!(!rig.asked(70, is_lookup), "one that was let in here will notify us");

    let mut rig = isolated();
    rig.event(Event::Command(Command::Leave));
    rig.hear(70, neighbors);
    assert!(rig.sent.is_empty(), "one that goes wants no place");
}

/// A leaver that answers step 2 would take the whole list with it when it goes.
#[test]
fn a_leaver_is_not_adopted_while_there_is_a_head() {
    let mut rig = Rig::joined(40, &[30]);
    rig.answer(is_question, Response::Neighbors(said(Some(20), &[40])));
    assert!(rig.asked(20, is_question), "step 2");
    let leaving = Neighbors { leaving: true, ..said(Some(10), &[30, 40]) };
    rig.answer(is_question, Response::Neighbors(leaving));
    assert_eq!(rig.list(), [30, 40]);
    assert!(rig.asked(30, is_notify));
}

/// A goodbye that was long under way is one of an earlier life.
#[test]
fn a_late_goodbye_says_nothing_of_the_next_life() {
    let mut rig = Rig::joined(40, &[20, 30]);
    let again = crate::testing::contact_in_life(20, 2);
    rig.node.ring.links_mut().renew_life(&again);
    rig.node.ring.links_mut().set_predecessor(Some(crate::testing::contact_in_life(30, 2)));
    let leave = Request::Leave {
        successors: vec![contact(30)],
        predecessor: None,
        for_good: true,
        remembered: vec![],
    };
    rig.hear(20, leave.clone());
    rig.hear(30, leave);
    assert_eq!(rig.list(), [20, 30, 40]);
    assert_eq!(rig.node.predecessor().map(number), Some(30));
}

/// A push that was overtaken by an answer is older than that.
#[test]
fn a_push_that_was_overtaken_is_dropped() {
    let mut rig = Rig::joined(40, &[20]);
    let stamped = |stamp, list: &[u64]| Neighbors { stamp, ..said(Some(10), list) };
    rig.answer(is_question, Response::Neighbors(stamped(7, &[30, 40])));
    rig.hear(20, Request::Push(stamped(5, &[25, 30])));
    assert_eq!(rig.list(), [20, 30, 40]);
    rig.hear(20, Request::Push(stamped(8, &[35, 40])));
    assert_eq!(rig.list(), [20, 35, 40]);
}

/// An answer that comes after its time-out changes nothing that waited for it, but is a sign of life and
/// tells how long an answer takes by now.
#[test]
fn late_answers_are_signs_of_life_and_lengthen_time_outs() {
    let mut rig = Rig::joined(40, &[20, 30]);
    for _ in 0..8 {
        rig.answer(is_question, Response::Neighbors(said(Some(10), &[30, 40])));
        rig.sent.clear();
        rig.event(Event::Command(Command::Stabilize));
    }
    let at = rig.sent.iter().rposition(|(_, _, request)| is_question(request)).expect("asked");
    let (rpc, to, _) = rig.sent.remove(at);
    let timeout = |rig: &Rig| rig.node.out.rtt.timeout(&contact(to).key(), &rig.node.out.config);
    let before = timeout(&rig);
    let late = Instant(2).after(before);
    rig.node.handle_timeout(late);
    assert!(rig.node.liveness.is_suspect(&contact(to).key()));
    let late = late.after(before);
    let response = Response::Neighbors(said(Some(10), &[77]));
    rig.node.handle_event(late, Event::Response { rpc, response, record: None, connect_us: 0 });
    assert!(!rig.node.liveness.is_suspect(&contact(to).key()));
    assert!(timeout(&rig) > before, "{:?}", timeout(&rig));
    assert_eq!(rig.list(), [20, 30, 40], "and no more");
}

/// The predecessor list goes out once for each change and each life of the head, and again to a head that
/// does not have it.
#[test]
fn a_predecessor_list_is_told_until_it_is_heard() {
    let is_same = |request: &Request| matches!(request, Request::NotifySame { .. });
    let mut rig = Rig::joined(40, &[20, 30]);
    let round = |rig: &mut Rig| {
        rig.sent.retain(|(_, _, request)| !is_notify(request));
        rig.event(Event::Command(Command::Stabilize));
        rig.answer(is_question, Response::Neighbors(said(Some(10), &[30, 40])));
    };
    rig.answer(is_question, Response::Neighbors(said(Some(10), &[30, 40])));
    round(&mut rig);
    assert!(rig.asked(20, is_notify), "the first one is not known to have been heard");
    rig.answer(is_notify, Response::Done);
    round(&mut rig);
    assert!(!rig.asked(20, is_notify) && rig.asked(20, is_same));
    rig.answer(is_same, Response::WhichPredecessors);
    assert!(rig.asked(20, is_notify), "at once");
    rig.answer(is_notify, Response::WhichPredecessors);
    assert!(!rig.asked(20, is_notify), "whoever asks for what it was just told waits a round");
    round(&mut rig);
    rig.answer(is_notify, Response::Done);
    rig.hear(40, Request::Notify { predecessors: vec![contact(35)] });
    round(&mut rig);
    assert!(rig.asked(20, is_notify), "it has changed");
}

/// Whoever is not the predecessor, or never sent its list in this life, is asked for it.
#[test]
fn a_list_that_is_not_known_is_asked_for() {
    let mut rig = Rig::joined(40, &[20, 30]);
    let heard = |rig: &mut Rig, from, list: &[u64]| {
        let list: Vec<Contact> = list.iter().map(|n| contact(*n)).collect();
        let digest = crate::message::ring::digest(&list);
        rig.replies += 1;
        let reply = ReplyId(rig.replies);
        rig.node.handle_event(
            Instant(3),
            Event::Request { reply, from: contact(from), request: Request::NotifySame { digest } },
        );
        let mut said = None;
        while let Some(effect) = rig.node.poll_effect() {
            if let Effect::Reply { reply: to, response } = effect {
                said = (to == reply).then_some(response).or(said);
            }
        }
        said.expect("it is answered at once")
    };
    assert_eq!(heard(&mut rig, 40, &[35]), Response::WhichPredecessors, "it came by the join");
    rig.hear(40, Request::Notify { predecessors: vec![contact(35)] });
    assert_eq!(heard(&mut rig, 40, &[35]), Response::Done);
    assert_eq!(heard(&mut rig, 40, &[36]), Response::WhichPredecessors, "one overtook another");
    assert_eq!(heard(&mut rig, 35, &[35]), Response::WhichPredecessors);
}

/// Where several in a row are dead, each of them would take a verdict of its own, one after the other.
#[test]
fn those_behind_a_silent_head_are_verified_beside_it() {
    let is_ping = |request: &Request| *request == Request::Ping;
    let mut rig = Rig::joined_with(Config::default(), 40, &[20, 25, 30, 35]);
    rig.answer(is_question, Response::Neighbors(said(Some(10), &[25, 30, 35, 40])));
    assert!([25, 30, 35].iter().all(|near| !rig.asked(*near, is_ping)), "nobody has a reason to");
    rig.event(Event::Command(Command::Stabilize));
    rig.time_out(is_question);
    assert!([20, 25, 30, 35].iter().all(|near| rig.asked(*near, is_ping)));
    assert!(!rig.asked(40, is_ping), "not the whole list for one of them");

    let is_probe = |request: &Request| matches!(request, Request::ProbeFor { .. });
    let unanswered = Response::Probed { answered: false };
    rig.bury(25);
    rig.answer(is_probe, unanswered.clone());
    assert_eq!(rig.list(), [20, 25, 30, 35, 40], "only a head is dropped");
    rig.bury(20);
    rig.answer(is_probe, unanswered);
    assert_eq!(rig.list(), [25, 30, 35, 40], "one at a time");
    // That the next one does not answer as head was all that was missing.
    assert!(rig.asked(25, is_question) && !rig.asked(25, is_ping));
    rig.bury(25);
    assert_eq!(rig.list(), [30, 35, 40]);
}

/// In a young ring every predecessor list waits for the one before it; a list as long as before can wait.
#[test]
fn a_predecessor_list_that_grew_is_told_at_once() {
    let mut rig = Rig::joined(40, &[20, 30]);
    rig.answer(is_question, Response::Neighbors(said(Some(10), &[30, 40])));
    rig.answer(is_notify, Response::Done);
    rig.sent.clear();
    rig.hear(40, Request::Notify { predecessors: vec![contact(35)] });
    let told = |rig: &Rig| {
        rig.sent.iter().rev().find_map(|(_, to, request)| match request {
            Request::Notify { predecessors } if *to == 20 => {
                Some(predecessors.iter().map(number).collect::<Vec<u64>>())
            }
            _ => None,
        })
    };
    assert_eq!(told(&rig), Some(vec![40, 35]));
    rig.answer(is_notify, Response::Done);
    rig.hear(40, Request::Notify { predecessors: vec![contact(36)] });
    assert_eq!(told(&rig), None, "another one in its place");
    rig.hear(40, Request::Notify { predecessors: vec![contact(36), contact(34)] });
    assert_eq!(told(&rig), None, "too soon after the last time");
    let due = rig.node.poll_timeout().expect("it is put off");
    rig.node.handle_timeout(due);
    while let Some(effect) = rig.node.poll_effect() {
        if let Effect::Send { rpc, to, request } = effect {
            rig.sent.push((rpc, number(&to), request));
        }
    }
    assert_eq!(told(&rig), Some(vec![40, 36, 34]));
}

/// A lookup that was handed on in vain went on by itself within the event that took the last neighbour, when
/// nobody had seen yet that the node was isolated: it said "mine" of everything (found by `sim check`, seed 6024
/// of 9e0c7f2).
#[test]
fn whose_last_neighbour_fell_silent_owns_nothing_even_in_that_moment() {
    let mut rig = Rig::joined_with(Config::default(), 40, &[20]);
    rig.time_out(is_question);
    rig.bury(40);
    rig.bury(20);
    assert_eq!(rig.list(), [40], "found dead before it was the head");
    rig.event(Event::Command(Command::Lookup {
        op: OpId(1),
        key: point(30),
        routing: None,
        depth: None,
        purpose: Purpose::Client,
        forwarding: Some(crate::message::Forwarding::Recursive),
    }));
    rig.time_out(|request| matches!(request, Request::Forward(_)));
    assert_eq!(rig.node.state(), NodeState::Isolated);
    assert!(rig.found.iter().all(|report| report.owner.is_none()), "{:?}", rig.found);
}

/// Word of the predecessor's earlier life came after its next one had its place: the earlier one stood in the list
/// again, and its goodbye, which came next, took the live one out.
#[test]
fn what_an_earlier_life_says_late_changes_nothing() {
    let mut rig = Rig::joined(40, &[20, 30]);
    let say = |rig: &mut Rig, incarnation, request| {
        rig.replies += 1;
        let (reply, from) = (ReplyId(rig.replies), contact_in_life(40, incarnation));
        rig.event(Event::Request { reply, from, request });
    };
    say(&mut rig, 2, Request::Notify { predecessors: vec![contact(35)] });
    say(&mut rig, 1, Request::NotifySame { digest: 0 });
    say(&mut rig, 1, Request::Notify { predecessors: vec![] });
    let goodbye = Request::Leave {
        successors: vec![contact(10)],
        predecessor: Some(contact(35)),
        for_good: false,
        remembered: vec![],
    };
    say(&mut rig, 1, goodbye.clone());
    let snapshot = rig.node.snapshot();
    assert_eq!(snapshot.predecessor.map(|held| held.incarnation()), Some(2));
    assert_eq!(snapshot.predecessors.iter().map(number).collect::<Vec<u64>>(), [40, 35]);
    say(&mut rig, 2, goodbye);
    assert_eq!(rig.node.snapshot().predecessor, None);
}

/// Four nodes waited for each other all round the ring, had waited for longer than a period, and asked again at
/// the same moment, for ever.
#[test]
fn whoever_got_no_answer_does_not_ask_again_at_once() {
    let mut rig = Rig::joined(40, &[20, 30]);
    rig.event(Event::Command(Command::Stabilize));
    rig.time_out(is_question);
    assert!(!rig.asked(20, is_question), "though another round is due");
    rig.event(Event::Command(Command::Stabilize));
    assert!(rig.asked(20, is_question));
}

/// A leaver is no target, but whoever stands before it may be: 20 was known to nobody but 30, which could not go
/// before the ring was right, and 10 would ask 30 and nobody else for ever.
#[test]
fn who_stands_before_a_leaver_is_a_candidate() {
    let mut rig = Rig::joined(50, &[40]);
    rig.answer(is_question, Response::Neighbors(said(Some(30), &[50])));
    let leaving = Neighbors { leaving: true, ..said(Some(20), &[40, 50]) };
    assert_eq!(rig.answer(is_question, Response::Neighbors(leaving)), 30);
    assert_eq!(rig.answer(is_question, Response::Neighbors(said(None, &[30, 40]))), 20);
    assert_eq!(rig.list(), [20, 30, 40]);

    let mut rig = Rig::joined(50, &[40]);
    rig.answer(is_question, Response::Neighbors(said(Some(30), &[50])));
    let leaving = Neighbors { leaving: true, ..said(Some(10), &[40, 50]) };
    rig.answer(is_question, Response::Neighbors(leaving));
    assert!(rig.asked(40, is_notify) && rig.list() == [40, 50], "nobody stands between");
}
