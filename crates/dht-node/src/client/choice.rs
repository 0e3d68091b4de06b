//! Why a lookup went where it went: for each node on its way, what that node could choose from, and what
//! made the choice. Told from what the nodes say of their lists after the lookup.

use std::collections::BTreeMap;

use dht_core::message::client::{LookupReport, NeighborhoodReport};
use dht_core::message::ring::Routing;
use dht_core::route::{Hop, NoHop, hop_back, next_hop, next_hop_both_ways, next_hop_fingers};
use dht_core::{Contact, Id, between};

use super::candidates::{Candidate, Listed, finger, within};

/// One node on the way of a lookup.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The node.
    pub at: Contact,
    /// What it could choose from, as far as it answers and lists it.
    pub entries: Vec<Candidate>,
    /// Whom the lookup asked next; `None` at the end of the way.
    pub chosen: Option<Contact>,
    /// What made the choice.
    pub why: Why,
}

impl Choice {
    /// Where the chosen one stands among the entries; `None` if it does not, or nobody was chosen.
    pub fn place(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.entries.iter().position(|entry| entry.contact.id == chosen.id)
    }
}

/// What made a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The node owns the key: there is nothing to choose.
    Mine,
    /// The entry owns the key, as the list shows: none lies between it and the key.
    Owner,
    /// The farthest entry before the key.
    Farthest,
    /// The same, taken because the key is nearer on that side.
    NearerAhead,
    /// The farthest entry back that does not lie before the key, taken because the key is nearer on that
    /// side.
    NearerBack,
    /// The same, on a way that goes back already.
    FarthestBack,
    /// A finger: the farthest entry before the key.
    Finger,
    /// Of the entries whose own lists should show the owner, the one that answers fastest.
    Fastest,
    /// The node lies past the key and does not own it: its predecessor.
    Predecessor,
    /// The map of all members names the owner.
    Map,
    /// The node keeps no state for the routing and went by its links.
    Instead,
    /// An entry, but not the one that the rule takes of the lists as they are now: it was stepped round,
    /// or lists have changed since.
    Otherwise,
    /// None of the entries: lists have changed since, or a node before was asked again.
    Gone,
    /// The node did not answer, or its way is not told.
    Unknown,
}

impl Why {
    /// The word shown to scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Mine => "mine",
            Why::Owner => "owner",
            Why::Farthest => "farthest",
            Why::NearerAhead => "nearer_ahead",
            Why::NearerBack => "nearer_back",
            Why::FarthestBack => "farthest_back",
            Why::Finger => "finger",
            Why::Fastest => "fastest",
            Why::Predecessor => "predecessor",
            Why::Map => "map",
            Why::Instead => "instead",
            Why::Otherwise => "otherwise",
            Why::Gone => "gone",
            Why::Unknown => "unknown",
        }
    }
}

/// Tells a lookup's choices, from what the nodes of its way say of their lists. The first is that of the
/// asker; the last node owns the key, unless the lookup failed or its path was cut.
pub fn choices(lookup: &LookupReport, told: &BTreeMap<Id, NeighborhoodReport>) -> Vec<Choice> {
    let contacts = lookup.path.iter().map(|step| &step.contact);
    let failed: Vec<Id> = lookup.detours.iter().map(|detour| detour.contact.id).collect();
    let mut step = Step {
        routing: lookup.routing,
        depth: lookup.depth,
        key: lookup.id,
        after: lookup.asker.id,
        asker: lookup.asker.id,
        failed: &failed,
    };
    let mut all = Vec::new();
    for (at, contact) in std::iter::once(&lookup.asker).chain(contacts).enumerate() {
        let next = lookup.path.get(at);
        let chosen = next.map(|step| step.contact.clone());
        let is_owner = lookup.owner.as_ref().is_some_and(|owner| owner.id == contact.id);
        let report = told.get(&contact.id);
        let entries = report.map(|report| step.entries(report)).unwrap_or_default();
        let why = match (report, &chosen) {
            (_, None) if is_owner => Why::Mine,
            (None, _) | (_, None) => Why::Unknown,
            _ if next.is_some_and(|next| next.fell_back) => Why::Instead,
            (Some(report), Some(chosen)) => step.why(report, &entries, chosen.id),
        };
        step.pass(contact.id);
        all.push(Choice { at: contact.clone(), entries, chosen, why });
    }
    all
}

