//! The shapes of `--json`, as `docs/json.md` tells them. Fields may be added; none is taken away or
//! changes its meaning without a line in the changelog.

mod files;
mod measure;
mod node;
#[cfg(test)]
mod samples;

use dht_core::message::forward::PlaceMark;
use dht_core::{Contact, Id};
use serde::{Serialize, Serializer};

use super::exit::Kind;

pub(crate) use files::{
    ChunkJson, GetJson, InfoJson, ListJson, ListedJson, PutJson, RemoveJson, ReplicaJson,
};
pub(crate) use measure::{
    ChoiceJson, CompareJson, ComparedJson, DetourJson, DrawnJson, EntryJson, HopRowJson, HopsJson,
    LookupJson, MemberJson, PlaceJson, ProblemJson, RingJson, RingLookupJson, StepJson,
};
pub(crate) use node::{
    AdviceJson, AlternativeJson, AtRiskJson, CompletionsJson, DemoFileJson, DemoJson, DiskJson,
    ForwardsJson, HintJson, HopCountsJson, IdJson, LatencyJson, LeaveJson, LookupsJson, PingJson,
    ReadyJson, RepairJson, RoutingCountsJson, SettingJson, SettingsJson, StatsAllJson, StatsJson,
    StatusJson, StoreJson, TrafficJson, UpkeepJson, UpkeepTrafficJson,
};

/// What every command prints when it fails.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ErrorJson {
    /// The failure.
    pub(crate) error: ErrorBody,
}

/// One failure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ErrorBody {
    /// The kind of failure.
    pub(crate) code: &'static str,
    /// The exit code of the process.
    pub(crate) exit: u8,
    /// For a person: what happened and what to do next.
    pub(crate) message: String,
}

impl ErrorJson {
    /// A failure of some kind.
    pub(crate) fn new(kind: Kind, message: &str) -> ErrorJson {
        let (code, exit) = (kind.as_str(), kind.exit() as u8);
        ErrorJson { error: ErrorBody { code, exit, message: message.to_owned() } }
    }
}

/// A node: its place and where it answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct PeerJson {
    /// Its place on the circle.
    pub(crate) id: Id,
    /// Its first address; null if it does not know any yet.
    pub(crate) addr: Option<String>,
}

impl PeerJson {
    /// The same of a place without a record.
    pub(crate) fn of_mark(place: &PlaceMark) -> PeerJson {
        PeerJson { id: place.id, addr: place.addr.map(|addr| addr.to_string()) }
    }

    /// The JSON form of a contact.
    pub(crate) fn of(contact: &Contact) -> PeerJson {
        PeerJson { id: contact.id, addr: first_addr(contact) }
    }
}

/// Where a contact is dialled first.
pub(crate) fn first_addr(contact: &Contact) -> Option<String> {
    contact.record.addrs.first().map(ToString::to_string)
}

/// Bytes as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HexJson(pub(crate) [u8; 32]);

impl Serialize for HexJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&crate::client::hex(&self.0))
    }
}

/// A moment in milliseconds of Unix time as RFC 3339; null where no calendar reaches.
pub(crate) fn moment(unix_ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(unix_ms).ok().map(|moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_readable() {
        assert_eq!(moment(0).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(moment(1_700_000_000_123).as_deref(), Some("2023-11-14T22:13:20.123Z"));
        assert_eq!(moment(i64::MAX), None);
    }

    #[test]
    fn an_error_is_the_object_of_the_contract() {
        let json = serde_json::to_string(&ErrorJson::new(Kind::NotFound, "no")).expect("JSON");
        assert_eq!(json, r#"{"error":{"code":"not_found","exit":3,"message":"no"}}"#);
    }
}
