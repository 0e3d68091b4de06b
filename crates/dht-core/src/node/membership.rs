//! How a node gets its place, finds its way back, finds lost parts of the ring, and goes.

mod steer;

use std::time::Duration;

use super::Node;
use super::lookups::Reason;
use crate::event::{Effect, Failure, Memory, Notice};
use crate::id::Id;
use crate::lookup::{LookupTarget, Owner};
use crate::message::client::LookupFailure;
use crate::message::ring::{Request, Response, Routing};
use crate::outbox::CallOwner;
use crate::peer::Contact;
use crate::ring::Standing;
use crate::timer::Timer;

/// Shortest pause between two attempts to join; doubled with every failure (guess).
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause between two attempts to join (guess: a bootstrap node that appears is found within
/// one such pause, case 4).
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Members asked in one attempt before a new lookup is made.
const MAX_REDIRECTS: u32 = 64;
/// Times in a row that a member may be busy before another one is asked: a turn takes a round trip or
/// two, so thirty-one joiners before us are through (guess).
const MAX_BUSY_TURNS: u32 = 32;
/// How many remembered peers a leaver hands down: the silent first (guess: at 300 bytes each they fit
/// a frame beside the lists).
const MAX_HANDED_DOWN: usize = 64;
/// Most members kept to join through.
const MAX_VIA: usize = 64;
/// How many neighbours further word of another part of the ring is passed (guess: a few starting
/// points on each side; the zipping goes on from each of them by itself).
const UNIFY_TTL: u8 = 2;
/// How long a leaver waits for its neighbours to let it go (guess: a stop ends within 2 s).
const UNLINK_PATIENCE: Duration = Duration::from_secs(1);

/// The search for a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Joining {
    via: Vec<Contact>,
    next: usize,
    /// How many there were to ask at the last attempt.
    known: u32,
    failures: u32,
    redirects: u32,
    /// Times in a row that the answer was "busy".
    busy_turns: u32,
    is_attempting: bool,
    /// The member to ask once it is known whether our own id is in use.
    pending: Option<Contact>,
    /// The remembered peer that was pinged last to find a lost part of the ring.
    probed: Option<Id>,
    /// When word of another part of the ring was last followed.
    last_unify: Option<crate::time::Instant>,
}

/// A departure under way.
#[derive(Clone, Debug)]
pub(super) struct Departure {
    for_good: bool,
    waiting_for: usize,
}

impl Node {
    /// The first node of a ring.
    pub(super) fn found(&mut self) {
        if self.ring.standing() == Standing::Outside {
            self.ring.found();
            self.replication.found(self.ring.links().me().id);
            self.unsaved = true;
            self.save();
        }
    }

    /// Members to join through.
    pub(super) fn join(&mut self, via: Vec<Contact>) {
        let me = self.ring.links().me().key();
        for contact in via.into_iter().filter(|contact| contact.key() != me) {
            // Only one of them is needed now; another may belong to a part of the ring that is lost.
            self.remembered.note(&contact, self.out.now);
            self.joining.via.retain(|held| held.id != contact.id);
            self.joining.via.insert(0, contact);
        }
        self.joining.via.truncate(MAX_VIA);
        self.joining.next = 0;
        if self.wants_place() && !self.joining.is_attempting {
            self.attempt_join();
        }
    }

    /// A member takes this node for its head or its predecessor. Whoever has no neighbour left may
    /// know of nobody else that lives, and nobody else may be able to tell it: it asks there.
    pub(super) fn counted_on(&mut self, from: &Contact) {
        let is_isolated = self.ring.standing() == Standing::Isolated;
        if is_isolated && self.leave.is_none() && !self.ring.is_guest(from.id) {
            self.join(vec![from.clone()]);
        }
    }

    /// What an earlier life knew.
    pub(super) fn remember(&mut self, memory: Memory) {
        let Memory { mut contacts, open, alone } = memory;
        self.replication.restore(open);
        let me = self.id();
        contacts.retain(|contact| contact.id != me);
        if alone {
            // Whom it remembers was gone before; they are still looked for, as lost parts are.
            contacts.iter().for_each(|contact| _ = self.remembered.note(contact, self.out.now));
            return self.found();
        }
        for contact in &contacts {
            self.remembered.fell_silent(contact, self.out.now);
        }
        if self.ring.standing() == Standing::Outside && self.remembered.has_silent() {
            self.ring.isolate();
            self.start_timers();
            self.attempt_join();
        }
    }

