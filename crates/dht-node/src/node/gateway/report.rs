//! What a member says of itself: who it is, its links and load, everything it counts.

use std::sync::Arc;

use dht_core::message::client::{ClientResponse, NeighborhoodReport, NodeState};
use dht_core::node::Snapshot;
use dht_core::stats::{AtRisk, Counters, StatsReport};
use dht_core::{Interval, IntervalSet};

use super::failure::ClientFailure;
use crate::node::estimate;
use crate::node::shared::Shared;

/// Answers `Identify`.
pub(super) fn identity(shared: &Shared) -> ClientResponse {
    ClientResponse::Identity {
        contact: shared.contact(),
        ring: shared.params().map(|params| params.id),
        ring_name: shared.config.ring_name.clone(),
        state: shared.status.borrow().state,
        version: shared.config.version.clone(),
    }
}

/// Answers `Neighborhood`.
pub(super) async fn neighborhood(shared: &Arc<Shared>) -> Result<ClientResponse, ClientFailure> {
    let (snapshot, fingers, map) = match shared.driver.seen().await {
        Some(seen) => (seen.snapshot, seen.fingers, seen.map),
        None => (not_begun(shared), Vec::new(), 0),
    };
    let usage = shared.disk.usage().await.map_err(|_| ClientFailure::disk())?;
    let keys = match snapshot.owned {
        Some(arc) => own_keys(shared, arc).await?,
        None => 0,
    };
    let contact = shared.contact();
    Ok(ClientResponse::Neighborhood(NeighborhoodReport {
        state: snapshot.state,
        predecessor: snapshot.predecessor,
        successors: snapshot.successors,
        predecessors: snapshot.predecessors,
        keys,
        bytes: usage.bytes,
        depth: u16::try_from(shared.list_len()).unwrap_or(u16::MAX),
        routings: shared.config.core.keep.iter().collect(),
        addrs: contact.record.addrs.clone(),
        contact,
        fingers,
        map: u32::try_from(map).unwrap_or(u32::MAX),
        upkeep: shared.upkeep.report(),
        depth_back: u16::try_from(shared.list_len_back()).unwrap_or(u16::MAX),
    }))
}

/// Answers `Stats`: the counters are one snapshot of the state machine.
pub(super) async fn stats(shared: &Arc<Shared>) -> Result<ClientResponse, ClientFailure> {
    let snapshot = shared.driver.snapshot().await.unwrap_or_else(|| not_begun(shared));
    let store = shared.disk.usage().await.map_err(|_| ClientFailure::disk())?;
    let disk = shared.disk.space().await.map_err(|_| ClientFailure::disk())?;
    // Nobody else has what a node without neighbours holds.
    let at_risk = match snapshot.alone {
        true => AtRisk { chunks: store.chunks, ..snapshot.at_risk },
        false => snapshot.at_risk,
    };
    let report = StatsReport {
        contact: shared.contact(),
        ring: shared.params().map(|params| params.id),
        ring_name: shared.config.ring_name.clone(),
        state: snapshot.state,
        uptime_s: shared.started.elapsed().as_secs(),
        version: shared.config.version.clone(),
        estimated_nodes: estimate::nodes(&snapshot),
        predecessor: snapshot.predecessor,
        successors: snapshot.successors,
        routing: shared.config.core.routing,
        depth: shared.config.core.depth,
        counters: snapshot.counters,
        latency: shared.latency.report(),
        store,
        traffic: shared.endpoint.traffic(),
        at_risk,
        corrupt: shared.disk.corrupt(),
        disk,
        upkeep_traffic: shared.upkeep.report(),
        forwarding: shared.config.core.forwarding,
        hop_budget: shared.budget.most(),
        hint: shared.budget.hint(),
    };
    Ok(ClientResponse::Stats(Box::new(report)))
}

/// The state machine as it will be when it begins.
fn not_begun(shared: &Shared) -> Snapshot {
    Snapshot {
        me: shared.contact(),
        state: NodeState::Joining,
        alone: false,
        predecessor: None,
        successors: Vec::new(),
        predecessors: Vec::new(),
        remembered: Vec::new(),
        owned: None,
        open: IntervalSet::new(),
        counters: Counters::default(),
        at_risk: AtRisk::default(),
    }
}

async fn own_keys(shared: &Shared, arc: Interval) -> Result<u64, ClientFailure> {
    shared.disk.run(move |store| store.count_keys(arc)).await.map_err(|_| ClientFailure::disk())
}
