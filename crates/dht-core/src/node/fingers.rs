//! How fingers are looked up, and chosen among.

use super::Node;
use super::lookups::Reason;
use crate::id::{Id, between};
use crate::lookup::{LookupQuery, LookupTarget, Owner};
use crate::message::ring::{RouteQuery, Routing};
use crate::peer::Contact;
use crate::ring::Standing;
use crate::route::{Hop, NoHop, next_hop_fingers};
use crate::timer::Timer;

impl Node {
    /// Looks up the next finger, as far as its budget lets it.
    pub(super) fn look_up_finger(&mut self) {
        let (budget, me) = (self.out.config.finger_budget, self.id());
        let is_member = self.ring.standing() == Standing::Member;
        self.fingers.keep_from(self.lowest_finger());
        let next = match is_member {
            true => {
                let now = self.out.now;
                self.fingers.next(now, budget, |end| self.out.draw_below(end))
            }
            false => None,
        };
        if let Some(exponent) = next {
            let target = LookupTarget {
                key: me.wrapping_add(Id::power_of_two(exponent)),
                routing: Routing::Fingers,
                depth: self.out.config.depth,
                want_list: false,
            };
            self.look_up(target, Reason::Finger);
        }
        self.wait_for_finger();
    }

    /// The lookup of a finger ended.
    pub(super) fn on_finger_lookup(&mut self, query: &LookupQuery, owner: Option<&Owner>) {
        let found =
            owner.map(|owner| (&owner.contact, owner.predecessor.as_ref().map(|held| held.id)));
        let contacts = u64::from(query.hops()).saturating_add(query.timeouts());
        self.fingers.found(self.id(), found, contacts);
        self.wait_for_finger();
    }

    /// Whom `fingers` goes to next (see [`next_hop_fingers`]). Of those whose own lists should show the
    /// owner, who are equally near to it, the one that answers fastest.
    pub(super) fn hop_by_fingers(
        &self,
        query: &RouteQuery,
        failed: impl Fn(&Contact) -> bool,
    ) -> Result<Hop, NoHop> {
        let (me, key, depth) = (self.id(), query.key, usize::from(query.depth));
        let list = self.ring.links().successors();
        let entry = |at: usize| list.get(at).map(|held| held.id);
        let finger = |exponent| self.finger_at(exponent).map(|held| held.id);
        let is_failed = |id: Id| {
            let near = list.iter().find(|held| held.id == id);
            let far = || self.fingers.iter().map(|(_, held)| held).find(|held| held.id == id);
            near.or_else(far).is_some_and(&failed)
        };
        let best = next_hop_fingers(me, entry, finger, key, depth, is_failed)?;
        let is_before = |contact: &Contact| between(me, contact.id, key);
        if !self.contact_at(best).is_some_and(|held| is_before(held) && self.sees(held, key, depth))
        {
            return Ok(best);
        }
        let entries = list.iter().take(depth).enumerate().map(|(at, held)| (Hop::Entry(at), held));
        let fingers = self.fingers.iter().map(|(exponent, held)| (Hop::Finger(exponent), held));
        let equal = entries
            .chain(fingers)
            .filter(|(_, held)| is_before(held) && !failed(held) && self.sees(held, key, depth));
        let known =
            equal.filter_map(|(hop, held)| Some((self.out.rtt.smoothed(&held.key())?, hop)));
        Ok(known.min_by_key(|(rtt, _)| *rtt).map_or(best, |(_, hop)| hop))
    }

    /// Who stands where a hop leads.
    pub(super) fn contact_at(&self, hop: Hop) -> Option<&Contact> {
        let links = self.ring.links();
        match hop {
            Hop::Entry(at) => links.successors().get(at),
            Hop::Back(at) => links.predecessors().get(at),
            Hop::Finger(exponent) => self.finger_at(exponent),
            Hop::Place(id) => self.map.get(id).map(|held| &held.contact),
        }
    }

    /// The first node at or after `me + 2^exponent`: an entry of the list if it reaches there.
    fn finger_at(&self, exponent: u32) -> Option<&Contact> {
        let me = self.id();
        let start = me.distance_to(me.wrapping_add(Id::power_of_two(exponent)));
        let list = self.ring.links().successors();
        let at = list.partition_point(|held| me.distance_to(held.id) < start);
        list.get(at).or_else(|| self.fingers.get(exponent))
    }

    /// Whether a node's own list should show who owns the key: by the spacing of ours it lies within the first
    /// quarter of its reach. A quarter: spacing varies, and a wrong guess costs a hop; where four places are
    /// expected, more than a list of 16 holds are there once in a million times (Poisson).
    fn sees(&self, contact: &Contact, key: Id, depth: usize) -> bool {
        let me = self.id();
        let list = self.ring.links().successors();
        let Some(last) = list.last() else { return false };
        let spacing = me.distance_to(last.id).as_fraction() / list.len() as f64;
        let places = contact.id.distance_to(key).as_fraction() / spacing;
        // Shorter windows have no such margin.
        depth >= 4 && places <= depth as f64 / 4.0
    }

    /// The lowest exponent whose point lies beyond the successor list; `None` if the list goes all the way
    /// round.
    fn lowest_finger(&self) -> Option<u32> {
        let links = self.ring.links();
        let (last, predecessor) = (links.successors().last()?, links.predecessor()?);
        (last.id != predecessor.id).then(|| links.me().id.distance_to(last.id).bits())
    }

    fn wait_for_finger(&mut self) {
        let period = self.out.config.stabilize_every;
        let next = self.fingers.pause(self.out.config.finger_budget);
        let next = next.filter(|_| self.ring.standing() == Standing::Member);
        let pause = next.map_or(period, |pause| pause.max(period / LOOKUPS_PER_PERIOD));
        let pause = self.out.jittered(pause);
        self.out.set_timer(Timer::Fingers, pause);
    }
}

/// Most lookups of fingers in one period of upkeep, whatever was saved: 10 (guess: a new member has its
/// table within two periods, and its host is not flooded).
const LOOKUPS_PER_PERIOD: u32 = 10;
