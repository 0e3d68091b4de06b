//! `ls`: the keys of the whole ring in order. Every member lists what it holds; the newest version
//! of a key decides, and whoever is deleted is left out.

use std::sync::Arc;

use dht_core::Contact;
use dht_core::message::client::{ClientRequest, ClientResponse, ListedKey, MAX_LISTED};
use dht_core::register::{Key, Register, Value};
use futures_util::stream::{self, StreamExt};

use super::failure::ClientFailure;
use super::manifest;
use super::merge::Merge;
use super::walk;
use crate::node::shared::Shared;

/// Answers `List`.
pub(super) async fn list(
    shared: &Arc<Shared>,
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
    limit: u32,
) -> Result<ClientResponse, ClientFailure> {
    let limit = (limit as usize).clamp(1, MAX_LISTED);
    let params = super::place(shared).await?;
    let members = walk::others(shared).await?;
    // As many may be silent as a register can lose and still be read from a majority.
    let peers = members.len() + 1;
    let spare = (params.register_set_size(peers) - 1) / 2;
    let mut keys: Vec<ListedKey> = Vec::new();
    let mut after = after;
    loop {
        let asked = Page { prefix: prefix.clone(), after: after.clone(), limit: limit as u32 };
        let (mut page, next) = merged(shared, &members, asked, spare).await?;
        let missing = limit - keys.len();
        let surplus = page.len() > missing;
        page.truncate(missing);
        keys.append(&mut page);
        let more = surplus || next.is_some();
        // A page of tombstones only says where to go on.
        match next {
            Some(next) if keys.len() < limit => after = Some(next.as_bytes().to_vec()),
            _ => return Ok(ClientResponse::Listed { keys, more }),
        }
    }
}

/// Answers `ListHere`: what this member holds, tombstones too.
pub(super) async fn list_here(
    shared: &Arc<Shared>,
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
    limit: u32,
) -> Result<ClientResponse, ClientFailure> {
    let (keys, more) = page_here(shared, Page { prefix, after, limit }).await?;
    Ok(ClientResponse::Listed { keys, more })
}

struct Page {
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
    limit: u32,
}

async fn merged(
    shared: &Arc<Shared>,
    members: &[Contact],
    page: Page,
    spare: usize,
) -> Result<(Vec<ListedKey>, Option<Key>), ClientFailure> {
    let mut merge = Merge::new();
    let request = ClientRequest::ListHere {
        prefix: page.prefix.clone(),
        after: page.after.clone(),
        limit: page.limit,
    };
    let limit = page.limit as usize;
    let (keys, more) = page_here(shared, page).await?;
    merge.add(keys, more);
    let asked = stream::iter(members.iter().cloned().map(|member| {
        let (shared, request) = (shared.clone(), request.clone());
        async move { walk::ask(&shared, &member, request).await }
    }));
    let mut asked = asked.buffer_unordered(MEMBERS_AT_ONCE);
    let mut silent = 0;
    while let Some(answer) = asked.next().await {
        match answer {
            Some(ClientResponse::Listed { keys, more }) => merge.add(keys, more),
            _ => silent += 1,
        }
    }
    if silent > spare {
        let (answered, needed) = (members.len() + 1 - silent, members.len() + 1 - spare);
        return Err(ClientFailure::no_quorum(answered, needed));
    }
    Ok(merge.finish(limit))
}

async fn page_here(shared: &Shared, page: Page) -> Result<(Vec<ListedKey>, bool), ClientFailure> {
    let limit = (page.limit as usize).clamp(1, MAX_LISTED);
    let read = shared.disk.run(move |store| {
        let (registers, last) = store.list_names(&page.prefix, page.after.as_deref(), limit)?;
        Ok((registers.into_iter().map(listed).collect::<Vec<_>>(), last))
    });
    let (mut keys, last) = read.await.map_err(|_| ClientFailure::disk())?;
    // Long names must still fit one frame.
    let mut bytes = 0;
    let fitting = keys.iter().take_while(|entry| {
        bytes += entry.key.as_bytes().len() + ENTRY_OVERHEAD;
        bytes <= MAX_PAGE_BYTES
    });
    let fitting = fitting.count();
    let more = !last || fitting < keys.len();
    keys.truncate(fitting);
    Ok((keys, more))
}

fn listed(register: Register) -> ListedKey {
    let manifest = match &register.value {
        Value::Present(form) => manifest::decode(form),
        Value::Deleted => None,
    };
    let size = match &register.value {
        Value::Deleted => None,
        // A manifest of a newer form is there all the same.
        Value::Present(_) => Some(manifest.as_ref().map_or(0, |manifest| manifest.size)),
    };
    ListedKey {
        size,
        ballot: register.ballot,
        modified_ms: manifest.map_or(0, |manifest| manifest.created_ms),
        key: register.key,
    }
}

/// Members asked at once. 16 by default (guess).
const MEMBERS_AT_ONCE: usize = 16;
/// Bytes of the names of one page: with the rest of the entries below the 256 KiB of a frame.
const MAX_PAGE_BYTES: usize = 224 * 1024;
/// Most bytes of an entry beside its name: ballot, size and time in postcard.
const ENTRY_OVERHEAD: usize = 80;
