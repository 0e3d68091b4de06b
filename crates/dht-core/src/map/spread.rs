//! How events reach everybody: to one node, the lead, which sends them in batches down a tree.
//!
//! The lead is the first keeper of the map at or after zero. Whoever gets a batch passes it on over an arc of the
//! circle that it was given: one copy to the next keeper, for the first half of the arc, and one to the first
//! keeper of the second half (El-Ansary et al., IPTPS 2003, in two halves instead of by fingers, so that nobody
//! sends more than two). The halves are cut at round points, which do not move when nodes come and go: so the
//! same nodes pass batches to each other again and again, over connections that stay open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::budget::{earned, time_to_earn};
use crate::id::{Id, between};
use crate::message::map::{MAX_MAP_EVENTS, MapEvent};
use crate::peer::Contact;
use crate::time::Instant;

use super::Map;

/// What a message costs beside its events, in bytes: headers, seal and acknowledgements both ways
/// (`docs/simulation.md`, "Traffic"): 187, and 24 of the message itself.
const MESSAGE_COST: i64 = 211;
/// Most that may be saved up, in bytes: a burst of 100 joins goes out at once (guess).
const MOST_SAVED: i64 = 8 * 1024;
/// The same of what others send us to pass on (guess: three batches as long as they may be).
const MOST_TAKEN: i64 = 40 * 1024;
/// Numbers of batches remembered, to take each once (guess: more than are under way at any time).
const BATCHES_KEPT: usize = 64;
/// Most events that wait to be spread; more are found by comparing digests (guess).
const MAX_WAITING: usize = 4096;
/// Most copies that wait for an acknowledgement (guess: two for each batch of ten seconds).
const MAX_COPIES: usize = 128;

/// What is on its way.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    /// At the lead: what is to go out, the newest event of each place, whoever has waited longest first.
    waiting: BTreeMap<u64, MapEvent>,
    /// The numbers of those in `waiting` by their places.
    numbers: BTreeMap<Id, u64>,
    last_number: u64,
    /// What may be spent, in bytes.
    saved: i64,
    since: Instant,
    /// The same for what others may have us pass on.
    room: i64,
    room_since: Instant,
    /// Batches that came.
    batches: VecDeque<u64>,
    /// Copies without an acknowledgement, by their numbers.
    copies: BTreeMap<u64, Copy>,
}

/// A batch for one arc.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The batch.
    pub(crate) batch: u64,
    /// It goes to everybody from its receiver up to here, without.
    pub(crate) end: Id,
    /// What it says.
    pub(crate) events: Arc<Vec<MapEvent>>,
}

impl Spread {
    pub(crate) fn new(now: Instant) -> Spread {
        Spread {
            waiting: BTreeMap::new(),
            numbers: BTreeMap::new(),
            last_number: 0,
            saved: MOST_SAVED,
            since: now,
            room: MOST_TAKEN,
            room_since: now,
            batches: VecDeque::new(),
            copies: BTreeMap::new(),
        }
    }

    /// This is to go out with the next batch. It takes the turn of an older event about the same place.
    pub(crate) fn enqueue(&mut self, event: MapEvent) {
        if self.waiting.len() >= MAX_WAITING && !self.numbers.contains_key(&event.id()) {
            return;
        }
        let next = self.last_number.wrapping_add(1);
        let number = *self.numbers.entry(event.id()).or_insert(next);
        self.last_number = self.last_number.max(number);
        if self.waiting.get(&number).is_none_or(|held| held.rank() < event.rank()) {
            self.waiting.insert(number, event);
        }
    }

    /// How long until the next batch may go out; `None`: nothing waits.
    pub(crate) fn pause(&mut self, now: Instant, bytes_per_s: u32) -> Option<Duration> {
        if self.waiting.is_empty() {
            return None;
        }
        self.save(now, bytes_per_s);
        let lacks = (self.next_cost() - self.saved).max(0).unsigned_abs();
        Some(time_to_earn(lacks, bytes_per_s))
    }

    /// The next batch, if there is something to say and enough was saved.
    pub(crate) fn take_batch(&mut self, now: Instant, bytes_per_s: u32) -> Option<Vec<MapEvent>> {
        self.save(now, bytes_per_s);
        let cost = self.next_cost();
        if self.waiting.is_empty() || self.saved < cost {
            return None;
        }
        self.saved -= cost;
        let mut batch = Vec::new();
        while batch.len() < MAX_MAP_EVENTS
            && let Some((_, event)) = self.waiting.pop_first()
        {
            self.numbers.remove(&event.id());
            batch.push(event);
        }
        Some(batch)
    }

    /// Whether a batch of so many bytes is taken: nobody can have us pass on more than twice what a lead may send.
    pub(crate) fn accepts(&mut self, bytes: usize, now: Instant, bytes_per_s: u32) -> bool {
        let (earned, since) = earned(self.room_since, now, bytes_per_s);
        self.room_since = since;
        let room = self.room.saturating_add(earned).min(MOST_TAKEN);
        let cost = MESSAGE_COST.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        let is_taken = room >= cost;
        self.room = if is_taken { room - cost } else { room };
        is_taken
    }

