//! `info`: a manifest, and which peers hold which of its chunks.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use dht_core::config::RingParams;
use dht_core::manifest::{ChunkRef, Content, ContentHash};
use dht_core::message::bulk::MAX_CHUNKS;
use dht_core::message::client::{ClientResponse, InfoReport, ReplicaState};
use dht_core::message::ring::{Request, Response};
use dht_core::message::{Answer, Frame};
use dht_core::register::{FIRST_EPOCH, Key};
use dht_core::{Contact, PeerKey};
use futures_util::stream::{self, StreamExt};

use super::failure::ClientFailure;
use super::manifest;
use super::read::read_chunk;
use super::refs::RefReader;
use super::replicate;
use crate::node::shared::Shared;

/// Answers `info`, with chunks from number `first` on.
pub(super) async fn info(
    shared: &Arc<Shared>,
    key: Key,
    first: u64,
) -> Result<ClientResponse, ClientFailure> {
    let params = super::place(shared).await?;
    let mut file = manifest::read(shared, key.clone()).await?;
    ask_the_rest(shared, &params, &key, &file.report.version, &mut file.replicas).await;
    let content = &file.manifest.content;
    let (refs, chunk_count) = listed(shared, params, content, file.manifest.size, first).await?;
    let mut chunks = holders(shared, &params, refs).await;
    chunks.truncate(fitting(&chunks));
    Ok(ClientResponse::Info(InfoReport {
        created_ms: file.manifest.created_ms,
        file: file.report,
        replicas: file.replicas,
        chunks,
        chunk_count,
    }))
}

/// A read ends with a majority: those that had not answered by then are asked now.
async fn ask_the_rest(
    shared: &Arc<Shared>,
    params: &RingParams,
    key: &Key,
    version: &str,
    replicas: &mut [(Contact, ReplicaState)],
) {
    let part = key.id().part(params.part_bits);
    let silent = replicas.iter_mut().filter(|(_, state)| *state == ReplicaState::Silent);
    let asked = silent.map(|(peer, state)| async move {
        let request = Request::ReadRegister { part, epoch: FIRST_EPOCH, key: key.clone() };
        let response = tokio::time::timeout(REST_TIMEOUT, ask_keeper(shared, peer, request)).await;
        if let Ok(Some(Response::Register { register, .. })) = response {
            *state = match register {
                Some(held) if held.ballot.to_string() == version => ReplicaState::Current,
                Some(_) => ReplicaState::Outdated,
                None => ReplicaState::Missing,
            };
        }
    });
    futures_util::future::join_all(asked).await;
}

/// Asks a keeper, which may be this very node.
async fn ask_keeper(shared: &Shared, peer: &Contact, request: Request) -> Option<Response> {
    if peer.key() == shared.key {
        return Some(shared.driver.ring_request(shared.contact(), request).await);
    }
    let frame = Frame::Ring { from: 0, to: peer.index, request };
    match shared.endpoint.request(&peer.record, frame).await.ok()?.answer {
        Answer::Ring(response) => Some(response),
        _ => None,
    }
}

/// How long `info` waits for one that a read did not wait for (guess: a dead one takes all of it).
const REST_TIMEOUT: Duration = Duration::from_secs(2);

/// One page of the chunks of a file, and how many there are in all.
async fn listed(
    shared: &Arc<Shared>,
    params: RingParams,
    content: &Content,
    size: u64,
    first: u64,
) -> Result<(Vec<ChunkRef>, u64), ClientFailure> {
    let mut skipped = usize::try_from(first).unwrap_or(usize::MAX);
    match content {
        Content::Inline(_) => Ok((Vec::new(), 0)),
        Content::Chunks(refs) => {
            let page = refs.iter().skip(skipped).take(PAGE).copied().collect();
            Ok((page, refs.len() as u64))
        }
        Content::ChunkList(lists) => {
            let mut reader = RefReader::new();
            let mut page: Vec<ChunkRef> = Vec::new();
            let mut len = None;
            for list in lists {
                if page.len() >= PAGE {
                    break;
                }
                let piece = read_chunk(shared.clone(), params, *list).await?;
                let refs = reader.feed(&piece).unwrap_or_default();
                len = len.or(refs.first().map(|chunk| u64::from(chunk.len)));
                let passed = skipped.min(refs.len());
                skipped -= passed;
                page.extend(refs.into_iter().skip(passed));
            }
            page.truncate(PAGE);
            Ok((page, size.div_ceil(len.unwrap_or(1))))
        }
    }
}

/// How many of these fit the answer.
fn fitting(chunks: &[(ChunkRef, Vec<Contact>)]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &(ChunkRef, Vec<Contact>)| {
        bytes += postcard::experimental::serialized_size(entry).unwrap_or(MAX_SHOWN_BYTES);
        bytes <= MAX_SHOWN_BYTES
    };
    chunks.iter().map(fits).take_while(|fits| *fits).count()
}

/// Asks the peers that may hold a chunk whether they do.
async fn holders(
    shared: &Arc<Shared>,
    params: &RingParams,
    refs: Vec<ChunkRef>,
) -> Vec<(ChunkRef, Vec<Contact>)> {
    let placed: Vec<(ChunkRef, Vec<Contact>)> = stream::iter(refs)
        .map(|chunk| async move {
            let placement = replicate::place(shared, params, chunk).await;
            // The replica set and as many spares: where copies are on the move.
            let peers = placement.map(|placement| {
                let near = placement.set * 2;
                placement.peers.into_iter().take(near).collect()
            });
            (chunk, peers.unwrap_or_default())
        })
        .buffered(LOOKUPS_AT_ONCE)
        .collect()
        .await;
    let mut questions: BTreeMap<PeerKey, (Contact, Vec<ContentHash>)> = BTreeMap::new();
    for (chunk, peers) in &placed {
        for peer in peers {
            let question = questions.entry(peer.key());
            question.or_insert_with(|| (peer.clone(), Vec::new())).1.push(chunk.hash);
        }
    }
    let batches: Vec<(Contact, Vec<ContentHash>)> = questions
        .into_values()
        .flat_map(|(peer, hashes)| {
            let batch = |part: &[ContentHash]| (peer.clone(), part.to_vec());
            hashes.chunks(MAX_CHUNKS).map(batch).collect::<Vec<_>>()
        })
        .collect();
    let held: HashSet<(PeerKey, ContentHash)> = stream::iter(batches)
        .map(|(peer, hashes)| async move {
            let flags = shared.chunks.held(&peer, hashes.clone()).await.unwrap_or_default();
            let held = hashes.into_iter().zip(flags).filter(|(_, held)| *held);
            held.map(|(hash, _)| (peer.key(), hash)).collect::<Vec<_>>()
        })
        .buffer_unordered(PEERS_AT_ONCE)
        .flat_map(stream::iter)
        .collect()
        .await;
    let holds = |chunk: &ChunkRef, peer: &Contact| held.contains(&(peer.key(), chunk.hash));
    placed
        .into_iter()
        .map(|(chunk, peers)| {
            let holders = peers.into_iter().filter(|peer| holds(&chunk, peer)).collect();
            (chunk, holders)
        })
        .collect()
}

/// Chunks asked about for one answer (guess: with three or four holders each they just fit).
const PAGE: usize = 256;
/// Bytes of the list of chunks at most: the answer is one frame of 256 KiB, and the manifest's notes
/// must fit beside it (guess).
const MAX_SHOWN_BYTES: usize = 176 * 1024;
/// Lookups at once (guess).
const LOOKUPS_AT_ONCE: usize = 16;
/// Peers asked at once (guess).
const PEERS_AT_ONCE: usize = 16;
