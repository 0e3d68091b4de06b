//! How the full map is kept: what happens to neighbours is reported to the lead, which lets everybody know; and
//! what got lost on the way is noticed by whoever stands beside it, or found by comparing digests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Node;
use crate::event::{Failure, ReplyId};
use crate::id::{Id, between};
use crate::map::spread::{Copy, children, next_keeper};
use crate::message::map::{Claim, MAX_MAP_EVENTS, MAX_MAP_PAGE, MapEvent, MapPlace};
use crate::message::ring::{Request, Response, RouteAnswer, Routing};
use crate::outbox::CallOwner;
use crate::peer::Contact;
use crate::ring::Standing;
use crate::time::Instant;
use crate::timer::Timer;

/// How often a node looks after its map, in periods of upkeep (guess: lists are right again by then).
const UPKEEP_PERIODS: u32 = 5;
/// How long lists and map may contradict each other before that is reported, in looks after the map: an event
/// may be under way.
const GRACE: u32 = 2;
/// How often maps are compared (guess: as often as copies are).
const COMPARE_EVERY: Duration = Duration::from_secs(30);
/// How long reports are gathered before they go on to the lead (guess: a round trip).
const REPORT_PAUSE: Duration = Duration::from_millis(200);
/// How often a report is sent again that nobody spread.
const MAX_TRIES: u8 = 3;
/// Most reports of our own, and messages with those of others, that wait for an answer (guess).
const MAX_REPORTS: usize = 256;

/// What a node has to do with the maps of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Mapping {
    /// How often we contradicted what others said of us in this life.
    count: u32,
    /// Who passed the last batch on to us: the way to the lead.
    parent: Option<Contact>,
    /// What we reported and did not see in a batch yet.
    reports: BTreeMap<Id, Report>,
    /// Reports that go on to the lead with the next message.
    upward: BTreeMap<Id, MapEvent>,
    last_upward: Option<Instant>,
    /// Messages with reports that were not acknowledged yet.
    carried: BTreeMap<u64, Vec<MapEvent>>,
    /// Where lists and map contradict each other, and since when.
    disputes: BTreeMap<Id, Instant>,
    last_compared: Option<Instant>,
    /// Whether we got everything that a neighbour knew.
    is_filled: bool,
    /// How often it was tried, so that another one is asked next.
    fillings: usize,
    /// Where the page that was asked for last begins.
    page_after: Id,
}

impl Mapping {
    /// How many events are held that wait for something.
    pub(super) fn len(&self) -> usize {
        self.reports.len() + self.upward.len() + self.carried.len() + self.disputes.len()
    }
}

#[derive(Clone, Debug)]
struct Report {
    event: MapEvent,
    sent: Instant,
    tries: u8,
}

impl Node {
    /// Members as the full map names them, in the order of the circle; some may be gone.
    pub fn map(&self) -> impl Iterator<Item = &MapPlace> {
        self.map.iter()
    }

    pub(super) fn keeps_map(&self) -> bool {
        self.out.config.keep.contains(Routing::Full)
    }

    /// We have our place.
    pub(super) fn enter_map(&mut self) {
        if !self.keeps_map() || self.ring.standing() != Standing::Member {
            return;
        }
        let event = self.own_event();
        // Every notification says that we have our place; only the first one is news.
        if self.map.apply(&event, self.out.now) {
            // Our head says so too, over connections that are open: only if nobody does we do it.
            let report = Report { event, sent: self.out.now, tries: 0 };
            self.mapping.reports.insert(self.id(), report);
            self.learn_neighbors();
            self.fill_map(Id::MAX);
        }
    }

    /// The lists changed.
    pub(super) fn learn_neighbors(&mut self) {
        if !self.keeps_map() {
            return;
        }
        let links = self.ring.links();
        for contact in links.successors().iter().chain(links.predecessors()) {
            self.map.learn(contact);
        }
        // Whoever has just come before us is ours to report; those whom we found there others have reported.
        let predecessor = links.predecessor().cloned().filter(|_| self.mapping.is_filled);
        if let Some(held) = predecessor.filter(|held| !self.map.is_told(held.id)) {
            self.report(here(held, 0));
        }
    }

