//! The failure detector: who is silent, and when silence means death.
//!
//! A peer that misses an answer is suspect, which only moves it back in routing. It is called dead
//! after it missed `missed_probes` answers in a row, the last of them to a probe, and an indirect
//! probe through a neighbour failed too (after SWIM, 2002). A neighbour's testimony may stand for the
//! indirect probe ([`Liveness::verify_testified`]). A verdict is about one life of a peer: a newer
//! incarnation starts afresh.

use std::collections::BTreeMap;

use crate::message::ring::Request;
use crate::outbox::{CallOwner, Outbox};
use crate::peer::{Contact, PeerKey};
use crate::time::Instant;

/// Peers remembered here; beyond that those unheard of for longest go (guess).
const MAX_PEERS: usize = 4096;

/// What is known of the life of other peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    peers: BTreeMap<PeerKey, Peer>,
    /// Lives that were being verified when a newer one of the same peer was heard of: they are over.
    overtaken: Vec<Contact>,
}

#[derive(Clone, Debug)]
struct Peer {
    incarnation: u64,
    missed: u8,
    stage: Stage,
    heard: Instant,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Quiet,
    Direct(Contact),
    /// Like `Direct`, but a neighbour has already said that it gets no answer.
    Testified(Contact),
    Indirect(Contact),
    Dead,
}

/// The end of a verification.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It answered, or answered somebody.
    Alive(Contact),
    /// Nobody got an answer.
    Dead(Contact),
    /// It was found dead before: no news.
    LongDead(Contact),
}

impl Liveness {
    /// Starts to verify that a peer lives, unless that is under way; `None` until there is an
    /// end. A peer already found dead is dead at once.
    pub(crate) fn verify(&mut self, out: &mut Outbox, contact: &Contact) -> Option<Verdict> {
        let peer = self.peer(contact, out.now);
        if contact.incarnation() < peer.incarnation {
            return Some(Verdict::LongDead(contact.clone()));
        }
        match peer.stage {
            Stage::Dead => Some(Verdict::LongDead(contact.clone())),
            Stage::Direct(_) | Stage::Testified(_) | Stage::Indirect(_) => None,
            Stage::Quiet => {
                peer.stage = Stage::Direct(contact.clone());
                out.call(CallOwner::Probe(contact.key()), contact, Request::Ping);
                None
            }
        }
    }

    /// Like [`Liveness::verify`], where a neighbour's word stands for the indirect probe: a node
    /// that claims to come right before us has found nobody alive between.
    pub(crate) fn verify_testified(
        &mut self,
        out: &mut Outbox,
        contact: &Contact,
    ) -> Option<Verdict> {
        let verdict = self.verify(out, contact);
        let peer = self.peer(contact, out.now);
        if let Stage::Direct(asked) = &peer.stage {
            peer.stage = Stage::Testified(asked.clone());
        }
        verdict
    }

    /// A peer was heard: an answer, or a request of its own. A verification under way ends well.
    pub(crate) fn heard(&mut self, contact: &Contact, now: Instant) -> Option<Verdict> {
        let peer = self.peer(contact, now);
        if contact.incarnation() < peer.incarnation {
            return None;
        }
        peer.heard = now;
        peer.missed = 0;
        match std::mem::replace(&mut peer.stage, Stage::Quiet) {
            Stage::Direct(asked) | Stage::Testified(asked) | Stage::Indirect(asked) => {
                Some(Verdict::Alive(asked))
            }
            Stage::Quiet | Stage::Dead => None,
        }
    }

    /// An answer did not come in time.
    pub(crate) fn missed(&mut self, contact: &Contact, now: Instant) {
        let peer = self.peer(contact, now);
        if contact.incarnation() == peer.incarnation {
            peer.missed = peer.missed.saturating_add(1);
        }
    }

    /// A direct probe failed (and was counted by [`Liveness::missed`]): the next one, the indirect
    /// one through `helper`, or the verdict.
    pub(crate) fn on_probe_failed(
        &mut self,
        out: &mut Outbox,
        key: PeerKey,
        helper: Option<&Contact>,
    ) -> Option<Verdict> {
        let limit = out.config.missed_probes;
        let peer = self.peers.get_mut(&key)?;
        let (contact, helper) = match peer.stage.clone() {
            Stage::Direct(contact) => (contact, helper),
            Stage::Testified(contact) => (contact, None),
            Stage::Quiet | Stage::Indirect(_) | Stage::Dead => return None,
        };
        if peer.missed < limit {
            out.call(CallOwner::Probe(key), &contact, Request::Ping);
            return None;
        }
        match helper {
            Some(helper) => {
                peer.stage = Stage::Indirect(contact.clone());
                // The helper needs one time-out of its own before it can say no.
                let patience = out
                    .rtt
                    .timeout(&helper.key(), &out.config)
                    .saturating_add(out.rtt.timeout(&key, &out.config));
                let request = Request::ProbeFor { target: contact };
                out.call_patiently(CallOwner::IndirectProbe(key), helper, request, patience);
                None
            }
            None => self.dead(key),
        }
    }

