//! Settings of one node, checked once: past [`Config::validate`] they cannot be wrong.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::message::ring::Routing;
use crate::message::{Forwarding, RingId, Routings};
use crate::planted::Planted;

/// What belongs to a ring as a whole. Set when it is founded; whoever joins takes it over, and a
/// flag that differs is an error showing both values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RingParams {
    /// The ring.
    pub id: RingId,
    /// Copies of every chunk; see [`RingParams::register_copies`] for manifests. 1 to 8; 3 by
    /// default (Dynamo 2007, section 4.5).
    pub replicas: u8,
    /// The circle is cut into `2^part_bits` parts, each with its own views. 12 by default (guess:
    /// 4,096 parts keep a part smaller than an arc up to about a thousand nodes).
    pub part_bits: u8,
    /// Files up to this many bytes lie inside their manifest. 4 KiB by default (guess: one page).
    pub inline_limit: u32,
}

impl RingParams {
    /// The defaults, for a ring of this id.
    pub fn founding(id: RingId, replicas: u8) -> RingParams {
        RingParams { id, replicas, part_bits: 12, inline_limit: 4096 }
    }

    /// On how many peers a register lies, if there are so many: 2R-1, of which any R are a majority.
    pub fn register_copies(&self) -> usize {
        2 * usize::from(self.replicas.max(1)) - 1
    }

    /// How many peers keep a register when there are `peers` in all: an odd number, so that the
    /// loss of one never costs more than it must. 1, 2, 3, 3, 5 for 1, 2, 3, 4, 5 or more at R = 3.
    pub fn register_set_size(&self, peers: usize) -> usize {
        let most = self.register_copies();
        match peers.min(most) {
            2 => 2,
            n if n % 2 == 0 => n - 1,
            n => n,
        }
    }

    /// How many peers keep a chunk when there are `peers` in all.
    pub fn chunk_set_size(&self, peers: usize) -> usize {
        peers.min(usize::from(self.replicas))
    }

    /// How many durable chunk copies a write waits for when `set` peers keep it: W = R/2+1.
    pub fn chunk_acks(&self, set: usize) -> usize {
        (usize::from(self.replicas) / 2 + 1).min(set)
    }
}

