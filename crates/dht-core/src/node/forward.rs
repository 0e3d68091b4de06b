//! Lookups that are handed on: taken from others, sent on, and answered (`docs/protocol.md`, "Forwarding").

use std::collections::BTreeMap;

use sha1::{Digest, Sha1};

use super::Node;
use super::lookups::Handed;
use super::serve::{RouteOutcome, bounded};
use crate::event::{Failure, ReplyId};
use crate::lookup::Owner;
use crate::message::Refusal;
use crate::message::client::DetourReason;
use crate::message::forward::{
    Forward, ForwardEnd, ForwardOutcome, GaveUp, HandedReport, MAX_RETRIES, Ticket,
};
use crate::message::ring::{Request, Response, RouteAnswer};
use crate::outbox::{CallOwner, Outbox};
use crate::peer::Contact;
use crate::ring::Standing;
use crate::timer::Timer;

/// How often the end of a question is told again to an asker that does not acknowledge it (guess: what is
/// lost twice is worth a walk by the asker itself).
const END_RETRIES: u8 = 2;

/// What was handed on and not acknowledged yet, by the numbers of the calls' owners.
#[derive(Clone, Debug, Default)]
pub(super) struct Forwards {
    waiting: BTreeMap<u64, Waiting>,
    /// Feeds the nonces. Drawn when it is needed first, since most nodes hand nothing on.
    secret: Option<[u64; 2]>,
}

#[derive(Clone, Debug)]
enum Waiting {
    /// A question, as it was before it was handed on.
    Question(Box<Forward>),
    /// The end of one, with the retries left.
    End(Box<ForwardEnd>, u8),
}

impl Forwards {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A name for a lookup that nobody guesses who has not seen it, whatever else it has seen: the chance of
    /// a node is no secret, so the nonce is made from it by a hash.
    fn ticket(&mut self, out: &mut Outbox, number: u64) -> Ticket {
        let mut draw = || out.draw_below(u64::MAX);
        let secret = *self.secret.get_or_insert_with(|| [draw(), draw()]);
        let mut hash = Sha1::new();
        for word in [secret[0], secret[1], number] {
            hash.update(word.to_be_bytes());
        }
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 20]>::from(hash.finalize());
        Ticket { number, nonce: u64::from_be_bytes([a, b, c, d, e, f, g, h]) }
    }
}

impl Node {
    /// Hands a lookup of our own on, which is in the table.
    pub(super) fn hand_on_lookup(&mut self, number: u64) {
        let ticket = self.forwards.ticket(&mut self.out, number);
        let me = self.ring.links().me().clone();
        let max_hops = self.out.config.max_hops;
        let Some(lookup) = self.lookups.get_mut(number) else { return };
        lookup.handed = Some(Handed { nonce: ticket.nonce, gave_up: false });
        let target = lookup.query.target();
        let forward = Forward {
            ticket,
            key: target.key,
            after: me.id,
            past: None,
            asker: me,
            routing: target.routing,
            depth: target.depth,
            want_list: target.want_list,
            hops: 0,
            max_hops,
            timeouts: 0,
            retries: MAX_RETRIES,
            path: Vec::new(),
            detours: Vec::new(),
        };
        self.out.set_timer(Timer::Handed(number), self.out.config.wait_for_handed());
        self.pass_on(Box::new(forward));
    }

    /// [`Request::Forward`].
    pub(super) fn on_forward(&mut self, reply: ReplyId, from: &Contact, forward: Box<Forward>) {
        let counts = &mut self.counters.forwards;
        let refusal = if !forward.is_sound(self.ring.links().me().id, from.id) {
            Some(Response::Refused(Refusal::Malformed))
        } else if !matches!(self.ring.standing(), Standing::Member | Standing::Leaving) {
            Some(Response::NotMember)
        } else if self.forwards.len() >= self.out.config.max_forwards {
            counts.refused = counts.refused.saturating_add(1);
            Some(Response::Busy)
        } else {
            counts.taken = counts.taken.saturating_add(1);
            None
        };
        let is_taken = refusal.is_none();
        self.out.reply(reply, refusal.unwrap_or(Response::Done));
        if is_taken {
            if !forward.detours.is_empty() {
                // Somebody was found silent near here: upkeep runs at once.
                self.ring.stabilize_soon(&mut self.out);
            }
            self.pass_on(forward);
        }
    }

    /// [`Request::ForwardEnd`]. Of what is no lookup of ours, or no more, nothing is said.
    pub(super) fn on_forward_end(&mut self, reply: ReplyId, from: Contact, end: ForwardEnd) {
        let is_sound = end.is_sound(from.id);
        let refused = Response::Refused(Refusal::Malformed);
        self.out.reply(reply, if is_sound { Response::Done } else { refused });
        if is_sound {
            self.finish_handed(from, end);
        }
    }

