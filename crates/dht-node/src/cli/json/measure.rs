//! Shapes of the commands that look at a ring.

use dht_core::Id;
use serde::Serialize;

use super::PeerJson;
use crate::cli::keys::KeyJson;

/// `lookup`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LookupJson {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyJson,
    /// The key's point.
    pub(crate) id: Id,
    /// How it was routed.
    pub(crate) routing: &'static str,
    /// With how many entries.
    pub(crate) depth: u16,
    /// Who carried it from node to node: `iterative` or `recursive`.
    pub(crate) forwarding: &'static str,
    /// Why its asker went on by itself with what members had handed on; null if it did not.
    pub(crate) gave_up: Option<&'static str>,
    /// Steps from node to node until the owner; the length of `path`.
    pub(crate) hops: u32,
    /// Contacts that failed; the length of `detours`.
    pub(crate) timeouts: u64,
    /// Who asked: hops count from here.
    pub(crate) asker: PeerJson,
    /// Who owns the point.
    pub(crate) owner: PeerJson,
    /// The nodes contacted in order, without the asker.
    pub(crate) path: Vec<StepJson>,
    /// Failed contacts.
    pub(crate) detours: Vec<DetourJson>,
    /// From start to end, in microseconds.
    pub(crate) elapsed_us: u64,
}

/// One node on the path of a lookup.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepJson {
    /// Who.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// Time to open a connection; 0 if there was one; null if others handed it on.
    pub(crate) connect_us: Option<u64>,
    /// Time from question to answer; null if others handed it on.
    pub(crate) rtt_us: Option<u64>,
    /// Whoever named it keeps no state for the routing, and went by its links.
    pub(crate) fell_back: bool,
}

/// A contact that failed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DetourJson {
    /// Who.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// `timed_out`, `unreachable`, `not_member`, `no_progress` or `busy`.
    pub(crate) reason: &'static str,
}

/// `lookup --draw`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DrawnJson {
    /// The lookup.
    #[serde(flatten)]
    pub(crate) lookup: LookupJson,
    /// Whether all members of the ring are among the places.
    pub(crate) complete: bool,
    /// What was drawn, clockwise from the top.
    pub(crate) places: Vec<PlaceJson>,
}

/// One place of a drawing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlaceJson {
    /// Its point.
    pub(crate) id: Id,
    /// Its share of the circle from the top, clockwise.
    pub(crate) at: f64,
    /// `key`, `asker`, `owner`, `step` or `member`: the first of them that it is.
    pub(crate) role: &'static str,
    /// Numbers of the steps that end there.
    pub(crate) steps: Vec<usize>,
}

/// `lookup --compare`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CompareJson {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyJson,
    /// The key's point.
    pub(crate) id: Id,
    /// Who asked.
    pub(crate) asker: PeerJson,
    /// The same lookup under each routing.
    pub(crate) routings: Vec<ComparedJson>,
}

/// One lookup among others.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ComparedJson {
    /// How it was routed.
    pub(crate) routing: &'static str,
    /// With how many entries.
    pub(crate) depth: u16,
    /// Steps from node to node.
    pub(crate) hops: u32,
    /// Contacts that failed.
    pub(crate) timeouts: u64,
    /// Who owns the point; null if nobody was found.
    pub(crate) owner: Option<PeerJson>,
    /// From start to end, in microseconds.
    pub(crate) elapsed_us: u64,
    /// The nodes of the way, the asker first.
    pub(crate) steps: Vec<ChoiceJson>,
    /// Failed contacts.
    pub(crate) detours: Vec<DetourJson>,
}

/// What one node of the way chose from.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChoiceJson {
    /// The node.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// How far the key lies ahead of it, as a share of the circle.
    pub(crate) key_ahead: f64,
    /// Whom the lookup asked next; null at the end.
    pub(crate) chosen: Option<PeerJson>,
    /// What made the choice.
    pub(crate) why: &'static str,
    /// Whether the chosen one is among the entries now; null where nobody was chosen.
    pub(crate) listed: Option<bool>,
    /// What the node says it can choose from.
    pub(crate) entries: Vec<EntryJson>,
}

/// One entry of a list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EntryJson {
    /// `successor`, `predecessor` or `finger`.
    pub(crate) list: &'static str,
    /// Its place there from 0; the exponent of a finger.
    pub(crate) place: usize,
    /// Who.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// How far it lies ahead of the node, as a share of the circle.
    pub(crate) ahead: f64,
    /// Whether it lies before the key, as seen from the node.
    pub(crate) before_key: bool,
    /// It did not answer the asker on the way.
    pub(crate) failed: bool,
    /// It was chosen.
    pub(crate) chosen: bool,
}

