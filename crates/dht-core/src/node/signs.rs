//! Signs of life, and verdicts where there are none.

use super::Node;
use crate::event::Notice;
use crate::liveness::Verdict;
use crate::peer::Contact;

/// How many entries behind a silent head are verified beside it: 3, since more than four neighbours in a row are
/// seldom dead. Where three of 16 are, lists are right after 3.7 s, with none verified 6.1, with one 4.7, with
/// seven 3.7 (medians; `cargo run --release -p dht-sim --example mending`).
const VERIFIED_BEHIND: usize = 3;

impl Node {
    /// Makes sure that this one lives; if it is the head, that those behind it do, too. Where neighbours in a row
    /// are dead, one after the other would take a verdict each, and a lookup for their keys has less time.
    pub(super) fn verify(&mut self, contact: &Contact) {
        let verdict = self.liveness.verify(&mut self.out, contact);
        self.on_verdict(verdict);
        let links = self.ring.links();
        if links.head().is_none_or(|head| head.id != contact.id) {
            return;
        }
        let behind = links.successors().iter().skip(1).take(VERIFIED_BEHIND);
        let unsure: Vec<Contact> =
            behind.filter(|entry| !self.liveness.is_dead(entry)).cloned().collect();
        for entry in unsure {
            let verdict = self.liveness.verify(&mut self.out, &entry);
            self.on_verdict(verdict);
        }
    }

    /// The failure detector decided about somebody.
    pub(super) fn on_verdict(&mut self, verdict: Option<Verdict>) {
        match verdict {
            Some(Verdict::Dead(contact)) => {
                let counts = self.ring.counts_mut();
                counts.deaths = counts.deaths.saturating_add(1);
                self.out.notice(Notice::Died { contact: contact.clone() });
                self.fingers.lost(contact.id);
                self.report_gone(&contact);
                self.ring.on_dead(&mut self.out, &contact);
            }
            Some(Verdict::LongDead(contact)) => self.ring.on_dead(&mut self.out, &contact),
            Some(Verdict::Alive(contact)) => {
                self.clear_failed(contact.id);
                self.ring.on_alive(&mut self.out, &contact);
            }
            None => {}
        }
    }

    /// A sign of life.
    pub(super) fn note_heard(&mut self, contact: &Contact) {
        self.ring.links_mut().renew(contact);
        self.remembered.heard(contact);
        self.fingers.renew(contact);
        let verdict = self.liveness.heard(contact, self.out.now);
        self.on_verdict(verdict);
    }

    /// A neighbour that may reach one whom we do not.
    pub(super) fn helper_for(&self, target: &Contact) -> Option<Contact> {
        let links = self.ring.links();
        let neighbors = links.successors().iter().chain(links.predecessors());
        neighbors
            .filter(|entry| entry.key() != target.key() && entry.key() != links.me().key())
            .find(|entry| !self.liveness.is_suspect(&entry.key()) && !self.liveness.is_dead(entry))
            .cloned()
    }
}
