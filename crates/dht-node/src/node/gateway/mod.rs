//! What a member does for clients: it takes their bytes, places the chunks, reads them back, and
//! answers what they ask about the ring. The member is the asker: hops count from it.

mod chunker;
mod failure;
mod get;
mod info;
mod list;
mod lookup;
mod manifest;
mod merge;
mod pace;
mod placement;
mod put;
mod read;
mod refs;
mod remove;
mod replicate;
mod report;
mod walk;

use std::sync::Arc;
use std::time::Duration;

use dht_core::config::RingParams;
use dht_core::message::Answer;
use dht_core::message::client::{ClientErrorCode, ClientRequest, ClientResponse, NodeState};
use dht_net::{BodyReader, Responder};
use tokio::sync::Semaphore;

use failure::ClientFailure;
use pace::Pace;

use super::shared::Shared;

/// What the gateway keeps between requests.
#[derive(Debug)]
pub(super) struct Gateway {
    pace: Pace,
    /// Memory for chunks that clients upload, in KiB.
    uploads: Arc<Semaphore>,
    /// Memory for chunks that clients download, in KiB.
    downloads: Arc<Semaphore>,
}

impl Gateway {
    pub(super) fn new() -> Gateway {
        Gateway {
            pace: Pace::new(),
            uploads: Arc::new(Semaphore::new(TRANSFER_KIB)),
            downloads: Arc::new(Semaphore::new(TRANSFER_KIB)),
        }
    }
}

/// The ring's settings, once the node has its place. Without neighbours it waits a moment: they may
/// have restarted together with it.
async fn place(shared: &Shared) -> Result<RingParams, ClientFailure> {
    let mut status = shared.status.clone();
    let isolated = status.borrow().state == NodeState::Isolated;
    if isolated {
        let back = status.wait_for(|status| status.state != NodeState::Isolated);
        match tokio::time::timeout(ISOLATED_LIMIT, back).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return Err(ClientFailure::isolated()),
        }
    }
    let status = status.borrow();
    match status.state {
        NodeState::Joining => Err(ClientFailure::not_member()),
        _ => status.params.ok_or_else(ClientFailure::not_member),
    }
}

/// Answers one request of a client. When the client goes away what it asked for is dropped.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    request: ClientRequest,
    body: BodyReader,
    responder: Responder,
) {
    let gone = responder.closed();
    tokio::pin!(gone);
    let answering = async {
        let response = match request {
            ClientRequest::Get { key } => return get::get(shared, key, responder).await,
            ClientRequest::Put(request) => match put::put(shared, request, body).await {
                Ok(report) => Ok(ClientResponse::Stored(report)),
                Err(put::PutError::Failed(failure)) => Err(failure),
                // Nobody waits for an answer, and nothing names the chunks that came so far.
                Err(put::PutError::Aborted) => {
                    return responder.reset(ClientErrorCode::Failed as u64);
                }
            },
            request => answer(shared, request).await,
        };
        let response = response.unwrap_or_else(ClientFailure::into_response);
        responder.answer(Answer::Client(response)).await;
    };
    tokio::select! {
        () = answering => {}
        () = &mut gone => return,
    }
    // A stop waits for this task, and so for the answer to arrive.
    let _ = tokio::time::timeout(DELIVERY_LIMIT, gone).await;
}

/// Answers that carry no bulk.
async fn answer(
    shared: &Arc<Shared>,
    request: ClientRequest,
) -> Result<ClientResponse, ClientFailure> {
    match request {
        ClientRequest::Identify => Ok(report::identity(shared)),
        ClientRequest::Info { key, first } => info::info(shared, key, first).await,
        ClientRequest::Remove { key, operation } => remove::remove(shared, key, operation).await,
        ClientRequest::List { prefix, after, limit } => {
            list::list(shared, prefix, after, limit).await
        }
        ClientRequest::ListHere { prefix, after, limit } => {
            list::list_here(shared, prefix, after, limit).await
        }
        ClientRequest::Lookup { id, routing, depth, forwarding } => {
            lookup::lookup(shared, id, routing, depth, forwarding).await
        }
        ClientRequest::Sample { lookups, routing, depth, seed } => {
            lookup::sample(shared, lookups, routing, depth, seed).await
        }
        ClientRequest::Neighborhood => report::neighborhood(shared).await,
        ClientRequest::Stats => report::stats(shared).await,
        ClientRequest::Put(_) | ClientRequest::Get { .. } => {
            unreachable!("requests with bulk are taken before")
        }
    }
}

/// How long an answer may take to be acknowledged before nobody waits for that any more (guess:
/// several round trips).
pub(super) const DELIVERY_LIMIT: Duration = Duration::from_secs(1);
/// How long a request waits for a node that has lost its neighbours (guess: a restart of all).
const ISOLATED_LIMIT: Duration = Duration::from_secs(5);
/// Memory for chunks on their way from clients, and as much for those on their way to them, in KiB.
/// 32 MiB (guess: eight windows of default chunks, or one of the largest).
const TRANSFER_KIB: usize = 32 * 1024;