    /// Tries the next member.
    pub(super) fn attempt_join(&mut self) {
        if !self.wants_place() {
            return;
        }
        let mut known = self.joining.via.clone();
        for contact in self.remembered.contacts() {
            if known.iter().all(|held| held.id != contact.id) {
                known.push(contact);
            }
        }
        if known.is_empty() {
            return;
        }
        self.joining.known = u32::try_from(known.len()).unwrap_or(u32::MAX);
        let via = known[self.joining.next % known.len()].clone();
        self.joining.next = self.joining.next.wrapping_add(1);
        self.joining.is_attempting = true;
        self.joining.redirects = 0;
        self.look_up_through(self.id(), via.clone(), Reason::Join { via });
    }

    /// The lookup of our own id ended.
    pub(super) fn on_join_lookup(&mut self, via: Contact, outcome: Result<Owner, LookupFailure>) {
        match outcome {
            // The owner's predecessor is the one to come after; without one, the owner is alone.
            Ok(Owner { contact, predecessor, .. }) => {
                self.ask_to_join(predecessor.unwrap_or(contact));
            }
            // Silent: the next one.
            Err(_) if self.liveness.is_suspect(&via.key()) => self.join_failed(via),
            // It may be isolated itself: it answers no lookups, but lets others in.
            Err(_) => self.ask_to_join(via),
        }
    }

    /// The way to our own id ended at our own id: an earlier life, or a copy of our key.
    pub(super) fn on_own_place_found(&mut self, found: Contact, before: Contact) {
        if found.incarnation() == self.ring.links().me().incarnation() {
            self.ask_to_join(before);
            return;
        }
        self.joining.pending = Some(before);
        let patience = self.out.config.initial_timeout;
        self.out.call_patiently(CallOwner::OwnIdentity, &found, Request::Ping, patience);
    }

    /// Whether another process answers with our key.
    pub(super) fn on_own_identity(&mut self, contact: Contact, outcome: Result<Response, Failure>) {
        if outcome == Err(Failure::SameIdentity) {
            self.out.notice(Notice::IdInUse { contact });
        }
        if let Some(member) = self.joining.pending.take() {
            self.ask_to_join(member);
        }
    }

    /// The answer of the member that was asked to let us in.
    pub(super) fn on_join_answer(&mut self, from: Contact, response: Option<Response>) {
        match response {
            Some(Response::Joined(answer)) if self.wants_place() => {
                self.joining.is_attempting = false;
                self.joining.failures = 0;
                self.joining.busy_turns = 0;
                self.ring.joined(&mut self.out, from, answer);
                self.start_timers();
            }
            Some(Response::Joined(_)) => {
                // Somebody joined us meanwhile: what was found is another part of the ring.
                self.joining.is_attempting = false;
                self.unify(from, UNIFY_TTL);
            }
            Some(Response::JoinElsewhere { next }) if self.joining.redirects < MAX_REDIRECTS => {
                self.joining.redirects += 1;
                self.ask_to_join(next);
            }
            Some(Response::Busy) => {
                // Others are being let in; ours is the next turn there, not a failure.
                self.joining.is_attempting = false;
                self.joining.busy_turns += 1;
                if self.joining.busy_turns < MAX_BUSY_TURNS {
                    self.joining.next = self.joining.next.wrapping_sub(1);
                }
                let pause = self.out.jittered(self.out.config.min_timeout / 4);
                self.out.set_timer(Timer::Join, pause);
            }
            _ => self.join_failed(from),
        }
    }

    /// A neighbour heard our claim.
    pub(super) fn placed(&mut self) {
        self.start_timers();
        if !self.is_ready && self.ring.standing() == Standing::Member {
            self.is_ready = true;
            self.out.notice(Notice::Ready);
        }
    }

    /// No neighbour is left: alone if all of them left, isolated if one fell silent.
    pub(super) fn emptied(&mut self) {
        if self.remembered.has_silent() {
            self.ring.isolate();
            self.replication.on_isolated();
            self.joining.failures = 0;
            if !self.joining.is_attempting {
                self.attempt_join();
            }
        }
        self.unsaved = true;
        self.save();
    }

