//! Register operations, through whole data machines and against scripted keepers.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::config::{Config, RingParams};
use crate::event::{Effect, ReadOutcome, RpcId, StoreCommand, StoreId, WriteOutcome};
use crate::message::RingId;
use crate::message::client::ReplicaState;
use crate::message::ring::Request;
use crate::peer::PeerKey;
use crate::replication::rehearsal::{World, key, number, place, spread};
use crate::time::Instant;

#[test]
fn what_is_written_is_read_by_everybody() {
    for count in [1, 2, 3, 5, 7] {
        let places = spread(count);
        let mut world = World::ring(&places);
        for (at, n) in places.iter().enumerate() {
            let key = format!("key-{at}");
            assert_eq!(world.get(*n, &key), None);
            world.put(*n, &key, "first");
            world.put(places[0], &key, "second");
            for reader in &places {
                assert_eq!(world.get(*reader, &key), Some("second".to_owned()), "{count} members");
            }
        }
    }
}

#[test]
fn a_minority_may_be_silent() {
    for (count, silent) in [(3, 1), (4, 1), (5, 2), (7, 2)] {
        let places = spread(count);
        let mut world = World::ring(&places);
        world.put(places[0], "k", "before");
        let keepers = world.candidates(key("k").id());
        // Nobody has noticed yet: they are still asked.
        keepers[..silent].iter().for_each(|n| world.kill(*n));
        let asker = keepers[silent];
        assert_eq!(world.get(asker, "k"), Some("before".to_owned()));
        assert_eq!(world.get(asker, "never"), None, "a majority says so");
        world.put(asker, "k", "after");
        assert_eq!(world.get(asker, "k"), Some("after".to_owned()));
    }
}

#[test]
fn a_majority_may_not() {
    for (count, silent, needed) in [(2, 1, 2), (3, 2, 2), (5, 3, 3)] {
        let places = spread(count);
        let mut world = World::ring(&places);
        world.put(places[0], "k", "before");
        let keepers = world.candidates(key("k").id());
        keepers[..silent].iter().for_each(|n| world.kill(*n));
        let asker = keepers[silent];
        for name in ["k", "never"] {
            let op = world.begin(asker, name, Task::Read);
            let outcome = world.read(op);
            assert!(matches!(outcome, ReadOutcome::NoQuorum { .. }), "{name}: {outcome:?}");
        }
        let op = world.begin_write(asker, "never", "v");
        let outcome = world.written(op);
        let answered = count as usize - silent;
        assert_eq!(outcome, WriteOutcome::NoQuorum { answered, needed }, "nothing was proposed");
    }
}

#[test]
fn stand_ins_do_not_make_a_majority() {
    let places = spread(9);
    let mut world = World::ring(&places);
    let keepers = world.candidates(key("k").id());
    for n in &keepers[..3] {
        world.lies.insert(
            *n,
            Box::new(|request| {
                matches!(request, Request::WriteRegister { .. }).then_some(Response::Busy)
            }),
        );
    }
    let op = world.begin_write(keepers[6], "k", "v");
    assert_eq!(world.written(op), WriteOutcome::UnknownOutcome { acked: 2, needed: 3 });
}

#[test]
fn rival_writers_all_end_and_agree() {
    let places = spread(7);
    let mut world = World::ring(&places);
    let ops: Vec<OpId> =
        places.iter().map(|n| world.begin_write(*n, "k", &format!("by {n}"))).collect();
    let mut ballots: Vec<Ballot> = Vec::new();
    for op in ops {
        let outcome = world.written(op);
        let WriteOutcome::Done { register, .. } = outcome else { panic!("{outcome:?}") };
        ballots.push(register.ballot);
    }
    let winner = ballots.iter().max().expect("seven");
    let op = world.begin(places[3], "k", Task::Read);
    let ReadOutcome::Value { register: Some(register), .. } = world.read(op) else {
        panic!("it was written")
    };
    assert_eq!(register.ballot, *winner, "the highest ballot wins");
    ballots.sort_unstable();
    ballots.dedup();
    assert_eq!(ballots.len(), places.len(), "no two writes share a ballot");
}

