//! Signs of life, and verdicts where there are none.

use super::Node;
use crate::event::Notice;
use crate::liveness::Verdict;
use crate::peer::Contact;

impl Node {
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