    /// A neighbour is gone.
    pub(super) fn neighbor_removed(&mut self, contact: Contact, for_good: bool) {
        if for_good {
            self.remembered.forget(&contact);
            if self.ring.standing() == Standing::Member && self.ring.links().is_empty() {
                // The last one handed everything over. Over those who fell silent before, the ring
                // had closed while there was somebody to close it with.
                self.remembered.settle();
            }
            if !self.remembered.has_silent() {
                self.ring.stand_alone();
            }
        } else {
            self.remembered.fell_silent(&contact, self.out.now);
        }
        self.unsaved = true;
    }

    /// Neighbours changed: they are remembered.
    pub(super) fn links_changed(&mut self) {
        let links = self.ring.links();
        let neighbors: Vec<Contact> =
            links.successors().iter().chain(links.predecessors()).cloned().collect();
        let knew_nobody = self.remembered.contacts().is_empty() || self.saved_alone;
        for contact in &neighbors {
            // The dead too: who comes back may be known to nobody else.
            if self.remembered.note(contact, self.out.now) {
                self.unsaved = true;
            }
        }
        if knew_nobody && !neighbors.is_empty() {
            // One that is killed within the first period should find its way back, too.
            self.unsaved = true;
            self.save();
        }
    }

    /// Time for upkeep.
    pub(super) fn on_stabilize_timer(&mut self) {
        let period = self.out.config.stabilize_every;
        let pause = self.out.jittered(period);
        self.out.set_timer(Timer::Stabilize, pause);
        self.ring.stabilize(&mut self.out);
        // A live predecessor asks us at least every 1.5 periods; one that does not is looked at
        // before anybody else has to wait for the verdict. It is not dropped for it.
        if let Some(held) = self.ring.links().predecessor().cloned() {
            let heard = self.liveness.last_heard(&held.key());
            let silent = heard.is_none_or(|heard| self.out.now.since(heard) > period * 7 / 4);
            if silent && !self.liveness.is_dead(&held) {
                let verdict = self.liveness.verify(&mut self.out, &held);
                self.on_verdict(verdict);
            }
        }
        self.save();
    }

    /// Time to look for a lost part of the ring: pings one remembered peer that is no neighbour.
    pub(super) fn probe_for_merge(&mut self) {
        let pause = self.out.jittered(self.out.config.merge_probe_every);
        self.out.set_timer(Timer::MergeProbe, pause);
        if self.ring.standing() != Standing::Member {
            return;
        }
        self.check_round();
        let links = self.ring.links();
        // One after the other, clockwise, so that a round of probes misses nobody.
        let last = self.joining.probed.unwrap_or(links.me().id);
        let strangers = self.remembered.iter().filter(|held| !links.is_neighbor(held.id));
        let next = strangers.min_by_key(|held| (held.id == last, last.distance_to(held.id)));
        let Some(chosen) = next.cloned() else { return };
        self.joining.probed = Some(chosen.id);
        self.ping_remembered(&chosen);
    }

    /// Whether a remembered peer answers.
    pub(super) fn ping_remembered(&mut self, contact: &Contact) {
        let counts = self.ring.counts_mut();
        counts.merge_probes = counts.merge_probes.saturating_add(1);
        self.out.call(CallOwner::MergeProbe, contact, Request::Ping);
    }

    /// Whether the ring goes round only once. One that winds twice looks well to each of its nodes, but
    /// two of them claim zero (Liben-Nowell, Balakrishnan and Karger, PODC 2002, "loopy" states): so
    /// whose arc passes zero walks round, from its head to its own place, and must end at itself. That
    /// is one walk for the whole ring each time.
    fn check_round(&mut self) {
        let me = self.id();
        let links = self.ring.links();
        let passes_zero = links.predecessor().is_some_and(|held| held.id > me);
        if let Some(head) = links.head().filter(|_| passes_zero).cloned() {
            self.look_up_through(me, head, Reason::RoundCheck);
        }
    }

