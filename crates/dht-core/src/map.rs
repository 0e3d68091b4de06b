//! The full map: everybody who has a place, as far as this node has heard (one-hop routing: Gupta, Liskov and
//! Rodrigues, NSDI 2004).
//!
//! Nothing rests on it: who owns a key only its owner says, and an entry that is out of date costs a lookup one
//! step more. So the map is not agreed upon but spread: every event once to everybody ([`spread`]), and what got
//! lost on the way is found by comparing digests.

pub(crate) mod spread;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sha1::{Digest, Sha1};

use crate::id::{Id, between};
use crate::message::map::{Claim, MAX_MAP_DIGESTS, MAX_MAP_PAGE, MapEvent, MapPlace};
use crate::peer::Contact;
use crate::time::Instant;

/// Most places held: at about 200 bytes each 20 MB (guess; one-hop routing was made for 100,000 nodes).
const MAX_PLACES: usize = 100_000;
/// How long it is remembered who is gone, so that nobody who has not heard brings it back (guess: twenty
/// comparisons of digests).
const GONE_KEPT: Duration = Duration::from_secs(600);
/// Places per digest: what two nodes that differ in one place tell each other beside it (guess).
const PLACES_PER_DIGEST: usize = 4;

/// The map of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    places: BTreeMap<Id, Held>,
    gone: BTreeMap<Id, Gone>,
}

#[derive(Clone, Debug)]
struct Held {
    place: MapPlace,
    source: Source,
    /// It did not answer, or an owner's answer contradicts it: others are asked first.
    is_doubted: bool,
}

/// How a place became known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    /// From lists and answers alone: perhaps nobody else has heard of it.
    Lists,
    /// From another map: others have heard of it, perhaps not all.
    Copy,
    /// It was reported, or came in a batch: everybody hears of it.
    Spread,
}

#[derive(Clone, Copy, Debug)]
struct Gone {
    claim: Claim,
    since: Instant,
    /// As [`Source::Spread`].
    is_spread: bool,
}

