//! Addresses at which a peer did not answer are left alone for a while, each for itself: a dead
//! IPv6 address never delays the live IPv4 one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dht_core::PeerKey;
use tokio::time::Instant;

/// When each address of each peer may be tried again. The same address may be stale for one peer
/// and right for another.
#[derive(Debug)]
pub(crate) struct Backoffs {
    min: Duration,
    max: Duration,
    entries: Mutex<HashMap<(PeerKey, SocketAddr), Entry>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    delay: Duration,
    until: Instant,
}

impl Backoffs {
    /// Delays double from `min` to `max`.
    pub(crate) fn new(min: Duration, max: Duration) -> Backoffs {
        Backoffs { min, max: max.max(min), entries: Mutex::default() }
    }

    /// Which of these addresses of a peer may be tried now, in their order; if none, how long until
    /// the first may.
    pub(crate) fn usable(
        &self,
        key: PeerKey,
        addrs: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, Duration> {
        let now = Instant::now();
        let entries = self.lock();
        let wait = |addr: &SocketAddr| {
            let until = entries.get(&(key, *addr)).map(|entry| entry.until);
            until.filter(|until| *until > now).map(|until| until - now)
        };
        let usable: Vec<SocketAddr> =
            addrs.iter().filter(|addr| wait(addr).is_none()).copied().collect();
        match addrs.iter().filter_map(wait).min() {
            Some(shortest) if usable.is_empty() => Err(shortest),
            _ => Ok(usable),
        }
    }

    /// The peer did not answer there.
    pub(crate) fn failed(&self, key: PeerKey, addr: SocketAddr) {
        let now = Instant::now();
        let mut entries = self.lock();
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(&(key, addr)) {
            // Whoever is forgotten is only tried too early.
            let soonest = entries.iter().min_by_key(|(_, entry)| entry.until);
            if let Some(soonest) = soonest.map(|(place, _)| *place) {
                entries.remove(&soonest);
            }
        }
        let delay = entries
            .get(&(key, addr))
            .map_or(self.min, |entry| entry.delay.saturating_mul(2))
            .min(self.max);
        entries.insert((key, addr), Entry { delay, until: now + delay });
    }

    /// The peer answered there.
    pub(crate) fn succeeded(&self, key: PeerKey, addr: SocketAddr) {
        self.lock().remove(&(key, addr));
    }

    /// The peer is alive: it called. All its addresses may be tried again.
    pub(crate) fn forget(&self, key: PeerKey) {
        self.lock().retain(|(other, _), _| *other != key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(PeerKey, SocketAddr), Entry>> {
        // Nothing is left half-done when a holder panics.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most addresses that are left alone at once (guess: a few hundred dead peers).
const MAX_ENTRIES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PeerKey = PeerKey([1; 32]);

    fn addr(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn backoffs() -> Backoffs {
        Backoffs::new(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// Case 6: a dead address says nothing of its neighbours.
    #[tokio::test(start_paused = true)]
    async fn each_address_waits_for_itself() {
        let backoffs = backoffs();
        let both = [addr(1), addr(2)];
        backoffs.failed(KEY, addr(1));
        assert_eq!(backoffs.usable(KEY, &both), Ok(vec![addr(2)]));
        assert_eq!(backoffs.usable(PeerKey([2; 32]), &both), Ok(both.to_vec()), "another peer");
        backoffs.failed(KEY, addr(2));
        backoffs.failed(KEY, addr(2));
        assert_eq!(backoffs.usable(KEY, &both), Err(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(backoffs.usable(KEY, &both), Ok(vec![addr(1)]));
        backoffs.succeeded(KEY, addr(2));
        assert_eq!(backoffs.usable(KEY, &both), Ok(both.to_vec()));
        assert_eq!(backoffs.usable(KEY, &[]), Ok(vec![]), "no address is no wait");
    }

    /// Case 35: a dead neighbour is dialled at most 15 times in ten minutes, however often it is
    /// asked for.
    #[tokio::test(start_paused = true)]
    async fn a_dead_address_is_tried_rarely() {
        let backoffs = backoffs();
        let mut dials = 0;
        for _ in 0..6000 {
            if backoffs.usable(KEY, &[addr(1)]).is_ok() {
                dials += 1;
                backoffs.failed(KEY, addr(1));
            }
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert_eq!(dials, 15);
        backoffs.forget(KEY);
        assert!(backoffs.usable(KEY, &[addr(1)]).is_ok(), "it called");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_addresses_is_bounded() {
        let backoffs = backoffs();
        for port in 1..=2 * MAX_ENTRIES as u16 {
            backoffs.failed(KEY, addr(port));
        }
        assert_eq!(backoffs.lock().len(), MAX_ENTRIES);
    }
}