/// A majority of `members`.
pub fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// How one node behaves. [`Config::default`] is a working node.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Entries of the successor list, which is also the n-hop successor cache. The list runs on
    /// until it also has `min_list` entries and `min_list` distinct peers. More entries: fewer hops
    /// and safer links, longer messages. 16 by default: with half of 1000 nodes gone at once, a
    /// list dies whole with probability N p^r = 1000 * 2^-16 (Chord ToN 2003, section V-B).
    pub depth: u16,
    /// Shortest list that is kept, whatever the depth; in entries and in distinct other peers.
    /// 8 by default: replicas and their spares must fit (guess: 2R-1 and R more); see
    /// [`Config::for_ring`].
    pub min_list: u16,
    /// The predecessor list runs back until so many distinct peers: the replica range of a
    /// register is that long. 5 by default = 2R-1 at R = 3; see [`Config::for_ring`].
    pub predecessor_peers: u16,
    /// What the node's own lookups use.
    pub routing: Routing,
    /// Which routings state is kept for, so that lookups by these may go through this node. All by default.
    pub keep: Routings,
    /// What looking up fingers may cost, in bytes per second. 200 by default (guess): of 1,000 nodes with lists
    /// of 16 each has six fingers beyond its list, at three contacts a lookup; so each finger is looked up
    /// every 36 s, about as often as in the paper's set-up (30 s, Chord ToN 2003, Table III).
    pub finger_budget: u32,
    /// What passing on events of the full map may cost, in bytes per second. 2000 by default: at 1,000 nodes whose
    /// sessions have a median of 1.4 minutes (Rhea et al. 2004) 16.5 events a second make 700 bytes, twice for two
    /// copies; the rest is headers.
    pub map_budget: u32,
    /// Upkeep period, jittered by 0.5 to 1.5. Shorter: faster mending, more traffic. 1 s by default
    /// (guess; the papers use 30 s on wide-area testbeds).
    pub stabilize_every: Duration,
    /// Time-out before the first round trip to a peer is known (RFC 6298, section 2: 1 s).
    pub initial_timeout: Duration,
    /// Shortest time-out. 200 ms by default, as Linux does in its TCP: scheduling delays of a
    /// loaded machine must not look like death.
    pub min_timeout: Duration,
    /// Longest time-out of one probe. 2 s by default (guess): above it mending waits too long.
    pub max_timeout: Duration,
    /// How many direct probes in a row a peer must miss, before an indirect one, to be called dead.
    /// 3 by default (SWIM 2002 and Lifeguard 2017 use 1 direct and 3 indirect ones).
    pub missed_probes: u8,
    /// How long a whole lookup may take. 10 s by default: longer than finding and replacing a dead
    /// owner takes at the default period.
    pub lookup_timeout: Duration,
    /// How long a register operation may take in all. 20 s by default, below the 30 s that clients
    /// wait.
    pub operation_timeout: Duration,
    /// How often a remembered peer is pinged to find a lost part of the ring. 10 s
    /// (`docs/protocol.md`, "Split and heal").
    pub merge_probe_every: Duration,
    /// How many peers that are not neighbours now are remembered. 64 by default (guess: some
    /// answer after months, and a list of 64 records is 10 KiB).
    pub max_remembered: usize,
    /// Whether the node keeps registers and chunks. Always, but in simulations of links and lookups
    /// alone, which the papers publish: there nobody compares copies, hands off, or votes.
    pub keeps_data: bool,
    /// A naive rule in place of the right one. Never, but in the tests of the simulator.
    #[doc(hidden)]
    pub planted: Option<Planted>,
    /// How often copies are compared with the neighbours' even if nothing changed. 30 s by default
    /// (guess): an equal comparison is one digest per shared range.
    pub repair_every: Duration,
    /// How many chunks one node fetches at once for repair. 4 by default (guess).
    pub max_fetches: usize,
    /// Most questions that wait while the node's own pointers are in doubt; more are answered
    /// "busy". 32 by default (guess: sixteen joiners and their helpers).
    pub max_deferred: usize,
    /// Most lookups and register operations of its own at once. 4096 by default (guess).
    pub max_operations: usize,
    /// Who carries the lookups of clients and registers from node to node. Iterative by default: a dead hop
    /// costs the asker one time-out that it sees, and nothing is kept for strangers
    /// (`docs/decisions/0010-recursive-forwarding.md`).
    pub forwarding: Forwarding,
    /// Most lookups handed on that wait to be acknowledged, before those of others are answered "busy".
    /// 1024 by default (guess: at one round trip of 100 ms each, 10,000 a second).
    pub max_forwards: usize,
    /// Most lookup steps without an answer "mine": a ring that long at depth 1 is not usable, so
    /// more is a loop. 100,000 by default.
    pub max_hops: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            depth: 16,
            min_list: 8,
            predecessor_peers: 5,
            routing: Routing::Successors,
            keep: Routings::ALL,
            finger_budget: 200,
            map_budget: 2000,
            stabilize_every: Duration::from_secs(1),
            initial_timeout: Duration::from_secs(1),
            min_timeout: Duration::from_millis(200),
            max_timeout: Duration::from_secs(2),
            missed_probes: 3,
            lookup_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(20),
            merge_probe_every: Duration::from_secs(10),
            max_remembered: 64,
            keeps_data: true,
            planted: None,
            repair_every: Duration::from_secs(30),
            max_fetches: 4,
            max_deferred: 32,
            max_operations: 4096,
            forwarding: Forwarding::Iterative,
            max_forwards: 1024,
            max_hops: 100_000,
        }
    }
}

impl Config {
    /// Greatest depth: a list of so many contacts still fits one frame.
    pub const MAX_DEPTH: u16 = 128;

