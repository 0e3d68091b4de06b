//! Round-trip estimates and the time-outs made from them (RFC 6298).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::Config;
use crate::peer::PeerKey;
use crate::time::{Instant, micros};

/// Peers whose estimate is kept: beyond that the one unused for longest goes (guess: a walk over a
/// large ring at depth 1 meets everybody once).
const MAX_PEERS: usize = 1024;

/// What an answer over a connection that has yet to be opened takes: the handshake, the hellos, the question.
const ROUND_TRIPS_OF_A_STRANGER: u64 = 3;

/// Smoothed round trips by peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct RttTable {
    peers: BTreeMap<PeerKey, Estimate>,
    /// Over whoever answered. It stands in for those of whom nothing is known (RFC 9040, section 6: TCP
    /// shares round trips among the connections of a host in the same way).
    everybody: Option<Estimate>,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    smoothed: u64,
    variation: u64,
    used: Instant,
}

impl Estimate {
    /// With one more round trip (RFC 6298, section 2, alpha = 1/8, beta = 1/4).
    fn next(old: Option<&Estimate>, sample: u64, now: Instant) -> Estimate {
        match old {
            None => Estimate { smoothed: sample, variation: sample / 2, used: now },
            Some(old) => Estimate {
                variation: old.variation - old.variation / 4 + old.smoothed.abs_diff(sample) / 4,
                smoothed: old.smoothed - old.smoothed / 8 + sample / 8,
                used: now,
            },
        }
    }

    /// So many round trips, and four times the variation.
    fn timeout(&self, round_trips: u64) -> Duration {
        let smoothed = self.smoothed.saturating_mul(round_trips);
        Duration::from_micros(smoothed.saturating_add(self.variation.saturating_mul(4)))
    }
}

impl RttTable {
    /// Takes in one measured round trip.
    pub(crate) fn measured(&mut self, peer: PeerKey, rtt: Duration, now: Instant) {
        let sample = micros(rtt);
        self.everybody = Some(Estimate::next(self.everybody.as_ref(), sample, now));
        let next = Estimate::next(self.peers.get(&peer), sample, now);
        self.peers.insert(peer, next);
        if self.peers.len() > MAX_PEERS {
            let oldest = self.peers.iter().min_by_key(|(_, estimate)| estimate.used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.peers.remove(&key);
            }
        }
    }

    /// The smoothed round trip to this peer, in microseconds.
    pub(crate) fn smoothed(&self, peer: &PeerKey) -> Option<u64> {
        self.peers.get(peer).map(|estimate| estimate.smoothed)
    }

    /// How long to wait for an answer of this peer: smoothed + 4 * variation within the bounds of the
    /// configuration. Of whom nothing is known, three round trips as others take them, since a connection comes
    /// first; at least half the initial time-out, as opening one takes a loaded machine longer than answering does.
    pub(crate) fn timeout(&self, peer: &PeerKey, config: &Config) -> Duration {
        let initial = config.initial_timeout;
        match (self.peers.get(peer), &self.everybody) {
            (Some(estimate), _) => {
                estimate.timeout(1).clamp(config.min_timeout, config.max_timeout)
            }
            (None, Some(others)) => {
                others.timeout(ROUND_TRIPS_OF_A_STRANGER).clamp(initial / 2, initial)
            }
            (None, None) => initial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_follow_the_measured_round_trips() {
        let (config, peer) = (Config::default(), PeerKey([1; 32]));
        let mut table = RttTable::default();
        assert_eq!(table.timeout(&peer, &config), config.initial_timeout);
        table.measured(peer, Duration::from_micros(300), Instant(0));
        assert_eq!(table.timeout(&peer, &config), config.min_timeout, "never below the floor");
        let stranger = PeerKey([2; 32]);
        assert_eq!(table.timeout(&stranger, &config), config.initial_timeout / 2);
        for _ in 0..50 {
            table.measured(peer, Duration::from_millis(400), Instant(1));
        }
        let steady = table.timeout(&peer, &config);
        assert!(steady > Duration::from_millis(390) && steady < Duration::from_millis(500));
        let others = table.timeout(&stranger, &config);
        assert_eq!(others, config.initial_timeout, "three of those would be more than that");
        table.measured(peer, Duration::MAX, Instant(2));
        assert_eq!(table.timeout(&peer, &config), config.max_timeout, "never above the ceiling");
    }

    #[test]
    fn the_table_is_bounded() {
        let mut table = RttTable::default();
        for n in 0..2 * MAX_PEERS as u64 {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&n.to_le_bytes());
            table.measured(PeerKey(key), Duration::from_millis(1), Instant(n));
        }
        assert_eq!(table.peers.len(), MAX_PEERS);
    }
}