#[test]
fn a_retry_with_the_same_operation_id_happens_once() {
    let places = spread(5);
    let mut world = World::ring(&places);
    let task = || Task::Write {
        operation: OperationId([9; 16]),
        value: Value::Present("mine".to_owned().into()),
    };
    let mut versions = Vec::new();
    for n in [places[1], places[4]] {
        let op = world.begin(n, "k", task());
        let WriteOutcome::Done { register, .. } = world.written(op) else { panic!("all live") };
        versions.push(register.ballot);
    }
    assert_eq!(versions[0], versions[1]);
    // A rival came after it: the retry does not undo that.
    world.put(places[2], "k", "theirs");
    let op = world.begin(places[0], "k", task());
    assert!(matches!(world.written(op), WriteOutcome::Done { .. }));
    assert_eq!(world.get(places[3], "k"), Some("theirs".to_owned()));
}

#[test]
fn joiners_that_hold_nothing_hide_nothing() {
    let places = spread(3);
    let mut world = World::ring(&places);
    world.put(places[0], "k", "v");
    // So many joiners before the old keepers that those are not even in the set.
    let owner = world.candidates(key("k").id())[0];
    for n in 1..=8 {
        world.enter(owner - n);
    }
    let asker = places[1];
    assert_eq!(world.get(asker, "k"), Some("v".to_owned()));
    let copies = world.copies("k");
    assert!(copies >= 3 + 3, "a majority of the set holds it before the answer: {copies}");
    let silent = world.candidates(key("other").id())[0];
    world.kill(silent);
    let op = world.begin(asker, "other", Task::Read);
    let outcome = world.read(op);
    assert!(
        !matches!(outcome, ReadOutcome::Value { register: None, .. }),
        "the silent one may hold it: {outcome:?}"
    );
}

#[test]
fn what_only_one_holds_is_safe_before_it_is_told() {
    let places = spread(5);
    let mut world = World::ring(&places);
    world.put(places[0], "k", "old");
    let keepers = world.candidates(key("k").id());
    // A writer that died half-way reached one of them.
    let id = key("k").id();
    let disk = &mut world.member(keepers[4]).disk;
    let newer = Register {
        ballot: Ballot { counter: 9, ..disk.registers[&id].ballot },
        value: Value::Present("half-way".to_owned().into()),
        ..disk.registers[&id].clone()
    };
    disk.registers.insert(id, newer);
    // It reads its own disk before the others have answered.
    assert_eq!(world.get(keepers[4], "k"), Some("half-way".to_owned()));
    let holds = |n: &&u64| world.members[n].disk.registers[&id].ballot.counter == 9;
    assert!(keepers.iter().filter(holds).count() >= 3, "once told, it stays");
    keepers[2..].iter().for_each(|n| assert_eq!(world.get(*n, "k"), Some("half-way".to_owned())));
}

#[test]
fn replicas_are_reported_as_they_are() {
    let places = spread(5);
    let mut world = World::ring(&places);
    world.put(places[0], "k", "v");
    let keepers = world.candidates(key("k").id());
    world.run(Duration::from_secs(1));
    world.kill(keepers[2]);
    world.member(keepers[1]).disk.registers.clear();
    // The others answer late, so that the one that lost its copy is heard.
    for n in [keepers[0], keepers[3]] {
        world.member(n).disk_delay = Duration::from_millis(20);
    }
    let op = world.begin(keepers[4], "k", Task::Read);
    let ReadOutcome::Value { replicas, .. } = world.read(op) else { panic!("a majority lives") };
    let state = |n: u64| replicas.iter().find(|(held, _)| number(held) == n).map(|(_, s)| *s);
    assert_eq!(state(keepers[2]), Some(ReplicaState::Silent));
    assert_eq!(replicas.len(), 5);
}

/// A coordinator that is no keeper itself, and five scripted keepers.
struct Stage {
    out: Outbox,
    quorum: Quorum,
    me: Contact,
    params: RingParams,
}

impl Stage {
    /// An operation whose lookup has found the keepers.
    fn new(task: Task, me: u64) -> Stage {
        let mut out = Outbox::new(Arc::new(Config::default()), 1, Instant(1));
        let mut quorum = Quorum::default();
        quorum.begin(&mut out, OpId(1), key("k"), task);
        let params = RingParams::founding(RingId(1), 3);
        let mut stage = Stage { out, quorum, me: place(me, 1), params };
        stage.find();
        stage
    }

