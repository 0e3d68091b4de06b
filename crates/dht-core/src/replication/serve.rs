//! What a member answers when others ask for its registers and lists.

use super::Replication;
use super::ranges::possible_arcs;
use crate::event::{ReplyId, StoreCommand, StoreOutcome};
use crate::id::Id;
use crate::interval::Interval;
use crate::message::Refusal;
use crate::message::ring::{Kind, MAX_PAGE, Request, Response};
use crate::outbox::{Outbox, StoreOwner};
use crate::peer::Contact;
use crate::register::{FIRST_EPOCH, Register};
use crate::surroundings::Surroundings;

/// Requests that wait for the disk; more are answered "busy" (guess).
const MAX_SERVING: usize = 1024;
/// How much of registers one answer carries, in bytes: it must fit a frame of 256 KiB.
const MAX_ANSWER: usize = 192 * 1024;

/// A request that waits for the store.
#[derive(Clone, Debug)]
pub(super) enum Serving {
    /// Whether the arc was open before the store was asked: what it read then may lack what opened
    /// the arc since.
    Read {
        point: Id,
        was_open: bool,
    },
    /// Of the register of this point.
    Write {
        point: Id,
    },
    /// Whether the whole arc was held before the store was asked.
    Digest {
        arc: Interval,
        was_complete: bool,
    },
    List,
    Fetch,
}

impl Replication {
    /// Begins to answer; the store has its say first.
    pub(crate) fn serve(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        reply: ReplyId,
        from: Contact,
        request: Request,
    ) {
        if self.serving.len() >= MAX_SERVING {
            out.reply(reply, Response::Busy);
            return;
        }
        let (serving, command) = match request {
            Request::ReadRegister { part, epoch, key } => {
                let point = key.id();
                if let Some(response) = wrong_view(around, part, epoch, point) {
                    out.reply(reply, response);
                    return;
                }
                let was_open = self.is_open(point);
                (Serving::Read { point, was_open }, StoreCommand::Load { key })
            }
            Request::WriteRegister { part, epoch, register } => {
                if self.is_leaving() {
                    out.reply(reply, Response::NotMember);
                    return;
                }
                let point = register.key.id();
                if register.ballot.epoch != epoch {
                    out.reply(reply, Response::Refused(Refusal::Malformed));
                    return;
                }
                if let Some(response) = wrong_view(around, part, epoch, point) {
                    out.reply(reply, response);
                    return;
                }
                (Serving::Write { point }, StoreCommand::Save { registers: vec![register] })
            }
            Request::Digest { kind, arc } => {
                // Of chunks nobody claims to hold all.
                let was_complete = kind == Kind::Registers && self.holds_all(around, &arc);
                (Serving::Digest { arc, was_complete }, StoreCommand::Digest { kind, arc })
            }
            Request::List { kind, arc, after } => {
                (Serving::List, StoreCommand::List { kind, arc, after, limit: MAX_PAGE })
            }
            Request::FetchRegisters { mut ids } => {
                ids.truncate(MAX_PAGE);
                (Serving::Fetch, StoreCommand::LoadMany { ids })
            }
            Request::Handoff { kind, arc } => {
                self.serve_handoff(out, reply, from, kind, arc);
                return;
            }
            _ => {
                out.reply(reply, Response::Refused(Refusal::Unsupported));
                return;
            }
        };
        self.serving.insert(reply, serving);
        out.store(StoreOwner::Serve(reply), command);
    }

    /// The asker is gone.
    pub(crate) fn drop_serving(&mut self, reply: ReplyId) {
        self.serving.remove(&reply);
    }

