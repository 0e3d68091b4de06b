//! Reads one chunk from whoever holds it: the own disk first, then the replicas, then the rest of
//! the owner's list; the next one on failure, or beside the last one when that is slow.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dht_core::Contact;
use dht_core::config::RingParams;
use dht_core::manifest::ChunkRef;
use dht_core::message::client::ClientErrorCode;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use super::failure::ClientFailure;
use super::replicate::place;
use crate::node::chunks::ReadFailure;
use crate::node::shared::Shared;

/// The verified bytes of a chunk.
pub(super) async fn read_chunk(
    shared: Arc<Shared>,
    params: RingParams,
    chunk: ChunkRef,
) -> Result<Bytes, ClientFailure> {
    if let Some(bytes) = shared.disk.chunk(chunk.hash).await {
        return Ok(bytes);
    }
    let mut failure = lost(chunk);
    for pause in PAUSES {
        tokio::time::sleep(pause).await;
        match place(&shared, &params, chunk).await {
            Ok(placement) => {
                let holders = placement.peers.into_iter().filter(|peer| peer.key() != shared.key);
                match race(&shared, chunk, holders.collect()).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(silent) => {
                        failure = if silent { unreachable(chunk) } else { lost(chunk) };
                    }
                }
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Asks the holders in order, at most [`MAX_AT_ONCE`] at a time. On failure: whether one of them
/// was silent, so that the chunk may still be there.
async fn race(shared: &Arc<Shared>, chunk: ChunkRef, holders: Vec<Contact>) -> Result<Bytes, bool> {
    let ask = |holder: Contact| async move {
        let began = Instant::now();
        (began, shared.chunks.read(&holder, chunk).await)
    };
    let mut holders = holders.into_iter();
    let mut asked: FuturesUnordered<_> = holders.next().map(&ask).into_iter().collect();
    let mut silent = false;
    let mut slow = Instant::now() + shared.gateway.pace.patience();
    loop {
        let may_hedge = holders.len() > 0 && asked.len() < MAX_AT_ONCE;
        tokio::select! {
            ended = asked.next() => match ended {
                Some((began, Ok(bytes))) => {
                    shared.gateway.pace.took(began.elapsed());
                    return Ok(bytes);
                }
                Some((_, Err(failure))) => {
                    silent |= failure == ReadFailure::Silent;
                    asked.extend(holders.next().map(&ask));
                }
                None => return Err(silent),
            },
            () = tokio::time::sleep_until(slow), if may_hedge => {
                asked.extend(holders.next().map(&ask));
                slow = Instant::now() + shared.gateway.pace.patience();
            }
        }
    }
}

fn lost(chunk: ChunkRef) -> ClientFailure {
    let name = blake3::Hash::from_bytes(chunk.hash);
    let message = format!(
        "no member has a whole copy of chunk {name}; start the members that are down, or store the \
         file again"
    );
    ClientFailure::new(ClientErrorCode::Incomplete, message)
}

fn unreachable(chunk: ChunkRef) -> ClientFailure {
    let name = blake3::Hash::from_bytes(chunk.hash);
    let message = format!(
        "the members that may hold chunk {name} do not answer; try again when the ring has mended"
    );
    ClientFailure::new(ClientErrorCode::Incomplete, message)
}

/// Pauses before each try: a chunk on its way to a new holder is there a moment later (guess).
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(2)];
/// Holders asked for one chunk at the same time (guess: two slow ones and one more).
const MAX_AT_ONCE: usize = 3;