    /// Whether a batch comes for the first time.
    pub(crate) fn is_new(&mut self, batch: u64) -> bool {
        if self.batches.contains(&batch) {
            return false;
        }
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
        true
    }

    /// Keeps a copy until it is acknowledged.
    pub(crate) fn keep_copy(&mut self, number: u64, copy: Copy) {
        if self.copies.len() == MAX_COPIES {
            self.copies.pop_first();
        }
        self.copies.insert(number, copy);
    }

    /// Takes a copy out that arrived, or did not.
    pub(crate) fn take_copy(&mut self, number: u64) -> Option<Copy> {
        self.copies.remove(&number)
    }

    /// How many events and copies are held.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.copies.len()
    }

    /// Twice what a message costs: whoever gets a batch sends up to two copies.
    fn next_cost(&self) -> i64 {
        let events = self.waiting.values().take(MAX_MAP_EVENTS).map(MapEvent::size).sum::<usize>();
        2 * (MESSAGE_COST + i64::try_from(events).unwrap_or(i64::MAX / 4))
    }

    fn save(&mut self, now: Instant, bytes_per_s: u32) {
        let (earned, since) = earned(self.since, now, bytes_per_s);
        self.since = since;
        let most = MOST_SAVED.max(self.next_cost());
        self.saved = self.saved.saturating_add(earned).min(most);
    }
}

/// To whom a node passes on what it got for the arc from itself up to `end`, each with the end of its own
/// arc; `end` may be the node itself: once round.
pub(crate) fn children(map: &Map, me: Id, end: Id) -> Vec<(Contact, Id)> {
    let Some(near) = next_keeper(map, me, end) else { return Vec::new() };
    let middle = middle(me, end);
    // From the middle on, since that may be a place itself.
    let far = match middle != me && between(me, near.id, middle) {
        true => map.keeper_from(middle).filter(|far| between(me, far.id, end)),
        false => None,
    };
    match far.filter(|far| far.id != near.id) {
        // Up to the far one, so that nobody in the gap before it is left out.
        Some(far) => vec![(near.clone(), far.id), (far.clone(), end)],
        None => vec![(near.clone(), end)],
    }
}

/// The first keeper strictly between a point and the end of an arc.
pub(crate) fn next_keeper(map: &Map, after: Id, end: Id) -> Option<&Contact> {
    let keeper = map.keeper_from(after.next())?;
    between(after, keeper.id, end).then_some(keeper)
}