    /// The walk round the ring ended at somebody else: the two zip their windings into one.
    pub(super) fn on_round_check(&mut self, owner: Contact) {
        if owner.id != self.id() {
            self.merge_with(owner);
        }
    }

    /// The remembered peer answered, or not. If it belongs to our part of the ring, a walk from either
    /// of us to the other ends there: the shorter one is taken, since whoever fell out of the
    /// predecessor list is near, but nearly the whole ring away in the direction of lookups.
    pub(super) fn on_merge_probe(&mut self, contact: Contact, response: Option<Response>) {
        if response != Some(Response::Done) {
            return;
        }
        let me = self.id();
        if contact.id.distance_to(me) < me.distance_to(contact.id) {
            let reason = Reason::MergeCheck { contact: contact.clone(), wanted: me };
            return self.look_up_through(me, contact, reason);
        }
        self.look_for_lost(contact);
    }

    /// Looks a remembered peer that answers up from here.
    fn look_for_lost(&mut self, contact: Contact) {
        let target = LookupTarget {
            key: contact.id,
            routing: Routing::Successors,
            depth: self.out.config.depth,
            want_list: false,
        };
        let wanted = contact.id;
        self.look_up(target, Reason::MergeCheck { contact, wanted });
    }

    /// The walk between a remembered peer that answers and this node ended, or came to nothing.
    pub(super) fn on_merge_check(
        &mut self,
        contact: Contact,
        wanted: Id,
        outcome: Result<Owner, LookupFailure>,
    ) {
        match outcome {
            Ok(owner) if owner.contact.id == wanted => return,
            Ok(_) => {}
            // It answers no lookups if it is isolated itself, and then it needs us.
            Err(_) if wanted != contact.id => return self.look_for_lost(contact),
            Err(_) => return,
        }
        self.merge_with(contact);
    }

    /// Another part of our ring begins at this one: each side looks up its own id + 1 on the other.
    fn merge_with(&mut self, contact: Contact) {
        let counts = self.ring.counts_mut();
        counts.merges = counts.merges.saturating_add(1);
        let via = self.ring.links().me().clone();
        self.out.tell(&contact, Request::Unify { via, ttl: UNIFY_TTL });
        self.joining.last_unify = None;
        self.unify(contact, UNIFY_TTL);
    }

    /// Word of another part of the ring: looks up our own id + 1 there and tells the neighbours.
    pub(super) fn unify(&mut self, via: Contact, ttl: u8) {
        if via.key() == self.ring.links().me().key() {
            return;
        }
        if self.wants_place() {
            self.join(vec![via]);
            return;
        }
        let pause = self.out.config.merge_probe_every / 4;
        let recent = |last| self.out.now.since(last) < pause;
        if self.ring.standing() != Standing::Member || self.joining.last_unify.is_some_and(recent) {
            return;
        }
        self.joining.last_unify = Some(self.out.now);
        if let Some(ttl) = ttl.min(UNIFY_TTL).checked_sub(1) {
            let links = self.ring.links();
            let neighbors: Vec<Contact> =
                links.head().into_iter().chain(links.predecessor()).cloned().collect();
            for neighbor in neighbors {
                self.out.tell(&neighbor, Request::Unify { via: via.clone(), ttl });
            }
        }
        self.look_up_through(self.id().next(), via, Reason::Unify);
    }

    /// Whoever follows us in the other part is a candidate for step 2.
    pub(super) fn on_unify_lookup(&mut self, contact: Contact) {
        if self.ring.links().is_before_head(contact.id) {
            self.ring.on_candidate(&mut self.out, contact);
        }
    }

    /// `leave` or a stop.
    pub(super) fn depart(&mut self, for_good: bool) {
        if self.leave.as_ref().is_some_and(|leave| leave.for_good == for_good) {
            return;
        }
        let had_place = self.ring.standing() == Standing::Member;
        self.leave = Some(Departure { for_good, waiting_for: 0 });
        self.out.timers.stop(Timer::Join);
        if !had_place {
            self.unlinked();
            return;
        }
        self.ring.begin_leaving();
        match for_good && self.out.config.keeps_data {
            true => self.begin_handoff(),
            false => self.unlink(for_good),
        }
    }