    /// A neighbour went, or somebody was found dead.
    pub(super) fn report_gone(&mut self, contact: &Contact) {
        let known = self.map.get(contact.id).map(MapPlace::claim);
        if let Some(claim) = known.filter(|claim| claim.incarnation <= contact.incarnation()) {
            self.report(MapEvent::Gone { id: contact.id, claim });
        }
    }

    /// We have another record of our own.
    pub(super) fn report_renewed(&mut self) {
        if self.keeps_map() && self.map.get(self.id()).is_some() {
            self.contradict();
        }
    }

    /// Whom our map takes for the owner of a key that is not ours.
    pub(super) fn owner_by_map(&self, key: Id, failed: impl Fn(&Contact) -> bool) -> Option<Id> {
        let me = self.id();
        self.map.owner_of(key, |held| held.id == me || failed(held)).map(|held| held.id)
    }

    /// What an answer to a lookup says of the members near its key.
    pub(super) fn learn_from_answer(&mut self, from: &Contact, answer: &RouteAnswer) {
        if !self.keeps_map() {
            return;
        }
        match answer {
            RouteAnswer::Mine { predecessor, .. } => {
                self.map.learn(from);
                if let Some(held) = predecessor {
                    self.map.doubt_between(held.id, from.id);
                    self.map.learn(held);
                }
            }
            RouteAnswer::NotMine { predecessor } => self.map.learn(predecessor),
            RouteAnswer::Next { .. } | RouteAnswer::Instead { .. } => {}
        }
    }

    /// Another member tells or asks about the map.
    pub(super) fn on_map_request(&mut self, reply: ReplyId, from: Contact, request: Request) {
        let is_member = matches!(self.ring.standing(), Standing::Member | Standing::Leaving);
        if !self.keeps_map() || !is_member {
            let response = if is_member { Response::NoMap } else { Response::NotMember };
            return self.out.reply(reply, response);
        }
        match request {
            Request::MapReport { mut events } => {
                self.out.reply(reply, Response::Done);
                events.truncate(MAX_MAP_EVENTS);
                events.retain(|event| self.note(event));
                self.carry(events);
            }
            Request::MapSpread { batch, end, mut events } => {
                events.truncate(MAX_MAP_EVENTS);
                let bytes = events.iter().map(MapEvent::size).sum();
                if !self.spread.accepts(bytes, self.out.now, self.out.config.map_budget) {
                    return self.out.reply(reply, Response::Busy);
                }
                self.out.reply(reply, Response::Done);
                if self.spread.is_new(batch) {
                    self.mapping.parent = Some(from);
                    for event in &events {
                        self.note(event);
                        self.confirm(event);
                    }
                    self.spread_on(batch, end, Arc::new(events));
                }
            }
            Request::MapTell { mut events } => {
                self.out.reply(reply, Response::Done);
                events.truncate(MAX_MAP_PAGE);
                events.iter().for_each(|event| self.copy(event));
            }
            Request::MapPage { after } => {
                let (events, last) = self.map.page(after);
                self.out.reply(reply, Response::MapPage { events, last });
            }
            Request::MapDigest { digests } => {
                let (parts, events) = self.map.differing(&digests);
                self.out.reply(reply, Response::MapDiffers { parts, events });
            }
            _ => {}
        }
    }

