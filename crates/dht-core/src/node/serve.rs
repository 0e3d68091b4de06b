//! Requests of other members.

use crate::event::ReplyId;
use crate::id::{Id, between};
use crate::message::Refusal;
use crate::message::ring::{
    MAX_CONTACTS, MAX_FAILED, Request, Response, RouteAnswer, RouteQuery, Routing,
};
use crate::outbox::CallOwner;
use crate::peer::Contact;
use crate::ring::Standing;
use crate::route::{Hop, NoHop, hop_back, next_hop, next_hop_both_ways};
use crate::time::Instant;
use crate::timer::Timer;

use super::Node;

/// A routing question that waits for a verdict or for a neighbour.
#[derive(Clone, Debug)]
pub(super) struct WaitingRoute {
    query: RouteQuery,
    until: Instant,
}

/// What our own state says to a routing question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RouteOutcome {
    /// This.
    Answer(RouteAnswer),
    /// We have no place.
    NotMember,
    /// Only once upkeep has run; this one should be verified meanwhile.
    Wait(Option<Contact>),
}

impl Node {
    /// A member asks.
    pub(super) fn on_request(&mut self, reply: ReplyId, from: Contact, request: Request) {
        if self.ring.standing() == Standing::Gone {
            self.out.reply(reply, Response::NotMember);
            return;
        }
        if from.key() != self.ring.links().me().key() && !self.is_unproven(&from, &request) {
            self.note_heard(&from);
        }
        let acts_as_member = matches!(
            request,
            Request::Neighbors { .. }
                | Request::Notify { .. }
                | Request::NotifySame { .. }
                | Request::Push(_)
        );
        if acts_as_member {
            self.ring.links_mut().renew_life(&from);
        }
        if matches!(request, Request::Neighbors { .. } | Request::Push(_)) {
            self.counted_on(&from);
        }
        let out = &mut self.out;
        match request {
            Request::Ping => {
                let response = match self.ring.standing() {
                    Standing::Outside => Response::NotMember,
                    _ => Response::Done,
                };
                out.reply(reply, response);
            }
            Request::Route(query) => self.on_route(reply, query),
            Request::Forward(forward) => self.on_forward(reply, &from, forward),
            Request::ForwardEnd(end) => self.on_forward_end(reply, from, *end),
            Request::Join => self.ring.on_join(out, reply, from),
            Request::Neighbors { stamp } => self.ring.on_neighbors(out, reply, from, stamp),
            Request::Notify { predecessors } => {
                out.reply(reply, Response::Done);
                self.ring.on_notify(out, from, Some(bounded(predecessors)));
            }
            Request::NotifySame { digest } => {
                let response = match self.ring.holds_list_of(&from, digest) {
                    true => Response::Done,
                    false => Response::WhichPredecessors,
                };
                out.reply(reply, response);
                self.ring.on_notify(out, from, None);
            }
            Request::Push(mut pushed) => {
                out.reply(reply, Response::Done);
                pushed.successors = bounded(pushed.successors);
                self.ring.on_push(out, from, pushed);
            }
            Request::Candidate { contact } => {
                out.reply(reply, Response::Done);
                self.ring.on_candidate(out, contact);
            }
            Request::ProbeFor { target } => {
                out.call(CallOwner::ProbeFor(reply), &target, Request::Ping);
            }
            Request::Leave { successors, predecessor, for_good, remembered } => {
                out.reply(reply, Response::Done);
                // Strangers must not crowd out whom this node knew itself.
                let links = self.ring.links();
                if links.is_neighbor(from.id) {
                    let me = links.me().id;
                    for contact in bounded(remembered).iter().filter(|held| held.id != me) {
                        self.remembered.note(contact, out.now);
                    }
                }
                self.ring.on_leave(out, from, bounded(successors), predecessor, for_good);
            }
            Request::Unify { via, ttl } => {
                out.reply(reply, Response::Done);
                self.unify(via, ttl);
            }
            Request::MapReport { .. }
            | Request::MapSpread { .. }
            | Request::MapTell { .. }
            | Request::MapPage { .. }
            | Request::MapDigest { .. } => self.on_map_request(reply, from, request),
            request => self.on_data_request(reply, from, request),
        }
    }

