//! What exhaustive exploration needs of the search for a place; see [`crate::node::steer`].

use std::time::Duration;

use super::{Joining, Node};
use crate::outbox::CallOwner;
use crate::peer::Contact;
use crate::timer::Timer;

impl Node {
    /// The search is somebody else's from now on; see [`crate::node::steer`].
    pub(in crate::node) fn leave_search(&mut self) {
        self.joining = Joining::default();
        self.out.timers.stop(Timer::Join);
        if self.wants_place() && self.leave.is_none() {
            self.out.set_timer(Timer::Join, Duration::MAX);
        }
    }

    /// Whether whoever wants a place is on its way to one, or will try again, or knows nobody.
    pub(in crate::node) fn is_search_alive(&self) -> bool {
        let knows_nobody = self.joining.via.is_empty() && self.remembered.contacts().is_empty();
        let asks = self
            .out
            .calls()
            .any(|(_, owner, _)| matches!(owner, CallOwner::Join | CallOwner::OwnIdentity));
        !self.wants_place()
            || knows_nobody
            || asks
            || self.out.timers.is_set(Timer::Join)
            || self.has_join_lookup()
    }

    /// A member was asked, and that is all there is to the search.
    pub(in crate::node) fn keep_asking(&mut self) {
        self.joining = Joining { is_attempting: true, ..Joining::default() };
    }

    /// Asks this member for a place, as if a lookup had ended at it.
    pub(in crate::node) fn seek_place(&mut self, member: Contact) {
        self.out.timers.stop(Timer::Join);
        self.joining.is_attempting = true;
        self.ask_to_join(member);
    }
}
