//! Walks the ring along the successor lists, to ask every member the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dht_core::message::client::{ClientErrorCode, ClientRequest, ClientResponse};
use dht_core::message::{Answer, Frame};
use dht_core::{Contact, PeerKey};

use super::failure::ClientFailure;
use crate::node::shared::Shared;

/// Every other peer of the ring, in ring order from this one. A list longer than
/// [`MAX_MEMBERS`] is an error: not all would be asked.
pub(super) async fn others(shared: &Arc<Shared>) -> Result<Vec<Contact>, ClientFailure> {
    let snapshot = shared.driver.snapshot().await.ok_or_else(ClientFailure::not_member)?;
    let mut walk = Walk::new(snapshot.me.clone());
    let mut whole = snapshot.sees_whole_ring();
    let mut list = snapshot.successors;
    while !whole {
        let reached = walk.reached();
        walk.extend(&list);
        if walk.is_closed(&list) {
            break;
        }
        if walk.reached() == reached || walk.members.len() > MAX_MEMBERS {
            return Err(broken());
        }
        list = next_list(shared, &list).await.ok_or_else(broken)?;
        whole = list.is_empty();
    }
    walk.extend(&list);
    Ok(walk.peers())
}

/// Asks another member as a client would.
pub(super) async fn ask(
    shared: &Shared,
    member: &Contact,
    request: ClientRequest,
) -> Option<ClientResponse> {
    let asked = shared.endpoint.request(&member.record, Frame::Client(request));
    match tokio::time::timeout(MEMBER_TIMEOUT, asked).await.ok()?.ok()?.answer {
        Answer::Client(response) => Some(response),
        _ => None,
    }
}

/// The list of the farthest of these that answers.
async fn next_list(shared: &Shared, list: &[Contact]) -> Option<Vec<Contact>> {
    for member in list.iter().rev().take(MAX_SILENT) {
        let answer = ask(shared, member, ClientRequest::Neighborhood).await;
        if let Some(ClientResponse::Neighborhood(report)) = answer {
            return Some(report.successors);
        }
    }
    None
}

/// What has been seen of the ring.
struct Walk {
    me: Contact,
    /// By the distance from here.
    members: BTreeMap<dht_core::Id, Contact>,
}

impl Walk {
    fn new(me: Contact) -> Walk {
        Walk { me, members: BTreeMap::new() }
    }

    fn extend(&mut self, list: &[Contact]) {
        for contact in list.iter().filter(|contact| contact.id != self.me.id) {
            self.members.insert(self.me.id.distance_to(contact.id), contact.clone());
        }
    }

    /// Whether a list leads back to where the walk began.
    fn is_closed(&self, list: &[Contact]) -> bool {
        let distances = || list.iter().map(|contact| self.me.id.distance_to(contact.id));
        list.iter().any(|contact| contact.id == self.me.id)
            || distances().zip(distances().skip(1)).any(|(a, b)| b < a)
    }

    fn reached(&self) -> Option<dht_core::Id> {
        self.members.last_key_value().map(|(distance, _)| *distance)
    }

    fn peers(self) -> Vec<Contact> {
        let mut seen: Vec<PeerKey> = vec![self.me.key()];
        let mut peers = Vec::new();
        for contact in self.members.into_values() {
            if !seen.contains(&contact.key()) {
                seen.push(contact.key());
                peers.push(contact);
            }
        }
        peers
    }
}

fn broken() -> ClientFailure {
    ClientFailure::new(
        ClientErrorCode::Unreachable,
        "the ring cannot be walked to its end: it may be mending; try again in a few seconds",
    )
}

/// Members that one walk takes in. 10,000 by default (guess: at 300 bytes each 3 MiB).
const MAX_MEMBERS: usize = 10_000;
/// Silent members of one list before the walk is given up (guess: more than die at once).
const MAX_SILENT: usize = 8;
/// How long one member may take (guess: within the 30 s that a client waits for progress).
const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);
