//! Finding a member that answers.

use std::time::Duration;

use dht_core::{Contact, Id};
use dht_net::{Endpoint, Peer};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::Current;
use super::config::MAX_NODES;
use super::error::{Attempt, AttemptError, ClientError, Doing};
use super::member::Member;
use super::pace::Pace;
use crate::node::JoinAddr;

/// Connects to the first node that answers, leaving out those whose numbers are `spent`. Each is
/// tried a little after the one before, so that a dead first one costs little.
pub(super) async fn first_to_answer(
    endpoint: &Endpoint,
    pace: Pace,
    nodes: &[JoinAddr],
    spent: &[usize],
) -> Result<Current, ClientError> {
    let left = nodes.iter().enumerate().take(MAX_NODES).filter(|(at, _)| !spent.contains(at));
    let mut tries: FuturesUnordered<_> = left
        .enumerate()
        .map(|(turn, (at, node))| async move {
            tokio::time::sleep(STAGGER * u32::try_from(turn).unwrap_or(u32::MAX)).await;
            let outcome = pace.step(Doing::Connecting, to_node(endpoint, node)).await;
            (at, node, outcome)
        })
        .collect();
    let mut attempts = Vec::new();
    while let Some((node_at, node, outcome)) = tries.next().await {
        let error = match outcome {
            Ok(Ok(peer)) => return Ok(Current { node: node_at, member: Member::new(peer, pace) }),
            Ok(Err(error)) => error,
            Err(ClientError::TimedOut { .. }) => AttemptError::TimedOut,
            Err(other) => return Err(other),
        };
        attempts.push((node_at, Attempt { node: node.clone(), error }));
    }
    attempts.sort_by_key(|(at, _)| *at);
    Err(ClientError::NoNode(attempts.into_iter().map(|(_, attempt)| attempt).collect()))
}

/// Connects to a member by its contact; only its own key will do.
pub(super) async fn to_contact(
    endpoint: &Endpoint,
    pace: Pace,
    contact: &Contact,
) -> Result<Member, ClientError> {
    let dialled = endpoint.dial_any(&contact.record.addrs, Some(contact.key()));
    match pace.step(Doing::Connecting, dialled).await? {
        Ok(peer) => Ok(Member::new(peer, pace)),
        Err(error) => {
            let node = contact.record.addrs.first().copied().map(JoinAddr::from_socket);
            let attempts = node.map(|node| Attempt { node, error: error.into() });
            Err(ClientError::NoNode(attempts.into_iter().collect()))
        }
    }
}

async fn to_node(endpoint: &Endpoint, node: &JoinAddr) -> Result<Peer, AttemptError> {
    let addrs = node.resolve().await.map_err(AttemptError::Resolve)?;
    if addrs.is_empty() {
        return Err(AttemptError::NoAddress);
    }
    let peer = endpoint.dial_any(&addrs, None).await?;
    let presented = Id::of_place(&peer.key, 0);
    match node.id() {
        Some(pinned) if pinned != presented => Err(AttemptError::WrongId { presented }),
        _ => Ok(peer),
    }
}

/// The next node is tried so long after the one before. 200 ms, as dht-net does between the
/// addresses of one peer (RFC 8305, section 5: 100 ms to 2 s).
const STAGGER: Duration = Duration::from_millis(200);
