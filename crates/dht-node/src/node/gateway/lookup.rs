//! Lookups for clients: one with its path, or many for the statistics.

use std::sync::Arc;

use dht_core::Id;
use dht_core::config::Config;
use dht_core::event::Purpose;
use dht_core::message::Forwarding;
use dht_core::message::client::{ClientResponse, LookupReport, MAX_SAMPLES, SampleReport};
use dht_core::message::ring::Routing;
use dht_core::stats::Histogram;
use futures_util::stream::{self, StreamExt};

use super::failure::ClientFailure;
use crate::node::driver::{Found, LookupTarget};
use crate::node::shared::Shared;

/// Answers `Lookup`: a lookup that found nobody is an answer too, with its path so far.
pub(super) async fn lookup(
    shared: &Arc<Shared>,
    id: Id,
    routing: Option<Routing>,
    depth: Option<u16>,
    forwarding: Option<Forwarding>,
) -> Result<ClientResponse, ClientFailure> {
    check(depth)?;
    let target = LookupTarget { id, routing, depth, forwarding, purpose: Purpose::Client };
    Ok(ClientResponse::Lookup(counted(shared, target).await?.report))
}

/// Answers `Sample`: the hops of lookups of points drawn from a seed.
pub(super) async fn sample(
    shared: &Arc<Shared>,
    lookups: u32,
    routing: Routing,
    depth: u16,
    seed: u64,
) -> Result<ClientResponse, ClientFailure> {
    check(Some(depth))?;
    if lookups > MAX_SAMPLES {
        let message = format!("{lookups} lookups are too many for one request: {MAX_SAMPLES}");
        return Err(ClientFailure::usage(message));
    }
    let targets = (0..lookups).map(|number| LookupTarget {
        id: point(seed, number),
        routing: Some(routing),
        depth: Some(depth),
        forwarding: None,
        purpose: Purpose::Client,
    });
    let mut running =
        stream::iter(targets.map(|target| counted(shared, target))).buffer_unordered(AT_ONCE);
    let mut hops = Histogram::new();
    let (mut failed, mut timeouts) = (0, 0);
    while let Some(found) = running.next().await {
        let report = found?.report;
        timeouts += report.timeouts;
        match report.failure {
            None => hops.record(report.hops),
            Some(_) => failed += 1,
        }
    }
    let histogram = hops.counts().to_vec();
    Ok(ClientResponse::Sampled(SampleReport { histogram, failed, timeouts }))
}

async fn counted(shared: &Shared, target: LookupTarget) -> Result<Found, ClientFailure> {
    let found = shared.driver.lookup(target).await?;
    let report = &found.report;
    if let Some(failure) = report.failure {
        let LookupReport { path, detours, handed, .. } = report;
        tracing::debug!(id = %report.id, ?failure, ?path, ?detours, ?handed, "a lookup found nobody");
    }
    Ok(found)
}

fn check(depth: Option<u16>) -> Result<(), ClientFailure> {
    if depth.is_some_and(|depth| !(1..=Config::MAX_DEPTH).contains(&depth)) {
        let message = format!("the depth must lie between 1 and {}", Config::MAX_DEPTH);
        return Err(ClientFailure::usage(message));
    }
    Ok(())
}

/// Point number `number` of a seed: uniform, and the same on every machine.
fn point(seed: u64, number: u32) -> Id {
    let mut name = [0; 12];
    name[..8].copy_from_slice(&seed.to_le_bytes());
    name[8..].copy_from_slice(&number.to_le_bytes());
    Id::of_key(&name)
}

/// Lookups of one request at once. 8 by default (guess: keeps the connections busy; when every
/// member of a ring is sampled at once, more of them only push each other's round trips towards the
/// time-outs of a loaded machine).
const AT_ONCE: usize = 8;
