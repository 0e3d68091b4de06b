//! Shapes of the commands about one node, and of those that run nodes.

use dht_core::Id;
use serde::Serialize;

use super::{HexJson, HopRowJson, PeerJson};

/// The ready line of a node.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReadyJson {
    /// Its place.
    pub(crate) id: Id,
    /// The bound socket.
    pub(crate) listen: String,
    /// Name of the ring.
    pub(crate) ring: String,
}

/// `stats`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StatsJson {
    /// The node.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// Name of the ring.
    pub(crate) ring: String,
    /// Its id, if the node has one.
    pub(crate) ring_id: Option<String>,
    /// What the node is doing.
    pub(crate) state: &'static str,
    /// Seconds since its start.
    pub(crate) uptime_s: u64,
    /// Of its program.
    pub(crate) version: String,
    /// From the spacing of its neighbours.
    pub(crate) estimated_nodes: f64,
    /// The node before it.
    pub(crate) predecessor: Option<Id>,
    /// The nodes after it.
    pub(crate) successors: Vec<Id>,
    /// What its own lookups use.
    pub(crate) routing: &'static str,
    /// With how many entries.
    pub(crate) depth: u16,
    /// Who carries its own lookups from node to node: `iterative` or `recursive`.
    pub(crate) forwarding: &'static str,
    /// Lookups under its own routing and depth, and the others apart.
    pub(crate) lookups: LookupsJson,
    /// Lookups that are handed on.
    pub(crate) forwards: ForwardsJson,
    /// Upkeep of the links.
    pub(crate) upkeep: UpkeepJson,
    /// What it stores.
    pub(crate) store: StoreJson,
    /// Room for more; `null` where the system does not say.
    pub(crate) disk: Option<DiskJson>,
    /// Upkeep of the copies.
    pub(crate) repair: RepairJson,
    /// Bytes on the wire.
    pub(crate) traffic: TrafficJson,
    /// What is one failure away from trouble.
    pub(crate) at_risk: AtRiskJson,
    /// Relative standard error of the estimate; 0 where it is exact, null where nothing tells.
    pub(crate) estimated_nodes_error: Option<f64>,
    /// What was sent to keep routing state right.
    pub(crate) upkeep_traffic: UpkeepTrafficJson,
    /// What its lookups cost, and what else they could cost.
    pub(crate) advice: AdviceJson,
    /// Mean hops that its lookups may take; null if nobody watches.
    pub(crate) hop_budget: Option<f64>,
    /// That they take more; null while they do not.
    pub(crate) hint: Option<HintJson>,
}

/// Bytes sent since the start, by what they keep right.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct UpkeepTrafficJson {
    /// Both lists.
    pub(crate) links: u64,
    /// Fingers.
    pub(crate) fingers: u64,
    /// A map of all members.
    pub(crate) map: u64,
    /// All of them; null before any time has passed.
    pub(crate) bytes_per_s: Option<f64>,
}

/// What lookups could cost.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AdviceJson {
    /// For a person, in a sentence.
    pub(crate) text: String,
    /// What would take at least a tenth fewer hops.
    pub(crate) alternatives: Vec<AlternativeJson>,
}

/// Another way to look up.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AlternativeJson {
    /// How to route.
    pub(crate) routing: &'static str,
    /// With how many entries.
    pub(crate) depth: u16,
    /// Mean hops by formula, at the estimated number of nodes.
    pub(crate) expected: f64,
}

/// The node's own lookups take more hops than they may.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HintJson {
    /// Their mean when that was looked at last.
    pub(crate) mean: f64,
    /// Over so many lookups.
    pub(crate) lookups: u64,
    /// For a person.
    pub(crate) message: String,
}

/// `stats --all`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StatsAllJson {
    /// Name of the ring.
    pub(crate) ring: String,
    /// Nodes that are in the sum.
    pub(crate) nodes: usize,
    /// Members that did not answer.
    pub(crate) silent: usize,
    /// Sums over all routings and depths.
    pub(crate) lookups: LookupsJson,
    /// Sums.
    pub(crate) upkeep: UpkeepJson,
    /// Sums: every copy counts.
    pub(crate) store: StoreJson,
    /// Sums.
    pub(crate) repair: RepairJson,
    /// Sums.
    pub(crate) traffic: TrafficJson,
    /// Sums.
    pub(crate) at_risk: AtRiskJson,
    /// Sums; the rate is the mean of one node.
    pub(crate) upkeep_traffic: UpkeepTrafficJson,
    /// Nodes whose lookups take more hops than they may.
    pub(crate) hints: usize,
}

