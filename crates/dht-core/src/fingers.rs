//! The finger table: for each exponent the first node at or after `me + 2^i` (Chord, SIGCOMM 2001, section
//! 4.3), as far as the successor list does not reach there.
//!
//! Nothing rests on it: a wrong finger costs a detour. So it is not mended at once but looked up again, one
//! exponent at a time, at a bounded rate: first those that are missing or that let a lookup down, then any,
//! drawn at random (Chord's `fix_fingers`).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::budget::{earned, time_to_earn};
use crate::id::Id;
use crate::peer::Contact;
use crate::time::Instant;

/// Exponents there are.
const EXPONENTS: u32 = 160;
/// What one contact of a lookup costs, in bytes: a question of 46, an answer that names one contact, 116, and
/// 187 of headers and acknowledgement (`docs/simulation.md`, "Traffic"): 350. Rounded up, since the last answer
/// may name two.
const CONTACT_COST: i64 = 400;
/// Most that may be saved up, in bytes: a new member fills its table from it (guess: sixteen lookups of
/// five contacts).
const MOST_SAVED: i64 = 16 * 5 * CONTACT_COST;

/// The finger table of one place.
#[derive(Clone, Debug)]
pub(crate) struct Fingers {
    /// With their exponents, lowest first.
    held: Vec<(u32, Contact)>,
    /// The successor list reaches beyond all exponents below this one.
    lowest: u32,
    /// To be looked up before any other.
    wanted: BTreeSet<u32>,
    /// The one that is being looked up.
    asking: Option<u32>,
    /// What may be spent, in bytes; below 0: a lookup cost more than was there.
    saved: i64,
    /// Up to when it has been saved.
    since: Instant,
}

impl Fingers {
    pub(crate) fn new(now: Instant) -> Fingers {
        let (held, wanted) = (Vec::new(), BTreeSet::new());
        Fingers { held, lowest: EXPONENTS, wanted, asking: None, saved: MOST_SAVED, since: now }
    }

    /// The finger of this exponent, as it was found last.
    pub(crate) fn get(&self, exponent: u32) -> Option<&Contact> {
        self.place_of(exponent).ok().map(|at| &self.held[at].1)
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Those held, by their exponents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Contact)> {
        self.held.iter().map(|(exponent, held)| (*exponent, held))
    }

    /// The successor list reaches beyond all exponents below `lowest`; `None`: it goes all the way round.
    /// Others are not kept.
    pub(crate) fn keep_from(&mut self, lowest: Option<u32>) {
        let lowest = lowest.unwrap_or(EXPONENTS);
        self.held.retain(|(exponent, _)| *exponent >= lowest);
        self.wanted.retain(|exponent| *exponent >= lowest);
        // All others are held or wanted already.
        self.wanted.extend(lowest..self.lowest);
        self.lowest = lowest;
    }

