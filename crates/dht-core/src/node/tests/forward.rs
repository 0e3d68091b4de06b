//! Lookups that are handed on, as single nodes and small rings show them.

use crate::event::{Failure, Purpose, RpcId};
use crate::message::Forwarding;
use crate::message::client::{DetourReason, LookupReport, MAX_PATH};
use crate::message::forward::{
    Forward, ForwardEnd, ForwardOutcome, GaveUp, HandedDetour, HandedStep, MAX_RETRIES, PlaceMark,
    Ticket,
};
use crate::message::ring::{MAX_FAILED, Neighbors, Response, RouteAnswer, Routing};
use crate::node::tests::*;
use crate::testing::point;

fn recursive() -> Config {
    Config { forwarding: Forwarding::Recursive, ..small() }
}

fn mark(n: u64) -> PlaceMark {
    PlaceMark::of(&contact(n))
}

fn path(nodes: &[u64]) -> Vec<HandedStep> {
    nodes.iter().map(|n| HandedStep { place: mark(*n), fell_back: false }).collect()
}

fn places(report: &LookupReport) -> Vec<Id> {
    let handed = report.handed.as_ref().expect("it was handed on");
    handed.path.iter().map(|step| step.place.id).collect()
}

/// Node 50 between 40 and 60, and all it did.
struct Rig {
    node: Node,
    now: Instant,
    sent: Vec<(RpcId, u64, Request)>,
    answers: Vec<Response>,
    notices: Vec<Notice>,
    next: u64,
}

impl Rig {
    /// It owns (40, 50], and its list is 60, 70, 80.
    fn new(config: Config) -> Rig {
        let params = RingParams::founding(RingId(1), 3);
        let config = Config { keeps_data: false, ..config };
        let node = Node::new(contact(50), params, Arc::new(config), 1, Instant(1));
        let (sent, answers, notices) = (Vec::new(), Vec::new(), Vec::new());
        let mut rig = Rig { node, now: Instant(2), sent, answers, notices, next: 0 };
        rig.event(Event::Command(Command::Join { via: vec![contact(40)] }));
        let mine = RouteAnswer::Mine { predecessor: None, successors: vec![] };
        rig.acknowledge(40, Response::Route(mine));
        let neighbors = Neighbors {
            stamp: 1,
            predecessor: None,
            successors: [60, 70, 80].map(contact).to_vec(),
            leaving: false,
        };
        rig.acknowledge(40, Response::Joined(neighbors));
        rig.sent.clear();
        rig
    }

    fn event(&mut self, event: Event) {
        self.node.handle_event(self.now, event);
        self.drain();
    }

    fn wait(&mut self, span: Duration) {
        let end = self.now.after(span);
        while let Some(due) = self.node.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.node.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    fn drain(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Send { rpc, to, request } => self.sent.push((rpc, number(&to), request)),
                Effect::Reply { response, .. } => self.answers.push(response),
                Effect::Notice(notice) => self.notices.push(notice),
                _ => {}
            }
        }
    }

    /// What it answers to a member.
    fn hear(&mut self, from: u64, request: Request) -> Response {
        self.next += 1;
        let (reply, from) = (ReplyId(self.next), contact(from));
        self.event(Event::Request { reply, from, request });
        self.answers.pop().expect("it answers at once")
    }

    /// Answers what was asked of a member last.
    fn acknowledge(&mut self, of: u64, response: Response) {
        let at = self.sent.iter().rposition(|(_, to, _)| *to == of).expect("was asked");
        let (rpc, ..) = self.sent.remove(at);
        self.event(Event::Response { rpc, response, record: None, connect_us: 0 });
    }

    /// The questions it handed on, and to whom, since it was looked at last.
    fn handed_on(&mut self) -> Vec<(RpcId, u64, Forward)> {
        let handed =
            self.sent.extract_if(.., |(_, _, request)| matches!(request, Request::Forward(_)));
        let forward = |(rpc, to, request)| match request {
            Request::Forward(forward) => (rpc, to, *forward),
            other => panic!("{other:?}"),
        };
        handed.map(forward).collect()
    }

    /// The ends it told, and to whom.
    fn ends(&mut self) -> Vec<(RpcId, u64, ForwardEnd)> {
        let told =
            self.sent.extract_if(.., |(_, _, request)| matches!(request, Request::ForwardEnd(_)));
        let end = |(rpc, to, request)| match request {
            Request::ForwardEnd(end) => (rpc, to, *end),
            other => panic!("{other:?}"),
        };
        told.map(end).collect()
    }

    fn fail(&mut self, rpc: RpcId, failure: Failure) {
        self.event(Event::Failed { rpc, failure });
    }

    fn look_up(&mut self, key: u64) {
        self.event(Event::Command(Command::Lookup {
            op: OpId(1),
            key: point(key),
            routing: None,
            depth: None,
            purpose: Purpose::Client,
            forwarding: None,
        }));
    }

    fn found(&self) -> Option<&LookupReport> {
        self.notices.iter().find_map(|notice| match notice {
            Notice::Found { report, .. } => Some(report),
            _ => None,
        })
    }
}