    /// Checks every bound and relation.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let range = |field, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::OutOfRange { field, value, low, high })
            }
        };
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let hour = 3_600_000;
        range("depth", self.depth.into(), 1, Config::MAX_DEPTH.into())?;
        range("min_list", self.min_list.into(), 1, Config::MAX_DEPTH.into())?;
        range("predecessor_peers", self.predecessor_peers.into(), 1, 32)?;
        range("stabilize_every (ms)", millis(self.stabilize_every), 10, 24 * hour)?;
        range("min_timeout (ms)", millis(self.min_timeout), 1, hour)?;
        range("max_timeout (ms)", millis(self.max_timeout), millis(self.min_timeout), hour)?;
        range(
            "initial_timeout (ms)",
            millis(self.initial_timeout),
            millis(self.min_timeout),
            hour,
        )?;
        range("missed_probes", self.missed_probes.into(), 1, 16)?;
        range("lookup_timeout (ms)", millis(self.lookup_timeout), 1, hour)?;
        range("operation_timeout (ms)", millis(self.operation_timeout), 1, hour)?;
        range("merge_probe_every (ms)", millis(self.merge_probe_every), 10, 24 * hour)?;
        range("repair_every (ms)", millis(self.repair_every), 10, 24 * hour)?;
        range("finger_budget (bytes per second)", self.finger_budget.into(), 1, 1_000_000)?;
        range("map_budget (bytes per second)", self.map_budget.into(), 1, 10_000_000)?;
        range("max_hops", self.max_hops.into(), 1, 1_000_000)?;
        range("max_remembered", self.max_remembered as u64, 1, 4096)?;
        range("max_fetches", self.max_fetches as u64, 1, 64)?;
        range("max_deferred", self.max_deferred as u64, 1, 4096)?;
        range("max_forwards", self.max_forwards as u64, 1, 1_000_000)?;
        range("max_operations", self.max_operations as u64, 1, 1_000_000)
    }

    /// How long a lookup that was handed on may stay without an answer before its asker goes on by itself.
    /// A third of the whole time: what is left is twice as long, as the iterative way is.
    pub fn wait_for_handed(&self) -> Duration {
        self.lookup_timeout / 3
    }

    /// How long to wait for an answer that needs a verdict about somebody else first: all direct
    /// probes and the indirect one.
    pub fn wait_for_verdict(&self) -> Duration {
        self.initial_timeout.saturating_mul(u32::from(self.missed_probes) + 1)
    }

    /// How long a question of a lookup that needs a verdict is held before the answer is "busy", and it is asked
    /// again: the initial time-out. Less than a verdict takes, since whoever holds it may die meanwhile, and an
    /// asker that has to wait for a whole verdict to notice has little of its own time left.
    pub fn hold_route(&self) -> Duration {
        self.initial_timeout
    }

    /// This configuration for a member of a ring: its lists reach as far as the ring's copies, and as far
    /// again for the spares of chunks.
    pub fn for_ring(&self, params: &RingParams) -> Config {
        let replicas = u16::from(params.replicas.max(1));
        Config {
            min_list: self.min_list.max(3 * replicas - 1),
            predecessor_peers: self.predecessor_peers.max(2 * replicas - 1),
            ..self.clone()
        }
    }

    /// How many entries the list is kept at.
    pub fn list_len(&self) -> usize {
        usize::from(self.depth.max(self.min_list))
    }

    /// How many entries the predecessor list has if every peer has one place.
    pub fn predecessors_wanted(&self) -> usize {
        self.predecessors_len().max(usize::from(self.predecessor_peers))
    }

    /// How many entries the predecessor list has at least: for routing `both-ways` as many as lookups
    /// use of the successor list.
    pub fn predecessors_len(&self) -> usize {
        if self.keep.contains(Routing::BothWays) { usize::from(self.depth) } else { 0 }
    }
}

/// A setting that broke its bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// Outside of what works.
    OutOfRange {
        /// Which setting.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The least that works.
        low: u64,
        /// The most that works.
        high: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::OutOfRange { field, value, low, high } => {
                write!(f, "{field} is {value}, but must lie between {low} and {high}")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_a_broken_bound_is_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        let broken = Config { depth: 0, ..Config::default() };
        let error = broken.validate().expect_err("0 entries cannot link a ring");
        assert_eq!(error.to_string(), "depth is 0, but must lie between 1 and 128");
    }

    #[test]
    fn lists_reach_as_far_as_the_copies() {
        let lens = |replicas| {
            let config = Config::default().for_ring(&RingParams::founding(RingId(1), replicas));
            assert_eq!(config.validate(), Ok(()));
            (config.min_list, config.predecessor_peers)
        };
        assert_eq!((lens(1), lens(3), lens(6), lens(8)), ((8, 5), (8, 5), (17, 11), (23, 15)));
    }

    #[test]
    fn set_sizes_are_those_of_the_design() {
        let params = RingParams::founding(RingId(1), 3);
        let sizes: Vec<usize> = (1..=7).map(|n| params.register_set_size(n)).collect();
        assert_eq!(sizes, [1, 2, 3, 3, 5, 5, 5]);
        assert_eq!((params.chunk_set_size(2), params.chunk_set_size(9)), (2, 3));
        assert_eq!((params.chunk_acks(1), params.chunk_acks(3)), (1, 2));
        assert_eq!((majority(1), majority(2), majority(3), majority(5)), (1, 2, 2, 3));
    }
}