    fn write(me: u64) -> Stage {
        let value = Value::Present("v".to_owned().into());
        Stage::new(Task::Write { operation: OperationId([1; 16]), value }, me)
    }

    fn with(&mut self, act: impl FnOnce(&mut Quorum, &mut Outbox, &Surroundings<'_>)) {
        let around = Surroundings {
            me: &self.me,
            params: &self.params,
            alone: false,
            successors: &[],
            predecessors: &[],
        };
        act(&mut self.quorum, &mut self.out, &around);
    }

    fn find(&mut self) {
        let candidates = (1..=5).map(|n| place(n, 1)).collect();
        let number = self.number();
        self.with(|quorum, out, around| {
            quorum.on_lookup(out, around, false, number, Ok((candidates, 2)));
        });
    }

    /// The next attempt, after the pause.
    fn retry(&mut self) {
        self.out.now = self.out.now.after(Duration::from_secs(1));
        let timer = self.out.timers.pop_due(self.out.now);
        assert_eq!(timer, Some(Timer::QuorumRetry(self.number())));
        let number = self.number();
        assert!(self.quorum.on_retry(number).is_some());
        self.find();
    }

    fn number(&self) -> u64 {
        *self.quorum.operations.keys().next().expect("under way")
    }

    fn answer(&mut self, round: u64, from: u64, response: Option<Response>) {
        self.with(|quorum, out, around| {
            quorum.on_response(out, around, round, &place(from, 1), response);
        });
    }

    fn round(&self) -> u64 {
        self.quorum.operations.values().next().expect("under way").round
    }

    /// Three of five say that there is nothing: the write goes out.
    fn agree_on_nothing(&mut self) {
        let round = self.round();
        for n in 1..=3 {
            self.answer(round, n, Some(Response::Register { open: true, register: None }));
        }
    }

    /// What went out since last asked.
    fn sent(&mut self) -> (Vec<(u64, Request)>, Vec<StoreCommand>, Vec<Notice>) {
        let (mut sent, mut stored, mut notices) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(effect) = self.out.pop_effect() {
            match effect {
                Effect::Send { rpc: RpcId(_), to, request } => sent.push((number(&to), request)),
                Effect::Store { store: StoreId(_), command } => stored.push(command),
                Effect::Notice(notice) => notices.push(notice),
                effect => panic!("{effect:?}"),
            }
        }
        (sent, stored, notices)
    }

    /// The ballot of the write that went out last.
    fn proposed(&mut self) -> Ballot {
        let ballots = self.sent().0.into_iter().filter_map(|(_, request)| match request {
            Request::WriteRegister { register, .. } => Some(register.ballot),
            _ => None,
        });
        ballots.last().expect("proposed")
    }
}

#[test]
fn acknowledgements_of_an_earlier_proposal_do_not_count() {
    let mut stage = Stage::write(9);
    stage.agree_on_nothing();
    let first = stage.round();
    let held = Ballot { epoch: FIRST_EPOCH, counter: 1, peer: PeerKey([255; 32]) };
    stage.answer(first, 1, Some(Response::Outdated { held }));
    stage.retry();
    stage.agree_on_nothing();
    let (second, _) = (stage.round(), stage.sent());
    for n in 2..=5 {
        stage.answer(first, n, Some(Response::Accepted));
    }
    assert!(stage.sent().2.is_empty(), "the second proposal is on nobody's disk");
    for n in 2..=4 {
        stage.answer(second, n, Some(Response::Accepted));
    }
    let (_, _, notices) = stage.sent();
    let [Notice::Written { outcome: WriteOutcome::Done { acks, .. }, .. }] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert_eq!(acks.iter().map(number).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn a_ballot_that_stood_in_the_way_is_stepped_over_even_unseen() {
    let mut stage = Stage::write(9);
    stage.agree_on_nothing();
    assert_eq!(stage.proposed().counter, 1);
    let held = Ballot { epoch: FIRST_EPOCH, counter: 7, peer: PeerKey([255; 32]) };
    let round = stage.round();
    stage.answer(round, 5, Some(Response::Outdated { held }));
    stage.retry();
    // The one that holds it stays silent from now on.
    stage.agree_on_nothing();
    assert_eq!(stage.proposed().counter, 8);
}

#[test]
fn answers_that_fit_nothing_count_for_nothing() {
    let other = Register::followed_by(
        None,
        key("other"),
        FIRST_EPOCH,
        PeerKey([1; 32]),
        OperationId([2; 16]),
        Value::Deleted,
    );
    let foreign = Register {
        key: key("k"),
        ballot: Ballot { epoch: 2, counter: 1, peer: PeerKey([1; 32]) },
        ..other.clone()
    };
    let mut stage = Stage::new(Task::Read, 9);
    let round = stage.round();
    let answers = [
        Response::Accepted,
        Response::Done,
        Response::Register { open: true, register: Some(other) },
        Response::Register { open: true, register: Some(foreign) },
        Response::Unknown,
    ];
    for (n, response) in (1..).zip(answers) {
        stage.answer(round, n, Some(response));
        stage.answer(round, 99, Some(Response::Register { open: true, register: None }));
    }
    assert!(stage.sent().2.is_empty());
    stage.with(|quorum, out, _| {
        let number = *quorum.operations.keys().next().expect("under way");
        quorum.on_deadline(out, number);
    });
    let no_quorum = ReadOutcome::NoQuorum { answered: 0, needed: 3 };
    assert_eq!(stage.sent().2, [Notice::Read { op: OpId(1), outcome: no_quorum }]);
}

#[test]
fn a_vote_needs_the_arc_open_before_and_after_the_disk_was_read() {
    for (before, after, counts) in [(true, true, true), (false, true, false), (true, false, false)]
    {
        let mut stage = Stage::new(Task::Read, 1);
        stage.with(|quorum, out, around| {
            let number = *quorum.operations.keys().next().expect("under way");
            let candidates = (1..=3).map(|n| place(n, 1)).collect();
            quorum.on_lookup(out, around, before, number, Ok((candidates, 0)));
        });
        let round = stage.round();
        stage.answer(round, 2, Some(Response::Register { open: true, register: None }));
        stage.with(|quorum, out, around| {
            quorum.on_stored(out, around, round, after, StoreOutcome::Loaded(None));
        });
        let ended = !stage.sent().2.is_empty();
        assert_eq!(ended, counts, "two votes of three: {before} {after}");
    }
}

#[test]
fn a_coordinator_brings_itself_up_to_date_without_the_network() {
    let mut stage = Stage::new(Task::Read, 1);
    stage.sent();
    let newest = Register::followed_by(
        None,
        key("k"),
        FIRST_EPOCH,
        PeerKey([1; 32]),
        OperationId([2; 16]),
        Value::Deleted,
    );
    let round = stage.round();
    stage.with(|quorum, out, around| {
        quorum.on_stored(out, around, round, false, StoreOutcome::Loaded(None));
    });
    for n in 2..=4 {
        let register = Some(newest.clone());
        stage.answer(round, n, Some(Response::Register { open: true, register }));
    }
    let (sent, stored, notices) = stage.sent();
    assert_eq!(notices.len(), 1, "a majority holds it");
    assert!(sent.iter().all(|(to, _)| *to != 1));
    assert_eq!(stored, [StoreCommand::Save { registers: vec![newest] }]);
}

#[test]
fn an_operation_that_finds_no_owner_says_so() {
    for is_read in [true, false] {
        let mut stage = if is_read { Stage::new(Task::Read, 9) } else { Stage::write(9) };
        let number = stage.number();
        stage.with(|quorum, out, around| {
            quorum.on_lookup(out, around, false, number, Err(LookupFailure::TimedOut));
            quorum.on_deadline(out, number);
            assert_eq!(quorum.len(), 0);
            assert!(quorum.rounds.is_empty());
        });
        let failed = match stage.sent().2.pop() {
            Some(Notice::Read { outcome: ReadOutcome::Unreachable(failure), .. }) => failure,
            Some(Notice::Written { outcome: WriteOutcome::Unreachable(failure), .. }) => failure,
            notice => panic!("{notice:?}"),
        };
        assert_eq!(failed, LookupFailure::TimedOut);
        assert_eq!(stage.out.timers.next(), None, "nothing is left to wait for");
    }
}