/// A question by 10 for `key` that went by 30 and 40, on its way to 50.
fn question(key: u64) -> Forward {
    Forward {
        ticket: Ticket { number: 3, nonce: 77 },
        asker: contact(10),
        key: point(key),
        after: point(40),
        past: None,
        routing: Routing::Successors,
        depth: 3,
        want_list: false,
        hops: 3,
        max_hops: 100,
        timeouts: 1,
        retries: 4,
        path: path(&[30, 40, 50]),
        detours: Vec::new(),
    }
}

fn forward(question: Forward) -> Request {
    Request::Forward(Box::new(question))
}

#[test]
fn who_hands_it_on_makes_no_difference_to_the_way() {
    let members: Vec<u64> = (0..12).map(|n| n * 10).collect();
    let mut one = World::ring(small(), &members);
    let mut other = World::ring(recursive(), &members);
    for (asker, key) in members.iter().flat_map(|n| members.iter().map(move |key| (*n, key + 1))) {
        for depth in 1..=3 {
            let (one, other) = (one.look_up(asker, key, depth), other.look_up(asker, key, depth));
            assert_eq!((&one.owner, one.hops, one.timeouts), (&other.owner, other.hops, 0));
            assert_eq!((one.handed, other.path.as_slice()), (None, [].as_slice()));
            let way: Vec<Id> = one.path.iter().map(|step| step.contact.id).collect();
            assert_eq!(places(&other), way, "from {asker} to {key} by {depth}");
            // One millisecond for each message: a round trip for each hop, or one way and the answer.
            let hops = u64::from(one.hops);
            assert_eq!(one.elapsed_us, 2_000 * hops);
            assert_eq!(other.elapsed_us, if hops > 0 { 1_000 * (hops + 1) } else { 0 });
        }
    }
}

#[test]
fn a_question_is_acknowledged_and_goes_on_at_once() {
    let mut rig = Rig::new(small());
    assert_eq!(rig.hear(40, forward(question(75))), Response::Done);
    let mut handed = rig.handed_on();
    assert_eq!(handed.len(), 1, "one in, one out");
    let (rpc, to, sent) = handed.remove(0);
    assert_eq!(to, 80, "the list shows the owner");
    let kept = question(75);
    let wanted = Forward {
        after: point(50),
        hops: 4,
        retries: 3,
        path: path(&[30, 40, 50, 80]),
        ..kept.clone()
    };
    assert_eq!(sent, wanted);
    assert_eq!(rig.node.sizes().forwards, 1);
    rig.event(Event::Response { rpc, response: Response::Done, record: None, connect_us: 0 });
    assert_eq!(rig.node.sizes().forwards, 0, "nothing is kept of what somebody else has");
    // Asked too far: back to the predecessor, which has to be nearer than whoever sends it there.
    let (after, path) = (point(30), path(&[30, 50]));
    let back = Forward { key: point(35), after, hops: 2, path, ..kept };
    assert_eq!(rig.hear(30, forward(back)), Response::Done);
    let (_, to, sent) = rig.handed_on().remove(0);
    assert_eq!((to, sent.after, sent.past), (40, point(30), Some(point(50))));
}