impl Map {
    /// How many places are held.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// All places, in the order of the circle from zero.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &MapPlace> {
        self.places.values().map(|held| &held.place)
    }

    /// What is held of this place.
    pub(crate) fn get(&self, id: Id) -> Option<&MapPlace> {
        self.places.get(&id).map(|held| &held.place)
    }

    /// Whether somebody else has heard of this one, too.
    pub(crate) fn is_told(&self, id: Id) -> bool {
        self.places.get(&id).is_some_and(|held| held.source > Source::Lists)
    }

    /// The newest claim that was heard about a place, and whether it says that it is gone.
    pub(crate) fn claim(&self, id: Id) -> Option<(Claim, bool)> {
        let here = self.places.get(&id).map(|held| (held.place.claim(), false));
        let gone = self.gone.get(&id).map(|gone| (gone.claim, true));
        here.max(gone)
    }

    /// Takes an event over that was reported or came in a batch. Whether it was news; what was only copied so far is,
    /// since not everybody may have heard of it.
    pub(crate) fn apply(&mut self, event: &MapEvent, now: Instant) -> bool {
        if self.copy(event, now) {
            self.set_spread(event.id());
            return true;
        }
        let is_same = self.claim(event.id()) == Some(event.rank());
        is_same && self.set_spread(event.id())
    }

    /// Takes an event over from another map. Whether it was newer than what was held.
    pub(crate) fn copy(&mut self, event: &MapEvent, now: Instant) -> bool {
        let id = event.id();
        let known = self.claim(id);
        if known.is_some_and(|known| known >= event.rank()) {
            if let (MapEvent::Here(place), Some(held)) = (event, self.places.get_mut(&id))
                && held.place.claim() == place.claim()
            {
                held.is_doubted = false;
                held.source = held.source.max(Source::Copy);
            }
            return false;
        }
        match event {
            MapEvent::Here(place) => {
                if self.places.len() >= MAX_PLACES && !self.places.contains_key(&id) {
                    return false;
                }
                self.gone.remove(&id);
                let (place, source) = (place.clone(), Source::Copy);
                self.places.insert(id, Held { place, source, is_doubted: false });
            }
            MapEvent::Gone { claim, .. } => {
                self.places.remove(&id);
                self.note_gone(id, Gone { claim: *claim, since: now, is_spread: false });
            }
        }
        true
    }

    /// A place that somebody answers for: the node's own lists, or an owner. Nothing is concluded from it
    /// against what events say.
    pub(crate) fn learn(&mut self, contact: &Contact) {
        let claim = Claim { incarnation: contact.incarnation(), count: 0 };
        if self.gone.get(&contact.id).is_some_and(|gone| gone.claim >= claim) {
            return;
        }
        let is_full = self.places.len() >= MAX_PLACES;
        match self.places.get_mut(&contact.id) {
            Some(held) if held.place.contact.incarnation() >= claim.incarnation => {
                held.is_doubted = false;
                // A signed record, or one with more addresses.
                if held.place.contact.incarnation() == claim.incarnation {
                    held.place.contact = contact.clone();
                }
            }
            None if is_full => {}
            Some(_) | None => {
                self.gone.remove(&contact.id);
                let place = MapPlace { contact: contact.clone(), count: 0, keeps_map: true };
                let held = Held { place, source: Source::Lists, is_doubted: false };
                self.places.insert(contact.id, held);
            }
        }
    }

    /// This one did not answer.
    pub(crate) fn doubt(&mut self, id: Id) {
        if let Some(held) = self.places.get_mut(&id) {
            held.is_doubted = true;
        }
    }

    /// An owner says that nobody stands between its predecessor and itself.
    pub(crate) fn doubt_between(&mut self, start: Id, end: Id) {
        let inside: Vec<Id> = self
            .after(start)
            .map(|held| held.contact.id)
            .take_while(|id| between(start, *id, end))
            .collect();
        inside.into_iter().for_each(|id| self.doubt(id));
    }

    /// It keeps no map: nothing is sent to it any more.
    pub(crate) fn keeps_none(&mut self, id: Id) {
        if let Some(held) = self.places.get_mut(&id) {
            held.place.keeps_map = false;
        }
    }

    /// Who should own a key: the first place at or after it that is not `failed`; of those in doubt only if
    /// there is no other.
    pub(crate) fn owner_of(&self, key: Id, failed: impl Fn(&Contact) -> bool) -> Option<&Contact> {
        let places = || self.at_or_after(key).filter(|held| !failed(&held.place.contact));
        let sure = places().find(|held| !held.is_doubted);
        sure.or_else(|| places().next()).map(|held| &held.place.contact)
    }

    /// The first at or after a point that keeps the map and is not in doubt.
    pub(crate) fn keeper_from(&self, point: Id) -> Option<&Contact> {
        let mut keepers =
            self.at_or_after(point).filter(|held| held.place.keeps_map && !held.is_doubted);
        keepers.next().map(|held| &held.place.contact)
    }

    /// Places clockwise after a point, once round.
    pub(crate) fn after(&self, point: Id) -> impl Iterator<Item = &MapPlace> {
        let held = self.at_or_after(point.next());
        held.map(|held| &held.place)
    }

    /// Places anticlockwise before a point, once round.
    pub(crate) fn before(&self, point: Id) -> impl Iterator<Item = &MapPlace> {
        let near = self.places.range(..point).rev();
        near.chain(self.places.range(point..).rev()).map(|(_, held)| &held.place)
    }

    /// What is known of the places after a point, and whether that is the end of the circle. Asked with the
    /// last point of each page, from [`Id::MAX`] on.
    pub(crate) fn page(&self, after: Id) -> (Vec<MapEvent>, bool) {
        let start = after.next();
        let mut rest = self.places.range(start..).map(|(_, held)| held.place.clone());
        let page: Vec<MapEvent> = rest.by_ref().take(MAX_MAP_PAGE).map(MapEvent::Here).collect();
        (page, rest.next().is_none())
    }

    /// After which point to ask for more, when this page came for the one after `after`; `None`: it is enough.
    /// Pages go forward, so that nobody can have us ask for ever.
    pub(crate) fn next_page(&self, after: Id, page: &[MapEvent], last: bool) -> Option<Id> {
        let end = page.last().map(MapEvent::id)?;
        let is_onward = after == Id::MAX || end > after;
        (!last && is_onward && self.places.len() < MAX_PLACES).then_some(end)
    }

    /// How many digits of a point name its part of the circle in [`Map::digests`].
    pub(crate) fn digest_bits(&self) -> u8 {
        let parts = (self.places.len() / PLACES_PER_DIGEST).clamp(1, MAX_MAP_DIGESTS);
        parts.ilog2() as u8
    }

    /// A digest over the places of each of the `2^bits` parts of the circle: the first four bytes of SHA-1 over
    /// points and claims.
    pub(crate) fn digests(&self, bits: u8) -> Vec<u32> {
        let mut hashes = vec![None::<Sha1>; 1 << bits];
        for (id, held) in &self.places {
            let Some(hash) = hashes.get_mut(part(*id, bits)) else { continue };
            let claim = held.place.claim();
            let hash = hash.get_or_insert_default();
            hash.update(id.to_bytes());
            hash.update(claim.incarnation.to_be_bytes());
            hash.update(claim.count.to_be_bytes());
        }
        let short = |hash: Sha1| {
            let [a, b, c, d, ..] = <[u8; 20]>::from(hash.finalize());
            u32::from_be_bytes([a, b, c, d])
        };
        hashes.into_iter().map(|hash| hash.map_or(0, short)).collect()
    }

    /// The parts whose digests differ from `theirs`, and everything known of them, as far as one message holds it.
    pub(crate) fn differing(&self, theirs: &[u32]) -> (Vec<u16>, Vec<MapEvent>) {
        if !theirs.len().is_power_of_two() || theirs.len() > MAX_MAP_DIGESTS {
            return (Vec::new(), Vec::new());
        }
        let bits = theirs.len().ilog2() as u8;
        let ours = self.digests(bits);
        let differs = |at: &u16| ours.get(usize::from(*at)) != theirs.get(usize::from(*at));
        let parts: Vec<u16> = (0..theirs.len() as u16).filter(differs).collect();
        let events = self.known_in(&parts, bits).take(MAX_MAP_PAGE).collect();
        (parts, events)
    }

    /// What this node knows better than somebody of whose `2^bits` parts these differ, and who said all that it
    /// knows of them.
    pub(crate) fn newer_than(&self, theirs: &[MapEvent], parts: &[u16], bits: u8) -> Vec<MapEvent> {
        let said: BTreeMap<Id, (Claim, bool)> =
            theirs.iter().map(|event| (event.id(), event.rank())).collect();
        let is_newer = |event: &MapEvent| match (said.get(&event.id()), event) {
            (Some(said), _) => *said < event.rank(),
            (None, MapEvent::Here(_)) => true,
            (None, MapEvent::Gone { .. }) => false,
        };
        self.known_in(parts, bits).filter(is_newer).take(MAX_MAP_PAGE).collect()
    }

    /// Forgets who has been gone for long.
    pub(crate) fn forget_gone(&mut self, now: Instant) {
        self.gone.retain(|_, gone| now.since(gone.since) < GONE_KEPT);
    }

    /// Whether that is news.
    fn set_spread(&mut self, id: Id) -> bool {
        if let Some(held) = self.places.get_mut(&id) {
            return std::mem::replace(&mut held.source, Source::Spread) != Source::Spread;
        }
        let gone = self.gone.get_mut(&id);
        gone.is_some_and(|gone| !std::mem::replace(&mut gone.is_spread, true))
    }

    fn note_gone(&mut self, id: Id, gone: Gone) {
        if self.gone.len() >= MAX_PLACES {
            let oldest = self.gone.iter().min_by_key(|(_, gone)| gone.since).map(|(id, _)| *id);
            oldest.into_iter().for_each(|id| _ = self.gone.remove(&id));
        }
        self.gone.insert(id, gone);
    }

    fn known_in(&self, parts: &[u16], bits: u8) -> impl Iterator<Item = MapEvent> {
        let parts: BTreeSet<usize> = parts.iter().map(|at| usize::from(*at)).collect();
        let here = self.places.iter().map(|(id, held)| (*id, MapEvent::Here(held.place.clone())));
        let gone = self.gone.iter();
        let gone = gone.map(|(id, gone)| (*id, MapEvent::Gone { id: *id, claim: gone.claim }));
        let wanted = move |(id, _): &(Id, MapEvent)| parts.contains(&part(*id, bits));
        here.chain(gone).filter(wanted).map(|(_, event)| event)
    }

    fn at_or_after(&self, point: Id) -> impl Iterator<Item = &Held> {
        self.places.range(point..).chain(self.places.range(..point)).map(|(_, held)| held)
    }
}