    /// A neighbour let us go, or did not answer.
    pub(super) fn on_unlink_answer(&mut self) {
        if let Some(leave) = &mut self.leave {
            leave.waiting_for = leave.waiting_for.saturating_sub(1);
            if leave.waiting_for == 0 {
                self.unlinked();
            }
        }
    }

    /// Out.
    pub(super) fn unlinked(&mut self) {
        if self.ring.standing() == Standing::Gone {
            return;
        }
        self.save();
        self.ring.leave_now(&mut self.out);
        self.out.drop_everything();
        for reply in std::mem::take(&mut self.waiting_routes).into_keys() {
            self.out.reply(reply, Response::NotMember);
        }
        self.out.notice(Notice::Left);
    }

    /// Tells the neighbours; the end comes when they have heard, or did not answer.
    pub(super) fn unlink(&mut self, for_good: bool) {
        let links = self.ring.links();
        let neighbors = match (links.head(), links.predecessor()) {
            (Some(head), Some(held)) if head.id == held.id => 1,
            (head, held) => usize::from(head.is_some()) + usize::from(held.is_some()),
        };
        self.leave = Some(Departure { for_good, waiting_for: neighbors });
        self.out.set_timer(Timer::Unlink, UNLINK_PATIENCE);
        // Parts of the ring that this node lost sight of must not be lost with it.
        let mut remembered = self.remembered.contacts();
        remembered.retain(|contact| !links.is_neighbor(contact.id));
        remembered.truncate(MAX_HANDED_DOWN);
        self.ring.unlink(&mut self.out, for_good, &remembered);
    }

    pub(super) fn wants_place(&self) -> bool {
        matches!(self.ring.standing(), Standing::Outside | Standing::Isolated)
    }

    fn ask_to_join(&mut self, member: Contact) {
        if !self.wants_place() {
            self.joining.is_attempting = false;
            return;
        }
        if member.key() == self.ring.links().me().key() {
            self.join_failed(member);
            return;
        }
        // The member first makes sure that its head lives.
        let patience = self.out.config.wait_for_verdict();
        self.out.call_patiently(CallOwner::Join, &member, Request::Join, patience);
    }

    fn join_failed(&mut self, via: Contact) {
        self.joining.is_attempting = false;
        self.joining.busy_turns = 0;
        if !self.wants_place() {
            return;
        }
        self.joining.failures = self.joining.failures.saturating_add(1);
        // Everybody known is asked before the pauses grow: most of those remembered may be dead, and
        // one that lives is found within one round.
        let known = self.joining.known.max(1);
        let pause = if self.joining.failures.is_multiple_of(known) {
            let rounds = self.joining.failures / known;
            FIRST_PAUSE.saturating_mul(1 << rounds.min(10)).min(LONGEST_PAUSE)
        } else {
            self.out.config.min_timeout
        };
        let pause = self.out.jittered(pause);
        self.out.set_timer(Timer::Join, pause);
        self.out.notice(Notice::JoinFailed { via });
    }

    fn start_timers(&mut self) {
        if !self.out.timers.is_set(Timer::Stabilize) {
            let pause = self.out.jittered(self.out.config.stabilize_every);
            self.out.set_timer(Timer::Stabilize, pause);
        }
        if !self.out.timers.is_set(Timer::MergeProbe) {
            let pause = self.out.jittered(self.out.config.merge_probe_every);
            self.out.set_timer(Timer::MergeProbe, pause);
        }
        if self.out.config.keep.contains(Routing::Fingers)
            && !self.out.timers.is_set(Timer::Fingers)
        {
            let pause = self.out.jittered(self.out.config.stabilize_every);
            self.out.set_timer(Timer::Fingers, pause);
        }
        if self.keeps_map() && !self.out.timers.is_set(Timer::MapUpkeep) {
            let pause = self.map_period();
            self.out.set_timer(Timer::MapUpkeep, pause);
        }
    }

    /// Gives out what the next life should know, if that changed.
    fn save(&mut self) {
        self.unsaved |= self.replication.take_changed();
        if std::mem::take(&mut self.unsaved) {
            let alone = self.ring.is_alone();
            self.saved_alone = alone;
            let contacts = self.remembered.contacts();
            let open = self.replication.open_arcs();
            self.out.effect(Effect::Persist(Memory { contacts, open, alone }));
        }
    }
}
