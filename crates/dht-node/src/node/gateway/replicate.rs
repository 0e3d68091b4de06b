//! Makes one chunk durable on its replica set: to all R at once, done for the client at W, and a
//! spare for whoever fails.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dht_core::config::RingParams;
use dht_core::event::Purpose;
use dht_core::manifest::ChunkRef;
use dht_core::message::client::{ClientErrorCode, LookupFailure};
use dht_core::{Contact, PeerKey};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::failure::ClientFailure;
use super::placement::Placement;
use crate::node::chunks::WriteFailure;
use crate::node::driver::LookupTarget;
use crate::node::shared::Shared;

/// One chunk on its way to its replicas.
pub(super) struct Replication {
    pub(super) shared: Arc<Shared>,
    pub(super) params: RingParams,
    pub(super) chunk: ChunkRef,
    pub(super) bytes: Bytes,
    /// Counts durable copies on distinct peers, also after the client has its answer.
    pub(super) copies: Arc<AtomicU32>,
    /// Given back when the last copy is written or given up: so a slow replica holds up memory, and
    /// then the upload, but never lets memory grow.
    pub(super) _memory: Option<OwnedSemaphorePermit>,
}

/// Told once a chunk is safe: how many copies there could be.
pub(super) type Safe = oneshot::Sender<Result<u32, ClientFailure>>;

impl Replication {
    /// Runs until every copy is written or given up; `safe` is told as soon as enough are durable.
    pub(super) async fn run(self, safe: Safe) {
        let mut state = Progress { holders: Vec::new(), safe: Some(safe) };
        let mut failure = ClientFailure::lookup(LookupFailure::TimedOut);
        for pause in PAUSES {
            tokio::time::sleep(pause).await;
            let placement = match place(&self.shared, &self.params, self.chunk).await {
                Ok(placement) => placement,
                Err(error) => {
                    failure = error;
                    continue;
                }
            };
            match self.spread(placement, &mut state).await {
                Ok(()) => return,
                Err(error) => failure = error,
            }
            if state.safe.as_ref().is_none_or(Safe::is_closed) {
                return;
            }
        }
        if let Some(safe) = state.safe {
            let _ = safe.send(Err(failure));
        }
    }

    /// Writes to one placement's peers.
    async fn spread(
        &self,
        placement: Placement,
        state: &mut Progress,
    ) -> Result<(), ClientFailure> {
        let Placement { peers, set, acks } = placement;
        let mut fresh: VecDeque<Contact> =
            peers.into_iter().filter(|peer| !state.holders.contains(&peer.key())).collect();
        let missing = set.saturating_sub(state.holders.len());
        let mut writes: FuturesUnordered<_> =
            fresh.drain(..missing.min(fresh.len())).map(|peer| self.write(peer)).collect();
        let mut no_space = false;
        let mut slow = Instant::now() + SLOW;
        loop {
            let waiting = state.safe.is_some() && !fresh.is_empty();
            let ended = tokio::select! {
                ended = writes.next() => ended,
                () = tokio::time::sleep_until(slow), if waiting => {
                    writes.extend(fresh.pop_front().map(|peer| self.write(peer)));
                    slow = Instant::now() + SLOW;
                    continue;
                }
            };
            match ended {
                Some((peer, Ok(()))) => {
                    state.holders.push(peer);
                    self.copies.fetch_add(1, Ordering::Relaxed);
                    if state.holders.len() >= acks
                        && let Some(safe) = state.safe.take()
                    {
                        let _ = safe.send(Ok(set as u32));
                    }
                }
                Some((_, Err(failure))) => {
                    no_space |= failure == WriteFailure::NoSpace;
                    writes.extend(fresh.pop_front().map(|peer| self.write(peer)));
                }
                None if state.holders.len() >= acks => return Ok(()),
                None if no_space => return Err(no_space_left()),
                None => return Err(ClientFailure::no_quorum(state.holders.len(), acks)),
            }
        }
    }

    async fn write(&self, peer: Contact) -> (PeerKey, Result<(), WriteFailure>) {
        let written = self.shared.chunks.write(&peer, self.chunk, self.bytes.clone()).await;
        if let Err(failure) = written {
            tracing::debug!(id = %peer.id, ?failure, "a peer did not keep a chunk");
        }
        (peer.key(), written)
    }
}

struct Progress {
    holders: Vec<PeerKey>,
    safe: Option<Safe>,
}

/// Who should hold a chunk.
pub(super) async fn place(
    shared: &Shared,
    params: &RingParams,
    chunk: ChunkRef,
) -> Result<Placement, ClientFailure> {
    let target = LookupTarget {
        id: chunk.id(),
        routing: None,
        depth: None,
        forwarding: None,
        purpose: Purpose::Upkeep,
    };
    let found = shared.driver.lookup(target).await?;
    let failure = found.report.failure.unwrap_or(LookupFailure::Exhausted);
    Placement::of(found, params).ok_or_else(|| ClientFailure::lookup(failure))
}

fn no_space_left() -> ClientFailure {
    ClientFailure::new(
        ClientErrorCode::NoSpace,
        "too few members have room for another chunk; free some space on them, or add members",
    )
}

/// Pauses before each try to place a chunk: the ring may be in motion (guess: together with the
/// time of the lookups more than it takes to replace a dead neighbour).
const PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(3)];
/// When the copies that are needed are not written after so long, one more peer is asked. 2 s by
/// default (guess: a write of 1 MiB with its sync takes tens of milliseconds on a disk).
const SLOW: Duration = Duration::from_secs(2);