/// What a node on the way was asked.
struct Step<'a> {
    routing: Routing,
    depth: u16,
    key: Id,
    /// The last node before the key so far.
    after: Id,
    asker: Id,
    failed: &'a [Id],
}

impl Step<'_> {
    /// The next node is asked with this one behind it.
    fn pass(&mut self, id: Id) {
        if !self.is_past(id) {
            self.after = id;
        }
    }

    fn is_past(&self, id: Id) -> bool {
        id != self.after && (id == self.key || between(self.after, self.key, id))
    }

    /// What the node could choose from at this point of the way: past the key it looks back, and on a way
    /// both ways that has begun nobody turns round.
    fn entries(&self, report: &NeighborhoodReport) -> Vec<Candidate> {
        let id = report.contact.id;
        let is_back = |held: &Candidate| matches!(held.listed, Listed::Predecessor(_));
        let (ahead, back) = (self.window(&report.successors), self.window(&report.predecessors));
        let routing = match self.routing {
            // Only the asker goes by its map, which is not listed; whoever is asked goes by lists.
            Routing::Full if id != self.asker => Routing::Successors,
            routing => routing,
        };
        let mut entries = within(report, routing, ahead, back);
        match (self.kept(report), self.is_past(id)) {
            (Routing::BothWays, true) => entries.retain(is_back),
            (Routing::BothWays, false) if id != self.asker => {
                entries.retain(|held| !is_back(held));
            }
            (Routing::BothWays, false) => {}
            (_, true) => {
                let listed = Listed::Predecessor(0);
                let one = report.predecessor.clone();
                entries = one.map(|contact| Candidate { listed, contact }).into_iter().collect();
            }
            (_, false) => {}
        }
        entries
    }

    /// How many entries of a list are looked at: as many as the depth says, and those between them that
    /// failed, which others stand in for.
    fn window(&self, list: &[Contact]) -> usize {
        let is_usable = |held: &&Contact| !self.failed.contains(&held.id);
        let depth = usize::from(self.depth.max(1));
        let last = list.iter().enumerate().filter(|(_, held)| is_usable(held)).nth(depth - 1);
        last.map_or(list.len(), |(at, _)| at + 1)
    }

    /// How the node routes.
    fn kept(&self, report: &NeighborhoodReport) -> Routing {
        match report.routings.contains(&self.routing) {
            true => self.routing,
            false => Routing::Successors,
        }
    }

    fn why(&self, report: &NeighborhoodReport, entries: &[Candidate], chosen: Id) -> Why {
        let (me, kept) = (report.contact.id, self.kept(report));
        // Whoever is asked goes by its lists.
        if kept == Routing::Full && me == self.asker {
            return Why::Map;
        }
        if let Ok(hop) = self.rule(report)
            && at(report, hop).is_some_and(|contact| contact.id == chosen)
        {
            return self.reason(report, hop, chosen);
        }
        let is_entry = entries.iter().any(|entry| entry.contact.id == chosen);
        match kept {
            Routing::Fingers if is_entry && between(me, chosen, self.key) => Why::Fastest,
            _ if is_entry => Why::Otherwise,
            _ => Why::Gone,
        }
    }

    /// What the rule of the routing takes of the lists as they are told now.
    fn rule(&self, report: &NeighborhoodReport) -> Result<Hop, NoHop> {
        let (me, key, depth) = (report.contact.id, self.key, usize::from(self.depth));
        let successor = |at: usize| report.successors.get(at).map(|held| held.id);
        let predecessor = |at: usize| report.predecessors.get(at).map(|held| held.id);
        let failed = |id: Id| self.failed.contains(&id);
        match (self.kept(report), self.is_past(me)) {
            (Routing::BothWays, true) => hop_back(me, predecessor, key, depth, failed),
            (Routing::BothWays, false) if me == self.asker => {
                next_hop_both_ways(me, successor, predecessor, key, depth, failed)
            }
            (_, true) => Ok(Hop::Back(0)),
            (Routing::Fingers, false) => {
                let finger = |exponent: u32| {
                    finger(report, u8::try_from(exponent).ok()?).map(|held| held.id)
                };
                next_hop_fingers(me, successor, finger, key, depth, failed)
            }
            (_, false) => next_hop(me, successor, key, depth, failed),
        }
    }

    fn reason(&self, report: &NeighborhoodReport, hop: Hop, chosen: Id) -> Why {
        let (me, key) = (report.contact.id, self.key);
        let begins = self.kept(report) == Routing::BothWays && me == self.asker;
        match hop {
            Hop::Entry(_) if chosen == key || between(me, key, chosen) => Why::Owner,
            Hop::Entry(_) if begins => Why::NearerAhead,
            Hop::Entry(_) => Why::Farthest,
            Hop::Finger(_) => Why::Finger,
            Hop::Place(_) => Why::Map,
            Hop::Back(place) => {
                let behind = report.predecessors.get(place + 1);
                let is_before = |held: &Contact| held.id != key && !between(key, held.id, me);
                match (self.kept(report), behind) {
                    (Routing::BothWays, Some(behind)) if is_before(behind) => Why::Owner,
                    (Routing::BothWays, _) if begins => Why::NearerBack,
                    (Routing::BothWays, _) => Why::FarthestBack,
                    _ => Why::Predecessor,
                }
            }
        }
    }
}

