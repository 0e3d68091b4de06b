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
use crate::view::View;

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
    Write,
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
        view: &View<'_>,
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
                if let Some(response) = wrong_view(view, part, epoch, point) {
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
                if let Some(response) = wrong_view(view, part, epoch, point) {
                    out.reply(reply, response);
                    return;
                }
                (Serving::Write, StoreCommand::Save { registers: vec![register] })
            }
            Request::Digest { kind, arc } => {
                // Of chunks nobody claims to hold all.
                let was_complete = kind == Kind::Registers && self.holds_all(view, &arc);
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
        view: &View<'_>,
        reply: ReplyId,
        outcome: StoreOutcome,
    ) {
        let Some(serving) = self.serving.remove(&reply) else { return };
        let response = match (serving, outcome) {
            (Serving::Read { point, was_open }, StoreOutcome::Loaded(register)) => {
                Response::Register { open: was_open && self.is_open(point), register }
            }
            (Serving::Write, StoreOutcome::Saved(held)) => match held.first().copied().flatten() {
                Some(held) => Response::Outdated { held },
                None => Response::Accepted,
            },
            (Serving::Digest { arc, was_complete }, StoreOutcome::Digest { digest, count }) => {
                let open = was_complete && self.holds_all(view, &arc);
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
    fn holds_all(&self, view: &View<'_>, arc: &Interval) -> bool {
        let kept = possible_arcs(view, view.params.register_copies());
        let is_outside =
            |piece: &Interval| kept.arcs().iter().all(|kept| kept.intersection(piece).is_empty());
        let left = self.open.missing(arc);
        left.iter().all(|piece| self.held.covers(piece) && is_outside(piece))
    }
}

/// The first view is the only one so far; of others nothing is known here.
fn wrong_view(view: &View<'_>, part: u16, epoch: u64, point: Id) -> Option<Response> {
    if part != point.part(view.params.part_bits) {
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