/// What was looked up.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LookupsJson {
    /// The sum of the histogram, of `failed` and of `cached`.
    pub(crate) count: u64,
    /// Lookups that found nobody.
    pub(crate) failed: u64,
    /// Contacts that did not answer, over all lookups.
    pub(crate) timeouts: u64,
    /// Lookups answered from what was learned earlier.
    pub(crate) cached: u64,
    /// Hops of those that found the owner by walking.
    pub(crate) hops: HopCountsJson,
    /// The same for each other routing and depth.
    pub(crate) by_routing: Vec<RoutingCountsJson>,
    /// How long those took that found the owner, under whatever routing; `null` in a sum.
    pub(crate) latency_us: Option<LatencyJson>,
}

/// Lookups that are handed on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ForwardsJson {
    /// Those of others that it took.
    pub(crate) taken: u64,
    /// Those of others that it did not: too many waited.
    pub(crate) refused: u64,
    /// Its own that it went on with by itself.
    pub(crate) gave_up: u64,
}

/// Lookups of one routing and depth.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RoutingCountsJson {
    /// The routing.
    pub(crate) routing: &'static str,
    /// The depth.
    pub(crate) depth: u16,
    /// The sum of the histogram, of `failed` and of `cached`.
    pub(crate) count: u64,
    /// Lookups that found nobody.
    pub(crate) failed: u64,
    /// Contacts that did not answer, over all lookups.
    pub(crate) timeouts: u64,
    /// Lookups answered from what was learned earlier.
    pub(crate) cached: u64,
    /// Hops of those that found the owner by walking.
    pub(crate) hops: HopCountsJson,
}

/// Hops, exactly.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HopCountsJson {
    /// Mean; null before the first lookup.
    pub(crate) mean: Option<f64>,
    /// Median.
    pub(crate) p50: Option<u32>,
    /// 90th percentile.
    pub(crate) p90: Option<u32>,
    /// 99th percentile.
    pub(crate) p99: Option<u32>,
    /// Greatest.
    pub(crate) max: Option<u32>,
    /// How many lookups took 0, 1, 2, ... hops.
    pub(crate) histogram: Vec<u64>,
    /// The formula's mean at the estimated number of nodes.
    pub(crate) expected: Option<f64>,
    /// The formula's shares of 0, 1, 2, ... hops; null where there is no formula.
    pub(crate) expected_shares: Option<Vec<f64>>,
}

/// Quantiles in microseconds; null before the first lookup.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LatencyJson {
    /// Median.
    pub(crate) p50: Option<u64>,
    /// 90th percentile.
    pub(crate) p90: Option<u64>,
    /// 99th percentile.
    pub(crate) p99: Option<u64>,
    /// Greatest.
    pub(crate) max: Option<u64>,
}

/// Upkeep of the links.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct UpkeepJson {
    /// STABILIZE runs.
    pub(crate) stabilizations: u64,
    /// Times the head of the list was replaced.
    pub(crate) repairs: u64,
    /// Predecessors adopted.
    pub(crate) rectifications: u64,
    /// Lists received by push and taken over.
    pub(crate) pushes: u64,
    /// Joins served for others.
    pub(crate) joins_served: u64,
    /// Probes that were not answered in time.
    pub(crate) missed_probes: u64,
    /// Verdicts "dead".
    pub(crate) deaths: u64,
    /// Questions answered "busy".
    pub(crate) busy: u64,
    /// Pings to remembered peers.
    pub(crate) merge_probes: u64,
    /// Times another part of the ring was found.
    pub(crate) merges: u64,
}

/// What is stored.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoreJson {
    /// Registers, without tombstones.
    pub(crate) keys: u64,
    /// Chunks.
    pub(crate) chunks: u64,
    /// Bytes of the chunks.
    pub(crate) bytes: u64,
    /// Chunks that failed their hash when they were read, since the start.
    pub(crate) corrupt: u64,
}

/// Room for more.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DiskJson {
    /// Size of the file system, or the limit of a store in memory.
    pub(crate) total: u64,
    /// What may still be written.
    pub(crate) available: u64,
}