    /// The indirect probe came back, or did not.
    pub(crate) fn on_indirect(&mut self, key: PeerKey, answered: bool) -> Option<Verdict> {
        let peer = self.peers.get_mut(&key)?;
        let Stage::Indirect(contact) = peer.stage.clone() else { return None };
        if !answered {
            return self.dead(key);
        }
        // It lives, and we do not reach it: it stays suspect, and is not replaced (case 31).
        peer.stage = Stage::Quiet;
        Some(Verdict::Alive(contact))
    }

    /// Takes over that a peer has no place any more: it said so itself, or the address belongs to
    /// somebody else now.
    pub(crate) fn gone(&mut self, contact: &Contact, now: Instant) -> Option<Verdict> {
        let peer = self.peer(contact, now);
        if contact.incarnation() < peer.incarnation || peer.stage == Stage::Dead {
            return Some(Verdict::LongDead(contact.clone()));
        }
        peer.stage = Stage::Dead;
        Some(Verdict::Dead(contact.clone()))
    }

    /// The next life whose verification ended because a newer one was heard of. Whoever waits for the
    /// verdict would wait for ever.
    pub(crate) fn pop_overtaken(&mut self) -> Option<Verdict> {
        self.overtaken.pop().map(Verdict::LongDead)
    }

    /// Whether this life of a peer was found dead.
    pub(crate) fn is_dead(&self, contact: &Contact) -> bool {
        self.peers.get(&contact.key()).is_some_and(|peer| {
            contact.incarnation() < peer.incarnation
                || (contact.incarnation() == peer.incarnation && peer.stage == Stage::Dead)
        })
    }

    /// Whether a peer missed its last answer.
    pub(crate) fn is_suspect(&self, key: &PeerKey) -> bool {
        self.peers.get(key).is_some_and(|peer| peer.missed > 0)
    }

    /// When a peer was heard last.
    pub(crate) fn last_heard(&self, key: &PeerKey) -> Option<Instant> {
        self.peers.get(key).map(|peer| peer.heard)
    }

    /// Forgets when somebody was heard and how often it was missed, and whoever is only known to
    /// live in its life 0; see [`crate::node::steer`].
    pub(crate) fn forget_time(&mut self) {
        self.peers.retain(|_, peer| peer.stage != Stage::Quiet || peer.incarnation > 0);
        for peer in self.peers.values_mut() {
            (peer.missed, peer.heard) = (0, Instant::ZERO);
        }
    }

    fn dead(&mut self, key: PeerKey) -> Option<Verdict> {
        let peer = self.peers.get_mut(&key)?;
        let stage = std::mem::replace(&mut peer.stage, Stage::Dead);
        match stage {
            Stage::Direct(contact) | Stage::Testified(contact) | Stage::Indirect(contact) => {
                Some(Verdict::Dead(contact))
            }
            Stage::Quiet | Stage::Dead => None,
        }
    }