    /// The answer to a question about the map, or its failure.
    pub(super) fn on_map_answer(
        &mut self,
        owner: CallOwner,
        to: &Contact,
        outcome: Result<Response, Failure>,
    ) {
        match (&outcome, &owner) {
            (Ok(Response::NoMap), _) => self.map.keeps_none(to.id),
            (Ok(Response::Done | Response::Busy), _) => {}
            // It may live, but passes nothing on now.
            (_, CallOwner::MapReport(_) | CallOwner::MapCopy(_)) => self.map.doubt(to.id),
            _ => {}
        }
        match (owner, outcome) {
            (CallOwner::MapReport(number), outcome) => {
                let events = self.mapping.carried.remove(&number).unwrap_or_default();
                if outcome != Ok(Response::Done) {
                    self.mapping.parent = None;
                    self.carry(events);
                }
            }
            (CallOwner::MapCopy(number), outcome) => {
                let copy = self.spread.take_copy(number);
                let is_taken = matches!(outcome, Ok(Response::Done | Response::Busy));
                if let Some(copy) = copy.filter(|_| !is_taken)
                    && let Some(next) = next_keeper(&self.map, to.id, copy.end).cloned()
                {
                    self.send_copy(&next, copy);
                }
            }
            (CallOwner::MapPage, Ok(Response::MapPage { mut events, last })) => {
                events.truncate(MAX_MAP_PAGE);
                events.iter().for_each(|event| self.copy(event));
                match self.map.next_page(self.mapping.page_after, &events, last) {
                    Some(end) => self.fill_map(end),
                    None => self.mapping.is_filled = true,
                }
            }
            (CallOwner::MapDigest(bits), Ok(Response::MapDiffers { parts, mut events })) => {
                events.truncate(MAX_MAP_PAGE);
                let newer = self.map.newer_than(&events, &parts, bits);
                events.iter().for_each(|event| self.copy(event));
                if !newer.is_empty() {
                    self.out.tell(to, Request::MapTell { events: newer });
                }
            }
            _ => {}
        }
    }

    /// Time to look after the map.
    pub(super) fn look_after_map(&mut self) {
        let pause = self.map_period();
        self.out.set_timer(Timer::MapUpkeep, pause);
        if self.ring.standing() != Standing::Member {
            return;
        }
        let now = self.out.now;
        self.map.forget_gone(now);
        self.enter_map();
        if !self.mapping.is_filled {
            self.fill_map(Id::MAX);
        }
        self.report_again();
        self.report_disputes();
        let is_due = |last| now.since(last) >= COMPARE_EVERY;
        if self.mapping.last_compared.is_none_or(is_due) {
            self.mapping.last_compared = Some(now);
            let head = self.ring.links().head();
            if let Some(partner) = self.mapping.parent.as_ref().or(head).cloned() {
                let bits = self.map.digest_bits();
                let digests = self.map.digests(bits);
                let request = Request::MapDigest { digests };
                self.out.call(CallOwner::MapDigest(bits), &partner, request);
            }
        }
    }

    /// The next batch may go out, if we are the lead.
    pub(super) fn send_batch(&mut self) {
        let (now, budget) = (self.out.now, self.out.config.map_budget);
        if let Some(events) = self.spread.take_batch(now, budget) {
            let batch = self.out.draw_below(u64::MAX);
            self.spread.is_new(batch);
            self.spread_on(batch, self.id(), Arc::new(events));
        }
        self.plan_batch();
    }

    /// Reports go on to the lead.
    pub(super) fn send_reports(&mut self) {
        let events: Vec<MapEvent> =
            std::mem::take(&mut self.mapping.upward).into_values().collect();
        if events.is_empty() {
            return;
        }
        self.mapping.last_upward = Some(self.out.now);
        match self.lead() {
            Some(lead) if lead.id != self.id() => {
                let target = self.mapping.parent.clone().unwrap_or(lead);
                events.chunks(MAX_MAP_EVENTS).for_each(|part| self.send_report(&target, part));
            }
            _ => self.take_lead(events),
        }
    }

    /// Something happened that everybody should know.
    fn report(&mut self, event: MapEvent) {
        if !self.keeps_map() || !self.note(&event) {
            return;
        }
        if self.mapping.reports.len() < MAX_REPORTS {
            let report = Report { event: event.clone(), sent: self.out.now, tries: 0 };
            self.mapping.reports.insert(event.id(), report);
        }
        self.carry(vec![event]);
    }

    /// Takes an event over. Whether it was news. What is said of ourselves we know better.
    fn note(&mut self, event: &MapEvent) -> bool {
        let is_other = self.answer_for_ourselves(event);
        is_other && self.map.apply(event, self.out.now)
    }