/// The roundest point in the middle half of an arc: the one that ends in the most zeros. A few nodes that come
/// or go at the ends of the arc do not move it.
fn middle(start: Id, end: Id) -> Id {
    let length = start.distance_to(end);
    let quarter = match length == Id::ZERO {
        true => Id::power_of_two(158),
        false => length.halved().halved(),
    };
    let low = start.wrapping_add(quarter);
    let span = quarter.wrapping_add(quarter);
    // The greatest power of two with a multiple between `low` and `low + span`; one of half the span always has.
    let exponents = (0..span.bits().max(1)).rev();
    let multiple = |exponent| low.round_up(exponent);
    let mut round = exponents.map(multiple).filter(|point| low.distance_to(*point) <= span);
    round.next().unwrap_or(low)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::message::map::{Claim, MapPlace};
    use crate::testing::contact;

    fn here(n: u64) -> MapEvent {
        MapEvent::Here(MapPlace { contact: contact(n), count: 0, keeps_map: true })
    }

    fn map(nodes: impl IntoIterator<Item = u64>) -> Map {
        let mut map = Map::default();
        nodes.into_iter().for_each(|n| _ = map.apply(&here(n), Instant(1)));
        map
    }

    /// Everybody whom a batch of `lead` reaches if all hold this map, how often, and over how many steps.
    fn reached(map: &Map, lead: Id) -> (Vec<Id>, usize, usize) {
        let (mut reached, mut deepest, mut most) = (Vec::new(), 0, 0);
        let mut open = vec![(lead, lead, 0)];
        while let Some((me, end, depth)) = open.pop() {
            let children = children(map, me, end);
            most = most.max(children.len());
            deepest = deepest.max(depth);
            reached.push(me);
            open.extend(children.into_iter().map(|(child, end)| (child.id, end, depth + 1)));
        }
        (reached, deepest, most)
    }

    /// Numbers that look random (SplitMix64).
    fn scattered(count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(|n| {
            let z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z ^ (z >> 27)
        })
    }

    #[test]
    fn a_batch_reaches_everybody_once_over_few_steps() {
        for count in [1, 2, 3, 10, 100, 1000] {
            let map = map(scattered(count));
            let all: BTreeSet<Id> = map.iter().map(|held| held.contact.id).collect();
            let lead = *all.first().expect("there is one");
            let (list, deepest, most) = reached(&map, lead);
            assert_eq!(list.len(), all.len(), "each once");
            assert_eq!(list.iter().copied().collect::<BTreeSet<Id>>(), all);
            let log = f64::from(count as u32).log2();
            assert!(deepest as f64 <= 2.0 * log + 1.0, "{count} nodes over {deepest} steps");
            assert!(most <= 2);
        }
    }

    #[test]
    fn who_passes_to_whom_stays_when_others_come_and_go() {
        let pairs = |map: &Map| {
            let lead = map.keeper_from(Id::ZERO).expect("there is one").id;
            let mut pairs = BTreeSet::new();
            let mut open = vec![(lead, lead)];
            while let Some((me, end)) = open.pop() {
                for (child, end) in children(map, me, end) {
                    pairs.insert((me, child.id));
                    open.push((child.id, end));
                }
            }
            pairs
        };
        let before = pairs(&map(scattered(1000)));
        let after = pairs(&map(scattered(1010).skip(10)));
        let same = before.intersection(&after).count();
        // Ten left and ten came: each changes the pairs that it is in itself, three, and few others.
        assert!(same > 1000 - 20 * 5, "{same} of {}", before.len());
    }

    #[test]
    fn who_keeps_no_map_gets_nothing() {
        let mut map = map(scattered(100));
        let silent: Vec<Id> = map.iter().map(|held| held.contact.id).step_by(3).collect();
        silent.iter().for_each(|id| map.keeps_none(*id));
        let lead = map.keeper_from(Id::ZERO).expect("there is one").id;
        let (list, ..) = reached(&map, lead);
        assert_eq!(list.len(), 100 - silent.len());
        assert!(silent.iter().all(|id| !list.contains(id)));
    }

    #[test]
    fn the_middle_is_round_and_in_the_middle_half() {
        assert_eq!(middle(Id::ZERO, Id::ZERO), Id::power_of_two(159));
        let (start, end) = (Id::from_u64(1000), Id::from_u64(1100));
        assert_eq!(
            middle(start, end),
            Id::from_u64(1056),
            "1056 = 33 * 32; 1024 lies too near to the start"
        );
        let (near, apart) = (Id::from_u64(7), Id::from_u64(8));
        let found = middle(near, apart);
        assert!(found == near || found == apart);
    }

    #[test]
    fn batches_stay_within_the_budget_and_go_at_once_while_there_is_something_saved() {
        let rate = 2000;
        let mut spread = Spread::new(Instant(1));
        let (mut sent, mut now) = (0, Instant(1));
        for n in 0..20_000 {
            // 20 events a second: more than the budget carries one by one.
            now = now.after(Duration::from_millis(50));
            let claim = Claim { incarnation: 1, count: 0 };
            spread.enqueue(MapEvent::Gone { id: contact(n).id, claim });
            if spread.pause(now, rate) == Some(Duration::ZERO) {
                let batch = spread.take_batch(now, rate).expect("what was saved is enough");
                let bytes: usize = batch.iter().map(MapEvent::size).sum();
                sent += 2 * (MESSAGE_COST + bytes as i64);
            }
        }
        let allowed = MOST_SAVED + 1000 * i64::from(rate);
        assert!(sent <= allowed && sent > allowed * 9 / 10, "{sent} of {allowed}");
        assert!(spread.len() < 200, "nothing was left behind: {}", spread.len());
        let mut idle = Spread::new(Instant(1));
        idle.enqueue(here(3));
        assert_eq!(
            idle.pause(Instant(1), rate),
            Some(Duration::ZERO),
            "where little happens: at once"
        );
        assert_eq!(idle.take_batch(Instant(1), rate), Some(vec![here(3)]));
        assert_eq!((idle.pause(Instant(1), rate), idle.take_batch(Instant(1), rate)), (None, None));
    }

    #[test]
    fn nobody_can_have_us_pass_on_without_end() {
        let mut spread = Spread::new(Instant(1));
        let taken = (0..10_000).filter(|n| {
            spread.accepts(1000, Instant(1).after(Duration::from_millis(n * 10)), 2000)
        });
        let bytes = taken.count() as i64 * (1000 + MESSAGE_COST);
        let allowed = MOST_TAKEN + 100 * 2000;
        assert!(bytes <= allowed && bytes > allowed * 9 / 10, "{bytes} of {allowed}");
    }

    #[test]
    fn the_newest_event_of_a_place_waits_and_a_batch_is_taken_once() {
        let mut spread = Spread::new(Instant(1));
        let gone = MapEvent::Gone { id: contact(3).id, claim: Claim { incarnation: 1, count: 0 } };
        let events = [here(7), here(3), gone.clone(), here(3), here(5)];
        events.into_iter().for_each(|event| spread.enqueue(event));
        let batch = spread.take_batch(Instant(1), 1000);
        assert_eq!(batch, Some(vec![here(7), gone, here(5)]), "in the order in which they came");
        spread.enqueue(here(3));
        assert_eq!(spread.take_batch(Instant(1), 1000), Some(vec![here(3)]));
        assert!(spread.is_new(7) && !spread.is_new(7));
        (0..BATCHES_KEPT as u64).for_each(|n| assert!(spread.is_new(100 + n)));
        assert!(spread.is_new(7), "long ago");
    }
}
