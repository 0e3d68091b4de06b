//! Comparisons with peers that lie, fail, or change while they are compared with.

use std::sync::Arc;

use super::*;
use crate::config::Config;
use crate::event::Effect;
use crate::interval::Interval;
use crate::peer::PeerKey;
use crate::register::{OperationId, Value};
use crate::replication::rehearsal::{chunk, key, place};
use crate::time::Instant;

/// One comparison and the effects it asked for.
struct Bench {
    out: Outbox,
    session: Session,
}

impl Bench {
    /// A comparison of the whole circle, of which we hold nothing and the peer something.
    fn new(kind: Kind) -> Bench {
        let mut out = Outbox::new(Arc::new(Config::default()), 1, Instant(1));
        let arc = Interval::full(Id::ZERO);
        let plan = Plan { kind, arc, from: place(9, 1) };
        let session = Session::start(&mut out, 1, plan);
        let mut bench = Bench { out, session };
        let digest = [1; 32];
        bench.stored(StoreOutcome::Digest { digest: [0; 32], count: 0 });
        bench.answer(Response::Digest { digest, count: 9, open: true });
        bench.effects();
        bench
    }

    fn answer(&mut self, response: Response) {
        self.session.on_response(&mut self.out, 1, Some(response));
    }

    fn stored(&mut self, outcome: StoreOutcome) {
        self.session.on_stored(&mut self.out, 1, outcome);
    }

    /// What was asked of the peer, of the store, and fetched.
    fn effects(&mut self) -> (Vec<Request>, Vec<StoreCommand>, Vec<ChunkRef>) {
        let (mut asked, mut stored, mut fetched) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(effect) = self.out.pop_effect() {
            match effect {
                Effect::Send { request, .. } => asked.push(request),
                Effect::Store { command, .. } => stored.push(command),
                Effect::Fetch { chunk, .. } => fetched.push(chunk),
                effect => panic!("{effect:?}"),
            }
        }
        (asked, stored, fetched)
    }

    /// The peer lists these keys, and there is nothing on our side.
    fn list(&mut self, names: &[&str]) -> Vec<Register> {
        let mut registers: Vec<Register> = names.iter().map(|name| register(name)).collect();
        registers.sort_by_key(|held| held.key.id());
        let entries = registers.iter().map(|held| (held.key.id(), held.ballot)).collect();
        self.answer(Response::RegisterPage { entries, last: true });
        self.stored(StoreOutcome::Registers { entries: Vec::new(), last: true });
        registers
    }
}

fn register(name: &str) -> Register {
    let peer = PeerKey([1; 32]);
    Register::followed_by(None, key(name), FIRST_EPOCH, peer, OperationId([1; 16]), Value::Deleted)
}

#[test]
fn equal_digests_end_it_and_so_does_an_empty_peer() {
    for (ours, theirs, count) in [([1; 32], [1; 32], 9), ([1; 32], [2; 32], 0)] {
        let mut out = Outbox::new(Arc::new(Config::default()), 1, Instant(1));
        let plan = Plan { kind: Kind::Chunks, arc: Interval::full(Id::ZERO), from: place(9, 1) };
        let mut session = Session::start(&mut out, 1, plan);
        let digest = Response::Digest { digest: theirs, count, open: false };
        session.on_response(&mut out, 1, Some(digest));
        assert_eq!(session.ended(), None);
        session.on_stored(&mut out, 1, StoreOutcome::Digest { digest: ours, count: 9 });
        assert_eq!(session.ended(), Some(Ended::Complete { open: false }));
        assert_eq!(session.found_equal(), count == 9);
    }
}

#[test]
fn what_does_not_fit_is_asked_for_again_and_what_is_gone_is_no_completeness() {
    let mut bench = Bench::new(Kind::Registers);
    let registers = bench.list(&["a", "b", "c", "d"]);
    bench.effects();
    // The first is gone, the second came, the others did not fit.
    bench.answer(Response::Registers(vec![registers[1].clone()]));
    assert_eq!(bench.session.missing(), 3);
    bench.stored(StoreOutcome::Saved(vec![None]));
    let (asked, _, _) = bench.effects();
    let rest = vec![registers[2].key.id(), registers[3].key.id()];
    assert_eq!(asked, [Request::FetchRegisters { ids: rest }]);
    bench.answer(Response::Registers(registers[2..].to_vec()));
    bench.stored(StoreOutcome::Saved(vec![None, None]));
    assert_eq!(bench.session.ended(), Some(Ended::Broken), "one is still lacking");
    assert_eq!(bench.session.registers_copied(), 3);
}

#[test]
fn what_was_not_asked_for_is_not_saved() {
    let mut bench = Bench::new(Kind::Registers);
    let registers = bench.list(&["a"]);
    bench.effects();
    let foreign =
        Register { ballot: Ballot { epoch: 5, ..registers[0].ballot }, ..registers[0].clone() };
    bench.answer(Response::Registers(vec![register("evil"), foreign]));
    assert_eq!(bench.effects().1, []);
    assert_eq!(bench.session.ended(), Some(Ended::Broken));
    let mut bench = Bench::new(Kind::Registers);
    let registers = bench.list(&["a"]);
    bench.effects();
    bench.answer(Response::Registers(vec![register("evil"), registers[0].clone()]));
    assert_eq!(bench.effects().1, [StoreCommand::Save { registers }]);
}