/// Which of the `2^bits` equal parts of the circle a point lies in.
fn part(id: Id, bits: u8) -> usize {
    if bits == 0 { 0 } else { usize::from(id.part(bits)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{contact, contact_in_life, point};

    fn here(n: u64, life: u64, count: u32) -> MapEvent {
        MapEvent::Here(MapPlace { contact: contact_in_life(n, life), count, keeps_map: true })
    }

    fn gone(n: u64, incarnation: u64, count: u32) -> MapEvent {
        MapEvent::Gone { id: point(n), claim: Claim { incarnation, count } }
    }

    fn map(nodes: &[u64]) -> Map {
        let mut map = Map::default();
        for n in nodes {
            assert!(map.apply(&here(*n, 1, 0), Instant(1)));
        }
        map
    }

    fn owner(map: &Map, key: u64, failed: &[u64]) -> Option<Id> {
        let is_failed = |contact: &Contact| failed.iter().any(|n| point(*n) == contact.id);
        map.owner_of(point(key), is_failed).map(|contact| contact.id)
    }

    #[test]
    fn the_owner_is_the_first_at_or_after_a_key_that_answers() {
        let mut map = map(&[10, 20, 30]);
        assert_eq!(owner(&map, 10, &[]), Some(point(10)));
        assert_eq!(owner(&map, 11, &[]), Some(point(20)));
        assert_eq!(owner(&map, 31, &[]), Some(point(10)), "past the last the circle begins again");
        assert_eq!(owner(&map, 11, &[20]), Some(point(30)));
        map.doubt(point(20));
        assert_eq!(owner(&map, 11, &[]), Some(point(30)));
        assert_eq!(owner(&map, 11, &[10, 30]), Some(point(20)), "better one in doubt than none");
        map.learn(&contact(20));
        assert_eq!(owner(&map, 11, &[]), Some(point(20)), "somebody says that it is there");
        assert_eq!(owner(&map, 11, &[10, 20, 30]), None);
    }

    #[test]
    fn an_owner_is_believed_about_what_lies_before_it() {
        let mut map = map(&[10, 20, 30, 40]);
        map.doubt_between(point(40), point(20));
        assert_eq!(owner(&map, 5, &[]), Some(point(20)));
        map.doubt_between(point(20), point(40));
        assert_eq!(owner(&map, 25, &[]), Some(point(40)));
    }

    #[test]
    fn events_are_taken_in_the_order_of_their_claims_however_they_come() {
        let events =
            [here(10, 1, 0), gone(10, 1, 0), here(10, 1, 1), gone(10, 1, 1), here(10, 2, 0)];
        for first in &events {
            for second in &events {
                let mut map = Map::default();
                map.apply(first, Instant(1));
                let news = map.apply(second, Instant(2));
                assert_eq!(news, second.rank() > first.rank());
                let newest = first.rank().max(second.rank());
                assert_eq!(map.claim(point(10)), Some(newest));
                assert_eq!(map.len(), usize::from(!newest.1));
            }
        }
    }

    #[test]
    fn who_is_gone_comes_back_by_a_newer_claim_or_after_a_long_time() {
        let mut map = map(&[10]);
        map.apply(&gone(10, 1, 0), Instant(1));
        map.learn(&contact(10));
        assert_eq!(map.len(), 0, "an old list still names it");
        map.learn(&contact_in_life(10, 2));
        assert_eq!(map.len(), 1, "its next life");
        map.apply(&gone(10, 2, 0), Instant(1));
        map.forget_gone(Instant::ZERO.after(GONE_KEPT / 2));
        assert!(!map.apply(&here(10, 2, 0), Instant(1)));
        map.forget_gone(Instant::ZERO.after(GONE_KEPT * 2));
        assert!(map.apply(&here(10, 2, 0), Instant(1)));
    }

    #[test]
    fn two_maps_are_the_same_after_they_compared_digests() {
        let spread = |n: u64| n * (u64::MAX / 200);
        let all: Vec<u64> = (0..100).map(|n| spread(2 * n)).collect();
        let (mut ours, mut theirs) = (map(&all), map(&all));
        assert_eq!(ours.digests(4), theirs.digests(4));
        ours.apply(&here(spread(7), 1, 0), Instant(1));
        ours.apply(&gone(spread(10), 1, 0), Instant(1));
        theirs.apply(&here(spread(101), 3, 0), Instant(1));
        theirs.apply(&gone(spread(150), 1, 0), Instant(1));
        theirs.apply(&here(spread(20), 1, 5), Instant(1));
        let bits = ours.digest_bits();
        let (parts, told) = theirs.differing(&ours.digests(bits));
        assert!(told.len() < 40, "only the parts that differ: {}", told.len());
        let told_back = ours.newer_than(&told, &parts, bits);
        told.iter().for_each(|event| _ = ours.apply(event, Instant(2)));
        told_back.iter().for_each(|event| _ = theirs.apply(event, Instant(2)));
        assert_eq!(ours.digests(6), theirs.digests(6));
        assert_eq!(ours.len(), 100);
        assert_eq!(theirs.differing(&[0; 3]), (vec![], vec![]), "no number of parts");
    }

    #[test]
    fn a_part_that_one_side_holds_nothing_of_is_told_back() {
        let (ours, theirs) = (map(&[10]), Map::default());
        let bits = ours.digest_bits();
        let (parts, told) = theirs.differing(&ours.digests(bits));
        assert_eq!((parts.as_slice(), told.as_slice()), (&[0][..], &[][..]));
        assert_eq!(ours.newer_than(&told, &parts, bits).len(), 1);
    }

    #[test]
    fn a_report_of_what_was_only_copied_is_news_once() {
        let mut map = Map::default();
        map.learn(&contact(10));
        assert!(!map.is_told(point(10)));
        assert!(!map.copy(&here(10, 1, 0), Instant(1)) && map.is_told(point(10)));
        assert!(map.apply(&here(10, 1, 0), Instant(1)));
        assert!(!map.apply(&here(10, 1, 0), Instant(1)));
        assert!(map.copy(&gone(10, 1, 0), Instant(1)), "from another map");
        assert!(map.apply(&gone(10, 1, 0), Instant(1)), "that is no reason not to tell everybody");
        assert!(!map.apply(&gone(10, 1, 0), Instant(1)));
    }

    #[test]
    fn pages_go_once_round() {
        let all: Vec<u64> = (1..=1500).collect();
        let map = map(&all);
        let (first, last) = map.page(Id::MAX);
        assert_eq!((first.len(), last), (MAX_MAP_PAGE, false));
        let end = first.last().expect("a full page").id();
        let (rest, last) = map.page(end);
        assert_eq!((first.len() + rest.len(), last), (1500, true));
        assert_eq!(map.next_page(Id::MAX, &first, false), Some(end));
        assert_eq!(map.next_page(end, &rest, true), None);
        assert_eq!(map.next_page(end, &first, false), None, "the same page again leads nowhere");
        assert_eq!(map.next_page(end, &[], false), None);
    }
}