    fn peer(&mut self, contact: &Contact, now: Instant) -> &mut Peer {
        if self.peers.len() >= MAX_PEERS && !self.peers.contains_key(&contact.key()) {
            let oldest = self.peers.iter().min_by_key(|(_, peer)| peer.heard).map(|(key, _)| *key);
            if let Some(key) = oldest {
                self.peers.remove(&key);
            }
        }
        let fresh = || Peer {
            incarnation: contact.incarnation(),
            missed: 0,
            stage: Stage::Quiet,
            heard: now,
        };
        let peer = self.peers.entry(contact.key()).or_insert_with(fresh);
        if peer.incarnation < contact.incarnation() {
            let before = std::mem::replace(peer, fresh());
            if let Stage::Direct(asked) | Stage::Testified(asked) | Stage::Indirect(asked) =
                before.stage
            {
                self.overtaken.push(asked);
            }
        }
        peer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::event::Effect;
    use crate::testing::{contact, contact_in_life};

    fn outbox() -> Outbox {
        Outbox::new(Arc::new(Config::default()), 1, Instant(1))
    }

    fn sent(out: &mut Outbox) -> Vec<(u64, Request)> {
        let mut sent = Vec::new();
        while let Some(effect) = out.pop_effect() {
            if let Effect::Send { to, request, .. } = effect {
                let bytes = to.id.to_bytes();
                sent.push((u64::from(bytes[19]), request));
            }
        }
        sent
    }

    #[test]
    fn death_takes_three_direct_probes_and_one_indirect() {
        let (mut liveness, mut out) = (Liveness::default(), outbox());
        let (peer, helper) = (contact(7), contact(8));
        assert_eq!(liveness.verify(&mut out, &peer), None);
        for _ in 0..2 {
            liveness.missed(&peer, out.now);
            assert_eq!(liveness.on_probe_failed(&mut out, peer.key(), Some(&helper)), None);
        }
        assert_eq!(sent(&mut out), vec![(7, Request::Ping); 3]);
        assert!(liveness.is_suspect(&peer.key()) && !liveness.is_dead(&peer));
        liveness.missed(&peer, out.now);
        assert_eq!(liveness.on_probe_failed(&mut out, peer.key(), Some(&helper)), None);
        assert_eq!(sent(&mut out), vec![(8, Request::ProbeFor { target: peer.clone() })]);
        assert_eq!(liveness.on_indirect(peer.key(), false), Some(Verdict::Dead(peer.clone())));
        assert!(liveness.is_dead(&peer));
        assert_eq!(liveness.verify(&mut out, &peer), Some(Verdict::LongDead(peer)));
    }

    #[test]
    fn one_sign_of_life_ends_it() {
        let (mut liveness, mut out) = (Liveness::default(), outbox());
        let peer = contact(7);
        liveness.verify(&mut out, &peer);
        liveness.missed(&peer, out.now);
        assert_eq!(liveness.heard(&peer, out.now), Some(Verdict::Alive(peer.clone())));
        assert!(!liveness.is_suspect(&peer.key()));
        assert_eq!(liveness.on_probe_failed(&mut out, peer.key(), None), None, "a late failure");
        assert!(!liveness.is_dead(&peer));
    }

    #[test]
    fn a_helper_that_reaches_it_saves_it() {
        let (mut liveness, mut out) = (Liveness::default(), outbox());
        let peer = contact(7);
        liveness.verify(&mut out, &peer);
        (0..3).for_each(|_| liveness.missed(&peer, out.now));
        liveness.on_probe_failed(&mut out, peer.key(), Some(&contact(8)));
        assert_eq!(liveness.on_indirect(peer.key(), true), Some(Verdict::Alive(peer.clone())));
        assert!(liveness.is_suspect(&peer.key()) && !liveness.is_dead(&peer));
    }

    #[test]
    fn a_neighbours_word_stands_for_the_indirect_probe() {
        let (mut liveness, mut out) = (Liveness::default(), outbox());
        let (peer, helper) = (contact(7), contact(8));
        liveness.missed(&peer, out.now);
        assert_eq!(liveness.verify_testified(&mut out, &peer), None);
        liveness.missed(&peer, out.now);
        assert_eq!(liveness.on_probe_failed(&mut out, peer.key(), Some(&helper)), None);
        liveness.missed(&peer, out.now);
        let verdict = liveness.on_probe_failed(&mut out, peer.key(), Some(&helper));
        assert_eq!(verdict, Some(Verdict::Dead(peer)));
        assert_eq!(sent(&mut out), vec![(7, Request::Ping); 2]);
    }

    #[test]
    fn a_verdict_is_about_one_life() {
        let (mut liveness, mut out) = (Liveness::default(), outbox());
        let (old, new) = (contact_in_life(7, 1), contact_in_life(7, 2));
        liveness.gone(&old, out.now);
        assert!(liveness.is_dead(&old) && !liveness.is_dead(&new));
        liveness.heard(&new, out.now);
        assert!(liveness.is_dead(&old), "an older life is over");
        assert_eq!(liveness.heard(&old, out.now), None);
        assert_eq!(liveness.verify(&mut out, &old), Some(Verdict::LongDead(old)));
        assert!(!liveness.is_dead(&new));
    }

    #[test]
    fn a_new_life_ends_the_verification_of_the_old_one() {
        let (mut liveness, mut out) = (Liveness::default(), outbox());
        let (old, new) = (contact_in_life(7, 1), contact_in_life(7, 2));
        assert_eq!(liveness.verify(&mut out, &old), None);
        assert_eq!(liveness.pop_overtaken(), None);
        assert_eq!(liveness.heard(&new, out.now), None);
        assert_eq!(liveness.pop_overtaken(), Some(Verdict::LongDead(old)));
        assert_eq!(liveness.pop_overtaken(), None);
    }
}