    /// Which exponent to look up now, if any; `draw` draws a number below its argument.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        bytes_per_s: u32,
        draw: impl FnOnce(u64) -> u64,
    ) -> Option<u32> {
        self.save(now, bytes_per_s);
        if self.asking.is_some() {
            return None;
        }
        // Those that reach farthest spare most.
        let wanted = self.wanted.last().copied().filter(|_| self.saved >= CONTACT_COST);
        let exponent = match wanted {
            Some(exponent) => exponent,
            // At random only from what is left over, so that there is something for those wanted.
            None if self.wanted.is_empty() && self.saved == MOST_SAVED => {
                let known = self.held.len() as u64;
                let at = (known > 0).then(|| draw(known) as usize)?;
                self.held.get(at)?.0
            }
            None => return None,
        };
        self.asking = Some(exponent);
        Some(exponent)
    }

    /// When to ask for the next one; `None` while there is none to ask for, or one is being asked for.
    pub(crate) fn pause(&self, bytes_per_s: u32) -> Option<Duration> {
        if self.asking.is_some() || (self.wanted.is_empty() && self.held.is_empty()) {
            return None;
        }
        let needed = if self.wanted.is_empty() { MOST_SAVED } else { CONTACT_COST };
        let lacks = needed.saturating_sub(self.saved).max(0).unsigned_abs();
        Some(time_to_earn(lacks, bytes_per_s))
    }

    /// A lookup of a finger of `me` ended at `found`, whose predecessor is `before`, after so many contacts;
    /// at nobody: `None`. One arc may hold the points of several exponents.
    pub(crate) fn found(&mut self, me: Id, found: Option<(&Contact, Option<Id>)>, contacts: u64) {
        let Some(asked) = self.asking.take() else { return };
        let contacts = i64::try_from(contacts.max(1)).unwrap_or(i64::MAX);
        self.saved = self.saved.saturating_sub(contacts.saturating_mul(CONTACT_COST));
        let Some((owner, before)) = found else { return };
        let reach = |id: Id| me.distance_to(id);
        let start = |exponent: u32| reach(me.wrapping_add(Id::power_of_two(exponent)));
        let begins = before.map_or(start(asked), |before| reach(before).min(start(asked)));
        let in_arc = |exponent| {
            owner.id != me && begins < start(exponent) && start(exponent) <= reach(owner.id)
        };
        for exponent in self.lowest.min(asked)..EXPONENTS {
            if exponent == asked || in_arc(exponent) {
                match self.place_of(exponent) {
                    Ok(at) => self.held[at].1 = owner.clone(),
                    Err(at) => self.held.insert(at, (exponent, owner.clone())),
                }
                self.wanted.remove(&exponent);
            }
        }
    }

    /// This one did not answer a lookup: its exponents are looked up next.
    pub(crate) fn doubt(&mut self, id: Id) {
        let doubted = self.held.iter().filter(|(_, held)| held.id == id);
        self.wanted.extend(doubted.map(|(exponent, _)| *exponent));
    }

    /// This one is gone.
    pub(crate) fn lost(&mut self, id: Id) {
        self.doubt(id);
        self.held.retain(|(_, held)| held.id != id);
    }

    /// A newer record of a peer.
    pub(crate) fn renew(&mut self, contact: &Contact) {
        let places = self.held.iter_mut().map(|(_, held)| held);
        for held in places.filter(|held| held.id == contact.id) {
            if held.record.sequence() < contact.record.sequence() {
                *held = contact.clone();
            }
        }
    }

    fn place_of(&self, exponent: u32) -> Result<usize, usize> {
        self.held.binary_search_by_key(&exponent, |(held, _)| *held)
    }

    fn save(&mut self, now: Instant, bytes_per_s: u32) {
        let (earned, since) = earned(self.since, now, bytes_per_s);
        self.since = since;
        self.saved = self.saved.saturating_add(earned).min(MOST_SAVED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::contact;

    const RATE: u32 = 400;

    fn at(seconds: u64) -> Instant {
        Instant(1 + seconds * 1_000_000)
    }

    fn fingers_from(lowest: u32) -> Fingers {
        let mut fingers = Fingers::new(at(0));
        fingers.keep_from(Some(lowest));
        fingers
    }

    fn far(exponent: u32) -> Contact {
        let mut held = contact(1);
        held.id = Id::power_of_two(exponent);
        held
    }

    #[test]
    fn a_new_table_is_filled_from_the_farthest_down() {
        let mut fingers = fingers_from(156);
        for exponent in (156..160).rev() {
            let next =
                fingers.next(at(0), RATE, |_| panic!("nothing is drawn while one is missing"));
            assert_eq!(next, Some(exponent));
            assert_eq!(fingers.next(at(0), RATE, |_| 0), None, "one at a time");
            let before = Some(Id::power_of_two(exponent).wrapping_sub(Id::from_u64(1)));
            fingers.found(Id::ZERO, Some((&far(exponent), before)), 3);
        }
        assert_eq!(fingers.iter().count(), 4);
        assert_eq!(fingers.next(at(0), RATE, |_| 0), None, "what was spent is saved first");
        assert_eq!(fingers.pause(RATE), Some(Duration::from_secs(4 * 3)));
        assert_eq!(fingers.next(at(12), RATE, |known| known - 1), Some(159));
    }

    #[test]
    fn one_owner_serves_every_exponent_of_its_arc() {
        let mut fingers = fingers_from(150);
        assert_eq!(fingers.next(at(0), RATE, |_| 0), Some(159));
        // Everything from 2^157 on up to 2^159 is one arc.
        fingers.found(Id::ZERO, Some((&far(159), Some(Id::power_of_two(156)))), 1);
        let held: Vec<u32> = fingers.iter().map(|(exponent, _)| exponent).collect();
        assert_eq!(held, [157, 158, 159]);
        assert_eq!(fingers.next(at(0), RATE, |_| 0), Some(156));
    }

    #[test]
    fn who_let_a_lookup_down_is_looked_up_next_and_who_is_gone_is_forgotten() {
        let mut fingers = fingers_from(158);
        for exponent in [159, 158] {
            fingers.next(at(0), RATE, |_| 0);
            let before = Some(Id::power_of_two(exponent).wrapping_sub(Id::from_u64(1)));
            fingers.found(Id::ZERO, Some((&far(exponent), before)), 1);
        }
        fingers.doubt(far(158).id);
        assert_eq!(fingers.next(at(0), RATE, |_| 1), Some(158));
        assert!(fingers.get(158).is_some(), "until another one is found it may serve");
        fingers.found(Id::ZERO, None, 1);
        fingers.lost(far(159).id);
        assert!(fingers.get(159).is_none());
        fingers.keep_from(None);
        assert_eq!(fingers.iter().count(), 0, "the list goes all the way round");
        assert_eq!((fingers.next(at(99), RATE, |_| 0), fingers.pause(RATE)), (None, None));
    }

    #[test]
    fn what_is_spent_stays_within_the_budget() {
        let mut fingers = fingers_from(140);
        let mut spent = 0;
        for second in 0..3600 {
            for _ in 0..10 {
                if fingers.next(at(second), RATE, |known| known / 2).is_none() {
                    break;
                }
                // Nobody is ever found: all stay wanted.
                fingers.found(Id::ZERO, None, 4);
                spent += 4 * CONTACT_COST;
            }
        }
        let allowed = MOST_SAVED + 3600 * i64::from(RATE);
        assert!(spent > allowed * 9 / 10 && spent < allowed + 4 * CONTACT_COST, "{spent}");
    }
}