/// Upkeep of the copies.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RepairJson {
    /// Copies known to be missing now.
    pub(crate) missing: u64,
    /// Copies made since the start.
    pub(crate) copied: u64,
    /// Bytes of the copied chunks.
    pub(crate) bytes: u64,
    /// Comparisons that found no difference.
    pub(crate) equal: u64,
}

/// Bytes on the wire since the start.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TrafficJson {
    /// Received.
    #[serde(rename = "in")]
    pub(crate) bytes_in: u64,
    /// Sent.
    #[serde(rename = "out")]
    pub(crate) bytes_out: u64,
}

/// What is one failure away from trouble.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AtRiskJson {
    /// Registers with just a majority alive.
    pub(crate) views: u64,
    /// Chunks with one copy.
    pub(crate) chunks: u64,
}

/// `status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StatusJson {
    /// The node.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// Name of the ring.
    pub(crate) ring: String,
    /// What the node is doing.
    pub(crate) state: &'static str,
    /// Whether the exit code is 0.
    pub(crate) healthy: bool,
    /// Why not, for a person.
    pub(crate) reasons: Vec<String>,
    /// From the spacing of its neighbours.
    pub(crate) estimated_nodes: f64,
    /// Copies known to be missing now.
    pub(crate) missing: u64,
}

/// `ping`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PingJson {
    /// The node.
    pub(crate) id: Id,
    /// Where it answered.
    pub(crate) addr: String,
    /// Round trips in the order they were made.
    pub(crate) rtt_us: Vec<u64>,
    /// Shortest.
    pub(crate) min_us: u64,
    /// Mean.
    pub(crate) mean_us: u64,
    /// Longest.
    pub(crate) max_us: u64,
}

/// `id`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct IdJson {
    /// The node.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// Its public key.
    pub(crate) key: HexJson,
    /// All addresses it tells others.
    pub(crate) addrs: Vec<String>,
    /// Name of the ring.
    pub(crate) ring: String,
    /// Its id, if the node has one.
    pub(crate) ring_id: Option<String>,
    /// What the node is doing.
    pub(crate) state: &'static str,
    /// Of its program.
    pub(crate) version: String,
    /// What `--join` and `--node` take anywhere.
    pub(crate) ticket: String,
    /// The public key of the client itself, if it has one of its own.
    pub(crate) client_key: Option<HexJson>,
}

/// `leave`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeaveJson {
    /// The node that left.
    pub(crate) id: Id,
    /// Always true.
    pub(crate) left: bool,
    /// From start to end, in milliseconds.
    pub(crate) elapsed_ms: u64,
}

/// `demo`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DemoJson {
    /// Nodes that were started.
    pub(crate) nodes: usize,
    /// Until all of them were in one complete ring, in milliseconds.
    pub(crate) formed_ms: u64,
    /// The file that was stored.
    pub(crate) file: DemoFileJson,
    /// The node that was killed.
    pub(crate) killed: Id,
    /// Until all links and lists were right again, in milliseconds.
    pub(crate) mended_ms: u64,
    /// Measured before the kill.
    pub(crate) hops: Vec<HopRowJson>,
    /// Resident memory of this process by node before the file was stored, in bytes; null where the
    /// system does not tell.
    pub(crate) memory_per_node: Option<u64>,
    /// From start to end, in milliseconds.
    pub(crate) elapsed_ms: u64,
}

/// The file of a demo.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DemoFileJson {
    /// Its bytes.
    pub(crate) size: u64,
    /// BLAKE3, the same at all three places.
    pub(crate) hash: HexJson,
    /// Smallest number of durable copies.
    pub(crate) acks: u32,
    /// Where it was stored.
    pub(crate) stored_at: Id,
    /// Where it was fetched.
    pub(crate) fetched_at: Id,
    /// Where it was fetched after the kill.
    pub(crate) fetched_again_at: Id,
}

/// `run --print-config`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SettingsJson {
    /// All of them.
    pub(crate) settings: Vec<SettingJson>,
}

/// One setting.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SettingJson {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its values: one, or as many as were given.
    pub(crate) values: Vec<String>,
    /// `default`, `file`, `environment` or `flag`.
    pub(crate) source: &'static str,
    /// The file or the variable.
    pub(crate) origin: Option<String>,
}

/// `completions`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CompletionsJson {
    /// For which shell.
    pub(crate) shell: String,
    /// What the shell should read.
    pub(crate) script: String,
}
