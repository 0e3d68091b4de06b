//! `ls`: keys in order.

use dht_core::message::client::{ListedKey, MAX_LISTED};

use super::with_client;
use crate::cli::args::{Globals, LsArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{ListJson, ListedJson, moment};
use crate::cli::keys::{KeyJson, parse_prefix, show_key};
use crate::cli::output::{Output, table_text};
use crate::cli::units::show_bytes;
use crate::client::{Client, Page};

pub(super) fn run(globals: &Globals, args: &LsArgs, output: Output) -> Result<Exit, Failure> {
    let usage = |error: crate::cli::keys::KeyTextError| Failure::usage(error.to_string());
    let prefix = parse_prefix(&args.prefix, args.key_hex).map_err(usage)?;
    let after = args.after.as_deref().map(|text| parse_prefix(text, args.key_hex)).transpose();
    let left = args.limit.unwrap_or(u64::MAX);
    let listing = Listing { prefix, after: after.map_err(usage)?, left, ended: false };
    with_client(globals, async |client| {
        if output.is_json() {
            all_as_json(client, listing, output).await?;
        } else {
            page_by_page(client, listing, args.long, output).await?;
        }
        Ok(Exit::Done)
    })
}

/// Where a listing stands.
#[derive(Debug)]
struct Listing {
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
    left: u64,
    /// Nothing follows.
    ended: bool,
}

impl Listing {
    /// The next page; none when there is nothing more, or no more is wanted.
    async fn next(&mut self, client: &Client) -> Result<Option<Vec<ListedKey>>, Failure> {
        while self.left > 0 && !self.ended {
            let limit = u32::try_from(self.left).unwrap_or(u32::MAX).min(MAX_LISTED as u32);
            let page = Page { prefix: self.prefix.clone(), after: self.after.clone(), limit };
            let (mut keys, more) = client.list(&page).await?;
            self.ended = !more;
            let Some(last) = keys.last() else { break };
            // A member that goes back in the order would keep us here for ever.
            if self.after.as_deref().is_some_and(|after| last.key.as_bytes() <= after) {
                break;
            }
            self.after = Some(last.key.as_bytes().to_vec());
            keys.retain(|key| key.size.is_some());
            keys.truncate(limit as usize);
            self.left = self.left.saturating_sub(keys.len() as u64);
            if !keys.is_empty() {
                return Ok(Some(keys));
            }
        }
        Ok(None)
    }
}

async fn all_as_json(client: &Client, mut listing: Listing, output: Output) -> Result<(), Failure> {
    let mut keys = Vec::new();
    while let Some(page) = listing.next(client).await? {
        keys.extend(page.iter().map(|key| ListedJson {
            key: KeyJson::of(key.key.as_bytes()),
            size: key.size.unwrap_or(0),
            version: key.ballot.to_string(),
            modified: moment(key.modified_ms),
        }));
    }
    // A page that is full may be the last one: only asking for one more key tells.
    listing.left = 1;
    let follows = !listing.ended && listing.next(client).await?.is_some();
    let last = keys.last().filter(|_| follows).map(|last| last.key.clone());
    let (next, next_hex) = last.map_or((None, None), |last| (last.key, last.key_hex));
    output.json(&ListJson { keys, next, next_hex })
}

async fn page_by_page(
    client: &Client,
    mut listing: Listing,
    long: bool,
    output: Output,
) -> Result<(), Failure> {
    while let Some(page) = listing.next(client).await? {
        if long {
            let mut table = output.table(&[">size", "modified", "version", "key"]);
            for key in &page {
                table.add_row([
                    show_bytes(key.size.unwrap_or(0)),
                    moment(key.modified_ms).unwrap_or_else(|| "unknown".to_owned()),
                    key.ballot.to_string(),
                    show_key(key.key.as_bytes()),
                ]);
            }
            output.text(&table_text(&table))?;
        } else {
            let lines: String =
                page.iter().map(|key| show_key(key.key.as_bytes()) + "\n").collect();
            output.text(&lines)?;
        }
    }
    Ok(())
}