    /// Whether this may be a copy of a neighbour's key that looks for a place: a life newer than the
    /// one that holds the place says nothing of that one before it was let in (case 11).
    fn is_unproven(&self, from: &Contact, request: &Request) -> bool {
        let seeks_place = matches!(request, Request::Ping | Request::Route(_) | Request::Join);
        let links = self.ring.links();
        let mut held = links.successors().iter().chain(links.predecessors());
        let is_older =
            |held: &Contact| held.key() == from.key() && held.incarnation() < from.incarnation();
        seeks_place && held.any(is_older)
    }

    /// What our own state says to a routing question (`docs/protocol.md`, "Owning").
    pub(super) fn route(&self, query: &RouteQuery) -> RouteOutcome {
        if !matches!(self.ring.standing(), Standing::Member | Standing::Leaving) {
            return RouteOutcome::NotMember;
        }
        let (me, key, links) = (self.id(), query.key, self.ring.links());
        if self.ring.owned().is_some_and(|owned| owned.contains(key)) {
            let predecessor = links.predecessor().cloned();
            let successors = if query.want_list { links.successors().to_vec() } else { Vec::new() };
            return RouteOutcome::Answer(RouteAnswer::Mine { predecessor, successors });
        }
        let is_past = query.after != me && (key == me || between(query.after, key, me));
        // Suspicion moves a node back in the order; it does not make it unreachable.
        let failed = |contact: &Contact| query.failed.contains(&contact.id);
        let suspect = |contact: &Contact| self.liveness.is_suspect(&contact.key());
        let hop = self
            .hop(query, is_past, |contact| failed(contact) || suspect(contact))
            .or_else(|_| self.hop(query, is_past, failed));
        let keeps = self.out.config.keep.contains(query.routing);
        let found = hop.map(|hop| (hop, self.contact_at(hop).cloned()));
        match found {
            Ok((_, Some(contact))) if !keeps => {
                RouteOutcome::Answer(RouteAnswer::Instead { contact })
            }
            Ok((Hop::Entry(_) | Hop::Finger(_) | Hop::Place(_), Some(next))) => {
                RouteOutcome::Answer(RouteAnswer::Next { next })
            }
            Ok((Hop::Back(_), Some(predecessor))) => {
                RouteOutcome::Answer(RouteAnswer::NotMine { predecessor })
            }
            Ok((_, None)) | Err(NoHop::HeadSilent) => RouteOutcome::Wait(links.head().cloned()),
            // Whoever will be our predecessor has to notify us first.
            Err(NoHop::PredecessorSilent) => RouteOutcome::Wait(links.predecessor().cloned()),
            Err(NoHop::Nobody) => {
                let nearest = if is_past { links.predecessor() } else { links.head() };
                RouteOutcome::Wait(nearest.cloned())
            }
        }
    }

    /// The next hop by the routing asked for, or by the links where no state is kept for it.
    fn hop(
        &self,
        query: &RouteQuery,
        is_past: bool,
        failed: impl Fn(&Contact) -> bool,
    ) -> Result<Hop, NoHop> {
        let (me, key, links) = (self.id(), query.key, self.ring.links());
        let depth = usize::from(query.depth);
        let routing = match self.out.config.keep.contains(query.routing) {
            true => query.routing,
            false => Routing::Successors,
        };
        let id_at = |list: &[Contact], at: usize| list.get(at).map(|entry| entry.id);
        let successor = |at: usize| id_at(links.successors(), at);
        let predecessor = |at: usize| id_at(links.predecessors(), at);
        let is_failed = |list: &[Contact], id: Id| {
            list.iter().find(|entry| entry.id == id).is_some_and(&failed)
        };
        let ahead = |id: Id| is_failed(links.successors(), id);
        let behind = |id: Id| {
            let is_dead = |entry: &Contact| entry.id == id && self.liveness.is_dead(entry);
            is_failed(links.predecessors(), id) || links.predecessors().iter().any(is_dead)
        };
        match (routing, is_past) {
            (Routing::BothWays, true) => hop_back(me, predecessor, key, depth, behind),
            // Only where a walk begins: whoever turned round on the way would undo it.
            (Routing::BothWays, false) if query.after == me => {
                next_hop_both_ways(me, successor, predecessor, key, depth, |id| {
                    ahead(id) || behind(id)
                })
            }
            // One step at a time: who lies farther back is hearsay.
            (_, true) => match links.predecessor() {
                Some(held) if !behind(held.id) => Ok(Hop::Back(0)),
                Some(_) | None => Err(NoHop::PredecessorSilent),
            },
            (Routing::Fingers, false) => self.hop_by_fingers(query, failed),
            // Whoever the map named may know better than anybody's map.
            (Routing::Full, false) if query.after == me => {
                self.owner_by_map(key, &failed).map_or_else(
                    || next_hop(me, successor, key, depth, ahead),
                    |id| Ok(Hop::Place(id)),
                )
            }
            (Routing::Successors | Routing::BothWays | Routing::Full, false) => {
                next_hop(me, successor, key, depth, ahead)
            }
        }
    }