    pub(super) fn finish_serving(
        &mut self,
        out: &mut Outbox,
        around: &Surroundings<'_>,
        reply: ReplyId,
        outcome: StoreOutcome,
    ) {
        let Some(serving) = self.serving.remove(&reply) else { return };
        let response = match (serving, outcome) {
            (Serving::Read { point, was_open }, StoreOutcome::Loaded(register)) => {
                Response::Register { open: was_open && self.is_open(point), register }
            }
            (Serving::Write { point }, StoreOutcome::Saved(held)) => {
                match held.first().copied().flatten() {
                    Some(held) => Response::Outdated { held },
                    None => {
                        self.note_accepted(point);
                        Response::Accepted
                    }
                }
            }
            (Serving::Digest { arc, was_complete }, StoreOutcome::Digest { digest, count }) => {
                let open = was_complete && self.holds_all(around, &arc);
                Response::Digest { digest, count, open }
            }
            (Serving::List, StoreOutcome::Registers { entries, last }) => {
                Response::RegisterPage { entries, last }
            }
            (Serving::List, StoreOutcome::Chunks { entries, last }) => {
                Response::ChunkPage { entries, last }
            }
            (Serving::Fetch, StoreOutcome::LoadedMany(registers)) => {
                Response::Registers(as_many_as_fit(registers))
            }
            // The disk failed: others have copies, and this one may recover.
            _ => Response::Refused(Refusal::Overloaded { retry_after_ms: 1000 }),
        };
        out.reply(reply, response);
    }

    /// Whether every register of an arc is held, for those who pull: open, or not kept here and
    /// still held for those who keep it. What is kept and not open yet may lack writes.
    fn holds_all(&self, around: &Surroundings<'_>, arc: &Interval) -> bool {
        let kept = possible_arcs(around, around.params.register_copies());
        let is_outside =
            |piece: &Interval| kept.arcs().iter().all(|kept| kept.intersection(piece).is_empty());
        let left = self.open.missing(arc);
        left.iter().all(|piece| self.held.covers(piece) && is_outside(piece))
    }
}

/// The first view is the only one so far; of others nothing is known here.
fn wrong_view(around: &Surroundings<'_>, part: u16, epoch: u64, point: Id) -> Option<Response> {
    if part != point.part(around.params.part_bits) {
        return Some(Response::Refused(Refusal::Malformed));
    }
    (epoch != FIRST_EPOCH).then_some(Response::Unknown)
}

