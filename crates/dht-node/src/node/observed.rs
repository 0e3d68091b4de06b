//! What a node says of its own addresses: only ones that can be dialled, never a wildcard.

use std::net::SocketAddr;

use dht_core::PeerKey;
use dht_core::peer::MAX_ADDRS;

/// The addresses of the own record, and how they came about.
#[derive(Debug)]
pub(super) struct OwnAddrs {
    /// Given or bound: what peers observe does not matter then.
    fixed: Option<SocketAddr>,
    /// The newest observation of each reporter, newest last.
    seen: Vec<(PeerKey, SocketAddr)>,
}

impl OwnAddrs {
    /// `advertise` wins; else the bound address if it names one interface; else only what peers
    /// observe.
    pub(super) fn new(advertise: Option<SocketAddr>, bound: SocketAddr) -> OwnAddrs {
        let fixed = advertise.or((!bound.ip().is_unspecified()).then_some(bound));
        OwnAddrs { fixed, seen: Vec::new() }
    }

    /// Before the socket is bound.
    pub(super) fn unknown() -> OwnAddrs {
        OwnAddrs { fixed: None, seen: Vec::new() }
    }

    /// A peer says where it reached this node. Whether [`OwnAddrs::list`] changed by it.
    pub(super) fn observe(&mut self, reporter: PeerKey, addr: SocketAddr) -> bool {
        if self.fixed.is_some() || !dht_net::is_dialable(&addr) {
            return false;
        }
        let before = self.list();
        self.seen.retain(|(key, _)| *key != reporter);
        if self.seen.len() == MAX_REPORTERS {
            self.seen.remove(0);
        }
        self.seen.push((reporter, addr));
        self.list() != before
    }

    /// Where the node can be dialled, best first: what most peers saw, at most [`MAX_ADDRS`].
    /// Loopback only while nobody saw anything better: elsewhere it leads to somebody else.
    pub(super) fn list(&self) -> Vec<SocketAddr> {
        if let Some(fixed) = self.fixed {
            return vec![fixed];
        }
        let mut votes: Vec<(SocketAddr, usize)> = Vec::new();
        for (_, addr) in &self.seen {
            match votes.iter_mut().find(|(seen, _)| seen == addr) {
                Some((_, count)) => *count += 1,
                None => votes.push((*addr, 1)),
            }
        }
        let wider = votes.iter().any(|(addr, _)| !addr.ip().is_loopback());
        votes.retain(|(addr, _)| !(wider && addr.ip().is_loopback()));
        // Equal votes: by address, so that the record does not change without need.
        votes.sort_by_key(|(addr, count)| (std::cmp::Reverse(*count), *addr));
        votes.into_iter().take(MAX_ADDRS).map(|(addr, _)| addr).collect()
    }
}

/// Reporters whose word is kept (guess).
const MAX_REPORTERS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// Case 10: what is announced can be dialled.
    #[test]
    fn a_wildcard_is_never_announced() {
        let mut own = OwnAddrs::new(None, addr("0.0.0.0:4433"));
        assert_eq!(own.list(), []);
        assert!(!own.observe(PeerKey([1; 32]), addr("0.0.0.0:4433")));
        assert!(!own.observe(PeerKey([1; 32]), addr("[::]:4433")));
        assert!(!own.observe(PeerKey([1; 32]), addr("10.0.0.1:0")));
        assert_eq!(own.list(), []);
    }

    #[test]
    fn a_given_or_bound_address_wins() {
        let mut own = OwnAddrs::new(Some(addr("192.0.2.1:9")), addr("0.0.0.0:4433"));
        assert!(!own.observe(PeerKey([1; 32]), addr("10.0.0.1:4433")));
        assert_eq!(own.list(), [addr("192.0.2.1:9")]);
        assert_eq!(OwnAddrs::new(None, addr("127.0.0.1:7")).list(), [addr("127.0.0.1:7")]);
    }

    #[test]
    fn most_votes_come_first_and_loopback_gives_way() {
        let mut own = OwnAddrs::new(None, addr("[::]:4433"));
        assert!(own.observe(PeerKey([1; 32]), addr("127.0.0.1:4433")));
        assert_eq!(own.list(), [addr("127.0.0.1:4433")]);
        assert!(own.observe(PeerKey([2; 32]), addr("10.0.0.1:4433")));
        assert_eq!(own.list(), [addr("10.0.0.1:4433")]);
        assert!(own.observe(PeerKey([3; 32]), addr("10.0.0.2:4433")));
        assert!(!own.observe(PeerKey([4; 32]), addr("10.0.0.1:4433")), "the same order as before");
        assert_eq!(own.list(), [addr("10.0.0.1:4433"), addr("10.0.0.2:4433")]);
    }
}