    /// Takes an event over from another map.
    fn copy(&mut self, event: &MapEvent) {
        if self.answer_for_ourselves(event) {
            self.map.copy(event, self.out.now);
        }
    }

    /// Whether an event is about somebody else. One that calls us gone is contradicted.
    fn answer_for_ourselves(&mut self, event: &MapEvent) -> bool {
        let me = self.ring.links().me();
        if event.id() != me.id {
            return true;
        }
        let (claim, is_gone) = event.rank();
        let own = Claim { incarnation: me.incarnation(), count: self.mapping.count };
        if claim.incarnation == own.incarnation && claim.count >= own.count {
            self.mapping.count = claim.count;
            if is_gone && self.ring.standing() == Standing::Member {
                self.contradict();
            }
        }
        false
    }

    /// Says once more, against what was said of us, that we are here.
    fn contradict(&mut self) {
        self.mapping.count = self.mapping.count.saturating_add(1);
        let event = self.own_event();
        self.map.apply(&event, self.out.now);
        let report = Report { event: event.clone(), sent: self.out.now, tries: 0 };
        self.mapping.reports.insert(event.id(), report);
        self.carry(vec![event]);
    }

    fn own_event(&self) -> MapEvent {
        here(self.ring.links().me().clone(), self.mapping.count)
    }

    /// Who spreads events: the first keeper of the map at or after zero.
    fn lead(&self) -> Option<Contact> {
        self.map.keeper_from(Id::ZERO).cloned()
    }

    /// Brings events on the way to the lead, gathered for a moment.
    fn carry(&mut self, events: Vec<MapEvent>) {
        if events.is_empty() {
            return;
        }
        for event in events.into_iter().take(MAX_REPORTS) {
            let held = self.mapping.upward.get(&event.id());
            if held.is_none_or(|held| held.rank() < event.rank()) {
                self.mapping.upward.insert(event.id(), event);
            }
        }
        let next = self.mapping.last_upward.map(|last| last.after(REPORT_PAUSE));
        match next.filter(|next| *next > self.out.now) {
            Some(next) => self.out.timers.set_by(Timer::MapReport, next),
            None => self.send_reports(),
        }
    }

    fn send_report(&mut self, to: &Contact, events: &[MapEvent]) {
        let number = self.out.draw_number();
        if self.mapping.carried.len() < MAX_REPORTS {
            self.mapping.carried.insert(number, events.to_vec());
        }
        let request = Request::MapReport { events: events.to_vec() };
        self.out.call(CallOwner::MapReport(number), to, request);
    }

    /// We are the lead.
    fn take_lead(&mut self, events: Vec<MapEvent>) {
        for event in events {
            self.confirm(&event);
            self.spread.enqueue(event);
        }
        self.plan_batch();
    }

    fn plan_batch(&mut self) {
        if let Some(pause) = self.spread.pause(self.out.now, self.out.config.map_budget) {
            self.out.timers.set_by(Timer::MapBatch, self.out.now.after(pause.max(BATCH_PAUSE)));
        }
    }

    /// What we reported is being spread.
    fn confirm(&mut self, event: &MapEvent) {
        let id = event.id();
        if self.mapping.reports.get(&id).is_some_and(|held| held.event.rank() <= event.rank()) {
            self.mapping.reports.remove(&id);
        }
    }

    fn spread_on(&mut self, batch: u64, end: Id, events: Arc<Vec<MapEvent>>) {
        for (child, end) in children(&self.map, self.id(), end) {
            self.send_copy(&child, Copy { batch, end, events: events.clone() });
        }
    }

    fn send_copy(&mut self, to: &Contact, copy: Copy) {
        let number = self.out.draw_number();
        let events = copy.events.as_ref().clone();
        let request = Request::MapSpread { batch: copy.batch, end: copy.end, events };
        self.spread.keep_copy(number, copy);
        self.out.call(CallOwner::MapCopy(number), to, request);
    }