#[test]
fn the_owner_tells_the_asker_until_it_hears() {
    let mut rig = Rig::new(small());
    let list = Forward { want_list: true, ..question(45) };
    assert_eq!(rig.hear(40, forward(list)), Response::Done);
    let wanted = ForwardEnd {
        ticket: Ticket { number: 3, nonce: 77 },
        key: point(45),
        outcome: ForwardOutcome::Mine {
            predecessor: Some(contact(40)),
            successors: [60, 70, 80, 40].map(contact)[..3].to_vec(),
        },
        hops: 3,
        timeouts: 1,
        path: path(&[30, 40, 50]),
        detours: Vec::new(),
    };
    for _ in 0..3 {
        let mut ends = rig.ends();
        assert_eq!(ends.len(), 1);
        let (rpc, to, end) = ends.remove(0);
        assert_eq!((to, &end), (10, &wanted));
        rig.fail(rpc, Failure::TimedOut);
    }
    assert_eq!((rig.ends(), rig.node.sizes().forwards), (vec![], 0), "enough is enough");
}

#[test]
fn whoever_does_not_take_it_is_stepped_round_while_retries_last() {
    let mut rig = Rig::new(small());
    let far = Forward { depth: 1, ..question(95) };
    assert_eq!(rig.hear(40, forward(far)), Response::Done);
    let (rpc, to, sent) = rig.handed_on().remove(0);
    assert_eq!((to, sent.retries, sent.timeouts), (60, 3, 1));
    rig.fail(rpc, Failure::TimedOut);
    let (rpc, to, sent) = rig.handed_on().remove(0);
    let silent = |n, reason| HandedDetour { place: mark(n), reason };
    assert_eq!((to, sent.retries, sent.timeouts, sent.hops), (70, 0, 2, 4));
    assert_eq!(sent.detours, [silent(60, DetourReason::TimedOut)]);
    assert_eq!(sent.path, path(&[30, 40, 50, 70]));
    rig.event(Event::Response { rpc, response: Response::Busy, record: None, connect_us: 0 });
    assert_eq!(rig.handed_on(), [], "it had one retry");
    let (_, to, end) = rig.ends().remove(0);
    assert_eq!((to, end.hops, end.timeouts), (10, 3, 3));
    assert_eq!(end.outcome, ForwardOutcome::Stuck { reason: GaveUp::TooManySilent });
    assert_eq!(end.detours, [silent(60, DetourReason::TimedOut), silent(70, DetourReason::Busy)]);
}

#[test]
fn nothing_is_kept_for_strangers_while_upkeep_finds_out() {
    let mut rig = Rig::new(small());
    let detours = vec![HandedDetour { place: mark(60), reason: DetourReason::TimedOut }];
    let dead = Forward { key: point(55), detours, ..question(55) };
    assert_eq!(rig.hear(40, forward(dead)), Response::Done);
    let (_, _, end) = rig.ends().remove(0);
    assert_eq!(end.outcome, ForwardOutcome::Stuck { reason: GaveUp::NextSilent });
    assert!(rig.sent.iter().any(|(_, to, request)| (*to, request) == (60, &Request::Ping)));
}