/// Who stands where a hop leads.
fn at(report: &NeighborhoodReport, hop: Hop) -> Option<&Contact> {
    match hop {
        Hop::Entry(place) => report.successors.get(place),
        Hop::Back(0) => report.predecessors.first().or(report.predecessor.as_ref()),
        Hop::Back(place) => report.predecessors.get(place),
        Hop::Finger(exponent) => finger(report, u8::try_from(exponent).ok()?),
        Hop::Place(_) => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use dht_core::message::client::{Detour, DetourReason, PathStep};

    use super::super::candidates::tests::{contact, report};
    use super::*;

    pub(crate) fn lookup(routing: Routing, depth: u16, key: u64, way: &[u64]) -> LookupReport {
        let path = way[1..].iter().map(|n| PathStep {
            contact: contact(*n),
            connect_us: 0,
            rtt_us: 1200,
            fell_back: false,
        });
        LookupReport {
            id: Id::from_u64(key),
            routing,
            depth,
            asker: contact(way[0]),
            owner: way.last().map(|n| contact(*n)),
            hops: way.len() as u32 - 1,
            timeouts: 0,
            path: path.collect(),
            detours: Vec::new(),
            elapsed_us: 5000,
            failure: None,
            handed: None,
        }
    }

    /// Ten members at 0, 10, .. 90 on a small part of the circle, each knowing all others and fingers 2^5
    /// and 2^6 ahead, as far as there is somebody.
    fn told() -> BTreeMap<Id, NeighborhoodReport> {
        let ids: Vec<u64> = (0..10).map(|n| n * 10).collect();
        let member = |at: usize| {
            let ahead: Vec<u64> = (1..10).map(|n| ids[(at + n) % 10]).collect();
            let back: Vec<u64> = (1..10).map(|n| ids[(at + 10 - n) % 10]).collect();
            let mut held = report(ids[at], &ahead[..3], &back[..3], &[]);
            for exponent in [5, 6] {
                let found = ids.iter().find(|id| **id >= ids[at] + (1 << exponent));
                held.fingers.extend(found.map(|id| (exponent, contact(*id))));
            }
            (Id::from_u64(ids[at]), held)
        };
        (0..10).map(member).collect()
    }

    fn whys(lookup: &LookupReport, told: &BTreeMap<Id, NeighborhoodReport>) -> Vec<Why> {
        choices(lookup, told).iter().map(|choice| choice.why).collect()
    }

    #[test]
    fn a_walk_takes_the_farthest_and_then_the_owner() {
        let found = lookup(Routing::Successors, 2, 55, &[0, 20, 40, 60]);
        assert_eq!(whys(&found, &told()), [Why::Farthest, Why::Farthest, Why::Owner, Why::Mine]);
        let all = choices(&found, &told());
        assert_eq!(all[0].entries.len(), 2, "the window of two");
        assert_eq!((all[0].place(), all[2].place(), all[3].place()), (Some(1), Some(1), None));
        let own = lookup(Routing::Successors, 2, 0, &[0]);
        assert_eq!(whys(&own, &told()), [Why::Mine]);
    }

    #[test]
    fn both_ways_goes_to_the_nearer_side_and_keeps_to_it() {
        // All lie within a hundred points, so from 0 the way on to any of them is nearer.
        let on = lookup(Routing::BothWays, 2, 55, &[0, 20, 40, 60]);
        assert_eq!(whys(&on, &told()), [Why::NearerAhead, Why::Farthest, Why::Owner, Why::Mine]);
        assert_eq!(choices(&on, &told())[1].entries.len(), 2, "nobody turns round");
        let back = lookup(Routing::BothWays, 2, 15, &[90, 70, 50, 30, 20]);
        let expected =
            [Why::NearerBack, Why::FarthestBack, Why::FarthestBack, Why::Owner, Why::Mine];
        assert_eq!(whys(&back, &told()), expected);
        let listed = |choice: &Choice| choice.entries.iter().map(|held| held.listed).collect();
        let second: Vec<Listed> = listed(&choices(&back, &told())[1]);
        assert_eq!(second, [Listed::Predecessor(0), Listed::Predecessor(1)]);
        let seen = lookup(Routing::BothWays, 3, 75, &[90, 80]);
        assert_eq!(whys(&seen, &told()), [Why::Owner, Why::Mine], "the window shows the owner");
    }

    #[test]
    fn fingers_reach_farthest_and_the_list_ends_the_way() {
        let found = lookup(Routing::Fingers, 2, 85, &[0, 70, 90]);
        assert_eq!(whys(&found, &told()), [Why::Finger, Why::Owner, Why::Mine]);
        let place = choices(&found, &told())[0].place().expect("listed");
        let first = &choices(&found, &told())[0].entries[place];
        assert_eq!(first.listed, Listed::Finger(6));
        let faster = lookup(Routing::Fingers, 2, 85, &[0, 40, 80, 90]);
        assert_eq!(whys(&faster, &told())[0], Why::Fastest);
    }

    #[test]
    fn who_lies_past_the_key_names_its_predecessor() {
        let over = lookup(Routing::Successors, 1, 25, &[10, 40, 30]);
        assert_eq!(whys(&over, &told()), [Why::Gone, Why::Predecessor, Why::Mine]);
        let all = choices(&over, &told());
        assert_eq!((all[1].entries.len(), all[1].place()), (1, Some(0)));
    }

    #[test]
    fn by_the_full_map_the_asker_chooses_and_the_others_go_by_lists() {
        let mut members = told();
        members.values_mut().for_each(|member| member.routings.push(Routing::Full));
        let gone_by = lookup(Routing::Full, 2, 55, &[0, 50, 60]);
        let all = choices(&gone_by, &members);
        assert_eq!([all[0].why, all[1].why, all[2].why], [Why::Map, Why::Owner, Why::Mine]);
        assert_eq!([all[0].entries.len(), all[1].entries.len()], [0, 2]);
        let too_far = lookup(Routing::Full, 2, 55, &[0, 70, 60]);
        let all = choices(&too_far, &members);
        assert_eq!((all[1].why, all[1].place()), (Why::Predecessor, Some(0)));
    }

    #[test]
    fn what_has_changed_is_told() {
        let mut members = told();
        let found = lookup(Routing::Successors, 2, 55, &[0, 20, 40, 60]);
        members.remove(&Id::from_u64(20));
        let changed = members.get_mut(&Id::ZERO).expect("there");
        changed.successors = vec![contact(10), contact(15)];
        let all = choices(&found, &members);
        assert_eq!((all[0].why, all[0].place()), (Why::Gone, None));
        assert_eq!((all[1].why, all[1].entries.len()), (Why::Unknown, 0));
        let changed = members.get_mut(&Id::from_u64(40)).expect("there");
        changed.successors = vec![contact(45), contact(60)];
        assert_eq!(whys(&found, &members)[2], Why::Owner, "the owner all the same");
        let short = lookup(Routing::Successors, 2, 55, &[0, 10, 30, 50, 60]);
        assert_eq!(whys(&short, &told())[0], Why::Otherwise);
    }

    #[test]
    fn failed_contacts_and_missing_state_count() {
        let mut round = lookup(Routing::Successors, 2, 55, &[0, 30, 50, 60]);
        let contact = contact(20);
        round.detours.push(Detour { contact, reason: DetourReason::TimedOut });
        let first = &choices(&round, &told())[0];
        assert_eq!((first.why, first.entries.len()), (Why::Farthest, 3), "another one stands in");
        assert_eq!(first.place(), Some(2));
        round.path[0].fell_back = true;
        assert_eq!(whys(&round, &told())[0], Why::Instead);
        round.owner = None;
        assert_eq!(whys(&round, &told()).last(), Some(&Why::Unknown), "it ended nowhere");
    }
}
