//! What the onlooker sees of messages when they are sent.

use dht_core::message::forward::ForwardOutcome;
use dht_core::message::ring::Request;

use super::World;
use crate::invariants::bounded;

impl World {
    /// A node sends a question, whatever becomes of it.
    pub(super) fn note_sent(&mut self, n: u64, request: &Request) {
        if let Request::ForwardEnd(end) = request
            && matches!(end.outcome, ForwardOutcome::Mine { .. })
        {
            // To an asker that did not ask this node itself. It counts when it is said: one that is not
            // acknowledged is sent again as it was.
            let node = self.member(n).me.id;
            if self.ends_told.insert((n, end.ticket.number, end.ticket.nonce)) {
                self.watch.on_mine(self.now, node, end.key);
            }
        }
        // How many steps lookups take is the length of their ways.
        if request.looked_up().is_none() {
            self.count_message(n);
        }
    }

    fn count_message(&mut self, n: u64) {
        let window = self.now.0 / (bounded::WINDOW_S * 1_000_000);
        let member = self.member_mut(n);
        if member.sent.0 != window {
            member.sent = (window, 0);
        }
        member.sent.1 += 1;
        let (node, sent) = (member.me.id, member.sent.1);
        if let Some(violation) = bounded::check_messages(node, sent) {
            self.watch.report(self.now, violation);
        }
    }
}