fn as_many_as_fit(mut registers: Vec<Register>) -> Vec<Register> {
    let mut size = 0;
    let fits = registers.iter().take_while(|register| {
        size += register.size_hint();
        size <= MAX_ANSWER
    });
    // At least one, so that whoever asks comes forward.
    let count = fits.count().max(1).min(registers.len());
    registers.truncate(count);
    registers
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::Effect;
    use crate::register::{Ballot, OperationId, Value};
    use crate::replication::rehearsal::{World, key, place};

    impl World {
        /// Asks a member directly and waits for its answer, whatever else it does meanwhile.
        fn ask(&mut self, n: u64, request: Request) -> Response {
            self.pose(n, ReplyId(u64::MAX), request);
            self.run(Duration::from_millis(100));
            self.heard.remove(&ReplyId(u64::MAX)).expect("every question is answered")
        }
    }

    fn part_of(name: &str) -> u16 {
        key(name).id().part(12)
    }

    fn register(name: &str, epoch: u64) -> Register {
        let peer = place(9, 1).key();
        let held = Register::followed_by(
            None,
            key(name),
            FIRST_EPOCH,
            peer,
            OperationId([1; 16]),
            Value::Deleted,
        );
        Register { ballot: Ballot { epoch, ..held.ballot }, ..held }
    }

    #[test]
    fn registers_are_served_by_part_and_epoch() {
        let mut world = World::founded(100);
        let (part, epoch) = (part_of("k"), FIRST_EPOCH);
        let read = |part, epoch| Request::ReadRegister { part, epoch, key: key("k") };
        let nothing = Response::Register { open: true, register: None };
        assert_eq!(world.ask(100, read(part, epoch)), nothing);
        let malformed = Response::Refused(Refusal::Malformed);
        assert_eq!(world.ask(100, read(part ^ 1, epoch)), malformed);
        assert_eq!(world.ask(100, read(part, epoch + 1)), Response::Unknown);
        let write = |part, register| Request::WriteRegister { part, epoch, register };
        let held = register("k", epoch);
        assert_eq!(world.ask(100, write(part ^ 1, held.clone())), malformed);
        assert_eq!(world.ask(100, write(part, register("k", 2))), malformed);
        assert_eq!(world.ask(100, write(part, held.clone())), Response::Accepted);
        assert_eq!(world.ask(100, write(part, held.clone())), Response::Accepted, "again");
        let older = Register { ballot: Ballot { counter: 0, ..held.ballot }, ..held.clone() };
        let outdated = Response::Outdated { held: held.ballot };
        assert_eq!(world.ask(100, write(part, older)), outdated);
    }

    #[test]
    fn a_broken_disk_is_no_vote() {
        let mut world = World::founded(100);
        world.member(100).disk.is_broken = true;
        let read = Request::ReadRegister { part: part_of("k"), epoch: FIRST_EPOCH, key: key("k") };
        assert!(matches!(world.ask(100, read), Response::Refused(_)));
        let (part, register) = (part_of("k"), register("k", FIRST_EPOCH));
        let write = Request::WriteRegister { part, epoch: FIRST_EPOCH, register };
        assert!(matches!(world.ask(100, write), Response::Refused(_)));
    }

    #[test]
    fn what_was_read_before_the_arc_was_open_is_no_vote() {
        let mut world = World::founded(100);
        let everything = Interval::full(place(100, 1).id);
        for request in [
            Request::ReadRegister { part: part_of("k"), epoch: FIRST_EPOCH, key: key("k") },
            Request::Digest { kind: Kind::Registers, arc: everything },
        ] {
            world.member(100).replication.open.remove(&everything);
            world.pose(100, ReplyId(u64::MAX), request);
            world.member(100).replication.open_arc(&everything);
            world.run(Duration::from_millis(100));
            let (Response::Register { open, .. } | Response::Digest { open, .. }) =
                world.heard.remove(&ReplyId(u64::MAX)).expect("answered")
            else {
                panic!("something else")
            };
            assert!(!open, "a save may have come in between");
        }
    }

    #[test]
    fn too_many_questions_are_answered_busy() {
        let mut world = World::founded(100);
        let read = Request::ReadRegister { part: part_of("k"), epoch: FIRST_EPOCH, key: key("k") };
        for n in 0..=MAX_SERVING as u64 {
            world.pose(100, ReplyId(n << 32), read.clone());
        }
        assert_eq!(world.members[&100].replication.serving.len(), MAX_SERVING);
        world.run(Duration::from_millis(100));
        assert_eq!(world.heard.values().filter(|held| **held == Response::Busy).count(), 1);
        assert_eq!(world.heard.len(), MAX_SERVING + 1);
        assert!(world.members[&100].replication.serving.is_empty());
        // One that is gone takes no place.
        world.pose(100, ReplyId(7), read);
        world.member(100).replication.drop_serving(ReplyId(7));
        assert!(world.members[&100].replication.serving.is_empty());
    }

    #[test]
    fn lists_from_the_wire_are_cut_and_answers_fit_a_frame() {
        let mut world = World::founded(100);
        let disk = &mut world.member(100).disk;
        let mut ids = Vec::new();
        for n in 0..4 {
            let held = Register {
                value: Value::Present(vec![0; 100_000].into()),
                ..register(&format!("key-{n}"), FIRST_EPOCH)
            };
            ids.push(held.key.id());
            disk.registers.insert(held.key.id(), held);
        }
        let Response::Registers(registers) = world.ask(100, Request::FetchRegisters { ids }) else {
            panic!("something else")
        };
        assert_eq!(registers.len(), 1, "two would not fit");
        let ids = vec![Id::ZERO; 2 * MAX_PAGE];
        world.pose(100, ReplyId(u64::MAX), Request::FetchRegisters { ids });
        let asked = std::iter::from_fn(|| world.member(100).out.pop_effect()).any(|effect| {
            matches!(effect, Effect::Store { command: StoreCommand::LoadMany { ids }, .. }
                if ids.len() == MAX_PAGE)
        });
        assert!(asked);
    }
}