#[test]
fn a_page_cannot_hold_more_than_a_page_nor_go_back() {
    let mut bench = Bench::new(Kind::Chunks);
    let mut chunks: Vec<ChunkRef> = (0..2 * MAX_PAGE as u32).map(chunk).collect();
    chunks.sort_by_key(ChunkRef::id);
    bench.answer(Response::ChunkPage { entries: chunks.clone(), last: false });
    let held = bench.session.theirs.entries.len();
    assert_eq!(held, MAX_PAGE, "cut");
    bench.stored(StoreOutcome::Chunks { entries: Vec::new(), last: true });
    bench.effects();
    // The same page again, and again: nothing in it is new, so it counts as the last.
    bench.session.theirs.entries.clear();
    bench.answer(Response::ChunkPage { entries: chunks[..MAX_PAGE].to_vec(), last: false });
    assert!(bench.session.theirs.is_last);
    assert!(bench.session.theirs.entries.is_empty());
}

#[test]
fn entries_outside_the_arc_are_ignored() {
    let mut bench = Bench::new(Kind::Registers);
    let inside = register("a");
    let start = inside.key.id().wrapping_sub(Id::from_u64(1));
    bench.session.plan.arc = Interval::new(start, inside.key.id());
    let outside = register("b");
    let mut entries = vec![(inside.key.id(), inside.ballot), (outside.key.id(), outside.ballot)];
    entries.sort();
    bench.answer(Response::RegisterPage { entries, last: true });
    bench.stored(StoreOutcome::Registers { entries: Vec::new(), last: true });
    let (asked, _, _) = bench.effects();
    let wanted = Request::FetchRegisters { ids: vec![inside.key.id()] };
    assert!(asked.contains(&wanted), "{asked:?}");
}

#[test]
fn the_start_of_a_full_circle_comes_last_and_is_not_lost() {
    let mut bench = Bench::new(Kind::Registers);
    let mut registers = [register("a"), register("b"), register("c")];
    registers.sort_by_key(|held| held.key.id());
    let [first, second, third] = registers;
    bench.session.plan.arc = Interval::full(second.key.id());
    let order = [&third, &first, &second];
    let entries = order.map(|held| (held.key.id(), held.ballot)).to_vec();
    bench.answer(Response::RegisterPage { entries, last: true });
    bench.stored(StoreOutcome::Registers { entries: Vec::new(), last: true });
    let ids = order.map(|held| held.key.id()).to_vec();
    assert!(bench.effects().0.contains(&Request::FetchRegisters { ids }));
}

#[test]
fn older_copies_are_renewed_and_newer_ones_left_alone() {
    let mut bench = Bench::new(Kind::Registers);
    let mut registers = [register("a"), register("b")];
    registers.sort_by_key(|held| held.key.id());
    let with = |held: &Register, counter| (held.key.id(), Ballot { counter, ..held.ballot });
    let [a, b] = &registers;
    bench.answer(Response::RegisterPage { entries: vec![with(a, 5), with(b, 5)], last: true });
    bench.stored(StoreOutcome::Registers { entries: vec![with(a, 4), with(b, 6)], last: true });
    let wanted = Request::FetchRegisters { ids: vec![a.key.id()] };
    assert_eq!(bench.effects().0, [wanted]);
}

#[test]
fn a_wrong_answer_ends_it() {
    for response in
        [Response::Done, Response::Busy, Response::ChunkPage { entries: vec![], last: true }]
    {
        let mut bench = Bench::new(Kind::Registers);
        bench.answer(response);
        assert_eq!(bench.session.ended(), Some(Ended::Broken));
    }
    let mut bench = Bench::new(Kind::Registers);
    bench.session.on_response(&mut bench.out, 1, None);
    assert_eq!(bench.session.ended(), Some(Ended::Broken), "the peer died");
    let mut bench = Bench::new(Kind::Registers);
    bench.stored(StoreOutcome::Failed);
    assert_eq!(bench.session.ended(), Some(Ended::Broken), "the disk did");
}

#[test]
fn a_source_that_gives_nothing_is_left() {
    let mut bench = Bench::new(Kind::Chunks);
    let mut chunks: Vec<ChunkRef> = (0..100).map(chunk).collect();
    chunks.sort_by_key(ChunkRef::id);
    bench.answer(Response::ChunkPage { entries: chunks, last: true });
    bench.stored(StoreOutcome::Chunks { entries: Vec::new(), last: true });
    let mut failed = 0;
    while bench.session.ended().is_none() {
        let fetched = bench.effects().2;
        assert!(fetched.len() <= bench.out.config.max_fetches, "never more at once");
        // The outbox counts what is under way; each of these comes back empty.
        for _ in fetched {
            failed += 1;
            let numbers: Vec<u64> = (0..2000).collect();
            numbers.iter().find_map(|n| bench.out.finish_fetch(crate::event::FetchId(*n)));
            bench.session.on_fetched(false);
            bench.session.fetch_more(&mut bench.out, 1);
        }
    }
    assert_eq!(bench.session.ended(), Some(Ended::Broken));
    assert!(failed < 20, "not all hundred are tried: {failed}");
    assert_eq!(bench.out.timers.next(), None);
}