    /// Those whom a lookup found silent: upkeep finds out now, about all neighbours among them at once. One after
    /// the other, where several in a row are dead, would take longer than a lookup may.
    pub(super) fn verify_for_route(&mut self, suspect: Option<Contact>, failed: &[Id]) {
        let links = self.ring.links();
        let near = links.successors().iter().chain(links.predecessors());
        let is_asked = |id: Id| suspect.as_ref().is_some_and(|held| held.id == id);
        let mut silent: Vec<Contact> = Vec::new();
        for held in near.filter(|held| failed.contains(&held.id) && !is_asked(held.id)) {
            if silent.iter().all(|other| other.id != held.id) && !self.liveness.is_dead(held) {
                silent.push(held.clone());
            }
        }
        suspect.into_iter().chain(silent).for_each(|contact| self.verify(&contact));
        self.ring.stabilize_soon(&mut self.out);
    }

    /// A verdict "alive": lookups that wait may use the node again.
    pub(super) fn clear_failed(&mut self, id: Id) {
        for waiting in self.waiting_routes.values_mut() {
            waiting.query.failed.retain(|failed| *failed != id);
        }
    }

    /// Looks again at what waits; most often nothing does.
    pub(super) fn answer_waiting_routes(&mut self) {
        if self.waiting_routes.is_empty() {
            return;
        }
        let waiting: Vec<ReplyId> = self.waiting_routes.keys().copied().collect();
        for reply in waiting {
            let Some(held) = self.waiting_routes.get(&reply) else { continue };
            let response = match self.route(&held.query) {
                RouteOutcome::Answer(answer) => Response::Route(answer),
                RouteOutcome::NotMember => Response::NotMember,
                RouteOutcome::Wait(_) => continue,
            };
            self.waiting_routes.remove(&reply);
            self.out.reply(reply, response);
        }
    }

    /// Those that waited too long are answered "busy".
    pub(super) fn give_up_waiting_routes(&mut self) {
        let now = self.out.now;
        let over: Vec<ReplyId> = self
            .waiting_routes
            .iter()
            .filter(|(_, held)| held.until <= now)
            .map(|(reply, _)| *reply)
            .collect();
        for reply in over {
            self.waiting_routes.remove(&reply);
            self.out.reply(reply, Response::Busy);
        }
        if let Some(next) = self.waiting_routes.values().map(|held| held.until).min() {
            self.out.timers.set(Timer::WaitingRoutes, next);
        }
    }

    /// Forgets since when routing questions wait; see [`super::steer`].
    pub(super) fn distill_routes(&mut self) {
        self.waiting_routes.values_mut().for_each(|held| held.until = Instant::ZERO);
    }

    fn on_route(&mut self, reply: ReplyId, query: RouteQuery) {
        if query.failed.len() > MAX_FAILED {
            self.out.reply(reply, Response::Refused(Refusal::Malformed));
            return;
        }
        if !query.failed.is_empty() {
            // The asker found somebody silent near here: upkeep runs at once.
            self.ring.stabilize_soon(&mut self.out);
        }
        match self.route(&query) {
            RouteOutcome::Answer(answer) => self.out.reply(reply, Response::Route(answer)),
            RouteOutcome::NotMember => self.out.reply(reply, Response::NotMember),
            RouteOutcome::Wait(suspect) => {
                if self.waiting_routes.len() >= self.out.config.max_deferred {
                    self.out.reply(reply, Response::Busy);
                    return;
                }
                let until = self.out.now.after(self.out.config.hold_route());
                let failed = query.failed.clone();
                self.waiting_routes.insert(reply, WaitingRoute { query, until });
                self.out.timers.set_by(Timer::WaitingRoutes, until);
                self.verify_for_route(suspect, &failed);
            }
        }
    }
}

/// A list from the wire, never longer than one message may hold.
pub(super) fn bounded(mut list: Vec<Contact>) -> Vec<Contact> {
    list.truncate(MAX_CONTACTS);
    list
}