#[test]
fn what_does_not_fit_together_is_not_taken() {
    let mut rig = Rig::new(small());
    let good = || question(75);
    let detour = HandedDetour { place: mark(60), reason: DetourReason::Busy };
    let malformed = Response::Refused(crate::message::Refusal::Malformed);
    for (from, bad) in [
        (30, good()),
        (40, Forward { hops: 0, path: vec![], ..good() }),
        (40, Forward { hops: 4, ..good() }),
        (40, Forward { path: path(&[30, 40, 60]), ..good() }),
        (40, Forward { hops: 1, path: path(&[50]), ..good() }),
        (40, Forward { retries: MAX_RETRIES + 1, ..good() }),
        (40, Forward { detours: vec![detour; MAX_FAILED + 1], ..good() }),
    ] {
        assert_eq!(rig.hear(from, forward(bad)), malformed);
    }
    assert_eq!((rig.handed_on(), rig.ends()), (vec![], vec![]));
    // Of a way longer than a message tells, the end is not known.
    let long = path(&vec![30; MAX_PATH]);
    let long = Forward { hops: MAX_PATH as u32 + 1, max_hops: 1000, path: long, ..good() };
    assert_eq!(rig.hear(40, forward(long)), Response::Done);
    let (_, _, sent) = rig.handed_on().remove(0);
    assert_eq!((sent.hops as usize, sent.path.len()), (MAX_PATH + 2, MAX_PATH));
}

#[test]
fn so_many_steps_and_no_more() {
    for (carried, own) in [(3, 1000), (1000, 3)] {
        let mut rig = Rig::new(Config { max_hops: own, ..small() });
        let question = Forward { max_hops: carried, ..question(75) };
        assert_eq!(rig.hear(40, forward(question)), Response::Done);
        let (_, _, end) = rig.ends().remove(0);
        assert_eq!(end.outcome, ForwardOutcome::Stuck { reason: GaveUp::TooManyHops });
    }
}

#[test]
fn more_than_a_node_takes_is_busy() {
    let mut rig = Rig::new(Config { max_forwards: 2, ..small() });
    let ask = |rig: &mut Rig| rig.hear(40, forward(question(75)));
    assert_eq!(
        [ask(&mut rig), ask(&mut rig), ask(&mut rig)],
        [Response::Done, Response::Done, Response::Busy]
    );
    let (rpc, ..) = rig.handed_on().remove(0);
    rig.event(Event::Response { rpc, response: Response::Done, record: None, connect_us: 0 });
    assert_eq!(ask(&mut rig), Response::Done);
    let counts = rig.node.counters().forwards;
    assert_eq!((counts.taken, counts.refused, counts.gave_up), (3, 1, 0));
    let stranger = Node::new(
        contact(50),
        RingParams::founding(RingId(1), 3),
        Arc::new(small()),
        1,
        Instant(1),
    );
    let mut outside = Rig { node: stranger, ..Rig::new(small()) };
    assert_eq!(ask(&mut outside), Response::NotMember);
}

/// An answer to our own lookup for 75 from a path that ends at `owner`.
fn mine(asked: &Forward, owner: u64) -> ForwardEnd {
    ForwardEnd {
        ticket: asked.ticket,
        key: asked.key,
        outcome: ForwardOutcome::Mine { predecessor: Some(contact(70)), successors: vec![] },
        hops: 2,
        timeouts: 1,
        path: path(&[80, owner]),
        detours: Vec::new(),
    }
}

fn told(end: ForwardEnd) -> Request {
    Request::ForwardEnd(Box::new(end))
}