/// `hops`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HopsJson {
    /// Members of the ring.
    pub(crate) nodes: usize,
    /// Lookups of every row.
    pub(crate) samples: u64,
    /// Drew askers and keys.
    pub(crate) seed: u64,
    /// Members at the end that were none at the beginning.
    pub(crate) came: usize,
    /// Members at the beginning that did not answer at the end.
    pub(crate) went: usize,
    /// One for each routing and depth.
    pub(crate) routings: Vec<HopRowJson>,
}

/// One routing at one depth.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HopRowJson {
    /// Its name.
    pub(crate) routing: &'static str,
    /// Entries used at each step; null of a full map.
    pub(crate) depth: Option<u16>,
    /// Measured mean.
    pub(crate) mean: Option<f64>,
    /// Standard error of `mean`.
    pub(crate) stderr: Option<f64>,
    /// Measured standard deviation.
    pub(crate) stddev: Option<f64>,
    /// Median.
    pub(crate) p50: Option<u32>,
    /// 90th percentile.
    pub(crate) p90: Option<u32>,
    /// 99th percentile.
    pub(crate) p99: Option<u32>,
    /// Greatest.
    pub(crate) max: Option<u32>,
    /// The formula: a mean over random rings.
    pub(crate) expected: Option<f64>,
    /// The exact mean of this ring, from its member list.
    pub(crate) expected_here: Option<f64>,
    /// `O(N)`, `O(log N)` or `O(1)`.
    pub(crate) growth: &'static str,
    /// Lookups that found nobody.
    pub(crate) failed: u64,
    /// Contacts that failed on the way.
    pub(crate) timeouts: u64,
    /// False if some member keeps no state for it.
    pub(crate) available: bool,
    /// How likely a histogram so far from the exact one is by chance; null if there is nothing to
    /// compare.
    pub(crate) chi_square_p: Option<f64>,
    /// How many lookups took 0, 1, 2, ... hops.
    pub(crate) histogram: Vec<u64>,
    /// Entries that a member holds for it on average; null where that is not known.
    pub(crate) state: Option<f64>,
    /// What a member sends on average to keep them right; null where that is not known.
    pub(crate) upkeep_bytes_per_s: Option<f64>,
}

/// `ring`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RingJson {
    /// Name of the ring.
    pub(crate) ring: String,
    /// Its id, if the first member has one.
    pub(crate) ring_id: Option<String>,
    /// Live peers.
    pub(crate) nodes: usize,
    /// Whether the walk came back to its start.
    pub(crate) complete: bool,
    /// In the order of the walk.
    pub(crate) members: Vec<MemberJson>,
    /// What is wrong with the links.
    pub(crate) problems: Vec<ProblemJson>,
    /// Lookups made for a picture; null without one.
    pub(crate) lookups: Option<Vec<RingLookupJson>>,
}

/// A lookup that was drawn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RingLookupJson {
    /// The point.
    pub(crate) id: Id,
    /// How it was routed.
    pub(crate) routing: &'static str,
    /// With how many entries.
    pub(crate) depth: u16,
    /// Who asked.
    pub(crate) asker: Id,
    /// Who owns the point.
    pub(crate) owner: Id,
    /// Steps from node to node.
    pub(crate) hops: u32,
    /// The nodes contacted in order, without the asker.
    pub(crate) path: Vec<Id>,
}

/// One member of a ring.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemberJson {
    /// Who.
    #[serde(flatten)]
    pub(crate) peer: PeerJson,
    /// What it is doing.
    pub(crate) state: &'static str,
    /// Its share of the circle; null if it has no place, or if the walk does not tell.
    pub(crate) arc: Option<f64>,
    /// Keys on its own arc.
    pub(crate) keys: u64,
    /// Bytes of the chunks it stores.
    pub(crate) bytes: u64,
    /// The node before it, as it says.
    pub(crate) predecessor: Option<Id>,
    /// The nodes after it, as it says.
    pub(crate) successors: Vec<Id>,
}

/// Something that is wrong with a ring.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProblemJson {
    /// What kind.
    pub(crate) kind: &'static str,
    /// Whose links are concerned.
    pub(crate) id: Id,
    /// The same for a person.
    pub(crate) message: String,
}
