//! How far the node's own arc is from a loss, as far as comparisons with its other keepers have
//! shown. Nothing is asked for this alone: every comparison for repair tells what the peer lacks.

use std::collections::BTreeMap;

use super::session::{Ended, Session};
use super::{Plan, Replication};
use crate::config::majority;
use crate::id::Id;
use crate::interval::{Interval, IntervalSet};
use crate::message::ring::Kind;
use crate::peer::Contact;
use crate::stats::AtRisk;
use crate::surroundings::Surroundings;

/// What the last comparison with each of the other keepers showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    by_keeper: BTreeMap<(Kind, Id), Comparison>,
    /// Chunks of the own arc that lie here, as counted last.
    own_chunks: u64,
}

#[derive(Clone, Debug)]
struct Comparison {
    arc: Interval,
    /// Entries that lay here and not there.
    only_here: u64,
    /// Whether the peer holds every register of the arc: only then does it vote.
    open: bool,
}

impl Replication {
    /// A comparison ended: what does it tell of the own arc?
    pub(super) fn note_shown(
        &mut self,
        around: &Surroundings<'_>,
        session: &Session,
        ended: Ended,
    ) {
        let (Ended::Complete { open }, Some(own)) = (ended, own_arc(around)) else { return };
        let Plan { kind, arc, from } = &session.plan;
        if !covers(arc, &own) {
            return;
        }
        if *kind == Kind::Chunks {
            self.shown.own_chunks = session.held_before();
        }
        let only_here = session.only_here();
        self.shown.by_keeper.insert((*kind, from.id), Comparison { arc: *arc, only_here, open });
    }

    /// Forgets who is no neighbour any more.
    pub(super) fn drop_shown(&mut self, around: &Surroundings<'_>) {
        let ahead = around.peers_after();
        self.shown.by_keeper.retain(|(_, id), _| ahead.iter().any(|held| held.id == *id));
    }

    /// What is one failure away from trouble, in the node's own arc. What was not compared since the
    /// arc grew counts as lying nowhere else.
    pub(crate) fn at_risk(&self, around: &Surroundings<'_>) -> AtRisk {
        let Some(own) = own_arc(around) else { return AtRisk::default() };
        let ahead = around.peers_after();
        let members = around.params.register_set_size(ahead.len() + 1);
        let others = self.voters_among(&ahead, members, &own);
        let voters = others + usize::from(self.open.covers(&own));
        AtRisk {
            views: u64::from(voters <= majority(members)),
            chunks: self.chunks_only_here(around, &ahead, &own),
        }
    }

    /// Whether some keeper of the own arc may still lack something: then it is looked at again soon.
    pub(super) fn is_short(&self, around: &Surroundings<'_>) -> bool {
        let Some(own) = own_arc(around).filter(|_| !around.alone) else { return false };
        let ahead = around.peers_after();
        let members = around.params.register_set_size(ahead.len() + 1);
        self.voters_among(&ahead, members, &own) + 1 < members
            || self.chunks_only_here(around, &ahead, &own) > 0
    }

    fn voters_among(&self, ahead: &[Contact], members: usize, own: &Interval) -> usize {
        let is_open = |keeper: &&Contact| {
            self.shown(Kind::Registers, keeper, own).is_some_and(|shown| shown.open)
        };
        ahead.iter().take(members.saturating_sub(1)).filter(is_open).count()
    }

    fn chunks_only_here(
        &self,
        around: &Surroundings<'_>,
        ahead: &[Contact],
        own: &Interval,
    ) -> u64 {
        let others = usize::from(around.params.replicas).saturating_sub(1);
        let compared = ahead.iter().take(others).filter_map(|keeper| {
            self.shown(Kind::Chunks, keeper, own).map(|shown| shown.only_here)
        });
        // A chunk with one copy is lacking at each of them; what one of them has, has two.
        compared.min().unwrap_or(self.shown.own_chunks)
    }

    fn shown(&self, kind: Kind, keeper: &Contact, own: &Interval) -> Option<&Comparison> {
        self.shown.by_keeper.get(&(kind, keeper.id)).filter(|shown| covers(&shown.arc, own))
    }
}

fn own_arc(around: &Surroundings<'_>) -> Option<Interval> {
    around.kept_arcs(1).first().copied()
}

fn covers(arc: &Interval, other: &Interval) -> bool {
    let mut set = IntervalSet::new();
    set.insert(*arc);
    set.covers(other)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::replication::rehearsal::{World, chunk, place, spread};

    const LONG: Duration = Duration::from_secs(90);

    /// A ring in which a chunk of its own lies at each member, and all is copied.
    fn filled(count: u64) -> (World, Vec<u64>) {
        let places = spread(count);
        let mut world = World::ring(&places);
        for n in 0..200 {
            let chunk = chunk(n);
            let owner = world.candidates(chunk.id())[0];
            world.member(owner).disk.chunks.insert(chunk.id(), chunk);
        }
        world.run(LONG);
        (world, places)
    }

    fn own_chunks(world: &World, n: u64) -> u64 {
        let owned = |at: &u32| world.candidates(chunk(*at).id())[0] == n;
        let held = &world.members[&n].disk.chunks;
        (0..200).filter(owned).filter(|at| held.contains_key(&chunk(*at).id())).count() as u64
    }

    #[test]
    fn a_settled_ring_is_not_at_risk() {
        let (mut world, places) = filled(9);
        for n in places {
            assert_eq!(world.at_risk(n), AtRisk::default(), "{n}");
        }
        let (mut pair, places) = filled(2);
        for n in places {
            assert_eq!(pair.at_risk(n), AtRisk { views: 1, chunks: 0 }, "both must vote");
        }
    }

    #[test]
    fn one_copy_left_is_at_risk_until_it_is_copied() {
        let (mut world, places) = filled(9);
        let owner = places[2];
        let owned = own_chunks(&world, owner);
        assert!(owned > 1);
        world.kill(places[3]);
        world.settle();
        assert_eq!(world.at_risk(owner), AtRisk::default(), "two copies, four of five voters");
        world.kill(places[4]);
        world.settle();
        assert_eq!(world.at_risk(owner), AtRisk { views: 1, chunks: owned });
        world.run(LONG);
        assert_eq!(world.at_risk(owner), AtRisk::default());
    }

    #[test]
    fn an_arc_that_grew_has_to_be_compared_again() {
        let (mut world, places) = filled(9);
        world.kill(places[2]);
        world.settle();
        let heir = places[3];
        assert!(world.at_risk(heir).chunks > 0, "nobody said yet that it has the new part, too");
        world.run(LONG);
        assert_eq!(world.at_risk(heir), AtRisk::default());
        // A joiner makes it smaller: what was known of the whole holds of the part.
        let joiner = places[3] - 50;
        world.enter(joiner);
        world.settle();
        assert_eq!(world.at_risk(heir), AtRisk::default());
        assert!(!world.is_open_at_home(joiner));
        assert_eq!(world.at_risk(joiner).views, 1);
        world.run(LONG);
        assert_eq!(world.at_risk(joiner), AtRisk::default());
        let own = Interval::new(place(places[1], 1).id, place(joiner, 1).id);
        assert!(world.open(joiner).covers(&own));
    }
}