#[test]
fn an_answer_counts_from_the_way_of_the_question_only() {
    let mut rig = Rig::new(recursive());
    rig.look_up(75);
    let (_, to, asked) = rig.handed_on().remove(0);
    assert_eq!((to, asked.hops, asked.retries, &asked.path), (80, 1, 12, &path(&[80])));
    assert_eq!((asked.after, asked.asker.id), (point(50), point(50)));
    let ticket = asked.ticket;
    for ticket in [
        Ticket { nonce: ticket.nonce ^ 1, ..ticket },
        Ticket { number: ticket.number + 1, ..ticket },
    ] {
        assert_eq!(rig.hear(90, told(ForwardEnd { ticket, ..mine(&asked, 90) })), Response::Done);
    }
    let other = ForwardEnd { key: point(76), ..mine(&asked, 90) };
    assert_eq!(rig.hear(90, told(other)), Response::Done);
    let malformed = Response::Refused(crate::message::Refusal::Malformed);
    assert_eq!(rig.hear(66, told(mine(&asked, 90))), malformed, "the owner speaks for itself");
    assert_eq!(rig.found(), None);
    assert_eq!(rig.hear(90, told(mine(&asked, 90))), Response::Done);
    let report = rig.found().expect("the owner answered");
    assert_eq!(report.owner.as_ref().map(number), Some(90));
    assert_eq!((report.hops, report.timeouts, places(report).len()), (2, 1, 2));
    rig.notices.clear();
    assert_eq!(rig.hear(90, told(mine(&asked, 90))), Response::Done, "said again");
    assert_eq!(rig.found(), None);
    rig.look_up(75);
    let (_, _, again) = rig.handed_on().remove(0);
    assert_ne!(again.ticket.nonce, ticket.nonce);
    assert_ne!(again.ticket.number, ticket.number);
}

#[test]
fn without_an_answer_the_asker_goes_on_by_itself() {
    let patient = Config { lookup_timeout: Duration::from_millis(1500), ..recursive() };
    let mut rig = Rig::new(patient);
    rig.look_up(75);
    let (rpc, _, asked) = rig.handed_on().remove(0);
    rig.event(Event::Response { rpc, response: Response::Done, record: None, connect_us: 0 });
    rig.wait(Duration::from_millis(499));
    let is_route = |(_, to, request): &(RpcId, u64, Request)| {
        *to == 80 && matches!(request, Request::Route(_))
    };
    assert!(!rig.sent.iter().any(is_route));
    rig.wait(Duration::from_millis(1));
    assert!(rig.sent.iter().any(is_route), "a third of its time is over");
    assert_eq!(rig.node.counters().forwards.gave_up, 1);
    let before = rig.node.clone();
    let of_80 = RouteAnswer::Mine { predecessor: Some(contact(70)), successors: vec![] };
    rig.acknowledge(80, Response::Route(of_80));
    let report = rig.found().expect("it is found").clone();
    assert_eq!((report.hops, report.path.len(), places(&report).len()), (1, 1, 0));
    assert_eq!(report.handed.and_then(|handed| handed.gave_up), Some(GaveUp::NoAnswer));
    // What comes after all still counts.
    rig.node = before;
    rig.notices.clear();
    rig.hear(90, told(mine(&asked, 90)));
    let report = rig.found().expect("it is found");
    assert_eq!((report.hops, report.path.len(), places(report).len()), (2, 0, 2));
    assert_eq!(report.handed.as_ref().and_then(|handed| handed.gave_up), None);
}

#[test]
fn one_who_got_stuck_says_so_and_whom_it_found_silent() {
    let mut rig = Rig::new(recursive());
    rig.look_up(95);
    let (rpc, to, asked) = rig.handed_on().remove(0);
    assert_eq!(to, 80);
    rig.event(Event::Response { rpc, response: Response::Done, record: None, connect_us: 0 });
    let detours = vec![HandedDetour { place: mark(70), reason: DetourReason::TimedOut }];
    let stuck = ForwardEnd {
        outcome: ForwardOutcome::Stuck { reason: GaveUp::NextSilent },
        detours,
        ..mine(&asked, 90)
    };
    rig.hear(90, told(stuck.clone()));
    let routes = |rig: &Rig| -> Vec<Vec<Id>> {
        let failed = |(_, _, request): &(RpcId, u64, Request)| match request {
            Request::Route(query) => Some(query.failed.clone()),
            _ => None,
        };
        rig.sent.iter().filter_map(failed).collect()
    };
    assert_eq!(routes(&rig), [[point(70)]], "nobody else has to find out again");
    rig.hear(90, told(stuck));
    assert_eq!(routes(&rig).len(), 1, "once");
    rig.acknowledge(80, Response::NotMember);
    assert_eq!(rig.node.counters().forwards.gave_up, 1);
}