    /// Asks a neighbour for the next page of its map: the head, or, where that could not help, another one.
    fn fill_map(&mut self, after: Id) {
        let links = self.ring.links();
        let near: Vec<&Contact> = links.successors().iter().chain(links.predecessors()).collect();
        if near.is_empty() {
            return;
        }
        if after == Id::MAX {
            self.mapping.fillings = self.mapping.fillings.wrapping_add(1);
        }
        let host = near[self.mapping.fillings.wrapping_sub(1) % near.len()].clone();
        self.mapping.page_after = after;
        self.out.call(CallOwner::MapPage, &host, Request::MapPage { after });
    }

    /// Reports that nobody has spread go straight to the lead.
    fn report_again(&mut self) {
        let (now, patience) = (self.out.now, self.out.config.stabilize_every * UPKEEP_PERIODS / 2);
        self.mapping.reports.retain(|_, report| report.tries < MAX_TRIES);
        let mut events = Vec::new();
        for report in self.mapping.reports.values_mut() {
            if now.since(report.sent) >= patience {
                report.sent = now;
                report.tries += 1;
                events.push(report.event.clone());
            }
        }
        match self.lead() {
            _ if events.is_empty() => {}
            Some(lead) if lead.id != self.id() => {
                events.chunks(MAX_MAP_EVENTS).for_each(|part| self.send_report(&lead, part));
            }
            _ => self.take_lead(events),
        }
    }

    /// Where our lists and our map contradict each other for long, everybody's map may be wrong. It is ours to
    /// report as far as the next one that keeps a map on either side.
    fn report_disputes(&mut self) {
        let now = self.out.now;
        let grace = self.out.config.stabilize_every * UPKEEP_PERIODS * GRACE;
        let before = std::mem::take(&mut self.mapping.disputes);
        for event in self.disputed() {
            let id = event.id();
            let since = before.get(&id).copied().unwrap_or(now);
            if now.since(since) >= grace {
                self.report(event);
            } else if self.mapping.disputes.len() < MAX_REPORTS {
                self.mapping.disputes.insert(id, since);
            }
        }
    }

    fn disputed(&self) -> Vec<MapEvent> {
        let (me, links) = (self.id(), self.ring.links());
        let mut events = Vec::new();
        let ahead: Vec<&MapPlace> = self.map.after(me).take(MAX_REPORTS).collect();
        let behind: Vec<&MapPlace> = self.map.before(me).take(MAX_REPORTS).collect();
        let sides = [(links.successors(), ahead, false), (links.predecessors(), behind, true)];
        for (list, places, is_back) in sides {
            let mut from = me;
            for entry in list {
                let (start, end) = if is_back { (entry.id, from) } else { (from, entry.id) };
                let stale = places.iter().filter(|held| between(start, held.contact.id, end));
                events.extend(
                    stale
                        .filter(|held| held.contact.id != me)
                        .map(|held| MapEvent::Gone { id: held.contact.id, claim: held.claim() }),
                );
                events.extend(self.missing(entry));
                from = entry.id;
                if self.map.get(entry.id).is_some_and(|held| held.keeps_map) {
                    break;
                }
            }
        }
        events
    }

    /// What the map should say of a neighbour and does not.
    fn missing(&self, entry: &Contact) -> Option<MapEvent> {
        match self.map.claim(entry.id) {
            Some((claim, true)) if claim.incarnation == entry.incarnation() => {
                Some(here(entry.clone(), claim.count.saturating_add(1)))
            }
            Some((claim, _)) if claim.incarnation > entry.incarnation() => None,
            Some((claim, false)) if claim.incarnation == entry.incarnation() => {
                (!self.map.is_told(entry.id)).then(|| here(entry.clone(), claim.count))
            }
            _ => Some(here(entry.clone(), 0)),
        }
    }

    pub(super) fn map_period(&mut self) -> Duration {
        self.out.jittered(self.out.config.stabilize_every * UPKEEP_PERIODS)
    }
}

fn here(contact: Contact, count: u32) -> MapEvent {
    MapEvent::Here(MapPlace { contact, count, keeps_map: true })
}

/// How long events are gathered for a batch at least (guess: as long as a few of them need to come).
const BATCH_PAUSE: Duration = Duration::from_millis(100);