    /// Whoever should have it answered, or did not.
    pub(super) fn on_forward_answer(
        &mut self,
        number: u64,
        to: &Contact,
        outcome: Result<Response, Failure>,
    ) {
        let Some(waiting) = self.forwards.waiting.remove(&number) else { return };
        if outcome.is_err() {
            self.fingers.doubt(to.id);
            self.map.doubt(to.id);
        }
        let reason = match outcome {
            Ok(Response::Done) => return,
            Ok(Response::Busy) => DetourReason::Busy,
            Ok(Response::NotMember) => DetourReason::NotMember,
            Ok(_) => DetourReason::NoProgress,
            Err(Failure::TimedOut) => DetourReason::TimedOut,
            Err(_) => DetourReason::Unreachable,
        };
        match waiting {
            Waiting::End(end, retries) => {
                if reason == DetourReason::TimedOut && retries > 0 {
                    self.tell_end(to, end, retries - 1);
                }
            }
            // Our own, and not wanted any more.
            Waiting::Question(forward) if forward.hops == 0 && !self.awaits(&forward.ticket) => {}
            Waiting::Question(mut forward) => {
                forward.failed(to, reason);
                self.ring.stabilize_soon(&mut self.out);
                match forward.retry() {
                    true => self.pass_on(forward),
                    false => self.give_back(forward, GaveUp::TooManySilent),
                }
            }
        }
    }

    /// [`Timer::Handed`]: no answer came in time.
    pub(super) fn on_handed_timeout(&mut self, number: u64) {
        let report = HandedReport { gave_up: Some(GaveUp::NoAnswer), ..HandedReport::default() };
        self.go_on_alone(number, report, 0);
    }

    /// Hands a question on, or ends it, as our own state says.
    fn pass_on(&mut self, mut forward: Box<Forward>) {
        let (me, limit) = (self.ring.links().me().id, self.out.config.max_hops);
        let query = forward.query();
        match self.route(&query) {
            RouteOutcome::Answer(RouteAnswer::Mine { predecessor, successors }) => {
                self.end_forward(forward, ForwardOutcome::Mine { predecessor, successors });
            }
            RouteOutcome::Answer(answer) => match forward.advance(me, answer, limit) {
                Ok((next, onward)) => {
                    let number = self.out.draw_number();
                    self.forwards.waiting.insert(number, Waiting::Question(forward));
                    self.out.call(CallOwner::Forward(number), &next, Request::Forward(onward));
                }
                Err(reason) => self.give_back(forward, reason),
            },
            RouteOutcome::NotMember => self.give_back(forward, GaveUp::NotMember),
            RouteOutcome::Wait(suspect) => {
                // The asker waits by itself: nobody keeps anything for strangers while upkeep finds out.
                self.verify_for_route(suspect, &query.failed);
                self.give_back(forward, GaveUp::NextSilent);
            }
        }
    }

    fn give_back(&mut self, forward: Box<Forward>, reason: GaveUp) {
        self.end_forward(forward, ForwardOutcome::Stuck { reason });
    }

    fn end_forward(&mut self, forward: Box<Forward>, outcome: ForwardOutcome) {
        let asker = forward.asker.clone();
        let end = Box::new(forward.end(outcome));
        if asker.id == self.ring.links().me().id {
            return self.finish_handed(asker, *end);
        }
        self.tell_end(&asker, end, END_RETRIES);
    }

    fn tell_end(&mut self, asker: &Contact, end: Box<ForwardEnd>, retries: u8) {
        let number = self.out.draw_number();
        self.forwards.waiting.insert(number, Waiting::End(end.clone(), retries));
        self.out.call(CallOwner::Forward(number), asker, Request::ForwardEnd(end));
    }

    /// Whether a lookup of our own still waits for others.
    fn awaits(&mut self, ticket: &Ticket) -> bool {
        let lookup = self.lookups.get_mut(ticket.number);
        let handed = lookup.and_then(|lookup| lookup.handed.as_ref());
        handed.is_some_and(|handed| handed.nonce == ticket.nonce && !handed.gave_up)
    }

    /// The end of a lookup of our own, told by whoever had it last. An owner is taken even if we went on by
    /// ourselves meanwhile.
    fn finish_handed(&mut self, from: Contact, end: ForwardEnd) {
        let ForwardEnd { ticket, key, outcome, hops, timeouts, path, detours } = end;
        let Some(lookup) = self.lookups.get_mut(ticket.number) else { return };
        let is_known = lookup.handed.as_ref().is_some_and(|held| held.nonce == ticket.nonce);
        if !is_known || lookup.query.key() != key {
            return;
        }
        let report = HandedReport { path, detours, gave_up: None };
        match outcome {
            ForwardOutcome::Mine { predecessor, successors } => {
                lookup.query.found_by_others(hops, timeouts, report);
                let successors = bounded(successors);
                let owner = Owner { contact: from, predecessor, successors };
                self.end_lookup(ticket.number, Ok(owner));
            }
            ForwardOutcome::Stuck { reason } => {
                let report = HandedReport { gave_up: Some(reason), ..report };
                self.go_on_alone(ticket.number, report, timeouts);
            }
        }
    }

    /// A lookup that was handed on goes on iteratively; once.
    fn go_on_alone(&mut self, number: u64, report: HandedReport, timeouts: u32) {
        let Some(lookup) = self.lookups.get_mut(number) else { return };
        let Some(handed) = lookup.handed.as_mut().filter(|handed| !handed.gave_up) else { return };
        handed.gave_up = true;
        let step = lookup.query.go_on_alone(report, timeouts);
        let counts = &mut self.counters.forwards;
        counts.gave_up = counts.gave_up.saturating_add(1);
        self.out.timers.stop(Timer::Handed(number));
        self.follow(number, step);
    }
}
